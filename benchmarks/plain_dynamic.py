"""Dynamic, transcribed formula by formula with obvious loops: what `sceneact_gym.evaluators.dynamic` is timed against.

`evaluate` takes the same arguments and returns a dictionary of the same metrics; `tracks_from_gltf` walks the node tree
in Python once per frame.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from scipy.optimize import linear_sum_assignment

from sceneact_gym.evaluators.dynamic import DynamicPrediction, DynamicTruth
from sceneact_gym.evaluators.gltf import GltfScene

FRAMES = 144


def _local(scene: GltfScene, node: int, time: float) -> np.ndarray:
    """The node's own 4x4 transform at a time, key by key."""
    moving = {c.path: c for c in scene.channels if c.node == node}
    if not moving and node in scene.matrices:
        return scene.matrices[node]
    values = {"translation": scene.translations[node], "rotation": scene.rotations[node], "scale": scene.scales[node]}
    for path, channel in moving.items():
        values[path] = channel.sample(np.array([time]))[0]
    x, y, z, w = values["rotation"]
    matrix = np.eye(4)
    matrix[:3, :3] = [
        [1 - 2 * (y * y + z * z), 2 * (x * y - z * w), 2 * (x * z + y * w)],
        [2 * (x * y + z * w), 1 - 2 * (x * x + z * z), 2 * (y * z - x * w)],
        [2 * (x * z - y * w), 2 * (y * z + x * w), 1 - 2 * (x * x + y * y)],
    ]
    for k in range(3):
        matrix[:3, k] *= values["scale"][k]
    matrix[:3, 3] = values["translation"]
    return matrix


def _collect(
    scene: GltfScene, node: int, parent: np.ndarray, time: float, means: dict[int, np.ndarray], found: list[np.ndarray]
) -> None:
    """Appends the world centroid (Y-up) of every mesh in the subtree."""
    matrix = parent @ _local(scene, node, time)
    if node in means:
        found.append((matrix @ np.append(means[node], 1.0))[:3])
    for child in scene.nodes[node].children:
        _collect(scene, child, matrix, time, means, found)


def _centroid(scene: GltfScene, node: int, time: float, means: dict[int, np.ndarray]) -> np.ndarray | None:
    found: list[np.ndarray] = []
    _collect(scene, node, np.eye(4), time, means, found)
    if not found:
        return None
    x, y, z = sum(found) / len(found)
    return np.array([x, -z, y])


def _boxes(scene: GltfScene, node: int, parent: np.ndarray, found: dict[int, np.ndarray]) -> None:
    """Notes the lower and upper corner (Z-up) of every mesh in the subtree at time 0, by node."""
    matrix = parent @ _local(scene, node, 0.0)
    vertices = scene.vertices_of(node)
    if len(vertices):
        world = vertices @ matrix[:3, :3].T + matrix[:3, 3]
        world = np.stack([world[:, 0], -world[:, 2], world[:, 1]], axis=1)
        found[node] = np.array([world.min(axis=0), world.max(axis=0)])
    for child in scene.nodes[node].children:
        _boxes(scene, child, matrix, found)


def tracks_from_gltf(scene: GltfScene) -> DynamicPrediction:
    """The same as the package's under `paper`, by one tree walk per object and frame."""
    means = {i: scene.vertices_of(i).mean(axis=0) for i in range(len(scene.nodes)) if len(scene.vertices_of(i))}
    tops = []
    for node in scene.animated:
        while scene.nodes[node].parent is not None:
            node = scene.nodes[node].parent
        if node not in tops:
            tops.append(node)
    tracks = {}
    for top in sorted(tops):
        places = [_centroid(scene, top, frame / 24, means) for frame in range(FRAMES)]
        if places[0] is not None:
            tracks[scene.nodes[top].name] = np.array(places)
    animated = set(scene.animated)

    def has_animation(node: int) -> bool:
        return node in animated or any(has_animation(c) for c in scene.nodes[node].children)

    statics = []

    def standing(node: int) -> None:
        if has_animation(node):
            for child in scene.nodes[node].children:
                standing(child)
            return
        place = _centroid(scene, node, 0.0, means)  # in the parent's frame, as published
        if place is not None:
            statics.append(place)

    boxes: dict[int, np.ndarray] = {}
    sizes = {}
    for root in scene.roots:
        standing(root)
        mine: dict[int, np.ndarray] = {}
        _boxes(scene, root, np.eye(4), mine)
        boxes |= mine
        if scene.nodes[root].name in tracks:
            corners = np.array(list(mine.values()))
            sizes[scene.nodes[root].name] = corners[:, 1].max(axis=0) - corners[:, 0].min(axis=0)
    in_file_order = np.array([boxes[i] for i in sorted(boxes)]).reshape(-1, 2, 3)
    return DynamicPrediction(tracks, np.array(statics).reshape(-1, 3), in_file_order, sizes)


def _mean_distance(a: np.ndarray, b: np.ndarray) -> float:
    shared = min(len(a), len(b))
    return sum(math.dist(a[f], b[f]) for f in range(shared)) / shared


def _match(sources: list[np.ndarray], targets: list[np.ndarray]) -> list[tuple[int, int]]:
    cost = np.array([[_mean_distance(s, t) for t in targets] for s in sources]).reshape(len(sources), len(targets))
    return list(zip(*(i.tolist() for i in linear_sum_assignment(cost)), strict=True))


def _motion(track: np.ndarray, s: float) -> dict[str, Any]:
    length = 0.0
    for a, b in zip(track[:-1], track[1:], strict=True):
        step = math.dist(a, b)
        if step <= 0.3 * s:
            length += step
    chord = track[-1] - track[0]
    net = math.dist(track[0], track[-1])
    furthest = 0.0
    for point in track:
        offset = point - track[0]
        if net > 1e-9:
            offset = offset - (offset @ chord) * chord / net**2
        furthest = max(furthest, float(np.linalg.norm(offset)))
    height = max(p[2] for p in track) - min(p[2] for p in track)
    moving = length > 0.05 * s
    axis = None
    if moving:
        axis = np.linalg.svd(track - track.mean(axis=0), full_matrices=False)[2][0]
        if axis @ chord < 0:
            axis = -axis
    values = [net / s, length / s, net / (length + 1e-9), height / s, furthest / s]
    return {"values": values, "moving": moving, "closed": moving and net < 0.1 * length, "axis": axis}


def _turning(track: np.ndarray, s: float) -> float:
    steps = [(b[0] - a[0], b[1] - a[1]) for a, b in zip(track[:-1], track[1:], strict=True)]
    long_ones = [math.hypot(*d) for d in steps if math.hypot(*d) >= 0.005 * s]
    if not long_ones:
        return 0.0
    most = 8 * float(np.median(long_ones))
    headings = [math.atan2(dy, dx) for dx, dy in steps if 0.005 * s <= math.hypot(dx, dy) <= most]
    total = 0.0
    for a, b in zip(headings[:-1], headings[1:], strict=True):
        change = abs(b - a) % (2 * math.pi)
        total += min(change, 2 * math.pi - change)
    return total


def _nearest_mean(a: np.ndarray, b: np.ndarray) -> float:
    return sum(min(math.dist(p, q) for q in b) for p in a) / len(a)


def _extents(boxes: np.ndarray) -> np.ndarray:
    spans = [math.hypot(hi[0] - lo[0], hi[1] - lo[1]) for lo, hi in boxes]
    kept = []
    for (lo, hi), span in zip(boxes, spans, strict=True):
        slab = span > 5 * float(np.median(spans)) and hi[2] - lo[2] < span / 8
        if len(boxes) < 4 or not slab:
            kept.append((lo, hi))
    return np.max([hi for _, hi in kept], axis=0) - np.min([lo for lo, _ in kept], axis=0)


def _log_ratio(a: Sequence[float], b: Sequence[float], at_least: float) -> float | None:
    logs = [abs(math.log(p / q)) for p, q in zip(a, b, strict=True) if p > at_least and q > at_least]
    return sum(logs) / len(logs) if logs else None


def evaluate(
    tracks: Mapping[str, np.ndarray],
    statics: np.ndarray,
    truth: DynamicTruth,
    *,
    protocol: str = "paper",
    boxes: np.ndarray | None = None,
    mover_sizes: Mapping[str, np.ndarray] | None = None,
) -> dict[str, float | None]:
    """All metrics; the input must be usable (no gaps, movers and statics on the true side)."""
    names, sources = list(tracks), [np.asarray(t) for t in tracks.values()]
    true_names, targets = list(truth.tracks), [np.asarray(t) for t in truth.tracks.values()]
    true_statics = np.asarray(truth.statics)
    s = truth.scene_scale
    if s is None:
        points = [p for t in [*targets, true_statics] for p in t]
        xs, ys = [p[0] for p in points], [p[1] for p in points]
        s = max(5.0, math.hypot(max(xs) - min(xs), max(ys) - min(ys)))
    statics = np.asarray(statics).reshape(-1, 3)
    if sources:
        differences = []
        for i, j in _match(sources, targets):
            for f in range(min(len(sources[i]), len(targets[j]))):
                differences.append(targets[j][f] - sources[i][f])
        count = len(differences)
        shift = np.array(
            [
                sum(d[0] for d in differences) / count,
                sum(d[1] for d in differences) / count,
                float(np.median([d[2] for d in differences])),
            ]
        )
        sources = [source + shift for source in sources]
        statics = statics + shift
    pairs = _match(sources, targets) if sources else []

    errors = [1.0] * len(targets)
    shapes, wrong, headings, sizes = [], [], [], []
    for i, j in pairs:
        errors[j] = _mean_distance(sources[i], targets[j]) / s
        a, b = _motion(sources[i], s), _motion(targets[j], s)
        shapes.append(sum(abs(p - q) for p, q in zip(a["values"], b["values"], strict=True)) / 5)
        if b["moving"] and not b["closed"]:
            cosine = 1.0 if a["axis"] is None else min(1.0, max(-1.0, float(a["axis"] @ b["axis"])))
            wrong.append(math.degrees(math.acos(cosine)) >= 30)
        if b["moving"]:
            headings.append(min(1.0, abs(_turning(sources[i], s) - _turning(targets[j], s)) / (2 * math.pi)))
        if mover_sizes and names[i] in mover_sizes and true_names[j] in truth.mover_sizes:
            size = _log_ratio(mover_sizes[names[i]], truth.mover_sizes[true_names[j]], 0.05)
            if size is not None:
                sizes.append(size)
    if protocol == "strict":
        errors += [1.0] * (len(sources) - len(pairs))

    scale_err = 0.0
    if pairs:
        a_points, b_points = [], []
        for i, j in pairs:
            for f in range(min(len(sources[i]), len(targets[j]))):
                a_points.append(sources[i][f][:2])
                b_points.append(targets[j][f][:2])
        a_mean, b_mean = sum(a_points) / len(a_points), sum(b_points) / len(b_points)
        square = sum(float((p - a_mean) @ (p - a_mean)) for p in a_points)
        product = sum(float((p - a_mean) @ (q - b_mean)) for p, q in zip(a_points, b_points, strict=True))
        if square > 1e-9:
            scale_err = abs(math.log(min(10.0, max(0.1, product / square))))

    le = 1.0
    if len(statics):
        le = (_nearest_mean(statics, true_statics) + _nearest_mean(true_statics, statics)) / (2 * s)
    return {
        "mme": max(errors),
        "ame": sum(errors) / len(errors),
        "recall": len(pairs) / len(targets),
        "count_err": abs(len(sources) - len(targets)) / len(targets),
        "shape_err": sum(shapes) / len(shapes) if shapes else 1.0,
        "direction_err": sum(wrong) / len(wrong) if wrong else 0.0,
        "heading_err": sum(headings) / len(headings) if headings else 0.0,
        "scale_err": scale_err,
        "size_err": None
        if boxes is None or truth.boxes is None
        else _log_ratio(_extents(np.asarray(boxes)), _extents(np.asarray(truth.boxes)), 0.1),
        "mover_size_err": sum(sizes) / len(sizes) if sizes else None,
        "le": le,
        "layout_count_err": abs(len(statics) - len(true_statics)) / len(true_statics),
    }
