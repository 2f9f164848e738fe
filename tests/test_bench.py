"""Benchmark runs: what is played, the run folder, and what faults, kills and interruptions leave of it."""

from __future__ import annotations

import hashlib
import json
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from sceneact_gym import cli, cli_bench
from sceneact_gym._version import __version__
from sceneact_gym.agents import NoopAgent
from sceneact_gym.bench.folder import RunFolder, results
from sceneact_gym.bench.plan import BenchConfig, plays
from sceneact_gym.bench.player import episode_row, load_agent, no_score
from sceneact_gym.bench.runner import run_bench
from sceneact_gym.bench.summary import task_summaries
from sceneact_gym.errors import CaseNotFound, SceneActError
from tests.agents.model_server import KEY, Fault, ModelServer, Say, Seen, serve

ROOT = Path(__file__).resolve().parents[1]
SMALL: dict[str, Any] = {"render_size": 32, "reference_size": 32, "render": {"samples": 1}}
PATIENCE = 120.0


def config(agent: str = "noop", **changes: Any) -> BenchConfig:
    return BenchConfig(**{"agent": agent, "tasks": ["camera"], "cases": 3, "options": SMALL} | changes)


def played(path: Path, made: BenchConfig, jobs: int = 1) -> list[dict[str, Any]]:
    with RunFolder(path, made) as folder:
        return run_bench(folder, jobs)


def counting(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """What of the results must not depend on faults, order or time."""
    other = ("seconds", "attempt", "folder", "usage")
    return {key: {k: v for k, v in row.items() if k not in other} for key, row in sorted(results(rows).items())}


# --- what is played ---------------------------------------------------------------------------------------------------


def test_the_plan() -> None:
    made = config(tasks=["camera", "dynamic"], cases=2, repeats=2, seed=5)
    keys = [play.key for play in plays(made)]
    assert keys == [
        f"{task}-{task}-test-{case:04d}-r{repeat}"
        for task in ("camera", "dynamic")
        for case in (0, 1)
        for repeat in (0, 1)
    ]
    assert [play.seed for play in plays(made)] == [5, 6] * 4
    assert len(plays(config(tasks=["camera", "dynamic"], cases=None))) == 20 + 10
    assert BenchConfig.from_dict(json.loads(json.dumps(made.as_dict()))) == BenchConfig(**made.as_dict())
    only = config(tasks=["camera", "dynamic"], case_ids=("dynamic-test-0003",))
    assert [play.key for play in plays(only)] == ["dynamic-dynamic-test-0003-r0"]
    # An endless split: each task plays its own cases too. What is named twice is played once.
    ids = ("layout-train-0004", "camera-train-123456", "layout-train-0004")
    ends = config(tasks=["camera", "layout", "camera"], split="train", case_ids=ids)
    assert [play.case_id for play in plays(ends)] == ["camera-train-123456", "layout-train-0004"]


def test_episodes_beyond_the_plan_are_not_missing() -> None:
    rows = [{**row(play.key), "task": "camera"} for play in plays(config(cases=3))]
    assert [task_summaries(config(cases=n), rows[:2])["camera"]["missing"] for n in (1, 2, 5)] == [0, 0, 3]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"tasks": ["chess"]}, "chess is no task"),
        ({"tasks": []}, "tasks must be some of"),
        ({"cases": 0}, "at least 1"),
        ({"seed": -1}, "seed must be at least 0"),
        ({"split": "train", "case_ids": ("camera-train-1",)}, "camera-train-1"),
        ({"time_limit": 0}, "time_limit must be above 0"),
        ({"split": "train", "cases": None}, "has no end"),
        ({"case_ids": ("camera-test-9999",)}, "camera-test-9999"),
        ({"options": {"render": {"engine": "povray"}}}, "engine must be one of"),
        ({"options": {"no_such": 1}}, "options must be arguments of an environment.*no_such"),
    ],
)
def test_impossible_plans_are_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        plays(config(**changes))


def test_agents_by_name_and_by_import(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    (tmp_path / "my_own_agents.py").write_text("def make(env, seed):\n    return ('agent', seed)\n")
    assert load_agent("noop") is NoopAgent
    assert load_agent("my_own_agents:make")(None, 3) == ("agent", 3)
    for spec, message in (
        ("nobody", "there is no agent"),
        ("my_own_agents:nobody", "cannot be imported"),
        ("no_such_module:make", "cannot be imported"),
        ("json:__doc__", "cannot be called"),
    ):
        with pytest.raises(ValueError, match=message):
            load_agent(spec)


# --- the folder -------------------------------------------------------------------------------------------------------


def row(key: str, status: str = "ok", **values: Any) -> dict[str, Any]:
    return {"key": key, "case_id": key, "status": status, "folder": None, "score": 1.0, **values}


def test_only_whole_lines_count(tmp_path: Path) -> None:
    with RunFolder(tmp_path / "run", config()) as folder:
        folder.add(row("a"))
        folder.add(row("b", "infra_error", score=None))
    path = tmp_path / "run" / "episodes.jsonl"
    whole = path.read_bytes()
    for cut in (b'{"key": "c", "sta', b'{"key": "c", "status": "ok", "folder": null, "score": 1.0}'):
        path.write_bytes(whole + cut)
        with RunFolder(tmp_path / "run") as folder:
            assert folder.done() == {"a"} and folder.attempts("b") == 1
            folder.add(row("b"))
            assert folder.done() == {"a", "b"}
        assert path.read_bytes() == whole + json.dumps(row("b")).encode() + b"\n"
    # The row that has a score is the one that counts.
    assert results([row("x", "infra_error"), row("x", score=7.0), row("x", "infra_error")])["x"]["score"] == 7.0


@pytest.mark.parametrize("damage", [b"\n", b"{}}\n", b"5\n"])
def test_a_damaged_line_costs_no_result(tmp_path: Path, damage: bytes) -> None:
    with RunFolder(tmp_path / "run", config()) as folder:
        (folder.episodes / "kept").mkdir()
        folder.add(row("a"))
        folder.add(row("b", folder="kept"))
    path = tmp_path / "run" / "episodes.jsonl"
    first, second = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(first + damage + second)
    with pytest.raises(SceneActError, match="line 2 is no result"):
        RunFolder(tmp_path / "run")
    assert path.read_bytes() == first + damage + second and (tmp_path / "run" / "episodes" / "kept").is_dir()


def test_a_folder_belongs_to_one_process(tmp_path: Path) -> None:
    with RunFolder(tmp_path / "run", config()), pytest.raises(SceneActError, match="another process is writing"):
        RunFolder(tmp_path / "run")
    with pytest.raises(SceneActError, match="not empty"):
        RunFolder(tmp_path / "run", config())
    with pytest.raises(SceneActError, match="is no run folder"):
        RunFolder(tmp_path / "elsewhere")
    (tmp_path / "run" / "config.json").write_text('{"package": "0.0.1", "config": {}}')
    with pytest.raises(SceneActError, match="version 0.0.1"):
        RunFolder(tmp_path / "run")
    (tmp_path / "run" / "config.json").write_text('{"package": "' + __version__ + '", "config": {"chess": 1}}')
    with pytest.raises(ValueError, match="is no configuration of a run.*chess"):
        RunFolder(tmp_path / "run")


def test_leftovers_are_removed(tmp_path: Path) -> None:
    with RunFolder(tmp_path / "run", config()) as folder:
        (folder.episodes / "kept").mkdir()
        folder.add(row("a", folder="kept"))
    # As a process leaves it that is killed.
    (folder.episodes / "moved-but-never-written").mkdir()
    (folder.playing / "half").mkdir(parents=True)
    (folder.episodes / "a-note-of-the-user").touch()
    with RunFolder(tmp_path / "run") as folder:
        assert {path.name for path in folder.episodes.iterdir()} == {"kept", "a-note-of-the-user"}
        assert not list(folder.playing.iterdir())


def test_a_full_disk_keeps_what_is_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with RunFolder(tmp_path / "run", config()) as folder:
        folder.add(row("a"))
        before = folder.lines.read_bytes()

        def full(_: int) -> None:
            raise OSError(28, "No space left on device")

        monkeypatch.setattr(os, "fsync", full)
        with pytest.raises(OSError, match="No space"):
            folder.add(row("b"))
        assert folder.lines.read_bytes() == before and folder.done() == {"a"}


def test_a_line_that_fits_in_part_only_is_taken_back(tmp_path: Path) -> None:
    with RunFolder(tmp_path / "run", config()) as folder:
        folder.add(row("a"))
        before = folder.lines.read_bytes()
        limits = resource.getrlimit(resource.RLIMIT_FSIZE)
        # As on a full disk: the file takes half of the next line.
        resource.setrlimit(resource.RLIMIT_FSIZE, (len(before) + 500, limits[1]))
        try:
            with pytest.raises(OSError, match="too large"):
                folder.add(row("b", reason="x" * 600))
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        assert folder.lines.read_bytes() == before and folder.done() == {"a"}


# --- runs -------------------------------------------------------------------------------------------------------------


def test_a_run_and_its_folder(tmp_path: Path) -> None:
    made = config("oracle", tasks=["camera", "layout"], cases=2, options={**SMALL, "checkpoints": [1]})
    rows = played(tmp_path / "run", made)
    assert [row["key"] for row in rows] == [play.key for play in plays(made)]
    assert {row["status"] for row in rows} == {"ok"} and all(row["score_strict"] > 99 for row in rows)
    assert all(row["privileged"] and row["seconds"] > 0 for row in rows)
    for row in rows:
        names = {path.name for path in (tmp_path / "run" / "episodes" / row["folder"]).iterdir()}
        assert {"trace.jsonl", "images", "submission.json"} <= names
        assert ("scene.glb" in names) == (row["task"] == "layout")
    assert sorted(path.name for path in (tmp_path / "run").iterdir()) == [
        "config.json", "episodes", "episodes.jsonl", "lock",
    ]  # fmt: skip
    # Nothing is missing: nothing is played.
    with RunFolder(tmp_path / "run") as folder:
        assert run_bench(folder) == rows
    assert len((tmp_path / "run" / "episodes.jsonl").read_text().splitlines()) == 4


def test_what_an_agent_tells_of_its_cost_never_ends_a_run() -> None:
    class Told:
        usage: Any = {"tokens": np.int64(3), "cost_usd": float("nan"), "by_turn": (np.float32(0.5), Path("x")), 4: True}

    class Fails:
        @property
        def usage(self) -> Any:
            raise RuntimeError("no usage")

    (play,) = plays(config(cases=1))
    usage = [episode_row(play, no_score(""), 1.0, agent)["usage"] for agent in (Told(), Fails(), object())]
    assert usage == [
        {"tokens": 3, "cost_usd": None, "by_turn": [0.5, "x"], "4": True}, {"unknown": "RuntimeError: no usage"}, None,
    ]  # fmt: skip
    assert json.loads(json.dumps(usage, allow_nan=False)) == usage


def test_two_players_give_what_one_gives(tmp_path: Path) -> None:
    made = config("random", cases=4, options={**SMALL, "max_steps": 3})
    one, two = played(tmp_path / "one", made), played(tmp_path / "two", made, jobs=2)
    assert counting(one) == counting(two) and len(counting(one)) == 4


AGENT = """
import os, signal
from pathlib import Path
from sceneact_gym.errors import InfraError

class Agent:
    usage = {"tokens": 12}
    def __init__(self, env, seed):
        self.env = env
    def act(self, observation, info):
        marks = Path(__file__).parent / "marks"
        marks.mkdir(exist_ok=True)
        mark = marks / info["case_id"]
        if mark.exists():
            return []
        mark.touch()
        FAULT
"""
FAULTS = {
    "the player is killed": ("os.kill(os.getpid(), signal.SIGKILL)", "exit code -9"),
    "the agent has a mistake": ("return [][1]", "IndexError"),
    "the model server is down": ("raise InfraError('the model server does not answer')", "does not answer"),
    "the agent's disk is full": ("raise OSError(28, 'No space left on device')", "the agent failed: "),
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_is_no_score_and_is_played_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    module = f"agent_{abs(hash(name))}"
    fault, reason = FAULTS[name]
    (tmp_path / f"{module}.py").write_text(AGENT.replace("FAULT", fault))
    first, second = played(tmp_path / "run", config(f"{module}:Agent", cases=1))
    assert first["status"] == "infra_error" and first["score"] is None and reason in first["reason"]
    assert second["status"] == "ok" and second["score"] is not None and second["attempt"] == 2
    assert second["usage"] == {"tokens": 12} and results([first, second]) == {first["key"]: second}


def test_what_does_not_end_is_no_score_and_is_played_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    # The other player is at work meanwhile; it is not the one that is killed.
    fault = "while info['case_id'].endswith('0'): pass\n        return []"
    (tmp_path / "agent_endless.py").write_text(AGENT.replace("FAULT", fault))
    rows = played(tmp_path / "run", config("agent_endless:Agent", cases=2, time_limit=15.0), jobs=2)
    assert sorted((row["case_id"][-1], row["status"]) for row in rows) == [
        ("0", "infra_error"), ("0", "ok"), ("1", "ok"),
    ]  # fmt: skip
    assert [row["reason"] for row in rows if row["status"] == "infra_error"] == [
        "the episode did not end within the time limit of 15 seconds"
    ]


def test_what_an_agent_forked_does_not_hide_that_its_player_is_dead(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    # The forked process has the player's pipe, and lives until the test is over.
    fault = """if os.fork():
            os.kill(os.getpid(), signal.SIGKILL)
        import time
        while marks.exists():
            time.sleep(0.1)
        os._exit(0)"""
    (tmp_path / "agent_forks.py").write_text(AGENT.replace("FAULT", fault))
    try:
        first, second = played(tmp_path / "run", config("agent_forks:Agent", cases=1, time_limit=20.0))
    finally:
        shutil.rmtree(tmp_path / "marks")
    assert "exit code -9" in first["reason"] and second["status"] == "ok"


UNRULY = """
import os
from sceneact_gym.errors import InfraError

class Agent:
    def __init__(self, env, seed):
        self.env = env
        os.chdir("/")
    def act(self, observation, info):
        if info["case_id"].endswith("1"):
            raise InfraError(" ")
        self.env.unwrapped.host.audit = None
        print("printed", flush=True)
        return [{"name": "\\ud800\\x1b[2J", "arguments": {1: object()}}, {"name": "submit"}]
"""


def test_an_unruly_agent_loses_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    (tmp_path / "agent_unruly.py").write_text(UNRULY)
    lines: list[str] = []
    with RunFolder(Path("run"), config("agent_unruly:Agent", cases=2, audit=True)) as folder:
        first, *others = run_bench(folder, say=lines.append)
    # Its record is found although it went elsewhere, and an audit that fails takes no score away.
    assert first["status"] == "ok" and "not callable" in first["audit"]["unavailable"]
    assert (tmp_path / "run" / "episodes" / first["folder"] / "trace.jsonl").is_file()
    assert [row["status"] for row in others] == ["infra_error"] * 3
    assert any(r"\ud800\x1b[2J" in line for line in lines) and all(line.isprintable() for line in lines)


def test_what_never_works_stays_without_a_score_until_it_is_resumed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    (tmp_path / "agent_flaky.py").write_text(
        "from pathlib import Path\n"
        "class Agent:\n"
        "    def __init__(self, env, seed): pass\n"
        "    def act(self, observation, info):\n"
        "        if Path('up').exists(): return []\n"
        "        raise ConnectionError('down')\n"
    )
    rows = played(tmp_path / "run", config("agent_flaky:Agent", cases=1))
    assert [row["status"] for row in rows] == ["infra_error"] * 3 and results(rows)[rows[0]["key"]]["score"] is None
    (tmp_path / "up").touch()
    with RunFolder(tmp_path / "run") as folder:
        rows = run_bench(folder)
    assert len(rows) == 4 and rows[-1]["status"] == "ok" and rows[-1]["attempt"] == 4


def test_a_run_goes_on_with_the_same_agent_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    (tmp_path / "agent_set.py").write_text(
        "import os\n"
        "class Agent:\n"
        "    def __init__(self, env, seed): pass\n"
        "    def act(self, observation, info): return []\n"
        "    @staticmethod\n"
        "    def settings(): return {'model': os.environ['THE_MODEL'], 'limit': 5}\n"
    )
    monkeypatch.setenv("THE_MODEL", "first")
    rows = played(tmp_path / "run", config("agent_set:Agent", cases=1))
    stored = json.loads((tmp_path / "run" / "config.json").read_text())
    assert stored["agent_settings"] == {"model": "first", "limit": 5}
    monkeypatch.setenv("THE_MODEL", "second")
    with RunFolder(tmp_path / "run") as folder:
        with pytest.raises(SceneActError, match="model was 'first' and is 'second'; results would be mixed"):
            run_bench(folder)
        monkeypatch.setenv("THE_MODEL", "first")
        assert run_bench(folder) == rows


def test_repeats_are_no_more_cases() -> None:
    scores = [("a", 10.0), ("a", 30.0), ("b", 60.0), ("c", None)]
    rows = [
        row(f"{number}", "ok" if score else "infra_error", task="camera", case_id=case, score_paper=score)
        for number, (case, score) in enumerate(scores)
    ]
    found = task_summaries(config(), rows)["camera"]
    # By hand: 20 and 60; their mean is 40, their deviation 28.28, over the root of two 20.
    assert found["paper"].value == 40.0 and found["paper"].error == pytest.approx(20.0)
    assert (found["ok"], found["infra_error"], found["missing"]) == (3, 1, 3)
    assert found["strict"] == (None, None)


def test_mistakes_of_the_user_end_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(CaseNotFound, match="source must be"):
        played(tmp_path / "a", config(source="/no/such/folder"))
    monkeypatch.setenv("SCENEACT_BLENDER", str(tmp_path / "no-blender"))
    with pytest.raises(SceneActError, match="camera-test-0000 cannot be played.*no-blender"):
        played(tmp_path / "b", config())


# --- chaos ------------------------------------------------------------------------------------------------------------


def children(pid: int) -> Iterator[int]:
    """All living descendants of a process."""
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                state, parent = (entry / "stat").read_text().rpartition(")")[2].split()[:2]
            except OSError:
                continue
            if int(parent) == pid and state != "Z":
                yield int(entry.name)
                yield from children(int(entry.name))


def gone(pid: int) -> bool:
    try:
        return (Path("/proc") / str(pid) / "stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


def runner(folder: Path) -> subprocess.Popen[bytes]:
    script = """
        import sys
        from pathlib import Path
        from sceneact_gym.bench.folder import RunFolder
        from sceneact_gym.bench.runner import run_bench
        if __name__ == "__main__":
            with RunFolder(Path(sys.argv[1])) as folder:
                run_bench(folder, 2)
    """
    path = folder.parent / "go_on.py"
    path.write_text(textwrap.dedent(script))
    with (folder.parent / "stderr").open("wb") as errors:
        return subprocess.Popen([sys.executable, str(path), str(folder)], cwd=ROOT, stderr=errors)


def model(drops: float, chance: random.Random) -> Callable[[Seen], Say | Fault]:
    """A model whose replies depend on the request only: a place for the camera by the reference, then `submit`."""

    def reply(seen: Seen) -> Say | Fault:
        if chance.random() < drops:
            return Fault(chance.choice(("drop", "cut", "truncate")))
        if len(seen.body["messages"]) > 2:
            return Say(calls=(("submit", {}),))
        x, y = hashlib.sha256(seen.pictures()[0].tobytes()).digest()[:2]
        pose = {"location": [x / 128 - 1, y / 128 - 1, 1.5], "look_at": [0, 3, 1]}
        return Say(calls=(("set_camera_pose", pose), ("render_scene_view", {})))

    return reply


@pytest.mark.skipif(sys.platform != "linux", reason="looks for processes in /proc")
@pytest.mark.timeout(400)
def test_chaos_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Thirty episodes; runner, players and Blenders are killed and connections are cut at random until all are done."""
    with serve() as server:
        monkeypatch.setenv("SCENEACT_MODEL", "scripted")
        monkeypatch.setenv("SCENEACT_API", "anthropic")
        monkeypatch.setenv("SCENEACT_BASE_URL", server.base_url("anthropic"))
        monkeypatch.setenv("ANTHROPIC_API_KEY", KEY)
        chaos(tmp_path, server)


def chaos(tmp_path: Path, server: ModelServer) -> None:
    made = config("vlm", cases=15, repeats=2, options={**SMALL, "toolset": "typed"})
    chance = random.Random(4)
    server.always = model(0.0, chance)
    calm = counting(played(tmp_path / "calm", made, jobs=2))
    assert len({row["score"] for row in calm.values()}) == 15 and {row["status"] for row in calm.values()} == {"ok"}
    server.always = model(0.1, chance)
    folder = tmp_path / "chaos" / "run"
    RunFolder(folder, made).close()
    give_up = time.monotonic() + PATIENCE * 3
    seen: set[int] = set()
    kills = {"runner": 0, "below": 0}
    while True:
        assert time.monotonic() < give_up
        process = runner(folder)
        while process.poll() is None:
            time.sleep(chance.uniform(0.5, 2.5))
            below = list(children(process.pid))
            seen.update(below)
            if kills["runner"] < 2 and chance.random() < 0.3:
                kills["runner"] += 1
                process.kill()
            elif below and kills["below"] < 5:
                kills["below"] += 1
                os.kill(chance.choice(below), signal.SIGKILL)
        if process.returncode == 0:
            break
        assert process.returncode == -signal.SIGKILL, (folder.parent / "stderr").read_text()[-2000:]
    assert kills["below"] > 0 and kills["runner"] > 0
    with RunFolder(folder) as opened:
        rows = list(opened.rows)
        assert len(opened.done()) == 30
        assert {path.name for path in opened.episodes.iterdir()} == {row["folder"] for row in rows if row["folder"]}
        assert not list(opened.playing.iterdir())
    assert counting(rows) == calm
    while not all(gone(pid) for pid in seen):
        assert time.monotonic() < give_up
        time.sleep(0.05)


# --- the command ------------------------------------------------------------------------------------------------------


def test_the_command(tmp_path: Path) -> None:
    arguments = ["bench", "--agent", "noop", "--tasks", "camera", "--cases", "2", "--samples", "1", "--quiet"]
    arguments += ["--render-size", "32", "--reference-size", "32", "--out", str(tmp_path / "run")]
    said = CliRunner().invoke(cli.app, arguments)
    assert said.exit_code == 0, said.output
    assert "camera" in said.output and "+-" in said.output
    lines = (tmp_path / "run" / "episodes.jsonl").read_text().splitlines()
    shown = CliRunner().invoke(
        cli.app, ["show", str(tmp_path / "run"), "--picture", str(tmp_path / "p.png"), "--episode", "1"]
    )
    assert shown.exit_code == 0 and "camera" in shown.output and (tmp_path / "p.png").stat().st_size > 500
    # As `score-run` names agents after models: a name is no markup.
    named = shutil.copytree(tmp_path / "run", tmp_path / "named") / "config.json"
    named.write_text(named.read_text().replace('"noop"', '"[/b]model"'))
    shown = CliRunner().invoke(cli.app, ["show", str(tmp_path / "named")])
    assert shown.exit_code == 0 and "[/b]model" in shown.output
    again = CliRunner().invoke(cli.app, ["bench", "--resume", str(tmp_path / "run"), "--quiet"])
    assert again.exit_code == 0 and (tmp_path / "run" / "episodes.jsonl").read_text().splitlines() == lines


def test_the_command_says_why_episodes_have_no_score(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cli_bench, "run_bench", lambda *_: None)
    with RunFolder(tmp_path / "run", config(cases=1)) as folder:
        key = plays(folder.config)[0].key
        folder.add(row(key, "infra_error", task="camera", score=None, reason="Traceback\n[/b]the model \x1b is down"))
    said = CliRunner().invoke(cli.app, ["bench", "--resume", str(tmp_path / "run"), "--quiet"])
    assert said.exit_code == 1 and "1 without a score" in said.output and r"[/b]the model \x1b is down" in said.output
    assert f"--resume {tmp_path / 'run'}" in said.output


def test_the_commands_mistakes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for arguments, words in (
        ([], "give --out NEW_FOLDER"),
        (["--out", str(tmp_path / "a"), "--agent", "nobody"], "there is no agent"),
        (["--out", str(tmp_path / "b"), "--tasks", "chess"], "chess is no task"),
        (["--out", str(tmp_path / "c"), "--render-size", "8"], "render_size must be between"),
        (["--resume", str(tmp_path / "d")], "is no run folder"),
        (["--resume", str(tmp_path / "d"), "--render-size", "64", "--jobs", "2"], "folder: leave out --render-size"),
        (["--out", str(tmp_path / "e"), "--checkpoints", "5,-5"], "checkpoints must be numbers of steps from 1"),
        (["--out", str(tmp_path / "e"), "--jobs", "0"], "jobs must be at least 1"),
        (["--out", str(tmp_path / "f"), "--source", "no-such"], f"{Path.cwd() / 'no-such'}"),
    ):
        monkeypatch.setattr("sys.argv", ["sceneact", "bench", *arguments])
        with pytest.raises(SystemExit) as stop:
            cli.main()
        assert stop.value.code == 2 and words in capsys.readouterr().err
    assert not list(tmp_path.iterdir())
