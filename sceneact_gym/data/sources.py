"""Case sources: where the cases of a task come from."""

from __future__ import annotations

from abc import ABC, abstractmethod
from pathlib import Path

import numpy as np

from sceneact_gym.cases import Case, read_about
from sceneact_gym.data.bundles.manifest import read_manifest, verify
from sceneact_gym.errors import CaseNotFound

SPLITS = ("train", "val", "test")


class CaseSource(ABC):
    """A source of cases for one task and split."""

    @abstractmethod
    def ids(self) -> list[str] | None:
        """All case ids in order; None when they never end."""

    @abstractmethod
    def nth(self, index: int) -> str:
        """The id of the `index`-th case; an endless source has one for every index."""

    @abstractmethod
    def load(self, case_id: str) -> Case:
        """The case, possibly without its reference pictures.

        Raises:
            CaseNotFound: there is no such case.
        """

    def draw(self, rng: np.random.Generator) -> str:
        """A case id by chance."""
        ids = self.ids()
        return self.nth(int(rng.integers(2**31 if ids is None else len(ids))))


class FolderSource(CaseSource):
    """Case folders under one folder, in the order of their names. Its manifest, if there is one, must fit."""

    def __init__(self, folder: Path, task: str, split: str) -> None:
        """Keeps the cases of `task`; `split` filters those that name one.

        Raises:
            CaseNotFound: the folder has none, or two of the same id; or its manifest cannot be read.
        """
        self._folder = folder
        self._manifest = read_manifest(folder)
        self._cases: dict[str, Path] = {}
        for path in sorted(folder.glob("*/case.json")):
            about = read_about(path.parent)
            if about["task"] == task and about["split"] in ("", split):
                if about["id"] in self._cases:
                    raise CaseNotFound(f"{path.parent} and {self._cases[about['id']]} have the same id")
                self._cases[about["id"]] = path.parent
        if not self._cases:
            raise CaseNotFound(f"{folder} has no case folder of the task {task!r} and the split {split!r}")

    def ids(self) -> list[str]:
        """See `CaseSource`."""
        return list(self._cases)

    def nth(self, index: int) -> str:
        """See `CaseSource`."""
        return list(self._cases)[index % len(self._cases)]

    def load(self, case_id: str) -> Case:
        """See `CaseSource`; also when a file is not the one of the manifest, which the message names."""
        if case_id not in self._cases:
            raise CaseNotFound(f"there is no case {case_id!r}; the folder has {', '.join(list(self._cases)[:20])}")
        if self._manifest is not None:
            verify(self._folder, self._cases[case_id], self._manifest)
        return Case.load(self._cases[case_id])


def open_source(source: str, task: str, split: str) -> CaseSource:
    """A source by name.

    Args:
        source: `procedural`, or the path of a folder of case folders.
        task: the task's name.
        split: `train`, `val` or `test`.

    Raises:
        CaseNotFound: no such source or split.
    """
    if split not in SPLITS:
        raise CaseNotFound(f"split must be one of {', '.join(SPLITS)}; it is {split!r}")
    if source == "procedural":
        from sceneact_gym.data.procedural.source import ProceduralSource

        return ProceduralSource(task, split)
    folder = Path(source).expanduser()
    if folder.is_dir():
        return FolderSource(folder, task, split)
    raise CaseNotFound(f"source must be 'procedural' or a folder of cases; {source!r} is neither")
