"""Camera: how far the agent's final camera is from the hidden one, in place and in direction of view.

SceneActBench Section 3. PE is the distance of the camera centres, AE the angle between the view directions (local -Z);
roll is not penalised and the field of view is recorded without being scored. Both protocols use the same two metrics
and the same references of 4 m and 90 degrees, since no pose is a natural zero; what the untouched scene would score is
reported beside them (`floor`) where the truth knows the initial camera.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from sceneact_gym.evaluators.base import MAX_COORDINATE, Protocol, check_protocol, score_lower

PE_REFERENCE = 4.0
AE_REFERENCE = 90.0

Vector = tuple[float, float, float]


@dataclass(frozen=True)
class CameraScore:
    """Result of `evaluate`.

    Attributes:
        pe: Distance of the camera centres, metres; None when invalid.
        ae: Angle between the view directions, degrees, 0 to 180; None when invalid.
        fov_x: The predicted horizontal field of view, degrees, recorded only; None when unknown.
        score: 0 to 100, the mean of PE against 4 m and AE against 90 degrees.
        floor: Score of the untouched initial camera, None when the truth does not hold it.
        valid: Whether there was a usable camera.
        reason: Why not, else empty.
        protocol: The protocol asked for.
    """

    pe: float | None
    ae: float | None
    fov_x: float | None
    score: float
    floor: float | None
    valid: bool
    reason: str
    protocol: Protocol


def evaluate(
    predicted: Mapping[str, Any] | npt.ArrayLike | None,
    truth: Mapping[str, Any] | npt.ArrayLike,
    *,
    protocol: Protocol = "paper",
) -> CameraScore:
    """Scores a camera pose.

    Args:
        predicted: `{"matrix_world": 4x4 row-major, "fov_x_deg": degrees or None}` or the bare matrix; None for no
            active camera.
        truth: The same for the hidden camera, optionally with `initial_matrix_world`, the camera the episode began
            with.
        protocol: `paper` or `strict`; the values are the same.

    Returns:
        The score; invalid, never an exception, for a pose that cannot be used.
    """
    check_protocol(protocol)
    fov_x = _finite(predicted.get("fov_x_deg")) if isinstance(predicted, Mapping) else None
    centre, view, reason = _pose(predicted, "the predicted camera")
    true_centre, true_view, truth_reason = _pose(truth, "the true camera")
    floor = None
    if not truth_reason and isinstance(truth, Mapping) and truth.get("initial_matrix_world") is not None:
        first_centre, first_view, first_reason = _pose(truth["initial_matrix_world"], "the initial camera")
        floor = 0.0 if first_reason else _score(*_errors(first_centre, first_view, true_centre, true_view))
    if reason or truth_reason:
        return CameraScore(None, None, fov_x, 0.0, floor, False, truth_reason or reason, protocol)
    pe, ae = _errors(centre, view, true_centre, true_view)
    return CameraScore(pe, ae, fov_x, _score(pe, ae), floor, True, "", protocol)


def _errors(centre: Vector, view: Vector, true_centre: Vector, true_view: Vector) -> tuple[float, float]:
    """PE in metres and AE in degrees."""
    (ax, ay, az), (bx, by, bz) = view, true_view
    # atan2 is the arccos of the dot product without its loss of digits near 0 and 180 degrees, and needs no clipping.
    sine = math.hypot(ay * bz - az * by, az * bx - ax * bz, ax * by - ay * bx)
    angle = math.atan2(sine, ax * bx + ay * by + az * bz)
    return math.dist(centre, true_centre), math.degrees(angle)


def _score(pe: float, ae: float) -> float:
    return (score_lower(pe, PE_REFERENCE) + score_lower(ae, AE_REFERENCE)) / 2


def _finite(value: Any) -> float | None:
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        return None
    return number if math.isfinite(number) else None


def _pose(camera: Mapping[str, Any] | npt.ArrayLike | None, what: str) -> tuple[Vector, Vector, str]:
    """Centre, unit view direction and an empty string, or why there are none."""
    none = (0.0, 0.0, 0.0)
    value = camera.get("matrix_world") if isinstance(camera, Mapping) else camera
    if value is None:
        return none, none, f"{what} is missing"
    try:
        matrix = np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        return none, none, f"{what} is not a matrix of numbers"
    if matrix.shape != (4, 4):
        return none, none, f"{what} has shape {matrix.shape}, not (4, 4)"
    if not np.abs(matrix).max() <= MAX_COORDINATE:  # also false for NaN
        return none, none, f"{what} has NaN, infinite or absurdly large numbers"
    x, y, z = matrix[:3, 2].tolist()
    # Normalised here, since agents set matrices that are not quite orthonormal or carry a scale.
    length = math.hypot(x, y, z)
    if length < 1e-9:
        return none, none, f"{what} looks nowhere: its local Z axis has no length"
    cx, cy, cz = matrix[:3, 3].tolist()
    return (cx, cy, cz), (-x / length, -y / length, -z / length), ""
