"""Containers that open, from a seed: a hollow body with one to six doors, flaps, lids, drawers or sliding doors.

Z up, metres, front towards -Y, standing on z = 0. Every part is split into several meshes with one material each; all
of them are called `node_NNN`, numbered by chance. Closed, every node stands at the origin with its vertices in place,
so that a state of the object is one matrix per node.

The vertex order of all arrays here is the nodes' names in order, and within a node the order of its mesh.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from sceneact_gym.data.glb import Material, Node, Part, merge, write_glb
from sceneact_gym.data.procedural.furniture import Palette, draw_palette, linear
from sceneact_gym.data.procedural.rooms import look_at
from sceneact_gym.data.procedural.shapes import box, cylinder

Array = NDArray[np.float64]
Rng = np.random.Generator
JointType = Literal["rotation", "translation"]

GENERATOR_VERSION = 1
"""Part of every seed: raised whenever the same seed would give another object."""
ARTICULATED_SPLITS: dict[str, int | None] = {"train": None, "val": 20, "test": 20}
"""Objects per split; None is endless."""
FRAME_COUNT = 32
OPEN_FRAME = 16
FOV_X_DEG = 39.6
GAP = 0.003
"""Metres between neighbouring fronts."""


@dataclass(frozen=True, eq=False)
class MovablePart:
    """What moves as one, or the body that does not.

    Attributes:
        id: number within the object, by chance.
        nodes: names of its meshes.
        joint_type: `rotation` or `translation`; None for the body.
        axis: (3,) unit vector: the axis of a positive turn from closed to open, or the direction of opening.
        origin: (3,) a point of the axis.
        range: from closed to open, radians or metres.
    """

    id: int
    nodes: tuple[str, ...]
    joint_type: JointType | None = None
    axis: tuple[float, float, float] = (0.0, 0.0, 1.0)
    origin: tuple[float, float, float] = (0.0, 0.0, 0.0)
    range: float = 0.0

    @property
    def movable(self) -> bool:
        """Whether it moves."""
        return self.joint_type is not None

    def matrix(self, opening: float) -> Array:
        """(4, 4) motion from closed to an opening between 0 and 1."""
        pose = np.eye(4)
        axis, amount = np.array(self.axis), self.range * opening
        if self.joint_type == "translation":
            pose[:3, 3] = axis * amount
        elif self.joint_type == "rotation":
            pose[:3, :3] = _rotation(axis, amount)
            pose[:3, 3] = np.array(self.origin) - pose[:3, :3] @ np.array(self.origin)
        return pose


@dataclass(frozen=True, eq=False)
class ArticulatedObject:
    """A container.

    Attributes:
        kind: a key of `KINDS`.
        nodes: its meshes by name, one material each, closed.
        parts: the body and what moves, by id.
        camera: (4, 4) pose of the fixed camera, from which the whole motion is in view.
    """

    kind: str
    nodes: dict[str, Part]
    parts: tuple[MovablePart, ...]
    camera: Array

    @property
    def movable(self) -> tuple[MovablePart, ...]:
        """The parts that move."""
        return tuple(part for part in self.parts if part.movable)

    @property
    def part_of_vertex(self) -> NDArray[np.int64]:
        """(V,) part id of every vertex."""
        owner = {name: part.id for part in self.parts for name in part.nodes}
        return np.concatenate([np.full(len(mesh.vertices), owner[name]) for name, mesh in self.nodes.items()])

    def vertices(self, opening: float) -> Array:
        """(V, 3) vertices at an opening between 0 and 1."""
        return _vertices(self.nodes, self.parts, opening)

    def frames(self) -> Array:
        """(32, V, 3) vertices: closed, open at frame 16, and back by the same states."""
        return np.stack([self.vertices(frame_opening(frame)) for frame in range(FRAME_COUNT)])


def frame_opening(frame: int) -> float:
    """Opening at a 0-based frame: 0 at frame 0, 1 at frame 16, 1/16 at frame 31, where a loop would begin again."""
    return min(frame, FRAME_COUNT - frame) / OPEN_FRAME


def state(thing: ArticulatedObject, opening: float) -> dict[str, Array]:
    """World matrix (4, 4) per node at an opening between 0 (closed, all identity) and 1."""
    placed = {name: part.matrix(opening) for part in thing.parts for name in part.nodes}
    return {name: placed[name] for name in thing.nodes}


def closed_glb(thing: ArticulatedObject) -> bytes:
    """The closed object: anonymous meshes, no joint data."""
    return write_glb([Node(name, [mesh]) for name, mesh in thing.nodes.items()])


def generate_articulated(split: str, index: int) -> ArticulatedObject:
    """The object with this number; the same for the same arguments and `GENERATOR_VERSION`.

    Args:
        split: `train` (endless), `val` or `test` (20 each).
        index: from 0.

    Raises:
        ValueError: there is no such object.
    """
    if split not in ARTICULATED_SPLITS:
        raise ValueError(f"split must be one of {', '.join(ARTICULATED_SPLITS)}; it is {split!r}")
    size = ARTICULATED_SPLITS[split]
    if index < 0 or (size is not None and index >= size):
        raise ValueError(f"{split} has objects 0 to {'any number' if size is None else size - 1}, not {index}")
    number = list(ARTICULATED_SPLITS).index(split)
    rng = np.random.default_rng(np.random.SeedSequence([0xA27, GENERATOR_VERSION, number, index]))
    # All kinds come once before any comes again, in an order of each round's own.
    turn, place = divmod(index, len(KINDS))
    order = np.random.default_rng([0xA27, GENERATOR_VERSION, number, turn]).permutation(len(KINDS))
    kind = list(KINDS)[int(order[place])]
    builder = _Builder(rng)
    KINDS[kind](builder)
    return builder.finish(kind)


# --- building -------------------------------------------------------------------------------------------------------


@dataclass
class _Mover:
    solids: list[Part]
    joint_type: JointType
    axis: tuple[float, float, float]
    origin: tuple[float, float, float]
    range: float


@dataclass
class _Builder:
    """An object in the making. Fronts lie before the plane y = `front`, the body behind it."""

    rng: Rng
    body: list[Part] = field(default_factory=list)
    movers: list[_Mover] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.p: Palette = draw_palette(self.rng)
        self.steel = Material("steel", linear("b4b9be"), 0.35)
        self.glass = Material("glass", linear("9cc4da"), 0.15)
        self.inside = Material("inside", linear("e8e4da"), 0.9)
        self.cardboard = Material("cardboard", linear("b98d5b"), 0.9)
        colors = ("c8392f", "2f5d8a", "3b7a57", "d9902f", "4b4f58")
        self.paint = Material("paint", linear(colors[int(self.rng.integers(len(colors)))]), 0.45)
        coats = ("f2f2ee", "c2c6ca", "8fb5b0", "d9534a", "f0d9a0")
        self.enamel = Material("enamel", linear(coats[int(self.rng.integers(len(coats)))]), 0.35)
        self.handle_length = self.draw(0.1, 0.2)

    def draw(self, low: float, high: float) -> float:
        return float(self.rng.uniform(low, high))

    def pick(self, *values: int) -> int:
        return values[int(self.rng.integers(len(values)))]

    def chance(self, probability: float) -> bool:
        return bool(self.rng.random() < probability)

    def add(self, *solids: Part) -> None:
        self.body += solids

    def shell(
        self,
        low: Sequence[float],
        high: Sequence[float],
        outer: Material,
        inner: Material | None = None,
        thick: float = 0.02,
        top: bool = True,
    ) -> None:
        """A hollow box open to the front: sides, bottom, top and back; the back shows the inside's colour."""
        (x0, y0, z0), (x1, y1, z1) = low, high
        roof = z1 - thick if top else z1
        self.add(
            slab((x0, y0, z0), (x0 + thick, y1, z1), outer),
            slab((x1 - thick, y0, z0), (x1, y1, z1), outer),
            slab((x0 + thick, y0, z0), (x1 - thick, y1, z0 + thick), outer),
            slab((x0 + thick, y1 - thick, z0 + thick), (x1 - thick, y1, roof), inner or self.inside),
        )
        if top:
            self.add(slab((x0 + thick, y0, z1 - thick), (x1 - thick, y1, z1), outer))

    def shelves(self, x0: float, x1: float, y0: float, y1: float, heights: Sequence[float], material: Material) -> None:
        for z in heights:
            self.add(slab((x0, y0 + 0.03, z - 0.009), (x1, y1, z + 0.009), material, 0.003))

    def bar(self, x: float, y: float, z: float, material: Material, upright: bool, length: float = 0.0) -> list[Part]:
        """A bar handle on two posts before a front whose outside is at y."""
        half = (length or self.handle_length) / 2
        size = (0.007, half) if upright else (half, 0.007)
        grip = slab((x - size[0], y - 0.035, z - size[1]), (x + size[0], y - 0.021, z + size[1]), material, 0.005)
        posts = []
        for side in (-1, 1):
            dx, dz = (0.0, side * (half - 0.015)) if upright else (side * (half - 0.015), 0.0)
            posts.append(
                slab((x + dx - 0.005, y - 0.024, z + dz - 0.005), (x + dx + 0.005, y, z + dz + 0.005), material, 0.002)
            )
        return [grip, *posts]

    def door(
        self,
        rect: tuple[float, float, float, float],
        front: float,
        hinge: str,
        material: Material,
        handle: Material | None = None,
        *,
        thick: float = 0.02,
        degrees: float = 90.0,
        window: Material | None = None,
        extra: Sequence[Part] = (),
        handle_length: float = 0.0,
    ) -> None:
        """A hinged front (x0, x1, z0, z1); the hinge is `left`, `right`, `top` or `bottom` as seen from the front."""
        x0, x1, z0, z1 = rect[0] + GAP, rect[1] - GAP, rect[2] + GAP, rect[3] - GAP
        back, out = front - 0.001, front - 0.001 - thick
        solids = framed(x0, x1, z0, z1, out, back, material, window)
        inset = min(0.05, 0.2 * (x1 - x0), 0.2 * (z1 - z0))
        if window is not None:
            inset = min(0.03, inset)
        x, z = (x0 + x1) / 2, (z0 + z1) / 2
        upright = hinge in ("left", "right")
        if upright:
            x = x1 - inset if hinge == "left" else x0 + inset
        else:
            z = z0 + inset if hinge == "top" else z1 - inset
        if handle is not None:
            longest = 0.6 * ((z1 - z0) if upright else (x1 - x0))
            solids += self.bar(x, out, z, handle, upright, min(handle_length or self.handle_length, longest))
        axis, origin = {
            "left": ((0.0, 0.0, -1.0), (x0, out, 0.0)),
            "right": ((0.0, 0.0, 1.0), (x1, out, 0.0)),
            "bottom": ((1.0, 0.0, 0.0), (0.0, out, z0)),
            "top": ((-1.0, 0.0, 0.0), (0.0, out, z1)),
        }[hinge]
        self.movers.append(_Mover([*solids, *extra], "rotation", axis, origin, math.radians(degrees)))

    def drawer(
        self,
        rect: tuple[float, float, float, float],
        front: float,
        depth: float,
        material: Material,
        handle: Material | None = None,
        *,
        travel: float = 0.7,
        knob: bool = False,
    ) -> None:
        """A drawer whose front fills (x0, x1, z0, z1); the body's cavity behind it is `depth` deep."""
        x0, x1, z0, z1 = rect[0] + GAP, rect[1] - GAP, rect[2] + GAP, rect[3] - GAP
        back, out = front - 0.001, front - 0.021
        deep, low, high, t = front + depth - 0.03, z0 + 0.025, z1 - 0.3 * (z1 - z0) - 0.01, 0.01
        a, b = x0 + 0.028, x1 - 0.028
        solids = [
            slab((x0, out, z0), (x1, back, z1), material),
            slab((a, back, low), (b, deep, low + t), self.inside, 0.003),
            slab((a, back, low + t), (a + t, deep, high), self.inside, 0.003),
            slab((b - t, back, low + t), (b, deep, high), self.inside, 0.003),
            slab((a + t, deep - t, low + t), (b - t, deep, high), self.inside, 0.003),
        ]
        x, z = (x0 + x1) / 2, (z0 + z1) / 2
        if knob:
            solids.append(facing_front(cylinder(0.016, 0.03, (0, 0, 0), handle or material, segments=12), x, out, z))
        elif handle is not None:
            solids += self.bar(x, out, z, handle, False, min(self.handle_length, 0.6 * (x1 - x0)))
        self.movers.append(_Mover(solids, "translation", (0.0, -1.0, 0.0), (x, out, z), travel * depth))

    def slide(self, solids: list[Part], axis: tuple[float, float, float], distance: float) -> None:
        self.movers.append(_Mover(solids, "translation", axis, (0.0, 0.0, 0.0), distance))

    def finish(self, kind: str) -> ArticulatedObject:
        """Splits all parts into meshes, numbers parts and meshes by chance, and finds a place for the camera."""
        groups = [self.body, *(mover.solids for mover in self.movers)]
        ids = [int(number) for number in self.rng.permutation(len(groups))]
        meshes = [(owner, mesh) for owner, solids in zip(ids, groups, strict=True) for mesh in self._split(solids)]
        numbers = [int(number) for number in self.rng.permutation(len(meshes))]
        # Names of surfaces would tell what the object is.
        surfaces = dict.fromkeys(mesh.material for _, mesh in meshes)
        plain = {
            material: replace(material, name=f"material_{int(number):02d}")
            for material, number in zip(surfaces, self.rng.permutation(len(surfaces)), strict=True)
        }
        names = [f"node_{number:03d}" for number in numbers]
        nodes = {
            name: Part(mesh.vertices.astype(np.float32).astype(float), mesh.faces, plain[mesh.material])
            for name, (_, mesh) in sorted(zip(names, meshes, strict=True), key=lambda row: row[0])
        }
        owned = {
            owner: tuple(sorted(name for name, (of, _) in zip(names, meshes, strict=True) if of == owner))
            for owner in ids
        }
        parts = [MovablePart(ids[0], owned[ids[0]])]
        for owner, mover in zip(ids[1:], self.movers, strict=True):
            parts.append(MovablePart(owner, owned[owner], mover.joint_type, mover.axis, mover.origin, mover.range))
        parts.sort(key=lambda part: part.id)
        views = [_vertices(nodes, parts, opening) for opening in (0.0, 0.25, 0.5, 0.75, 1.0)]
        return ArticulatedObject(kind, nodes, tuple(parts), self._camera(np.concatenate(views)))

    def _split(self, solids: list[Part]) -> list[Part]:
        """Meshes of one material: those with many solids in two or three pieces."""
        groups: dict[Material, list[Part]] = {}
        for solid in solids:
            groups.setdefault(solid.material, []).append(solid)
        meshes = []
        for material, members in groups.items():
            pieces = min(len(members), 1 + len(members) // 4, 3)
            order = [members[int(number)] for number in self.rng.permutation(len(members))]
            meshes += [merge(order[piece::pieces], material) for piece in range(pieces)]
        return meshes

    def _camera(self, points: Array) -> Array:
        """Before the object, a little to one side and above, just far enough to see everything that ever happens."""
        size = points.max(axis=0) - points.min(axis=0)
        # From the free edge's side of most doors, so that they do not hide what they open.
        turns = sum(mover.axis[2] for mover in self.movers if mover.joint_type == "rotation")
        side = -math.copysign(1.0, turns) if turns else float(self.pick(-1, 1))
        azimuth = side * math.radians(self.draw(18, 38))
        # Low things are looked into from above.
        elevation = math.radians(self.draw(14, 22) + (14 if size[2] < 0.8 else 0) + (6 if size[2] < 0.4 else 0))
        out = np.array(
            [math.sin(azimuth) * math.cos(elevation), -math.cos(azimuth) * math.cos(elevation), math.sin(elevation)]
        )
        target = (points.max(axis=0) + points.min(axis=0)) / 2
        reach = 0.9 * math.tan(math.radians(FOV_X_DEG / 2))
        pose = look_at(target + out, target)
        local = (points - target) @ pose[:3, :3]
        distance = float((np.abs(local[:, :2]).max(axis=1) / reach + local[:, 2]).max())
        return look_at(target + out * distance, target)


def _vertices(nodes: dict[str, Part], parts: Sequence[MovablePart], opening: float) -> Array:
    placed = {name: part.matrix(opening) for part in parts for name in part.nodes}
    return np.concatenate(
        [mesh.vertices @ placed[name][:3, :3].T + placed[name][:3, 3] for name, mesh in nodes.items()]
    )


def slab(low: Sequence[float], high: Sequence[float], material: Material, rounding: float = 0.004) -> Part:
    """A box between two corners."""
    (x0, y0, z0), (x1, y1, z1) = low, high
    return box((x1 - x0, y1 - y0, z1 - z0), ((x0 + x1) / 2, (y0 + y1) / 2, z0), material, rounding)


def framed(
    x0: float, x1: float, z0: float, z1: float, out: float, back: float, material: Material, pane: Material | None
) -> list[Part]:
    """An upright panel between y = `out` and y = `back`; with a pane, a frame around it."""
    if pane is None:
        return [slab((x0, out, z0), (x1, back, z1), material)]
    w = min(0.07, 0.22 * min(x1 - x0, z1 - z0))
    inner = (back - out) * 0.3
    return [
        slab((x0, out, z0), (x0 + w, back, z1), material),
        slab((x1 - w, out, z0), (x1, back, z1), material),
        slab((x0 + w, out, z0), (x1 - w, back, z0 + w), material),
        slab((x0 + w, out, z1 - w), (x1 - w, back, z1), material),
        slab((x0 + w, out + inner, z0 + w), (x1 - w, back - inner, z1 - w), pane, 0.001),
    ]


def facing_front(part: Part, x: float, y: float, z: float) -> Part:
    """A solid that stood on z = 0, laid down so that its bottom lies on the plane y and its top points to -Y."""
    px, py, pz = part.vertices.T
    return Part(np.stack([px + x, y - pz, py + z], axis=1), part.faces, part.material)


def ring(inner: float, outer: float, height: float, material: Material, segments: int = 24) -> Part:
    """A flat ring around Z with a rectangular section, standing on z = 0."""
    angles = np.arange(segments) * 2 * np.pi / segments
    corners = [(outer, 0.0), (outer, height), (inner, height), (inner, 0.0)]
    vertices = np.concatenate(
        [np.stack([r * np.cos(angles), r * np.sin(angles), np.full(segments, z)], axis=1) for r, z in corners]
    )
    around = np.arange(segments)
    after = (around + 1) % segments
    faces = []
    for corner in range(4):
        low, high = corner * segments, (corner + 1) % 4 * segments
        faces.append(np.stack([low + around, low + after, high + after], axis=1))
        faces.append(np.stack([low + around, high + after, high + around], axis=1))
    return Part(vertices, np.concatenate(faces), material)


def _rotation(axis: Array, angle: float) -> Array:
    """(3, 3) turn about a unit axis (Rodrigues)."""
    x, y, z = axis
    cross = np.array([[0, -z, y], [z, 0, -x], [-y, x, 0]])
    return np.eye(3) + math.sin(angle) * cross + (1 - math.cos(angle)) * cross @ cross


# --- the kinds ------------------------------------------------------------------------------------------------------


def _feet(b: _Builder, w: float, d: float, height: float, material: Material, thick: float = 0.05) -> None:
    for sx in (-1, 1):
        for sy in (-1, 1):
            x, y = sx * (w / 2 - thick), sy * (d / 2 - thick)
            b.add(box((thick, thick, height), (x, y, 0), material))


def _jars(b: _Builder, x0: float, x1: float, y: float, z: float) -> None:
    """A few pots on a shelf: something to see behind the doors."""
    for material in (b.p.accent, b.p.fabric_two):
        radius = b.draw(0.03, 0.05)
        if x1 - x0 > 3 * radius:
            height = b.draw(0.07, 0.13)
            b.add(cylinder(radius, height, (b.draw(x0 + radius, x1 - radius), y, z), material, segments=12))
            x0 += (x1 - x0) / 2


def cabinet(b: _Builder) -> None:
    """A kitchen base unit: one or two doors under a row of drawers and a worktop."""
    columns = b.pick(1, 2, 2)
    w, d, h = columns * b.draw(0.42, 0.55), b.draw(0.5, 0.6), b.draw(0.82, 0.92)
    x, front, back, t = w / 2, -d / 2, d / 2, 0.02
    b.add(slab((-x + 0.02, front + 0.06, 0), (x - 0.02, back, 0.1), b.p.dark))
    b.shell((-x, front, 0.1), (x, back, h - 0.035), b.p.lacquer)
    b.add(slab((-x - 0.015, front - 0.04, h - 0.035), (x + 0.015, back, h), b.p.wood, 0.006))
    split = h - 0.035 - b.draw(0.15, 0.2)
    b.add(slab((-x + t, front, split - 0.009), (x - t, back - t, split + 0.009), b.p.lacquer))
    b.shelves(-x + t, x - t, front, back - t, [0.1 + (split - 0.1) * 0.52], b.inside)
    _jars(b, -x + 0.04, x - 0.04, 0.05, 0.1 + (split - 0.1) * 0.52 + 0.009)
    _jars(b, -x + 0.04, x - 0.04, 0.0, 0.12)
    face = b.p.lacquer if b.chance(0.4) else b.p.wood_dark
    for column in range(columns):
        x0, x1 = -x + column * w / columns, -x + (column + 1) * w / columns
        hinge = "left" if (column == 0) == (columns == 2 or b.chance(0.5)) else "right"
        b.door((x0, x1, 0.1, split), front, hinge, face, b.p.metal, degrees=b.draw(75, 110))
        b.drawer((x0, x1, split, h - 0.038), front, d - t, face, b.p.metal, travel=b.draw(0.5, 0.75))


def wardrobe(b: _Builder) -> None:
    """A tall wardrobe: two or three doors, clothes on a rail, sometimes drawers below."""
    doors = b.pick(2, 2, 3)
    drawers = b.chance(0.6)
    w, d, h = doors * b.draw(0.45, 0.52), b.draw(0.52, 0.6), b.draw(1.85, 2.1)
    x, front, back, t = w / 2, -d / 2, d / 2, 0.022
    b.add(slab((-x + 0.01, front + 0.03, 0), (x - 0.01, back, 0.06), b.p.dark))
    b.shell((-x, front, 0.06), (x, back, h - 0.03), b.p.wood, b.inside, t)
    b.add(slab((-x - 0.02, front - 0.035, h - 0.03), (x + 0.02, back, h), b.p.wood_dark, 0.006))
    low = 0.06
    if drawers:
        low = 0.06 + b.draw(0.22, 0.28)
        b.add(slab((-x + t, front, low - 0.009), (x - t, back - t, low + 0.009), b.p.wood))
        for side in (0, 1):
            b.drawer((-x + side * x, side * x, 0.06, low), front, d - t, b.p.wood_dark, b.p.metal, travel=0.6)
    rail = h - 0.3
    b.shelves(-x + t, x - t, front, back - t, [rail + 0.08], b.inside)
    b.add(slab((-x + t, -0.012, rail - 0.012), (x - t, 0.012, rail + 0.012), b.steel))
    at = -x + 0.12
    for number in range(4 * doors):
        material = (b.p.fabric, b.p.fabric_two, b.p.accent)[number % 3]
        length = b.draw(0.5, 0.9) * (rail - low) * 0.9
        b.add(slab((at, -0.18, rail - length), (at + 0.045, 0.18, rail - 0.02), material, 0.02))
        at += (w - 0.28) / (4 * doors)
    for number in range(doors):
        x0 = -x + number * w / doors
        hinge = "right" if number == doors - 1 else "left"
        # Two doors that open towards each other's hinge stop at a right angle.
        degrees = b.draw(70, 88) if number else b.draw(80, 110)
        face = b.p.lacquer if number != 1 or doors == 2 else b.p.wood_dark
        b.door((x0, x0 + w / doors, low, h - 0.033), front, hinge, face, b.p.metal, degrees=degrees)


def fridge(b: _Builder) -> None:
    """A fridge with a second door or two drawers for the freezer below."""
    w, d, h = b.draw(0.58, 0.72), b.draw(0.58, 0.66), b.draw(1.6, 1.85)
    x, front, back, t = w / 2, -d / 2, d / 2, 0.045
    white = Material("liner", linear("eef3f5"), 0.5)
    b.add(slab((-x + 0.03, front + 0.05, 0), (x - 0.03, back - 0.03, 0.05), b.p.dark))
    b.shell((-x, front, 0.05), (x, back, h), b.enamel, white, t)
    split = 0.05 + (h - 0.05) * b.draw(0.3, 0.38)
    b.add(slab((-x + t, front, split - 0.025), (x - t, back - t, split + 0.025), b.enamel))
    heights = [split + (h - split) * f for f in (0.3, 0.53, 0.76)]
    b.shelves(-x + t, x - t, front + 0.04, back - t, heights, b.glass)
    b.add(slab((-x + t + 0.02, front + 0.05, split + 0.03), (x - t - 0.02, back - 0.1, split + 0.17), b.p.leaf, 0.02))
    for z in heights:
        _jars(b, -x + t + 0.03, x - t - 0.03, -0.08, z + 0.009)
    hinge = "right" if b.chance(0.5) else "left"
    side = 1 if hinge == "right" else -1
    racks = []
    for z in (split + 0.12, split + 0.5, split + 0.85):
        if z + 0.1 < h - 0.06:
            racks.append(slab((-x + t + 0.02, front + 0.002, z), (x - t - 0.02, front + 0.03, z + 0.07), b.glass))
    handle = b.steel if b.chance(0.6) else b.p.dark
    b.door(
        (-x, x, split, h),
        front,
        hinge,
        b.enamel,
        handle,
        thick=0.05,
        degrees=b.draw(85, 115),
        handle_length=0.4,
        extra=racks,
    )
    if b.chance(0.5):
        b.door(
            (-x, x, 0.05, split),
            front,
            hinge,
            b.enamel,
            handle,
            thick=0.05,
            degrees=b.draw(75, 105),
            handle_length=0.25,
        )
        b.shelves(-x + t, x - t, front + 0.02, back - t, [0.05 + (split - 0.05) * f for f in (0.38, 0.68)], b.glass)
    else:
        middle = (0.05 + split) / 2
        for z0, z1 in ((0.05, middle), (middle, split)):
            b.drawer((-x, x, z0, z1), front, d - 0.1, b.enamel, handle, travel=b.draw(0.45, 0.6))
            _inset(b, t)
    b.add(slab((side * -0.05 - 0.04, front + 0.1, h), (side * -0.05 + 0.04, back, h + 0.004), b.p.dark, 0.001))


def _inset(b: _Builder, wall: float) -> None:
    """Narrows the tray of the newest drawer: it stays between walls thicker than usual, and above their floor."""
    front, *tray = b.movers[-1].solids[:5]
    rest = b.movers[-1].solids[5:]
    half, low = float(front.vertices[:, 0].max()), float(front.vertices[:, 2].min())
    points = np.concatenate([part.vertices for part in tray])
    bottom, top = float(points[:, 2].min()), float(points[:, 2].max())
    sideways = (half - wall - 0.008) / (half - 0.028)
    upright = (top - max(bottom, low + wall + 0.005)) / (top - bottom)
    narrowed = [
        Part((part.vertices - [0, 0, top]) * [sideways, 1, upright] + [0, 0, top], part.faces, part.material)
        for part in tray
    ]
    b.movers[-1].solids = [front, *narrowed, *rest]


def oven(b: _Builder) -> None:
    """A range: a glass door that folds down, a hob with knobs, a drawer below."""
    w, d, h = b.draw(0.58, 0.7), b.draw(0.56, 0.62), b.draw(0.86, 0.92)
    x, front, back, t = w / 2, -d / 2, d / 2, 0.03
    b.add(slab((-x + 0.03, front + 0.05, 0), (x - 0.03, back, 0.04), b.p.dark))
    drawer = b.chance(0.6)
    low = 0.04 + (b.draw(0.15, 0.19) if drawer else 0.03)
    top = h - 0.13
    dark = Material("cavity", linear("4a4c52"), 0.6)
    b.shell((-x, front, 0.04), (x, back, h), b.enamel, dark, t)
    b.add(slab((-x + t, front, low - 0.01), (x - t, back - t, low + 0.01), b.enamel))
    b.add(slab((-x + t, front, top - 0.01), (x - t, back - t, top + 0.01), b.enamel))
    b.add(slab((-x, front - 0.025, top + 0.004), (x, front, h), b.p.dark))
    b.add(slab((-x - 0.004, front - 0.02, h), (x + 0.004, back, h + 0.012), b.p.dark))
    for sx in (-1, 1):
        for sy in (-1, 1):
            radius = b.draw(0.06, 0.1)
            b.add(cylinder(radius, 0.008, (sx * w * 0.24, sy * d * 0.22, h + 0.012), b.steel))
    for number in range(5):
        place = (-x + (number + 0.5) * w / 5, front - 0.025, (top + h) / 2)
        b.add(facing_front(cylinder(0.022, 0.025, (0, 0, 0), b.steel, segments=14), *place))
    for z in (low + (top - low) * 0.36, low + (top - low) * 0.66):
        b.add(*_grid(-x + t, x - t, front + 0.03, back - t - 0.02, z, b.steel))
    b.add(
        slab(
            (-0.17, -0.12, low + (top - low) * 0.36 + 0.006), (0.17, 0.14, low + (top - low) * 0.36 + 0.07), b.p.accent
        )
    )
    window = Material("oven_glass", linear("22262b"), 0.15)
    b.door(
        (-x, x, low, top),
        front,
        "bottom",
        b.enamel,
        b.steel,
        thick=0.035,
        degrees=b.draw(75, 90),
        window=window,
        handle_length=0.45,
    )
    if drawer:
        b.drawer((-x, x, 0.04, low), front, d - t, b.enamel, travel=b.draw(0.35, 0.45))
        _inset(b, t)


def _grid(x0: float, x1: float, y0: float, y1: float, z: float, material: Material) -> list[Part]:
    """A wire shelf."""
    rods = [slab((x0, y, z - 0.004), (x1, y + 0.008, z + 0.004), material, 0.002) for y in (y0, y1 - 0.008)]
    for number in range(9):
        at = x0 + (number + 0.5) * (x1 - x0) / 9
        rods.append(slab((at - 0.003, y0, z - 0.003), (at + 0.003, y1, z + 0.003), material, 0.001))
    return rods


def dresser(b: _Builder) -> None:
    """A chest of three to six drawers on feet, with a vase on top."""
    columns, rows = ((1, 3), (1, 4), (2, 2), (2, 3))[b.pick(0, 1, 2, 3)]
    w, d, h = b.draw(0.6, 0.8) if columns == 1 else b.draw(1.0, 1.3), b.draw(0.42, 0.5), b.draw(0.78, 0.95)
    x, front, back, t, low = w / 2, -d / 2, d / 2, 0.022, 0.12
    _feet(b, w, d, low, b.p.wood_dark)
    b.shell((-x, front, low), (x, back, h), b.p.wood, b.p.wood, t)
    b.add(slab((-x - 0.01, front - 0.03, h), (x + 0.01, back, h + 0.02), b.p.wood_dark, 0.006))
    if columns == 2:
        b.add(slab((-0.01, front, low + t), (0.01, back - t, h - t), b.p.wood))
    knob = b.chance(0.4)
    for row in range(rows):
        z0 = low + row * (h - low) / rows
        if row:
            b.add(slab((-x + t, front, z0 - 0.006), (x - t, back - t, z0 + 0.006), b.p.wood, 0.002))
        for column in range(columns):
            x0 = -x + column * w / columns
            face = b.p.lacquer if (row + column) % 2 or b.chance(0.6) else b.p.wood_dark
            rect = (x0, x0 + w / columns, z0, z0 + (h - low) / rows)
            b.drawer(rect, front, d - t, face, b.p.metal, travel=b.draw(0.3, 0.75), knob=knob)
    b.add(cylinder(0.05, 0.2, (0.25 * w, 0.05, h + 0.02), b.p.accent, top=0.08))


def chest(b: _Builder) -> None:
    """A treasure chest: a lid that swings up, bands of metal, sometimes a drawer below."""
    drawer = b.chance(0.4)
    w, d, h = b.draw(0.8, 1.1), b.draw(0.45, 0.55), b.draw(0.36, 0.46)
    x, front, back, t = w / 2, -d / 2, d / 2, 0.03
    low = 0.02 + (b.draw(0.14, 0.18) if drawer else 0.0)
    _tub(b, (-x, front, low), (x, back, low + h), b.p.wood, t)
    if drawer:
        b.shell((-x, front, 0.02), (x, back, low), b.p.wood, b.p.wood, 0.022)
        b.drawer((-x, x, 0.02, low), front, d - t, b.p.wood_dark, b.p.metal, travel=b.draw(0.4, 0.65))
    b.add(
        *[
            box((0.07, 0.07, 0.02), (sx * (x - 0.05), sy * (-front - 0.05), 0), b.p.dark)
            for sx in (-1, 1)
            for sy in (-1, 1)
        ]
    )
    for bx in (-0.32 * w, 0.32 * w):
        b.add(slab((bx - 0.025, front - 0.006, low), (bx + 0.025, front, low + h), b.p.metal, 0.002))
    b.add(slab((-x + 0.06, front + 0.06, low + t), (x - 0.06, back - 0.06, low + 0.5 * h), b.p.fabric, 0.04))
    z, top = low + h + 0.003, b.draw(0.05, 0.09)
    lid = [slab((-x - 0.01, front - 0.012, z), (x + 0.01, back, z + top), b.p.wood, 0.02)]
    for bx in (-0.32 * w, 0.32 * w):
        lid.append(
            slab((bx - 0.025, front - 0.018, z + 0.002), (bx + 0.025, back - 0.01, z + top + 0.006), b.p.metal, 0.004)
        )
    lid.append(slab((-0.03, front - 0.025, z - 0.045), (0.03, front - 0.0125, z + 0.03), b.p.metal, 0.004))
    _lid(b, lid, back, z, b.draw(70, 100))


def _tub(b: _Builder, low: Sequence[float], high: Sequence[float], material: Material, t: float) -> None:
    """A box open at the top."""
    (x0, y0, z0), (x1, y1, z1) = low, high
    b.add(
        slab((x0, y0, z0), (x0 + t, y1, z1), material),
        slab((x1 - t, y0, z0), (x1, y1, z1), material),
        slab((x0 + t, y0, z0), (x1 - t, y0 + t, z1), material),
        slab((x0 + t, y1 - t, z0), (x1 - t, y1, z1), material),
        slab((x0 + t, y0 + t, z0), (x1 - t, y1 - t, z0 + t), b.inside),
    )


def _lid(b: _Builder, solids: list[Part], back: float, z: float, degrees: float) -> None:
    """A lid hinged along the upper edge of the back."""
    b.movers.append(_Mover(solids, "rotation", (-1.0, 0.0, 0.0), (0.0, back, z), math.radians(degrees)))


def microwave(b: _Builder) -> None:
    """A microwave oven on its feet: a glass door beside a panel with buttons."""
    w, d, h = b.draw(0.46, 0.54), b.draw(0.33, 0.4), b.draw(0.27, 0.32)
    x, front, back, t = w / 2, -d / 2, d / 2, 0.018
    for sx in (-1, 1):
        for sy in (-1, 1):
            b.add(cylinder(0.015, 0.012, (sx * (x - 0.04), sy * (-front - 0.04), 0), b.p.dark, segments=12))
    cavity = Material("cavity", linear("d8d4c8"), 0.6)
    b.shell((-x, front, 0.012), (x, back, h), b.enamel, cavity, t)
    edge = x - b.draw(0.1, 0.13)
    b.add(slab((edge, front, 0.012 + t), (edge + 0.012, back - t, h - t), cavity))
    b.add(slab((edge + 0.002, front - 0.02, 0.014), (x, front, h), b.p.dark))
    b.add(slab((edge + 0.02, front - 0.023, h - 0.06), (x - 0.015, front - 0.0205, h - 0.025), b.glass, 0.001))
    for row in range(3):
        for column in range(2):
            at = edge + 0.035 + column * 0.035
            z = 0.05 + row * 0.04
            b.add(slab((at, front - 0.026, z), (at + 0.022, front - 0.0205, z + 0.022), b.steel, 0.002))
    middle = (-x + edge) / 2
    b.add(cylinder(0.4 * (edge + x) - 0.02, 0.006, (middle, -0.01, 0.012 + t), b.glass))
    b.add(cylinder(0.05, 0.08, (middle, -0.01, 0.018 + t), b.p.accent))
    window = Material("oven_glass", linear("2b2f35"), 0.15)
    b.door((-x, edge, 0.012, h), front, "left", b.enamel, b.steel, thick=0.025, degrees=b.draw(75, 105), window=window)


def washing_machine(b: _Builder) -> None:
    """A washing machine: a round door before a steel drum, and a detergent drawer."""
    w, d, h = b.draw(0.58, 0.62), b.draw(0.5, 0.6), b.draw(0.82, 0.87)
    x, front, back, t = w / 2, -d / 2, d / 2, 0.02
    b.shell((-x, front + 0.02, 0.02), (x, back, h), b.enamel, b.enamel, t)
    _feet(b, w, d - 0.08, 0.02, b.p.dark)
    r = b.draw(0.16, 0.185)
    cz = b.draw(0.38, 0.42)
    top = h - 0.14
    # The front with a square hole, which the ring around the drum covers.
    for rect in ((-x, -r, 0.02, top), (r, x, 0.02, top), (-r, r, 0.02, cz - r), (-r, r, cz + r, top)):
        b.add(slab((rect[0], front, rect[2]), (rect[1], front + 0.02, rect[3]), b.enamel, 0.001))
    split = -x + b.draw(0.17, 0.2)
    b.add(slab((split, front, top), (x, front + 0.02, h), b.p.dark, 0.002))
    b.add(facing_front(cylinder(0.035, 0.025, (0, 0, 0), b.steel), 0.05, front, top + 0.07))
    b.add(slab((0.14, front - 0.004, top + 0.045), (0.25, front, top + 0.095), b.glass, 0.001))
    b.add(facing_front(ring(r - 0.01, 1.44 * r, 0.012, b.steel, 32), 0, front, cz))
    b.add(facing_front(ring(r - 0.012, r + 0.002, 0.32, b.steel, 32), 0, front + 0.31, cz))
    b.add(facing_front(cylinder(r, 0.01, (0, 0, 0), b.p.dark), 0, front + 0.33, cz))
    b.add(slab((-0.1, front + 0.05, cz - r + 0.015), (0.09, front + 0.28, cz - 0.06), b.p.fabric, 0.04))
    out = front - 0.0135
    hinge = "left" if b.chance(0.6) else "right"
    side = -1 if hinge == "left" else 1
    door = [
        facing_front(ring(0.72 * r, 1.2 * r, 0.03, b.p.dark if b.chance(0.5) else b.enamel, 32), 0, out, cz),
        facing_front(cylinder(0.74 * r, 0.018, (0, 0, 0), b.glass, segments=32), 0, out - 0.006, cz),
        slab(
            (-side * 1.05 * r - 0.012, out - 0.045, cz - 0.05),
            (-side * 1.05 * r + 0.012, out - 0.03, cz + 0.05),
            b.steel,
        ),
        slab((side * 1.18 * r - 0.015, out - 0.03, cz - 0.06), (side * 1.18 * r + 0.015, out, cz + 0.06), b.steel),
    ]
    edge = side * (1.18 * r + 0.015)
    b.movers.append(
        _Mover(door, "rotation", (0.0, 0.0, float(side)), (edge, out - 0.03, 0.0), math.radians(b.draw(85, 125)))
    )
    b.drawer((-x, split, top, h - t), front + 0.021, 0.3, b.enamel, b.p.dark, travel=b.draw(0.5, 0.7))


def window(b: _Builder) -> None:
    """A window on its sill: casements that swing out, or sashes that slide."""
    sliding = b.chance(0.4)
    sashes = 2 if sliding else b.pick(1, 2, 2)
    w, h, d = b.draw(0.5, 0.6) * sashes, b.draw(0.9, 1.3), 0.12
    x, f = w / 2 + 0.06, 0.06
    frame = b.p.white if b.chance(0.4) else b.p.wood
    b.add(slab((-x - 0.05, -0.14, 0), (x + 0.05, d / 2, 0.04), b.p.wood_dark, 0.008))
    z0, z1 = 0.04, 0.04 + h + 2 * f
    for rect in ((-x, -x + f, z0, z1), (x - f, x, z0, z1), (-x + f, x - f, z0, z0 + f), (-x + f, x - f, z1 - f, z1)):
        b.add(slab((rect[0], -d / 2, rect[2]), (rect[1], d / 2, rect[3]), frame))
    low, high = z0 + f, z1 - f
    if not sliding:
        if b.chance(0.4):
            # A light above the casements that tilts out.
            split = high - b.draw(0.28, 0.34)
            b.add(slab((-x + f, -d / 2, split - 0.02), (x - f, d / 2, split + 0.02), frame))
            b.door(
                (-x + f, x - f, split + 0.02, high),
                -d / 2 + 0.05,
                "top",
                frame,
                b.p.metal,
                thick=0.045,
                degrees=b.draw(30, 50),
                window=b.glass,
            )
            high = split - 0.02
        for number in range(sashes):
            x0 = -x + f + number * w / sashes
            hinge = "right" if number or (sashes == 1 and b.chance(0.5)) else "left"
            b.door(
                (x0, x0 + w / sashes, low, high),
                -d / 2 + 0.05,
                hinge,
                frame,
                b.p.metal,
                thick=0.045,
                degrees=b.draw(60, 88),
                window=b.glass,
            )
            _hinge_outside(b, -d / 2)
        return
    for number in range(2):
        front = number == 0
        out = -0.045 if front else 0.003
        x0 = -x + f + (0 if number == 0 else w / 2 - 0.03)
        x1 = x0 + w / 2 + 0.03
        solids = framed(x0 + GAP, x1 - GAP, low + GAP, high - GAP, out, out + 0.04, frame, b.glass)
        grip = x1 - 0.03 if number else x0 + 0.03
        solids.append(
            slab((grip - 0.008, out - 0.006, low + 0.4 * h), (grip + 0.008, out, low + 0.55 * h), b.p.metal, 0.002)
        )
        b.slide(solids, (1.0 if number == 0 else -1.0, 0.0, 0.0), (w / 2 - 0.06) * b.draw(0.6, 0.95))


def _hinge_outside(b: _Builder, front: float) -> None:
    """Moves the newest door's hinge to the outside of the frame, so that it clears the frame when it turns."""
    mover = b.movers[-1]
    mover.origin = (mover.origin[0], min(mover.origin[1], front), mover.origin[2])


def carton(b: _Builder) -> None:
    """A cardboard box with two flaps and things inside."""
    w, d, h = b.draw(0.4, 0.6), b.draw(0.3, 0.42), b.draw(0.22, 0.36)
    x, front, back, t = w / 2, -d / 2, d / 2, 0.008
    _tub(b, (-x, front, 0), (x, back, h), b.cardboard, t)
    b.add(slab((-0.06, front - 0.003, 0.3 * h), (0.1, front, 0.62 * h), b.p.white, 0.001))
    for material in (b.p.accent, b.p.fabric, b.p.fabric_two):
        place = (b.draw(-x + 0.1, x - 0.1), b.draw(front + 0.09, back - 0.09), 0.008)
        b.add(box((0.11, 0.1, b.draw(0.3, 0.75) * h), place, material))
    tape = Material("tape", linear("d9c08a"), 0.5)
    z = h + 0.002
    across = b.chance(0.4)
    for side in (-1, 1):
        if across:
            low, high = (0.002, front) if side > 0 else (-x, front), (x, back) if side > 0 else (-0.002, back)
            strip = (side * 0.045 - 0.0425, front + 0.04), (side * 0.045 + 0.0425, back - 0.04)
            origin, axis = (side * x, 0.0, z), (0.0, float(side), 0.0)
        else:
            low, high = (-x, 0.002) if side > 0 else (-x, front), (x, back) if side > 0 else (x, -0.002)
            strip = (-x + 0.04, side * 0.045 - 0.0425), (x - 0.04, side * 0.045 + 0.0425)
            origin, axis = (0.0, side * back, z), (-float(side), 0.0, 0.0)
        flap = [
            slab((*low, z), (*high, z + 0.006), b.cardboard, 0.002),
            slab((*strip[0], z + 0.0065), (*strip[1], z + 0.008), tape, 0.0005),
        ]
        b.movers.append(_Mover(flap, "rotation", axis, origin, math.radians(b.draw(95, 165))))


def dishwasher(b: _Builder) -> None:
    """A dishwasher: a door that folds down before two racks of plates."""
    w, d, h = b.draw(0.56, 0.62), b.draw(0.55, 0.6), b.draw(0.82, 0.87)
    x, front, back, t = w / 2, -d / 2, d / 2, 0.025
    tank = Material("tank", linear("aab1b7"), 0.4)
    b.add(slab((-x + 0.02, front + 0.05, 0), (x - 0.02, back, 0.1), b.p.dark))
    b.shell((-x, front, 0.1), (x, back, h - 0.02), b.enamel, tank, t)
    b.add(slab((-x - 0.005, front - 0.03, h - 0.02), (x + 0.005, back, h), b.p.wood, 0.005))
    for z in (0.2, 0.5):
        b.add(*_grid(-x + t + 0.01, x - t - 0.01, front + 0.02, back - t - 0.01, z, b.p.accent))
        for number in range(7):
            at = -x + 0.09 + number * (w - 0.18) / 6
            b.add(slab((at - 0.006, -0.1, z + 0.008), (at + 0.006, 0.1, z + 0.2), b.p.white, 0.005))
    extra = [
        slab((-x + 0.02, front - 0.041, h - 0.11), (x - 0.02, front - 0.0365, h - 0.04), b.p.dark, 0.002),
        *[
            slab((at, front - 0.044, h - 0.085), (at + 0.03, front - 0.0415, h - 0.065), b.glass, 0.001)
            for at in (-0.2, -0.14, 0.15)
        ],
    ]
    b.door((-x, x, 0.1, h - 0.023), front, "bottom", b.enamel, None, thick=0.035, degrees=b.draw(75, 90), extra=extra)
    b.movers[-1].solids += b.bar(0.0, front - 0.036, h - 0.17, b.steel, False, 0.4)


def desk(b: _Builder) -> None:
    """A desk with a pedestal of drawers, sometimes a door in place of the lower ones."""
    w, d, h = b.draw(1.1, 1.4), b.draw(0.55, 0.65), b.draw(0.72, 0.76)
    x, front, back, t = w / 2, -d / 2 + 0.03, d / 2, 0.02
    b.add(slab((-x, -d / 2, h - 0.035), (x, back, h), b.p.wood, 0.008))
    pedestals = (1,) if b.chance(0.5) else (-1, 1)
    for side in pedestals:
        c = side * (x - 0.24)
        x0, x1 = c - 0.21, c + 0.21
        b.shell((x0, front, 0.03), (x1, back - 0.02, h - 0.036), b.p.lacquer)
        b.add(slab((x0 + 0.02, front + 0.03, 0), (x1 - 0.02, back - 0.04, 0.03), b.p.dark))
        top = h - 0.04
        first = top - 0.15
        b.add(slab((x0 + t, front, first - 0.006), (x1 - t, back - 0.04, first + 0.006), b.p.lacquer, 0.002))
        b.drawer((x0, x1, first, top), front, d - 0.1, b.p.wood_dark, b.p.metal, travel=b.draw(0.5, 0.75))
        if side < 0 or b.chance(0.4):
            b.shelves(x0 + t, x1 - t, front, back - 0.04, [0.33], b.inside)
            _jars(b, x0 + 0.04, x1 - 0.04, 0.0, 0.34)
            hinge = "left" if b.chance(0.5) else "right"
            b.door((x0, x1, 0.03, first), front, hinge, b.p.wood_dark, b.p.metal, degrees=b.draw(70, 90))
        else:
            middle = (0.03 + first) / 2
            b.add(slab((x0 + t, front, middle - 0.006), (x1 - t, back - 0.04, middle + 0.006), b.p.lacquer, 0.002))
            for z0, z1 in ((0.03, middle), (middle, first)):
                b.drawer((x0, x1, z0, z1), front, d - 0.1, b.p.wood_dark, b.p.metal, travel=b.draw(0.4, 0.7))
    if len(pedestals) == 1:
        b.add(*[box((0.05, 0.05, h - 0.035), (-x + 0.05, y, 0), b.p.metal) for y in (-d / 2 + 0.05, d / 2 - 0.05)])
    b.add(
        slab((-0.28, 0.14, h + 0.09), (0.28, 0.165, h + 0.42), b.p.dark),
        box((0.22, 0.14, 0.015), (0, 0.16, h), b.p.metal),
    )
    b.add(box((0.05, 0.02, 0.12), (0, 0.176, h + 0.01), b.p.metal))


def tool_chest(b: _Builder) -> None:
    """A painted tool chest on wheels: drawers under a lid."""
    rows = b.pick(2, 3, 4, 5)
    w, d, h = b.draw(0.6, 0.75), b.draw(0.4, 0.48), 0.22 + rows * b.draw(0.11, 0.14)
    x, front, back, t = w / 2, -d / 2, d / 2, 0.015
    for sx in (-1, 1):
        for sy in (-1, 1):
            wheel = facing_front(cylinder(0.04, 0.03, (0, 0, 0), b.p.dark, segments=16), 0, 0, 0)
            b.add(wheel.moved((sx * (x - 0.06), sy * (-front - 0.07) + 0.015, -wheel.vertices[:, 2].min())))
    low = 0.085
    split = h - 0.11
    b.shell((-x, front, low), (x, back, split), b.paint, b.p.dark, t)
    _tub(b, (-x, front, split), (x, back, h), b.paint, t)
    for number in range(4):
        at = -x + 0.1 + number * (w - 0.2) / 4
        b.add(
            slab(
                (at, front + 0.06, split + 0.02), (at + 0.05, back - 0.08, h - 0.02), (b.steel, b.p.accent)[number % 2]
            )
        )
    for row in range(rows):
        z0, z1 = low + row * (split - low) / rows, low + (row + 1) * (split - low) / rows
        face = b.paint if b.chance(0.8) else b.p.dark
        b.drawer((-x, x, z0, z1), front, d - t, face, b.steel, travel=b.draw(0.25, 0.7))
    b.add(slab((x, front + 0.06, h - 0.08), (x + 0.02, back - 0.06, h - 0.055), b.steel))
    z = h + 0.003
    lid = [
        slab((-x, front, z), (x, back, z + 0.05), b.paint, 0.012),
        slab((-0.08, front - 0.02, z + 0.01), (0.08, front, z + 0.03), b.steel),
    ]
    _lid(b, lid, back, z, b.draw(60, 95))


def sideboard(b: _Builder) -> None:
    """A low sideboard with two sliding doors, and drawers beside them."""
    w, d, h = b.draw(1.3, 1.6), b.draw(0.4, 0.48), b.draw(0.6, 0.75)
    x, front, back, t, low = w / 2, -d / 2, d / 2, 0.022, 0.14
    drawers = b.pick(0, 2, 3)
    edge = x - (b.draw(0.38, 0.44) if drawers else 0.0)
    _feet(b, w - 0.1, d, low, b.p.wood_dark)
    b.shell((-x, front, low), (x, back, h), b.p.wood, b.p.white, t)
    inner = front + 0.055
    span = edge - t / 2 if drawers else x - t
    if drawers:
        b.add(slab((edge - t / 2, front, low + t), (edge + t / 2, back - t, h - t), b.p.wood))
        for row in range(drawers):
            z0, z1 = low + row * (h - low) / drawers, low + (row + 1) * (h - low) / drawers
            b.drawer((edge, x, z0, z1), front, d - t, b.p.lacquer, b.p.metal, travel=b.draw(0.4, 0.7))
    b.shelves(-x + t, span, inner, back - t, [(low + h) / 2], b.p.wood_dark)
    for z in (low + t, (low + h) / 2 + 0.009):
        at = -x + 0.06
        while at < span - 0.2:
            thick = b.draw(0.03, 0.09)
            tall = b.draw(0.55, 0.85) * ((h - low) / 2 - 0.04)
            material = (b.p.accent, b.p.fabric, b.p.fabric_two, b.p.leaf)[b.pick(0, 1, 2, 3)]
            b.add(slab((at, 0.0, z), (at + thick, back - 0.05, z + tall), material))
            at += thick + b.draw(0.01, 0.12)
    a, e = -x + t, span
    middle, z0, z1 = (a + e) / 2, low + t + GAP, h - t - GAP
    for number, face in enumerate((b.p.lacquer, b.p.wood_dark)):
        out = front + 0.002 + 0.026 * number
        x0, x1 = (a + GAP, middle + 0.02) if number == 0 else (middle - 0.02, e - GAP)
        panel = [slab((x0, out, z0), (x1, out + 0.018, z1), face)]
        grip = x0 + 0.05 if number == 0 else x1 - 0.05
        disc = ring(0.016, 0.028, 0.004, b.p.metal, 16)
        panel.append(facing_front(disc, grip, out, (z0 + z1) / 2))
        share = b.draw(0.6, 0.92)
        b.slide(panel, (1.0 if number == 0 else -1.0, 0.0, 0.0), (x1 - x0 - 0.06) * share)


def secretary(b: _Builder) -> None:
    """A writing cabinet: a leaf that folds down before pigeon-holes, over drawers or doors."""
    w, d, h = b.draw(0.7, 0.9), b.draw(0.38, 0.45), b.draw(1.15, 1.35)
    x, front, back, t = w / 2, -d / 2, d / 2, 0.022
    _feet(b, w, d, 0.08, b.p.wood_dark)
    b.shell((-x, front, 0.08), (x, back, h), b.p.wood, b.p.wood_dark, t)
    b.add(slab((-x - 0.015, front - 0.03, h), (x + 0.015, back, h + 0.025), b.p.wood_dark, 0.008))
    split = b.draw(0.66, 0.74)
    b.add(slab((-x + t, front, split - 0.011), (x - t, back - t, split + 0.011), b.p.wood))
    for number in range(1, 4):
        at = -x + number * w / 4
        b.add(slab((at - 0.006, front + 0.08, split + 0.01), (at + 0.006, back - t, h - t), b.p.white, 0.002))
    b.shelves(-x + t, x - t, front + 0.05, back - t, [split + (h - split) * f for f in (0.36, 0.68)], b.p.white)
    for number in range(4):
        at = -x + 0.05 + number * w / 4
        height = 0.2 * (h - split)
        b.add(
            slab(
                (at, -0.03, split + 0.012),
                (at + 0.09, 0.12, split + 0.012 + height),
                (b.p.accent, b.p.fabric)[number % 2],
            )
        )
    b.door((-x, x, split, h), front, "bottom", b.p.lacquer, b.p.metal, degrees=b.draw(80, 90))
    if b.chance(0.5):
        rows = b.pick(2, 3)
        for row in range(rows):
            z0, z1 = 0.08 + row * (split - 0.08) / rows, 0.08 + (row + 1) * (split - 0.08) / rows
            b.drawer((-x, x, z0, z1), front, d - t, b.p.wood_dark, b.p.metal, travel=b.draw(0.4, 0.7))
    else:
        b.shelves(-x + t, x - t, front, back - t, [(0.08 + split) / 2], b.inside)
        _jars(b, -x + 0.05, x - 0.05, 0.0, (0.08 + split) / 2 + 0.009)
        b.door((-x, 0, 0.08, split), front, "left", b.p.wood_dark, b.p.metal, degrees=b.draw(75, 105))
        b.door((0, x, 0.08, split), front, "right", b.p.wood_dark, b.p.metal, degrees=b.draw(75, 105))


def locker(b: _Builder) -> None:
    """Steel lockers: two to six doors in a grid, with slots."""
    columns, rows = ((2, 1), (2, 2), (3, 1), (3, 2))[b.pick(0, 1, 2, 3)]
    w, d, h = columns * b.draw(0.3, 0.36), b.draw(0.42, 0.5), b.draw(1.5, 1.8)
    x, front, back, t = w / 2, -d / 2, d / 2, 0.014
    _feet(b, w, d, 0.08, b.p.dark, 0.04)
    body = Material("steel_two", linear("8d969c"), 0.5)
    b.shell((-x, front, 0.08), (x, back, h), body, b.inside, t)
    for column in range(1, columns):
        at = -x + column * w / columns
        b.add(slab((at - 0.006, front, 0.08 + t), (at + 0.006, back - t, h - t), body, 0.002))
    for row in range(1, rows):
        z = 0.08 + row * (h - 0.08) / rows
        b.add(slab((-x + t, front, z - 0.006), (x - t, back - t, z + 0.006), body, 0.002))
    degrees = b.draw(70, 90)
    for column in range(columns):
        for row in range(rows):
            x0, x1 = -x + column * w / columns, -x + (column + 1) * w / columns
            z0, z1 = 0.08 + row * (h - 0.08) / rows, 0.08 + (row + 1) * (h - 0.08) / rows
            c = (x0 + x1) / 2
            slots = [
                slab(
                    (c - 0.07, front - 0.024, z1 - 0.1 - k * 0.03),
                    (c + 0.07, front - 0.0205, z1 - 0.088 - k * 0.03),
                    b.p.dark,
                    0.001,
                )
                for k in range(3)
            ]
            tall = b.draw(0.4, 0.7) * (z1 - z0)
            b.add(
                slab(
                    (c - 0.09, -0.08, z0 + 0.02),
                    (c + 0.08, 0.12, z0 + tall),
                    (b.p.fabric, b.p.accent)[column % 2],
                    0.03,
                )
            )
            b.door((x0, x1, z0, z1), front, "left", b.paint, b.steel, degrees=degrees, extra=slots, handle_length=0.09)


def flap_shelf(b: _Builder) -> None:
    """A shelf unit whose compartments close with flaps that swing up."""
    rows = b.pick(2, 3, 4)
    w, d, h = b.draw(0.7, 0.9), b.draw(0.36, 0.42), 0.06 + rows * b.draw(0.36, 0.42)
    x, front, back, t = w / 2, -d / 2, d / 2, 0.022
    b.add(slab((-x + 0.02, front + 0.03, 0), (x - 0.02, back, 0.06), b.p.dark))
    b.shell((-x, front, 0.06), (x, back, h), b.p.wood, b.inside, t)
    # Flaps one above the other all rise to the same angle and so never meet.
    degrees = b.draw(60, 85)
    for row in range(rows):
        z0, z1 = 0.06 + row * (h - 0.06) / rows, 0.06 + (row + 1) * (h - 0.06) / rows
        if row:
            b.add(slab((-x + t, front, z0 - 0.009), (x - t, back - t, z0 + 0.009), b.p.wood, 0.002))
        at = -x + 0.05
        while at < x - 0.14:
            thick = b.draw(0.03, 0.08)
            material = (b.p.accent, b.p.fabric, b.p.fabric_two, b.p.leaf)[b.pick(0, 1, 2, 3)]
            b.add(slab((at, -0.06, z0 + 0.024), (at + thick, 0.12, z0 + b.draw(0.2, 0.28)), material))
            at += thick + b.draw(0.005, 0.1)
        face = b.p.lacquer if row % 2 == 0 else b.p.wood_dark
        b.door((-x, x, z0, z1), front, "top", face, b.p.metal, degrees=degrees)


def bin_(b: _Builder) -> None:
    """A waste bin with one or two compartments, each under its own lid."""
    count = b.pick(1, 2, 3)
    w, d, h = b.draw(0.3, 0.38), b.draw(0.34, 0.42), b.draw(0.5, 0.68)
    colors = (b.paint, b.p.accent, b.p.leaf)
    for number in range(count):
        c = (number - (count - 1) / 2) * (w + 0.02)
        x0, x1, front, back = c - w / 2, c + w / 2, -d / 2, d / 2
        _tub(b, (x0, front, 0.0), (x1, back, h), b.steel if count == 1 else b.p.dark, 0.012)
        b.add(slab((x0 - 0.001, front - 0.004, 0.55 * h), (x1 + 0.001, front, 0.62 * h), colors[number], 0.001))
        b.add(
            slab((x0 + 0.03, front + 0.03, 0.05), (x1 - 0.03, back - 0.03, b.draw(0.4, 0.7) * h), b.p.fabric_two, 0.05)
        )
        z = h + 0.003
        lid = [
            slab((x0 - 0.005, front - 0.01, z), (x1 + 0.005, back, z + 0.045), colors[number], 0.018),
            slab((c - 0.05, front - 0.035, z + 0.012), (c + 0.05, front - 0.008, z + 0.028), b.p.dark),
        ]
        _lid(b, lid, back, z, b.draw(65, 100))


KINDS: dict[str, Callable[[_Builder], None]] = {
    "cabinet": cabinet,
    "wardrobe": wardrobe,
    "fridge": fridge,
    "oven": oven,
    "dresser": dresser,
    "chest": chest,
    "microwave": microwave,
    "washing_machine": washing_machine,
    "window": window,
    "box": carton,
    "dishwasher": dishwasher,
    "desk": desk,
    "tool_chest": tool_chest,
    "sideboard": sideboard,
    "secretary": secretary,
    "locker": locker,
    "flap_shelf": flap_shelf,
    "bin": bin_,
}
"""Kinds of containers."""
