"""The command `sceneact report`: run folders side by side, as pages and as files."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from sceneact_gym.errors import SceneActError


def report(
    folders: Annotated[list[Path], typer.Argument(help="Run folders, finished or not.", metavar="DIR")],
    out: Annotated[Path | None, typer.Option(help="New folder, or an earlier report, which is replaced.")] = None,
    csv: Annotated[
        Path | None, typer.Option(help="Write the scores to this file, a line per task and protocol.")
    ] = None,
    json: Annotated[Path | None, typer.Option(help="Write everything that the front page shows to this file.")] = None,
    latex: Annotated[Path | None, typer.Option(help="Write a table of the scores to this file.")] = None,
) -> None:
    """Compares runs: a folder of pages that open without a server, and files for further use.

    The folder is `report` by default; where only files are asked for, no folder is written. Floors are shown if one
    of the runs is of the agent noop.
    """
    from sceneact_gym.bench.report.files import as_csv, as_json, as_latex
    from sceneact_gym.bench.report.load import load_runs
    from sceneact_gym.bench.report.site import check_out, write_site
    from sceneact_gym.bench.report.summary import summarise

    files = ((csv, as_csv), (json, as_json), (latex, as_latex))
    if out is None and not any(path for path, _ in files):
        out = Path("report")
    if out is not None:
        check_out(out)
    runs = load_runs(folders)
    summary = summarise(runs)
    for path, write in files:
        if path is not None:
            # A lone surrogate in a model's text has no UTF-8.
            try:
                path.write_text(write(summary), encoding="utf-8", errors="backslashreplace")
            except OSError as problem:
                raise SceneActError(f"{path} cannot be written: {problem}") from problem
            typer.echo(f"{path.suffix[1:] or 'file'}: {path}")
    if out is not None:
        write_site(runs, summary, out, typer.echo, os.cpu_count() or 1)
        typer.echo(f"report: {out / 'index.html'}")
