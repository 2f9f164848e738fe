"""One worker process, from the parent's side: start it, ask it, end it.

Every question has a deadline. Whatever goes wrong with the process itself (it dies, hangs, talks nonsense, fills the
disk) ends in its death and a `WorkerFault`; the caller decides what to do about it. Nothing it says is trusted.
"""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import signal
import struct
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Literal

from sceneact_gym.blender import isolation
from sceneact_gym.blender.locate import Blender
from sceneact_gym.errors import SceneActError

IsolationMode = Literal["auto", "off"]

HERE = Path(__file__).resolve().parent
WORKER_FILES = [HERE / "worker.py", HERE / "worker_ops.py"]
HEADER = struct.Struct("<4sIQ")
MAGIC = b"SAG1"
JSON_LIMIT = 32 << 20
BLOB_LIMIT = 1 << 30
LOG_TAIL = 64 << 10
FILES_LIMIT = 10_000


class WorkerFault(SceneActError):
    """The worker is gone or cannot be used any more; it has been killed.

    Attributes:
        kind: `deadline`, `died`, `cancelled`, `protocol` or `disk`.
    """

    def __init__(self, kind: str, message: str) -> None:
        """Keeps the kind beside the message."""
        super().__init__(message)
        self.kind = kind


class OperationError(SceneActError):
    """The worker is fine, but the operation was refused or failed; the message is meant for the agent."""


def _new_spawner() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(1, thread_name_prefix="sceneact-spawner")


# The kernel kills a worker when the *thread* that started it ends (PR_SET_PDEATHSIG). One thread that lives as long as
# the process starts them all, so that a worker does not die with a short-lived thread of the user's.
_spawner = _new_spawner()


def _renew_spawner() -> None:
    global _spawner
    _spawner = _new_spawner()


os.register_at_fork(after_in_child=_renew_spawner)


class WorkerProcess:
    """A running worker.

    Args:
        blender: the Blender to run.
        folder: its own folder, the only one that it can write; it must exist and be empty.
        mode: `auto` confines it, `off` does not.
        memory_limit: bytes of address space.
        disk_limit: bytes that its folder may hold.
    """

    def __init__(
        self, blender: Blender, folder: Path, *, mode: IsolationMode, memory_limit: int, disk_limit: int
    ) -> None:
        """Starts the process; it answers once Blender is imported."""
        self.folder = folder
        self.disk_limit = disk_limit
        self.log = bytearray()
        self._number = 0
        request_end, self._requests = os.pipe()
        self._answers, answer_end = os.pipe()
        self._output, output_end = os.pipe()
        ends = (request_end, answer_end, output_end)
        try:
            binary = blender.path if blender.kind == "binary" else None
            read = isolation.read_paths(WORKER_FILES, binary) if mode != "off" else []
            argv = isolation.launch_argv(
                blender.command(WORKER_FILES[0], [str(request_end), str(answer_end)]),
                folder=folder,
                env=_environment(folder),
                read=read,
                mode=mode,
                memory_limit=memory_limit,
                file_limit=disk_limit,
                parent_pid=os.getpid(),
            )
            self._process: subprocess.Popen[bytes] = _spawner.submit(
                subprocess.Popen,
                argv,
                stdin=subprocess.DEVNULL,
                stdout=output_end,
                stderr=output_end,
                pass_fds=(request_end, answer_end),
                cwd=folder,
                start_new_session=True,
            ).result()
        except BaseException as problem:
            for fd in (self._requests, self._answers, self._output):
                os.close(fd)
            if isinstance(problem, OSError):  # No memory or no process left.
                raise WorkerFault("died", f"its process could not be started ({problem.strerror})") from problem
            raise
        finally:
            for fd in ends:
                os.close(fd)
        self._owner = os.getpid()
        for fd in (self._requests, self._answers, self._output):
            os.set_blocking(fd, False)
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._answers, selectors.EVENT_READ)
        self._selector.register(self._output, selectors.EVENT_READ)
        self._closed = False
        self._cancelled = False

    @property
    def pid(self) -> int:
        """The process id, which is also its process group."""
        return self._process.pid

    @property
    def alive(self) -> bool:
        """Whether it can still be asked."""
        return not self._closed and self._process.poll() is None

    def limit_cores(self, count: int) -> None:
        """Lets the process run on so many cores only; 0 takes all of this process's."""
        cores = sorted(os.sched_getaffinity(0))
        wanted = cores[:count] if 0 < count < len(cores) else cores
        with contextlib.suppress(OSError, ValueError):
            for thread in os.listdir(f"/proc/{self.pid}/task"):
                os.sched_setaffinity(int(thread), wanted)

    def resident_bytes(self) -> int:
        """Its resident memory; 0 when it cannot be read."""
        try:
            return int(Path(f"/proc/{self.pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
        except (OSError, IndexError, ValueError):
            return 0

    def call(
        self, operation: str, args: dict[str, Any] | None = None, blobs: tuple[bytes, ...] = (), *, deadline: float
    ) -> tuple[Any, list[bytes]]:
        """Asks one operation.

        Args:
            operation: a name in `worker_ops.OPERATIONS`.
            args: its keyword arguments, JSON values.
            blobs: its leading arguments, bytes.
            deadline: seconds until the process group is killed.

        Returns:
            The JSON result and the bytes that came with it; untrusted.

        Raises:
            WorkerFault: the worker did not answer properly; it has been killed.
            OperationError: the operation was refused or failed; the worker goes on.
        """
        if self._closed:
            raise WorkerFault("died", "Blender is not running")
        self._number += 1
        message = {"id": self._number, "op": operation, "args": args or {}, "blobs": [len(blob) for blob in blobs]}
        text = json.dumps(message).encode()
        request = b"".join([HEADER.pack(MAGIC, len(text), sum(map(len, blobs))), text, *blobs])
        try:
            answer, data = self._exchange(request, time.monotonic() + deadline, deadline)
            if operation == "execute":
                self._check_disk()
        except BaseException:
            # Also KeyboardInterrupt: half an answer would be read as the next one.
            self.kill()
            raise
        error = answer.get("error")
        if error is not None:
            raise OperationError(str(error.get("message"))[:4000])
        return answer.get("result"), data

    def kill(self) -> None:
        """Kills the process group and frees everything; safe to call twice."""
        if self._closed:
            return
        self._closed = True
        if self._owner == os.getpid():
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
            self._drain()
        else:  # A forked copy of the owner: the process is not ours to end or to wait for.
            self._process.returncode = 0
        self._selector.close()
        for fd in (self._requests, self._answers, self._output):
            os.close(fd)

    def cancel(self) -> None:
        """Ends the process from another thread; the `call` that waits for its answer raises a `WorkerFault`."""
        self._cancelled = True
        if self._process.returncode is None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, signal.SIGKILL)

    # --- the exchange ---------------------------------------------------------------------------------------------

    def _exchange(self, request: bytes, end: float, deadline: float) -> tuple[dict[str, Any], list[bytes]]:
        """Writes the request and reads the answer in one loop, so that neither side can block the other."""
        unsent = memoryview(request)
        # A small request fits into the pipe at once; only what is left has to wait for room.
        unsent = unsent[self._write(unsent) :]
        if unsent:
            self._selector.register(self._requests, selectors.EVENT_WRITE)
        received = bytearray()
        needed = HEADER.size
        lengths: tuple[int, int] | None = None
        next_check = time.monotonic() + 0.5
        try:
            while len(received) < needed:
                now = time.monotonic()
                if now >= end:
                    raise WorkerFault("deadline", f"it did not finish within {deadline:g} seconds")
                if now >= next_check:
                    self._check_disk()
                    next_check = now + 0.5
                for key, _ in self._selector.select(min(end, next_check) - now):
                    if key.fd == self._output:
                        self._drain()
                    elif key.fd == self._requests:
                        unsent = unsent[self._write(unsent) :]
                        if not unsent:
                            self._selector.unregister(self._requests)
                    else:
                        received += self._read(needed - len(received))
                if lengths is None and len(received) >= HEADER.size:
                    magic, *sizes = HEADER.unpack_from(received)
                    if magic != MAGIC or sizes[0] > JSON_LIMIT or sizes[1] > BLOB_LIMIT:
                        raise WorkerFault("protocol", "it wrote something else than an answer into its answer pipe")
                    lengths = (sizes[0], sizes[1])
                    needed = HEADER.size + sum(lengths)
        finally:
            with contextlib.suppress(KeyError):
                self._selector.unregister(self._requests)
        assert lengths is not None
        return self._parse(received, *lengths)

    def _parse(self, received: bytearray, json_length: int, blob_length: int) -> tuple[dict[str, Any], list[bytes]]:
        split = HEADER.size + json_length
        try:
            answer = json.loads(received[HEADER.size : split])
            if answer["id"] != self._number or not isinstance(answer.get("error", {}), (dict, type(None))):
                raise ValueError("the answer is not to this request")
            blobs, start = [], split
            for length in answer["blobs"]:
                if not 0 <= length <= blob_length:
                    raise ValueError("a length is out of range")
                blobs.append(bytes(received[start : start + length]))
                start += length
            if start != len(received):
                raise ValueError("the lengths do not add up")
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as problem:
            raise WorkerFault("protocol", "it wrote a broken answer into its answer pipe") from problem
        return answer, blobs

    def _write(self, data: memoryview) -> int:
        try:
            return os.write(self._requests, data[: 1 << 20])
        except BlockingIOError:
            return 0
        except OSError as problem:
            raise self._death() from problem

    def _read(self, count: int) -> bytes:
        try:
            data = os.read(self._answers, min(count, 1 << 20))
        except BlockingIOError:
            return b""
        if not data:
            raise self._death()
        return data

    def _death(self) -> WorkerFault:
        """Why the pipe ended: the exit code, a signal, or a closed pipe of a process that still runs."""
        for _ in range(50):
            code = self._process.poll()
            if code is not None:
                break
            time.sleep(0.01)
        self._drain()
        if self._cancelled:
            return WorkerFault("cancelled", "the call was cancelled")
        if code is None:
            return WorkerFault("died", "it closed its answer pipe")
        if code < 0:
            names = {int(each): each.name for each in signal.Signals}  # Most real-time signals have no name.
            return WorkerFault("died", f"it was ended by {names.get(-code, f'signal {-code}')}")
        return WorkerFault("died", f"it ended with exit code {code}")

    def _drain(self) -> None:
        """Takes what Blender printed; only the last part is kept."""
        for _ in range(64):
            try:
                data = os.read(self._output, 1 << 16)
            except BlockingIOError:
                return
            if not data:
                with contextlib.suppress(KeyError, ValueError):
                    self._selector.unregister(self._output)
                return
            self.log += data
            del self.log[:-LOG_TAIL]

    def _check_disk(self) -> None:
        size = files = 0
        folders = [os.fspath(self.folder)]
        while folders:
            with contextlib.suppress(FileNotFoundError), os.scandir(folders.pop()) as entries:
                for entry in entries:
                    files += 1
                    if entry.is_dir(follow_symlinks=False):
                        folders.append(entry.path)
                    else:
                        with contextlib.suppress(FileNotFoundError):
                            size += entry.stat(follow_symlinks=False).st_blocks * 512
                    if size > self.disk_limit or files > FILES_LIMIT:
                        raise WorkerFault(
                            "disk", f"its files grew beyond {self.disk_limit >> 20} MiB or {FILES_LIMIT} files"
                        )


def _environment(folder: Path) -> dict[str, str]:
    """A clean environment: nothing of the parent's, no keys, no paths but its own."""
    home = str(folder)
    env = {name: home for name in ("HOME", "TMPDIR", "BLENDER_USER_RESOURCES", "XDG_CACHE_HOME", "XDG_CONFIG_HOME")}
    return {**env, "PATH": "/usr/bin:/bin", "LANG": "C.UTF-8", "PYTHONHASHSEED": "0", "PYTHONDONTWRITEBYTECODE": "1"}


