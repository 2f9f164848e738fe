"""The commands `sceneact data ...`: case bundles."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(help="Builds and audits case bundles.", no_args_is_help=True)


@app.command()
def build(
    spec: Annotated[Path, typer.Argument(help="TOML or JSON file that says which cases (docs/data.md).")],
    out: Annotated[Path, typer.Option(help="New or empty folder.")],
    isolation: Annotated[str, typer.Option(help="auto, or off to run Blender unconfined.")] = "auto",
) -> None:
    """Writes a folder of cases with rendered references and a manifest."""
    from sceneact_gym.data.bundles.build import build as build_bundle

    ids = build_bundle(spec, out, isolation=isolation, say=typer.echo)  # type: ignore[arg-type]
    typer.echo(
        f"{out}: {len(ids)} cases; manifest.json has the SHA-256 of every file, the versions and the render settings. "
        f"Check it with: sceneact data audit {out}"
    )


@app.command()
def audit(
    folder: Annotated[Path, typer.Argument(help="A case bundle, or any folder of case folders.")],
) -> None:
    """Searches the public files of every case for the truth; exit code 1 if there is any."""
    from sceneact_gym.data.audit import audit_folder

    count, findings = audit_folder(folder)
    for finding in findings:
        typer.echo(f"{finding.case}: {finding.file}: {finding.what} ({finding.where})")
    typer.echo(f"{count} cases, {len(findings)} findings")
    raise typer.Exit(1 if findings else 0)
