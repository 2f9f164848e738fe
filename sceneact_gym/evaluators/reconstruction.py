"""Reconstruction: how well the furniture of a room was rebuilt, object by object.

SceneActBench Section 3 and Appendix B.2. The prediction is scaled by the ratio of box diagonals and aligned by a rigid
ICP from four yaws. Under `paper`, DBSCAN then cuts the aligned vertices into clusters, which are matched to the true
objects and compared after a translation. Under `strict`, surfaces take the place of vertices and every predicted point
belongs to the object of its nearest true point, so that neither tessellation nor touching furniture matters.

`paper` amplifies the random subsample: the same submission can move by 0.2 between seeds, since one start of the ICP or
one radius of the clustering wins by a hair. `benchmarks/reconstruction_spread.py` prints by how much.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.optimize import linear_sum_assignment
from scipy.spatial import cKDTree

from sceneact_gym.evaluators.base import (
    Array,
    IntArray,
    Mesh,
    Protocol,
    as_points,
    box_centre,
    box_diagonal,
    check_protocol,
    d_surf_symmetric,
    fit_rigid,
    nearest,
    score_higher,
    subsample,
)

MESH_CAP = 4_000
ICP_CAP = 4_000
ICP_ITERATIONS = 30
ICP_STOP = 1e-5
YAWS = (0, 90, 180, 270)
AT_LEAST = 10
"""Fewest points on a side, in a region or of an object that are compared at all."""
OBJECT_TAU = 0.05
REGION_MARGIN = 0.1
COVERED = 0.30
MATCH_LIMIT = 0.6
CLUSTER_RADII = (0.10, 0.15, 0.20, 0.25, 0.30, 0.40)
CLUSTER_RADIUS_AT_LEAST = 0.04
CLUSTER_NEIGHBOURS = 10
CLUSTER_AT_LEAST = 30
SAMPLES_PER_M2 = 1_000.0
SAMPLES_AT_LEAST = 3_000
SAMPLES_AT_MOST = 30_000
SAMPLES_IN_ALL = 400_000
"""Per side: a submission of thousands of meshes is sampled more thinly, which bounds time and memory."""
NO_SIZE = 1e-9
"""Metres: a prediction with a smaller box has no size to be scaled by."""


@dataclass(frozen=True)
class ObjectRow:
    """One true object.

    Attributes:
        name: Its name.
        f5: F at 5 % of its diagonal, 0 to 1; 0 when unmatched.
        matched: Whether a cluster (`paper`) or at least 10 points (`strict`) fell to it.
        centroid_err: Distance of the centroids, metres; None when unmatched.
        points: Number of predicted points compared with it.
        region_f5: F at 5 % of its diagonal of whatever lies in its grown box.
    """

    name: str
    f5: float
    matched: bool
    centroid_err: float | None
    points: int
    region_f5: float


@dataclass(frozen=True)
class ReconstructionScore:
    """Result of `evaluate`. All metrics are None when invalid.

    Attributes:
        f5: Mean over the true objects of F at 5 % of each object's diagonal, 0 to 1 (the primary metric).
        match_rate: Fraction of the true objects that something was matched to.
        centroid_err: Mean centroid distance of the matched objects before any translation, metres; None without any.
        region_f5: Mean over the true objects of F at 5 % within the object's grown box.
        coverage: Fraction of the true objects with a region F of at least 0.30.
        scene_f2: F of the whole scene at 2 % of its diagonal.
        scene_f5: The same at 5 %.
        scene_f10: The same at 10 %.
        chamfer: Symmetric surface distance of the aligned scene, metres.
        scale: The factor the prediction was scaled by.
        clusters: Number of clusters found; None under `strict`.
        objects: One row per true object, in the order given.
        score: 0 to 100, `100 f5`.
        valid: Whether there was anything to score.
        reason: Why not, else empty.
        protocol: The protocol used.
    """

    f5: float | None
    match_rate: float | None
    centroid_err: float | None
    region_f5: float | None
    coverage: float | None
    scene_f2: float | None
    scene_f5: float | None
    scene_f10: float | None
    chamfer: float | None
    scale: float | None
    clusters: int | None
    objects: tuple[ObjectRow, ...]
    score: float
    valid: bool
    reason: str
    protocol: Protocol


@dataclass(frozen=True, eq=False)
class Alignment:
    """A similarity `p -> scale * rotation @ (p - centre) + translation`.

    Attributes:
        scale: Factor.
        centre: `(3,)` point that is moved to the origin first, metres.
        rotation: `(3, 3)` rotation.
        translation: `(3,)` where `centre` ends up, metres.
        error: Mean distance to the nearest target point after the alignment, metres.
    """

    scale: float
    centre: Array
    rotation: Array
    translation: Array
    error: float = math.inf

    def apply(self, points: Array) -> Array:
        """The moved points, `(N, 3)`."""
        # Centred before scaling: far from the origin the digits would be gone afterwards.
        return (points - self.centre) * self.scale @ self.rotation.T + self.translation


@dataclass(frozen=True, eq=False)
class Cloud:
    """Weighted points on surfaces.

    Attributes:
        points: `(N, 3)` metres.
        weights: `(N,)` area that each point stands for, square metres.
        owner: `(N,)` index of the mesh each point lies on.
    """

    points: Array
    weights: Array
    owner: IntArray


# ------------------------------------------------------------------------------------------------------------- stages


def fixed_scale(predicted: Array, truth: Array) -> float:
    """Ratio of the bounding boxes' diagonals, truth over prediction; 1 for a prediction without extent."""
    diagonal = box_diagonal(predicted)
    return box_diagonal(truth) / diagonal if diagonal > NO_SIZE else 1.0


def start_at(predicted: Array, truth: Array, yaw: float, scale: float) -> Alignment:
    """Box centres together, turned about Z by `yaw` degrees: where the ICP begins."""
    angle = math.radians(yaw)
    c, s = math.cos(angle), math.sin(angle)
    rotation = np.array([[c, -s, 0.0], [s, c, 0.0], [0.0, 0.0, 1.0]])
    return Alignment(scale, box_centre(predicted), rotation, box_centre(truth))


def icp(predicted: Array, truth: Array, start: Alignment, iterations: int = ICP_ITERATIONS) -> Alignment:
    """Rigid iterative closest point from a given start; the scale stays.

    Args:
        predicted: `(N, 3)` metres.
        truth: `(M, 3)` metres.
        start: The first guess.
        iterations: At most this many; it stops once the mean distance changes by less than 1e-5 m.

    Returns:
        The refined alignment with its mean nearest-neighbour distance.
    """
    tree = cKDTree(truth)
    moved = start.apply(predicted)
    rotation, translation = start.rotation, start.translation
    distance, index = tree.query(moved)
    before, error = math.inf, float(distance.mean())
    for _ in range(iterations):
        turn, shift = fit_rigid(moved, truth[index])
        moved = moved @ turn.T + shift
        rotation, translation = turn @ rotation, turn @ translation + shift
        distance, index = tree.query(moved)
        error = float(distance.mean())
        if abs(before - error) < ICP_STOP:
            break
        before = error
    return Alignment(start.scale, start.centre, rotation, translation, error)


def align(predicted: Array, truth: Array, scale: float) -> Alignment:
    """The best of the four yaw starts by mean distance, the first one on ties."""
    best: Alignment | None = None
    for yaw in YAWS:
        found = icp(predicted, truth, start_at(predicted, truth, yaw, scale))
        if best is None or found.error < best.error:
            best = found
    assert best is not None
    return best


def f_score(
    predicted: Array,
    truth: Array,
    taus: Sequence[float],
    predicted_weights: Array | None = None,
    truth_weights: Array | None = None,
) -> tuple[float, ...]:
    """F of two point sets at several thresholds: harmonic mean of precision and recall, 0 where both are 0.

    Args:
        predicted: `(N, 3)` metres, N at least 1.
        truth: `(M, 3)` metres, M at least 1.
        taus: Distances in metres below which a point counts as found.
        predicted_weights: `(N,)` weights of the predicted points in the precision; equal when None.
        truth_weights: `(M,)` likewise for the recall.

    Returns:
        One value in 0 to 1 per threshold.
    """
    there, back = nearest(predicted, truth), nearest(truth, predicted)
    return tuple(_f(there, back, tau, predicted_weights, truth_weights) for tau in taus)


def _f(there: Array, back: Array, tau: float, w_there: Array | None = None, w_back: Array | None = None) -> float:
    precision = float(np.average(there < tau, weights=w_there))
    recall = float(np.average(back < tau, weights=w_back))
    return 2 * precision * recall / (precision + recall) if precision + recall > 0 else 0.0


def choose_clusters(points: Array, objects: int, mean_diagonal: float) -> list[Array]:
    """Cuts points into as many clusters as there are objects, as nearly as DBSCAN can.

    Args:
        points: `(N, 3)` aligned predicted points, metres.
        objects: Number of true objects.
        mean_diagonal: Mean box diagonal of the true objects, metres.

    Returns:
        The clusters of at least 30 points of the radius that comes closest to `objects`; too few costs half a cluster
        more than too many, since touching objects that stay glued together are lost. The first radius on ties.
    """
    from sklearn.cluster import DBSCAN

    best: list[Array] = []
    best_miss = math.inf
    done = set()
    for ratio in CLUSTER_RADII:
        radius = max(CLUSTER_RADIUS_AT_LEAST, ratio * mean_diagonal)
        if radius in done:  # the floor makes several radii of a tiny scene equal
            continue
        done.add(radius)
        labels = DBSCAN(eps=radius, min_samples=CLUSTER_NEIGHBOURS).fit_predict(points)
        sizes = np.bincount(labels + 1)[1:]  # label -1 is noise
        kept = np.flatnonzero(sizes >= CLUSTER_AT_LEAST)
        miss = abs(len(kept) - objects) + (0.5 if len(kept) < objects else 0.0)
        if miss < best_miss:
            best_miss = miss
            best = [points[labels == label] for label in kept]
        if best_miss == 0:  # nothing later can be better, and ties go to the first
            break
    return best


def match_clusters(clusters: Sequence[Array], truths: Sequence[Array], limit: float) -> dict[int, int]:
    """Truth index -> cluster index by least total centroid distance (vertex means), none beyond `limit` metres."""
    if not clusters:
        return {}
    distance = np.linalg.norm(
        np.stack([t.mean(axis=0) for t in truths])[:, None] - np.stack([c.mean(axis=0) for c in clusters])[None], axis=2
    )
    # A forbidden pair costs more than all allowed ones together, so that it never displaces an allowed one.
    forbidden = distance > limit
    cost = np.where(forbidden, (len(truths) + 1) * (limit + 1.0), distance)
    rows, columns = linear_sum_assignment(cost)
    return {int(r): int(c) for r, c in zip(rows, columns, strict=True) if not forbidden[r, c]}


def cluster_f(cluster: Array, truth: Array) -> float:
    """F at 5 % of the object's diagonal once the cluster's mean has been moved onto the object's mean."""
    shifted = cluster + (truth.mean(axis=0) - cluster.mean(axis=0))
    return f_score(shifted, truth, [OBJECT_TAU * box_diagonal(truth)])[0]


def region_f(points: Array, truth: Array, margin: float, weights: Array | None = None) -> float:
    """F at 5 % of the object's diagonal of the points in its box grown by `margin` metres; 0 with fewer than 10."""
    inside = np.all((points >= truth.min(axis=0) - margin) & (points <= truth.max(axis=0) + margin), axis=1)
    if inside.sum() < AT_LEAST:
        return 0.0
    within = None if weights is None else weights[inside]
    return f_score(points[inside], truth, [OBJECT_TAU * box_diagonal(truth)], within)[0]


def sample_surfaces(meshes: Sequence[Mesh], seed: int, side: int) -> Cloud:
    """Area-uniform points on each mesh: 1,000 per square metre, 3,000 to 30,000 per mesh, 400,000 in all.

    Args:
        meshes: Meshes; one without area contributes nothing.
        seed: Seed of the draw.
        side: Any number: another one gives independent points, so that a copy is not compared with its own samples.

    Returns:
        The points. Their weights add up to each mesh's area: without them a scene of many small meshes, each with its
        3,000 points, would not be uniform over its area, and cutting one object in two would change its score.
    """
    corners = [m.vertices[m.faces] for m in meshes]
    areas = [np.linalg.norm(np.cross(c[:, 1] - c[:, 0], c[:, 2] - c[:, 0]), axis=1) / 2 for c in corners]
    totals = np.array([float(a.sum()) for a in areas])
    counts = np.clip(np.ceil(totals * SAMPLES_PER_M2), SAMPLES_AT_LEAST, SAMPLES_AT_MOST) * (totals > 0)
    counts = np.ceil(counts * min(1.0, SAMPLES_IN_ALL / max(float(counts.sum()), 1.0))).astype(np.int64)
    points, weights = [np.zeros((0, 3))], [np.zeros(0)]
    for i, count in enumerate(counts.tolist()):
        if not count:
            continue
        rng = np.random.default_rng([seed, side, i])
        cumulated = np.cumsum(areas[i])
        # Evenly spaced along the cumulated area from a random offset: as uniform as independent draws, but quieter.
        at = (np.arange(count) + rng.random(count)) * (cumulated[-1] / count)
        face = np.minimum(np.searchsorted(cumulated, at, side="right"), len(cumulated) - 1)
        u, v = rng.random((2, count, 1))
        root = np.sqrt(u)
        a, b, c = corners[i][face].transpose(1, 0, 2)
        points.append(a * (1 - root) + b * (root * (1 - v)) + c * (root * v))
        weights.append(np.full(count, totals[i] / count))
    owner = np.repeat(np.arange(len(meshes)), counts)
    return Cloud(np.concatenate(points), np.concatenate(weights), owner)


# --------------------------------------------------------------------------------------------------------- evaluation


def evaluate(
    predicted: Sequence[Mesh], truth: Sequence[Mesh], *, protocol: Protocol = "paper", seed: int = 0
) -> ReconstructionScore:
    """Scores a rebuilt room.

    Args:
        predicted: The submission's meshes in the world, Z-up metres (any scale and yaw), modifiers applied.
        truth: The true furniture, one mesh per object, without the room's shell, in the same frame.
        protocol: `paper` or `strict`.
        seed: Seed of every subsample.

    Returns:
        The score; invalid, never an exception, for meshes that cannot be used. Under `strict` centroids are those of
        the surface, an object is matched once 10 points fall to it, and the scene metrics are over surface samples.
    """
    check_protocol(protocol)
    true_meshes, reason = _check(truth, "the truth", protocol)
    if reason or not true_meshes:
        return _invalid(reason or "the truth has no object", protocol)
    meshes, reason = _check(predicted, "the prediction", protocol)
    if reason or not meshes:
        return _invalid(reason or "the prediction has no mesh", protocol)
    return (_paper if protocol == "paper" else _strict)(meshes, true_meshes, seed)


def _paper(meshes: list[Mesh], true_meshes: list[Mesh], seed: int) -> ReconstructionScore:
    merged = np.concatenate([subsample(m.vertices, MESH_CAP, seed) for m in meshes])
    objects = [m.vertices for m in true_meshes]
    all_true = np.concatenate(objects)
    for side, points in (("prediction", merged), ("truth", all_true)):
        if len(points) < AT_LEAST:
            return _invalid(f"the {side} has {len(points)} points, fewer than {AT_LEAST}", "paper")
    points, target = subsample(merged, ICP_CAP, seed), subsample(all_true, ICP_CAP, seed)
    scale = fixed_scale(points, target)
    aligned = align(points, target, scale).apply(points)
    scene = box_diagonal(target)

    clusters = choose_clusters(aligned, len(objects), float(np.mean([box_diagonal(o) for o in objects])))
    matches = match_clusters(clusters, objects, MATCH_LIMIT * scene)
    rows = []
    for i, (mesh, vertices) in enumerate(zip(true_meshes, objects, strict=True)):
        region = region_f(aligned, vertices, REGION_MARGIN * scene)
        if i not in matches:
            rows.append(ObjectRow(mesh.name, 0.0, False, None, 0, region))
            continue
        cluster = clusters[matches[i]]
        distance = float(np.linalg.norm(cluster.mean(axis=0) - vertices.mean(axis=0)))
        rows.append(ObjectRow(mesh.name, cluster_f(cluster, vertices), True, distance, len(cluster), region))
    scene_f = f_score(aligned, target, [p * scene for p in (0.02, 0.05, 0.10)])
    return _result(rows, scene_f, d_surf_symmetric(aligned, target), scale, len(clusters), "paper")


def _strict(meshes: list[Mesh], true_meshes: list[Mesh], seed: int) -> ReconstructionScore:
    cloud, target = sample_surfaces(meshes, seed, 0), sample_surfaces(true_meshes, seed, 1)
    for side, c in (("prediction", cloud), ("truth", target)):
        if len(c.points) < AT_LEAST:
            return _invalid(f"the {side} has no surface", "strict")
    # The box comes from the surfaces' own corners: that of a random subsample would be a little too small.
    corners, true_corners = (np.concatenate([m.referenced().vertices for m in side]) for side in (meshes, true_meshes))
    scale = fixed_scale(corners, true_corners)
    few, few_true = area_subsample(cloud, seed), area_subsample(target, seed)
    centres = box_centre(corners), box_centre(true_corners)
    best = min(
        (
            icp(few, few_true, Alignment(scale, centres[0], start_at(few, few_true, yaw, scale).rotation, centres[1]))
            for yaw in YAWS
        ),
        key=lambda a: a.error,
    )
    aligned = best.apply(cloud.points)
    scene = box_diagonal(true_corners)

    there, index = cKDTree(target.points).query(aligned)
    back = nearest(target.points, aligned)
    owner = target.owner[index]
    rows = []
    for i, mesh in enumerate(true_meshes):
        surface = target.points[target.owner == i]
        if not len(surface):
            rows.append(ObjectRow(mesh.name, 0.0, False, None, 0, 0.0))
            continue
        region = region_f(aligned, surface, REGION_MARGIN * scene, cloud.weights)
        mine = owner == i
        if mine.sum() < AT_LEAST:
            rows.append(ObjectRow(mesh.name, 0.0, False, None, int(mine.sum()), region))
            continue
        tau = OBJECT_TAU * box_diagonal(mesh.referenced().vertices)
        # Every point is nearest to its own object, so the distance to all objects is that to this one.
        f = _f(there[mine], nearest(surface, aligned[mine]), tau, cloud.weights[mine])
        centroid = np.average(aligned[mine], axis=0, weights=cloud.weights[mine])
        distance = float(np.linalg.norm(centroid - surface.mean(axis=0)))
        rows.append(ObjectRow(mesh.name, f, True, distance, int(mine.sum()), region))
    scene_f = tuple(_f(there, back, p * scene, cloud.weights, target.weights) for p in (0.02, 0.05, 0.10))
    chamfer = float(np.average(there, weights=cloud.weights) + np.average(back, weights=target.weights))
    return _result(rows, scene_f, chamfer, scale, None, "strict")


def area_subsample(cloud: Cloud, seed: int) -> Array:
    """At most 4,000 points, uniform over the area."""
    # Systematic along the cumulated weight: the same area gets the same number of points, whatever mesh it is in.
    count = min(ICP_CAP, len(cloud.points))
    order = np.random.default_rng(seed).permutation(len(cloud.points))
    cumulated = np.cumsum(cloud.weights[order])
    at = (np.arange(count) + 0.5) * (cumulated[-1] / count)
    return cloud.points[order[np.minimum(np.searchsorted(cumulated, at), len(order) - 1)]]


def _result(
    rows: list[ObjectRow],
    scene_f: Sequence[float],
    chamfer: float,
    scale: float,
    clusters: int | None,
    protocol: Protocol,
) -> ReconstructionScore:
    n = len(rows)
    f5 = sum(r.f5 for r in rows) / n
    distances = [r.centroid_err for r in rows if r.centroid_err is not None]
    return ReconstructionScore(
        f5=f5,
        match_rate=sum(r.matched for r in rows) / n,
        centroid_err=sum(distances) / len(distances) if distances else None,
        region_f5=sum(r.region_f5 for r in rows) / n,
        coverage=sum(r.region_f5 >= COVERED for r in rows) / n,
        scene_f2=scene_f[0],
        scene_f5=scene_f[1],
        scene_f10=scene_f[2],
        chamfer=chamfer,
        scale=scale,
        clusters=clusters,
        objects=tuple(rows),
        score=score_higher(f5, 1.0),
        valid=True,
        reason="",
        protocol=protocol,
    )


def _invalid(reason: str, protocol: Protocol) -> ReconstructionScore:
    return ReconstructionScore(
        f5=None,
        match_rate=None,
        centroid_err=None,
        region_f5=None,
        coverage=None,
        scene_f2=None,
        scene_f5=None,
        scene_f10=None,
        chamfer=None,
        scale=None,
        clusters=None,
        objects=(),
        score=0.0,
        valid=False,
        reason=reason,
        protocol=protocol,
    )


def _check(meshes: Sequence[Mesh] | None, side: str, protocol: Protocol) -> tuple[list[Mesh], str]:
    """The meshes that have vertices, as clean arrays, and the reason why one of them cannot be used, else empty."""
    out = []
    for mesh in meshes or ():
        what = f"{side}'s mesh {mesh.name!r}"
        if _size(mesh.vertices) == 0:
            continue
        vertices, reason = as_points(mesh.vertices, what)
        if reason:
            return [], reason
        faces = np.zeros((0, 3), np.int64)
        if protocol == "strict" and _size(mesh.faces) != 0:
            given = np.zeros(0) if _size(mesh.faces) is None else np.asarray(mesh.faces)
            if given.ndim != 2 or given.shape[1] != 3 or not np.issubdtype(given.dtype, np.integer):
                return [], f"{what} has faces that are not (F, 3) integers"
            if given.min() < 0 or given.max() >= len(vertices):
                return [], f"{what} has faces that point beyond its vertices"
            faces = given.astype(np.int64)
        out.append(Mesh(mesh.name, vertices, faces))
    return out, ""


def _size(value: object) -> int | None:
    """Number of elements; None for ragged lists, which are no array."""
    try:
        return int(np.size(value))  # type: ignore[arg-type]
    except ValueError:
        return None
