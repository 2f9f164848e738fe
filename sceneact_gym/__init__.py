"""Gymnasium environments over headless Blender, scored against hidden 3D ground truth."""

from sceneact_gym._version import __version__

__all__ = ["__version__"]
