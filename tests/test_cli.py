"""The command line, the runner and the agents, on real Blender with small pictures."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from typer.testing import CliRunner

from sceneact_gym import cli
from sceneact_gym.bench.folder import RunFolder, read_config, read_rows
from sceneact_gym.bench.picture import episode_folders
from sceneact_gym.bench.plan import BenchConfig
from sceneact_gym.bench.runner import run_bench
from sceneact_gym.errors import SceneActError
from sceneact_gym.trace import read_trace

SMALL = {"render_size": 32, "reference_size": 32, "render": {"samples": 1}}
CAMERA = "SceneAct/Camera-v0"


def play(agent: str, episodes: int, out: Path, **options: object) -> list[dict]:
    with RunFolder(out, BenchConfig(agent, ["camera"], episodes, options={**SMALL, **options})) as folder:
        return run_bench(folder)


def test_run_and_show_on_the_command_line(tmp_path: Path) -> None:
    runner = CliRunner()
    out, picture = tmp_path / "run", tmp_path / "episode.png"
    said = runner.invoke(
        cli.app,
        ["run", CAMERA, "--agent", "oracle", "--episodes", "2", "--render-size", "64", "--reference-size", "64"]
        + ["--samples", "1", "--audit", "--out", str(out)],
    )
    assert said.exit_code == 0, said.output
    assert "step  1  execute_blender_code" in said.output and "score 100.0" in said.output
    assert "privileged" in said.output and str(out) in said.output
    assert read_config(out)["config"]["agent"] == "oracle"
    results, _ = read_rows(out)
    assert [result["case_id"] for result in results] == ["camera-test-0000", "camera-test-0001"]
    for result in results:
        assert result["privileged"] is True
        assert result["status"] == "ok" and result["score"] > 99.99
        assert result["setting"]["isolation"] != "off"
        # The oracle's view is the reference's view: the audit compares two equal pictures.
        assert result["audit"]["ssim"] > 0.999 and result["audit"]["clip"] is None
    chosen = ["run", CAMERA, "--agent", "noop", "--case", "camera-test-0007", "--quiet", "--out", str(tmp_path / "one")]
    said = runner.invoke(cli.app, chosen)
    assert said.exit_code == 0 and "camera-test-0007" in said.output and "starting" not in said.output
    said = runner.invoke(cli.app, ["show", str(out), "--picture", str(picture), "--size", "64"])
    assert said.exit_code == 0, said.output
    assert "camera-test-0001" in said.output and "oracle (privileged" in said.output
    with Image.open(picture) as made:
        assert made.size[1] > 64


def test_the_brackets_noop_random_search_oracle(tmp_path: Path) -> None:
    noop, random, oracle = (play(agent, 2, tmp_path / agent) for agent in ("noop", "random", "oracle"))
    search = play("camera-search", 2, tmp_path / "camera-search", render={"samples": 4}, max_steps=16)

    def mean(results: list[dict]) -> float:
        return float(np.mean([result["score"] for result in results]))

    assert mean(oracle) > 99.99
    assert mean(search) > mean(random) + 20 and mean(search) > mean(noop) + 20
    assert mean(search) < 100 and {result["status"] for result in search} == {"ok"}
    # The floor by hand: the neutral camera at (0, 0, 1.5) that looks along +Y, against the hidden one.
    from sceneact_gym.data.sources import open_source

    for result in noop:
        truth = open_source("procedural", "camera", "test").load(result["case_id"]).truth["matrix_world"]
        pe = np.linalg.norm(truth[:3, 3] - [0, 0, 1.5])
        ae = np.degrees(np.arccos(np.clip(-truth[1, 2], -1, 1)))
        assert np.isclose(result["score"], 50 * max(0, 1 - pe / 4) + 50 * max(0, 1 - ae / 90), atol=1e-3)
    # The same seed gives the same calls, and so the same submission.
    again = play("random", 1, tmp_path / "again")
    assert again[0]["submission_hash"] == random[0]["submission_hash"]


def test_a_trace_tells_the_whole_episode(tmp_path: Path) -> None:
    play("oracle", 1, tmp_path / "run")
    (folder,) = episode_folders(tmp_path / "run")
    events = list(read_trace(folder))
    assert [event["event"] for event in events] == ["begin", "step", "end"]
    assert events[0]["tools"][0] == "get_scene_info"
    assert (folder / "images" / f"{events[0]['references'][0]}.png").is_file()
    assert json.loads((folder / "submission.json").read_text())["changed_objects"] == []
    assert "matrix_world" not in json.dumps(events[0])


def test_mistakes_end_in_a_sentence(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch) -> None:
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "old").write_text("result")
    with pytest.raises(SceneActError, match="not empty"):
        play("noop", 1, tmp_path / "full")
    with pytest.raises(ValueError, match="there is no agent 'nobody'; give one of noop"):
        play("nobody", 1, tmp_path / "new")
    for arguments, words in (
        (["run", "SceneAct/Nothing-v0"], "there is no environment"),
        (["show", str(tmp_path)], "is no run folder"),
        (["show", str(tmp_path), "--sheet", "x.png"], "there is no environment"),
        (["run", CAMERA, "--split", "secret", "--out", str(tmp_path / "a")], "train, val, test"),
        (["run", CAMERA, "--engine", "magic", "--out", str(tmp_path / "b")], "engine must be one of"),
        (["run", CAMERA, "--isolation", "maybe", "--out", str(tmp_path / "c")], "isolation must be"),
    ):
        monkeypatch.setattr("sys.argv", ["sceneact", *arguments])
        with pytest.raises(SystemExit) as stop:
            cli.main()
        assert stop.value.code == 2
        assert words in capsys.readouterr().err


def test_contact_sheets(tmp_path: Path) -> None:
    def sheet(*arguments: str) -> np.ndarray:
        path = tmp_path / "sheet.png"
        said = CliRunner().invoke(
            cli.app, ["show", *arguments, "--sheet", str(path), "--size", "32", "--samples", "1", "--count", "2"]
        )
        assert said.exit_code == 0, said.output
        return np.asarray(Image.open(path).convert("RGB"))

    # Two cases, closed and open, in one row: views 4 pixels apart, cases 16.
    objects = sheet("SceneAct/Articulated-v0")
    assert objects.shape == (32, 4 * 32 + 2 * 4 + 16, 3)
    views = [objects[:, left : left + 32] for left in (0, 36, 84, 120)]
    assert all((view < 250).any() for view in views)
    assert not np.array_equal(views[0], views[1]) and not np.array_equal(views[0], views[2])
    # Both looks of a moving scene: start, middle, end, twice.
    assert sheet("SceneAct/Dynamic-v0", "SceneAct/DynamicPhotoreal-v0").shape == (2 * 32 + 8, 6 * 32 + 5 * 4, 3)


def test_score_command(tmp_path: Path) -> None:
    pose = np.eye(4)
    (tmp_path / "truth").mkdir()
    (tmp_path / "truth" / "truth.json").write_text(json.dumps({"matrix_world": pose.tolist()}))
    pose[0, 3] = 1.0
    (tmp_path / "camera.json").write_text(json.dumps({"matrix_world": pose.tolist(), "fov_x_deg": 39.6}))
    said = CliRunner().invoke(
        cli.app,
        ["score", "--task", "camera", "--submission", str(tmp_path / "camera.json"), "--truth", str(tmp_path / "truth")]
        + ["--json"],
    )
    assert said.exit_code == 0, said.output
    scores = json.loads(said.output)
    # One metre of four away, no angle: (75 + 100) / 2.
    assert scores["paper"]["score"] == scores["strict"]["score"] == 87.5


def test_doctor_names_a_fix_for_a_missing_blender(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SCENEACT_BLENDER", "/nowhere/blender")
    said = CliRunner().invoke(cli.app, ["doctor"])
    assert said.exit_code == 1
    assert "not an executable file" in " ".join(said.output.split())
