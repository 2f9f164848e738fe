"""The Gymnasium environments and their registration."""

from __future__ import annotations

import gymnasium as gym

ENVS: dict[str, str] = {
    "SceneAct/Layout-v0": "sceneact_gym.envs.layout:LayoutEnv",
    "SceneAct/LayoutMultiView-v0": "sceneact_gym.envs.layout:LayoutMultiViewEnv",
    "SceneAct/Camera-v0": "sceneact_gym.envs.camera:CameraEnv",
    "SceneAct/Articulated-v0": "sceneact_gym.envs.articulated:ArticulatedEnv",
    "SceneAct/Reconstruction-v0": "sceneact_gym.envs.reconstruction:ReconstructionEnv",
    "SceneAct/Dynamic-v0": "sceneact_gym.envs.dynamic:DynamicEnv",
    "SceneAct/DynamicPhotoreal-v0": "sceneact_gym.envs.dynamic:DynamicPhotorealEnv",
}
"""Registered ids and their entry points."""


def register_envs() -> None:
    """Registers all environments with Gymnasium; once is enough, twice does no harm."""
    for env_id, entry_point in ENVS.items():
        if env_id not in gym.registry:
            name = env_id.partition("/")[2].partition("-")[0].lower()
            gym.register(env_id, entry_point=entry_point, vector_entry_point=f"sceneact_gym.envs.vector:{name}")
