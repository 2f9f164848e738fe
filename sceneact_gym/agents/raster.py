"""A small software renderer for agents: pieces of furniture as triangles, in flat colours, seen by given cameras.

It is rough (no shadows, no smooth edges) but gives thousands of pictures a second, since a piece is drawn as a list of
the pixels that it covers: what a move changes is then known without making the whole picture again.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
IntArray = NDArray[np.int64]

GOLDEN = (math.sqrt(5) - 1) / 2
OVERSAMPLING = 2.5
"""Samples per covered pixel: enough that hardly a pixel inside a triangle stays empty."""
NEAR = 0.1
GLOSS = 0.04
"""What even dark lacquer reflects of the light around it: the reflectance of common plastics and varnish."""


@dataclass(frozen=True, eq=False)
class Camera:
    """A calibrated camera.

    Attributes:
        matrix: (4, 4) matrix_world, metres; it looks along its own -Z.
        tangent: of half its horizontal field of view.
    """

    matrix: Array
    tangent: float

    def project(self, points: Array, size: int) -> tuple[Array, Array, Array]:
        """Column, row (pixels of a square picture of that size) and depth (metres) of (..., 3) world points."""
        local = (points - self.matrix[:3, 3]) @ self.matrix[:3, :3]
        depth = -local[..., 2]
        scale = size / 2 / self.tangent / np.maximum(depth, NEAR)
        return size / 2 + local[..., 0] * scale, size / 2 - local[..., 1] * scale, depth


@dataclass(frozen=True, eq=False)
class Light:
    """The light of a scene: even from all sides, and suns.

    Attributes:
        ambient: (3,) linear RGB.
        suns: (L, 3) unit vectors towards them.
        colors: (L, 3) what a surface that faces the sun gets, linear RGB.
    """

    ambient: Array
    suns: Array
    colors: Array


@dataclass(frozen=True, eq=False)
class Piece:
    """A piece of furniture in its own frame.

    Attributes:
        name: of the object.
        vertices: (V, 3) metres.
        triangles: (T, 3) vertex numbers.
        albedo: (T, 3) linear RGB of each triangle.
        emission: (T, 3) light of its own, linear RGB.
    """

    name: str
    vertices: Array
    triangles: IntArray
    albedo: Array
    emission: Array
    _colors: dict[int, Array] = field(default_factory=dict)

    @property
    def base(self) -> float:
        """How far its lowest point is below its origin, metres."""
        return -float(self.vertices[:, 2].min())

    def normals(self) -> tuple[Array, Array]:
        """(T, 3) unit normals and (T,) areas in square metres."""
        a, b, c = (self.vertices[self.triangles[:, corner]] for corner in range(3))
        cross = np.cross(b - a, c - a)
        length = np.linalg.norm(cross, axis=1)
        return cross / np.maximum(length, 1e-12)[:, None], length / 2

    def colors(self, yaw: float, light: Light) -> Array:
        """(T, 3) sRGB in [0, 1] of its triangles when it is turned by `yaw` (to 3 degrees)."""
        step = round(yaw / (math.pi / 60)) % 120
        if step not in self._colors:
            normals = self.normals()[0] @ turn(step * math.pi / 60).T
            shine = light.ambient + np.maximum(normals @ light.suns.T, 0) @ light.colors
            self._colors[step] = srgb(self.albedo * shine + GLOSS * light.ambient + self.emission)
        return self._colors[step]


@dataclass(frozen=True, eq=False)
class Layer:
    """What one piece shows in one picture, each pixel once.

    Attributes:
        pixels: (N,) row * size + column.
        nearness: (N,) 1 / depth.
        colors: (N, 3) sRGB in [0, 1].
    """

    pixels: IntArray
    nearness: Array
    colors: Array


def turn(yaw: float) -> Array:
    """(3, 3) rotation about Z by an angle in radians."""
    c, s = math.cos(yaw), math.sin(yaw)
    return np.array([[c, -s, 0.0], [s, c, 0.0], [0.0, 0.0, 1.0]])


def srgb(linear: Array) -> Array:
    """Linear RGB as sRGB, clipped to [0, 1]."""
    value = np.clip(linear, 0.0, 1.0)
    return np.where(value < 0.0031308, 12.92 * value, 1.055 * np.maximum(value, 1e-9) ** (1 / 2.4) - 0.055)


def surface_samples(piece: Piece, count: int) -> tuple[Array, Array, IntArray, float]:
    """Points all over a piece, even by area and the same every time.

    Returns:
        (N, 3) points and (N, 3) unit normals in its own frame, (N,) numbers of their triangles, and the area in square
        metres that each point stands for.
    """
    normals, areas = piece.normals()
    number, u, v, w = _spread(areas, count)
    a, b, c = (piece.vertices[piece.triangles[number, corner]] for corner in range(3))
    return a * u[:, None] + b * v[:, None] + c * w[:, None], normals[number], number, float(areas.sum()) / count


def draw(piece: Piece, pose: Array, camera: Camera, light: Light, size: int) -> Layer:
    """Draws a piece at (x, y, z, yaw) (metres, radians) into a picture of `size` pixels.

    Each triangle gets samples in proportion to its area in the picture; the nearest sample of a pixel wins. Triangles
    that show their back are left out.
    """
    x, y, depth = camera.project(piece.vertices @ turn(pose[3]).T + pose[:3], size)
    corners = piece.triangles
    ax, bx, cx = x[corners.T]
    ay, by, cy = y[corners.T]
    # Rows grow downwards, so that a triangle that shows its front runs clockwise in the picture.
    area = ((cx - ax) * (by - ay) - (bx - ax) * (cy - ay)) / 2
    area[(depth[corners] < NEAR).any(axis=1) | (area < 0)] = 0
    total = float(area.sum())
    if not total > 0:
        return Layer(np.zeros(0, np.int64), np.zeros(0), np.zeros((0, 3)))
    number, u, v, w = _spread(area, int(min(total, 4.0 * size * size) * OVERSAMPLING) + 1)
    column = np.floor(u * ax[number] + v * bx[number] + w * cx[number]).astype(np.int64)
    row = np.floor(u * ay[number] + v * by[number] + w * cy[number]).astype(np.int64)
    near = 1 / np.maximum(depth[corners[number]], NEAR)
    nearness = u * near[:, 0] + v * near[:, 1] + w * near[:, 2]
    inside = np.flatnonzero((column >= 0) & (column < size) & (row >= 0) & (row < size))
    order = inside[np.argsort(nearness[inside], kind="stable")]
    # Of several writes to one pixel the last one stays: that of the nearest sample.
    winner = np.full(size * size, -1)
    winner[row[order] * size + column[order]] = order
    pixels = np.flatnonzero(winner >= 0)
    chosen = winner[pixels]
    return Layer(pixels, nearness[chosen], piece.colors(pose[3], light)[number[chosen]])


def _spread(areas: Array, count: int) -> tuple[IntArray, Array, Array, Array]:
    """Samples on triangles in proportion to their areas: numbers of the triangles, and barycentric coordinates."""
    total = np.cumsum(areas)
    at = (np.arange(count) + 0.5) * (total[-1] / count)
    number = np.minimum(np.searchsorted(total, at), len(total) - 1)
    # The place within the triangle's share and the golden ratio make a lattice that covers the triangle evenly.
    v = np.sqrt(np.clip((at - total[number] + areas[number]) / np.maximum(areas[number], 1e-12), 0, 1))
    w = v * (np.arange(count) * GOLDEN % 1.0)
    return number, 1 - v, v - w, w
