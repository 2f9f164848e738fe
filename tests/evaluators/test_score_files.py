"""Files on disk to scores: our truth folders, the published data set's, and everything that can be missing."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from benchmarks import published as table
from sceneact_gym.score_files import TruthError, score_submission

from .glbs import Glb

L_SHAPE = np.array([[0, 0, 0], [1, 0, 0], [0, 2, 0], [0, 0, 3], [0.2, 0.3, 0.1]], "<f4")


def write(path: Path, value: object) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(value if isinstance(value, bytes) else json.dumps(value).encode())
    return path


def arrangement(*places: tuple[float, float, float], name: str = "object_{:03d}") -> bytes:
    """L-shaped objects at glTF places (Y-up)."""
    glb = Glb()
    for i, at in enumerate(places):
        glb.node(name=name.format(i), translation=list(at), mesh=glb.mesh(L_SHAPE * np.float32(i + 1)))
    return glb.bytes()


# --------------------------------------------------------------------------------------------------- published data


def test_published_references_through_truth_json(published: Path, tmp_path: Path) -> None:
    reference = published / "reference"
    truths: dict[str, dict] = {
        "layout": {
            "file": "gt-scene.glb",
            "objects": table.FURNITURE.pattern,
            "similarity": {"scale": table.LAYOUT_SCALE, "shift": table.LAYOUT_SHIFT.tolist()},
        },
        "camera": {"matrix_world": table.look_along(table.CAMERA_CENTRE, table.CAMERA_VIEW).tolist()},
        "articulated": {
            "file": "gt-animation.glb",
            "world_keys": True,
            "submission_world_keys": True,
            "parts": [{"id": k, "nodes": rf"door\.{k}\.", "joint_type": "rotation"} for k in (1, 2, 3)],
        },
        "dynamic": {"file": "gt-scene.glb", "movers": list(table.DYNAMIC_MOVERS), "scene_scale": table.DYNAMIC_SCALE},
    }
    for task, truth in truths.items():
        folder = tmp_path / task
        folder.mkdir()
        for path in (reference / task).glob("*.glb"):
            shutil.copy(path, folder)
        write(folder / "truth.json", truth)
        how = table.task(task)
        direct = how.truth(published)
        for case in table.read_cases(published, task)[:2]:
            if task == "camera":
                submission = write(tmp_path / "agent_camera.json", case["pose"])
            else:
                submission = published / case["submission"]
            result = score_submission(task, submission, folder)
            json.dumps(result, allow_nan=False)
            assert result["valid"] and result["task"] == task and result["protocol"] == "paper"
            expected = how.score(how.prediction(published, case), direct, 0)
            for field in table.METRICS[task].values():
                assert result["metrics"][field] == pytest.approx(getattr(expected, field), abs=1e-9), case["id"]
            if task == "camera":
                assert result["metrics"]["fov_x"] == 39.6


# ------------------------------------------------------------------------------------------------------- own folders


def test_layout_with_an_initial_scene(tmp_path: Path) -> None:
    truth = arrangement((3, 0, 0), (0, 0, -4), name="thing {}")
    write(tmp_path / "truth" / "truth.glb", truth)
    write(tmp_path / "truth" / "initial.glb", arrangement((0, 0, 0), (0, 0, 0)))
    write(tmp_path / "truth" / "truth.json", {"initial": "initial.glb"})
    scores = {}
    for name, places in {"perfect": [(3, 0, 0), (0, 0, -4)], "idle": [(0, 0, 0)] * 2}.items():
        write(tmp_path / name / "agent_scene.glb", arrangement(*places))
        scores[name] = score_submission("layout", tmp_path / name, tmp_path / "truth", "strict")
    assert scores["perfect"]["score"] == 100 and scores["perfect"]["metrics"]["ss"] == 1
    assert scores["idle"]["score"] == pytest.approx(0) and scores["idle"]["valid"]
    assert [row["predicted"] for row in scores["perfect"]["rows"]] == ["object_000", "object_001"]


def test_equal_names_are_two_objects(tmp_path: Path) -> None:
    write(tmp_path / "truth.glb", arrangement((0, 0, 0), (5, 0, 0)))
    write(tmp_path / "truth.json", {})
    submission = write(tmp_path / "s.glb", arrangement((0, 0, 0), (5, 0, 0), name="object_0"))
    assert score_submission("layout", submission, tmp_path)["metrics"]["n_predicted"] == 2


def test_dynamic_with_tracks_in_the_json(tmp_path: Path) -> None:
    times = np.arange(1, 145) / 24
    track = np.stack([np.linspace(0, 10, 144), np.zeros(144), np.zeros(144)], axis=1)
    glb = Glb()
    centre = L_SHAPE - L_SHAPE.mean(axis=0)
    mover = glb.node(name="car", mesh=glb.mesh(centre))
    glb.node(name="house", mesh=glb.mesh(centre), translation=[0, 0, -6])
    glb.animate([(mover, "translation", times.tolist(), track.tolist(), "LINEAR")])
    submission = write(tmp_path / "s.glb", glb.bytes())
    write(tmp_path / "t" / "truth.json", {"tracks": {"car": track.tolist()}, "statics": [[0, 6, 0]]})
    result = score_submission("dynamic", submission, tmp_path / "t", "strict")
    assert result["valid"] and result["score"] == pytest.approx(100, abs=0.01)


# -------------------------------------------------------------------------------------- the published data set's shape


def test_a_published_room(tmp_path: Path) -> None:
    for i in range(2):
        write(tmp_path / "canonical" / f"object_{i:02d}.glb", arrangement(*[(0, 0, 0)] * (i + 1)))
    objects = [
        {"anon_id": "object_00", "category": "Chair", "location": [1, 0.5, -2], "rotation": np.pi / 2},
        {"anon_id": "object_01", "category": "Table", "location": [0, 0, 0]},
    ]
    write(tmp_path / "gt.json", {"objects": objects})
    # Blender: (1, 2, 0.5) and a quarter turn about Z, which in glTF is a quarter turn about Y.
    glb = Glb()
    half = float(np.sqrt(0.5))
    glb.node(name="object_00", mesh=glb.mesh(L_SHAPE), translation=[1, 0.5, -2], rotation=[0, half, 0, half])
    glb.node(name="object_01", mesh=glb.mesh(np.concatenate([L_SHAPE, L_SHAPE * np.float32(2)])))
    submission = write(tmp_path / "run" / "agent_scene.glb", glb.bytes()).parent
    for protocol in ("paper", "strict"):
        result = score_submission("layout", submission, tmp_path, protocol)
        assert result["metrics"]["add_s"] == pytest.approx(0, abs=1e-6) and result["metrics"]["ss"] == 1


def door_state(angle: float, extra: bool = False) -> bytes:
    glb = Glb()
    glb.node(name="base", mesh=glb.mesh(L_SHAPE))
    half = np.radians(angle) / 2
    glb.node(
        name="door",
        mesh=glb.mesh(L_SHAPE + np.float32(4)),
        rotation=[0, float(np.sin(half)), 0, float(np.cos(half))],
    )
    if extra:
        glb.node(name="more", mesh=glb.mesh(L_SHAPE[:1]))
    return glb.bytes()


def test_a_published_articulated_object(tmp_path: Path) -> None:
    angles = [90 * min(i, 32 - i) / 16 for i in range(32)]
    segments = [
        {"v_start": 0, "v_count": 5, "pid": 0, "mesh_index": 0, "movable": False},
        {"v_start": 5, "v_count": 5, "pid": 3, "mesh_index": 1, "movable": True},
    ]
    truth = tmp_path / "acd"
    write(truth / "_scoring_partmap.json", {"total_verts": 10, "segments": segments})
    write(truth / "meta.json", {"joints": {"3": {"type": "rotation", "rangeMax": 1.57}}})
    for i, angle in enumerate(angles):
        write(truth / "gt" / f"gt_{i:04d}.glb", door_state(angle))
        if i < 20:
            write(tmp_path / "run" / "agent_frames" / f"agent_frame_{i:04d}.glb", door_state(angle))
    result = score_submission("articulated", tmp_path / "run", truth, "strict")
    assert not result["valid"] and "frame 20 is missing" in result["reason"]
    write(tmp_path / "run" / "agent_scene.glb", door_state(0))
    result = score_submission("articulated", tmp_path / "run", truth, "strict")
    assert result["score"] == pytest.approx(100, abs=1e-4)
    assert (result["metrics"]["recall"], result["metrics"]["fallback"]) == (1, False)
    assert [row["part"] for row in result["rows"]] == [0, 3] and result["rows"][1]["motion"] == "rotation"

    write(truth / "gt" / "gt_0007.glb", door_state(3, extra=True))
    with pytest.raises(TruthError, match="gt_0007.glb has 11 vertices"):
        score_submission("articulated", tmp_path / "run", truth)
    (truth / "gt" / "gt_0007.glb").unlink()
    with pytest.raises(TruthError, match=r"gt_0007.glb is missing"):
        score_submission("articulated", tmp_path / "run", truth)


def test_a_published_dynamic_scene(tmp_path: Path) -> None:
    keys = [{"f": f, "loc": [f / 10, 0, 0]} for f in range(3, 145)]
    write(tmp_path / "gt" / "trajectory.json", {"car": keys, "coins": [{"f": 1, "taken": True}], "empty": []})
    write(tmp_path / "layout_gt.json", {"objects": [{"name": "a", "location": [0, 5, 0]}, {"loc": [3, 5, 0]}]})
    submission = write(tmp_path / "s.glb", arrangement((0, 0, -5), (3, 0, -5)))
    result = score_submission("dynamic", submission, tmp_path)
    assert [row["name"] for row in result["rows"]] == ["car"]
    assert (result["metrics"]["mme"], result["metrics"]["recall"]) == (1, 0)


def test_a_published_furnished_room(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    uuid = "1b30b6c7-b465-49d8-87e6-dd2314e53ad2"
    glb = Glb()
    for i in range(2):
        points = (rng.uniform(0, 1, (300, 3)) + [3 * i, 0, 0]).astype("<f4")
        glb.node(name=f"Chair_{uuid}_{i}.obj", mesh=glb.mesh(points))
    furniture = glb.bytes()
    glb.node(name="8503.obj", mesh=glb.mesh((rng.uniform(-9, 9, (100, 3))).astype("<f4")))
    write(tmp_path / "scene" / "Room-1_full.glb", glb.bytes())
    result = score_submission("reconstruction", write(tmp_path / "s.glb", furniture), tmp_path)
    assert result["valid"] and len(result["rows"]) == 2
    assert result["metrics"]["scene_f5"] == pytest.approx(1)


# ---------------------------------------------------------------------------------------------------------- what fails


@pytest.fixture
def truth(tmp_path: Path) -> Path:
    folder = tmp_path / "truth"
    write(folder / "truth.glb", arrangement((0, 0, 0)))
    write(folder / "truth.json", {"matrix_world": np.eye(4).tolist(), "tracks": {"a": [[0, 0, 0]] * 144},
                                  "statics": [[1, 1, 1]], "file": "truth.glb", "movers": ["object_000"],
                                  "parts": [{"id": 1, "nodes": "object"}]})  # fmt: skip
    return folder


@pytest.mark.parametrize("task", ["layout", "camera", "articulated", "reconstruction", "dynamic"])
@pytest.mark.parametrize("bad", ["missing", "empty folder", "garbage", "two files"])
def test_bad_submissions_are_invalid_results(task: str, bad: str, truth: Path, tmp_path: Path) -> None:
    suffix = "json" if task == "camera" else "glb"
    submission = tmp_path / "submission"
    if bad != "missing":
        submission.mkdir()
    if bad == "garbage":
        write(submission / f"a.{suffix}", b"\x00garbage")
    elif bad == "two files":
        write(submission / f"a.{suffix}", b"{}")
        write(submission / f"b.{suffix}", b"{}")
    for protocol in ("paper", "strict"):
        result = score_submission(task, submission, truth, protocol)
        assert not result["valid"] and result["score"] == 0 and result["reason"]
        json.dumps(result, allow_nan=False)


@pytest.mark.parametrize("data", [b"[1]", b"{", b'{"matrix_world": 3}', b"{}", b"[" * 100_000])
def test_bad_camera_files_are_invalid_results(data: bytes, truth: Path, tmp_path: Path) -> None:
    result = score_submission("camera", write(tmp_path / "c.json", data), truth)
    assert not result["valid"] and result["score"] == 0 and result["reason"]


@pytest.mark.parametrize(
    ("task", "spec", "message"),
    [
        ("layout", {"file": "other.glb"}, "other.glb is missing"),
        ("layout", {"file": "../truth.glb"}, "not a file of its folder"),
        ("layout", {"file": "/truth.glb"}, "not a file of its folder"),
        ("layout", {"file": 3}, "not a file of its folder"),
        ("layout", {"objects": "("}, "regular expression"),
        ("layout", {"objects": "Chair"}, "no object that is to be scored"),
        ("layout", {"similarity": 3}, "similarity"),
        ("layout", {"similarity": {"scale": "big"}}, "similarity.scale"),
        ("layout", {"floor": [1, 2]}, "floor"),
        ("layout", {"object_floors": [1, 2]}, "object_floors"),
        ("layout", {"file": "truth.json"}, "unusable"),
        ("camera", {}, "no 'matrix_world'"),
        ("camera", {"matrix_world": [[1]]}, "matrix_world"),
        ("articulated", {}, "no 'parts'"),
        ("articulated", {"parts": {}}, "parts"),
        ("articulated", {"parts": [3]}, "parts"),
        ("articulated", {"parts": [{"id": 1}]}, "no 'nodes'"),
        ("articulated", {"parts": [{"id": "x", "nodes": "a"}]}, "bad 'id'"),
        ("articulated", {"parts": [], "fps": 0}, "fps"),
        ("dynamic", {}, "no 'tracks'"),
        ("dynamic", {"tracks": []}, "tracks"),
        ("dynamic", {"tracks": {"a": [[0, 0]]}}, "tracks.a"),
        ("dynamic", {"tracks": {}, "statics": [[1]]}, "statics"),
        ("dynamic", {"file": "truth.glb"}, "no 'movers'"),
        ("dynamic", {"file": "truth.glb", "movers": ["nobody"]}, "movers"),
    ],
)
def test_a_bad_truth_folder_is_an_error_that_names_the_cause(
    task: str, spec: dict, message: str, truth: Path, tmp_path: Path
) -> None:
    write(truth / "truth.json", spec)
    with pytest.raises(TruthError, match=message):
        score_submission(task, truth / "truth.glb", truth)


@pytest.mark.parametrize(
    ("task", "message"),
    [
        ("layout", "gt.json"),
        ("camera", "truth.json"),
        ("articulated", "_scoring_partmap.json"),
        ("reconstruction", "_full.glb"),
        ("dynamic", "trajectory.json"),
    ],
)
def test_an_empty_truth_folder_says_what_is_missing(task: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(TruthError, match=message):
        score_submission(task, tmp_path, tmp_path)


def test_mistakes_of_the_caller(truth: Path) -> None:
    with pytest.raises(TruthError, match="does not exist"):
        score_submission("layout", truth, truth / "nowhere")
    with pytest.raises(ValueError, match="no task is called 'drawing'"):
        score_submission("drawing", truth, truth)
    with pytest.raises(ValueError, match="protocol"):
        score_submission("layout", truth, truth, "both")  # type: ignore[arg-type]
