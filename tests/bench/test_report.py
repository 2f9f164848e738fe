"""The figures of a report, against sums by hand."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest

from sceneact_gym.bench.plan import Play
from sceneact_gym.bench.report import statistics
from sceneact_gym.bench.report.load import load_runs
from sceneact_gym.bench.report.spending import spending
from sceneact_gym.bench.report.summary import summarise
from sceneact_gym.data.sources import open_source
from sceneact_gym.errors import SceneActError
from tests.bench.synthetic import call, result, write_run

# --- means and intervals ----------------------------------------------------------------------------------------------


def test_an_interval_of_many_cases_is_the_one_of_the_normal_distribution() -> None:
    values = np.random.default_rng(7).normal(50, 12, 400)
    found = statistics.estimate(values)
    half = 1.96 * values.std() / math.sqrt(400)
    assert found.mean == pytest.approx(values.mean()) and found.cases == 400
    # The ends themselves vary by about 2 % of the interval with 5,000 resamples.
    assert found.low == pytest.approx(values.mean() - half, abs=0.08 * half)
    assert found.high == pytest.approx(values.mean() + half, abs=0.08 * half)
    assert statistics.estimate(values) == found


def test_intervals_of_two_of_one_and_of_no_cases() -> None:
    # The mean of two resampled cases is 0, 50 or 100, with chances 1/4, 1/2, 1/4: the middle 95 % is all of it.
    assert statistics.estimate([0.0, 100.0]) == statistics.Estimate(50.0, 0.0, 100.0, 2)
    assert statistics.estimate([30.0, 30.0, 30.0]) == statistics.Estimate(30.0, 30.0, 30.0, 3)
    assert statistics.estimate([40.0]) == statistics.Estimate(40.0, None, None, 1)
    assert statistics.estimate([]) == statistics.Estimate(None, None, None, 0)
    assert statistics.RESAMPLES >= 2000


def test_repeats_are_averaged_within_their_case() -> None:
    rows = [result(0, 0.0), result(0, 30.0, repeat=1), result(0, 60.0, repeat=2), result(1, 100.0)]
    # (30 + 100) / 2; over episodes it would be 47.5.
    assert statistics.case_means(rows, "paper") == {"layout-test-0000": 30.0, "layout-test-0001": 100.0}
    assert statistics.estimate(list(statistics.case_means(rows, "paper").values())).mean == 65.0


def test_infra_errors_are_in_no_mean_and_agent_errors_are_zero() -> None:
    rows = [result(0, 80.0), result(1, status="infra_error"), result(2, 0.0, status="agent_error")]
    assert list(statistics.case_means(rows, "paper").values()) == [80.0, 0.0]
    rows[2] |= {"score": None, "score_paper": None}
    assert list(statistics.case_means(rows, "paper").values()) == [80.0, 0.0]


def test_the_mean_over_tasks_weighs_tasks_alike_and_needs_all() -> None:
    found = statistics.estimate_over_tasks([[10.0, 10.0, 10.0], [50.0, 50.0]])
    assert (found.mean, found.low, found.high, found.cases) == (30.0, 30.0, 30.0, 5)
    # Tasks are drawn apart from each other: the spread of the mean is that of independent tasks, not of equal ones.
    values = list(np.random.default_rng(1).normal(50, 10, 300))
    one, two = statistics.estimate(values), statistics.estimate_over_tasks([values, values])
    assert (one.high or 0) - (one.low or 0) == pytest.approx(math.sqrt(2) * ((two.high or 0) - (two.low or 0)), rel=0.1)
    assert statistics.estimate_over_tasks([[10.0], []]).mean is None
    assert statistics.estimate_over_tasks([[10.0], [20.0, 20.0]]) == statistics.Estimate(15.0, None, None, 3)


def plan(cases: int, repeats: int = 1) -> list[Play]:
    return [
        Play("SceneAct/Layout-v0", "layout", f"layout-test-{case:04d}", repeat, repeat)
        for case in range(cases)
        for repeat in range(repeats)
    ]


def test_bounds_by_hand() -> None:
    rows = [result(0, 60.0), result(1, 40.0), result(2, status="infra_error")]
    # Case 2 failed, case 3 is missing: (60 + 40 + 0 + 0) / 4 and (60 + 40 + 100 + 100) / 4.
    assert statistics.bounds(rows, plan(4), "paper") == (25.0, 75.0)
    # With two repeats, of which case 0 has 60 and one missing, case 1 both missing: (30 + 0) / 2, (80 + 100) / 2.
    assert statistics.bounds(rows[:1], plan(2, 2), "paper") == (15.0, 90.0)
    assert statistics.bounds(rows[:2], plan(2), "paper") == (50.0, 50.0)
    assert statistics.bounds(rows, None, "paper") == (None, None)


def test_paired_differences_by_hand() -> None:
    found = statistics.paired({"a": 50.0, "b": 70.0, "c": 1.0}, {"a": 40.0, "b": 60.0, "d": 99.0})
    assert (found.mean, found.low, found.high, found.cases) == (10.0, 10.0, 10.0, 2)
    assert statistics.paired({"a": 1.0}, {"b": 1.0}).cases == 0


def test_a_curve_by_hand() -> None:
    at = {"5": {"paper": 10.0, "strict": 1.0}, "10": {"paper": 20.0, "strict": 2.0}}
    rows = [
        result(0, 40.0, checkpoints=at),
        # It ended after 7 steps: at 10 it counts with its end.
        result(1, 80.0, steps=7, checkpoints={"5": {"paper": 50.0, "strict": 5.0}}),
        result(2, status="infra_error"),
    ]
    points = statistics.curve(rows, "paper", [10, 5])
    assert [(step, values.mean, values.cases) for step, values in points] == [(5, 30.0, 2), (10, 50.0, 2)]
    # One of them was not scored after 20 steps.
    assert [step for step, _ in statistics.curve(rows, "paper", [5, 20])] == [5]


# --- runs together ----------------------------------------------------------------------------------------------------


def test_floors_come_from_a_run_of_noop_on_the_same_cases(tmp_path: Path) -> None:
    search = write_run(tmp_path / "search", [result(0, 70.0, 20.0), result(1, 90.0, 40.0)], cases=2)
    noop = write_run(tmp_path / "noop", [result(n, 60.0 + n, 0.0) for n in range(3)], agent="noop", cases=3)
    small = write_run(tmp_path / "small", [result(0, 10.0)], agent="noop", cases=1)
    # The small one lacks a case, and so the floor is of the other one: (60 + 61) / 2.
    found = summarise(load_runs([search, small, noop]))["runs"][0]["tasks"]["layout"]
    paper, strict = found["paper"], found["strict"]
    assert (paper["floor"], paper["floor_from"], paper["lift"]) == (60.5, "noop", 19.5)
    assert (paper["lift_low"], paper["lift_high"]) == (10.0, 29.0)
    assert (strict["floor"], strict["lift"]) == (0.0, 30.0)
    alone = summarise(load_runs([search, small]))
    assert alone["runs"][0]["tasks"]["layout"]["paper"]["floor"] is None
    # Other cases: the same ids of another split.
    about = json.loads((noop / "config.json").read_text())
    about["config"]["split"] = "val"
    (noop / "config.json").write_text(json.dumps(about))
    apart = summarise(load_runs([search, noop]))
    assert apart["runs"][0]["tasks"]["layout"]["paper"]["floor"] is None and apart["pairs"] == []


def test_overall_needs_the_five_tasks_of_the_published_table(tmp_path: Path) -> None:
    five = ("layout", "camera", "articulated", "reconstruction", "dynamic")
    scores = dict(zip(five, (10.0, 20.0, 30.0, 40.0, 50.0), strict=True))
    rows = [result(n, scores[task], task=task) for task in five for n in range(2)]
    rows.append(result(0, 99.0, task="layout_multiview"))
    whole = write_run(tmp_path / "whole", rows, tasks=[*five, "layout_multiview"], cases=2)
    part = write_run(tmp_path / "part", rows[2:], tasks=[*five, "layout_multiview"], cases=2)
    first, second = summarise(load_runs([whole, part]))["runs"]
    assert first["overall"]["paper"]["mean"] == 30.0 and first["overall"]["paper"]["ci_low"] == 30.0
    assert first["overall"]["paper"]["bound_low"] == 30.0 and first["overall"]["paper"]["floor"] is None
    assert second["overall"]["paper"]["mean"] is None


def test_pairs_and_conditions(tmp_path: Path) -> None:
    one = [result(n, 50.0) for n in range(3)] + [result(n, 70.0 + n, task="layout_multiview") for n in range(1, 4)]
    first = write_run(tmp_path / "first", one, tasks=("layout", "layout_multiview"), cases=4)
    second = write_run(tmp_path / "second", [result(2, 30.0), result(9, 0.0)], cases=10)
    other = write_run(tmp_path / "other", [result(0, 5.0, task="camera")], tasks=("camera",), cases=1)
    found = summarise(load_runs([first, second, other]))
    (pair,) = found["pairs"]
    assert (pair["first"], pair["second"], pair["task"]) == ("first", "second", "layout")
    assert (pair["paper"]["mean"], pair["paper"]["cases"], pair["paper"]["ci_low"]) == (20.0, 1, None)
    # Rooms 1 and 2 have both: (71 - 50 + 72 - 50) / 2.
    (condition,) = found["conditions"]
    assert (condition["first"], condition["second"]) == ("layout_multiview", "layout")
    assert (condition["paper"]["mean"], condition["paper"]["cases"]) == (21.5, 2)


@pytest.mark.parametrize("plain, other", [("layout", "layout_multiview"), ("dynamic", "dynamic_photoreal")])
def test_paired_conditions_show_the_same_scene(plain: str, other: str) -> None:
    first, second = (open_source("procedural", task, "test").load(f"{task}-test-0003") for task in (plain, other))
    assert bytes(first.truth["scene.glb"]) == bytes(second.truth["scene.glb"])
    assert first.condition != second.condition


def test_a_funnel_by_hand(tmp_path: Path) -> None:
    edit, bad, look = (
        call("execute_blender_code"),
        call("execute_blender_code", True),
        call("render_scene_view", images=["a"]),
    )
    submit, blind = call("submit"), call("render_scene_view", True)
    rows = [
        result(0, 95.0),
        result(1, 60.0),
        result(2, 10.0000001),
        result(3, 0.0, status="agent_error"),
        result(4, status="infra_error"),
        result(5, 91.0),
    ]
    steps = {
        0: [[edit], [look, submit]],
        1: [[edit, look], []],
        2: [[bad, blind], [call("set_object_pose"), look], [call("get_scene_info")]],
        3: [[bad], [look], [submit]],
        5: [[look], [bad, call("import_component")], [submit]],
    }
    traces = {rows[n]["key"]: steps[n] for n in steps}
    run = write_run(tmp_path / "run", rows, cases=7, traces=traces)
    noop = write_run(tmp_path / "noop", [result(n, 50.0, 10.0) for n in range(7)], agent="noop", cases=7)
    stages = summarise(load_runs([run, noop]))["runs"][0]["tasks"]["layout"]["funnel"]
    assert [(stage["name"], stage["passed"], stage["before"], stage["alone"]) for stage in stages] == [
        ("planned", 7, 7, 7),
        ("played", 5, 7, 5),  # Case 4 failed, case 6 is missing.
        ("edited", 4, 5, 4),  # Case 3 has errors only.
        ("looked", 4, 4, 5),
        ("ended", 3, 4, 4),  # The last turn of case 2 is a plain call; an empty list ends case 1.
        ("valid", 3, 3, 4),
        ("better", 3, 3, 3),  # Case 2 is as good as nothing up to rounding, not better.
        ("half", 3, 3, 3),
        ("most", 2, 3, 2),
    ]
    assert all(stage["total"] == 7 for stage in stages)
    # Without noop, and with a trace that is gone, these stages are not known and hold nobody back.
    (run / "episodes" / rows[0]["folder"] / "trace.jsonl").unlink()
    stages = summarise(load_runs([run]))["runs"][0]["tasks"]["layout"]["funnel"]
    assert [stage["passed"] for stage in stages] == [7, 5, None, None, None, 4, None, 3, 2]


def test_what_is_not_told_is_not_zero() -> None:
    paid = {"input_tokens": 100, "output_tokens": 20, "cached_tokens": 40, "cost_usd": 0.5, "calls": 3}
    found = spending(
        [result(0, usage=paid), result(1, usage={**paid, "cost_usd": None}), result(2, usage={"tokens": 30})]
    )
    assert found["tokens"] == {"mean": 90.0, "total": 270, "known": 3}
    assert found["cost"] == {"mean": 0.5, "total": 0.5, "known": 1}
    assert found["input_tokens"] == {"mean": 100.0, "total": 200, "known": 2}
    assert found["steps"] == {"mean": 30.0, "total": 90, "known": 3}
    assert spending([result(0)])["tokens"] == {"mean": None, "total": None, "known": 0}
    assert spending([result(0, usage={"cost_usd": "free", "input_tokens": True})])["cost"]["known"] == 0


def test_the_last_point_of_a_curve_is_the_end_of_the_budget(tmp_path: Path) -> None:
    at = {"10": {"paper": 20.0, "strict": 2.0}, "30": {"paper": 44.0, "strict": 4.0}}
    run = write_run(tmp_path / "run", [result(0, 44.0, checkpoints=at)], cases=1, checkpoints=[10, 30])
    points = summarise(load_runs([run]))["runs"][0]["tasks"]["layout"]["curve"]["paper"]
    assert [(point["step"], point["mean"]) for point in points] == [(10, 20.0), (30, 44.0)]


# --- folders ----------------------------------------------------------------------------------------------------------


def test_runs_that_are_begun_empty_or_being_written(tmp_path: Path) -> None:
    empty = write_run(tmp_path / "empty", [], cases=3)
    (empty / "episodes.jsonl").unlink()
    torn = write_run(tmp_path / "torn", [result(0, 50.0)], cases=3)
    with (torn / "episodes.jsonl").open("a") as file:
        file.write('{"key": "layout-lay')
    first, second = summarise(load_runs([empty, torn]))["runs"]
    assert first["tasks"]["layout"]["counts"]["missing"] == 3 and first["tasks"]["layout"]["paper"]["mean"] is None
    assert (first["tasks"]["layout"]["paper"]["bound_low"], first["tasks"]["layout"]["paper"]["bound_high"]) == (0, 100)
    assert second["tasks"]["layout"]["counts"]["missing"] == 2 and second["tasks"]["layout"]["paper"]["mean"] == 50.0


def test_a_source_that_is_gone_leaves_missing_unknown(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", [result(0, 50.0)])
    about = json.loads((run / "config.json").read_text())
    about["config"]["source"] = str(tmp_path / "moved")
    (run / "config.json").write_text(json.dumps(about))
    found = summarise(load_runs([run]))
    assert found["runs"][0]["tasks"]["layout"]["counts"]["missing"] is None
    assert found["runs"][0]["tasks"]["layout"]["paper"]["bound_low"] is None
    assert any("not here any more" in note for note in found["notes"])


def test_the_row_that_counts_is_the_one_with_a_score(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", [result(0, status="infra_error"), result(0, 70.0, attempt=2)], cases=1)
    counts = summarise(load_runs([run]))["runs"][0]["tasks"]["layout"]["counts"]
    assert counts == {"planned": 1, "ok": 1, "agent_error": 0, "infra_error": 0, "missing": 0}


def test_runs_of_one_name_are_told_apart(tmp_path: Path) -> None:
    folders = [write_run(tmp_path / letter / name, []) for letter, name in (("a", "x y"), ("b", "x-y"), ("c", "X y"))]
    assert [run.name for run in load_runs(folders)] == ["x-y", "x-y-2", "X-y-3"]
    with pytest.raises(SceneActError, match="given twice"):
        load_runs([folders[0], folders[0].parent / "." / folders[0].name])


@pytest.mark.parametrize(
    "change, words",
    [
        ({"key": "../../etc/passwd"}, "its key cannot name a file"),
        ({"folder": ".."}, "its folder cannot name a file"),
        ({"task": "chess"}, "its task is not known"),
        ({"status": "fine"}, "its status is not known"),
        ({"score_paper": 1e9}, "its score_paper is no number from 0 to 100"),
        ({"score_strict": float("nan")}, "its score_strict is no number from 0 to 100"),
        ({"status": "infra_error"}, "it is an infra_error with a score"),
        ({"steps": "many"}, "its steps is no number"),
        ({"usage": [1]}, "its usage is no JSON object"),
        ({"checkpoints": {"5": 3}}, "its checkpoints are no scores"),
    ],
)
def test_damaged_rows_are_named(tmp_path: Path, change: dict, words: str) -> None:
    run = write_run(tmp_path / "run", [result(0), {**result(1), **change}])
    with pytest.raises(SceneActError, match=f"line 2 is no result of an episode .{words}"):
        load_runs([run])


def test_folders_that_are_no_runs(tmp_path: Path) -> None:
    for name in ("nothing", "damaged", "other", "lines"):
        (tmp_path / name).mkdir()
    (tmp_path / "damaged" / "config.json").write_text("{")
    (tmp_path / "other" / "config.json").write_text('{"package": "1", "config": {"colour": "red"}}')
    for folder, words in (
        (tmp_path / "absent", "is no folder"),
        (tmp_path / "nothing", "has no config.json"),
        (tmp_path / "damaged", "cannot be read"),
        (tmp_path / "other", "is no configuration"),
    ):
        with pytest.raises(SceneActError, match=words):
            load_runs([folder])
    run = write_run(tmp_path / "run", [result(0)])
    with (run / "episodes.jsonl").open("a") as file:
        file.write("half a li\n" + json.dumps(result(1)) + "\n")
    with pytest.raises(SceneActError, match="line 2 is no result"):
        load_runs([run])
