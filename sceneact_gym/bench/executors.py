"""Where players run: in processes of this machine, or, in `ray_executor.py`, on a cluster."""

from __future__ import annotations

import ctypes
import itertools
import math
import multiprocessing
import os
import shutil
import signal
import sys
import time
from collections import deque
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from sceneact_gym.bench.plan import BenchConfig, Play
from sceneact_gym.bench.player import Player, Say, episode_row, no_score, silent
from sceneact_gym.errors import SceneActError

DEATH_SIGNAL = 1
"""PR_SET_PDEATHSIG of Linux."""


LOOK = 1.0
"""Seconds after which it is looked whether players that say nothing are alive."""


class Finished(NamedTuple):
    """An episode that is over.

    Attributes:
        play: the episode.
        row: its result, see `episode_row`.
        record: the folder of its trace on this machine; None without one.
    """

    play: Play
    row: dict[str, Any]
    record: Path | None


class Executor(Protocol):
    """Plays episodes somewhere, `jobs` at once."""

    jobs: int

    def start(self, play: Play) -> None:
        """Begins an episode; fewer than `jobs` are running."""

    def finished(self) -> Finished:
        """Waits for an episode.

        Raises:
            SceneActError: no episode can be played; the message says why.
        """

    def close(self) -> None:
        """Ends what is running, without a result."""


def lost(play: Play, reason: str) -> Finished:
    """An episode whose player has gone: a fault of the host."""
    return Finished(play, episode_row(play, no_score(reason), 0.0), None)


def late(play: Play, config: BenchConfig) -> Finished:
    """An episode that does not end: of the agent, of its model or of the host, nobody knows."""
    return lost(play, f"the episode did not end within the time limit of {config.time_limit:g} seconds")


class LocalExecutor:
    """Players in processes of this machine. They and their Blenders die with this process."""

    def __init__(self, config: BenchConfig, folder: Path, jobs: int = 1, say: Say = silent) -> None:
        """Starts nothing yet.

        Args:
            config: the run.
            folder: for unfinished episodes.
            jobs: players at once.
            say: is called with a line of text for everything that a player does.
        """
        self.jobs = jobs
        self._config = config
        # Absolute: an agent may change the current folder of its process.
        self._folder = folder.absolute()
        self._say = say
        self._count = itertools.count(1)
        self._idle: deque[_Process] = deque()
        self._busy: dict[Connection, _Process] = {}

    def start(self, play: Play) -> None:
        """See `Executor`."""
        while self._idle and not self._idle[0].alive:
            self._idle.popleft().kill()
        if not self._idle:
            folder = self._folder / f"{os.getpid()}-{next(self._count)}"
            self._idle.append(_Process(self._config, folder, self.jobs))
        player = self._idle.popleft()
        self._busy[player.pipe] = player
        player.deadline = time.monotonic() + self._config.time_limit
        player.give(play)

    def finished(self) -> Finished:
        """See `Executor`."""
        while True:
            slowest = min(self._busy.values(), key=lambda player: player.deadline)
            left = slowest.deadline - time.monotonic()
            ready = wait(list(self._busy), max(0.0, min(left, LOOK)))
            if not ready and left <= 0:
                del self._busy[slowest.pipe]
                slowest.kill()
                return late(slowest.play, self._config)
            if not ready:
                # A process that the agent forked may hold the pipe of a dead player open.
                ready = [pipe for pipe, player in self._busy.items() if not player.alive]
            for pipe in ready:
                assert isinstance(pipe, Connection)
                player = self._busy[pipe]
                answer = player.take()
                if isinstance(answer, str):
                    self._say(answer)
                    continue
                del self._busy[pipe]
                self._idle.append(player)
                return answer

    def close(self) -> None:
        """See `Executor`."""
        for player in self._idle:
            player.end()
        for player in self._busy.values():
            player.kill()
        self._idle.clear()
        self._busy.clear()


class _Process:
    """One player's process."""

    play: Play

    def __init__(self, config: BenchConfig, folder: Path, jobs: int) -> None:
        self.folder = folder
        folder.mkdir(parents=True)
        # A fresh interpreter: a forked one would share this one's threads and locks.
        context = multiprocessing.get_context("spawn")
        self.pipe, theirs = context.Pipe()
        self.deadline = math.inf
        self._process = context.Process(
            target=serve, args=(theirs, with_threads(config, jobs).as_dict(), str(folder)), name="sceneact-player"
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

    def take(self) -> Finished | str:
        """A line of text, or the episode at its end; a player that died is a fault of the host."""
        try:
            if not self.alive and not self.pipe.poll():
                raise EOFError
            kind, *answer = self.pipe.recv()
        except (EOFError, OSError):
            self._process.join(10)
            reason = f"the player's process ended with exit code {self._process.exitcode}"
            # One that only closed its pipe is of no use any more.
            self.kill()
            return lost(self.play, reason)
        if kind == "line":
            return str(answer[0])
        if kind == "error":
            raise SceneActError(f"{self.play.case_id} cannot be played: {answer[0]}")
        return Finished(self.play, *answer)

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


def with_threads(config: BenchConfig, jobs: int) -> BenchConfig:
    """The configuration of one of several players: each Blender would otherwise take all cores.

    The number of threads does not change pixels.
    """
    render = dict(config.options.get("render") or {})
    if jobs > 1 and not render.get("threads"):
        render["threads"] = max(1, (os.cpu_count() or 1) // jobs)
    return BenchConfig.from_dict({**config.as_dict(), "options": {**config.options, "render": render}})


def serve(pipe: Connection, config: dict[str, Any], record_dir: str) -> None:
    """The life of a player's process: plays what comes through the pipe, answers with results, ends with the pipe."""
    parent = os.getppid()
    if sys.platform == "linux":
        # The runner may be killed in the middle of an episode; nothing of it may live on.
        ctypes.CDLL(None, use_errno=True).prctl(DEATH_SIGNAL, signal.SIGKILL)
        if os.getppid() != parent:
            return
    # Ctrl-C reaches the whole terminal group; the runner decides what happens.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    player = None
    try:
        while True:
            try:
                play = pipe.recv()
            except EOFError:
                return
            try:
                if player is None:
                    made = BenchConfig.from_dict(config)
                    player = Player(made, Path(record_dir), lambda line: pipe.send(("line", line)))
                pipe.send(("result", *player.play(play)))
            except Exception as problem:
                pipe.send(("error", f"{type(problem).__name__}: {problem}"))
    finally:
        if player is not None:
            player.close()
