"""Writes what was scored again as run folders, which `sceneact show` and `sceneact report` read like any other."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from sceneact_gym.bench.folder import RunFolder
from sceneact_gym.bench.plan import BenchConfig
from sceneact_gym.bench.published_runs import NATIVE, PublishedResult
from sceneact_gym.bench.rescore import PROTOCOLS, Rescored, StoredRun, is_plain
from sceneact_gym.tasks import TASKS
from sceneact_gym.trace import read_trace


def write(run: StoredRun, episodes: Sequence[Rescored], folder: RunFolder) -> None:
    """Writes the scores of now as results of a new run folder, with copies of the episodes' folders.

    A damaged episode is an `infra_error` there: it has no score, and is counted apart. Each row of a new score has
    `rescored_from`: the version of before and what it gave.

    Args:
        run: the run that was scored again.
        episodes: the scores of both protocols.
        folder: a new one.

    Raises:
        OSError: the new folder cannot be written.
    """
    for one in episodes:
        kept = ("attempt", "status", "reason", "score", "score_paper", "score_strict", "metrics")
        row = dict(one.stored)
        if one.verdict != "infra_error":
            row["rescored_from"] = {"package": run.package, **{name: one.stored.get(name) for name in kept}}
            row |= one.new or {
                "status": "infra_error", "reason": f"not scored again: {one.message}", "score": None,
                "score_paper": None, "score_strict": None, "metrics": {},
            }  # fmt: skip
        # The new folder knows of this attempt only, and a later one must find its place free.
        row["attempt"] = 1
        row["folder"] = _copy(run.path / "episodes", folder.episodes, row)
        folder.add(row)


def _copy(episodes: Path, out: Path, row: dict[str, Any]) -> str | None:
    """Copies an episode's folder, whose trace then ends with the new result; its new name, None without one."""
    old, new = str(row.get("folder")), f"{row['key']}-a1"
    if not is_plain(old) or not (episodes / old).is_dir():
        return None
    shutil.copytree(episodes / old, out / new, symlinks=True)
    trace = out / new / "trace.jsonl"
    if trace.is_file() and "rescored_from" in row:
        *_, last = ({}, *read_trace(out / new))
        if last.get("event") == "end":
            shown = {key: row[key] for key in ("status", "reason", "score", "metrics", "rescored_from")}
            scores = {protocol: row[f"score_{protocol}"] for protocol in PROTOCOLS}
            with trace.open("a", encoding="utf-8") as file:
                file.write(json.dumps({**last, **shown, "scores": scores}) + "\n")
    return new


def begin_published(out: Path, model: str, results: Sequence[PublishedResult]) -> RunFolder:
    """Makes a run folder of ours for a model, whose cases are known by name only.

    Raises:
        SceneActError: the folder is not empty.
    """
    mine = [result.case for result in results if result.case.model == model]
    tasks = [task for task in TASKS if any(case.task == task for case in mine)]
    source = (out / model / "cases").absolute()
    ids = tuple(case.case_id for case in mine)
    folder = RunFolder(out / model, BenchConfig(model, tasks, case_ids=ids, source=str(source)))
    for case in mine:
        place = source / f"{case.task}-{case.case_id}"
        place.mkdir(parents=True)
        (place / "case.json").write_text(json.dumps({"id": case.case_id, "task": case.task}))
    return folder


def published_rows(results: Sequence[PublishedResult], model: str) -> Iterator[dict[str, Any]]:
    """Results of a model as rows of a run folder of ours; what could not be scored is an `infra_error`."""
    for result in results:
        if result.case.model != model:
            continue
        case, paper, strict = result.case, result.scores.get("paper"), result.scores.get("strict")
        row: dict[str, Any] = {
            "key": f"{case.task}-{case.case_id}-r0", "attempt": 1, "folder": None, "env_id": TASKS[case.task].env_id,
            "task": case.task, "case_id": case.case_id, "repeat": 0, "seed": 0,
        }  # fmt: skip
        if paper is None or strict is None:
            reason = f"not scored again: {'; '.join(result.problems)}"
            row |= {"status": "infra_error", "reason": reason, "score": None, "metrics": {}}
        else:
            names = NATIVE[case.evaluator].values()
            metrics = {name: paper["metrics"][name] for name in names if name in paper["metrics"]}
            row |= {"status": "ok" if paper["valid"] else "agent_error", "reason": paper["reason"]}
            row |= {"score": paper["score"], "metrics": metrics}
        row |= {name: None if found is None else found["score"] for name, found in
                (("score_paper", paper), ("score_strict", strict))}  # fmt: skip
        if result.steps is not None:
            row["steps"] = result.steps
        yield row | {
            "submission_hash": None, "checkpoints": {}, "setting": {}, "privileged": False, "usage": None,
            "rescored_from": {
                "package": "SceneActBench",
                "metrics": {metric.name: metric.published for metric in result.metrics},
            },
        }  # fmt: skip
