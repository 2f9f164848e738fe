"""A picture of submission and truth from all around, made by a small rasteriser of our own.

Parallel projection, flat colours by the angle towards the viewer, twice the resolution averaged down. All triangles are
cut into rows of pixels, and all rows into pixels, at once in numpy; the nearest pixel stays.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from sceneact_gym.bench.report.scenes import Array, Eye, Part, Side, Truth, walls
from sceneact_gym.evaluators.base import IntArray

VIEWS = 8
SIZE = 150
"""Pixels of one view."""
SHARP = 2
ELEVATION = 0.5
"""Radians above the horizon."""
MARGIN = 1.08
AGREES = 0.02
"""Surfaces this close in depth, as a part of the scene's radius, count as the same in the overlay."""
SUBMISSION, TRUTH, BOTH, ROOM, LINK = range(5)
"""Kinds of surfaces."""
PALETTE = np.array(
    [[int(text[at : at + 2], 16) for at in (0, 2, 4)] for text in ("0072b2", "e69f00", "a0a0a0", "b9b6ae", "6b3fa0")],
    np.float32,
)
"""Their colours, 0 to 255."""
FACES = 0.05
"""Cosine from which a wall stands between the viewer and the room."""
MAX_PIXELS = 4_000_000
"""Pixels drawn in one view: beyond it what is largest is left out."""
NOWHERE = -np.inf


@dataclass(frozen=True, eq=False)
class Soup:
    """Triangles in the world.

    Attributes:
        corners: (T, 3, 3) metres.
        kinds: (T,) rows of `PALETTE`.
        one_sided: (T,) whether a triangle is seen from its front only.
    """

    corners: Array
    kinds: IntArray
    one_sided: NDArray[np.bool_]

    @staticmethod
    def of(corners: Array, kind: int, one_sided: bool = False) -> Soup:
        """Triangles of one kind."""
        count = len(corners)
        return Soup(corners, np.full(count, kind), np.full(count, one_sided))

    @staticmethod
    def join(soups: Sequence[Soup]) -> Soup:
        """All of them."""
        return Soup(
            np.concatenate([soup.corners for soup in soups]),
            np.concatenate([soup.kinds for soup in soups]),
            np.concatenate([soup.one_sided for soup in soups]),
        )


@dataclass(frozen=True, eq=False)
class Layer:
    """A rasterised view.

    Attributes:
        depth: (H, W) nearness in metres; `NOWHERE` where nothing is.
        kinds: (H, W) rows of `PALETTE`.
        light: (H, W) brightness, 0 to 1; 0 where nothing is.
    """

    depth: Array
    kinds: IntArray
    light: NDArray[np.float32]


def turntable(truth: Truth, submission: Side | None) -> Image.Image:
    """Views from all around, one column each.

    The rows are the submission (blue), the truth (orange), and both, with grey where their surfaces agree. Without a
    submission there is only the truth; the cameras of the task Camera stand in one row, in their room.
    """
    radius, center = _frame(truth)
    normals = walls(truth.room)
    true = _drawn(truth.side, truth, TRUTH, radius)
    mine = None if submission is None else _drawn(submission, truth, SUBMISSION, radius)
    links = np.zeros((0, 2, 3)) if submission is None or submission.links is None else submission.links
    joins = Soup.of(strips(links, 0.014 * radius), LINK)
    if mine is not None and truth.side.eye is not None:
        true, mine = Soup.join([true, mine, joins]), None
    rows: list[list[NDArray[np.uint8]]] = [[]] if mine is None else [[], [], []]
    for number in range(VIEWS):
        axes = _axes(_first_turn(truth, center) + number * 2 * np.pi / VIEWS)
        # Walls between the viewer and the room are left away.
        room = [
            part for part, normal in zip(truth.room, normals, strict=True) if normal is None or normal @ axes[2] < FACES
        ]
        behind = Soup.of(_corners(room, truth.telling), ROOM, one_sided=True)
        seen = raster(Soup.join([true, behind]), axes, center, radius)
        if mine is None:
            rows[0].append(_reduced(seen))
            continue
        own = raster(mine, axes, center, radius)
        both = nearer(overlay(own, seen, AGREES * radius), raster(joins, axes, center, radius))
        for row, layer in zip(rows, (own, seen, both), strict=True):
            row.append(_reduced(layer))
    return Image.fromarray(np.concatenate([np.concatenate(row, axis=1) for row in rows]), "RGBA")


def webp(picture: Image.Image) -> bytes:
    """The picture as a small file."""
    file = io.BytesIO()
    picture.save(file, "WEBP", quality=78, method=1)
    return file.getvalue()


def overlay(submission: Layer, truth: Layer, close: float) -> Layer:
    """The nearer of both surfaces; in `BOTH` where they are closer than `close`, metres."""
    front = nearer(truth, submission)
    with np.errstate(invalid="ignore"):  # Where both are nowhere.
        same = np.abs(submission.depth - truth.depth) < close
    return Layer(front.depth, np.where(same, BOTH, front.kinds), front.light)


def nearer(one: Layer, other: Layer) -> Layer:
    """What is in front; `other` where both are equally near."""
    front = other.depth >= one.depth
    return Layer(
        np.maximum(one.depth, other.depth),
        np.where(front, other.kinds, one.kinds),
        np.where(front, other.light, one.light),
    )


def raster(soup: Soup, axes: Array, center: Array, radius: float) -> Layer:
    """Rasterises triangles.

    Args:
        soup: the triangles.
        axes: (3, 3) rows: right, up and towards the viewer, unit vectors.
        center: what the middle of the picture shows.
        radius: metres from there to the edge of the picture.
    """
    side = SIZE * SHARP
    local = (soup.corners - center) @ axes.T
    xy = side / 2 + local[..., :2] * np.array([1, -1]) * (side / 2 / radius)
    ax, bx, cx = xy[..., 0].T
    ay, by, cy = xy[..., 1].T
    area = (bx - ax) * (cy - ay) - (by - ay) * (cx - ax)
    # Rows grow downwards, so that a triangle that shows its front has a negative area.
    shown = np.flatnonzero((np.abs(area) > 1e-9) & ~(soup.one_sided & (area > 0)))
    local, xy, area = local[shown], xy[shown], area[shown]
    top, below = _pixels(xy[..., 1].min(axis=1), xy[..., 1].max(axis=1), side)
    triangle, row = _ranges(top, below)
    # In a row of pixels each edge bounds a triangle on one side: a x + b y + c is positive inside.
    left, right = np.full(len(row), -1.0), np.full(len(row), side + 1.0)
    for start, end in ((0, 1), (1, 2), (2, 0)):
        run = (xy[:, end] - xy[:, start]) * np.sign(area)[:, None]
        a, b = -run[:, 1], run[:, 0]
        c = -(a * xy[:, start, 0] + b * xy[:, start, 1])
        rest, slope = b[triangle] * (row + 0.5) + c[triangle], a[triangle]
        with np.errstate(divide="ignore", invalid="ignore"):
            cut = -rest / slope
        left = np.where(slope > 0, np.fmax(left, cut), left)
        right = np.where(slope < 0, np.fmin(right, cut), right)
    line, column = _ranges(*_pixels(left, right, side))
    triangle, row = triangle[line], row[line]
    # Depth is linear in the pixel's place.
    u, v = xy[:, 1] - xy[:, 0], xy[:, 2] - xy[:, 0]
    du, dv = local[:, 1, 2] - local[:, 0, 2], local[:, 2, 2] - local[:, 0, 2]
    across, down = (du * v[:, 1] - dv * u[:, 1]) / area, (dv * u[:, 0] - du * v[:, 0]) / area
    flat = local[:, 0, 2] - across * (xy[:, 0, 0] - 0.5) - down * (xy[:, 0, 1] - 0.5)
    depth = flat[triangle] + across[triangle] * column + down[triangle] * row
    pixel = row * side + column
    nearest = np.full(side * side, NOWHERE)
    np.maximum.at(nearest, pixel, depth)
    wins = depth == nearest[pixel]
    pixel, triangle = pixel[wins], triangle[wins]
    kinds, light = np.zeros(side * side, np.int64), np.zeros(side * side, np.float32)
    kinds[pixel], light[pixel] = soup.kinds[shown][triangle], _light(local)[triangle]
    return Layer(nearest.reshape(side, side), kinds.reshape(side, side), light.reshape(side, side))


def _pixels(low: Array, high: Array, side: int) -> tuple[IntArray, IntArray]:
    """First pixel with its middle at or after `low`, and the first one beyond `high`, within the picture."""
    first = np.clip(np.ceil(low - 0.5), 0, side).astype(np.int64)
    return first, np.clip(np.floor(high - 0.5) + 1, first, side).astype(np.int64)


def _ranges(first: IntArray, end: IntArray) -> tuple[IntArray, IntArray]:
    """The numbers from `first` up to `end` of each range, as many as may be tried, and which range each belongs to."""
    counts = end - first
    if counts.sum() > MAX_PIXELS:
        order = np.argsort(counts, kind="stable")
        counts[order[np.cumsum(counts[order]) > MAX_PIXELS]] = 0
    number = np.repeat(np.arange(len(counts)), counts)
    return number, np.arange(len(number)) - np.repeat(np.cumsum(counts) - counts - first, counts)


def _light(local: Array) -> Array:
    normals = np.cross(local[:, 1] - local[:, 0], local[:, 2] - local[:, 0])
    return 0.42 + 0.58 * np.abs(normals[:, 2]) / np.maximum(np.linalg.norm(normals, axis=1), 1e-30)


def _reduced(layer: Layer) -> NDArray[np.uint8]:
    """(SIZE, SIZE, 4): each pixel the mean of what is there, as opaque as much of it is covered."""
    alpha = _mean((layer.depth > NOWHERE).astype(np.float32))
    colors = _mean(PALETTE[layer.kinds] * layer.light[..., None]) / np.maximum(alpha, 1e-9)[..., None]
    return np.dstack([colors, alpha * 255]).round().astype(np.uint8)


def _mean(values: NDArray[np.float32]) -> NDArray[np.float32]:
    """Of each block of SHARP x SHARP pixels."""
    total = np.zeros_like(values[::SHARP, ::SHARP])
    for start in np.ndindex(SHARP, SHARP):
        total += values[start[0] :: SHARP, start[1] :: SHARP]
    return total / SHARP**2


def _frame(truth: Truth) -> tuple[float, Array]:
    """Radius and centre of the picture: all of the truth from every side."""
    clouds = [part.at(truth.telling) for part in (*truth.side.parts, *truth.room)]
    if truth.side.eye is not None:
        clouds.append(truth.side.eye.matrix[None, :3, 3])
    points = np.concatenate(clouds) if clouds else np.zeros((1, 3))
    low, high = points.min(axis=0), points.max(axis=0)
    return MARGIN * max(float(np.linalg.norm(high - low)) / 2, 1e-3), (low + high) / 2


def _first_turn(truth: Truth, center: Array) -> float:
    """The side from which the first reference was taken; the front without one."""
    if truth.view is None:
        return -np.pi / 2
    x, y = (truth.view.matrix[:3, 3] - center)[:2]
    return float(np.arctan2(y, x))


def _axes(turn: float) -> Array:
    back = np.array([np.cos(ELEVATION) * np.cos(turn), np.cos(ELEVATION) * np.sin(turn), np.sin(ELEVATION)])
    right = np.array([-np.sin(turn), np.cos(turn), 0.0])
    return np.stack([right, np.cross(back, right), back])


def _drawn(side: Side, truth: Truth, kind: int, radius: float) -> Soup:
    """A side's meshes, the paths of what moves in a video, its camera."""
    soups = [Soup.of(_corners(side.parts, truth.telling), kind)]
    if truth.frames > 1:
        for part in side.parts:
            if part.poses is not None:
                middle = part.vertices.mean(axis=0)
                path = part.poses[:, :3, :3] @ middle + part.poses[:, :3, 3]
                soups.append(Soup.of(strips(np.stack([path[:-1], path[1:]], axis=1), 0.012 * radius), kind))
    if side.eye is not None:
        soups.append(Soup.of(strips(frustum(side.eye, 0.35 * radius), 0.02 * radius), kind))
    return Soup.join(soups)


def _corners(parts: Sequence[Part], frame: int) -> Array:
    return np.concatenate([np.zeros((0, 3, 3)), *(part.at(frame)[part.faces] for part in parts)])


def strips(lines: Array, width: float) -> Array:
    """(T, 3, 3) triangles, metres, that show (L, 2, 3) lines from any side: two crossed bands for each."""
    start, end = lines[:, 0], lines[:, 1]
    along = end - start
    along = along / np.maximum(np.linalg.norm(along, axis=1), 1e-12)[:, None]
    other = np.where(np.abs(along[:, 2:]) < 0.9, [[0.0, 0.0, 1.0]], [[1.0, 0.0, 0.0]])
    x = np.cross(along, other)
    x /= np.maximum(np.linalg.norm(x, axis=1), 1e-12)[:, None]
    bands = []
    for across in (x * width / 2, np.cross(along, x) * width / 2):
        a, b, c, d = start - across, start + across, end + across, end - across
        bands += [np.stack([a, b, c], axis=1), np.stack([a, c, d], axis=1)]
    return np.concatenate(bands)


def frustum(eye: Eye, reach: float) -> Array:
    """(L, 2, 3) lines of a camera's field of view up to `reach` metres, with a roof on its upper side."""
    half = reach * np.tan(np.radians(eye.fov_x_deg) / 2)
    local = [(0, 0, 0), *((i * half, j * half, -reach) for i, j in ((1, 1), (-1, 1), (-1, -1), (1, -1)))]
    tip, *rim, roof = np.array([*local, (0, 1.5 * half, -reach)]) @ eye.matrix[:3, :3].T + eye.matrix[:3, 3]
    lines = [(tip, corner) for corner in rim] + [(rim[k], rim[(k + 1) % 4]) for k in range(4)]
    return np.array([*lines, (rim[0], roof), (rim[1], roof)])
