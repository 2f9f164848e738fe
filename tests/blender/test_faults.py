"""Faults of Blender in an episode: each is a tool error in time, earlier work stays, and the score is right."""

from __future__ import annotations

import errno
import json
import math
import os
import shutil
import signal
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

import sceneact_gym.blender.session as session_module
from sceneact_gym.blender import process
from sceneact_gym.blender.locate import Blender
from sceneact_gym.blender.process import OperationError, WorkerFault, WorkerProcess
from sceneact_gym.errors import InfraError

DEADLINE = 2.0
"""Of one call here; an endless loop takes all of it."""
PATIENCE = 60.0
"""How much longer than its deadline a call may take on a busy machine: a restart of Blender, and no more than that."""
SMALL: dict[str, Any] = {"render_size": 32, "reference_size": 32, "render": {"samples": 1}}


def code(text: str) -> dict[str, Any]:
    return {"name": "execute_blender_code", "arguments": {"code": text}}


class World:
    """An environment under attack."""

    def __init__(self, **arguments: Any) -> None:
        self.env = gym.make("SceneAct/Camera-v0", max_steps=500, **SMALL, **arguments)
        self.host = self.env.unwrapped.host
        self.settings(call_deadline=DEADLINE, disk_limit=64 << 20)
        self.worked = 0

    def settings(self, **changes: Any) -> None:
        self.host.session.settings = replace(self.host.session.settings, **changes)

    @property
    def episode(self) -> Any:
        return self.env.unwrapped.episode

    def reset(self, **arguments: Any) -> dict[str, Any]:
        return self.env.reset(**({"seed": 1} | arguments))[1]

    def call(self, call: dict[str, Any]) -> dict[str, Any]:
        """The result of one call, which must come in time and must not end the episode."""
        started = time.monotonic()
        *_, terminated, truncated, info = self.env.step(call)
        assert time.monotonic() - started < DEADLINE + PATIENCE
        assert not terminated and not truncated
        return info["results"][0]

    def run(self, text: str) -> dict[str, Any]:
        return self.call(code(text))

    def wait_for_the_end(self) -> None:
        give_up = time.monotonic() + PATIENCE
        while self.host.session.running:
            assert time.monotonic() < give_up
            time.sleep(0.01)

    def work(self) -> tuple[str, list[float]]:
        """Leaves a mark and moves the camera."""
        if self.episode is None or self.episode.outcome is not None:
            self.reset()
        self.worked += 1
        mark, place = f"mark_{self.worked}", [0.5, -0.25, 1.0 + self.worked / 128]
        result = self.run(
            f"thing = bpy.data.objects.new({mark!r}, None)\nbpy.context.scene.collection.objects.link(thing)\n"
            f"bpy.context.scene.camera.location = {place}"
        )
        assert not result["is_error"], result
        return mark, place

    def check(self, mark: str, place: list[float]) -> None:
        """The earlier work is there, the episode goes on, and the score is that of this work."""
        info = json.loads(self.call({"name": "get_scene_info"})["text"])
        assert mark in [thing["name"] for thing in info["objects"]]
        truth = np.asarray(self.episode.case.truth["matrix_world"])
        for score in self.episode.score_now().values():
            assert score.metrics["pe"] == pytest.approx(math.dist(truth[:3, 3], place), abs=1e-5)
            assert score.metrics["n_changed"] == 0
        assert not self.call({"name": "render_scene_view"})["is_error"]


@pytest.fixture(scope="module")
def world() -> Iterator[World]:
    world = World()
    yield world
    world.env.close()


FDS = "import os, sys\nrequests, answers = map(int, sys.argv[sys.argv.index('--') + 1:][:2])\n"
FORGED = """
import json, struct
frame = sys._getframe()
while "message" not in frame.f_locals:
    frame = frame.f_back
answer = {"id": frame.f_locals["message"]["id"], "result": {"output": "forged", "missing": []}, "blobs": []}
text = json.dumps(answer).encode()
os.write(answers, struct.pack("<4sIQ", b"SAG1", len(text), 0) + text)
"""

DEADLY = {
    "endless loop": ("while True: pass", "did not finish within 2 seconds"),
    "stopped": ("import os; os.kill(os.getpid(), 19)", "did not finish within 2 seconds"),
    "endless handler": (
        "bpy.app.handlers.depsgraph_update_post.append(lambda *_: [0 for _ in iter(int, 1)])",
        "did not finish within 2 seconds",
    ),
    "os._exit": ("import os; os._exit(0)", "ended with exit code 0"),
    "os.abort": ("import os; os.abort()", "SIGABRT"),
    "segmentation fault": ("import ctypes; ctypes.string_at(0)", "SIGSEGV"),
    "nameless signal": ("import os; os.kill(os.getpid(), 40)", "signal 40"),
    "closed answer pipe": (FDS + "os.close(answers)", "Blender was restarted"),
    "all pipes closed": ("import os; os.closerange(0, 256)", "Blender was restarted"),
    "garbage in the answer pipe": (FDS + "os.write(answers, b'garbage' * 100)", "something else than an answer"),
    "a header that promises too much": (
        FDS + "os.write(answers, b'SAG1' + bytes([255] * 12))",
        "something else than an answer",
    ),
    "no answer at all": ("import json; json.dumps = None", "ended with exit code 1"),
    "full disk": ("open('big', 'wb').write(bytes(70 << 20))", "files grew beyond 64 MiB"),
    "many files": ("for i in range(10_050): open(f'file{i}', 'w').close()", "10000 files"),
    # What removes what the task gives is undone, without a new process.
    "every object deleted": ("for o in list(bpy.data.objects): bpy.data.objects.remove(o)", "removed camera"),
    "every scene deleted": (
        "new = bpy.data.scenes.new('new')\nif bpy.context.window: bpy.context.window.scene = new\n"
        "for scene in list(bpy.data.scenes):\n    if scene != new: bpy.data.scenes.remove(scene)",
        "removed camera",
    ),
    "every data-block deleted": ("bpy.data.batch_remove([*bpy.data.objects, *bpy.data.meshes])", "removed camera"),
    "renamed": ("bpy.data.objects['camera'].name = 'eye'", "removed camera"),
    "read_factory_settings": ("bpy.ops.wm.read_factory_settings()", "removed camera"),
    "read_homefile": ("bpy.ops.wm.read_homefile(use_empty=True)", "removed camera"),
    "a directory in the place of the scene's file": (
        "import os\nif os.path.exists('scene.blend'): os.unlink('scene.blend')\nos.makedirs('scene.blend/inside')\n"
        "bpy.data.objects.remove(bpy.data.objects['camera'])",
        "removed camera",
    ),
}
"""Attacks that cost the call that made them, and take with them what that call had changed."""


@pytest.mark.parametrize("name", DEADLY)
def test_a_fault_costs_only_its_own_call(world: World, name: str) -> None:
    mark, place = world.work()
    text, message = DEADLY[name]
    result = world.run("bpy.context.scene.camera.location = (40, 40, 40)\n" + text)
    assert result["is_error"] and message in result["text"]
    assert "scene is as it was before this call" in result["text"] or "was put back" in result["text"]
    world.check(mark, place)


ENDS = "bpy.app.handlers.save_pre.append(lambda *_: __import__('os')._exit(1))"
NEVER = "bpy.app.handlers.save_pre.append(lambda *_: [0 for _ in iter(int, 1)])"
LATE = {
    "closed request pipe": FDS + "os.close(requests)",
    "a forged answer": FDS + FORGED,
    "snapshot's place taken": "import os; os.makedirs('snapshot.blend/inside')",
    "operators gone": "bpy.ops = None",
    "ends when saved": f"exec(compile({ENDS!r}, 'disguise', 'exec'))",
    "never saved": f"exec(compile({NEVER!r}, 'disguise', 'exec'))",
    "ends later": "import os, threading; threading.Timer(0.3, os._exit, [7]).start()",
}
"""Attacks that only the next call can notice: that one is lost as well, and what the attack had changed."""


@pytest.mark.parametrize("name", LATE)
def test_a_fault_that_shows_late_costs_one_more_call(world: World, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setattr(session_module, "SCENE_DEADLINE", 20.0 if name != "never saved" else 3.0)
    mark, place = world.work()
    assert not world.run("bpy.context.scene.camera.location = (40, 40, 40)\n" + LATE[name])["is_error"]
    if name == "ends later":
        world.wait_for_the_end()
    result = world.call({"name": "get_scene_info"})
    assert result["is_error"] and "as it was before" in result["text"] and "not run" in result["text"]
    world.check(mark, place)


HARMLESS = {
    "10 GB": ("block = bytearray(10 << 30)", "MemoryError"),
    "10 GB of numpy": ("import numpy; block = numpy.ones(10 << 27)", "Unable to allocate"),
    "sys.exit": ("import sys; sys.exit(3)", "SystemExit: 3"),
    "keyboard interrupt": ("raise KeyboardInterrupt", "KeyboardInterrupt"),
    "an exception whose text fails": ("class E(BaseException):\n def __str__(self): raise SystemExit\nraise E", "E"),
    "endless recursion": ("def f(): f()\nf()", "RecursionError"),
    "not Python": ("x = (", "SyntaxError"),
    "writing elsewhere": ("open('/dev/shm/outside', 'w')", "PermissionError"),
    "leaving its folder": ("import os; os.chdir('/')", None),
    "quitting Blender": ("bpy.ops.wm.quit_blender()", None),
    "own files deleted": ("import glob, os; [os.unlink(f) for f in glob.glob('*') if os.path.isfile(f)]", None),
    "snapshot replaced": ("open('snapshot.blend', 'wb').write(b'junk' * 1000)", None),
    "a handler that ends when saved": (ENDS, None),
    "a handler that never lets it be saved": (NEVER, None),
    "a handler that never lets it be opened": (NEVER.replace("save_pre", "load_pre"), None),
    "half a surrogate pair": ("print('\\ud800')", None),
    "a flood of print": ("for _ in range(20_000): print('x' * 1000)", None),
    "a flood past Python": ("import os\nfor _ in range(4000): [os.write(fd, b'x' * 9999) for fd in (1, 2)]", None),
}
"""Attacks that Blender survives: their message, or None where there is nothing to complain about."""


@pytest.mark.parametrize("name", HARMLESS)
def test_a_survivable_fault_changes_nothing(world: World, name: str) -> None:
    mark, place = world.work()
    text, message = HARMLESS[name]
    result = world.run(text)
    if message is not None:
        assert result["is_error"] and message in result["text"]
    elif name == "quitting Blender":
        pass  # A module has nothing to quit; a stand-alone Blender ends, and that is a fault like any other.
    else:
        assert not result["is_error"]
    assert len(result["text"]) <= 16_000
    if name == "a flood of print":
        assert result["text"].startswith("xxx") and "more characters were cut" in result["text"]
    if name == "a flood past Python":
        assert result["text"] == "The code ran without output."
        assert len(world.host.session.log) <= 64 << 10
    world.check(mark, place)
    world.run("import os; os.chdir(os.environ['HOME'])")  # One of them leaves it, which lasts.


def test_a_render_whose_file_is_moved_or_spoilt_is_an_error(world: World) -> None:
    mark, place = world.work()
    handler = (
        "import os\ndef spoil(*_):\n    path = bpy.context.scene.render.filepath\n    {}\n"
        "bpy.app.handlers.render_complete.append(spoil)\nbpy.app.handlers.render_post.append(spoil)"
    )
    for deed in (
        "os.path.exists(path) and os.rename(path, path + '.moved')",
        "os.path.exists(path) and os.unlink(path)",
        "os.path.exists(path) and open(path, 'wb').write(b'junk')",
        "os.path.exists(path) and os.truncate(path, 100)",
    ):
        world.run("bpy.app.handlers.render_complete.clear(); bpy.app.handlers.render_post.clear()")
        world.run(handler.format(deed))
        result = world.call({"name": "render_scene_view"})
        assert result["is_error"] and result["images"] == [], deed
        assert "picture" in result["text"]
    world.run("bpy.app.handlers.render_complete.clear(); bpy.app.handlers.render_post.clear()")
    world.check(mark, place)


def test_a_thread_that_spoils_every_snapshot_costs_at_most_its_own_work(world: World) -> None:
    mark, place = world.work()
    world.run("pass")  # Has the work kept.
    world.run(
        "import threading\ndef spoil():\n    while True:\n        try:\n"
        "            open('snapshot.blend', 'wb').write(b'junk')\n        except OSError: pass\n"
        "threading.Thread(target=spoil, daemon=True).start()"
    )
    world.call({"name": "get_scene_info"})  # Keeps whatever the thread left.
    assert world.run("import os; os._exit(1)")["is_error"]
    world.check(mark, place)


def test_an_episode_full_of_faults_is_scored_like_one_without(world: World) -> None:
    world.reset()
    truth = np.asarray(world.episode.case.truth["matrix_world"]).tolist()
    world.run(f"from mathutils import Matrix\nbpy.context.scene.camera.matrix_world = Matrix({truth})")
    for name in ("os._exit", "segmentation fault", "every object deleted", "garbage in the answer pipe"):
        assert world.run(DEADLY[name][0])["is_error"]
    _, reward, terminated, truncated, info = world.env.step(
        [code("bpy.context.scene.camera.location.x += 1; import os; os.abort()"), {"name": "submit", "arguments": {}}]
    )
    assert terminated and not truncated and info["status"] == "ok"
    assert info["score"] == pytest.approx(100, abs=0.01) and reward == pytest.approx(1, abs=1e-4)
    assert info["tool_calls"] == 7 and info["steps"] == 6
    with pytest.raises(gym.error.ResetNeeded):
        world.env.step([])


def test_what_the_last_call_left_behind_does_not_spoil_the_score(world: World) -> None:
    world.work()
    late = code("import os, threading; threading.Timer(0.0, os._exit, [1]).start()")
    *_, info = world.env.step([late, {"name": "submit"}])
    assert info["status"] == "ok" and info["score"] > 0


# --- the journal ----------------------------------------------------------------------------------------------------


def test_typed_changes_are_replayed() -> None:
    world = World(toolset="typed")
    try:
        world.reset()
        name = world.episode.case.public.data["objects"][-1]
        view = {"location": [1.0, -2.0, 1.5], "look_at": [0.0, 0.0, 1.0]}
        keys = [{"frame": 1, "location": [0.0, 0.0, 0.0]}, {"frame": 9, "location": [1.0, 0.0, 0.0]}]
        calls = [
            {"name": "set_camera_pose", "arguments": view},
            {"name": "set_object_pose", "arguments": {"name": name, "location": [3, 2, 1], "rotation_deg": [0, 0, 90]}},
            {"name": "set_keyframes", "arguments": {"name": name, "keyframes": keys}},
            {"name": "set_object_pose", "arguments": {"name": "no such object", "location": [0, 0, 0]}},
        ]
        assert [world.call(call)["is_error"] for call in calls] == [False, False, False, True]
        questions = [{"name": "get_object_info", "arguments": {"name": each}} for each in ("camera", name)]
        before = [world.call(question)["text"] for question in questions]
        assert '"frames": [1.0, 9.0]' in before[1]
        session = world.host.session
        assert session._snapshots == [] and len(session._journal) == 3  # Only the journal can bring this back.
        for _ in range(2):
            pid = session.pid
            assert world.run("import os; os._exit(1)")["is_error"]
            assert session.pid != pid
            assert [world.call(question)["text"] for question in questions] == before
        os.kill(session.pid, signal.SIGKILL)
        world.wait_for_the_end()  # Nothing is lost, so nothing is complained about.
        assert [world.call(question)["text"] for question in questions] == before

        for index in range(70):
            world.call({"name": "set_camera_pose", "arguments": {**view, "location": [1.0, -2.0, 1 + index / 64]}})
        assert len(session._journal) < 64 and session._snapshots
        assert world.run("import os; os._exit(1)")["is_error"]
        assert json.loads(world.call(questions[0])["text"])["matrix_world"][2][3] == 1 + 69 / 64
    finally:
        world.env.close()


# --- from one episode to the next -----------------------------------------------------------------------------------


def test_no_state_crosses_episodes(world: World) -> None:
    world.reset()
    world.run(
        "import builtins, sys, math, os, threading, time\nbuiltins.leak = 1\nsys.modules['leak'] = math\n"
        "math.degrees = lambda _: 77.0\nopen('leak', 'w').close()\n"
        "bpy.app.handlers.depsgraph_update_post.append(lambda *_: None)\nbpy.app.driver_namespace['leak'] = 1\n"
        "bpy.types.Scene.leak = bpy.props.IntProperty()\nbpy.data.texts.new('leak').use_fake_user = True\n"
        "threading.Thread(target=time.sleep, args=[600], name='leak', daemon=True).start()"
    )
    assert '"fov_x_deg": 77.0' in world.call({"name": "get_scene_info"})["text"]  # The patch works here.
    world.reset()
    result = world.run(
        "import builtins, sys, math, os, threading\n"
        "print([hasattr(builtins, 'leak'), 'leak' in sys.modules, math.degrees(0.0), os.path.exists('leak'),"
        " len(bpy.app.handlers.depsgraph_update_post), 'leak' in bpy.app.driver_namespace,"
        " hasattr(bpy.types.Scene, 'leak'), len(bpy.data.texts), [t.name for t in threading.enumerate()]])"
    )
    assert result["text"].strip() == "[False, False, 0.0, False, 0, False, False, 0, ['MainThread']]"


def test_workers_are_recycled(world: World) -> None:
    session = world.host.session

    def pids(count: int) -> list[int | None]:
        return [(world.reset(), session.pid)[1] for _ in range(count)]

    usual = session.settings
    try:
        world.reset()
        world.run("pass")  # Code ran: the next episode gets a fresh worker.
        world.settings(recycle_episodes=3)
        first = pids(4)
        assert first == [first[0]] * 3 + [first[3]] and first[3] != first[0]
        world.settings(recycle_episodes=1000, recycle_memory=1 << 20)
        second = pids(2)
        assert len({first[3], *second}) == 3
        world.settings(recycle_memory=64 << 30)
        assert pids(2) == [second[-1]] * 2
    finally:
        session.settings = usual
    world.check(*world.work())


def test_a_worker_that_died_between_episodes_is_replaced(world: World) -> None:
    world.reset()
    pid = world.host.session.pid
    os.kill(pid, signal.SIGKILL)
    world.reset()
    assert world.host.session.pid not in (None, pid)
    world.check(*world.work())


# --- Blender cannot be brought back -----------------------------------------------------------------------------------


@pytest.mark.parametrize("ending", ["step", "submit", "checkpoint"])
def test_without_blender_there_is_no_score(world: World, ending: str) -> None:
    world.reset()
    session = world.host.session
    good, world.host.config = session.blender, replace(world.host.config, checkpoints=(2,))
    try:
        world.run("pass")
        session.blender = Blender("module", Path(shutil.which("false") or "/bin/false"), "0")
        os.kill(session.pid, signal.SIGKILL)
        action = {"step": {"name": "get_scene_info"}, "submit": {"name": "submit"}, "checkpoint": "nonsense"}[ending]
        _, reward, terminated, truncated, info = world.env.step(action)
    finally:
        session.blender, world.host.config = good, replace(world.host.config, checkpoints=())
    assert info["status"] == "infra_error" and "could not be brought back" in info["reason"]
    assert info["score"] is info["score_paper"] is info["score_strict"] is None
    assert reward == 0 and truncated and not terminated
    with pytest.raises(gym.error.ResetNeeded):
        world.env.step([])
    world.reset()
    world.check(*world.work())


def test_a_machine_without_processes_is_no_fault_of_the_agents(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any, **__: Any) -> None:
        raise OSError(errno.EAGAIN, os.strerror(errno.EAGAIN))

    world.reset()
    with monkeypatch.context() as patch:
        patch.setattr(process.subprocess, "Popen", full)
        *_, truncated, info = world.env.step(code("import os; os._exit(1)"))
        assert truncated and info["status"] == "infra_error" and "could not be started" in info["reason"]
        with pytest.raises(InfraError, match="could not be started"):
            world.reset()
    world.reset()
    world.check(*world.work())


# --- the protocol, with a worker that only lies ---------------------------------------------------------------------

LIAR = """
import json, os, struct, sys
requests, answers = map(int, sys.argv[-2:])
def frame(value, blob=b"", magic=b"SAG1"):
    text = value if isinstance(value, bytes) else json.dumps(value).encode()
    return struct.pack("<4sIQ", magic, len(text), len(blob)) + text + blob
while True:
    magic, length, size = struct.unpack("<4sIQ", os.read(requests, 16))
    message = json.loads(os.read(requests, length))
    data = eval(message["args"]["lie"], {"id": message["id"], **globals()})
    while data:
        data = data[os.write(answers, data):]
"""

LIES = {
    "frame({'id': id + 1, 'result': 1, 'blobs': []})": "protocol",
    "frame({'result': 1, 'blobs': []})": "protocol",
    "frame({'id': id, 'result': 1})": "protocol",
    "frame({'id': id, 'result': 1, 'blobs': [5]}, b'four')": "protocol",
    "frame({'id': id, 'result': 1, 'blobs': [-1, 5]}, b'four')": "protocol",
    "frame({'id': id, 'result': 1, 'blobs': []}, b'four')": "protocol",
    "frame({'id': id, 'result': 1, 'blobs': 'four'}, b'four')": "protocol",
    "frame({'id': id, 'error': 'text', 'blobs': []})": "protocol",
    "frame([id])": "protocol",
    "frame(b'null')": "protocol",
    "frame(b'{')": "protocol",
    "frame(b'\\xff\\xfe')": "protocol",
    "frame(b'[' * 200_000)": "protocol",
    "frame(b'9' * 20_000)": "protocol",
    "frame({'id': id, 'result': 1, 'blobs': []}, magic=b'SAG2')": "protocol",
    "struct.pack('<4sIQ', b'SAG1', 1 << 31, 0)": "protocol",
    "struct.pack('<4sIQ', b'SAG1', 10, 1 << 40)": "protocol",
    "frame({'id': id, 'result': 1, 'blobs': []})[:-1]": "deadline",
    "b''": "deadline",
    "b'S' + (os._exit(5) or b'')": "died",
}


@pytest.fixture
def liar(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[WorkerProcess]:
    script = tmp_path / "liar.py"
    script.write_text(LIAR)
    folder = tmp_path / "folder"
    folder.mkdir()
    monkeypatch.setattr(process, "WORKER_FILES", [script])
    blender = Blender("module", Path(sys.executable), "0")
    worker = WorkerProcess(blender, folder, mode="off", memory_limit=4 << 30, disk_limit=1 << 30)
    yield worker
    worker.kill()


@pytest.mark.parametrize("lie", LIES)
def test_lies_are_faults(liar: WorkerProcess, lie: str) -> None:
    truthful = "frame({'id': id, 'result': [1, None], 'blobs': [1, 0, 2]}, b'abc')"
    assert liar.call("any", {"lie": truthful}, deadline=60) == ([1, None], [b"a", b"", b"bc"])
    refusal = "frame({'id': id, 'error': {'message': 'no'}, 'blobs': []})"
    with pytest.raises(OperationError, match="no"):
        liar.call("any", {"lie": refusal}, deadline=60)
    with pytest.raises(WorkerFault) as caught:
        liar.call("any", {"lie": lie}, deadline=0.5 if LIES[lie] == "deadline" else 60)
    assert caught.value.kind == LIES[lie]
    assert not liar.alive
    with pytest.raises(ProcessLookupError):
        os.kill(liar.pid, 0)
    with pytest.raises(WorkerFault, match="not running"):
        liar.call("any", {"lie": truthful}, deadline=60)
    liar.kill()  # Twice does no harm.


def test_an_answer_larger_than_a_pipe_arrives(liar: WorkerProcess) -> None:
    lie = "frame({'id': id, 'result': 'x' * 3_000_000, 'blobs': [5_000_000]}, bytes(5_000_000))"
    result, blobs = liar.call("any", {"lie": lie}, deadline=60)
    assert len(result) == 3_000_000 and blobs == [bytes(5_000_000)]
