"""An agent that always does the same, in a player's process in which it breaks one thing per episode.

The file that the variable `FAULTS` names lists the faults, one per line; each episode takes the first one off it.
"""

from __future__ import annotations

import errno
import os
import shutil
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

import sceneact_gym.blender.session as session_module
from sceneact_gym.agents.vlm import VLMAgent
from sceneact_gym.agents.vlm_config import VLMConfig
from sceneact_gym.blender import process
from sceneact_gym.blender.locate import Blender
from sceneact_gym.tasks.camera import CameraTask
from sceneact_gym.trace import Trace

NO_BLENDER = Blender("module", Path(shutil.which("false") or "/bin/false"), "0")
MOVE = "bpy.context.scene.camera.location = (0, 0, 1.5)"


def patch(target: Any, name: str, value: Any) -> None:
    """Until the next episode."""
    mock.patch.object(target, name, value).start()


def exits(host: Any) -> None:
    host.session.close()
    host.session.blender = NO_BLENDER


def hangs(host: Any) -> None:
    host.session.close()
    worker = Path(os.environ["FAULTS"]).with_name("sleeper.py")
    worker.write_text("import time\ntime.sleep(600)\n")
    patch(process, "WORKER_FILES", [worker])
    patch(session_module, "START_DEADLINE", 0.5)


def no_references(host: Any) -> None:
    host._trusted.session.blender = NO_BLENDER


def raises(target: Any, name: str, mistake: Exception) -> Callable[[Any], None]:
    def fault(host: Any) -> None:
        patch(target, name, mock.Mock(side_effect=mistake))

    return fault


def full_disk(name: str, event: str = "") -> Callable[[Any], None]:
    """No space for what a method of the trace writes; of `event`, for events of this kind only."""
    whole = getattr(Trace, name)

    def write(self: Trace, *given: Any, **values: Any) -> Any:
        if not event or given[0] == event:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return whole(self, *given, **values)

    return lambda host: patch(Trace, name, write)


def killed_in(name: str, for_good: bool) -> Callable[[Any], None]:
    """Blender dies as a method of the task begins its work; for good, if no other one can be started."""
    whole = getattr(CameraTask, name)

    def work(self: CameraTask, session: Any, *given: Any) -> Any:
        if for_good:
            session.blender = NO_BLENDER
        os.kill(session.pid, signal.SIGKILL)
        return whole(self, session, *given)

    return lambda host: patch(CameraTask, name, work)


def killed(host: Any) -> None:
    host.session.blender = NO_BLENDER
    os.kill(host.session.pid, signal.SIGKILL)


BEFORE: dict[str, Callable[[Any], None]] = {
    "the references cannot be rendered": no_references,
    "Blender exits when it starts": exits,
    "Blender hangs when it starts": hangs,
    "Blender dies while it builds the scene": killed_in("build", for_good=True),
    "the task's prompts have a mistake": raises(CameraTask, "prompts", KeyError("of the prompts")),
    "the disk is full when the trace begins": full_disk("event", "begin"),
    "the disk is full when a picture is written": full_disk("images"),
}
"""Breaks things before the episode begins."""
DURING: dict[str, Callable[[Any], None]] = {
    "Blender dies in a call and stays dead": killed,
    "Blender dies in the collection and stays dead": killed_in("collect", for_good=True),
    "the collection has a mistake": raises(CameraTask, "collect", KeyError("of the collection")),
    "the evaluator has a mistake": raises(CameraTask, "evaluate", ZeroDivisionError("of the evaluator")),
    "the disk is full when the end is written": full_disk("event", "end"),
}
"""Breaks things when the work is done and before it is submitted."""
HARMLESS = "Blender dies in the collection and comes back"


class Faulty:
    """Moves the camera, looks, and submits."""

    def __init__(self, env: Any, seed: int) -> None:
        """Takes the next fault; what the one before broke is whole again."""
        mock.patch.stopall()
        file = Path(os.environ["FAULTS"])
        self.fault, *others = file.read_text().splitlines() or [""]
        file.write_text("\n".join(others))
        self.host = env.unwrapped.host
        self.turn = 0
        BEFORE.get(self.fault, lambda host: None)(self.host)

    def act(self, observation: Any, info: Any) -> Any:
        """Two turns."""
        self.turn += 1
        if self.turn == 1:
            move = {"name": "execute_blender_code", "arguments": {"code": MOVE}}
            return [move, {"name": "render_scene_view", "arguments": {}}]
        if self.fault == HARMLESS:
            killed_in("collect", for_good=False)(self.host)
        DURING.get(self.fault, lambda host: None)(self.host)
        return [{"name": "get_scene_info", "arguments": {}}, {"name": "submit", "arguments": {}}]


def impatient_model(env: Any, seed: int) -> VLMAgent:
    """The agent `vlm`, which gives up after two tries at once."""
    config = VLMConfig("scripted", "openai", os.environ["SERVER"], tries=2, timeout=1.0)
    return VLMAgent(env, config=config, sleep=lambda seconds: None)
