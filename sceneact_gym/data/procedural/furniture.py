"""Parametric furniture: one function per kind, real sizes in metres, front towards -Y, standing on z = 0.

Each function draws its proportions and picks its materials from a `Palette`; all geometry is closed solids, at least
300 vertices per object. Pendant lamps hang down from z = 0. Solids that reach into each other never share a plane: path
tracers draw such places as black patches.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from sceneact_gym.data.glb import Material, Part
from sceneact_gym.data.procedural.shapes import box, cylinder, lathe

Rng = np.random.Generator
Color = tuple[float, float, float]


def linear(code: str) -> Color:
    """A colour code as linear RGB."""
    values = [int(code[i : i + 2], 16) / 255 for i in (0, 2, 4)]
    r, g, b = (v / 12.92 if v <= 0.04045 else ((v + 0.055) / 1.055) ** 2.4 for v in values)
    return (r, g, b)


WOODS = ("8a5a34", "b98750", "d7b485", "5b3a25", "a36a3f", "e3d2b4")
LACQUERS = ("f1eee6", "2f3b45", "7d8f7a", "c9d3d6", "3f5e73", "d9c2a0")
FABRICS = ("3d6b8c", "b5533c", "6f8f5f", "8c6d9e", "c99a3b", "4a4f57", "b7a99a", "2f7f79", "a3475b")
ACCENTS = ("d8553f", "e0a526", "3a7ca5", "5f9e6e", "8e5aa8", "d97fa0", "2b9c94")
METALS = ("2b2b2d", "b9bcc0", "a3844a")


@dataclass(frozen=True)
class Palette:
    """The materials of one room."""

    wood: Material
    wood_dark: Material
    lacquer: Material
    fabric: Material
    fabric_two: Material
    accent: Material
    metal: Material
    white: Material
    shade: Material
    leaf: Material
    dark: Material


def draw_palette(rng: Rng) -> Palette:
    """Colours for one room; the two fabrics differ."""
    first, second = rng.choice(len(FABRICS), 2, replace=False)
    woods = rng.choice(len(WOODS), 2, replace=False)

    def pick(colors: tuple[str, ...]) -> Color:
        return linear(colors[int(rng.integers(len(colors)))])

    return Palette(
        wood=Material("wood", linear(WOODS[woods[0]]), 0.6),
        wood_dark=Material("wood_two", linear(WOODS[woods[1]]), 0.6),
        lacquer=Material("lacquer", pick(LACQUERS), 0.4),
        fabric=Material("fabric", linear(FABRICS[first]), 0.95),
        fabric_two=Material("fabric_two", linear(FABRICS[second]), 0.95),
        accent=Material("accent", pick(ACCENTS), 0.8),
        metal=Material("metal", pick(METALS), 0.5),
        white=Material("white", linear("f4f1ea"), 0.8),
        shade=Material("shade", linear("f3e3bd"), 0.9, emission=(0.35, 0.27, 0.14)),
        leaf=Material("leaf", linear("3f7a3a"), 0.8),
        dark=Material("dark", linear("1c1e22"), 0.3),
    )


def _legs(width: float, depth: float, height: float, thick: float, material: Material) -> list[Part]:
    x, y = width / 2 - thick, depth / 2 - thick
    return [box((thick, thick, height), (sx * x, sy * y, 0), material) for sx in (-1, 1) for sy in (-1, 1)]


def _handle(x: float, y: float, z: float, material: Material, upright: bool = False) -> Part:
    size = (0.016, 0.025, 0.14) if upright else (0.14, 0.025, 0.016)
    return box(size, (x, y - 0.012, z - size[2] / 2), material, 0.005)


def _drawers(
    width: float, front: float, low: float, high: float, columns: int, rows: int, face: Material, handle: Material
) -> list[Part]:
    """A grid of drawer fronts that stand 2 cm out of the plane y = front."""
    parts, w, h = [], width / columns, (high - low) / rows
    for column in range(columns):
        for row in range(rows):
            x, z = -width / 2 + (column + 0.5) * w, low + row * h
            parts.append(box((w - 0.015, 0.02, h - 0.015), (x, front - 0.01, z + 0.0075), face, 0.006))
            parts.append(_handle(x, front - 0.02, z + h / 2, handle))
    return parts


def bed(rng: Rng, p: Palette) -> list[Part]:
    """A bed with head board, mattress, duvet and pillows; the foot is the front."""
    width, length = rng.uniform(1.2, 1.7), rng.uniform(2.0, 2.1)
    head = rng.uniform(0.85, 1.15)
    pillow = (min(0.65, 0.42 * width), 0.4, 0.13)
    xs = (-width / 4, width / 4)
    return [
        *_legs(width, length, 0.12, 0.07, p.wood_dark),
        box((width - 0.02, length - 0.01, 0.2), (0, 0, 0.12), p.wood),
        box((width, 0.08, head), (0, length / 2 - 0.04, 0), p.wood, 0.03),
        box((width - 0.08, length - 0.14, 0.2), (0, -0.03, 0.32), p.white, 0.05),
        box((width, 0.62 * length, 0.09), (0, -0.19 * length + 0.02, 0.47), p.fabric, 0.04),
        box((width + 0.02, 0.3, 0.03), (0, -0.26 * length, 0.55), p.accent, 0.012),
        *[box(pillow, (x, length / 2 - 0.32, 0.5), m, 0.06) for x, m in zip(xs, (p.white, p.fabric_two), strict=True)],
    ]


def nightstand(rng: Rng, p: Palette) -> list[Part]:
    """A small chest with two drawers and a lamp on top."""
    width, depth, height = rng.uniform(0.4, 0.5), rng.uniform(0.36, 0.42), rng.uniform(0.45, 0.55)
    return [
        *_legs(width, depth, 0.1, 0.04, p.metal),
        box((width, depth, height - 0.1), (0, 0, 0.1), p.wood),
        *_drawers(width - 0.03, -depth / 2, 0.12, height - 0.02, 1, 2, p.lacquer, p.metal),
        cylinder(0.07, 0.02, (0.05, 0.04, height), p.metal),
        cylinder(0.015, 0.2, (0.05, 0.04, height + 0.02), p.metal),
        cylinder(0.13, 0.17, (0.05, 0.04, height + 0.2), p.shade, top=0.08),
    ]


def wardrobe(rng: Rng, p: Palette) -> list[Part]:
    """A tall wardrobe with two or three doors, of which one is in another colour."""
    width, depth, height = rng.uniform(1.0, 1.6), rng.uniform(0.55, 0.62), rng.uniform(1.9, 2.15)
    doors = 3 if width > 1.3 else 2
    parts = [
        box((width, depth, 0.07), (0, 0, 0), p.dark),
        box((width, depth, height - 0.12), (0, 0, 0.07), p.wood),
        box((width + 0.04, depth + 0.04, 0.05), (0, 0, height - 0.05), p.wood_dark),
    ]
    w = width / doors
    for i in range(doors):
        x = -width / 2 + (i + 0.5) * w
        face = p.lacquer if i else p.wood_dark
        parts.append(box((w - 0.015, 0.025, height - 0.17), (x, -depth / 2 - 0.012, 0.09), face, 0.008))
        side = 1 if i % 2 == 0 else -1
        parts.append(_handle(x + side * (w / 2 - 0.06), -depth / 2 - 0.025, 1.05, p.metal, upright=True))
    return parts


def dresser(rng: Rng, p: Palette) -> list[Part]:
    """A chest of six drawers with a vase."""
    width, depth, height = rng.uniform(1.0, 1.4), rng.uniform(0.42, 0.5), rng.uniform(0.75, 0.9)
    vase = [(0, 0), (0.06, 0), (0.09, 0.09), (0.04, 0.2), (0.055, 0.25), (0, 0.25)]
    return [
        *_legs(width, depth, 0.12, 0.05, p.wood_dark),
        box((width, depth, height - 0.12), (0, 0, 0.12), p.wood),
        *_drawers(width - 0.04, -depth / 2, 0.15, height - 0.03, 2, 3, p.lacquer, p.metal),
        lathe(vase, (0.3 * width, 0.02, height), p.accent),
    ]


def desk(rng: Rng, p: Palette) -> list[Part]:
    """A desk with a drawer block on one side and a screen."""
    width, depth, height = rng.uniform(1.2, 1.5), rng.uniform(0.6, 0.7), rng.uniform(0.72, 0.76)
    block = width / 2 - 0.21
    return [
        box((width, depth, 0.04), (0, 0, height - 0.04), p.wood),
        box((0.36, depth - 0.08, height - 0.04), (block, 0, 0), p.lacquer),
        *[
            part.moved((block, 0, 0))
            for part in _drawers(0.34, -(depth - 0.08) / 2, 0.03, height - 0.06, 1, 3, p.white, p.metal)
        ],
        *[box((0.05, 0.05, height - 0.04), (-width / 2 + 0.05, y, 0), p.metal) for y in (-depth / 2 + 0.06, 0.2)],
        box((0.26, 0.18, 0.015), (-0.1, 0.12, height), p.metal),
        box((0.04, 0.03, 0.14), (-0.1, 0.15, height + 0.01), p.metal),
        box((0.56, 0.03, 0.33), (-0.1, 0.13, height + 0.12), p.dark),
        box((0.4, 0.13, 0.015), (-0.1, -0.12, height), p.white, 0.005),
    ]


def chair(rng: Rng, p: Palette) -> list[Part]:
    """A dining chair with a slatted back; one sits facing -Y."""
    width, depth, seat, top = rng.uniform(0.42, 0.48), rng.uniform(0.42, 0.48), 0.45, rng.uniform(0.82, 0.95)
    x, y = width / 2 - 0.024, depth / 2 - 0.024
    return [
        *[box((0.04, 0.04, seat), (sx * x, -y, 0), p.wood) for sx in (-1, 1)],
        *[box((0.04, 0.04, top), (sx * x, y, 0), p.wood) for sx in (-1, 1)],
        box((width, depth, 0.045), (0, 0, seat - 0.025), p.wood),
        box((width - 0.03, depth - 0.05, 0.04), (0, -0.015, seat + 0.015), p.fabric, 0.018),
        *[box((width - 0.04, 0.025, 0.07), (0, y, z), p.wood) for z in (top - 0.09, top - 0.22)],
    ]


def dining_table(rng: Rng, p: Palette) -> list[Part]:
    """A rectangular table with a runner and a fruit bowl."""
    width, depth, height = rng.uniform(1.3, 1.7), rng.uniform(0.8, 0.95), rng.uniform(0.73, 0.77)
    bowl = [(0, 0), (0.07, 0), (0.16, 0.08), (0.15, 0.085), (0.06, 0.02), (0, 0.02)]
    return [
        *_legs(width, depth, height - 0.05, 0.08, p.wood_dark),
        box((width, depth, 0.05), (0, 0, height - 0.05), p.wood),
        box((width - 0.2, 0.02, 0.08), (0, depth / 2 - 0.08, height - 0.125), p.wood_dark),
        box((0.35, depth - 0.06, 0.012), (0, 0, height), p.fabric_two, 0.004),
        lathe(bowl, (0.05, 0, height + 0.012), p.accent),
    ]


def sofa(rng: Rng, p: Palette) -> list[Part]:
    """A sofa for two or three, with two cushions of other colours."""
    return _upholstered(rng, p, float(rng.uniform(1.7, 2.2)), seats=2 if rng.random() < 0.5 else 3)


def armchair(rng: Rng, p: Palette) -> list[Part]:
    """An upholstered chair with arms."""
    return _upholstered(rng, p, float(rng.uniform(0.8, 0.95)), seats=1)


def _upholstered(rng: Rng, p: Palette, width: float, seats: int) -> list[Part]:
    depth, back = rng.uniform(0.82, 0.95), rng.uniform(0.74, 0.86)
    body = p.fabric if seats > 1 else p.fabric_two
    inner = width - 0.36
    w = inner / seats
    parts = [
        *_legs(width, depth, 0.12, 0.06, p.wood_dark),
        box((width - 0.02, depth - 0.02, 0.2), (0, 0, 0.12), body, 0.03),
        box((width - 0.03, 0.2, back - 0.15), (0, depth / 2 - 0.105, 0.15), body, 0.06),
        *[box((0.18, depth, 0.44), (s * (width / 2 - 0.09), 0, 0.15), body, 0.05) for s in (-1, 1)],
    ]
    for i in range(seats):
        x = -inner / 2 + (i + 0.5) * w
        parts.append(box((w - 0.01, depth - 0.24, 0.16), (x, -0.1, 0.31), body, 0.04))
    parts.append(box((0.4, 0.14, 0.36), (-inner / 2 + 0.22, depth / 2 - 0.28, 0.46), p.accent, 0.06))
    if seats > 1:
        parts.append(box((0.4, 0.14, 0.34), (inner / 2 - 0.22, depth / 2 - 0.28, 0.46), p.white, 0.06))
    return parts


def coffee_table(rng: Rng, p: Palette) -> list[Part]:
    """A low table with a shelf, books and a cup."""
    width, depth, height = rng.uniform(0.9, 1.2), rng.uniform(0.5, 0.65), rng.uniform(0.38, 0.46)
    return [
        *_legs(width, depth, height - 0.04, 0.05, p.metal),
        box((width, depth, 0.04), (0, 0, height - 0.04), p.wood),
        box((width - 0.12, depth - 0.12, 0.025), (0, 0, 0.12), p.wood_dark),
        box((0.24, 0.17, 0.035), (-0.2 * width, 0.02, height), p.accent, 0.006),
        box((0.2, 0.15, 0.03), (-0.2 * width, 0.03, height + 0.035), p.white, 0.006),
        cylinder(0.04, 0.09, (0.25 * width, -0.08, height), p.fabric_two),
    ]


def bookshelf(rng: Rng, p: Palette) -> list[Part]:
    """An open shelf with books of many colours."""
    width, depth, height = rng.uniform(0.75, 1.1), rng.uniform(0.28, 0.34), rng.uniform(1.6, 2.0)
    shelves = 5
    gap = (height - 0.06) / shelves
    colors = (p.accent, p.fabric, p.fabric_two, p.white, p.dark)
    parts = [
        *[box((0.03, depth, height), (s * (width / 2 - 0.015), 0, 0), p.wood) for s in (-1, 1)],
        box((width - 0.04, 0.015, height - 0.01), (0, depth / 2 - 0.01, 0.005), p.wood_dark, 0.004),
        *[box((width - 0.05, depth - 0.02, 0.03), (0, 0, 0.03 + i * gap), p.wood) for i in range(shelves + 1)],
    ]
    for shelf in range(shelves):
        x = -width / 2 + 0.05
        end = width / 2 - 0.1 - rng.uniform(0, 0.45) * width
        while x < end:
            w, h = rng.uniform(0.03, 0.09), rng.uniform(0.5, 0.8) * gap
            book = colors[int(rng.integers(len(colors)))]
            parts.append(box((w, depth * 0.7, h), (x + w / 2, -0.01, 0.06 + shelf * gap), book, 0.006))
            x += w + 0.004
    return parts


def tv_bench(rng: Rng, p: Palette) -> list[Part]:
    """A low bench with a television."""
    width, depth, height = rng.uniform(1.3, 1.8), rng.uniform(0.38, 0.45), rng.uniform(0.42, 0.5)
    screen = rng.uniform(0.95, 1.2)
    return [
        *_legs(width, depth, 0.12, 0.05, p.metal),
        box((width, depth, height - 0.12), (0, 0, 0.12), p.wood),
        *_drawers(width - 0.04, -depth / 2, 0.14, height - 0.02, 3, 1, p.lacquer, p.metal),
        box((0.4, 0.2, 0.02), (0, 0.03, height), p.dark),
        box((0.06, 0.04, 0.08), (0, 0.05, height + 0.01), p.dark),
        box((screen, 0.04, screen * 0.57), (0, 0.03, height + 0.07), p.dark),
        box((screen - 0.05, 0.01, screen * 0.57 - 0.05), (0, 0.008, height + 0.095), p.metal, 0.003),
    ]


def floor_lamp(rng: Rng, p: Palette) -> list[Part]:
    """A standing lamp on three feet, with a shade and a reading arm to the front."""
    height, radius = rng.uniform(1.45, 1.7), rng.uniform(0.18, 0.25)
    return [
        cylinder(0.16, 0.03, (0, 0, 0), p.metal, segments=32),
        cylinder(0.016, height - 0.25, (0, 0, 0.03), p.metal, segments=16),
        cylinder(radius, 0.28, (0, 0, height - 0.28), p.shade, top=radius * 0.65, segments=48),
        box((0.025, 0.3, 0.025), (0, -0.15, 1.05), p.metal),
        cylinder(0.05, 0.1, (0, -0.3, 0.96), p.accent, top=0.025, segments=32),
    ]


def pendant_lamp(rng: Rng, p: Palette) -> list[Part]:
    """A lamp that hangs from z = 0 down; a bar with three shades of different sizes."""
    drop, length = rng.uniform(0.75, 0.95), rng.uniform(0.6, 0.8)
    parts = [
        cylinder(0.06, 0.03, (0, 0, -0.03), p.metal),
        cylinder(0.01, drop - 0.25, (0, 0, -drop + 0.22), p.metal, segments=12),
        box((length, 0.03, 0.03), (0, 0, -drop + 0.2), p.metal),
    ]
    for x, radius in zip((-length / 2 + 0.05, 0.0, length / 2 - 0.05), (0.10, 0.12, 0.14), strict=True):
        parts.append(cylinder(radius, 0.2, (x, 0, -drop), p.accent if x else p.shade, top=0.04, segments=36))
    return parts


def stool(rng: Rng, p: Palette) -> list[Part]:
    """A round stool with four legs, two rungs, a cushion and a foot rest in front."""
    radius, height = rng.uniform(0.17, 0.21), rng.uniform(0.44, 0.62)
    return [
        *_legs(radius * 1.7, radius * 1.7, height - 0.05, 0.035, p.wood),
        cylinder(radius, 0.05, (0, 0, height - 0.05), p.wood, segments=32),
        cylinder(radius * 0.92, 0.04, (0, 0, height), p.fabric_two, top=radius * 0.8, segments=32),
        *[box((0.02, radius * 1.5, 0.025), (s * radius * 0.75, 0, 0.14), p.wood_dark) for s in (-1, 1)],
        box((radius * 1.5, 0.03, 0.03), (0, -radius * 0.75, 0.22), p.metal),
    ]


def plant(rng: Rng, p: Palette) -> list[Part]:
    """A pot with leaves in all directions, higher towards one side."""
    size = rng.uniform(0.8, 1.2)
    pot = [(0, 0), (0.11, 0), (0.17, 0.3), (0.18, 0.32), (0.15, 0.32), (0.14, 0.28), (0, 0.28)]
    parts = [lathe(pot, (0, 0, 0), p.accent, 24), cylinder(0.02, 0.35 * size, (0, 0, 0.28), p.wood_dark, segments=10)]
    for i in range(9):
        angle, tilt = i * 2.4, 0.35 + 0.09 * i
        leaf = lathe([(0, 0), (0.05, 0.12), (0.075, 0.28), (0.04, 0.45), (0, 0.52)], (0, 0, 0), p.leaf, 8)
        flat = leaf.vertices * [1.0, 0.25, size]
        c, s = np.cos(tilt), np.sin(tilt)
        leaned = flat @ np.array([[1, 0, 0], [0, c, -s], [0, s, c]])
        c, s = np.cos(angle), np.sin(angle)
        turned = leaned @ np.array([[c, s, 0], [-s, c, 0], [0, 0, 1]])
        parts.append(Part(turned + [0, 0, 0.3 + 0.03 * i], leaf.faces, p.leaf))
    return parts


KINDS: dict[str, Callable[[Rng, Palette], list[Part]]] = {
    maker.__name__: maker
    for maker in (
        *(bed, nightstand, wardrobe, dresser, desk, chair, dining_table, sofa, armchair),
        *(coffee_table, bookshelf, tv_bench, floor_lamp, pendant_lamp, stool, plant),
    )
}
"""All kinds by name."""
