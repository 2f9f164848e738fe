"""From case scores to task scores, Overall and differences between runs.

A task score is the mean over its cases, an invalid case counting 0. Overall is the mean of the five tasks, with
single-view Layout and low-poly Dynamic standing for their pairs (SceneActBench Section 3). A case whose score is None
failed for reasons outside the agent (Blender or the host died): it is left out and counted apart, never a 0.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from sceneact_gym.evaluators.base import Array

OVERALL_TASKS = ("layout", "camera", "articulated", "reconstruction", "dynamic")
CONDITION_PAIRS = (("layout", "layout_multiview"), ("dynamic", "dynamic_photoreal"))


@dataclass(frozen=True)
class TaskScore:
    """Result of `task_score`.

    Attributes:
        score: Mean case score 0 to 100; None without a scored case.
        cases: Number of scored cases.
        invalid: How many of them are invalid and counted 0 (known only where the case says so).
        excluded: Cases without a score (infrastructure failures), not part of the mean.
    """

    score: float | None
    cases: int
    invalid: int
    excluded: int


@dataclass(frozen=True)
class Difference:
    """Result of `bootstrap`.

    Attributes:
        mean: Mean of the paired differences a - b.
        low: Lower end of the percentile confidence interval.
        high: Upper end.
        pairs: Number of cases that both sides scored.
        level: Confidence level, for example 0.95.
    """

    mean: float
    low: float
    high: float
    pairs: int
    level: float


def task_score(cases: Sequence[Any]) -> TaskScore:
    """Mean score of one task.

    Args:
        cases: One entry per case: a number 0 to 100, an evaluator's result (its `score` and `valid` are used), or None
            for a case that has no score because the infrastructure failed.

    Returns:
        The mean with its counts.
    """
    scores, invalid, excluded = [], 0, 0
    for case in cases:
        score = getattr(case, "score", case)
        if score is None:
            excluded += 1
            continue
        scores.append(_checked(score))
        invalid += getattr(case, "valid", True) is False
    return TaskScore(sum(scores) / len(scores) if scores else None, len(scores), invalid, excluded)


def overall(tasks: Mapping[str, float | None]) -> float | None:
    """Mean of the five task scores.

    Args:
        tasks: Task -> score 0 to 100. The other halves of the condition pairs (`layout_multiview`, `dynamic_photoreal`)
            may be there and do not count.

    Returns:
        The Overall score, or None while any of the five is missing: a mean over fewer tasks is another quantity.
    """
    scores = [tasks.get(task) for task in OVERALL_TASKS]
    present = [_checked(s) for s in scores if s is not None]
    return sum(present) / len(present) if len(present) == len(OVERALL_TASKS) else None


def condition_differences(a: Mapping[str, float | None], b: Mapping[str, float | None]) -> dict[str, float]:
    """Score of condition `b` minus condition `a`, per case that both scored, by case id in sorted order."""
    return {
        case: _checked(second) - _checked(first)
        for case in sorted(a.keys() & b.keys())
        if (first := a[case]) is not None and (second := b[case]) is not None
    }


def bootstrap(
    a: Mapping[str, float | None],
    b: Mapping[str, float | None],
    *,
    resamples: int = 10_000,
    level: float = 0.95,
    seed: int = 0,
) -> Difference | None:
    """Confidence interval of the difference of two runs over the same cases.

    Cases are resampled with replacement, both runs together, so that what makes a case easy or hard cancels out.

    Args:
        a: Case id -> score of the first run; None where the infrastructure failed.
        b: The same of the second run.
        resamples: How many resamples to draw.
        level: Confidence level, between 0 and 1.
        seed: Of the generator, so that a report is reproducible.

    Returns:
        The difference a - b with its percentile interval, or None without a common case.
    """
    differences = np.array(list(condition_differences(b, a).values()))
    if not len(differences):
        return None
    means = _resampled(differences, resamples, np.random.default_rng(seed)).mean(axis=1)
    return Difference(float(differences.mean()), *_percentiles(means, level), len(differences), level)


def bootstrap_overall(
    a: Mapping[str, Mapping[str, float | None]],
    b: Mapping[str, Mapping[str, float | None]],
    *,
    resamples: int = 10_000,
    level: float = 0.95,
    seed: int = 0,
) -> Difference | None:
    """Confidence interval of the difference of two Overall scores; cases are resampled within each task.

    Args:
        a: Task -> case id -> score of the first run.
        b: The same of the second run.
        resamples: How many resamples to draw.
        level: Confidence level, between 0 and 1.
        seed: Of the generator.

    Returns:
        The difference a - b, or None unless both runs share cases of all five tasks.
    """
    differences = [list(condition_differences(b.get(t, {}), a.get(t, {})).values()) for t in OVERALL_TASKS]
    if not all(differences):
        return None
    rng = np.random.default_rng(seed)
    means = np.mean([_resampled(np.array(d), resamples, rng).mean(axis=1) for d in differences], axis=0)
    mean = float(np.mean([np.mean(d) for d in differences]))
    return Difference(mean, *_percentiles(means, level), sum(map(len, differences)), level)


def _resampled(data: Array, resamples: int, rng: np.random.Generator) -> Array:
    """`(resamples, N)` draws with replacement."""
    if resamples < 1:
        raise ValueError(f"resamples must be at least 1, not {resamples}")
    return data[rng.integers(0, len(data), (resamples, len(data)))]


def _percentiles(means: Array, level: float) -> tuple[float, float]:
    if not 0 < level < 1:
        raise ValueError(f"level must lie between 0 and 1, not {level}")
    low, high = np.quantile(means, [(1 - level) / 2, (1 + level) / 2])
    return float(low), float(high)


def _checked(score: Any) -> float:
    """A score between 0 and 100, or the caller's mistake."""
    value = float(score)
    if not 0 <= value <= 100:
        raise ValueError(f"a score must lie between 0 and 100, not {score!r}")
    return value
