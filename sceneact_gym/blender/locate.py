"""Finds the Blender to use: `SCENEACT_BLENDER`, else the `bpy` module of this Python, else `blender` on the PATH."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from sceneact_gym.errors import BlenderNotFound

MINIMUM = (4, 2)
VARIABLE = "SCENEACT_BLENDER"
HOW_TO_GET_ONE = (
    "Install Blender as a Python module with `pip install sceneact-gym[blender]` (Python 3.11 or 3.13), or set "
    f"{VARIABLE} to the path of a Blender {MINIMUM[0]}.{MINIMUM[1]} or newer."
)


@dataclass(frozen=True)
class Blender:
    """A Blender installation.

    Attributes:
        kind: `module` (bpy in this Python) or `binary` (a stand-alone Blender).
        path: the Python interpreter, or the Blender executable.
        version: its version as text, for example `5.0.1`.
    """

    kind: str
    path: Path
    version: str

    def command(self, worker: Path, arguments: list[str]) -> list[str]:
        """The command that runs the worker's file inside this Blender."""
        if self.kind == "module":
            # Neither the user's site nor the current folder may put a module in the worker's way. Not -I, which would
            # also ignore PYTHONHASHSEED: the worker's environment is clean, and its sets must not be ordered by chance.
            return [str(self.path), "-s", "-P", "-B", "-X", "utf8", str(worker), "--", *arguments]
        return [
            *[str(self.path), "--background", "--factory-startup", "--offline-mode", "--python-exit-code", "1"],
            *["--python", str(worker), "--", *arguments],
        ]


def find_blender() -> Blender:
    """The Blender to use.

    Raises:
        BlenderNotFound: there is none, or it is too old; the message says how to get one.
    """
    chosen = os.environ.get(VARIABLE)
    if chosen:
        return _binary(Path(chosen), f"{VARIABLE}={chosen}")
    if importlib.util.find_spec("bpy") is not None:
        return Blender("module", Path(sys.executable), importlib.metadata.version("bpy"))
    found = shutil.which("blender")
    if found:
        return _binary(Path(found), found)
    raise BlenderNotFound(f"No Blender was found. {HOW_TO_GET_ONE}")


@lru_cache(maxsize=8)
def _binary(path: Path, said: str) -> Blender:
    path = path.expanduser().resolve()
    if not path.is_file() or not os.access(path, os.X_OK):
        raise BlenderNotFound(f"{said} is not an executable file. {HOW_TO_GET_ONE}")
    try:
        answer = subprocess.run(
            [str(path), "--version"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=60,
        )
    except (OSError, subprocess.TimeoutExpired) as problem:
        raise BlenderNotFound(f"{said} did not tell its version ({problem}). {HOW_TO_GET_ONE}") from problem
    match = re.search(r"^Blender (\d+)\.(\d+)(?:\.(\d+))?", answer.stdout, re.MULTILINE)
    if match is None:
        raise BlenderNotFound(f"{said} does not call itself Blender. {HOW_TO_GET_ONE}")
    version = ".".join(part for part in match.groups() if part)
    if (int(match[1]), int(match[2])) < MINIMUM:
        raise BlenderNotFound(
            f"{said} is Blender {version}, which is too old: {MINIMUM[0]}.{MINIMUM[1]} or newer is needed. "
            f"{HOW_TO_GET_ONE}"
        )
    return Blender("binary", path, version)
