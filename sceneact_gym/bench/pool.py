"""Runs a benchmark: several players at once, each in a process of its own, and a run folder that survives anything."""

from __future__ import annotations

import multiprocessing
import os
import shutil
from collections import deque
from collections.abc import Callable
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

from sceneact_gym.bench.folder import RunFolder
from sceneact_gym.bench.plan import Play, plays
from sceneact_gym.bench.player import load_agent, serve
from sceneact_gym.errors import SceneActError

TRIES = 3
"""How often an episode is played in one run while Blender, the host or the agent's code fails."""

Tell = Callable[[dict[str, Any]], None]


def run_bench(folder: RunFolder, jobs: int = 1, tell: Tell = lambda row: None) -> list[dict[str, Any]]:
    """Plays what a run folder lacks.

    Args:
        folder: the run; episodes that have a result which counts are not played again.
        jobs: players at once.
        tell: is called with each new row.

    Returns:
        All rows of the folder.

    Raises:
        SceneActError: an episode cannot be played at all (no such case, no usable Blender).
        OSError: the folder cannot be written; what it has stays.
    """
    if jobs < 1:
        raise ValueError(f"jobs must be at least 1; it is {jobs}")
    load_agent(folder.config.agent)
    done = folder.done()
    waiting = deque(play for play in plays(folder.config) if play.key not in done)
    tries: dict[str, int] = {}
    players: dict[Connection, _Process] = {}
    try:
        while waiting or players:
            while waiting and len(players) < jobs:
                player = _Process(folder, jobs)
                players[player.pipe] = player
                player.give(waiting.popleft())
            for pipe in wait(list(players)):
                assert isinstance(pipe, Connection)
                player = players[pipe]
                play, row = player.take()
                tries[play.key] = tries.get(play.key, 0) + 1
                row = _keep(folder, player, play, row)
                folder.add(row)
                tell(row)
                if row["status"] == "infra_error" and tries[play.key] < TRIES:
                    # Behind the others: what is wrong with the host may pass.
                    waiting.append(play)
                if player.alive and waiting:
                    player.give(waiting.popleft())
                else:
                    players.pop(pipe).end()
        return folder.rows
    finally:
        for player in players.values():
            player.kill()


def _keep(folder: RunFolder, player: _Process, play: Play, row: dict[str, Any]) -> dict[str, Any]:
    """Moves the episode's record to where it stays; the row says where."""
    attempt = folder.attempts(play.key) + 1
    name = f"{play.key}-a{attempt}"
    trace = row.pop("trace", None)
    kept = trace is not None and (player.folder / trace).is_dir()
    if kept:
        os.replace(player.folder / trace, folder.episodes / name)
    return {"key": play.key, "attempt": attempt, "folder": name if kept else None, **row}


class _Process:
    """One player's process."""

    count = 0

    def __init__(self, run: RunFolder, jobs: int) -> None:
        _Process.count += 1
        self.folder: Path = run.playing / f"{os.getpid()}-{_Process.count}"
        self.folder.mkdir(parents=True)
        options = {"source": run.config.source, "split": run.config.split, **run.config.options}
        render = dict(options.get("render") or {})
        if jobs > 1 and not render.get("threads"):
            # Each Blender would otherwise take all cores; the number of threads does not change pixels.
            render["threads"] = max(1, (os.cpu_count() or 1) // jobs)
        options["render"] = render
        # A fresh interpreter: a forked one would share this one's threads and locks.
        context = multiprocessing.get_context("spawn")
        self.pipe, theirs = context.Pipe()
        self.play: Play | None = None
        self._process = context.Process(
            target=serve, args=(theirs, run.config.agent, options, str(self.folder)), name="sceneact-player"
        )
        self._process.start()
        theirs.close()

    @property
    def alive(self) -> bool:
        return self._process.is_alive()

    def give(self, play: Play) -> None:
        """Asks for an episode."""
        self.play = play
        try:
            self.pipe.send(play)
        except OSError:
            pass  # It is dead; `take` says so.

    def take(self) -> tuple[Play, dict[str, Any]]:
        """The episode and its result; a player that died is a fault of the host."""
        assert self.play is not None
        play = self.play
        try:
            kind, answer = self.pipe.recv()
        except (EOFError, OSError):
            self._process.join(10)
            return play, {
                "env_id": play.env_id,
                "task": play.task,
                "case_id": play.case_id,
                "repeat": play.repeat,
                "seed": play.seed,
                "status": "infra_error",
                "score": None,
                "reason": f"the player's process ended with exit code {self._process.exitcode}",
                "metrics": {},
            }
        if kind == "error":
            raise SceneActError(f"{play.case_id} cannot be played: {answer}")
        return play, answer

    def end(self) -> None:
        """Lets it finish, and removes its folder."""
        self.pipe.close()
        self._process.join(30)
        self.kill()

    def kill(self) -> None:
        """Ends it at once; its Blender dies with it."""
        self._process.kill()
        self._process.join(10)
        shutil.rmtree(self.folder, ignore_errors=True)
