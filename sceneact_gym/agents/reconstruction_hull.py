"""A baseline for Reconstruction without learning: shape from silhouettes, then from colours.

What lies inside the silhouettes of all views is the visual hull. Furniture that hides furniture makes it too fat, so
that cells of its surface which look different from different sides are carved away. Every connected piece that is left
becomes one mesh. It sees only what every agent sees: the references, and the cameras in its scene.
"""

from __future__ import annotations

import base64
import json
import math
import zlib
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import ndimage

from sceneact_gym.agents.base import BaseAgent, Info
from sceneact_gym.tools import MAX_CALLS

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]

CELL = 0.04
"""Metres: about what a pixel of a 256-pixel reference covers, and below the tolerance for small pieces."""
COARSE_CELL = 0.12
MARGIN = 0.15
"""Metres of free space around what the coarse grid finds."""
WHITE = 250
"""A pixel with a darker channel shows furniture; the background is 255."""
COARSE_GROWTH = 1 / 64
"""Of the picture's width: how much silhouettes are grown for the coarse grid, which would miss thin legs otherwise."""
CONTRAST = 45.0
"""Standard deviation of the colour over the views (0 to 255, three channels together) that one surface may have."""
CARVE_PASSES = 8
CARVE_VIEWS = 3
DEPTH_PIXELS = 128
"""Width of the depth pictures: at this size a cell covers at least about a pixel, so that surfaces have no gaps."""
SMALLEST_PIECE = 8
"""Cells: less is a leftover."""

CAMERAS_CODE = """\
import json
views = sorted((o for o in bpy.context.scene.objects if o.type == "CAMERA"), key=lambda o: o.name)
print(json.dumps([[[round(v, 6) for row in o.matrix_world for v in row], round(o.data.angle_x, 6)] for o in views]))"""

PIECE_CODE = """\
import base64, zlib
import numpy as np
shape, low, cell = {shape}, {low}, {cell}
packed = np.frombuffer(zlib.decompress(base64.b64decode("{data}")), np.uint8)
solid = np.pad(np.unpackbits(packed)[:np.prod(shape)].reshape(shape).astype(bool), 1)
quads = []
for axis in range(3):
    u, v = [a for a in range(3) if a != axis]
    for side in (1, -1):
        at = np.argwhere(solid & ~np.roll(solid, -side, axis)) - 1
        at[:, axis] += side > 0
        corners = []
        for du, dv in ((0, 0), (1, 0), (1, 1), (0, 1)):
            corner = at.copy()
            corner[:, u] += du
            corner[:, v] += dv
            corners.append(corner)
        quads.append(np.stack(corners if (side > 0) != (axis == 1) else corners[::-1], axis=1))
quads = np.concatenate(quads)
points, faces = np.unique(quads.reshape(-1, 3), axis=0, return_inverse=True)
mesh = bpy.data.meshes.new("{name}")
mesh.from_pydata((points * cell + low).tolist(), [], faces.reshape(-1, 4).tolist())
bpy.context.scene.collection.objects.link(bpy.data.objects.new("{name}", mesh))
print("{name}:", len(points), "vertices")"""
"""Builds the outside of a block of cells as one mesh."""


class View(NamedTuple):
    """A calibrated view: `matrix` (4, 4) camera to world, `tangent` of half its field of view, `picture` (H, H, 3)."""

    matrix: Array
    tangent: float
    picture: NDArray[np.uint8]

    def project(self, points: Array, size: int) -> tuple[NDArray[np.int64], NDArray[np.int64], Array]:
        """Row, column (of a picture of that size, -1 where outside) and depth (metres) of (N, 3) world points."""
        local = (points - self.matrix[:3, 3]) @ self.matrix[:3, :3]
        depth = -local[:, 2]
        scale = size / 2 / self.tangent / np.maximum(depth, 0.05)
        column, row = size / 2 + local[:, 0] * scale, size / 2 - local[:, 1] * scale
        seen = (depth > 0.05) & (np.minimum(row, column) >= 0) & (np.maximum(row, column) < size)
        return np.where(seen, row, -1).astype(np.int64), np.where(seen, column, -1).astype(np.int64), depth


class Grid(NamedTuple):
    """Cubic cells: `solid` (X, Y, Z), the `low` corner of the first one (3,), and their edge `cell`, metres."""

    solid: Mask
    low: Array
    cell: float

    def centres(self, index: NDArray[np.int64]) -> Array:
        """(N, 3) world points of (N, 3) cell numbers."""
        return self.low + (index + 0.5) * self.cell


class ReconstructionHullAgent(BaseAgent):
    """Asks for the cameras, computes the pieces, builds them, looks once, submits. It draws nothing by chance."""

    def reset(self, observation: Any, info: Info) -> None:
        """Keeps the references."""
        self.budget = int(info["budget"])
        self.pictures = np.asarray(observation["references"])
        self.queue: list[dict[str, Any]] | None = None
        self.turn = 0

    def act(self, observation: Any, info: Info) -> Any:
        """Two turns and one for every sixteen pieces; the largest pieces come first."""
        self.turn += 1
        if self.turn == 1:
            return [_code(CAMERAS_CODE)]
        if self.queue is None:
            views = read_views(info["results"][0]["text"], self.pictures)
            self.queue = [_code(piece_code(piece, number)) for number, piece in enumerate(pieces(reconstruct(views)))]
        if self.queue and self.turn < self.budget:
            calls, self.queue = self.queue[:MAX_CALLS], self.queue[MAX_CALLS:]
            return calls
        return [
            *self.queue[: MAX_CALLS - 2],
            {"name": "render_scene_view", "arguments": {}},
            {"name": "submit", "arguments": {}},
        ]


def read_views(text: str, pictures: NDArray[np.uint8]) -> list[View]:
    """The views from what `CAMERAS_CODE` printed and the references, which come in the order of the cameras' names."""
    return [
        View(np.array(matrix, float).reshape(4, 4), math.tan(angle / 2), picture)
        for (matrix, angle), picture in zip(json.loads(text), pictures, strict=False)
    ]


def reconstruct(views: Sequence[View]) -> Grid:
    """The carved visual hull of what the pictures show before white."""
    masks = [(view.picture < WHITE).any(axis=2) for view in views]
    low, high = _bounds(views, masks)
    return carve(hull(views, masks, low, high, CELL), views)


def hull(views: Sequence[View], masks: Sequence[Mask], low: Array, high: Array, cell: float) -> Grid:
    """The cells between two corners whose centres lie inside the silhouettes (H, H) of all views."""
    shape = np.maximum(np.ceil((high - low) / cell), 1).astype(int)
    grid = Grid(np.zeros(shape, bool), low, cell)
    index = np.stack(np.unravel_index(np.arange(grid.solid.size), grid.solid.shape), axis=1)
    for view, mask in zip(views, masks, strict=True):
        row, column, _ = view.project(grid.centres(index), len(mask))
        index = index[(row >= 0) & mask[row, column]]
    grid.solid[tuple(index.T)] = True
    return grid


def _bounds(views: Sequence[View], masks: Sequence[Mask]) -> tuple[Array, Array]:
    """Corners around everything, from a coarse hull of the space between the cameras, above the floor."""
    places = np.array([view.matrix[:3, 3] for view in views])
    low = np.array([*places[:, :2].min(axis=0), 0.0])
    high = np.array([*places[:, :2].max(axis=0), max(3.5, float(places[:, 2].max()))])
    growth = max(1, round(COARSE_GROWTH * len(masks[0])))
    grown = [ndimage.binary_dilation(mask, iterations=growth) for mask in masks]
    coarse = hull(views, grown, low, high, COARSE_CELL)
    index = np.argwhere(coarse.solid)
    if not len(index):
        return low, low + MARGIN
    centres = coarse.centres(index)
    low = centres.min(axis=0) - MARGIN
    low[2] = max(0.0, low[2])
    return low, centres.max(axis=0) + MARGIN


def carve(grid: Grid, views: Sequence[View]) -> Grid:
    """Takes away surface cells that at least three views see in different colours, layer by layer."""
    pictures = [ndimage.uniform_filter(view.picture.astype(float), (3, 3, 1)) for view in views]
    solid = grid.solid.copy()
    for _ in range(CARVE_PASSES):
        index = np.argwhere(solid & ~ndimage.binary_erosion(solid))
        points = grid.centres(index)
        count, total, squares = np.zeros((len(index), 1)), np.zeros((len(index), 3)), np.zeros((len(index), 3))
        for view, picture in zip(views, pictures, strict=True):
            row, column, depth = view.project(points, DEPTH_PIXELS)
            nearest = np.full((DEPTH_PIXELS, DEPTH_PIXELS), np.inf)
            np.minimum.at(nearest, (row, column), depth)
            sees = (depth < nearest[row, column] + grid.cell) & (row >= 0)
            row, column, _ = view.project(points, len(picture))
            color = picture[row, column] * sees[:, None]
            count[:, 0] += sees
            total += color
            squares += color**2
        mean = total / np.maximum(count, 1)
        variance = (squares / np.maximum(count, 1) - mean**2).sum(axis=1)
        wrong = (count[:, 0] >= CARVE_VIEWS) & (variance > CONTRAST**2)
        if not wrong.any():
            break
        solid[tuple(index[wrong].T)] = False
    return grid._replace(solid=solid)


def pieces(grid: Grid) -> list[Grid]:
    """The connected pieces, largest first, each in a grid of its own; leftovers are dropped."""
    labels, count = ndimage.label(grid.solid, np.ones((3, 3, 3)))
    sizes = np.bincount(labels.ravel(), minlength=count + 1)[1:]
    found = []
    for number, box in enumerate(ndimage.find_objects(labels)):
        if sizes[number] >= SMALLEST_PIECE:
            low = grid.low + grid.cell * np.array([part.start for part in box])
            found.append(Grid(labels[box] == number + 1, low, grid.cell))
    return sorted(found, key=lambda piece: -int(piece.solid.sum()))


def piece_code(piece: Grid, number: int) -> str:
    """Code that builds the surface of a piece as the mesh `piece_NN`."""
    data = base64.b64encode(zlib.compress(np.packbits(piece.solid).tobytes(), 9)).decode()
    low = [round(float(v), 5) for v in piece.low]
    return PIECE_CODE.format(
        shape=list(piece.solid.shape), low=low, cell=piece.cell, data=data, name=f"piece_{number:02d}"
    )


def _code(code: str) -> dict[str, Any]:
    return {"name": "execute_blender_code", "arguments": {"code": code}}
