"""The command `sceneact mcp`: one episode for an MCP client."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from sceneact_gym.envs import ENVS
from sceneact_gym.episode import EpisodeConfig
from sceneact_gym.tasks import TASKS


def mcp(
    env: Annotated[str, typer.Option(help="Environment id, for example SceneAct/Layout-v0.")],
    case: Annotated[str | None, typer.Option(help="Case id; the first case of the split by default.")] = None,
    split: Annotated[str, typer.Option(help="train, val or test.")] = "test",
    source: Annotated[str, typer.Option(help="procedural, or a folder of cases.")] = "procedural",
    protocol: Annotated[str, typer.Option(help="paper or strict.")] = "paper",
    toolset: Annotated[str, typer.Option(help="paper or typed.")] = "paper",
    max_steps: Annotated[int | None, typer.Option(help="Steps; the task's own budget by default.")] = None,
    render_size: Annotated[int, typer.Option(help="Pixels of the agent's renders.")] = 384,
    reference_size: Annotated[int, typer.Option(help="Pixels of the reference.")] = 384,
    samples: Annotated[int, typer.Option(help="Samples per pixel.")] = 16,
    engine: Annotated[str, typer.Option(help="auto, cycles, workbench or eevee.")] = "auto",
    isolation: Annotated[str, typer.Option(help="auto, or off to run agent code unconfined.")] = "auto",
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
    if env not in ENVS:
        raise ValueError(f"there is no environment {env!r}; there are {', '.join(ENVS)}")
    import anyio

    # Late, since mcp is an extra; the player first, since it says how to get it.
    from sceneact_gym.mcp_player import ServerConfig
    from sceneact_gym.mcp_server import serve_http, serve_stdio

    kwargs: dict[str, Any] = {
        "split": split,
        "source": source,
        "protocol": protocol,
        "toolset": toolset,
        "max_steps": max_steps,
        "render_size": render_size,
        "reference_size": reference_size,
        "render": {"samples": samples, "engine": engine},
        "isolation": isolation,
    }
    name = next(task.name for task in TASKS.values() if task.env_id == env)
    folder = out or Path("runs") / f"{env.split('/')[-1].lower()}-mcp"
    config = ServerConfig(env, name, EpisodeConfig(**kwargs), folder, case, image_bytes, kwargs)
    if http:
        anyio.run(serve_http, config, host, port, idle)
    else:
        anyio.run(serve_stdio, config)
