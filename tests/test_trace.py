"""The record of an episode: JSON lines, pictures by content, readable after a kill."""

from __future__ import annotations

import hashlib
import json
import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from PIL import Image

import sceneact_gym  # noqa: F401
from sceneact_gym.blender.render import decode_png, encode_png
from sceneact_gym.trace import Trace, read_trace

ROOT = Path(__file__).resolve().parents[1]
SMALL: dict[str, Any] = {"render_size": 32, "reference_size": 48, "render": {"samples": 1}}
VIEW = {"name": "render_scene_view", "arguments": {"location": [5, -5, 4], "look_at": [0, 0, 1]}}


def picture(seed: int) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, (16, 16, 3), np.uint8)


def test_a_trace_without_a_folder_records_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    trace = Trace(None)
    trace.event("begin", value=1)
    assert trace.images([picture(0)]) == []
    trace.file("name", b"data")
    trace.close()
    trace.close()
    assert list(tmp_path.iterdir()) == []


def test_events_come_back_in_order(tmp_path: Path) -> None:
    folder = tmp_path / "deep" / "folder"
    trace = Trace(folder)
    odd = ["Cámara", "日本語", "a\nb\r\n\u2028c", "\x00\x1b", "\ud800", '"quoted"', "🪑"]
    trace.event("begin", texts=odd)
    for index in range(3):
        trace.event("step", index=index, nothing=None, number=1e-7, path=Path("a/b"))
    events = list(read_trace(folder))  # Before it is closed: every line is written at once.
    assert [event["event"] for event in events] == ["begin", "step", "step", "step"]
    assert events[0]["texts"] == odd
    assert events[2] == {"event": "step", "index": 1, "nothing": None, "number": 1e-7, "path": "a/b"}
    trace.close()
    trace.close()
    # One line, one event, for every reader of JSON lines.
    assert len((folder / "trace.jsonl").read_bytes().splitlines()) == 4


def test_pictures_are_stored_once_by_their_content(tmp_path: Path) -> None:
    trace = Trace(tmp_path)
    names = trace.images([picture(1), picture(2), picture(1)])
    assert names[0] == names[2] != names[1]
    assert trace.images([picture(2)]) == names[1:2]
    files = sorted((tmp_path / "images").iterdir())
    assert [file.stem for file in files] == sorted(set(names))
    for file in files:
        assert hashlib.sha256(file.read_bytes()).hexdigest() == file.stem
    assert np.array_equal(decode_png((tmp_path / "images" / f"{names[1]}.png").read_bytes()), picture(2))
    trace.close()


def test_a_line_that_was_cut_off_is_left_out(tmp_path: Path) -> None:
    trace = Trace(tmp_path)
    trace.event("begin", value="x" * 100)
    trace.event("step", value="日本語" * 10)
    trace.close()
    path = tmp_path / "trace.jsonl"
    whole = path.read_bytes()
    first = whole.index(b"\n") + 1
    for length in range(first + 1, len(whole) - 1):
        path.write_bytes(whole[:length])
        assert [event["event"] for event in read_trace(tmp_path)] == ["begin"], length
    path.write_bytes(whole[:-1])  # Only the line's end is missing.
    assert [event["event"] for event in read_trace(tmp_path)] == ["begin", "step"]
    path.write_bytes(b"")
    assert list(read_trace(tmp_path)) == []


def test_an_episode_is_recorded(tmp_path: Path) -> None:
    env = gym.make("SceneAct/Camera-v0", record_dir=tmp_path, checkpoints=(1,), **SMALL)
    try:
        observation, first = env.reset(seed=4)
        odd = {"name": "get_object_info", "arguments": {"name": "\ud800 日本語", "far": float("nan")}}
        infos = []
        for action in ([VIEW, VIEW], json.dumps(VIEW), odd, object(), {"name": "submit", "arguments": {}}):
            newest, *_, info = env.step(action)
            infos.append(info)
        env.reset(seed=4)  # The next episode has a folder of its own.
        env.step([])
    finally:
        env.close()
    folders = sorted(tmp_path.iterdir())
    assert [folder.name for folder in folders] == [f"000{n}-{first['case_id']}" for n in (1, 2)]
    folder = folders[0]
    begin, *steps, end = read_trace(folder)
    assert begin["event"] == "begin" and begin["case_id"] == first["case_id"]
    assert begin["prompt"] == first["prompt"] and begin["system_prompt"] == first["system_prompt"]
    assert begin["tools"] == [tool["name"] for tool in first["tools"]]
    assert begin["setting"]["isolation"] and begin["setting"]["blender"] and begin["setting"]["engine"] != "auto"

    def stored(name: str) -> np.ndarray:
        return np.asarray(Image.open(folder / "images" / f"{name}.png").convert("RGB"))

    assert np.array_equal(stored(begin["references"][0]), observation["references"][0])
    assert [step["step"] for step in steps] == [1, 2, 3, 4, 5]
    assert steps[0]["action"] == [VIEW, VIEW] and steps[1]["action"] == json.dumps(VIEW)
    assert "nan" in steps[2]["action"] and "object object" in steps[3]["action"]
    for step, info in zip(steps, infos, strict=True):
        assert [result["name"] for result in step["results"]] == [result["name"] for result in info["results"]]
        assert [result["text"] for result in step["results"]] == [result["text"] for result in info["results"]]
        for kept, given in zip(step["results"], info["results"], strict=True):
            assert kept["is_error"] == given["is_error"] and len(kept["images"]) == len(given["images"])
            for name, image in zip(kept["images"], given["images"], strict=True):
                assert np.array_equal(stored(name), image)
    names = [name for step in steps for result in step["results"] for name in result["images"]]
    assert len(names) == 3 and len(set(names)) == 1  # The same view three times is one picture.
    assert {file.stem for file in (folder / "images").iterdir()} == {*names, *begin["references"]}
    assert np.array_equal(stored(names[0]), newest["render"])
    assert end["event"] == "end" and end["status"] == "ok" and end["score"] == infos[-1]["score"]
    assert end["metrics"] == infos[-1]["metrics"] and end["submission_hash"] == infos[-1]["submission_hash"]
    assert end["checkpoints"]["1"]["paper"] == end["score"]  # Nothing moved the camera.
    submission = json.loads((folder / "submission.json").read_text())
    assert np.allclose(np.array(submission["matrix_world"])[:3, 3], [0, 0, 1.5])
    assert (folder / "blender.log").is_file()


def test_the_record_holds_no_truth(tmp_path: Path) -> None:
    env = gym.make("SceneAct/Camera-v0", record_dir=tmp_path, **SMALL)
    try:
        env.reset(seed=4)
        env.step([VIEW, {"name": "get_scene_info"}])
        truth = np.asarray(env.unwrapped.episode.case.truth["matrix_world"])
        (folder,) = tmp_path.iterdir()
        text = (folder / "trace.jsonl").read_text()
    finally:
        env.close()
    for value in truth[:3, 3]:
        assert f"{value:.4f}"[:-1] not in text
    for event in map(json.loads, text.splitlines()):
        assert event["event"] in ("begin", "step") and not {"score", "metrics", "truth"} & set(event)


@pytest.mark.skipif(sys.platform != "linux", reason="kills by signal")
def test_a_killed_run_keeps_what_it_did(tmp_path: Path) -> None:
    script = f"""
        import gymnasium as gym, sceneact_gym
        env = gym.make("SceneAct/Camera-v0", record_dir={str(tmp_path)!r}, **{SMALL!r})
        env.reset(seed=4)
        for _ in range(3):
            env.step({VIEW!r})
        print("ready", flush=True)
        env.step({{"name": "execute_blender_code", "arguments": {{"code": "while True: pass"}}}})
    """
    run = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(script)], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    try:
        assert run.stdout is not None and run.stdout.readline() == b"ready\n"
        time.sleep(0.2)
    finally:
        os.kill(run.pid, signal.SIGKILL)
        run.communicate(timeout=60)
    (folder,) = tmp_path.iterdir()
    events = list(read_trace(folder))
    assert [event["event"] for event in events] == ["begin", "step", "step", "step"]
    name = events[-1]["results"][0]["images"][0]
    assert decode_png((folder / "images" / f"{name}.png").read_bytes(), (32, 32)).shape == (32, 32, 3)
    assert encode_png(picture(0))  # And this process goes on.
