"""A baseline for Articulated without learning: guess how each part may move, draw it, compare with the pictures.

Meshes that touch are one part, the largest part is the body. Every other part may rest, slide, or turn about an edge of
its panel. Each guess is drawn by the agent itself before what the other parts are thought to do, and the guess whose
pictures are nearest to the references wins; then its range and axis are refined. It sees only what every agent sees.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from PIL import Image
from scipy import ndimage

from sceneact_gym.agents.articulated_scene import (
    READ_CODE,
    SLICES,
    Array,
    Layer,
    Points,
    Scene,
    box_of,
    draw,
    groups,
    parse,
    sample,
    slice_code,
)
from sceneact_gym.agents.base import BaseAgent, Info

OPEN = 16
COARSE_SIZE, COARSE_FRAMES = 64, (4, 8, 12, 16)
FINE_SIZE, FINE_FRAMES = 112, (2, 4, 6, 8, 10, 12, 14, 16)
ROUNDS = 3
CUT = 0.25
"""Largest error of a pixel: a wrong shade counts less than a wrong place."""
FINEST_SIZE, FINEST_FRAMES = 224, (8, 12, 16)
HIDDEN = 0.05
"""A part of which less is seen at first moves at most with another one."""
KEPT = 6
"""Axes that are refined."""
UNSURE = 0.08
"""The same for what the body hid at first."""
WORTH = 0.5
"""What a motion must gain over rest, in pixels of full error per frame."""
ANGLES = tuple(range(25, 176, 10))
"""Degrees."""
SHARES = (0.15, 0.25, 0.35, 0.45, 0.55, 0.65, 0.75, 0.85, 0.95)
"""Of the length along which a part may slide."""
NEIGHBOUR = 0.005
"""Metres: something loose that is so near to a moving part may be carried by it."""


class Motion(NamedTuple):
    """How a part moves: a `turn` about `axis` through `origin` by `range` radians, a `slide` along it, or `rest`."""

    kind: Literal["rest", "turn", "slide"] = "rest"
    axis: tuple[float, ...] = (0.0, 0.0, 1.0)
    origin: tuple[float, ...] = (0.0, 0.0, 0.0)
    range: float = 0.0

    def pose(self, opening: float) -> Array:
        """(4, 4) at an opening between 0 and 1."""
        pose = np.eye(4)
        amount, axis = self.range * opening, np.array(self.axis)
        if self.kind == "slide":
            pose[:3, 3] = axis * amount
        elif self.kind == "turn":
            x, y, z = axis
            cross = np.array([[0, -z, y], [z, 0, -x], [-y, x, 0]])
            pose[:3, :3] += math.sin(amount) * cross + (1 - math.cos(amount)) * cross @ cross
            pose[:3, 3] = np.array(self.origin) - pose[:3, :3] @ np.array(self.origin)
        return pose


REST = Motion()


class Stage:
    """The parts of a scene in pictures of one size, with what each of them is thought to do."""

    def __init__(self, scene: Scene, parts: Sequence[list[int]], references: NDArray[np.uint8], size: int) -> None:
        """Draws everything at rest.

        Args:
            scene: the scene.
            parts: numbers of the meshes of each part, the body first.
            references: (32, H, H, 3) the pictures.
            size: pixels of the pictures that are compared.
        """
        self.scene, self.size = scene, size
        body = box_of(scene.meshes, parts[0])
        self.points: list[Points] = [sample(scene, part, body, size) for part in parts]
        self.wanted = {frame: _shrunk(references[frame], size) for frame in (0, *FINE_FRAMES)}
        self.motions = [REST] * len(parts)
        self._layers: dict[tuple[int, Motion, int], Layer] = {}
        # What rests looks as it does in the first picture, wherever it is seen there: shadows and all.
        self.rest = [draw(scene, points, np.eye(4), size) for points in self.points]
        nearest, owner = np.full(size * size, np.inf), np.full(size * size, -1)
        for number, layer in enumerate(self.rest):
            won = layer.depth < nearest[layer.pixels]
            nearest[layer.pixels[won]], owner[layer.pixels[won]] = layer.depth[won], number
        self.seen = [
            np.count_nonzero(owner[layer.pixels] == number) / max(1, len(layer.pixels))
            for number, layer in enumerate(self.rest)
        ]
        for number, layer in enumerate(self.rest):
            own = owner[layer.pixels] == number
            layer.colors[own] = self.wanted[0][layer.pixels[own]]
        self.unsure = self.rest[0].pixels[owner[self.rest[0].pixels] != 0]

    def layer(self, part: int, motion: Motion, frame: int) -> Layer:
        """What a part shows in a frame; drawn once."""
        if motion == REST:
            return self.rest[part]
        key = (part, motion, frame)
        if key not in self._layers:
            self._layers[key] = draw(self.scene, self.points[part], motion.pose(frame / OPEN), self.size)
        return self._layers[key]

    def errors(self, part: int, motions: Sequence[Motion], frames: Iterable[int]) -> Array:
        """Per motion of a part, by how much its pictures are worse than without the part (negative: better)."""
        total = np.zeros(len(motions))
        for frame in frames:
            depth = np.full(self.size**2, np.inf)
            colors = np.ones((self.size**2, 3))
            for other, motion in enumerate(self.motions):
                if other != part:
                    layer = self.layer(other, motion, frame)
                    won = layer.depth < depth[layer.pixels]
                    depth[layer.pixels[won]], colors[layer.pixels[won]] = layer.depth[won], layer.colors[won]
            wanted = self.wanted[frame]
            # What the body hid at first may lie in deep shadow: its colour is no more than a guess.
            cut = np.full(self.size**2, CUT)
            body = self.rest[0].depth[np.searchsorted(self.rest[0].pixels, self.unsure)]
            cut[self.unsure[depth[self.unsure] == body]] = UNSURE
            before = _error(colors, wanted, cut)
            for number, motion in enumerate(motions):
                layer = self.layer(part, motion, frame)
                won = layer.depth < depth[layer.pixels]
                at = layer.pixels[won]
                total[number] += (_error(layer.colors[won], wanted[at], CUT) - before[at]).sum()
        return total


def find_motions(scene: Scene, references: NDArray[np.uint8]) -> list[tuple[list[str], Motion]]:
    """Names of the meshes of each moving part, and its motion."""
    if not scene.meshes:
        return []
    parts = groups(scene.meshes)
    coarse = Stage(scene, parts, references, COARSE_SIZE)
    body = box_of(scene.meshes, parts[0])
    movable = [part for part in range(1, len(parts)) if coarse.seen[part] > HIDDEN]
    ideas = {part: guesses(scene, parts[part], body) for part in movable}
    kept: dict[int, list[Motion]] = {}
    for _ in range(ROUNDS):
        before = list(coarse.motions)
        for part in movable:
            errors = coarse.errors(part, ideas[part], COARSE_FRAMES)
            errors[1:] += WORTH * CUT * len(COARSE_FRAMES)
            order = np.argsort(errors, kind="stable")
            coarse.motions[part] = ideas[part][order[0]]
            kept[part] = _different([ideas[part][number] for number in order if number], KEPT)
        if coarse.motions == before:
            break
    fine = Stage(scene, parts, references, FINE_SIZE)
    fine.motions = list(coarse.motions)
    moving = [part for part in movable if fine.motions[part] != REST]
    for part in moving:
        kept[part] = _best_refined(fine, part, kept[part], (0.08, 0.04), FINE_FRAMES)
        fine.motions[part] = kept[part][0]
    finest = Stage(scene, parts, references, FINEST_SIZE)
    finest.motions = list(fine.motions)
    for part in moving:
        finest.motions[part] = _best_refined(finest, part, kept[part][:2], (0.03, 0.015), FINEST_FRAMES)[0]
    fine.motions = list(finest.motions)
    _carry(scene, parts, fine)
    return [
        ([scene.meshes[number].name for number in part], motion)
        for part, motion in zip(parts, fine.motions, strict=True)
        if motion != REST
    ]


def _best_refined(
    stage: Stage, part: int, motions: Sequence[Motion], steps: Sequence[float], frames: Sequence[int]
) -> list[Motion]:
    """The motions, best first, each with a better range; the range changes in ever smaller steps (shares of it)."""
    refined = []
    for motion in motions:
        for step in steps:
            options = [motion._replace(range=motion.range * (1 + step * k)) for k in (0, -1, 1, -2, 2)]
            motion = options[int(stage.errors(part, options, frames).argmin())]
        refined.append(motion)
    return [refined[number] for number in np.argsort(stage.errors(part, refined, frames), kind="stable")]


def guesses(scene: Scene, part: list[int], body: tuple[Array, Array]) -> list[Motion]:
    """Rest, and every motion that is tried for a part, from the box of its panel: its largest meshes."""
    areas = [scene.meshes[number].area() for number in part]
    low, high = box_of(scene.meshes, [n for n, area in zip(part, areas, strict=True) if area > 0.25 * max(areas)])
    size, reach = high - low, np.maximum(np.subtract(*box_of(scene.meshes, part)[::-1]), body[1] - body[0])
    found = [REST]
    thin = int(np.argmin(size))
    # Outwards: to the front, up, or to the side on which it is.
    side = 1.0 if low[thin] + high[thin] > body[0][thin] + body[1][thin] else -1.0
    out = np.zeros(3)
    out[thin] = {0: side, 1: -1.0, 2: 1.0}[thin]
    plane = [axis for axis in range(3) if axis != thin]
    for across, along in (plane, plane[::-1]):
        for edge in (low, high):
            for face in (low, high):
                origin = np.zeros(3)
                origin[across], origin[thin] = edge[across], face[thin]
                # The turn that moves the panel's middle outwards.
                arm = np.zeros(3)
                arm[across] = (low[across] + high[across]) / 2 - edge[across]
                axis = np.cross(arm, out) / abs(arm[across]) if arm[across] else np.eye(3)[along]
                found += [Motion("turn", _numbers(axis), _numbers(origin), math.radians(a)) for a in ANGLES]
        for sign in (-1.0, 1.0):
            way = np.zeros(3)
            way[across] = sign
            found += [Motion("slide", _numbers(way), range=share * float(size[across])) for share in SHARES]
    return found + [Motion("slide", _numbers(out), range=share * float(reach[thin])) for share in SHARES]


def _carry(scene: Scene, parts: Sequence[list[int]], stage: Stage) -> None:
    """Lets what is loose, rests and nearly touches a moving part move with it, if the pictures do not speak against."""
    boxes = [box_of(scene.meshes, part) for part in parts]
    for part in range(1, len(parts)):
        if stage.motions[part] != REST:
            continue
        gaps = [
            np.maximum(low - boxes[part][1], boxes[part][0] - high).max() if stage.motions[other] != REST else np.inf
            for other, (low, high) in enumerate(boxes)
        ]
        if min(gaps) < NEIGHBOUR:
            options = [REST, stage.motions[int(np.argmin(gaps))]]
            stage.motions[part] = options[int(stage.errors(part, options, FINE_FRAMES).argmin())]


def _different(motions: Sequence[Motion], count: int) -> list[Motion]:
    """The first ones with different axes."""
    found: dict[tuple[Any, ...], Motion] = {}
    for motion in motions:
        found.setdefault((motion.kind, motion.axis, motion.origin), motion)
    return list(found.values())[:count]


def _numbers(vector: Array) -> tuple[float, ...]:
    return tuple(round(float(value), 5) + 0.0 for value in vector)


def _shrunk(picture: NDArray[np.uint8], size: int) -> Array:
    """(size * size, 3) colours in [0, 1]; single noisy pixels of a large enough picture are removed."""
    if len(picture) >= 96:
        picture = ndimage.median_filter(picture, (3, 3, 1))
    how = Image.Resampling.BOX if len(picture) >= size else Image.Resampling.BILINEAR
    return np.asarray(Image.fromarray(picture).resize((size, size), how), float).reshape(-1, 3) / 255.0


def _error(first: Array, second: Array, cut: Array | float) -> Array:
    return np.minimum(np.abs(first - second).mean(axis=1), cut)


class ArticulatedSearchAgent(BaseAgent):
    """Reads the scene, computes all motions, sets their keys, looks at three frames, submits; nothing is by chance."""

    def reset(self, observation: Any, info: Info) -> None:
        """Keeps the references."""
        self.references = np.asarray(observation["references"])
        self.turn = 0

    def act(self, observation: Any, info: Info) -> Any:
        """Three turns."""
        self.turn += 1
        if self.turn == 1:
            return [_code(READ_CODE), *[_code(slice_code(number)) for number in range(SLICES)]]
        if self.turn == 2:
            text = "".join(result["text"].strip() for result in info["results"][1:])
            motions = find_motions(parse(text), self.references)
            code = "\n".join(motion_code(names, motion) for names, motion in motions)
            views = [{"name": "render_scene_view", "arguments": {"frame": frame}} for frame in (1, 9, 17)]
            return [_code(code or "print('nothing moves')"), *views]
        return [{"name": "submit", "arguments": {}}]


def motion_code(names: Sequence[str], motion: Motion) -> str:
    """Code that sets keys of a part on the frames 1 to 32."""
    turn = "Matrix.Translation(origin) @ Matrix.Rotation(amount, 4, axis) @ Matrix.Translation(-origin)"
    return (
        "from mathutils import Matrix, Vector\n"
        f"axis, origin = Vector({list(motion.axis)}), Vector({list(motion.origin)})\n"
        f"for name in {list(names)}:\n"
        "    thing = bpy.data.objects[name]\n"
        "    closed = thing.matrix_world.copy()\n"
        "    thing.rotation_mode = 'QUATERNION'\n"
        "    for frame in range(1, 33):\n"
        f"        amount = {motion.range:.6f} * min(frame - 1, 33 - frame) / 16\n"
        f"        moved = {turn if motion.kind == 'turn' else 'Matrix.Translation(axis * amount)'}\n"
        "        thing.matrix_world = moved @ closed\n"
        "        thing.keyframe_insert('location', frame=frame)\n"
        "        thing.keyframe_insert('rotation_quaternion', frame=frame)"
    )


def _code(code: str) -> dict[str, Any]:
    return {"name": "execute_blender_code", "arguments": {"code": code}}
