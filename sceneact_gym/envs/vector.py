"""Vector environments: what `gym.make_vec` builds when no mode is asked for."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import gymnasium as gym

from sceneact_gym.blender.render import RenderSettings


def make_vector(env_id: str, num_envs: int = 1, **kwargs: Any) -> gym.vector.VectorEnv[Any, Any, Any]:
    """One process and one Blender per environment; observations cross by pipe, since most messages are short.

    Args:
        env_id: a registered id.
        num_envs: how many.
        kwargs: as for `gym.make`. Without a number of render threads, the environments share the cores.
    """
    kwargs["render"] = _share_cores(kwargs.get("render"), num_envs)
    # A function of this module, not a lambda: it then also works where processes are spawned, since to find it is to
    # import the package, which registers the environments.
    make = partial(_make, env_id, kwargs)
    return gym.vector.AsyncVectorEnv([make] * num_envs, shared_memory=False)


def _make(env_id: str, kwargs: dict[str, Any]) -> gym.Env[Any, Any]:
    return gym.make(env_id, **kwargs)


def _share_cores(render: RenderSettings | Mapping[str, Any] | None, num_envs: int) -> RenderSettings | dict[str, Any]:
    """Render settings with this environment's share of threads; each would otherwise take all cores."""
    threads = max(1, (os.cpu_count() or 1) // num_envs)
    if isinstance(render, RenderSettings):
        return replace(render, threads=render.threads or threads)
    return {"threads": threads, **(render or {})}


# Entry points are attributes of a module, one per id, so that specifications can be written as JSON.
layout = partial(make_vector, "SceneAct/Layout-v0")
layoutmultiview = partial(make_vector, "SceneAct/LayoutMultiView-v0")
camera = partial(make_vector, "SceneAct/Camera-v0")
articulated = partial(make_vector, "SceneAct/Articulated-v0")
reconstruction = partial(make_vector, "SceneAct/Reconstruction-v0")
dynamic = partial(make_vector, "SceneAct/Dynamic-v0")
dynamicphotoreal = partial(make_vector, "SceneAct/DynamicPhotoreal-v0")
