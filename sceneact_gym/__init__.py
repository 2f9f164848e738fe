"""Gymnasium environments over headless Blender, scored against hidden 3D ground truth.

Importing the package registers the environments:

    import gymnasium as gym
    import sceneact_gym

    env = gym.make("SceneAct/Camera-v0")
"""

from sceneact_gym._version import __version__
from sceneact_gym.envs import register_envs

register_envs()

__all__ = ["__version__", "register_envs"]
