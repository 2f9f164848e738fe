"""How workers are started: a stand-alone Blender's command line (a script takes its place), and the cores they see."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from sceneact_gym.blender.isolation import IsolationUnavailable
from sceneact_gym.blender.locate import find_blender
from sceneact_gym.blender.render import RenderSettings
from sceneact_gym.blender.session import BlenderSession, SessionSettings

SCRIPT = f"""#!/bin/sh
if [ "$1" = --version ]; then echo "Blender 4.5.3 LTS"; exit 0; fi
[ "$1 $2 $3 $4 $5" = "--background --factory-startup --offline-mode --python-exit-code 1" ] || exit 9
[ "$6" = --python ] || exit 9
shift 6
exec {sys.executable} -I -B "$@"
"""


@pytest.fixture
def standalone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "blender"
    path.write_text(SCRIPT)
    path.chmod(0o755)
    monkeypatch.setenv("SCENEACT_BLENDER", str(path))
    return path


def test_the_worker_runs_by_blenders_command_line(standalone: Path) -> None:
    blender = find_blender()
    assert (blender.kind, blender.version, blender.path) == ("binary", "4.5.3", standalone)
    session = BlenderSession(SessionSettings(isolation="off"))
    try:
        session.load("cube", lambda trusted: trusted.call("add_cube"))
        info, _ = session.tool("scene_info", {})
        assert [row["name"] for row in info["objects"]] == ["Cube", "sun_0"]
        assert session.isolation_level == "off"
    finally:
        session.close()


def test_a_script_cannot_be_confined_and_the_message_says_so(standalone: Path) -> None:
    session = BlenderSession()
    with pytest.raises(IsolationUnavailable, match="SCENEACT_BLENDER|script"):
        session.start()
    session.close()
    assert not session.running


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="needs two cores")
def test_blender_starts_with_as_many_cores_in_sight_as_it_may_render_with() -> None:
    seen = {}
    for threads in (0, 1):
        settings = RenderSettings(threads=threads, width=32, height=32, samples=1)
        session = BlenderSession(SessionSettings(render=settings))
        try:
            session.load("cube", lambda trusted: trusted.call("add_cube"))
            session.render(location=[3.0, -4.0, 3.0], look_at=[0.0, 0.0, 0.0])
            seen[threads] = len(os.listdir(f"/proc/{session.pid}/task"))
            # Only the scheduler's count is held down: the process itself may run anywhere.
            assert os.sched_getaffinity(session.pid) == os.sched_getaffinity(0)
        finally:
            session.close()
    assert seen[1] < seen[0]
