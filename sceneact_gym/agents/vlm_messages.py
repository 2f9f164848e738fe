"""A conversation with a model as the agent keeps it, before an API's adapter turns it into requests.

It is an opening (the task, its reference pictures) and turns (a reply of the model, the results of its calls). Pictures
are encoded once, within a number of bytes, and the old ones are dropped from the results, never from the opening.
"""

from __future__ import annotations

import base64
import io
import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from sceneact_gym.blender.render import encode_png, resize

JPEG_QUALITIES = (90, 75, 60)
SMALLEST = 32
"""Pixels: no picture is made smaller than this to save bytes."""
CHARACTERS_PER_TOKEN = 4
TOKENS_PER_PICTURE = 1000
"""Rough sizes, used only where a server has not said how many tokens there are."""
QUOTE = 3000
"""Characters of one text in a transcript."""


@dataclass(frozen=True)
class Picture:
    """An encoded picture: `media_type` is `image/png` or `image/jpeg`."""

    media_type: str
    data: bytes

    @property
    def base64(self) -> str:
        """As both APIs take it."""
        return base64.b64encode(self.data).decode()


@dataclass(frozen=True)
class Call:
    """A call that the model asked for.

    Attributes:
        id: by which its result is matched.
        name: of the tool.
        arguments: what it gave; a text where that is not valid JSON.
        problem: why the arguments are not valid JSON; else empty.
    """

    id: str
    name: str
    arguments: Any
    problem: str = ""


@dataclass(frozen=True)
class Tokens:
    """What a reply took.

    Attributes:
        input: all tokens that were read, including the two kinds below.
        cached: those of them that came from a cache.
        written: those of them that were put into a cache.
        output: tokens that were written by the model.
    """

    input: int = 0
    cached: int = 0
    written: int = 0
    output: int = 0


@dataclass(frozen=True)
class Reply:
    """A reply of the model.

    Attributes:
        text: what it said.
        calls: what it asked for.
        raw: the reply in the API's own form, for the adapter to send back.
        plain: the same without the model's thinking.
        tokens: None where the server does not tell.
        cut: whether the reply ended at the limit of output tokens.
    """

    text: str
    calls: tuple[Call, ...]
    raw: Any = None
    plain: Any = None
    tokens: Tokens | None = None
    cut: bool = False


@dataclass(frozen=True)
class Result:
    """The result of the call of the same place in the reply."""

    text: str
    is_error: bool = False
    pictures: tuple[Picture, ...] = ()


@dataclass(frozen=True)
class Opening:
    """The first message: the task, its reference pictures, and a summary of turns that were left out."""

    text: str
    pictures: tuple[Picture, ...] = ()
    summary: str = ""


@dataclass(frozen=True)
class Turn:
    """A reply and the results of its calls, one each."""

    reply: Reply
    results: tuple[Result, ...]


def encode(rgb: NDArray[np.uint8], limit: int) -> Picture:
    """A picture in at most `limit` bytes: PNG if it fits, else JPEG, else a smaller JPEG.

    Args:
        rgb: (H, W, 3).
        limit: bytes, before base64. A picture of `SMALLEST` pixels is sent whatever it takes.
    """
    data = encode_png(rgb)
    if len(data) <= limit:
        return Picture("image/png", data)
    while True:
        for quality in JPEG_QUALITIES:
            buffer = io.BytesIO()
            Image.fromarray(rgb).save(buffer, "JPEG", quality=quality)
            if buffer.tell() <= limit:
                return Picture("image/jpeg", buffer.getvalue())
        height, width = rgb.shape[:2]
        if min(height, width) <= SMALLEST:
            return Picture("image/jpeg", buffer.getvalue())
        scale = max(0.7, SMALLEST / min(height, width))
        rgb = resize(rgb, round(width * scale), round(height * scale))


def picture_count(turns: Sequence[Turn]) -> int:
    """How many pictures the results hold."""
    return sum(len(result.pictures) for turn in turns for result in turn.results)


def keep_newest(turns: Sequence[Turn], count: int, changed: bool = False) -> list[Turn]:
    """The turns without all but the newest `count` pictures; the texts say what was left out.

    Args:
        turns: in order.
        count: pictures.
        changed: whether what stood before these turns was changed.

    Returns:
        The turns; without the model's thinking if anything was changed, since servers refuse thinking that comes after
        something else than when it was thought.
    """
    kept = []
    changed = changed or picture_count(turns) > count
    for turn in reversed(turns):
        results = []
        for result in reversed(turn.results):
            here = min(count, len(result.pictures))
            count -= here
            left_out = len(result.pictures) - here
            if left_out:
                text = f"{result.text}\n[{left_out} older picture(s) of this result are no longer shown]"
                result = replace(result, text=text, pictures=result.pictures[left_out:])
            results.append(result)
        reply = replace(turn.reply, raw=turn.reply.plain) if changed else turn.reply
        kept.append(Turn(reply, tuple(reversed(results))))
    return kept[::-1]


def estimate(opening: Opening, turns: Sequence[Turn], more: str = "") -> int:
    """Roughly how many tokens a conversation has."""
    texts = [more, opening.text, opening.summary]
    pictures = len(opening.pictures)
    for turn in turns:
        texts += [turn.reply.text, *(str(call.arguments) for call in turn.reply.calls)]
        texts += [result.text for result in turn.results]
        pictures += sum(len(result.pictures) for result in turn.results)
    return sum(map(len, texts)) // CHARACTERS_PER_TOKEN + TOKENS_PER_PICTURE * pictures


def transcript(opening: Opening, turns: Sequence[Turn]) -> str:
    """The conversation as one text, without pictures; long pieces are cut in the middle."""
    lines = [f"TASK\n{opening.text}"]
    if opening.summary:
        lines.append(f"SUMMARY OF WHAT CAME BEFORE\n{opening.summary}")
    for turn in turns:
        if turn.reply.text:
            lines.append(f"AGENT\n{_quote(turn.reply.text)}")
        for call, result in zip(turn.reply.calls, turn.results, strict=True):
            given = call.arguments if isinstance(call.arguments, str) else "\n".join(_arguments(call.arguments))
            pictures = f" with {len(result.pictures)} picture(s)" if result.pictures else ""
            lines.append(f"CALL {call.name}\n{_quote(given)}")
            lines.append(f"{'ERROR' if result.is_error else 'RESULT'}{pictures}\n{_quote(result.text)}")
    return "\n\n".join(lines)


def _arguments(arguments: Any) -> list[str]:
    if not isinstance(arguments, dict):
        return [json.dumps(arguments)]
    # Code is easier to read as it is than as a JSON string.
    return [f"{name}: {value if isinstance(value, str) else json.dumps(value)}" for name, value in arguments.items()]


def _quote(text: str) -> str:
    if len(text) <= QUOTE:
        return text
    half = QUOTE // 2
    return f"{text[:half]}\n[{len(text) - 2 * half} characters left out]\n{text[-half:]}"
