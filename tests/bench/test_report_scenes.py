"""Submissions and truths as meshes for a page: hand-made cases of all tasks, packing, and the pictures from around."""

from __future__ import annotations

import base64
import json
from dataclasses import replace

import numpy as np
import pytest

from sceneact_gym.bench.report import meshes, scenes, turntable
from sceneact_gym.bench.report.scenes import Part, Side
from sceneact_gym.data.sources import open_source
from sceneact_gym.evaluators import gltf
from sceneact_gym.tasks import TASKS, Submission
from tests.bench import small_cases as small

CASES = {
    "layout": small.layout_case(),
    "layout_multiview": small.layout_case("layout_multiview"),
    "camera": small.camera_case(),
    "articulated": small.articulated_case(),
    "reconstruction": small.reconstruction_case(),
    "dynamic": small.dynamic_case(),
    "dynamic_photoreal": small.dynamic_case("dynamic_photoreal"),
}


def right_submission(task: str) -> Submission:
    """The truth itself."""
    truth = CASES[task].truth
    if task == "camera":
        data = {"matrix_world": truth["matrix_world"].tolist(), "fov_x_deg": truth["fov_x_deg"], "changed_objects": []}
        return Submission(data)
    if task == "articulated":
        return small.states(truth["frames"])
    return Submission({}, {"scene.glb": truth["scene.glb"].tobytes()})


@pytest.mark.parametrize("task", TASKS)
def test_the_truth_as_submission_is_the_true_scene(task):
    case = CASES[task]
    truth, mine = scenes.truth_scene(case), scenes.submitted_scene(case, right_submission(task))
    assert truth.frames == {"articulated": 32, "dynamic": 144, "dynamic_photoreal": 144}.get(task, 1)
    assert [part.name for part in mine.parts] == [part.name for part in truth.side.parts]
    for own, true in zip(mine.parts, truth.side.parts, strict=True):
        for frame in range(truth.frames):
            np.testing.assert_allclose(own.at(frame), true.at(frame), atol=1e-6)
        np.testing.assert_array_equal(own.faces, true.faces)
    if task == "camera":
        assert [part.name for part in truth.room] == ["object_00", "object_01"]
        np.testing.assert_allclose(mine.eye.matrix, truth.side.eye.matrix)
    else:
        assert sum(len(part.faces) for part in mine.parts) == (36 if task.startswith("dynamic") else 24)


@pytest.mark.parametrize("task", TASKS)
def test_a_generated_case_of_every_task_has_a_scene(task):
    source = open_source("procedural", task, "val")
    case = source.load(source.nth(0))
    truth = scenes.truth_scene(case)
    assert truth.side.parts or (truth.room and truth.side.eye is not None)
    assert not truth.side.notes
    if task == "articulated":
        for frame in range(32):
            world = np.concatenate([part.at(frame) for part in truth.side.parts])
            np.testing.assert_allclose(world, case.truth["frames"][frame], atol=1e-5)
    if task == "dynamic":
        moving = [part for part in truth.side.parts if part.poses is not None]
        assert [part.name for part in moving] == case.truth["movers"]
        for part, track in zip(moving, case.truth["tracks"], strict=True):
            for frame in (0, 70, 143):
                np.testing.assert_allclose(part.at(frame).mean(axis=0), track[frame], atol=2e-3)


def test_a_moved_piece_is_moved_by_that_much_and_joined_to_its_true_place():
    mine = scenes.submitted_scene(CASES["layout"], small.layout_submission((0.3, 0, 0)))
    table, shelf = mine.parts
    np.testing.assert_allclose(table.vertices, small.TABLE.vertices, atol=1e-6)
    np.testing.assert_allclose(shelf.vertices, small.SHELF.vertices + [0.3, 0, 0], atol=1e-6)
    # The shelf's box begins at (2, 1, 0) and is 0.5 x 0.5 x 1.8.
    np.testing.assert_allclose(mine.links, [[[0.5, 0.3, 0.35]] * 2, [[2.55, 1.25, 0.9], [2.25, 1.25, 0.9]]], atol=1e-6)


def test_the_submitted_camera_is_joined_to_the_true_one():
    mine = scenes.submitted_scene(CASES["camera"], small.camera_submission())
    np.testing.assert_allclose(mine.links, [[[2, -6, 1], [0, -6, 1]]])
    with pytest.raises(scenes.SceneError, match="pose"):
        scenes.submitted_scene(CASES["camera"], Submission({"matrix_world": "x", "fov_x_deg": 1}))


def test_states_are_the_motion_of_each_mesh_also_when_it_is_turned_and_scaled():
    case = CASES["articulated"]
    side = scenes.truth_scene(case).side
    body, drawer = side.parts
    assert body.poses is None and len(drawer.poses) == 32
    # The drawer's lowest corner is at (0.1, -0.1, 0.2) and slides 0.8 m to the front until frame 16.
    for frame, y in ((0, -0.1), (4, -0.3), (16, -0.9), (28, -0.3)):
        np.testing.assert_allclose(drawer.at(frame).min(axis=0), [0.1, y, 0.2], atol=1e-6)
    frames = np.array(case.truth["frames"], float)
    quarter = np.array([[0, -1.0, 0], [1, 0, 0], [0, 0, 1]])
    frames[16, 8:] = 2 * frames[0, 8:] @ quarter.T
    mine = scenes.submitted_scene(case, small.states(frames))
    np.testing.assert_allclose(
        mine.parts[1].at(16), 2 * small.box((0.1, -0.1, 0.2), (0.8, 0.9, 0.3)).vertices @ quarter.T, atol=1e-5
    )
    assert not mine.notes
    frames[16, 8] += [0.5, 0, 0]
    assert "bent" in scenes.submitted_scene(case, small.states(frames)).notes[0]


def test_a_flat_mesh_keeps_its_motion():
    flat = Part("flat", np.array([[0, 0, 0], [1, 0, 0], [1, 1, 0], [0, 1, 0]], float), np.array([[0, 1, 2], [0, 2, 3]]))
    upright = flat.vertices[:, [0, 2, 1]] + [0, 0, 5]
    side = scenes._states([flat], [flat.vertices, upright])
    np.testing.assert_allclose(side.parts[0].at(1), upright, atol=1e-9)
    assert not side.notes


def test_states_that_do_not_fit_the_object_are_refused():
    case = CASES["articulated"]
    frames = np.array(case.truth["frames"])
    with pytest.raises(scenes.SceneError, match="16 vertices"):
        scenes.submitted_scene(case, small.states(frames[:, :15]))
    right = small.states(frames)
    for data, files in (
        ({"vertices": [16] * 31}, right.files),
        ({"vertices": ["16"] * 32}, right.files),
        ({}, right.files),
        (right.data, {"frames.f32": right.files["frames.f32"][:-4]}),
        (right.data, {"frames.f32": np.full(16 * 96, np.nan, "<f4").tobytes()}),
    ):
        with pytest.raises(scenes.SceneError):
            scenes.submitted_scene(case, Submission(data, files))


def test_a_video_has_144_frames_and_what_hangs_from_a_mover_moves_along():
    mine = scenes.submitted_scene(CASES["dynamic"], Submission({}, {"scene.glb": small.dynamic_glb(0.02, side=1.0)}))
    parts = {part.name: part for part in mine.parts}
    assert parts["static_00"].poses is None
    assert parts["mover_00"].poses.shape == parts["load"].poses.shape == (144, 4, 4)
    for frame in (0, 50, 143):
        np.testing.assert_allclose(parts["mover_00"].at(frame).min(axis=0), [0.02 * frame, 1, 0.1], atol=1e-5)
        np.testing.assert_allclose(parts["load"].at(frame).min(axis=0), [0.02 * frame, 1, 0.6], atol=1e-5)


def test_keys_that_do_not_move_anything_make_no_mover():
    mine = scenes.submitted_scene(CASES["dynamic"], Submission({}, {"scene.glb": small.dynamic_glb(0.0)}))
    assert [part.name for part in mine.parts if part.poses is not None] == []
    assert len(mine.parts) == 3


def test_only_files_of_sound_size_and_form_are_read(tmp_path, monkeypatch):
    assert scenes.read_submission(tmp_path, "layout") is None
    (tmp_path / "submission.json").write_text("{}")
    with pytest.raises(scenes.SceneError, match=r"scene\.glb"):
        scenes.read_submission(tmp_path, "layout")
    (tmp_path / "scene.glb").write_bytes(small.ROOM)
    assert scenes.read_submission(tmp_path, "layout").files == {"scene.glb": small.ROOM}
    assert scenes.read_submission(tmp_path, "camera") == Submission({})
    monkeypatch.setattr(gltf, "MAX_FILE_BYTES", len(small.ROOM) - 1)
    with pytest.raises(scenes.SceneError, match="too large"):
        scenes.read_submission(tmp_path, "layout")
    for text in ("[]", "{", "[" * 100_000):
        (tmp_path / "submission.json").write_text(text)
        with pytest.raises(scenes.SceneError, match="cannot be read"):
            scenes.read_submission(tmp_path, "camera")


def test_a_file_that_asks_for_more_triangles_than_can_be_drawn_is_refused(monkeypatch):
    monkeypatch.setattr(scenes, "MAX_TRIANGLES", 23)
    with pytest.raises(scenes.SceneError, match="24 triangles"):
        scenes.submitted_scene(CASES["reconstruction"], right_submission("reconstruction"))


# -------------------------------------------------------------------------------------------------------------- packing


def unpacked(part):
    """Vertices, triangles and poses of a packed part, by its description alone."""
    steps = np.frombuffer(base64.b64decode(part["v"]), "<u2").reshape(-1, 3)
    kind = "<u4" if part["wide"] else "<u2"
    faces = np.frombuffer(base64.b64decode(part["i"]), kind).reshape(-1, 3)
    poses = np.frombuffer(base64.b64decode(part["t"]), "<f4").reshape(-1, 3, 4)
    return np.array(part["low"]) + steps / 65535 * np.array(part["size"]), faces, poses


def test_packed_places_are_off_by_half_a_step_at_most():
    rng = np.random.default_rng(3)
    vertices = rng.uniform([-5, 0, 2], [7, 0.5, 2], (1000, 3))
    faces = rng.integers(0, 1000, (500, 3))
    (part,) = meshes.packed_side(Side((Part("cloud", vertices, faces),)))["parts"]
    found, corners, poses = unpacked(part)
    # The box is at most 12 x 0.5 x 0 m, so that half a step is 12 / 65535 / 2 m at most.
    assert np.abs(found - vertices).max(axis=0) == pytest.approx([0, 0, 0], abs=12 / 65535 / 2 * 1.0001)
    assert np.abs(found - vertices)[:, 1].max() <= 0.5 / 65535 / 2 * 1.0001
    np.testing.assert_array_equal(corners, faces)
    assert not len(poses) and not part["wide"]


def test_many_vertices_have_wide_numbers():
    vertices = np.random.default_rng(0).uniform(size=(70_000, 3))
    faces = np.array([[0, 1, 69_999]])
    (part,) = meshes.packed_side(Side((Part("cloud", vertices, faces),)))["parts"]
    assert part["wide"]
    np.testing.assert_array_equal(unpacked(part)[1], faces)


def test_what_stands_is_one_mesh_and_what_moves_keeps_its_poses():
    truth = scenes.truth_scene(CASES["dynamic"])
    packed = meshes.packed_truth(truth)
    standing, car, load = (unpacked(part) for part in packed["parts"])
    assert (packed["frames"], packed["telling"], packed["triangles"]) == (144, 72, 36)
    assert len(standing[1]) == 12 and not len(standing[2])
    np.testing.assert_allclose(car[2][100], [[1, 0, 0, 5], [0, 1, 0, 0], [0, 0, 1, 0.1]], atol=1e-5)
    np.testing.assert_allclose(load[2][143][:, 3], [0.05 * 143, 0, 0.1], atol=1e-5)
    # The ground is 10 x 5 m from (-1, -2) on; the car stands on it, its load reaches 0.9 m up.
    np.testing.assert_allclose(packed["box"], [[-1, -2, -0.1], [9, 3, 0.9]], atol=1e-3)


def test_standing_meshes_that_are_joined_keep_their_triangles():
    packed = meshes.packed_side(scenes.truth_scene(CASES["layout"]).side)
    (part,) = packed["parts"]
    found, corners, _ = unpacked(part)
    np.testing.assert_allclose(found[corners[:12]], small.TABLE.vertices[small.FACES], atol=1e-4)
    np.testing.assert_allclose(found[corners[12:]], small.SHELF.vertices[small.FACES], atol=1e-4)


def sheet(count: int) -> Part:
    """A flat square of 1 x 1 m, of 2 x count x count triangles."""
    x, y = np.meshgrid(np.linspace(0, 1, count + 1), np.linspace(0, 1, count + 1))
    vertices = np.column_stack([x.ravel(), y.ravel(), np.zeros(x.size)])
    first = (np.arange(count)[:, None] * (count + 1) + np.arange(count)).ravel()
    a, b, c, d = first, first + 1, first + count + 2, first + count + 1
    return Part("sheet", vertices, np.concatenate([np.stack([a, b, c], axis=1), np.stack([a, c, d], axis=1)]))


def test_too_many_triangles_are_thinned_and_still_cover_the_shape():
    dense = sheet(150)
    packed = meshes.packed_side(Side((dense,)))
    assert packed["of"] == packed["triangles"] == 45_000
    (thin,) = meshes.thin([dense], 3000)
    assert 300 < len(thin.faces) <= 3000
    assert meshes._area(thin) == pytest.approx(1, abs=0.12)
    assert np.all(thin.vertices.min(axis=0) < 0.06) and np.all(thin.vertices.max(axis=0)[:2] > 0.94)
    assert np.abs(thin.vertices[:, 2]).max() == 0
    assert meshes.thin([dense], 45_000) == (dense,)


def test_the_page_is_told_how_many_triangles_there_really_are(monkeypatch):
    monkeypatch.setattr(meshes.thin, "__defaults__", (3000,))
    packed = meshes.packed_side(Side((sheet(150),)))
    assert packed["of"] == 45_000 and packed["triangles"] <= 3000


def test_of_too_many_movers_the_smallest_are_left_out():
    poses = small.shifts(np.zeros((3, 3)))
    sizes = [3, 1, 2, 5]
    parts = [Part(str(size), small.CORNERS * size, small.FACES, poses) for size in sizes]
    still = Part("still", small.CORNERS * 0.1, small.FACES)
    assert [part.name for part in meshes.fewer_movers([*parts, still], 2)] == ["3", "5", "still"]


def test_a_script_holds_nothing_that_ends_a_script_and_reads_back():
    values = {"text": "</script><!--\u2028\u2029]]>"}
    text = meshes.script("truth", values)
    assert text.isascii() and "<" not in text
    body = text.removeprefix('sceneact.take("truth",').removesuffix(");\n")
    assert json.loads(body) == values
    with pytest.raises(ValueError):
        meshes.script("truth", {"x": float("nan")})


def test_walls_floor_and_ceiling_are_found_by_their_shape():
    shapes = {
        "floor": ((0, 0, -0.1), (4, 5, 0.1)),
        "left": ((-0.1, 0, 0), (0.1, 5, 2.5)),
        "back": ((0, 5, 0), (4, 0.1, 2.5)),
        "table": ((1, 1, 0), (2, 1, 0.7)),
    }
    parts = [Part(name, small.box(*shape).vertices, small.FACES) for name, shape in shapes.items()]
    floor, left, back, table = scenes.walls(parts)
    assert (floor.tolist(), left.tolist(), back.tolist(), table) == ([0, 0, -1], [-1, 0, 0], [0, 1, 0], None)
    assert scenes.walls([]) == []


# ------------------------------------------------------------------------------------------------------------- pictures

FRONT = np.array([[1.0, 0, 0], [0, 0, 1], [0, -1, 0]])
"""Right, up and towards the viewer of somebody who looks along +Y."""


def square(y: float, size: float, kind: int) -> turntable.Soup:
    """An upright square about the origin at depth y that shows its front to -Y."""
    a, b, c, d = (np.array([i, y, j]) * [size / 2, 1, size / 2] for i, j in ((-1, -1), (1, -1), (1, 1), (-1, 1)))
    return turntable.Soup.of(np.array([[a, b, c], [a, c, d]]), kind)


def test_the_rasteriser_covers_the_right_pixels_and_the_nearest_stays():
    pixels = turntable.SIZE * turntable.SHARP
    far, near = square(2.0, 1.0, turntable.TRUTH), square(-1.0, 0.48, turntable.LINK)
    seen = turntable.raster(turntable.Soup.join([near, far]), FRONT, np.zeros(3), 1.0)
    # The picture is 2 m wide: the squares take (1 / 2)^2 and (0.48 / 2)^2 = 0.0576 of it, the near one in front.
    assert (seen.depth > -np.inf).sum() == pytest.approx(pixels**2 / 4, rel=0.01)
    assert np.isclose(seen.depth, 1.0).sum() == pytest.approx(pixels**2 * 0.0576, rel=0.01)
    assert np.isclose(seen.depth[np.isfinite(seen.depth)], -2.0).sum() == pytest.approx(pixels**2 * 0.1924, rel=0.01)
    # Facing the viewer they have their full colour.
    for place, kind in ((pixels // 2, turntable.LINK), (pixels // 4 + 5, turntable.TRUTH)):
        assert seen.kinds[place, place] == kind and seen.light[place, place] == 1
    rows, columns = np.nonzero(seen.depth > -np.inf)
    assert (rows.min(), rows.max()) == (columns.min(), columns.max()) == (pixels // 4, pixels * 3 // 4 - 1)


def test_a_back_is_seen_unless_the_surface_has_one_side():
    for turned, one_sided, seen in ((False, True, True), (True, True, False), (True, False, True)):
        soup = square(0.0, 1.0, turntable.ROOM)
        corners = soup.corners[:, ::-1] if turned else soup.corners
        layer = turntable.raster(turntable.Soup.of(corners, turntable.ROOM, one_sided), FRONT, np.zeros(3), 1.0)
        assert (layer.depth > -np.inf).any() == seen


def test_more_pixels_than_may_be_drawn_leave_out_the_largest(monkeypatch):
    monkeypatch.setattr(turntable, "MAX_PIXELS", 30_000)
    both = turntable.Soup.join([square(2.0, 1.9, turntable.ROOM), square(-1.0, 0.48, turntable.ROOM)])
    seen = turntable.raster(both, FRONT, np.zeros(3), 1.0)
    # The small square is whole, and with what is left of the large one no more than was allowed.
    assert np.isclose(seen.depth, 1.0).sum() == pytest.approx((300 * 0.24) ** 2, rel=0.01)
    assert (seen.depth > -np.inf).sum() <= 30_000


def shares(picture) -> dict[str, list[float]]:
    """Per row of a turntable the share of pixels that are blue, orange, grey, and purple as a link."""
    found: dict[str, list[float]] = {"blue": [], "orange": [], "grey": [], "purple": []}
    values = np.asarray(picture).astype(int)
    for row in range(picture.height // turntable.SIZE):
        pixels = values[row * turntable.SIZE : (row + 1) * turntable.SIZE].reshape(-1, 4)
        r, g, b, a = pixels[pixels[:, 3] > 100].T
        for name, mask in (
            ("blue", b > r + 50),
            ("orange", r > b + 50),
            ("purple", (b > r + 20) & (r > g + 20)),
            ("grey", (abs(r - g) < 12) & (abs(g - b) < 12)),
        ):
            found[name].append(float(mask.mean()))
    return found


def test_a_turntable_shows_submission_truth_and_where_they_agree():
    truth = scenes.truth_scene(CASES["layout"])
    moved = replace(scenes.submitted_scene(CASES["layout"], small.layout_submission((0, -1, 0))), links=None)
    picture = turntable.turntable(truth, moved)
    assert picture.size == (8 * 150, 3 * 150)
    found = shares(picture)
    assert found["blue"][0] > 0.98 and found["orange"][1] > 0.98
    # The table stands right, the shelf does not.
    assert min(found[color][2] for color in ("blue", "orange", "grey")) > 0.1
    same = shares(turntable.turntable(truth, replace(moved, parts=truth.side.parts)))
    assert same["grey"][2] > 0.98
    joined = shares(
        turntable.turntable(truth, scenes.submitted_scene(CASES["layout"], small.layout_submission((0, -1, 0))))
    )
    assert [share > 0 for share in joined["purple"]] == [False, False, True]
    alone = turntable.turntable(truth, None)
    assert alone.size == (8 * 150, 150) and shares(alone)["orange"][0] > 0.98


def test_the_turntable_of_a_camera_case_shows_both_cameras_in_their_room():
    truth = scenes.truth_scene(CASES["camera"])
    found = shares(turntable.turntable(truth, scenes.submitted_scene(CASES["camera"], small.camera_submission())))
    assert len(found["blue"]) == 1 and min(found[color][0] for color in ("blue", "orange", "grey")) > 0.02


def test_the_turntable_of_a_moving_case_shows_its_telling_frame():
    case = CASES["articulated"]
    truth = scenes.truth_scene(case)
    shut = scenes.submitted_scene(case, small.states(np.repeat(case.truth["frames"][:1], 32, axis=0)))
    found = shares(turntable.turntable(truth, shut))
    # In the open state the truth's drawer stands out; the bodies agree.
    assert found["orange"][2] > 0.1 and found["grey"][2] > 0.2


def test_a_turntable_is_a_small_file():
    data = turntable.webp(turntable.turntable(scenes.truth_scene(CASES["layout"]), None))
    assert data[:4] == b"RIFF" and data[8:12] == b"WEBP" and len(data) < 40_000
