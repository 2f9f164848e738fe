"""A baseline for Layout without learning: read the scene, fit its pieces to the pictures, check with real renders.

Meshes, colours, light and cameras are read once by code that Blender runs, as any agent may do. `LayoutFit` then looks
for poses with a renderer of its own. Each turn shows its newest answer to Blender's renderer, whose pictures decide
which answer is kept; the last turns try small steps with real renders only.
"""

from __future__ import annotations

import base64
import json
import re
import zlib
from collections.abc import Generator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sceneact_gym.agents.base import BaseAgent, Info
from sceneact_gym.agents.layout_fit import LayoutFit
from sceneact_gym.agents.raster import Array, Camera, Light, Piece
from sceneact_gym.blender.render import resize
from sceneact_gym.tools import MAX_CALLS

Calls = list[dict[str, Any]]
Results = list[dict[str, Any]]

VIEWS = 3
"""More pictures than these make it slower, hardly better."""
COARSE, FINE = 64, 128
"""Pixels of the pictures that are compared, while searching and at the end."""
ROUNDS = 10
PATIENCE = 4
"""Rounds without a gain of a hundredth after which it stops."""
REAL_TURNS = 8
SLICE = 9_000
"""Characters of a result's text: what is longer would be cut."""
LARGEST_TEXT = 2_000_000
READ_CODE = '''
import base64, json, math, zlib
import numpy as np

def first(values, node, name):
    socket = node.inputs.get(name)
    return values if socket is None else [float(v) for v in socket.default_value][:3]

def look(material):
    """Base colour and emission of a material, linear RGB."""
    node = None
    if material is not None and material.node_tree is not None:
        node = next((n for n in material.node_tree.nodes if n.type == "BSDF_PRINCIPLED"), None)
    if node is None:
        return [list(material.diffuse_color)[:3] if material else [0.8, 0.8, 0.8], [0.0, 0.0, 0.0]]
    base = first([0.8, 0.8, 0.8], node, "Base Color")
    links = node.inputs["Base Color"].links
    image = getattr(links[0].from_node, "image", None) if links else None
    if image is not None and image.has_data:
        base = np.array(image.pixels[:]).reshape(-1, image.channels)[:, :3].mean(axis=0).tolist()
    strength = node.inputs.get("Emission Strength")
    glow = [v * (strength.default_value if strength else 0.0) for v in first([0.0] * 3, node, "Emission Color")]
    return [base, glow]

def piece(thing):
    """The mesh on a grid of at least 1 cm, coarser for large meshes."""
    mesh = thing.data
    mesh.calc_loop_triangles()
    count = len(mesh.loop_triangles)
    points = np.empty(3 * len(mesh.vertices))
    mesh.vertices.foreach_get("co", points)
    points = points.reshape(-1, 3) @ np.array(thing.matrix_world.to_3x3()).T
    corners, kinds = np.empty(3 * count, np.int32), np.empty(count, np.int32)
    mesh.loop_triangles.foreach_get("vertices", corners)
    mesh.loop_triangles.foreach_get("material_index", kinds)
    step = 0.01
    while True:
        cells, where = np.unique(np.round(points / step).astype(int), axis=0, return_inverse=True)
        rows = np.column_stack([where.reshape(-1)[corners.reshape(-1, 3)], kinds])
        a, b, c = rows[:, 0], rows[:, 1], rows[:, 2]
        rows = rows[(a != b) & (b != c) & (a != c)]
        if len(rows) <= 3000:
            break
        step *= 1.5
    return {"name": thing.name, "step": step, "vertices": cells.T.tolist(), "triangles": rows.T.tolist(),
            "looks": [look(material) for material in mesh.materials] or [look(None)]}

scene = bpy.context.scene
world = {"ambient": [0.0] * 3, "suns": [], "cameras": [], "pieces": []}
for node in (scene.world.node_tree.nodes if scene.world and scene.world.node_tree else []):
    if node.type == "BACKGROUND":
        strength = node.inputs["Strength"].default_value
        world["ambient"] = [v * strength for v in list(node.inputs["Color"].default_value)[:3]]
for thing in sorted(scene.objects, key=lambda thing: thing.name):
    matrix = [list(row) for row in thing.matrix_world]
    if thing.type == "LIGHT" and thing.data.type == "SUN":
        color = [thing.data.energy / math.pi * v for v in thing.data.color]
        world["suns"].append({"towards": [row[2] for row in matrix[:3]], "color": color})
    elif thing.type == "CAMERA":
        world["cameras"].append({"name": thing.name, "matrix": matrix, "tangent": math.tan(thing.data.angle_x / 2)})
    elif thing.type == "MESH" and thing.name.startswith("object_"):
        world["pieces"].append(piece(thing))
text = base64.b64encode(zlib.compress(json.dumps(world).encode(), 9)).decode()
print(len(text), text[START:START + SLICE])
'''
"""Prints a part of the scene as JSON, compressed, in base64; before it the length of the whole."""


@dataclass(frozen=True, eq=False)
class Scene:
    """What the agent knows of the scene that it was given.

    Attributes:
        light: of the scene.
        cameras: by name, in the order of the references.
        pieces: the furniture, in its own frames.
    """

    light: Light
    cameras: dict[str, Camera]
    pieces: list[Piece]


class LayoutSearchAgent(BaseAgent):
    """Reads, fits, checks, submits; see the module. Submits at once when the scene cannot be read."""

    def reset(self, observation: Any, info: Info) -> None:
        """Starts a new game."""
        self.rng = np.random.default_rng([self.seed, 0x1A407])
        self.turns = int(info["budget"])
        self.game = self._play(np.asarray(observation["references"]))
        next(self.game)

    def act(self, observation: Any, info: Info) -> Any:
        """The next turn's calls."""
        self.turns -= 1
        try:
            return self.game.send(info.get("results", []))
        except StopIteration:
            return _submit()

    def _play(self, references: NDArray[np.uint8]) -> Generator[Calls, Results, None]:
        """Takes results and gives calls, turn by turn."""
        yield []  # Up to here `reset` runs it.
        text = yield from self._read()
        try:
            scene = parse_scene(text)
        except (ValueError, KeyError, IndexError, TypeError, zlib.error):
            return
        count = min(len(scene.cameras), len(references))
        if not scene.pieces or not count:
            return
        views = sorted({int(view) for view in np.linspace(0, count, min(count, VIEWS), endpoint=False)})
        shown = [list(scene.cameras)[view] for view in views]
        pictures = [references[view] for view in views]

        def fit(size: int) -> LayoutFit:
            size = min(size, references.shape[1])
            cameras = [scene.cameras[name] for name in shown]
            return LayoutFit(scene.pieces, cameras, scene.light, pictures, size, self.rng)

        coarse, fine = fit(COARSE), fit(FINE)
        coarse.start()
        best, least = list(coarse.poses), np.inf
        idle = 0
        for number in range(ROUNDS):
            before = coarse.error()
            coarse.improve()
            idle = idle + 1 if coarse.error() > 0.99 * before else 0
            last = idle == PATIENCE or number == ROUNDS - 1 or self.turns <= REAL_TURNS + 1
            if last:
                fine.take(coarse.poses)
                fine.polish((0.08, 0.04, 0.02), 12)
            poses = fine.poses if last else coarse.poses
            results = yield [_move(scene, poses), *map(_render, shown)]
            distance = _distance(results[1:], pictures)
            if distance <= least:
                best, least = list(poses), distance
            if last:
                break
        for _ in range(min(REAL_TURNS, self.turns)):
            tries = [self._near(best) for _ in range(MAX_CALLS // (1 + len(shown)))]
            results = yield [call for poses in tries for call in (_move(scene, poses), *map(_render, shown))]
            for number, poses in enumerate(tries):
                begin = number * (1 + len(shown))
                distance = _distance(results[begin + 1 : begin + 1 + len(shown)], pictures)
                if distance < least:
                    best, least = poses, distance
        yield [_move(scene, best), _render(shown[0]), *_submit()]

    def _read(self) -> Generator[Calls, Results, str]:
        """The scene's text, in as many calls as it needs; empty if Blender says something else."""
        results = yield [_read_from(0)]
        length, text = _slice(results[0] if results else {})
        if not 0 < length <= LARGEST_TEXT:
            return ""
        starts = list(range(SLICE, length, SLICE))
        while starts and self.turns >= 1:
            asked, starts = starts[:MAX_CALLS], starts[MAX_CALLS:]
            results = yield [_read_from(start) for start in asked]
            text += "".join(_slice(result)[1] for result in results)
        return text

    def _near(self, poses: Sequence[Array | None]) -> list[Array | None]:
        """The same poses, but for a small step of one piece."""
        moved = list(poses)
        number = int(self.rng.integers(len(moved)))
        step = 0.1 * 2.0 ** -self.rng.uniform(0, 3)
        pose = moved[number]
        if pose is not None:
            moved[number] = pose + self.rng.normal(size=4) * [step, step, 0, 1.5 * step]
        return moved


def parse_scene(text: str) -> Scene:
    """Reads what `READ_CODE` printed.

    Raises:
        ValueError, KeyError, IndexError, TypeError, zlib.error: it is not that.
    """
    unpacker = zlib.decompressobj()
    world = json.loads(unpacker.decompress(base64.b64decode(text, validate=True), 20 * LARGEST_TEXT))
    suns = world["suns"]
    light = Light(
        _numbers(world["ambient"], 3),
        _numbers([sun["towards"] for sun in suns], -1, 3),
        _numbers([sun["color"] for sun in suns], -1, 3),
    )
    cameras = {c["name"]: Camera(_numbers(c["matrix"], 4, 4), float(c["tangent"])) for c in world["cameras"]}
    pieces = []
    for row in world["pieces"]:
        triangles, looks = _numbers(row["triangles"], 4, -1).T.astype(np.int64), _numbers(row["looks"], -1, 2, 3)
        if len(triangles):
            vertices = _numbers(row["vertices"], 3, -1).T * float(row["step"])
            if triangles.min() < 0 or triangles[:, :3].max() >= len(vertices):
                raise ValueError("a triangle has a corner that does not exist")
            look = looks[np.minimum(triangles[:, 3], len(looks) - 1)]
            pieces.append(Piece(str(row["name"]), vertices, triangles[:, :3], look[:, 0], look[:, 1]))
    return Scene(light, cameras, pieces)


def _numbers(values: Any, *shape: int) -> Array:
    array = np.asarray(values, float).reshape(shape)
    if not np.isfinite(array).all():
        raise ValueError("the scene holds numbers that are not finite")
    return array


def _read_from(start: int) -> dict[str, Any]:
    code = f"START, SLICE = {start}, {SLICE}\n{READ_CODE}"
    return {"name": "execute_blender_code", "arguments": {"code": code}}


def _slice(result: dict[str, Any]) -> tuple[int, str]:
    """Length of the whole and the part that a result holds; 0 and nothing for any other result."""
    match = re.fullmatch(r"(\d{1,9}) ([A-Za-z0-9+/=]+)", str(result.get("text", "")).strip())
    return (int(match[1]), match[2]) if match and not result.get("is_error") else (0, "")


def _move(scene: Scene, poses: Sequence[Array | None]) -> dict[str, Any]:
    rows = {
        piece.name: [round(float(value), 5) for value in pose]
        for piece, pose in zip(scene.pieces, poses, strict=True)
        if pose is not None
    }
    code = (
        f"for name, (x, y, z, yaw) in {rows!r}.items():\n"
        "    thing = bpy.data.objects[name]\n"
        "    thing.location = (x, y, z)\n"
        "    thing.rotation_mode = 'XYZ'\n"
        "    thing.rotation_euler = (0, 0, yaw)"
    )
    return {"name": "execute_blender_code", "arguments": {"code": code}}


def _render(camera: str) -> dict[str, Any]:
    return {"name": "render_scene_view", "arguments": {"camera": camera}}


def _submit() -> Calls:
    return [{"name": "submit", "arguments": {}}]


def _distance(results: Results, references: Sequence[NDArray[np.uint8]]) -> float:
    """Mean difference of colours in 0 to 255; infinite if a picture is missing."""
    total = 0.0
    for result, reference in zip(results, references, strict=False):
        if not result.get("images"):
            return float("inf")
        picture = result["images"][0]
        size = min(len(picture), len(reference))
        first, second = resize(picture, size, size), resize(reference, size, size)
        total += float(np.abs(first.astype(float) - second).mean())
    return total / len(references) if len(results) >= len(references) else float("inf")
