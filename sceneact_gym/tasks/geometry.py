"""Meshes out of the agent's scene: asked from the worker, checked, and written as GLB."""

from __future__ import annotations

from typing import Any

import numpy as np

from sceneact_gym.blender.process import OperationError
from sceneact_gym.blender.session import BlenderSession
from sceneact_gym.data.glb import Material, Node, Part, write_glb
from sceneact_gym.evaluators.base import MAX_COORDINATE, Mesh

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
        mesh = Mesh(name, points[point : point + vertices], triangles[triangle : triangle + faces])
        point, triangle = point + vertices, triangle + faces
        inside = not faces or (0 <= mesh.faces.min() and mesh.faces.max() < vertices)
        if vertices and inside and np.isfinite(mesh.vertices).all() and abs(mesh.vertices).max() < MAX_COORDINATE:
            yield mesh


def meshes_glb(meshes: list[Mesh]) -> bytes:
    """The meshes as one GLB file, in one colour."""
    return write_glb([Node(mesh.name, [Part(mesh.vertices, mesh.faces, CLAY)]) for mesh in meshes if len(mesh.faces)])
