"""What the agent `vlm` can be told, and what it tells of an episode."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from sceneact_gym.agents.vlm_apis import APIS
from sceneact_gym.agents.vlm_messages import Tokens
from sceneact_gym.agents.vlm_prices import PRICES, Price, read_prices
from sceneact_gym.errors import SceneActError


@dataclass(frozen=True)
class VLMConfig:
    """Which model, and within which bounds.

    Attributes:
        model: its name.
        api: `openai` or `anthropic`.
        base_url: of the server; None is the vendor's own.
        max_output_tokens: of one reply, thinking included.
        context_tokens: that the model can take; the older turns are summed up before these are used up.
        keep_pictures: pictures of results that stay in the conversation when there are twice as many; references do
            always.
        picture_bytes: of one picture, before base64.
        request_picture_bytes: of all pictures of a request, before base64.
        timeout: seconds for one request.
        tries: requests that are made for one reply, in all.
        max_wait: the longest wait between two tries, seconds, whatever the server asks for.
        max_calls: replies in one episode, summaries included; None is no limit, as below.
        max_tokens: tokens read and written in one episode.
        max_cost: US dollars in one episode. A limit ends the episode once it is reached, and what was done counts.
        prices: by model, before those of `vlm_prices.PRICES`.
        request: further fields for each request.
    """

    model: str
    api: str = "openai"
    base_url: str | None = None
    max_output_tokens: int = 16_000
    context_tokens: int = 150_000
    keep_pictures: int = 16
    picture_bytes: int = 400_000
    request_picture_bytes: int = 16_000_000
    timeout: float = 600.0
    tries: int = 6
    max_wait: float = 60.0
    max_calls: int | None = None
    max_tokens: int | None = None
    max_cost: float | None = None
    prices: Mapping[str, Price] = field(default_factory=dict)
    request: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Checks what can be checked without a request.

        Raises:
            ValueError: a value is not possible; the message says what is.
        """
        if self.api not in APIS:
            raise ValueError(f"api must be one of {', '.join(APIS)}; it is {self.api!r}")
        if self.tries < 1:
            raise ValueError(f"tries must be at least 1; it is {self.tries}")
        if self.max_cost is not None and self.price is None:
            raise ValueError(f"max_cost needs a price, and none is known for {self.model!r}: give it by prices")

    @property
    def price(self) -> Price | None:
        """Of the model, if it is known."""
        return self.prices.get(self.model) or PRICES.get(self.model)

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] = os.environ) -> VLMConfig:
        """The configuration that the variables give that the module `vlm` lists.

        Raises:
            SceneActError: no model is named.
            ValueError: a variable cannot be read.
        """
        prefix = "SCENEACT_"
        given = {n.removeprefix(prefix).lower(): v for n, v in environment.items() if v and n.startswith(prefix)}
        if "model" not in given:
            raise SceneActError("name a model: set SCENEACT_MODEL, and SCENEACT_API to openai or anthropic")
        read: dict[str, Callable[[str], Any]] = {
            **dict.fromkeys(("model", "api", "base_url"), str),
            **dict.fromkeys(("max_calls", "max_tokens", "context_tokens", "max_output_tokens"), int),
            **dict.fromkeys(("max_cost", "timeout"), float),
            "prices": read_prices,
            "request": _json_object,
        }
        fields = {}
        for name, kind in read.items():
            if name in given:
                try:
                    fields[name] = kind(given[name])
                except ValueError as problem:
                    raise ValueError(f"SCENEACT_{name.upper()}: {problem}") from problem
        return cls(**fields)


def _json_object(text: str) -> dict[str, Any]:
    value = json.loads(text)
    if not isinstance(value, dict):
        raise ValueError("it must be a JSON object")
    return value


@dataclass
class Usage:
    """What one episode took.

    Attributes:
        calls: replies that came, empty ones and summaries included.
        tool_calls: calls that the model asked for.
        tokens: read and written.
        cost: US dollars; None once something had no known price.
        seconds: spent in requests.
        waited: seconds between tries.
        retries: requests that failed and were made again.
        empty_replies: replies with neither text nor calls.
        summaries: how often older turns were summed up.
        estimated: replies whose server did not tell the tokens; these are rough.
        stopped: what ended the episode from this side: a limit's name or `reply_without_calls`.
    """

    calls: int = 0
    tool_calls: int = 0
    tokens: Tokens = field(default_factory=Tokens)
    cost: float | None = 0.0
    seconds: float = 0.0
    waited: float = 0.0
    retries: int = 0
    empty_replies: int = 0
    summaries: int = 0
    estimated: int = 0
    stopped: str = ""
