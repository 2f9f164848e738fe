"""Reconstruction: rebuild the furniture of a room from eleven calibrated views."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sceneact_gym.blender.process import OperationError
from sceneact_gym.blender.session import BlenderSession
from sceneact_gym.cases import Case, View
from sceneact_gym.evaluators import gltf
from sceneact_gym.evaluators import reconstruction as evaluator
from sceneact_gym.evaluators.base import Protocol
from sceneact_gym.tasks.base import Score, Submission, Task
from sceneact_gym.tasks.geometry import collect_meshes, meshes_glb
from sceneact_gym.tasks.layout import add_views, build_truth

SYSTEM_PROMPT = """\
You work in Blender through tools. {views} pictures show the furniture of a room from calibrated cameras. Your scene is
empty but for these cameras. Your job is to model the furniture: the same pieces in the same places and shapes.

Rules of this world
- Lengths are metres, Z points up, angles are degrees, the floor is z = 0. Floor and walls are neither shown nor wanted.
- Build meshes by any means of Blender. Modifiers are applied and instances made real when the scene is collected; what
  is hidden in renders is left out. Cameras and lights do not count; do not remove the given cameras.
- One turn is one or more tool calls (at most 16), run in order. You have {budget} turns. A turn without calls, or the
  tool submit, ends the episode; so does the last turn. What then counts are the meshes of the scene.

What is graded
- How much of the surface of each piece your meshes cover, and how much of your surface lies on a piece, both within
  5 % of the piece's size; every piece counts the same. Surface where there is none in the room lowers the score.
- The scene is aligned with the room by scale, place and quarter turns before; colours and materials are not graded."""

PROMPT = """\
The attached pictures are, in this order, the views of the cameras {names}.
They stand in your scene; their horizontal field of view is {fov:g} degrees. render_scene_view(camera="{first}") shows
your scene as the first picture shows the room. Find out which pieces there are, how large they are and where they are,
build them part by part, compare renders with the pictures, improve, then submit."""


class ReconstructionTask(Task):
    """Truth: `scene.glb` (uint8), the furniture in its place. Public: the views."""

    name = "reconstruction"
    env_id = "SceneAct/Reconstruction-v0"
    budget = 35
    references = 11
    hidden_tools = ("read_reference_frames", "import_component")
    object_names = ("view_00",)

    def prompts(self, case: Case, budget: int) -> tuple[str, str]:
        """See the class above."""
        views = case.public.views
        return (
            SYSTEM_PROMPT.format(views=len(views), budget=budget),
            PROMPT.format(
                names=", ".join(view.name for view in views), fov=views[0].fov_x_deg, first=views[0].name
            ),
        )

    def build(self, session: BlenderSession, case: Case) -> None:
        """Cameras and light, nothing else."""
        add_views(session, case)

    def build_references(self, session: BlenderSession, case: Case) -> None:
        """The furniture; only the trusted Blender sees it."""
        build_truth(session, case)

    def protected(self, case: Case) -> Sequence[str]:
        """The cameras."""
        return tuple(view.name for view in case.public.views)

    def collect(self, session: BlenderSession, case: Case, baseline: Any) -> Submission | None:
        """All visible meshes as GLB."""
        try:
            meshes = [mesh for mesh in collect_meshes(session) if len(mesh.faces)]
        except OperationError:
            return None
        if not meshes:
            return None
        return Submission({"meshes": [mesh.name for mesh in meshes]}, {"scene.glb": meshes_glb(meshes)})

    def evaluate(self, case: Case, submission: Submission | None, protocol: Protocol) -> Score:
        """F scores and coverage in [0, 1], centroid error and Chamfer in metres."""
        predicted, unread = [], ""
        if submission is not None:
            try:
                predicted = list(gltf.load(submission.files["scene.glb"]).world_meshes())
            except gltf.GltfError as problem:
                # The agent's scene, too large or beyond all coordinates: no fault of the evaluator.
                unread = str(problem)
        truth = gltf.load(case.truth["scene.glb"].tobytes()).world_meshes()
        result = evaluator.evaluate(predicted, truth, protocol=protocol)
        names = "f5 match_rate centroid_err region_f5 coverage scene_f2 scene_f5 scene_f10 chamfer".split()
        metrics = {name: getattr(result, name) for name in names}
        return Score(result.score, metrics, result.valid, unread or result.reason)

    def reference_views(self, case: Case) -> Sequence[View]:
        """The given cameras."""
        return case.public.views
