"""Reference pictures of generated cases: rendered by a trusted Blender that no agent reaches, then cached.

The cache is a folder of PNG files named by a hash over everything that changes their pixels. Files appear by an atomic
rename, so that several processes can share it.
"""

from __future__ import annotations

import hashlib
import json
import os
import secrets
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import overload

import numpy as np
import platformdirs

from sceneact_gym.blender.process import WorkerFault
from sceneact_gym.blender.render import RenderSettings, encode_png, is_constant
from sceneact_gym.blender.session import BlenderSession, SessionSettings, ToolFault
from sceneact_gym.cases import Case, View
from sceneact_gym.errors import InfraError
from sceneact_gym.tasks.base import Task

CACHE_VERSION = 1
"""Raised when the way of rendering changes in a manner that the key below cannot see."""


def cache_folder() -> Path:
    """Where rendered references are kept; `SCENEACT_CACHE` overrides the user's cache folder."""
    chosen = os.environ.get("SCENEACT_CACHE")
    return Path(chosen) if chosen else platformdirs.user_cache_path("sceneact-gym")


class ReferenceRenderer:
    """Completes cases with their references. Its Blender starts when the first picture is not in the cache."""

    def __init__(self, settings: SessionSettings) -> None:
        """Keeps the session settings."""
        self.session = BlenderSession(settings)
        self._scene = ""
        self._busy = False

    def complete(self, case: Case, task: Task, settings: RenderSettings, blender_version: str) -> Case:
        """The case with its references; a case that has them already comes back as it is.

        Args:
            case: the case.
            task: its task.
            settings: a proven engine (not `auto`), and the references' size.
            blender_version: of the Blender that renders, part of the cache's key.

        Returns:
            A case whose references are rendered, or read from the cache, when they are looked at. That raises
            `InfraError` when a picture cannot be rendered, or shows nothing.
        """
        if case.public.references:
            return case
        settings = task.reference_settings(settings)
        scene = _scene_key(case, task, settings, blender_version)
        return case.with_references(_References(self, case, task, settings, scene))

    def cancel(self) -> None:
        """Ends, from another thread, the `render` that is at work, if any; to be repeated until it has ended."""
        if self._busy:
            self.session.cancel(own_work=True)

    def close(self) -> None:
        """Ends its Blender; safe to call twice."""
        self.session.close()

    def render(
        self, case: Case, task: Task, view: View, frame: int | None, settings: RenderSettings, scene: str
    ) -> bytes:
        """One picture as PNG.

        Args:
            case: the case.
            task: its task.
            view: the camera.
            frame: 1-based frame to show; None where nothing moves.
            settings: as in `complete`.
            scene: identifies the scene with its look.

        Raises:
            InfraError: it cannot be rendered, or shows nothing.
            ToolFault: it was cancelled.
        """
        self._busy = True
        try:
            if self._scene != scene or not self.session.running:
                # A render leaves the scene as it was: once is enough for all pictures of a case.
                self.session.load(scene, lambda session: task.build_references(session, case))
                self._scene = scene
            picture = self.session.render(
                settings, by_agent=False, matrix=view.matrix_world.tolist(), fov_x_deg=view.fov_x_deg, frame=frame
            )
        except WorkerFault as fault:
            if fault.kind == "cancelled":
                raise ToolFault("The call was cancelled; nothing has changed.") from fault
            raise InfraError(f"the reference {view.name} of the case {case.id} cannot be rendered: {fault}") from fault
        finally:
            self._busy = False
        if is_constant(picture):
            raise InfraError(f"the reference {view.name} of the case {case.id} shows nothing: {settings.engine} failed")
        return encode_png(picture)


class _References(Sequence[bytes]):
    """The pictures of one case, each made when it is first looked at."""

    def __init__(
        self, renderer: ReferenceRenderer, case: Case, task: Task, settings: RenderSettings, scene: str
    ) -> None:
        self._renderer, self._case, self._task, self._settings, self._scene = renderer, case, task, settings, scene
        self._views = task.reference_views(case)
        frames = task.reference_frames(case)
        self._frames: Sequence[int | None] = [None] * len(self._views) if frames is None else frames
        self._made: dict[str, bytes] = {}

    def __len__(self) -> int:
        return len(self._views)

    @overload
    def __getitem__(self, index: int) -> bytes: ...

    @overload
    def __getitem__(self, index: slice) -> Sequence[bytes]: ...

    def __getitem__(self, index: int | slice) -> bytes | Sequence[bytes]:
        if isinstance(index, slice):
            return tuple(self[number] for number in range(*index.indices(len(self))))
        view, frame = self._views[index], self._frames[index]
        key = hashlib.sha256(f"{self._scene}{json.dumps(view.as_dict())}{frame or ''}".encode()).hexdigest()
        if key not in self._made:
            self._made[key] = self._cached(key, view, frame)
        return self._made[key]

    def _cached(self, key: str, view: View, frame: int | None) -> bytes:
        folder = cache_folder() / "references" / key[:2]
        path = folder / f"{key}.png"
        try:
            return path.read_bytes()
        except FileNotFoundError:
            pass
        data = self._renderer.render(self._case, self._task, view, frame, self._settings, self._scene)
        try:
            folder.mkdir(parents=True, exist_ok=True)
            part = folder / f"{key}.{secrets.token_hex(4)}.part"
            part.write_bytes(data)
            os.replace(part, path)
        except OSError:
            # A cache that cannot be written (read-only home, full disk) costs time, nothing else.
            pass
        return data


def _scene_key(case: Case, task: Task, settings: RenderSettings, blender_version: str) -> str:
    """A hash of everything that changes the pictures but the view and the frame."""
    digest = hashlib.sha256()
    for name in sorted(case.public.assets):
        digest.update(name.encode() + hashlib.sha256(case.public.assets[name]).digest())
    digest.update(_truth_key(case))
    # The number of threads does not change pixels.
    look = [CACHE_VERSION, case.task, case.condition, replace(settings, threads=0).as_dict()]
    digest.update(json.dumps([look, task.reference_look(), blender_version], sort_keys=True).encode())
    return digest.hexdigest()


def _truth_key(case: Case) -> bytes:
    """A hash of the truth, on which pictures depend besides the assets."""
    digest = hashlib.sha256()
    for name, value in sorted(case.truth.items()):
        array = isinstance(value, np.ndarray)
        digest.update(name.encode() + (value.tobytes() if array else json.dumps(value, sort_keys=True).encode()))
    return digest.digest()
