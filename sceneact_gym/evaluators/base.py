"""What the evaluators share: points, distances, boxes, rigid fits and the step from a metric to a score.

All points are `(N, 3)` float64 arrays in metres, in Blender's Z-up frame. Nothing here raises on bad data: `as_points`
turns a NaN, an empty array or a wrong shape into a sentence, and the evaluators turn that into an invalid case.
The definitions are those of SceneActBench (arXiv 2607.22393), Section 3 and Appendix B.2.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from scipy.spatial import cKDTree

Protocol = Literal["paper", "strict"]
"""`paper`: the metrics exactly as published. `strict`: the same metrics with the known holes closed."""

Array = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]

MAX_COORDINATE = 1e9
"""Metres. Anything further out is refused, since squared distances would lose every digit or overflow."""


@dataclass(frozen=True, eq=False)
class Mesh:
    """A triangle mesh.

    Attributes:
        name: The object's name in its scene.
        vertices: `(V, 3)` float64 positions, metres.
        faces: `(F, 3)` int64 vertex indices; may be empty (points and lines have none).
    """

    name: str
    vertices: Array
    faces: IntArray

    def referenced(self) -> Mesh:
        """The same mesh without the vertices that no face uses, in unchanged order."""
        used = np.unique(self.faces)
        renumber = np.zeros(len(self.vertices), np.int64)
        renumber[used] = np.arange(len(used))
        return Mesh(self.name, self.vertices[used], renumber[self.faces])


def check_protocol(protocol: str) -> None:
    """Refuses a protocol that does not exist: a caller's mistake, not a property of a submission.

    Raises:
        ValueError: `protocol` is neither `paper` nor `strict`.
    """
    if protocol not in ("paper", "strict"):
        raise ValueError(f"protocol must be 'paper' or 'strict', not {protocol!r}")


def as_points(value: Any, what: str, at_least: int = 1) -> tuple[Array, str]:
    """Reads a point array without ever raising.

    Args:
        value: Anything; a usable value is array-like of shape `(N, 3)`.
        what: How to call it in the reason, for example `"object_03"`.
        at_least: Fewest points that are acceptable.

    Returns:
        The `(N, 3)` float64 points and an empty string, or a `(0, 3)` array and the reason why there are none.
    """
    none = np.zeros((0, 3))
    if value is None:
        return none, f"{what} is missing"
    try:
        points = np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        return none, f"{what} is not an array of numbers"
    if points.size == 0:
        return none, f"{what} is empty"
    if points.ndim != 2 or points.shape[1] != 3:
        return none, f"{what} has shape {points.shape}, not (N, 3)"
    if not np.isfinite(points).all():
        return none, f"{what} has NaN or infinite coordinates"
    if np.abs(points).max() > MAX_COORDINATE:
        return none, f"{what} has coordinates beyond {MAX_COORDINATE:g} m"
    if len(points) < at_least:
        return none, f"{what} has {len(points)} points, fewer than {at_least}"
    return points, ""


def subsample(points: Array, cap: int, seed: int = 0) -> Array:
    """At most `cap` rows, drawn without replacement; the array itself when it is not larger than the cap."""
    if len(points) <= cap:
        return points
    return points[np.random.default_rng(seed).choice(len(points), cap, replace=False)]


def nearest(a: Array, b: Array | cKDTree) -> Array:
    """`(N,)` distances in metres from each point of `a` to the nearest point of `b` (points or a tree over them)."""
    tree = b if isinstance(b, cKDTree) else cKDTree(b)
    return tree.query(a)[0]


def d_surf(a: Array, b: Array | cKDTree) -> float:
    """Directed surface distance in metres: the mean over `a` of the distance to the nearest point of `b`."""
    return float(nearest(a, b).mean())


def d_surf_symmetric(a: Array, b: Array) -> float:
    """Sum of both directed surface distances, metres (the Chamfer distance of this benchmark)."""
    return d_surf(a, b) + d_surf(b, a)


def box_centre(points: Array) -> Array:
    """`(3,)` centre of the axis-aligned bounding box."""
    return (points.min(axis=0) + points.max(axis=0)) / 2


def box_diagonal(points: Array) -> float:
    """Length of the bounding box's diagonal, metres."""
    return float(np.linalg.norm(points.max(axis=0) - points.min(axis=0)))


def fit_rigid(source: Array, target: Array) -> tuple[Array, Array]:
    """Least-squares rigid motion between corresponding points (Kabsch), never a reflection.

    Args:
        source: `(N, 3)` points before the motion, N at least 1.
        target: `(N, 3)` the same points after it.

    Returns:
        Rotation `R` `(3, 3)` and translation `t` `(3,)` that minimise the sum of `|R s + t - q|^2`. Where the points
        leave the rotation undetermined (all equal, all on one line) one of the minimisers.
    """
    a, b = source.mean(axis=0), target.mean(axis=0)
    u, _, vt = np.linalg.svd((source - a).T @ (target - b))
    # det is +-1 up to rounding; the sign flips the least important axis of a reflection back into a rotation.
    sign = 1.0 if np.linalg.det(vt.T @ u.T) >= 0 else -1.0
    rotation = vt.T @ np.diag([1.0, 1.0, sign]) @ u.T
    return rotation, b - rotation @ a


def score_lower(metric: float | None, reference: float) -> float:
    """Score 0 to 100 of a metric that is better when lower: `100 max(0, 1 - m/u)`; an absent metric scores 0."""
    if metric is None or not math.isfinite(metric) or not reference > 0:
        return 0.0
    return 100.0 * min(1.0, max(0.0, 1.0 - metric / reference))


def score_higher(metric: float | None, reference: float) -> float:
    """Score 0 to 100 of a metric that is better when higher: `100 min(1, m/u)`; an absent metric scores 0."""
    if metric is None or not math.isfinite(metric) or not reference > 0:
        return 0.0
    return 100.0 * max(0.0, min(1.0, metric / reference))
