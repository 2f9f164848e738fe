"""The run folder: configuration, one line per finished episode, and a folder for each.

`config.json`, `episodes.jsonl` (append-only, a line per attempt), `episodes/<key>-a<attempt>/` with the trace, pictures
by hash and the submission. An episode is played in `playing/` and moved when it is over, so that nothing half-written
is ever taken for a result.
"""

from __future__ import annotations

import fcntl
import importlib.metadata
import json
import os
import platform
import shutil
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

from sceneact_gym._version import __version__
from sceneact_gym.bench.plan import BenchConfig
from sceneact_gym.bench.player import agent_settings
from sceneact_gym.errors import SceneActError

LINES = "episodes.jsonl"
SETTINGS = "agent_settings"
"""What of `config.json` holds `agent_settings`."""
DONE = ("ok", "agent_error")
"""What needs no further attempt."""
FIELDS = {"key", "status", "folder"}
"""What a line of results has in any case."""


class RunFolder:
    """A run folder that this process alone writes; use it as a context."""

    def __init__(
        self, path: Path, config: BenchConfig | None = None, settings: Mapping[str, Any] | None = None
    ) -> None:
        """Opens a run folder, or makes one.

        Args:
            path: the folder.
            config: of a new run, in a new or empty folder; None goes on with what is there.
            settings: of the agent, where those of a new run are known; by default those of when it is first played.

        Raises:
            SceneActError: another process writes to it, there is already something in it, or it is no run folder.
        """
        self.path = path
        if config is not None:
            if path.exists() and any(path.iterdir()):
                raise SceneActError(f"{path} is not empty: give a new folder, or go on with --resume {path}")
            path.mkdir(parents=True, exist_ok=True)
        elif not (path / "config.json").is_file():
            raise SceneActError(f"{path} is no run folder of `sceneact bench`: it has no config.json")
        self._lock = os.open(path / "lock", os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as problem:
            os.close(self._lock)
            raise SceneActError(f"another process is writing to {path}: wait for it, or stop it") from problem
        try:
            self.config = self._open(config, settings)
        except BaseException:
            os.close(self._lock)
            raise

    def _open(self, config: BenchConfig | None, settings: Mapping[str, Any] | None) -> BenchConfig:
        if config is not None:
            if (self.path / "config.json").exists():
                # Another process was faster between the look into the folder and the lock.
                raise SceneActError(f"another process has just begun a run in {self.path}: give a new folder")
            begun = {"package": __version__, **_versions(), "config": config.as_dict()}
            self._write_config(begun if settings is None else {**begun, SETTINGS: dict(settings)})
        about = read_config(self.path)
        if about["package"] != __version__:
            raise SceneActError(
                f"{self.path} was begun with version {about['package']}, this is {__version__}: results would be mixed"
            )
        self.rows = self._repair()
        shutil.rmtree(self.playing, ignore_errors=True)
        self.playing.mkdir()
        self.episodes.mkdir(exist_ok=True)
        known = {row["folder"] for row in self.rows}
        for folder in self.episodes.iterdir():
            # Moved into its place by a process that died before it wrote the line.
            if folder.name not in known and folder.is_dir() and not folder.is_symlink():
                shutil.rmtree(folder)
        return BenchConfig.from_dict(about["config"])

    @property
    def playing(self) -> Path:
        """Where unfinished episodes are."""
        return self.path / "playing"

    @property
    def episodes(self) -> Path:
        """Where finished ones are."""
        return self.path / "episodes"

    @property
    def lines(self) -> Path:
        """The file of results."""
        return self.path / LINES

    def _repair(self) -> list[dict[str, Any]]:
        """The rows; a last line that was cut off is removed, so that the next one begins on its own.

        Raises:
            SceneActError: a line within the file is damaged. Nothing is removed: there may be results behind it.
        """
        rows, length = read_rows(self.path)
        if self.lines.exists():
            bad = [n for n, row in enumerate(rows, 1) if not isinstance(row, dict) or not FIELDS <= row.keys()]
            if b"\n" in self.lines.read_bytes()[length:]:
                bad.append(len(rows) + 1)
            if bad:
                raise SceneActError(f"{self.lines} is damaged: line {bad[0]} is no result; mend or remove it")
            os.truncate(self.lines, length)
        return rows

    def _write_config(self, about: Mapping[str, Any]) -> None:
        part = self.path / "config.part"
        part.write_text(json.dumps(about, indent=1) + "\n", encoding="utf-8")
        os.replace(part, self.path / "config.json")

    def check_agent(self) -> None:
        """Writes down the settings of the agent, or refuses to go on if they are others than those of the run.

        Raises:
            SceneActError: they are; or the agent cannot be made.
            ValueError: there is no such agent.
        """
        now = agent_settings(self.config.agent)
        about = read_config(self.path)
        then = about.setdefault(SETTINGS, now)
        others = [name for name in sorted(then.keys() | now.keys()) if then.get(name) != now.get(name)]
        if not others:
            self._write_config(about)
        else:
            changes = ", ".join(f"{name} was {then.get(name)!r} and is {now.get(name)!r}" for name in others)
            raise SceneActError(
                f"the run in {self.path} was begun with other settings of the agent {self.config.agent}: {changes}; "
                "results would be mixed"
            )

    def attempts(self, key: str) -> int:
        """How often an episode was finished, in whatever way."""
        return sum(row["key"] == key for row in self.rows)

    def done(self) -> set[str]:
        """Episodes with a result that counts."""
        return {row["key"] for row in self.rows if row["status"] in DONE}

    def add(self, row: Mapping[str, Any]) -> None:
        """Appends a result; it is on the disk when this returns."""
        data = (json.dumps(dict(row), allow_nan=False) + "\n").encode()
        # No buffer: closing one writes once more what did not fit, behind what was taken back.
        with self.lines.open("ab", buffering=0) as file:
            start = file.tell()
            try:
                left = memoryview(data)
                while left:
                    left = left[file.write(left) :]
                os.fsync(file.fileno())
            except OSError:
                os.truncate(self.lines, start)
                raise
        self.rows.append(dict(row))

    def keep(self, row: Mapping[str, Any], record: Path | None) -> dict[str, Any]:
        """Moves the record of an episode to where it stays, then appends its result.

        Args:
            row: see `episode_row`.
            record: the folder of its trace, on the same file system; None without one.

        Returns:
            The row with `attempt` and `folder`, the record's name in `episodes` (None without one).
        """
        attempt = self.attempts(row["key"]) + 1
        name = None
        if record is not None and record.is_dir():
            name = f"{row['key']}-a{attempt}"
            os.replace(record, self.episodes / name)
        whole = {"key": row["key"], "attempt": attempt, "folder": name, **row}
        self.add(whole)
        return whole

    def close(self) -> None:
        """Lets go of the folder."""
        shutil.rmtree(self.playing, ignore_errors=True)
        os.close(self._lock)

    def __enter__(self) -> RunFolder:
        """Itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Lets go of the folder."""
        self.close()


def _versions() -> dict[str, str]:
    """Of what results may depend on besides the package; Blender's is in each result's `setting`."""
    return {
        "python": platform.python_version(),
        "platform": platform.platform(),
        **{name: importlib.metadata.version(name) for name in ("gymnasium", "numpy", "scipy", "trimesh")},
    }


def read_config(path: Path) -> dict[str, Any]:
    """The `config.json` of a run folder.

    Raises:
        SceneActError: it cannot be read.
    """
    try:
        about = json.loads((path / "config.json").read_text(encoding="utf-8"))
        if not isinstance(about["config"], dict) or not isinstance(about["package"], str):
            raise ValueError("it has no configuration")
    except (OSError, ValueError, KeyError, TypeError) as problem:
        raise SceneActError(f"{path} is no run folder, its config.json cannot be read: {problem}") from problem
    return about


def read_rows(path: Path) -> tuple[list[dict[str, Any]], int]:
    """The results in a run folder, also while it is being written, and the number of bytes of their whole lines."""
    rows, length = [], 0
    if (path / LINES).exists():
        for line in (path / LINES).read_bytes().splitlines(keepends=True):
            try:
                row = json.loads(line)
            except ValueError:
                break
            if not line.endswith(b"\n"):
                break
            rows.append(row)
            length += len(line)
    return rows, length


def results(rows: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """The row of each episode that counts: the one with a score, else the last."""
    found: dict[str, dict[str, Any]] = {}
    for row in rows:
        if row["key"] not in found or found[row["key"]]["status"] not in DONE:
            found[row["key"]] = row
    return found
