"""The command `sceneact`: a thin face over the runner, the report and the evaluators."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from sceneact_gym import cli_bench, cli_data, cli_mcp
from sceneact_gym import doctor as doctor_checks
from sceneact_gym.agents import AGENTS
from sceneact_gym.bench import summary as report
from sceneact_gym.bench.folder import LINES, read_config, read_rows
from sceneact_gym.bench.plan import BenchConfig
from sceneact_gym.bench.runner import RunConfig
from sceneact_gym.bench.runner import run as run_episodes
from sceneact_gym.envs import ENVS
from sceneact_gym.episode import EpisodeConfig
from sceneact_gym.errors import SceneActError
from sceneact_gym.tasks import TASKS

app = typer.Typer(
    help="Gymnasium environments over headless Blender.", no_args_is_help=True, pretty_exceptions_enable=False
)
app.add_typer(cli_data.app, name="data")
app.command()(cli_bench.bench)
app.command()(cli_mcp.mcp)
console = Console(highlight=False, soft_wrap=True)
errors = Console(stderr=True, highlight=False, soft_wrap=True)


def main() -> None:
    """Runs the command; a mistake of the user's ends in one line and exit code 2."""
    try:
        app()
    except (SceneActError, ValueError) as problem:
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
def run(
    env: Annotated[str, typer.Argument(help="Environment id, for example SceneAct/Camera-v0.")],
    agent: Annotated[str, typer.Option(help=f"One of {', '.join(AGENTS)}.")] = "camera-search",
    episodes: Annotated[int, typer.Option(help="Number of episodes; cases are taken in order.")] = 1,
    seed: Annotated[int, typer.Option(help="Seed of the agent.")] = 0,
    out: Annotated[Path | None, typer.Option(help="New folder for results and traces.")] = None,
    split: Annotated[str, typer.Option(help="train, val or test.")] = "test",
    case: Annotated[str | None, typer.Option(help="Play this case only, for example camera-test-0003.")] = None,
    source: Annotated[str, typer.Option(help="procedural, or a folder of cases.")] = "procedural",
    protocol: Annotated[str, typer.Option(help="paper or strict.")] = "paper",
    toolset: Annotated[str, typer.Option(help="paper or typed.")] = "paper",
    render_size: Annotated[int, typer.Option(help="Pixels of the agent's renders.")] = 384,
    reference_size: Annotated[int, typer.Option(help="Pixels of the reference.")] = 384,
    samples: Annotated[int, typer.Option(help="Samples per pixel.")] = 16,
    engine: Annotated[str, typer.Option(help="auto, cycles, workbench or eevee.")] = "auto",
    isolation: Annotated[str, typer.Option(help="auto, or off to run agent code unconfined.")] = "auto",
    audit: Annotated[bool, typer.Option(help="Add SSIM and PSNR of the final view (extra visual).")] = False,
    quiet: Annotated[bool, typer.Option(help="Print the summary only.")] = False,
) -> None:
    """Runs an agent and writes a run folder; see it with `sceneact show`."""
    _known(env)
    folder = out or _new_folder(f"{env.split('/')[-1].lower()}-{agent}")
    kwargs: dict[str, Any] = {
        "split": split,
        "source": source,
        "protocol": protocol,
        "toolset": toolset,
        "render_size": render_size,
        "reference_size": reference_size,
        "render": {"samples": samples, "engine": engine},
        "isolation": isolation,
    }
    config = RunConfig(env, agent, episodes, seed, kwargs, audit, case)
    run_episodes(config, folder, (lambda line: None) if quiet else (lambda line: console.print(line, markup=False)))
    _print_run(folder)


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

        config = EpisodeConfig(source=source, split=split, reference_size=size, render={"samples": samples})
        contact_sheet([_known(env) for env in what], count, config).save(sheet, optimize=True, quality=90)
        console.print(f"sheet: {sheet}", markup=False)
        return
    if len(what) != 1:
        raise ValueError("show takes one run folder, or environment ids together with --sheet")
    folder = Path(what[0])
    _print_run(folder)
    if picture is not None:
        folders = report.episode_folders(folder)
        if not 0 <= episode < len(folders):
            raise SceneActError(f"{folder} has the episodes 0 to {len(folders) - 1}, not {episode}")
        report.episode_picture(folders[episode], size).save(picture, optimize=True)
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


def _known(env_id: str) -> str:
    if env_id not in ENVS:
        raise ValueError(f"there is no environment {env_id!r}; there are {', '.join(ENVS)}")
    return env_id


def _new_folder(name: str) -> Path:
    for number in range(1, 10_000):
        folder = Path("runs") / f"{name}-{number:03d}"
        if not folder.exists():
            return folder
    raise SceneActError("there are too many folders in runs/: give --out")


def _print_run(folder: Path) -> None:
    if (folder / LINES).exists():
        bench = BenchConfig.from_dict(read_config(folder)["config"])
        console.print(cli_bench.table(bench, read_rows(folder)[0]))
        return
    config, results = report.read_run(folder)
    privileged = " (privileged: it reads the truth)" if config.get("privileged") else ""
    title = f"{config['env_id']}  {config['agent']}{privileged}"
    table = Table("case", "score", "status", "steps", "calls", "metrics", title=title)
    for result in results:
        metrics = {**result["metrics"], **result.get("audit", {})}
        table.add_row(
            result["case_id"],
            "-" if result["score"] is None else f"{result['score']:.1f}",
            result["status"],
            str(result.get("steps", "-")),
            str(result.get("tool_calls", "-")),
            ", ".join(f"{name} {value:.3f}" for name, value in metrics.items() if isinstance(value, float)),
        )
    console.print(table)
    total = report.summary(results)
    mean = "none" if total["mean_score"] is None else f"{total['mean_score']:.1f}"
    error = "" if total["standard_error"] is None else f" +- {total['standard_error']:.1f}"
    console.print(
        f"mean score {mean}{error} over {total['episodes']} episodes; ok {total['ok']}, "
        f"agent_error {total['agent_error']}, infra_error {total['infra_error']} (not in the mean)"
    )
    if results and results[0].get("setting"):
        setting = results[0]["setting"]
        console.print(", ".join(f"{name} {value}" for name, value in setting.items()), markup=False)
    console.print(f"results and pictures: {folder}", markup=False)
