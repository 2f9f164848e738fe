"""Contact sheets: the references of several cases in one picture."""

from __future__ import annotations

from collections.abc import Sequence

from PIL import Image

from sceneact_gym.blender.render import decode_png
from sceneact_gym.episode import EpisodeConfig, EpisodeHost
from sceneact_gym.tasks import TASKS

GAP = 4
"""Pixels between the views of a case."""
LONGEST_ROW = 6
"""Views in a row of the sheet; cases of fewer views stand side by side."""


def contact_sheet(env_ids: Sequence[str], count: int, config: EpisodeConfig) -> Image.Image:
    """The first cases of a split, each with the views that show it best.

    Args:
        env_ids: registered environments; their views of a case stand side by side.
        count: number of cases; of a split that has fewer, all.
        config: source, split, and size and settings of the pictures.

    Raises:
        CaseNotFound: no such source or split.
        InfraError: Blender cannot render.
    """
    rows: list[list[Image.Image]] = []
    for env_id in env_ids:
        (task,) = (task for task in TASKS.values() if task.env_id == env_id)
        host = EpisodeHost(task.name, config)
        try:
            known = host.source.ids()
            for number in range(count if known is None else min(count, len(known))):
                case = host.case(host.source.nth(number))
                if number == len(rows):
                    rows.append([])
                rows[number] += [
                    Image.fromarray(decode_png(case.public.references[index])).resize(
                        (config.reference_size,) * 2, Image.Resampling.LANCZOS
                    )
                    for index in task.telling_references(case)
                ]
        finally:
            host.close()
    longest = max(map(len, rows))
    across = min(len(rows), max(1, LONGEST_ROW // longest))
    step = config.reference_size + GAP
    width = across * (longest * step + 3 * GAP) - 4 * GAP
    sheet = Image.new("RGB", (width, -(-len(rows) // across) * (step + GAP) - 2 * GAP), "white")
    for number, row in enumerate(rows):
        left = (number % across) * (longest * step + 3 * GAP)
        for place, picture in enumerate(row):
            sheet.paste(picture, (left + place * step, (number // across) * (step + GAP)))
    return sheet
