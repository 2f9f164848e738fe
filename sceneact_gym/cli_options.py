"""Options that several commands share: declared once, with one text of help."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from sceneact_gym.envs import ENVS
from sceneact_gym.tasks import TASKS

Split = Annotated[str, typer.Option(help="train, val or test.")]
Source = Annotated[str, typer.Option(help="procedural, or a folder of cases.")]
Protocol = Annotated[str, typer.Option(help="paper or strict: which one is the score; both are always reported.")]
Toolset = Annotated[str, typer.Option(help="paper or typed.")]
MaxSteps = Annotated[int | None, typer.Option(help="Steps; the task's own budget by default.")]
RenderSize = Annotated[int, typer.Option(help="Pixels of the agent's renders.")]
ReferenceSize = Annotated[int, typer.Option(help="Pixels of the references.")]
Samples = Annotated[int, typer.Option(help="Samples per pixel.")]
Engine = Annotated[str, typer.Option(help="auto, cycles, workbench or eevee.")]
Isolation = Annotated[str, typer.Option(help="auto, or off to run agent code unconfined.")]
Audit = Annotated[bool, typer.Option("--audit", help="Add SSIM and PSNR of the final views (extra visual).")]
Quiet = Annotated[bool, typer.Option("--quiet", help="No progress, only the table.")]


def env_options(
    protocol: str,
    toolset: str,
    max_steps: int | None,
    render_size: int,
    reference_size: int,
    samples: int,
    engine: str,
    isolation: str,
) -> dict[str, Any]:
    """The values of the options above as arguments for `gym.make`, JSON values; without source and split."""
    return {
        "protocol": protocol,
        "toolset": toolset,
        "max_steps": max_steps,
        "render_size": render_size,
        "reference_size": reference_size,
        "render": {"samples": samples, "engine": engine},
        "isolation": isolation,
    }


def task_of(env_id: str) -> str:
    """The task of an environment.

    Raises:
        ValueError: there is no such environment; the message says which there are.
    """
    if env_id not in ENVS:
        raise ValueError(f"there is no environment {env_id!r}; there are {', '.join(ENVS)}")
    return next(task.name for task in TASKS.values() if task.env_id == env_id)


def source_of(source: str) -> str:
    """A source as a run folder keeps it: absolute, since the run may be resumed or reported from another folder."""
    return source if source == "procedural" else str(Path(source).expanduser().absolute())
