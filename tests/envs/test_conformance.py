"""What Gymnasium and its users may expect of every registered environment."""

from __future__ import annotations

import contextlib
import gc
import hashlib
import json
import os
import pickle
import signal
import subprocess
import sys
import textwrap
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.envs.registration import EnvSpec
from gymnasium.utils.env_checker import check_env

from sceneact_gym.blender import session as session_module
from sceneact_gym.blender.session import BlenderSession
from sceneact_gym.data.references import cache_folder
from sceneact_gym.envs import ENVS
from sceneact_gym.errors import CaseNotFound

ROOT = Path(__file__).resolve().parents[2]
SMALL: dict[str, Any] = {"render_size": 32, "reference_size": 32, "render": {"samples": 1}}
CAMERA = "SceneAct/Camera-v0"
PATIENCE = 60.0

linux = pytest.mark.skipif(sys.platform != "linux", reason="looks for processes in /proc")


def code(text: str) -> dict[str, Any]:
    return {"name": "execute_blender_code", "arguments": {"code": text}}


def processes() -> dict[int, tuple[int, str]]:
    """Per running process its parent and its state."""
    found = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                state, parent = (entry / "stat").read_text().rpartition(")")[2].split()[:2]
                found[int(entry.name)] = (int(parent), state)
    return found


def descendants(pid: int) -> set[int]:
    table = processes()
    found: set[int] = set()
    new = {pid}
    while new:
        new = {child for child, (parent, state) in table.items() if parent in new and state != "Z"} - found
        found |= new
    return found


def running(pid: int) -> bool:
    return processes().get(pid, (0, "Z"))[1] != "Z"


def wait_until(condition: Any) -> None:
    give_up = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < give_up
        time.sleep(0.02)


@pytest.fixture(scope="module", params=ENVS)
def env(request: pytest.FixtureRequest) -> Iterator[gym.Env[Any, Any]]:
    env = gym.make(request.param, render_mode="rgb_array", **SMALL)
    yield env
    env.close()


@pytest.fixture(scope="module")
def camera() -> Iterator[gym.Env[Any, Any]]:
    env = gym.make(CAMERA, **SMALL)
    # Gymnasium's wrapper checks the first reset and two steps; it cannot bear that one of these raises.
    env.reset(seed=0)
    env.step({"name": "get_scene_info"})
    env.step({"name": "get_scene_info"})
    yield env
    env.close()


# --- every environment ----------------------------------------------------------------------------------------------


@linux
def test_there_is_no_blender_before_reset(env: gym.Env[Any, Any]) -> None:
    before = descendants(os.getpid())
    other = gym.make(env.spec.id, **SMALL)
    try:
        other.action_space.sample()
        other.observation_space.sample()
        with pytest.raises(gym.error.ResetNeeded):
            other.step([])
        with pytest.raises(gym.error.ResetNeeded):
            other.unwrapped.step([])
        assert not other.unwrapped.host.session.running
        assert descendants(os.getpid()) <= before
    finally:
        other.close()
        other.close()


@pytest.mark.timeout(600)
def test_gymnasium_finds_nothing_to_complain_about(env: gym.Env[Any, Any]) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_env(env.unwrapped, skip_render_check=True, skip_close_check=True)  # Both are below.


def test_the_specification_survives_json(env: gym.Env[Any, Any]) -> None:
    for spec in (gym.spec(env.spec.id), env.spec):
        again = EnvSpec.from_json(spec.to_json())
        assert again == spec
        other = gym.make(again)
        assert other.spec.id == env.spec.id
        if spec is env.spec:
            assert other.observation_space == env.observation_space
            assert other.render_mode == "rgb_array"
        assert other.action_space == env.action_space
        other.close()


@pytest.mark.parametrize("toolset", ["paper", "typed"])
@pytest.mark.parametrize("env_id", ENVS)
def test_it_can_be_pickled_before_reset(env_id: str, toolset: str) -> None:
    env = gym.make(env_id, toolset=toolset, max_steps=1, **SMALL)
    for copy in (pickle.loads(pickle.dumps(env)), pickle.loads(pickle.dumps(env.unwrapped))):
        assert copy.observation_space == env.observation_space and copy.action_space == env.action_space
    env.close()
    if env_id == CAMERA:
        observation, _ = copy.reset(seed=3)
        assert observation in copy.observation_space
        *_, truncated, info = copy.step({"name": "get_scene_info", "arguments": {}})
        assert truncated and info["status"] == "ok"
    copy.close()


def test_an_episode_keeps_to_the_interface(env: gym.Env[Any, Any]) -> None:
    observation, info = env.reset(seed=5)
    assert observation in env.observation_space
    assert {"case_id", "system_prompt", "prompt", "tools", "budget"} == set(info)
    budget = info["budget"]
    assert observation["steps_left"] == budget and observation["message"] and not observation["render"].any()
    assert env.render().shape == (32, 64, 3) and env.render().dtype == np.uint8
    assert np.array_equal(env.render()[:, :32], observation["references"][0])
    view = {"location": [6, -6, 5], "look_at": [0, 0, 0.5]}
    observation, reward, terminated, truncated, info = env.step({"name": "render_scene_view", "arguments": view})
    assert observation in env.observation_space and observation["steps_left"] == budget - 1
    assert (reward, terminated, truncated) == (0.0, False, False) and set(info) == {"results"}
    assert np.array_equal(env.render()[:, 32:], observation["render"])
    observation, reward, terminated, truncated, info = env.step([])
    assert observation in env.observation_space and terminated and not truncated
    assert {"score", "score_paper", "score_strict", "metrics", "status", "steps", "tool_calls"} <= set(info)
    assert reward == pytest.approx((info["score"] or 0) / 100) and info["steps"] == 2 and info["tool_calls"] == 1
    for needs_reset in (env, env.unwrapped):
        with pytest.raises(gym.error.ResetNeeded):
            needs_reset.step([])


def test_arrays_are_new_every_time(env: gym.Env[Any, Any]) -> None:
    first, _ = env.reset(seed=5)
    references = first["references"].copy()
    view = {"name": "render_scene_view", "arguments": {"location": [6, -6, 5], "look_at": [0, 0, 0.5]}}
    second, *_, info = env.step(view)
    picture = second["render"].copy()
    shown = env.render().copy()
    for array in (first["references"], first["render"], second["references"], second["render"], env.render()):
        assert array.flags.writeable
        array[:] = 7
    info["results"][0]["images"][0][:] = 9
    assert np.array_equal(env.render(), shown)
    third, *_ = env.step({"name": "get_scene_info", "arguments": {}})
    assert np.array_equal(third["references"], references) and np.array_equal(third["render"], picture)
    again, _ = env.reset(seed=5)
    assert np.array_equal(again["references"], references) and not again["render"].any()


# Without a mode the environments are asynchronous, but without shared memory; "async" alone uses it.
@pytest.mark.parametrize("mode", ["sync", "async", None])
@pytest.mark.parametrize("env_id", ENVS)
def test_several_environments(env_id: str, mode: str | None) -> None:
    before = descendants(os.getpid()) if sys.platform == "linux" else set()
    envs = gym.make_vec(env_id, num_envs=2, vectorization_mode=mode, **SMALL)
    try:
        if mode is None:
            assert isinstance(envs, gym.vector.AsyncVectorEnv)
        observations, infos = envs.reset(seed=[1, 2])
        assert observations in envs.observation_space
        prompts = list(infos["prompt"])
        assert list(observations["message"]) == [prompt[:24_000] for prompt in prompts]
        assert envs.action_space.sample() in envs.action_space
        question = {"name": "get_scene_info", "arguments": {}}
        observations, rewards, terminated, truncated, infos = envs.step(([question], []))
        assert observations in envs.observation_space
        assert list(terminated) == [False, True] and not truncated.any()
        assert observations["message"][0].startswith("[get_scene_info] {") and observations["message"][1] == ""
        assert rewards[0] == 0 and rewards[1] == pytest.approx((infos["score"][1] or 0) / 100)
        kept = observations["message"]
        observations, *_ = envs.step(([], [question]))
        # The one that was over began another episode, and left its action aside.
        assert observations["message"][0] == "" and "[get_scene_info]" not in observations["message"][1]
        assert observations["message"][1] and kept[0].startswith("[get_scene_info] {")
    finally:
        envs.close()
    if sys.platform == "linux":
        wait_until(lambda: descendants(os.getpid()) <= before)


# --- arguments ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"protocol": "mine"}, "protocol must be one of paper, strict"),
        ({"toolset": "mine"}, "toolset must be one of paper, typed"),
        ({"isolation": "none"}, "isolation must be 'auto' or 'off'"),
        ({"max_steps": 0}, "max_steps must be at least 1"),
        ({"render_size": 8}, "render_size must be between 16 and 1024"),
        ({"reference_size": 4000}, "reference_size must be between 16 and 1024"),
        ({"render": {"engine": "povray"}}, "engine must be one of auto, cycles, workbench, eevee"),
        ({"render": {"smaples": 3}}, "render has no field smaples"),
        ({"split": "none"}, "split must be one of train, val, test"),
        ({"source": "/no/such/folder"}, "source must be 'procedural' or a folder of cases"),
    ],
)
def test_impossible_arguments_are_refused_at_once(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises((ValueError, CaseNotFound), match=message):
        gym.make(CAMERA, **arguments)


def test_an_impossible_render_mode_is_refused() -> None:
    with pytest.raises(ValueError, match="render_mode must be None or 'rgb_array'"), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Gymnasium has its own word about the mode.
        gym.make(CAMERA, render_mode="ansi")


def test_impossible_options_are_refused(camera: gym.Env[Any, Any]) -> None:
    with pytest.raises(ValueError, match="options has only case_id; remove case"):
        camera.reset(seed=0, options={"case": "camera-test-0001"})
    with pytest.raises(CaseNotFound, match="camera-test-0000"):
        camera.reset(options={"case_id": "camera-val-0001"})
    _, info = camera.reset(options={"case_id": "camera-test-0007"})
    assert info["case_id"] == "camera-test-0007"


def test_seeds_choose_cases(camera: gym.Env[Any, Any]) -> None:
    def drawn(*seeds: int | None) -> list[str]:
        return [camera.reset(seed=seed)[1]["case_id"] for seed in seeds]

    first = drawn(11, None, None)
    assert drawn(11, None, None) == first and len(set(first)) > 1


# --- the same again ---------------------------------------------------------------------------------------------------


WORK = """
bpy.context.scene.camera.location.x += 0.25
for name in ("object_00", "node_000"):
    if name in bpy.data.objects:
        bpy.data.objects[name].location.x += 0.25
bpy.ops.mesh.primitive_uv_sphere_add(segments=12, ring_count=8, location=(1, 0, 1))
bpy.context.object.name = "mark"
"""
"""Changes what is collected in every task."""


def play(env: gym.Env[Any, Any], seed: int) -> dict[str, Any]:
    """An episode of sampled and of hostile actions: everything that came of it."""
    observation, info = env.reset(seed=seed)
    env.action_space.seed(seed)
    record: dict[str, Any] = {"texts": [info["case_id"], info["prompt"]], "pixels": [], "errors": 0}

    def keep(observation: Any) -> None:
        record["texts"].append(observation["message"])
        for name in ("references", "render"):
            record["pixels"].append(hashlib.sha256(observation[name].tobytes()).hexdigest())

    keep(observation)
    actions = [[call for call in env.action_space.sample() if call["name"] != "submit"] for _ in range(4)]
    actions += [
        [code("print(sorted(o.name for o in bpy.data.objects), {'b', 'a', 'c'}, hash('text'), id)")],
        [code("import os; os._exit(1)"), {"name": "render_scene_view", "arguments": {"size": 48}}],
        [code(WORK), {"name": "no such tool"}, {"name": "get_scene_info"}],
        [{"name": "render_scene_view"}],
    ]
    for action in actions:
        observation, _, _, _, info = env.step(action)
        keep(observation)
        record["texts"] += [result["text"] for result in info["results"]]
        record["errors"] += sum(result["is_error"] for result in info["results"])
        record["pixels"] += [
            hashlib.sha256(picture.tobytes()).hexdigest() for result in info["results"] for picture in result["images"]
        ]
    *_, info = env.step([{"name": "submit", "arguments": {}}])
    record |= {name: info[name] for name in ("score", "score_strict", "metrics", "status", "submission_hash")}
    return record


def test_the_same_actions_give_the_same_episode(env: gym.Env[Any, Any]) -> None:
    first = play(env, 21)
    assert first["errors"] >= 2 and first["status"] == "ok" and len(set(first["pixels"])) > 3
    assert first["submission_hash"]
    assert play(env, 21) == first


def test_another_process_gives_the_same_episode(camera: gym.Env[Any, Any]) -> None:
    first = play(camera, 21)
    assert play(camera, 22)["submission_hash"] != first["submission_hash"]
    script = f"""
        import json, sys
        import gymnasium as gym
        from tests.envs.test_conformance import SMALL, play
        env = gym.make({CAMERA!r}, **SMALL)
        print(json.dumps(play(env, 21)))
        env.close()
    """
    # Another process has other hashes of texts; nothing may depend on them.
    answer = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script)],
        cwd=ROOT,
        env={**os.environ, "PYTHONHASHSEED": "77"},
        capture_output=True,
        text=True,
        timeout=200,
        check=True,
    )
    assert json.loads(answer.stdout) == first


# --- what agent code can do to an episode ---------------------------------------------------------------------------


def test_a_crash_costs_only_its_own_call(env: gym.Env[Any, Any]) -> None:
    env.reset(seed=4)
    *_, info = env.step(code(WORK))
    assert not info["results"][0]["is_error"]
    *_, info = env.step([code("bpy.data.objects['mark'].name = 'gone'\nimport os; os.abort()"), code("print(1 + 1)")])
    crash, after = info["results"]
    assert crash["is_error"] and "SIGABRT" in crash["text"] and "restarted" in crash["text"]
    assert not after["is_error"] and after["text"] == "2\n"
    *_, info = env.step({"name": "get_object_info", "arguments": {"name": "mark"}})
    assert not info["results"][0]["is_error"]
    *_, terminated, _, info = env.step([])
    assert terminated and info["status"] == "ok" and info["score"] is not None


LOOK = """
import json, os, sys
seen = {"files": [], "blocks": [], "properties": []}
for folder, _, names in os.walk("."):
    seen["files"] += [os.path.relpath(os.path.join(folder, name), ".") for name in names]
seen["environment"] = sorted(os.environ)
seen["arguments"] = sys.argv
for kind in dir(bpy.data):
    blocks = getattr(bpy.data, kind)
    if isinstance(blocks, bpy.types.bpy_prop_collection):
        for block in blocks:
            seen["blocks"].append([kind, getattr(block, "name", "")])
            if hasattr(block, "keys"):
                try:
                    seen["properties"] += [[kind, block.name, key] for key in block.keys()]
                except TypeError:
                    pass
seen["opened"] = []
for path in PATHS:
    try:
        seen["opened"].append([path, os.listdir(path) if os.path.isdir(path) else len(open(path, "rb").read())])
    except OSError:
        pass
print(json.dumps(seen))
"""


def test_agent_code_sees_the_public_half_only(env: gym.Env[Any, Any]) -> None:
    env.reset(seed=4)
    episode = env.unwrapped.episode
    vault = env.unwrapped.host.session._home.vault
    forbidden = [ROOT, ROOT / "sceneact_gym" / "cases.py", cache_folder(), vault, f"/proc/{os.getpid()}/environ"]
    *_, info = env.step(code(f"PATHS = {[str(path) for path in forbidden]!r}" + LOOK))
    (result,) = info["results"]
    assert not result["is_error"], result["text"]
    seen = json.loads(result["text"])
    assert seen["opened"] == []
    given = {f"components/{name}" for name in episode.case.public.data.get("components", ())}
    assert {name for name in seen["files"] if not name.startswith(("home/", "tmp/"))} <= given | {"scene.blend"}
    assert given <= set(seen["files"])
    # Data-blocks: what Blender always has, and what the initial scene shows.
    shown = {thing["name"] for thing in episode.session.query("scene_info")["objects"]}
    assert {name for kind, name in seen["blocks"] if kind == "objects"} == shown
    assert {name for kind, name in seen["blocks"] if kind in ("actions", "texts", "images", "libraries")} <= {
        "Render Result"
    }
    assert [row for row in seen["properties"] if row[2] != "cycles"] == []
    text = json.dumps([seen["environment"], seen["arguments"], seen["blocks"], seen["files"]])
    assert episode.case.id not in text and "truth" not in text


# --- no process and no file is left -----------------------------------------------------------------------------------


def start(script: str) -> subprocess.Popen[str]:
    """A user's script; it prints `pid home` of its Blender once that runs."""
    head = f"""
        import os, signal, sys, threading, time
        import gymnasium as gym, sceneact_gym
        env = gym.make({CAMERA!r}, render_size=32, reference_size=32, render={{"samples": 1}})
        env.reset(seed=0)
        session = env.unwrapped.host.session
        print(session.pid, session._home.path, flush=True)
        sys.stdin.readline()  # Until the test has looked.
    """
    return subprocess.Popen(
        [sys.executable, "-W", "error", "-c", textwrap.dedent(head) + textwrap.dedent(script)],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def blender_of(user: subprocess.Popen[str]) -> tuple[int, Path]:
    assert user.stdout is not None and user.stdin is not None
    pid, home = user.stdout.readline().split()
    assert running(int(pid)) and Path(home).is_dir()
    user.stdin.write("\n")
    user.stdin.flush()
    return int(pid), Path(home)


ENDINGS = {
    "closed": ("env.close(); env.close()", 0),
    "never closed": ("pass", 0),
    "dropped": ("import gc; del env, session; gc.collect()", 0),
    "exception": ("raise KeyError('a mistake of the user')", 1),
    "exception in a thread's loop": (
        "t = threading.Thread(target=lambda: env.step([]))\nt.start()\nt.join()\nraise KeyError",
        1,
    ),
    "sys.exit": ("sys.exit(3)", 3),
    "interrupted in a call": (
        "signal.signal(signal.SIGALRM, signal.default_int_handler); signal.alarm(1)\n"
        "env.step({'name': 'execute_blender_code', 'arguments': {'code': 'while True: pass'}})",
        -signal.SIGINT,
    ),
}


@linux
@pytest.mark.parametrize("ending", ENDINGS)
def test_a_script_leaves_nothing_behind(ending: str) -> None:
    script, expected = ENDINGS[ending]
    user = start(script)
    pid, home = blender_of(user)
    _, errors = user.communicate(timeout=PATIENCE)
    assert user.returncode == expected
    wait_until(lambda: not running(pid))
    assert not home.exists() and not home.with_suffix(".lock").exists()
    # Nothing but the user's own mistake is complained about.
    assert errors.count("Traceback") == (expected in (1, -signal.SIGINT)) and "Warning" not in errors


@linux
@pytest.mark.parametrize(
    "busy",
    [
        "time.sleep(600)",
        "env.step({'name': 'execute_blender_code', 'arguments': {'code': 'while True: pass'}})",
        "code = 'import os; os.closerange(0, 256)\\nwhile True: pass'\n"
        "env.step({'name': 'execute_blender_code', 'arguments': {'code': code}})",
    ],
    ids=["idle", "in an endless loop", "with its pipes closed"],
)
def test_a_killed_script_leaves_nothing_behind(busy: str) -> None:
    user = start(busy)
    pid, home = blender_of(user)
    if "while" in busy:
        time.sleep(0.5)  # So that the loop has most likely begun; the test holds either way.
    user.kill()
    user.communicate(timeout=PATIENCE)
    wait_until(lambda: not running(pid))
    # A killed process cannot tidy up; the next session does.
    session = BlenderSession()
    session.start()
    session.close()
    assert not home.exists() and not home.with_suffix(".lock").exists()


@linux
def test_killed_vector_environments_leave_no_process_behind() -> None:
    script = f"""
        import time
        import gymnasium as gym, sceneact_gym
        envs = gym.make_vec({CAMERA!r}, num_envs=2, **{SMALL!r})
        envs.reset(seed=[1, 1])
        print("ready", flush=True)
        time.sleep(600)
    """
    user = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(script)],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert user.stdout is not None and user.stdout.readline() == "ready\n"
    started = descendants(user.pid)
    assert len(started) >= 4  # Two environments, two Blenders.
    user.kill()
    user.wait()
    user.stdout.close()
    wait_until(lambda: not any(map(running, started)))


@linux
def test_close_ends_blender_and_removes_its_files() -> None:
    before = descendants(os.getpid())
    env = gym.make(CAMERA, **SMALL)
    env.reset(seed=0)
    env.step(code("import threading, time; threading.Thread(target=time.sleep, args=[600]).start()"))
    session = env.unwrapped.host.session
    pid, home = session.pid, session._home.path
    assert pid in descendants(os.getpid()) and home.is_dir()
    env.close()
    assert descendants(os.getpid()) <= before
    assert not home.exists() and not home.with_suffix(".lock").exists()
    env.close()
    # A closed environment can begin anew.
    env.reset(seed=0)
    env.close()
    assert descendants(os.getpid()) <= before


@linux
def test_a_dropped_environment_ends_blender() -> None:
    env = gym.make(CAMERA, **SMALL)
    env.reset(seed=0)
    pid, home = env.unwrapped.host.session.pid, env.unwrapped.host.session._home.path
    del env
    gc.collect()
    assert not running(pid) and not home.exists()


@linux
def test_a_forked_copy_does_not_end_its_parents_blender(camera: gym.Env[Any, Any]) -> None:
    camera.reset(seed=0)
    session = camera.unwrapped.host.session
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Newer Pythons advise against forking with threads.
        child = os.fork()
    if child == 0:
        try:
            session.close()
        finally:
            os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    assert session.running and session._home.path.is_dir()
    *_, info = camera.step({"name": "get_scene_info", "arguments": {}})
    assert not info["results"][0]["is_error"]


@linux
def test_a_thread_that_ends_does_not_take_blender_with_it() -> None:
    import threading

    env = gym.make(CAMERA, **SMALL)
    try:
        thread = threading.Thread(target=env.reset, kwargs={"seed": 0})
        thread.start()
        thread.join()
        pid = env.unwrapped.host.session.pid
        time.sleep(0.2)
        *_, info = env.step({"name": "get_scene_info", "arguments": {}})
        assert not info["results"][0]["is_error"] and env.unwrapped.host.session.pid == pid
    finally:
        env.close()


@linux
def test_only_the_homes_of_the_dead_are_swept(tmp_path: Path) -> None:
    dead = tmp_path / f"{session_module.PREFIX}1-aa"
    (dead / "worker1").mkdir(parents=True)
    dead.with_suffix(".lock").touch()
    foreign = tmp_path / "other-1-aa"
    foreign.mkdir()
    foreign.with_suffix(".lock").touch()
    living = session_module._Home()
    try:
        session_module._sweep(tmp_path)
        session_module._sweep(living.path.parent)
        assert not dead.exists() and foreign.is_dir() and living.canary.is_file()
    finally:
        living.remove()
    assert not living.path.exists()
