"""What an agent is: any object with the method `act`. `BaseAgent` keeps what most agents need."""

from __future__ import annotations

from typing import Any, ClassVar, Protocol

import gymnasium as gym

Info = dict[str, Any]


class Agent(Protocol):
    """An agent that plays one episode; `sceneact bench` makes one per episode with `factory(env, seed)`.

    Besides `act` it may have: a method `reset(observation, info)` that sees the first observation before `act` does;
    `privileged`, true when it reads what agents must not see, so that its results are marked; `said`, the text that
    came with its newest action, which is recorded for people who read the episode; and `usage`, a mapping of what it
    spent (tokens, cost), which is stored with the result. The factory may have `settings()`: JSON values that results
    depend on and that are not its arguments, for example a model's name. A run goes on under the same ones only.
    """

    def act(self, observation: Any, info: Info) -> Any:
        """Chooses the next action.

        Args:
            observation: the newest observation, see the environment's documentation.
            info: what came with it: of `reset` (`prompt`, `system_prompt`, `tools`, `budget`, `case_id`) before the
                first step, of `step` (`results`) afterwards.

        Returns:
            A call `{"name": ..., "arguments": {...}}`, a list of at most 16, or a JSON string of either; an empty list
            ends the episode.
        """


class BaseAgent:
    """An `Agent` that keeps its environment and its seed.

    Attributes:
        privileged: whether it reads what agents must not see; such results are marked.
    """

    privileged: ClassVar[bool] = False

    def __init__(self, env: gym.Env[Any, Any], seed: int = 0) -> None:
        """Keeps the environment.

        Args:
            env: the environment that it will play.
            seed: of its own randomness.
        """
        self.env = env
        self.seed = seed

    def reset(self, observation: Any, info: Info) -> None:
        """Sees the first observation of an episode."""

    def act(self, observation: Any, info: Info) -> Any:
        """Chooses the next action, see `Agent.act`."""
        raise TypeError(f"{type(self).__name__} must define act")
