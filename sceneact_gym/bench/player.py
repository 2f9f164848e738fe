"""Plays single episodes, in this process or in one of its own that the runner can lose without losing anything."""

from __future__ import annotations

import ctypes
import importlib
import os
import shutil
import signal
import sys
import time
import traceback
from collections.abc import Callable, Mapping
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import gymnasium as gym

from sceneact_gym.agents import AGENTS
from sceneact_gym.bench.plan import Play
from sceneact_gym.envs.base import SceneActEnv, outcome_info
from sceneact_gym.errors import InfraError, SceneActError

DEATH_SIGNAL = 1
"""PR_SET_PDEATHSIG of Linux."""


def load_agent(spec: str) -> Callable[..., Any]:
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


class Player:
    """Plays episodes one after the other, on one environment per task."""

    def __init__(self, agent: str, options: Mapping[str, Any], record_dir: Path) -> None:
        """Keeps what is needed to make environments and agents.

        Args:
            agent: see `load_agent`.
            options: arguments for `gym.make`.
            record_dir: where the traces go.
        """
        self._factory = load_agent(agent)
        self._options = {**options, "record_dir": str(record_dir)}
        self._envs: dict[str, gym.Env[Any, Any]] = {}
        self._record_dir = record_dir

    def play(self, play: Play) -> dict[str, Any]:
        """One episode with an agent of its own.

        Returns:
            Its result as JSON values, with `trace`, the path of its record in `record_dir` (None without one). A fault
            of Blender, of the host or of the agent's own code is an `infra_error` without a score.

        Raises:
            SceneActError: no such case, or no usable Blender.
            ValueError: the environment cannot be made.
        """
        started = time.monotonic()
        agent: Any = None
        made = self._environment(play.env_id)
        env = made.unwrapped
        assert isinstance(env, SceneActEnv)
        try:
            agent = self._factory(made, play.seed)
            observation, info = made.reset(seed=play.seed, options={"case_id": play.case_id})
            if hasattr(agent, "reset"):
                agent.reset(observation, info)
            ended = False
            while not ended:
                observation, _, terminated, truncated, info = made.step(agent.act(observation, info))
                ended = terminated or truncated
            assert env.episode is not None and env.episode.outcome is not None
            result = outcome_info(env.episode.outcome)
        except (InfraError, OSError) as failure:
            result = _failed(str(failure))
        except SceneActError:
            raise
        except Exception:
            # A mistake in the code of an agent says nothing about its ability.
            result = _failed(f"the agent failed: {traceback.format_exc(limit=-4)}")
        record = env.episode.trace.folder if env.episode is not None else None
        if result["status"] == "infra_error":
            self._forget(play.env_id)
        usage = getattr(agent, "usage", None)
        return {
            "env_id": play.env_id,
            "task": play.task,
            "case_id": play.case_id,
            "repeat": play.repeat,
            "seed": play.seed,
            **result,
            "privileged": bool(getattr(agent, "privileged", False)),
            "usage": dict(usage) if isinstance(usage, Mapping) else None,
            "trace": str(record.relative_to(self._record_dir)) if record is not None else None,
            "seconds": round(time.monotonic() - started, 3),
        }

    def close(self) -> None:
        """Ends the environments."""
        for env_id in list(self._envs):
            self._forget(env_id)

    def _environment(self, env_id: str) -> gym.Env[Any, Any]:
        if env_id not in self._envs:
            # Tasks are played one after the other: the Blender of the last one is not needed any more.
            self.close()
            folder = self._record_dir / env_id.rpartition("/")[2]
            shutil.rmtree(folder, ignore_errors=True)
            self._envs[env_id] = gym.make(env_id, **{**self._options, "record_dir": str(folder)})
        return self._envs[env_id]

    def _forget(self, env_id: str) -> None:
        if env_id in self._envs:
            self._envs.pop(env_id).close()


def _failed(reason: str) -> dict[str, Any]:
    return {"status": "infra_error", "score": None, "reason": reason[-4000:], "metrics": {}}


def serve(pipe: Connection, agent: str, options: Mapping[str, Any], record_dir: str) -> None:
    """The life of a player's process: plays what comes through the pipe, answers with results, ends with the pipe."""
    parent = os.getppid()
    if sys.platform == "linux":
        # The runner may be killed in the middle of an episode; nothing of it may live on.
        ctypes.CDLL(None, use_errno=True).prctl(DEATH_SIGNAL, signal.SIGKILL)
        if os.getppid() != parent:
            return
    # Ctrl-C reaches the whole terminal group; the runner decides what happens.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    folder = Path(record_dir)
    player = None
    try:
        while True:
            try:
                play = pipe.recv()
            except EOFError:
                return
            try:
                player = player or Player(agent, options, folder)
                pipe.send(("result", player.play(play)))
            except Exception as problem:
                pipe.send(("error", f"{type(problem).__name__}: {problem}"))
    finally:
        if player is not None:
            player.close()
