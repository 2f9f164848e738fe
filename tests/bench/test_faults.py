"""A fault of Blender, host, package or model server never becomes a score, wherever it happens."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sceneact_gym.bench import runner
from sceneact_gym.bench.executors import Finished
from sceneact_gym.bench.folder import RunFolder, results
from sceneact_gym.bench.plan import BenchConfig, Play
from sceneact_gym.bench.player import episode_row
from sceneact_gym.bench.summary import task_summaries
from tests.agents.model_server import KEY, Fault, ModelServer, Say, Status, serve
from tests.bench.faulty_agent import BEFORE, DURING, HARMLESS, MOVE

SMALL: dict[str, Any] = {"render_size": 32, "reference_size": 32, "render": {"samples": 1}}
FAULTS = [*BEFORE, *DURING]
"""In the order in which they are tried: the first one needs references that were never rendered."""
REASONS = {
    "the references cannot be rendered": "did not start",
    "Blender exits when it starts": "did not start",
    "Blender hangs when it starts": "did not finish within 0.5 seconds",
    "Blender dies while it builds the scene": "Blender did not start",
    "the task's prompts have a mistake": "the environment failed",
    "the disk is full when the trace begins": "No space left on device",
    "the disk is full when a picture is written": "No space left on device",
    "Blender dies in a call and stays dead": "could not be brought back",
    "Blender dies in the collection and stays dead": "could not be brought back",
    "the collection has a mistake": "the collection of the scene failed",
    "the evaluator has a mistake": "the evaluator failed",
    "the disk is full when the end is written": "No space left on device",
}


def config(agent: str = "Faulty", cases: int = 2) -> BenchConfig:
    return BenchConfig(f"tests.bench.faulty_agent:{agent}", ["camera"], cases, options=SMALL)


def played(path: Path, made: BenchConfig | None = None) -> list[dict[str, Any]]:
    """All rows of a run that is begun, or gone on with."""
    with RunFolder(path, made) as folder:
        return list(runner.run_bench(folder))


def counting(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """What of the results must not depend on faults."""
    other = ("seconds", "attempt", "folder", "usage")
    return {key: {k: v for k, v in row.items() if k not in other} for key, row in sorted(results(rows).items())}


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, Path]]:
    """Runs of two cases: in one the first case meets every fault after the other, the second one is undisturbed."""
    root = tmp_path_factory.mktemp("faults")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SCENEACT_CACHE", str(root / "cache"))
        patch.setenv("FAULTS", str(root / "faults"))
        patch.setattr(runner, "TRIES", len(FAULTS))
        first, *others = FAULTS
        (root / "faults").write_text("\n".join([first, HARMLESS, *others]))
        played(root / "faulty", config())
        assert (root / "faults").read_text() == ""
        played(root / "calm", config())
        yield root / "faulty", root / "calm"


def rows_of(path: Path) -> list[dict[str, Any]]:
    with RunFolder(path) as folder:
        return list(folder.rows)


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_is_no_score_and_its_reason_says_where_it_was(folders: tuple[Path, Path], name: str) -> None:
    rows = [row for row in rows_of(folders[0]) if row["case_id"] == "camera-test-0000"]
    assert len(rows) == len(FAULTS) and [row["attempt"] for row in rows] == list(range(1, len(FAULTS) + 1))
    row = rows[FAULTS.index(name)]
    assert row["status"] == "infra_error" and REASONS[name] in row["reason"] and "the agent" not in row["reason"]
    assert row["score"] is None and row.get("score_paper") is None and row.get("score_strict") is None
    assert row["metrics"] == {}


def test_a_blender_that_comes_back_changes_nothing(folders: tuple[Path, Path]) -> None:
    faulty, calm = (counting(rows_of(folder))["camera-camera-test-0001-r0"] for folder in folders)
    assert faulty == calm and calm["status"] == "ok" and calm["score"] is not None


def test_faults_are_counted_apart_and_a_resume_gives_the_undisturbed_score(folders: tuple[Path, Path]) -> None:
    faulty, calm = folders
    told = task_summaries(config(), rows_of(faulty))["camera"]
    assert (told["ok"], told["agent_error"], told["infra_error"]) == (1, 0, 1)
    true = counting(rows_of(calm))
    # The mean is that of the case with a score; a 0 for the other one would halve it.
    assert told["paper"].value == true["camera-camera-test-0001-r0"]["score_paper"] > 10
    rows = played(faulty)
    assert len(rows) == len(FAULTS) + 2 and counting(rows) == true
    assert {row["status"] for row in true.values()} == {"ok"}
    told = task_summaries(config(), rows)["camera"]
    assert (told["ok"], told["infra_error"]) == (2, 0)


class Pretender:
    """An executor without Blender: each episode has a record and a score at once."""

    jobs = 1

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def start(self, play: Play) -> None:
        self.play = play

    def finished(self) -> Finished:
        record = self.folder / "record"
        record.mkdir()
        result = {"status": "ok", "score": 7.0, "reason": "", "metrics": {}}
        return Finished(self.play, episode_row(self.play, result, 1.0), record)

    def close(self) -> None:
        pass


def test_a_disk_without_room_for_results_ends_the_run_and_loses_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runner, "open_executor", lambda name, folder, jobs, say: Pretender(folder.playing))
    sync, synced = os.fsync, 0

    def full(file: int) -> None:
        nonlocal synced
        synced += 1
        if synced > 1:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        sync(file)

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(OSError, match="No space left"):
            played(tmp_path / "run", config(cases=3))
    (kept,) = rows_of(tmp_path / "run")
    assert kept["case_id"] == "camera-test-0000" and kept["score"] == 7
    rows = played(tmp_path / "run")
    assert rows[0] == kept and [row["case_id"] for row in rows] == [f"camera-test-000{i}" for i in range(3)]
    # The record of the episode that had no line went before it was played again.
    names = [row["folder"] for row in rows]
    assert sorted(path.name for path in (tmp_path / "run" / "episodes").iterdir()) == names
    assert [row["attempt"] for row in rows] == [1, 1, 1]


# --- the model's server -----------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def server() -> Iterator[ModelServer]:
    with serve() as model:
        yield model


def test_a_model_server_that_fails_is_no_zero(
    server: ModelServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """That both APIs notice all faults is tested with the agent."""
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setenv("SERVER", server.base_url("openai"))
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    faults = {"HTTP 500": Status(500), "Connection error": Fault("drop"), "timed out": Fault("slow")}
    monkeypatch.setattr(runner, "TRIES", len(faults))
    move = Say(calls=(("execute_blender_code", {"code": MOVE}),))
    # Each attempt goes well until its second turn, for which the server is asked twice.
    server.play(*[step for fault in faults.values() for step in (move, fault, fault)])
    rows = played(tmp_path / "run", config("impatient_model", cases=1))
    assert server.script == [] and len(server.seen) == 3 * len(faults)
    for row, reason in zip(rows, faults, strict=True):
        assert row["status"] == "infra_error" and row["score"] is None and row["metrics"] == {}
        assert "no reply of the model after 2 tries" in row["reason"] and reason in row["reason"]
        # What it took is known all the same.
        assert row["usage"]["calls"] == 1 and row["usage"]["retries"] == 1
    server.play(move, Say(calls=(("submit", {}),)))
    last = played(tmp_path / "run")[-1]
    assert last["status"] == "ok" and last["attempt"] == len(faults) + 1 and last["score"] > 10
