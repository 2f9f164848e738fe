"""The package's exceptions: each names what is wrong and what to do about it."""

from __future__ import annotations


class SceneActError(Exception):
    """Base of all exceptions that this package raises on purpose."""


class BlenderNotFound(SceneActError):
    """No Blender that can be used on this machine."""


class InfraError(SceneActError):
    """Blender or the host failed, not the agent: the episode has no score."""


class CaseNotFound(SceneActError):
    """The case source has no such case, or no such split."""
