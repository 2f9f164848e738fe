"""Failure funnels: how far episodes come, from being planned to a strict score of 90.

A stage of a funnel counts the episodes that passed it and all stages before it. `alone` counts those that passed this
stage, whatever became of the others: an agent that never renders can still score 100. A stage that is not known of
every episode that was played (no trace, no run of `noop`) has no counts, and the later ones do not depend on it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sceneact_gym.bench.folder import DONE
from sceneact_gym.bench.plan import Play
from sceneact_gym.bench.report.load import Row, Run
from sceneact_gym.bench.report.statistics import final_score
from sceneact_gym.trace import read_trace

EDITS = ("execute_blender_code", "set_camera_pose", "set_object_pose", "set_keyframes", "import_component")
"""Tools that change the scene."""

ROUNDING = 0.01
"""Points by which a strict score must be above another to be better: an unchanged scene is scored 0 up to rounding."""

STAGES = {
    "planned": "planned",
    "played": "played without a fault of Blender or the host",
    "edited": "ran code or an editing tool without an error",
    "looked": "looked at a render of its own",
    "ended": "ended by itself, not by the budget",
    "valid": "left a valid submission",
    "better": "strict score above that of doing nothing",
    "half": "strict score of 50 or more",
    "most": "strict score of 90 or more",
}


@dataclass(frozen=True)
class Stage:
    """A stage of a funnel.

    Attributes:
        name: a key of `STAGES`.
        text: what it means.
        passed: episodes that passed it and all known stages before it; None if it is not known.
        before: those that passed the stages before it, the denominator.
        alone: episodes that passed it, whatever the others.
        total: all planned episodes.
    """

    name: str
    text: str
    passed: int | None
    before: int
    alone: int | None
    total: int


def funnel(run: Run, task: str, noop: Mapping[str, float] | None) -> list[Stage]:
    """The funnel of a run in a task.

    Args:
        run: the run; its traces are read.
        task: the task.
        noop: strict scores of doing nothing by case; None if they are not known.
    """
    rows = {row["key"]: row for row in run.of(task)}
    planned: Sequence[Play] = (run.planned or {}).get(task, ())
    keys = list({**{play.key: 0 for play in planned}, **rows})
    passed = [_passed(run, rows.get(key), noop) for key in keys]
    stages = []
    through = list(range(len(keys)))
    for name, text in STAGES.items():
        if any(one[name] is None for one in passed):
            stages.append(Stage(name, text, None, len(through), None, len(keys)))
            continue
        before = len(through)
        through = [number for number in through if passed[number][name]]
        alone = sum(bool(one[name]) for one in passed)
        stages.append(Stage(name, text, len(through), before, alone, len(keys)))
    return stages


def _passed(run: Run, row: Row | None, noop: Mapping[str, float] | None) -> dict[str, bool | None]:
    if row is None or row["status"] not in DONE:
        return {name: name == "planned" for name in STAGES}
    strict = final_score(row, "strict")
    floor = None if noop is None else noop.get(row["case_id"])
    return {
        "planned": True,
        "played": True,
        **_from_trace(run, row),
        "valid": row["status"] == "ok",
        "better": None if strict is None or floor is None else strict > floor + ROUNDING,
        "half": None if strict is None else strict >= 50,
        "most": None if strict is None else strict >= 90,
    }


def _from_trace(run: Run, row: Row) -> dict[str, bool | None]:
    folder = run.episode_folder(row)
    if folder is None or not (folder / "trace.jsonl").is_file():
        return {"edited": None, "looked": None, "ended": None}
    edited = looked = ended = False
    for event in read_trace(folder):
        if not isinstance(event, dict) or event.get("event") != "step":
            continue
        results = [result for result in event.get("results") or () if isinstance(result, dict)]
        good = [result for result in results if not result.get("is_error")]
        edited = edited or any(result.get("name") in EDITS for result in good)
        looked = looked or any(result.get("name") == "render_scene_view" and result.get("images") for result in good)
        # Only an empty list of calls has no results at all; whatever else is wrong with an action is a result.
        ended = not results or any(result.get("name") == "submit" for result in good)
    return {"edited": edited, "looked": looked, "ended": ended}


def as_dict(stage: Stage) -> dict[str, Any]:
    """As JSON values."""
    return dict(vars(stage))
