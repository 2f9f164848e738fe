"""A persistent Blender that survives what agents do to it.

A session owns one worker at a time, a *vault* of scene snapshots that the worker can neither read nor write, and a
*journal* of the deterministic changes since the newest snapshot. When a worker dies or hangs, a new one opens the
newest snapshot that still opens, the journal is replayed, and the caller gets a `ToolFault`: the agent's earlier work
is there.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import secrets
import shutil
import stat
import tempfile
import weakref
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sceneact_gym.blender import isolation
from sceneact_gym.blender.locate import Blender, find_blender
from sceneact_gym.blender.process import IsolationMode, OperationError, WorkerFault, WorkerProcess
from sceneact_gym.blender.render import ENGINES, Engine, RenderSettings, decode_png, is_constant
from sceneact_gym.errors import InfraError, SceneActError

PREFIX = "sceneact-"
START_DEADLINE = 120.0
SCENE_DEADLINE = 120.0
"""Seconds for the session's own work on a scene: import, snapshot, restore."""


class ToolFault(SceneActError):
    """Blender failed in an agent's call; it runs again and the scene is as before the call. Meant for the agent."""


@dataclass(frozen=True)
class SessionSettings:
    """How a session runs Blender.

    Attributes:
        isolation: `auto` confines the worker by the kernel or refuses to start; `off` does not confine it.
        render: default render settings.
        call_deadline: seconds for one call of the agent's without a render.
        render_deadline: seconds for one render.
        memory_limit: bytes of address space of the worker.
        disk_limit: bytes that the worker's folder may hold.
        recycle_episodes: episodes after which the worker is replaced by a fresh one.
        recycle_memory: bytes of resident memory above which it is replaced between episodes.
        cached_scenes: prepared scenes that are kept for later episodes of the same case.
    """

    isolation: IsolationMode = "auto"
    render: RenderSettings = RenderSettings()
    call_deadline: float = 60.0
    render_deadline: float = 180.0
    memory_limit: int = 8 << 30
    disk_limit: int = 2 << 30
    recycle_episodes: int = 200
    recycle_memory: int = 3 << 30
    cached_scenes: int = 8

    def __post_init__(self) -> None:
        """Checks the isolation mode.

        Raises:
            ValueError: it is neither `auto` nor `off`.
        """
        if self.isolation not in ("auto", "off"):
            raise ValueError(f"isolation must be 'auto' or 'off'; it is {self.isolation!r}")


class BlenderSession:
    """One Blender for many episodes. Nothing is started before `start` or `load`."""

    def __init__(self, settings: SessionSettings | None = None, blender: Blender | None = None) -> None:
        """Keeps the settings."""
        self.settings = settings or SessionSettings()
        self.blender = blender
        self.engine: Engine | None = None
        self.version = ""
        self.restarts = 0
        self._home: _Home | None = None
        self._worker: WorkerProcess | None = None
        self._asked: WorkerProcess | None = None
        self._finalizer: weakref.finalize | None = None
        self._bases: OrderedDict[str, Path] = OrderedDict()
        self._base: Path | None = None
        self._snapshots: list[Path] = []
        self._journal: list[tuple[str, dict[str, Any], tuple[bytes, ...]]] = []
        self._dirty = False
        self._files: Mapping[str, bytes] = {}
        self._tainted = False
        self._episodes = 0
        self._saved = 0

    # --- life -----------------------------------------------------------------------------------------------------

    @property
    def isolation_level(self) -> str:
        """The confinement in force, for example `landlock-7+seccomp`, or `off`."""
        return isolation.LEVEL_OFF if self.settings.isolation == "off" else isolation.probe().level

    @property
    def running(self) -> bool:
        """Whether a worker is alive."""
        return self._worker is not None and self._worker.alive

    @property
    def pid(self) -> int | None:
        """The worker's process id."""
        return self._worker.pid if self._worker is not None and self._worker.alive else None

    @property
    def log(self) -> str:
        """The last part of what Blender printed."""
        return self._worker.log.decode(errors="replace") if self._worker is not None else ""

    def start(self) -> None:
        """Starts Blender if it does not run, proves that it is confined and that it can render.

        Raises:
            BlenderNotFound: no usable Blender.
            IsolationUnavailable: the kernel cannot confine it.
            InfraError: it does not start, or no engine renders.
        """
        if self.running:
            return
        if self.blender is None:
            self.blender = find_blender()
        try:
            self._start_worker()
            if self.engine is None:
                self.engine = self._choose_engine(self.settings.render.engine)
        except WorkerFault as fault:
            raise InfraError(f"Blender did not start: {fault}. Its last words: {self.log[-1000:]!r}") from fault

    def close(self) -> None:
        """Ends the worker and removes its files; safe to call twice."""
        if self._finalizer is not None:
            self._finalizer.detach()
            self._finalizer = None
        _end(self._worker, self._home)
        self._worker = self._home = self._base = None
        self._bases.clear()
        self._forget_scene()

    # --- episodes -------------------------------------------------------------------------------------------------

    def load(
        self, key: str, build: Callable[[BlenderSession], None], files: Mapping[str, bytes] | None = None
    ) -> None:
        """Begins an episode with a fresh scene.

        Args:
            key: identifies the scene; a scene that was built before is opened from its snapshot.
            build: builds it with `call`, from an empty scene.
            files: what agent code finds in its current folder, by relative path; written again whenever Blender has to
                be replaced.

        Raises:
            InfraError: Blender failed twice at it.
        """
        self._forget_scene()
        self._recycle()
        old, self._files = self._files, files or {}
        if self.running and (old or self._files):
            self._change_files(old)
        for attempt in (1, 2):
            try:
                self.start()
                self._open_base(key, build)
                break
            except WorkerFault as fault:
                if attempt == 2:
                    raise InfraError(f"Blender failed twice to prepare the scene: {fault}") from fault
        self._base = self._bases[key]
        self._bases.move_to_end(key)
        while len(self._bases) > self.settings.cached_scenes:
            self._bases.popitem(last=False)[1].unlink()
        self._episodes += 1

    def call(self, operation: str, *blobs: bytes, **args: Any) -> Any:
        """An operation of the session's own, outside of the agent's calls, without recovery.

        Raises:
            WorkerFault: the worker is gone.
            OperationError: the operation failed.
        """
        assert self._worker is not None
        return self._worker.call(operation, args, blobs, deadline=SCENE_DEADLINE)[0]

    def tool(
        self,
        operation: str,
        args: dict[str, Any],
        *,
        blobs: tuple[bytes, ...] = (),
        changes: str = "nothing",
        deadline: float | None = None,
    ) -> tuple[Any, list[bytes]]:
        """An operation of the agent's.

        Args:
            operation: its name.
            args: its arguments, JSON values.
            blobs: its leading arguments, bytes.
            changes: what it does to the scene: `nothing`, `journal` (the same change again when it is replayed), or
                `anything` (agent code).
            deadline: seconds; `call_deadline` by default.

        Raises:
            ToolFault: Blender died or hung; it runs again and the scene is as before the call.
            OperationError: the operation was refused or failed.
            InfraError: Blender cannot be brought back.
        """
        if not self.running:
            lost = self._dirty
            self._recover()
            if lost:
                raise ToolFault(
                    "Blender ended by itself after the last code; the scene is as it was before that code. "
                    "This call was not run."
                )
        if self._dirty:
            self.snapshot()
        assert self._worker is not None
        self._dirty = self._dirty or changes == "anything"
        self._tainted = self._tainted or changes == "anything"
        self._asked = self._worker
        try:
            answer = self._worker.call(
                operation, args, blobs, deadline=deadline or self.settings.call_deadline
            )
        except WorkerFault as fault:
            self._asked = None
            self._recover()
            raise ToolFault(
                f"Blender was restarted because {_because(fault)}. The scene is as it was before this call."
            ) from fault
        finally:
            self._asked = None
        if changes == "journal":
            self._journal.append((operation, args, blobs))
            # A long journal costs more to replay than a snapshot costs to write.
            self._dirty = self._dirty or len(self._journal) >= 64
        return answer

    def cancel(self, *, own_work: bool = False) -> bool:
        """Cancels, from another thread, the call that `tool` waits for: it ends as a `ToolFault`.

        Args:
            own_work: also end what the session does of its own (start, build, restore), which may then fail.

        Returns:
            Whether there was something to end.
        """
        worker = self._worker if own_work else self._asked
        if worker is not None:
            worker.cancel()
        return worker is not None

    def query(self, operation: str, **args: Any) -> Any:
        """The JSON part of `query_with_data`."""
        return self.query_with_data(operation, **args)[0]

    def query_with_data(self, operation: str, **args: Any) -> tuple[Any, list[bytes]]:
        """Asks for the scene's final state; survives what the agent left behind (handlers, threads, a dead Blender).

        Raises:
            InfraError: no snapshot of the scene could answer.
            OperationError: the operation itself failed in a fresh Blender.
        """
        for attempt in (1, 2, 3):
            try:
                return self.tool(operation, args, deadline=SCENE_DEADLINE)
            except ToolFault as fault:
                problem: Exception = fault
            except OperationError as refused:
                problem = refused
                if attempt == 3:
                    raise
                # Agent code may have broken the worker itself: ask a fresh one.
                self._recover()
        raise InfraError(f"Blender could not tell the scene's state: {problem}") from problem

    def snapshot(self) -> None:
        """Keeps the scene as it is now.

        Raises:
            ToolFault: Blender failed at it; the scene is as at the snapshot before.
        """
        assert self._worker is not None
        try:
            self._snapshots.append(self._save())
        except (WorkerFault, OperationError) as fault:
            self._recover()
            raise ToolFault(
                f"the scene could not be saved because {_because(fault)}; it is as it was before the last code. "
                "This call was not run."
            ) from fault
        self._journal.clear()
        self._dirty = False
        while len(self._snapshots) > 3:
            self._snapshots.pop(0).unlink()

    def undo(self) -> None:
        """Drops what the last agent code did: puts the scene back as it was before.

        Raises:
            InfraError: Blender cannot be brought back.
        """
        newest = self._snapshots[-1] if self._snapshots else self._base
        assert newest is not None
        try:
            self._open(newest)
            for operation, args, blobs in self._journal:
                self.call(operation, *blobs, **args)
            self._dirty = False
        except (WorkerFault, OperationError):
            self._recover()

    def render(
        self, settings: RenderSettings | None = None, *, by_agent: bool = True, **view: Any
    ) -> NDArray[np.uint8]:
        """A picture of the scene.

        Args:
            settings: the session's by default; the engine `auto` is the proven one.
            by_agent: False for the session's own pictures: faults are then raised as they are.
            view: `camera`, `matrix`, `location` with `look_at`, `fov_x_deg`, `frame`.

        Returns:
            (H, W, 3) uint8 RGB on white.

        Raises:
            ToolFault: Blender died or hung.
            OperationError: the view is wrong, or the picture is broken.
        """
        settings = self._resolved(settings or self.settings.render)
        args = {"settings": settings.as_dict(), **{name: value for name, value in view.items() if value is not None}}
        if by_agent:
            _, blobs = self.tool("render", args, deadline=self.settings.render_deadline)
        else:
            assert self._worker is not None
            _, blobs = self._worker.call("render", args, deadline=self.settings.render_deadline)
        try:
            return decode_png(blobs[0] if blobs else b"", (settings.width, settings.height))
        except ValueError as problem:
            raise OperationError(f"the rendered picture is broken: {problem}") from problem

    # --- inside ---------------------------------------------------------------------------------------------------

    def _change_files(self, old: Iterable[str] = ()) -> None:
        """Puts the episode's files into the worker's folder, in place of `old`.

        Only into a folder that no agent code has had: it could have laid links there that lead elsewhere.
        """
        assert self._worker is not None and not self._tainted
        for name in old:
            (self._worker.folder / name).unlink(missing_ok=True)
        try:
            for name, data in self._files.items():
                path = self._worker.folder / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(data)
        except OSError as problem:
            self._worker.kill()
            raise InfraError(f"the episode's files cannot be written ({problem.strerror})") from problem

    def _start_worker(self) -> None:
        if self._worker is not None:
            self._worker.kill()
        if self._home is None:
            self._home = _Home()
        assert self.blender is not None
        self._worker = WorkerProcess(
            self.blender,
            self._home.new_worker_folder(),
            mode=self.settings.isolation,
            memory_limit=self.settings.memory_limit,
            disk_limit=self.settings.disk_limit,
        )
        if self._finalizer is not None:
            self._finalizer.detach()
        self._finalizer = weakref.finalize(self, _end, self._worker, self._home)
        self.restarts += 1
        self._tainted = False
        self._episodes = 0
        # Blender's task scheduler counts the cores once, when it starts, and its idle threads then wait busily: with a
        # fixed number of render threads they would take the cores of other environments.
        self._worker.limit_cores(self.settings.render.threads)
        confined = self.settings.isolation != "off"
        hello, _ = self._worker.call(
            "hello", {"canary": str(self._home.canary) if confined else ""}, deadline=START_DEADLINE
        )
        self._worker.limit_cores(0)
        self.version = hello["blender"]
        self._change_files()
        if confined and hello["escaped"]:
            self._worker.kill()
            raise isolation.IsolationUnavailable(
                f"the confined Blender {' and '.join(hello['escaped'])}: this kernel does not hold it. "
                "Pass isolation='off' to run it unconfined; results then say so."
            )

    def _choose_engine(self, wanted: Engine) -> Engine:
        """The wanted engine, or for `auto` the first that renders a non-empty frame here."""
        assert self.blender is not None
        problems = []
        for engine in ENGINES if wanted == "auto" else (wanted,):
            key = (self.blender.path, self.blender.version, engine)
            if key not in _proven:
                _proven[key] = self.prove_engine(engine)
            if not _proven[key]:
                return engine
            problems.append(f"{engine}: {_proven[key]}")
        raise InfraError(
            f"no render engine works on this machine ({'; '.join(problems)}). `sceneact doctor` tells what to do."
        )

    def prove_engine(self, engine: Engine) -> str:
        """Renders a lit cube; returns what is wrong, or an empty string when the picture shows something."""
        settings = RenderSettings(engine=engine, samples=1, width=32, height=32)
        try:
            if not self.running:
                self._start_worker()
            self.call("new_scene")
            self.call("add_cube")
            picture = self.render(
                settings, by_agent=False, location=[3.0, -4.0, 3.0], look_at=[0.0, 0.0, 0.0], fov_x_deg=50.0
            )
        except (WorkerFault, OperationError) as problem:
            if isinstance(problem, WorkerFault) and problem.kind == "cancelled":
                raise  # It says nothing about the engine.
            if not self.running:
                self._start_worker()
            return str(problem)
        return "the picture is empty" if is_constant(picture) else ""

    def renderer(self) -> str:
        """The name of the graphics device that Workbench and EEVEE use, or `unknown`."""
        try:
            return str(self.call("renderer"))[:200]
        except (WorkerFault, OperationError):
            return "unknown"

    def _resolved(self, settings: RenderSettings) -> RenderSettings:
        return replace(settings, engine=self.engine) if settings.engine == "auto" and self.engine else settings

    def _open_base(self, key: str, build: Callable[[BlenderSession], None]) -> None:
        if key in self._bases:
            self._open(self._bases[key])
            return
        self.call("new_scene")
        build(self)
        base = self._save()
        # Opened from the snapshot also the first time, so that the first episode starts exactly like all later ones.
        self._open(base)
        self._bases[key] = base

    def _save(self) -> Path:
        """Writes a snapshot and moves it to where the worker cannot reach it."""
        assert self._worker is not None and self._home is not None
        written = self._worker.folder / "snapshot.blend"
        self._worker.call("save_scene", {"path": str(written)}, deadline=SCENE_DEADLINE)
        self._saved += 1
        kept = self._home.vault / f"{self._saved}.blend"
        try:
            os.rename(written, kept)
            # The worker's folder is the agent's: a link instead of a file must not lead out of it.
            if not stat.S_ISREG(kept.lstat().st_mode):
                kept.unlink()
                raise OSError("the snapshot is not a file")
        except OSError as problem:
            raise OperationError("the saved scene disappeared from Blender's folder") from problem
        return kept

    def _open(self, snapshot: Path) -> None:
        assert self._worker is not None
        copy = self._worker.folder / "scene.blend"
        try:
            with contextlib.suppress(FileNotFoundError):
                copy.unlink()
            shutil.copyfile(snapshot, copy, follow_symlinks=False)
        except OSError as problem:
            # The folder is the agent's: a directory may have taken the file's place. The next worker gets a new one.
            self._worker.kill()
            raise WorkerFault("disk", f"a scene could not be put into its folder ({problem.strerror})") from problem
        self._worker.call("open_scene", {"path": str(copy)}, deadline=SCENE_DEADLINE)

    def _recover(self) -> None:
        """A new worker with the newest state that it can open."""
        if self._base is None:
            raise InfraError("Blender is gone and there is no scene to bring back")
        journal, self._journal = self._journal, []
        candidates = [self._base, *self._snapshots]
        problem: Exception | None = None
        while candidates:
            snapshot = candidates.pop()
            try:
                self._start_worker()
                self._open(snapshot)
                for operation, args, blobs in journal:
                    with contextlib.suppress(OperationError):
                        self.call(operation, *blobs, **args)
            except (WorkerFault, OperationError) as fault:
                problem = fault
                journal = []  # It belonged to the snapshot that did not open.
                if snapshot in self._snapshots:
                    self._snapshots.remove(snapshot)
                    snapshot.unlink(missing_ok=True)
                continue
            self._journal = journal
            self._dirty = False
            return
        raise InfraError(f"Blender could not be brought back: {problem}") from problem

    def _forget_scene(self) -> None:
        for snapshot in self._snapshots:
            snapshot.unlink(missing_ok=True)
        self._snapshots, self._journal, self._dirty, self._base = [], [], False, None

    def _recycle(self) -> None:
        """Ends a worker that should not serve another episode; a fresh one is started when it is needed.

        Agent code may leave anything behind in its process (patched functions, threads, handlers), so that no state may
        cross from one episode to the next in a worker that has run any.
        """
        if self._worker is None or not self._worker.alive:
            return
        if (
            self._tainted
            or self._episodes >= self.settings.recycle_episodes
            or self._worker.resident_bytes() > self.settings.recycle_memory
        ):
            self._worker.kill()


_proven: dict[tuple[Path, str, Engine], str] = {}
"""What was wrong with an engine, per Blender; empty text when it works. Proven once per process."""


def _because(fault: Exception) -> str:
    return str(fault).removesuffix(".")


def _end(worker: WorkerProcess | None, home: _Home | None) -> None:
    if worker is not None:
        worker.kill()
    if home is not None:
        home.remove()


class _Home:
    """A session's files: the vault and the workers' folders, in memory where there is room.

    A lock that the kernel frees when the owner dies tells which homes are abandoned; the next session removes those.
    """

    def __init__(self) -> None:
        parent = _memory_folder() or Path(tempfile.gettempdir())
        _sweep(parent)
        token = secrets.token_hex(4)
        self.path = parent / f"{PREFIX}{os.getpid()}-{token}"
        # Locked before the folder exists, so that no sweep takes it for an abandoned one.
        self._lock_path = self.path.with_suffix(".lock")
        self._lock = os.open(self._lock_path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
        fcntl.flock(self._lock, fcntl.LOCK_EX)
        self.vault = self.path / "vault"
        self.path.mkdir(mode=0o700)
        self.vault.mkdir()
        self.canary = self.vault / "canary"
        self.canary.write_text("a confined worker cannot read this")
        self._owner = os.getpid()
        self._workers = 0

    def new_worker_folder(self) -> Path:
        """An empty folder for the next worker; the last one's is removed."""
        shutil.rmtree(self.path / f"worker{self._workers}", ignore_errors=True)
        self._workers += 1
        folder = self.path / f"worker{self._workers}"
        folder.mkdir()
        return folder

    def remove(self) -> None:
        """Removes everything; not from a forked copy of the owner."""
        if self._owner == os.getpid():
            shutil.rmtree(self.path, ignore_errors=True)
            self._lock_path.unlink(missing_ok=True)
        with contextlib.suppress(OSError):
            os.close(self._lock)


def _memory_folder() -> Path | None:
    folder = Path("/dev/shm")
    try:
        usage = os.statvfs(folder)
        return folder if os.access(folder, os.W_OK) and usage.f_bavail * usage.f_frsize > 1 << 30 else None
    except OSError:
        return None


def _sweep(parent: Path) -> None:
    """Removes the homes whose owners died without removing them."""
    for lock_path in parent.glob(f"{PREFIX}*.lock"):
        try:
            if lock_path.lstat().st_uid != os.getuid():
                continue
            lock = os.open(lock_path, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
        except OSError:
            continue
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            home = lock_path.with_suffix("")
            if home.is_dir():
                shutil.rmtree(home, ignore_errors=True)
                lock_path.unlink(missing_ok=True)
        except OSError:
            pass
        finally:
            os.close(lock)
