"""Attacks on the confinement, made from inside a confined process, and what a worker must still be able to do.

Every function of `ATTACKS` runs inside a worker process: it returns when the attack worked and raises when it did not.
The same functions run once more with isolation off; those marked as controls must work there, or the test proves
nothing. The functions are sent as source text, so each imports what it needs; `T` holds the targets.
"""

from __future__ import annotations

import ctypes
import importlib.util
import inspect
import json
import os
import re
import signal
import struct
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from sceneact_gym.blender import isolation, launcher

GIB = 1 << 30
WITH_BPY = importlib.util.find_spec("bpy") is not None  # not imported: only workers import it
ATTACKS: dict[str, Callable[[], Any]] = {}
CONTROLS: set[str] = set()
T: dict[str, Any] = {}

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="workers can only be confined on Linux")


def _capable() -> bool:
    """Whether this is root with SYS_PTRACE, SYS_ADMIN and MKNOD, as in a virtual machine and unlike most containers."""
    wanted = 1 << 19 | 1 << 21 | 1 << 27
    try:
        found = re.search(r"CapEff:\s*(\w+)", Path("/proc/self/status").read_text())
    except OSError:
        return False
    return found is not None and int(found[1], 16) & wanted == wanted


ROOT = _capable()


@pytest.fixture(scope="module", autouse=True)
def support() -> isolation.IsolationSupport:
    found = isolation.probe()
    if not found.available:
        pytest.fail(f"NOT TESTED: this kernel cannot confine a worker, {found.missing} is missing")
    return found


# ------------------------------------------------------------------------------------------------- starting workers
def argv(folder: Path, program: list[str], mode: str = "auto", **changes: Any) -> list[str]:
    folder.mkdir(exist_ok=True)
    settings: dict[str, Any] = {
        "folder": folder,
        "env": {"HOME": str(folder), "TMPDIR": str(folder), "LANG": "C.UTF-8", "PYTHONDONTWRITEBYTECODE": "1"},
        "read": isolation.read_paths([], None),
        "mode": mode,
        "memory_limit": 8 * GIB,
        "file_limit": GIB,
        "parent_pid": os.getpid(),
    }
    return isolation.launch_argv([sys.executable, *program], **(settings | changes))


def run(folder: Path, code: str, *arguments: str, mode: str = "auto", **changes: Any) -> subprocess.CompletedProcess:
    """Runs Python code in a worker process."""
    return subprocess.run(
        argv(folder, ["-c", textwrap.dedent(code), *arguments], mode, **changes),
        cwd=folder,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        start_new_session=True,
        timeout=60,
    )


def attack(control: bool) -> Callable[[Callable[[], Any]], Callable[[], Any]]:
    def register(function: Callable[[], Any]) -> Callable[[], Any]:
        ATTACKS[function.__name__] = function
        if control:
            CONTROLS.add(function.__name__)
        return function

    return register


PRELUDE = """
import ctypes, errno, json, os, sys
T = json.loads(sys.argv[1])
libc = ctypes.CDLL(None, use_errno=True)
def call(name, *args):
    libc.syscall.restype = ctypes.c_long
    words = [ctypes.c_long(a) if isinstance(a, int) else a for a in args]
    result = libc.syscall(ctypes.c_long(T["numbers"][name]), *words)
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result
"""
RUNNER = """
results = {}
for name in T["attacks"]:
    os.chdir(T["folder"])
    try:
        globals()[name]()
        results[name] = "worked"
    except BaseException as problem:
        results[name] = f"{type(problem).__name__}: {problem}"
os.write(1, ("RESULTS" + json.dumps(results)).encode())
os._exit(0)
"""


# These two stand for the prelude's, for the type checker.
libc: Any = None


def call(name: str, *arguments: Any) -> int:
    raise NotImplementedError(name, arguments)


# ---------------------------------------------------------------------------------------------------------- attacks
@attack(control=True)
def read_truth() -> None:
    open(T["truth"]).read()


@attack(control=True)
def read_truth_relative() -> None:
    open(os.path.relpath(T["truth"], os.getcwd())).read()


@attack(control=True)
def read_truth_from_its_folder() -> None:
    os.chdir(T["case"])
    open("truth.json").read()


@attack(control=True)
def read_truth_by_folder_handle() -> None:
    handle = os.open(T["case"], os.O_PATH)
    os.read(os.open("truth.json", os.O_RDONLY, dir_fd=handle), 1)


@attack(control=True)
def read_truth_by_path_handle() -> None:
    open(f"/proc/self/fd/{os.open(T['truth'], os.O_PATH)}").read()


@attack(control=True)
def read_truth_by_own_root() -> None:
    open("/proc/self/root" + T["truth"]).read()


@attack(control=True)
def map_truth_by_linker() -> None:
    # dlopen reads the file before it finds that it is no library; the message tells the two apart
    import ctypes

    try:
        ctypes.CDLL(T["truth"])
    except OSError as problem:
        if "cannot open" in str(problem):
            raise


@attack(control=True)
def list_case_folder() -> None:
    os.listdir(T["case"])


@attack(control=True)
def watch_case_folder() -> None:
    handle = call("inotify_init1", 0)
    call("inotify_add_watch", handle, T["case"].encode(), 0x20)


@attack(control=True)
def read_package_source() -> None:
    open(T["package"] + "/blender/isolation.py").read()


@attack(control=True)
def import_package() -> None:
    import importlib
    import sys

    sys.path.insert(0, os.path.dirname(T["package"]))
    importlib.import_module("sceneact_gym.blender.isolation")


@attack(control=True)
def read_another_module() -> None:
    open(T["other_module"]).read()


@attack(control=True)
def read_tests() -> None:
    open(T["tests"]).read()


@attack(control=ROOT)
def read_shadow() -> None:
    open("/etc/shadow").read()


@attack(control=True)
def read_passwd() -> None:
    open("/etc/passwd").read()


@attack(control=True)
def list_homes() -> None:
    os.listdir("/home")


@attack(control=True)
def list_own_home() -> None:
    os.listdir(T["home"])


@attack(control=True)
def list_root_folder() -> None:
    os.listdir("/")


@attack(control=True)
def list_temporary_folder() -> None:
    os.listdir("/tmp")


@attack(control=True)
def list_processes() -> None:
    os.listdir("/proc")


@attack(control=False)
def read_devices() -> None:
    for name in T["devices"]:
        try:
            os.close(os.open(f"/dev/{name}", os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY))
        except OSError:
            continue
        return
    raise PermissionError("none")


@attack(control=False)
def read_parent_memory() -> None:
    open(f"/proc/{T['parent']}/mem", "rb").read(1)


@attack(control=ROOT)
def read_parent_maps() -> None:
    open(f"/proc/{T['parent']}/maps").read()


@attack(control=ROOT)
def copy_parent_memory() -> None:
    import struct

    local = ctypes.create_string_buffer(8)
    here = struct.pack("QQ", ctypes.addressof(local), 8)
    there = struct.pack("QQ", T["address"], 8)
    call("process_vm_readv", T["parent"], here, 1, there, 1, 0)


@attack(control=ROOT)
def read_parent_environment() -> None:
    open(f"/proc/{T['parent']}/environ").read()


@attack(control=True)
def read_parent_arguments() -> None:
    open(f"/proc/{T['parent']}/cmdline").read()


@attack(control=ROOT)
def list_parent_files() -> None:
    os.listdir(f"/proc/{T['parent']}/fd")


@attack(control=ROOT)
def follow_parent_folder() -> None:
    os.readlink(f"/proc/{T['parent']}/cwd")


@attack(control=ROOT)
def read_by_parent_root() -> None:
    open(f"/proc/{T['parent']}/root{T['truth']}").read()


@attack(control=True)
def open_parent_handle() -> None:
    call("pidfd_open", T["parent"], 0)


@attack(control=ROOT)
def take_parent_file() -> None:
    call("pidfd_getfd", call("pidfd_open", T["parent"], 0), 0, 0)


@attack(control=False)
def trace_parent() -> None:
    call("ptrace", 0x4206, T["parent"], 0, 0)  # PTRACE_SEIZE: would not stop it


@attack(control=False)
def compare_parent_files() -> None:
    call("kcmp", os.getpid(), T["parent"], 0, 0, 0)


@attack(control=True)
def create_outside() -> None:
    open(T["case"] + "/new", "w").close()


@attack(control=True)
def create_in_parent_folder() -> None:
    open("../new", "w").close()


@attack(control=True)
def create_in_shared_memory() -> None:
    name = f"/dev/shm/sceneact-{os.getpid()}"
    open(name, "w").close()
    os.unlink(name)


@attack(control=True)
def create_in_temporary_folder() -> None:
    import tempfile

    tempfile.TemporaryFile(dir="/tmp").close()


@attack(control=True)
def make_folder_outside() -> None:
    os.mkdir(T["case"] + "/folder")


@attack(control=True)
def append_outside() -> None:
    open(T["victim"], "a").close()


@attack(control=True)
def truncate_outside() -> None:
    os.truncate(T["victim"], 3)


@attack(control=True)
def truncate_by_opening() -> None:
    os.close(os.open(T["victim"], os.O_RDONLY | os.O_TRUNC))


@attack(control=True)
def rename_outside() -> None:
    os.rename(T["victim"], T["victim"] + "2")
    os.rename(T["victim"] + "2", T["victim"])


@attack(control=True)
def rename_out_of_folder() -> None:
    open("mine", "w").close()
    os.rename("mine", T["case"] + "/mine")


@attack(control=True)
def rename_truth_into_folder() -> None:
    os.rename(T["truth"], "taken")
    os.rename("taken", T["truth"])


@attack(control=True)
def hardlink_truth_into_folder() -> None:
    os.link(T["truth"], "hard")
    open("hard").read()


@attack(control=True)
def symlink_to_truth() -> None:
    os.symlink(T["truth"], "soft")
    open("soft").read()


@attack(control=True)
def plant_symlink() -> None:
    # harmful by itself: the parent opens files in this folder
    os.symlink(T["truth"], "planted")


@attack(control=True)
def plant_fifo() -> None:
    os.mkfifo("fifo")


@attack(control=ROOT)
def plant_device() -> None:
    os.mknod("device", 0o20600, os.makedev(1, 3))


@attack(control=True)
def remove_outside() -> None:
    os.unlink(T["case"] + "/spare")


@attack(control=True)
def change_mode_outside() -> None:
    os.chmod(T["victim"], 0o644)


@attack(control=True)
def change_mode_by_handle() -> None:
    os.fchmod(os.open(T["readable"], os.O_RDONLY), os.stat(T["readable"]).st_mode & 0o777)


@attack(control=False)
def change_mode_newer_call() -> None:
    call("fchmodat2", -100, T["victim"].encode(), 0o644, 0)


@attack(control=True)
def change_owner_outside() -> None:
    os.chown(T["victim"], os.getuid(), os.getgid())


@attack(control=True)
def change_times_outside() -> None:
    os.utime(T["victim"])


@attack(control=False)
def change_attributes_outside() -> None:
    os.setxattr(T["victim"], "user.sceneact", b"1")


@attack(control=False)
def change_flags_by_handle() -> None:
    import fcntl

    fcntl.ioctl(os.open(T["readable"], os.O_RDONLY), 0x80086601, bytes(8))  # FS_IOC_GETFLAGS, of the refused family


@attack(control=True)
def open_socket_of_any_kind() -> None:
    import socket

    for family in range(46):
        for kind in (1, 2, 3, 5, 10):
            try:
                socket.socket(family, kind).close()
            except OSError:
                continue
            return
    raise PermissionError("none")


@attack(control=True)
def open_socket_pair() -> None:
    import socket

    for end in socket.socketpair():
        end.close()


@attack(control=False)
def open_io_uring() -> None:
    call("io_uring_setup", 4, ctypes.create_string_buffer(256))


@attack(control=True)
def signal_parent() -> None:
    os.kill(T["parent"], 0)


@attack(control=True)
def signal_parent_thread() -> None:
    call("tgkill", T["parent"], T["parent"], 0)


@attack(control=True)
def signal_parent_group() -> None:
    os.killpg(T["parent_group"], 0)


@attack(control=True)
def signal_own_group() -> None:
    os.kill(0, 0)


@attack(control=True)
def signal_everybody() -> None:
    os.kill(-1, 0)


@attack(control=True)
def signal_init() -> None:
    if os.getuid():
        call("tkill", T["parent"], 0)
    else:
        os.kill(1, 0)


@attack(control=True)
def queue_signal_to_parent() -> None:
    import struct

    information = ctypes.create_string_buffer(struct.pack("iii", 0, 0, -1), 128)
    call("rt_sigqueueinfo", T["parent"], 0, information)


@attack(control=True)
def signal_parent_by_pipe() -> None:
    import fcntl

    fcntl.fcntl(os.pipe()[0], 8, T["parent"])  # F_SETOWN


@attack(control=True)
def limit_parent() -> None:
    import resource

    resource.prlimit(T["parent"], resource.RLIMIT_CORE)


@attack(control=True)
def slow_parent_down() -> None:
    os.setpriority(os.PRIO_PROCESS, T["parent"], os.getpriority(os.PRIO_PROCESS, T["parent"]))


@attack(control=True)
def pin_parent_to_one_processor() -> None:
    os.sched_setaffinity(T["parent"], os.sched_getaffinity(T["parent"]))


@attack(control=True)
def fork() -> None:
    child = os.fork()
    if child == 0:
        os._exit(0)
    os.waitpid(child, 0)


@attack(control=True)
def run_program() -> None:
    import subprocess

    subprocess.run(["/bin/cat", T["truth"]], check=True, capture_output=True)


@attack(control=True)
def run_program_without_vfork() -> None:
    import subprocess

    subprocess.run(["/bin/cat", T["truth"]], check=True, capture_output=True, preexec_fn=int)


@attack(control=True)
def run_shell() -> None:
    if os.system("true"):
        raise PermissionError("no shell")


@attack(control=True)
def spawn_program() -> None:
    os.waitpid(os.posix_spawn("/bin/true", ["true"], {}), 0)


@attack(control=True)
def run_multiprocessing() -> None:
    import multiprocessing

    process = multiprocessing.get_context("fork").Process(target=int)
    process.start()
    process.join()


@attack(control=False)
def clone_with_namespaces() -> None:
    # CLONE_THREAD lets it through the first check; the namespace must not
    call("clone", 0x10000 | 0x800 | 0x100 | 0x20000, 0, 0, 0, 0)


@attack(control=False)
def execute_program() -> None:
    os.execv("/bin/true", ["true"])


@attack(control=False)
def execute_itself() -> None:
    import sys

    os.execv(sys.executable, [sys.executable, "-c", "pass"])


@attack(control=False)
def execute_by_the_linker() -> None:
    for path in ("/lib64/ld-linux-x86-64.so.2", "/lib/ld-linux-aarch64.so.1"):
        if os.path.exists(path):
            os.execv(path, [path, "/bin/true"])
    raise PermissionError("none")


@attack(control=False)
def execute_by_handle() -> None:
    call("execveat", os.open("/bin/true", os.O_PATH), b"", 0, 0, 0x1000)


@attack(control=False)
def start_new_session() -> None:
    os.setsid()


@attack(control=False)
def change_group() -> None:
    os.setpgid(0, 0)


@attack(control=True)
def outlive_parent() -> None:
    if libc.prctl(1, 0, 0, 0, 0):
        raise OSError(ctypes.get_errno(), "prctl")


@attack(control=ROOT)
def unshare_mounts() -> None:
    call("unshare", 0x20000)


@attack(control=False)
def unshare_user() -> None:
    call("unshare", 0x10000000)


@attack(control=ROOT)
def mount_over_folder() -> None:
    os.mkdir("mounted")
    call("mount", b"none", b"mounted", b"tmpfs", 0, 0)
    call("umount2", b"mounted", 2)


@attack(control=False)
def change_root() -> None:
    os.chroot(T["folder"])


@attack(control=False)
def regain_capabilities() -> None:
    import struct

    call("capset", struct.pack("Ii", 0x20080522, 0), struct.pack("IIIIII", *[0xFFFFFFFF] * 6))


@attack(control=False)
def take_back_no_new_privileges() -> None:
    if libc.prctl(38, 0, 0, 0, 0):
        raise OSError(ctypes.get_errno(), "prctl")


@attack(control=False)
def take_back_filter() -> None:
    if libc.prctl(22, 0, 0, 0, 0):
        raise OSError(ctypes.get_errno(), "prctl")


@attack(control=False)
def raise_limits() -> None:
    import resource

    unlimited = (resource.RLIM_INFINITY, resource.RLIM_INFINITY)
    for kind in (resource.RLIMIT_FSIZE, resource.RLIMIT_AS, resource.RLIMIT_DATA):
        if resource.getrlimit(kind) != unlimited:
            resource.setrlimit(kind, unlimited)
            return
    raise PermissionError("nothing is limited")


@attack(control=True)
def share_memory_segment() -> None:
    call("shmctl", call("shmget", 0, 4096, 0o1600), 0, 0)


@attack(control=True)
def share_semaphores() -> None:
    call("semctl", call("semget", 0, 1, 0o1600), 0, 0, 0)


@attack(control=True)
def share_messages() -> None:
    call("msgctl", call("msgget", 0, 0o1600), 0, 0)


@attack(control=False)
def share_posix_messages() -> None:
    call("mq_open", b"sceneact", 0o102, 0o600, 0)
    call("mq_unlink", b"sceneact")


@attack(control=True)
def share_posix_memory() -> None:
    from multiprocessing import shared_memory

    memory = shared_memory.SharedMemory(create=True, size=16)
    memory.close()
    memory.unlink()


@attack(control=True)
def keep_memory_files() -> None:
    os.close(os.memfd_create("name"))


@attack(control=ROOT)
def open_by_kernel_handle() -> None:
    handle = ctypes.create_string_buffer(bytes([120, 0, 0, 0]), 144)
    call("name_to_handle_at", -100, T["truth"].encode(), handle, ctypes.byref(ctypes.c_int()), 0)


@attack(control=False)
def use_kernel_keys() -> None:
    call("keyctl", 0, -3, 0)


@attack(control=False)
def load_bpf() -> None:
    call("bpf", 0, ctypes.create_string_buffer(128), 128)


@attack(control=False)
def count_events() -> None:
    call("perf_event_open", ctypes.create_string_buffer(bytes([1, 0, 0, 0, 112]), 128), 0, -1, -1, 0)


@attack(control=False)
def handle_page_faults() -> None:
    call("userfaultfd", 1)


@attack(control=False)
def overwrite_worker_files() -> None:
    open(T["readable"], "r+b").close()


# ------------------------------------------------------------------------------------------------ running the attacks
def assault(base: Path, mode: str, prelude: str = "") -> dict[str, str]:
    """Runs all attacks in one worker; returns what became of each."""
    folder, case = base / "worker", base / "case"
    case.mkdir(parents=True)
    for name in ("truth.json", "victim", "spare"):
        (case / name).write_text('{"answer": 42}')
    secret = ctypes.create_string_buffer(b"secret")
    numbers = launcher.numbers(launcher.REFUSED) | launcher.numbers(launcher.JUDGED) | {"fchmodat2": 452}
    targets = {
        "folder": str(folder),
        "case": str(case),
        "truth": str(case / "truth.json"),
        "victim": str(case / "victim"),
        "package": str(isolation.PACKAGE),
        "tests": __file__,
        "other_module": pytest.__file__,
        "readable": json.__file__,
        "home": os.path.expanduser("~"),
        "devices": [name for name in os.listdir("/dev") if not _allowed_device(name)],
        "parent": os.getpid(),
        "parent_group": os.getpgrp(),
        "address": ctypes.addressof(secret),
        "numbers": numbers,
        "attacks": list(ATTACKS if mode == "auto" else CONTROLS),
    }
    sources = [inspect.getsource(function).split("\n", 1)[1] for function in ATTACKS.values()]
    script = folder / "attacks.py"
    folder.mkdir()
    script.write_text("\n".join([prelude, PRELUDE, *sources, RUNNER]))
    result = subprocess.run(
        argv(folder, ["-I", str(script), json.dumps(targets)], mode),
        cwd=folder,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        start_new_session=True,
        timeout=60,
    )
    assert "RESULTS" in result.stdout, result
    if mode == "auto":
        for name in ("truth.json", "victim", "spare"):
            assert (case / name).read_text() == '{"answer": 42}'
        assert sorted(path.name for path in case.iterdir()) == ["spare", "truth.json", "victim"]
    return json.loads(result.stdout.split("RESULTS", 1)[1])


def _allowed_device(name: str) -> bool:
    return name in ("null", "zero", "random", "urandom", "fd", "stdin", "stdout", "stderr") or name.startswith(
        ("dri", "kfd", "dxg", "nvidia")
    )


@pytest.fixture(scope="module")
def confined(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    return assault(tmp_path_factory.mktemp("confined") / "base", "auto", "import bpy" if WITH_BPY else "")


@pytest.fixture(scope="module")
def unconfined(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    return assault(tmp_path_factory.mktemp("unconfined") / "base", "off")


@pytest.mark.parametrize("name", ATTACKS)
def test_attack_fails(confined: dict[str, str], name: str) -> None:
    outcome = confined[name]
    assert outcome != "worked"
    # A mistake in the attack must not look like a defence.
    kinds = ("PermissionError", "OSError", "BlockingIOError", "ValueError: not allowed to raise", "ModuleNotFoundError")
    assert outcome.startswith(kinds), outcome


@pytest.mark.parametrize("name", sorted(CONTROLS))
def test_attack_works_without_isolation(unconfined: dict[str, str], name: str) -> None:
    assert unconfined[name] == "worked"


def test_execution_works_without_isolation(tmp_path: Path) -> None:
    for code in (
        "os.execv('/bin/echo', ['echo', 'x'])",
        "os.execv(sys.executable, [sys.executable, '-c', 'print(\"x\")'])",
    ):
        assert run(tmp_path / "w", f"import os, sys; {code}", mode="off").stdout == "x\n"


def test_second_thread_cannot_shed_the_death_signal_by_exec(tmp_path: Path) -> None:
    code = """
    import os, sys, threading
    def work():
        try:
            os.execv(sys.executable, [sys.executable, "-c", "print('replaced')"])
        except PermissionError:
            print("refused")
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    """
    assert run(tmp_path / "w", code).stdout == "refused\n"
    assert run(tmp_path / "w", code, mode="off").stdout == "replaced\n"


@pytest.mark.skipif(os.uname().machine != "x86_64", reason="another architecture's calls exist on x86_64 only")
def test_calls_of_the_32_bit_interface_kill(tmp_path: Path) -> None:
    code = """
    import ctypes, mmap
    memory = mmap.mmap(-1, 4096, prot=7)
    memory.write(bytes.fromhex("b814000000" "cd80" "c3"))  # mov eax, 20 (getpid); int 0x80; ret
    ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(memory)))()
    print("alive")
    """
    result = run(tmp_path / "w", code)
    assert result.returncode in (-signal.SIGSYS, -signal.SIGSEGV) and "alive" not in result.stdout


# ------------------------------------------------------------------------------------------------------------ limits
def test_memory_limit(tmp_path: Path) -> None:
    code = """
    try:
        bytearray(10 << 30)
        print("got it")
    except MemoryError:
        print("no memory")
    """
    assert run(tmp_path / "w", code).stdout == "no memory\n"


def test_file_limit(tmp_path: Path) -> None:
    code = """
    with open("big", "wb", buffering=0) as file:
        try:
            for _ in range(64):
                file.write(bytes(1 << 20))
            print("wrote it")
        except OSError as problem:
            print(problem.strerror)
    """
    assert run(tmp_path / "w", code, file_limit=8 << 20).stdout == "File too large\n"
    assert (tmp_path / "w" / "big").stat().st_size == 8 << 20
    assert run(tmp_path / "w", code).stdout == "wrote it\n"


@pytest.mark.parametrize("mode", ["auto", "off"])
def test_environment_session_and_working_folder(tmp_path: Path, mode: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SCENEACT_TEST_SECRET", "1")
    code = """
    import json, os, sys
    print(json.dumps([dict(os.environ), os.getsid(0) == os.getpid() == os.getpgrp(), os.getcwd(), sys.orig_argv]))
    """
    environment = {"HOME": "/nowhere", "LC_ALL": "C.UTF-8"}
    found = json.loads(run(tmp_path / "w", code, mode=mode, env=environment).stdout)
    assert found[:3] == [environment, True, str(tmp_path / "w")]
    assert found[3] == [sys.executable, "-c", textwrap.dedent(code)]


# ------------------------------------------------------------------------------------------ the end of the parent
PARENT = """
import os, subprocess, sys, json
worker = subprocess.Popen(
    [*json.loads(sys.argv[1])[:-1], json.dumps(json.loads(json.loads(sys.argv[1])[-1]) | {"parent": os.getpid()})],
    stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, start_new_session=True)
worker.stdout.read(1)
print(worker.pid, flush=True)
worker.wait()
"""
LIVES = {
    "loop": "while True: pass",
    "blocked signals": "import signal; signal.pthread_sigmask(signal.SIG_BLOCK, range(1, 65))\nwhile True: pass",
    "other thread": "import threading, time; threading.Thread(target=time.sleep, args=(99,)).start(); "
    "import ctypes; ctypes.CDLL(None).pthread_exit(None)",
    "stopped": "import signal; signal.raise_signal(signal.SIGSTOP)",
}


@pytest.fixture
def orphan(request: pytest.FixtureRequest) -> Iterator[list[int]]:
    started: list[int] = []
    yield started
    for pid in started:
        if alive(pid):
            os.kill(pid, signal.SIGKILL)


def alive(pid: int) -> bool:
    """Whether any thread of a process still runs; one that nobody has collected yet does not count."""
    try:
        states = [file.read_text().rsplit(")", 1)[1].split()[0] for file in Path(f"/proc/{pid}/task").glob("*/stat")]
    except OSError:
        return False
    return any(state not in "ZX" for state in states)


@pytest.mark.parametrize("mode", ["auto", "off"])
@pytest.mark.parametrize("life", LIVES)
def test_worker_dies_with_its_parent(tmp_path: Path, life: str, mode: str, orphan: list[int]) -> None:
    code = "import os; os.write(1, b'.')\n" + LIVES[life]
    command = json.dumps(argv(tmp_path / "w", ["-c", code], mode))
    parent = subprocess.Popen([sys.executable, "-c", PARENT, command], stdout=subprocess.PIPE, text=True)
    with parent:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
        orphan.append(pid)
        time.sleep(0.05)
        assert alive(pid)
        parent.kill()
    deadline = time.monotonic() + 2
    while alive(pid) and time.monotonic() < deadline:
        time.sleep(0.005)
    assert not alive(pid)


# ------------------------------------------------------------------------------------------------- what has to work
WORK = """
import os, sys, tempfile, threading
import bpy, numpy
assert bpy.app.background
scene, folder = bpy.context.scene, os.getcwd()
scene.render.resolution_x = scene.render.resolution_y = 48
scene.cycles.samples = 2
for engine in ("CYCLES", "BLENDER_WORKBENCH"):
    scene.render.engine = engine
    scene.render.filepath = os.path.join(folder, engine + ".png")
    try:
        bpy.ops.render.render(write_still=True)
    except RuntimeError as problem:
        assert engine != "CYCLES", problem
        print("no OpenGL:", problem)
        continue
    pixels = numpy.array(bpy.data.images.load(scene.render.filepath).pixels[:])
    assert engine != "CYCLES" or pixels.std() > 0.1, pixels.std()
    print(engine, "contrast", round(float(pixels.std()), 3))
before = len(bpy.data.objects)
for draco in (False, True):
    bpy.ops.export_scene.gltf(filepath=folder + "/a.glb", export_draco_mesh_compression_enable=draco)
    bpy.ops.import_scene.gltf(filepath=folder + "/a.glb")
assert len(bpy.data.objects) > before
bpy.ops.wm.save_as_mainfile(filepath=folder + "/a.blend")
bpy.ops.wm.save_as_mainfile(filepath=folder + "/a.blend")
bpy.ops.wm.read_factory_settings(use_empty=True)
assert not bpy.data.objects
bpy.ops.wm.open_mainfile(filepath=folder + "/a.blend")
assert len(bpy.data.objects) > before
text = bpy.data.objects.new("text", bpy.data.curves.new("text", "FONT"))
text.data.body = "words"
done = []
threads = [threading.Thread(target=done.append, args=(i,)) for i in range(8)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
assert len(done) == 8
with tempfile.TemporaryDirectory() as folder, tempfile.NamedTemporaryFile() as file:
    file.write(b"1")
    os.makedirs(folder + "/a/b")
    open(folder + "/a/b/c", "w").close()
    os.rename(folder + "/a/b/c", folder + "/d")
    os.link(folder + "/d", folder + "/a/e")
    os.truncate(folder + "/d", 10)
import hashlib, random, uuid
hashlib.sha256(b"").hexdigest(), random.random(), uuid.uuid4()
os.kill(os.getpid(), 0)
print("all of it", flush=True)
os._exit(0)
"""


@pytest.mark.skipif(not WITH_BPY, reason="bpy is not installed")
def test_blender_works(tmp_path: Path) -> None:
    result = run(tmp_path / "w", WORK)
    assert "all of it" in result.stdout, result.stdout[-3000:] + result.stderr[-3000:]
    if "BLENDER_WORKBENCH contrast" in run_free(tmp_path / "free"):
        assert re.search(r"BLENDER_WORKBENCH contrast 0\.[1-9]", result.stdout), result.stdout[-3000:]


def run_free(folder: Path) -> str:
    """The same with isolation off, to know whether this machine has OpenGL at all."""
    return run(folder, WORK, mode="off").stdout


def test_worker_can_read_its_own_scripts_only(tmp_path: Path) -> None:
    scripts = tmp_path / "scripts"
    scripts.mkdir()
    (scripts / "helper.py").write_text("VALUE = 7")
    (scripts / "main.py").write_text("import sys; sys.path.insert(0, sys.argv[1]); import helper; print(helper.VALUE)")
    (scripts / "private.py").write_text("VALUE = 8")
    read = isolation.read_paths([scripts / "main.py", scripts / "helper.py"], None)

    def start(program: list[str]) -> subprocess.CompletedProcess:
        command = argv(tmp_path / "w", program, read=read)
        return subprocess.run(command, capture_output=True, text=True, start_new_session=True)

    assert start([str(scripts / "main.py"), str(scripts)]).stdout == "7\n"
    refused = start(["-c", f"import sys; sys.path.insert(0, {str(scripts)!r}); import private"])
    assert "PermissionError" in refused.stderr


def test_crash_by_abort_is_possible(tmp_path: Path) -> None:
    assert run(tmp_path / "w", "import os; os.abort()").returncode == -signal.SIGABRT


# ------------------------------------------------------------------------------------------- refusing to be unconfined
def test_other_parent_is_refused(tmp_path: Path) -> None:
    result = run(tmp_path / "w", "print('ran')", parent_pid=1)
    assert (result.returncode, result.stdout) == (126, "")
    assert re.fullmatch(r"sceneact launcher: [^\n]*the parent is gone\n", result.stderr)


def test_missing_program_is_refused(tmp_path: Path) -> None:
    for mode in ("auto", "off"):
        command = argv(tmp_path / "w", [], mode)
        config = json.loads(command[-1]) | {"command": ["/nowhere/python"]}
        result = subprocess.run([*command[:-1], json.dumps(config)], capture_output=True, text=True)
        assert result.returncode == 126 and "/nowhere/python" in result.stderr


@pytest.mark.parametrize("broken", ["[]", "{}", "nonsense"])
def test_broken_configuration_is_refused(tmp_path: Path, broken: str) -> None:
    command = argv(tmp_path / "w", ["-c", "print('ran')"])
    result = subprocess.run([*command[:-1], broken], capture_output=True, text=True)
    assert (result.returncode, result.stdout) == (126, "") and result.stderr.count("\n") == 1


@pytest.mark.parametrize("landlock, seccomp, named", [(0, True, "Landlock"), (7, False, "seccomp")])
def test_missing_support_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, landlock: int, seccomp: bool, named: str
) -> None:
    found = isolation.IsolationSupport(landlock, seccomp)
    assert not found.available and found.level == "none"
    monkeypatch.setattr(isolation, "probe", lambda: found)
    with pytest.raises(isolation.IsolationUnavailable, match=f'{named}.*isolation="off"'):
        argv(tmp_path / "w", [])
    assert argv(tmp_path / "w", [], "off")


def test_launcher_refuses_without_kernel_support(tmp_path: Path) -> None:
    for function, answer in (("landlock_abi", "0"), ("seccomp_available", "False")):
        command = argv(tmp_path / "w", ["-c", "print('ran')"])
        code = (
            f"import sys; sys.path.insert(0, {str(Path(launcher.__file__).parent)!r}); import launcher; "
            f"launcher.{function} = lambda: {answer}; launcher.main()"
        )
        result = subprocess.run([sys.executable, "-c", code, command[-1]], capture_output=True, text=True)
        assert (result.returncode, result.stdout) == (126, "") and "Unavailable" in result.stderr


def test_read_list_must_not_uncover_the_package(tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to(isolation.PACKAGE.parent)
    for path in (isolation.PACKAGE, isolation.PACKAGE.parent, Path("/"), link):
        with pytest.raises(isolation.IsolationUnavailable, match="cases and generators"):
            argv(tmp_path / "w", [], read=[path])


def test_probe_names_the_level(support: isolation.IsolationSupport) -> None:
    assert re.fullmatch(r"landlock-\d+\+seccomp", support.level) and support.missing == ""


def test_blender_folder(tmp_path: Path) -> None:
    folder = tmp_path / "blender-5.0"
    for name in ("5.0/scripts", "lib", "private"):
        (folder / name).mkdir(parents=True)
    (folder / "notes.txt").touch()
    (folder / "blender").write_bytes(b"\x7fELF")
    link = tmp_path / "link"
    link.symlink_to(folder / "blender")
    read = isolation.read_paths([], link)
    assert {folder / "blender", folder / "5.0", folder / "lib"} <= set(read)
    assert not {folder, folder / "private", folder / "notes.txt", Path(sys.prefix)} & set(read)
    (folder / "blender").write_text("#!/bin/sh\n")
    with pytest.raises(isolation.IsolationUnavailable, match="script"):
        isolation.read_paths([], link)


# --------------------------------------------------------------------------- the filter, also for the other machine
def judge(program: bytes, token: int, number: int, arguments: tuple[int, ...] = ()) -> int:
    """Runs the filter as the kernel would."""
    data = struct.pack(
        "<IIQ6Q", number & 0xFFFFFFFF, token, 0, *(a & (1 << 64) - 1 for a in (*arguments, *[0] * 6)[:6])
    )
    steps, position, word = list(struct.iter_unpack("<HBBI", program)), 0, 0
    while True:
        code, yes, no, value = steps[position]
        position += 1
        if code == launcher.LOAD:
            word = struct.unpack_from("<I", data, value)[0]
        elif code == launcher.AND:
            word &= value
        elif code == launcher.EQUAL:
            position += yes if word == value else no
        elif code == launcher.AT_LEAST:
            position += yes if word >= value else no
        else:
            assert code == launcher.RETURN
            return value


@pytest.mark.parametrize("machine", launcher.ARCHITECTURES)
def test_filter(machine: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "uname", lambda: os.uname_result(("Linux", "", "", "", machine)))
    token = launcher.ARCHITECTURES[machine][0]
    refused, missing = launcher.ERRNO | launcher.EPERM, launcher.ERRNO | launcher.ENOSYS
    words = (0x123456789ABC, 0x2222_0000_1111, 0x3333_4444_5555)
    program = launcher.seccomp_program(77, 7, words)
    assert len(program) // 8 < 4096
    known = launcher.numbers(launcher.JUDGED)

    def verdict(number: int | str, *arguments: int) -> int:
        return judge(program, token, known[number] if isinstance(number, str) else number, arguments)

    assert judge(program, token ^ 1, 0) == launcher.KILL_PROCESS
    for name, number in launcher.numbers(launcher.REFUSED).items():
        assert verdict(number) == refused, name
    for number in (451, 452, 467, 0x40000000 | 41, 0x40000000, -1):
        assert verdict(number) == missing, number
    assert verdict("clone3") == missing and verdict("openat2") == missing
    assert verdict("clone", 0x3D0F00) == launcher.ALLOW
    for flags in (17, 0x1200011, 0x4111, 0x3D0F00 | 0x20000, 0x3D0F00 | 0x10000000):
        assert verdict("clone", flags) == refused
    assert verdict("kill", 77, 9) == launcher.ALLOW
    for pid in (0, -1, -77, 78, 1):
        assert verdict("kill", pid, 9) == refused and verdict("tgkill", pid, 77, 9) == refused
    assert verdict("prctl", 15) == launcher.ALLOW and verdict("prctl", 1) == refused
    assert verdict("prctl", 1 | 1 << 40) == refused  # the kernel looks at the low word
    assert verdict("prlimit64", 0) == verdict("prlimit64", 77) == launcher.ALLOW and verdict("prlimit64", 5) == refused
    assert verdict("setpriority", 0, 0, 5) == launcher.ALLOW
    assert verdict("setpriority", 1, 0, 5) == verdict("setpriority", 0, 5, 5) == refused
    assert verdict("ioctl", 1, 0x5401) == launcher.ALLOW
    assert verdict("ioctl", 1, 0x5412) == verdict("ioctl", 1, 0x40086602) == refused
    assert verdict("fcntl", 1, 2) == launcher.ALLOW and verdict("fcntl", 1, 8) == refused
    assert verdict("execve", *words) == launcher.ALLOW
    for index in range(3):
        for change in (1, 1 << 33):
            changed = [word ^ change if place == index else word for place, word in enumerate(words)]
            assert verdict("execve", *changed) == refused
    assert verdict("openat", -100, 0, 0o1000) == launcher.ALLOW
    program = launcher.seccomp_program(77, 2, words)  # a kernel whose Landlock does not govern truncation yet
    assert verdict("openat", -100, 0, 0o1000) == verdict("truncate") == refused
    assert verdict("openat", -100, 0, 0o1001) == verdict("openat", -100, 0, 0) == launcher.ALLOW


@pytest.mark.parametrize(
    "header, column", [("x86_64-linux-gnu/asm/unistd_64.h", 1), ("asm-generic/unistd.h", 2)], ids=["x86_64", "aarch64"]
)
def test_numbers_agree_with_the_headers(header: str, column: int) -> None:
    """The generic table is the one that aarch64 uses."""
    path = Path("/usr/include", header)
    if not path.exists():
        pytest.skip(f"{path} is not installed")
    defined = {
        name: int(number)
        for name, number in re.findall(r"#define __NR(?:3264)?_(\w+)\s+(?:\\\n)?(\d+)", path.read_text())
    }
    for row in (launcher.REFUSED + launcher.JUDGED).split():
        fields = row.split(":")
        expected = None if fields[column] == "-" else int(fields[column])
        assert defined.get(fields[0]) == expected, row
