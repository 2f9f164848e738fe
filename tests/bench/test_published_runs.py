"""Runs of the published harness scored again: a hand-made data set with runs, and real submissions."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import Result
from typer.testing import CliRunner

from benchmarks import published as table
from sceneact_gym import cli
from sceneact_gym.bench.folder import read_rows, results
from sceneact_gym.bench.published_runs import Metric
from sceneact_gym.score_files import FURNITURE
from tests.evaluators.glbs import Glb

ROOM = "1b30b6c7-b465-49d8-87e6-dd2314e53ad2_Room-1"
SPREAD = np.array([[0, 0, 0], [10, 0, 0], [0, 20, 0], [0, 0, 30], [20, 30, 10]], "<f4")
CENTRED = (SPREAD - SPREAD.mean(axis=0)) / 20


def write(path: Path, value: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(value if isinstance(value, bytes) else json.dumps(value).encode())
    return path


def piece(name: str, points: np.ndarray, *at: float) -> bytes:
    glb = Glb()
    glb.node(name=name, mesh=glb.mesh(points), translation=list(at or (0, 0, 0)))
    return glb.bytes()


def furniture() -> bytes:
    """Two pieces; the names of some kinds have more than one word."""
    rng = np.random.default_rng(0)
    glb = Glb()
    for i in range(2):
        points = (rng.uniform(0, 1, (300, 3)) + [3 * i, 0, 0]).astype("<f4")
        glb.node(name=f"{('Chair', 'Cabinet_Shelf_Desk')[i]}_{ROOM[:36]}_{i}.obj", mesh=glb.mesh(points))
    return glb.bytes()


def door(angle: float) -> bytes:
    glb, half = Glb(), np.radians(angle) / 2
    glb.node(name="base", mesh=glb.mesh(CENTRED))
    turn = [0, float(np.sin(half)), 0, float(np.cos(half))]
    glb.node(name="door", mesh=glb.mesh(CENTRED + np.float32(4)), rotation=turn)
    return glb.bytes()


def drive() -> bytes:
    """A car that drives 10 m along X past a house."""
    glb = Glb()
    car = glb.node(name="car", mesh=glb.mesh(CENTRED.astype("<f4")))
    glb.node(name="house", mesh=glb.mesh(CENTRED.astype("<f4")), translation=[0, 0, -6])
    times = (np.arange(144) / 24).tolist()
    glb.animate([(car, "translation", times, [[f / 14.3, 0, 0] for f in range(144)], "LINEAR")])
    return glb.bytes()


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """`data` in the published shape, and `runs/model-a` with a case of each task; the scores are known by hand."""
    root = tmp_path_factory.mktemp("made")
    data, runs = root / "data", root / "runs" / "model-a"
    room = data / "benchmark_final" / "scenes" / ROOM
    write(room / "canonical" / "object_00.glb", piece("object_00", SPREAD))
    write(room / "gt.json", {"objects": [{"anon_id": "object_00", "location": [1, 2, 3], "rotation": 0}]})
    write(room / "scene" / "Room-1_full.glb", furniture())
    # Half a metre off along X: every point's nearest is its own, and the diagonal is long.
    for kind in ("task1_single", "task2_multi"):
        case = runs / kind / f"{ROOM}__{kind}"
        write(case / "agent_scene.glb", piece("object_00", SPREAD, 1.5, 2, 3))
        native = {"mean_add_s": 0.5, "mean_pe": 0.5, "chamfer": 1.0, "placement_acc": 1.0, "scene_success": True}
        write(case / "score.json", native)
    # 3, 4 and 0 m away, and looking along Y instead of X.
    case = runs / "task3_camera" / f"{ROOM}__task3_camera"
    pose = [[1, 0, 0, 3], [0, 0, -1, 4], [0, 1, 0, 0], [0, 0, 0, 1]]
    write(case / "agent_camera.json", {"agent_matrix_world": pose, "agent_fov_x_deg": 39.6})
    write(case / "task.json", {"gt_camera": {"position": [0, 0, 0], "look_dir": [2, 0, 0]}})
    write(case / "score.json", {"cam_pos_error": 5.0, "cam_angle_error_deg": 90.0})
    cupboard, case = data / "benchmark_s2o_final" / "acd_01", runs / "task4_anim" / "anim-acd_01"
    segments = [
        {"v_start": 0, "v_count": 5, "pid": 0, "mesh_index": 0, "movable": False},
        {"v_start": 5, "v_count": 5, "pid": 3, "mesh_index": 1, "movable": True},
    ]
    write(cupboard / "_scoring_partmap.json", {"total_verts": 10, "segments": segments})
    write(cupboard / "meta.json", {"joints": {"3": {"type": "rotation", "rangeMax": 1.57}}})
    for i in range(32):
        state = door(90 * min(i, 32 - i) / 16)
        write(cupboard / "gt" / f"gt_{i:04d}.glb", state)
        write(case / "agent_frames" / f"agent_frame_{i:04d}.glb", state)
    write(case / "score.json", {"worst_part_err": 0.0, "movable_recall": 1.0, "false_move_rate": 0.0})
    case = runs / "task5_recon" / f"{ROOM}__task5_recon"
    write(case / "agent_scene.glb", furniture())
    write(case / "score.json", {"metrics": {"f@5%": 1.0, "f@2%": 1.0}, "chamfer_aligned": 0.0})
    street = data / "benchmark_t6_final" / "t6l1_street_001"
    write(street / "gt" / "trajectory.json", {"car": [{"f": f + 1, "loc": [f / 14.3, 0, 0]} for f in range(144)]})
    write(street / "layout_gt.json", {"objects": [{"location": [0, 6, 0]}]})
    for kind in ("task6_anim", "task7_anim"):
        case = runs / kind / f"{kind[0]}{kind[4]}anim-t6l1_street_001"
        write(case / "agent_scene.glb", drive())
        write(case / "score.json", {"worst_vehicle_err": 0.0, "mean_vehicle_err": 0.0, "layout_err": 0.0})
    for case in runs.glob("*/*"):
        about = json.loads((case / "task.json").read_text()) if (case / "task.json").exists() else {}
        write(case / "task.json", about | {"task_type": case.parent.name})
        write(case / "steps.json", [{"step": 1}, {"step": 2}])
    return root


def score_run(*arguments: Any) -> Result:
    return CliRunner().invoke(cli.app, ["score-run", *map(str, arguments)], env={"COLUMNS": "300"})


def told(*arguments: Any, code: int = 0) -> dict[str, Any]:
    said = score_run(*arguments, "--json")
    assert said.exit_code == code, (said.output, said.exception)
    return json.loads(said.output)


def test_every_task_of_the_published_shape(made: Path, tmp_path: Path) -> None:
    answer = told(made / "runs", "--truth", made / "data", "--out", tmp_path / "out")
    cases = {case["task"]: case for case in answer["cases"]}
    assert list(cases) == [
        "layout", "layout_multiview", "camera", "articulated", "reconstruction", "dynamic", "dynamic_photoreal",
    ]  # fmt: skip
    for case in cases.values():
        assert case["verdict"] == "equal" and case["problems"] == [] and case["steps"] == 2
        assert case["model"] == "model-a" and case["metrics"]
        assert not any(metric["differs"] for metric in case["metrics"].values())
    assert set(cases["layout"]["metrics"]) == {"mean_add_s", "mean_pe", "chamfer", "placement_acc", "scene_success"}
    # ADD-S 0.5 of 4 m; PE beyond 4 m and AE at 90 degrees; no error at all.
    for task, score in {"layout": 87.5, "camera": 0, "articulated": 100, "dynamic": 100}.items():
        assert cases[task]["scores"]["paper"] == pytest.approx(score, abs=1e-4), task
    assert cases["camera"]["notes"] == ["the truth is gt_camera of the run's own task.json"]
    assert answer["strays"] == []

    rows = {row["task"]: row for row in results(read_rows(tmp_path / "out" / "model-a")[0]).values()}
    assert len(rows) == 7 and {row["status"] for row in rows.values()} == {"ok"}
    assert rows["layout"]["score_paper"] == rows["layout"]["score"] == cases["layout"]["scores"]["paper"]
    assert rows["layout"]["metrics"]["add_s"] == pytest.approx(0.5) and rows["layout"]["steps"] == 2
    assert rows["camera"]["rescored_from"]["metrics"] == {"cam_pos_error": 5, "cam_angle_error_deg": 90}
    shown = CliRunner().invoke(cli.app, ["show", str(tmp_path / "out" / "model-a")])
    assert shown.exit_code == 0 and "87.5" in shown.output and "model-a" in shown.output
    written = tmp_path / "report.json"
    reported = CliRunner().invoke(cli.app, ["report", str(tmp_path / "out" / "model-a"), "--json", str(written)])
    assert reported.exit_code == 0 and "87.5" in written.read_text(), reported.output


@pytest.mark.parametrize("part", ["model-a", "model-a/task3_camera", f"model-a/task3_camera/{ROOM}__task3_camera"])
def test_parts_of_the_runs(made: Path, tmp_path: Path, part: str) -> None:
    for kind in ("task3_camera", "task1_single"):
        shutil.copytree(made / "runs" / "model-a" / kind, tmp_path / "runs" / "model-a" / kind)
    answer = told(tmp_path / "runs" / part, "--truth", made / "data")
    assert [case["task"] for case in answer["cases"]] == ["layout", "camera"][part != "model-a" :]
    assert {case["model"] for case in answer["cases"]} == {"model-a"}


def test_what_is_no_case(made: Path, tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    shutil.copytree(made / "runs" / "model-a" / "task3_camera", runs / "model-b" / "task3_camera")
    (runs / "model-b" / "task9_dance").mkdir()
    (runs / "logs").mkdir()
    answer = told(runs, "--truth", made / "data")
    assert len(answer["cases"]) == 1
    assert answer["strays"] == ["logs has no task type", "model-b/task9_dance is no task type"]
    said = score_run(runs, "--truth", made / "data")
    assert said.exit_code == 0 and "left out: logs has no task type" in said.output
    assert "--truth" in str(score_run(runs).exception)
    assert "does not exist" in str(score_run(runs, "--truth", tmp_path / "nowhere").exception)
    assert "no case folders of the published harness" in str(score_run(runs / "logs").exception)


def test_a_difference_is_named(made: Path, tmp_path: Path) -> None:
    case = tmp_path / "runs" / "m" / "task1_single" / f"{ROOM}__task1_single"
    shutil.copytree(made / "runs" / "model-a" / "task1_single" / case.name, case)
    write(case / "score.json", {"mean_add_s": 0.4997, "chamfer": 1.0, "placement_acc": None, "more": "x"})
    (found,) = told(case, "--truth", made / "data", code=1)["cases"]
    differs = {name: metric["differs"] for name, metric in found["metrics"].items()}
    assert found["verdict"] == "changed"
    assert differs == {"mean_add_s": True, "chamfer": False, "placement_acc": True}
    said = score_run(case, "--truth", made / "data")
    assert said.exit_code == 1 and "+0.0003" in said.output and "none" in said.output
    # Under `strict` alone the published metrics are still those of `paper`.
    (strict,) = told(case, "--truth", made / "data", "--protocol", "strict", code=1)["cases"]
    assert strict["metrics"] == found["metrics"] and list(strict["scores"]) == ["strict"]


@pytest.mark.parametrize(
    ("published", "computed", "digits", "differs"),
    [
        (0.3333, 1 / 3, 4, False),
        (0.3334, 1 / 3, 4, True),
        (0.33335, 0.3333, 5, True),
        (1.0, 1.00004, 4, False),
        (1.0, 1.0001, 4, True),
        (0.1234567890123456, 0.1234567890123999, 16, False),
        (0.1234567890123456, 0.1234569890123456, 16, True),
        (155.4185, 155.4186, 4, True),
        (None, None, 4, False),
        (None, 0.5, 4, True),
        (0.5, None, 4, True),
    ],
)
def test_rounding(published: float | None, computed: float | None, digits: int, differs: bool) -> None:
    assert Metric("x", published, computed, digits).differs is differs


LAYOUT, CAMERA, DOOR = (
    f"task1_single/{ROOM}__task1_single",
    f"task3_camera/{ROOM}__task3_camera",
    "task4_anim/anim-acd_01",
)
FRAME = "agent_frames/agent_frame_{:04d}.glb"
DAMAGE: dict[str, tuple[str, Callable[[Path], Any], str]] = {
    "no scene": (LAYOUT, lambda case: (case / "agent_scene.glb").unlink(), "agent_scene.glb is missing"),
    "half a scene": (LAYOUT, lambda case: write(case / "agent_scene.glb", b"glTF\2"), "agent_scene.glb cannot be read"),
    "another task": (LAYOUT, lambda case: write(case / "task.json", {"task_type": "task5_recon"}), "task.json is of"),
    "no scene in the data": (LAYOUT, lambda case: case.rename(case.parent / "x__task1_single"), "neither x__task1"),
    "no pose": (CAMERA, lambda case: (case / "agent_camera.json").unlink(), "agent_camera.json is missing"),
    "half a pose": (CAMERA, lambda case: write(case / "agent_camera.json", b"{"), "agent_camera.json cannot be used"),
    "no truth": (CAMERA, lambda case: write(case / "task.json", {"gt_camera": {"zoom": 1}}), "it has zoom"),
    "no gt_camera": (CAMERA, lambda case: (case / "task.json").unlink(), "no gt_camera"),
    "no frames": (DOOR, lambda case: shutil.rmtree(case / "agent_frames"), "and 31 more"),
    "a frame less": (DOOR, lambda case: (case / FRAME.format(7)).unlink(), "agent_frame_0007.glb is missing"),
    "half a frame": (DOOR, lambda case: write(case / FRAME.format(9), b"glTF"), "agent_frame_0009.glb cannot be read"),
}


@pytest.mark.parametrize("name", DAMAGE)
def test_damage_is_no_score_and_stops_nothing(made: Path, tmp_path: Path, name: str) -> None:
    which, spoil, message = DAMAGE[name]
    model = tmp_path / "runs" / "model-a"
    shutil.copytree(made / "runs" / "model-a" / which, model / which)
    good = "task7_anim/t7anim-t6l1_street_001"
    shutil.copytree(made / "runs" / "model-a" / good, model / good)
    spoil(model / which)
    bad, fine = told(model, "--truth", made / "data", "--out", tmp_path / "out", code=1)["cases"]
    assert bad["verdict"] == "damaged" and message in "; ".join(bad["problems"])
    assert bad["scores"] == {"paper": None, "strict": None} and bad["metrics"] == {}
    assert fine["verdict"] == "equal" and fine["scores"]["paper"] == pytest.approx(100, abs=1e-4)
    row = next(row for row in read_rows(tmp_path / "out" / "model-a")[0] if row["case_id"] == bad["case_id"])
    assert row["status"] == "infra_error" and row["score"] is None and message in row["reason"]


def test_what_is_said_besides_a_score(made: Path, tmp_path: Path) -> None:
    model = tmp_path / "m"
    for which in (LAYOUT, DOOR):
        shutil.copytree(made / "runs" / "model-a" / which, model / which)
    (model / LAYOUT / "score.json").unlink()
    (model / LAYOUT / "steps.json").unlink()
    write(model / LAYOUT / "agent_scene.glb", piece("table", SPREAD))
    # The final scene stands in for a frame, as published; this one is open where the door is nearly closed.
    (model / DOOR / FRAME.format(1)).unlink()
    write(model / DOOR / "agent_scene.glb", door(90 / 16))
    write(model / DOOR / "agent_frames" / "notes.txt", b"x")
    plain, moved = told(model, "--truth", made / "data", "--out", tmp_path / "out", code=1)["cases"]
    assert plain["problems"] == ["score.json is missing"] and plain["steps"] is None
    assert plain["notes"][0] == "steps.json is missing" and plain["notes"][1].startswith("invalid: ")
    assert plain["scores"] == {"paper": 0, "strict": 0}
    assert moved["verdict"] == "equal" and moved["scores"]["paper"] == pytest.approx(100, abs=1e-4)
    assert "stands in" in moved["notes"][1] and moved["notes"][0] == "agent_frames/notes.txt is not of the harness"
    assert [row["status"] for row in read_rows(tmp_path / "out" / "m")[0]] == ["agent_error", "ok"]


def test_real_submissions(published: Path, tmp_path: Path) -> None:
    """Published metrics come out as the tests of the evaluators say, from truth folders by case id."""
    truths: dict[str, dict[str, Any]] = {
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
        "reconstruction": {"file": "gt-scene.glb", "objects": FURNITURE},
        "dynamic": {"file": "gt-scene.glb", "movers": list(table.DYNAMIC_MOVERS), "scene_scale": table.DYNAMIC_SCALE},
    }
    kinds = {"layout": ("task1_single", {"ADD-S": "mean_add_s", "Chamfer": "chamfer", "Placement": "placement_acc"}),
             "camera": ("task3_camera", {"PE": "cam_pos_error", "AE": "cam_angle_error_deg"}),
             "articulated": ("task4_anim", {"MPE": "worst_part_err", "Recall": "movable_recall"}),
             "reconstruction": ("task5_recon", {"F@5%": "obj_f@5%_matched", "Coverage": "object_coverage"}),
             "dynamic": ("task6_anim", {"MME": "worst_vehicle_err", "AME": "mean_vehicle_err"})}  # fmt: skip
    models = {"claude-opus-4-6-high": list(kinds), "doubao-seed-2-pro-high": ["layout", "camera", "dynamic"],
              "gpt-5-4-high": ["camera"], "kimi-k2-6-reason": ["layout"]}  # fmt: skip
    for case in table.read_cases(published):
        if case["task"] not in models.get(case["configuration"], ()):
            continue
        task, (kind, names) = case["task"], kinds[case["task"]]
        truth = tmp_path / "truth" / f"case-{task}"
        write(truth / "truth.json", truths[task])
        for path in (published / "reference" / task).glob("*.glb"):
            shutil.copy(path, truth)
        folder = tmp_path / "runs" / case["configuration"] / kind / f"case-{task}"
        if task == "camera":
            write(folder / "agent_camera.json", case["pose"])
        else:
            folder.mkdir(parents=True)
            shutil.copy(published / case["submission"], folder / "agent_scene.glb")
        write(folder / "score.json", {names[name]: value for name, value in case["metrics"].items() if name in names})
    said = told(tmp_path / "runs", "--truth", tmp_path / "truth", "--protocol", "paper", code=1)["cases"]
    assert len(said) == 10 and {case["model"] for case in said} == set(models)
    near = {"mean_add_s": 0.005, "chamfer": 0.011, "cam_pos_error": 5.5e-5, "cam_angle_error_deg": 1e-4,
            "worst_part_err": 1e-3, "movable_recall": 5e-4, "worst_vehicle_err": 1e-4, "mean_vehicle_err": 1e-4,
            "obj_f@5%_matched": 0.12}  # fmt: skip
    for case in said:
        assert not case["problems"] and case["scores"]["paper"] is not None
        for name, metric in case["metrics"].items():
            if name in near:
                assert metric["computed"] == pytest.approx(metric["published"], abs=near[name]), (case["model"], name)
    # A camera has no randomness and no export in between: its figures are the published ones.
    exact = {case["verdict"] for case in said if case["task"] == "camera"}
    assert exact == {"equal"}
