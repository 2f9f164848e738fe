"""Dynamic: build a scene from a component library and animate it as frames of a video show it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from sceneact_gym.blender.draco import decode_draco
from sceneact_gym.blender.process import OperationError
from sceneact_gym.blender.render import RenderSettings
from sceneact_gym.blender.session import BlenderSession
from sceneact_gym.cases import Case, View
from sceneact_gym.evaluators import dynamic as evaluator
from sceneact_gym.evaluators import gltf
from sceneact_gym.evaluators.base import Protocol
from sceneact_gym.tasks import lighting, photoreal
from sceneact_gym.tasks.base import Score, Submission, Task
from sceneact_gym.tasks.geometry import collect_motion

FOLDER = "components"
"""Where agent code finds the component library, in its current folder."""
SHOWN = tuple(int(frame) for frame in np.linspace(0, evaluator.FRAMES - 1, 9).round())
"""Reference frames (0-based) that an observation holds."""

SYSTEM_PROMPT = """\
You work in Blender through tools. A video of {frames} frames at 24 frames a second shows a scene in which some things
move. Your scene holds only light and the camera of the video; a library of components lies in files. Your job is to
build the same scene from the components and to animate what moves.{look}

Rules of this world
- Lengths are metres, Z points up, angles are degrees. Things stand on z = 0, which is the top of the ground unless its
  own shape says otherwise. The components have their true size: move and turn them, do not scale them. Most have their
  front towards -Y and stand on their own origin; those that turn about a hinge or an axis have their origin there.
- A component may be there several times or not at all. The ground and roads are components, too.
- Frame i of the video (counted from 0, as read_reference_frames does) shows frame i + 1 of the animation; the camera
  does not move. What is collected are the meshes that a render of frame 1 would show and their places in the frames 1
  to {frames} as Blender evaluates them: keys, parents, constraints and drivers all count. A thing moves if its place
  changes; what has a parent belongs to the topmost parent. Keep each thing an object of its own and key the thing
  itself: what hangs unmoved from a moving parent counts as standing, too. What Blender interpolates between your keys
  counts as well, so mind the interpolation (LINEAR for even motion, CONSTANT or a key on every frame for jumps).
- One turn is one or more tool calls (at most 16), run in order. You have {budget} turns. A turn without calls, or the
  tool submit, ends the episode; so does the last turn. What then counts is the scene.

What is graded
- Motion: your moving things are matched with the true ones so that their paths fit best, and one shift of your whole
  scene is forgiven. The error of a true mover is the mean distance between its path and yours over the frames, relative
  to the size of the scene, or 1 if nothing is matched with it. The place of a thing is the mean of its vertices. The
  worst mover decides; movers that are not in the video are counted against you.
- Layout: how far the standing things are from the nearest true standing thing, and the other way round, relative to the
  size of the scene. Which component stands where is not checked, the places are. So build all of the scene, and nothing
  else.
- Light, materials and cameras are not graded."""

PHOTOREAL = """
The video looks like real footage (sky, haze, real surfaces), your components are plain; the shapes are the same."""

PROMPT = """\
The library has these components: {components}. Import one by its file, for example

    bpy.ops.import_scene.gltf(filepath="{folder}/{example}")
    thing = bpy.context.selected_objects[0]
    thing.name = "first"
    thing.rotation_mode = "XYZ"
    thing.location = (1.0, -2.0, 0.0)

and look at it with render_scene_view from free poses. Copies need no second import (thing.copy(), linked into the
scene's collection). The attached pictures are the frames {shown} of the video; look at others with
read_reference_frames (at most 16 a call). The camera "{camera}" is that of the video, its horizontal field of view is
{fov:g} degrees: render_scene_view(camera="{camera}", frame=73) shows your frame 73 as frame 72 of the video shows the
true one. Place what stands, find out what moves and how, set keys on location and rotation_euler over the frames 1 to
{frames}, compare renders of several frames with the video, improve, then submit."""


class DynamicTask(Task):
    """Truth: `scene.glb`, `movers`, `tracks`, `statics`, and perhaps `scene_scale`, `boxes`, `sizes`.

    `scene.glb` (uint8) is the animated scene, frame r at (r + 1) / 24 s; `movers` are names, `tracks` (M, 144, 3) their
    places, `statics` (K, 3) those of what stands. Public: the component files, `components` (their names), the camera.
    """

    name = "dynamic"
    env_id = "SceneAct/Dynamic-v0"
    budget = 80
    references = len(SHOWN)
    object_names = ("camera",)
    look = ""

    def prompts(self, case: Case, budget: int) -> tuple[str, str]:
        """See the class above."""
        components = list(case.public.data["components"])
        (view,) = case.public.views
        return (
            SYSTEM_PROMPT.format(frames=evaluator.FRAMES, budget=budget, look=self.look),
            PROMPT.format(
                components=", ".join(components),
                folder=FOLDER,
                example=components[0],
                shown=", ".join(map(str, SHOWN)),
                camera=view.name,
                fov=view.fov_x_deg,
                frames=evaluator.FRAMES,
            ),
        )

    def build(self, session: BlenderSession, case: Case) -> None:
        """Light and camera, and 144 frames."""
        session.call("set_lighting", **lighting.OUTDOOR)
        (view,) = case.public.views
        matrix = np.asarray(view.matrix_world, float).tolist()
        session.call("add_camera", name=view.name, matrix=matrix, fov_x_deg=view.fov_x_deg, active=True)
        session.call("set_frames", first=1, last=evaluator.FRAMES)

    def files(self, case: Case) -> Mapping[str, bytes]:
        """The component library."""
        return {f"{FOLDER}/{name}": decode_draco(case.public.assets[name]) for name in case.public.data["components"]}

    def build_references(self, session: BlenderSession, case: Case) -> None:
        """The true scene with its motion; only the trusted Blender sees it."""
        session.call("import_glb", decode_draco(case.truth["scene.glb"].tobytes()))
        session.call("set_lighting", **lighting.OUTDOOR)

    def protected(self, case: Case) -> Sequence[str]:
        """The camera."""
        return tuple(view.name for view in case.public.views)

    def collect(self, session: BlenderSession, case: Case, baseline: Any) -> Submission | None:
        """The shown meshes and their motion over the frames 1 to 144, as animated GLB."""
        try:
            glb = collect_motion(session, evaluator.FRAMES)
        except OperationError:
            return None
        return Submission({}, {"scene.glb": glb})

    def evaluate(self, case: Case, submission: Submission | None, protocol: Protocol) -> Score:
        """MME, AME and LE as fractions of the scene's size, and what is wrong with the paths."""
        if submission is None:
            return Score(0.0, {}, False, "the scene could not be collected")
        try:
            found = evaluator.tracks_from_gltf(gltf.load(submission.files["scene.glb"]), protocol=protocol)
        except gltf.GltfError as problem:
            return Score(0.0, {}, False, str(problem))
        result = evaluator.evaluate(
            found.tracks,
            found.statics,
            read_truth(case.truth),
            protocol=protocol,
            boxes=found.boxes,
            mover_sizes=found.mover_sizes,
        )
        names = (
            "mme ame le recall count_err layout_count_err shape_err direction_err heading_err scale_err size_err "
            "mover_size_err extra scene_scale"
        )
        metrics = {name: getattr(result, name) for name in names.split()}
        return Score(result.score, metrics, result.valid, result.reason)

    def reference_views(self, case: Case) -> Sequence[View]:
        """The fixed camera, once per frame."""
        return case.public.views * evaluator.FRAMES

    def reference_frames(self, case: Case) -> Sequence[int]:
        """1 to 144."""
        return range(1, evaluator.FRAMES + 1)

    def shown_references(self, case: Case) -> Sequence[int]:
        """Nine frames, evenly spaced."""
        return SHOWN

    def telling_references(self, case: Case) -> Sequence[int]:
        """Start, middle and end."""
        return (0, evaluator.FRAMES // 2, evaluator.FRAMES - 1)


class DynamicPhotorealTask(DynamicTask):
    """The same scenes and the same truth; only the video looks real."""

    name = "dynamic_photoreal"
    env_id = "SceneAct/DynamicPhotoreal-v0"
    look = PHOTOREAL

    def build_references(self, session: BlenderSession, case: Case) -> None:
        """The true scene with real surfaces, sky, sun and haze."""
        super().build_references(session, case)
        answer = session.call("execute", code=photoreal.CODE, output_limit=1000)
        if answer["error"]:
            raise OperationError(f"the scene cannot be given its real look: {answer['error']}")

    def reference_settings(self, settings: RenderSettings) -> RenderSettings:
        """With the sky in the picture, and without noise."""
        # Its surfaces take long to render; the denoiser makes up for half of the samples.
        return replace(settings, samples=-(-settings.samples // 2), **photoreal.SETTINGS)

    def reference_look(self) -> str:
        """The code above, too."""
        return super().reference_look() + photoreal.CODE + json.dumps(photoreal.SETTINGS)


def read_truth(truth: Mapping[str, Any]) -> evaluator.DynamicTruth:
    """A case's truth as the evaluator takes it."""
    scale, boxes, sizes = (truth.get(name) for name in ("scene_scale", "boxes", "sizes"))
    movers = list(truth["movers"])
    return evaluator.DynamicTruth(
        dict(zip(movers, np.asarray(truth["tracks"], np.float64), strict=True)),
        np.asarray(truth["statics"], np.float64).reshape(-1, 3),
        None if scale is None else float(scale),
        None if boxes is None else np.asarray(boxes, np.float64),
        {} if sizes is None else dict(zip(movers, np.asarray(sizes, np.float64), strict=True)),
    )


def placing_code(truth: Mapping[str, Any]) -> str:
    """Code that builds a generated scene from its library.

    Its truth also has `placements` (component file and (4, 4) pose of what stands), `moving` (component files of what
    moves) and `poses` (M, 144, 4, 4).
    """
    placements = [[name, np.round(np.asarray(pose)[:3], 6).tolist()] for name, pose in truth["placements"]]
    poses = np.round(np.asarray(truth["poses"], float)[:, :, :3], 6).tolist()
    return (
        "from mathutils import Matrix\n"
        "originals = {}\n"
        "def place(component):\n"
        "    if component not in originals:\n"
        f"        bpy.ops.import_scene.gltf(filepath='{FOLDER}/' + component)\n"
        "        originals[component] = bpy.context.selected_objects[0]\n"
        "        originals[component].rotation_mode = 'QUATERNION'\n"
        "        return originals[component]\n"
        "    thing = originals[component].copy()\n"
        "    thing.animation_data_clear()\n"
        "    bpy.context.scene.collection.objects.link(thing)\n"
        "    return thing\n"
        f"for component, rows in {placements!r}:\n"
        "    place(component).matrix_world = Matrix([*rows, (0, 0, 0, 1)])\n"
        f"for component, poses in zip({list(truth['moving'])!r}, {poses!r}):\n"
        "    thing = place(component)\n"
        "    for index, rows in enumerate(poses):\n"
        "        thing.location, thing.rotation_quaternion, _ = Matrix([*rows, (0, 0, 0, 1)]).decompose()\n"
        "        thing.keyframe_insert('location', frame=index + 1)\n"
        "        thing.keyframe_insert('rotation_quaternion', frame=index + 1)\n"
    )
