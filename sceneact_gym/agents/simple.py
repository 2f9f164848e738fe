"""Agents that mark the ends of the scale: doing nothing, acting by chance, and knowing the answer."""

from __future__ import annotations

from typing import Any

import numpy as np

from sceneact_gym.agents.base import Agent, Info


class NoopAgent(Agent):
    """Ends the episode at once: its score is the task's floor."""

    def act(self, observation: Any, info: Info) -> Any:
        """An empty list."""
        return []


class RandomAgent(Agent):
    """Makes valid calls by chance until the budget is used up; the same calls for the same seed and case."""

    def reset(self, observation: Any, info: Info) -> None:
        """Seeds the action space by its own seed and the case."""
        case_number = int.from_bytes(str(info["case_id"]).encode()[-8:], "big")
        seed = np.random.SeedSequence([self.seed, case_number]).generate_state(1)[0]
        self.env.action_space.seed(int(seed))

    def act(self, observation: Any, info: Info) -> Any:
        """A sample without `submit`."""
        calls = self.env.action_space.sample()
        return [call for call in calls if call["name"] != "submit"] if isinstance(calls, list) else calls


class OracleAgent(Agent):
    """Reads the truth and submits it by ordinary tool calls. For tests: shows that the top of the scale is reached."""

    privileged = True

    def act(self, observation: Any, info: Info) -> Any:
        """The calls that build the answer, then `submit`."""
        case = self.env.unwrapped.episode.case  # type: ignore[attr-defined]
        return [*ORACLES[case.task](case.truth), {"name": "submit", "arguments": {}}]


def _camera(truth: Any) -> list[dict[str, Any]]:
    matrix = np.asarray(truth["matrix_world"], float).tolist()
    code = f"from mathutils import Matrix\nbpy.context.scene.camera.matrix_world = Matrix({matrix})"
    return [{"name": "execute_blender_code", "arguments": {"code": code}}]


ORACLES = {"camera": _camera}
"""Per task: from the truth to the calls that rebuild it."""
