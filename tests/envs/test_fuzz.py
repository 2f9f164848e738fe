"""500 random and malformed actions in a row: no exception, no hang, no process left."""

from __future__ import annotations

import json
import os
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

from sceneact_gym.envs.spaces import ToolCalls
from sceneact_gym.episode import parse_action
from sceneact_gym.tools import MAX_CALLS, TEXT_LIMIT, TOOLS
from sceneact_gym.trace import read_trace
from tests.envs.test_conformance import descendants

ACTIONS = 500
STRINGS = [
    *[
        "",
        " ",
        "camera",
        "submit",
        "Cámara",
        "日本語",
        "\ud800",
        "\udcff",
        "\x00",
        "\x1b[2J",
        "a" * 5000,
        "/etc/passwd",
    ],
    *["'; DROP TABLE", "%s%n", "{}", "[]", "null", "NaN", "-0", "\u202e", "🪑" * 50, "\r\n\t"],
]
NUMBERS = [
    *[0, -1, 1, True, None, 1.5, -0.0, float("nan"), float("inf"), -float("inf"), 1e308, -1e308, 5e-324, 2**31, 2**63],
    *[-(2**63) - 1, 10**400, 1j, np.float64(2.5), np.int64(3), np.float32("nan")],
]
CODES = [
    "print(1)",
    "1/0",
    "x = (",
    "raise SystemExit(3)",
    "raise KeyboardInterrupt",
    "print('\\ud800', '\\x00', '日本語')",
    "print('x' * 50_000)",
    "def f(): f()\nf()",
    "\x00",
    "",
    "import os; os.write(1, b'noise' * 1000)",
    "import sys; sys.stdout.close()",
    "import sys; sys.stdout = None; print('lost')",
    "import os; os.chdir('/')",
    "for o in list(bpy.data.objects): bpy.data.objects.remove(o)",
    "bpy.ops.wm.read_factory_settings()",
    "bpy.data.objects['camera'].name = 'eye'",
    "bpy.context.scene.camera = None",
    "bpy.context.scene.camera = bpy.data.objects['camera']",
    "bpy.data.objects['camera'].location = (float('nan'), 1e38, 0)",
    "bpy.data.objects['camera'].matrix_world = __import__('mathutils').Matrix()",
    "bpy.data.objects['camera'].data.type = 'ORTHO'",
    "bpy.data.objects['camera'].data.angle = 3.0",
    "bpy.data.objects['camera'].hide_render = True",
    "bpy.data.objects['camera'].scale = (0, 0, 0)",
    "bpy.context.scene.render.resolution_x = 4; bpy.context.scene.render.engine = 'BLENDER_WORKBENCH'",
    "bpy.context.scene.render.image_settings.file_format = 'OPEN_EXR'",
    "bpy.context.scene.frame_set(-5)",
    "bpy.context.scene.name = 'ü' * 20",
    "bpy.data.scenes.new('other')",
    "bpy.ops.mesh.primitive_cube_add(); bpy.ops.object.mode_set(mode='EDIT')",
    "bpy.context.scene.collection.objects.link(bpy.data.objects.new('日本\\n語', bpy.data.cameras.new('c')))",
    "o = bpy.data.objects['camera']; e = bpy.data.objects.new('p', None); o.parent = e",
    "bpy.ops.object.select_all(action='SELECT')",
    "bpy.ops.object.delete()",
    "del bpy",
    "import gc; gc.collect()",
    "import os; os._exit(1)",
]
DEADLY = 0.02
"""How often code that ends Blender is drawn: a restart takes a second."""


class Actions:
    """Draws actions; the same ones for the same seed."""

    def __init__(self, space: Any, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.space = space
        space.seed(seed)
        self.kinds = [
            *[self.sample] * 3,
            *[self.hostile_code] * 4,
            *[self.odd_arguments] * 5,
            *[self.text, self.broken_text, self.odd_call, self.odd_type, self.too_many, self.deep, self.unknown],
        ]

    def pick(self, values: Any) -> Any:
        return values[int(self.rng.integers(len(values)))]

    def draw(self) -> Any:
        return self.pick(self.kinds)()

    def sample(self) -> Any:
        return [call for call in self.space.sample() if call["name"] != "submit"] or {"name": "get_scene_info"}

    def hostile_code(self) -> Any:
        code = CODES[-1] if self.rng.random() < DEADLY else self.pick(CODES[:-1])
        return {"name": "execute_blender_code", "arguments": {"code": code}}

    def value(self, depth: int = 0) -> Any:
        kind = int(self.rng.integers(6 if depth < 3 else 2))
        if kind == 0:
            return self.pick(STRINGS)
        if kind == 1:
            return self.pick(NUMBERS)
        if kind == 2:
            return [self.value(depth + 1) for _ in range(int(self.rng.integers(5)))]
        if kind == 3:
            return {self.pick(STRINGS): self.value(depth + 1) for _ in range(int(self.rng.integers(4)))}
        if kind == 4:
            return [self.pick(NUMBERS) for _ in range(3)]
        return [[self.pick(NUMBERS) for _ in range(4)] for _ in range(4)]

    def odd_arguments(self) -> Any:
        tool = TOOLS[self.pick([name for name in self.space.tools if name != "submit"])]
        fields = list(tool.arguments.model_fields)
        arguments = tool.sample(self.rng, ("camera", "no such object"))
        for _ in range(int(self.rng.integers(1, 3))):
            name = self.pick([*fields, "surplus", ""])
            arguments[name] = self.pick([16, 24, -5, "camera", 4096]) if name == "size" else self.value()
        return {"name": tool.name, "arguments": arguments}

    def text(self) -> Any:
        return json.dumps(self.sample())

    def broken_text(self) -> Any:
        text = json.dumps(self.sample())
        cut = int(self.rng.integers(len(text)))
        return self.pick([text[:cut], text[:cut] + self.pick(STRINGS) + text[cut:], self.pick(STRINGS), "9" * 9999])

    def odd_call(self) -> Any:
        return [
            self.sample()[0] if isinstance(self.sample(), list) else {},
            self.pick([{}, None, 3, [], "get_scene_info", {"name": None}, {"name": 7}, {"arguments": {}}]),
            {"name": "get_scene_info", "arguments": self.value()},
            {"name": "get_scene_info", "extra": 1, 5: 6},
        ]

    def odd_type(self) -> Any:
        plain = [None, 5, 2.5, True, b"[]", {}, ({},)]
        return self.pick([*plain, object(), {1, 2}, range(3), np.zeros((2, 2)), np.array("x"), len, Loud()])

    def too_many(self) -> Any:
        return [{"name": "get_scene_info"}] * int(self.pick([MAX_CALLS + 1, 1000]))

    def deep(self) -> Any:
        depth = int(self.pick([10, 400, 900, 940, 960, 970, 980, 990, 50_000]))
        shape = int(self.rng.integers(3))
        if shape == 0:
            return "[" * depth + "]" * depth
        value: Any = {}
        for _ in range(depth):
            value = [value] if shape == 1 else {"name": value}
        return value if shape == 1 else {"name": "get_object_info", "arguments": value}

    def unknown(self) -> Any:
        names = ["import_component", "read_reference_frames", "__class__", *STRINGS]
        return {"name": self.pick(names), "arguments": {}}


class Loud:
    def __repr__(self) -> str:
        raise RuntimeError("a mistake of the user")


@pytest.mark.timeout(300)
@pytest.mark.parametrize("toolset", ["paper", "typed"])
def test_nothing_that_an_agent_sends_raises(toolset: str, tmp_path: Path) -> None:
    count = ACTIONS if toolset == "typed" else ACTIONS // 5
    before = descendants(os.getpid()) if sys.platform == "linux" else set()
    env = gym.make(
        "SceneAct/Camera-v0",
        toolset=toolset,
        max_steps=count,
        render_size=16,
        reference_size=16,
        render={"samples": 1},
        checkpoints=(count // 2,),
        record_dir=tmp_path,
        disable_env_checker=True,
    )
    statuses: Counter[tuple[str, bool]] = Counter()
    try:
        env.reset(seed=0)
        actions = Actions(env.action_space, seed=7)
        for number in range(1, count + 1):
            action = actions.draw()
            calls, problem = parse_action(action)
            if not problem and (not calls or any(isinstance(c, dict) and c.get("name") == "submit" for c in calls)):
                action, calls = {}, [{}]  # What would rightly end the episode is not for here.
            member = env.action_space.contains(action)
            observation, reward, terminated, truncated, info = env.step(action)
            assert observation in env.observation_space
            assert observation["steps_left"] == count - number
            assert not terminated and truncated == (number == count)
            results = info["results"]
            assert len(results) == (1 if problem else len(calls))
            assert not (problem and member)
            for result in results:
                assert isinstance(result["text"], str) and len(result["text"]) <= TEXT_LIMIT
                assert isinstance(result["is_error"], bool) and (result["text"] or not result["is_error"])
                statuses[result["name"] if result["name"] in TOOLS else "?", result["is_error"]] += 1
            assert not problem or results[0]["is_error"]
        assert info["status"] in ("ok", "agent_error") and isinstance(info["score"], float)
        assert reward == info["score"] / 100
    finally:
        env.close()
    # The draw is worth something only if much of it works and much does not.
    for name in ("execute_blender_code", "render_scene_view", "get_object_info"):
        assert statuses[name, False] >= 5 and statuses[name, True] >= 5, statuses
    assert statuses["?", True] >= 20
    (folder,) = tmp_path.iterdir()
    events = list(read_trace(folder))
    assert [event["event"] for event in events] == ["begin", *["step"] * count, "end"]
    if sys.platform == "linux":
        assert descendants(os.getpid()) <= before


def test_the_draw_is_seeded() -> None:
    def drawn(seed: int) -> list[str]:
        actions = Actions(ToolCalls("typed", ("import_component",)), seed)
        values = [actions.draw() for _ in range(200)]
        return [value[:50] if isinstance(value, str) else type(value).__name__ for value in values]

    assert drawn(7) == drawn(7) != drawn(8)
