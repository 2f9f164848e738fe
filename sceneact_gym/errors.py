"""The package's exceptions: each names what is wrong and what to do about it."""

from __future__ import annotations

import contextlib
import traceback
from collections.abc import Iterator


class SceneActError(Exception):
    """Base of all exceptions that this package raises on purpose."""


class BlenderNotFound(SceneActError):
    """No Blender that can be used on this machine."""


class InfraError(SceneActError):
    """Blender or the host failed, not the agent: the episode has no score."""


class CaseNotFound(SceneActError):
    """The case source has no such case, or no such split."""


@contextlib.contextmanager
def blame(whom: str) -> Iterator[None]:
    """A mistake in code says nothing about an agent's ability: it becomes a fault that says whose code it was.

    Args:
        whom: for example `the evaluator`.

    Raises:
        InfraError: instead of any exception but those of this package.
    """
    try:
        yield
    except SceneActError:
        raise
    except Exception as mistake:
        raise InfraError(f"{whom} failed: {traceback.format_exc(limit=-4)}") from mistake
