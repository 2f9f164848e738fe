"""Scores runs of the published SceneActBench harness again, and compares the metrics with those of its `score.json`."""

from __future__ import annotations

import math
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any

from sceneact_gym.bench.published_files import (
    PublishedCase,
    damaged_files,
    extra_files,
    missing_files,
    read_json,
    truth_folder,
)
from sceneact_gym.errors import SceneActError
from sceneact_gym.evaluators.base import Protocol
from sceneact_gym.score_files import TruthError, score_submission

NATIVE: Mapping[str, Mapping[str, str]] = {
    "layout": {
        "mean_add_s": "add_s", "chamfer": "chamfer", "placement_acc": "pa", "mean_pe": "pos_err", "scene_success": "ss",
    },
    "camera": {"cam_pos_error": "pe", "cam_angle_error_deg": "ae"},
    "articulated": {
        "worst_part_err": "mpe", "mean_part_err": "mean_part", "movable_recall": "recall",
        "false_move_rate": "false_move", "type_mismatch_rate": "type_mismatch", "reverse_dir_rate": "reverse_dir",
        "global_adds_open": "open_add_s",
    },
    "reconstruction": {
        "obj_f@5%_matched": "f5", "obj_f@5%": "region_f5", "object_coverage": "coverage",
        "mean_pos_err": "centroid_err", "match_rate": "match_rate", "chamfer_aligned": "chamfer",
        "f@2%": "scene_f2", "f@5%": "scene_f5", "f@10%": "scene_f10",
    },
    "dynamic": {
        "worst_vehicle_err": "mme", "mean_vehicle_err": "ame", "layout_err": "le", "mover_count_err": "count_err",
        "direction_error_rate": "direction_err", "path_shape_err": "shape_err", "heading_err": "heading_err",
        "scale_error": "scale_err", "size_error": "size_err", "mover_size_err": "mover_size_err",
    },
}  # fmt: skip
"""The names of the metrics in `score.json`, and ours, by the evaluator."""

RELATIVE = 1e-7
"""A published number is taken to be right to this at most, relative to itself or to 1, however many digits it has."""
DIGITS = 4
"""Decimals of published metrics, where `score.json` has whole numbers only."""


@dataclass(frozen=True)
class Metric:
    """A metric beside the published one; None where there is none.

    Attributes:
        name: as in `score.json`.
        published: what stands there.
        computed: what came out now.
        digits: decimals to which the published one was rounded.
    """

    name: str
    published: float | None
    computed: float | None
    digits: int

    @property
    def differs(self) -> bool:
        """Whether they differ by more than the rounding of the published number."""
        if self.published is None or self.computed is None:
            return self.published is not self.computed
        allowed = max(10.0**-self.digits / 2, RELATIVE * max(1.0, abs(self.published)))
        return abs(self.published - self.computed) > allowed * (1 + 1e-9)


@dataclass
class PublishedResult:
    """A case scored again.

    Attributes:
        case: which one.
        metrics: those of `score.json`, under `paper`.
        scores: what `score_submission` gives, by protocol; empty where nothing could be scored.
        problems: what is missing or damaged.
        notes: what else is worth knowing.
        steps: entries of `steps.json`; None where it cannot be read.
    """

    case: PublishedCase
    metrics: list[Metric] = field(default_factory=list)
    scores: dict[str, dict[str, Any]] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    steps: int | None = None

    @property
    def verdict(self) -> str:
        """`equal` up to rounding, `changed`, or `damaged`."""
        if self.problems:
            return "damaged"
        return "changed" if any(metric.differs for metric in self.metrics) else "equal"


def rescore_published(
    cases: Sequence[PublishedCase],
    truth: Path,
    protocols: Sequence[Protocol] = ("paper", "strict"),
) -> list[PublishedResult]:
    """Scores cases again; whatever is wrong with one is said there and does not stop the others.

    Args:
        cases: see `find_cases`.
        truth: the data set's folder, one of its parts, or a folder of truth folders by case id.
        protocols: which scores; the metrics are compared under `paper`, which is always there.

    Raises:
        SceneActError: `truth` is no folder.
    """
    if not truth.is_dir():
        raise SceneActError(f"the folder of the truth, {truth}, does not exist")
    wanted: tuple[Protocol, ...] = ("paper", *(name for name in protocols if name != "paper"))
    return [_rescore(case, truth, wanted) for case in cases]


def _rescore(case: PublishedCase, truth: Path, protocols: Sequence[Protocol]) -> PublishedResult:
    result = PublishedResult(case)
    about = read_json(case.folder / "task.json", result.notes, dict)
    steps = read_json(case.folder / "steps.json", result.notes, list)
    result.steps = None if steps is None else len(steps)
    native = read_json(case.folder / "score.json", result.problems, dict)
    kind = (about or {}).get("task_type", case.folder.parent.name)
    if kind != case.folder.parent.name:
        result.problems.append(f"task.json is of {str(kind)[:40]!r}, the folder of {case.folder.parent.name}")
        return result
    result.notes += [f"{name} is not of the harness" for name in extra_files(case.folder)]
    unusable = [*missing_files(case, result.notes), *damaged_files(case)]
    result.problems += unusable
    if unusable:
        return result
    try:
        with tempfile.TemporaryDirectory() as scratch:
            folder = truth_folder(case, truth, about or {}, Path(scratch), result.notes)
            for protocol in protocols:
                result.scores[protocol] = score_submission(case.evaluator, case.folder, folder, protocol)
    except TruthError as problem:
        result.problems.append(f"the truth: {problem}")
    except Exception as problem:
        result.problems.append(f"the evaluator failed: {type(problem).__name__}: {problem}")
    if len(result.scores) < len(protocols):
        result.scores = {}
    elif not result.scores["paper"]["valid"]:
        result.notes.append(f"invalid: {result.scores['paper']['reason']}")
    if native is not None and result.scores:
        result.metrics = _compare(case, native, result.scores["paper"]["metrics"])
        if not result.metrics:
            result.problems.append(f"score.json has none of {', '.join(NATIVE[case.evaluator])}")
    return result


def _compare(case: PublishedCase, native: Mapping[str, Any], computed: Mapping[str, Any]) -> list[Metric]:
    """The metrics that `score.json` has, also one level further in."""
    flat = {name: value for inner in native.values() if isinstance(inner, dict) for name, value in inner.items()}
    flat |= native
    found = {name: _number(flat[name]) for name in NATIVE[case.evaluator] if name in flat}
    # JSON drops zeros at the end: the longest of the numbers tells to how many digits all were rounded.
    decimals = [-int(Decimal(repr(value)).as_tuple().exponent) for value in found.values() if value and value % 1]
    digits = max(decimals, default=DIGITS)
    return [
        Metric(name, value, _number(computed.get(NATIVE[case.evaluator][name])), digits)
        for name, value in found.items()
    ]


def _number(value: Any) -> float | None:
    return float(value) if isinstance(value, int | float) and math.isfinite(value) else None
