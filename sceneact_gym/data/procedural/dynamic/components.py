"""The component library of dynamic scenes: one function per thing, real or toy sizes in metres.

A component stands on z = 0 with its front towards -Y, unless its text says where its origin is. Solids that reach into
each other never share a plane: path tracers draw such places as black patches.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from sceneact_gym.data.glb import Material, Part
from sceneact_gym.data.procedural.furniture import linear
from sceneact_gym.data.procedural.shapes import box, cylinder, facing, lathe, lying, prism, sweep

Parts = list[Part]

PAINTS = {
    "red": "d13f35",
    "blue": "2f6fb5",
    "yellow": "f0b429",
    "green": "3f9b5c",
    "white": "eef0ee",
    "orange": "e8792b",
}


def paint(code: str, name: str, roughness: float = 0.5, metallic: float = 0.0) -> Material:
    """A material by its colour code."""
    return Material(name, linear(code), roughness, metallic)


RUBBER = paint("22242a", "rubber", 0.9)
GLASS = paint("26414f", "glass", 0.15)
STEEL = paint("9aa1a8", "steel", 0.35, 1.0)
DARK = paint("3a3f47", "dark", 0.6)
WOOD = paint("a8713f", "wood", 0.75)
PLANK = paint("c99a62", "plank", 0.75)
STONE = paint("a9a39a", "stone", 0.9)
SLATE = paint("5d6470", "slate", 0.8)
BRICK = paint("b5654a", "brick", 0.85)
PLASTER = paint("ece3d0", "plaster", 0.9)
LEAF = paint("4f9148", "leaf", 0.9)
NEEDLE = paint("2f6b45", "needle", 0.9)
BARK = paint("6d4c33", "bark", 0.9)
LAMP = Material("lamp", linear("fff1c4"), 0.6, emission=(0.6, 0.5, 0.25))
SAIL = paint("f7f3e8", "sail", 0.9)
SAND = paint("dcc48f", "sand", 0.95)
GOLD = paint("e6b23a", "gold", 0.3, 1.0)


def _color(name: str) -> Material:
    return paint(PAINTS[name], f"paint_{name}", 0.35)


def _wheels(width: float, axles: Sequence[float], radius: float, thick: float = 0.24) -> Parts:
    """Pairs of wheels on axles at these y."""
    parts: Parts = []
    for y in axles:
        for x in (-width / 2, width / 2):
            tyre = cylinder(radius, thick, (0, 0, -thick / 2), RUBBER, segments=18)
            hub = cylinder(0.55 * radius, thick + 0.04, (0, 0, -thick / 2 - 0.02), STEEL, segments=10)
            parts += [lying(tyre, (x, y, radius)), lying(hub, (x, y, radius))]
    return parts


def _square(x: float, y: float, z: float, half: float) -> list[tuple[float, float, float]]:
    """A level square, for columns that taper or lean."""
    return [(x + a * half, y + b * half, z) for a, b in ((-1, -1), (1, -1), (1, 1), (-1, 1))]


def _cabin(width: float, side: Sequence[tuple[float, float]], material: Material) -> Part:
    """A side view of (y, z) points, `width` wide."""
    return prism(side, -width / 2, width / 2, material, axis=0)


# --- road -----------------------------------------------------------------------------------------------------------


def car(color: str) -> Parts:
    """A hatchback of 4 m."""
    return [
        *_wheels(1.66, (-1.25, 1.25), 0.34),
        box((1.78, 4.0, 0.55), (0, 0, 0.3), _color(color), 0.16),
        _cabin(1.6, [(-0.95, 0.8), (1.6, 0.8), (1.25, 1.42), (-0.2, 1.42)], GLASS),
        box((1.5, 1.4, 0.09), (0, 0.55, 1.39), _color(color), 0.04),
        *[box((0.34, 0.08, 0.16), (x, -2.0, 0.55), LAMP, 0.03) for x in (-0.6, 0.6)],
        *[box((0.3, 0.08, 0.14), (x, 2.0, 0.58), paint("a31f22", "tail"), 0.03) for x in (-0.65, 0.65)],
    ]


def van(color: str) -> Parts:
    """A delivery van of 5 m."""
    return [
        *_wheels(1.86, (-1.6, 1.5), 0.38),
        box((2.0, 3.6, 1.9), (0, 0.7, 0.4), _color(color), 0.12),
        _cabin(1.94, [(-2.45, 0.45), (-1.0, 0.45), (-1.0, 2.05), (-1.5, 2.05), (-2.3, 1.2)], PLASTER),
        _cabin(1.6, [(-2.36, 1.24), (-1.6, 1.95), (-1.54, 1.98), (-1.54, 1.24)], GLASS),
        *[box((0.32, 0.08, 0.2), (x, -2.44, 0.7), LAMP, 0.03) for x in (-0.7, 0.7)],
    ]


def truck(color: str) -> Parts:
    """A lorry of 7.5 m with a flat bed and its load."""
    return [
        *_wheels(2.1, (-2.7, 1.4, 2.6), 0.48, 0.32),
        box((2.2, 7.4, 0.25), (0, 0, 0.62), DARK, 0.04),
        box((2.3, 1.9, 2.1), (0, -2.72, 0.8), _color(color), 0.16),
        box((2.0, 0.1, 0.8), (0, -3.66, 1.85), GLASS, 0.04),
        box((2.3, 5.1, 0.18), (0, 1.15, 0.86), PLANK, 0.03),
        *[box((1.4, 1.4, 1.2), (0, y, 1.03), WOOD, 0.05) for y in (-0.5, 1.1)],
        lying(cylinder(0.5, 2.0, (0, 0, -1.0), STEEL), (0, 2.7, 1.53)),
    ]


def bus(color: str) -> Parts:
    """A town bus of 9 m."""
    return [
        *_wheels(2.2, (-2.8, 2.6), 0.46, 0.3),
        box((2.4, 9.0, 2.35), (0, 0, 0.4), _color(color), 0.2),
        box((2.46, 8.2, 0.8), (0, 0.1, 1.55), GLASS, 0.06),
        box((2.0, 0.1, 1.1), (0, -4.49, 1.3), GLASS, 0.05),
        box((1.6, 3.0, 0.3), (0, 0.6, 2.72), PLASTER, 0.1),
    ]


def racing_car(color: str) -> Parts:
    """A low car of 4.4 m with wings."""
    return [
        *_wheels(1.7, (-1.5, 1.45), 0.36, 0.4),
        _cabin(0.9, [(-2.2, 0.25), (2.0, 0.25), (1.9, 0.75), (0.3, 0.85), (-2.2, 0.4)], _color(color)),
        box((1.5, 1.7, 0.35), (0, 0.5, 0.22), _color(color), 0.12),
        box((1.8, 0.4, 0.07), (0, -2.1, 0.22), DARK, 0.02),
        box((1.7, 0.45, 0.07), (0, 1.95, 1.0), DARK, 0.02),
        *[box((0.07, 0.35, 0.4), (x, 1.93, 0.65), DARK, 0.02) for x in (-0.5, 0.5)],
        lathe([(0, 0), (0.24, 0.05), (0.26, 0.25), (0.14, 0.42), (0, 0.46)], (0, 0.2, 0.7), PLASTER, 14),
    ]


def road(length: float, width: float = 7.0, lines: Sequence[float] = (0.0,)) -> Parts:
    """A strip of asphalt along Y with broken lines at these x."""
    dashes = np.arange(-length / 2 + 1.5, length / 2 - 1.0, 3.0)
    white = paint("f2f2ee", "marking", 0.8)
    return [
        box((width, length, 0.06), (0, 0, 0), paint("4b4f55", "asphalt", 0.95), 0.01),
        *[box((0.16, 1.4, 0.02), (x, y, 0.055), white, 0.005) for x in lines for y in dashes],
        *[box((0.14, length - 0.1, 0.02), (x, 0, 0.055), white, 0.005) for x in (-width / 2 + 0.25, width / 2 - 0.25)],
    ]


def _arc(radius: float, width: float, low: float, high: float, angle: float, material: Material, steps: int) -> Part:
    """A bent bar about the Z axis, from +X by `angle` (radians)."""
    inner, outer = radius - width / 2, radius + width / 2
    corner = [(inner, low), (outer, low), (outer, high), (inner, high)]
    turns = np.linspace(0, angle, steps + 1)
    return sweep([[(r * np.cos(t), r * np.sin(t), z) for r, z in corner] for t in turns], material)


def road_curve(radius: float, width: float = 5.0) -> Parts:
    """A quarter of a round road; its origin is the centre of the circle, it begins on +X."""
    white = paint("f2f2ee", "marking", 0.8)
    return [
        _arc(radius, width, 0, 0.06, np.pi / 2, paint("4b4f55", "asphalt", 0.95), 16),
        *[_arc(radius + x, 0.16, 0.05, 0.08, np.pi / 2, white, 16) for x in (-width / 2 + 0.3, width / 2 - 0.3)],
    ]


def cone(_: str = "") -> Parts:
    """A traffic cone of 0.9 m."""
    orange = _color("orange")
    return [
        box((0.7, 0.7, 0.08), (0, 0, 0), orange, 0.02),
        lathe([(0, 0.07), (0.26, 0.07), (0.17, 0.4), (0, 0.4)], (0, 0, 0), orange, 14),
        lathe([(0, 0.39), (0.175, 0.39), (0.12, 0.6), (0, 0.6)], (0, 0, 0), SAIL, 14),
        lathe([(0, 0.59), (0.12, 0.59), (0.04, 0.9), (0, 0.9)], (0, 0, 0), orange, 14),
    ]


def lamp_post(_: str = "") -> Parts:
    """A street lamp of 4.5 m."""
    return [
        cylinder(0.2, 0.25, (0, 0, 0), DARK),
        cylinder(0.07, 4.3, (0, 0, 0.2), DARK, segments=10),
        box((0.1, 1.1, 0.1), (0, -0.5, 4.4), DARK, 0.03),
        box((0.3, 0.5, 0.12), (0, -0.9, 4.3), LAMP, 0.04),
    ]


def house(color: str) -> Parts:
    """A house of 7 by 6 m with a gable roof."""
    wall = paint({"red": "c98a72", "blue": "a9bfd0"}.get(color, "e6d6b8"), f"wall_{color}", 0.9)
    parts = [
        box((7.0, 6.0, 3.2), (0, 0, 0), wall, 0.04),
        prism([(-3.9, 3.1), (3.9, 3.1), (0, 5.6)], -3.4, 3.4, BRICK),
        box((0.8, 0.8, 2.0), (2.0, 1.2, 3.9), STONE, 0.04),
        box((1.1, 0.12, 2.1), (0, -3.0, 0), WOOD, 0.03),
        *[box((1.2, 0.12, 1.2), (x, -3.0, 1.1), GLASS, 0.03) for x in (-2.2, 2.2)],
        *[box((0.12, 1.3, 1.2), (x, y, 1.1), GLASS, 0.03) for x in (-3.5, 3.5) for y in (-1.4, 1.4)],
    ]
    return parts


def block(color: str) -> Parts:
    """A town house of 8 by 8 m and 11 m, with rows of windows."""
    wall = paint({"red": "b97a66", "blue": "8fa5b8"}.get(color, "d8cdb8"), f"wall_{color}", 0.9)
    parts = [box((8.0, 8.0, 11.0), (0, 0, 0), wall, 0.05), box((8.4, 8.4, 0.4), (0, 0, 10.9), SLATE, 0.05)]
    for z in (1.2, 4.0, 6.8):
        for x in (-2.5, 0.0, 2.5):
            parts += [box((1.3, 0.14, 1.6), (x, y, z), GLASS, 0.03) for y in (-4.0, 4.0)]
            parts += [box((0.14, 1.3, 1.6), (y, x, z), GLASS, 0.03) for y in (-4.0, 4.0)]
    return parts


# --- nature ---------------------------------------------------------------------------------------------------------


def tree(_: str = "") -> Parts:
    """A round tree of 4.6 m."""
    crown = [(0, 1.5), (1.1, 1.8), (1.55, 2.7), (1.2, 3.7), (0.5, 4.4), (0, 4.6)]
    return [
        lathe([(0, 0), (0.28, 0), (0.18, 1.9), (0, 1.9)], (0, 0, 0), BARK, 10),
        lathe(crown, (0, 0, 0), LEAF, 12),
    ]


def pine(_: str = "") -> Parts:
    """A fir of 5.2 m."""
    return [
        cylinder(0.22, 1.0, (0, 0, 0), BARK, segments=10),
        *[
            lathe([(0, z), (r, z), (0.12, z + 1.9), (0, z + 2.0)], (0, 0, 0), NEEDLE, 12)
            for z, r in ((0.8, 1.5), (1.9, 1.2), (3.1, 0.85))
        ],
    ]


def bush(_: str = "") -> Parts:
    """A bush of 1 m."""
    return [lathe([(0, 0), (0.75, 0.05), (0.9, 0.45), (0.55, 0.95), (0, 1.05)], (0, 0, 0), LEAF, 12)]


def rock(_: str = "") -> Parts:
    """A boulder of 1.4 m."""
    return [
        lathe([(0, 0), (1.0, 0), (1.1, 0.5), (0.6, 1.2), (0, 1.35)], (0, 0, 0), STONE, 7),
        lathe([(0, 0), (0.55, 0), (0.5, 0.5), (0, 0.75)], (1.05, 0.4, 0), STONE, 6),
    ]


# --- rail -----------------------------------------------------------------------------------------------------------


def track_curve(radius: float) -> Parts:
    """An eighth of a circle of track; its origin is the centre of the circle, it begins on +X."""
    angle = np.pi / 4
    parts = [
        _arc(radius, 1.9, 0, 0.1, angle, STONE, 8),
        *[_arc(radius + x, 0.12, 0.15, 0.28, angle, STEEL, 12) for x in (-0.55, 0.55)],
    ]
    for t in (np.arange(7) + 0.5) / 7 * angle:
        (sleeper,) = [box((1.7, 0.28, 0.1), (0, 0, 0.08), WOOD, 0.02)]
        turn = np.array([[np.cos(t), -np.sin(t), 0], [np.sin(t), np.cos(t), 0], [0, 0, 1]])
        moved = (sleeper.vertices + [radius, 0, 0]) @ turn.T
        parts.append(Part(moved, sleeper.faces, WOOD))
    return parts


def locomotive(color: str) -> Parts:
    """A steam engine of 4 m."""
    return [
        *_wheels(1.14, (-1.2, -0.3, 0.9), 0.36, 0.14),
        box((1.3, 3.7, 0.3), (0, 0, 0.5), DARK, 0.05),
        facing(cylinder(0.55, 2.3, (0, 0, 0), _color(color)), (0, 0.5, 1.3)),
        box((1.35, 1.3, 1.5), (0, 1.15, 0.75), _color(color), 0.08),
        box((1.6, 1.6, 0.14), (0, 1.15, 2.25), DARK, 0.05),
        box((1.38, 0.6, 0.5), (0, 1.1, 1.55), GLASS, 0.03),
        lathe([(0, 0), (0.16, 0), (0.15, 0.5), (0.27, 0.75), (0, 0.75)], (0, -1.35, 1.75), DARK, 14),
        lathe([(0, 0), (0.2, 0), (0.18, 0.2), (0, 0.32)], (0, -0.4, 1.78), GOLD, 14),
    ]


def wagon(color: str) -> Parts:
    """An open goods wagon of 3.2 m with a load."""
    return [
        *_wheels(1.14, (-0.95, 0.95), 0.34, 0.14),
        box((1.3, 3.2, 0.22), (0, 0, 0.46), DARK, 0.04),
        *[box((0.1, 3.1, 0.75), (x, 0, 0.65), _color(color), 0.03) for x in (-0.6, 0.6)],
        *[box((1.25, 0.1, 0.72), (0, y, 0.65), _color(color), 0.03) for y in (-1.5, 1.5)],
        lathe([(0, 0), (0.62, 0), (0.4, 0.35), (0, 0.45)], (0, -0.7, 1.1), DARK, 9),
        lathe([(0, 0), (0.62, 0), (0.45, 0.3), (0, 0.42)], (0, 0.65, 1.1), DARK, 8),
        box((1.15, 2.9, 0.5), (0, 0, 0.64), DARK, 0.05),
    ]


def tank_wagon(color: str) -> Parts:
    """A tank wagon of 3.2 m."""
    return [
        *_wheels(1.14, (-0.95, 0.95), 0.34, 0.14),
        box((1.3, 3.2, 0.22), (0, 0, 0.46), DARK, 0.04),
        facing(cylinder(0.62, 2.7, (0, 0, 0), _color(color)), (0, 1.35, 1.3)),
        cylinder(0.25, 0.3, (0, 0, 1.85), DARK, segments=14),
    ]


def station(_: str = "") -> Parts:
    """A platform of 8 m with a roof."""
    return [
        box((3.0, 8.0, 0.6), (0, 0, 0), STONE, 0.05),
        *[box((0.2, 0.2, 2.6), (0.6, y, 0.55), WOOD, 0.04) for y in (-2.8, 2.8)],
        box((2.6, 7.0, 0.2), (0.3, 0, 3.1), BRICK, 0.05),
        box((0.5, 2.2, 0.12), (0.9, 0, 1.0), PLANK, 0.03),
        *[box((0.4, 0.12, 0.5), (0.9, y, 0.55), DARK, 0.03) for y in (-0.8, 0.8)],
    ]


def signal(_: str = "") -> Parts:
    """A railway signal of 3.4 m."""
    return [
        cylinder(0.08, 3.0, (0, 0, 0), DARK, segments=10),
        box((0.45, 0.16, 1.0), (0, 0, 2.5), DARK, 0.05),
        box((0.26, 0.1, 0.26), (0, -0.1, 3.1), paint("d13f35", "signal_red"), 0.05),
        box((0.26, 0.1, 0.26), (0, -0.1, 2.65), LAMP, 0.05),
        cylinder(0.25, 0.2, (0, 0, 0), STONE),
    ]


# --- water ----------------------------------------------------------------------------------------------------------


def _hull(length: float, width: float, height: float, material: Material) -> Part:
    """A hull whose bow points to -Y; its waterline is z = 0."""
    half, w = length / 2, width / 2
    top = np.array([(-w, half), (w, half), (w, -0.1 * half), (0.55 * w, -0.7 * half), (0, -half)])
    top = np.concatenate([top, [(-0.55 * w, -0.7 * half), (-w, -0.1 * half)]])
    keel = top * [0.6, 0.85]
    return sweep(
        [np.insert(keel, 2, -0.35 * height, axis=1), np.insert(top, 2, 0.65 * height, axis=1)], material
    )


def sailboat(color: str) -> Parts:
    """A sailing boat of 5 m; z = 0 is its waterline."""
    return [
        _hull(5.0, 1.8, 1.1, _color(color)),
        _hull(4.6, 1.5, 0.3, PLANK).moved((0, 0, 0.62)),
        cylinder(0.07, 5.2, (0, -0.3, 0.6), WOOD, segments=10),
        sweep([[(x, -0.15, 1.3), (x, 2.1, 1.3), (x, -0.15, 5.4)] for x in (-0.03, 0.03)], SAIL),
        sweep([[(x, -0.45, 1.1), (x, -2.2, 1.1), (x, -0.45, 4.6)] for x in (-0.03, 0.03)], SAIL),
        facing(cylinder(0.05, 2.3, (0, 0, 0), WOOD, segments=8), (0, 2.1, 1.2)),
    ]


def motorboat(color: str) -> Parts:
    """A fast boat of 5 m; z = 0 is its waterline."""
    return [
        _hull(5.0, 1.9, 1.0, SAIL),
        _hull(4.9, 1.95, 0.24, _color(color)).moved((0, 0, 0.35)),
        _cabin(1.3, [(-0.9, 0.6), (0.9, 0.6), (0.8, 1.3), (-0.3, 1.3)], GLASS),
        box((0.5, 0.5, 0.9), (0, 2.55, -0.1), DARK, 0.1),
    ]


def tugboat(color: str) -> Parts:
    """A tug of 6 m; z = 0 is its waterline."""
    return [
        _hull(6.0, 2.5, 1.6, _color(color)),
        _hull(5.6, 2.2, 0.3, PLANK).moved((0, 0, 0.95)),
        box((1.6, 2.2, 1.4), (0, 0.1, 1.05), SAIL, 0.08),
        box((1.66, 0.9, 0.5), (0, -0.62, 1.75), GLASS, 0.04),
        lathe([(0, 0), (0.32, 0), (0.28, 1.3), (0, 1.3)], (0, 0.9, 2.4), _color("orange"), 14),
    ]


def buoy(_: str = "") -> Parts:
    """A buoy of 1.6 m; z = 0 is its waterline."""
    return [
        lathe([(0, -0.3), (0.5, -0.2), (0.55, 0.2), (0.2, 0.5), (0.14, 1.1), (0, 1.1)], (0, 0, 0), _color("red"), 14),
        lathe([(0, 1.08), (0.2, 1.08), (0.16, 1.35), (0, 1.4)], (0, 0, 0), LAMP, 12),
    ]


def island(_: str = "") -> Parts:
    """A small island of 6 m with a palm."""
    turns = np.arange(8) * np.pi / 4
    trunk = [[(0.15 * np.cos(a) + 0.12 * z, 0.15 * np.sin(a), 0.6 + z) for a in turns] for z in range(5)]
    parts = [
        lathe([(0, -0.4), (3.2, -0.4), (2.6, 0.25), (1.2, 0.75), (0, 0.85)], (0, 0, 0), SAND, 16),
        sweep(trunk, BARK),
        lathe([(0, 0), (0.9, 0.1), (0.7, 0.5), (0, 0.6)], (-1.0, 1.0, 0.4), LEAF, 10),
    ]
    for angle in np.arange(6) * np.pi / 3:
        c, s = np.cos(angle), np.sin(angle)
        rings = [
            [(0.48 + d * c - w * s, d * s + w * c, z) for w, z in ((-e, h), (e, h), (0, h + 0.12))]
            for d, e, h in ((0.1, 0.14, 4.55), (0.9, 0.34, 4.75), (1.8, 0.05, 4.15))
        ]
        parts.append(sweep(rings, LEAF))
    return parts


def lighthouse(_: str = "") -> Parts:
    """A lighthouse of 9 m on a rock."""
    return [
        lathe([(0, -0.4), (2.6, -0.4), (2.2, 0.5), (0, 0.7)], (0, 0, 0), STONE, 9),
        *[
            lathe([(0, z), (r, z), (r - 0.14, z + 1.6), (0, z + 1.6)], (0, 0, 0), m, 18)
            for z, r, m in (
                (0.5, 1.15, SAIL),
                (2.05, 1.02, _color("red")),
                (3.6, 0.9, SAIL),
                (5.15, 0.78, _color("red")),
            )
        ],
        cylinder(0.95, 0.2, (0, 0, 6.7), DARK),
        cylinder(0.45, 1.0, (0, 0, 6.88), LAMP, segments=14),
        lathe([(0, 7.85), (0.75, 7.85), (0, 8.7)], (0, 0, 0), _color("red"), 14),
    ]


def quay(_: str = "") -> Parts:
    """A quay of 38 by 6 m along X; its top is at z = 0.9."""
    return [
        box((38.0, 6.0, 1.3), (0, 0, -0.4), STONE, 0.05),
        *[cylinder(0.22, 0.5, (x, -2.5, 0.88), DARK, segments=12) for x in np.linspace(-16, 16, 5)],
    ]


def pier(_: str = "") -> Parts:
    """A landing stage of 9 m along Y."""
    return [
        box((2.2, 9.0, 0.2), (0, 0, 0.75), PLANK, 0.03),
        *[cylinder(0.16, 2.0, (x, y, -0.6), WOOD, segments=10) for x in (-0.95, 0.95) for y in (-4.0, -1.4, 1.4, 4.0)],
    ]


# --- factory --------------------------------------------------------------------------------------------------------


def conveyor(length: float) -> Parts:
    """A belt along Y whose top is at 0.9 m."""
    return [
        box((1.3, length, 0.12), (0, 0, 0.78), RUBBER, 0.03),
        *[box((0.12, length + 0.1, 0.26), (x, 0, 0.7), _color("yellow"), 0.03) for x in (-0.72, 0.72)],
        *[lying(cylinder(0.16, 1.32, (0, 0, -0.66), STEEL), (0, y, 0.75)) for y in (-length / 2, length / 2)],
        *[
            box((0.14, 0.14, 0.72), (x, y, 0), DARK, 0.03)
            for x in (-0.65, 0.65)
            for y in np.linspace(-length / 2 + 0.6, length / 2 - 0.6, 4)
        ],
    ]


def crate(color: str) -> Parts:
    """A wooden crate of 0.9 m with painted edges."""
    edge = _color(color)
    return [
        box((0.86, 0.86, 0.86), (0, 0, 0.02), PLANK, 0.02),
        *[box((0.12, 0.12, 0.9), (x, y, 0), edge, 0.02) for x in (-0.4, 0.4) for y in (-0.4, 0.4)],
        *[box((0.92, 0.13, 0.13), (0, y, z), edge, 0.02) for y in (-0.4, 0.4) for z in (-0.005, 0.78)],
        *[box((0.13, 0.92, 0.13), (x, 0, z), edge, 0.02) for x in (-0.4, 0.4) for z in (-0.006, 0.779)],
    ]


def barrel(color: str) -> Parts:
    """An oil drum of 1.1 m."""
    rim = [(0, 0), (0.4, 0), (0.4, 0.35), (0.43, 0.37), (0.4, 0.4), (0.4, 0.72), (0.43, 0.74), (0.4, 0.77), (0.4, 1.1)]
    return [lathe([*rim, (0, 1.1)], (0, 0, 0), _color(color), 18)]


def gantry(_: str = "") -> Parts:
    """A lifting frame of 3.4 by 3.4 m and 6 m; a lift_platform runs up and down in it."""
    return [
        *[box((0.3, 0.3, 6.0), (x, y, 0), _color("yellow"), 0.04) for x in (-1.6, 1.6) for y in (-1.6, 1.6)],
        *[box((3.5, 0.26, 0.3), (0, y, 5.9), DARK, 0.04) for y in (-1.6, 1.6)],
        *[box((0.27, 3.5, 0.31), (x, 0, 5.92), DARK, 0.04) for x in (-1.6, 1.6)],
        box((3.8, 3.8, 0.15), (0, 0, 0), DARK, 0.03),
    ]


def lift_platform(_: str = "") -> Parts:
    """A platform of 2.7 m with rails; its floor is at z = 0.25."""
    return [
        box((2.7, 2.7, 0.25), (0, 0, 0), STEEL, 0.04),
        *[box((0.08, 2.6, 0.08), (x, 0, 1.0), _color("red"), 0.02) for x in (-1.25, 1.25)],
        *[box((0.1, 0.1, 0.85), (x, y, 0.2), _color("red"), 0.02) for x in (-1.25, 1.25) for y in (-1.25, 1.25)],
    ]


def crane_tower(_: str = "") -> Parts:
    """The mast of a crane, 7.2 m; a crane_jib turns on its top."""
    braces = [box((0.14, 0.9, 0.14), (x, 0, z), DARK, 0.03) for x in (-0.4, 0.4) for z in np.arange(0.8, 6.8, 1.2)]
    return [
        box((2.4, 2.4, 0.4), (0, 0, 0), STONE, 0.05),
        *[box((0.18, 0.18, 6.9), (x, y, 0.3), _color("yellow"), 0.03) for x in (-0.42, 0.42) for y in (-0.42, 0.42)],
        *braces,
    ]


def crane_jib(_: str = "") -> Parts:
    """The arm of a crane, 9 m long to the front, with cabin and hook; its origin is on the axis at its lower side."""
    return [
        cylinder(0.5, 0.3, (0, 0, 0), DARK),
        box((1.1, 1.2, 1.3), (0, 0, 0.28), _color("yellow"), 0.08),
        box((1.0, 0.1, 0.7), (0, -0.6, 0.7), GLASS, 0.03),
        box((0.4, 9.4, 0.45), (0, -2.6, 1.55), _color("yellow"), 0.05),
        box((1.2, 0.9, 0.8), (0, 1.9, 1.2), STONE, 0.06),
        box((0.05, 0.05, 2.6), (0, -6.6, -1.0), DARK, 0.01),
        box((0.9, 0.9, 0.7), (0, -6.6, -1.7), WOOD, 0.04),
    ]


def shed(_: str = "") -> Parts:
    """A workshop of 6 by 4 m with a saw-tooth roof."""
    return [
        box((6.0, 4.0, 3.0), (0, 0, 0), BRICK, 0.04),
        *[prism([(x, 2.95), (x + 2.0, 2.95), (x, 4.1)], -2.0, 2.0, SLATE) for x in (-3.0, -1.0, 1.0)],
        box((2.0, 0.14, 2.3), (-1.2, -2.0, 0), STEEL, 0.03),
        box((1.5, 0.14, 1.0), (1.6, -2.0, 1.3), GLASS, 0.03),
    ]


# --- playground -----------------------------------------------------------------------------------------------------


def ball(color: str, radius: float = 0.6) -> Parts:
    """A ball with two coloured caps; its origin is its centre."""
    angles = np.linspace(-np.pi / 2, np.pi / 2, 13)
    profile = [(radius * np.cos(a) if abs(a) < 1.57 else 0.0, radius * np.sin(a)) for a in angles]
    belt = [(0.0, profile[4][1]), *profile[4:9], (0.0, profile[8][1])]
    return [
        lathe([*profile[:5], (0.0, profile[4][1])], (0, 0, 0), _color(color), 18),
        lathe(belt, (0, 0, 0), SAIL, 18),
        lathe([(0.0, profile[8][1]), *profile[8:]], (0, 0, 0), _color(color), 18),
        *[box((0.16, 0.16, 0.16), (s * (radius - 0.1), 0, -0.08), _color(color), 0.05) for s in (-1, 1)],
    ]


def spinning_top(color: str) -> Parts:
    """A top of 1.2 m; its origin is its tip."""
    body = [(0, 0), (0.1, 0.12), (0.62, 0.55), (0.62, 0.68), (0.16, 0.85), (0.09, 1.2), (0, 1.22)]
    return [
        lathe(body, (0, 0, 0), _color(color), 20),
        *[box((0.5, 0.12, 0.1), (s * 0.38, 0, 0.62), SAIL, 0.03) for s in (-1, 1)],
    ]


def ramp(_: str = "") -> Parts:
    """A slope along Y that falls from 2.4 m at +Y to 0.1 m at -Y over 6 m, with kerbs."""
    return [
        prism([(-3.0, 0), (3.0, 0), (3.0, 2.4), (-3.0, 0.1)], -0.9, 0.9, PLANK, axis=0),
        *[
            prism([(-3.0, 0.0), (3.05, 0.0), (3.05, 2.7), (-3.0, 0.4)], x - 0.09, x + 0.09, _color("blue"), axis=0)
            for x in (-0.95, 0.95)
        ],
    ]


def swing_frame(_: str = "") -> Parts:
    """A frame of 3.2 m; the swing's axis lies along X at z = 3.1."""
    legs = [
        sweep([_square(x, y, 0.0, 0.08), _square(x, 0.06 * y, 3.12, 0.08)], _color("green"))
        for x in (-1.5, 1.5)
        for y in (-1.2, 1.2)
    ]
    return [lying(cylinder(0.09, 3.2, (0, 0, -1.6), STEEL, segments=12), (0, 0, 3.1)), *legs]


def swing_seat(_: str = "") -> Parts:
    """The moving part of a swing, 2.5 m; its origin is on the axis above."""
    return [
        box((1.2, 0.5, 0.1), (0, 0, -2.5), _color("red"), 0.03),
        *[box((0.06, 0.06, 2.45), (x, 0, -2.42), DARK, 0.02) for x in (-0.5, 0.5)],
    ]


def seesaw_base(_: str = "") -> Parts:
    """The stand of a seesaw; the axis lies along X at z = 0.75."""
    return [
        prism([(-0.6, 0), (0.6, 0), (0.12, 0.72), (-0.12, 0.72)], -0.35, 0.35, _color("blue"), axis=0),
        lying(cylinder(0.09, 0.9, (0, 0, -0.45), STEEL, segments=12), (0, 0, 0.72)),
    ]


def seesaw_plank(_: str = "") -> Parts:
    """The plank of a seesaw, 4.4 m along Y; its origin is on the axis below its middle."""
    return [
        box((0.5, 4.4, 0.12), (0, 0, 0.06), _color("yellow"), 0.03),
        *[box((0.46, 0.08, 0.4), (0, y, 0.15), DARK, 0.02) for y in (-1.6, 1.6)],
    ]


def bench(_: str = "") -> Parts:
    """A bench of 1.8 m."""
    return [
        *[box((1.8, 0.14, 0.06), (0, y, 0.42), PLANK, 0.02) for y in (-0.18, 0.0, 0.18)],
        box((1.8, 0.06, 0.4), (0, 0.28, 0.5), PLANK, 0.02),
        *[box((0.1, 0.5, 0.45), (x, 0.05, 0), DARK, 0.02) for x in (-0.75, 0.75)],
    ]


# --- platforms ------------------------------------------------------------------------------------------------------


def platform(_: str = "") -> Parts:
    """A floating block of 2.4 m with grass on top, whose top is at z = 0."""
    return [
        box((2.4, 2.4, 0.3), (0, 0, -0.3), LEAF, 0.05),
        sweep([_square(0, 0, -1.2, 0.5), _square(0, 0, -0.28, 1.1)], paint("8a5f3c", "earth", 0.95)),
    ]


def pillar(_: str = "") -> Parts:
    """A stone pillar of 3 m."""
    return [
        box((1.5, 1.5, 0.3), (0, 0, 0), STONE, 0.04),
        cylinder(0.55, 2.5, (0, 0, 0.28), PLASTER),
        box((1.5, 1.5, 0.3), (0, 0, 2.7), STONE, 0.04),
    ]


def hopper(color: str) -> Parts:
    """A jumping figure of 1.3 m."""
    return [
        box((0.9, 0.8, 0.8), (0, 0, 0.2), _color(color), 0.16),
        box((0.7, 0.66, 0.45), (0, 0, 0.92), PLASTER, 0.14),
        *[box((0.14, 0.08, 0.16), (x, -0.33, 1.1), DARK, 0.03) for x in (-0.17, 0.17)],
        *[box((0.3, 0.5, 0.26), (x, -0.06, 0), DARK, 0.08) for x in (-0.24, 0.24)],
    ]


def flag(color: str) -> Parts:
    """A flag on a pole of 3.4 m."""
    return [
        cylinder(0.22, 0.2, (0, 0, 0), STONE),
        cylinder(0.05, 3.3, (0, 0, 0.1), SAIL, segments=10),
        sweep([[(0.03, y, 2.5), (0.03, y, 3.35), (1.3, y, 2.95)] for y in (-0.03, 0.03)], _color(color)),
    ]


# --- castle ---------------------------------------------------------------------------------------------------------


def _battlements(width: float, depth: float, z: float) -> Parts:
    count = max(2, round(width / 1.0))
    xs = np.linspace(-width / 2 + 0.3, width / 2 - 0.3, count)
    return [box((0.5, depth, 0.5), (x, 0, z), STONE, 0.03) for x in xs]


def castle_wall(_: str = "") -> Parts:
    """A wall of 6 m along X and 3.4 m high."""
    return [box((6.0, 1.0, 3.0), (0, 0, 0), STONE, 0.04), *_battlements(6.0, 1.04, 2.95)]


def castle_tower(_: str = "") -> Parts:
    """A round tower of 6.5 m."""
    return [
        lathe([(0, 0), (1.7, 0), (1.4, 0.8), (1.4, 4.2), (1.75, 4.6), (1.75, 5.2), (0, 5.2)], (0, 0, 0), STONE, 18),
        lathe([(0, 5.15), (1.95, 5.15), (0.1, 7.4), (0, 7.45)], (0, 0, 0), _color("red"), 18),
        *[box((0.3, 0.2, 0.9), (0, -1.38, z), DARK, 0.03) for z in (1.6, 3.2)],
    ]


def gatehouse(_: str = "") -> Parts:
    """A gate of 5 m with an opening of 2.4 m."""
    return [
        *[box((1.3, 1.8, 4.2), (x, 0, 0), STONE, 0.04) for x in (-1.85, 1.85)],
        box((4.9, 1.7, 1.4), (0, 0, 2.9), STONE, 0.04),
        *_battlements(5.0, 1.84, 4.15),
        box((2.3, 0.2, 2.9), (0, 0.3, 0), DARK, 0.03),
    ]


def drawbridge(_: str = "") -> Parts:
    """The deck of a drawbridge, 2.3 by 4 m to the front; its origin is on the hinge at the rear edge."""
    return [
        box((2.3, 4.0, 0.16), (0, -2.0, -0.02), PLANK, 0.02),
        *[box((2.36, 0.2, 0.2), (0, y, -0.05), DARK, 0.02) for y in (-3.6, -2.0, -0.5)],
    ]


def siege_ram(_: str = "") -> Parts:
    """A battering ram of 4.5 m on wheels with a roof."""
    return [
        *_wheels(1.7, (-1.1, 1.1), 0.42, 0.2),
        *[box((0.18, 3.4, 0.18), (x, 0, 0.5), WOOD, 0.03) for x in (-0.75, 0.75)],
        *[box((0.16, 0.16, 1.3), (x, y, 0.6), WOOD, 0.03) for x in (-0.75, 0.75) for y in (-1.4, 1.4)],
        prism([(-1.15, 1.8), (1.15, 1.8), (0, 2.6)], -1.9, 1.9, BRICK),
        facing(cylinder(0.22, 4.6, (0, 0, 0), WOOD), (0, 1.9, 1.15)),
        facing(lathe([(0, 0), (0.3, 0), (0.26, 0.4), (0, 0.55)], (0, 0, 0), STEEL, 12), (0, -2.6, 1.15)),
    ]


def siege_tower(_: str = "") -> Parts:
    """A siege tower of 5.4 m on wheels."""
    return [
        *_wheels(2.3, (-1.0, 1.0), 0.5, 0.26),
        box((2.1, 2.6, 1.6), (0, 0, 0.6), WOOD, 0.04),
        box((1.9, 2.3, 1.6), (0, 0, 2.15), PLANK, 0.04),
        box((1.7, 2.0, 1.3), (0, 0, 3.7), WOOD, 0.04),
        *[box((0.3, 2.1, 0.4), (x, 0, 4.95), WOOD, 0.03) for x in (-0.75, 0.75)],
        box((1.0, 0.12, 1.1), (0, -1.16, 2.4), DARK, 0.03),
    ]


def tent(color: str) -> Parts:
    """A tent of 3 m."""
    return [
        lathe([(0, 0), (1.5, 0), (1.4, 1.4), (0, 1.4)], (0, 0, 0), SAIL, 10),
        lathe([(0, 1.38), (1.75, 1.3), (0.1, 2.9), (0, 2.95)], (0, 0, 0), _color(color), 10),
    ]


def ground(size: tuple[float, float], kind: str) -> Parts:
    """A slab 0.3 m thick whose top is at z = 0; of water, the top is at z = -0.05."""
    codes = {"grass": "8fb573", "water": "5f9ec4", "concrete": "bdbab2", "earth": "c2a878", "sky": "b9d3e6"}
    roughness = 0.2 if kind == "water" else 0.95
    return [box((*size, 0.3), (0, 0, -0.35 if kind == "water" else -0.3), paint(codes[kind], kind, roughness), 0.02)]
