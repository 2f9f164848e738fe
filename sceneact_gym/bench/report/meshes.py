"""Meshes made small for a page: thinned to a number of triangles, and packed as text of few bytes."""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from typing import Any

import numpy as np

from sceneact_gym.bench.report.scenes import Array, Eye, Part, Side, Truth, walls
from sceneact_gym.evaluators.base import IntArray

MAX_SHOWN = 60_000
"""Triangles of one side on a page."""
MAX_MOVERS = 300
"""Moving meshes of one side on a page; the smallest beyond it are left out."""
STEPS = 65_535
"""Of the scale on which coordinates are rounded, along each side of a part's box."""


def thin(parts: Sequence[Part], cap: int = MAX_SHOWN) -> tuple[Part, ...]:
    """The same parts with at most `cap` triangles in all, by merging the vertices within cells of a grid."""
    parts = tuple(parts)
    if sum(len(part.faces) for part in parts) <= cap:
        return parts
    area = sum(_area(part) for part in parts)
    # A plain surface of area A crosses about A / s^2 cells of side s, and leaves about three triangles in each; one of
    # fine details leaves far fewer. So the cells begin small, and grow as long as there are too many triangles.
    cell = max(float(np.sqrt(3 * area / cap)) / 32, 1e-6)
    while sum(len(part.faces) for part in parts) > cap:
        parts = tuple(part for part in (_merged(part, cell) for part in parts) if len(part.faces))
        cell *= 1.3
    return parts


def _area(part: Part) -> float:
    a, b, c = (part.vertices[part.faces[:, corner]] for corner in range(3))
    return float(np.linalg.norm(np.cross(b - a, c - a), axis=1).sum()) / 2


def _merged(part: Part, cell: float) -> Part:
    places = np.minimum((part.vertices - part.vertices.min(axis=0)) / cell, 2**20 - 1).astype(np.int64)
    _, group, sizes = np.unique(
        places[:, 0] << 40 | places[:, 1] << 20 | places[:, 2], return_inverse=True, return_counts=True
    )
    vertices = np.column_stack([np.bincount(group, axis) for axis in part.vertices.T]) / sizes[:, None]
    faces = group[part.faces]
    a, b, c = faces.T
    return Part(part.name, vertices, faces[(a != b) & (b != c) & (c != a)], part.poses)


def fewer_movers(parts: Sequence[Part], cap: int = MAX_MOVERS) -> tuple[Part, ...]:
    """The parts without the smallest of those that move, so that at most `cap` of these remain."""
    moving = sorted((part for part in parts if part.poses is not None), key=_extent, reverse=True)
    left_out = {id(part) for part in moving[cap:]}
    return tuple(part for part in parts if id(part) not in left_out)


def _extent(part: Part) -> float:
    return float(np.ptp(part.vertices, axis=0).max(initial=0.0))


def packed_truth(truth: Truth) -> dict[str, Any]:
    """A true scene as JSON values for `viewer.js`."""
    room = thin(truth.room)
    shown = [part.at(truth.telling) for part in (*truth.side.parts, *room)]
    shown += [eye.matrix[None, :3, 3] for eye in (truth.side.eye,) if eye is not None]
    return {
        **packed_side(truth.side),
        "room": _packed_room(room),
        "frames": truth.frames,
        "telling": truth.telling,
        "view": _packed_eye(truth.view),
        "box": _box(shown),
    }


def packed_side(side: Side) -> dict[str, Any]:
    """One side as JSON values for `viewer.js`; `of` is the number of triangles that it really has."""
    parts = thin(fewer_movers(side.parts))
    return {
        "parts": _packed_parts(parts),
        "eye": _packed_eye(side.eye),
        "links": [] if side.links is None else np.round(side.links, 4).tolist(),
        "triangles": sum(len(part.faces) for part in parts),
        "of": sum(len(part.faces) for part in side.parts),
    }


def _box(clouds: Sequence[Array]) -> list[list[float]] | None:
    points = np.concatenate(clouds) if clouds else np.zeros((0, 3))
    return np.round([points.min(axis=0), points.max(axis=0)], 4).tolist() if len(points) else None


def script(slot: str, values: dict[str, Any]) -> str:
    """A script that hands `values` to the viewer; a page from disk may load scripts, but nothing else."""
    text = json.dumps(values, separators=(",", ":"), allow_nan=False).replace("<", "\\u003c")
    return f"sceneact.take({json.dumps(slot)},{text});\n"


def _packed_eye(eye: Eye | None) -> dict[str, Any] | None:
    return None if eye is None else {"matrix": np.round(eye.matrix, 6).tolist(), "fov": eye.fov_x_deg}


def _packed_room(parts: Sequence[Part]) -> list[dict[str, Any]]:
    """The furniture, and each wall by itself with its outward normal `wall`."""
    normals = walls(parts)
    furniture = [part for part, normal in zip(parts, normals, strict=True) if normal is None]
    return _packed_parts(furniture) + [
        {**_packed(part.vertices, part.faces, None), "wall": normal.tolist()}
        for part, normal in zip(parts, normals, strict=True)
        if normal is not None
    ]


def _packed_parts(parts: Sequence[Part]) -> list[dict[str, Any]]:
    """What stands as one mesh, and every mesh that moves."""
    standing = [part for part in parts if part.poses is None]
    packed = []
    if standing:
        starts = np.cumsum([0, *(len(part.vertices) for part in standing)])
        packed.append(
            _packed(
                np.concatenate([part.vertices for part in standing]),
                np.concatenate([part.faces + start for part, start in zip(standing, starts, strict=False)]),
                None,
            )
        )
    return packed + [_packed(part.vertices, part.faces, part.poses) for part in parts if part.poses is not None]


def _packed(vertices: Array, faces: IntArray, poses: Array | None) -> dict[str, Any]:
    """`low` and `size` (metres) of the box, `v` (V, 3) uint16 on it, `i` uint16 or uint32, `t` (T, 3, 4) float32."""
    low = vertices.min(axis=0)
    size = np.maximum(vertices.max(axis=0) - low, 1e-9)
    steps = np.clip(np.round((vertices - low) / size * STEPS), 0, STEPS)
    wide = len(vertices) > STEPS
    return {
        "low": low.tolist(),
        "size": size.tolist(),
        "v": _text(steps.astype("<u2")),
        "i": _text(faces.astype("<u4" if wide else "<u2")),
        "wide": wide,
        "t": "" if poses is None else _text(poses[:, :3].astype("<f4")),
    }


def _text(values: np.ndarray) -> str:
    return base64.b64encode(np.ascontiguousarray(values).tobytes()).decode()
