"""The command `sceneact bench`: an agent over many cases of many tasks, in a run folder that survives anything."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Table

from sceneact_gym.agents import AGENTS
from sceneact_gym.bench.folder import DONE, RunFolder, results
from sceneact_gym.bench.plan import BenchConfig, plays
from sceneact_gym.bench.player import load_agent
from sceneact_gym.bench.pool import run_bench
from sceneact_gym.bench.summary import task_summaries
from sceneact_gym.episode import EpisodeConfig
from sceneact_gym.tasks import TASKS

console = Console(highlight=False, soft_wrap=True)


def bench(
    agent: Annotated[str, typer.Option(help=f"{', '.join(AGENTS)}, or package.module:factory.")] = "noop",
    tasks: Annotated[str, typer.Option(help=f"Comma-separated: {', '.join(TASKS)}.")] = "camera",
    cases: Annotated[int | None, typer.Option(help="Cases per task; all of the split by default.")] = None,
    case: Annotated[list[str] | None, typer.Option(help="Only this case; may be given several times.")] = None,
    repeats: Annotated[int, typer.Option(help="Episodes per case, with the seeds seed, seed + 1, ...")] = 1,
    seed: Annotated[int, typer.Option(help="Seed of the agent.")] = 0,
    jobs: Annotated[int, typer.Option(help="Episodes at once.")] = 1,
    out: Annotated[Path | None, typer.Option(help="New run folder.")] = None,
    resume: Annotated[Path | None, typer.Option(help="Go on with a run folder; only --jobs counts beside it.")] = None,
    split: Annotated[str, typer.Option(help="train, val or test.")] = "test",
    source: Annotated[str, typer.Option(help="procedural, or a folder of cases.")] = "procedural",
    protocol: Annotated[str, typer.Option(help="paper or strict; both are always reported.")] = "paper",
    toolset: Annotated[str, typer.Option(help="paper or typed.")] = "paper",
    checkpoints: Annotated[str, typer.Option(help="Steps after which scenes are scored as well: 10,20,30.")] = "",
    max_steps: Annotated[int | None, typer.Option(help="Steps; the task's own budget by default.")] = None,
    render_size: Annotated[int, typer.Option(help="Pixels of the agent's renders.")] = 384,
    reference_size: Annotated[int, typer.Option(help="Pixels of the references.")] = 384,
    samples: Annotated[int, typer.Option(help="Samples per pixel.")] = 16,
    engine: Annotated[str, typer.Option(help="auto, cycles, workbench or eevee.")] = "auto",
    isolation: Annotated[str, typer.Option(help="auto, or off to run agent code unconfined.")] = "auto",
    quiet: Annotated[bool, typer.Option(help="No progress, only the table.")] = False,
) -> None:
    """Runs an agent over many cases; what is interrupted goes on with --resume and loses only running episodes."""
    if (out is None) == (resume is None):
        raise ValueError("give --out NEW_FOLDER to begin a run, or --resume FOLDER to go on with one")
    config = None
    if resume is None:
        options: dict[str, Any] = {
            "protocol": protocol,
            "toolset": toolset,
            "checkpoints": [int(step) for step in checkpoints.split(",") if step.strip()],
            "max_steps": max_steps,
            "render_size": render_size,
            "reference_size": reference_size,
            "render": {"samples": samples, "engine": engine},
            "isolation": isolation,
        }
        names = [name.strip() for name in tasks.split(",") if name.strip()]
        config = BenchConfig(agent, names, cases, tuple(case or ()), repeats, seed, source, split, options)
        # Mistakes should be told before a folder is made.
        EpisodeConfig(source=source, split=split, **options)
        load_agent(agent)
        plays(config)
    with RunFolder(out if resume is None else resume, config) as folder:  # type: ignore[arg-type]
        play(folder, jobs, quiet)
        console.print(table(folder.config, folder.rows))
        console.print(f"run folder: {folder.path}", markup=False)


def play(folder: RunFolder, jobs: int, quiet: bool) -> None:
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
    with Progress(*columns, console=console, disable=quiet) as progress:
        bar = progress.add_task(folder.config.agent, total=total, completed=done, state="")
        faults = 0

        def tell(row: dict[str, Any]) -> None:
            nonlocal faults
            faults += row["status"] == "infra_error"
            scores = [r["score"] for r in results(folder.rows).values() if r["status"] in DONE]
            mean = f"mean {np.mean(scores):.1f}" if scores else "no score yet"
            progress.update(bar, completed=len(folder.done()), state=f"{mean}, {faults} faults")

        try:
            run_bench(folder, jobs, tell)
        except KeyboardInterrupt:
            progress.stop()
            console.print(f"interrupted; go on with: sceneact bench --resume {folder.path}", markup=False)
            raise typer.Exit(130) from None


def table(config: BenchConfig, rows: list[dict[str, Any]]) -> Table:
    """Per task the mean under both protocols with its standard error, and how the episodes ended."""
    privileged = " (privileged: it reads the truth)" if any(row.get("privileged") for row in rows) else ""
    ends = ("ok", "agent_error", "infra_error")
    made = Table("task", "paper", "strict", *ends, "missing", title=config.agent + privileged)
    for task, found in task_summaries(config, rows).items():
        made.add_row(
            task,
            *(_mean(found[protocol]) for protocol in ("paper", "strict")),
            *(str(found["paper"][end]) for end in ends),
            str(found["missing"]),
        )
    return made


def _mean(summary: dict[str, Any]) -> str:
    if summary["mean_score"] is None:
        return "-"
    error = "" if summary["standard_error"] is None else f" +- {summary['standard_error']:.1f}"
    return f"{summary['mean_score']:.1f}{error}"
