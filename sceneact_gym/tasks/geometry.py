"""Meshes out of the agent's scene: asked from the worker, checked, and written as GLB."""

from __future__ import annotations

from typing import Any

import numpy as np

from sceneact_gym.blender.process import OperationError
from sceneact_gym.blender.session import BlenderSession
from sceneact_gym.data.glb import Material, Node, Part, write_glb
from sceneact_gym.evaluators.base import MAX_COORDINATE, Mesh

MOVES = 1e-4
"""What changes less over the frames (metres, or entries of a rotation) does not move: float32 is not better."""
MAX_DEPTH = 100
"""Parents above an object; deeper scenes are not collected."""

CLAY = Material("clay", (0.6, 0.6, 0.6))


def collect_meshes(session: BlenderSession, prefix: str = "") -> list[Mesh]:
    """All meshes that a render would show, modifiers applied and instances made real.

    Args:
        session: the agent's.
        prefix: only objects whose names begin with it.

    Returns:
        Meshes in the world, Z-up metres, float32 precision; what is not finite or not a mesh is left out.

    Raises:
        OperationError: the scene is too large to be collected.
        InfraError: Blender could not tell.
    """
    answer, blobs = session.query_with_data("evaluated_meshes", prefix=prefix)
    return list(_checked(answer, blobs))


def _checked(answer: Any, blobs: list[bytes]):
    """Reads what the worker sent; it is untrusted, so that every length is checked."""
    try:
        points = np.frombuffer(blobs[0], "<f4").reshape(-1, 3).astype(np.float64)
        triangles = np.frombuffer(blobs[1], "<i4").reshape(-1, 3).astype(np.int64)
        rows = [(str(row["name"])[:200], int(row["vertices"]), int(row["triangles"])) for row in answer["meshes"]]
    except (ValueError, TypeError, KeyError, IndexError, OverflowError) as problem:
        raise OperationError("Blender's answer about the meshes is broken") from problem
    point = triangle = 0
    for name, vertices, faces in rows:
        if vertices < 0 or faces < 0 or point + vertices > len(points) or triangle + faces > len(triangles):
            raise OperationError("Blender's answer about the meshes is broken")
        mesh = Mesh(name, points[point : point + vertices], _in_order(triangles[triangle : triangle + faces]))
        point, triangle = point + vertices, triangle + faces
        inside = not faces or (0 <= mesh.faces.min() and mesh.faces.max() < vertices)
        if vertices and inside and np.isfinite(mesh.vertices).all() and abs(mesh.vertices).max() < MAX_COORDINATE:
            yield mesh


def _in_order(triangles: np.ndarray) -> np.ndarray:
    """The same triangles, each from its lowest corner on, sorted: some operators make them in any order."""
    first = np.argmin(triangles, axis=1) if len(triangles) else np.zeros(0, int)
    turned = np.take_along_axis(triangles, (first[:, None] + np.arange(3)) % 3, axis=1)
    return turned[np.lexsort(turned.T[::-1])]


def meshes_glb(meshes: list[Mesh]) -> bytes:
    """The meshes as one GLB file, in one colour."""
    return write_glb([Node(mesh.name, [Part(mesh.vertices, mesh.faces, CLAY)]) for mesh in meshes if len(mesh.faces)])


def collect_motion(session: BlenderSession, frames: int) -> bytes:
    """All meshes that a render of frame 1 would show, with their motion over the frames 1 to `frames`, as animated GLB.

    Parents are kept, modifiers are applied as in frame 1, instances become objects below what makes them. Only what
    changes its place relative to its parent gets an animation.

    Raises:
        OperationError: the scene is too large, too deep or not finite.
        InfraError: Blender could not tell.
    """
    answer, blobs = session.query_with_data("animated_scene", frames=list(range(1, frames + 1)))
    try:
        rows = [
            (str(row["name"])[:200], int(row["parent"]), int(row["vertices"]), int(row["triangles"]))
            for row in answer["nodes"]
        ]
        points = np.frombuffer(blobs[0], "<f4").reshape(-1, 3).astype(np.float64)
        triangles = np.frombuffer(blobs[1], "<i4").reshape(-1, 3).astype(np.int64)
        first = np.frombuffer(blobs[2], "<f4").reshape(len(rows), 4, 4).astype(np.float64)
        moving = [int(row) for row in answer["moving"]]
        motion = np.frombuffer(blobs[3], "<f4").reshape(frames, len(moving), 4, 4).astype(np.float64)
        world: dict[int, np.ndarray] = {row: motion[:, column] for column, row in enumerate(moving)}
        if not all(-1 <= parent < len(rows) for _, parent, _, _ in rows):
            raise ValueError("a parent is missing")
    except (ValueError, TypeError, KeyError, IndexError, OverflowError) as problem:
        raise OperationError("Blender's answer about the scene is broken") from problem
    for values in (points, first, motion):
        if not np.isfinite(values).all() or abs(values).max(initial=0) >= MAX_COORDINATE:
            raise OperationError("the scene has coordinates that are not finite")
    parts = list(_parts(rows, points, triangles))
    children: dict[int, list[int]] = {}
    for number, (_, parent, _, _) in enumerate(rows):
        children.setdefault(parent, []).append(number)

    def node(number: int, depth: int) -> Node:
        if depth > MAX_DEPTH:
            raise OperationError(f"an object has more than {MAX_DEPTH} parents")
        name, parent, _, _ = rows[number]
        local, poses = first[number], None
        if number in world or parent in world:
            poses = world.get(number, local)
            if parent >= 0:
                poses = np.linalg.pinv(world.get(parent, first[parent])) @ poses
            local = poses[0]
            poses = poses if np.abs(poses - local).max() > MOVES else None
        elif parent >= 0:
            local = np.linalg.pinv(first[parent]) @ local
        below = [node(child, depth + 1) for child in children.get(number, ())]
        return Node(name, parts[number], matrix=local, poses=poses, children=below)

    return write_glb([node(number, 0) for number in children.get(-1, ())])


def _parts(rows: list[tuple[str, int, int, int]], points: np.ndarray, triangles: np.ndarray):
    """Per row the parts of its mesh; the numbers are untrusted."""
    point = triangle = 0
    for _, _, vertices, faces in rows:
        corners = triangles[triangle : triangle + faces]
        if vertices < 0 or faces < 0 or point + vertices > len(points) or len(corners) < faces:
            raise OperationError("Blender's answer about the scene is broken")
        if faces and not (0 <= corners.min() and corners.max() < vertices):
            raise OperationError("Blender's answer about the scene is broken")
        yield [Part(points[point : point + vertices], _in_order(corners), CLAY)] if faces else []
        point, triangle = point + vertices, triangle + faces
