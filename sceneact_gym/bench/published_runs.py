"""Scores runs of the published SceneActBench harness again, from its run folders and its data set.

A case of such a run is `runs/<model>/<task_type>/<case id>/` with `score.json`, `steps.json`, `task.json` and what the
agent left: `agent_scene.glb`, `agent_camera.json` or `agent_frames/agent_frame_0000.glb` to 0031. The truth is the
case's folder of the data set, or a truth folder as `score_files` takes them, named by the case id. The truth of Camera
has no folder in the data set: it is `gt_camera` in the case's `task.json`.
"""

from __future__ import annotations

import json
import math
import re
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np

from sceneact_gym.errors import SceneActError
from sceneact_gym.evaluators import gltf
from sceneact_gym.evaluators.articulated import FRAMES
from sceneact_gym.evaluators.base import Protocol
from sceneact_gym.score_files import TruthError, score_submission

TASK_TYPES = {
    "task1_single": "layout",
    "task2_multi": "layout_multiview",
    "task3_camera": "camera",
    "task4_anim": "articulated",
    "task5_recon": "reconstruction",
    "task6_anim": "dynamic",
    "task7_anim": "dynamic_photoreal",
}
"""The harness's names of the tasks, and ours."""

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

SCENE_FOLDERS = ("", "scenes", "benchmark_final/scenes", "benchmark_s2o_final", "benchmark_t6_final")
KNOWN_FILES = ("score.json", "steps.json", "task.json", "agent_scene.glb", "agent_camera.json", "agent_frames")
RELATIVE = 1e-7
"""A published number is taken to be right to this at most, relative to itself or to 1, however many digits it has."""
DIGITS = 4
"""Decimals of published metrics, where `score.json` has whole numbers only."""


@dataclass(frozen=True)
class PublishedCase:
    """One case folder of a run: `runs/<model>/<task_type>/<case id>`."""

    folder: Path

    @property
    def model(self) -> str:
        """Which model played it."""
        return self.folder.parent.parent.name

    @property
    def task(self) -> str:
        """Our name of its task."""
        return TASK_TYPES[self.folder.parent.name]

    @property
    def evaluator(self) -> str:
        """The task's name in `score_files`."""
        return {"layout_multiview": "layout", "dynamic_photoreal": "dynamic"}.get(self.task, self.task)

    @property
    def case_id(self) -> str:
        """The harness's id."""
        return self.folder.name

    @property
    def scene(self) -> str:
        """The scene's folder name in the data set, as the case id says it."""
        return re.sub(r"^anim-|^t[67]anim-|__task\d_\w+$", "", self.case_id)


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


def find_cases(path: Path) -> tuple[list[PublishedCase], list[str]]:
    """The case folders below a folder of runs, of one model, of one task type, or the one case folder.

    Returns:
        The cases in order of model, task type and id, and the folders in between that are none.

    Raises:
        SceneActError: there is no case folder.
    """
    path = path.resolve()
    if path.parent.name in TASK_TYPES and path.is_dir():
        return [PublishedCase(path)], []
    strays: list[str] = []
    if path.name in TASK_TYPES:
        types = [path]
    else:
        below = _folders(path)
        models = [path] if any(folder.name in TASK_TYPES for folder in below) else below
        types = [kind for model in models for kind in _folders(model) if kind.name in TASK_TYPES]
        for model in models:
            inside = _folders(model)
            strays += [f"{model.name}/{kind.name} is no task type" for kind in inside if kind not in types]
            strays += [] if inside else [f"{model.name} has no task type"]
    cases = [PublishedCase(folder) for kind in types for folder in _folders(kind)]
    if not cases:
        raise SceneActError(
            f"{path} is no run folder of this package (it has no config.json), and has no case folders of the "
            f"published harness, <model>/<task type>/<case id>, either; the task types are {', '.join(TASK_TYPES)}"
        )
    return cases, strays


def _folders(path: Path) -> list[Path]:
    return sorted(entry for entry in path.iterdir() if entry.is_dir()) if path.is_dir() else []


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
    about = _json(case.folder / "task.json", result.notes, dict)
    steps = _json(case.folder / "steps.json", result.notes, list)
    result.steps = None if steps is None else len(steps)
    native = _json(case.folder / "score.json", result.problems, dict)
    kind = (about or {}).get("task_type", case.folder.parent.name)
    if kind != case.folder.parent.name:
        result.problems.append(f"task.json is of {str(kind)[:40]!r}, the folder of {case.folder.parent.name}")
        return result
    result.notes += [f"{name} is not of the harness" for name in _extra(case.folder)]
    unusable = [*_missing(case, result.notes), *_damaged(case)]
    result.problems += unusable
    if unusable:
        return result
    try:
        with tempfile.TemporaryDirectory() as scratch:
            folder = _truth_folder(case, truth, about or {}, Path(scratch), result.notes)
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


def _json(path: Path, problems: list[str], kind: type) -> Any:
    """What a JSON file holds; None with a line in `problems` where it cannot be used."""
    try:
        if path.stat().st_size > gltf.MAX_JSON_BYTES:
            raise ValueError(f"it is larger than {gltf.MAX_JSON_BYTES} bytes")
        value = json.loads(path.read_text(encoding="utf-8"))
        if not isinstance(value, kind):
            raise ValueError(f"it holds no JSON {'object' if kind is dict else 'list'}")
    except FileNotFoundError:
        problems.append(f"{path.name} is missing")
    except (OSError, ValueError, RecursionError) as problem:
        problems.append(f"{path.name} cannot be used: {str(problem)[:120]}")
    else:
        return value
    return None


def _extra(folder: Path) -> Iterator[str]:
    for path in sorted(folder.iterdir()):
        if path.name not in KNOWN_FILES:
            yield path.name
    frames = folder / "agent_frames"
    for path in sorted(frames.iterdir()) if frames.is_dir() else ():
        if path.name not in FRAME_NAMES:
            yield f"agent_frames/{path.name}"


FRAME_NAMES = [f"agent_frame_{number:04d}.glb" for number in range(FRAMES)]


def _submitted(case: PublishedCase) -> list[str]:
    """The files that a case should have, relative to its folder."""
    if case.task == "camera":
        return ["agent_camera.json"]
    frames = (case.folder / "agent_frames").is_dir() or not (case.folder / "agent_scene.glb").is_file()
    if case.task == "articulated" and frames:
        return [f"agent_frames/{name}" for name in FRAME_NAMES]
    return ["agent_scene.glb"]


def _missing(case: PublishedCase, notes: list[str]) -> Iterator[str]:
    wanted = _submitted(case)
    missing = [name for name in wanted if not (case.folder / name).is_file()]
    if not missing:
        return
    said = f"{missing[0]} is missing" + (f", and {len(missing) - 1} more" if len(missing) > 1 else "")
    if len(missing) < len(wanted) and (case.folder / "agent_scene.glb").is_file():
        notes.append(f"{said}; the final scene stands in for what is missing, as published")
    else:
        yield said


def _damaged(case: PublishedCase) -> Iterator[str]:
    """Files that cannot be read at all, which says nothing about the agent: a broken download, for example."""
    # The final scene of Articulated is looked into as well, since it stands in for missing frames.
    for name in dict.fromkeys([*_submitted(case), *(["agent_scene.glb"] if case.task == "articulated" else [])]):
        path = case.folder / name
        if path.suffix == ".json" and path.is_file():
            found: list[str] = []
            _json(path, found, dict)
            yield from found
        elif path.is_file():
            try:
                gltf.load(path)
            except (gltf.GltfError, OSError) as problem:
                yield f"{name} cannot be read: {problem}"


def _truth_folder(case: PublishedCase, truth: Path, about: Mapping[str, Any], scratch: Path, notes: list[str]) -> Path:
    """The folder that `score_submission` takes; that of Camera is made in `scratch`.

    Raises:
        TruthError: there is none.
    """
    own = truth / case.case_id
    if own.is_dir() and (case.task != "camera" or (own / "truth.json").is_file()):
        return own
    if case.task == "camera":
        (scratch / "truth.json").write_text(json.dumps({"matrix_world": _hidden_camera(about)}))
        notes.append("the truth is gt_camera of the run's own task.json")
        return scratch
    names = [case.scene, about.get("scene_id"), Path(str(about.get("scene_dir", ""))).name]
    for name in names:
        if isinstance(name, str) and name and Path(name).name == name:
            for part in SCENE_FOLDERS:
                if (truth / part / name).is_dir():
                    return truth / part / name
    raise TruthError(f"neither {case.case_id} nor {case.scene} is in {truth}, in {', '.join(SCENE_FOLDERS[1:])}")


def _hidden_camera(about: Mapping[str, Any]) -> list[list[float]]:
    """The pose in `gt_camera`: a matrix, or a place and a direction (roll is not scored).

    Raises:
        TruthError: there is none.
    """
    given = about.get("gt_camera")
    if isinstance(given, list):
        given = {"matrix_world": given}
    if not isinstance(given, dict):
        raise TruthError("task.json has no gt_camera")

    def end(*endings: str) -> Any:
        return next((value for name, value in given.items() if name.endswith(endings)), [])

    try:
        matrix = np.asarray(end("matrix_world"), np.float64)
        if matrix.shape != (4, 4):
            place, view = (np.asarray(end(*names), np.float64) for names in (("position", "location"), ("look_dir",)))
            matrix = np.eye(4)
            matrix[:3, 2], matrix[:3, 3] = -view / np.linalg.norm(view), place
    except (TypeError, ValueError) as problem:
        raise TruthError(
            "gt_camera of task.json has neither matrix_world (4x4) nor position and look_dir; it has "
            f"{', '.join(map(str, given))[:200]}"
        ) from problem
    if not np.isfinite(matrix).all():
        raise TruthError("gt_camera of task.json is not finite")
    return matrix.tolist()
