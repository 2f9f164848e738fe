"""Reconstruction, transcribed step by step with obvious loops.

What `sceneact_gym.evaluators.reconstruction` is timed against. `evaluate` takes the same arguments and returns a
dictionary of the same metrics. Random draws are the package's own (otherwise no two values could be equal); everything
after them is written out here.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from scipy.optimize import linear_sum_assignment
from scipy.spatial import cKDTree
from sklearn.cluster import DBSCAN

from sceneact_gym.evaluators import reconstruction as package
from sceneact_gym.evaluators.base import Mesh, subsample


def _distances(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return cKDTree(b).query(a)[0]


def _diagonal(points: np.ndarray) -> float:
    return math.dist(points.min(axis=0), points.max(axis=0))


def _centre(points: np.ndarray) -> np.ndarray:
    return (points.min(axis=0) + points.max(axis=0)) / 2


def _f(
    predicted: np.ndarray,
    truth: np.ndarray,
    tau: float,
    weights: np.ndarray | None = None,
    true_weights: np.ndarray | None = None,
) -> float:
    precision = np.average(_distances(predicted, truth) < tau, weights=weights)
    recall = np.average(_distances(truth, predicted) < tau, weights=true_weights)
    return 0.0 if precision + recall == 0 else float(2 * precision * recall / (precision + recall))


def _icp(points: np.ndarray, target: np.ndarray, all_points: np.ndarray) -> tuple[np.ndarray, np.ndarray, float]:
    """Both point sets moved by 30 rigid steps at most, and the final mean distance of the first."""
    before = math.inf
    error = float(_distances(points, target).mean())
    for _ in range(30):
        partner = target[cKDTree(target).query(points)[1]]
        a, b = points.mean(axis=0), partner.mean(axis=0)
        u, _, vt = np.linalg.svd((points - a).T @ (partner - b))
        flip = np.diag([1.0, 1.0, math.copysign(1.0, np.linalg.det(vt.T @ u.T))])
        rotation = vt.T @ flip @ u.T
        points = (points - a) @ rotation.T + b
        all_points = (all_points - a) @ rotation.T + b
        error = float(_distances(points, target).mean())
        if abs(before - error) < 1e-5:
            break
        before = error
    return points, all_points, error


def _align(
    points: np.ndarray, target: np.ndarray, all_points: np.ndarray, corners: np.ndarray, true_corners: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    scale = _diagonal(true_corners) / _diagonal(corners)
    best, best_error = (points, all_points), math.inf
    for yaw in (0, 90, 180, 270):
        c, s = math.cos(math.radians(yaw)), math.sin(math.radians(yaw))
        turn = np.array([[c, -s, 0], [s, c, 0], [0, 0, 1]])
        moved = scale * (points - _centre(corners)) @ turn.T + _centre(true_corners)
        all_moved = scale * (all_points - _centre(corners)) @ turn.T + _centre(true_corners)
        moved, all_moved, error = _icp(moved, target, all_moved)
        if error < best_error:
            best, best_error = (moved, all_moved), error
    return best


def _region(points: np.ndarray, truth: np.ndarray, margin: float, weights: np.ndarray | None = None) -> float:
    inside = np.ones(len(points), bool)
    for axis in range(3):
        inside &= points[:, axis] >= truth[:, axis].min() - margin
        inside &= points[:, axis] <= truth[:, axis].max() + margin
    if inside.sum() < 10:
        return 0.0
    return _f(points[inside], truth, 0.05 * _diagonal(truth), None if weights is None else weights[inside])


def _clusters(points: np.ndarray, objects: Sequence[np.ndarray]) -> list[np.ndarray]:
    diagonal = sum(_diagonal(o) for o in objects) / len(objects)
    best, best_miss = [], math.inf
    for ratio in (0.10, 0.15, 0.20, 0.25, 0.30, 0.40):
        labels = DBSCAN(eps=max(0.04, ratio * diagonal), min_samples=10).fit(points).labels_
        found = [points[labels == k] for k in range(labels.max() + 1) if (labels == k).sum() >= 30]
        miss = abs(len(found) - len(objects)) + (0.5 if len(found) < len(objects) else 0)
        if miss < best_miss:
            best, best_miss = found, miss
    return best


def evaluate(
    predicted: Sequence[Mesh], truth: Sequence[Mesh], *, protocol: str = "paper", seed: int = 0
) -> dict[str, float | None]:
    """All metrics; both sides must be usable."""
    return _paper(predicted, truth, seed) if protocol == "paper" else _strict(predicted, truth, seed)


def _paper(predicted: Sequence[Mesh], truth: Sequence[Mesh], seed: int) -> dict[str, float | None]:
    points = np.concatenate([subsample(m.vertices, 4_000, seed) for m in predicted if len(m.vertices)])
    objects = [m.vertices for m in truth]
    target = subsample(np.concatenate(objects), 4_000, seed)
    points = subsample(points, 4_000, seed)
    aligned, _ = _align(points, target, points, points, target)
    scene = _diagonal(target)

    clusters = _clusters(aligned, objects)
    pairs = {}
    if clusters:
        cost = np.zeros((len(objects), len(clusters)))
        for i, o in enumerate(objects):
            for k, c in enumerate(clusters):
                d = math.dist(o.mean(axis=0), c.mean(axis=0))
                cost[i, k] = d if d <= 0.6 * scene else (len(objects) + 1) * (0.6 * scene + 1)
        for i, k in zip(*linear_sum_assignment(cost), strict=True):
            if cost[i, k] <= 0.6 * scene:
                pairs[i] = k
    fs, errors = [], []
    for i, o in enumerate(objects):
        if i not in pairs:
            fs.append(0.0)
            continue
        cluster = clusters[pairs[i]]
        errors.append(math.dist(cluster.mean(axis=0), o.mean(axis=0)))
        fs.append(_f(cluster - cluster.mean(axis=0) + o.mean(axis=0), o, 0.05 * _diagonal(o)))
    regions = [_region(aligned, o, 0.1 * scene) for o in objects]
    return {
        "f5": sum(fs) / len(fs),
        "match_rate": len(pairs) / len(objects),
        "centroid_err": sum(errors) / len(errors) if errors else None,
        "region_f5": sum(regions) / len(regions),
        "coverage": sum(r >= 0.3 for r in regions) / len(regions),
        "scene_f2": _f(aligned, target, 0.02 * scene),
        "scene_f5": _f(aligned, target, 0.05 * scene),
        "scene_f10": _f(aligned, target, 0.10 * scene),
        "chamfer": float(_distances(aligned, target).mean() + _distances(target, aligned).mean()),
    }


def _strict(predicted: Sequence[Mesh], truth: Sequence[Mesh], seed: int) -> dict[str, float | None]:
    predicted = [m for m in predicted if len(m.vertices)]
    cloud, target = package.sample_surfaces(predicted, seed, 0), package.sample_surfaces(truth, seed, 1)
    corners = np.concatenate([m.vertices[np.unique(m.faces)] for m in predicted])
    true_corners = np.concatenate([m.vertices[np.unique(m.faces)] for m in truth])
    few, few_true = package.area_subsample(cloud, seed), package.area_subsample(target, seed)
    _, aligned = _align(few, few_true, cloud.points, corners, true_corners)
    scene = _diagonal(true_corners)
    owner = target.owner[cKDTree(target.points).query(aligned)[1]]
    fs, errors, regions = [], [], []
    for i, mesh in enumerate(truth):
        surface = target.points[target.owner == i]
        regions.append(_region(aligned, surface, 0.1 * scene, cloud.weights))
        mine = owner == i
        if mine.sum() < 10:
            fs.append(0.0)
            continue
        weights = cloud.weights[mine]
        fs.append(_f(aligned[mine], surface, 0.05 * _diagonal(mesh.vertices[np.unique(mesh.faces)]), weights))
        errors.append(math.dist(np.average(aligned[mine], axis=0, weights=weights), surface.mean(axis=0)))
    both = cloud.weights, target.weights
    return {
        "f5": sum(fs) / len(fs),
        "match_rate": len(errors) / len(fs),
        "centroid_err": sum(errors) / len(errors) if errors else None,
        "region_f5": sum(regions) / len(regions),
        "coverage": sum(r >= 0.3 for r in regions) / len(regions),
        "scene_f2": _f(aligned, target.points, 0.02 * scene, *both),
        "scene_f5": _f(aligned, target.points, 0.05 * scene, *both),
        "scene_f10": _f(aligned, target.points, 0.10 * scene, *both),
        "chamfer": float(
            np.average(_distances(aligned, target.points), weights=cloud.weights)
            + np.average(_distances(target.points, aligned), weights=target.weights)
        ),
    }
