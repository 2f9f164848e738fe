"""Reconstruction: hand-calculated stages, brackets on a made room, and the published submissions."""

from __future__ import annotations

import json
import math
from dataclasses import fields

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from benchmarks import plain_reconstruction
from sceneact_gym.evaluators import reconstruction as rec
from sceneact_gym.evaluators.base import Mesh
from sceneact_gym.evaluators.gltf import load

METRICS = ("f5", "match_rate", "centroid_err", "region_f5", "coverage", "scene_f2", "scene_f5", "scene_f10", "chamfer")
NONE = np.zeros((0, 3), np.int64)

# ---------------------------------------------------------------------------------------------------------- made scenes

_CORNERS = np.array([[x, y, z] for x in (-0.5, 0.5) for y in (-0.5, 0.5) for z in (-0.5, 0.5)])
_QUADS = [(0, 1, 3, 2), (4, 6, 7, 5), (0, 4, 5, 1), (2, 3, 7, 6), (0, 2, 6, 4), (1, 5, 7, 3)]
_TRIANGLES = np.array([t for a, b, c, d in _QUADS for t in ((a, b, c), (a, c, d))])


def join(name: str, *meshes: Mesh) -> Mesh:
    offsets = np.cumsum([0] + [len(m.vertices) for m in meshes[:-1]])
    faces = np.concatenate([m.faces + o for m, o in zip(meshes, offsets, strict=True)])
    return Mesh(name, np.concatenate([m.vertices for m in meshes]), faces)


def box(size, centre, name="box") -> Mesh:
    return Mesh(name, _CORNERS * size + np.array(centre, float), _TRIANGLES)


def subdivide(mesh: Mesh, times: int = 1) -> Mesh:
    """Each triangle in four, on the same surface."""
    vertices, faces = mesh.vertices, mesh.faces
    for _ in range(times):
        a, b, c = (vertices[faces[:, k]] for k in range(3))
        n, m = len(vertices), len(faces)
        vertices = np.concatenate([vertices, (a + b) / 2, (b + c) / 2, (c + a) / 2])
        ab, bc, ca = (np.arange(m) + n + k * m for k in range(3))
        faces = np.concatenate(
            [
                np.stack([faces[:, 0], ab, ca], 1),
                np.stack([ab, faces[:, 1], bc], 1),
                np.stack([ca, bc, faces[:, 2]], 1),
                np.stack([ab, bc, ca], 1),
            ]
        )
    return Mesh(mesh.name, vertices, faces)


def moved(mesh: Mesh, by=(0, 0, 0), yaw=0.0, scale=1.0, mirror=False) -> Mesh:
    """Turned, scaled or mirrored about its own box centre, then shifted."""
    centre = (mesh.vertices.min(0) + mesh.vertices.max(0)) / 2
    c, s = math.cos(math.radians(yaw)), math.sin(math.radians(yaw))
    turn = np.array([[c, -s, 0], [s, c, 0], [0, 0, 1]]) @ np.diag([-1.0 if mirror else 1.0, 1, 1])
    return Mesh(mesh.name, (mesh.vertices - centre) @ turn.T * scale + centre + np.array(by, float), mesh.faces)


def chair(centre) -> Mesh:
    x, y, _ = centre
    legs = [box((0.05, 0.05, 0.45), (x + i, y + j, 0.225)) for i in (-0.2, 0.2) for j in (-0.2, 0.2)]
    seat = box((0.5, 0.5, 0.05), (x, y, 0.475))
    arm = box((0.05, 0.4, 0.2), (x + 0.22, y, 0.6))
    return join("chair", *legs, seat, box((0.5, 0.05, 0.6), (x, y + 0.22, 0.8)), arm)


def table(centre) -> Mesh:
    x, y, _ = centre
    legs = [box((0.06, 0.06, 0.7), (x + i, y + j, 0.35)) for i in (-0.7, 0.7) for j in (-0.35, 0.35)]
    return join("table", *legs, box((1.6, 0.9, 0.05), (x, y, 0.725)))


def bed(centre) -> Mesh:
    x, y, _ = centre
    return join("bed", box((1.6, 2.0, 0.4), (x, y, 0.25)), box((1.6, 0.1, 1.0), (x, y + 1.0, 0.5)))


def room() -> list[Mesh]:
    shelf = join("shelf", *[box((0.8, 0.3, 0.03), (-2.0, -1.6, z)) for z in (0.1, 0.7, 1.3, 1.9)])
    return [bed((1.5, 1.2, 0)), chair((-1.4, 0.9, 0)), table((0.3, -1.4, 0)), shelf]


ROOM = room()


def replaced(index: int, *meshes: Mesh) -> list[Mesh]:
    return [*ROOM[:index], *meshes, *ROOM[index + 1 :]]


def bounding(meshes, name="box") -> Mesh:
    v = np.concatenate([m.vertices for m in meshes])
    return box(v.max(0) - v.min(0), (v.max(0) + v.min(0)) / 2, name)


def strict(meshes, truth=None, seed=0):
    return rec.evaluate(meshes, ROOM if truth is None else truth, protocol="strict", seed=seed)


@pytest.fixture(scope="module")
def exact():
    return strict(ROOM)


def assert_sane(result):
    for f in fields(result):
        value = getattr(result, f.name)
        if isinstance(value, float):
            assert math.isfinite(value), f.name
    assert 0 <= result.score <= 100
    if not result.valid:
        assert result.reason and result.score == 0 and all(getattr(result, m) is None for m in METRICS)


# --------------------------------------------------------------------------------------------------------------- stages


def test_fixed_scale():
    a = np.array([[0.0, 0, 0], [1, 2, 2]])
    assert rec.fixed_scale(a, a * 2.5 + 7) == pytest.approx(2.5)
    assert rec.fixed_scale(np.ones((20, 3)), a) == 1.0  # no extent, nothing to scale by


def test_start_at_puts_box_centres_together_and_turns_about_z():
    points = np.array([[0.0, 0, 0], [2, 0, 0], [2, 4, 6]])
    truth = np.array([[10.0, 10, 10], [12, 14, 16]])
    start = rec.start_at(points, truth, 90, 1.0)
    # Centre (1, 2, 3) goes to (11, 12, 13); the offset (-1, -2, -3) turns into (2, -1, -3).
    np.testing.assert_allclose(start.apply(points)[0], [13, 11, 10], atol=1e-12)
    np.testing.assert_allclose(rec.start_at(points, truth, 0, 2.0).apply(points)[0], [9, 8, 7], atol=1e-12)


def test_icp_undoes_a_small_motion():
    rng = np.random.default_rng(1)
    truth = rng.uniform(-1, 1, (60, 3))
    c, s = math.cos(0.05), math.sin(0.05)
    turn = np.array([[c, -s, 0], [s, c, 0], [0, 0, 1]])
    points = (truth - [0.02, -0.01, 0.03]) @ turn
    found = rec.icp(points, truth, rec.Alignment(1.0, np.zeros(3), np.eye(3), np.zeros(3)))
    np.testing.assert_allclose(found.apply(points), truth, atol=1e-9)
    np.testing.assert_allclose(found.rotation, turn, atol=1e-9)
    assert found.error < 1e-9


def test_icp_of_one_step_by_hand():
    # Both points see (0, 0, 0) and (4, 0, 0) as nearest: the mean offset 0.5 in x is all there is to correct.
    truth = np.array([[0.0, 0, 0], [4, 0, 0]])
    points = truth - [0.5, 0, 0]
    start = rec.Alignment(1.0, np.zeros(3), np.eye(3), np.zeros(3))
    np.testing.assert_allclose(rec.icp(points, truth, start, 1).translation, [0.5, 0, 0], atol=1e-12)
    assert rec.icp(points, truth, start, 0).error == pytest.approx(0.5)


def test_align_takes_the_first_yaw_on_ties():
    square = np.array([[x, y, 0.0] for x in (-1, 1) for y in (-1, 1)])
    np.testing.assert_allclose(rec.align(square, square, 1.0).rotation, np.eye(3), atol=1e-12)


def test_align_finds_the_yaw():
    cloud = np.random.default_rng(0).uniform(size=(200, 3)) * [3, 1, 1]
    cloud[:50] *= 0.3
    turned = cloud @ np.array([[0, -1, 0], [1, 0, 0], [0, 0, 1.0]]).T
    assert rec.align(turned, cloud, 1.0).error < 1e-9


def test_f_score_by_hand():
    truth = np.array([[0.0, 0, 0], [1, 0, 0], [2, 0, 0], [3, 0, 0]])
    predicted = np.array([[0.0, 0.1, 0], [1, 0.1, 0], [9, 9, 9]])
    # Precision 2/3, recall 2/4: F = 2 * (1/3) / (7/6) = 4/7.
    assert rec.f_score(predicted, truth, [0.2])[0] == pytest.approx(4 / 7)
    assert rec.f_score(predicted, truth, [0.05, 0.1]) == (0.0, 0.0)  # nothing strictly below: 0/0 is 0
    # A weight of 2 on the stray point: precision 2/4, recall 2/4.
    assert rec.f_score(predicted, truth, [0.2], np.array([1.0, 1, 2]))[0] == pytest.approx(0.5)
    assert rec.f_score(truth, truth, [0.01]) == (1.0,)


def grid(centre, n=6, step=0.02):
    axis = (np.arange(n) - (n - 1) / 2) * step
    return np.stack(np.meshgrid(axis, axis, [0.0], indexing="ij"), -1).reshape(-1, 3) + centre


def test_choose_clusters_by_hand():
    blobs = [grid((0, 0, 0)), grid((1, 0, 0)), grid((0, 1, 0))]  # 36 points each
    noise = np.array([[5.0, 5, 5], [6, 6, 6]])
    small = grid((-3, 0, 0), n=5)  # 25 points: a cluster, but under 30
    found = rec.choose_clusters(np.concatenate([*blobs, noise, small]), 3, 1.0)
    assert [len(c) for c in found] == [36, 36, 36]
    np.testing.assert_array_equal(found[1], blobs[1])
    assert rec.choose_clusters(np.concatenate([noise, small]), 3, 1.0) == []


def test_too_few_clusters_cost_half_more_than_too_many():
    # Two pairs of blobs, 0.12 apart within a pair: radii 0.10 and 0.15 give 4 and 2 clusters.
    blobs = [grid((x + d, 0, 0)) for x in (0, 5) for d in (0, 0.22)]
    points = np.concatenate(blobs)
    assert len(rec.choose_clusters(points, 4, 1.0)) == 4
    assert len(rec.choose_clusters(points, 2, 1.0)) == 2
    assert len(rec.choose_clusters(points, 3, 1.0)) == 4  # 4 misses by 1, 2 by 1.5
    assert len(rec.choose_clusters(points, 1, 1.0)) == 2


def test_the_radius_has_a_floor():
    # 2 mm objects: all radii become 0.04 m, within which the 0.02 m grid hangs together.
    assert len(rec.choose_clusters(grid((0, 0, 0)), 1, 0.002)) == 1


def test_match_clusters_by_hand():
    at = [np.full((3, 3), 0.0) + [x, 0, 0] for x in (0, 1, 2)]
    assert rec.match_clusters([at[1], at[0]], [at[0], at[1]], 5) == {0: 1, 1: 0}
    # Least total: 0-1 and 1-2 (2 m) tie with 0-2 and 1-1 only in total; here one cluster and two truths.
    assert rec.match_clusters([at[2]], [at[0], at[1]], 5) == {1: 0}
    assert rec.match_clusters([at[2]], [at[0]], 1.9) == {}
    assert rec.match_clusters([], at, 5) == {}
    # A forbidden pair never displaces an allowed one: without the limit 0-1, 1-0 would be as cheap.
    far = np.full((3, 3), 100.0)
    assert rec.match_clusters([at[1], far], [far + 50, at[0]], 5) == {1: 0}


def test_cluster_f_translates_the_cluster():
    truth = grid((0, 0, 0), n=8, step=0.1)
    assert rec.cluster_f(truth + [3, -2, 1], truth) == 1.0
    # Half of it, moved onto the mean: the rows are off by 0.2 m against a tolerance of 0.05 * 0.99 m, but the grid
    # repeats itself, so precision is 1 and recall one half.
    assert rec.cluster_f(truth[:32] + [3, 0, 0], truth) == pytest.approx(2 / 3)


def test_region_f_needs_ten_points_in_the_grown_box():
    truth = grid((0, 0, 0), n=4, step=0.1)
    assert rec.region_f(truth, truth, 0.1) == 1.0
    assert rec.region_f(truth[:9], truth, 0.1) == 0.0
    far = np.full((20, 3), 0.5)
    assert rec.region_f(far, truth, 0.1) == 0.0
    # Ten of the sixteen: precision 1, recall 10/16; stray points outside the box do not count.
    assert rec.region_f(np.concatenate([truth[:10], far]), truth, 0.1) == pytest.approx(2 * 0.625 / 1.625)


def test_sample_surfaces_is_uniform_over_the_area():
    big, small = box((2, 2, 2), (0, 0, 0)), box((0.1, 0.1, 0.1), (5, 0, 0))
    cloud = rec.sample_surfaces([big, small, Mesh("line", np.eye(3), NONE)], 0, 0)
    assert np.bincount(cloud.owner).tolist() == [24_000, 3_000]
    assert cloud.weights[cloud.owner == 0].sum() == pytest.approx(24)
    assert cloud.weights[cloud.owner == 1].sum() == pytest.approx(0.06)
    on = np.abs(cloud.points[cloud.owner == 0])
    np.testing.assert_allclose(on.max(axis=1), 1.0, atol=1e-12)
    for axis in range(3):
        for side in (-1, 1):
            face = np.abs(cloud.points[:24_000, axis] - side) < 1e-9
            assert face.sum() == pytest.approx(4_000, abs=40)
            np.testing.assert_allclose(cloud.points[:24_000][face].mean(0)[axis - 1], 0, atol=0.05)
    assert len(rec.sample_surfaces([box((10, 10, 10), (0, 0, 0))], 0, 0).points) == 30_000
    many = rec.sample_surfaces([box((2, 2, 2), (0, 0, 0))] * 100, 0, 0)
    assert 400_000 <= len(many.points) <= 400_100


# ------------------------------------------------------------------------------------------------------ paper, brackets


def paper_room():
    """The room with enough vertices for vertex-based clustering, small enough not to be subsampled."""
    return [subdivide(m, 2) for m in ROOM]


def test_paper_value_of_the_truth_is_recorded():
    truth = paper_room()
    result = rec.evaluate(truth, truth)
    assert_sane(result)
    assert result.scene_f5 == 1.0 and result.chamfer == pytest.approx(0, abs=1e-9)
    assert result.region_f5 > 0.9 and result.coverage == 1.0 and result.scale == pytest.approx(1)
    # These four stand well apart; where furniture touches, `paper` glues it together and falls short of 1.
    assert result.f5 == pytest.approx(1.0, abs=1e-6) and result.score == pytest.approx(100)
    touching = [truth[0], moved(truth[1], (1.85, 0.3, 0)), *truth[2:]]
    glued = rec.evaluate(touching, touching)
    assert glued.f5 == pytest.approx(0.535, abs=0.02)
    assert strict(touching, touching).f5 >= 0.99


def blob_truth():
    """Two flat grids of points far apart: every number of `paper` can be written down."""
    return [Mesh("a", grid((0, 0, 0), n=8, step=0.1), NONE), Mesh("b", grid((3, 0, 0), n=10, step=0.1), NONE)]


def test_paper_by_hand():
    truth = blob_truth()
    result = rec.evaluate(truth, truth)
    values = [getattr(result, m) for m in METRICS]
    assert values == pytest.approx([1, 1, 0, 1, 1, 1, 1, 1, 0], abs=1e-9)
    assert result.score == pytest.approx(100) and result.clusters == 2
    # Scaled, turned and far away: the alignment takes it all back.
    turn = np.array([[0, -1, 0], [1, 0, 0], [0, 0, 1.0]])
    other = [Mesh(m.name, (m.vertices @ turn.T) * 7 + [50, 60, 70], NONE) for m in truth]
    assert rec.evaluate(other, truth).f5 == pytest.approx(1)


def test_paper_missing_object():
    # One blob alone is scaled to the scene's box and torn apart: no cluster of 30 points within any radius remains.
    truth = blob_truth()
    result = rec.evaluate([truth[0]], truth)
    assert result.valid and result.f5 is not None and result.f5 < 0.5
    assert result.match_rate in (0.0, 0.5)


def test_paper_without_a_cluster():
    truth = blob_truth()
    sparse = Mesh("few", np.random.default_rng(0).uniform(0, 3, (20, 3)), NONE)
    result = rec.evaluate([sparse], truth)
    assert (result.f5, result.match_rate, result.centroid_err, result.clusters) == (0.0, 0.0, None, 0)
    assert result.valid and result.score == 0


# ----------------------------------------------------------------------------------------------------- strict, brackets


def test_strict_truth_is_full_marks(exact):
    assert_sane(exact)
    assert exact.f5 >= 0.995 and exact.score == pytest.approx(100, abs=0.5)
    assert exact.match_rate == 1 and exact.coverage == 1 and exact.scene_f2 > 0.99
    assert exact.centroid_err < 0.02 and exact.scale == pytest.approx(1)


def test_strict_boxes_are_in_between(exact):
    one = strict([bounding(ROOM)])
    each = strict([bounding([m], m.name) for m in ROOM])
    assert one.f5 <= 0.15
    assert one.f5 < each.f5 < exact.f5 - 0.2


def test_strict_survives_remeshing_splitting_joining_and_order(exact):
    refined = [subdivide(m, 2) for m in ROOM]
    parts = [Mesh(m.name, m.vertices, f) for m in ROOM for f in np.array_split(m.faces, len(m.faces) // 12)]
    shuffled = [Mesh(m.name, m.vertices[::-1].copy(), len(m.vertices) - 1 - m.faces[::-1]) for m in reversed(ROOM)]
    for variant in (refined, parts, [join("all", *ROOM)], shuffled):
        assert strict(variant).f5 == pytest.approx(exact.f5, abs=0.01)


def test_strict_remeshing_of_an_imperfect_prediction():
    wrong = replaced(1, bounding([ROOM[1]]))
    base = strict(wrong).f5
    assert 0.6 < base < 0.97
    assert strict([subdivide(m) for m in wrong]).f5 == pytest.approx(base, abs=0.01)
    assert strict([join("all", *wrong)]).f5 == pytest.approx(base, abs=0.01)


def test_strict_undoes_a_similarity(exact):
    whole = [Mesh(m.name, m.vertices @ np.array([[0, -1, 0], [1, 0, 0], [0, 0, 1.0]]).T * 3 + 5, m.faces) for m in ROOM]
    assert strict(whole).f5 == pytest.approx(exact.f5, abs=0.01)


def rows(result):
    return {r.name: r for r in result.objects}


def test_strict_moving_an_object_lowers_it_and_only_it(exact):
    last = exact.f5
    for distance in (0.1, 0.2, 0.5):
        result = strict(replaced(1, moved(ROOM[1], (distance, -distance, 0))))
        assert result.f5 < last - 0.02
        last = result.f5
        by = rows(result)
        if distance <= 0.2:  # beyond that the ICP, which is not robust, pulls the others along
            assert all(by[m].f5 > 0.95 for m in ("bed", "table", "shelf"))
        assert by["chair"].f5 == min(r.f5 for r in result.objects)
        assert by["chair"].centroid_err == pytest.approx(distance * math.sqrt(2), rel=0.3)


@pytest.mark.parametrize(
    "corruption",
    [
        lambda m: moved(m, yaw=180),
        lambda m: moved(m, mirror=True),
        lambda m: moved(m, scale=1.3),
        lambda m: moved(m, scale=0.7),
        lambda m: bounding([m]),
    ],
    ids=["turned", "mirrored", "larger", "smaller", "box"],
)
def test_strict_single_corruptions_of_the_chair(corruption, exact):
    by = rows(strict(replaced(1, corruption(ROOM[1]))))
    assert by["chair"].f5 < rows(exact)["chair"].f5 - 0.05
    assert all(by[m].f5 > 0.95 for m in ("bed", "table", "shelf"))


def test_strict_missing_object(exact):
    result = strict(replaced(1))
    by = rows(result)
    assert by["chair"].f5 == 0 and not by["chair"].matched and by["chair"].centroid_err is None
    assert result.match_rate == 0.75 and result.f5 == pytest.approx(0.75, abs=0.02)


def test_strict_swapped_objects():
    centre = [(m.vertices.min(0) + m.vertices.max(0)) / 2 * [1, 1, 0] for m in ROOM]
    swapped = [ROOM[0], moved(ROOM[1], centre[3] - centre[1]), ROOM[2], moved(ROOM[3], centre[1] - centre[3])]
    by = rows(strict(swapped))
    assert by["chair"].f5 < 0.8 and by["shelf"].f5 < 0.8 and by["table"].f5 > 0.9


def test_strict_extra_object_costs_precision_where_it_stands(exact):
    last = exact.f5
    for size in (0.1, 0.2, 0.4):
        result = strict([*ROOM, box((size, size, size), (-1.4, -0.3, 0.25), "extra")])
        assert result.f5 < last
        last = result.f5
        if size <= 0.2:
            by = rows(result)
            assert by["chair"].f5 < rows(exact)["chair"].f5 and all(by[m].f5 > 0.9 for m in ("bed", "table", "shelf"))


def test_strict_scaling_lowers_the_chair_monotonically(exact):
    last = exact.f5
    for scale in (1.2, 1.5):
        f5 = strict(replaced(1, moved(ROOM[1], scale=scale))).f5
        assert f5 < last - 0.01
        last = f5


def test_strict_seed_hardly_matters(exact):
    assert strict(ROOM, seed=3).f5 == pytest.approx(exact.f5, abs=0.005)
    assert strict(ROOM) == exact  # same seed, same bits


# ------------------------------------------------------------------------------------------------------- unusable input


@pytest.mark.parametrize("protocol", ["paper", "strict"])
@pytest.mark.parametrize(
    "meshes",
    [
        [],
        None,
        [Mesh("empty", np.zeros((0, 3)), NONE)],
        [Mesh("nan", np.full((50, 3), np.nan), _TRIANGLES)],
        [Mesh("inf", np.full((50, 3), np.inf), _TRIANGLES)],
        [Mesh("far", np.full((50, 3), 1e12), _TRIANGLES)],
        [Mesh("shape", np.zeros((50, 2)), _TRIANGLES)],
        [Mesh("few", np.eye(3), NONE)],
    ],
    ids=["none", "null", "empty", "nan", "inf", "far", "shape", "few"],
)
def test_unusable_predictions_are_invalid(meshes, protocol):
    assert_sane(result := rec.evaluate(meshes, ROOM, protocol=protocol))
    assert not result.valid
    assert_sane(result := rec.evaluate(ROOM, meshes, protocol=protocol))
    assert not result.valid and "truth" in result.reason


BAD_FACES = [[[0, 1, 99]], [[0, 1, -1]], [[0.0, 1, 2]], [[0, 1, 2, 3]], [[0, 1], [2]]]


@pytest.mark.parametrize("faces", BAD_FACES, ids=["beyond", "negative", "float", "quads", "ragged"])
def test_strict_refuses_bad_faces(faces):
    assert not strict([Mesh("bad", _CORNERS, faces)]).valid


def test_strict_without_surface():
    points = np.random.default_rng(0).normal(size=(100, 3))
    assert not strict([Mesh("points", points, NONE)]).valid
    assert not strict([Mesh("flat", points * 0, np.array([[0, 1, 2]]))]).valid


def test_a_prediction_without_extent_is_finite():
    result = rec.evaluate([Mesh("one", np.ones((60, 3)), NONE)], paper_room())
    assert_sane(result)
    assert result.valid and result.scale == 1.0


def test_unknown_protocol():
    with pytest.raises(ValueError, match="protocol"):
        rec.evaluate(ROOM, ROOM, protocol="loose")


# ----------------------------------------------------------------------------------------------------------- properties

_number = st.floats(-1e9, 1e9, allow_nan=False, width=32)
_cloud = st.lists(st.tuples(_number, _number, _number), min_size=10, max_size=16).map(np.array)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(_cloud, _cloud, st.sampled_from(["paper", "strict"]))
def test_any_finite_input_gives_finite_results(a, b, protocol):
    faces = np.arange(9).reshape(3, 3)
    with pytest.MonkeyPatch.context() as patch:  # fewer samples, for speed alone
        patch.setattr(rec, "SAMPLES_AT_LEAST", 100)
        patch.setattr(rec, "SAMPLES_AT_MOST", 200)
        assert_sane(rec.evaluate([Mesh("a", a, faces)], [Mesh("b", b, faces)], protocol=protocol))


@settings(max_examples=15, deadline=None)
@given(st.permutations(range(3)), st.integers(0, 2**31), st.integers(1, 60))
def test_paper_below_the_caps_ignores_order_and_splitting(order, seed, cut):
    truth = [*blob_truth(), Mesh("c", grid((1, 2, 0.5), n=7, step=0.1), NONE)]
    wrong = [truth[0], Mesh("b", truth[1].vertices + [0.1, 0.2, 0.03], NONE), truth[2]]
    base = rec.evaluate(wrong, truth)
    rng = np.random.default_rng(seed)
    mixed = [Mesh(wrong[i].name, rng.permutation(wrong[i].vertices), NONE) for i in order]
    head = mixed[0].vertices
    mixed = [Mesh("p", head[:cut], NONE), Mesh("q", head[cut:], NONE), *mixed[1:]]
    other = rec.evaluate(mixed, truth, seed=seed)
    for metric in METRICS:
        assert getattr(other, metric) == pytest.approx(getattr(base, metric), abs=1e-6), metric
    # The order of the truth only reorders the rows.
    back = rec.evaluate(wrong, [truth[i] for i in order])
    assert [r.f5 for r in back.objects] == pytest.approx([base.objects[i].f5 for i in order], abs=1e-6)


# ------------------------------------------------------------------------------------------------------------ published


def test_published_f5(published):
    truth = load(published / "reference" / "reconstruction" / "gt-scene.glb").world_meshes()[:4]
    cases = [c for c in json.loads((published / "cases.json").read_text()) if c["task"] == "reconstruction"]
    runs = [rec.evaluate(load(published / c["submission"]).world_meshes(), truth) for c in cases]
    assert len(cases) == 6
    errors = [abs(r.f5 - c["metrics"]["F@5%"]) for r, c in zip(runs, cases, strict=True)]
    assert np.mean(errors) < 0.12
    assert all(r.valid for r in runs)


@pytest.mark.parametrize("protocol", ["paper", "strict"])
def test_plain_transcription_agrees(protocol):
    truth = ROOM[1:] if protocol == "strict" else paper_room()
    wrong = [moved(truth[0], (0.2, 0, 0)), *truth[1:]]
    plain = plain_reconstruction.evaluate(wrong, truth, protocol=protocol)
    result = rec.evaluate(wrong, truth, protocol=protocol)
    assert set(plain) == set(METRICS)
    for metric in METRICS:
        assert getattr(result, metric) == pytest.approx(plain[metric], abs=1e-9), metric
