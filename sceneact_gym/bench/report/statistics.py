"""The figures of a report: means over cases, intervals by bootstrap over cases, bounds, pairs and step-budget curves.

The unit is always the case: the repeats of a case are averaged first, since they tell less than as many cases would.
An episode that Blender or the host failed has no score and is in no mean.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sceneact_gym.bench.folder import DONE
from sceneact_gym.bench.plan import Play
from sceneact_gym.bench.report.load import Row

PROTOCOLS = ("paper", "strict")
RESAMPLES = 5000
LEVEL = 0.95
SEED = 20261130


@dataclass(frozen=True)
class Estimate:
    """A mean over cases.

    Attributes:
        mean: None without cases.
        low: lower end of the interval; None with fewer than two cases, which have no spread.
        high: its upper end.
        cases: how many.
    """

    mean: float | None
    low: float | None
    high: float | None
    cases: int


def resampled_means(values: ArrayLike, stream: int = 0) -> NDArray[np.float64]:
    """Means of `RESAMPLES` samples with replacement.

    Args:
        values: (N,) one value per case, N > 0.
        stream: figures that are to be independent of each other take different ones.

    Returns:
        (RESAMPLES,); the same for the same arguments.
    """
    array = np.asarray(values, np.float64)
    rng = np.random.default_rng([SEED, stream])
    return array[rng.integers(len(array), size=(RESAMPLES, len(array)), dtype=np.int32)].mean(axis=1)


def estimate(values: ArrayLike, stream: int = 0) -> Estimate:
    """The mean with the interval between the percentiles of its resamples.

    Args:
        values: (N,) one value per case.
        stream: see `resampled_means`.
    """
    array = np.asarray(values, np.float64)
    if not len(array):
        return Estimate(None, None, None, 0)
    mean = float(array.mean())
    if len(array) < 2:
        return Estimate(mean, None, None, 1)
    return _between(mean, resampled_means(array, stream), len(array))


def estimate_over_tasks(tasks: Sequence[ArrayLike]) -> Estimate:
    """The mean of the tasks' means; the cases of each task are resampled on their own.

    Args:
        tasks: one value per case, for each task.

    Returns:
        No mean unless every task has a case; no interval unless every task has two.
    """
    arrays = [np.asarray(values, np.float64) for values in tasks]
    count = sum(len(array) for array in arrays)
    if not arrays or not all(len(array) for array in arrays):
        return Estimate(None, None, None, count)
    mean = float(np.mean([array.mean() for array in arrays]))
    if any(len(array) < 2 for array in arrays):
        return Estimate(mean, None, None, count)
    means = np.mean([resampled_means(array, stream) for stream, array in enumerate(arrays)], axis=0)
    return _between(mean, means, count)


def _between(mean: float, means: NDArray[np.float64], cases: int) -> Estimate:
    low, high = np.quantile(means, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return Estimate(mean, float(low), float(high), cases)


def final_score(row: Row, protocol: str) -> float | None:
    """An episode's score; None after a fault of Blender or the host, 0 where nothing valid was submitted."""
    if row["status"] not in DONE:
        return None
    score = row.get(f"score_{protocol}")
    return 0.0 if score is None and row["status"] == "agent_error" else score


def case_means(rows: Sequence[Row], protocol: str) -> dict[str, float]:
    """The mean score of each case that has one, by its id."""
    return _mean_by_case([(row["case_id"], final_score(row, protocol)) for row in rows])


def _mean_by_case(scores: Sequence[tuple[str, float | None]]) -> dict[str, float]:
    found: dict[str, list[float]] = {}
    for case_id, score in scores:
        if score is not None:
            found.setdefault(case_id, []).append(score)
    return {case_id: float(np.mean(values)) for case_id, values in sorted(found.items())}


def bounds(rows: Sequence[Row], planned: Sequence[Play] | None, protocol: str) -> tuple[float | None, float | None]:
    """The mean if every episode without a score had scored 0, and if it had scored 100.

    Args:
        rows: of one task.
        planned: all episodes of the task; None if they are not known, and then neither are the bounds.
        protocol: `paper` or `strict`.
    """
    if planned is None or not (planned or rows):
        return None, None
    scores: dict[str, tuple[str, float | None]] = {play.key: (play.case_id, None) for play in planned} | {
        row["key"]: (row["case_id"], final_score(row, protocol)) for row in rows
    }
    low, high = (
        _mean_by_case([(case, lost if score is None else score) for case, score in scores.values()])
        for lost in (0.0, 100.0)
    )
    return float(np.mean(list(low.values()))), float(np.mean(list(high.values())))


def paired(first: Mapping[str, float], second: Mapping[str, float]) -> Estimate:
    """The mean of first minus second over the cases that both have."""
    return estimate([first[case] - second[case] for case in sorted(first.keys() & second.keys())])


def curve(rows: Sequence[Row], protocol: str, steps: Sequence[int]) -> list[tuple[int, Estimate]]:
    """The mean score that the scenes would have had after so many steps.

    Args:
        rows: of one task.
        protocol: `paper` or `strict`.
        steps: the checkpoints. An episode that ended before one counts with its final score.

    Returns:
        Per checkpoint the estimate over the cases; it is left out where an episode was not scored at it.
    """
    done = [row for row in rows if final_score(row, protocol) is not None]
    points = []
    for step in sorted(set(steps)):
        scores = [(row["case_id"], _score_at(row, protocol, step)) for row in done]
        if scores and all(score is not None for _, score in scores):
            points.append((step, estimate(list(_mean_by_case(scores).values()))))
    return points


def _score_at(row: Row, protocol: str, step: int) -> float | None:
    scored = (row.get("checkpoints") or {}).get(str(step))
    if isinstance(scored, dict):
        return scored.get(protocol)
    ended = row.get("steps")
    return final_score(row, protocol) if ended is not None and ended <= step else None
