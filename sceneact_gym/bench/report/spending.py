"""What episodes took: steps, calls, tokens, money and time. What an agent does not tell is not known, and never 0."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from sceneact_gym.bench.report.load import Row

COLUMNS = {
    "steps": "steps",
    "tool_calls": "tool calls",
    "seconds": "seconds",
    "requests": "model requests",
    "input_tokens": "input tokens",
    "cached_tokens": "of them cached",
    "output_tokens": "output tokens",
    "tokens": "tokens",
    "cost": "cost, US$",
}
"""What is counted, and its name for people."""


def amount(row: Row, column: str) -> float | None:
    """What an episode took of something; None if that is not known.

    Args:
        row: the episode.
        column: a key of `COLUMNS`.
    """
    if column in ("steps", "tool_calls", "seconds"):
        return _number(row.get(column))
    usage = row.get("usage") or {}
    if column == "tokens" and "tokens" not in usage:
        parts = [_number(usage.get(name)) for name in ("input_tokens", "output_tokens")]
        return None if parts[0] is None or parts[1] is None else parts[0] + parts[1]
    return _number(usage.get({"requests": "calls", "cost": "cost_usd"}.get(column, column)))


def spending(rows: Sequence[Row]) -> dict[str, dict[str, Any]]:
    """Per column its mean, its total, and of how many episodes (`known`) it is known; without any, both are None."""
    found = {}
    for column in COLUMNS:
        values = [value for row in rows if (value := amount(row, column)) is not None]
        found[column] = {
            "mean": sum(values) / len(values) if values else None,
            "total": sum(values) if values else None,
            "known": len(values),
        }
    return found


def _number(value: Any) -> float | None:
    good = isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value) and value >= 0
    return value if good else None
