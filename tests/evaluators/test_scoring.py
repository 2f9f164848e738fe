"""Metric to score, cases to tasks, tasks to Overall, runs to differences; and the shared geometry."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.spatial.transform import Rotation

from sceneact_gym.evaluators import base, camera, scoring
from sceneact_gym.evaluators.published import TABLE_3


@pytest.mark.parametrize(
    ("metric", "reference", "lower", "higher"),
    [
        (0.0, 4.0, 100, 0),
        (1.0, 4.0, 75, 25),
        (4.0, 4.0, 0, 100),
        (9.0, 4.0, 0, 100),
        (-1.0, 4.0, 100, 0),
        (None, 4.0, 0, 0),
        (math.nan, 4.0, 0, 0),
        (math.inf, 4.0, 0, 0),
        (1.0, 0.0, 0, 0),
        (1.0, math.nan, 0, 0),
    ],
)
def test_normalisation(metric: float | None, reference: float, lower: float, higher: float) -> None:
    assert base.score_lower(metric, reference) == lower
    assert base.score_higher(metric, reference) == higher


def test_task_score_counts_invalid_cases_as_zero_and_leaves_failures_out() -> None:
    good = camera.evaluate(np.eye(4), np.eye(4))
    bad = camera.evaluate(None, np.eye(4))
    result = scoring.task_score([good, bad, None, 50.0])
    assert result == scoring.TaskScore(score=50.0, cases=3, invalid=1, excluded=1)
    assert scoring.task_score([]) == scoring.TaskScore(None, 0, 0, 0)
    assert scoring.task_score([None]) == scoring.TaskScore(None, 0, 0, 1)


@pytest.mark.parametrize("score", [-1, 101, math.nan])
def test_a_score_out_of_range_is_refused(score: float) -> None:
    with pytest.raises(ValueError, match="between 0 and 100"):
        scoring.task_score([score])


def test_overall_is_the_mean_of_five_tasks() -> None:
    tasks = {"layout": 80, "camera": 10, "articulated": 60, "reconstruction": 0, "dynamic": 50}
    assert scoring.overall(tasks) == 40
    assert scoring.overall({**tasks, "layout_multiview": 100, "dynamic_photoreal": 0}) == 40
    assert scoring.overall({**tasks, "camera": None}) is None
    assert scoring.overall({k: v for k, v in tasks.items() if k != "dynamic"}) is None


def test_condition_differences_pair_by_case() -> None:
    single, multi = {"a": 10.0, "b": 20.0, "c": None, "d": 5.0}, {"b": 50.0, "a": 5.0, "c": 1.0, "e": 9.0}
    assert scoring.condition_differences(single, multi) == {"a": -5, "b": 30}


def test_bootstrap_by_hand() -> None:
    same = scoring.bootstrap({"a": 30.0, "b": 60.0}, {"a": 20.0, "b": 50.0})
    assert same == scoring.Difference(mean=10, low=10, high=10, pairs=2, level=0.95)
    # Differences 0 and 10: a resample of two has mean 0, 5 or 10 with chances 1/4, 1/2, 1/4.
    two = {"a": 0.0, "b": 10.0}, {"a": 0.0, "b": 0.0}
    wide, narrow = scoring.bootstrap(*two), scoring.bootstrap(*two, level=0.4)
    assert (wide.mean, wide.low, wide.high) == (5, 0, 10)
    assert (narrow.low, narrow.high) == (5, 5)
    assert scoring.bootstrap(*two) == wide
    assert scoring.bootstrap({"a": 1.0}, {"b": 1.0}) is None


def test_bootstrap_is_close_to_the_normal_interval() -> None:
    rng = np.random.default_rng(1)
    a = {str(i): float(x) for i, x in enumerate(rng.uniform(20, 80, 400))}
    b = {k: float(np.clip(v + rng.normal(-3, 10), 0, 100)) for k, v in a.items()}
    differences = np.array([a[k] - b[k] for k in a])
    half = 1.96 * differences.std(ddof=1) / 20
    result = scoring.bootstrap(a, b)
    assert result.mean == pytest.approx(differences.mean())
    assert result.low == pytest.approx(differences.mean() - half, abs=0.15)
    assert result.high == pytest.approx(differences.mean() + half, abs=0.15)
    # The order in which the cases come does not matter, the side does.
    assert scoring.bootstrap(dict(reversed(a.items())), b) == result
    assert scoring.bootstrap(b, a).mean == -result.mean


def test_bootstrap_of_overall() -> None:
    a = {task: {"x": 50.0, "y": 60.0} for task in scoring.OVERALL_TASKS}
    b = {task: {"x": 40.0, "y": 50.0} for task in scoring.OVERALL_TASKS}
    assert scoring.bootstrap_overall(a, b) == scoring.Difference(10, 10, 10, 10, 0.95)
    assert scoring.bootstrap_overall({**a, "camera": {}}, b) is None
    assert scoring.bootstrap_overall({}, b) is None


@pytest.mark.parametrize("options", [{"resamples": 0}, {"level": 0.0}, {"level": 1.0}])
def test_bootstrap_refuses_impossible_options(options: dict) -> None:
    with pytest.raises(ValueError, match="must"):
        scoring.bootstrap({"a": 1.0}, {"a": 2.0}, **options)


def test_the_published_table_is_consistent() -> None:
    """Overall is the mean of the five columns up to their rounding, the range is the abstract's, the order descends."""
    assert len(TABLE_3) == 11
    for row in TABLE_3.values():
        mean = scoring.overall({task: getattr(row, task) for task in scoring.OVERALL_TASKS})
        assert mean == pytest.approx(row.overall, abs=0.1 + 1e-9)
    overall = [row.overall for row in TABLE_3.values()]
    assert overall == sorted(overall, reverse=True)
    assert (overall[0], overall[-1]) == (50.2, 38.6)


# ---------------------------------------------------------------------------------------------- shared geometry


def test_surface_distances_by_hand() -> None:
    a = np.array([[0.0, 0, 0], [4, 0, 0]])
    b = np.array([[0.0, 3, 0], [4, 0, 0], [4, 0, 12]])
    assert base.d_surf(a, b) == 1.5  # 3 and 0
    assert base.d_surf(b, a) == 5  # 3, 0 and 12
    assert base.d_surf_symmetric(a, b) == 6.5


def test_boxes_by_hand() -> None:
    points = np.array([[0.0, 0, 0], [1, 4, 2], [0.5, 1, 10]])
    assert base.box_centre(points).tolist() == [0.5, 2, 5]
    assert base.box_diagonal(points) == pytest.approx(math.sqrt(1 + 16 + 100))


def test_subsamples_are_seeded_without_replacement_and_only_above_the_cap() -> None:
    points = np.arange(300.0).reshape(100, 3)
    assert base.subsample(points, 100) is points
    few = base.subsample(points, 99)
    assert len(np.unique(few, axis=0)) == 99
    np.testing.assert_array_equal(few, base.subsample(points, 99))
    np.testing.assert_array_equal(few, points[np.random.default_rng(0).choice(100, 99, replace=False)])


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (None, "missing"),
        ("abc", "not an array of numbers"),
        ([[1, 2], [3]], "not an array of numbers"),
        ([[10**400, 0, 0]], "not an array of numbers"),
        ([], "empty"),
        (np.zeros((0, 3)), "empty"),
        (np.zeros(3), "shape"),
        (np.zeros((2, 4)), "shape"),
        ([[np.nan, 0, 0]], "NaN"),
        ([[0, np.inf, 0]], "infinite"),
        ([[0, 2e9, 0]], "beyond"),
        ([[0, 0, 0]], "fewer than 2"),
    ],
)
def test_bad_points_are_a_sentence(value: object, reason: str) -> None:
    points, said = base.as_points(value, "the thing", at_least=2)
    assert points.shape == (0, 3)
    assert said.startswith("the thing") and reason in said


@settings(max_examples=50, deadline=None)
@given(st.integers(1, 12), st.integers(0, 2**31))
def test_rigid_fits_recover_a_motion(count: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    points, shift = rng.normal(size=(count, 3)), rng.normal(size=3)
    turn = Rotation.random(random_state=seed).as_matrix()
    moved = points @ turn.T + shift
    rotation, translation = base.fit_rigid(points, moved)
    np.testing.assert_allclose(points @ rotation.T + translation, moved, atol=1e-9)
    assert np.linalg.det(rotation) == pytest.approx(1)
    if count > 3:
        np.testing.assert_allclose(rotation, turn, atol=1e-6)


def test_a_rigid_fit_never_mirrors() -> None:
    points = np.random.default_rng(0).normal(size=(30, 3))
    rotation, _ = base.fit_rigid(points, points * [-1, 1, 1])
    assert np.linalg.det(rotation) == pytest.approx(1)


def test_mesh_without_faces_references_nothing() -> None:
    mesh = base.Mesh("m", np.zeros((2, 3)), np.zeros((0, 3), np.int64)).referenced()
    assert len(mesh.vertices) == len(mesh.faces) == 0
