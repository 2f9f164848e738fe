"""Closed solids that things are made of: rounded boxes, cylinders, turned and swept profiles. Z up, metres."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import numpy as np
from numpy.typing import NDArray

from sceneact_gym.data.glb import Material, Part

Array = NDArray[np.float64]


def box(size: Sequence[float], at: Sequence[float], material: Material, rounding: float = 0.012) -> Part:
    """A box with rounded edges (56 vertices).

    Args:
        size: extents in x, y, z.
        at: centre of its bottom.
        material: its surface.
        rounding: radius of the edges.
    """
    half = np.asarray(size, float) / 2
    radius = min(rounding, 0.45 * float(half.min()))
    points, faces = _cube_grid()
    # Grid coordinates are -2, -1, 1, 2: the inner ones are where the rounding begins.
    inner = half - radius
    flat = np.sign(points) * np.where(np.abs(points) > 1, half, inner)
    base = np.clip(flat, -inner, inner)
    out = flat - base
    vertices = base + radius * out / np.linalg.norm(out, axis=1, keepdims=True)
    return Part(vertices + np.asarray(at, float) + [0, 0, half[2]], faces, material)


def cylinder(
    radius: float, height: float, at: Sequence[float], material: Material, top: float | None = None, segments: int = 20
) -> Part:
    """A cylinder, or a cone frustum with another radius at the `top`; `at` is the centre of its bottom."""
    other = radius if top is None else top
    return lathe([(0, 0), (radius, 0), (other, height), (0, height)], at, material, segments)


def lathe(profile: Sequence[tuple[float, float]], at: Sequence[float], material: Material, segments: int = 20) -> Part:
    """A profile of (radius, height) points from bottom to top, turned about Z; it begins and ends on the axis."""
    angles = np.arange(segments) * 2 * np.pi / segments
    rings = [
        np.stack([radius * np.cos(angles), radius * np.sin(angles), np.full(segments, height)], axis=1)
        for radius, height in profile[1:-1]
    ]
    bottom, top = [[0.0, 0.0, profile[0][1]]], [[0.0, 0.0, profile[-1][1]]]
    vertices = np.concatenate([bottom, *rings, top])
    around = np.arange(segments)
    after = (around + 1) % segments
    faces = [np.stack([np.zeros(segments, int), after + 1, around + 1], axis=1)]
    for ring in range(len(rings) - 1):
        low, high = 1 + ring * segments, 1 + (ring + 1) * segments
        faces.append(np.stack([low + around, low + after, high + after], axis=1))
        faces.append(np.stack([low + around, high + after, high + around], axis=1))
    last = 1 + (len(rings) - 1) * segments
    faces.append(np.stack([last + around, last + after, np.full(segments, len(vertices) - 1)], axis=1))
    return Part(vertices + np.asarray(at, float), np.concatenate(faces), material)


def sweep(rings: Sequence[Sequence[Sequence[float]] | Array], material: Material) -> Part:
    """A solid between rings of equally many points, one after the other, closed by the first and the last one.

    Args:
        rings: (K, N, 3) points; each ring is planar and convex, and all run in the same direction.
        material: its surface.
    """
    points = np.asarray(rings, float)
    count, around = points.shape[:2]
    here = np.arange(around)
    after = (here + 1) % around
    faces = []
    for ring in range(count - 1):
        low, high = ring * around, (ring + 1) * around
        faces.append(np.stack([low + here, low + after, high + after], axis=1))
        faces.append(np.stack([low + here, high + after, high + here], axis=1))
    fan = np.stack([np.zeros(around - 2, int), here[1:-1], here[2:]], axis=1)
    faces += [fan[:, ::-1], fan + (count - 1) * around]
    part = Part(points.reshape(-1, 3), np.concatenate(faces), material)
    a, b, c = (part.vertices[part.faces[:, i]] for i in range(3))
    outwards = float(np.einsum("ij,ij->", a, np.cross(b, c))) > 0
    return part if outwards else Part(part.vertices, part.faces[:, ::-1], material)


def prism(outline: Sequence[tuple[float, float]], low: float, high: float, material: Material, axis: int = 1) -> Part:
    """A convex outline between two heights along an axis.

    Args:
        outline: points in the two other axes, in the order x, y, z.
        low: where it begins, metres.
        high: where it ends.
        axis: 0, 1 or 2.
        material: its surface.
    """
    return sweep([np.insert(np.asarray(outline, float), axis, height, axis=1) for height in (low, high)], material)


def lying(part: Part, at: Sequence[float] = (0.0, 0.0, 0.0)) -> Part:
    """A part turned so that its Z axis lies along X (and X along Y), then shifted: wheels, barrels, rollers."""
    return Part(part.vertices[:, [2, 0, 1]] + np.asarray(at, float), part.faces, part.material)


def facing(part: Part, at: Sequence[float] = (0.0, 0.0, 0.0)) -> Part:
    """A part turned so that its Z axis looks to the front, -Y (and Y upwards), then shifted."""
    return Part(part.vertices[:, [0, 2, 1]] * [1, -1, 1] + np.asarray(at, float), part.faces, part.material)


@cache
def _cube_grid() -> tuple[Array, NDArray[np.int64]]:
    """The surface of a 4 x 4 x 4 grid with the coordinates -2, -1, 1, 2, and its triangles facing outwards."""
    values = np.array([-2.0, -1.0, 1.0, 2.0])
    numbers: dict[tuple[int, int, int], int] = {}
    triangles = []
    for axis in range(3):
        u, v = (axis + 1) % 3, (axis + 2) % 3
        for side in (0, 3):
            for i in range(3):
                for j in range(3):
                    corners = []
                    for a, b in ((i, j), (i + 1, j), (i + 1, j + 1), (i, j + 1)):
                        key = [0, 0, 0]
                        key[axis], key[u], key[v] = side, a, b
                        corners.append(numbers.setdefault((key[0], key[1], key[2]), len(numbers)))
                    if side == 0:
                        corners.reverse()
                    triangles += [corners[:3], [corners[0], corners[2], corners[3]]]
    points = np.array([[values[k] for k in key] for key in numbers])
    faces = np.array(triangles)
    faces.setflags(write=False)  # All boxes share them.
    return points, faces
