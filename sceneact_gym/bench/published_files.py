"""The files of runs of the published SceneActBench harness: which cases there are, and what each of them holds.

A case is `runs/<model>/<task_type>/<case id>/` with `score.json`, `steps.json`, `task.json` and what the agent left:
`agent_scene.glb`, `agent_camera.json` or `agent_frames/agent_frame_0000.glb` to 0031. The truth is the case's folder of
the data set, or a truth folder as `score_files` takes them, named by the case id. The truth of Camera has no folder in
the data set: it is `gt_camera` in the case's `task.json`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from sceneact_gym.errors import SceneActError
from sceneact_gym.evaluators import gltf
from sceneact_gym.evaluators.articulated import FRAMES
from sceneact_gym.score_files import TruthError

TASK_TYPES = {
    "task1_single": "layout",
    "task2_multi": "layout_multiview",
    "task3_camera": "camera",
    "task4_anim": "articulated",
    "task5_recon": "reconstruction",
    "task6_anim": "dynamic",
    "task7_anim": "dynamic_photoreal",
}
"""The harness's names of the tasks, and ours."""

SCENE_FOLDERS = ("", "scenes", "benchmark_final/scenes", "benchmark_s2o_final", "benchmark_t6_final")
KNOWN_FILES = ("score.json", "steps.json", "task.json", "agent_scene.glb", "agent_camera.json", "agent_frames")
FRAME_NAMES = [f"agent_frame_{number:04d}.glb" for number in range(FRAMES)]


@dataclass(frozen=True)
class PublishedCase:
    """One case folder of a run: `runs/<model>/<task_type>/<case id>`."""

    folder: Path

    @property
    def model(self) -> str:
        """Which model played it."""
        return self.folder.parent.parent.name

    @property
    def task(self) -> str:
        """Our name of its task."""
        return TASK_TYPES[self.folder.parent.name]

    @property
    def evaluator(self) -> str:
        """The task's name in `score_files`."""
        return {"layout_multiview": "layout", "dynamic_photoreal": "dynamic"}.get(self.task, self.task)

    @property
    def case_id(self) -> str:
        """The harness's id."""
        return self.folder.name

    @property
    def scene(self) -> str:
        """The scene's folder name in the data set, as the case id says it."""
        return re.sub(r"^anim-|^t[67]anim-|__task\d_\w+$", "", self.case_id)


def find_cases(path: Path) -> tuple[list[PublishedCase], list[str]]:
    """The case folders below a folder of runs, of one model, of one task type, or the one case folder.

    Returns:
        The cases in order of model, task type and id, and the folders in between that are none.

    Raises:
        SceneActError: there is no case folder.
    """
    path = path.resolve()
    if path.parent.name in TASK_TYPES and path.is_dir():
        return [PublishedCase(path)], []
    strays: list[str] = []
    if path.name in TASK_TYPES:
        types = [path]
    else:
        below = _folders(path)
        models = [path] if any(folder.name in TASK_TYPES for folder in below) else below
        types = [kind for model in models for kind in _folders(model) if kind.name in TASK_TYPES]
        for model in models:
            inside = _folders(model)
            strays += [f"{model.name}/{kind.name} is no task type" for kind in inside if kind not in types]
            strays += [] if inside else [f"{model.name} has no task type"]
    cases = [PublishedCase(folder) for kind in types for folder in _folders(kind)]
    if not cases:
        raise SceneActError(
            f"{path} is no run folder of this package (it has no config.json), and has no case folders of the "
            f"published harness, <model>/<task type>/<case id>, either; the task types are {', '.join(TASK_TYPES)}"
        )
    return cases, strays


def _folders(path: Path) -> list[Path]:
    return sorted(entry for entry in path.iterdir() if entry.is_dir()) if path.is_dir() else []


def read_json(path: Path, problems: list[str], kind: type) -> Any:
    """What a JSON file holds; None with a line in `problems` where it cannot be used."""
    try:
        if path.stat().st_size > gltf.MAX_JSON_BYTES:
            raise ValueError(f"it is larger than {gltf.MAX_JSON_BYTES} bytes")
        value = json.loads(path.read_text(encoding="utf-8"))
        if not isinstance(value, kind):
            raise ValueError(f"it holds no JSON {'object' if kind is dict else 'list'}")
    except FileNotFoundError:
        problems.append(f"{path.name} is missing")
    except (OSError, ValueError, RecursionError) as problem:
        problems.append(f"{path.name} cannot be used: {str(problem)[:120]}")
    else:
        return value
    return None


def extra_files(folder: Path) -> Iterator[str]:
    """Names in a case folder that the harness does not write."""
    for path in sorted(folder.iterdir()):
        if path.name not in KNOWN_FILES:
            yield path.name
    frames = folder / "agent_frames"
    for path in sorted(frames.iterdir()) if frames.is_dir() else ():
        if path.name not in FRAME_NAMES:
            yield f"agent_frames/{path.name}"


def _submitted(case: PublishedCase) -> list[str]:
    """The files that a case should have, relative to its folder."""
    if case.task == "camera":
        return ["agent_camera.json"]
    frames = (case.folder / "agent_frames").is_dir() or not (case.folder / "agent_scene.glb").is_file()
    if case.task == "articulated" and frames:
        return [f"agent_frames/{name}" for name in FRAME_NAMES]
    return ["agent_scene.glb"]


def missing_files(case: PublishedCase, notes: list[str]) -> Iterator[str]:
    """What is missing to score a case; a line in `notes` where it can be scored without."""
    wanted = _submitted(case)
    missing = [name for name in wanted if not (case.folder / name).is_file()]
    if not missing:
        return
    said = f"{missing[0]} is missing" + (f", and {len(missing) - 1} more" if len(missing) > 1 else "")
    if len(missing) < len(wanted) and (case.folder / "agent_scene.glb").is_file():
        notes.append(f"{said}; the final scene stands in for what is missing, as published")
    else:
        yield said


def damaged_files(case: PublishedCase) -> Iterator[str]:
    """Files that cannot be read at all, which says nothing about the agent: a broken download, for example."""
    # The final scene of Articulated is looked into as well, since it stands in for missing frames.
    for name in dict.fromkeys([*_submitted(case), *(["agent_scene.glb"] if case.task == "articulated" else [])]):
        path = case.folder / name
        if path.suffix == ".json" and path.is_file():
            found: list[str] = []
            read_json(path, found, dict)
            yield from found
        elif path.is_file():
            try:
                gltf.load(path)
            except (gltf.GltfError, OSError) as problem:
                yield f"{name} cannot be read: {problem}"


def truth_folder(case: PublishedCase, truth: Path, about: Mapping[str, Any], scratch: Path, notes: list[str]) -> Path:
    """The folder that `score_submission` takes; that of Camera is made in `scratch`.

    Raises:
        TruthError: there is none.
    """
    own = truth / case.case_id
    if own.is_dir() and (case.task != "camera" or (own / "truth.json").is_file()):
        return own
    if case.task == "camera":
        (scratch / "truth.json").write_text(json.dumps({"matrix_world": _hidden_camera(about)}))
        notes.append("the truth is gt_camera of the run's own task.json")
        return scratch
    names = [case.scene, about.get("scene_id"), Path(str(about.get("scene_dir", ""))).name]
    for name in names:
        if isinstance(name, str) and Path(name).name == name and name not in ("", ".", ".."):
            for part in SCENE_FOLDERS:
                if (truth / part / name).is_dir():
                    return truth / part / name
    raise TruthError(f"neither {case.case_id} nor {case.scene} is in {truth}, in {', '.join(SCENE_FOLDERS[1:])}")


def _hidden_camera(about: Mapping[str, Any]) -> list[list[float]]:
    """The pose in `gt_camera`: a matrix, or a place and a direction (roll is not scored).

    Raises:
        TruthError: there is none.
    """
    given = about.get("gt_camera")
    if isinstance(given, list):
        given = {"matrix_world": given}
    if not isinstance(given, dict):
        raise TruthError("task.json has no gt_camera")

    def end(*endings: str) -> Any:
        return next((value for name, value in given.items() if name.endswith(endings)), [])

    try:
        matrix = np.asarray(end("matrix_world"), np.float64)
        if matrix.shape != (4, 4):
            place, view = (np.asarray(end(*names), np.float64) for names in (("position", "location"), ("look_dir",)))
            matrix = np.eye(4)
            matrix[:3, 2], matrix[:3, 3] = -view / np.linalg.norm(view), place
    except (TypeError, ValueError) as problem:
        raise TruthError(
            "gt_camera of task.json has neither matrix_world (4x4) nor position and look_dir; it has "
            f"{', '.join(map(str, given))[:200]}"
        ) from problem
    if not np.isfinite(matrix).all():
        raise TruthError("gt_camera of task.json is not finite")
    return matrix.tolist()
