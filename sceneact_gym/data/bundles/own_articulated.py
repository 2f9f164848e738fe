"""Articulated cases out of animated GLBs of one's own."""

from __future__ import annotations

import fnmatch
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.transform import Rotation

from sceneact_gym.cases import Case, Public, View
from sceneact_gym.data.bundles.own import frame, order, read_source, to_zup
from sceneact_gym.data.bundles.pieces import Chunk, Piece, SourceGlb, compose
from sceneact_gym.data.bundles.spec import ArticulatedScene
from sceneact_gym.errors import SceneActError
from sceneact_gym.evaluators import articulated as evaluator
from sceneact_gym.evaluators import gltf

Array = NDArray[np.float64]

RIGID = 2e-3
"""Metres that a point of a part may stray from the part's rigid motion."""
TURN_DEG = 5.0
"""A part that turns by less between closed and open slides."""


def articulated_case(entry: ArticulatedScene, folder: Path) -> Case:
    """The closed object with anonymous meshes; the truth is its motion over 32 frames.

    Raises:
        SceneActError: a part does not move or not rigidly, or something else moves.
    """
    source = read_source(folder, entry.scene)
    scene = source.scene
    meshes = list(scene.mesh_nodes)
    times = np.arange(evaluator.FRAMES) / entry.fps
    world = frame(entry) @ scene.world_matrices(times, meshes, ignore_parents=entry.world_keys)
    numbers = [f"node_{number:03d}" for number in order(entry.id, len(meshes))]
    name_of = dict(zip(meshes, numbers, strict=True))
    closed = [
        Piece(name_of[node], [Chunk(source, _mesh(source, node), world[0, column])])
        for column, node in enumerate(meshes)
    ]
    closed.sort(key=lambda piece: piece.name)
    # From the closed state, in Blender's frame.
    motion = dict(zip(meshes, np.moveaxis(to_zup(world @ np.linalg.inv(world[0])), 1, 0), strict=True))
    owners = _owners(entry, source, meshes)
    names = ["", *entry.parts]
    poses, parts = [], []
    glb = compose(closed)
    shapes = {mesh.name: mesh.vertices for mesh in gltf.load(glb).world_meshes()}
    for number, part in enumerate(names):
        nodes = [node for node in meshes if owners[node] == part]
        moves = _motion(part, nodes, motion, {node: shapes[name_of[node]] for node in nodes}, source)
        poses.append(moves)
        row: dict[str, Any] = {"id": number, "nodes": sorted(name_of[node] for node in nodes), "joint_type": None}
        parts.append(row | ({"name": part, **joint(moves[evaluator.OPEN_FRAME])} if part else {}))
    stack = np.stack(poses, axis=1)
    number_of = {name: row["id"] for row in parts for name in row["nodes"]}
    frames = [
        np.concatenate([_moved(shapes[name], stack[step, number_of[name]]) for name in sorted(shapes)])
        for step in range(evaluator.FRAMES)
    ]
    return Case(
        id=entry.id,
        task="articulated",
        split=entry.split,
        public=Public(
            assets={"object.glb": glb},
            views=(View("camera", entry.camera.matrix_world, entry.camera.fov_x_deg),),
            data={"objects": sorted(shapes)},
        ),
        truth={
            "frames": np.stack(frames).astype(np.float32),
            "part_of_vertex": np.concatenate([np.full(len(shapes[name]), number_of[name]) for name in sorted(shapes)]),
            "poses": stack,
            "parts": parts,
            "source_names": {name: scene.nodes[node].name for node, name in name_of.items()},
        },
    )


def joint(matrix: Array) -> dict[str, Any]:
    """The joint of a (4, 4) motion from closed to open: `joint_type`, `axis`, `origin`, `range` (radians or metres)."""
    turn = Rotation.from_matrix(matrix[:3, :3]).as_rotvec()
    angle, offset = float(np.linalg.norm(turn)), matrix[:3, 3]
    if np.degrees(angle) >= TURN_DEG:
        # A point that stays where it is; along the axis there is none that is better than another.
        origin = np.linalg.lstsq(np.eye(3) - matrix[:3, :3], offset, rcond=1e-6)[0]
        return {"joint_type": "rotation", "axis": (turn / angle).tolist(), "origin": origin.tolist(), "range": angle}
    length = float(np.linalg.norm(offset))
    axis = (offset / max(length, 1e-12)).tolist()
    return {"joint_type": "translation", "axis": axis, "origin": [0.0, 0.0, 0.0], "range": length}


def _mesh(source: SourceGlb, node: int) -> int:
    mesh = source.scene.nodes[node].mesh
    assert mesh is not None
    return mesh


def _owners(entry: ArticulatedScene, source: SourceGlb, meshes: list[int]) -> dict[int, str]:
    """The part of each mesh node, empty for the body."""
    owners = dict.fromkeys(meshes, "")
    for part, patterns in entry.parts.items():
        for pattern in [patterns] if isinstance(patterns, str) else patterns:
            hits = [node for node in meshes if fnmatch.fnmatchcase(source.scene.nodes[node].name, pattern)]
            if not hits:
                known = ", ".join(source.scene.nodes[node].name for node in meshes[:40])
                raise SceneActError(f"no mesh of {source.name} is named like {pattern!r}; it has {known}")
            for node in hits:
                if owners[node] not in ("", part):
                    name = source.scene.nodes[node].name
                    raise SceneActError(f"the node {name!r} belongs to {owners[node]!r} and to {part!r}")
                owners[node] = part
    if "" not in owners.values():
        raise SceneActError(f"all meshes of {source.name} belong to moving parts: there is no body")
    return owners


def _motion(
    part: str, nodes: list[int], motion: dict[int, Array], shapes: dict[int, Array], source: SourceGlb
) -> Array:
    """(32, 4, 4) rigid motion of a part, the same for all its nodes.

    Raises:
        SceneActError: it is not, or a part does not move, or the body does.
    """
    moves = motion[nodes[0]].copy()
    turns = moves[:, :3, :3]
    u, _, v = np.linalg.svd(turns)
    u[..., 2] *= np.linalg.det(u @ v)[:, None]
    moves[:, :3, :3] = u @ v
    if not part:
        moves = np.repeat(np.eye(4)[None], len(moves), axis=0)
    for node in nodes:
        points = shapes[node]
        stray = max(
            float(np.abs(_moved(points, real) - _moved(points, rigid)).max())
            for real, rigid in zip(motion[node], moves, strict=True)
        )
        if stray > RIGID:
            name = source.scene.nodes[node].name
            raise SceneActError(
                f"the node {name!r} moves, but no part's pattern names it"
                if not part
                else f"the node {name!r} does not move rigidly with the part {part!r} ({stray:.3f} m off)"
            )
    if part:
        points = np.concatenate([shapes[node] for node in nodes])
        if np.abs(_moved(points, moves[evaluator.OPEN_FRAME]) - points).max() < RIGID:
            raise SceneActError(f"the part {part!r} is in frame {evaluator.OPEN_FRAME} where it is in frame 0")
    return moves


def _moved(points: Array, matrix: Array) -> Array:
    return points @ matrix[:3, :3].T + matrix[:3, 3]
