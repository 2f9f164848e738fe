"""Camera: find the pose from which a picture of a furnished room was taken."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from sceneact_gym.blender.draco import decode_draco
from sceneact_gym.blender.process import OperationError
from sceneact_gym.blender.render import RenderSettings
from sceneact_gym.blender.session import BlenderSession
from sceneact_gym.cases import Case, View
from sceneact_gym.evaluators import camera as evaluator
from sceneact_gym.evaluators.base import Protocol
from sceneact_gym.tasks import lighting
from sceneact_gym.tasks.base import Score, Submission, Task

CAMERA_NAME = "camera"
SCENE_ASSET = "scene.glb"
NEUTRAL_POSE = np.array([[1.0, 0, 0, 0], [0, 0, -1, 0], [0, 1, 0, 1.5], [0, 0, 0, 1]])
"""Where the camera stands at first, in every case: at the origin, 1.5 m high, looking along +Y."""

SYSTEM_PROMPT = """\
You work in Blender through tools. A picture of a furnished room was taken by a hidden camera. The same room is loaded
in Blender. Your job is to put the active camera where the hidden one stood, so that both see the same picture.

Rules of this world
- Lengths are metres, Z points up, angles are degrees. A camera looks along its local -Z axis, its local +Y is up in the
  picture. Pictures are square and their background is white.
- The room is fixed: move only the camera. Changes of the furniture are recorded and never help.
- One turn is one or more tool calls (at most 16), run in order. You have {budget} turns. A turn without calls, or the
  tool submit, ends the episode; so does the last turn. What then counts is the active camera of the scene.

What is graded
- The distance between your camera and the hidden one, and the angle between their viewing directions.
- Roll about the viewing direction and the field of view are not graded. Nothing else in the scene is."""

PROMPT = """\
The attached picture is the view of the hidden camera. Its horizontal field of view is {fov:g} degrees. The active
camera is called "{name}", already has this field of view and stands at a neutral pose that tells nothing about the
answer. Set its pose with code, for example:

    from mathutils import Vector
    camera = bpy.context.scene.camera
    camera.location = (1.0, -2.0, 1.4)
    direction = Vector((0.0, 0.0, 1.0)) - camera.location
    camera.rotation_euler = direction.to_track_quat("-Z", "Y").to_euler()

render_scene_view shows what any pose sees without moving the camera. Compare with the picture, improve, then submit."""


class CameraTask(Task):
    """Truth: `matrix_world` (4x4) and `fov_x_deg`. Public: `scene.glb`, `fov_x_deg`, `objects` (the fixed names)."""

    name = "camera"
    env_id = "SceneAct/Camera-v0"
    budget = 30
    references = 1
    hidden_tools = ("read_reference_frames", "import_component")

    def prompts(self, case: Case, budget: int) -> tuple[str, str]:
        """See the class above."""
        return (
            SYSTEM_PROMPT.format(budget=budget),
            PROMPT.format(fov=case.public.data["fov_x_deg"], name=CAMERA_NAME),
        )

    def build(self, session: BlenderSession, case: Case) -> None:
        """The furnished room, its light, and the camera at the neutral pose."""
        session.call("import_glb", decode_draco(case.public.assets[SCENE_ASSET]))
        session.call("set_lighting", **lighting.ROOM)
        session.call(
            "add_camera",
            name=CAMERA_NAME,
            matrix=NEUTRAL_POSE.tolist(),
            fov_x_deg=case.public.data["fov_x_deg"],
            active=True,
        )

    def protected(self, case: Case) -> Sequence[str]:
        """The camera and everything in the room."""
        return (CAMERA_NAME, *case.public.data["objects"])

    def baseline(self, session: BlenderSession, case: Case) -> Any:
        """The room's fingerprint, so that changes of it can be reported."""
        return session.query("fingerprint", names=list(case.public.data["objects"]))

    def collect(self, session: BlenderSession, case: Case, baseline: Any) -> Submission | None:
        """The active camera's pose, and which objects of the room were changed."""
        pose = checked_pose(session.query("camera_state"))
        try:
            now = session.query("fingerprint", names=list(case.public.data["objects"]))
        except OperationError:
            now = None
        now = now if isinstance(now, dict) else {}
        changed = sorted(name for name, value in baseline.items() if now.get(name) != value)
        return None if pose is None else Submission({**pose, "changed_objects": changed})

    def evaluate(self, case: Case, submission: Submission | None, protocol: Protocol) -> Score:
        """PE in metres, AE and fov_x in degrees."""
        predicted = None
        if submission is not None:
            predicted = {name: submission.data[name] for name in ("matrix_world", "fov_x_deg")}
        result = evaluator.evaluate(predicted, case.truth, protocol=protocol)
        metrics = {"pe": result.pe, "ae": result.ae, "fov_x": result.fov_x}
        if submission is not None:
            metrics["n_changed"] = len(submission.data["changed_objects"])
        return Score(result.score, metrics, result.valid, result.reason)

    def reference_views(self, case: Case) -> Sequence[View]:
        """The hidden camera."""
        truth = case.truth
        return (View("reference", np.asarray(truth["matrix_world"], float), float(truth["fov_x_deg"])),)

    def audit(
        self, session: BlenderSession, case: Case, submission: Submission, settings: RenderSettings
    ) -> Mapping[str, Any]:
        """SSIM and PSNR (dB) between the views of the submitted and of the true camera, in the case's own room.

        Both pictures have the submitted field of view, are rendered at 384 px and compared at 256 px. `clip` and
        `lpips` need downloaded weights; None says that a figure is unavailable.
        """
        from sceneact_gym.evaluators import visual

        session.load(f"audit:{case.id}", lambda trusted: self.build(trusted, case))
        pictures = [
            session.render(settings, by_agent=False, matrix=matrix, fov_x_deg=submission.data["fov_x_deg"])
            for matrix in (submission.data["matrix_world"], np.asarray(case.truth["matrix_world"], float).tolist())
        ]
        return visual.compare(*pictures)


def checked_pose(state: Any) -> dict[str, Any] | None:
    """A camera state from the worker, checked: `matrix_world` of 4x4 finite numbers and `fov_x_deg`; else None."""
    try:
        matrix = np.array(state["matrix_world"], float)
        fov = float(state["fov_x_deg"])
    except (TypeError, ValueError, KeyError, OverflowError):
        return None
    if matrix.shape != (4, 4) or not np.isfinite(matrix).all() or not math.isfinite(fov):
        return None
    return {"matrix_world": matrix.tolist(), "fov_x_deg": fov}
