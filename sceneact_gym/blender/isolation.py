"""What a worker may touch, and the command line that starts it so confined.

The policy is a list of paths: everything that is not on it cannot be opened. It names the interpreter's standard
library, bpy and numpy singly and never `site-packages` as a whole, because this package lives there too, and with it
the generators and cases that an agent must not read. `launcher.py` applies the policy in the new process.

Standard library only.
"""

from __future__ import annotations

import functools
import importlib.util
import json
import platform
import re
import sys
import sysconfig
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from sceneact_gym.blender import launcher

LEVEL_OFF = "off"
PACKAGE = Path(__file__).resolve().parents[1]

# bpy declares more (cython, requests, zstandard), but loads those only to download extensions and to inspect .blend
# files from the command line.
MODULES = ("bpy", "numpy")

# Shared libraries and what they load by themselves; `_libraries` filters what lies in these folders.
LIBRARY_FOLDERS = ("/lib", "/lib64", "/usr/lib", "/usr/lib64", "/usr/local/lib", "/usr/local/lib64")
LIBRARY_SUBFOLDERS = {
    f"{platform.machine()}-linux-gnu", "dri", "gallium-pipe", "gbm", "gconv", "glibc-hwcaps", "locale", "nvidia", "wsl",
}  # fmt: skip
SYSTEM_DATA = (
    # the dynamic linker, the time zone, OpenSSL's settings (hashlib loads it)
    "/etc/ld.so.cache", "/etc/localtime", "/usr/share/zoneinfo", "/etc/ssl/openssl.cnf", "/usr/lib/ssl/openssl.cnf",
    "/etc/pki/tls/openssl.cnf", "/etc/crypto-policies/back-ends", "/usr/share/locale/locale.alias",
    # which OpenGL, Vulkan and OpenCL drivers there are, and their settings
    "/etc/drirc", "/usr/share/drirc.d", "/etc/glvnd", "/usr/share/glvnd", "/etc/vulkan", "/usr/share/vulkan",
    "/etc/OpenCL", "/usr/share/libdrm", "/usr/share/nvidia", "/usr/share/X11/locale",
    # fonts for text objects
    "/etc/fonts", "/usr/share/fonts", "/usr/share/fontconfig",
    # how many processors, how much memory: thread pools and allocators size themselves by these
    "/proc/cpuinfo", "/proc/meminfo", "/proc/sys/vm/overcommit_memory", "/proc/sys/vm/nr_hugepages",
    "/sys/devices/system/cpu", "/sys/devices/system/node", "/sys/kernel/mm/transparent_hugepage/enabled",
    "/dev/random", "/dev/urandom",
)  # fmt: skip
# Of its own process: libc finds the bounds of the main thread's stack in `maps`, the others report memory and threads.
OWN_PROC = ["maps", "status", "stat", "statm"]
NODES = ["/dev/null", "/dev/zero"]
GPU_NODES = ("dri", "kfd", "dxg", "nvidia*")
# How drivers find out what hardware stands behind a GPU's node.
GPU_DATA = (
    "/sys/dev/char", "/sys/class/drm", "/sys/class/kfd", "/sys/bus/pci/devices", "/sys/devices/virtual/kfd",
    "/sys/module/nvidia", "/sys/module/amdgpu", "/proc/driver/nvidia", "/proc/devices", "/proc/modules",
)  # fmt: skip
# Folders whose children are given singly; the import system has to list them, and reads nothing else in them.
IMPORT_FOLDER = re.compile(r"(site|dist)-packages|python3(\.\d+t?)?")
OPEN_FILES = 4096


class IsolationUnavailable(RuntimeError):
    """The kernel or the installation does not allow the confinement that was asked for."""


@dataclass(frozen=True)
class IsolationSupport:
    """What this machine offers.

    Attributes:
        landlock: Version of the kernel's Landlock interface, 0 for none.
        seccomp: Whether system calls can be filtered (and their numbers on this architecture are known).
    """

    landlock: int
    seccomp: bool

    @property
    def available(self) -> bool:
        """Whether a worker can be confined."""
        return self.landlock > 0 and self.seccomp

    @property
    def level(self) -> str:
        """What results record, such as `landlock-7+seccomp`; `none` when a worker cannot be confined."""
        return f"landlock-{self.landlock}+seccomp" if self.available else "none"

    @property
    def missing(self) -> str:
        """What is not there, for a person."""
        if sys.platform != "linux":
            return f"Linux (this is {sys.platform})"
        wanted = (
            (self.landlock, "Landlock (Linux 5.13 or newer, not switched off)"),
            (self.seccomp, "seccomp filters"),
        )
        return " and ".join(text for there, text in wanted if not there)


@functools.cache
def probe() -> IsolationSupport:
    """Asks the kernel, once, what it offers; changes nothing."""
    if sys.platform != "linux":
        return IsolationSupport(0, False)
    return IsolationSupport(launcher.landlock_abi(), launcher.seccomp_available())


def read_paths(worker_files: list[Path], blender: Path | None) -> list[Path]:
    """The files and folders that a worker has to read; folders count with everything below them.

    Args:
        worker_files: The worker's own scripts. Their compiled forms come with them.
        blender: A stand-alone Blender's binary, or None for the bpy module of this interpreter.
    """
    paths: list[Path] = []
    for file in worker_files:
        paths += [file, Path(importlib.util.cache_from_source(str(file)))]
    paths += list(_blender_paths(blender) if blender is not None else _interpreter_paths())
    paths += _system_paths()
    return list(dict.fromkeys(path.absolute() for path in paths if path.exists()))


def launch_argv(
    command: list[str],
    *,
    folder: Path,
    env: dict[str, str],
    read: list[Path],
    mode: Literal["auto", "off"],
    memory_limit: int,
    file_limit: int,
    parent_pid: int,
) -> list[str]:
    """The command line that starts a worker through the launcher.

    File descriptors that the new process inherits stay open in the worker and are not governed by the policy: pass
    nothing but the protocol's pipes.

    Args:
        command: The worker's program (an absolute path) and arguments.
        folder: The only place where the worker may create and write files.
        env: The worker's whole environment; nothing of the parent's is added.
        read: What it may read besides, as `read_paths` gives it.
        mode: "auto" confines or refuses; "off" keeps limits, session and parent-death signal only.
        memory_limit: Bytes of address space.
        file_limit: Bytes that any one file may grow to.
        parent_pid: The process that starts it, and whose end (of the starting thread) ends it.

    Raises:
        IsolationUnavailable: If mode is "auto" and the kernel cannot confine, or `read` would uncover this package.
    """
    config: dict[str, Any] = {
        "command": command,
        "env": env,
        "folder": str(folder),
        "parent": parent_pid,
        "confine": mode != "off",
        "limits": _limits(memory_limit, file_limit),
    }
    if config["confine"]:
        if not probe().available:
            raise IsolationUnavailable(
                f"a Blender worker cannot be confined on this machine, {probe().missing} is missing; agent code would "
                'run with all your rights and could read the hidden truth. If you accept that, ask for isolation="off".'
            )
        for path in read:
            if _identity(path) in _package_and_above():
                raise IsolationUnavailable(
                    f"the worker would have to read {path}, and this package's cases and generators lie in it; install "
                    'Blender or the package elsewhere, or ask for isolation="off".'
                )
        config["own_proc"] = OWN_PROC
        config["rules"] = {
            "read": [str(path) for path in read],
            "list": sorted({str(path.parent) for path in read if _listed(path)}),
            # Beside the program itself the dynamic linker; after this one exec the filter allows no other.
            "exec": [command[0], *LIBRARY_FOLDERS],
            "write": [str(folder)],
            "node": NODES,
            "device": [str(path) for path in _gpu_nodes()],
        }
    return [sys.executable, "-I", "-S", launcher.__file__, json.dumps(config, separators=(",", ":"))]


def _identity(path: Path) -> tuple[int, int] | None:
    """What a path stands for, whatever links lead to it; None if it is not there."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


@functools.cache
def _package_and_above() -> frozenset[tuple[int, int] | None]:
    return frozenset(_identity(path) for path in (PACKAGE, *PACKAGE.parents))


def _listed(path: Path) -> bool:
    return IMPORT_FOLDER.fullmatch(path.parent.name) is not None or path.suffix == ".py"


def _limits(memory: int, file: int) -> dict[str, int]:
    """Resource limits by the names of `RLIMIT_*`."""
    limits = {"AS": memory, "FSIZE": file, "NOFILE": OPEN_FILES, "CORE": 0, "MSGQUEUE": 0, "RTPRIO": 0}
    if any(path.name != "dri" for path in _gpu_nodes()):
        # CUDA and ROCm reserve far more address space than there is memory; what they really use counts as data.
        limits["DATA"] = limits.pop("AS")
    return limits


@functools.cache
def _gpu_nodes() -> tuple[Path, ...]:
    return tuple(sorted(path for pattern in GPU_NODES for path in Path("/dev").glob(pattern)))


@functools.cache
def _system_paths() -> tuple[Path, ...]:
    """Libraries of the system and the data they read."""
    folders = dict.fromkeys(Path(folder).resolve() for folder in LIBRARY_FOLDERS)  # /lib is often a link to /usr/lib
    paths = [path for folder in folders for path in _libraries(folder, LIBRARY_SUBFOLDERS)]
    paths += [Path(path) for path in SYSTEM_DATA]
    if _gpu_nodes():
        paths += [Path(path) for path in GPU_DATA]
        paths += sorted(Path("/sys/devices").glob("pci*"))
    return tuple(paths)


@functools.cache
def _interpreter_paths() -> tuple[Path, ...]:
    """This interpreter, its standard library, and the modules that the worker imports."""
    paths = [Path(sys.executable), Path(sys.prefix, "pyvenv.cfg")]
    for folder in {sysconfig.get_path("stdlib"), sysconfig.get_path("platstdlib")}:
        # In a venv `platstdlib` lies in the venv and holds site-packages only.
        paths += _children(Path(folder))
    for library in {Path(sys.base_prefix, "lib"), Path(sysconfig.get_config_var("LIBDIR") or "/usr/lib")}:
        paths += _libraries(library, set())
    return (*paths, *_modules())


def _modules() -> Iterable[Path]:
    """The packages of `MODULES`, found without importing them, and the folders of libraries beside them."""
    for name in MODULES:
        spec = importlib.util.find_spec(name)
        for location in (spec.submodule_search_locations or ()) if spec else ():
            yield Path(location)
            yield Path(f"{location}.libs")


def _blender_paths(blender: Path) -> Iterable[Path]:
    """A stand-alone Blender: the unpacked archive's folder, or a system's package with the system's Python."""
    binary = blender.resolve()
    try:
        with binary.open("rb") as file:
            magic = file.read(4)
    except OSError as problem:
        raise IsolationUnavailable(f"cannot read {blender}: {problem.strerror}") from None
    if magic != b"\x7fELF":
        raise IsolationUnavailable(
            f"{blender} is a script that starts Blender, and a confined process can start no other; give the path of "
            "the binary itself."
        )
    yield binary
    versions = [path for path in binary.parent.iterdir() if re.fullmatch(r"\d+\.\d+", path.name)]
    if versions:
        yield from versions
        yield from _libraries(binary.parent, {"lib", "license"})
        return
    for prefix in dict.fromkeys((binary.parent.parent, Path("/usr"))):
        yield prefix / "share" / "blender"
        for library in ("lib", "lib64"):
            yield prefix / library / "blender"
            for python in sorted((prefix / library).glob("python3*")):
                yield from _children(python)
                for packages in (python / "site-packages", python / "dist-packages"):
                    yield from (packages / name for name in ("numpy", "numpy.libs"))


def _children(folder: Path) -> list[Path]:
    """A standard library without the packages installed into it."""
    try:
        return [path for path in sorted(folder.iterdir()) if path.name not in ("site-packages", "dist-packages")]
    except OSError:
        return []


def _libraries(folder: Path, subfolders: set[str]) -> list[Path]:
    """The shared libraries right inside a folder, and the named folders below it."""
    try:
        found = sorted(folder.iterdir())
    except OSError:
        return []
    return [path for path in found if path.name in subfolders or re.search(r"\.so(\.[\w.]+)?$", path.name)]
