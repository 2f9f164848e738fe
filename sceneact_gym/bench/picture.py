"""A picture of an episode: the reference and what the agent saw, side by side."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from sceneact_gym.errors import SceneActError
from sceneact_gym.trace import read_trace


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
