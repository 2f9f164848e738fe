"""The MCP server: real server processes, the official client, real Blender with small pictures."""

from __future__ import annotations

import base64
import importlib
import io
import json
import os
import re
import shlex
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import numpy as np
import pytest
from mcp import Client
from mcp.client.stdio import StdioServerParameters
from PIL import Image

from sceneact_gym import cli
from sceneact_gym.agents.simple import ORACLES
from sceneact_gym.bench.folder import read_config, read_rows
from sceneact_gym.bench.picture import episode_folders
from sceneact_gym.bench.plan import BenchConfig
from sceneact_gym.data.sources import open_source
from sceneact_gym.errors import SceneActError
from sceneact_gym.mcp_images import SMALLEST_BUDGET, pack
from sceneact_gym.mcp_player import Player, ServerConfig
from sceneact_gym.trace import Trace, read_trace

CASE = "layout-test-0003"
ENDLESS = "import time\nbpy.data.objects['object_00'].location = (9, 9, 9)\ntime.sleep(60)"
WHERE = "import os\nprint(os.getpid(), os.getcwd())"


def command(out: Path, *more: str, render_size: int = 32) -> list[str]:
    run = f"import sys; sys.argv[0] = 'sceneact'; from sceneact_gym.cli import main; main()  # {out}"
    sizes = ["--render-size", str(render_size), "--reference-size", "32", "--samples", "1"]
    return [sys.executable, "-c", run, "mcp", "--env", "SceneAct/Layout-v0", "--case", CASE, *sizes] + [
        "--out",
        str(out),
        *more,
    ]


def oracle() -> dict[str, str]:
    truth = open_source("procedural", "layout", "test").load(CASE).truth
    return ORACLES["layout"](truth)[0]["arguments"]


def text(result: Any) -> str:
    return "\n".join(part.text for part in result.content if part.type == "text")


def pictures(result: Any) -> list[tuple[str, np.ndarray]]:
    return [
        (part.mime_type, np.asarray(Image.open(io.BytesIO(base64.b64decode(part.data))).convert("RGB")))
        for part in result.content
        if part.type == "image"
    ]


def processes(mark: str) -> tuple[set[int], set[int]]:
    """Processes whose command line holds `mark`, and their other children."""
    marked, parents = set(), {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            words = (folder / "cmdline").read_bytes().decode(errors="replace")
            parents[int(folder.name)] = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
        except OSError:
            continue
        if mark in words:
            marked.add(int(folder.name))
    marked.discard(os.getpid())
    return marked, {pid for pid, parent in parents.items() if parent in marked} - marked


def until(true: Callable[[], Any], what: str) -> None:
    for _ in range(600):
        if true():
            return
        time.sleep(0.05)
    raise AssertionError(f"after a long time, still not: {what}")


def nothing_is_left(mark: str, place: str) -> bool:
    pid, folder = place.split()
    home = next(part for part in Path(folder).parents if part.name.startswith("sceneact-"))
    return not Path("/proc", pid).exists() and not home.exists() and processes(mark) == (set(), set())


def only_result(out: Path) -> dict[str, Any]:
    config, (rows, _) = read_config(out)["config"], read_rows(out)
    assert config["agent"] == "mcp" and config["tasks"] == ["layout"] and config["case_ids"] == [CASE]
    assert len(rows) == 1 and rows[0]["env_id"] == "SceneAct/Layout-v0" and rows[0]["key"] == f"layout-{CASE}-r0"
    # Everything is where a report looks for it, and nothing is left of the time when it was played.
    kept = {path.name for path in out.iterdir()}
    assert kept == {"config.json", "episodes.jsonl", "episodes", "lock"}
    records = [rows[0]["folder"]] if rows[0]["folder"] else []
    assert [path.name for path in (out / "episodes").iterdir()] == records
    return rows[0]


def steps(out: Path) -> list[dict[str, Any]]:
    (folder,) = episode_folders(out)
    return [event for event in read_trace(folder) if event["event"] == "step"]


async def cancelled(client: Client, name: str, arguments: dict[str, Any], after: float = 1) -> None:
    """Begins a call and takes it back when `after` seconds of work are reported."""
    with anyio.CancelScope() as scope:

        async def told(progress: float, *_: Any) -> None:
            if progress >= after:
                scope.cancel()

        await client.call_tool(name, arguments, progress_callback=told)
    assert scope.cancelled_caught


def test_a_whole_episode_over_stdio(tmp_path: Path) -> None:
    out, wire = tmp_path / "run", tmp_path / "wire"
    line = f"{shlex.join(command(out, '--image-bytes', str(SMALLEST_BUDGET)))} | tee {wire}"
    places = []

    async def play() -> None:
        async with Client(StdioServerParameters(command="sh", args=["-c", line]), mode="legacy") as client:
            # The handshake needs no Blender, and a client that only looks leaves no run folder.
            tools = {tool.name: tool for tool in (await client.list_tools()).tools}
            assert list(tools) == ["get_task", "get_scene_info", "get_object_info", "execute_blender_code"] + [
                "render_scene_view",
                "submit",
            ]
            assert tools["get_object_info"].input_schema["required"] == ["name"]
            assert "object_02" in client.instructions and "30" in client.instructions
            server, others = processes(str(tmp_path))
            assert server and not others and not out.exists()

            # A start that is taken back costs nothing; the next call starts again.
            await cancelled(client, "get_task", {}, after=0)
            prompt = await client.get_prompt("task")
            assert [message.content.type for message in prompt.messages] == ["text"] * 4 + ["image"]
            assert processes(str(tmp_path))[1], "Blender runs now, and the check above can see it"
            task = await client.call_tool("get_task")
            assert "30 of 30 steps" in text(task)
            (reference,) = pictures(task)
            (stored,) = (out / "playing").glob("*/images/*.png")
            assert reference[0] == "image/png" and (reference[1] == np.asarray(Image.open(stored))).all()

            # What Blender prints by whatever way stays away from the protocol.
            noise = f"{WHERE}\nos.write(1, b'noise\\n'); os.write(2, b'noise\\n'); print('half \\ud800')"
            result = await client.call_tool("execute_blender_code", {"code": noise})
            places.append(text(result).splitlines()[0])
            assert not result.is_error and "half \\ud800" in text(result) and "29 of 30 steps" in text(result)
            for name, arguments, words in (
                ("get_object_info", {"nam": "object_00"}, "Wrong arguments for get_object_info: name: Field required"),
                ("get_object_info", {"name": "nothing"}, "nothing"),
                ("reset", {}, "There is no tool 'reset'"),
                ("execute_blender_code", {"code": "1 / 0"}, "ZeroDivisionError"),
            ):
                result = await client.call_tool(name, arguments)
                assert result.is_error and words in text(result), text(result)
            await cancelled(client, "execute_blender_code", {"code": ENDLESS})
            result = await client.call_tool("get_object_info", {"name": "object_00"})
            assert json.loads(result.content[0].text)["matrix_world"][0][3] == 0 and "23 of 30" in text(result)

            # The noise of one sample in 1024 x 1024 pixels does not fit into 65,536 bytes as a PNG.
            result = await client.call_tool("render_scene_view", {"camera": "view_00", "size": 1024})
            ((kind, picture),) = pictures(result)
            assert kind == "image/jpeg" and picture.std() > 1 and "sent as JPEG" in text(result)
            assert sum(len(part.data) for part in result.content if part.type == "image") <= SMALLEST_BUDGET

            assert not (await client.call_tool("execute_blender_code", oracle())).is_error
            assert read_rows(out) == ([], 0)
            result = await client.call_tool("submit")
            assert not result.is_error and "The episode is over" in text(result)
            for name in ("get_scene_info", "submit", "get_task"):
                result = await client.call_tool(name)
                assert result.is_error and "The episode is over" in text(result)

    anyio.run(play)
    result = only_result(out)
    # Ten calls reached the episode: five before the cancelled one, which is the sixth, and four after it.
    assert result["status"] == "ok" and result["score"] > 99.99 and result["steps"] == 10, result
    assert result["case_id"] == CASE and result["setting"]["isolation"] != "off"
    assert "the call was cancelled" in steps(out)[5]["results"][0]["text"]
    until(lambda: nothing_is_left(str(tmp_path), places[0]), "all gone")
    said = wire.read_text()
    assert all(json.loads(line)["jsonrpc"] == "2.0" for line in said.splitlines())
    for secret in ("score", "add_s", "metrics", "pos_err", "chamfer", CASE, str(result["score"])):
        assert secret not in said.lower(), secret
    x, y, z, _ = open_source("procedural", "layout", "test").load(CASE).truth["poses"][0]
    assert f"{x:.3f}" not in said and f"{y:.3f}" not in said


def test_http_cancels_serialises_and_ends_alone(tmp_path: Path) -> None:
    out, log = tmp_path / "run", tmp_path / "log"
    count = "n = bpy.context.scene.get('n', 0)\nbpy.context.scene['n'] = n + 1\nprint('count', n)"
    places: list[str] = []
    left: list[int] = []
    counts: list[int] = []

    async def play(url: str) -> None:
        async with Client(url) as client:
            result = await client.call_tool("execute_blender_code", {"code": WHERE})
            places.append(result.content[0].text)
            await cancelled(client, "execute_blender_code", {"code": ENDLESS})

            async def one() -> None:
                answer = text(await client.call_tool("execute_blender_code", {"code": count}))
                counts.extend(int(number) for number in re.findall(r"count (\d+)", answer))
                left.append(0 if "last step" in answer else int(re.findall(r"(\d+) of 22", answer)[0]))

            async with anyio.create_task_group() as group:
                for _ in range(20):
                    group.start_soon(one)
            result = await client.call_tool("get_scene_info")
            assert result.is_error and "The episode is over" in text(result)
            for secret in ("score", "add_s", "metrics", CASE):
                assert secret not in result.model_dump_json()

    more = ["--http", "--port", "0", "--max-steps", "22", "--idle", "4"]
    with (
        log.open("w") as errors,
        subprocess.Popen(command(out, *more), stderr=errors, stdout=subprocess.PIPE) as server,
    ):
        until(lambda: re.search(r"^(http://127\.0\.0\.1:\d+/mcp)$", log.read_text(), re.M), "the address is printed")
        anyio.run(play, log.read_text().split()[0])
        # Nobody tells the server that the client has gone; it ends after four seconds without a call.
        printed, _ = server.communicate(timeout=60)
    assert server.returncode == 0 and printed == b"", log.read_text()
    assert sorted(counts) == list(range(20)) and sorted(left) == list(range(20))
    result = only_result(out)
    assert result["status"] == "ok" and result["steps"] == result["tool_calls"] == 22
    assert "the call was cancelled" in steps(out)[1]["results"][0]["text"]
    until(lambda: nothing_is_left(str(tmp_path), places[0]), "all gone")


def test_a_client_that_vanishes_leaves_its_score_and_nothing_else(tmp_path: Path) -> None:
    out = tmp_path / "run"
    out.mkdir()
    (out / "old").write_text("an earlier run")  # The folder is taken: another one is used.
    server = subprocess.Popen(
        command(out, "--toolset", "typed"), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    )
    assert server.stdin and server.stdout

    def say(method: str, number: int | None = None, **params: Any) -> None:
        message = {"jsonrpc": "2.0", "method": method, "params": params, **({"id": number} if number else {})}
        server.stdin.write(json.dumps(message).encode() + b"\n")
        server.stdin.flush()

    def answer(number: int) -> Any:
        while (message := json.loads(server.stdout.readline())).get("id") != number:
            pass
        return message["result"]

    about = {"name": "test", "version": "1"}
    say("initialize", 1, protocolVersion="2025-06-18", capabilities={}, clientInfo=about)
    answer(1)
    say("notifications/initialized")
    say("tools/call", 2, name="execute_blender_code", arguments={"code": f"{WHERE}\n{oracle()['code']}"})
    place = answer(2)["content"][0]["text"]
    say("tools/call", 3, name="execute_blender_code", arguments={"code": ENDLESS}, _meta={"progressToken": "p"})
    while json.loads(server.stdout.readline())["params"]["progress"] < 1:
        pass
    server.stdout.close()
    server.stdin.close()
    assert server.wait(60) == 0
    result = only_result(tmp_path / "run-002")
    # The call that was running is undone; what came before it counts.
    assert result["status"] == "ok" and result["score"] > 99.99 and result["steps"] == 2
    until(lambda: nothing_is_left(str(tmp_path), place), "all gone")
    assert [path.name for path in out.iterdir()] == ["old"]


def test_no_start_is_no_score(tmp_path: Path) -> None:
    """Neither a Blender that does not start, nor a client that leaves before it has started."""

    async def play(out: Path, env: dict[str, str]) -> None:
        start, *arguments = command(out)
        async with Client(StdioServerParameters(command=start, args=arguments, env=env)) as client:
            if env:
                for name in ("get_task", "get_scene_info"):
                    result = await client.call_tool(name)
                    assert result.is_error and "could not be started" in text(result) and "false" not in text(result)
            else:
                await cancelled(client, "get_scene_info", {})

    for name, env in (("broken", {"SCENEACT_BLENDER": "/bin/false"}), ("left", {})):
        anyio.run(play, tmp_path / name, env)
        result = only_result(tmp_path / name)
        assert result["status"] == "infra_error" and result["score"] is None and "did not begin" in result["reason"]
    assert "cancelled" in result["reason"] and not episode_folders(tmp_path / "left")
    until(lambda: processes(str(tmp_path)) == (set(), set()), "all gone")


def test_a_step_that_the_host_fails_is_no_score(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = BenchConfig("mcp", ["camera"], case_ids=("camera-test-0000",))
    player = Player(ServerConfig(run, tmp_path / "run"))

    class FullDisk:
        outcome = None
        trace = Trace(None)

        def act(self, call: Any) -> Any:
            raise OSError(28, "No space left on device")

        def finish(self) -> Any:
            raise AssertionError("the scene is scored")

    monkeypatch.setattr(player.host, "begin", lambda case_id: FullDisk())
    assert player._begin() == ""
    assert player._act({"name": "get_scene_info"}).is_error
    ((row,), _) = read_rows(tmp_path / "run")
    assert row["status"] == "infra_error" and row["score"] is None
    assert row["reason"] == "a step failed: OSError: [Errno 28] No space left on device"


@pytest.mark.parametrize("count", [1, 16])
def test_pictures_keep_to_their_budget(count: int) -> None:
    rng = np.random.default_rng(0)
    noise = [rng.integers(0, 256, (256, 128, 3), dtype=np.uint8) for _ in range(count)]
    # Noise cannot be compressed: 98,304 bytes a picture, 4/3 of that as base64.
    whole, note = pack(noise, count * 140_000)
    assert note == "" and [kind for kind, _ in whole] == ["image/png"] * count
    packed, note = pack(noise, SMALLEST_BUDGET)
    assert len(packed) == count and sum(len(data) for _, data in packed) <= SMALLEST_BUDGET
    assert "JPEG" in note and str(SMALLEST_BUDGET) in note
    for kind, data in packed:
        with Image.open(io.BytesIO(base64.b64decode(data))) as picture:
            assert kind == "image/jpeg" and picture.height == pytest.approx(2 * picture.width, abs=1)
            assert picture.size == (128, 256) or f"{picture.width}x{picture.height}" in note
    assert pack([], SMALLEST_BUDGET) == ([], "")


def test_without_the_package_a_sentence_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "mcp_types", None)
    monkeypatch.delitem(sys.modules, "sceneact_gym.mcp_player", raising=False)
    with pytest.raises(SceneActError, match=r"pip install 'sceneact-gym\[mcp\]'"):
        importlib.import_module("sceneact_gym.mcp_player")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--env", "SceneAct/Nothing-v0"], "there is no environment"),
        (["--env", "SceneAct/Layout-v0", "--case", "nothing"], "no task of the run has the case nothing"),
        (["--env", "SceneAct/Layout-v0", "--image-bytes", "10"], "image_bytes must be at least 65536"),
        (["--env", "SceneAct/Layout-v0", "--http", "--host", "203.0.113.1"], "cannot listen on 203.0.113.1:8000"),
    ],
)
def test_mistakes_end_in_a_sentence(
    arguments: list[str], words: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.argv", ["sceneact", "mcp", *arguments])
    with pytest.raises(SystemExit) as stop:
        cli.main()
    captured = capsys.readouterr()
    assert stop.value.code == 2 and words in captured.err and captured.out == ""
