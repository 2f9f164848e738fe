"""Writes the report: the front page, a page per episode, and what they load, all in one folder that needs no server."""

from __future__ import annotations

import glob
import itertools
import json
import os
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from markupsafe import Markup

from sceneact_gym._version import __version__
from sceneact_gym.bench.report.charts import curve_chart, interval_chart
from sceneact_gym.bench.report.episodes import write_episode
from sceneact_gym.bench.report.funnel import STAGES
from sceneact_gym.bench.report.load import Run, page_of
from sceneact_gym.bench.report.pages import write_page
from sceneact_gym.bench.report.spending import COLUMNS
from sceneact_gym.bench.report.summary import OVERALL, TITLES
from sceneact_gym.errors import SceneActError
from sceneact_gym.tasks import TASKS

MARKER = "sceneact-report.json"
"""A folder with this file is a report, which a later one may replace."""
FEW_CASES = 16
"""With fewer cases, starting processes takes longer than they save."""
Episode = tuple[int, int]
"""Number of the run, and of the row in it."""
SECTIONS = {
    "leaderboard": "Leaderboard",
    "detail": "Scores by task",
    "pairs": "Differences",
    "funnels": "Funnels",
    "curves": "Steps",
    "spending": "Cost",
    "episodes": "Episodes",
    "methods": "Methods",
}


def write_site(
    runs: Sequence[Run], summary: Mapping[str, Any], out: Path, tell: Callable[[str], None], jobs: int = 1
) -> None:
    """Writes the report's folder.

    Args:
        runs: the runs.
        summary: of `summarise`.
        out: a new or empty folder, or an earlier report, which is replaced once the new one is complete.
        tell: is called with a line of text now and then.
        jobs: processes that write pages of episodes.

    Raises:
        SceneActError: there is something else in the folder.
    """
    out = out.resolve()
    check_out(out)
    for left in out.parent.glob(f".{glob.escape(out.name)}.part-*"):
        # Of a process that was killed while it wrote.
        process = left.name.rpartition("-")[2]
        if process.isdigit() and (int(process) == os.getpid() or not Path("/proc", process).exists()):
            shutil.rmtree(left, ignore_errors=True)
    part = out.parent / f".{out.name}.part-{os.getpid()}"
    try:
        part.mkdir(parents=True)
        _write(runs, summary, part, tell, jobs)
        old = out.parent / f".{out.name}.old-{os.getpid()}"
        if out.exists():
            os.replace(out, old)
        os.replace(part, out)
        shutil.rmtree(old, ignore_errors=True)
    finally:
        shutil.rmtree(part, ignore_errors=True)


def check_out(out: Path) -> None:
    """Refuses a folder that holds anything but an earlier report.

    Raises:
        SceneActError: it does.
    """
    if out.exists() and not out.is_dir():
        raise SceneActError(f"{out} is no folder: give --out another name")
    if out.is_dir() and any(out.iterdir()) and not (out / MARKER).is_file():
        raise SceneActError(f"{out} is neither empty nor an earlier report: give --out a new folder")


def _write(
    runs: Sequence[Run], summary: Mapping[str, Any], out: Path, tell: Callable[[str], None], jobs: int
) -> None:
    (out / MARKER).write_text(json.dumps({"package": __version__}) + "\n", encoding="utf-8")
    (out / "assets").mkdir()
    for path in Path(__file__).parent.iterdir():
        if path.suffix in (".css", ".js"):
            shutil.copyfile(path, out / "assets" / path.name)
    write_page(out / "index.html", "index.html", **front_page(summary))
    # The episodes of one case stay together, so that its true scene is made once.
    episodes = [(number, place) for number, run in enumerate(runs) for place in range(len(run.rows))]

    def case(episode: Episode) -> tuple[str, str]:
        row = runs[episode[0]].rows[episode[1]]
        return row["task"], row["case_id"]

    cases = [list(group) for _, group in itertools.groupby(sorted(episodes, key=case), key=case)]
    done = 0
    for count in _written(runs, cases, out, jobs):
        if (done + count) // 50 > done // 50:
            tell(f"{done + count} of {len(episodes)} episodes")
        done += count


def _written(runs: Sequence[Run], cases: Sequence[list[Episode]], out: Path, jobs: int) -> Iterator[int]:
    """Writes pages case by case; how many, each time."""
    if jobs == 1 or len(cases) < FEW_CASES:
        for group in cases:
            yield _write_case(runs, out, group)
        return
    with ProcessPoolExecutor(jobs, get_context("spawn"), _begin, (runs, out)) as pool:
        try:
            yield from pool.map(_write_mine, cases)
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise


def _write_case(runs: Sequence[Run], out: Path, group: Sequence[Episode]) -> int:
    for number, place in group:
        run = runs[number]
        write_episode(run, run.rows[place], out, page_of(run, run.rows[place]))
    return len(group)


_mine: list[Any] = []


def _begin(*given: Any) -> None:
    """In a new process: keeps runs and folder, which are the same for all cases."""
    _mine[:] = given


def _write_mine(group: Sequence[Episode]) -> int:
    runs, out = _mine
    return _write_case(runs, out, group)


def front_page(summary: Mapping[str, Any]) -> dict[str, Any]:
    """The values that the front page's template needs."""
    runs, tasks = summary["runs"], summary["tasks"]
    used = [("Run", [run["name"] for run in runs]), ("Task", [TITLES[task] for task in tasks])]
    statuses = sorted({episode["status"] for episode in summary["episodes"]})
    return {
        **summary,
        "root": "",
        "sections": list(SECTIONS.items()),
        "titles": TITLES,
        "overall": OVERALL,
        "overall_text": ", ".join(TITLES[task] for task in OVERALL[:-1]) + " and " + TITLES[OVERALL[-1]],
        "level": f"{100 * summary['bootstrap']['level']:g}",
        "numbers": {run["name"]: number for number, run in enumerate(runs)},
        "repeats": {run["name"]: run["repeats"] for run in runs},
        "totals": {run["name"]: _totals(run) for run in runs},
        "budgets": {task: TASKS[task].budget for task in tasks},
        "stages": STAGES,
        "place_of": list(STAGES).index,
        "spending_columns": _columns(runs),
        "filters": {**dict(used), "Status": statuses},
        "interval_charts": {task: _interval_chart(runs, task) for task in tasks},
        "curve_charts": {task: charts for task in tasks if (charts := _curve_charts(runs, task))},
    }


def _columns(runs: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """What somebody tells; tokens and cost in any case, since a dash says something about them."""
    spent = [task["spending"] for run in runs for task in run["tasks"].values()]
    told = {column for one in spent for column in COLUMNS if one[column]["known"]}
    return {column: text for column, text in COLUMNS.items() if column in told | {"tokens", "cost"}}


def _totals(run: Mapping[str, Any]) -> dict[str, int | None]:
    found: dict[str, int | None] = {}
    for name in ("ok", "agent_error", "infra_error", "missing"):
        counts = [task["counts"][name] for task in run["tasks"].values()]
        found[name] = None if None in counts else sum(counts)
    return found


def _interval_chart(runs: Sequence[Mapping[str, Any]], task: str) -> Markup:
    rows = [
        (number, run["name"], run["tasks"][task]["paper"], run["tasks"][task]["strict"])
        for number, run in enumerate(runs)
        if task in run["tasks"]
    ]
    return interval_chart(f"scores-{task}", f"{TITLES[task]}: mean scores, paper and strict", rows)


def _curve_charts(runs: Sequence[Mapping[str, Any]], task: str) -> dict[str, Markup]:
    """A chart per protocol; none where no run of the task has more than its final point."""
    charts = {}
    for protocol in ("paper", "strict"):
        series = [
            (number, run["name"], run["tasks"][task]["curve"][protocol])
            for number, run in enumerate(runs)
            if task in run["tasks"] and run["tasks"][task]["curve"][protocol]
        ]
        if any(len(points) > 1 for _, _, points in series):
            title = f"{TITLES[task]}: mean score, {protocol}, against steps"
            charts[protocol] = curve_chart(f"steps-{task}-{protocol}", title, series)
    return charts
