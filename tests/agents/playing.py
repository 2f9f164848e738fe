"""Plays an agent through an episode."""

from __future__ import annotations

from typing import Any

import gymnasium as gym

from sceneact_gym.agents import AGENTS


def play(env: gym.Env[Any, Any], name: str, case_id: str, turns: int) -> tuple[list[Any], dict[str, Any]]:
    """All actions of an agent, none of which may be an error, and the last info; it must end within so many turns."""
    observation, info = env.reset(options={"case_id": case_id})
    agent = AGENTS[name](env)
    agent.reset(observation, info)
    actions = []
    for _ in range(turns):
        actions.append(agent.act(observation, info))
        observation, _, terminated, _, info = env.step(actions[-1])
        assert not any(result["is_error"] for result in info["results"]), info["results"]
        if terminated:
            return actions, info
    raise AssertionError("it did not submit")
