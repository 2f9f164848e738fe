"""The commands `sceneact bench` and `sceneact run`: an agent over cases, in a run folder that survives anything."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Table

from sceneact_gym import cli_options as options
from sceneact_gym.agents import AGENTS
from sceneact_gym.bench.folder import DONE, RunFolder, read_config, read_rows, results
from sceneact_gym.bench.plan import BenchConfig, plays
from sceneact_gym.bench.player import agent_settings, describe_result, plain
from sceneact_gym.bench.runner import EXECUTORS, run_bench
from sceneact_gym.bench.summary import STATUSES, Mean, task_summaries
from sceneact_gym.errors import SceneActError
from sceneact_gym.tasks import TASKS

console = Console(highlight=False, soft_wrap=True)

SHOWN_EPISODES = 30
"""Runs with more episodes are shown as their table of tasks only."""
AgentName = Annotated[str, typer.Option(help=f"{', '.join(AGENTS)}, or package.module:factory.")]


def bench(
    context: typer.Context,
    agent: AgentName = "noop",
    tasks: Annotated[str, typer.Option(help=f"Comma-separated: {', '.join(TASKS)}.")] = "camera",
    cases: Annotated[int | None, typer.Option(help="Cases per task; all of the split by default.")] = None,
    case: Annotated[list[str] | None, typer.Option(help="Only this case; may be given several times.")] = None,
    repeats: Annotated[int, typer.Option(help="Episodes per case, with the seeds seed, seed + 1, ...")] = 1,
    seed: Annotated[int, typer.Option(help="Seed of the agent.")] = 0,
    jobs: Annotated[int, typer.Option(help="Episodes at once.")] = 1,
    executor: Annotated[str, typer.Option(help=f"{' or '.join(EXECUTORS)}: where they are played.")] = "local",
    out: Annotated[Path | None, typer.Option(help="New run folder.")] = None,
    resume: Annotated[
        Path | None, typer.Option(help="Go on with a run folder; only --jobs and --executor count beside it.")
    ] = None,
    split: options.Split = "test",
    source: options.Source = "procedural",
    protocol: options.Protocol = "paper",
    toolset: options.Toolset = "paper",
    checkpoints: Annotated[str, typer.Option(help="Steps after which scenes are scored as well: 10,20,30.")] = "",
    max_steps: options.MaxSteps = None,
    render_size: options.RenderSize = 384,
    reference_size: options.ReferenceSize = 384,
    samples: options.Samples = 16,
    engine: options.Engine = "auto",
    isolation: options.Isolation = "auto",
    audit: options.Audit = False,
    time_limit: Annotated[float, typer.Option(help="Seconds of an episode, after which it is a fault.")] = 14_400,
    quiet: options.Quiet = False,
) -> None:
    """Runs an agent over many cases; what is interrupted goes on with --resume and loses only running episodes."""
    if (out is None) == (resume is None):
        raise ValueError("give --out NEW_FOLDER to begin a run, or --resume FOLDER to go on with one")
    if resume is not None:
        kept = ("resume", "jobs", "executor", "quiet")
        # By its name: typer brings a click of its own.
        sources = {name: context.get_parameter_source(name) for name in context.params if name not in kept}
        given = [name for name, where in sources.items() if where is not None and where.name == "COMMANDLINE"]
        more = ", ".join("--" + name.replace("_", "-") for name in given)
        if more:
            raise ValueError(f"--resume takes everything else from the folder: leave out {more}")
    if executor not in EXECUTORS:
        raise ValueError(f"executor must be one of {', '.join(EXECUTORS)}; it is {executor!r}")
    if jobs < 1:
        raise ValueError(f"jobs must be at least 1; it is {jobs}")
    config, source = None, options.source_of(source)
    if resume is None:
        made = options.env_options(
            protocol, toolset, max_steps, render_size, reference_size, samples, engine, isolation
        )
        try:
            made["checkpoints"] = [int(step) for step in checkpoints.split(",") if step.strip()]
        except ValueError as problem:
            raise ValueError(f"checkpoints must be numbers of steps like 10,20,30; it is {checkpoints!r}") from problem
        names = [name.strip() for name in tasks.split(",") if name.strip()]
        config = BenchConfig(
            agent, names, cases, tuple(case or ()), repeats, seed, source, split, made, audit, time_limit
        )
        # Mistakes should be told before a folder is made.
        agent_settings(agent)
        plays(config)
    with RunFolder(out if resume is None else resume, config) as folder:  # type: ignore[arg-type]
        play(folder, jobs, executor, quiet)
        console.print(table(folder.config, folder.rows))
        faults = [row for row in results(folder.rows).values() if row["status"] not in DONE]
        if faults:
            last = plain(describe_result(faults[-1]))
            console.print(f"{len(faults)} without a score; the last one: {last}", markup=False)
            console.print(f"try them again with: sceneact bench --resume {folder.path}", markup=False)
        console.print(f"run folder: {folder.path}", markup=False)
        if faults:
            raise typer.Exit(1)


def run(
    env: Annotated[str, typer.Argument(help="Environment id, for example SceneAct/Camera-v0.")],
    agent: AgentName = "random",
    episodes: Annotated[int, typer.Option(help="Number of episodes, on the first cases of the split.")] = 1,
    case: Annotated[str | None, typer.Option(help="Play this case only, for example camera-test-0003.")] = None,
    seed: Annotated[int, typer.Option(help="Seed of the agent.")] = 0,
    out: Annotated[Path | None, typer.Option(help="New run folder; one in runs/ by default.")] = None,
    split: options.Split = "test",
    source: options.Source = "procedural",
    protocol: options.Protocol = "paper",
    toolset: options.Toolset = "paper",
    max_steps: options.MaxSteps = None,
    render_size: options.RenderSize = 384,
    reference_size: options.ReferenceSize = 384,
    samples: options.Samples = 16,
    engine: options.Engine = "auto",
    isolation: options.Isolation = "auto",
    audit: options.Audit = False,
    quiet: options.Quiet = False,
) -> None:
    """Plays one environment and tells every step: `sceneact bench` for a first look. See it with `sceneact show`."""
    made = options.env_options(protocol, toolset, max_steps, render_size, reference_size, samples, engine, isolation)
    cases, source = (case,) if case else (), options.source_of(source)
    config = BenchConfig(agent, [options.task_of(env)], episodes, cases, 1, seed, source, split, made, audit)
    agent_settings(agent)
    plays(config)
    path = out or _new_folder(f"{env.split('/')[-1].lower()}-{agent.replace(':', '-')}")
    with RunFolder(path, config) as folder, _interruptible(path):
        run_bench(folder, say=(lambda line: None) if quiet else (lambda line: console.print(line, markup=False)))
        faults = len(plays(config)) - len(folder.done())
    show_run(path)
    if faults:
        raise typer.Exit(1)


def play(folder: RunFolder, jobs: int, executor: str, quiet: bool) -> None:
    """Runs what is missing; shows how far it is."""
    total, done = len(plays(folder.config)), len(folder.done())
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[state]}"),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    with _interruptible(folder.path), Progress(*columns, console=console, disable=quiet) as progress:
        bar = progress.add_task(escape(folder.config.agent), total=total, completed=done, state="")
        started, faults = time.monotonic(), 0

        def tell(row: dict[str, Any]) -> None:
            nonlocal faults
            faults += row["status"] == "infra_error"
            counted = [r["score"] for r in results(folder.rows).values() if r["status"] in DONE]
            rate = 3600 * (len(counted) - done) / max(time.monotonic() - started, 1e-9)
            mean = f"mean {np.mean(counted):.1f}" if counted else "no score yet"
            progress.update(bar, completed=len(counted), state=f"{rate:.0f} per hour, {mean}, {faults} faults")

        run_bench(folder, jobs, tell, executor)


@contextlib.contextmanager
def _interruptible(path: Path) -> Iterator[None]:
    """Ctrl-C ends in a sentence that says how to go on."""
    try:
        yield
    except KeyboardInterrupt:
        console.print(f"interrupted; go on with: sceneact bench --resume {path}", markup=False)
        raise typer.Exit(130) from None


def show_run(path: Path) -> None:
    """Prints the tables of a run folder, also while it is being written.

    Raises:
        SceneActError: it is no run folder.
    """
    config = BenchConfig.from_dict(read_config(path)["config"])
    rows = list(results(read_rows(path)[0]).values())
    if len(rows) <= SHOWN_EPISODES:
        console.print(episode_table(rows))
    console.print(table(config, rows))
    if rows and rows[0].get("setting"):
        console.print(", ".join(f"{name} {value}" for name, value in rows[0]["setting"].items()), markup=False)
    console.print(f"results and pictures: {path}", markup=False)


def episode_table(rows: list[dict[str, Any]]) -> Table:
    """A row per episode."""
    made = Table("case", "score", "status", "steps", "calls", "metrics")
    for row in rows:
        metrics = {**row["metrics"], **row.get("audit", {})}
        made.add_row(
            escape(row["case_id"]),
            "-" if row["score"] is None else f"{row['score']:.1f}",
            row["status"],
            str(row.get("steps", "-")),
            str(row.get("tool_calls", "-")),
            ", ".join(f"{name} {value:.3f}" for name, value in metrics.items() if isinstance(value, float)),
        )
    return made


def table(config: BenchConfig, rows: list[dict[str, Any]]) -> Table:
    """Per task the mean under both protocols with its standard error, and how the episodes ended."""
    privileged = " (privileged: it reads the truth)" if any(row.get("privileged") for row in rows) else ""
    made = Table(title=escape(config.agent) + privileged)
    for head in ("task", "paper", "strict", "ok", "agent error", "infra error", "missing"):
        # What is cut off is worth less than a wide table.
        made.add_column(head, no_wrap=" " not in head)
    for task, found in task_summaries(config, rows).items():
        made.add_row(
            task,
            *(_mean(found[protocol]) for protocol in ("paper", "strict")),
            *(str(found[end]) for end in (*STATUSES, "missing")),
        )
    return made


def _mean(mean: Mean) -> str:
    if mean.value is None:
        return "-"
    return f"{mean.value:.1f}" + ("" if mean.error is None else f" +- {mean.error:.1f}")


def _new_folder(name: str) -> Path:
    for number in range(1, 10_000):
        folder = Path("runs") / f"{name}-{number:03d}"
        if not folder.exists():
            return folder
    raise SceneActError("there are too many folders in runs/: give --out")
