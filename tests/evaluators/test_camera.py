"""Camera: hand-calculated poses, invalid input, and the published cases."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.spatial.transform import Rotation

from benchmarks.published import CAMERA_CENTRE, CAMERA_VIEW, look_along
from sceneact_gym.evaluators import camera

TRUTH = np.eye(4)  # at the origin, looking down


def pose(x: float = 0, y: float = 0, z: float = 0, euler: tuple[float, float, float] = (0, 0, 0)) -> np.ndarray:
    matrix = np.eye(4)
    matrix[:3, :3] = Rotation.from_euler("xyz", euler, degrees=True).as_matrix()
    matrix[:3, 3] = x, y, z
    return matrix


@pytest.mark.parametrize(
    ("predicted", "pe", "ae", "score"),
    [
        (pose(), 0, 0, 100),
        (pose(1, 2, 2), 3, 0, 62.5),  # 25 and 100
        (pose(4), 4, 0, 50),
        (pose(40), 40, 0, 50),
        (pose(euler=(45, 0, 0)), 0, 45, 75),
        (pose(euler=(0, -90, 0)), 0, 90, 50),
        (pose(euler=(180, 0, 0)), 0, 180, 50),
        (pose(euler=(0, 0, 77)), 0, 0, 100),  # roll
        (pose(2, euler=(0, 30, 0)), 2, 30, (50 + 200 / 3) / 2),
        (pose(9, euler=(135, 0, 0)), 9, 135, 0),
    ],
)
@pytest.mark.parametrize("protocol", ["paper", "strict"])
def test_hand_calculated(predicted: np.ndarray, pe: float, ae: float, score: float, protocol: str) -> None:
    result = camera.evaluate(predicted, TRUTH, protocol=protocol)
    assert result.valid and result.reason == "" and result.protocol == protocol
    assert result.pe == pytest.approx(pe, abs=1e-12)
    assert result.ae == pytest.approx(ae, abs=1e-9)
    assert result.score == pytest.approx(score, abs=1e-9)


def test_the_view_direction_is_normalised() -> None:
    scaled = pose(euler=(60, 0, 0)) @ np.diag([3.0, 0.1, 7.0, 1.0])
    assert camera.evaluate(scaled, TRUTH).ae == pytest.approx(60, abs=1e-9)


def test_the_field_of_view_is_recorded_and_not_scored() -> None:
    truth = {"matrix_world": TRUTH, "fov_x_deg": 40}
    result = camera.evaluate({"matrix_world": TRUTH.tolist(), "fov_x_deg": 71}, truth)
    assert result.fov_x == 71 and result.score == 100
    for unknown in (None, float("nan"), "wide", 10**400):
        assert camera.evaluate({"matrix_world": TRUTH, "fov_x_deg": unknown}, TRUTH).fov_x is None
    assert camera.evaluate({"matrix_world": TRUTH}, TRUTH).fov_x is None


def test_the_floor_is_the_score_of_the_first_camera() -> None:
    truth = {"matrix_world": TRUTH, "initial_matrix_world": pose(2)}
    for predicted in (pose(1), None):
        assert camera.evaluate(predicted, truth, protocol="strict").floor == 75
    assert camera.evaluate(pose(1), TRUTH).floor is None
    assert camera.evaluate(pose(1), {**truth, "initial_matrix_world": np.zeros((4, 4))}).floor == 0


NO_VIEW = np.diag([1.0, 1.0, 0.0, 1.0])


@pytest.mark.parametrize(
    "predicted",
    [
        None,
        {},
        {"matrix_world": None},
        {"matrix_world": "here"},
        {"matrix_world": [[1, 2], [3]]},
        np.eye(3),
        np.full((4, 4), np.nan),
        np.diag([1, 1, 1, np.inf]),
        pose(1e30),
        NO_VIEW,
        [[10**400] * 4] * 4,
    ],
)
def test_unusable_poses_are_invalid(predicted: object) -> None:
    for protocol in ("paper", "strict"):
        result = camera.evaluate(predicted, TRUTH, protocol=protocol)
        assert (result.pe, result.ae, result.score, result.valid) == (None, None, 0.0, False)
        assert result.reason


def test_an_unusable_truth_is_invalid() -> None:
    assert "true camera" in camera.evaluate(TRUTH, NO_VIEW).reason


def test_an_unknown_protocol_is_a_mistake_of_the_caller() -> None:
    with pytest.raises(ValueError, match="protocol"):
        camera.evaluate(TRUTH, TRUTH, protocol="lenient")  # type: ignore[arg-type]


numbers = st.floats(-1e6, 1e6)


@settings(max_examples=60, deadline=None)
@given(st.lists(numbers, min_size=16, max_size=16), st.lists(numbers, min_size=16, max_size=16))
def test_finite_input_gives_finite_results(a: list[float], b: list[float]) -> None:
    result = camera.evaluate(np.reshape(a, (4, 4)), np.reshape(b, (4, 4)))
    assert 0 <= result.score <= 100
    if result.valid:
        assert math.isfinite(result.pe) and 0 <= result.ae <= 180


@settings(max_examples=30, deadline=None)
@given(st.floats(0, 4), st.floats(0, 4), st.floats(0, 90), st.floats(0, 90))
def test_worse_poses_score_lower(near: float, far: float, small: float, large: float) -> None:
    (near, far), (small, large) = sorted((near, far)), sorted((small, large))
    better, worse = (camera.evaluate(pose(d, euler=(a, 0, 0)), TRUTH) for d, a in ((near, small), (far, large)))
    assert better.score >= worse.score - 1e-9


def test_published_cases(published: Path) -> None:
    """To 5e-5 m and 1e-4 degrees; the published figures are rounded to four digits."""
    truth = look_along(CAMERA_CENTRE, CAMERA_VIEW)
    cases = [c for c in json.loads((published / "cases.json").read_text()) if c["task"] == "camera"]
    assert len(cases) == 6
    for case in cases:
        pose = case["pose"]
        result = camera.evaluate(
            {"matrix_world": pose["agent_matrix_world"], "fov_x_deg": pose["agent_fov_x_deg"]}, truth
        )
        assert result.pe == pytest.approx(case["metrics"]["PE"], abs=5.5e-5), case["id"]
        assert result.ae == pytest.approx(case["metrics"]["AE"], abs=1e-4), case["id"]
        assert result.fov_x == 39.6
