"""The MCP face of an episode: its tools and prompts, over stdin and stdout or over streamable HTTP."""

from __future__ import annotations

import os
import signal
import socket
import sys
import time
from typing import Any

import anyio
import mcp_types as types
import uvicorn
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server
from mcp.shared.exceptions import MCPError

from sceneact_gym._version import __version__
from sceneact_gym.errors import SceneActError
from sceneact_gym.mcp_player import GET_TASK, Player, ServerConfig


def server(player: Player) -> Server[Any]:
    """The MCP server of an episode: its tools, `get_task`, and the prompt `task`."""
    empty = {"type": "object", "properties": {}, "additionalProperties": False}
    tools = [
        types.Tool(
            name=GET_TASK,
            description="Shows the task: its instructions and the reference pictures. Costs no step.",
            input_schema=empty,
        ),
        *(types.Tool(**tool.schema()) for tool in player.host.tools.values()),
    ]
    prompt = types.Prompt(name="task", description="The task with its reference pictures.")

    async def list_tools(*_: Any) -> types.ListToolsResult:
        return types.ListToolsResult(tools=tools)

    async def call_tool(
        context: ServerRequestContext[Any], params: types.CallToolRequestParams
    ) -> types.CallToolResult:
        return await player.call(context, params.name, params.arguments)

    async def list_prompts(*_: Any) -> types.ListPromptsResult:
        return types.ListPromptsResult(prompts=[prompt])

    async def get_prompt(
        context: ServerRequestContext[Any], params: types.GetPromptRequestParams
    ) -> types.GetPromptResult:
        if params.name != prompt.name:
            raise MCPError(types.INVALID_PARAMS, f"there is no prompt {params.name!r}; there is {prompt.name!r}")
        shown = await player.task(context)
        parts: list[Any] = list(shown.content)
        return types.GetPromptResult(messages=[types.PromptMessage(role="user", content=part) for part in parts])

    return Server(
        "sceneact-gym",
        version=__version__,
        instructions="\n\n".join(player.prompts),
        on_list_tools=list_tools,
        on_call_tool=call_tool,
        on_list_prompts=list_prompts,
        on_get_prompt=get_prompt,
    )


async def serve_stdio(config: ServerConfig) -> None:
    """Serves one client over stdin and stdout until it goes."""
    player = Player(config)
    app = server(player)

    async def end_on_signal() -> None:
        with anyio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:
            async for _ in signals:
                await player.close()
                # A thread waits for the client's next line and cannot be ended otherwise.
                os._exit(0)

    async with anyio.create_task_group() as group:
        group.start_soon(end_on_signal)
        try:
            async with stdio_server() as (requests, answers):
                await app.run(requests, answers, app.create_initialization_options())
        except* (BrokenPipeError, anyio.BrokenResourceError):
            pass  # The client has gone while something was sent to it.
        finally:
            await player.close()
        group.cancel_scope.cancel()


async def serve_http(config: ServerConfig, host: str, port: int, idle: float) -> None:
    """Serves streamable HTTP at `http://host:port/mcp` until a signal comes, or no call for `idle` seconds.

    The protocol has no sessions that would tell when a client has gone. All clients share the one episode.

    Raises:
        SceneActError: the port cannot be used, or there is no such case.
    """
    player = Player(config)
    try:
        listener = socket.create_server((host, port))
    except OSError as problem:
        raise SceneActError(f"cannot listen on {host}:{port} ({problem.strerror}): give another --port") from problem
    with listener:
        app = server(player).streamable_http_app(host=host)
        web = uvicorn.Server(uvicorn.Config(app, log_level="warning", timeout_graceful_shutdown=2))
        # uvicorn raises the signal that ended it once more after its own shutdown: that must not end the process early.
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: None)
        print(f"http://{host}:{listener.getsockname()[1]}/mcp", file=sys.stderr, flush=True)

        async def watch() -> None:
            while not web.should_exit:
                await anyio.sleep(0.1)
                web.should_exit = web.should_exit or not player.busy and time.monotonic() - player.last_use > idle
            await player.close()

        async with anyio.create_task_group() as group:
            group.start_soon(watch)
            try:
                await web.serve(sockets=[listener])
            finally:
                await player.close()
                group.cancel_scope.cancel()
