"""Dynamic: how well the movers' paths and the standing scene were reproduced over 144 frames.

SceneActBench Section 3 and Appendix B.2. Movers are matched by the mean distance of their tracks, one translation of
the whole prediction is forgiven, and each true mover is charged its mean distance over the scene's scale S (1 when
nothing is matched to it): MME is the worst, AME the mean. LE compares the places of the standing objects, whatever they
are. Further metrics say what is wrong with a path (shape, direction, turning, scale, sizes) and do not enter the score.

All tracks and points are Blender's Z-up frame, metres; a frame is 1/24 s.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
from scipy.optimize import linear_sum_assignment

from sceneact_gym.evaluators.base import (
    MAX_COORDINATE,
    Array,
    IntArray,
    Protocol,
    as_points,
    check_protocol,
    nearest,
    score_lower,
)
from sceneact_gym.evaluators.gltf import GltfScene, to_zup

FPS = 24.0
FRAMES = 144
SCALE_AT_LEAST = 5.0
SCALE_WITHOUT_POINTS = 40.0
MISSED = 1.0
"""Error of a true mover without a match, and under `strict` of a predicted one without."""
TELEPORT = 0.3
MOVING = 0.05
CLOSED = 0.1
WRONG_DIRECTION = 30.0
HEADING_STEP = 0.005
HEADING_TELEPORT = 8.0
SLAB_SPAN = 5.0
SLAB_THINNESS = 8.0
SLABS_FROM = 4
SCENE_AXIS_AT_LEAST = 0.1
MOVER_AXIS_AT_LEAST = 0.05
TINY = 1e-9


@dataclass(frozen=True, eq=False)
class DynamicTruth:
    """The hidden motion and layout.

    Attributes:
        tracks: Mover -> `(T, 3)` positions, Z-up metres; frame r is Blender's frame r + 1. A row of NaN is a frame
            without a record: it takes the last position before it, or the first one there is.
        statics: `(K, 3)` places of the standing objects, metres; may be empty.
        scene_scale: S in metres; None to take it from the tracks and statics.
        boxes: `(B, 2, 3)` lower and upper corner of each mesh's box at the first frame, metres; None when unknown.
        mover_sizes: Mover -> `(3,)` box extents at the first frame, metres; movers may be missing.
    """

    tracks: Mapping[str, Array]
    statics: Array
    scene_scale: float | None = None
    boxes: Array | None = None
    mover_sizes: Mapping[str, Array] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class DynamicPrediction:
    """What `tracks_from_gltf` finds in a scene: the arguments of `evaluate`, and the optional parts of a truth.

    Attributes:
        tracks: Animated top-level object -> `(144, 3)` positions, Z-up metres. Equal names get `#2`, `#3`, ... added.
        statics: `(K, 3)` places of the objects that are not animated, metres.
        boxes: `(B, 2, 3)` lower and upper corner of each mesh's box at the first frame, metres.
        mover_sizes: Animated object -> `(3,)` extents of its box at the first frame, metres.
    """

    tracks: dict[str, Array]
    statics: Array
    boxes: Array
    mover_sizes: dict[str, Array]


@dataclass(frozen=True)
class MoverRow:
    """One true mover.

    Attributes:
        name: Its name.
        predicted: The name of the predicted mover matched to it; None when there is none.
        error: Mean distance over the shared frames as a fraction of S; 1 when unmatched.
        distance: The same in metres; None when unmatched.
        shape_err: Mean difference of the five motion descriptors; None when unmatched.
        angle: Angle between the main directions, degrees; None where the truth has none or nothing is matched.
        heading_err: Difference in total turning over a full turn, at most 1; None where the truth does not move.
        size_err: Mean absolute log-ratio of the box extents; None when unknown.
    """

    name: str
    predicted: str | None = None
    error: float = MISSED
    distance: float | None = None
    shape_err: float | None = None
    angle: float | None = None
    heading_err: float | None = None
    size_err: float | None = None


@dataclass(frozen=True)
class DynamicScore:
    """Result of `evaluate`. Fractions of S unless said otherwise.

    Attributes:
        mme: Error of the worst mover (may exceed 1); None when invalid.
        ame: Mean error of the movers.
        recall: Fraction of the true movers with a match.
        count_err: Difference of the numbers of movers over the true number.
        shape_err: Mean path-shape error of the matched movers; 1 without any.
        direction_err: Fraction of the matched movers with a true direction that head 30 degrees or more off it.
        heading_err: Mean error in total turning of the matched movers that move in the truth; 0 without any.
        scale_err: |log| of the scale that fits the predicted tracks to the true ones best.
        size_err: Mean |log-ratio| of the scene's box extents; None when unknown.
        mover_size_err: The same of the matched movers' boxes; None when unknown.
        le: Layout error: mean of both directed nearest distances between standing objects; 1 without predicted ones.
        layout_count_err: Difference of the numbers of standing objects over the true number.
        scene_scale: S, metres.
        shift: Translation applied to the whole prediction, metres.
        extra: Number of predicted movers without a match.
        movers: One row per true mover, in the truth's order.
        score: 0 to 100: mean of MME and LE, both against 1.
        valid: Whether there was anything to score.
        reason: Why not, else empty.
        protocol: The protocol used.
    """

    mme: float | None
    ame: float | None
    recall: float | None
    count_err: float | None
    shape_err: float | None
    direction_err: float | None
    heading_err: float | None
    scale_err: float | None
    size_err: float | None
    mover_size_err: float | None
    le: float | None
    layout_count_err: float | None
    scene_scale: float | None
    shift: tuple[float, float, float] | None
    extra: int
    movers: tuple[MoverRow, ...]
    score: float
    valid: bool
    reason: str
    protocol: Protocol


@dataclass(frozen=True, eq=False)
class Motion:
    """Descriptors of one track.

    Attributes:
        values: `(5,)` net displacement, path length (both over S), their ratio, height range and largest distance from
            the chord (both over S).
        moving: Whether the path is longer than 0.05 S.
        closed: Whether it moves and ends near its start.
        axis: `(3,)` unit main direction, towards the end of the track; None when not moving.
    """

    values: Array
    moving: bool
    closed: bool
    axis: Array | None


# ------------------------------------------------------------------------------------------------------ reading a scene


def tracks_from_gltf(scene: GltfScene, *, protocol: Protocol = "paper") -> DynamicPrediction:
    """Movers and standing objects of a scene.

    Every animated node is lifted to its top-level object; its position is the mean over the meshes below of each mesh's
    mean vertex. What is not animated counts as standing: whole top-level objects, and inside an animated one the
    largest branches without animation. Objects without any mesh have no place and are left out.

    Args:
        scene: The parsed scene.
        protocol: `paper` samples frame r at r/24 s. Blender exports its frame 1 at 1/24 s, so that there a perfect
            export lags by one frame; `strict` samples at (r+1)/24 s when the first key lies at 1/24 s or later.
            `paper` also takes a standing branch of an animated object in its parent's frame, as the published layout
            errors show (without the parent's transform they are reproduced, with it they are not); `strict` takes it
            where it stands.

    Returns:
        Tracks, statics and boxes, Z-up metres.

    Raises:
        GltfError: A transform overflows or the scene asks for too many of them.
    """
    check_protocol(protocol)
    # Key times are float32, so 1/24 s may read a hair less.
    late = protocol == "strict" and scene.first_key is not None and scene.first_key >= 1 / FPS - 1e-6
    times = (np.arange(FRAMES) + late) / FPS
    meshes = np.array(scene.mesh_nodes, np.int64)
    top, branch = _groups(scene)
    animated_tops = {int(top[i]) for i in scene.animated}
    names = _unique_names([scene.nodes[i].name for i in sorted(animated_tops)])
    name_of = dict(zip(sorted(animated_tops), names, strict=True))

    moving = meshes[np.isin(top[meshes], list(animated_tops))]
    paths = scene.world_centroids(times if len(moving) else times[:1], moving.tolist())
    movers, places = _group_means(paths, top[moving])
    standing = meshes[branch[meshes] >= 0]
    centroids = scene.world_centroids(times[:1], standing.tolist())
    if protocol == "paper":
        _centroids_within_branch(scene, standing, branch, centroids[0])
    _, statics = _group_means(centroids, branch[standing])

    boxes = np.array([[m.vertices.min(axis=0), m.vertices.max(axis=0)] for m in scene.world_meshes(float(times[0]))])
    sizes = {}
    for i in movers.tolist():
        mine = boxes[top[meshes] == i]
        sizes[name_of[i]] = mine[:, 1].max(axis=0) - mine[:, 0].min(axis=0)
    tracks = {name_of[i]: places[:, k] for k, i in enumerate(movers.tolist())}
    return DynamicPrediction(tracks, statics[0], boxes.reshape(-1, 2, 3), sizes)


def _groups(scene: GltfScene) -> tuple[IntArray, IntArray]:
    """Per node its top-level object, and the root of the largest branch around it without animation (-1: none)."""
    n = len(scene.nodes)
    animated_below = np.zeros(n, bool)
    for node in scene.animated:
        above: int | None = node
        while above is not None and not animated_below[above]:
            animated_below[above] = True
            above = scene.nodes[above].parent
    top, branch = np.full(n, -1), np.full(n, -1)
    stack = list(scene.roots)
    top[stack] = stack
    while stack:
        i = stack.pop()
        if branch[i] < 0 and not animated_below[i]:
            branch[i] = i
        children = list(scene.nodes[i].children)
        top[children], branch[children] = top[i], branch[i]
        stack.extend(children)
    return top, branch


def _centroids_within_branch(scene: GltfScene, nodes: IntArray, branch: IntArray, centroids: Array) -> None:
    """Replaces the centroids `(N, 3)` of nodes in branches below an animated object by those in the branch's frame."""
    hanging = [i for i in scene.active if branch[i] >= 0 and scene.nodes[int(branch[i])].parent is not None]
    if not hanging:
        return
    local = dict(zip(hanging, scene.world_matrices(None, hanging, ignore_parents=True)[0], strict=True))
    relative: dict[int, Array] = {}
    stack = [i for i in hanging if branch[i] == i]
    with np.errstate(over="ignore", invalid="ignore"):  # whatever overflows is refused by `evaluate`
        while stack:
            i = stack.pop()
            relative[i] = local[i] if branch[i] == i else relative[scene.nodes[i].parent] @ local[i]  # type: ignore[index]
            stack.extend(scene.nodes[i].children)
        for k, i in enumerate(nodes.tolist()):
            if i in relative:
                mean = scene.vertices_of(i).mean(axis=0)
                centroids[k] = to_zup(relative[i][:3, :3] @ mean + relative[i][:3, 3])


def _group_means(points: Array, group: IntArray) -> tuple[IntArray, Array]:
    """The groups in ascending order and the means of `points` `(T, N, 3)` over each, `(T, groups, 3)`."""
    if not len(group):
        return np.zeros(0, np.int64), np.zeros((len(points), 0, 3))
    order = np.argsort(group, kind="stable")
    groups, starts, counts = np.unique(group[order], return_index=True, return_counts=True)
    return groups, np.add.reduceat(points[:, order], starts, axis=1) / counts[:, None]


def _unique_names(names: Sequence[str]) -> list[str]:
    taken: set[str] = set()
    out = []
    for name in names:
        unique, k = name, 2
        while unique in taken:
            unique, k = f"{name}#{k}", k + 1
        taken.add(unique)
        out.append(unique)
    return out


# --------------------------------------------------------------------------------------------------------- pure pieces


def forward_fill(track: Array) -> Array:
    """Fills rows of NaN with the last row before them, a leading gap with the first row there is.

    Args:
        track: `(T, 3)` metres, at least one row without NaN.

    Returns:
        `(T, 3)` without gaps.
    """
    known = ~np.isnan(track).any(axis=1)
    last = np.maximum.accumulate(np.where(known, np.arange(len(track)), -1))
    return track[np.where(last < 0, np.argmax(known), last)]


def scene_scale(tracks: Sequence[Array], statics: Array) -> float:
    """S: the XY diagonal of everything in the truth, at least 5 m; 40 m when there is nothing."""
    points = np.concatenate([*tracks, statics.reshape(-1, 3)])[:, :2]
    if not len(points):
        return SCALE_WITHOUT_POINTS
    return max(float(np.linalg.norm(points.max(axis=0) - points.min(axis=0))), SCALE_AT_LEAST)


def track_distances(predicted: Sequence[Array], truth: Sequence[Array]) -> Array:
    """`(P, N)` mean distances in metres over the frames that both tracks have."""
    length = max((len(t) for t in truth), default=0)
    padded = np.full((len(predicted), length, 3), np.nan)
    for row, track in zip(padded, predicted, strict=True):
        row[: len(track)] = track[:length]
    out = np.zeros((len(predicted), len(truth)))
    for j, track in enumerate(truth):
        out[:, j] = np.nanmean(np.linalg.norm(padded[:, : len(track)] - track, axis=2), axis=1)
    return out


def translation(pairs: Sequence[tuple[Array, Array]]) -> Array:
    """`(3,)` shift from predicted to true points over all pairs: mean difference in x and y, median one in z."""
    if not pairs:
        return np.zeros(3)
    difference = np.concatenate([t[: len(p)] - p[: len(t)] for p, t in pairs])
    return np.array([*difference[:, :2].mean(axis=0), np.median(difference[:, 2])])


def fitted_scale_error(pairs: Sequence[tuple[Array, Array]]) -> float:
    """|log| of the least-squares factor from the predicted to the true XY points, each pool about its own mean."""
    if not pairs:
        return 0.0
    a = np.concatenate([p[: len(t), :2] for p, t in pairs])
    b = np.concatenate([t[: len(p), :2] for p, t in pairs])
    a, b = a - a.mean(axis=0), b - b.mean(axis=0)
    variation = float((a * a).sum())
    if variation <= TINY:
        return 0.0
    return abs(math.log(min(max(float((a * b).sum()) / variation, 0.1), 10.0)))


def motion(track: Array, scale: float) -> Motion:
    """Descriptors of a track `(T, 3)` in a scene of scale S (metres)."""
    steps = np.linalg.norm(np.diff(track, axis=0), axis=1)
    length = float(steps[steps <= TELEPORT * scale].sum())  # a conveyor's jump back is not part of the path
    chord = track[-1] - track[0]
    net = float(np.linalg.norm(chord))
    moving = length > MOVING * scale
    offset = track - track[0]
    if net > TINY:  # without a chord, the distance from the start itself
        offset = offset - np.outer(offset @ chord, chord) / net**2
    values = np.array(
        [
            net / scale,
            length / scale,
            net / (length + TINY),
            float(np.ptp(track[:, 2])) / scale,
            float(np.linalg.norm(offset, axis=1).max()) / scale,
        ]
    )
    axis = None
    if moving:
        axis = np.linalg.svd(track - track.mean(axis=0), full_matrices=False)[2][0]
        axis = -axis if axis @ chord < 0 else axis
    return Motion(values, moving, moving and net < CLOSED * length, axis)


def total_turning(track: Array, scale: float) -> float:
    """Sum of the absolute changes of heading in the XY plane, radians.

    Headings of steps that are too short to have one (under 0.005 S) or are jumps (over 8 times the median of the
    others) are skipped.
    """
    steps = np.diff(track[:, :2], axis=0)
    lengths = np.linalg.norm(steps, axis=1)
    kept = lengths >= HEADING_STEP * scale
    if not kept.any():
        return 0.0
    kept &= lengths <= HEADING_TELEPORT * np.median(lengths[kept])
    headings = np.arctan2(steps[kept, 1], steps[kept, 0])
    return float(np.abs((np.diff(headings) + np.pi) % (2 * np.pi) - np.pi).sum())


def layout_error(predicted: Array, truth: Array, scale: float) -> float:
    """LE: mean of both directed mean nearest distances over S; 1 without predicted points."""
    if not len(predicted):
        return 1.0
    return float(nearest(predicted, truth).mean() + nearest(truth, predicted).mean()) / (2 * scale)


def scene_extents(boxes: Array) -> Array:
    """`(3,)` extents of all boxes `(B, 2, 3)` together, metres, without ground slabs.

    A slab is wider (XY diagonal) than 5 times the median and flatter than an eighth of that width; with fewer than 4
    boxes there is no telling.
    """
    extents = boxes[:, 1] - boxes[:, 0]
    span = np.linalg.norm(extents[:, :2], axis=1)
    keep = np.ones(len(boxes), bool)
    if len(boxes) >= SLABS_FROM:
        keep = ~((span > SLAB_SPAN * np.median(span)) & (extents[:, 2] < span / SLAB_THINNESS))
    return boxes[keep, 1].max(axis=0) - boxes[keep, 0].min(axis=0)


def log_ratio(predicted: Array, truth: Array, at_least: float) -> float | None:
    """Mean |log(predicted / truth)| over the axes on which both extents exceed `at_least` metres; None without any."""
    used = (predicted > at_least) & (truth > at_least)
    return float(np.abs(np.log(predicted[used] / truth[used])).mean()) if used.any() else None


# ---------------------------------------------------------------------------------------------------------- evaluation


def evaluate(
    tracks: Mapping[str, npt.ArrayLike],
    statics: npt.ArrayLike | None,
    truth: DynamicTruth,
    *,
    protocol: Protocol = "paper",
    boxes: npt.ArrayLike | None = None,
    mover_sizes: Mapping[str, npt.ArrayLike] | None = None,
) -> DynamicScore:
    """Scores the motion and the layout of a scene.

    Args:
        tracks: Predicted mover -> `(T, 3)` positions, Z-up metres.
        statics: `(K, 3)` places of the predicted standing objects, metres; None or empty for none.
        truth: The hidden motion.
        protocol: `paper` or `strict` (every extra mover counts as one more error of 1).
        boxes: `(B, 2, 3)` boxes of the predicted meshes, for `size_err`.
        mover_sizes: Predicted mover -> `(3,)` extents, for `mover_size_err`.

    Returns:
        The score; invalid, never an exception, for tracks or points that cannot be used. Without a true static the case
        is invalid as well, but the movers' metrics are still given.
    """
    check_protocol(protocol)
    true_tracks, reason = _check_tracks(truth.tracks, "the true mover", gaps=True)
    if not true_tracks:
        return _invalid(reason or "the truth has no mover", protocol)
    true_statics, reason = _check_statics(truth.statics, "the true layout")
    given = truth.scene_scale
    if not reason and given is not None and not (math.isfinite(given) and given > TINY):
        reason = "the true scene scale is not a positive number"
    if reason:
        return _invalid(reason, protocol)
    predicted, reason = _check_tracks(tracks, "the predicted mover", gaps=False)
    places, places_reason = _check_statics(statics, "the predicted layout")
    if reason or places_reason:
        return _invalid(reason or places_reason, protocol)

    scale = given if given is not None else scene_scale(list(true_tracks.values()), true_statics)
    names, true_names = list(predicted), list(true_tracks)
    sources, targets = list(predicted.values()), list(true_tracks.values())
    first = _match(sources, targets)
    shift = translation([(sources[i], targets[j]) for i, j in first])
    sources = [s + shift for s in sources]
    matched = {j: i for i, j in _match(sources, targets)}
    pairs = [(sources[i], targets[j]) for j, i in matched.items()]

    sizes = dict(mover_sizes or {})
    rows = []
    for j, name in enumerate(true_names):
        if j not in matched:
            rows.append(MoverRow(name))
            continue
        mine = names[matched[j]]
        size = _size_error(sizes.get(mine), truth.mover_sizes.get(name))
        rows.append(_row(name, mine, sources[matched[j]], targets[j], scale, size))
    extra = len(sources) - len(matched)
    errors = [r.error for r in rows] + [MISSED] * (extra if protocol == "strict" else 0)
    shapes = [r.shape_err for r in rows if r.shape_err is not None]
    angles = [r.angle for r in rows if r.angle is not None]
    headings = [r.heading_err for r in rows if r.heading_err is not None]
    mover_errors = [r.size_err for r in rows if r.size_err is not None]
    mme = max(errors)
    le = layout_error(places + shift, true_statics, scale) if len(true_statics) else None
    valid = le is not None
    return DynamicScore(
        mme=mme,
        ame=sum(errors) / len(errors),
        recall=len(matched) / len(rows),
        count_err=abs(len(sources) - len(rows)) / len(rows),
        shape_err=sum(shapes) / len(shapes) if shapes else 1.0,
        direction_err=sum(a >= WRONG_DIRECTION for a in angles) / len(angles) if angles else 0.0,
        heading_err=sum(headings) / len(headings) if headings else 0.0,
        scale_err=fitted_scale_error(pairs),
        size_err=_scene_size_error(boxes, truth.boxes),
        mover_size_err=sum(mover_errors) / len(mover_errors) if mover_errors else None,
        le=le,
        layout_count_err=abs(len(places) - len(true_statics)) / len(true_statics) if len(true_statics) else None,
        scene_scale=scale,
        shift=(float(shift[0]), float(shift[1]), float(shift[2])),
        extra=extra,
        movers=tuple(rows),
        score=(score_lower(mme, 1.0) + score_lower(le, 1.0)) / 2 if valid else 0.0,
        valid=valid,
        reason="" if valid else "the truth has no standing object",
        protocol=protocol,
    )


def _match(sources: Sequence[Array], targets: Sequence[Array]) -> list[tuple[int, int]]:
    """(predicted, true) pairs of least total mean distance."""
    if not sources:
        return []
    rows, columns = linear_sum_assignment(track_distances(sources, targets))
    return [(int(i), int(j)) for i, j in zip(rows, columns, strict=True)]


def _row(name: str, mine: str, source: Array, target: Array, scale: float, size: float | None) -> MoverRow:
    shared = min(len(source), len(target))
    distance = float(np.linalg.norm(source[:shared] - target[:shared], axis=1).mean())
    a, b = motion(source, scale), motion(target, scale)
    angle = heading = None
    if b.moving and not b.closed and b.axis is not None:
        # A mover that stands still has no direction to be wrong about: its distance and recall tell.
        cosine = 1.0 if a.axis is None else float(np.clip(a.axis @ b.axis, -1.0, 1.0))
        angle = math.degrees(math.acos(cosine))
    if b.moving:
        heading = min(abs(total_turning(source, scale) - total_turning(target, scale)) / (2 * math.pi), 1.0)
    shape = float(np.abs(a.values - b.values).mean())
    return MoverRow(name, mine, distance / scale, distance, shape, angle, heading, size)


def _size_error(predicted: npt.ArrayLike | None, truth: npt.ArrayLike | None) -> float | None:
    a, b = _numbers(predicted, (3,)), _numbers(truth, (3,))
    return None if a is None or b is None else log_ratio(a, b, MOVER_AXIS_AT_LEAST)


def _scene_size_error(predicted: npt.ArrayLike | None, truth: npt.ArrayLike | None) -> float | None:
    a, b = _numbers(predicted, (-1, 2, 3)), _numbers(truth, (-1, 2, 3))
    if a is None or b is None:
        return None
    return log_ratio(scene_extents(a), scene_extents(b), SCENE_AXIS_AT_LEAST)


def _numbers(value: npt.ArrayLike | None, shape: tuple[int, ...]) -> Array | None:
    """Usable numbers of that shape (-1: any positive number), else None: sizes are diagnostics and void nothing."""
    try:
        array = np.asarray(value, np.float64)
    except (TypeError, ValueError, OverflowError):
        return None
    fits = array.ndim == len(shape) and all(s in (-1, n) for s, n in zip(shape, array.shape, strict=True))
    return array if fits and array.size and bool((np.abs(array) <= MAX_COORDINATE).all()) else None


def _check_tracks(tracks: Mapping[str, npt.ArrayLike], what: str, *, gaps: bool) -> tuple[dict[str, Array], str]:
    """Clean tracks, or none and the reason; `gaps` allows rows of NaN."""
    out = {}
    for name, value in (tracks or {}).items():
        track = value
        if gaps:
            filled = _numbers_or_gaps(value)
            track = value if filled is None else filled
        points, reason = as_points(track, f"{what} {name!r}")
        if reason:
            return {}, reason
        out[name] = points
    return out, ""


def _numbers_or_gaps(value: npt.ArrayLike) -> Array | None:
    """The track with its gaps filled; None when it is no track or has no position at all."""
    try:
        track = np.asarray(value, np.float64)
    except (TypeError, ValueError, OverflowError):
        return None
    if track.ndim != 2 or track.shape[1] != 3 or np.isnan(track).any(axis=1).all():
        return None
    return forward_fill(track)


def _check_statics(value: npt.ArrayLike | None, what: str) -> tuple[Array, str]:
    """Clean points, none for nothing, or none and the reason."""
    try:
        empty = value is None or np.size(value) == 0
    except ValueError:  # ragged
        empty = False
    return (np.zeros((0, 3)), "") if empty else as_points(value, what)


def _invalid(reason: str, protocol: Protocol) -> DynamicScore:
    return DynamicScore(
        mme=None,
        ame=None,
        recall=None,
        count_err=None,
        shape_err=None,
        direction_err=None,
        heading_err=None,
        scale_err=None,
        size_err=None,
        mover_size_err=None,
        le=None,
        layout_count_err=None,
        scene_scale=None,
        shift=None,
        extra=0,
        movers=(),
        score=0.0,
        valid=False,
        reason=reason,
        protocol=protocol,
    )
