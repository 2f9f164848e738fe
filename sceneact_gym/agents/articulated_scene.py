"""What `articulated-search` knows of its scene: meshes read by code, cut into parts, drawn as points.

Parts are found by contact: what is fixed to each other touches, while what moves keeps a small clearance. Pictures are
drawn from points on the surfaces with a depth buffer: without shadows, but in a millisecond.
"""

from __future__ import annotations

import base64
import itertools
import json
import math
import zlib
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse.csgraph import connected_components

Array = NDArray[np.float64]
IntArray = NDArray[np.int64]

SLICE = 10_000
"""Characters that one call prints: less than what a result may hold."""
SLICES = 15
TOUCH = 7e-4
"""Metres: pieces that are nearer than this are fixed to each other. Generated objects leave at least 1 mm before what
moves; meshes of other sources may be less exact, and then everything is one body and nothing is found to move."""
GLOSS = 0.04
GOLDEN = (math.sqrt(5) - 1) / 2
DIM = 0.5
"""How bright, at a guess, the inside of the body is compared with its outside."""
INSIDE = 0.03
"""Metres within the body's box that count as inside."""
MOST_POINTS = 60_000

READ_CODE = f"""\
import base64, json, math, zlib
import numpy as np
scene = bpy.context.scene
camera, world = scene.camera, scene.world
about = {{"camera": [[float(v) for v in row] for row in camera.matrix_world],
         "tangent": math.tan(camera.data.angle_x / 2), "ambient": [0.0] * 3, "suns": [], "meshes": []}}
for node in (world.node_tree.nodes if world and world.node_tree else []):
    if node.type == "BACKGROUND":
        strength = node.inputs["Strength"].default_value
        about["ambient"] = [strength * v for v in list(node.inputs["Color"].default_value)[:3]]
things = sorted((o for o in scene.objects if o.type == "MESH"), key=lambda o: o.name)
for light in scene.objects:
    if light.type == "LIGHT" and light.data.type == "SUN":
        about["suns"].append([[row[2] for row in light.matrix_world][:3],
                              [light.data.energy / math.pi * v for v in light.data.color]])
step = 1e-4
while True:
    rows, blocks = [], []
    for thing in things:
        mesh = thing.data
        mesh.calc_loop_triangles()
        points = np.empty(3 * len(mesh.vertices))
        mesh.vertices.foreach_get("co", points)
        turn = np.array(thing.matrix_world)
        points = points.reshape(-1, 3) @ turn[:3, :3].T + turn[:3, 3]
        corners = np.empty(3 * len(mesh.loop_triangles), np.int32)
        mesh.loop_triangles.foreach_get("vertices", corners)
        cells, where = np.unique(np.round(points / step).astype(np.int32), axis=0, return_inverse=True)
        faces = where.reshape(-1)[corners].reshape(-1, 3)
        a, b, c = faces.T
        faces = faces[(a != b) & (b != c) & (a != c)].astype(np.int32)
        color = [0.8, 0.8, 0.8]
        for material in mesh.materials:
            for node in (material.node_tree.nodes if material and material.node_tree else []):
                if node.type == "BSDF_PRINCIPLED":
                    color = [float(v) for v in node.inputs["Base Color"].default_value][:3]
        rows.append([thing.name, len(cells), len(faces), color])
        blocks += [cells.T.tobytes(), faces.T.tobytes()]
    about.update(step=step, meshes=rows)
    head = json.dumps(about).encode()
    data = base64.b64encode(zlib.compress(len(head).to_bytes(4, "little") + head + b"".join(blocks), 9)).decode()
    if len(data) <= {SLICE * SLICES}:
        break
    step *= 2
bpy.data.texts.new("read").write(data)
print(len(data))"""
"""Keeps all that follows from the scene as text, for `slice_code` to print."""


def slice_code(number: int) -> str:
    """Code that prints a part of what `READ_CODE` kept; the last one removes it."""
    code = f'text = bpy.data.texts["read"]\nprint(text.as_string()[{number * SLICE}:{(number + 1) * SLICE}].strip())'
    return code + ("\nbpy.data.texts.remove(text)" if number == SLICES - 1 else "")


@dataclass(frozen=True, eq=False)
class MeshPiece:
    """A mesh of the scene: `vertices` (V, 3) in the world, metres; `triangles` (T, 3); `color` (3,) linear RGB."""

    name: str
    vertices: Array
    triangles: IntArray
    color: Array

    def area(self) -> float:
        """Of its surface, square metres."""
        a, b, c = (self.vertices[self.triangles[:, corner]] for corner in range(3))
        return float(np.linalg.norm(np.cross(b - a, c - a), axis=1).sum()) / 2


@dataclass(frozen=True, eq=False)
class Scene:
    """The meshes, the camera and the light.

    Attributes:
        meshes: in the order of their names.
        camera: (4, 4) camera to world.
        tangent: of half its field of view.
        ambient: (3,) linear RGB from all sides.
        suns: (L, 3) unit vectors towards the suns.
        shine: (L, 3) what a surface that faces a sun gets, linear RGB.
    """

    meshes: tuple[MeshPiece, ...]
    camera: Array
    tangent: float
    ambient: Array
    suns: Array
    shine: Array

    def project(self, points: Array, size: int) -> tuple[IntArray, Array]:
        """Pixel number (row * size + column, -1 outside the picture) and depth (metres) of (N, 3) world points."""
        local = (points - self.camera[:3, 3]) @ self.camera[:3, :3]
        depth = -local[:, 2]
        scale = size / 2 / self.tangent / np.maximum(depth, 0.05)
        column, row = size / 2 + local[:, 0] * scale, size / 2 - local[:, 1] * scale
        seen = (depth > 0.05) & (np.minimum(row, column) >= 0) & (np.maximum(row, column) < size)
        return np.where(seen, np.floor(row) * size + np.floor(column), -1).astype(np.int64), depth


class Points(NamedTuple):
    """Points on surfaces: `places` (N, 3) metres, `normals` (N, 3), `colors` (N, 3) linear, `light` (N,) in [0, 1]."""

    places: Array
    normals: Array
    colors: Array
    light: Array


class Layer(NamedTuple):
    """What one part shows in one picture: `pixels` (N,) numbers, each once, `depth` (N,) metres, `colors` (N, 3)."""

    pixels: IntArray
    depth: Array
    colors: Array


def parse(text: str) -> Scene:
    """The scene out of the joined slices.

    Raises:
        ValueError: the text is not what `READ_CODE` kept.
    """
    try:
        data = zlib.decompress(base64.b64decode(text))
    except zlib.error as problem:
        raise ValueError(f"the scene cannot be read: {problem}") from problem
    start = 4 + int.from_bytes(data[:4], "little")
    about = json.loads(data[4:start])
    meshes = []
    for name, vertices, triangles, color in about["meshes"]:
        cells = np.frombuffer(data, "<i4", 3 * vertices, start).reshape(3, -1).T * float(about["step"])
        start += 12 * vertices
        faces = np.frombuffer(data, "<i4", 3 * triangles, start).reshape(3, -1).T.astype(np.int64)
        start += 12 * triangles
        if len(faces):
            meshes.append(MeshPiece(name, cells, faces, np.array(color)))
    suns = [(np.array(way) / np.linalg.norm(way), shine) for way, shine in about["suns"]]
    return Scene(
        tuple(meshes),
        np.array(about["camera"]),
        float(about["tangent"]),
        np.array(about["ambient"]),
        np.array([way for way, _ in suns]).reshape(-1, 3),
        np.array([shine for _, shine in suns]).reshape(-1, 3),
    )


def groups(meshes: tuple[MeshPiece, ...]) -> list[list[int]]:
    """Numbers of the meshes that hang together by contact, the group with the largest box (the body) first."""
    boxes = []
    for mesh in meshes:
        corners = mesh.vertices[mesh.triangles]
        boxes.append((corners.min(axis=1), corners.max(axis=1)))
    touching = np.zeros((len(meshes), len(meshes)), bool)
    for i, j in itertools.combinations(range(len(meshes)), 2):
        (low, high), (other_low, other_high) = boxes[i], boxes[j]
        start = np.maximum(low.min(axis=0), other_low.min(axis=0)) - TOUCH
        end = np.minimum(high.max(axis=0), other_high.max(axis=0)) + TOUCH
        mine = ((low <= end) & (high >= start)).all(axis=1)
        other = ((other_low <= end) & (other_high >= start)).all(axis=1)
        # Boxes of single triangles: exact for the upright faces of which most containers consist.
        touching[i, j] = any(
            ((a - TOUCH <= other_high[other]) & (b + TOUCH >= other_low[other])).all(axis=1).any()
            for a, b in zip(low[mine], high[mine], strict=True)
        )
    touching |= touching.T
    count, label = connected_components(touching, directed=False)
    found = [np.flatnonzero(label == number).tolist() for number in range(count)]
    found.sort(key=lambda group: -float(np.prod(np.subtract(*box_of(meshes, group)[::-1]))))
    return _without_holders(touching, found[0]) + found[1:]


def _without_holders(touching: NDArray[np.bool_], body: list[int]) -> list[list[int]]:
    """The body, and apart from it each mesh that alone connects others with it, together with these.

    A drawer may touch the body where it closes: its front is then all that holds tray and handle to it.
    """
    rest, held = set(body), []
    for holder in body:
        others = [number for number in body if number != holder]
        if holder not in rest or not others:
            continue
        count, label = connected_components(touching[np.ix_(others, others)], directed=False)
        main = int(np.bincount(label).argmax())
        group = {holder, *(number for number, of in zip(others, label, strict=True) if of != main)}
        # One mesh that holds one other is more often a vase on a shelf.
        if count > 2 and group <= rest and len(group) < len(body) / 2:
            held.append(sorted(group))
            rest -= group
    return [sorted(rest), *held]


def box_of(meshes: tuple[MeshPiece, ...], group: list[int]) -> tuple[Array, Array]:
    """Lower and upper corner of some meshes."""
    points = np.concatenate([meshes[number].vertices for number in group])
    return points.min(axis=0), points.max(axis=0)


def sample(scene: Scene, group: list[int], body: tuple[Array, Array], size: int) -> Points:
    """Points on a group's surfaces, about four for a pixel of a picture of `size` pixels; dim inside the body's box."""
    corners = np.concatenate([scene.meshes[number].vertices[scene.meshes[number].triangles] for number in group])
    count = [len(scene.meshes[number].triangles) for number in group]
    color = np.repeat([scene.meshes[number].color for number in group], count, axis=0)
    cross = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
    length = np.linalg.norm(cross, axis=1)
    distance = float(np.linalg.norm(scene.camera[:3, 3] - corners.reshape(-1, 3).mean(axis=0)))
    spacing = scene.tangent * distance / size  # half of a pixel
    total = np.cumsum(length / 2)
    number = min(int(total[-1] / spacing**2) + 1, MOST_POINTS)
    at = (np.arange(number) + 0.5) * (total[-1] / number)
    face = np.minimum(np.searchsorted(total, at), len(total) - 1)
    # The place within the triangle's share and the golden ratio make a lattice that covers the triangle evenly.
    v = np.sqrt(np.clip((at - total[face]) / np.maximum(length[face] / 2, 1e-12) + 1, 0, 1))[:, None]
    w = v * (np.arange(number) * GOLDEN % 1.0)[:, None]
    places = corners[face, 0] * (1 - v) + corners[face, 1] * (v - w) + corners[face, 2] * w
    inside = ((places > body[0] + INSIDE) & (places < body[1] - INSIDE)).all(axis=1)
    normals = (cross / np.maximum(length, 1e-12)[:, None])[face]
    return Points(places, normals, color[face], np.where(inside, DIM, 1.0))


def draw(scene: Scene, points: Points, pose: Array, size: int) -> Layer:
    """Points moved by a (4, 4) pose, as the camera sees them; colours are sRGB in [0, 1]."""
    pixel, depth = scene.project(points.places @ pose[:3, :3].T + pose[:3, 3], size)
    order = np.argsort(depth, kind="stable")[::-1]
    order = order[pixel[order] >= 0]
    # Of several writes to one pixel the last one stays: the nearest.
    winner = np.full(size * size, -1)
    winner[pixel[order]] = order
    shown = np.flatnonzero(winner >= 0)
    chosen = winner[shown]
    moved = not np.allclose(pose, np.eye(4))
    light = np.ones(len(chosen)) if moved else points.light[chosen]
    normals = points.normals[chosen] @ pose[:3, :3].T
    shine = scene.ambient + np.maximum(normals @ scene.suns.T, 0) @ scene.shine
    return Layer(shown, depth[chosen], srgb(points.colors[chosen] * shine * light[:, None] + GLOSS * scene.ambient))


def srgb(linear: Array) -> Array:
    """Linear RGB as sRGB, clipped to [0, 1]."""
    value = np.clip(linear, 0.0, 1.0)
    return np.where(value < 0.0031308, 12.92 * value, 1.055 * np.maximum(value, 1e-9) ** (1 / 2.4) - 0.055)
