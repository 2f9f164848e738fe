"""Layout: are the supplied objects where the picture shows them?

SceneActBench Section 3 and Appendix A.3. Predicted objects are matched with true ones so that the sum of directed
surface distances (ADD-S, predicted to truth) is least; the score is the mean distance of matched pairs against 4 m.

`strict` closes three holes: leaving objects away or deforming them does not pay (both count as unmatched, which costs
at least what leaving the object untouched costs), and the reference is what doing nothing costs in that very room.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.optimize import linear_sum_assignment
from scipy.spatial import cKDTree

from sceneact_gym.evaluators.base import (
    Array,
    IntArray,
    Protocol,
    as_points,
    box_centre,
    box_diagonal,
    check_protocol,
    d_surf_symmetric,
    fit_rigid,
    nearest,
    score_lower,
    subsample,
)

PREFIX = "object_"
KEPT = 4_000
COMPARED = 2_000
MERGED = 20_000
REFERENCE = 4.0
STRICT_REFERENCE_AT_LEAST = 0.25
PLACED = 0.1
MAX_OBJECTS = 200
"""Predicted objects; keeps the time bounded, as every one is compared with every true one."""
RIGID_TOLERANCE = 0.01
"""Fraction of an object's diagonal by which it may differ from the supplied mesh; more is a deformation."""


@dataclass(frozen=True)
class LayoutRow:
    """One true object.

    Attributes:
        truth: Its index in the truth.
        predicted: Name of the predicted object matched with it, None when unmatched.
        cost: Its ADD-S, metres; what being unmatched costs under `strict`, None under `paper`, when unmatched.
        pos_err: Distance of the box centres, metres; None when unmatched.
        placed: Whether the cost is below a tenth of the object's diagonal.
    """

    truth: int
    predicted: str | None
    cost: float | None
    pos_err: float | None
    placed: bool


@dataclass(frozen=True)
class LayoutScore:
    """Result of `evaluate`.

    Attributes:
        add_s: Mean directed surface distance, metres: of the matched pairs (`paper`), of all true objects (`strict`).
        pos_err: Mean distance of the box centres of matched pairs, metres; None without a pair.
        chamfer: Symmetric surface distance of the whole scenes, metres.
        pa: Placement accuracy: fraction of the true objects whose cost is below a tenth of their diagonal.
        ss: Scene success: 1 if the counts are equal and every object is placed, else 0.
        n_predicted: Number of predicted objects.
        n_extra: How many of them are not matched.
        n_altered: How many are not a supplied mesh moved rigidly; always 0 under `paper`, which does not look.
        altered: Their names.
        objects: One row per true object.
        score: 0 to 100.
        valid: Whether there was anything to score.
        reason: Why not, else empty.
        protocol: The protocol used.
    """

    add_s: float | None
    pos_err: float | None
    chamfer: float | None
    pa: float | None
    ss: int | None
    n_predicted: int
    n_extra: int
    n_altered: int
    altered: tuple[str, ...]
    objects: tuple[LayoutRow, ...]
    score: float
    valid: bool
    reason: str
    protocol: Protocol


def evaluate(
    predicted: Mapping[str, npt.ArrayLike],
    truth: Sequence[npt.ArrayLike],
    *,
    protocol: Protocol = "paper",
    floor: float | None = None,
    object_floors: Sequence[float] | None = None,
) -> LayoutScore:
    """Scores an arrangement of objects.

    Args:
        predicted: Object name -> `(V, 3)` vertices in the world, Z-up metres. Names that do not begin with `object_`
            are not objects of the task and are ignored, as are objects without vertices.
        truth: `(V, 3)` vertices of each true object in the same frame.
        protocol: `paper` or `strict`.
        floor: `strict`: ADD-S of the untouched initial scene (see `do_nothing`), metres; 4 m when None.
        object_floors: `strict`: the same for each true object, so that leaving away a far one does not pay either.

    Returns:
        The score; invalid, never an exception, for a prediction that cannot be used.
    """
    check_protocol(protocol)
    true_objects = []
    for j, value in enumerate(truth):
        points, reason = as_points(value, f"true object {j}")
        if reason:
            return _invalid(reason, protocol)
        true_objects.append(points)
    if not true_objects:
        return _invalid("the truth has no object", protocol)
    objects, reason = _predicted(predicted)
    if reason:
        return _invalid(reason, protocol)

    names = list(objects)
    kept = [subsample(v, KEPT) for v in objects.values()]
    compared = [subsample(v, COMPARED) for v in kept]
    true_compared = [subsample(v, COMPARED) for v in true_objects]
    costs = cost_matrix(compared, true_compared)

    altered: list[int] = []
    if protocol == "strict":
        shapes = [Shape.of(t) for t in true_objects]
        moved = [Shape.of(v) for v in objects.values()]
        altered = [i for i, m in enumerate(moved) if not any(is_rigid_copy(m, t) for t in shapes)]
    usable = np.array([i for i in range(len(names)) if i not in set(altered)], np.int64)
    rows_, columns = linear_sum_assignment(costs[usable])
    match = dict(zip(columns.tolist(), usable[rows_].tolist(), strict=True))

    rows = []
    for j, true in enumerate(true_objects):
        if j in match:
            i = match[j]
            cost = float(costs[i, j])
            distance = float(np.linalg.norm(box_centre(objects[names[i]]) - box_centre(true)))
            rows.append(LayoutRow(j, names[i], cost, distance, cost < PLACED * box_diagonal(true)))
        else:
            rows.append(LayoutRow(j, None, _unmatched_cost(j, floor, object_floors, protocol), None, False))
    charged = [r.cost for r in rows if r.cost is not None]
    distances = [r.pos_err for r in rows if r.pos_err is not None]
    add_s = sum(charged) / len(charged)
    pa = sum(r.placed for r in rows) / len(rows)
    reference = REFERENCE
    if protocol == "strict" and floor is not None:
        reference = max(floor, STRICT_REFERENCE_AT_LEAST)
    return LayoutScore(
        add_s=add_s,
        pos_err=sum(distances) / len(distances) if distances else None,
        chamfer=d_surf_symmetric(
            subsample(np.concatenate(kept), MERGED), subsample(np.concatenate(true_compared), MERGED)
        ),
        pa=pa,
        ss=int(len(names) == len(true_objects) and pa == 1),
        n_predicted=len(names),
        n_extra=len(names) - len(match),
        n_altered=len(altered),
        altered=tuple(names[i] for i in altered),
        objects=tuple(rows),
        score=score_lower(add_s, reference),
        valid=True,
        reason="",
        protocol=protocol,
    )


def do_nothing(
    initial: Mapping[str, npt.ArrayLike], truth: Sequence[npt.ArrayLike]
) -> tuple[float | None, tuple[float, ...]]:
    """What the untouched initial scene costs under `strict`: the `floor` and the `object_floors` of `evaluate`.

    Args:
        initial: The objects as the episode begins with them, as in `evaluate`.
        truth: The true objects.

    Returns:
        The mean over the true objects, metres (None for an unusable scene), and each one's own cost.
    """
    score = evaluate(initial, truth, protocol="strict")
    return score.add_s, tuple(r.cost for r in score.objects if r.cost is not None)


def cost_matrix(predicted: Sequence[Array], truth: Sequence[Array]) -> Array:
    """`(P, T)` directed surface distances from each predicted object to each true one, metres."""
    trees = [cKDTree(t) for t in truth]
    return np.array([[float(nearest(p, tree).mean()) for tree in trees] for p in predicted])


@dataclass(frozen=True, eq=False)
class Shape:
    """What of a vertex set does not depend on its pose, nor on how often and in which order vertices are listed.

    Attributes:
        points: `(N, 3)` all vertices as given.
        distinct: `(M, 3)` the vertices without duplicates (exporters split them), around their mean.
        extent: Twice the largest distance from that mean, metres.
        spread: `(3,)` standard deviations along the principal axes, ascending, metres.
        tree: Over `distinct`.
    """

    points: Array
    distinct: Array
    extent: float
    spread: Array
    tree: cKDTree

    @classmethod
    def of(cls, points: Array) -> Shape:
        """The shape of `(N, 3)` points, N at least 1."""
        points = points - points.mean(axis=0)
        size = max(float(np.linalg.norm(points, axis=1).max()), 1e-9) * 1e-5
        distinct = points[_first_of_cells(points, size)]
        distinct = distinct - distinct.mean(axis=0)
        extent = 2 * float(np.linalg.norm(distinct, axis=1).max())
        spread = np.sqrt(np.maximum(np.linalg.eigvalsh(distinct.T @ distinct / len(distinct)), 0))
        return cls(points, distinct, extent, spread, cKDTree(distinct))


def is_rigid_copy(moved: Shape, original: Shape, tolerance: float = RIGID_TOLERANCE) -> bool:
    """Whether one vertex set is another one moved rigidly, in any order and multiplicity of the vertices.

    Vertices of equal index are tried first. Otherwise the rotation is guessed from two landmarks of the original (the
    vertex farthest from the centre, and the one farthest from the axis through both) and every pair of vertices that
    could be them; the best guesses are refined by a few steps of nearest-neighbour fitting.

    Args:
        moved: The set to test.
        original: The supplied mesh, in any pose.
        tolerance: Deviation allowed for 99 % of the vertices, as a fraction of the original's extent.

    Returns:
        True if a rotation and a translation take one to the other; mirror images are not copies.
    """
    tol = tolerance * original.extent
    if len(moved.points) == len(original.points):
        rotation, shift = fit_rigid(original.points, moved.points)
        if _most(original.points @ rotation.T + shift - moved.points) <= tol:
            return True
    if abs(moved.extent - original.extent) > tol or np.abs(moved.spread - original.spread).max() > tol:
        return False
    few = subsample(original.distinct, 200), subsample(moved.distinct, 200)
    many = subsample(original.distinct, COMPARED), subsample(moved.distinct, COMPARED)

    def deviation(rotation: Array, a: Array, b: Array) -> float:
        there = _most(moved.tree.query(a @ rotation.T)[0])
        return there if there > tol else max(there, _most(original.tree.query(b @ rotation)[0]))

    guesses: list[tuple[float, int, Array]] = []
    for rotation in _landmark_rotations(original.distinct, moved.distinct, tol):
        rough = deviation(rotation, *few)
        if rough <= tol and deviation(rotation, *many) <= tol:
            return True
        guesses.append((rough, len(guesses), rotation))
    for _, _, rotation in sorted(guesses, key=lambda g: g[:2])[:8]:
        for _ in range(10):
            partner = moved.tree.query(many[0] @ rotation.T)[1]
            rotation, _ = fit_rigid(many[0], moved.distinct[partner])
            if deviation(rotation, *many) <= tol:
                return True
    return False


def _predicted(predicted: Mapping[str, npt.ArrayLike] | None) -> tuple[dict[str, Array], str]:
    """The task's objects by name in sorted order, so that a mapping's order never decides a tie; or why none."""
    objects: dict[str, Array] = {}
    for name in sorted(predicted or {}):
        if not name.startswith(PREFIX):
            continue
        points, reason = as_points(predicted[name], name)  # type: ignore[index]  # not None here
        if reason == f"{name} is empty":
            continue
        if reason:
            return {}, reason
        objects[name] = points
    if len(objects) > MAX_OBJECTS:
        return {}, f"the scene has {len(objects)} objects named {PREFIX}*, more than {MAX_OBJECTS}"
    return objects, "" if objects else f"the scene has no object named {PREFIX}*"


def _unmatched_cost(
    j: int, floor: float | None, object_floors: Sequence[float] | None, protocol: Protocol
) -> float | None:
    if protocol == "paper":
        return None
    own = object_floors[j] if object_floors is not None else floor
    return REFERENCE if own is None else max(REFERENCE, float(own))


def _most(differences: Array) -> float:
    """What 99 % of the distances, or of the lengths of the difference vectors, stay within."""
    lengths = differences if differences.ndim == 1 else np.linalg.norm(differences, axis=1)
    rank = math.ceil(0.99 * len(lengths)) - 1
    return float(np.partition(lengths, rank)[rank])


def _landmark_rotations(a: Array, b: Array, tol: float) -> Iterator[Array]:
    """Rotations that take two landmarks of the centred cloud `a` to vertices of the centred `b`, likeliest first."""
    first = a[np.linalg.norm(a, axis=1).argmax()]
    radius = float(np.linalg.norm(first))
    if radius <= 0:
        yield np.eye(3)
        return
    axis = first / radius
    second = a[np.linalg.norm(a - np.outer(a @ axis, axis), axis=1).argmax()]
    apart = float(np.linalg.norm(second - first))
    lengths = np.linalg.norm(b, axis=1)
    off_first = np.abs(lengths - radius)
    off_second = np.abs(lengths - np.linalg.norm(second))
    for p in _likely(b, off_first, tol)[:32]:
        off = np.maximum(off_second, np.abs(np.linalg.norm(b - p, axis=1) - apart))
        for q in _likely(b, off, 2 * tol)[:8]:
            # The normal of the triangle with the centre makes this a rotation even where the triangle is degenerate.
            source = np.stack([first, second, np.cross(first, second) / radius])
            target = np.stack([p, q, np.cross(p, q) / radius])
            u, _, vt = np.linalg.svd(source.T @ target)
            sign = 1.0 if np.linalg.det(vt.T @ u.T) >= 0 else -1.0
            yield vt.T @ np.diag([1.0, 1.0, sign]) @ u.T


def _likely(points: Array, off: Array, tol: float) -> Array:
    """The points that are off by at most `tol`, best first, thinned to one per neighbourhood of that size."""
    order = np.flatnonzero(off <= tol)
    order = order[np.argsort(off[order], kind="stable")]
    return points[order[_first_of_cells(points[order], 2 * tol)]]


def _first_of_cells(points: Array, size: float) -> IntArray:
    """Ascending indices of the first point in each occupied cell of a cubic grid."""
    if size <= 0:
        return np.arange(len(points))
    cells = np.floor(points / size + 0.5).astype(np.int64)
    # One integer per cell: 21 bits an axis are plenty for grids of at most 2e5 cells across.
    key = (cells[:, 0] << 42) + (cells[:, 1] << 21) + cells[:, 2]
    return np.sort(np.unique(key, return_index=True)[1])


def _invalid(reason: str, protocol: Protocol) -> LayoutScore:
    return LayoutScore(None, None, None, None, None, 0, 0, 0, (), (), 0.0, False, reason, protocol)
