"""The command `sceneact`: a thin face over the runner, the report and the evaluators."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from sceneact_gym import cli_bench, cli_data, cli_mcp, cli_report, cli_score_run
from sceneact_gym import cli_options as options
from sceneact_gym import doctor as doctor_checks
from sceneact_gym.bench import picture as pictures
from sceneact_gym.envs import ENVS
from sceneact_gym.episode import EpisodeConfig
from sceneact_gym.errors import SceneActError
from sceneact_gym.tasks import TASKS

app = typer.Typer(
    help="Gymnasium environments over headless Blender.", no_args_is_help=True, pretty_exceptions_enable=False
)
app.add_typer(cli_data.app, name="data")
app.command()(cli_bench.bench)
app.command()(cli_bench.run)
app.command()(cli_mcp.mcp)
app.command()(cli_report.report)
app.command()(cli_score_run.score_run)
console = Console(highlight=False, soft_wrap=True)
errors = Console(stderr=True, highlight=False, soft_wrap=True)


def main() -> None:
    """Runs the command; a mistake of the user's ends in one line and exit code 2."""
    try:
        app()
    except (SceneActError, ValueError, OSError) as problem:
        errors.print(f"sceneact: {problem}", style="red", markup=False)
        raise SystemExit(2) from problem


@app.command()
def doctor() -> None:
    """Checks Blender, its render engines, the isolation and the disk; says how to fix what is wrong."""
    table = Table("check", "result", "what to do")
    failed = False
    for check in doctor_checks.checks():
        failed = failed or check.state == "problem"
        style = {"ok": "green", "note": "yellow", "problem": "red"}[check.state]
        table.add_row(f"[{style}]{check.name}[/{style}]", check.found, check.fix)
    console.print(table)
    raise typer.Exit(1 if failed else 0)


@app.command()
def envs() -> None:
    """Lists the registered environments."""
    table = Table("environment", "task", "steps", "reference pictures")
    for env_id in ENVS:
        for task in TASKS.values():
            if task.env_id == env_id:
                table.add_row(env_id, task.name, str(task.budget), str(task.references))
    console.print(table)


@app.command()
def show(
    what: Annotated[list[str], typer.Argument(help="A run folder; with --sheet, one or more environment ids.")],
    picture: Annotated[Path | None, typer.Option(help="Write a picture of an episode to this PNG file.")] = None,
    episode: Annotated[int, typer.Option(help="Which episode the picture shows, from 0.")] = 0,
    sheet: Annotated[Path | None, typer.Option(help="Write references of cases to this file (.png, .jpg).")] = None,
    count: Annotated[int, typer.Option(help="Number of cases on the sheet.")] = 12,
    split: Annotated[str, typer.Option(help="train, val or test, for the sheet.")] = "test",
    source: Annotated[str, typer.Option(help="procedural, or a folder of cases, for the sheet.")] = "procedural",
    samples: Annotated[int, typer.Option(help="Samples per pixel, for the sheet.")] = 16,
    size: Annotated[int, typer.Option(help="Pixels of each view.")] = 192,
) -> None:
    """Shows the results of a run, a picture of one of its episodes, or a contact sheet of cases.

    A sheet has one row of views per case: closed and open for Articulated, start, middle and end for Dynamic; with
    several environments, their views side by side.
    """
    if sheet is not None:
        from sceneact_gym.bench.sheet import contact_sheet

        for env_id in what:
            options.task_of(env_id)
        config = EpisodeConfig(source=source, split=split, reference_size=size, render={"samples": samples})
        contact_sheet(what, count, config).save(sheet, optimize=True, quality=90)
        console.print(f"sheet: {sheet}", markup=False)
        return
    if len(what) != 1:
        raise ValueError("show takes one run folder, or environment ids together with --sheet")
    folder = Path(what[0])
    cli_bench.show_run(folder)
    if picture is not None:
        folders = pictures.episode_folders(folder)
        if not 0 <= episode < len(folders):
            raise SceneActError(f"{folder} has the episodes 0 to {len(folders) - 1}, not {episode}")
        pictures.episode_picture(folders[episode], size).save(picture, optimize=True)
        console.print(f"picture: {picture}", markup=False)


@app.command()
def score(
    task: Annotated[str, typer.Option(help="layout, camera, articulated, reconstruction or dynamic.")],
    submission: Annotated[Path, typer.Option(help="A file, or a folder that holds it.")],
    truth: Annotated[Path, typer.Option(help="A truth folder.")],
    protocol: Annotated[str, typer.Option(help="paper, strict or both.")] = "both",
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Scores a submission on disk; needs no Blender."""
    from sceneact_gym.score_files import score_submission

    if protocol not in ("paper", "strict", "both"):
        raise ValueError(f"protocol must be paper, strict or both; it is {protocol!r}")
    protocols = ["paper", "strict"] if protocol == "both" else [protocol]
    scores = {name: score_submission(task, submission, truth, name) for name in protocols}  # type: ignore[arg-type]
    if as_json:
        typer.echo(json.dumps(scores, indent=1))
        return
    table = Table("metric", *protocols)
    for metric in scores[protocols[0]]:
        values = [scores[name][metric] for name in protocols]
        if not any(isinstance(value, (list, dict)) for value in values):
            table.add_row(metric, *[f"{value:.4f}" if isinstance(value, float) else str(value) for value in values])
    console.print(table)
