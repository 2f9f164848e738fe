"""The `procedural` source: cases made from a seed. A case id is `<task>-<split>-<index>`."""

from __future__ import annotations

import re
from collections.abc import Callable

import numpy as np

from sceneact_gym.cases import Case, Public
from sceneact_gym.data.procedural.rooms import ROOM_SPLITS, generate_room, room_scene_glb
from sceneact_gym.data.sources import CaseSource
from sceneact_gym.errors import CaseNotFound

FOV_X_DEG = 39.6


def camera_case(case_id: str, split: str, index: int) -> Case:
    """A furnished room seen by one of its cameras."""
    room = generate_room(split, index)
    # A stream of its own, so that the room does not depend on which camera is chosen, nor the other way round.
    rng = np.random.default_rng([0xCA3E7A, list(ROOM_SPLITS).index(split), index])
    truth = room.cameras[int(rng.integers(len(room.cameras)))]
    return Case(
        id=case_id,
        task="camera",
        split=split,
        public=Public(
            assets={"scene.glb": room_scene_glb(room)},
            data={"fov_x_deg": FOV_X_DEG, "objects": room.node_names},
        ),
        truth={"matrix_world": np.asarray(truth, float), "fov_x_deg": FOV_X_DEG},
    )


BUILDERS: dict[str, tuple[Callable[[str, str, int], Case], dict[str, int | None]]] = {
    "camera": (camera_case, ROOM_SPLITS),
}
"""Per task: what builds a case, and how many cases each split has (None: endless)."""


class ProceduralSource(CaseSource):
    """Generated cases of one task and split."""

    def __init__(self, task: str, split: str) -> None:
        """Keeps task and split.

        Raises:
            CaseNotFound: nothing generates cases for this task.
        """
        if task not in BUILDERS:
            raise CaseNotFound(f"there are no generated cases for the task {task!r}")
        self.task, self.split = task, split
        self._build, splits = BUILDERS[task]
        self.size = splits[split]

    def ids(self) -> list[str] | None:
        """See `CaseSource`."""
        return None if self.size is None else [self.nth(index) for index in range(self.size)]

    def nth(self, index: int) -> str:
        """See `CaseSource`."""
        if self.size is not None:
            index %= self.size
        return f"{self.task}-{self.split}-{index:04d}"

    def load(self, case_id: str) -> Case:
        """See `CaseSource`."""
        match = re.fullmatch(rf"{self.task}-{self.split}-(\d{{4,10}})", case_id)
        if match is None or (self.size is not None and int(match[1]) >= self.size):
            which = f"0000 to {self.size - 1:04d}" if self.size is not None else "any number of 4 digits or more"
            raise CaseNotFound(
                f"there is no case {case_id!r}; ids look like {self.task}-{self.split}-0000, with {which}"
            )
        return self._build(case_id, self.split, int(match[1]))
