"""Dynamic: hand-calculated metrics, brackets on made scenes, glTF sampling, and the published submissions."""

from __future__ import annotations

import json
import math
import time
from dataclasses import fields, replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks import plain_dynamic
from sceneact_gym.evaluators import dynamic as dyn
from sceneact_gym.evaluators.base import Mesh
from sceneact_gym.evaluators.gltf import Channel, GltfScene, Node, load

METRICS = (
    "mme ame recall count_err shape_err direction_err heading_err scale_err size_err mover_size_err le layout_count_err"
).split()
T = 144


def line(start, end, frames=T):
    return np.linspace(start, end, frames)


def circle(radius=2.0, turns=1.0, centre=(0, 0, 0), frames=T):
    a = np.linspace(0, 2 * math.pi * turns, frames)
    return np.stack([radius * np.cos(a), radius * np.sin(a), 0 * a], 1) + centre


STATICS = np.array([[-5.0, -5, 0], [5, -5, 0], [5, 5, 0], [-5, 5, 0], [1, 4, 0], [-4, 2, 0]])
TRACKS = {"car": line((-4, 0, 0), (4, 0, 0)), "boat": line((3, -4, 0), (3, 4, 1)), "train": circle(2, 1, (-1, 1, 0))}
TRUTH = dyn.DynamicTruth(TRACKS, STATICS)
S = math.hypot(10, 10)


def score(tracks=None, statics=STATICS, truth=TRUTH, protocol="paper", **more):
    return dyn.evaluate(TRACKS if tracks is None else tracks, statics, truth, protocol=protocol, **more)


def without(name):
    return {k: v for k, v in TRACKS.items() if k != name}


def assert_sane(result):
    for f in fields(result):
        value = getattr(result, f.name)
        if isinstance(value, float):
            assert math.isfinite(value), f.name
    assert 0 <= result.score <= 100
    assert result.valid or (result.reason and result.score == 0)


# ---------------------------------------------------------------------------------------------------------- pure pieces


def test_forward_fill():
    n = np.nan
    track = np.array([[n, n, n], [1, 1, 1], [n, 0, 0], [2, 2, 2], [n, n, n]])
    np.testing.assert_array_equal(dyn.forward_fill(track)[:, 0], [1, 1, 1, 2, 2])


def test_scene_scale():
    tracks = [line((0, 0, 0), (6, 0, 99))]
    assert dyn.scene_scale(tracks, np.array([[0.0, 8, 0]])) == pytest.approx(10)
    assert dyn.scene_scale(tracks, np.zeros((0, 3))) == pytest.approx(6)
    assert dyn.scene_scale([np.zeros((2, 3))], np.zeros((0, 3))) == 5.0
    assert dyn.scene_scale([], np.zeros((0, 3))) == 40.0


def test_track_distances_over_the_shared_frames():
    a = np.array([[0.0, 0, 0], [0, 0, 0], [9, 9, 9]])
    b = np.array([[3.0, 4, 0], [0, 1, 0]])
    np.testing.assert_allclose(dyn.track_distances([a, b], [b, a]), [[3, 0], [0, 3]])
    assert dyn.track_distances([a], [a[:1]]).tolist() == [[0.0]]


def test_translation_is_mean_in_xy_and_median_in_z():
    a = np.zeros((3, 3))
    b = np.array([[1.0, 0, 0], [1, 0, 1], [4, 3, 100]])
    np.testing.assert_allclose(dyn.translation([(a, b)]), [2, 1, 1])
    np.testing.assert_allclose(dyn.translation([(a, b), (a[:1], b[:1] + [2, 0, 0])]), [9 / 4, 3 / 4, 0.5])
    assert dyn.translation([]).tolist() == [0, 0, 0]


def test_fitted_scale_error():
    a = line((0, 0, 0), (2, 0, 0), 3)
    assert dyn.fitted_scale_error([(a, a * 3 + 7)]) == pytest.approx(math.log(3))
    assert dyn.fitted_scale_error([(a * 4, a)]) == pytest.approx(math.log(4))
    assert dyn.fitted_scale_error([(a, a * 100)]) == pytest.approx(math.log(10))  # clipped
    assert dyn.fitted_scale_error([(a, -a)]) == pytest.approx(math.log(10))  # clipped to 0.1
    assert dyn.fitted_scale_error([(a * 0, a)]) == 0.0
    assert dyn.fitted_scale_error([]) == 0.0


def test_motion_of_a_straight_line():
    m = dyn.motion(line((0, 0, 0), (3, 0, 4)), 10.0)
    np.testing.assert_allclose(m.values, [0.5, 0.5, 1.0, 0.4, 0.0], atol=1e-9)
    assert m.moving and not m.closed
    np.testing.assert_allclose(m.axis, [0.6, 0, 0.8], atol=1e-9)
    np.testing.assert_allclose(dyn.motion(line((3, 0, 4), (0, 0, 0)), 10.0).axis, [-0.6, 0, -0.8], atol=1e-9)


def test_motion_of_a_corner():
    track = np.array([[0.0, 0, 0], [2, 0, 0], [2, 2, 0]])
    m = dyn.motion(track, 10.0)
    # Net sqrt(8), length 4, the corner sqrt(2) off the chord.
    np.testing.assert_allclose(m.values, [math.sqrt(8) / 10, 0.4, math.sqrt(8) / 4, 0, math.sqrt(2) / 10], atol=1e-9)


def test_motion_of_vertical_closed_and_still_tracks():
    m = dyn.motion(line((1, 1, 0), (1, 1, 2)), 10.0)
    np.testing.assert_allclose(m.values, [0.2, 0.2, 1, 0.2, 0], atol=1e-9)
    m = dyn.motion(np.array([[0.0, 0, 0], [2, 0, 0], [0, 0, 0]]), 10.0)  # no chord: largest distance from the start
    np.testing.assert_allclose(m.values, [0, 0.4, 0, 0, 0.2], atol=1e-9)
    assert m.moving and m.closed
    m = dyn.motion(np.ones((5, 3)), 10.0)
    np.testing.assert_allclose(m.values, 0, atol=1e-12)
    assert not m.moving and not m.closed and m.axis is None
    assert dyn.motion(np.ones((1, 3)), 10.0).values.tolist() == [0] * 5  # one frame


def test_motion_of_two_points_and_of_a_teleport():
    m = dyn.motion(np.array([[0.0, 0, 0], [3, 0, 0]]), 10.0)  # exactly 0.3 S is no teleport
    np.testing.assert_allclose(m.values, [0.3, 0.3, 1, 0, 0], atol=1e-9)
    m = dyn.motion(np.array([[0.0, 0, 0], [3.1, 0, 0]]), 10.0)
    assert m.values[1] == 0 and not m.moving
    # A conveyor: 2 m out and back at once, three times; the jumps back (2 m = 0.4 S) are not path.
    belt = np.tile(np.array([[0.0, 0, 0], [1, 0, 0], [2, 0, 0]]), (3, 1))
    m = dyn.motion(belt, 5.0)
    np.testing.assert_allclose(m.values, [0.4, 6 / 5, 1 / 3, 0, 0], atol=1e-9)


def test_moving_and_closed_thresholds():
    assert not dyn.motion(line((0, 0, 0), (0.5, 0, 0), 2), 10.0).moving  # not more than 0.05 S
    assert dyn.motion(line((0, 0, 0), (0.51, 0, 0), 2), 10.0).moving
    there_and_back = np.array([[0.0, 0, 0], [1, 0, 0], [0.19, 0, 0]])  # net 0.19, length 1.81
    assert not dyn.motion(there_and_back, 10.0).closed
    assert dyn.motion(there_and_back - [[0, 0, 0], [0, 0, 0], [0.02, 0, 0]], 10.0).closed


def test_total_turning():
    assert dyn.total_turning(line((0, 0, 0), (9, 3, 0)), 10) == pytest.approx(0, abs=1e-9)
    square = np.array([[0.0, 0, 0], [1, 0, 0], [1, 1, 0], [0, 1, 0], [0, 0, 0]])
    assert dyn.total_turning(square, 10) == pytest.approx(1.5 * math.pi)
    assert dyn.total_turning(square[::-1], 10) == pytest.approx(1.5 * math.pi)  # absolute, and wrapped
    assert dyn.total_turning(square * 0.04, 10) == 0.0  # every step under 0.005 S
    assert dyn.total_turning(square * [0, 0, 1], 10) == 0.0
    # A jump of 9 m among steps of 1 m has no heading: straight on before and after it.
    jump = np.array([[0.0, 0, 0], [1, 0, 0], [2, 0, 0], [2, 9, 0], [3, 9, 0], [4, 9, 0]])
    assert dyn.total_turning(jump, 10) == pytest.approx(0, abs=1e-9)
    jump[3:, 1] = 8  # exactly 8 times the median counts
    assert dyn.total_turning(jump, 10) == pytest.approx(math.pi)


def test_layout_error():
    truth = np.array([[0.0, 0, 0], [4, 0, 0]])
    assert dyn.layout_error(np.array([[0.0, 0, 0]]), truth, 10) == pytest.approx((0 + 2) / 20)
    assert dyn.layout_error(np.array([[0.0, 3, 0], [4, 1, 0]]), truth, 10) == pytest.approx((2 + 2) / 20)
    assert dyn.layout_error(np.zeros((0, 3)), truth, 10) == 1.0
    assert dyn.layout_error(np.repeat(truth, 3, axis=0), truth, 10) == 0.0  # duplicates cost nothing


def test_scene_extents_without_slabs():
    houses = [[[x, 0, 0], [x + 1, 1, 2]] for x in (0, 3, 6)]
    slab = [[-20, -20, -0.1], [20, 20, 0]]
    np.testing.assert_allclose(dyn.scene_extents(np.array([*houses, slab])), [7, 1, 2])
    np.testing.assert_allclose(dyn.scene_extents(np.array([*houses[:2], slab])), [40, 40, 2.1])  # under four boxes
    thick = [[-20, -20, -10], [20, 20, 0]]
    np.testing.assert_allclose(dyn.scene_extents(np.array([*houses, thick])), [40, 40, 12])


def test_log_ratio():
    a, b = np.array([2.0, 1, 0.1]), np.array([1.0, 1, 5])
    assert dyn.log_ratio(a, b, 0.1) == pytest.approx(math.log(2) / 2)  # the third axis does not exceed 0.1
    assert dyn.log_ratio(a * 0, b, 0.1) is None


# ------------------------------------------------------------------------------------------------------ hand-made cases


def test_two_movers_by_hand():
    hidden = {"a": line((0, 0, 0), (6, 0, 0)), "b": line((0, 8, 0), (6, 8, 0))}
    truth = dyn.DynamicTruth(hidden, np.array([[0.0, 0, 0]]))
    # Both 1 m too far in x and apart by another metre in y: the common part is forgiven.
    tracks = {"q": line((1, 9, 0), (7, 9, 0)), "p": line((1, -1, 0), (7, -1, 0))}
    r = dyn.evaluate(tracks, [[1.0, 0, 0]], truth, protocol="paper")
    assert r.scene_scale == pytest.approx(10) and r.shift == pytest.approx((-1, 0, 0))
    assert [m.predicted for m in r.movers] == ["p", "q"]
    assert (r.mme, r.ame, r.recall, r.count_err, r.le) == pytest.approx((0.1, 0.1, 1, 0, 0))
    # XY variation of the truth: x 6/sqrt(12)-like plus y +-4; predicted y +-5.
    x2 = float(np.mean((np.linspace(0, 6, T) - 3) ** 2))
    assert r.scale_err == pytest.approx(abs(math.log((x2 + 20) / (x2 + 25))))
    assert r.score == pytest.approx(100 * (0.9 + 1) / 2)
    assert (r.shape_err, r.direction_err, r.heading_err) == pytest.approx((0, 0, 0), abs=1e-9)


def test_one_mover_missing_and_one_extra_by_hand():
    r = score(without("train"))
    assert (r.mme, r.recall, r.count_err, r.extra) == pytest.approx((1, 2 / 3, 1 / 3, 0))
    assert r.ame == pytest.approx(1 / 3, abs=1e-9) and r.movers[2].predicted is None
    more = {**TRACKS, "ghost": line((0, -5, 0), (1, -5, 0))}
    paper, strict = score(more), score(more, protocol="strict")
    assert (paper.mme, paper.ame, paper.count_err, paper.extra) == pytest.approx((0, 0, 1 / 3, 1), abs=1e-9)
    assert (strict.mme, strict.ame) == pytest.approx((1, 1 / 4), abs=1e-9)
    assert strict.score == pytest.approx(50)


def test_spraying_movers_never_pays_under_strict():
    ghosts = {f"g{i}": t + [0, 0.1, 0] for i, t in enumerate(TRACKS.values())}
    near = {k: v + [0, 0.3 * i, 0] for i, (k, v) in enumerate(TRACKS.items())}
    assert score({**near, **ghosts}, protocol="strict").ame > score(near, protocol="strict").ame
    assert score({**near, **ghosts}).ame < score(near).ame


def test_shared_frames_only():
    r = score({k: v[:100] for k, v in TRACKS.items()})
    assert r.mme == pytest.approx(0, abs=1e-9)


def test_a_metric_may_exceed_one_but_the_score_does_not():
    far = {k: v * [1, 1, 0] + [0, 0, 100 * i] for i, (k, v) in enumerate(TRACKS.items())}
    r = score(far)
    assert r.mme > 1 and r.score == pytest.approx(50 * max(0.0, 1 - r.le))


def test_given_scale_wins():
    assert score(truth=replace(TRUTH, scene_scale=3.0)).scene_scale == 3.0
    assert score().scene_scale == pytest.approx(S)


def test_sizes():
    boxes = np.array([[[0, 0, 0], [2, 4, 1]]], float)
    truth = replace(TRUTH, boxes=boxes, mover_sizes={"car": np.array([1.0, 2, 0.04])})
    r = score(truth=truth, boxes=boxes * 2, mover_sizes={"car": [2.0, 2, 9], "boat": [1, 1, 1]})
    assert r.size_err == pytest.approx(math.log(2)) and r.mover_size_err == pytest.approx(math.log(2) / 2)
    assert r.movers[1].size_err is None
    for bad in (None, [], [[0, 0]], [[[0, 0, 0], [1, 1, np.nan]]], "no", np.full((1, 2, 3), 1e300)):
        r = score(truth=truth, boxes=bad)
        assert r.size_err is None and r.mover_size_err is None and r.valid


def test_gaps_in_the_truth_are_filled():
    gap = TRACKS["car"].copy()
    gap[10:20] = np.nan
    gap[0] = np.nan
    filled = gap.copy()
    filled[10:20], filled[0] = gap[9], gap[1]
    truth = replace(TRUTH, tracks={**TRACKS, "car": gap})
    assert score({**TRACKS, "car": filled}, truth=truth).mme == pytest.approx(0, abs=1e-9)


# ------------------------------------------------------------------------------------------------------------- brackets


@pytest.mark.parametrize("protocol", ["paper", "strict"])
def test_truth_is_full_marks_and_nothing_is_zero(protocol):
    r = score(protocol=protocol)
    assert_sane(r)
    assert r.score == pytest.approx(100, abs=0.5)
    values = [getattr(r, m) for m in METRICS]
    assert values == pytest.approx([0, 0, 1, 0, 0, 0, 0, 0, None, None, 0, 0], abs=1e-9)
    r = score({}, None, protocol=protocol)
    assert_sane(r)
    assert r.valid and r.score == 0
    values = [getattr(r, m) for m in METRICS]
    assert values == [1, 1, 0, 1, 1, 0, 0, 0, None, None, 1, 1]
    assert r.shift == (0, 0, 0)


def test_common_translation_is_forgiven():
    r = score({k: v + [3, -2, 1] for k, v in TRACKS.items()}, STATICS + [3, -2, 1])
    assert (r.mme, r.le) == pytest.approx((0, 0), abs=1e-9)


def test_moving_one_mover_lowers_mme_and_ame_with_its_size():
    last = 0.0
    for d in (0.5, 1.0, 2.0):
        r = score({**TRACKS, "car": TRACKS["car"] + [0, 0, d]})
        assert r.mme > last + 0.01
        # The median in z leaves the two others where they are.
        assert (r.mme, r.ame) == pytest.approx((d / S, d / S / 3))
        assert (r.le, r.shape_err, r.direction_err, r.heading_err) == pytest.approx((0, 0, 0, 0), abs=1e-9)
        last = r.mme


def test_late_mover():
    last = 0.0
    for frames in (12, 24, 48):
        late = np.concatenate([np.repeat(TRACKS["car"][:1], frames, 0), TRACKS["car"][:-frames]])
        r = score({**TRACKS, "car": late})
        assert r.mme > last + 0.005 and r.recall == 1 and r.direction_err == 0 and r.heading_err < 1e-9
        last = r.mme


def test_reversed_mover():
    r = score({**TRACKS, "car": TRACKS["car"][::-1]})
    assert r.direction_err == pytest.approx(1 / 2)  # the train is closed and has no direction
    assert r.movers[0].angle == pytest.approx(180) and r.movers[2].angle is None
    assert r.mme > 0.1 and r.le == pytest.approx(0, abs=1e-9)
    assert (r.shape_err, r.heading_err) == pytest.approx((0, 0), abs=1e-9)


def test_direction_threshold():
    for angle, wrong in ((29.5, 0.0), (30.5, 0.5)):
        a = math.radians(angle)
        turned = line((-4 * math.cos(a), -4 * math.sin(a), 0), (4 * math.cos(a), 4 * math.sin(a), 0))
        r = score({**TRACKS, "car": turned})
        assert r.direction_err == wrong and r.movers[0].angle == pytest.approx(angle, abs=1e-6)


def test_standing_in_place_of_driving():
    r = score({**TRACKS, "car": np.repeat(TRACKS["car"].mean(0)[None], T, 0)})
    assert r.mme == pytest.approx(2 / S, abs=0.01)  # mean |x| of a uniform drive of 8 m is 2 m
    assert r.direction_err == 0 and r.recall == 1
    assert r.movers[0].shape_err == pytest.approx((8 / S + 8 / S + 1) / 5)


def test_train_without_turning():
    r = score({**TRACKS, "train": line((-3, 1, 0), (1, 1, 0))})
    # The true circle turns by 142 of 143 steps' worth of a full turn.
    assert r.movers[2].heading_err == pytest.approx(142 / 143, abs=1e-6)
    assert r.heading_err == pytest.approx(142 / 143 / 3, abs=1e-6)
    half = score({**TRACKS, "train": circle(4, 0.5, (-1, 1, 0))})  # as long a way
    assert half.movers[2].heading_err == pytest.approx(0.5 * 142 / 143, abs=1e-6)


def test_swapped_names_do_not_matter():
    r = score({"train": TRACKS["car"], "car": TRACKS["boat"], "boat": TRACKS["train"]})
    assert r.mme == pytest.approx(0, abs=1e-9)
    assert [m.predicted for m in r.movers] == ["train", "car", "boat"]


def test_scaled_scene():
    last = 0.0
    for factor in (1.1, 1.5, 2.0):
        r = score({k: v * factor for k, v in TRACKS.items()}, STATICS * factor)
        assert r.scale_err == pytest.approx(math.log(factor)) and r.mme > last
        last = r.mme


def test_statics_lower_le_and_only_it():
    last = 0.0
    for d in (0.2, 0.5, 1.0):
        places = STATICS.copy()
        places[0] += [d, 0, 0]
        r = score(statics=places)
        assert r.le == pytest.approx(2 * d / 6 / (2 * S)) and r.le > last
        assert r.mme == pytest.approx(0, abs=1e-9) and r.layout_count_err == 0
        last = r.le
    missing, extra = score(statics=STATICS[1:]), score(statics=np.vstack([STATICS, [[0, -5, 0]]]))
    assert missing.le > 0 and missing.layout_count_err == pytest.approx(1 / 6)
    assert extra.le == pytest.approx(5 / 7 / (2 * S)) and extra.layout_count_err == pytest.approx(1 / 6)
    mirrored = score(statics=STATICS * [-1, 1, 1])
    assert mirrored.le > 0.05 and mirrored.mme == pytest.approx(0, abs=1e-9)


# ------------------------------------------------------------------------------------------------------- unusable input

BAD = [np.full((T, 3), np.nan), np.full((T, 3), np.inf), np.zeros((0, 3)), np.zeros((T, 2)), None, "no", [[1], [2, 3]]]


@pytest.mark.parametrize("bad", BAD, ids=["nan", "inf", "empty", "shape", "none", "text", "ragged"])
def test_bad_tracks_are_invalid(bad):
    for result in (score({**TRACKS, "car": bad}), score(truth=replace(TRUTH, tracks={**TRACKS, "car": bad}))):
        assert_sane(result)
        assert not result.valid and result.mme is None and "car" in result.reason


BAD_PLACES = [np.full((2, 3), np.nan), np.full((2, 3), np.inf), np.zeros((3, 2)), "text", [[1, 2], [3]]]


@pytest.mark.parametrize("bad", BAD_PLACES, ids=["nan", "inf", "shape", "text", "ragged"])
def test_bad_statics_are_invalid(bad):
    for result in (score(statics=bad), score(truth=replace(TRUTH, statics=bad))):
        assert_sane(result)
        assert not result.valid and result.le is None


def test_one_nan_in_a_prediction_is_invalid():
    track = TRACKS["car"].copy()
    track[5, 1] = np.nan
    assert not score({**TRACKS, "car": track}).valid


def test_truth_without_mover_or_static():
    assert not score(truth=replace(TRUTH, tracks={})).valid
    r = score(truth=replace(TRUTH, statics=np.zeros((0, 3))))
    assert not r.valid and r.score == 0 and r.le is None and r.mme == pytest.approx(0, abs=1e-9)
    for scale in (0.0, -1.0, np.nan, np.inf):
        assert not score(truth=replace(TRUTH, scene_scale=scale)).valid


def test_unknown_protocol():
    with pytest.raises(ValueError, match="protocol"):
        score(protocol="loose")


# ----------------------------------------------------------------------------------------------------------- properties

_number = st.floats(-1e9, 1e9, allow_nan=False, width=32)
_track = st.lists(st.tuples(_number, _number, _number), min_size=1, max_size=6).map(np.array)


@settings(max_examples=150, deadline=None)
@given(
    st.lists(_track, max_size=3),
    st.lists(_track, min_size=1, max_size=3),
    _track,
    _track,
    st.sampled_from(["paper", "strict"]),
)
def test_any_finite_input_gives_finite_results(predicted, truth, places, true_places, protocol):
    hidden = dyn.DynamicTruth({str(i): t for i, t in enumerate(truth)}, true_places)
    result = dyn.evaluate({str(i): t for i, t in enumerate(predicted)}, places, hidden, protocol=protocol)
    assert_sane(result)
    assert result.valid


@settings(max_examples=40, deadline=None)
@given(st.permutations(range(3)), st.permutations(range(3)), st.permutations(range(6)), st.integers(0, 2**31))
def test_order_does_not_matter(order, truth_order, places_order, seed):
    rng = np.random.default_rng(seed)
    wrong = {k: v + rng.normal(0, 1, 3) for k, v in TRACKS.items()}
    base = score(wrong)
    names = list(TRACKS)
    other = score(
        {names[i]: wrong[names[i]] for i in order},
        STATICS[places_order],
        dyn.DynamicTruth({names[i]: TRACKS[names[i]] for i in truth_order}, STATICS[places_order[::-1]]),
    )
    for metric in METRICS:
        assert getattr(other, metric) == pytest.approx(getattr(base, metric), abs=1e-9), metric


# ---------------------------------------------------------------------------------------------------------- glTF scenes


def made_scene(nodes, roots, channels=(), translations=None, meshes=None):
    """Nodes `(name, parent, children, mesh)`; meshes default to one two-vertex mesh whose mean is (0, 0.5, 0), Y-up."""
    n = len(nodes)
    default = (Mesh("m", np.array([[0.0, 0, 0], [0, 1, 0]]), np.zeros((0, 3), np.int64)),)
    return GltfScene(
        nodes=tuple(Node(*x) for x in nodes),
        meshes=meshes or default,
        roots=tuple(roots),
        channels=tuple(channels),
        translations=np.zeros((n, 3)) if translations is None else np.array(translations, float),
        rotations=np.tile([0.0, 0, 0, 1], (n, 1)),
        scales=np.ones((n, 3)),
    )


def keyed(node, times, values, interpolation="LINEAR"):
    return Channel(node, "translation", interpolation, np.array(times, float), np.array(values, float))


def tree():
    """A cart (root) whose wheel is animated and whose load stands, and a house with a door."""
    nodes = [
        ("cart", None, (1, 2), 0),
        ("wheel", 0, (), 0),
        ("load", 0, (3,), 0),
        ("rope", 2, (), 0),
        ("house", None, (5,), 0),
        ("door", 4, (), 0),
        ("empty", None, (), None),
    ]
    at = [(10, 0, 0), (0, 0, 0), (2, 0, 0), (0, 4, 0), (0, 0, 7), (1, 0, 0), (9, 9, 9)]
    return made_scene(nodes, [0, 4, 6], [keyed(1, [0, 6], [(0, 0, 0), (6, 0, 0)])], at)


def test_animated_nodes_are_lifted_to_their_top_level_object():
    p = dyn.tracks_from_gltf(tree())
    assert list(p.tracks) == ["cart"]
    track = p.tracks["cart"]
    assert track.shape == (144, 3)
    # X of the four meshes at frame 0: 10, 10, 12, 12; the wheel adds t / 4. Z-up height: mean of 0.5, 0.5, 0.5, 4.5.
    np.testing.assert_allclose(track[0], [11, 0, 1.5], atol=1e-12)
    np.testing.assert_allclose(track[24], [11.25, 0, 1.5], atol=1e-12)
    np.testing.assert_allclose(track[143], [11 + 143 / 24 / 4, 0, 1.5], atol=1e-12)


def test_statics_are_the_largest_branches_without_animation():
    strict = dyn.tracks_from_gltf(tree(), protocol="strict")
    # The load with its rope, and the house with its door (Z-up: y = -z); the empty has no place.
    np.testing.assert_allclose(strict.statics, [[12, 0, 2.5], [0.5, -7, 0.5]], atol=1e-12)
    paper = dyn.tracks_from_gltf(tree())
    np.testing.assert_allclose(paper.statics, [[2, 0, 2.5], [0.5, -7, 0.5]], atol=1e-12)  # in the cart's frame


def test_boxes_and_mover_sizes():
    p = dyn.tracks_from_gltf(tree())
    assert p.boxes.shape == (6, 2, 3)
    np.testing.assert_allclose(p.boxes[0], [[10, 0, 0], [10, 0, 1]])
    np.testing.assert_allclose(p.mover_sizes["cart"], [2, 0, 5])


def test_step_cubic_and_clamping():
    nodes = [("a", None, (), 0), ("b", None, (), 0), ("c", None, (), 0)]
    zero = (0, 0, 0)
    cubic = [[zero, zero, zero], [zero, (4, 0, 0), zero]]  # a smoothstep from 0 to 4
    scene = made_scene(
        nodes,
        [0, 1, 2],
        [
            keyed(0, [1, 2], [zero, (4, 0, 0)], "STEP"),
            keyed(1, [1, 2], cubic, "CUBICSPLINE"),
            keyed(2, [1, 2], [(1, 0, 0), (4, 0, 0)]),
        ],
    )
    tracks = dyn.tracks_from_gltf(scene).tracks
    assert tracks["a"][[0, 24, 47, 48, 143], 0].tolist() == [0, 0, 0, 4, 4]
    np.testing.assert_allclose(tracks["b"][[0, 30, 36, 48, 143], 0], [0, 4 * (3 / 16 - 2 / 64), 2, 4, 4], atol=1e-9)
    np.testing.assert_allclose(tracks["c"][[0, 24, 36, 48, 143], 0], [1, 1, 2.5, 4, 4], atol=1e-9)


def test_blenders_first_frame():
    """An export of frames 1..144 at 1/24 .. 144/24 s: late by one frame under `paper`, exact under `strict`."""
    x = np.arange(T) * 0.1
    for offset, strict_first in ((1, 0.0), (0, 0.0)):
        times = ((np.arange(T) + offset) / 24).astype(np.float32)  # as the files hold them
        scene = made_scene([("a", None, (), 0)], [0], [keyed(0, times, np.stack([x, 0 * x, 0 * x], 1))])
        strict = dyn.tracks_from_gltf(scene, protocol="strict").tracks["a"][:, 0]
        paper = dyn.tracks_from_gltf(scene).tracks["a"][:, 0]
        np.testing.assert_allclose(strict, x + strict_first, atol=1e-5)
        np.testing.assert_allclose(paper, np.maximum(x - 0.1 * offset, 0), atol=1e-5)


def test_equal_names_and_movers_without_mesh():
    nodes = [("a", None, (), 0), ("a", None, (), 0), ("camera", None, (), None)]
    scene = made_scene(nodes, [0, 1, 2], [keyed(i, [0], [(i, 0, 0)]) for i in range(3)])
    p = dyn.tracks_from_gltf(scene)
    assert list(p.tracks) == ["a", "a#2"] and len(p.statics) == 0
    assert p.tracks["a#2"][0].tolist() == [1, 0, 0.5]


def test_scene_without_animation_or_nodes():
    p = dyn.tracks_from_gltf(made_scene([("a", None, (), 0)], [0]))
    assert p.tracks == {} and p.statics.tolist() == [[0, 0, 0.5]]
    p = dyn.tracks_from_gltf(made_scene([], []))
    assert p.tracks == {} and p.statics.shape == (0, 3) and p.boxes.shape == (0, 2, 3)


def test_truth_from_its_own_scene_scores_full_marks():
    for protocol in ("paper", "strict"):
        p = dyn.tracks_from_gltf(tree(), protocol=protocol)
        truth = dyn.DynamicTruth(p.tracks, p.statics, boxes=p.boxes, mover_sizes=p.mover_sizes)
        r = dyn.evaluate(p.tracks, p.statics, truth, protocol=protocol, boxes=p.boxes, mover_sizes=p.mover_sizes)
        assert r.score == pytest.approx(100) and r.size_err == 0 and r.mover_size_err == 0


def test_at_least_ten_times_faster_than_walking_the_tree_per_frame():
    """15 objects with 5 animated and 5 standing parts each."""
    nodes, at, channels = [], [], []
    for k in range(15):
        first = len(nodes)
        nodes.append((f"o{k}", None, tuple(range(first + 1, first + 11)), 0))
        nodes += [(f"p{k}.{i}", first, (), 0) for i in range(10)]
        channels += [keyed(first + 1 + i, [0, 6], [(0, 0, 0), (k, i, 1)]) for i in range(5)]
        at += [(k, 0, 0)] + [(0, i, 0) for i in range(10)]
    scene = made_scene(nodes, range(0, 165, 11), channels, at)

    def fastest(run, times):
        best, out = math.inf, None
        for _ in range(times):
            begin = time.perf_counter()
            out = run(scene)
            best = min(best, time.perf_counter() - begin)
        return best, out

    quick, p = fastest(dyn.tracks_from_gltf, 3)
    slow, q = fastest(plain_dynamic.tracks_from_gltf, 1)
    assert p.tracks.keys() == q.tracks.keys()
    for name in p.tracks:
        np.testing.assert_allclose(p.tracks[name], q.tracks[name], atol=1e-9)
    np.testing.assert_allclose(p.statics, q.statics, atol=1e-9)
    np.testing.assert_allclose(p.boxes, q.boxes, atol=1e-9)
    assert slow > 10 * quick


# ------------------------------------------------------------------------------------------------------------ published

MOVERS = ("Bridge", "arm", "SiegeRam", "SiegeTower")


@pytest.fixture(scope="module")
def castle(published):
    """The published castle: origins of the four movers at frame r + 1, and of the 58 other top-level nodes."""
    scene = load(published / "reference" / "dynamic" / "gt-scene.glb")
    index = {n.name: i for i, n in enumerate(scene.nodes)}

    def origins(times, nodes):
        m = scene.world_matrices(times, nodes)[..., :3, 3]
        return np.stack([m[..., 0], -m[..., 2], m[..., 1]], -1)

    places = origins((np.arange(T) + 1) / 24, [index[m] for m in MOVERS])
    with_mover = {scene.top_level(index[m]) for m in MOVERS}
    others = [r for r in scene.roots if r not in with_mover]
    assert len(others) == 58
    tracks = {m: places[:, k] for k, m in enumerate(MOVERS)}
    assert dyn.scene_scale(list(tracks.values()), np.zeros((0, 3))) == pytest.approx(8.6279, abs=1e-4)
    return dyn.DynamicTruth(tracks, origins([0.0], others)[0], 8.6279)


@pytest.fixture(scope="module")
def submissions(published):
    cases = [c for c in json.loads((published / "cases.json").read_text()) if c["task"] == "dynamic"]
    assert len(cases) == 6
    return {c["configuration"]: (c["metrics"], load(published / c["submission"])) for c in cases}


def test_published_mme_and_ame(castle, submissions):
    for name, (metrics, scene) in submissions.items():
        p = dyn.tracks_from_gltf(scene)
        r = dyn.evaluate(p.tracks, p.statics, castle, protocol="paper")
        assert r.valid
        assert (r.mme, r.ame) == pytest.approx((metrics["MME"], metrics["AME"]), abs=1e-4), name


def test_published_le(castle, submissions):
    # claude-opus-4-6-high is not among the three the tolerance is promised for, but it holds as well.
    for name in ("doubao-seed-2-pro-high", "gpt-5-4-high", "step-3-7-flash-high", "claude-opus-4-6-high"):
        metrics, scene = submissions[name]
        p = dyn.tracks_from_gltf(scene)
        assert dyn.evaluate(p.tracks, p.statics, castle).le == pytest.approx(metrics["LE"], abs=0.03), name


def test_plain_transcription_agrees(castle, submissions):
    for name, (_, scene) in submissions.items():
        p, q = dyn.tracks_from_gltf(scene), plain_dynamic.tracks_from_gltf(scene)
        assert p.tracks.keys() == q.tracks.keys()
        truth = replace(castle, boxes=p.boxes * 1.1, mover_sizes={m: np.array([1.0, 2, 3]) for m in MOVERS})
        for protocol in ("paper", "strict"):
            more = {"protocol": protocol, "boxes": p.boxes, "mover_sizes": p.mover_sizes}
            r = dyn.evaluate(p.tracks, p.statics, truth, **more)
            plain = plain_dynamic.evaluate(q.tracks, q.statics, truth, **more)
            assert set(plain) == set(METRICS)
            for metric in METRICS:
                assert getattr(r, metric) == pytest.approx(plain[metric], abs=1e-9), (name, metric)
