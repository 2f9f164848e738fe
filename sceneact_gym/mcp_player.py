"""One episode for one MCP client: each tool call is one step.

`Player` lets one call at a time at the `Episode`, in a thread, so that the event loop always answers. Blender starts
with the first call. What the client never gets (score, metrics, the case's truth) is written into a run folder when the
episode ends or the client has gone.
"""

from __future__ import annotations

import contextlib
import itertools
import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

import anyio
import anyio.lowlevel
import anyio.to_thread

from sceneact_gym.bench.folder import RunFolder
from sceneact_gym.bench.plan import BenchConfig, plays
from sceneact_gym.bench.player import episode_row, no_score
from sceneact_gym.envs.base import outcome_info
from sceneact_gym.episode import Episode, EpisodeHost
from sceneact_gym.errors import SceneActError
from sceneact_gym.mcp_images import SMALLEST_BUDGET, pack
from sceneact_gym.tools import ToolResult

try:
    import mcp_types as types
    from mcp.server.context import ServerRequestContext
except ImportError as missing:
    raise SceneActError("the MCP server needs the package mcp: pip install 'sceneact-gym[mcp]'") from missing

log = logging.getLogger(__name__)
T = TypeVar("T")

OVER = "The episode is over: no more calls are run."
GET_TASK = "get_task"
HOW = """\
Over this connection, each tool call is one step (a turn with one call): you have {budget} of them, and bad calls count.
get_task shows these instructions together with the reference pictures; it costs no step."""


@dataclass(frozen=True)
class ServerConfig:
    """What is served.

    Attributes:
        run: the run of one episode; its agent is written down as it is named there.
        out: the run folder. If it is taken, a free one with a number behind its name is.
        image_bytes: bytes of base64 text that the pictures of one result may take.
    """

    run: BenchConfig
    out: Path
    image_bytes: int = 4_000_000

    def __post_init__(self) -> None:
        """Checks the budget.

        Raises:
            ValueError: it is too small.
        """
        if self.image_bytes < SMALLEST_BUDGET:
            raise ValueError(f"image_bytes must be at least {SMALLEST_BUDGET}; it is {self.image_bytes}")


class Player:
    """One episode for one client. All methods are safe to call at the same time; they wait for each other."""

    def __init__(self, config: ServerConfig) -> None:
        """Opens the case, without Blender.

        Raises:
            CaseNotFound: no such source, split or case.
        """
        self.config = config
        self.play = plays(config.run)[0]
        self.host = EpisodeHost(self.play.task, config.run.episode_config())
        case = self.host.source.load(self.play.case_id)
        self.prompts = (*self.host.task.prompts(case, self.host.budget), HOW.format(budget=self.host.budget))
        self.episode: Episode | None = None
        self.folder: RunFolder | None = None
        self.over = False
        self.last_use = time.monotonic()
        self._started = 0.0
        self._problem = ""
        self._turn = anyio.Lock()
        self._closing = anyio.Event()

    @property
    def busy(self) -> bool:
        """Whether a call is running."""
        return self._turn.locked()

    async def call(self, context: ServerRequestContext[Any], name: str, arguments: Any) -> types.CallToolResult:
        """Runs one call as one step of the episode; every failure is a result with `is_error`."""

        async def tell() -> None:
            for second in itertools.count():
                # A courtesy: a client that has gone must not end the call in a way of its own.
                with contextlib.suppress(Exception):
                    await context.session.report_progress(float(second), None, "Blender is starting or at work")
                await anyio.sleep(1)

        async with anyio.create_task_group() as group:
            group.start_soon(tell)
            try:
                async with self._turn:
                    result = await self._one_call(name, arguments)
            finally:
                self.last_use = time.monotonic()
                group.cancel_scope.cancel()
        return result

    async def task(self, context: ServerRequestContext[Any]) -> types.CallToolResult:
        """Prompts and reference pictures; costs no step."""
        return await self.call(context, GET_TASK, {})

    async def close(self) -> None:
        """Ends the episode, scores the scene as it is, writes the result and ends Blender; safe to call twice."""
        self._closing.set()
        with anyio.CancelScope(shield=True):
            async with self._turn:
                await anyio.to_thread.run_sync(self._end)

    # --- in the event loop ----------------------------------------------------------------------------------------

    async def _one_call(self, name: str, arguments: Any) -> types.CallToolResult:
        if self.episode is None and not self.over and not self._closing.is_set():
            if problem := await self._in_thread(self._begin, begin=True):
                return self._result(problem, is_error=True)
        if self.over or self._closing.is_set():
            return self._result(OVER, is_error=True)
        if name == GET_TASK:
            return await self._in_thread(self._task)
        return await self._in_thread(lambda: self._act({"name": name, "arguments": arguments}))

    async def _in_thread(self, work: Callable[[], T], *, begin: bool = False) -> T:
        """Runs `work` in a thread and cancels it when the client takes the call back or the server closes.

        A cancelled call ends as after a fault of Blender, whose scene is restored, before the next one begins.
        """
        done = False

        async def watch() -> None:
            try:
                await self._closing.wait()
            finally:
                with anyio.CancelScope(shield=True):
                    while not done and not self.host.cancel(begin=begin):
                        await anyio.sleep(0.02)

        async with anyio.create_task_group() as group:
            group.start_soon(watch)
            try:
                answer = await anyio.to_thread.run_sync(work)
            finally:
                done = True
                group.cancel_scope.cancel()
        # The client may have cancelled meanwhile: nothing more is done for a call that nobody waits for.
        await anyio.lowlevel.checkpoint()
        return answer

    # --- in a thread ----------------------------------------------------------------------------------------------

    def _begin(self) -> str:
        try:
            if self.folder is None:
                self.folder = self._new_folder()
                self.host.config = replace(self.host.config, record_dir=self.folder.playing)
                self._started = time.monotonic()
            self.episode = self.host.begin(self.play.case_id)
            self._problem = ""
        except Exception as problem:
            log.error("the episode cannot begin: %s", problem, exc_info=not isinstance(problem, SceneActError))
            self._problem = f"the episode did not begin: {problem}"
            return "The episode could not be started on this machine; the next call tries again. No step was used."
        return ""

    def _act(self, call: dict[str, Any]) -> types.CallToolResult:
        episode = self.episode
        assert episode is not None
        try:
            step = episode.act(call)
        except Exception as problem:
            log.exception("a step failed")
            step, self._problem = None, f"a step failed: {type(problem).__name__}: {problem}"
        if step is None or (episode.outcome is not None and episode.outcome.status == "infra_error"):
            self._end()
            return self._result(f"The host failed, through no fault of yours. {OVER}", is_error=True)
        if episode.outcome is not None:
            self._end()
            note = "The episode is over." if step.terminated else f"That was the last step. {OVER}"
        else:
            note = f"{episode.steps_left} of {self.host.budget} steps are left."
        result = step.results[0] if step.results else ToolResult("", "")
        return self._result(result.text, f"[{note}]", pictures=result.images, is_error=result.is_error)

    def _task(self) -> types.CallToolResult:
        assert self.episode is not None
        pictures = self.episode.reference_frames(self.host.task.shown_references(self.episode.case))
        left = f"[{self.episode.steps_left} of {self.host.budget} steps are left.]"
        return self._result(*self.prompts, left, pictures=pictures)

    def _end(self) -> None:
        """Scores what is in the scene, once, and writes it down."""
        if self.over:
            return
        self.over = True
        try:
            if self.folder is None:
                return
            result, record = no_score(self._problem), None
            if self.episode is not None:
                record = self.episode.trace.folder
                try:
                    # What a step that the host failed left behind says nothing about the client.
                    if not self._problem:
                        result = outcome_info(self.episode.finish())
                except Exception as problem:
                    log.exception("the episode cannot be scored")
                    result = no_score(f"the episode cannot be scored: {problem}")
            self.folder.keep(episode_row(self.play, result, time.monotonic() - self._started), record)
        finally:
            if self.folder is not None:
                self.folder.close()
            self.host.close()

    def _new_folder(self) -> RunFolder:
        out = self.config.out
        for number in range(1, 10_000):
            path = out if number == 1 else out.with_name(f"{out.name}-{number:03d}")
            try:
                folder = RunFolder(path, self.config.run)
            except SceneActError:
                continue
            log.warning("run folder: %s", path)
            return folder
        raise SceneActError(f"there are too many folders beside {out}")

    def _result(self, *texts: str, pictures: Any = (), is_error: bool = False) -> types.CallToolResult:
        images, note = pack(pictures, self.config.image_bytes)
        content: list[Any] = [types.ImageContent(data=data, mime_type=kind) for kind, data in images]
        # backslashreplace: what agent code prints may hold halves of surrogate pairs, which no JSON text can.
        lines = [text.encode("utf-8", "backslashreplace").decode() for text in (*texts, note) if text]
        return types.CallToolResult(
            content=[*(types.TextContent(text=line) for line in lines), *content], is_error=is_error
        )
