"""Reads run folders for a report, and checks what is in them: a report is also made of folders that others wrote."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sceneact_gym.bench.folder import DONE, LINES, read_config, read_rows, results
from sceneact_gym.bench.plan import BenchConfig, Play, plays
from sceneact_gym.errors import SceneActError
from sceneact_gym.tasks import TASKS

Row = dict[str, Any]
"""A line of `episodes.jsonl`."""

SAFE_NAME = re.compile(r"\w[\w.-]{0,239}", re.ASCII)
"""What may name a file or folder of a report."""


@dataclass(frozen=True)
class Run:
    """A run folder.

    Attributes:
        name: unique among the runs of a report, and safe as the name of a file.
        path: the folder.
        config: what was played.
        package: version of this package that began the run.
        rows: the rows that count, one per episode.
        planned: the episodes of each task; None where the source of the cases is gone.
    """

    name: str
    path: Path
    config: BenchConfig
    package: str
    rows: Sequence[Row]
    planned: Mapping[str, Sequence[Play]] | None

    @property
    def privileged(self) -> bool:
        """Whether the agent reads the truth."""
        return any(row.get("privileged") for row in self.rows)

    @property
    def origin(self) -> tuple[str, str]:
        """Where its cases come from, with the split: cases of one id are the same where this is the same."""
        source = self.config.source
        return (source if source == "procedural" else str(Path(source).expanduser().resolve()), self.config.split)

    def of(self, task: str) -> list[Row]:
        """The rows of a task."""
        return [row for row in self.rows if row["task"] == task]

    def episode_folder(self, row: Row) -> Path | None:
        """The folder with the episode's trace and submission, if there is one."""
        name = row.get("folder")
        folder = self.path / "episodes" / name if name else None
        return folder if folder is not None and folder.is_dir() else None


def page_of(run: Run, row: Row) -> str:
    """The path of an episode's page in the report's folder; it needs no quoting in a link."""
    return f"episodes/{run.name}/{row['key']}.html"


def load_runs(folders: Sequence[Path]) -> list[Run]:
    """Reads run folders, finished or not.

    Raises:
        SceneActError: a folder is given twice, is no run folder, or holds a line that is none of ours.
    """
    seen: set[Path] = set()
    names: set[str] = set()
    runs = []
    for folder in folders:
        if folder.resolve() in seen:
            raise SceneActError(f"{folder} is given twice")
        seen.add(folder.resolve())
        runs.append(_load(folder, _name(folder, names)))
    return runs


def _name(folder: Path, taken: set[str]) -> str:
    """A name that no other run has, also where file names know no case."""
    plain = re.sub(r"[^A-Za-z0-9_-]+", "-", folder.resolve().name).strip("-")[:60] or "run"
    name, number = plain, 1
    while name.casefold() in taken:
        number += 1
        name = f"{plain}-{number}"
    taken.add(name.casefold())
    return name


def _load(folder: Path, name: str) -> Run:
    if not folder.is_dir():
        raise SceneActError(f"{folder} is no folder")
    if not (folder / "config.json").is_file():
        raise SceneActError(f"{folder} is no run folder of `sceneact bench`: it has no config.json")
    about = read_config(folder)
    try:
        config = BenchConfig.from_dict(about["config"])
        if not isinstance(config.agent, str):
            raise ValueError("its agent is no text")
    except (TypeError, ValueError) as problem:
        raise SceneActError(f"{folder / 'config.json'} is no configuration of `sceneact bench`: {problem}") from problem
    rows, length = read_rows(folder)
    lines = folder / LINES
    if lines.exists() and _damaged(lines.read_bytes()[length:]):
        raise SceneActError(f"{lines} is damaged: line {len(rows) + 1} is no result of an episode")
    for number, row in enumerate(rows, 1):
        problem_with = _problem(row)
        if problem_with:
            raise SceneActError(f"{lines} is damaged: line {number} is no result of an episode ({problem_with})")
    return Run(name, folder, config, about["package"], list(results(rows).values()), _planned(config))


def _damaged(rest: bytes) -> bool:
    """Whether what follows the whole lines is more than a line that is being written, or has been since."""
    line, end, _ = rest.partition(b"\n")
    try:
        json.loads(line)
    except ValueError:
        return bool(end)
    return False


def _planned(config: BenchConfig) -> dict[str, list[Play]] | None:
    try:
        found: dict[str, list[Play]] = {task: [] for task in config.tasks}
        for play in plays(config):
            found[play.task].append(play)
        return found
    except (SceneActError, ValueError, OSError):
        return None


def _problem(row: Any) -> str:
    """What makes a row unusable; empty if it is sound."""
    if not isinstance(row, dict):
        return "it is no JSON object"
    for field, required in (("key", True), ("case_id", True), ("folder", False)):
        value = row.get(field)
        if (required or value is not None) and not (isinstance(value, str) and SAFE_NAME.fullmatch(value)):
            return f"its {field} cannot name a file"
    if row.get("task") not in TASKS:
        return "its task is not known"
    if row.get("status") not in (*DONE, "infra_error"):
        return "its status is not known"
    for field in ("score", "score_paper", "score_strict"):
        value = row.get(field)
        if value is not None and not (_number(value) and 0 <= value <= 100):
            return f"its {field} is no number from 0 to 100"
        if row["status"] == "infra_error" and value is not None:
            return f"it is an infra_error with a {field}"
    for field in ("steps", "tool_calls", "seconds"):
        if row.get(field) is not None and not (_number(row[field]) and row[field] >= 0):
            return f"its {field} is no number"
    for field in ("metrics", "checkpoints", "setting", "usage"):
        if row.get(field) is not None and not isinstance(row[field], dict):
            return f"its {field} is no JSON object"
    for scores in (row.get("checkpoints") or {}).values():
        if not isinstance(scores, dict) or not all(value is None or _number(value) for value in scores.values()):
            return "its checkpoints are no scores"
    return ""


def _number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)
