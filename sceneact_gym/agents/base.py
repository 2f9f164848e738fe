"""What an agent is, for the runner: any object with these two methods."""

from __future__ import annotations

from typing import Any, ClassVar

import gymnasium as gym

Info = dict[str, Any]


class Agent:
    """An agent that plays one environment, episode after episode.

    Attributes:
        privileged: whether it reads what agents must not see; such results are marked.
    """

    privileged: ClassVar[bool] = False

    def __init__(self, env: gym.Env[Any, Any], seed: int = 0) -> None:
        """Keeps the environment's action space.

        Args:
            env: the environment that it will play.
            seed: of its own randomness.
        """
        self.env = env
        self.seed = seed

    def reset(self, observation: Any, info: Info) -> None:
        """Sees the first observation of an episode."""

    def act(self, observation: Any, info: Info) -> Any:
        """Chooses the next action.

        Args:
            observation: the newest observation.
            info: what came with it; after a step it holds `results`.
        """
        raise TypeError(f"{type(self).__name__} must define act")
