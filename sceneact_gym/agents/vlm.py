"""`vlm`: a vision-language model behind an HTTP API plays by tool calls, in the fixed loop of the benchmark.

The model sees the system prompt, the task with its reference pictures, and the tools. Each of its replies is one turn:
the calls are run in order and their results, with pictures, go back. A reply without calls ends the episode.

It needs `pip install 'sceneact-gym[vlm]'` and, since a model has to be named, these environment variables:

- `SCENEACT_MODEL`: the model's name, as the server knows it.
- `SCENEACT_API`: `openai` (default; chat completions, spoken by most servers) or `anthropic`.
- `SCENEACT_BASE_URL`: the server; by default that of the API's vendor.
- `OPENAI_API_KEY` or `ANTHROPIC_API_KEY`: the key; not needed with a base URL whose server asks for none.
- `SCENEACT_MAX_CALLS`, `SCENEACT_MAX_TOKENS`, `SCENEACT_MAX_COST` (US dollars): limits of one episode.
- `SCENEACT_CONTEXT_TOKENS`, `SCENEACT_MAX_OUTPUT_TOKENS`, `SCENEACT_TIMEOUT` (seconds of one request).
- `SCENEACT_PRICES`: a JSON file of prices, see `vlm_prices.read_prices`.
- `SCENEACT_REQUEST`: a JSON object of further fields for each request, for example `{"temperature": 0}`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import gymnasium as gym

from sceneact_gym.agents.base import BaseAgent, Info
from sceneact_gym.agents.vlm_apis import APIS, Api, ApiFault
from sceneact_gym.agents.vlm_config import Usage, VLMConfig
from sceneact_gym.agents.vlm_messages import (
    Call,
    Opening,
    Reply,
    Result,
    Tokens,
    Turn,
    encode,
    estimate,
    keep_newest,
    picture_count,
    transcript,
)
from sceneact_gym.errors import InfraError, SceneActError

FIRST_WAIT = 1.0
"""Seconds before the second try; each further try waits twice as long."""
NEAR = 0.8
"""Share of the context that may be in use before the older turns are summed up."""

SUMMARY_PROMPT = """\
You are in the middle of a task in Blender and are running out of room for the conversation. Below is its record,
without pictures. Write the notes that you need to go on without it: what is known about the scene and about what the
pictures show, exact object names and numbers (places, angles, sizes, frames), what was changed and what state the scene
is in now, what was tried and did not work, and what to do next. Write only the notes."""


class VLMAgent(BaseAgent):
    """A model behind an API.

    Attributes:
        config: which model, and its bounds.
        opening: the first message of the conversation.
        turns: what came after it and was not left out.
        said: the text of the newest reply.
    """

    said = ""

    def __init__(
        self,
        env: gym.Env[Any, Any],
        seed: int = 0,
        config: VLMConfig | None = None,
        *,
        api: Api | None = None,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        """Makes the client; no request yet.

        Args:
            env: the environment that it will play.
            seed: unused; models have no common one.
            config: by default from the environment variables.
            api: instead of the adapter that `config` names.
            sleep: waits between tries.

        Raises:
            SceneActError: no model, no key, a variable that cannot be read, or the client is not installed.
        """
        super().__init__(env, seed)
        try:
            self.config = config or VLMConfig.from_environment()
        except ValueError as problem:
            # Of the user's making, and the same in every episode: no fault that may pass.
            raise SceneActError(str(problem)) from problem
        c = self.config
        self.api = api or APIS[c.api](c.model, c.base_url, c.timeout, c.max_output_tokens, c.request)
        self._sleep = sleep
        self._usage = Usage()
        self.opening = Opening("")
        self.turns: list[Turn] = []

    @staticmethod
    def settings() -> dict[str, Any]:
        """What of the environment variables changes results; neither the server's address nor a key."""
        config = VLMConfig.from_environment()
        names = ("model", "api", "max_output_tokens", "context_tokens", "max_calls", "max_tokens", "max_cost")
        return {**{name: getattr(config, name) for name in names}, "request": dict(config.request)}

    @property
    def usage(self) -> dict[str, Any]:
        """What the episode has taken so far, as JSON values; see `Usage`."""
        values = {name: value for name, value in vars(self._usage).items() if name not in ("tokens", "cost")}
        tokens = self._usage.tokens
        price = self.config.price
        return {
            "model": self.config.model,
            "api": self.config.api,
            "input_tokens": tokens.input,
            "cached_tokens": tokens.cached,
            "output_tokens": tokens.output,
            "cost_usd": self._usage.cost,
            "price_seen": price.seen if price else None,
            **values,
        }

    def reset(self, observation: Any, info: Info) -> None:
        """Begins a new conversation."""
        self._usage = Usage()
        references = list(observation["references"])
        # A case with fewer references than the observation holds leaves the last ones black.
        while references and not references[-1].any():
            references.pop()
        # Twice `keep_pictures` is the most that is ever sent, so the whole keeps its bound by itself.
        most = len(references) + 2 * self.config.keep_pictures
        self._picture_bytes = min(self.config.picture_bytes, self.config.request_picture_bytes // max(most, 1))
        pictures = tuple(encode(picture, self._picture_bytes) for picture in references)
        self.opening = Opening(info["prompt"], pictures)
        self.turns = []
        self._system = info["system_prompt"]
        self._tools: Sequence[Mapping[str, Any]] = info["tools"]
        self._asked: Reply | None = None
        self._context = 0

    def act(self, observation: Any, info: Info) -> Any:
        """The calls of the model's next reply; an empty list where it makes none or a limit is reached.

        Raises:
            InfraError: the model's server gives no reply, or only empty ones.
        """
        if self._asked is not None:
            self._take(self._asked, info["results"])
            self._asked = None
        self._make_room()
        self.said = ""
        limit = self._limit()
        if limit:
            self._usage.stopped = limit
            return []
        reply = self._ask(self._system, self.opening, self.turns, self._tools)
        self._asked, self.said = reply, reply.text
        if not reply.calls:
            self._usage.stopped = "reply_without_calls"
        self._usage.tool_calls += len(reply.calls)
        # Arguments that are no JSON go to the environment as they are: it refuses them, and they cost their turn.
        return [{"name": call.name, "arguments": call.arguments} for call in reply.calls]

    def _take(self, reply: Reply, results: Sequence[Info]) -> None:
        """Adds a turn to the conversation."""
        results = list(results)
        if len(results) == 1 and not results[0]["name"]:
            # The environment refused the turn as a whole.
            results *= len(reply.calls)
        taken = []
        for number, call in enumerate(reply.calls):
            if number < len(results):
                result = results[number]
                pictures = tuple(encode(picture, self._picture_bytes) for picture in result["images"])
                taken.append(Result(_explained(call, reply, result["text"]), result["is_error"], pictures))
            else:
                taken.append(Result("This call was not run.", True))
        self.turns.append(Turn(reply, tuple(taken)))
        self._context += estimate(Opening(""), [Turn(Reply("", ()), tuple(taken))])

    def _make_room(self) -> None:
        """Leaves out old pictures, or sums up old turns, where the conversation has become too long.

        Earlier messages are changed as seldom as possible, since caches and the thinking of some models hold only while
        a conversation is merely added to.
        """
        if picture_count(self.turns) > 2 * self.config.keep_pictures:
            self.turns = keep_newest(self.turns, self.config.keep_pictures)
        if self._context < NEAR * self.config.context_tokens or len(self.turns) < 2 or self._limit():
            return
        # The last turn stays: its pictures are what the model goes on from.
        record = transcript(self.opening, self.turns[:-1])
        summary = self._ask(SUMMARY_PROMPT, Opening(record), [], [])
        self._usage.summaries += 1
        self.opening = replace(self.opening, summary=summary.text)
        self.turns = keep_newest(self.turns[-1:], 2 * self.config.keep_pictures, changed=True)
        self._context = estimate(self.opening, self.turns, self._system)

    def _limit(self) -> str:
        """The name of a limit that is reached."""
        usage, config = self._usage, self.config
        spent = {"max_calls": usage.calls, "max_tokens": usage.tokens.input + usage.tokens.output}
        for name, value in {**spent, "max_cost": usage.cost}.items():
            limit = getattr(config, name)
            # A cost that cannot be told can also not be kept.
            if limit is not None and (value is None or value >= limit):
                return name
        return ""

    def _ask(self, system: str, opening: Opening, turns: Sequence[Turn], tools: Sequence[Mapping[str, Any]]) -> Reply:
        """A reply that is not empty.

        Raises:
            InfraError: there is none after all tries, or another try makes no sense.
        """
        wait, reason = FIRST_WAIT, ""
        asked_to_wait: float | None = None
        for number in range(self.config.tries):
            if number:
                pause = min(wait if asked_to_wait is None else asked_to_wait, self.config.max_wait)
                self._sleep(pause)
                self._usage.waited += pause
                self._usage.retries += 1
                wait *= 2
            started = time.monotonic()
            asked_to_wait = None
            try:
                reply = self.api.complete(system, opening, turns, tools)
            except ApiFault as fault:
                reason, asked_to_wait = str(fault), fault.wait
                if not fault.again:
                    # Not chained: what lies below may show more than messages should.
                    raise InfraError(f"the model's server refuses the request: {reason}") from None
                continue
            finally:
                self._usage.seconds += time.monotonic() - started
            self._count(reply, system, opening, turns)
            if reply.text.strip() or (reply.calls and tools):
                return reply
            self._usage.empty_replies += 1
            reason = "the reply was empty" + (", cut at the limit of output tokens" if reply.cut else "")
        raise InfraError(f"no reply of the model after {self.config.tries} tries; the last one: {reason}")

    def _count(self, reply: Reply, system: str, opening: Opening, turns: Sequence[Turn]) -> None:
        tokens = reply.tokens
        if tokens is None:
            self._usage.estimated += 1
            output = estimate(Opening(""), [Turn(reply, ())])
            tokens = Tokens(estimate(opening, turns, system), output=output)
        self._context = tokens.input + tokens.output
        usage, total = self._usage, self._usage.tokens
        usage.calls += 1
        usage.tokens = Tokens(
            total.input + tokens.input,
            total.cached + tokens.cached,
            total.written + tokens.written,
            total.output + tokens.output,
        )
        cost = self.config.price.cost(tokens) if self.config.price else None
        usage.cost = None if cost is None or usage.cost is None else usage.cost + cost


def _explained(call: Call, reply: Reply, text: str) -> str:
    """A result's text; for arguments that are no JSON, with what is wrong with them."""
    if not call.problem:
        return text
    cut = " The reply was cut at the limit of output tokens: make shorter calls." if reply.cut else ""
    return f"The arguments are not valid JSON ({call.problem}).{cut} {text}"
