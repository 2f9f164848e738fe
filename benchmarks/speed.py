"""What the environments cost beside Blender itself, as ratios measured in one run.

    python -m benchmarks.speed [--only call,render,reset,memory,isolation,parallel,restart] [--quick]

Both sides of a ratio are measured in turns and each is a median, so that a busy machine slows both. Prints a Markdown
table; exits 0 also when a target is missed, since a shared machine may be the reason.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import math
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np

import sceneact_gym  # noqa: F401 - registers the environments
from sceneact_gym import tools as toolbox
from sceneact_gym.blender.locate import find_blender
from sceneact_gym.data.sources import open_source
from sceneact_gym.tasks import lighting
from sceneact_gym.tasks.camera import CAMERA_NAME, NEUTRAL_POSE, SCENE_ASSET

ENV = "SceneAct/Camera-v0"
OBJECTS = 7
SIZE = 384
INFO = {"name": "get_object_info", "arguments": {"name": CAMERA_NAME}}
ONE = {"samples": 1}
CODE = {"name": "execute_blender_code", "arguments": {"code": "pass"}}


@dataclass(frozen=True)
class Row:
    """A line of the table."""

    what: str
    value: str
    compared: str = ""
    ratio: str = ""
    target: str = ""
    met: bool | None = None


def case_with_objects() -> tuple[str, bytes, float]:
    """The first test room with seven objects: id, GLB, field of view in degrees."""
    source = open_source("procedural", "camera", "test")
    for case_id in source.ids() or ():
        public = source.load(case_id).public
        if sum(name.startswith("object_") for name in public.data["objects"]) == OBJECTS:
            return case_id, public.assets[SCENE_ASSET], public.data["fov_x_deg"]
    raise SystemExit(f"no test room has {OBJECTS} objects")


class Bare:
    """A plain Blender process with the scene of an episode; see `bare_blender`."""

    def __init__(self, glb: bytes, fov_x_deg: float) -> None:
        """Starts it and loads the scene."""
        self._folder = tempfile.TemporaryDirectory(prefix="sceneact-bare-")
        path = Path(self._folder.name) / "scene.glb"
        path.write_bytes(glb)
        read_end, write_end = os.pipe()
        root = Path(toolbox.__file__).parent / "blender"
        self._process = subprocess.Popen(
            find_blender().command(
                Path(__file__).with_name("bare_blender.py").resolve(), [str(root), str(write_end)]
            ),
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            pass_fds=(write_end,),
            cwd=self._folder.name,
            text=True,
        )
        os.close(write_end)
        self._answers = os.fdopen(read_end)
        camera = {"name": CAMERA_NAME, "matrix": NEUTRAL_POSE.tolist(), "fov_x_deg": fov_x_deg, "active": True}
        self.ask("load", glb=str(path), lighting=lighting.ROOM, camera=camera)

    def ask(self, do: str, **request: Any) -> Any:
        """One request."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"do": do, **request}) + "\n")
        self._process.stdin.flush()
        line = self._answers.readline()
        if not line:
            raise SystemExit("the bare Blender ended")
        return json.loads(line)

    def render(self, settings: dict[str, Any], matrices: Sequence[Any]) -> list[float]:
        """Seconds of each render."""
        path = str(Path(self._folder.name) / "render.png")
        return self.ask("render", settings=settings, matrices=list(matrices), path=path)

    def close(self) -> None:
        """Ends it."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()
        self._answers.close()
        self._folder.cleanup()


class Bench:
    """The measurements; each returns rows of the table."""

    def __init__(self, quick: bool) -> None:
        """Chooses the room and the numbers of repeats."""
        self.quick = quick
        self.case_id, self.glb, self.fov_x_deg = case_with_objects()

    @contextlib.contextmanager
    def env(self, **kwargs: Any) -> Iterator[Any]:
        """A fresh environment, not reset yet."""
        env = gym.make(ENV, **{"max_steps": 1_000_000, "toolset": "typed", **kwargs})
        try:
            yield env
        finally:
            env.close()

    @contextlib.contextmanager
    def both(self, **kwargs: Any) -> Iterator[tuple[Any, Bare]]:
        """An environment on the room, and a bare Blender with it."""
        with self.env(**kwargs) as env, contextlib.closing(Bare(self.glb, self.fov_x_deg)) as bare:
            self.reset(env)
            yield env, bare

    def reset(self, env: Any, case_id: str = "") -> float:
        """Seconds of a reset."""
        return seconds(partial(env.reset, seed=0, options={"case_id": case_id or self.case_id}))

    def call(self) -> list[Row]:
        """A tool call without render or code."""
        rounds, count = (4, 50) if self.quick else (20, 100)
        tool, step, bare_times = [], [], []
        with self.both() as (env, bare):
            episode = env.unwrapped.episode
            env.step(INFO)
            for _ in range(rounds):
                bare_times += bare.ask("times", operation="object_info", args={"name": CAMERA_NAME}, count=count)
                tool += [seconds(partial(toolbox.run, episode.tools, episode, INFO)) for _ in range(count)]
                step += [seconds(partial(env.step, INFO)) for _ in range(count)]
        inside = statistics.median(bare_times)
        rows = []
        for name, values in (("tool call `get_object_info`", tool), ("`env.step` with that call", step)):
            outside = statistics.median(values)
            added = outside - inside
            rows.append(
                Row(name, ms(outside), f"{ms(inside)} inside Blender", f"adds {ms(added)}", "0.4 ms", added <= 0.4e-3)
            )
        return rows

    def render(self) -> list[Row]:
        """`env.step` with one render against the bare operator."""
        rows = []
        # Few samples are the hardest case: what the package adds is then the largest part.
        for size, samples, rounds, count in ((SIZE, 1, 10, 1), (64, 16, 14, 1)):
            if self.quick:
                rounds, count = 2, 1
            stepped, bare_times, ratios = [], [], []
            with self.both(render_size=size, render={"samples": samples}) as (env, bare):
                settings = env.unwrapped.episode.render_settings.as_dict()
                turn = poses(count)
                bare.render(settings, turn)
                for pose in turn:
                    env.step(view(pose))
                for _ in range(rounds):
                    a = bare.render(settings, turn)
                    b = [seconds(partial(env.step, view(pose))) for pose in turn]
                    bare_times += a
                    stepped += b
                    ratios.append(statistics.median(b) / statistics.median(a))
            outside, inside = statistics.median(stepped), statistics.median(bare_times)
            ratio = statistics.median(ratios)  # Of pairs that were measured one right after the other.
            spread = f"median of rounds, {min(ratios):.2f} to {max(ratios):.2f}"
            target = ("<= 1.05", ratio <= 1.05) if size == SIZE else ("", None)
            rows.append(
                Row(
                    f"`env.step` with one render of {size} px, {samples} sample{'s' * (samples > 1)}",
                    ms(outside),
                    f"{ms(inside)} `bpy.ops.render.render`",
                    f"{ratio:.3f} ({spread})",
                    *target,
                )
            )
        return rows

    def resets(self) -> list[Row]:
        """Cold and warm resets."""
        count = 3 if self.quick else 6
        rows = []
        # Small references only make the preparation short: they are cached before anything is measured.
        with self.env(reference_size=64) as env:
            self.reset(env)
        cold = []
        for _ in range(1 if self.quick else 3):
            with self.env(reference_size=64) as env:
                cold.append(self.reset(env))
        rows.append(Row("first reset: Blender starts (references cached)", s(cold)))
        with self.env(reference_size=64) as env:
            self.reset(env)
            others = [f"camera-test-{index:04d}" for index in range(count)]
            for other in others:  # Renders and caches the references, in the trusted Blender.
                self.reset(env, other)
        with self.env(reference_size=64) as env:
            self.reset(env)
            fresh = [self.reset(env, other) for other in others]
            rows.append(Row("reset to a room that is new to a running Blender (references cached)", s(fresh)))
        with self.env(reference_size=64) as env:
            self.reset(env)
            warm = []
            for _ in range(3 * count):
                env.step(INFO)
                warm.append(self.reset(env))
            row = Row(f"warm reset: the same room of {OBJECTS} objects again", s(warm))
            rows.append(Row(row.what, row.value, "", "", "0.25 s", statistics.median(warm) <= 0.25))
            source = env.unwrapped.host.source
            made = [seconds(partial(source.load, self.case_id)) for _ in range(count)]
            rows.append(Row("of it: making the room's case from its seed", s(made)))
            replaced = []
            for _ in range(count):
                env.step(CODE)
                replaced.append(self.reset(env))
            rows.append(Row("reset after agent code: the worker is replaced", s(replaced)))
        return rows

    def memory(self) -> list[Row]:
        """Growth over resets, in the parent and in Blender."""
        count, rooms = (60, 4) if self.quick else (300, 4)
        samples: list[tuple[int, int, float, float]] = []
        with self.env(render_size=64, render=ONE) as env:
            for number in range(count + 1):
                self.reset(env, f"camera-test-{number % rooms:04d}")
                env.step([INFO, {"name": "render_scene_view", "arguments": {}}])
                if number % 10 == 0:
                    pid = env.unwrapped.host.session.pid
                    samples.append((number, pid, resident(os.getpid()), resident(pid)))
        settled = [row for row in samples if row[0] >= count // 6]
        parent = slope([(row[0], row[2]) for row in settled])
        # Blender is replaced after a number of episodes. What counts is how one grows once it has seen every room.
        lives = [[(row[0], row[3]) for row in samples if row[1] == pid] for pid in {row[1] for row in samples}]
        longest = max(lives, key=len)
        blender = slope(longest[len(longest) // 4 :])
        workers = len({row[1] for row in samples})
        return [
            Row(
                f"memory per 100 resets over {count} resets ({rooms} rooms, a render each): parent",
                f"{parent:+.2f} MB",
                f"{samples[-1][2]:.0f} MB at the end",
                "",
                "1 MB",
                parent < 1,
            ),
            Row(
                "the same: Blender",
                f"{blender:+.2f} MB",
                f"{samples[-1][3]:.0f} MB at the end, {workers} worker(s)",
                "",
                "1 MB",
                blender < 1,
            ),
        ]

    def isolation(self) -> list[Row]:
        """With and without the walls around Blender."""
        rounds, calls, renders = (2, 50, 1) if self.quick else (8, 100, 2)
        starts: dict[str, list[float]] = {"auto": [], "off": []}
        for _ in range(1 if self.quick else 3):
            for mode, values in starts.items():
                with self.env(isolation=mode) as env:
                    values.append(self.reset(env))
        tool: dict[str, list[float]] = {"auto": [], "off": []}
        picture: dict[str, list[float]] = {"auto": [], "off": []}
        with self.env(render=ONE) as confined, self.env(render=ONE, isolation="off") as free:
            both = {"auto": confined, "off": free}
            for env in both.values():
                self.reset(env)
                env.step(view(NEUTRAL_POSE))
            level = confined.unwrapped.host.session.isolation_level
            for _ in range(rounds):
                for mode, env in both.items():
                    tool[mode] += [seconds(partial(env.step, INFO)) for _ in range(calls)]
                    picture[mode] += [seconds(partial(env.step, view(pose))) for pose in poses(renders)]
        rows = []
        for name, values, show in (
            ("first reset", starts, lambda v: f"{v:.2f} s"),
            ("`env.step` with `get_object_info`", tool, ms),
            (f"`env.step` with a render of {SIZE} px, 1 sample", picture, ms),
        ):
            on, off = statistics.median(values["auto"]), statistics.median(values["off"])
            rows.append(Row(f"{name}, isolated ({level})", show(on), f"{show(off)} not isolated", f"{on / off:.3f}"))
        return rows

    def parallel(self) -> list[Row]:
        """Two environments against one, each rendering with one thread."""
        rounds, count = (2, 1) if self.quick else (8, 2)
        make = partial(gym.make, ENV, max_steps=1_000_000, toolset="typed", render={"threads": 1, **ONE})
        rates: dict[int, list[float]] = {1: [], 2: []}
        vectors = {n: gym.vector.AsyncVectorEnv([make] * n, shared_memory=False) for n in rates}
        try:
            for n, envs in vectors.items():
                envs.reset(seed=0, options={"case_id": self.case_id})
                envs.step([view(NEUTRAL_POSE)] * n)
            for _ in range(rounds):
                for n, envs in vectors.items():
                    taken = sum(seconds(partial(envs.step, [view(pose)] * n)) for pose in poses(count))
                    rates[n].append(n * count / taken)
        finally:
            for envs in vectors.values():
                envs.close()
        one, two = statistics.median(rates[1]), statistics.median(rates[2])
        each = [b / a for a, b in zip(rates[1], rates[2], strict=True)]
        return [
            Row(
                f"two environments, one render of {SIZE} px, 1 sample a step, one thread each",
                f"{two:.2f} steps/s",
                f"{one:.2f} steps/s of one",
                f"{two / one:.2f} (rounds {min(each):.2f} to {max(each):.2f})",
                ">= 1.8",
                two / one >= 1.8,
            )
        ]

    def restart(self) -> list[Row]:
        """Against one Blender per call: start, import the scene, render once, end."""
        count = 1 if self.quick else 5
        fresh, stepped, called = [], [], []
        with self.env(render=ONE) as env:
            self.reset(env)
            settings = env.unwrapped.episode.render_settings.as_dict()
            env.step(view(NEUTRAL_POSE))
            for pose in poses(count):
                start = time.perf_counter()
                bare = Bare(self.glb, self.fov_x_deg)
                bare.render(settings, [pose])
                bare.close()
                fresh.append(time.perf_counter() - start)
                start = time.perf_counter()
                bare = Bare(self.glb, self.fov_x_deg)
                bare.ask("times", operation="object_info", args={"name": CAMERA_NAME}, count=1)
                bare.close()
                called.append(time.perf_counter() - start)
                stepped += [seconds(partial(env.step, view(pose))) for _ in range(3)]
            quick = statistics.median(seconds(partial(env.step, INFO)) for _ in range(100))
        once, persistent, asked = (statistics.median(values) for values in (fresh, stepped, called))
        return [
            Row(
                f"`env.step` with a render of {SIZE} px, 1 sample",
                ms(persistent),
                f"{once:.2f} s with one Blender per call",
                f"{once / persistent:.1f} times faster",
            ),
            Row(
                "`env.step` with `get_object_info`",
                ms(quick),
                f"{asked:.2f} s with one Blender per call",
                f"{asked / quick:.0f} times faster",
            ),
        ]


PARTS = ("call", "render", "reset", "memory", "isolation", "parallel", "restart")


def seconds(run: Any) -> float:
    """How long it takes."""
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


def ms(value: float) -> str:
    """Seconds shown in milliseconds."""
    return f"{value * 1000:.2f} ms" if value < 0.1 else f"{value * 1000:.0f} ms"


def s(values: Sequence[float]) -> str:
    """Median and range in seconds."""
    return f"{statistics.median(values):.2f} s ({min(values):.2f} to {max(values):.2f}, n={len(values)})"


def poses(count: int) -> list[Any]:
    """Camera poses, turned about the vertical step by step."""
    result = []
    for index in range(count):
        angle = math.radians(index * 360 / count + 10)
        turn = np.eye(4)
        turn[:2, :2] = [[math.cos(angle), -math.sin(angle)], [math.sin(angle), math.cos(angle)]]
        result.append((turn @ NEUTRAL_POSE).tolist())
    return result


def view(pose: Any) -> dict[str, Any]:
    """The call that renders from a pose."""
    return {"name": "render_scene_view", "arguments": {"matrix": np.asarray(pose).tolist()}}


def resident(pid: int) -> float:
    """Resident memory of a process in MB."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6


def slope(points: Sequence[tuple[float, float]]) -> float:
    """Growth per 100 along the first coordinate, by least squares."""
    x, y = np.array(points).T
    return float(np.polyfit(x, y, 1)[0] * 100)


def load() -> str:
    """The machine's load averages."""
    return " ".join(f"{value:.1f}" for value in os.getloadavg())


def main() -> None:
    """Measures and prints."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default=",".join(PARTS), help="parts, separated by commas (default: all)")
    parser.add_argument("--quick", action="store_true", help="few repeats: shows that it works, figures are rough")
    options = parser.parse_args()
    parts = options.only.split(",")
    unknown = set(parts) - set(PARTS)
    if unknown:
        parser.error(f"there is no part {', '.join(sorted(unknown))}; the parts are {', '.join(PARTS)}")
    bench = Bench(options.quick)
    print(
        f"{os.cpu_count()} cores, Python {platform.python_version()}, Blender {find_blender().version}, "
        f"room {bench.case_id} with {OBJECTS} objects, load averages {load()}\n",
        flush=True,
    )
    print("| what | measured | compared with | ratio | target | met |\n|---|---|---|---|---|---|", flush=True)
    for part in parts:
        print(f"{part} ...", file=sys.stderr, flush=True)
        for row in getattr(bench, "resets" if part == "reset" else part)():
            met = "" if row.met is None else ("yes" if row.met else "NO")
            cells = (row.what, row.value, row.compared, row.ratio, row.target, met)
            print(f"| {' | '.join(cells)} |", flush=True)
    print(f"\nLoad averages at the end: {load()}")


if __name__ == "__main__":
    main()
