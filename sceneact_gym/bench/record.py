"""Writes what `sceneact run` and `sceneact mcp` leave behind: `config.json` and `results.jsonl` of a run folder."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sceneact_gym._version import __version__
from sceneact_gym.errors import SceneActError


def begin_record(folder: Path, about: Mapping[str, Any]) -> None:
    """Makes a run folder with its configuration and no results yet.

    Args:
        folder: it must be new or empty.
        about: the configuration, JSON values or paths; the package's version is added.

    Raises:
        SceneActError: the folder is not empty.
    """
    if folder.exists() and any(folder.iterdir()):
        raise SceneActError(f"{folder} is not empty: give a new folder, so that no earlier result is lost")
    folder.mkdir(parents=True, exist_ok=True)
    config = json.dumps({"package": __version__, **about}, indent=1, default=str)
    try:
        # "x": of two processes that begin in one folder at the same moment, one fails.
        with (folder / "config.json").open("x", encoding="utf-8") as file:
            file.write(config + "\n")
    except FileExistsError as taken:
        raise SceneActError(f"another process has just begun a run in {folder}") from taken
    (folder / "results.jsonl").touch()


def append_result(folder: Path, result: Mapping[str, Any]) -> None:
    """Appends the result of one episode as one line."""
    with (folder / "results.jsonl").open("a", encoding="utf-8") as file:
        file.write(json.dumps(result) + "\n")
