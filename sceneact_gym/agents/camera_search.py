"""A baseline for Camera without learning: render, compare, improve.

It looks from a coarse set of poses at the furniture, keeps the pictures that are nearest to the reference, and then
draws new poses around the best ones with a shrinking spread. It sees only what every agent sees.
"""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from sceneact_gym.agents.base import BaseAgent, Info
from sceneact_gym.tools import MAX_CALLS

Array = NDArray[np.float64]

SIZE = 32
"""Pixels of the renders that it compares."""
COARSE_STEPS = 12
LOOK_TURNS = (3, 7, 13, 19, 25)
"""Turns in which one of the sixteen pictures shows the best pose so far in full size, for people who read the trace."""
SHELL_SHARE = 0.6
"""An object that spans more than this share of the scene in two directions is taken for floor or wall."""


class CameraSearchAgent(BaseAgent):
    """Coarse poses, then local refinement (an evolution strategy over x, y, z, yaw and pitch)."""

    def reset(self, observation: Any, info: Info) -> None:
        """Keeps the reference, forgets everything else."""
        self.rng = np.random.default_rng([self.seed, 0x5EA2C4])
        self.budget = int(info["budget"])
        self.references = [_features(observation["references"][0], size) for size in (8, 16)]
        self.tried: list[tuple[float, Array]] = []
        self.asked: list[Array] = []
        self.queue: list[Array] = []
        self.turn = 0

    def act(self, observation: Any, info: Info) -> Any:
        """First the scene, then sixteen renders a turn, at last the best pose and `submit`."""
        self.turn += 1
        if self.turn == 1:
            return [{"name": "get_scene_info", "arguments": {}}]
        self._learn(info.get("results", []))
        if self.turn == 2:
            self._coarse(info["results"][0]["text"])
        if self.turn >= self.budget:
            best = self._best()
            return [_set_camera(best), _render(best, None), {"name": "submit", "arguments": {}}]
        if self.turn - 1 <= COARSE_STEPS and self.queue:
            self.asked, self.queue = self.queue[:MAX_CALLS], self.queue[MAX_CALLS:]
        else:
            self.asked = self._refine()
        calls = [_render(pose) for pose in self.asked]
        if self.turn in LOOK_TURNS and self.tried:
            self.asked.pop()
            calls[-1] = _render(self._best(), None)
        return calls

    def _learn(self, results: list[Any]) -> None:
        for pose, result in zip(self.asked, results, strict=False):
            if result["images"]:
                self.tried.append((self._distance(result["images"][0]), pose))
        self.tried.sort(key=lambda row: row[0])
        self.asked = []

    def _distance(self, picture: NDArray[np.uint8]) -> float:
        """Smaller is more alike: blurred pictures have a wide basin, finer ones a sharp bottom.

        Differences of colour alone would prefer a bare wall to the right furniture at a slightly wrong place, so that
        correlation counts as well: a bare wall correlates with nothing.
        """
        total = 0.0
        for reference in self.references:
            seen = _features(picture, len(reference))
            total += float(np.abs(seen - reference).mean()) + (1.0 - _correlation(seen, reference))
        return total

    def _coarse(self, scene_info: str) -> None:
        """Poses over the room, level, that look at its furniture from different sides."""
        low, high, walls = self._furniture(json.loads(scene_info))
        centre, half = (low + high) / 2, np.maximum((high - low) / 2, 1.0)
        count = COARSE_STEPS * MAX_CALLS
        poses = []
        for index in range(count):
            # A golden-angle spiral covers directions and distances evenly with any number of poses.
            angle = index * math.pi * (3 - math.sqrt(5))
            reach = 0.6 + 0.9 * math.sqrt((index + 0.5) / count)
            place = np.array(
                [centre[0] + reach * half[0] * math.cos(angle), centre[1] + reach * half[1] * math.sin(angle), 1.25]
            )
            # Behind a wall there is nothing to see.
            place[:2] = np.clip(place[:2], walls[0, :2] + 0.3, walls[1, :2] - 0.3)
            target = centre + self.rng.uniform(-0.5, 0.5, 3) * half
            yaw = math.atan2(target[1] - place[1], target[0] - place[0])
            poses.append(np.array([*place, yaw, -0.05]))
        self.queue = [poses[index] for index in self.rng.permutation(count)]

    def _furniture(self, scene: dict[str, Any]) -> tuple[Array, Array, Array]:
        """Lower and upper corner of what is not floor or wall, and both corners of all (wide around a bare scene)."""
        boxes = [
            np.array([row["bounding_box"]["min"], row["bounding_box"]["max"]])
            for row in scene["objects"]
            if "bounding_box" in row
        ]
        if not boxes:
            return np.full(3, -2.0), np.full(3, 2.0), np.array([np.full(3, -9.0), np.full(3, 9.0)])
        whole = np.array([np.min(boxes, axis=0)[0], np.max(boxes, axis=0)[1]])
        span = np.maximum(whole[1] - whole[0], 1e-6)
        small = [box for box in boxes if ((box[1] - box[0]) / span > SHELL_SHARE).sum() < 2]
        kept = small or boxes
        walls = whole if len(small) < len(boxes) else whole + [[-5.0] * 3, [5.0] * 3]
        return np.min(kept, axis=0)[0], np.max(kept, axis=0)[1], walls

    def _refine(self) -> list[Array]:
        """New poses around the best distinct ones; the spread shrinks as the budget does."""
        left = (self.budget - self.turn) / max(1, self.budget - COARSE_STEPS - 1)
        spread = np.array([0.5, 0.5, 0.3, 0.22, 0.10]) * max(0.04, left**1.5)
        parents = self._parents(1 + round(9 * left))
        poses = []
        for index in range(MAX_CALLS):
            parent = parents[index % len(parents)]
            step = self.rng.normal(size=5) * spread
            if index % 2:
                # Half of them orbit: the camera turns with its place, so that what is in view stays in view.
                step[3] -= float(np.dot(step[:2], [-math.sin(parent[3]), math.cos(parent[3])])) / 2.5
            poses.append(parent + step)
        return poses

    def _parents(self, count: int) -> list[Array]:
        parents: list[Array] = []
        for _, pose in self.tried:
            if all(np.linalg.norm((pose - other)[:3]) > 0.15 for other in parents):
                parents.append(pose)
            if len(parents) == count:
                break
        return parents or [np.array([0.0, 0.0, 1.25, math.pi / 2, 0.0])]

    def _best(self) -> Array:
        return self.tried[0][1] if self.tried else self._parents(1)[0]


def _features(picture: NDArray[np.uint8], size: int) -> Array:
    """(size, size, 3) colours in [0, 1], averaged over areas."""
    return np.asarray(Image.fromarray(picture).resize((size, size), Image.Resampling.BOX), float) / 255.0


def _correlation(first: Array, second: Array) -> float:
    """Of two pictures' deviations from their mean colours, in [-1, 1]; 0 if one of them is even."""
    a, b = (picture - picture.mean(axis=(0, 1)) for picture in (first, second))
    norm = math.sqrt(float((a * a).sum()) * float((b * b).sum()))
    return float((a * b).sum()) / norm if norm > 1e-6 else 0.0


def _view(pose: Array) -> dict[str, list[float]]:
    x, y, z, yaw, pitch = (float(value) for value in pose)
    flat = math.cos(pitch)
    look_at = [x + flat * math.cos(yaw), y + flat * math.sin(yaw), z + math.sin(pitch)]
    return {"location": [round(v, 5) for v in (x, y, z)], "look_at": [round(v, 5) for v in look_at]}


def _render(pose: Array, size: int | None = SIZE) -> dict[str, Any]:
    arguments: dict[str, Any] = _view(pose)
    return {"name": "render_scene_view", "arguments": arguments if size is None else {**arguments, "size": size}}


def _set_camera(pose: Array) -> dict[str, Any]:
    view = _view(pose)
    code = (
        "from mathutils import Vector\n"
        "camera = bpy.context.scene.camera\n"
        f"camera.location = {view['location']}\n"
        f"direction = Vector({view['look_at']}) - camera.location\n"
        "camera.rotation_euler = direction.to_track_quat('-Z', 'Y').to_euler()"
    )
    return {"name": "execute_blender_code", "arguments": {"code": code}}
