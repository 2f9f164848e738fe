"""Plays single episodes; `sceneact_gym.bench.executors` runs players in processes that can be lost without loss."""

from __future__ import annotations

import importlib
import math
import os
import shutil
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np

from sceneact_gym.agents import AGENTS, Agent
from sceneact_gym.bench.plan import BenchConfig, Play
from sceneact_gym.envs.base import SceneActEnv, outcome_info
from sceneact_gym.errors import CaseNotFound, InfraError, blame

SAID_LIMIT = 20_000
"""Characters of an agent's text that are recorded per step."""
Say = Callable[[str], None]


def silent(line: str) -> None:
    """Says nothing."""


def load_agent(spec: str) -> Callable[..., Agent]:
    """What makes an agent out of an environment and a seed.

    Args:
        spec: a name in `AGENTS`, or `package.module:factory`, which is found as `import` finds it, from the current
            folder on.

    Raises:
        ValueError: there is no such agent; the message says what went wrong.
    """
    if spec in AGENTS:
        return AGENTS[spec]
    module, colon, name = spec.partition(":")
    if not colon:
        raise ValueError(f"there is no agent {spec!r}; give one of {', '.join(AGENTS)}, or package.module:factory")
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    try:
        factory = getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError) as problem:
        raise ValueError(f"the agent {spec!r} cannot be imported: {problem}") from problem
    if not callable(factory):
        raise ValueError(f"the agent {spec!r} cannot be called: it must make an agent out of (env, seed)")
    return factory


def agent_settings(spec: str) -> dict[str, Any]:
    """What an agent's results depend on besides its arguments, as JSON values: what its factory's `settings()` gives.

    Raises:
        SceneActError, ValueError: there is no such agent, or it cannot be made out of the environment variables.
    """
    settings = getattr(load_agent(spec), "settings", None)
    return json_values(settings()) if callable(settings) else {}


def episode_row(play: Play, result: Mapping[str, Any], seconds: float, agent: Any = None) -> dict[str, Any]:
    """The result of an episode as it stands in a run folder, JSON values.

    Args:
        play: the episode.
        result: of `outcome_info`, or `no_score`.
        seconds: how long it took.
        agent: who played it: its `privileged` and `usage` are written down where it has them.
    """
    try:
        usage = json_values(getattr(agent, "usage", None))
    except Exception as mistake:
        # What an agent tells of its cost never voids a score.
        usage = {"unknown": f"{type(mistake).__name__}: {mistake}"}
    return {
        "key": play.key,
        "env_id": play.env_id,
        "task": play.task,
        "case_id": play.case_id,
        "repeat": play.repeat,
        "seed": play.seed,
        **result,
        "privileged": bool(getattr(agent, "privileged", False)),
        "usage": usage if isinstance(usage, dict) else None,
        "seconds": round(seconds, 3),
    }


def json_values(value: Any) -> Any:
    """What an agent tells, as JSON values: NumPy numbers are numbers, what is not finite is None, the rest is text."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, Mapping):
        return {str(name): json_values(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [json_values(one) for one in value]
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value if value is None or isinstance(value, bool | int | str) else str(value)


def no_score(reason: str) -> dict[str, Any]:
    """The result of an episode that Blender, the host or a mistake in code has failed."""
    return {"status": "infra_error", "score": None, "reason": reason[-4000:], "metrics": {}}


class Player:
    """Plays episodes one after the other, on one environment per task."""

    def __init__(self, config: BenchConfig, record_dir: Path, say: Say = silent) -> None:
        """Keeps what is needed to make environments and agents.

        Args:
            config: the run.
            record_dir: where the traces go.
            say: is called with a line of text for everything that happens.

        Raises:
            ValueError: there is no such agent.
        """
        self._config = config
        self._factory = load_agent(config.agent)
        self._envs: dict[str, gym.Env[Any, Any]] = {}
        self._record_dir = record_dir
        self._say = lambda line: say(plain(line))

    def play(self, play: Play) -> tuple[dict[str, Any], Path | None]:
        """One episode with an agent of its own.

        Returns:
            Its row, see `episode_row`, and the folder of its trace. A fault of Blender, of the host, of the package or
            of the agent's own code, and a case that cannot be loaded, are an `infra_error` without a score whose
            `reason` names them.

        Raises:
            SceneActError: no episode can be played here: no usable Blender, or something that the agent needs.
            ValueError: the environment cannot be made.
        """
        started = time.monotonic()
        self._say(f"{play.case_id}: starting")
        made = self._environment(play.env_id)
        env = made.unwrapped
        assert isinstance(env, SceneActEnv)
        agent: Agent | None = None
        try:
            with blame("the agent"):
                agent = self._factory(made, play.seed)
            with blame("the environment"):
                observation, info = made.reset(seed=play.seed, options={"case_id": play.case_id})
            with blame("the agent"):
                if hasattr(agent, "reset"):
                    agent.reset(observation, info)
            ended = False
            while not ended:
                with blame("the agent"):
                    action = agent.act(observation, info)
                    said = getattr(agent, "said", None)
                if isinstance(said, str) and said.strip() and env.episode is not None:
                    env.episode.trace.event("said", step=env.episode.steps + 1, text=said[:SAID_LIMIT])
                with blame("the environment"):
                    observation, _, terminated, truncated, info = made.step(action)
                for line in describe(action, info["results"]):
                    self._say(f"  step {env.episode.steps if env.episode else 0:2d}  {line}")
                ended = terminated or truncated
            assert env.episode is not None and env.episode.outcome is not None
            result = outcome_info(env.episode.outcome)
            if self._config.audit:
                result["audit"] = self._audit(env)
        except OSError as failure:
            result = no_score(f"the host failed: {failure}")
        except (InfraError, CaseNotFound) as failure:
            result = no_score(str(failure))
        record = env.episode.trace.folder if env.episode is not None else None
        if record is not None and not record.is_dir():
            # Of the episode before, whose record has been taken away: this one has not begun.
            record = None
        if result["status"] == "infra_error":
            self._forget(play.env_id)
        row = episode_row(play, result, time.monotonic() - started, agent)
        self._say(f"{play.case_id}: {describe_result(row)}")
        return row, record

    def close(self) -> None:
        """Ends the environments."""
        for env_id in list(self._envs):
            self._forget(env_id)

    def _environment(self, env_id: str) -> gym.Env[Any, Any]:
        if env_id not in self._envs:
            # Tasks are played one after the other: the Blender of the last one is not needed any more.
            self.close()
            config = self._config
            folder = self._record_dir / env_id.rpartition("/")[2]
            shutil.rmtree(folder, ignore_errors=True)
            self._envs[env_id] = gym.make(
                env_id, **{**config.options, "source": config.source, "split": config.split, "record_dir": str(folder)}
            )
        return self._envs[env_id]

    def _forget(self, env_id: str) -> None:
        if env_id in self._envs:
            self._envs.pop(env_id).close()

    @staticmethod
    def _audit(env: SceneActEnv) -> dict[str, Any]:
        assert env.episode is not None
        try:
            return dict(json_values(env.host.audit(env.episode)))
        except Exception as failure:
            # An audit never voids a score.
            return {"unavailable": str(failure)}


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


def plain(line: str) -> str:
    """Agents choose some of the text: what is no character for a terminal (escapes, half surrogate pairs) is spelt."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in line)


def describe_result(row: Mapping[str, Any]) -> str:
    """How an episode ended, in a line."""
    if row["score"] is None:
        return f"no score ({row['status']}: {''.join(row['reason'].strip().splitlines()[-1:])[:200]})"
    metrics = ", ".join(f"{name} {value:.3f}" for name, value in row["metrics"].items() if isinstance(value, float))
    return f"score {row['score']:.1f} ({row['status']}; {metrics})"
