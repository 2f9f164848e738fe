"""Prints the README's table of baselines (`python -m benchmarks.baselines`) out of `docs/baselines.csv`.

That file is what `sceneact report --csv` writes of the runs that the README names.
"""

from __future__ import annotations

import csv
from pathlib import Path

CSV = Path(__file__).resolve().parents[1] / "docs" / "baselines.csv"
COLUMNS = {
    "layout": "Layout",
    "layout_multiview": "LayoutMultiView",
    "camera": "Camera",
    "articulated": "Articulated",
    "reconstruction": "Reconstruction",
    "dynamic": "Dynamic",
    "dynamic_photoreal": "DynamicPhotoreal",
}
ENDS = ("noop", "random", "oracle")
"""Agents that play every task; the others are the task's own, without learning."""


def table() -> str:
    """Markdown: a row per agent, a column per task; cells are the mean scores under `paper` / `strict`."""
    with CSV.open(encoding="utf-8", newline="") as file:
        means = {(row["agent"], row["task"], row["protocol"]): float(row["mean"]) for row in csv.DictReader(file)}
    own = {task: agent for agent, task, _ in means if agent not in ENDS}
    lines = ["| agent | " + " | ".join(COLUMNS.values()) + " |", "|---" * (len(COLUMNS) + 1) + "|"]
    for name in ("noop", "random", "one without learning", "oracle"):
        cells = []
        for task in COLUMNS:
            agent = name if name in ENDS else own[task]
            cells.append(" / ".join(f"{means[agent, task, protocol]:.1f}" for protocol in ("paper", "strict")))
        lines.append(f"| {name if name not in ENDS else f'`{name}`'} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


if __name__ == "__main__":
    print(table())
