"""Everything that a report shows, as one tree of JSON values: the front page and the files are made from it alone."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import Any

from sceneact_gym._version import __version__
from sceneact_gym.bench.folder import DONE
from sceneact_gym.bench.report import statistics
from sceneact_gym.bench.report.funnel import as_dict, funnel
from sceneact_gym.bench.report.load import Row, Run, page_of
from sceneact_gym.bench.report.spending import spending
from sceneact_gym.bench.report.statistics import PROTOCOLS, Estimate, bounds, case_means, curve, estimate, paired
from sceneact_gym.evaluators.published import TABLE_3
from sceneact_gym.tasks import TASKS

TITLES = {
    "layout": "Layout",
    "layout_multiview": "Layout, multi-view",
    "camera": "Camera",
    "articulated": "Articulated",
    "reconstruction": "Reconstruction",
    "dynamic": "Dynamic",
    "dynamic_photoreal": "Dynamic, photo-real",
}
"""Tasks as people read them."""
OVERALL = ("layout", "camera", "articulated", "reconstruction", "dynamic")
"""The tasks of the published Overall; the other two are conditions of Layout and Dynamic."""
CONDITIONS = (("layout", "layout_multiview"), ("dynamic", "dynamic_photoreal"))
"""Pairs of tasks that show the same scenes in another way."""


def summarise(runs: Sequence[Run]) -> dict[str, Any]:
    """Sums up runs.

    Args:
        runs: see `load_runs`; their traces are read for the funnels.

    Returns:
        JSON values; None stands for what is not known. Keys: `package`, `bootstrap`, `tasks`, `runs` (with `tasks`,
        per task `counts`, `paper`, `strict`, `spending`, `funnel`, `curve`), `pairs`, `conditions`, `published`,
        `episodes`, `notes`.
    """
    return {
        "package": __version__,
        "bootstrap": {"resamples": statistics.RESAMPLES, "level": statistics.LEVEL, "seed": statistics.SEED},
        "tasks": [task for task in TASKS if any(task in run.config.tasks or run.of(task) for run in runs)],
        "runs": [_run(run, runs) for run in runs],
        "pairs": _pairs(runs),
        "conditions": _conditions(runs),
        "published": [{"id": name, **row._asdict()} for name, row in TABLE_3.items()],
        "episodes": [_episode(run, row) for run in runs for row in run.rows],
        "notes": _notes(runs),
    }


def _run(run: Run, runs: Sequence[Run]) -> dict[str, Any]:
    tasks = [task for task in TASKS if task in run.config.tasks or run.of(task)]
    planned = None if run.planned is None else sum(map(len, run.planned.values()))
    options = run.config.options
    settings = [row.get("setting") or {} for row in run.rows]
    return {
        "name": run.name,
        "agent": run.config.agent,
        "models": _seen(row.get("usage") or {} for row in run.rows)("model"),
        "privileged": run.privileged,
        "toolset": options.get("toolset", "paper"),
        "package": run.package,
        "source": run.config.source,
        "split": run.config.split,
        "seed": run.config.seed,
        "repeats": run.config.repeats,
        "cases": len({(row["task"], row["case_id"]) for row in run.rows if row["status"] in DONE}),
        "planned": planned,
        "recorded": len(run.rows),
        "isolation_off": options.get("isolation") == "off" or "off" in _seen(settings)("isolation"),
        "setting": {name: _seen(settings)(name) for name in ("package", "blender", "engine", "isolation")},
        "options": {
            "render_size": options.get("render_size"),
            "reference_size": options.get("reference_size"),
            "samples": (options.get("render") or {}).get("samples"),
            "max_steps": options.get("max_steps"),
            "checkpoints": list(options.get("checkpoints") or ()),
        },
        "tasks": {task: _task(run, task, runs) for task in tasks},
        "overall": {protocol: _overall(run, protocol, runs) for protocol in PROTOCOLS},
    }


def _seen(mappings: Any) -> Any:
    """The different values of a name in mappings, as sorted text."""
    kept = list(mappings)
    return lambda name: sorted({str(mapping[name]) for mapping in kept if mapping.get(name) is not None})


def _task(run: Run, task: str, runs: Sequence[Run]) -> dict[str, Any]:
    rows = run.of(task)
    done = [row for row in rows if row["status"] in DONE]
    planned = None if run.planned is None else run.planned.get(task, ())
    keys = {row["key"] for row in rows}
    strict_floor = _floor(run, task, "strict", runs)
    # Of all runs: an episode that ended early has a score at every later checkpoint, whoever asked for it.
    steps = sorted({int(step) for other in runs for step in other.config.options.get("checkpoints") or ()})
    return {
        "counts": {
            "planned": None if planned is None else len(planned),
            **{status: sum(row["status"] == status for row in rows) for status in (*DONE, "infra_error")},
            "missing": None if planned is None else sum(play.key not in keys for play in planned),
        },
        "budgets": sorted({budget for row in rows if (budget := (row.get("setting") or {}).get("budget")) is not None}),
        **{protocol: _scores(run, task, protocol, runs) for protocol in PROTOCOLS},
        "spending": spending(done),
        "episodes_done": len(done),
        "funnel": [as_dict(stage) for stage in funnel(run, task, strict_floor[1] if strict_floor else None)],
        "curve": {protocol: _curve(rows, protocol, steps) for protocol in PROTOCOLS},
    }


def _scores(run: Run, task: str, protocol: str, runs: Sequence[Run]) -> dict[str, Any]:
    rows = run.of(task)
    means = case_means(rows, protocol)
    found = _floor(run, task, protocol, runs)
    planned = None if run.planned is None else run.planned.get(task, ())
    low, high = bounds(rows, planned, protocol)
    return {
        **_values(estimate(list(means.values()))),
        **_lift(means, found),
        "bound_low": low,
        "bound_high": high,
    }


def _floor(run: Run, task: str, protocol: str, runs: Sequence[Run]) -> tuple[str, dict[str, float]] | None:
    """The first run of `noop` that has all cases of this run, with its scores by case."""
    cases = case_means(run.of(task), protocol).keys()
    for other in runs:
        if other.config.agent == "noop" and other is not run and other.origin == run.origin:
            means = case_means(other.of(task), protocol)
            if cases and cases <= means.keys():
                return other.name, means
    return None


def _lift(means: Mapping[str, float], found: tuple[str, Mapping[str, float]] | None) -> dict[str, Any]:
    if found is None:
        return {"floor": None, "floor_from": None, "lift": None, "lift_low": None, "lift_high": None}
    name, floor = found
    lift = paired(means, floor)
    return {
        "floor": sum(floor[case] for case in means) / len(means),
        "floor_from": name,
        "lift": lift.mean,
        "lift_low": lift.low,
        "lift_high": lift.high,
    }


def _overall(run: Run, protocol: str, runs: Sequence[Run]) -> dict[str, Any]:
    """The mean over the tasks of `OVERALL`; nothing where one of them has no score."""
    by_task = {task: case_means(run.of(task), protocol) for task in OVERALL}
    whole = statistics.estimate_over_tasks([list(means.values()) for means in by_task.values()])
    if whole.mean is None:
        return {**_values(whole), **_lift({}, None), "bound_low": None, "bound_high": None}
    floors = [_floor(run, task, protocol, runs) for task in OVERALL]
    lift: dict[str, Any] = _lift({}, None)
    if all(floors):
        pairs = [(by_task[task], found[1]) for task, found in zip(OVERALL, floors, strict=True) if found]
        gain = statistics.estimate_over_tasks([[means[case] - floor[case] for case in means] for means, floor in pairs])
        lift = {
            "floor": whole.mean - (gain.mean or 0.0),
            "floor_from": ", ".join(sorted({found[0] for found in floors if found})),
            "lift": gain.mean,
            "lift_low": gain.low,
            "lift_high": gain.high,
        }
    ends = [
        bounds(run.of(task), None if run.planned is None else run.planned.get(task, ()), protocol) for task in OVERALL
    ]
    low, high = (
        None if any(value is None for value in side) else sum(side) / len(side) for side in zip(*ends, strict=True)
    )
    return {**_values(whole), **lift, "bound_low": low, "bound_high": high}


def _curve(rows: Sequence[Row], protocol: str, steps: Sequence[int]) -> list[dict[str, Any]]:
    """Checkpoints, then the end of the budget, where every episode is over."""
    points = curve(rows, protocol, steps)
    budgets = [(row.get("setting") or {}).get("budget") for row in rows if row["status"] in DONE]
    known = [budget for budget in budgets if isinstance(budget, int)]
    means = list(case_means(rows, protocol).values())
    if means and len(known) == len(budgets):
        last = max(known)
        points = [point for point in points if point[0] < last] + [(last, estimate(means))]
    return [{"step": step, **_values(values)} for step, values in points]


def _pairs(runs: Sequence[Run]) -> list[dict[str, Any]]:
    """Differences between every two runs, per task, on the cases that both have."""
    found = []
    for first, second in combinations(runs, 2):
        if first.origin != second.origin:
            continue
        for task in TASKS:
            both = {p: paired(case_means(first.of(task), p), case_means(second.of(task), p)) for p in PROTOCOLS}
            if any(values.cases for values in both.values()):
                named = {protocol: _values(values) for protocol, values in both.items()}
                found.append({"task": task, "first": first.name, "second": second.name, **named})
    return found


def _conditions(runs: Sequence[Run]) -> list[dict[str, Any]]:
    """Differences between two conditions of the same scenes, within a run."""
    found = []
    for run in runs:
        for plain, other in CONDITIONS:
            both = {p: paired(_by_scene(run, other, p), _by_scene(run, plain, p)) for p in PROTOCOLS}
            if any(values.cases for values in both.values()):
                named = {protocol: _values(values) for protocol, values in both.items()}
                found.append({"run": run.name, "first": other, "second": plain, **named})
    return found


def _by_scene(run: Run, task: str, protocol: str) -> dict[str, float]:
    """Scores by what `layout-test-0003` and `layout_multiview-test-0003` have in common: split and number.

    Only built-in cases say by their id which scene they show.
    """
    means = case_means(run.of(task), protocol)
    matches = {case: re.fullmatch(rf"{task}-((?:train|val|test)-\d+)", case) for case in means}
    return {match[1]: means[case] for case, match in matches.items() if match}


def _episode(run: Run, row: Row) -> dict[str, Any]:
    return {
        "run": run.name,
        "key": row["key"],
        "task": row["task"],
        "case": row["case_id"],
        "repeat": row.get("repeat"),
        "status": row["status"],
        "reason": str(row.get("reason") or ""),
        **{protocol: statistics.final_score(row, protocol) for protocol in PROTOCOLS},
        **{name: row.get(name) for name in ("steps", "tool_calls", "seconds")},
        "page": page_of(run, row),
    }


def _notes(runs: Sequence[Run]) -> list[str]:
    """What a reader must know before comparing."""
    notes = []
    packages = sorted({run.package for run in runs} | {__version__})
    if len(packages) > 1:
        notes.append(
            f"Versions {', '.join(packages)} of the package are mixed here: the same case id of another version may be "
            "another scene."
        )
    for run in runs:
        if run.planned is None:
            notes.append(f"{run.name}: its source of cases is not here any more, so missing episodes are not known.")
        else:
            missing = len({play.key for plays in run.planned.values() for play in plays} - {r["key"] for r in run.rows})
            if missing:
                what = "1 episode is missing" if missing == 1 else f"{missing} episodes are missing"
                notes.append(f"{run.name} is not finished: {what}.")
    unconfined = [run.name for run in runs if run.config.options.get("isolation") == "off"]
    if unconfined:
        notes.append(f"Agent code ran unconfined (isolation off) in {', '.join(unconfined)}.")
    if not any(run.config.agent == "noop" for run in runs):
        notes.append("No run of the agent noop is given, so no floors are shown.")
    return notes


def _values(values: Estimate) -> dict[str, Any]:
    return {"mean": values.mean, "ci_low": values.low, "ci_high": values.high, "cases": values.cases}
