"""Cases: what an agent may see, and the hidden truth, kept apart in memory and on disk.

A case folder is `case.json` + `public/` (assets, references, data) + `truth/` (`truth.json`, `truth.npz`). Only
evaluators and the trusted renderer of references read `truth`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sceneact_gym.errors import CaseNotFound


@dataclass(frozen=True)
class View:
    """A calibrated camera.

    Attributes:
        name: the camera's name in the scene.
        matrix_world: (4, 4) pose, Blender's convention: it looks along its local -Z, metres.
        fov_x_deg: horizontal field of view in degrees.
    """

    name: str
    matrix_world: NDArray[np.float64]
    fov_x_deg: float

    def as_dict(self) -> dict[str, Any]:
        """As JSON values."""
        return {
            "name": self.name,
            "matrix_world": np.asarray(self.matrix_world, float).tolist(),
            "fov_x_deg": self.fov_x_deg,
        }

    @staticmethod
    def from_dict(data: Mapping[str, Any]) -> View:
        """From `as_dict`."""
        return View(data["name"], np.array(data["matrix_world"], float), float(data["fov_x_deg"]))


@dataclass(frozen=True)
class Public:
    """What reaches the worker and the agent.

    Attributes:
        assets: GLB files by name.
        views: the cameras that the agent is given.
        references: PNG files in order; those of a generated case are rendered when they are looked at.
        data: further values for the prompt, JSON values.
    """

    assets: Mapping[str, bytes] = field(default_factory=dict)
    views: tuple[View, ...] = ()
    references: Sequence[bytes] = ()
    data: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Case:
    """One problem.

    Attributes:
        id: unique within its source; tells nothing about the answer.
        task: the task's name, for example `camera`.
        condition: the variant of the task, for example `single`; empty where there is one only.
        split: `train`, `val`, `test` or empty.
        public: what the agent may know.
        truth: what only evaluators read: JSON values and arrays by name.
    """

    id: str
    task: str
    public: Public
    truth: Mapping[str, Any] = field(repr=False)
    condition: str = ""
    split: str = ""

    def __post_init__(self) -> None:
        """Checks the names that become files.

        Raises:
            ValueError: the id or an asset's name is not letters, digits, dot, dash and underscore.
        """
        for name in (self.id, *self.public.assets):
            if not re.fullmatch(r"\w[\w.-]{0,199}", name, re.ASCII):
                raise ValueError(f"{name!r} cannot name a case or an asset: use letters, digits, '.', '-' and '_'")

    def with_references(self, references: Sequence[bytes]) -> Case:
        """The same case with its reference pictures."""
        return replace(self, public=replace(self.public, references=references))

    def save(self, folder: Path) -> None:
        """Writes the case folder; it must not exist yet."""
        public, truth = folder / "public", folder / "truth"
        (public / "assets").mkdir(parents=True)
        (public / "references").mkdir()
        truth.mkdir()
        for name, data in self.public.assets.items():
            (public / "assets" / name).write_bytes(data)
        for index, data in enumerate(self.public.references):
            (public / "references" / f"{index:04d}.png").write_bytes(data)
        _write_json(
            public / "public.json",
            {"views": [view.as_dict() for view in self.public.views], "data": dict(self.public.data)},
        )
        arrays = {name: value for name, value in self.truth.items() if isinstance(value, np.ndarray)}
        if any(array.dtype.hasobject for array in arrays.values()):
            raise ValueError(f"the case {self.id} has an array of Python objects in its truth; use numbers")
        np.savez_compressed(truth / "truth.npz", **arrays)
        _write_json(
            truth / "truth.json", {name: value for name, value in self.truth.items() if name not in arrays}
        )
        _write_json(
            folder / "case.json",
            {"id": self.id, "task": self.task, "condition": self.condition, "split": self.split},
        )

    @staticmethod
    def load(folder: Path) -> Case:
        """Reads a case folder.

        Raises:
            CaseNotFound: a file is missing or broken; the message names it.
        """
        about = read_about(folder)
        public = _read_json(folder / "public" / "public.json")
        truth: dict[str, Any] = _read_json(folder / "truth" / "truth.json")
        try:
            with np.load(folder / "truth" / "truth.npz", allow_pickle=False) as arrays:
                truth |= {name: arrays[name] for name in arrays.files}
        except (OSError, ValueError) as problem:
            raise CaseNotFound(f"{folder / 'truth' / 'truth.npz'} is missing or broken: {problem}") from problem
        try:
            return Case(
                id=about["id"],
                task=about["task"],
                condition=about["condition"],
                split=about["split"],
                public=Public(
                    assets={path.name: path.read_bytes() for path in _files(folder / "public" / "assets")},
                    views=tuple(View.from_dict(view) for view in public.get("views", ())),
                    references=tuple(path.read_bytes() for path in _files(folder / "public" / "references")),
                    data=public.get("data", {}),
                ),
                truth=truth,
            )
        except (KeyError, TypeError, ValueError) as problem:
            raise CaseNotFound(f"{folder} is no case folder: {problem!r} is wrong or missing in its JSON") from problem


def read_about(folder: Path) -> dict[str, str]:
    """What `case.json` says: `id`, `task`, `condition` and `split`.

    Raises:
        CaseNotFound: the file is missing or broken; the message names it.
    """
    about = {"condition": "", "split": "", **_read_json(folder / "case.json")}
    for name in ("id", "task", "condition", "split"):
        if not isinstance(about.get(name), str):
            raise CaseNotFound(f"{folder / 'case.json'} must have the text {name!r}")
    return about


def _files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.iterdir() if path.is_file()) if folder.is_dir() else []


def _write_json(path: Path, value: Any) -> None:
    path.write_text(json.dumps(value, indent=1, sort_keys=True) + "\n", encoding="utf-8")


def _read_json(path: Path) -> dict[str, Any]:
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except OSError as problem:
        raise CaseNotFound(f"{path} cannot be read: {problem.strerror}") from problem
    except ValueError as problem:
        raise CaseNotFound(f"{path} is not JSON: {problem}") from problem
    if not isinstance(value, dict):
        raise CaseNotFound(f"{path} must hold a JSON object")
    return value
