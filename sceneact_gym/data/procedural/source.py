"""The `procedural` source: cases made from a seed. A case id is `<task>-<split>-<index>`."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import asdict

import numpy as np

from sceneact_gym.cases import Case, Public, View
from sceneact_gym.data.procedural.articulated import (
    ARTICULATED_SPLITS,
    FRAME_COUNT,
    closed_glb,
    frame_opening,
    generate_articulated,
)
from sceneact_gym.data.procedural.dynamic.scene import DYNAMIC_SPLITS, generate_dynamic
from sceneact_gym.data.procedural.rooms import (
    FOV_X_DEG,
    ROOM_SPLITS,
    Room,
    canonical_glb,
    furniture_glb,
    generate_room,
    room_scene_glb,
    survey_cameras,
)
from sceneact_gym.data.sources import CaseSource
from sceneact_gym.errors import CaseNotFound
from sceneact_gym.evaluators import layout


def _camera_number(room: Room, split: str, index: int) -> int:
    """Which camera is the single view of a case."""
    # A stream of its own, so that the room does not depend on which camera is chosen, nor the other way round.
    rng = np.random.default_rng([0xCA3E7A, list(ROOM_SPLITS).index(split), index])
    return int(rng.integers(len(room.cameras)))


def camera_case(case_id: str, split: str, index: int) -> Case:
    """A furnished room seen by one of its cameras."""
    room = generate_room(split, index)
    truth = room.cameras[_camera_number(room, split, index)]
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


def layout_case(case_id: str, split: str, index: int) -> Case:
    """A room seen by one camera; its pieces alone, at the origin."""
    return _layout("layout", case_id, split, index, views=1)


def layout_multiview_case(case_id: str, split: str, index: int) -> Case:
    """The same room seen by all its cameras."""
    return _layout("layout_multiview", case_id, split, index, views=None)


def _layout(task: str, case_id: str, split: str, index: int, views: int | None) -> Case:
    room = generate_room(split, index)
    world = [thing.world_vertices() for thing in room.objects]
    initial = {thing.name: np.concatenate([part.vertices for part in thing.parts]) for thing in room.objects}
    floor, object_floors = layout.do_nothing(initial, world)
    return Case(
        id=case_id,
        task=task,
        condition="multi" if views is None else "single",
        split=split,
        public=Public(
            assets={f"{thing.name}.glb": canonical_glb(thing) for thing in room.objects},
            views=_views(room)[:views],
            data={"objects": [thing.name for thing in room.objects]},
        ),
        truth={
            "scene.glb": np.frombuffer(furniture_glb(room), np.uint8),
            "floor": floor,
            "object_floors": list(object_floors),
            "poses": [[*thing.location.tolist(), thing.yaw] for thing in room.objects],
        },
    )


def reconstruction_case(case_id: str, split: str, index: int) -> Case:
    """A room's furniture seen by all cameras; nothing is given."""
    room = generate_room(split, index)
    return Case(
        id=case_id,
        task="reconstruction",
        split=split,
        public=Public(views=_views(room), data={}),
        truth={"scene.glb": np.frombuffer(furniture_glb(room), np.uint8)},
    )


def _views(room: Room) -> tuple[View, ...]:
    """Cameras around the furniture; each has all of it in the picture, the first one sees it best."""
    return tuple(View(f"view_{i:02d}", pose, FOV_X_DEG) for i, pose in enumerate(survey_cameras(room)))


def articulated_case(case_id: str, split: str, index: int) -> Case:
    """A closed container; the truth is its motion."""
    thing = generate_articulated(split, index)
    openings = [frame_opening(frame) for frame in range(FRAME_COUNT)]
    return Case(
        id=case_id,
        task="articulated",
        split=split,
        public=Public(
            assets={"object.glb": closed_glb(thing)},
            views=(View("camera", thing.camera, FOV_X_DEG),),
            data={"objects": list(thing.nodes)},
        ),
        truth={
            "frames": thing.frames().astype(np.float32),
            "part_of_vertex": thing.part_of_vertex,
            "poses": np.array([[part.matrix(opening) for part in thing.parts] for opening in openings]),
            "parts": [asdict(part) for part in thing.parts],
        },
    )


def dynamic_case(case_id: str, split: str, index: int) -> Case:
    """A component library, and a scene made of it in which some things move."""
    return _dynamic("dynamic", "lowpoly", case_id, split, index)


def dynamic_photoreal_case(case_id: str, split: str, index: int) -> Case:
    """The same with a video that looks real."""
    return _dynamic("dynamic_photoreal", "photoreal", case_id, split, index)


def _dynamic(task: str, condition: str, case_id: str, split: str, index: int) -> Case:
    scene = generate_dynamic(split, index)
    files = {f"{name}.glb": scene.component_glb(name) for name in sorted(scene.library)}
    return Case(
        id=case_id,
        task=task,
        condition=condition,
        split=split,
        public=Public(
            assets=files,
            views=(View("camera", scene.camera, FOV_X_DEG),),
            data={"components": list(files)},
        ),
        truth={
            "scene.glb": np.frombuffer(scene.scene_glb(), np.uint8),
            "movers": [f"mover_{number:02d}" for number in range(len(scene.movers))],
            "tracks": scene.tracks(),
            "statics": scene.static_places(),
            "placements": [[f"{name}.glb", pose.tolist()] for name, pose in scene.statics],
            "moving": [f"{mover.component}.glb" for mover in scene.movers],
            "poses": np.array([mover.poses for mover in scene.movers]),
        },
    )


BUILDERS: dict[str, tuple[Callable[[str, str, int], Case], dict[str, int | None]]] = {
    "layout": (layout_case, ROOM_SPLITS),
    "layout_multiview": (layout_multiview_case, ROOM_SPLITS),
    "camera": (camera_case, ROOM_SPLITS),
    "articulated": (articulated_case, ARTICULATED_SPLITS),
    "reconstruction": (reconstruction_case, ROOM_SPLITS),
    "dynamic": (dynamic_case, DYNAMIC_SPLITS),
    "dynamic_photoreal": (dynamic_photoreal_case, DYNAMIC_SPLITS),
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
