"""Layout: put the given objects where a picture shows them, from one view or from eleven."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from sceneact_gym.blender.draco import decode_draco
from sceneact_gym.blender.process import OperationError
from sceneact_gym.blender.session import BlenderSession
from sceneact_gym.cases import Case, View
from sceneact_gym.evaluators import gltf
from sceneact_gym.evaluators import layout as evaluator
from sceneact_gym.evaluators.base import Protocol
from sceneact_gym.tasks import lighting
from sceneact_gym.tasks.base import Score, Submission, Task
from sceneact_gym.tasks.geometry import collect_meshes, meshes_glb

SYSTEM_PROMPT = """\
You work in Blender through tools. {pictures} of a furnished room {show} how some pieces of furniture stand. The same
pieces are in your scene, all of them at the origin. Your job is to put every piece where it stands in the room.

Rules of this world
- Lengths are metres, Z points up, angles are degrees, the floor is z = 0. The pieces have their true size; each is
  centred on its own origin and unturned, with its front towards -Y. Furniture stands upright: only its location and its
  rotation about Z are unknown. Some pieces may hang or lie on others.
- The pieces are called object_00, object_01, and so on. Move and turn them; do not scale, edit, join, rename or remove
  them, and add no others with such names: what is not the given mesh, rigidly moved, counts as missing.
- {cameras}
- One turn is one or more tool calls (at most 16), run in order. You have {budget} turns. A turn without calls, or the
  tool submit, ends the episode; so does the last turn. What then counts is where the pieces are.

What is graded
- The distance between the surface of each piece and that of the piece of the room that it is matched with (the best
  matching is taken, so that equal pieces may swap places). Every piece counts the same.
- Cameras, lights, materials and helper objects are not graded."""

PROMPT = """\
{attached} The scene has the objects {names}. {shown_by} at the place, and with the horizontal field of view of {fov:g}
degrees, of the true camera: render_scene_view(camera="{first}") shows your scene as the picture shows the room.
Look at single pieces with render_scene_view from free poses, find out where each one stands, and set location and
rotation_euler, for example:

    thing = bpy.data.objects["object_00"]
    thing.location = (1.2, -0.4, 0.45)
    thing.rotation_euler = (0, 0, 1.5708)

Compare renders with the picture, improve, then submit."""


class LayoutTask(Task):
    """Truth: `scene.glb` (uint8), `floor`, `object_floors`. Public: one GLB per object, the views, `objects`."""

    name = "layout"
    env_id = "SceneAct/Layout-v0"
    budget = 30
    references = 1
    hidden_tools = ("read_reference_frames", "import_component")
    object_names = ("object_00", "object_01", "object_02")

    def prompts(self, case: Case, budget: int) -> tuple[str, str]:
        """See the class above."""
        views = case.public.views
        several = len(views) > 1
        names = ", ".join(view.name for view in views)
        return (
            SYSTEM_PROMPT.format(
                pictures=f"{len(views)} pictures" if several else "A picture",
                show="show" if several else "shows",
                cameras=f"The cameras {names} stand where the pictures were taken."
                if several
                else f"The camera {names} stands where the picture was taken.",
                budget=budget,
            ),
            PROMPT.format(
                attached=f"The attached pictures are, in this order, the views of {names}."
                if several
                else f"The attached picture is the view of {names}.",
                shown_by="Each of these cameras is in your scene" if several else "This camera is in your scene",
                names=", ".join(case.public.data["objects"]),
                fov=views[0].fov_x_deg,
                first=views[0].name,
            ),
        )

    def build(self, session: BlenderSession, case: Case) -> None:
        """The objects at the origin, the light, the calibrated cameras."""
        for name in case.public.data["objects"]:
            session.call("import_glb", decode_draco(case.public.assets[f"{name}.glb"]), rename=name)
        add_views(session, case)

    def build_references(self, session: BlenderSession, case: Case) -> None:
        """The furnished room; only the trusted Blender sees it."""
        build_truth(session, case)

    def protected(self, case: Case) -> Sequence[str]:
        """The pieces and the cameras."""
        return (*case.public.data["objects"], *(view.name for view in case.public.views))

    def collect(self, session: BlenderSession, case: Case, baseline: Any) -> Submission | None:
        """The world meshes of `object_*` as GLB."""
        try:
            meshes = collect_meshes(session, evaluator.PREFIX)
        except OperationError:
            return None
        return Submission({"objects": [mesh.name for mesh in meshes]}, {"scene.glb": meshes_glb(meshes)})

    def evaluate(self, case: Case, submission: Submission | None, protocol: Protocol) -> Score:
        """ADD-S, PosErr and Chamfer in metres."""
        predicted: dict[str, np.ndarray] = {}
        unread = ""
        if submission is not None:
            try:
                predicted = vertices_by_name(submission.files["scene.glb"])
            except gltf.GltfError as problem:
                # The agent's scene, too large or beyond all coordinates: no fault of the evaluator.
                unread = str(problem)
        truth = list(vertices_by_name(case.truth["scene.glb"].tobytes()).values())
        result = evaluator.evaluate(
            predicted,
            truth,
            protocol=protocol,
            floor=case.truth["floor"],
            object_floors=case.truth["object_floors"],
        )
        names = ("add_s", "pos_err", "chamfer", "pa", "ss", "n_altered", "n_extra")
        metrics = {name: getattr(result, name) for name in names}
        return Score(result.score, metrics, result.valid, unread or result.reason)

    def reference_views(self, case: Case) -> Sequence[View]:
        """The given cameras."""
        return case.public.views


class LayoutMultiViewTask(LayoutTask):
    """The same rooms and the same truth, seen by all their cameras."""

    name = "layout_multiview"
    env_id = "SceneAct/LayoutMultiView-v0"
    references = 11


def add_views(session: BlenderSession, case: Case) -> None:
    """The light and the calibrated cameras; the first one is active."""
    session.call("set_lighting", **lighting.ROOM)
    for number, view in enumerate(case.public.views):
        session.call(
            "add_camera",
            name=view.name,
            matrix=np.asarray(view.matrix_world, float).tolist(),
            fov_x_deg=view.fov_x_deg,
            active=number == 0,
        )


def build_truth(session: BlenderSession, case: Case) -> None:
    """The true furniture in its place, for the trusted renderer."""
    session.call("import_glb", decode_draco(case.truth["scene.glb"].tobytes()))
    session.call("set_lighting", **lighting.ROOM)


def vertices_by_name(glb: bytes) -> dict[str, np.ndarray]:
    """World vertices per mesh node, Z-up metres."""
    return {mesh.name: mesh.vertices for mesh in gltf.load(glb).world_meshes()}
