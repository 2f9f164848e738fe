"""What models cost, by their exact names: a small table of list prices, each with the month in which it was seen.

Prices change, and contracts, regions, batches and very long contexts have others: give your own prices where the figure
matters. A model that is not listed has no cost (None), never a guess.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from sceneact_gym.agents.vlm_messages import Tokens


@dataclass(frozen=True)
class Price:
    """US dollars per million tokens.

    Attributes:
        input: tokens read.
        output: tokens written.
        cached: tokens read from a cache; None if it is not known.
        written: tokens read and put into a cache; None if it is not known.
        seen: the month in which the price was seen, `YYYY-MM`.
    """

    input: float
    output: float
    cached: float | None = None
    written: float | None = None
    seen: str = ""

    def cost(self, tokens: Tokens) -> float | None:
        """US dollars for these tokens; None if the price of one kind of them is not known."""
        plain = tokens.input - tokens.cached - tokens.written
        total = plain * self.input + tokens.output * self.output
        for count, price in ((tokens.cached, self.cached), (tokens.written, self.written)):
            if count and price is None:
                return None
            total += count * (price or 0.0)
        return total / 1e6


PRICES: Mapping[str, Price] = {
    "claude-opus-5-5": Price(4.0, 20.0, seen="2026-11"),
    "claude-opus-5": Price(5.0, 25.0, 0.50, 6.25, "2026-11"),
    "claude-sonnet-5-5": Price(2.0, 10.0, seen="2026-11"),
    "claude-sonnet-5": Price(2.0, 10.0, 0.20, 2.50, "2026-11"),
    "claude-haiku-4-5": Price(1.0, 5.0, seen="2026-11"),
    "gpt-5.5": Price(5.0, 30.0, 0.50, seen="2026-06"),
    "gpt-5.4": Price(2.5, 15.0, 0.25, seen="2026-06"),
    "gpt-5.4-mini": Price(0.75, 4.5, 0.075, seen="2026-06"),
    "gpt-5.4-nano": Price(0.20, 1.25, 0.02, seen="2026-06"),
}
"""List prices of the vendors' own endpoints."""


def read_prices(path: str | Path) -> dict[str, Price]:
    """Prices from a JSON file: `{"my-model": {"input": 0.5, "output": 2.0, "cached": 0.1}}`.

    Raises:
        ValueError: the file is not of this form.
    """
    try:
        return {name: Price(**price) for name, price in json.loads(Path(path).read_text(encoding="utf-8")).items()}
    except (OSError, ValueError, TypeError, AttributeError) as problem:
        raise ValueError(
            f'{path} is no price table like {{"my-model": {{"input": 0.5, "output": 2.0}}}}: {problem}'
        ) from problem
