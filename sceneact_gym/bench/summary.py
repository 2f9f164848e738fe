"""Reads run folders, sums them up, and makes a picture of an episode."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from sceneact_gym.bench.folder import results
from sceneact_gym.bench.plan import BenchConfig, plays
from sceneact_gym.errors import SceneActError
from sceneact_gym.trace import read_trace


def read_run(folder: Path) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Configuration and results of a run folder.

    Raises:
        SceneActError: the folder is no run folder.
    """
    try:
        config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
        lines = (folder / "results.jsonl").read_text(encoding="utf-8").splitlines()
    except (OSError, ValueError) as problem:
        raise SceneActError(
            f"{folder} is no run folder, as `sceneact run` writes them, with config.json and results.jsonl: {problem}"
        ) from problem
    results = []
    for line in lines:
        try:
            results.append(json.loads(line))
        except ValueError:
            break  # The last line of a run that was killed.
    return config, results


def summary(results: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Counts by status, the mean score (without infrastructure errors), and its standard error."""
    scores = [result["score"] for result in results if result["score"] is not None]
    statuses = [result["status"] for result in results]
    return {
        "episodes": len(results),
        "mean_score": float(np.mean(scores)) if scores else None,
        "standard_error": float(np.std(scores, ddof=1) / np.sqrt(len(scores))) if len(scores) > 1 else None,
        **{status: statuses.count(status) for status in ("ok", "agent_error", "infra_error")},
    }


def task_summaries(config: BenchConfig, rows: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Per task of a benchmark run: `paper` and `strict`, each a `summary` of its scores, and the episodes `missing`."""
    counted = list(results(rows).values())
    planned = plays(config)
    found: dict[str, dict[str, Any]] = {}
    for task in config.tasks:
        mine = [row for row in counted if row["task"] == task]
        paper, strict = (
            summary([{**row, "score": row.get(name)} for row in mine]) for name in ("score_paper", "score_strict")
        )
        missing = sum(play.task == task for play in planned) - len(mine)
        found[task] = {"paper": paper, "strict": strict, "missing": missing}
    return found


def episode_folders(folder: Path) -> list[Path]:
    """The episodes' folders in order."""
    return sorted(path.parent for path in folder.glob("episodes/*/trace.jsonl"))


def episode_picture(folder: Path, size: int = 192, views: int = 4) -> Image.Image:
    """The reference, some of the agent's views, and its last one, side by side with captions.

    Args:
        folder: an episode's folder.
        size: pixels of each square.
        views: how many of the agent's views between the reference and the last.

    Raises:
        SceneActError: the episode has no pictures.
    """
    references: list[str] = []
    seen: list[tuple[int, str]] = []
    score = None
    for event in read_trace(folder):
        if event["event"] == "begin":
            references = event["references"]
        elif event["event"] == "step":
            seen += [(event["step"], name) for result in event["results"] for name in result["images"]]
        elif event["event"] == "end":
            score = event["score"]
    if not references:
        raise SceneActError(f"{folder} has no reference picture")
    # An agent may also render small pictures for its own sums; people want the large ones.
    pictures = {name: _picture(folder, name) for name in [*references[:1], *(name for _, name in seen)]}
    widest = max((pictures[name].width for _, name in seen), default=0)
    seen = [(step, name) for step, name in seen if pictures[name].width == widest]
    panels = [("reference", references[0])]
    if seen:
        chosen = np.unique(np.linspace(0, len(seen) - 1, views + 1).round().astype(int))
        panels += [(f"step {seen[index][0]}", seen[index][1]) for index in chosen]
    text = 20
    sheet = Image.new("RGB", (len(panels) * (size + 6) - 6, size + text), "white")
    draw = ImageDraw.Draw(sheet)
    font = ImageFont.load_default(size=13)
    for number, (caption, name) in enumerate(panels):
        picture = pictures[name].resize((size, size), Image.Resampling.LANCZOS)
        sheet.paste(picture, (number * (size + 6), text))
        if number == len(panels) - 1 and number and score is not None:
            caption += f"  (score {score:.1f})"
        draw.text((number * (size + 6) + 2, 2), caption, fill="black", font=font)
    return sheet


def _picture(folder: Path, name: str) -> Image.Image:
    with Image.open(folder / "images" / f"{name}.png") as picture:
        return picture.convert("RGB")
