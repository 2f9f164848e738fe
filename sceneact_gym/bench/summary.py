"""Sums up the rows of a run folder."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from sceneact_gym.bench.folder import results
from sceneact_gym.bench.plan import BenchConfig, plays


def summary(results: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Counts by status, the mean score over cases (without infrastructure errors), and its standard error.

    The repeats of a case are averaged first: they are not independent of each other.
    """
    by_case: dict[str, list[float]] = {}
    for result in results:
        if result["score"] is not None:
            by_case.setdefault(result["case_id"], []).append(result["score"])
    scores = [float(np.mean(of_case)) for of_case in by_case.values()]
    statuses = [result["status"] for result in results]
    return {
        "episodes": len(results),
        "mean_score": float(np.mean(scores)) if scores else None,
        "standard_error": float(np.std(scores, ddof=1) / np.sqrt(len(scores))) if len(scores) > 1 else None,
        **{status: statuses.count(status) for status in ("ok", "agent_error", "infra_error")},
    }


def task_summaries(config: BenchConfig, rows: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Per task of a benchmark run: `paper` and `strict`, each a `summary` of its scores, and the episodes `missing`."""
    by_key = results(rows)
    counted = list(by_key.values())
    planned = plays(config)
    found: dict[str, dict[str, Any]] = {}
    for task in config.tasks:
        mine = [row for row in counted if row["task"] == task]
        paper, strict = (
            summary([{**row, "score": row.get(name)} for row in mine]) for name in ("score_paper", "score_strict")
        )
        missing = sum(play.task == task and play.key not in by_key for play in planned)
        found[task] = {"paper": paper, "strict": strict, "missing": missing}
    return found
