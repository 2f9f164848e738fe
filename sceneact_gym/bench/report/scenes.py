"""Submission and truth of an episode as meshes that a page can draw; read as each task's evaluator reads them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from sceneact_gym.cases import Case
from sceneact_gym.errors import SceneActError
from sceneact_gym.evaluators import articulated, dynamic, gltf, layout
from sceneact_gym.evaluators.base import IntArray, box_centre
from sceneact_gym.tasks import Submission
from sceneact_gym.tasks.articulated import FRAMES_FILE, OBJECT_ASSET, read_frames
from sceneact_gym.tasks.camera import SCENE_ASSET, checked_pose
from sceneact_gym.tasks.layout import vertices_by_name

Array = NDArray[np.float64]

GLB = "scene.glb"
FILES = {"camera": (), "articulated": (FRAMES_FILE,)}
"""Files of a submission per task; the others leave `GLB`."""
MAX_DATA_BYTES = 16 * 2**20
MAX_TRIANGLES = 8_000_000
"""Of one side, before it is thinned: parts may share a mesh, so that a small file can ask for any number."""
STANDS = 1e-5
"""What changes less over the frames, metres or entries of a rotation, does not move."""
BENT = 1e-3
"""A mesh whose vertices are further than this, metres, from the nearest affine motion is bent."""
TO_ZUP = np.array([[1.0, 0, 0, 0], [0, 0, -1, 0], [0, 1, 0, 0], [0, 0, 0, 1]])


class SceneError(SceneActError):
    """A scene that cannot be drawn; the message is one sentence for the page."""


@dataclass(frozen=True, eq=False)
class Part:
    """A mesh that moves as a whole.

    Attributes:
        name: of the object.
        vertices: (V, 3) metres; in the world, or in its own frame if it has poses.
        faces: (F, 3) vertex numbers.
        poses: (T, 4, 4) world poses per frame; None for what stands.
    """

    name: str
    vertices: Array
    faces: IntArray
    poses: Array | None = None

    def at(self, frame: int) -> Array:
        """(V, 3) world vertices in a frame, counted from 0."""
        if self.poses is None:
            return self.vertices
        pose = self.poses[frame]
        return self.vertices @ pose[:3, :3].T + pose[:3, 3]


@dataclass(frozen=True, eq=False)
class Eye:
    """A camera.

    Attributes:
        matrix: (4, 4) pose, Blender's convention, metres, its axes of unit length.
        fov_x_deg: horizontal field of view of its square picture, degrees.
    """

    matrix: Array
    fov_x_deg: float


@dataclass(frozen=True, eq=False)
class Side:
    """What one side, submission or truth, shows.

    Attributes:
        parts: its meshes.
        eye: its camera, of the task Camera.
        links: (L, 2, 3) from its pieces to those of the truth that they are matched with, metres.
        notes: sentences about what is not shown as it is.
    """

    parts: tuple[Part, ...] = ()
    eye: Eye | None = None
    links: Array | None = None
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class Truth:
    """The true side of a case and what goes with it.

    Attributes:
        side: the true scene.
        room: meshes that belong to neither side (Camera: the furnished room).
        frames: how many frames the scene has; 1 if nothing moves.
        telling: the frame, counted from 0, that shows the case best.
        view: the camera of the first reference, from which the scene is first seen; None where it is not known.
    """

    side: Side
    room: tuple[Part, ...] = ()
    frames: int = 1
    telling: int = 0
    view: Eye | None = None


def read_submission(folder: Path, task: str) -> Submission | None:
    """What an episode left in its folder; None if it left nothing.

    Raises:
        SceneError: a file is missing, too large or broken.
    """
    path = folder / "submission.json"
    if not path.is_file():
        return None
    try:
        if path.stat().st_size > MAX_DATA_BYTES:
            raise SceneError("submission.json is too large.")
        data = json.loads(path.read_text(encoding="utf-8"))
        files = {}
        for name in FILES.get(task, (GLB,)):
            if (folder / name).stat().st_size > gltf.MAX_FILE_BYTES:
                raise SceneError(f"{name} is too large.")
            files[name] = (folder / name).read_bytes()
    except (OSError, ValueError, RecursionError) as problem:
        raise SceneError(f"The submission cannot be read: {problem}.") from problem
    if not isinstance(data, dict):
        raise SceneError("The submission cannot be read: submission.json holds no JSON object.")
    return Submission(data, files)


def truth_scene(case: Case) -> Truth:
    """The true scene of a case of any task.

    Raises:
        SceneError: the task is not known here.
        GltfError: a file of the case is broken.
    """
    truth = case.truth
    view = None
    if case.public.views:
        first = case.public.views[0]
        view = _eye(first.matrix_world, first.fov_x_deg)
    if case.task == "camera":
        room = _standing(case.public.assets[SCENE_ASSET])
        return Truth(Side(eye=_eye(truth["matrix_world"], truth["fov_x_deg"])), room)
    if case.task == "articulated":
        side = _states(_given(case), list(np.asarray(truth["frames"], float)))
        return Truth(side, frames=articulated.FRAMES, telling=articulated.OPEN_FRAME, view=view)
    if case.task in ("dynamic", "dynamic_photoreal"):
        side = Side(_moving(truth[GLB].tobytes()))
        return Truth(side, frames=dynamic.FRAMES, telling=dynamic.FRAMES // 2, view=view)
    if case.task in ("layout", "layout_multiview", "reconstruction"):
        return Truth(Side(_standing(truth[GLB].tobytes())), view=view)
    raise SceneError(f"There is no picture of the task {case.task!r}.")


def submitted_scene(case: Case, submission: Submission) -> Side:
    """The submitted scene.

    Raises:
        SceneError: it cannot be drawn.
        GltfError: its file is broken.
    """
    if case.task == "camera":
        pose = checked_pose(submission.data)
        if pose is None:
            raise SceneError("The submitted pose is not a matrix of numbers.")
        mine, true = (_eye(of["matrix_world"], of["fov_x_deg"]) for of in (pose, case.truth))
        return Side(eye=mine, links=np.array([[mine.matrix[:3, 3], true.matrix[:3, 3]]]))
    if case.task == "articulated":
        return _states(_given(case), _checked_frames(submission))
    data = submission.files[GLB]
    if case.task in ("dynamic", "dynamic_photoreal"):
        return Side(_moving(data))
    parts = _standing(data)
    if case.task == "reconstruction":
        note = "It is shown as submitted; the score is taken after an alignment by scale, place and quarter turns."
        return Side(parts, notes=(note,))
    return Side(parts, links=_pairs(case.truth, data))


def walls(parts: Sequence[Part]) -> list[Array | None]:
    """Per mesh of a room the (3,) outward normal if it is a wall, floor or ceiling, which hide what is behind them."""
    if not parts:
        return []
    boxes = np.array([[part.vertices.min(axis=0), part.vertices.max(axis=0)] for part in parts])
    low, high = boxes[:, 0].min(axis=0), boxes[:, 1].max(axis=0)
    found: list[Array | None] = []
    for box in boxes:
        share = (box[1] - box[0]) / np.maximum(high - low, 1e-9)
        side = np.sign(box.mean(axis=0) - (low + high) / 2)
        thin = [axis for axis in range(3) if share[axis] < 0.15 and np.delete(share, axis).min() > 0.6]
        found.append(side[thin[0]] * np.eye(3)[thin[0]] if thin else None)
    return found


def _eye(matrix: object, fov_x_deg: float) -> Eye:
    pose = np.array(matrix, float)
    pose[:3, :3] /= np.maximum(np.linalg.norm(pose[:3, :3], axis=0), 1e-9)
    return Eye(pose, float(np.clip(fov_x_deg, 1, 170)))


def _standing(glb: bytes) -> tuple[Part, ...]:
    meshes = gltf.load(glb).world_meshes()
    return _limited([Part(mesh.name, mesh.vertices, mesh.faces) for mesh in meshes if len(mesh.faces)])


def _limited(parts: Sequence[Part]) -> tuple[Part, ...]:
    count = sum(len(part.faces) for part in parts)
    if count > MAX_TRIANGLES:
        raise SceneError(f"The scene has {count} triangles, more than the {MAX_TRIANGLES} that are drawn.")
    return tuple(parts)


def _pairs(truth: Mapping[str, object], glb: bytes) -> Array:
    """Centres of the submitted pieces and of the true ones that the evaluator matches them with."""
    mine = vertices_by_name(glb)
    true = list(vertices_by_name(truth[GLB].tobytes()).values())  # type: ignore[attr-defined]
    rows = layout.evaluate(mine, true).objects
    pairs = [
        [box_centre(mine[row.predicted]), box_centre(true[row.truth])] for row in rows if row.predicted is not None
    ]
    return np.array(pairs, float).reshape(-1, 2, 3)


def _moving(glb: bytes) -> tuple[Part, ...]:
    """The meshes of an animated file with their poses in Blender's frames 1 to 144."""
    scene = gltf.load(glb)
    nodes = list(scene.mesh_nodes)
    # Blender's frame 1 lies at 1/24 s; a file with keys before that counts from 0 (see `tracks_from_gltf`).
    late = scene.first_key is None or scene.first_key >= 1 / dynamic.FPS - 1e-6
    times = (np.arange(dynamic.FRAMES) + late) / dynamic.FPS
    animated = set(scene.animated)
    moves = [bool(animated.intersection(_above(scene, node))) for node in nodes]
    parts = []
    still = [node for node, moving in zip(nodes, moves, strict=True) if not moving]
    parts += [Part(mesh.name, mesh.vertices, mesh.faces) for mesh in scene.world_meshes(nodes=still) if still]
    movers = [node for node, moving in zip(nodes, moves, strict=True) if moving]
    if movers:
        poses = TO_ZUP @ scene.world_matrices(times, movers) @ TO_ZUP.T
        for column, node in enumerate(movers):
            mesh = scene.meshes[scene.nodes[node].mesh]  # type: ignore[index]  # mesh_nodes have one
            name, vertices, places = scene.nodes[node].name, gltf.to_zup(mesh.vertices), poses[:, column]
            part = Part(name, vertices, mesh.faces, places)
            stands = np.abs(places - places[0]).max() < STANDS
            parts.append(Part(name, part.at(0), mesh.faces) if stands else part)
    return _limited([part for part in parts if len(part.faces)])


def _above(scene: gltf.GltfScene, node: int | None) -> list[int]:
    found = []
    while node is not None:
        found.append(node)
        node = scene.nodes[node].parent
    return found


def _given(case: Case) -> list[Part]:
    """The closed object's meshes in the order in which their vertices are collected."""
    meshes = {mesh.name: mesh for mesh in gltf.load(case.public.assets[OBJECT_ASSET]).world_meshes()}
    return [Part(name, meshes[name].vertices, meshes[name].faces) for name in case.public.data["objects"]]


def _checked_frames(submission: Submission) -> list[Array]:
    counts = submission.data.get("vertices")
    if (
        not isinstance(counts, list)
        or len(counts) != articulated.FRAMES
        or not all(type(count) is int and 0 < count <= articulated.MAX_VERTICES for count in counts)
    ):
        raise SceneError("The submission does not say how many vertices its states have.")
    if len(submission.files[FRAMES_FILE]) != 12 * sum(counts):
        raise SceneError(f"{FRAMES_FILE} has another length than the submission says.")
    frames = read_frames(submission)
    if not all(np.isfinite(frame).all() for frame in frames):
        raise SceneError("The submission has vertices that are not finite.")
    return frames


def _states(given: Sequence[Part], frames: Sequence[Array]) -> Side:
    """States of the given meshes, each as the affine motion that fits its vertices."""
    total = sum(len(part.vertices) for part in given)
    if any(len(frame) != total for frame in frames):
        raise SceneError(f"The submitted meshes do not have the {total} vertices of the given ones.")
    world = np.stack(frames)
    parts, worst, first = [], 0.0, 0
    for part in given:
        places = world[:, first : first + len(part.vertices)]
        first += len(part.vertices)
        if np.abs(places - places[0]).max() < STANDS:
            parts.append(Part(part.name, places[0], part.faces))
            continue
        middle = part.vertices.mean(axis=0)
        local = part.vertices - middle
        # The pseudo-inverse leaves out directions in which a flat mesh has no extent.
        basis = np.column_stack([local, np.ones(len(local))])
        poses = np.tile(np.eye(4), (len(world), 1, 1))
        poses[:, :3] = (np.linalg.pinv(basis) @ places).transpose(0, 2, 1)
        moved = Part(part.name, local, part.faces, poses)
        worst = max(worst, float(np.abs(basis @ poses[:, :3].transpose(0, 2, 1) - places).max()))
        parts.append(moved)
    notes = ("Some meshes were bent; they are drawn by the nearest motion that keeps lines straight.",)
    return Side(tuple(parts), notes=notes if worst > BENT else ())
