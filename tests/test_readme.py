"""The README's figures are those of the files that stand behind them."""

from __future__ import annotations

import csv
from pathlib import Path

from benchmarks import baselines

README = Path(__file__).resolve().parents[1] / "README.md"


def test_the_table_of_baselines_is_the_committed_result() -> None:
    assert baselines.table() in README.read_text(encoding="utf-8")
    with baselines.CSV.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    # Twenty cases each, Dynamic ten; nothing is missing and no fault is among them.
    for row in rows:
        count = 10 if row["task"].startswith("dynamic") else 20
        assert int(row["cases"]) == int(row["ok"]) + int(row["agent_error"]) == count, row
        assert row["infra_error"] == row["missing"] == "0", row
    played = {(row["agent"], row["task"]) for row in rows}
    assert {(agent, task) for agent in baselines.ENDS for task in baselines.COLUMNS} <= played
    assert all(float(row["mean"]) > 99.9 for row in rows if (row["agent"], row["protocol"]) == ("oracle", "strict"))
