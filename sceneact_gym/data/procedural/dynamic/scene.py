"""A generated dynamic scene: its components, what stands, what moves, and the camera that sees it all."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sceneact_gym.data.glb import Node, Part, write_glb
from sceneact_gym.data.procedural.dynamic.themes import THEMES, Draft

Array = NDArray[np.float64]

FOV_X_DEG = 39.6
MARGIN = 0.95
"""Share of the picture that the scene may fill."""
DYNAMIC_SPLITS: dict[str, int | None] = {"train": None, "val": 10, "test": 10}
"""Cases per split; None is endless."""


@dataclass(frozen=True, eq=False)
class Mover:
    """Something that moves.

    Attributes:
        component: its component.
        poses: (144, 4, 4) poses in the world, Z-up metres; frame r is Blender's frame r + 1.
        kind: its kind of motion.
    """

    component: str
    poses: Array
    kind: str


@dataclass(frozen=True, eq=False)
class DynamicScene:
    """A scene.

    Attributes:
        theme: the name of what it shows.
        library: component name -> its parts; some are not used.
        statics: component and (4, 4) pose of what stands; the first one is the ground.
        movers: what moves.
        camera: (4, 4) pose of the camera, which looks along its -Z.
    """

    theme: str
    library: dict[str, list[Part]]
    statics: list[tuple[str, Array]]
    movers: list[Mover]
    camera: Array

    def centre(self, component: str) -> Array:
        """(3,) mean of a component's vertices in its own frame."""
        return np.concatenate([part.vertices for part in self.library[component]]).mean(axis=0)

    def tracks(self) -> Array:
        """(M, 144, 3) places of the movers: the means of their vertices, metres."""
        return np.array([m.poses[:, :3, :3] @ self.centre(m.component) + m.poses[:, :3, 3] for m in self.movers])

    def static_places(self) -> Array:
        """(K, 3) places of what stands, likewise."""
        return np.array([pose[:3, :3] @ self.centre(name) + pose[:3, 3] for name, pose in self.statics])

    def component_glb(self, name: str) -> bytes:
        """One component as GLB, at the origin."""
        return write_glb([Node(name, self.library[name])])

    def scene_glb(self) -> bytes:
        """The whole scene with its motion as GLB: `static_00`, ..., `mover_00`, ..."""
        nodes = [
            Node(f"static_{number:02d}", self.library[name], matrix=pose)
            for number, (name, pose) in enumerate(self.statics)
        ]
        nodes += [
            Node(f"mover_{number:02d}", self.library[mover.component], poses=mover.poses)
            for number, mover in enumerate(self.movers)
        ]
        return write_glb(nodes)


def generate_dynamic(split: str, index: int) -> DynamicScene:
    """The `index`-th scene of a split; the same one every time.

    Args:
        split: `train`, `val` or `test`.
        index: from 0; `train` has one for every index.
    """
    number = list(DYNAMIC_SPLITS).index(split)
    rng = np.random.default_rng([0xD94A31C, number, index])
    theme = THEMES[index % len(THEMES)]
    draft = Draft(rng)
    theme(draft)
    movers = [Mover(*row) for row in draft.movers]
    scene = DynamicScene(theme.__name__, draft.library, draft.statics, movers, np.eye(4))
    camera = _camera(_seen_points(scene), rng)
    return DynamicScene(theme.__name__, draft.library, draft.statics, movers, camera)


def _seen_points(scene: DynamicScene) -> Array:
    """Corners of the boxes of everything but the ground, over all frames, (N, 3)."""
    points = []
    for name, pose in scene.statics[1:]:
        points.append(_corners(scene.library[name]) @ pose[:3, :3].T + pose[:3, 3])
    for mover in scene.movers:
        corners = _corners(scene.library[mover.component])
        for pose in mover.poses[::6]:
            points.append(corners @ pose[:3, :3].T + pose[:3, 3])
    return np.concatenate(points)


def _corners(parts: Sequence[Part]) -> Array:
    vertices = np.concatenate([part.vertices for part in parts])
    low, high = vertices.min(axis=0), vertices.max(axis=0)
    return np.array([[(low, high)[b][axis] for axis, b in enumerate(bits)] for bits in np.ndindex(2, 2, 2)])


def _camera(points: Array, rng: np.random.Generator) -> Array:
    """A pose that looks down from somewhere in front and has all points in its square picture, as large as possible."""
    azimuth, elevation = rng.uniform(-0.45, 0.45), rng.uniform(0.5, 0.72)
    back = np.array([np.sin(azimuth) * np.cos(elevation), -np.cos(azimuth) * np.cos(elevation), np.sin(elevation)])
    right = np.array([np.cos(azimuth), np.sin(azimuth), 0.0])
    turn = np.stack([right, np.cross(back, right), back], axis=1)
    slope = MARGIN * np.tan(np.radians(FOV_X_DEG) / 2)
    x, y, z = (points @ turn).T
    # |x - cx| <= slope * (cz - z) for every point, and the same in y: each direction has its own least distance.
    cx, far_x = _apex(x, z, slope)
    cy, far_y = _apex(y, z, slope)
    pose = np.eye(4)
    pose[:3, :3] = turn
    pose[:3, 3] = turn @ [cx, cy, max(far_x, far_y)]
    return pose


def _apex(across: Array, depth: Array, slope: float) -> tuple[float, float]:
    """Tip of the narrowest wedge, open towards less depth, that holds all points: its place across, and its depth."""
    right, left = float((across + slope * depth).max()), float((slope * depth - across).max())
    return (right - left) / 2, (right + left) / (2 * slope)
