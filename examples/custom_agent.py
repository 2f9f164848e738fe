"""An agent of your own in the benchmark runner: a class whose objects have `act`, named on the command line.

    sceneact bench --agent examples.custom_agent:Greedy --tasks layout --cases 3 --out my-agent-run
    sceneact bench --agent noop --tasks layout --cases 3 --out noop-run
    sceneact report my-agent-run noop-run --out my-report

It plays Layout: the objects begin in a heap at the origin. It moves them one after the other over a coarse grid of the
floor and keeps each where a render of the given camera is most like the reference picture: a poor agent, but one that
shows everything that an agent needs. It sees pictures and tool results only.
"""

from __future__ import annotations

import json
import re
from typing import Any

import numpy as np

Info = dict[str, Any]
SPOTS = [(x, y) for x in (-1.2, 0.0, 1.2) for y in (-1.2, 0.0, 1.2)]
PLACES_PER_STEP = 7
"""A turn may have 16 calls: one puts the last object where it was best, and each place takes a move and a render."""


class Greedy:
    """Tries places for each object by looking. `sceneact bench` makes a new one for each episode."""

    def __init__(self, env: Any, seed: int) -> None:
        """The runner calls the factory with the environment and the seed of the episode."""
        self.rng = np.random.default_rng(seed)
        self.waiting: list[str] = []
        self.tried: list[tuple[float, str]] = []
        self.kept: str | None = None
        self.view = ""
        self.steps = 0

    def reset(self, observation: Any, info: Info) -> None:
        """Optional: sees the first observation. The prompt names objects and cameras, as a model would read them."""
        self.waiting = sorted(set(re.findall(r"object_\d\d", info["prompt"])))
        self.rng.shuffle(self.waiting)
        self.view = re.findall(r"view_\d\d", info["prompt"])[0]
        self.steps = info["budget"]

    def act(self, observation: Any, info: Info) -> Any:
        """The one method that an agent must have: the next turn, a list of tool calls. An empty list ends it."""
        if self.tried:
            self.kept = self._best(observation, info)
        if not self.waiting or observation["steps_left"] <= 1:
            return [*self._keep(), {"name": "submit"}]
        name = self.waiting.pop()
        spots = self.rng.permutation(SPOTS)[:PLACES_PER_STEP]
        codes = [f"bpy.data.objects['{name}'].location.xy = ({x:.2f}, {y:.2f})" for x, y in spots]
        self.tried = [(0.0, code) for code in codes]
        look = {"name": "render_scene_view", "arguments": {"camera": self.view}}
        tries = [call for code in codes for call in (_run(code), look)]
        return [*self._keep(), *tries]

    def _keep(self) -> list[dict[str, Any]]:
        return [_run(self.kept)] if self.kept else []

    def _best(self, observation: Any, info: Info) -> str:
        """`info["results"]` has a result per call: `name`, `is_error`, `text` and `images`, (H, W, 3) uint8 arrays."""
        reference = observation["references"][0].astype(float)
        pictures = [image for result in info["results"] for image in result["images"]]
        if len(pictures) < len(self.tried):
            # A call failed; its message says why, for example an object that is not there.
            problems = [result["text"] for result in info["results"] if result["is_error"]]
            raise RuntimeError(f"a place could not be tried: {json.dumps(problems)[:500]}")
        unlike = [float(np.abs(picture - reference).mean()) for picture in pictures]
        return self.tried[int(np.argmin(unlike))][1]


def _run(code: str | None) -> dict[str, Any]:
    return {"name": "execute_blender_code", "arguments": {"code": code}}
