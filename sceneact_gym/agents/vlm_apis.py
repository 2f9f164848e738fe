"""The two APIs that vision-language models are reached by: each adapter turns a conversation into one HTTP request.

Adapters neither retry nor count. Whatever goes wrong becomes an `ApiFault` that says whether trying again makes sense.
The clients are imported when an adapter is made. Keys come from the environment, are held by the client only, and are
taken out of every message.
"""

from __future__ import annotations

import email.utils
import importlib
import json
import os
import time
import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol
from urllib.parse import urlsplit

from sceneact_gym.agents.vlm_messages import Call, Opening, Picture, Reply, Result, Tokens, Turn
from sceneact_gym.errors import SceneActError

RETRIED = frozenset({408, 409, 429})
"""Status codes after which a request is made again, besides 5xx."""
REPLY_LIMIT = 32_000_000
"""Bytes of a reply; more is no reply."""
THINKING = ("thinking", "redacted_thinking")
NOTHING = "(no text)"
"""Anthropic's API refuses empty texts."""


class ApiFault(Exception):
    """A request that failed.

    Attributes:
        again: whether another try may succeed.
        wait: seconds for which the server asks to wait; None if it does not.
    """

    def __init__(self, message: str, again: bool = True, wait: float | None = None) -> None:
        """Keeps all three."""
        super().__init__(message)
        self.again = again
        self.wait = wait


class Api(Protocol):
    """What the agent needs of an API."""

    def complete(
        self, system: str, opening: Opening, turns: Sequence[Turn], tools: Sequence[Mapping[str, Any]]
    ) -> Reply:
        """The model's next reply.

        Args:
            system: the system prompt.
            opening: the first message.
            turns: what came after it.
            tools: `name`, `description`, `input_schema` each.

        Raises:
            ApiFault: there is no whole reply.
        """


class _Endpoint:
    """What both adapters share: the client, and one request under a deadline."""

    package: str
    client_class: str
    key_variable: str

    def __init__(
        self, model: str, base_url: str | None, timeout: float, max_output_tokens: int, request: Mapping[str, Any]
    ) -> None:
        try:
            self._library: Any = importlib.import_module(self.package)
        except ImportError as problem:
            raise SceneActError(
                f"the client {self.package!r} is not installed: pip install 'sceneact-gym[vlm]'"
            ) from problem
        key = os.environ.get(self.key_variable, "")
        if not key and base_url is None:
            raise SceneActError(f"there is no key: set the environment variable {self.key_variable}")
        self.model = model
        self.timeout = timeout
        self.max_output_tokens = max_output_tokens
        self.request = dict(request)
        # A server of one's own often needs no key, but the clients want one.
        self._client = getattr(self._library, self.client_class)(
            api_key=key or "none", base_url=base_url, timeout=timeout, max_retries=0
        )
        # Agents have no end of their own: connections are closed with the adapter.
        weakref.finalize(self, self._client.close)
        self._transport_errors = tuple(_transport_errors())

    def _send(self, create: Callable[..., Any], body: dict[str, Any]) -> dict[str, Any]:
        started = time.monotonic()
        data = bytearray()
        try:
            # Read piece by piece, since the client's own limit starts anew with every byte that arrives.
            with create(**body, extra_body=self.request or None) as response:
                for piece in response.iter_bytes():
                    data += piece
                    if time.monotonic() - started > self.timeout:
                        raise ApiFault(f"the reply was not complete after {self.timeout:g} seconds")
                    if len(data) > REPLY_LIMIT:
                        raise ApiFault(f"the reply has more than {REPLY_LIMIT} bytes")
        except self._library.APIStatusError as problem:
            status = problem.status_code
            # Not chained: the server's words may repeat the key.
            raise ApiFault(
                f"HTTP {status}: {self._without_key(str(problem))}",
                status in RETRIED or status >= 500,
                retry_after(problem.response.headers),
            ) from None
        except (self._library.APIError, *self._transport_errors, OSError) as problem:
            raise ApiFault(f"{type(problem).__name__}: {self._without_key(str(problem))}") from None
        try:
            reply = json.loads(data)
        except (ValueError, RecursionError):
            raise ApiFault(f"the reply is no JSON: {self._without_key(data[:200].decode(errors='replace'))}") from None
        if not isinstance(reply, dict) or reply.get("error"):
            raise ApiFault(f"the reply is an error: {self._without_key(json.dumps(reply))}")
        return reply

    def _without_key(self, text: str) -> str:
        # A key of a few characters would only make the text unreadable.
        key = self._client.api_key
        return (text.replace(key, "[key]") if len(key) > 5 else text)[:400]


class OpenAIApi(_Endpoint):
    """Chat completions of OpenAI or of any server that speaks the same; key in `OPENAI_API_KEY`."""

    package, client_class, key_variable = "openai", "OpenAI", "OPENAI_API_KEY"

    def complete(
        self, system: str, opening: Opening, turns: Sequence[Turn], tools: Sequence[Mapping[str, Any]]
    ) -> Reply:
        """See `Api`. Pictures of results follow in a message of the user's, since tool messages hold text only."""
        content: list[dict[str, Any]] = [{"type": "text", "text": opening.text}]
        for number, picture in enumerate(opening.pictures):
            content += [{"type": "text", "text": reference_label(number)}, _openai_image(picture)]
        if opening.summary:
            content.append({"type": "text", "text": summary_label(opening.summary)})
        messages = [{"role": "system", "content": system}, {"role": "user", "content": content}]
        for turn in turns:
            messages.append(turn.reply.raw)
            pictures: list[dict[str, Any]] = []
            for number, (call, result) in enumerate(zip(turn.reply.calls, turn.results, strict=True)):
                text = f"ERROR: {result.text}" if result.is_error else result.text
                if result.pictures:
                    label = f"{len(result.pictures)} picture(s) of call {number + 1} of this turn, {call.name}"
                    text += f"\n[{label}: see the message after the results]"
                    pictures.append({"type": "text", "text": f"{label}:"})
                    pictures += [_openai_image(picture) for picture in result.pictures]
                messages.append({"role": "tool", "tool_call_id": call.id, "content": text})
            if pictures:
                messages.append({"role": "user", "content": pictures})
        # OpenAI's own models refuse the older name, many servers do not know the newer one.
        official = urlsplit(str(self._client.base_url)).hostname == "api.openai.com"
        body: dict[str, Any] = {
            "model": self.model,
            "messages": messages,
            "max_completion_tokens" if official else "max_tokens": self.max_output_tokens,
        }
        if tools:
            body["tools"] = [
                {
                    "type": "function",
                    "function": {name: tool[name] for name in ("name", "description")}
                    | {"parameters": tool["input_schema"]},
                }
                for tool in tools
            ]
        reply = self._send(self._client.chat.completions.with_streaming_response.create, body)
        try:
            return _openai_reply(reply)
        except (KeyError, IndexError, TypeError, AttributeError, ValueError) as problem:
            raise ApiFault(f"the reply has not the form of a chat completion ({problem!r})") from None


class AnthropicApi(_Endpoint):
    """Anthropic's messages, or a server that speaks the same; key in `ANTHROPIC_API_KEY`."""

    package, client_class, key_variable = "anthropic", "Anthropic", "ANTHROPIC_API_KEY"

    def complete(
        self, system: str, opening: Opening, turns: Sequence[Turn], tools: Sequence[Mapping[str, Any]]
    ) -> Reply:
        """See `Api`. Pictures of results are blocks of the results."""
        content: list[dict[str, Any]] = [_text(opening.text)]
        for number, picture in enumerate(opening.pictures):
            content += [_text(reference_label(number)), _anthropic_image(picture)]
        if opening.summary:
            content.append(_text(summary_label(opening.summary)))
        messages: list[dict[str, Any]] = [{"role": "user", "content": content}]
        for turn in turns:
            messages.append({"role": "assistant", "content": turn.reply.raw})
            pairs = zip(turn.reply.calls, turn.results, strict=True)
            messages.append({"role": "user", "content": [_tool_result(call, result) for call, result in pairs]})
        body = {"model": self.model, "max_tokens": self.max_output_tokens, "system": system, "messages": messages}
        if tools:
            body["tools"] = [dict(tool) for tool in tools]
        reply = self._send(self._client.messages.with_streaming_response.create, body)
        try:
            return _anthropic_reply(reply)
        except (KeyError, IndexError, TypeError, AttributeError, ValueError) as problem:
            raise ApiFault(f"the reply has not the form of a message ({problem!r})") from None


APIS: dict[str, type[OpenAIApi] | type[AnthropicApi]] = {"openai": OpenAIApi, "anthropic": AnthropicApi}
"""Adapters by name."""


def reference_label(number: int) -> str:
    """What stands before a reference picture."""
    return f"Attached picture {number} (counted from 0):"


def summary_label(summary: str) -> str:
    """What stands for the turns that were left out."""
    return f"The turns so far were left out to save room. Your summary of them:\n{summary}"


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Seconds that a server's headers ask to wait: a number of (milli)seconds or a date; None where they do not."""
    for name, unit in (("retry-after-ms", 1e-3), ("retry-after", 1.0)):
        try:
            seconds = float(headers[name]) * unit
        except (KeyError, ValueError):
            continue
        # Not-a-number compares as false.
        return seconds if 0 <= seconds < float("inf") else None
    try:
        return max(email.utils.parsedate_to_datetime(headers["retry-after"]).timestamp() - time.time(), 0.0)
    except (KeyError, ValueError):
        return None


def _transport_errors() -> list[type[Exception]]:
    """What the HTTP library below the client raises while a reply is read; older clients use another one."""
    found: list[type[Exception]] = []
    for name in ("httpx2", "httpx"):
        try:
            found.append(importlib.import_module(name).HTTPError)
        except ImportError:
            continue
    return found


def _text(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text or NOTHING}


def _openai_image(picture: Picture) -> dict[str, Any]:
    return {"type": "image_url", "image_url": {"url": f"data:{picture.media_type};base64,{picture.base64}"}}


def _anthropic_image(picture: Picture) -> dict[str, Any]:
    source = {"type": "base64", "media_type": picture.media_type, "data": picture.base64}
    return {"type": "image", "source": source}


def _tool_result(call: Call, result: Result) -> dict[str, Any]:
    content = [_text(result.text), *(_anthropic_image(picture) for picture in result.pictures)]
    return {"type": "tool_result", "tool_use_id": call.id, "is_error": result.is_error, "content": content}


def _openai_reply(reply: dict[str, Any]) -> Reply:
    choice = reply["choices"][0]
    message = choice["message"]
    content = message.get("content") or message.get("refusal") or ""
    if isinstance(content, list):
        content = "".join(part.get("text") or "" for part in content)
    calls: list[Call] = []
    for number, asked in enumerate(message.get("tool_calls") or ()):
        name, given = str(asked["function"].get("name") or ""), asked["function"].get("arguments")
        identity = str(asked.get("id") or "")
        if not identity or any(call.id == identity for call in calls):
            identity = f"call_{number}"
        problem = ""
        arguments = given
        if isinstance(given, str):
            try:
                arguments = json.loads(given or "{}")
            except (ValueError, RecursionError) as failure:
                problem = f"{failure}"
        calls.append(Call(identity, name, arguments, problem))
    # Built anew: servers refuse fields they do not know, and some parse the arguments of earlier calls.
    raw: dict[str, Any] = {"role": "assistant", "content": content or None}
    if calls:
        raw["tool_calls"] = [
            {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": _as_json(call)}}
            for call in calls
        ]
    cut = choice.get("finish_reason") == "length"
    return Reply(content, tuple(calls), raw, raw, _openai_tokens(reply.get("usage")), cut)


def _as_json(call: Call) -> str:
    return json.dumps({"not_valid_json": call.arguments} if call.problem else call.arguments)


def _as_object(block: dict[str, Any]) -> dict[str, Any]:
    """A call as it can be sent back: arguments that are no object would be refused."""
    return block if isinstance(block["input"], dict) else {**block, "input": {"not_an_object": block["input"]}}


def _openai_tokens(usage: Any) -> Tokens | None:
    if not usage:
        return None
    details = usage.get("prompt_tokens_details") or {}
    return Tokens(
        int(usage["prompt_tokens"]), int(details.get("cached_tokens") or 0), 0, int(usage.get("completion_tokens") or 0)
    )


def _anthropic_reply(reply: dict[str, Any]) -> Reply:
    # Other blocks, for example of thinking, go back as they came; empty texts would be refused.
    raw = [block for block in reply["content"] if block["type"] != "text" or block["text"]]
    text = "".join(block["text"] for block in raw if block["type"] == "text")
    calls = tuple(Call(block["id"], block["name"], block["input"]) for block in raw if block["type"] == "tool_use")
    raw = [_as_object(block) if block["type"] == "tool_use" else block for block in raw]
    usage, tokens = reply.get("usage"), None
    if usage:
        cached = int(usage.get("cache_read_input_tokens") or 0)
        written = int(usage.get("cache_creation_input_tokens") or 0)
        # This API counts what has to do with the cache apart.
        tokens = Tokens(int(usage["input_tokens"]) + cached + written, cached, written, int(usage["output_tokens"]))
    plain = [block for block in raw if block["type"] not in THINKING]
    return Reply(text, calls, raw, plain, tokens, reply.get("stop_reason") == "max_tokens")
