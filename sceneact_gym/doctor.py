"""What a machine needs: each check says what was found and, for a problem, what to do about it."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from sceneact_gym.blender import isolation
from sceneact_gym.blender.locate import Blender, find_blender
from sceneact_gym.blender.render import ENGINES
from sceneact_gym.blender.session import BlenderSession, SessionSettings
from sceneact_gym.data.references import cache_folder
from sceneact_gym.errors import BlenderNotFound, SceneActError

# What the bpy wheel and the stand-alone Blender link against and a bare Debian or Ubuntu lacks.
DEBIAN_BASE = "libxrender1 libxxf86vm1 libxfixes3 libxi6 libxkbcommon0 libsm6 libice6 libgl1 libgomp1"
DEBIAN_GPU = "libegl1 libgl1-mesa-dri"


@dataclass(frozen=True)
class Check:
    """One finding.

    Attributes:
        name: what was looked at.
        state: `ok`, `note` (works without it) or `problem`.
        found: what was seen.
        fix: what to do.
    """

    name: str
    state: Literal["ok", "note", "problem"]
    found: str
    fix: str = ""


def checks() -> Iterator[Check]:
    """All checks, in order; each engine renders a real frame."""
    yield Check("python", "ok", sys.version.split()[0])
    found: Blender | None = None
    try:
        found = find_blender()
        yield Check("blender", "ok", f"{found.version} ({found.kind}, {found.path})")
    except BlenderNotFound as problem:
        yield Check("blender", "problem", "none", str(problem))
    support = isolation.probe()
    mode: Literal["auto", "off"] = "auto"
    if support.available:
        yield Check("isolation", "ok", support.level)
    else:
        mode = "off"
        yield Check(
            "isolation",
            "problem",
            "this kernel cannot confine agent code",
            "Use Linux 5.13 or newer with Landlock and seccomp; or pass isolation='off', which results record.",
        )
    if found is not None:
        yield from _engines(mode)
    yield from _disk()


def _engines(mode: Literal["auto", "off"]) -> Iterator[Check]:
    session = BlenderSession(replace(SessionSettings(), isolation=mode))
    try:
        try:
            session.start()
        except SceneActError as problem:
            fix = f"On Debian or Ubuntu: apt-get install {DEBIAN_BASE}"
            yield Check("start", "problem", f"{problem}", fix)
            return
        yield Check("start", "ok", f"Blender {session.version} runs; automatic engine: {session.engine}")
        for engine in ENGINES:
            wrong = session.prove_engine(engine)
            if not wrong:
                yield Check(engine, "ok", f"renders ({session.renderer() if engine != 'cycles' else 'CPU'})")
                continue
            fix = f"Not needed while another engine works. On Debian or Ubuntu: apt-get install {DEBIAN_GPU}"
            yield Check(engine, "problem" if engine == "cycles" else "note", wrong[:200], fix)
    finally:
        session.close()


def _disk() -> Iterator[Check]:
    for name, folder, needed in (
        ("/dev/shm", Path("/dev/shm"), 1),
        ("temporary folder", Path(tempfile.gettempdir()), 2),
        ("cache", cache_folder(), 1),
    ):
        place = folder
        while not place.exists() and place != place.parent:
            place = place.parent
        free = shutil.disk_usage(place).free / 2**30
        if not os.access(place, os.W_OK):
            yield Check(name, "note", f"{folder} cannot be written", "It is not used; make it writable for speed.")
        elif free < needed:
            yield Check(name, "note", f"{free:.1f} GiB free", f"Free {needed} GiB for fast snapshots.")
        else:
            yield Check(name, "ok", f"{folder}, {free:.1f} GiB free")
