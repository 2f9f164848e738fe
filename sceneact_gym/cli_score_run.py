"""The command `sceneact score-run`: scores stored submissions of whole runs again."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from sceneact_gym._version import __version__
from sceneact_gym.bench import published_runs as published
from sceneact_gym.bench import rescore as stored
from sceneact_gym.bench import rescored_folders as folders
from sceneact_gym.bench.folder import RunFolder
from sceneact_gym.bench.published_files import find_cases
from sceneact_gym.errors import SceneActError
from sceneact_gym.evaluators.base import Protocol

console = Console(highlight=False, soft_wrap=True)


def score_run(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="A run folder, or run folders of SceneActBench.")],
    out: Annotated[Path | None, typer.Option(help="New run folder with the new scores; per model for --truth.")] = None,
    truth: Annotated[
        Path | None, typer.Option(help="For runs of SceneActBench: its data set, or truth folders by case id.")
    ] = None,
    source: Annotated[str | None, typer.Option(help="Where the cases are now, if not where the run had them.")] = None,
    protocol: Annotated[str, typer.Option(help="paper, strict or both.")] = "both",
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Scores the stored submissions of a run again, without agent and Blender; exit code 1 if anything differs.

    A submission that is not the one that was submitted gets no score. Infrastructure errors are left alone.
    """
    if protocol not in ("paper", "strict", "both"):
        raise ValueError(f"protocol must be paper, strict or both; it is {protocol!r}")
    protocols: Sequence[Protocol] = stored.PROTOCOLS if protocol == "both" else (protocol,)  # type: ignore[assignment]
    if not folder.is_dir():
        raise SceneActError(f"{folder} is no folder")
    if out is not None:
        if len(protocols) == 1:
            raise ValueError("--out needs both protocols, which a run folder always has")
        if out.resolve().is_relative_to(folder.resolve()):
            raise ValueError(f"--out must not be inside {folder}, which is not changed")
        if out.exists() and (not out.is_dir() or any(out.iterdir())):
            raise SceneActError(f"{out} is not empty: give a new folder")
    if truth is not None or not (folder / "config.json").is_file():
        clean = _published(folder, truth, protocols, out, as_json)
    else:
        clean = _own(folder, source, protocols, out, as_json)
    raise typer.Exit(0 if clean else 1)


def _own(folder: Path, source: str | None, protocols: Sequence[Protocol], out: Path | None, as_json: bool) -> bool:
    run = stored.read_stored(folder, source)
    episodes = stored.rescore(run, protocols)
    if out is not None:
        with RunFolder(out, run.config, run.settings) as made:
            folders.write(run, episodes, made)
    total = stored.summary(episodes, protocols)
    notes = [run.unread] if run.unread else []
    if run.package != __version__:
        notes.append(f"the run was begun with version {run.package}, the new scores are of version {__version__}")
    if run.left_out:
        notes.append(f"unknown to this version and left out of the configuration: {', '.join(run.left_out)}")
    if as_json:
        listed = [
            {
                "key": one.key, "task": one.stored["task"], "case_id": one.stored["case_id"], "verdict": one.verdict,
                "stored": {name: one.stored.get(name) for name in _names(protocols)}, "new": one.new,
                "difference": {name: one.difference(name) for name in protocols}, "message": one.message,
            }
            for one in episodes
        ]  # fmt: skip
        about = {"package": {"stored": run.package, "new": __version__}, "unread": run.unread, "summary": total}
        typer.echo(json.dumps({**about, "episodes": listed}, indent=1))
    else:
        table = Table("task", "case", *protocols, "result", caption="stored score -> new score (difference)")
        for column in table.columns:
            # A name that is cut off would be no name.
            column.overflow = "fold"
        for one in episodes:
            scores = [_change(one, name) for name in protocols]
            table.add_row(*map(_text, (one.stored["task"], _name(one), *scores, one.verdict)))
        console.print(table)
        for one in episodes:
            if one.message:
                console.print(_text(f"{one.stored['task']} {_name(one)}: {one.verdict}: {one.message}"))
        changes = [f"{name} {change:+.3g}" for name, change in total["largest_change"].items() if change is not None]
        console.print(
            f"{total['episodes']} episodes: {total['equal']} equal bit for bit, {total['changed']} changed (largest "
            f"change: {', '.join(changes) or 'none'}), {total['damaged']} damaged and not scored, "
            f"{total['infra_error']} infrastructure errors left alone; {total['without_submission']} without a "
            "submission"
        )
        for line in (*notes, *([f"run folder: {out}"] if out else [])):
            console.print(line, markup=False)
    return not (total["changed"] or total["damaged"] or run.unread)


def _published(
    folder: Path, truth: Path | None, protocols: Sequence[Protocol], out: Path | None, as_json: bool
) -> bool:
    cases, strays = find_cases(folder)
    if truth is None:
        raise ValueError("runs of SceneActBench need --truth: its data set, or a folder of truth folders by case id")
    results = published.rescore_published(cases, truth, protocols)
    if out is not None:
        for model in sorted({result.case.model for result in results}):
            with folders.begin_published(out, model, results) as made:
                for row in folders.published_rows(results, model):
                    made.add(row)
    verdicts = [result.verdict for result in results]
    if as_json:
        listed = [_as_dict(result, protocols) for result in results]
        typer.echo(json.dumps({"package": __version__, "strays": strays, "cases": listed}, indent=1))
    else:
        for result in results:
            for line in _lines(result, protocols):
                console.print(_text(line))
        for line in (*(f"left out: {stray}" for stray in strays), *([f"run folders: {out}"] if out else [])):
            console.print(line, markup=False)
        console.print(
            f"{len(results)} cases: {verdicts.count('equal')} equal up to rounding, {verdicts.count('changed')} "
            f"changed, {verdicts.count('damaged')} with missing or damaged files"
        )
    return set(verdicts) == {"equal"}


def _lines(result: published.PublishedResult, protocols: Sequence[Protocol]) -> Iterator[str]:
    """A case: its scores, a line per metric (published, computed, difference beyond rounding), what is wrong."""
    case = result.case
    scores = [f"{name} {result.scores[name]['score']:.2f}" for name in protocols if result.scores]
    yield f"{case.model} {case.task} {case.case_id}: {', '.join([result.verdict, *scores])}"
    for metric in result.metrics:
        old, new = (f"{value:.4f}" if value is not None else "none" for value in (metric.published, metric.computed))
        difference = ""
        if metric.differs:
            # Only numbers have a difference.
            numbers = metric.published is not None and metric.computed is not None
            difference = f"{metric.computed - metric.published:+.4f}" if numbers else "!"  # type: ignore[operator]
        yield f"  {metric.name:<22}{old:>10}{new:>10}{difference:>10}".rstrip()
    yield from (f"  {text}" for text in (*result.problems, *result.notes))


def _as_dict(result: published.PublishedResult, protocols: Sequence[Protocol]) -> dict[str, Any]:
    case = result.case
    return {
        "model": case.model, "task": case.task, "case_id": case.case_id, "verdict": result.verdict,
        "scores": {name: result.scores[name]["score"] if result.scores else None for name in protocols},
        "metrics": {
            metric.name: {"published": metric.published, "computed": metric.computed, "differs": metric.differs}
            for metric in result.metrics
        },
        "problems": result.problems, "notes": result.notes, "steps": result.steps,
    }  # fmt: skip


def _names(protocols: Sequence[Protocol]) -> list[str]:
    return ["status", "score", *(f"score_{name}" for name in protocols), "metrics"]


def _name(one: stored.Rescored) -> str:
    """The case, and which of its repeats."""
    repeat = one.stored.get("repeat") or 0
    return one.stored["case_id"] + (f" ({repeat})" if repeat else "")


def _change(one: stored.Rescored, protocol: Protocol) -> str:
    """Stored and new score, and their difference; one number where they are equal."""
    name = f"score_{protocol}"
    old, new = (f"{row[name]:.3f}" if isinstance(row.get(name), int | float) else "-" for row in (one.stored, one.new))
    difference = one.difference(protocol)
    if difference == 0 or old == new == "-":
        return old
    return f"{old} -> {new}" + ("" if difference is None else f" ({difference:+.3g})")


def _text(value: Any) -> Text:
    """A cell in which nothing is markup, and nothing moves the cursor."""
    return Text("".join(c if c.isprintable() or c == "\n" else "?" for c in str(value)))
