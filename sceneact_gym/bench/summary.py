"""Sums up the rows of a run folder for a terminal; `report/` says more."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from sceneact_gym.bench.folder import results
from sceneact_gym.bench.plan import BenchConfig, plays
from sceneact_gym.bench.report.statistics import PROTOCOLS, case_means

STATUSES = ("ok", "agent_error", "infra_error")


class Mean(NamedTuple):
    """A mean over cases.

    Attributes:
        value: None without cases.
        error: its standard error; None with fewer than two cases.
    """

    value: float | None
    error: float | None


def mean_of(values: Sequence[float]) -> Mean:
    """The mean of one value per case."""
    error = float(np.std(values, ddof=1) / np.sqrt(len(values))) if len(values) > 1 else None
    return Mean(float(np.mean(values)) if values else None, error)


def task_summaries(config: BenchConfig, rows: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Per task of a run: a `Mean` for `paper` and `strict`, and how many episodes have each status or are `missing`."""
    by_key = results(rows)
    planned = plays(config)
    found: dict[str, dict[str, Any]] = {}
    for task in config.tasks:
        mine = [row for row in by_key.values() if row["task"] == task]
        statuses = [row["status"] for row in mine]
        found[task] = {
            **{protocol: mean_of(list(case_means(mine, protocol).values())) for protocol in PROTOCOLS},
            **{status: statuses.count(status) for status in STATUSES},
            "missing": sum(play.task == task and play.key not in by_key for play in planned),
        }
    return found
