"""Runs an agent over episodes of one environment and writes a run folder.

A run folder is `config.json`, `results.jsonl` (one line per finished episode, appended), and one folder per episode
with its trace. Results are complete lines, so that a run that is killed keeps what it finished.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gymnasium as gym

from sceneact_gym.agents import AGENTS
from sceneact_gym.bench.record import append_result, begin_record
from sceneact_gym.envs.base import SceneActEnv, outcome_info
from sceneact_gym.errors import InfraError, SceneActError

INFRA_TRIES = 2
"""An episode that Blender or the host failed is tried again this often in all; if it fails again it has no score."""


@dataclass(frozen=True)
class RunConfig:
    """What is run.

    Attributes:
        env_id: a registered environment.
        agent: a name in `AGENTS`.
        episodes: how many; cases are taken in order, and again from the start after the last one.
        seed: of the agent; in an endless split also where the cases begin.
        env_kwargs: arguments for `gym.make`.
        audit: whether the render-based figures are made after each episode.
        case_id: the only case to play; by default the cases of the split in order.
    """

    env_id: str
    agent: str
    episodes: int
    seed: int
    env_kwargs: Mapping[str, Any]
    audit: bool = False
    case_id: str | None = None


def run(config: RunConfig, out: Path, tell: Callable[[str], None] = lambda line: None) -> list[dict[str, Any]]:
    """Runs the episodes.

    Args:
        config: what to run.
        out: the run folder; it must be new or empty.
        tell: is called with a line of text for everything that happens.

    Returns:
        The results as they stand in `results.jsonl`.

    Raises:
        SceneActError: the folder is not empty, or the environment cannot start.
        ValueError: the agent or an argument is not possible.
    """
    if config.agent not in AGENTS:
        raise ValueError(f"there is no agent {config.agent!r}; the agents are {', '.join(AGENTS)}")
    if config.episodes < 1:
        raise ValueError(f"episodes must be at least 1; it is {config.episodes}")
    made = gym.make(config.env_id, **{**config.env_kwargs, "record_dir": str(out / "episodes")})
    env = made.unwrapped
    assert isinstance(env, SceneActEnv)
    agent = AGENTS[config.agent](made, config.seed)
    about = {
        "env_id": config.env_id,
        "agent": config.agent,
        "privileged": agent.privileged,
        "episodes": config.episodes,
        "seed": config.seed,
        "env_kwargs": dict(config.env_kwargs),
        "audit": config.audit,
        "case_id": config.case_id,
    }
    begin_record(out, about)
    results = []
    endless = env.host.source.ids() is None
    try:
        for number in range(config.episodes):
            case_id = config.case_id or env.host.source.nth(number + (1_000_000 * config.seed if endless else 0))
            result = _one(made, env, agent, config, case_id, tell)
            result["episode"] = number
            results.append(result)
            append_result(out, result)
    finally:
        made.close()
    return results


def _one(
    made: gym.Env[Any, Any], env: SceneActEnv, agent: Any, config: RunConfig, case_id: str, tell: Callable[[str], None]
) -> dict[str, Any]:
    for attempt in range(1, INFRA_TRIES + 1):
        started = time.monotonic()
        tell(f"{case_id}: starting")
        try:
            observation, info = made.reset(seed=config.seed, options={"case_id": case_id})
            agent.reset(observation, info)
            while True:
                action = agent.act(observation, info)
                observation, _, terminated, truncated, info = made.step(action)
                for line in describe(action, info["results"]):
                    tell(f"  step {env.episode.steps if env.episode else 0:2d}  {line}")
                if terminated or truncated:
                    break
            assert env.episode is not None and env.episode.outcome is not None
            outcome = outcome_info(env.episode.outcome)
        except InfraError as failure:
            outcome = {"status": "infra_error", "score": None, "reason": str(failure), "metrics": {}}
        if outcome["status"] != "infra_error" or attempt == INFRA_TRIES:
            break
        tell(f"{case_id}: Blender or the host failed ({outcome['reason']}); trying again")
    result = {"case_id": case_id, **outcome, "attempts": attempt, "seconds": round(time.monotonic() - started, 3)}
    if config.audit and env.episode is not None:
        try:
            result["audit"] = dict(env.host.audit(env.episode))
        except SceneActError as failure:
            # An audit never voids a score.
            result["audit"] = {"unavailable": str(failure)}
    score = "no score" if result["score"] is None else f"score {result['score']:.1f}"
    metrics = ", ".join(f"{name} {value:.3f}" for name, value in result["metrics"].items() if isinstance(value, float))
    tell(f"{case_id}: {score} ({result['status']}; {metrics})")
    return result


def describe(action: Any, results: list[dict[str, Any]]) -> Iterator[str]:
    """A line per kind of call of one turn: how many of which tool, and what went wrong."""
    if not results:
        yield "ends the episode"
    counts: dict[tuple[str, bool], list[dict[str, Any]]] = {}
    for result in results:
        counts.setdefault((result["name"] or "action", result["is_error"]), []).append(result)
    for (name, is_error), group in counts.items():
        times = f" x{len(group)}" if len(group) > 1 else ""
        first = group[0]["text"].strip().splitlines()[-1][:100] if is_error and group[0]["text"].strip() else ""
        yield f"{name}{times}" + (f"  ERROR: {first}" if is_error else "")
