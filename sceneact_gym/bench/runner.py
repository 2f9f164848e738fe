"""Runs a benchmark: what its run folder lacks is played by an executor, and every result is kept as it comes."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

from sceneact_gym.bench.executors import Executor, LocalExecutor
from sceneact_gym.bench.folder import RunFolder
from sceneact_gym.bench.plan import plays
from sceneact_gym.bench.player import Say, silent

TRIES = 3
"""How often an episode is played in one run while Blender, the host or the agent's code fails."""

EXECUTORS = ("local", "ray")
Tell = Callable[[dict[str, Any]], None]


def run_bench(
    folder: RunFolder, jobs: int = 1, tell: Tell = lambda row: None, executor: str = "local", say: Say = silent
) -> list[dict[str, Any]]:
    """Plays what a run folder lacks.

    A script that calls this needs `if __name__ == "__main__":`, since players are fresh processes that import it.

    Args:
        folder: the run; episodes that have a result which counts are not played again.
        jobs: episodes at once.
        tell: is called with each new row.
        executor: `local`, processes of this machine, or `ray`, a Ray cluster.
        say: is called with a line of text for everything that a local player does.

    Returns:
        All rows of the folder.

    Raises:
        ValueError: an argument is not possible.
        SceneActError: no episode can be played (no usable Blender, no Ray, something that the agent needs).
        OSError: the folder cannot be written; what it has stays.
    """
    if jobs < 1:
        raise ValueError(f"jobs must be at least 1; it is {jobs}")
    folder.check_agent()
    done = folder.done()
    waiting = deque(play for play in plays(folder.config) if play.key not in done)
    if not waiting:
        return folder.rows
    tries: dict[str, int] = {}
    running = 0
    where = open_executor(executor, folder, jobs, say)
    try:
        while waiting or running:
            while waiting and running < where.jobs:
                where.start(waiting.popleft())
                running += 1
            play, row, record = where.finished()
            running -= 1
            tries[play.key] = tries.get(play.key, 0) + 1
            row = folder.keep(row, record)
            tell(row)
            if row["status"] == "infra_error" and tries[play.key] < TRIES:
                # Behind the others: what is wrong with the host may pass.
                waiting.append(play)
        return folder.rows
    finally:
        where.close()


def open_executor(name: str, folder: RunFolder, jobs: int, say: Say) -> Executor:
    """An executor by its name.

    Raises:
        ValueError: there is no such executor.
        SceneActError: Ray is not installed, or its cluster does not answer.
    """
    if name == "local":
        return LocalExecutor(folder.config, folder.playing, jobs, say)
    if name == "ray":
        from sceneact_gym.bench.ray_executor import RayExecutor

        return RayExecutor(folder.config, folder.playing, jobs)
    raise ValueError(f"executor must be one of {', '.join(EXECUTORS)}; it is {name!r}")
