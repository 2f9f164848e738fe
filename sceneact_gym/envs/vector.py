"""Vector environments: what `gym.make_vec` builds when no mode is asked for."""

from __future__ import annotations

from typing import Any

import gymnasium as gym


def make_vector(env_id: str, num_envs: int = 1, **kwargs: Any) -> gym.vector.VectorEnv[Any, Any, Any]:
    """One process and one Blender per environment; observations cross by pipe, since texts have no fixed size."""
    # Several environments share the cores; each would otherwise render with as many threads as there are cores.
    return gym.vector.AsyncVectorEnv(
        [lambda: gym.make(env_id, **kwargs) for _ in range(num_envs)], shared_memory=False
    )
