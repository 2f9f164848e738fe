"""Scores the stored submissions of a run folder again: no agent, no Blender, and the folder is never changed.

A submission is read back from `episodes/<folder>/` and must have the hash that its result names, so that nothing but
what was submitted gets a score. Case and evaluators are those of this version of the package.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, Literal

from sceneact_gym._version import __version__
from sceneact_gym.bench.folder import DONE, LINES, SETTINGS, read_config, read_rows, results
from sceneact_gym.bench.plan import BenchConfig
from sceneact_gym.cases import Case
from sceneact_gym.data.sources import CaseSource, open_source
from sceneact_gym.episode import EpisodeConfig
from sceneact_gym.errors import CaseNotFound, SceneActError
from sceneact_gym.evaluators.base import Protocol
from sceneact_gym.tasks import TASKS, Submission

PROTOCOLS: tuple[Protocol, ...] = ("paper", "strict")
NO_SUBMISSION = ("trace.jsonl", "blender.log", "submission.json")
"""Files of an episode's folder that are not among `Submission.files`."""
MAX_BYTES = 2**30
"""Of all files of a submission."""

Verdict = Literal["equal", "changed", "damaged", "infra_error"]


class DamagedEpisode(SceneActError):
    """A stored episode cannot be scored again; the message says why."""


@dataclass(frozen=True)
class Rescored:
    """One episode.

    Attributes:
        key: names it within its run.
        verdict: `equal`, bit for bit; `changed`; `damaged`, without a new score; `infra_error`, left alone.
        stored: its row as it is in the folder.
        new: `status`, `reason`, `score`, `score_<protocol>` and `metrics` of now, of the protocols asked for; empty
            where there is none.
        submitted: whether there was a submission.
        message: what changed, or why there is no new score.
    """

    key: str
    verdict: Verdict
    stored: dict[str, Any]
    new: dict[str, Any]
    submitted: bool
    message: str = ""

    def difference(self, protocol: Protocol) -> float | None:
        """New score minus stored score; None where one of them is missing."""
        old, new = (row.get(f"score_{protocol}") for row in (self.stored, self.new))
        numbers = all(isinstance(value, int | float) for value in (old, new))
        return new - old if numbers else None  # type: ignore[operator]


@dataclass(frozen=True)
class StoredRun:
    """A run folder as it is read for scoring again.

    Attributes:
        path: the folder.
        package: the version that it was begun with.
        config: its configuration.
        rows: the row of each episode that counts.
        unread: what is wrong with the file of results; empty if nothing is.
        left_out: what of the configuration this version does not know.
        settings: of its agent; None if it never had any.
    """

    path: Path
    package: str
    config: BenchConfig
    rows: tuple[dict[str, Any], ...]
    unread: str
    left_out: tuple[str, ...] = ()
    settings: Mapping[str, Any] | None = None


def read_stored(path: Path, source: str | None = None) -> StoredRun:
    """Reads a run folder, which may be of another version, or still growing.

    Args:
        path: the folder.
        source: where the cases are now, if not where the run had them.

    Raises:
        SceneActError: it is no run folder, or its configuration is none that this version knows.
    """
    about = read_config(path)
    try:
        config, left_out = _known_config(about["config"])
    except (KeyError, TypeError, ValueError) as problem:
        raise SceneActError(
            f"the configuration of {path}, begun with version {about['package']}, does not fit version {__version__}: "
            f"{problem}"
        ) from problem
    settings = about.get(SETTINGS) if isinstance(about.get(SETTINGS), dict) else None
    if source is not None:
        config = replace(config, source=source)
    rows, length = read_rows(path)
    unread = ""
    rest = (path / LINES).read_bytes()[length:] if (path / LINES).exists() else b""
    if b"\n" in rest:
        unread = f"line {len(rows) + 1} of {LINES} is damaged: it and what follows ({len(rest)} bytes) were not read"
    good = [row for row in rows if _is_row(row)]
    if len(good) < len(rows):
        unread = f"{len(rows) - len(good)} lines of {LINES} are no results; {unread}".rstrip("; ")
    return StoredRun(path, about["package"], config, tuple(results(good).values()), unread, left_out, settings)


def _known_config(data: Mapping[str, Any]) -> tuple[BenchConfig, tuple[str, ...]]:
    """A configuration of another version without what this one does not know, which is listed."""
    known, options = {one.name for one in fields(BenchConfig)}, {one.name for one in fields(EpisodeConfig)}
    left_out = [*(data.keys() - known), *(f"options.{name}" for name in data.get("options", {}).keys() - options)]
    left_out += [f"task {name}" for name in data["tasks"] if name not in TASKS]
    kept = {name: value for name, value in data.items() if name in known}
    kept["options"] = {name: value for name, value in data.get("options", {}).items() if name in options}
    kept["tasks"] = [name for name in data["tasks"] if name in TASKS]
    return BenchConfig.from_dict(kept), tuple(sorted(left_out))


def _is_row(row: Any) -> bool:
    """Whether a line of a file is a result; its key becomes a name in a new folder."""
    if not isinstance(row, dict) or not {"key", "status", "task", "case_id"} <= row.keys():
        return False
    return all(isinstance(row[name], str) for name in ("key", "status", "task", "case_id")) and is_plain(row["key"])


def is_plain(name: str) -> bool:
    """Whether a text names an entry of a folder, and nothing elsewhere."""
    return re.fullmatch(r"\w[\w.-]*", name, re.ASCII) is not None


def rescore(run: StoredRun, protocols: Sequence[Protocol] = PROTOCOLS) -> list[Rescored]:
    """Scores all episodes of a run that count.

    Args:
        run: see `read_stored`.
        protocols: which scores to compare.

    Returns:
        One per row, in order.
    """
    cases = _Cases(run.config)
    return [_rescore(run, row, cases, protocols) for row in run.rows]


def _rescore(run: StoredRun, row: dict[str, Any], cases: _Cases, protocols: Sequence[Protocol]) -> Rescored:
    submitted = row.get("submission_hash") is not None
    if row["status"] not in DONE:
        return Rescored(row["key"], "infra_error", row, {}, submitted, str(row.get("reason", "")))
    try:
        submission = read_submission(run.path, row)
        case = cases.load(row["task"], row["case_id"])
        new = score_row(case, submission, run.config.options.get("protocol", "paper"), protocols)
    except (DamagedEpisode, CaseNotFound) as problem:
        return Rescored(row["key"], "damaged", row, {}, submitted, str(problem))
    except Exception as problem:
        # A fault of the package, which says nothing about the submission; the other episodes go on.
        message = f"the evaluator failed: {type(problem).__name__}: {problem}"
        return Rescored(row["key"], "damaged", row, {}, submitted, message)
    names = [name for name in new if name != "reason" and row.get(name) != new[name]]
    verdict: Verdict = "changed" if names else "equal"
    return Rescored(row["key"], verdict, row, new, submitted, ", ".join(names))


def score_row(
    case: Case, submission: Submission | None, chosen: Protocol, protocols: Sequence[Protocol] = PROTOCOLS
) -> dict[str, Any]:
    """The part of a row that depends on the evaluators, as JSON values.

    Args:
        case: with its truth.
        submission: None where nothing was submitted.
        chosen: the protocol whose score and metrics are the row's own.
        protocols: the ones to compute; without `chosen` there is no `status`, `reason`, `score` and `metrics`.
    """
    scores = {name: TASKS[case.task].evaluate(case, submission, name) for name in protocols}
    row: dict[str, Any] = {}
    if chosen in scores:
        mine = scores[chosen]
        status = "ok" if mine.valid else "agent_error"
        row |= {"status": status, "reason": mine.reason, "score": mine.score, "metrics": dict(mine.metrics)}
    row |= {f"score_{name}": score.score for name, score in scores.items()}
    return json.loads(json.dumps(row, allow_nan=False))


def read_submission(path: Path, row: dict[str, Any]) -> Submission | None:
    """What an episode left behind, verified.

    Args:
        path: the run folder.
        row: of the episode.

    Returns:
        The submission; None where the row is of an agent that left nothing.

    Raises:
        DamagedEpisode: a file was changed, is missing or cannot be read.
    """
    name, stored = row.get("folder"), row.get("submission_hash")
    if name is not None and not (isinstance(name, str) and is_plain(name)):
        raise DamagedEpisode(f"{str(name)[:80]!r} is no name of a folder in episodes/")
    folder = path / "episodes" / name if name else None
    if stored is None:
        if row["status"] != "agent_error":
            raise DamagedEpisode("the result has a score, but no submission_hash")
        if folder is not None and (folder / "submission.json").exists():
            raise DamagedEpisode(f"episodes/{name} has a submission.json, but the result is of an episode without one")
        return None
    if folder is None:
        raise DamagedEpisode("the episode has no folder, so that its submission is not there")
    if not folder.is_dir():
        raise DamagedEpisode(f"episodes/{name} is missing")
    files: dict[str, bytes] = {}
    try:
        paths = sorted(file for file in folder.iterdir() if file.is_file() and file.name not in NO_SUBMISSION)
        if sum(file.stat().st_size for file in (*paths, folder / "submission.json")) > MAX_BYTES:
            raise DamagedEpisode(f"episodes/{name} has more than {MAX_BYTES} bytes")
        data = json.loads((folder / "submission.json").read_text(encoding="utf-8"))
        files = {file.name: file.read_bytes() for file in paths}
    except OSError as problem:
        what = Path(problem.filename).name if problem.filename else "a file"
        raise DamagedEpisode(f"{what} in episodes/{name} cannot be read: {problem.strerror}") from problem
    except (ValueError, RecursionError) as problem:
        raise DamagedEpisode(f"submission.json in episodes/{name} is not JSON: {str(problem)[:120]}") from problem
    submission = Submission(data, files)
    if submission.hash != stored:
        raise DamagedEpisode(
            f"{', '.join(['submission.json', *files])} in episodes/{name} are not what was submitted: the hash is "
            f"{submission.hash[:12]}..., not {str(stored)[:12]}...; a file was changed or added, or is missing"
        )
    return submission


class _Cases:
    """The cases of a run; the last one is kept, since its repeats follow."""

    def __init__(self, config: BenchConfig) -> None:
        self._config = config
        self._sources: dict[str, CaseSource] = {}
        self._last: Case | None = None

    def load(self, task: str, case_id: str) -> Case:
        if task not in TASKS:
            raise DamagedEpisode(f"this version has no task {task!r}")
        if task not in self._sources:
            self._sources[task] = open_source(self._config.source, task, self._config.split)
        if self._last is None or (self._last.task, self._last.id) != (task, case_id):
            self._last = self._sources[task].load(case_id)
        return self._last


def summary(episodes: Sequence[Rescored], protocols: Sequence[Protocol]) -> dict[str, Any]:
    """Counts by verdict, episodes without a submission, and the largest change per protocol (None without any)."""
    verdicts = [one.verdict for one in episodes]
    largest: dict[str, float | None] = {}
    for protocol in protocols:
        changes = [one.difference(protocol) for one in episodes]
        largest[protocol] = max((change for change in changes if change is not None), key=abs, default=None)
    return {
        "episodes": len(episodes),
        **{name: verdicts.count(name) for name in ("equal", "changed", "damaged", "infra_error")},
        "without_submission": sum(not one.submitted and one.verdict != "infra_error" for one in episodes),
        "largest_change": largest,
    }
