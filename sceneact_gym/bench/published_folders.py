"""Writes runs of the published SceneActBench harness, scored again, as run folders of this package."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from sceneact_gym.bench.folder import RunFolder
from sceneact_gym.bench.plan import BenchConfig
from sceneact_gym.bench.published_runs import NATIVE, PublishedResult
from sceneact_gym.tasks import TASKS


def begin(out: Path, model: str, results: Sequence[PublishedResult]) -> RunFolder:
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


def rows(results: Sequence[PublishedResult], model: str) -> Iterator[dict[str, Any]]:
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
        yield row | {
            "steps": result.steps, "tool_calls": None, "submission_hash": None, "checkpoints": {}, "setting": {},
            "privileged": False, "usage": None, "seconds": None,
            "rescored_from": {
                "package": "SceneActBench",
                "metrics": {metric.name: metric.published for metric in result.metrics},
            },
        }  # fmt: skip
