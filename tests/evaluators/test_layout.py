"""Layout: hand-calculated arrangements, what is a deformed object, brackets, and the published cases."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.spatial.transform import Rotation

from benchmarks import published as table
from benchmarks.evaluators import plain_layout
from sceneact_gym.evaluators import layout
from sceneact_gym.evaluators.layout import Shape, is_rigid_copy

BAR = np.array([[0.0, 0, 0], [2, 0, 0]])  # diagonal 2


def shifted(points: np.ndarray, *by: float) -> np.ndarray:
    return points + np.array(by)


# ------------------------------------------------------------------------------------------------ by hand, paper


def test_one_object_by_hand() -> None:
    result = layout.evaluate({"object_00": shifted(BAR, 0, 3, 0)}, [BAR])
    assert (result.add_s, result.pos_err, result.chamfer, result.pa, result.ss) == (3, 3, 6, 0, 0)
    assert result.score == 25
    assert result.objects == (layout.LayoutRow(0, "object_00", 3.0, 3.0, False),)


def test_add_s_is_directed_from_predicted_to_true() -> None:
    # One predicted point on the bar's end costs nothing, though the bar's other end is 2 m from it.
    result = layout.evaluate({"object_00": BAR[:1]}, [BAR])
    assert (result.add_s, result.pos_err, result.chamfer) == (0, 1, 1)


def test_matching_minimises_the_sum() -> None:
    # Points at 4 and -5 for points at 0 and 10: the nearest pair first (4) would leave 15, the best sum is 6 + 5.
    truth = [np.array([[0.0, 0, 0]]), np.array([[10.0, 0, 0]])]
    predicted = {"object_a": np.array([[4.0, 0, 0]]), "object_b": np.array([[-5.0, 0, 0]])}
    result = layout.evaluate(predicted, truth)
    assert result.add_s == 5.5
    assert [r.predicted for r in result.objects] == ["object_b", "object_a"]


def test_missing_objects_leave_the_mean_in_paper_and_cost_four_metres_in_strict() -> None:
    far = shifted(BAR, 0, 10, 0)
    paper = layout.evaluate({"object_00": shifted(BAR, 0, 1, 0)}, [BAR, far])
    assert (paper.add_s, paper.pa, paper.ss, paper.score) == (1, 0, 0, 75)
    assert paper.objects[1] == layout.LayoutRow(1, None, None, None, False)
    strict = layout.evaluate({"object_00": shifted(BAR, 0, 1, 0)}, [BAR, far], protocol="strict")
    assert (strict.add_s, strict.pos_err, strict.score) == (2.5, 1, 37.5)
    assert strict.objects[1].cost == 4
    dear = layout.evaluate({"object_00": BAR}, [BAR, far], protocol="strict", floor=5.0, object_floors=[0.0, 10.0])
    assert [r.cost for r in dear.objects] == [0, 10]
    assert (dear.add_s, dear.score) == (5, 0)
    only_mean = layout.evaluate({"object_00": BAR}, [BAR, far], protocol="strict", floor=5.0)
    assert [r.cost for r in only_mean.objects] == [0, 5]


def test_extra_objects_are_reported() -> None:
    predicted = {"object_00": BAR, "object_01": shifted(BAR, 0, 0, 7), "Cube": shifted(BAR, 0, 0, 1)}
    for protocol in ("paper", "strict"):
        result = layout.evaluate(predicted, [BAR], protocol=protocol)
        assert (result.add_s, result.pa, result.ss) == (0, 1, 0)
        assert (result.n_predicted, result.n_extra) == (2, 1)
        assert result.chamfer == 3.5  # 0, 0, 7, 7 one way and nothing the other


@pytest.mark.parametrize(("offset", "placed"), [(0.19, True), (0.2, False), (0.21, False)])
def test_placed_means_below_a_tenth_of_the_diagonal(offset: float, placed: bool) -> None:
    result = layout.evaluate({"object_00": shifted(BAR, 0, offset, 0)}, [BAR])
    assert result.objects[0].placed is placed
    assert (result.pa, result.ss) == (int(placed), int(placed))


def test_a_single_point_is_never_placed() -> None:
    # Its diagonal is 0 and the comparison is strict, even where the cost is 0 as well.
    result = layout.evaluate({"object_00": [[1, 1, 1]]}, [[[1, 1, 1]]])
    assert (result.add_s, result.pa, result.score) == (0, 0, 100)


def test_strict_reference_is_the_floor_but_at_least_a_quarter_metre() -> None:
    predicted = {"object_00": shifted(BAR, 0, 0.2, 0)}
    scores = [layout.evaluate(predicted, [BAR], protocol="strict", floor=f).score for f in (None, 1.0, 0.25, 0.01)]
    assert scores == pytest.approx([95, 80, 20, 20])
    assert layout.evaluate(predicted, [BAR], floor=1.0).score == pytest.approx(95)  # paper takes 4 m whatever happens


# ------------------------------------------------------------------------------------------------- invalid input


@pytest.mark.parametrize(
    ("predicted", "reason"),
    [
        (None, "no object named"),
        ({}, "no object named"),
        ({"Cube": BAR}, "no object named"),
        ({"object_00": np.zeros((0, 3))}, "no object named"),
        ({"object_00": None}, "missing"),
        ({"object_00": [[1, 2], [3]]}, "not an array"),
        ({"object_00": BAR * np.nan}, "NaN"),
        ({"object_00": BAR, "object_01": BAR + np.inf}, "infinite"),
        ({"object_00": np.zeros((3, 2))}, "shape"),
        ({"object_00": BAR * 1e12}, "beyond"),
        ({f"object_{i}": BAR for i in range(201)}, "more than 200"),
    ],
)
def test_unusable_predictions_are_invalid(predicted: dict, reason: str) -> None:
    for protocol in ("paper", "strict"):
        result = layout.evaluate(predicted, [BAR], protocol=protocol)
        assert not result.valid and result.score == 0 and reason in result.reason
        assert result.add_s is result.pos_err is result.chamfer is result.pa is result.ss is None


@pytest.mark.parametrize(("truth", "reason"), [([], "no object"), ([BAR, BAR * np.nan], "true object 1")])
def test_an_unusable_truth_is_invalid(truth: list, reason: str) -> None:
    assert reason in layout.evaluate({"object_00": BAR}, truth).reason


# --------------------------------------------------------------------------------------------- deformed or moved


def chair(rng: np.random.Generator, count: int = 1500) -> np.ndarray:
    """Points on a chair without any symmetry: seat, back, four legs of different height, one arm."""
    boxes = [
        ([0, 0, 0.45], [0.5, 0.5, 0.5]), ([0, 0.45, 0.5], [0.5, 0.5, 1.0]), ([0, 0, 0], [0.05, 0.05, 0.45]),
        ([0.45, 0, 0.02], [0.5, 0.05, 0.45]), ([0, 0.45, 0.05], [0.05, 0.5, 0.45]),
        ([0.45, 0.45, 0], [0.5, 0.5, 0.45]), ([0, 0.1, 0.65], [0.06, 0.45, 0.7]),
    ]  # fmt: skip
    corners = [np.array([[(lo, hi)[b >> k & 1][k] for k in range(3)] for b in range(8)]) for lo, hi in boxes]
    inside = [rng.uniform(lo, hi, (count // len(boxes), 3)) for lo, hi in boxes]
    return np.concatenate([*corners, *inside])


def reexported(points: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """What an exporter and a web compressor do: other order, split vertices, a tenth of a millimetre of noise."""
    rounded = points + rng.normal(0, 5e-5, points.shape)
    again = np.concatenate([rounded, rounded[rng.integers(0, len(points), len(points) // 2)]])
    return again[rng.permutation(len(again))]


def moved(points: np.ndarray, seed: int) -> np.ndarray:
    return points @ Rotation.random(random_state=seed).as_matrix().T + [3, -2, 1]


def rigid(points: np.ndarray, original: np.ndarray) -> bool:
    return is_rigid_copy(Shape.of(points), Shape.of(original))


@pytest.mark.parametrize("seed", range(5))
def test_rigid_copies_are_recognised(seed: int) -> None:
    rng = np.random.default_rng(seed)
    points = chair(rng)
    assert rigid(moved(points, seed), points)
    assert rigid(reexported(moved(points, seed), rng), points)


DEFORMED: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "scaled": lambda p: p * 1.05,
    "shrunk": lambda p: p * 0.6,
    "stretched": lambda p: p * [1, 1, 1.1],
    "mirrored": lambda p: p * [-1, 1, 1],
    "legs cut": lambda p: p[p[:, 2] > 0.3],
    "sheared": lambda p: p + p[:, 2:] * [0.15, 0, 0],
    "one corner pulled": lambda p: np.where((p[:, :1] > 0.4) & (p[:, 2:] > 0.8), p + [0.3, 0, 0], p),
    "collapsed to a point": lambda p: p * 0 + 1,
    "a box": lambda p: np.array([[x, y, z] for x in (0, 0.5) for y in (0, 0.5) for z in (0.0, 1.0)]),
}


@pytest.mark.parametrize("how", DEFORMED)
@pytest.mark.parametrize("seed", range(2))
def test_deformed_objects_are_recognised(how: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    points = chair(rng)
    changed = moved(DEFORMED[how](points), seed)
    assert not rigid(changed, points)
    assert not rigid(reexported(changed, rng), points)


def ring(radius: float, z: float, count: int) -> np.ndarray:
    a = np.arange(count) * 2 * np.pi / count
    return np.stack([radius * np.cos(a), radius * np.sin(a), np.full(count, z)], axis=1)


SYMMETRIC = {
    "cube": np.array([[x, y, z] for x in (0.0, 1) for y in (0.0, 1) for z in (0.0, 1)]),
    "cylinder": np.concatenate([ring(0.5, z, 64) for z in np.linspace(0, 2, 9)]),
    "lamp": np.concatenate([ring(0.4, 0, 48), ring(0.05, 0.1, 24), ring(0.05, 1.4, 24), ring(0.3, 1.5, 48)]),
    "sphere": np.concatenate([ring(math.sin(t), math.cos(t), 40) for t in np.linspace(0.1, 3.0, 30)]),
    "square table": np.concatenate([np.array([[x, y, z] for x in (0.0, 1) for y in (0.0, 1)]) for z in (0, 0.7, 0.75)]),
    "bar": BAR,
    "point": np.array([[1.0, 2, 3]]),
}


@pytest.mark.parametrize("name", SYMMETRIC)
def test_symmetric_objects_are_recognised(name: str) -> None:
    points = SYMMETRIC[name]
    for seed in range(4):
        rng = np.random.default_rng(seed)
        assert rigid(moved(points, seed), points)
        if len(points) > 2:
            assert rigid(reexported(moved(points, seed), rng), points)
            assert not rigid(reexported(moved(points * [1, 1, 1.2], seed), rng), points)


def test_altered_objects_count_as_unmatched() -> None:
    points = chair(np.random.default_rng(0))
    truth = [points, shifted(points, 3, 0, 0)]
    predicted = {"object_00": points * 0.5, "object_01": shifted(points, 3, 0, 0)}
    strict = layout.evaluate(predicted, truth, protocol="strict")
    assert (strict.n_altered, strict.altered, strict.n_extra) == (1, ("object_00",), 1)
    assert [r.predicted for r in strict.objects] == [None, "object_01"]
    assert (strict.add_s, strict.pa) == (2, 0.5)
    paper = layout.evaluate(predicted, truth)
    assert paper.n_altered == 0 and paper.add_s < 0.5
    all_changed = layout.evaluate({"object_00": points * 2}, [points], protocol="strict")
    assert (all_changed.add_s, all_changed.pos_err, all_changed.score) == (4, None, 0)
    assert all_changed.valid


# ------------------------------------------------------------------------------------------------------ brackets


def room() -> tuple[dict[str, np.ndarray], list[np.ndarray], dict[str, np.ndarray]]:
    """True arrangement by name, as a list, and the initial scene with everything at the origin."""
    rng = np.random.default_rng(7)
    shapes = [chair(rng, 700), chair(rng, 700) * [2.5, 1.2, 0.8], chair(rng, 350) * [0.6, 0.6, 2.2]]
    poses = [((1.5, 0.5, 0), 90), ((-1, 2, 0), 0), ((0, -2, 0.3), 210)]
    placed = {}
    for i, (shape, (at, yaw)) in enumerate(zip(shapes, poses, strict=True)):
        turn = Rotation.from_euler("z", yaw, degrees=True).as_matrix()
        placed[f"object_{i:02d}"] = (shape - shape.mean(axis=0)) @ turn.T + at
    initial = {f"object_{i:02d}": s - s.mean(axis=0) for i, s in enumerate(shapes)}
    return placed, list(placed.values()), initial


def test_brackets() -> None:
    placed, truth, initial = room()
    floor, floors = layout.do_nothing(initial, truth)
    both = [{}, {"protocol": "strict", "floor": floor, "object_floors": floors}]
    perfect = [layout.evaluate(placed, truth, **options) for options in both]
    assert [p.score for p in perfect] == [100, 100]
    assert [(p.pa, p.ss, p.n_altered, p.chamfer, p.pos_err) for p in perfect] == [(1, 1, 0, 0, 0)] * 2
    idle = [layout.evaluate(initial, truth, **options) for options in both]
    assert idle[1].score == pytest.approx(0, abs=1e-9)
    # The paper's 4 m bound leaves doing nothing in this room this much; recorded, so that a change is noticed.
    assert idle[0].score == pytest.approx(100 * (1 - floor / 4))
    assert 40 < idle[0].score < 70
    assert layout.evaluate({}, truth, **both[1]).score == 0


def strict(predicted: dict[str, np.ndarray]) -> layout.LayoutScore:
    placed, truth, initial = room()
    floor, floors = layout.do_nothing(initial, truth)
    return layout.evaluate(predicted, truth, protocol="strict", floor=floor, object_floors=floors)


def one(change: Callable[[np.ndarray], np.ndarray]) -> layout.LayoutScore:
    """The strict score of the truth with one object changed about its own mean."""
    placed, _, _ = room()
    centre = placed["object_00"].mean(axis=0)
    placed["object_00"] = change(placed["object_00"] - centre) + centre
    return strict(placed)


@pytest.mark.parametrize(
    "change",
    [
        lambda s: lambda p: p + np.array([s, 0, 0]),
        lambda s: lambda p: p + np.array([0, -s, s]),
        lambda s: lambda p: p @ Rotation.from_euler("z", 60 * s, degrees=True).as_matrix().T,
        lambda s: lambda p: p @ Rotation.from_euler("x", 100 * s, degrees=True).as_matrix().T,
    ],
)
def test_one_object_off_costs_more_the_further_it_is(change: Callable) -> None:
    results = [one(change(s)) for s in (0.0, 0.25, 0.5, 1.0)]
    costs = [r.add_s for r in results]
    assert costs == sorted(costs) and len(set(costs)) == 4
    scores = [r.score for r in results]
    assert scores == sorted(scores, reverse=True) and scores[0] == 100
    # And only that object is worse; nothing counts as deformed, missing or extra.
    for result in results:
        assert [r.cost for r in result.objects[1:]] == [0, 0]
        assert (result.n_altered, result.n_extra) == (0, 0)


def test_single_corruptions_show_in_their_own_figure() -> None:
    placed, _, _ = room()
    swapped = strict({**placed, "object_00": placed["object_01"], "object_01": placed["object_00"]})
    assert swapped.score == 100  # names are anonymous: the two objects are where they belong
    missing = strict({k: v for k, v in placed.items() if k != "object_01"})
    assert missing.objects[1].predicted is None and missing.pa == pytest.approx(2 / 3) and missing.ss == 0
    assert missing.objects[1].cost >= 4 and missing.score < 20
    extra = strict({**placed, "object_09": placed["object_00"] + [0, 0, 3]})
    assert (extra.n_extra, extra.ss, extra.add_s, extra.n_altered) == (1, 0, 0, 0)
    for change in (lambda p: p * [-1, 1, 1], lambda p: p * 1.3, lambda p: p * [1, 1, 2]):
        result = one(change)
        assert (result.n_altered, result.altered) == (1, ("object_00",))
        assert result.add_s >= 4 / 3
    # Two objects trading places is a move of both.
    at = [placed["object_00"].mean(axis=0), placed["object_01"].mean(axis=0)]
    traded = strict({**placed, "object_00": placed["object_00"] - at[0] + at[1],
                     "object_01": placed["object_01"] - at[1] + at[0]})  # fmt: skip
    assert 0 < traded.score < 100 and traded.n_altered == 0


def test_leaving_a_far_object_away_never_pays() -> None:
    placed, truth, initial = room()
    truth[0] = truth[0] + [40, 0, 0]
    floor, floors = layout.do_nothing(initial, truth)
    for options in ({"floor": floor, "object_floors": floors},):
        kept = {**placed, "object_00": initial["object_00"]}
        gone = {k: v for k, v in placed.items() if k != "object_00"}
        a, b = (layout.evaluate(p, truth, protocol="strict", **options) for p in (kept, gone))
        assert b.add_s >= a.add_s - 1e-9


# ---------------------------------------------------------------------------------------------------- properties

clouds = st.integers(0, 2**31).map(lambda seed: np.random.default_rng(seed))


@settings(max_examples=25, deadline=None)
@given(clouds, st.integers(1, 5), st.integers(1, 5), st.sampled_from(["paper", "strict"]))
def test_order_of_objects_and_vertices_does_not_matter(
    rng: np.random.Generator, n_predicted: int, n_true: int, protocol: str
) -> None:
    predicted = {f"object_{i}": rng.normal(size=(int(rng.integers(1, 40)), 3)) * 3 for i in range(n_predicted)}
    truth = [rng.normal(size=(int(rng.integers(1, 40)), 3)) * 3 for _ in range(n_true)]
    first = layout.evaluate(predicted, truth, protocol=protocol)
    names = rng.permutation(list(predicted)).tolist()
    turned = {name: predicted[name][rng.permutation(len(predicted[name]))] for name in names}
    order = rng.permutation(n_true)
    second = layout.evaluate(turned, [truth[j] for j in order], protocol=protocol)
    for key in ("add_s", "pos_err", "chamfer", "pa", "score"):
        a, b = getattr(first, key), getattr(second, key)
        assert a == pytest.approx(b, abs=1e-9) if a is not None else b is None
    assert (first.ss, first.n_altered) == (second.ss, second.n_altered)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.lists(st.tuples(*[st.floats(-1e9, 1e9)] * 3), min_size=1, max_size=6), min_size=1, max_size=3),
    st.lists(st.lists(st.tuples(*[st.floats(-1e9, 1e9)] * 3), min_size=1, max_size=6), min_size=1, max_size=3),
    st.sampled_from(["paper", "strict"]),
)
def test_any_finite_input_gives_finite_results(predicted: list, truth: list, protocol: str) -> None:
    result = layout.evaluate({f"object_{i}": p for i, p in enumerate(predicted)}, truth, protocol=protocol)
    assert result.valid
    for value in (result.add_s, result.chamfer, result.pa, result.score):
        assert math.isfinite(value)
    assert 0 <= result.score <= 100 and 0 <= result.pa <= 1


def test_caps_and_formulas_equal_a_plain_transcription() -> None:
    rng = np.random.default_rng(5)
    truth = [rng.normal(size=(n, 3)) + [i, 0, 0] for i, n in enumerate((6000, 2500, 700))]
    predicted = {f"object_{i}": rng.normal(size=(n, 3)) + [i, 1, 0] for i, n in enumerate((9000, 3000, 1900, 20))}
    result = layout.evaluate(predicted, truth)
    plain = plain_layout(predicted, truth)
    for key, value in plain.items():
        assert getattr(result, key) == pytest.approx(value, abs=1e-9), key


# ------------------------------------------------------------------------------------------------- published data


def test_published_cases(published: Path) -> None:
    """ADD-S to 0.005 m, Chamfer to 0.01 m (2 % far away), PA exactly but for two costs at the threshold."""
    truth = table.layout_truth(published)
    assert len(truth) == 6
    for case in table.read_cases(published, "layout"):
        metrics = case["metrics"]
        predicted = table.layout_prediction(published, case)
        result = layout.evaluate(predicted, truth)
        assert result.add_s == pytest.approx(metrics["ADD-S"], abs=0.005), case["id"]
        near = max(0.01, 0.02 * metrics["Chamfer"] if metrics["Chamfer"] > 10 else 0)
        assert result.chamfer == pytest.approx(metrics["Chamfer"], abs=near), case["id"]
        if case["configuration"] == "doubao-seed-2-pro-high":
            margins = [
                abs(r.cost - 0.1 * np.linalg.norm(np.ptp(truth[r.truth], axis=0))) for r in result.objects if r.placed
            ]
            assert len(margins) == 2 and max(margins) < 0.0025
        else:
            assert result.pa == pytest.approx(metrics["Placement"], abs=5e-5), case["id"]
        # One agent scaled an object to two thirds; the others only moved theirs.
        strict = layout.evaluate(predicted, truth, protocol="strict")
        assert strict.altered == (("object_04",) if case["configuration"] == "step-3-7-flash-high" else ()), case["id"]
