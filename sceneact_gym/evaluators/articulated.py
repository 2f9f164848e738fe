"""Articulated: 32 predicted states of an object against its true closed-open-closed motion, part by part.

SceneActBench Section 3 and Appendix A.3. Each movable part of the truth has a range g (mean vertex displacement from
closed to open). In every predicted frame the part is compared with the truth frame at the same opening, so that timing
does not matter but the path does; a part that never opens far enough is charged what is missing. MPE is the worst part.

Predicted vertices are compared by index where their number is the truth's. Otherwise (the usual case, as Blender's
exporter splits a vertex now and then) every predicted vertex takes the part of the nearest truth vertex in the closed
state, and distances are nearest-neighbour ones: `fallback` says so.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from scipy.spatial import cKDTree
from scipy.spatial.transform import Rotation

from sceneact_gym.evaluators.base import (
    Array,
    IntArray,
    Protocol,
    as_points,
    check_protocol,
    d_surf,
    fit_rigid,
    nearest,
    score_lower,
)

FRAMES = 32
OPEN_FRAME = 16
MPE_REFERENCE = 1.0
STRICT_REFERENCE_AT_LEAST = 0.02
MAX_VERTICES = 400_000
"""Per predicted frame: keeps time and memory bounded."""
MOVED = 1e-3
"""Metres: a movable part whose truth moves less can neither be recovered nor missed."""

Motion = Literal["rotation", "translation", "non-rigid"]


@dataclass(frozen=True, eq=False)
class ArticulatedTruth:
    """The hidden motion.

    Attributes:
        frames: `(32, V, 3)` vertex positions, Z-up metres, in mesh-index order; frame 0 closed, frame 16 open.
        part_of_vertex: `(V,)` part id of each vertex.
        movable: The ids of the parts that move.
        joint_type: Part id -> `rotation` or `translation`.
        joint_range: Part id -> full travel; metres for a translation (the only unit used), anything for a rotation.
    """

    frames: Array
    part_of_vertex: IntArray
    movable: AbstractSet[int]
    joint_type: Mapping[int, str] = field(default_factory=dict)
    joint_range: Mapping[int, float] = field(default_factory=dict)


@dataclass(frozen=True)
class PartRow:
    """One part.

    Attributes:
        part: Its id.
        movable: Whether the truth moves it.
        gap: g, the mean displacement of its vertices from closed to open in the truth, metres (at least 1e-6).
        error: The part's error, metres; None for a static part or one without predicted vertices.
        eps: Largest deviation from the true path over the frames, metres; None likewise.
        kappa: Largest opening reached, as a fraction of the true one, at most 1; None likewise.
        recovered: Whether a movable part moved noticeably.
        moved_falsely: Whether a static part moved.
        motion: How the part moved between the predicted keyframes; None where it hardly did.
        direction_cos: Cosine between predicted and true axis or direction; None where the kinds differ.
    """

    part: int
    movable: bool
    gap: float
    error: float | None = None
    eps: float | None = None
    kappa: float | None = None
    recovered: bool = False
    moved_falsely: bool = False
    motion: Motion | None = None
    direction_cos: float | None = None


@dataclass(frozen=True)
class ArticulatedScore:
    """Result of `evaluate`.

    Attributes:
        mpe: Error of the worst movable part, metres; None when invalid.
        mean_part: Mean error of the movable parts, metres; None when invalid.
        recall: Fraction of the movable parts that moved noticeably.
        false_move: Fraction of the static parts that moved.
        type_mismatch: Fraction of the clearly moved parts that turn where they should slide, or the reverse.
        reverse_dir: Fraction of the parts with a comparable direction that move the opposite way (cosine below -0.7).
        off_axis: Fraction of them that move another way (cosine between -0.7 and 0.7).
        open_add_s: Mean distance from the predicted open keyframe to truth frame 16, metres; None when invalid.
        fallback: Whether vertices were compared by nearest neighbour for want of equal counts.
        closed_frame: Index of the predicted closed keyframe; None when invalid.
        open_frame: Index of the predicted open keyframe; None when invalid.
        parts: One row per part, by id.
        score: 0 to 100: MPE against 1 m (`paper`) or against the largest true range (`strict`).
        valid: Whether there was anything to score.
        reason: Why not, else empty.
        protocol: The protocol used.
    """

    mpe: float | None
    mean_part: float | None
    recall: float | None
    false_move: float | None
    type_mismatch: float | None
    reverse_dir: float | None
    off_axis: float | None
    open_add_s: float | None
    fallback: bool
    closed_frame: int | None
    open_frame: int | None
    parts: tuple[PartRow, ...]
    score: float
    valid: bool
    reason: str
    protocol: Protocol


def evaluate(
    frames: Sequence[npt.ArrayLike | None],
    truth: ArticulatedTruth,
    *,
    protocol: Protocol = "paper",
    current: npt.ArrayLike | None = None,
) -> ArticulatedScore:
    """Scores 32 predicted states.

    Args:
        frames: Up to 32 arrays `(V', 3)`, Z-up metres, vertices of all meshes in mesh-index order; None (or a missing
            end) for a state that was not written. Frames beyond the 32nd are ignored.
        truth: The hidden motion.
        protocol: `paper` or `strict`.
        current: The scene's state at scoring time, which stands in for missing frames.

    Returns:
        The score; invalid, never an exception, for a prediction that cannot be used.
    """
    check_protocol(protocol)
    true_frames, labels, movable, reason = _check_truth(truth)
    predicted, predicted_reason = _check_frames(frames, current)
    reason = reason or predicted_reason
    if reason:
        return _invalid(reason, protocol)

    counts = {len(f) for f in predicted}
    same = counts == {true_frames.shape[1]}
    closed, open_ = _keyframes(predicted)
    tree = None if same else cKDTree(true_frames[0])
    frame_labels = _label(predicted, closed, labels, tree)

    rows = []
    for part in sorted(int(p) for p in np.unique(labels)):
        mask = labels == part
        gap = max(float(_displacement(true_frames[0, mask], true_frames[OPEN_FRAME, mask]).mean()), 1e-6)
        states = [f[of == part] for f, of in zip(predicted, frame_labels, strict=True)]
        if part in movable:
            rows.append(_movable_row(part, gap, states, true_frames[:, mask], truth, closed, open_, same))
        else:
            moved = _moved_falsely(states[closed], states[open_])
            rows.append(PartRow(part, False, gap, moved_falsely=moved))

    movers = [r for r in rows if r.movable]
    errors = [r.error if r.error is not None else r.gap for r in movers if r.error is not None or protocol == "strict"]
    if not errors:
        return _invalid("no movable part has any predicted vertex near it", protocol, tuple(rows))
    statics = [r for r in rows if not r.movable]
    moving = [r for r in movers if r.motion is not None]
    wrong = [r for r in moving if r.motion != "non-rigid" and r.motion != truth.joint_type.get(r.part, r.motion)]
    directed = [r.direction_cos for r in moving if r.direction_cos is not None]
    mpe = max(errors)
    reference = MPE_REFERENCE
    if protocol == "strict":
        reference = max(STRICT_REFERENCE_AT_LEAST, max(r.gap for r in movers))
    return ArticulatedScore(
        mpe=mpe,
        mean_part=sum(errors) / len(errors),
        recall=_rate(sum(r.recovered for r in movers), len(movers)),
        false_move=_rate(sum(r.moved_falsely for r in statics), len(statics)),
        type_mismatch=_rate(len(wrong), len(moving)),
        reverse_dir=_rate(sum(c < -0.7 for c in directed), len(directed)),
        off_axis=_rate(sum(-0.7 <= c <= 0.7 for c in directed), len(directed)),
        open_add_s=d_surf(predicted[open_], true_frames[OPEN_FRAME]),
        fallback=not same,
        closed_frame=closed,
        open_frame=open_,
        parts=tuple(rows),
        score=score_lower(mpe, reference),
        valid=True,
        reason="",
        protocol=protocol,
    )


def _check_truth(truth: ArticulatedTruth) -> tuple[Array, IntArray, set[int], str]:
    """Frames, labels, the movable parts that exist, and why the truth cannot be used (empty when it can)."""
    none = np.zeros((0, 0, 3)), np.zeros(0, np.int64), set[int]()
    try:
        frames, labels = np.asarray(truth.frames, np.float64), np.asarray(truth.part_of_vertex, np.int64)
    except (TypeError, ValueError, OverflowError):
        return *none, "the truth's frames or part ids are not arrays of numbers"
    if frames.ndim != 3 or len(frames) != FRAMES or labels.shape != frames.shape[1:2]:
        return *none, f"the truth must hold {FRAMES} frames of V vertices and V part ids"
    _, reason = as_points(frames.reshape(-1, 3) if frames.shape[2] == 3 else frames, "the truth's frames")
    if reason:
        return *none, reason
    movable = {int(p) for p in truth.movable} & {int(p) for p in np.unique(labels)}
    if not movable:
        return *none, "the truth has no movable part"
    return frames, labels, movable, ""


def _check_frames(
    frames: Sequence[npt.ArrayLike | None] | None, current: npt.ArrayLike | None
) -> tuple[list[Array], str]:
    """All 32 predicted frames, missing ones filled, or why there are none."""
    given: list[Any] = list(frames)[:FRAMES] if frames is not None else []
    given += [None] * (FRAMES - len(given))
    if all(f is None for f in given):
        return [], "no frame was written"
    out = []
    for i, frame in enumerate(given):
        if frame is None and current is None:
            return [], f"frame {i} is missing and the scene's current state is not known"
        points, reason = as_points(current if frame is None else frame, f"frame {i}")
        if not reason and len(points) > MAX_VERTICES:
            reason = f"frame {i} has {len(points)} vertices, more than {MAX_VERTICES}"
        if reason:
            return [], reason
        out.append(points)
    return out, ""


def _displacement(a: Array, b: Array) -> Array:
    """Distances between points of equal index."""
    return np.linalg.norm(b - a, axis=-1)


def _two_way(a: Array, b: Array) -> float:
    return max(d_surf(a, b), d_surf(b, a))


def _keyframes(frames: Sequence[Array]) -> tuple[int, int]:
    """The predicted closed and open keyframe: least and most displaced from the first frame, the first one on ties."""
    first = frames[0]
    moved = [
        float(_displacement(first, f).mean()) if len(f) == len(first) else _two_way(f, first) for f in frames
    ]
    return int(np.argmin(moved)), int(np.argmax(moved))


def _label(frames: Sequence[Array], closed: int, labels: IntArray, tree: cKDTree | None) -> list[IntArray]:
    """Part of each predicted vertex, frame by frame.

    Without a tree the truth's own labels. Else each vertex of the closed keyframe takes the part of its nearest truth
    vertex and keeps it; a frame with another number of vertices has no such memory and is labelled where it stands.
    """
    if tree is None:
        return [labels] * len(frames)
    of_closed = labels[tree.query(frames[closed])[1]]
    return [of_closed if len(f) == len(of_closed) else labels[tree.query(f)[1]] for f in frames]


def _movable_row(
    part: int,
    gap: float,
    states: Sequence[Array],
    true_states: Array,
    truth: ArticulatedTruth,
    closed: int,
    open_: int,
    same: bool,
) -> PartRow:
    """Error and diagnostics of one movable part; `states` are its predicted vertices, frame by frame."""
    if any(not len(s) for s in states):
        return PartRow(part, True, gap)
    rest, opened = states[closed], states[open_]
    # Predicted opening per frame, and the truth frame of the opening half with the nearest one.
    openings = np.array([_shift(rest, s) for s in states]) / gap
    true_openings = _displacement(true_states[0], true_states[: OPEN_FRAME + 1]).mean(axis=1) / gap
    phi = np.abs(np.clip(openings, 0.0, 1.0)[:, None] - true_openings).argmin(axis=1)
    if same:
        errors = _displacement(np.stack(list(states)), true_states[phi]).mean(axis=1)
    else:
        trees = {k: cKDTree(true_states[k]) for k in set(phi.tolist())}
        errors = np.array(
            [max(d_surf(s, trees[k]), d_surf(true_states[k], s)) for s, k in zip(states, phi.tolist(), strict=True)]
        )
    eps = float(errors.max())
    kappa = min(float(openings.max()), 1.0)

    centre_shift = float(np.linalg.norm(opened.mean(axis=0) - rest.mean(axis=0)))
    motion, cosine = _diagnose(part, gap, rest, opened, true_states, truth)
    return PartRow(
        part,
        True,
        gap,
        error=max(eps, (1 - kappa) * gap),
        eps=eps,
        kappa=kappa,
        recovered=gap > MOVED and centre_shift > 0.2 * gap,
        motion=motion,
        direction_cos=cosine,
    )


def _shift(a: Array, b: Array) -> float:
    """Mean displacement of a part's vertices, or the displacement of its centre when their numbers differ."""
    if len(a) == len(b):
        return float(_displacement(a, b).mean())
    return float(np.linalg.norm(b.mean(axis=0) - a.mean(axis=0)))


def _diagnose(
    part: int, gap: float, rest: Array, opened: Array, true_states: Array, truth: ArticulatedTruth
) -> tuple[Motion | None, float | None]:
    """How the part moved between the predicted keyframes, and the cosine to the true direction where comparable."""
    if len(rest) != len(opened) or _displacement(rest, opened).mean() <= max(0.05, 0.25 * gap):
        return None, None
    true_kind = truth.joint_type.get(part)
    turn, shift = _fit(rest, opened)
    true_turn, true_shift = _fit(true_states[0], true_states[OPEN_FRAME])
    least = 0.1 * truth.joint_range.get(part, 0.0) if true_kind == "translation" else 0.05
    if np.linalg.norm(turn) > math.radians(15):
        motion: Motion = "rotation"
    elif np.linalg.norm(shift) > least:
        motion = "translation"
    else:
        return "non-rigid", None
    if motion != true_kind:
        return motion, None
    a, b = (turn, true_turn) if motion == "rotation" else (shift, true_shift)
    lengths = float(np.linalg.norm(a) * np.linalg.norm(b))
    return motion, float(a @ b) / lengths if lengths > 1e-12 else None


def _fit(a: Array, b: Array) -> tuple[Array, Array]:
    """Rotation vector (axis times angle, radians) of the rigid fit, and the displacement of the centroid, metres."""
    rotation, _ = fit_rigid(a, b)
    return Rotation.from_matrix(rotation).as_rotvec(), b.mean(axis=0) - a.mean(axis=0)


def _moved_falsely(closed: Array, opened: Array) -> bool:
    """Whether the most displaced hundredth of a static part's vertices moved more than 5 cm on average."""
    if not len(closed) or not len(opened):
        return False
    if len(closed) == len(opened):
        return _top_percent(_displacement(closed, opened)) > 0.05
    return max(_top_percent(nearest(closed, opened)), _top_percent(nearest(opened, closed))) > 0.05


def _top_percent(distances: Array) -> float:
    count = max(1, math.ceil(0.01 * len(distances)))
    return float(np.sort(distances)[-count:].mean())


def _rate(count: int, of: int) -> float:
    return count / of if of else 0.0


def _invalid(reason: str, protocol: Protocol, rows: tuple[PartRow, ...] = ()) -> ArticulatedScore:
    return ArticulatedScore(
        None, None, None, None, None, None, None, None, False, None, None, rows, 0.0, False, reason, protocol
    )
