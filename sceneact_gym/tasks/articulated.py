"""Articulated: find out how a container opens, and animate its anonymous meshes as a sequence of pictures shows it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sceneact_gym.blender.draco import decode_draco
from sceneact_gym.blender.process import OperationError
from sceneact_gym.blender.session import BlenderSession
from sceneact_gym.cases import Case, View
from sceneact_gym.evaluators import articulated as evaluator
from sceneact_gym.evaluators.base import Protocol
from sceneact_gym.tasks import lighting
from sceneact_gym.tasks.base import Score, Submission, Task

OBJECT_ASSET = "object.glb"
FRAMES_FILE = "frames.f32"
"""World vertices of all sampled frames, xyz as little-endian float32, one frame after the other."""

SYSTEM_PROMPT = """\
You work in Blender through tools. {count} pictures, in order, show an object that opens and closes again: some of its
parts turn about a hinge or slide. The closed object is in your scene, cut into meshes without telling names. Your job
is to find out which meshes move together and how, and to animate them so that your object moves as the pictured one.

Rules of this world
- Lengths are metres, Z points up, angles are degrees. The front of the object looks towards -Y, and it stands on z = 0.
- Picture i (counted from 0, as read_reference_frames does) shows frame i + 1 of the animation. Picture 0 is the closed
  object as you got it, picture {open} shows it fully open; after that it goes back through the same states.
- Every part moves rigidly: a turn about one fixed axis, or a shift along one fixed direction. Handles and whatever else
  is fixed to a part move along. What belongs to the body does not move. One part may consist of several meshes; no mesh
  belongs to two parts.
- What is collected is the place of the given meshes in the frames 1 to {count}, as Blender evaluates them: keyframes,
  parents, constraints and drivers all count. Between keys Blender interpolates; before the first and after the last key
  the nearest one holds; a mesh without keys stays in every frame where it stands at the end. You can also place the
  meshes frame by frame, one call per frame, as long as you insert keys.
- Do not edit, scale, join, rename or remove the given meshes. Objects that you add (empties as pivots, for example) are
  not collected.
- One turn is one or more tool calls (at most 16), run in order. You have {budget} turns. A turn without calls, or the
  tool submit, ends the episode; so does the last turn. What then counts is the animation in the scene.

What is graded
- For every moving part: in each of your frames the mean distance between its vertices and the true ones at the same
  opening, where the opening is how far the part has moved from your most closed frame. The largest one over the frames
  counts, or what is missing of the full opening if that is more. So the path and the full extent count, the speed does
  not; but the true openings are those of the pictures, evenly spaced, and a frame between two of them is compared with
  the nearer one. The worst part decides.
- Parts that move although they should not are counted as well. Light, materials and cameras are not graded."""

PROMPT = """\
The scene has the meshes {first} to {last} ({number} in all), each with its origin at the world's origin. The camera
"{camera}" is the one of the pictures: render_scene_view(camera="{camera}", frame=17) shows your frame 17 as picture 16
shows the true one. Look at pictures with read_reference_frames (at most 16 a call), find the meshes of each moving part
(their bounding boxes help), then set keys, for example for a turn of two meshes about an upright hinge:

    import math
    from mathutils import Matrix, Vector
    hinge = Vector((0.4, -0.3, 0.0))
    for name in ("node_003", "node_008"):
        thing = bpy.data.objects[name]
        thing.rotation_mode = "XYZ"
        for frame in range(1, 33):
            opening = min(frame - 1, 33 - frame) / 16
            turn = Matrix.Rotation(math.radians(90) * opening, 4, "Z")
            thing.matrix_world = Matrix.Translation(hinge) @ turn @ Matrix.Translation(-hinge)
            thing.keyframe_insert("location", frame=frame)
            thing.keyframe_insert("rotation_euler", frame=frame)

Compare renders of several frames with the pictures, improve, then submit."""


class ArticulatedTask(Task):
    """Truth: `frames`, `part_of_vertex`, `parts`, `poses`. Public: `object.glb`, `objects` (names), the camera.

    `frames` are (32, V, 3) world vertices, closed, open at 16 and back: objects in the order of their names, and the
    vertices of each in the order of its mesh. `parts` are rows with `id`, `nodes`, `joint_type` (None for the body) and
    `range` (radians or metres); `poses` are (32, P, 4, 4) motions from the closed state, in the order of `parts`.
    """

    name = "articulated"
    env_id = "SceneAct/Articulated-v0"
    budget = 60
    references = evaluator.FRAMES
    hidden_tools = ("import_component",)
    object_names = tuple(f"node_{number:03d}" for number in range(6))

    def prompts(self, case: Case, budget: int) -> tuple[str, str]:
        """See the class above."""
        names = case.public.data["objects"]
        return (
            SYSTEM_PROMPT.format(count=evaluator.FRAMES, open=evaluator.OPEN_FRAME, budget=budget),
            PROMPT.format(first=names[0], last=names[-1], number=len(names), camera=case.public.views[0].name),
        )

    def build(self, session: BlenderSession, case: Case) -> None:
        """The closed object, its light and the camera of the pictures."""
        session.call("import_glb", decode_draco(case.public.assets[OBJECT_ASSET]))
        session.call("set_lighting", **lighting.OBJECT)
        (view,) = case.public.views
        session.call("add_camera", **_camera(view), active=True)

    def build_references(self, session: BlenderSession, case: Case) -> None:
        """The object with its true motion, by keys on every frame; only the trusted Blender sees it."""
        self.build(session, case)
        answer = session.call("execute", code=motion_code(case.truth), output_limit=1000)
        if answer["error"]:
            raise OperationError(f"the true motion cannot be shown: {answer['error']}")

    def protected(self, case: Case) -> Sequence[str]:
        """The camera and the meshes of the object."""
        return (case.public.views[0].name, *case.public.data["objects"])

    def collect(self, session: BlenderSession, case: Case, baseline: Any) -> Submission | None:
        """The world vertices of the given objects in the frames 1 to 32."""
        try:
            answer, blobs = session.query_with_data(
                "animated_vertices",
                names=list(case.public.data["objects"]),
                frames=list(range(1, evaluator.FRAMES + 1)),
                limit=evaluator.MAX_VERTICES,
            )
        except OperationError:
            return None
        counts = _checked_counts(answer, blobs)
        return None if counts is None else Submission({"vertices": counts}, {FRAMES_FILE: blobs[0]})

    def evaluate(self, case: Case, submission: Submission | None, protocol: Protocol) -> Score:
        """MPE, Mean Part Error and open ADD-S in metres, rates in [0, 1]."""
        frames = [] if submission is None else read_frames(submission)
        result = evaluator.evaluate(frames, read_truth(case.truth), protocol=protocol)
        names = ("mpe", "mean_part", "recall", "false_move", "type_mismatch", "reverse_dir", "off_axis", "open_add_s")
        metrics = {name: getattr(result, name) for name in (*names, "fallback")}
        return Score(result.score, metrics, result.valid, result.reason)

    def reference_views(self, case: Case) -> Sequence[View]:
        """The fixed camera, once per frame."""
        return case.public.views * evaluator.FRAMES

    def telling_references(self, case: Case) -> Sequence[int]:
        """Closed and open."""
        return (0, evaluator.OPEN_FRAME)

    def reference_frames(self, case: Case) -> Sequence[int]:
        """1 to 32; where a state comes again, its first frame, so that it is rendered only once."""
        first: dict[bytes, int] = {}
        return [first.setdefault(pose.tobytes(), index + 1) for index, pose in enumerate(case.truth["poses"])]


def read_truth(truth: Mapping[str, Any]) -> evaluator.ArticulatedTruth:
    """A case's truth as the evaluator takes it."""
    moving = [part for part in truth["parts"] if part["joint_type"] is not None]
    return evaluator.ArticulatedTruth(
        np.asarray(truth["frames"], np.float64),
        np.asarray(truth["part_of_vertex"], np.int64),
        {int(part["id"]) for part in moving},
        {int(part["id"]): part["joint_type"] for part in moving},
        {int(part["id"]): float(part["range"]) for part in moving},
    )


def read_frames(submission: Submission) -> list[NDArray[np.float64]]:
    """The submitted states, (V, 3) world vertices each."""
    points = np.frombuffer(submission.files[FRAMES_FILE], "<f4").reshape(-1, 3).astype(np.float64)
    return np.split(points, np.cumsum(submission.data["vertices"])[:-1])


def motion_code(truth: Mapping[str, Any]) -> str:
    """Code that sets the true motion by keys on the frames 1 to 32."""
    motion = [
        (part["nodes"], np.round(np.asarray(truth["poses"], float)[:, number, :3], 7).tolist())
        for number, part in enumerate(truth["parts"])
        if part["joint_type"] is not None
    ]
    return (
        "from mathutils import Matrix\n"
        f"for names, poses in {motion!r}:\n"
        "    for name in names:\n"
        "        thing = bpy.data.objects[name]\n"
        "        thing.rotation_mode = 'QUATERNION'\n"
        "        for index, rows in enumerate(poses):\n"
        "            thing.location, thing.rotation_quaternion, _ = Matrix([*rows, (0, 0, 0, 1)]).decompose()\n"
        "            thing.keyframe_insert('location', frame=index + 1)\n"
        "            thing.keyframe_insert('rotation_quaternion', frame=index + 1)\n"
    )


def _camera(view: View) -> dict[str, Any]:
    matrix = np.asarray(view.matrix_world, float).tolist()
    return {"name": view.name, "matrix": matrix, "fov_x_deg": view.fov_x_deg}


def _checked_counts(answer: Any, blobs: Sequence[bytes]) -> list[int] | None:
    """Vertices per frame as the worker told them, if they fit the bytes that came with them and these are numbers."""
    counts = answer.get("vertices") if isinstance(answer, dict) else None
    if not isinstance(counts, list) or len(counts) != evaluator.FRAMES or len(blobs) != 1:
        return None
    if not all(type(count) is int and 0 < count <= evaluator.MAX_VERTICES for count in counts):
        return None
    if len(blobs[0]) != 12 * sum(counts) or not np.isfinite(np.frombuffer(blobs[0], "<f4")).all():
        return None
    return counts
