"""Stored submissions scored again: run folders of this package, and what is wrong with them."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result
from typer.testing import CliRunner

from sceneact_gym import cli
from sceneact_gym._version import __version__
from sceneact_gym.bench.folder import read_config, read_rows, results
from sceneact_gym.blender.session import BlenderSession
from sceneact_gym.data.sources import open_source
from sceneact_gym.tasks import TASKS
from sceneact_gym.trace import read_trace

TASK_LIST = ["layout", "camera", "articulated", "dynamic"]
SMALL = ["--cases", "1", "--samples", "1", "--render-size", "32", "--reference-size", "32", "--quiet"]


def bench(out: Path, agent: str, tasks: str, *more: str) -> Path:
    said = CliRunner().invoke(cli.app, ["bench", "--agent", agent, "--tasks", tasks, *SMALL, *more, "--out", str(out)])
    assert said.exit_code == 0, said.output
    return out


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One episode per kind of submission, played by the oracle."""
    return bench(tmp_path_factory.mktemp("played") / "run", "oracle", ",".join(TASK_LIST), "--checkpoints", "1")


@pytest.fixture
def run(played: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of it to spoil, on a machine without Blender."""

    def refuse(*_: Any, **__: Any) -> None:
        raise AssertionError("Blender was started")

    monkeypatch.setattr(BlenderSession, "start", refuse)
    return Path(shutil.copytree(played, tmp_path / "run"))


def score_run(*arguments: Any) -> Result:
    return CliRunner().invoke(cli.app, ["score-run", *map(str, arguments)], env={"COLUMNS": "250"})


def told(*arguments: Any, code: int = 0) -> dict[str, Any]:
    said = score_run(*arguments, "--json")
    assert said.exit_code == code, (said.output, said.exception)
    return json.loads(said.output)


def rows_of(folder: Path) -> dict[str, dict[str, Any]]:
    return {row["task"]: row for row in results(read_rows(folder)[0]).values()}


def rewrite(folder: Path, change: Callable[[dict[str, Any]], None]) -> None:
    """Changes the rows of a run folder."""
    rows = read_rows(folder)[0]
    for row in rows:
        change(row)
    (folder / "episodes.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))


def contents(folder: Path) -> dict[str, str]:
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def by_task(answer: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {episode["task"]: episode for episode in answer["episodes"]}


# --- equal and changed ------------------------------------------------------------------------------------------------


def test_the_same_version_gives_the_same_scores_without_blender(run: Path) -> None:
    before = contents(run)
    answer = told(run)
    assert [episode["task"] for episode in answer["episodes"]] == TASK_LIST
    assert answer["summary"] == {
        "episodes": 4, "equal": 4, "changed": 0, "damaged": 0, "infra_error": 0, "without_submission": 0,
        "largest_change": {"paper": 0.0, "strict": 0.0},
    }  # fmt: skip
    for episode in answer["episodes"]:
        assert episode["new"]["score_strict"] > 99 and episode["new"]["score"] == episode["new"]["score_paper"]
        assert episode["difference"] == {"paper": 0.0, "strict": 0.0}
    assert contents(run) == before
    said = score_run(run)
    assert said.exit_code == 0 and "4 equal bit for bit, 0 changed" in said.output and "version" not in said.output


def test_what_differs_is_shown(run: Path) -> None:
    true = {task: row["score_strict"] for task, row in rows_of(run).items()}

    def change(row: dict[str, Any]) -> None:
        if row["task"] == "layout":
            row["score_strict"] = true["layout"] - 30
        elif row["task"] == "dynamic":
            row["score_paper"] += 1e-12 * row["score_paper"]
            row["score"] = row["score_paper"]
        elif row["task"] == "camera":
            row["metrics"]["ae"] += 1

    rewrite(run, change)
    answer = told(run, code=1)
    found = by_task(answer)
    assert {task: found[task]["verdict"] for task in TASK_LIST} == {
        "layout": "changed", "camera": "changed", "articulated": "equal", "dynamic": "changed",
    }  # fmt: skip
    assert found["layout"]["message"] == "score_strict" and found["camera"]["message"] == "metrics"
    assert found["dynamic"]["message"] == "score, score_paper"
    assert found["layout"]["difference"]["strict"] == pytest.approx(30)
    assert answer["summary"]["largest_change"]["strict"] == pytest.approx(30)
    assert answer["summary"]["equal"] == 1 and answer["summary"]["changed"] == 3
    # What only `strict` changed is no difference under `paper`, and its other way round.
    assert by_task(told(run, "--protocol", "paper", code=1))["layout"]["verdict"] == "equal"
    only = by_task(told(run, "--protocol", "strict", code=1))
    assert {task for task in only if only[task]["verdict"] == "changed"} == {"layout"}
    assert only["layout"]["new"] == {"score_strict": true["layout"]}
    said = score_run(run)
    assert said.exit_code == 1 and "+30" in said.output and "3 changed" in said.output


def test_another_version_is_noted(run: Path, tmp_path: Path) -> None:
    about = read_config(run)
    (run / "config.json").write_text(json.dumps({**about, "package": "0.0.1"}))
    said = score_run(run, "--out", tmp_path / "new")
    assert said.exit_code == 0
    assert f"begun with version 0.0.1, the new scores are of version {__version__}" in said.output
    assert read_config(tmp_path / "new") == about | {"package": __version__}
    assert read_config(run)["package"] == "0.0.1"
    # What another version knew besides is left out, and said; what this one cannot take is not.
    other = {**about["config"], "mood": 1, "tasks": [*about["config"]["tasks"], "chess"]}
    other["options"] = {**about["config"]["options"], "weather": "fine"}
    (run / "config.json").write_text(json.dumps({"package": "9.0", "config": other}))
    said = score_run(run, "--out", tmp_path / "newer")
    assert said.exit_code == 0 and "left out of the configuration: mood, options.weather, task chess" in said.output
    assert read_config(tmp_path / "newer")["config"] == about["config"]
    (run / "config.json").write_text(json.dumps({"package": "9.0", "config": {**other, "repeats": "many"}}))
    assert "begun with version 9.0, does not fit version" in str(score_run(run).exception)


# --- without a score --------------------------------------------------------------------------------------------------


def folder_of(run: Path) -> Path:
    return run / "episodes" / rows_of(run)["layout"]["folder"]


def flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[-5] ^= 1
    path.write_bytes(bytes(data))


DAMAGE: dict[str, tuple[Callable[[Path], Any], str]] = {
    "a bit": (lambda run: flip(folder_of(run) / "scene.glb"), "scene.glb in episodes/layout"),
    "no GLB": (lambda run: (folder_of(run) / "scene.glb").unlink(), "or is missing"),
    "one more file": (lambda run: (folder_of(run) / "more.glb").write_bytes(b"x"), "more.glb"),
    "other JSON": (lambda run: (folder_of(run) / "submission.json").write_text('{"objects": []}'), "was changed"),
    "no JSON": (lambda run: (folder_of(run) / "submission.json").write_text("{"), "is not JSON"),
    "no file": (lambda run: (folder_of(run) / "submission.json").unlink(), "submission.json in episodes"),
    "no folder": (lambda run: shutil.rmtree(folder_of(run)), "is missing"),
    "never a folder": (lambda run: layout(run, folder=None), "has no folder"),
    "elsewhere": (lambda run: layout(run, folder="../episodes"), "is no name of a folder"),
    "the run itself": (lambda run: layout(run, folder=".."), "is no name of a folder"),
    "no hash": (lambda run: layout(run, submission_hash=None), "no submission_hash"),
    "of nothing": (lambda run: layout(run, submission_hash=None, status="agent_error"), "without one"),
    "no such case": (lambda run: layout(run, case_id="layout-test-9999"), "layout-test-9999"),
    "no such task": (lambda run: layout(run, task="chess"), "no task 'chess'"),
}


def layout(run: Path, **values: Any) -> None:
    rewrite(run, lambda row: row.update(values) if row["task"] == "layout" else None)


@pytest.mark.parametrize("name", DAMAGE)
def test_damage_is_no_score_and_stops_nothing(run: Path, name: str) -> None:
    spoil, message = DAMAGE[name]
    spoil(run)
    # The others are scored for real above.
    fast = [row for row in read_rows(run)[0] if row["task"] in ("layout", "chess", "camera")]
    (run / "episodes.jsonl").write_text("".join(json.dumps(row) + "\n" for row in fast))
    bad, good = told(run, code=1)["episodes"]
    assert bad["verdict"] == "damaged" and message in bad["message"] and bad["new"] == {}
    assert bad["difference"] == {"paper": None, "strict": None}
    assert good["verdict"] == "equal"


def test_a_fault_of_an_evaluator_is_no_score(run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: Any) -> None:
        raise ZeroDivisionError("of the evaluator")

    monkeypatch.setattr(type(TASKS["layout"]), "evaluate", broken)
    answer = told(run, "--out", tmp_path / "new", code=1)
    found = by_task(answer)["layout"]
    assert found["verdict"] == "damaged" and "the evaluator failed: ZeroDivisionError" in found["message"]
    assert answer["summary"]["equal"] == 3 and answer["summary"]["damaged"] == 1
    row = rows_of(tmp_path / "new")["layout"]
    assert row["status"] == "infra_error" and row["score"] is None is row["score_paper"] is row["score_strict"]
    assert "the evaluator failed" in row["reason"] and row["rescored_from"]["score_strict"] > 99


def test_infrastructure_errors_are_left_alone(run: Path, tmp_path: Path) -> None:
    """Even where a perfect submission lies beside one, it must not become a score."""
    layout(run, status="infra_error", score=None, score_paper=None, score_strict=None, reason="Blender died")
    answer = told(run, "--out", tmp_path / "new")
    assert by_task(answer)["layout"]["verdict"] == "infra_error" and by_task(answer)["layout"]["new"] == {}
    assert answer["summary"]["infra_error"] == 1 and answer["summary"]["equal"] == 3
    assert rows_of(tmp_path / "new")["layout"] == rows_of(run)["layout"]


def test_nothing_submitted_stays_nothing(run: Path, tmp_path: Path) -> None:
    """As a row of an episode whose agent left no mesh: no metric, and 0."""
    names = "f5 match_rate centroid_err region_f5 coverage scene_f2 scene_f5 scene_f10 chamfer".split()
    row = {
        "key": "reconstruction-reconstruction-test-0000-r0", "attempt": 1, "folder": None, "task": "reconstruction",
        "case_id": "reconstruction-test-0000", "status": "agent_error", "reason": "no mesh", "submission_hash": None,
        "score": 0.0, "score_paper": 0.0, "score_strict": 0.0, "metrics": dict.fromkeys(names),
    }  # fmt: skip
    (run / "episodes.jsonl").write_text(json.dumps(row) + "\n")
    answer = told(run, "--out", tmp_path / "new")
    assert answer["summary"]["equal"] == 1 and answer["summary"]["without_submission"] == 1
    again = rows_of(tmp_path / "new")["reconstruction"]
    assert (again["status"], again["score"], again["score_strict"]) == ("agent_error", 0, 0)


def test_damaged_lines_are_told(run: Path) -> None:
    lines = (run / "episodes.jsonl").read_text().splitlines(keepends=True)
    # A run that is being written: its last line will be whole some day.
    (run / "episodes.jsonl").write_text(lines[1] + lines[0][:40])
    assert told(run)["unread"] == ""
    (run / "episodes.jsonl").write_text(lines[1] + lines[0][:40] + "\n" + lines[2])
    answer = told(run, code=1)
    assert "line 2 of episodes.jsonl is damaged" in answer["unread"] and len(answer["episodes"]) == 1
    (run / "episodes.jsonl").write_text(
        lines[1] + '{"key": "x"}\n[1]\n' + json.dumps({**json.loads(lines[0]), "key": "../x"}) + "\n"
    )
    assert "3 lines of episodes.jsonl are no results" in told(run, code=1)["unread"]
    assert "are no results" in score_run(run).output


# --- a new folder -----------------------------------------------------------------------------------------------------


def test_a_new_folder_that_everything_reads(run: Path, tmp_path: Path) -> None:
    true = rows_of(run)
    layout(run, score=1.0, score_paper=1.0, score_strict=2.0, metrics={}, attempt=3, folder="layout-a3")
    (run / "episodes" / true["layout"]["folder"]).rename(run / "episodes" / "layout-a3")
    flip(run / "episodes" / true["dynamic"]["folder"] / "scene.glb")
    before = contents(run)
    said = score_run(run, "--out", tmp_path / "new")
    assert said.exit_code == 1 and contents(run) == before
    assert read_config(tmp_path / "new") == read_config(run)
    found = rows_of(tmp_path / "new")
    old = {"score": 1.0, "score_paper": 1.0, "score_strict": 2.0, "metrics": {}, "status": "ok", "reason": ""}
    assert found["layout"] == {**true["layout"], "rescored_from": old | {"package": __version__, "attempt": 3}}
    assert found["camera"]["checkpoints"] == true["camera"]["checkpoints"]
    assert found["dynamic"]["status"] == "infra_error" and found["dynamic"]["score"] is None
    assert "not scored again: " in found["dynamic"]["reason"] and found["dynamic"]["metrics"] == {}
    # Scored again, the new folder has nothing new, besides the episode without a score.
    again = told(tmp_path / "new")
    assert again["summary"]["equal"] == 3 and again["summary"]["infra_error"] == 1
    shown = CliRunner().invoke(cli.app, ["show", str(tmp_path / "new"), "--picture", str(tmp_path / "p.png")])
    assert shown.exit_code == 0 and (tmp_path / "p.png").stat().st_size > 500, shown.output
    written = tmp_path / "report.json"
    reported = CliRunner().invoke(cli.app, ["report", str(tmp_path / "new"), "--json", str(written)])
    assert reported.exit_code == 0 and f"{found['camera']['score_paper']}" in written.read_text(), reported.output
    for task in TASK_LIST:
        *_, end = read_trace(tmp_path / "new" / "episodes" / found[task]["folder"])
        assert end["event"] == "end" and end["score"] == found[task]["score"]
        assert end["scores"]["strict"] == found[task]["score_strict"]


def test_where_the_new_folder_may_be(run: Path, tmp_path: Path) -> None:
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "x").touch()
    for out, message in ((run / "new", "inside"), (run, "inside"), (tmp_path / "full", "not empty")):
        said = score_run(run, "--out", out)
        assert said.exit_code != 0 and message in str(said.exception)
    said = score_run(run, "--out", tmp_path / "new", "--protocol", "strict")
    assert "both protocols" in str(said.exception) and not (tmp_path / "new").exists()
    assert "is no folder" in str(score_run(tmp_path / "nowhere").exception)
    assert "protocol must be" in str(score_run(run, "--protocol", "loose").exception)


def test_cases_that_have_moved(run: Path, tmp_path: Path) -> None:
    case = open_source("procedural", "camera", "test").load("camera-test-0000")
    case.save(tmp_path / "cases" / "one")
    about = read_config(run)
    about["config"] |= {"source": "/no/such/folder", "tasks": ["camera"]}
    (run / "config.json").write_text(json.dumps(about))
    row = rows_of(run)["camera"]
    (run / "episodes.jsonl").write_text(json.dumps(row) + "\n")
    (episode,) = told(run, code=1)["episodes"]
    assert episode["verdict"] == "damaged" and "/no/such/folder" in episode["message"]
    (episode,) = told(run, "--source", tmp_path / "cases", "--out", tmp_path / "new")["episodes"]
    assert episode["verdict"] == "equal"
    assert read_config(tmp_path / "new")["config"]["source"] == str(tmp_path / "cases")
