"""A server on loopback that speaks both model APIs from a script, as strict as the real ones, with faults to order."""

from __future__ import annotations

import base64
import hashlib
import io
import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

KEY = "key-that-must-not-be-seen-anywhere"


@dataclass
class Say:
    """A reply: `calls` are (tool, arguments); arguments that are a text go out as they are (chat completions only)."""

    text: str = ""
    calls: tuple[tuple[str, Any], ...] = ()
    tokens: tuple[int, int] | None = (100, 10)
    thinks: bool = False
    cut: bool = False


@dataclass
class Status:
    """An HTTP error that repeats the key, as careless servers do."""

    code: int
    headers: dict[str, str] = field(default_factory=dict)


@dataclass
class Fault:
    """How a reply fails.

    `drop`: there is none. `truncate`: half of what was announced. `cut`: half, without a length. `slow`: too late.
    `drip`: byte by byte. `garbage`: no JSON. `error`: an error as a reply. `empty`: nothing said. `shapeless`: JSON of
    another form.
    """

    kind: str


@dataclass
class Seen:
    """A request as it came."""

    api: str
    body: dict[str, Any]

    def blocks(self, message: dict[str, Any]) -> Iterator[dict[str, Any]]:
        content = message["content"]
        if isinstance(content, str):
            content = [{"type": "text", "text": content}]
        for block in content or ():
            if block["type"] == "tool_result":
                yield from block["content"]
            else:
                yield block

    def pictures(self, message: dict[str, Any] | None = None) -> list[NDArray[np.uint8]]:
        """The pictures of a message, by default of all messages, decoded."""
        found = []
        for one in [message] if message is not None else self.body["messages"]:
            for block in self.blocks(one):
                if block["type"] == "image_url":
                    head, data = block["image_url"]["url"].split(",", 1)
                    assert head in ("data:image/png;base64", "data:image/jpeg;base64")
                elif block["type"] == "image":
                    assert block["source"]["media_type"] in ("image/png", "image/jpeg")
                    data = block["source"]["data"]
                else:
                    continue
                found.append(np.asarray(Image.open(io.BytesIO(base64.b64decode(data))).convert("RGB")))
        return found

    def opening(self) -> dict[str, Any]:
        """The first message of the user's."""
        return next(message for message in self.body["messages"] if message["role"] == "user")

    def results(self) -> list[str]:
        """The texts of the newest results, one per call."""
        if self.api == "anthropic":
            return [block["content"][0]["text"] for block in self.body["messages"][-1]["content"]]
        messages = self.body["messages"]
        last = max(i for i, message in enumerate(messages) if message["role"] == "assistant")
        return [message["content"] for message in messages[last + 1 :] if message["role"] == "tool"]

    def new_pictures(self) -> list[NDArray[np.uint8]]:
        """The pictures that came after the newest reply."""
        return self.pictures(self.body["messages"][-1])


Step = Say | Status | Fault | Callable[[Seen], "Say | Status | Fault"]


class ModelServer:
    """Answers the requests in order from `script`, and those after them by `always`; keeps them in `seen`."""

    def __init__(self) -> None:
        self.script: list[Step] = []
        self.always: Step = Status(500)
        self.seen: list[Seen] = []
        self.released = threading.Event()

    def play(self, *steps: Step) -> None:
        self.script, self.seen = list(steps), []

    def base_url(self, api: str) -> str:
        return self.address + ("/v1" if api == "openai" else "")

    address = ""


@contextmanager
def serve() -> Iterator[ModelServer]:
    """A running server."""
    model = ModelServer()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *args: Any) -> None:
            pass

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            api = {"/v1/chat/completions": "openai", "/v1/messages": "anthropic"}[self.path]
            given = self.headers["Authorization"] or self.headers["x-api-key"]
            if given not in (KEY, f"Bearer {KEY}"):
                return self.answer(401, {"error": {"message": f"wrong key {given}"}})
            seen = Seen(api, body)
            model.seen.append(seen)
            problem = check(seen)
            if problem:
                return self.answer(400, {"error": {"message": problem}})
            step = model.script.pop(0) if model.script else model.always
            if callable(step):
                step = step(seen)
            if isinstance(step, Status):
                return self.answer(step.code, {"error": {"message": f"no luck, {KEY}"}}, step.headers)
            if isinstance(step, Fault):
                return self.fail(seen, step.kind)
            self.answer(200, reply(seen, step))

        def answer(self, status: int, body: Any, headers: dict[str, str] | None = None) -> None:
            data = json.dumps(body).encode()
            self.send_response(status)
            for name, value in {"Content-Length": str(len(data)), **(headers or {})}.items():
                self.send_header(name, value)
            self.send_header("Content-Type", "application/json")
            self.end_headers()
            self.wfile.write(data)

        def fail(self, seen: Seen, kind: str) -> None:
            if kind == "empty":
                return self.answer(200, reply(seen, Say()))
            if kind == "error":
                return self.answer(200, {"error": {"message": f"overloaded {KEY}"}})
            if kind == "shapeless":
                return self.answer(200, {"choices": [], "content": [{}]})
            # Only what was announced as whole leaves a connection that can be used again.
            self.close_connection = True
            if kind == "drop":
                return
            data = json.dumps(reply(seen, Say("hello"))).encode()
            if kind == "garbage":
                data = f"<html>{KEY}</html>".encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            if kind == "slow":
                model.released.wait(20)
                return
            # Without a length a reply ends where the connection does: only its JSON tells that it is cut.
            if kind == "truncate":
                self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            if kind == "drip":
                for place in range(len(data)):
                    try:
                        self.wfile.write(data[place : place + 1])
                    except OSError:
                        return
                    if model.released.wait(0.05):
                        return
            elif kind == "garbage":
                self.wfile.write(data)
            else:
                self.wfile.write(data[: len(data) // 2])

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    model.address = f"http://127.0.0.1:{server.server_address[1]}"
    try:
        yield model
    finally:
        model.released.set()
        server.shutdown()
        thread.join()
        server.server_close()


def check(seen: Seen) -> str:
    """What the real API would refuse."""
    messages = seen.body["messages"]
    for number, message in enumerate(messages):
        for block in seen.blocks(message) if message["role"] != "tool" else ():
            if block["type"] == "text" and not block["text"]:
                return f"messages.{number}: empty text"
    if seen.api == "openai":
        waiting: list[str] = []
        for number, message in enumerate(messages):
            if message["role"] == "tool":
                if message["tool_call_id"] not in waiting:
                    return f"messages.{number}: no such tool call"
                waiting.remove(message["tool_call_id"])
            elif waiting:
                return f"messages.{number}: tool calls without results"
            for call in message.get("tool_calls") or ():
                waiting.append(call["id"])
                try:
                    json.loads(call["function"]["arguments"])
                except ValueError:
                    return f"messages.{number}: arguments of an earlier call are no JSON"
        return "tool calls without results" if waiting else ""
    for number, message in enumerate(messages):
        if message["role"] != ("user", "assistant")[number % 2]:
            return f"messages.{number}: roles must take turns"
        if message["role"] == "assistant":
            asked = [block["id"] for block in message["content"] if block["type"] == "tool_use"]
            given = [block.get("tool_use_id") for block in messages[number + 1]["content"]]
            if asked != given:
                return f"messages.{number}: tool_use without tool_result"
            for block in message["content"]:
                if block["type"] == "tool_use" and not isinstance(block["input"], dict):
                    return f"messages.{number}: input must be an object"
                if block["type"] == "thinking" and block["signature"] != signature(messages[:number]):
                    return f"messages.{number}: thinking of another conversation"
    return ""


def signature(messages: list[dict[str, Any]]) -> str:
    """Binds thinking to what came before it, other thinking apart."""
    plain = [
        {**message, "content": [b for b in message["content"] if b["type"] != "thinking"]}
        if message["role"] == "assistant"
        else message
        for message in messages
    ]
    return hashlib.sha256(json.dumps(plain, sort_keys=True).encode()).hexdigest()


def reply(seen: Seen, say: Say) -> dict[str, Any]:
    """A reply in the API's form."""
    turn = len(seen.body["messages"])
    if seen.api == "openai":
        message: dict[str, Any] = {"role": "assistant", "content": say.text or None}
        if say.calls:
            message["tool_calls"] = [
                {
                    "id": f"call-{turn}-{number}",
                    "type": "function",
                    "function": {"name": name, "arguments": given if isinstance(given, str) else json.dumps(given)},
                }
                for number, (name, given) in enumerate(say.calls)
            ]
        reason = "length" if say.cut else "tool_calls" if say.calls else "stop"
        body: dict[str, Any] = {"id": "x", "choices": [{"index": 0, "message": message, "finish_reason": reason}]}
        if say.tokens:
            body["usage"] = {"prompt_tokens": say.tokens[0], "completion_tokens": say.tokens[1]}
        return body
    content: list[dict[str, Any]] = []
    if say.thinks:
        content.append({"type": "thinking", "thinking": "", "signature": signature(seen.body["messages"])})
    if say.text:
        content.append({"type": "text", "text": say.text})
    content += [
        {"type": "tool_use", "id": f"toolu-{turn}-{number}", "name": name, "input": given}
        for number, (name, given) in enumerate(say.calls)
    ]
    body = {"id": "x", "type": "message", "role": "assistant", "content": content}
    body["stop_reason"] = "max_tokens" if say.cut else "tool_use" if say.calls else "end_turn"
    if say.tokens:
        body["usage"] = {"input_tokens": say.tokens[0], "output_tokens": say.tokens[1]}
    return body
