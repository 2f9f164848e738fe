"""Players as actors of a Ray cluster: their nodes need this package and a Blender, but no common file system.

Records come back as archives through Ray's object store, so that the run folder is the same as that of a local run.
"""

from __future__ import annotations

import io
import itertools
import logging
import os
import shutil
import socket
import tarfile
import tempfile
import time
from pathlib import Path
from typing import Any

from sceneact_gym.bench.executors import Finished, late, lost, with_threads
from sceneact_gym.bench.plan import BenchConfig, Play
from sceneact_gym.bench.player import Player
from sceneact_gym.errors import SceneActError

try:
    # Ray reports how it is used to its makers unless it is told not to, before it starts.
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    import ray
    from ray.exceptions import RayError
except ImportError as missing:
    raise SceneActError("the executor ray needs the package ray: pip install 'sceneact-gym[ray]'") from missing

PREFIX = "sceneact-ray-"
Answer = tuple[str, Any, bytes | None]


class RemotePlayer:
    """A player on some node of the cluster."""

    def __init__(self, config: dict[str, Any], path: str) -> None:
        """Keeps the run; makes nothing yet.

        Args:
            config: of the run, as `BenchConfig.as_dict`.
            path: where an agent's module is looked for besides what is installed: the runner's current folder.
        """
        self._config = config
        self._path = path
        self._player: Player | None = None
        sweep()
        self._folder = Path(tempfile.mkdtemp(prefix=f"{PREFIX}{os.getpid()}-"))

    def play(self, play: Play) -> Answer:
        """One episode: `("result", row, archive of the record)` or `("error", text, None)`."""
        try:
            if self._player is None:
                if Path(self._path).is_dir():
                    os.chdir(self._path)
                self._player = Player(BenchConfig.from_dict(self._config), self._folder)
            row, record = self._player.play(play)
        except Exception as problem:
            return "error", f"{type(problem).__name__}: {problem}", None
        if record is None:
            return "result", row, None
        archive = _pack(record)
        shutil.rmtree(record, ignore_errors=True)
        return "result", row, archive

    def close(self) -> None:
        """Ends Blender and removes what is on the node's disk."""
        if self._player is not None:
            self._player.close()
        shutil.rmtree(self._folder, ignore_errors=True)


class RayExecutor:
    """See `sceneact_gym.bench.executors.Executor`."""

    def __init__(self, config: BenchConfig, folder: Path, jobs: int) -> None:
        """Connects to a cluster.

        See `connect`. Each player asks for one CPU, so that no more run on a node than it has.

        Args:
            config: the run.
            folder: where the records of finished episodes arrive.
            jobs: players at once.

        Raises:
            SceneActError: the cluster does not answer.
        """
        self.jobs = jobs
        self._folder = folder
        self._count = itertools.count(1)
        self._config = config
        self._idle: list[Any] = []
        self._busy: dict[Any, tuple[Any, Play, float]] = {}
        self._began = connect(jobs)
        self._remote: Any = ray.remote(num_cpus=1)(RemotePlayer)

    def start(self, play: Play) -> None:
        """See `Executor`."""
        actor = (
            self._idle.pop()
            if self._idle
            else self._remote.remote(with_threads(self._config, self.jobs).as_dict(), os.getcwd())
        )
        self._busy[actor.play.remote(play)] = (actor, play, time.monotonic() + self._config.time_limit)

    def finished(self) -> Finished:
        """See `Executor`."""
        first, (actor, play, deadline) = min(self._busy.items(), key=lambda item: item[1][2])
        found, _ = ray.wait(list(self._busy), num_returns=1, timeout=max(0.0, deadline - time.monotonic()))
        if not found:
            del self._busy[first]
            ray.kill(actor)
            return late(play, self._config)
        (ready,) = found
        actor, play, _ = self._busy.pop(ready)
        try:
            kind, answer, archive = ray.get(ready)
        except RayError as problem:
            # The actor or its node is dead; the next episode gets a new one.
            return lost(play, f"the player on the Ray cluster has gone: {problem}")
        if kind == "error":
            raise SceneActError(f"{play.case_id} cannot be played: {answer}")
        self._idle.append(actor)
        record = None
        if archive is not None:
            record = self._folder / f"ray-{next(self._count)}"
            _unpack(archive, record)
        return Finished(play, answer, record)

    def close(self) -> None:
        """See `Executor`."""
        try:
            # Those that are busy are not waited for; Ray kills their processes, and their Blenders die with them.
            ray.wait([actor.close.remote() for actor in self._idle], num_returns=len(self._idle), timeout=30)
        except (RayError, ValueError):
            pass
        for actor in [*self._idle, *(actor for actor, *_ in self._busy.values())]:
            ray.kill(actor)
        self._idle.clear()
        self._busy.clear()
        if self._began:
            ray.shutdown()
        sweep()


def connect(jobs: int) -> bool:
    """Connects this process to a cluster, if it is not connected.

    The environment variable `RAY_ADDRESS` names one (`auto`: the one that runs on this machine); without it, one is
    started on this machine, which ends with this process.

    Args:
        jobs: how many players a cluster of our own must hold, however few cores there are.

    Returns:
        Whether it was not connected before.

    Raises:
        SceneActError: the cluster does not answer.
    """
    if ray.is_initialized():
        return False
    address = os.environ.get("RAY_ADDRESS") or "local"
    cores = max(jobs, os.cpu_count() or 1) if address == "local" else None
    try:
        _check(address)
        ray.init(address, num_cpus=cores, logging_level=logging.ERROR, log_to_driver=False, include_dashboard=False)
    except (RayError, ConnectionError, OSError, RuntimeError, ValueError) as problem:
        raise SceneActError(f"the Ray cluster {address} cannot be used: {problem}") from problem
    return True


def sweep() -> None:
    """Removes what players that were killed have left on this machine."""
    for folder in Path(tempfile.gettempdir()).glob(f"{PREFIX}*-*"):
        process = folder.name.removeprefix(PREFIX).partition("-")[0]
        if process.isdigit() and not Path("/proc", process).exists():
            shutil.rmtree(folder, ignore_errors=True)


def _check(address: str) -> None:
    """Ray waits for minutes for a cluster that is not there; OSError tells it at once."""
    host, _, port = address.rpartition("://")[2].rpartition(":")
    if host and port.isdigit():
        socket.create_connection((host, int(port)), timeout=10).close()


def _pack(folder: Path) -> bytes:
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w") as archive:
        archive.add(folder, arcname=".")
    return data.getvalue()


def _unpack(data: bytes, folder: Path) -> None:
    folder.mkdir(parents=True)
    with tarfile.open(fileobj=io.BytesIO(data)) as archive:
        # data: no links, no devices, nothing outside of the folder.
        archive.extractall(folder, filter="data")
