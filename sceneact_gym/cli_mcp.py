"""The command `sceneact mcp`: one episode for an MCP client."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from sceneact_gym import cli_options as options
from sceneact_gym.bench.plan import BenchConfig


def mcp(
    env: Annotated[str, typer.Option(help="Environment id, for example SceneAct/Layout-v0.")],
    case: Annotated[str | None, typer.Option(help="Case id; the first case of the split by default.")] = None,
    split: options.Split = "test",
    source: options.Source = "procedural",
    protocol: options.Protocol = "paper",
    toolset: options.Toolset = "paper",
    max_steps: options.MaxSteps = None,
    render_size: options.RenderSize = 384,
    reference_size: options.ReferenceSize = 384,
    samples: options.Samples = 16,
    engine: options.Engine = "auto",
    isolation: options.Isolation = "auto",
    out: Annotated[
        Path | None, typer.Option(help="Run folder; when it is taken, one with a number behind its name is used.")
    ] = None,
    image_bytes: Annotated[int, typer.Option(help="Bytes of base64 for the pictures of one result.")] = 4_000_000,
    http: Annotated[bool, typer.Option("--http", help="Serve streamable HTTP instead of stdin and stdout.")] = False,
    host: Annotated[str, typer.Option(help="Address for --http. There is no password.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Port for --http; 0 takes a free one.")] = 8000,
    idle: Annotated[float, typer.Option(help="With --http: seconds without a call after which it all ends.")] = 1800,
) -> None:
    """Offers one episode to an MCP client; the result is written into a run folder when it ends."""
    task = options.task_of(env)
    import anyio

    # Late, since mcp is an extra; the player first, since it says how to get it.
    from sceneact_gym.mcp_player import ServerConfig
    from sceneact_gym.mcp_server import serve_http, serve_stdio

    made = options.env_options(
        protocol, toolset, max_steps, render_size, reference_size, samples, engine, isolation
    )
    folder = out or Path("runs") / f"{env.split('/')[-1].lower()}-mcp"
    cases, source = (case,) if case else (), options.source_of(source)
    run = BenchConfig("mcp", [task], cases=1, case_ids=cases, source=source, split=split, options=made)
    config = ServerConfig(run, folder, image_bytes)
    if http:
        anyio.run(serve_http, config, host, port, idle)
    else:
        anyio.run(serve_stdio, config)
