"""Furnished rooms from a seed: a theme, its furniture in its places, a shell, and cameras around it.

The world frame is Blender's: Z up, metres, the floor's centre at the origin.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from sceneact_gym.data.glb import Material, Node, Part, write_glb
from sceneact_gym.data.procedural.furniture import KINDS, Palette, draw_palette, linear
from sceneact_gym.data.procedural.shapes import box

Array = NDArray[np.float64]

GENERATOR_VERSION = 1
"""Part of every seed: raised whenever the same seed would give another room."""
ROOM_SPLITS: dict[str, int | None] = {"train": None, "val": 20, "test": 20}
"""Rooms per split; None is endless."""
CAMERA_COUNT = 11
FOV_X_DEG = 39.6
WALL_HEIGHT = 2.5
WALL_COLORS = ("e9e2d3", "cfd8d2", "d8dfe8", "e7d6cc", "dcd7e4", "efe9df")
ACCENT_WALLS = ("9fb3a4", "b7c4d6", "d9b99b", "c3b1c9", "b4a58f", "8fa9b8")
FLOORS = ("a67c52", "c8a679", "8d6b4b", "9a9186", "7b6a58")
SEEN_SHARE = 0.015
"""Part of the picture that an object must own to count as seen."""
NEAREST = 0.8
"""Metres that must be free before a camera."""


@dataclass(frozen=True, eq=False)
class RoomObject:
    """A piece of furniture.

    Attributes:
        name: anonymous, `object_NN`.
        kind: a key of `furniture.KINDS`.
        parts: its mesh, centred on its bounding box, front towards -Y.
        location: world position of that centre, metres.
        yaw: radians about Z.
    """

    name: str
    kind: str
    parts: tuple[Part, ...]
    location: Array
    yaw: float

    @cached_property
    def half_size(self) -> Array:
        """(3,) half extents of the mesh before its turn."""
        return np.max([np.abs(part.vertices).max(axis=0) for part in self.parts], axis=0)

    def world_vertices(self) -> Array:
        """(V, 3) vertices in the room."""
        return np.concatenate([part.vertices for part in self.parts]) @ _turn(self.yaw).T + self.location

    def corners(self) -> Array:
        """(4, 2) corners of its footprint in the room."""
        x, y, _ = self.half_size
        flat = np.array([[-x, -y, 0], [x, -y, 0], [x, y, 0], [-x, y, 0]])
        return (flat @ _turn(self.yaw).T + self.location)[:, :2]


@dataclass(frozen=True, eq=False)
class Room:
    """A furnished room.

    Attributes:
        theme: for example `bedroom`.
        size: extents of the floor in x and y, metres.
        objects: its furniture.
        shell: floor and walls as nodes.
        cameras: 11 poses (4, 4), matrix_world in Blender's convention.
    """

    theme: str
    size: tuple[float, float]
    objects: tuple[RoomObject, ...]
    shell: tuple[Node, ...]
    cameras: tuple[Array, ...]

    @property
    def bounds(self) -> tuple[Array, Array]:
        """Lower and upper corner of the room's inside."""
        x, y = self.size[0] / 2, self.size[1] / 2
        return np.array([-x, -y, 0.0]), np.array([x, y, WALL_HEIGHT])

    @property
    def node_names(self) -> list[str]:
        """Names of all nodes of `room_scene_glb`."""
        return [thing.name for thing in self.objects] + [node.name for node in self.shell]


def room_scene_glb(room: Room) -> bytes:
    """The furnished scene with its shell; the objects' places are node transforms."""
    nodes = [Node(thing.name, thing.parts, thing.location.tolist(), thing.yaw) for thing in room.objects]
    return write_glb([*nodes, *room.shell])


def furniture_glb(room: Room) -> bytes:
    """The furniture in its place, without the shell."""
    return write_glb([Node(thing.name, thing.parts, thing.location.tolist(), thing.yaw) for thing in room.objects])


def canonical_glb(thing: RoomObject) -> bytes:
    """One object alone: centred at the origin, neutral yaw."""
    return write_glb([Node(thing.name, thing.parts)])


def generate_room(split: str, index: int) -> Room:
    """The room with this number; the same for the same arguments and `GENERATOR_VERSION`.

    Raises:
        ValueError: there is no such split, or the split has no such room.
    """
    if split not in ROOM_SPLITS:
        raise ValueError(f"split must be one of {', '.join(ROOM_SPLITS)}; it is {split!r}")
    size = ROOM_SPLITS[split]
    if index < 0 or (size is not None and index >= size):
        raise ValueError(f"the split {split} has rooms 0 to {'any number' if size is None else size - 1}, not {index}")
    for attempt in range(100):
        seed = [GENERATOR_VERSION, list(ROOM_SPLITS).index(split), index, attempt]
        room = _try_room(np.random.default_rng(np.random.SeedSequence(seed)))
        if room is not None:
            return room
    raise RuntimeError(f"no room came out of 100 attempts for {split} {index}")


# --- placing furniture ----------------------------------------------------------------------------------------------


class _Builder:
    """A room in the making."""

    def __init__(self, rng: np.random.Generator) -> None:
        self.rng = rng
        self.size = (float(rng.uniform(4.2, 5.4)), float(rng.uniform(4.0, 5.0)))
        self.palette = draw_palette(rng)
        self.objects: list[RoomObject] = []

    def make(self, kind: str) -> RoomObject:
        """A new piece, not yet placed; its bounding-box centre is at the origin."""
        parts = KINDS[kind](self.rng, self.palette)
        points = np.concatenate([part.vertices for part in parts])
        centre = (points.min(axis=0) + points.max(axis=0)) / 2
        return RoomObject("", kind, tuple(part.moved(-centre) for part in parts), np.zeros(3), 0.0)

    def put(self, thing: RoomObject, x: float, y: float, yaw: float, z: float | None = None) -> bool:
        """Places a piece if it fits there."""
        height = float(thing.half_size[2]) if z is None else z
        placed = RoomObject("", thing.kind, thing.parts, np.array([x, y, height]), _wrapped(yaw))
        limit = np.array(self.size) / 2 - 0.02
        if (np.abs(placed.corners()) > limit).any() or any(_collide(placed, other) for other in self.objects):
            return False
        self.objects.append(placed)
        return True

    def at_wall(self, thing: RoomObject, wall: int, along: float, gap: float = 0.05) -> bool:
        """Back to a wall; `along` in [-1, 1] from one end of the wall to the other. Walls: 0 +Y, 1 -X, 2 -Y, 3 +X."""
        width, depth, _ = thing.half_size
        length, distance = (self.size[0], self.size[1]) if wall % 2 == 0 else (self.size[1], self.size[0])
        reach = max(0.0, length / 2 - width - 0.06)
        yaw = wall * math.pi / 2
        place = _turn(yaw) @ np.array([along * reach, distance / 2 - depth - gap, 0])
        return self.put(thing, place[0], place[1], yaw)

    def somewhere_at_wall(self, kind: str) -> bool:
        """Against any free stretch of wall."""
        thing = self.make(kind)
        return any(self.at_wall(thing, int(self.rng.integers(4)), float(self.rng.uniform(-1, 1))) for _ in range(30))

    def somewhere_free(self, kind: str) -> bool:
        """Anywhere inside, turned by chance."""
        thing = self.make(kind)
        x, y = self.size[0] / 2 - 0.5, self.size[1] / 2 - 0.5
        places = self.rng.uniform([-x, -y, -math.pi], [x, y, math.pi], (30, 3))
        return any(self.put(thing, *(float(value) for value in place)) for place in places)

    def relative(self, kind: str, to: RoomObject, x: float, y: float, yaw: float) -> bool:
        """At a place in the frame of another piece; `x`, `y` are of the new piece's centre."""
        place = _turn(to.yaw) @ np.array([x, y, 0]) + to.location
        return self.put(self.make(kind), place[0], place[1], to.yaw + yaw)

    def chair_at(self, table: RoomObject, x: float, side: int) -> bool:
        """A chair that faces a table from its -Y (`side` -1) or +Y side (1), pushed in as far as chance wants."""
        chair = self.make("chair")
        for _ in range(10):
            y = float(table.half_size[1] + chair.half_size[1] + self.rng.uniform(-0.22, 0.05))
            # A chair looks towards -Y of its own frame: the one on the -Y side has to turn around.
            yaw = float(self.rng.uniform(-0.2, 0.2)) + (0 if side > 0 else math.pi)
            place = _turn(table.yaw) @ np.array([x, side * y, 0]) + table.location
            if self.put(chair, place[0], place[1], table.yaw + yaw):
                return True
        return False

    def hang_over(self, to: RoomObject) -> bool:
        """A pendant lamp over another piece."""
        lamp = self.make("pendant_lamp")
        return self.put(lamp, to.location[0], to.location[1], to.yaw, WALL_HEIGHT - float(lamp.half_size[2]))


def _bedroom(b: _Builder) -> bool:
    if not b.at_wall(b.make("bed"), int(b.rng.integers(4)), float(b.rng.uniform(-0.4, 0.4))):
        return False
    bed = b.objects[0]
    for side in (-1, 1):
        if side < 0 or b.rng.random() < 0.7:
            b.relative("nightstand", bed, side * (bed.half_size[0] + 0.34), bed.half_size[1] - 0.25, 0)
    b.somewhere_at_wall("wardrobe")
    extra = b.rng.choice(["dresser", "bookshelf", "armchair", "floor_lamp", "plant", "pendant"], 2, replace=False)
    for kind in extra:
        if kind == "pendant":
            b.hang_over(bed)
        else:
            b.somewhere_at_wall(str(kind))
    return len(b.objects) >= 3


def _living(b: _Builder) -> bool:
    wall = int(b.rng.integers(4))
    if not b.at_wall(b.make("sofa"), wall, float(b.rng.uniform(-0.3, 0.3))):
        return False
    sofa = b.objects[0]
    b.relative("coffee_table", sofa, 0, -sofa.half_size[1] - 0.65, 0)
    bench = b.make("tv_bench")
    b.at_wall(bench, (wall + 2) % 4, float(b.rng.uniform(-0.4, 0.4)))
    if b.rng.random() < 0.7:
        side = 1 if b.rng.random() < 0.5 else -1
        b.relative("armchair", sofa, side * (sofa.half_size[0] + 0.1), -1.6, -side * math.pi / 2)
    for kind in b.rng.choice(["bookshelf", "floor_lamp", "plant", "stool", "dresser"], 2, replace=False):
        b.somewhere_at_wall(str(kind))
    return len(b.objects) >= 3


def _dining(b: _Builder) -> bool:
    x, y = (float(v) for v in b.rng.uniform(-0.4, 0.4, 2))
    if not b.put(b.make("dining_table"), x, y, math.pi / 2 * int(b.rng.integers(2))):
        return False
    table = b.objects[0]
    apart = float(table.half_size[0]) - 0.38
    spots = [(-apart, -1), (apart, -1), (-apart, 1), (apart, 1)]
    for index in b.rng.permutation(4)[: int(b.rng.integers(2, 5))]:
        b.chair_at(table, *spots[int(index)])
    if b.rng.random() < 0.75:
        b.hang_over(table)
    b.somewhere_at_wall(str(b.rng.choice(["dresser", "bookshelf"])))
    if len(b.objects) < 7:
        b.somewhere_at_wall(str(b.rng.choice(["plant", "floor_lamp", "wardrobe"])))
    return len(b.objects) >= 3


def _study(b: _Builder) -> bool:
    if not b.at_wall(b.make("desk"), int(b.rng.integers(4)), float(b.rng.uniform(-0.6, 0.6))):
        return False
    desk = b.objects[0]
    b.chair_at(desk, -0.15, -1)
    b.somewhere_at_wall("bookshelf")
    for kind in b.rng.choice(["armchair", "floor_lamp", "plant", "dresser"], 2, replace=False):
        b.somewhere_at_wall(str(kind))
    if b.rng.random() < 0.6:
        b.somewhere_free("stool")
    return len(b.objects) >= 3


THEMES = {"bedroom": _bedroom, "living room": _living, "dining room": _dining, "study": _study}


def _try_room(rng: np.random.Generator) -> Room | None:
    theme = list(THEMES)[int(rng.integers(len(THEMES)))]
    builder = _Builder(rng)
    if not THEMES[theme](builder) or len(builder.objects) > 7:
        return None
    # Numbers by chance, so that their order tells nothing about the kinds.
    order = rng.permutation(len(builder.objects))
    objects = tuple(
        RoomObject(f"object_{number:02d}", thing.kind, thing.parts, thing.location, thing.yaw)
        for number, thing in sorted(zip((int(n) for n in order), builder.objects, strict=True), key=lambda row: row[0])
    )
    shell = _shell(rng, builder.size, builder.palette, objects)
    cameras = _cameras(rng, builder.size, objects)
    return None if cameras is None else Room(theme, builder.size, objects, shell, cameras)


def _shell(
    rng: np.random.Generator, size: tuple[float, float], palette: Palette, objects: tuple[RoomObject, ...]
) -> tuple[Node, ...]:
    """Floor and four walls, one of another colour; a door, a window and a picture tell the walls apart."""

    def pick(name: str, colors: tuple[str, ...]) -> Material:
        return Material(name, linear(colors[int(rng.integers(len(colors)))]), 0.9)

    plain, accent = pick("wall", WALL_COLORS), pick("wall_two", ACCENT_WALLS)
    glass = Material("glass", linear("bfe0f2"), 0.2, emission=(0.25, 0.35, 0.42))
    floor = pick("floor", FLOORS)
    x, y = size
    nodes = [Node("room_floor", [box((x + 0.16, y + 0.16, 0.1), (0, 0, -0.1), floor, 0.004)])]
    special = int(rng.integers(4))
    for wall in range(4):
        length, distance = (x, y) if wall % 2 == 0 else (y, x)
        at = distance / 2
        # A little longer and deeper than the floor, so that no light comes in where walls and floor meet.
        size3 = (length + 0.04, 0.1, WALL_HEIGHT + 0.05)
        parts = [box(size3, (0, at + 0.05, -0.05), accent if wall == special else plain, 0.004)]
        along = _free_stretch(rng, wall, length, at, objects)
        # Decoration stands 2 cm out of the wall, less than the gap that furniture keeps.
        if wall == (special + 1) % 4:
            parts.append(box((1.3, 0.03, 1.1), (along, at, 1.1), palette.white, 0.006))
            parts.append(box((1.16, 0.03, 0.96), (along, at - 0.008, 1.17), glass, 0.004))
        elif wall == (special + 2) % 4:
            parts.append(box((0.9, 0.03, 2.05), (along, at, 0.0), palette.wood_dark, 0.006))
        elif wall == special:
            parts.append(box((0.8, 0.03, 0.6), (along, at, 1.35), palette.dark, 0.006))
            parts.append(box((0.7, 0.03, 0.5), (along, at - 0.006, 1.4), palette.accent, 0.004))
        turn = _turn(wall * math.pi / 2)
        turned = [Part(part.vertices @ turn.T, part.faces, part.material) for part in parts]
        nodes.append(Node(f"room_wall_{wall}", turned))
    return tuple(nodes)


def _free_stretch(
    rng: np.random.Generator, wall: int, length: float, distance: float, objects: tuple[RoomObject, ...]
) -> float:
    """Where along a wall a door or a window is least hidden by furniture, from a few places drawn by chance."""
    turn = _turn(wall * math.pi / 2)[:2, :2]
    footprints = [thing.corners() @ turn for thing in objects]
    standing = [(foot[:, 0].min(), foot[:, 0].max()) for foot in footprints if foot[:, 1].max() > distance - 0.4]

    def hidden(along: float) -> float:
        return sum(max(0.0, min(high, along + 0.6) - max(low, along - 0.6)) for low, high in standing)

    places = [float(value) for value in rng.uniform(-0.3, 0.3, 9) * length]
    return min(places, key=hidden)


# --- cameras --------------------------------------------------------------------------------------------------------


def _cameras(
    rng: np.random.Generator, size: tuple[float, float], objects: tuple[RoomObject, ...]
) -> tuple[Array, ...] | None:
    """Cameras near the walls all around, at furniture height, that look level across the room at its furniture."""
    points = np.concatenate([_surface_points(rng, thing) for thing in objects])
    owners = np.repeat(np.arange(len(objects)), len(points) // len(objects))
    places = np.array([thing.location[:2] for thing in objects])
    solids = [_solids(thing) for thing in objects]
    half = np.array(size) / 2 - 0.18

    def choose(sector: int, tries: int, spread: float) -> Array | None:
        """The best of some views from about the same place that passes the exact test."""
        found = []
        for _ in range(tries):
            angle = 2 * math.pi * (sector + rng.uniform(-spread, spread)) / CAMERA_COUNT
            out = np.array([math.cos(angle), math.sin(angle)])
            place = np.array([*(out * np.min(half / np.maximum(np.abs(out), 1e-9))), rng.uniform(0.95, 1.65)])
            # Furniture that is far away fits into the picture: aim between two pieces, at the far one rather.
            pair = places[rng.choice(len(objects), 2, replace=False)]
            far = np.linalg.norm(pair - place[:2], axis=1)
            aim = np.array([*(far @ pair / far.sum() + rng.uniform(-0.3, 0.3, 2)), 0.0])
            aim[2] = place[2] - math.hypot(*(aim - place)[:2]) * math.tan(rng.uniform(0.02, 0.2))
            if not _inside_any(place, objects):
                pose = look_at(place, aim)
                found.append((_value(pose, points, owners), pose))
        found.sort(key=lambda row: -row[0])
        return next((pose for value, pose in found if value > 0 and _sees_enough(pose, solids)), None)

    cameras = []
    for sector in range(CAMERA_COUNT):
        # A sector may be full of furniture: then from farther and farther away.
        views = (choose(sector, 12, spread) for spread in (0.8, 1.6, 2.4, CAMERA_COUNT / 2, CAMERA_COUNT / 2))
        camera = next((view for view in views if view is not None), None)
        if camera is None:
            return None
        cameras.append(camera)
    return tuple(cameras)


def survey_cameras(room: Room) -> tuple[Array, ...]:
    """Cameras around the furniture that have all of it in the picture, for views without walls.

    Returns:
        11 poses (4, 4), evenly around; the first one is that which sees the least visible piece best.
    """
    points = np.concatenate([thing.world_vertices() for thing in room.objects])
    centre = (points.min(axis=0) + points.max(axis=0)) / 2
    distance = float(np.linalg.norm(points - centre, axis=1).max()) / math.sin(math.radians(FOV_X_DEG / 2))
    # The furniture itself is the seed: a survey belongs to a room and needs no number of its own.
    rng = np.random.default_rng(np.frombuffer(np.round(points[:64], 4).tobytes(), np.uint32))
    poses = []
    for number in range(CAMERA_COUNT):
        angle = 2 * math.pi * (number + rng.uniform(-0.3, 0.3)) / CAMERA_COUNT
        offset = np.array([distance * math.cos(angle), distance * math.sin(angle), rng.uniform(0.9, 1.9)])
        # As near as the furniture allows; at the full distance its bounding sphere fits for certain.
        views = (look_at(centre + share * offset, centre) for share in (0.55, 0.65, 0.75, 0.85, 1.0))
        poses.append(next(pose for pose in views if _in_picture(pose, points)))
    solids = [_solids(thing) for thing in room.objects]
    best = int(np.argmax([_shares(_distances(pose, solids, 48)).min() for pose in poses]))
    return tuple(poses[best:] + poses[:best])


def _in_picture(pose: Array, points: Array) -> bool:
    """Whether all points lie in the picture, with a small margin; true at the bounding sphere's distance."""
    local = (points - pose[:3, 3]) @ pose[:3, :3]
    reach = math.tan(math.radians(FOV_X_DEG / 2)) * -local[:, 2]
    return bool((local[:, 2] < 0).all() and (np.abs(local[:, :2]) < reach[:, None]).all())


def look_at(place: Array, target: Array) -> Array:
    """(4, 4) camera pose at `place` that looks at `target`, Z up."""
    back = (place - target) / np.linalg.norm(place - target)
    length = math.hypot(back[0], back[1])
    right = np.array([-back[1] / length, back[0] / length, 0.0])
    up = np.array([-back[2] * right[1], back[2] * right[0], length])
    pose = np.eye(4)
    pose[:3] = np.stack([right, up, back, place], axis=1)
    return pose


def _surface_points(rng: np.random.Generator, thing: RoomObject, count: int = 500) -> Array:
    """(N, 3) world points all over an object, uniform by area."""
    corners = np.concatenate([part.vertices[part.faces] for part in thing.parts])
    areas = np.linalg.norm(np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0]), axis=1)
    chosen = corners[rng.choice(len(corners), count, p=areas / areas.sum())]
    u, v = rng.random((2, count, 1))
    u, v = np.where(u + v > 1, 1 - u, u), np.where(u + v > 1, 1 - v, v)
    local = chosen[:, 0] + u * (chosen[:, 1] - chosen[:, 0]) + v * (chosen[:, 2] - chosen[:, 0])
    return local @ _turn(thing.yaw).T + thing.location


def _value(pose: Array, points: Array, owners: NDArray[np.int64], cells: int = 20) -> float:
    """How much a view shows, about: the more objects and the more of each, the better; 0 for a view that will not do.

    Args:
        pose: (4, 4) of the camera.
        points: (N, 3) on the surfaces of all objects, as many on each.
        owners: (N,) number of the object that a point is of.
        cells: per side of the z-buffer.
    """
    focal = cells / 2 / math.tan(math.radians(FOV_X_DEG / 2))
    local = (points - pose[:3, 3]) @ pose[:3, :3]
    depth = np.maximum(-local[:, 2], 0.01)
    column = np.floor(cells / 2 + focal * local[:, 0] / depth).astype(int)
    row = np.floor(cells / 2 - focal * local[:, 1] / depth).astype(int)
    inside = (local[:, 2] < -0.05) & (column >= 0) & (column < cells) & (row >= 0) & (row < cells)
    count = int(owners[-1]) + 1
    whole = np.bincount(owners[inside], minlength=count) * count / len(points)
    cell, number, far = (row * cells + column)[inside], owners[inside], depth[inside]
    if not len(far) or far.min() < NEAREST:
        return 0.0
    order = np.argsort(-far, kind="stable")
    front = np.full(cells * cells, count)
    front[cell[order]] = number[order]
    shares = np.bincount(front, minlength=count + 1)[:count] / cells**2
    return float((np.minimum(shares, 0.1) * (0.3 + whole)).sum())


def _sees_enough(pose: Array, solids: list[_Solids], cells: int = 24) -> bool:
    """Whether at least two objects are seen well, none fills the picture and nothing is close: by casting rays."""
    distances = _distances(pose, solids, cells)
    shares = _shares(distances)
    return bool((shares >= SEEN_SHARE).sum() >= 2 and shares.max() <= 0.5 and distances.min() >= NEAREST)


def _shares(distances: Array) -> Array:
    """(N,) part of the picture that each object owns, from `_distances`."""
    hit = np.isfinite(distances).any(axis=0)
    return np.bincount(distances.argmin(axis=0)[hit], minlength=len(distances)) / distances.shape[1]


def _distances(pose: Array, solids: list[_Solids], cells: int) -> Array:
    """(N, cells * cells) where a grid of rays enters each object; infinite where it does not."""
    steps = ((np.arange(cells) + 0.5) / cells * 2 - 1) * math.tan(math.radians(FOV_X_DEG / 2))
    x, y = np.meshgrid(steps, -steps)
    rays = np.stack([x.ravel(), y.ravel(), np.full(cells * cells, -1.0)], axis=1) @ pose[:3, :3].T
    return np.stack([_ray_distances(pose[:3, 3], rays, thing) for thing in solids])


def _ray_distances(origin: Array, rays: Array, thing: _Solids) -> Array:
    """(N,) where rays enter one of an object's solids, each taken as its box; infinite where none."""
    start, along = (origin - thing.location) @ thing.turn, rays @ thing.turn
    along = np.where(np.abs(along) < 1e-12, 1e-12, along)
    enter, leave = np.full((2, len(rays), len(thing.low)), [[[-np.inf]], [[np.inf]]])
    for axis in range(3):
        one = (thing.low[:, axis] - start[axis]) / along[:, axis, None]
        two = (thing.high[:, axis] - start[axis]) / along[:, axis, None]
        enter = np.maximum(enter, np.minimum(one, two))
        leave = np.minimum(leave, np.maximum(one, two))
    return np.where((leave >= enter) & (leave > 0), enter, np.inf).min(axis=1)


def _inside_any(place: Array, objects: tuple[RoomObject, ...], margin: float = 0.25) -> bool:
    for thing in objects:
        local = (place - thing.location) @ _turn(thing.yaw)
        if (np.abs(local) < thing.half_size + margin).all():
            return True
    return False


# --- geometry -------------------------------------------------------------------------------------------------------


def _turn(yaw: float) -> Array:
    """(3, 3) rotation about Z."""
    c, s = math.cos(yaw), math.sin(yaw)
    return np.array([[c, -s, 0.0], [s, c, 0.0], [0.0, 0.0, 1.0]])


def _wrapped(yaw: float) -> float:
    """The same angle in [-pi, pi)."""
    return float((yaw + math.pi) % (2 * math.pi) - math.pi)


@dataclass(frozen=True, eq=False)
class _Solids:
    """The bounding boxes of an object's parts, in the object's own frame.

    Attributes:
        low: (P, 3) lower corners.
        high: (P, 3) upper corners.
        location: world position of the object's frame.
        turn: (3, 3) rotation of the object's frame.
    """

    low: Array
    high: Array
    location: Array
    turn: Array


def _solids(thing: RoomObject) -> _Solids:
    low = np.array([part.vertices.min(axis=0) for part in thing.parts])
    high = np.array([part.vertices.max(axis=0) for part in thing.parts])
    return _Solids(low, high, thing.location, _turn(thing.yaw))


def _collide(first: RoomObject, second: RoomObject) -> bool:
    """Whether two pieces may not stand like this: a chair may reach under a table, all others need free floor."""
    if not _overlap(first, second):
        return False
    if {"chair"} < {first.kind, second.kind} <= {"chair", "dining_table", "desk"}:
        return any(_overlap(a, b, 0.015) for a in _pieces(first) for b in _pieces(second))
    return True


def _pieces(thing: RoomObject) -> list[RoomObject]:
    """Each part alone, centred on its own bounding box as `_overlap` expects it."""
    pieces = []
    for part in thing.parts:
        centre = (part.vertices.min(axis=0) + part.vertices.max(axis=0)) / 2
        place = thing.location + _turn(thing.yaw) @ centre
        pieces.append(RoomObject("", thing.kind, (part.moved(-centre),), place, thing.yaw))
    return pieces


def _overlap(first: RoomObject, second: RoomObject, margin: float = 0.03) -> bool:
    """Whether two pieces' oriented boxes come closer than the margin (separating axes of two upright boxes)."""
    rise = abs(first.location[2] - second.location[2]) - first.half_size[2] - second.half_size[2]
    if rise > 0:
        return False
    a, b = first.corners(), second.corners()
    for yaw in (first.yaw, second.yaw):
        for axis in (_turn(yaw)[:2, 0], _turn(yaw)[:2, 1]):
            p, q = a @ axis, b @ axis
            if p.min() > q.max() + margin or q.min() > p.max() + margin:
                return False
    return True
