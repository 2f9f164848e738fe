"""Cases out of scenes of one's own: camera, layout and reconstruction. See `spec` for what they need.

What becomes public is taken apart and written anew (`pieces`), under anonymous names, without anything else of the
file. The truth keeps the names of the nodes as `source_names`, so that the audit can look for them.
"""

from __future__ import annotations

import fnmatch
import hashlib
import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from sceneact_gym.cases import Case, Public, View
from sceneact_gym.data.bundles.pieces import Chunk, Piece, SourceGlb, compose
from sceneact_gym.data.bundles.spec import (
    ArticulatedScene,
    CameraPose,
    CameraScene,
    DynamicScene,
    LayoutScene,
    OwnScene,
    ReconstructionScene,
)
from sceneact_gym.errors import SceneActError
from sceneact_gym.evaluators import gltf, layout
from sceneact_gym.evaluators.base import box_centre

Array = NDArray[np.float64]

TO_ZUP = np.array([[1.0, 0, 0, 0], [0, 0, -1, 0], [0, 1, 0, 0], [0, 0, 0, 1]])
"""Takes glTF's frame to Blender's."""


def own_case(entry: OwnScene, folder: Path) -> Case:
    """The case of an entry, without references.

    Args:
        entry: from the spec.
        folder: what its paths are relative to.

    Raises:
        SceneActError: a file cannot be read, or does not hold what the entry says.
    """
    if isinstance(entry, CameraScene):
        return _camera(entry, folder)
    if isinstance(entry, LayoutScene):
        return _layout(entry, folder)
    if isinstance(entry, ReconstructionScene):
        return _reconstruction(entry, folder)
    if isinstance(entry, ArticulatedScene):
        from sceneact_gym.data.bundles.own_articulated import articulated_case

        return articulated_case(entry, folder)
    assert isinstance(entry, DynamicScene)
    from sceneact_gym.data.bundles.own_dynamic import dynamic_case

    return dynamic_case(entry, folder)


def _camera(entry: CameraScene, folder: Path) -> Case:
    source = read_source(folder, entry.scene)
    pieces, tops = anonymous(entry, source, [(number, [number]) for number in source.scene.mesh_nodes])
    return Case(
        id=entry.id,
        task="camera",
        split=entry.split,
        public=Public(
            assets={"scene.glb": compose(pieces)},
            data={"fov_x_deg": entry.camera.fov_x_deg, "objects": [piece.name for piece in pieces]},
        ),
        truth={
            "matrix_world": entry.camera.matrix_world,
            "fov_x_deg": entry.camera.fov_x_deg,
            "source_names": source_names(source, tops),
        },
    )


def _reconstruction(entry: ReconstructionScene, folder: Path) -> Case:
    source = read_source(folder, entry.scene)
    pieces, tops = anonymous(entry, source, matching(source, entry.furniture))
    return Case(
        id=entry.id,
        task="reconstruction",
        split=entry.split,
        public=Public(views=views(entry.views)),
        truth={
            "scene.glb": np.frombuffer(compose(pieces), np.uint8),
            "source_names": source_names(source, tops),
        },
    )


def _layout(entry: LayoutScene, folder: Path) -> Case:
    canonical, poses, names = _canonical_files(entry, folder) if entry.objects else _canonical_nodes(entry, folder)
    assets = {f"{piece.name}.glb": compose([piece]) for piece in canonical}
    placed = [
        Piece(piece.name, piece.chunks, to_yup(placement(pose))) for piece, pose in zip(canonical, poses, strict=True)
    ]
    truth = compose(placed)
    initial = {name.removesuffix(".glb"): gltf.load(data).world_meshes()[0].vertices for name, data in assets.items()}
    floor, object_floors = layout.do_nothing(initial, [mesh.vertices for mesh in gltf.load(truth).world_meshes()])
    return Case(
        id=entry.id,
        task=entry.task,
        condition="single" if entry.task == "layout" else "multi",
        split=entry.split,
        public=Public(assets=assets, views=views(entry.views), data={"objects": list(initial)}),
        truth={
            "scene.glb": np.frombuffer(truth, np.uint8),
            "floor": floor,
            "object_floors": list(object_floors),
            "poses": poses,
            "source_names": names,
        },
    )


def _canonical_nodes(entry: LayoutScene, folder: Path) -> tuple[list[Piece], list[list[float]], dict[str, str]]:
    """Pieces of furniture out of a scene: centred and unturned, with their places (x, y, z, yaw in radians)."""
    assert entry.scene is not None and entry.furniture is not None
    source = read_source(folder, entry.scene)
    pieces, tops = anonymous(entry, source, matching(source, entry.furniture))
    names = source_names(source, tops)
    world = frame(entry) @ source.scene.world_matrices()[0]
    for pattern in entry.yaw_deg:
        if not any(fnmatch.fnmatchcase(name, pattern) for name in names.values()):
            raise SceneActError(f"yaw_deg: no furniture of {source.name} is named like {pattern!r}")
    canonical, poses = [], []
    for piece in pieces:
        given = [yaw for pattern, yaw in entry.yaw_deg.items() if fnmatch.fnmatchcase(names[piece.name], pattern)]
        yaw = math.radians(given[0]) if given else _yaw(world[tops[piece.name]])
        unturned = turn(-yaw)
        still = Piece(piece.name, [Chunk(c.source, c.mesh, unturned @ c.matrix) for c in piece.chunks])
        centre = box_centre(still.vertices())
        back = to_yup(shift(-centre))
        canonical.append(Piece(piece.name, [Chunk(c.source, c.mesh, back @ c.matrix) for c in still.chunks]))
        poses.append([*(placement([0, 0, 0, yaw]) @ [*centre, 1])[:3].tolist(), yaw])
    return canonical, poses, names


def _canonical_files(entry: LayoutScene, folder: Path) -> tuple[list[Piece], list[list[float]], dict[str, str]]:
    """Pieces of furniture out of files of their own; they are centred here, and `location` is that of the centre."""
    canonical, poses, names = [], [], {}
    read: dict[str, SourceGlb] = {}
    for number, row in zip(order(entry.id, len(entry.objects or ())), entry.objects or (), strict=True):
        source = read.setdefault(row.file, read_source(folder, row.file))
        chunks = chunks_of(source, source.scene.mesh_nodes, np.diag([entry.scale] * 3 + [1.0]))
        name = f"object_{number:02d}"
        back = to_yup(shift(-box_centre(Piece(name, chunks).vertices())))
        canonical.append(Piece(name, [Chunk(source, chunk.mesh, back @ chunk.matrix) for chunk in chunks]))
        poses.append([*row.location, math.radians(row.yaw_deg)])
        names[name] = Path(row.file).stem
    by_name = sorted(range(len(canonical)), key=lambda index: canonical[index].name)
    return [canonical[index] for index in by_name], [poses[index] for index in by_name], names


# --- shared by the tasks ----------------------------------------------------------------------------------------------


def read_source(folder: Path, name: str) -> SourceGlb:
    """A GLB of the spec's.

    Raises:
        SceneActError: it cannot be read, or shows no mesh.
    """
    try:
        data = (folder / name).read_bytes()
    except OSError as problem:
        raise SceneActError(f"{folder / name} cannot be read: {problem.strerror}") from problem
    source = SourceGlb(data, name)
    if not source.scene.mesh_nodes:
        raise SceneActError(f"{name} has no mesh in its scene")
    return source


def matching(source: SourceGlb, patterns: Sequence[str]) -> list[tuple[int, list[int]]]:
    """The topmost nodes that are named so, each with the meshes of everything below it.

    Returns:
        Such nodes, each with those at or below it that have a mesh.

    Raises:
        SceneActError: a pattern names nothing, or something without a mesh.
    """
    scene = source.scene
    found: list[int] = []
    for pattern in patterns:
        hits = [number for number in scene.active if fnmatch.fnmatchcase(scene.nodes[number].name, pattern)]
        if not hits:
            known = ", ".join(scene.nodes[number].name for number in scene.active[:40])
            raise SceneActError(f"no node of {source.name} is named like {pattern!r}; it has {known}")
        found += hits
    groups = []
    for number in sorted(set(found)):
        parent = scene.nodes[number].parent
        while parent is not None and parent not in found:
            parent = scene.nodes[parent].parent
        if parent is None:
            meshes = [node for node in scene.subtree(number) if node in set(scene.mesh_nodes)]
            if not meshes:
                raise SceneActError(f"the node {scene.nodes[number].name!r} of {source.name} has no mesh")
            groups.append((number, meshes))
    return groups


def anonymous(
    entry: OwnScene, source: SourceGlb, groups: list[tuple[int, list[int]]]
) -> tuple[list[Piece], dict[str, int]]:
    """Groups of nodes as pieces `object_NN` in the case's frame, numbered by chance, in the order of their numbers.

    Returns:
        The pieces, and the topmost node of each by its new name.
    """
    numbers = order(entry.id, len(groups))
    rows = sorted((f"object_{number:02d}", *group) for number, group in zip(numbers, groups, strict=True))
    pieces = [Piece(name, chunks_of(source, nodes, frame(entry))) for name, _, nodes in rows]
    return pieces, {name: top for name, top, _ in rows}


def source_names(source: SourceGlb, tops: dict[str, int]) -> dict[str, str]:
    """What the file calls the renamed nodes."""
    return {name: source.scene.nodes[top].name for name, top in tops.items()}


def chunks_of(source: SourceGlb, nodes: Sequence[int], matrix: Array) -> list[Chunk]:
    """The meshes of nodes where they stand, moved by a further (4, 4) matrix (Y up)."""
    world = source.scene.world_matrices(None, nodes)[0]
    return [
        Chunk(source, mesh, matrix @ place)
        for node, place in zip(nodes, world, strict=True)
        if (mesh := source.scene.nodes[node].mesh) is not None
    ]


def order(case_id: str, count: int) -> list[int]:
    """Numbers 0 to `count` - 1 by chance, the same for the same case: so that their order tells nothing."""
    seed = list(hashlib.sha256(case_id.encode()).digest()[:8])
    return [int(number) for number in np.random.default_rng(seed).permutation(count)]


def frame(entry: OwnScene) -> Array:
    """(4, 4) from the file's frame to the case's, Y up."""
    return to_yup(shift(entry.offset)) @ turn(math.radians(entry.turn_deg)) @ np.diag([entry.scale] * 3 + [1.0])


def views(poses: Sequence[CameraPose]) -> tuple[View, ...]:
    """The given cameras, `view_00` and so on."""
    return tuple(View(f"view_{i:02d}", pose.matrix_world, pose.fov_x_deg) for i, pose in enumerate(poses))


def shift(offset: Sequence[float] | Array) -> Array:
    """(4, 4) translation."""
    matrix = np.eye(4)
    matrix[:3, 3] = offset
    return matrix


def placement(pose: Sequence[float]) -> Array:
    """(4, 4) of x, y, z and yaw (radians), Z up."""
    matrix = shift(pose[:3])
    matrix[:2, :2] = [[math.cos(pose[3]), -math.sin(pose[3])], [math.sin(pose[3]), math.cos(pose[3])]]
    return matrix


def turn(yaw: float) -> Array:
    """(4, 4) turn about the vertical, radians, Y up."""
    return to_yup(placement([0, 0, 0, yaw]))


def to_yup(matrix: Array) -> Array:
    """(..., 4, 4) motion in Blender's frame as the same motion in glTF's."""
    return TO_ZUP.T @ matrix @ TO_ZUP


def to_zup(matrix: Array) -> Array:
    """(..., 4, 4) motion in glTF's frame as the same motion in Blender's."""
    return TO_ZUP @ matrix @ TO_ZUP.T


def _yaw(matrix: Array) -> float:
    """The turn about the vertical of a world matrix (Y up), radians; 0 where it does not stand upright."""
    linear = to_zup(matrix)[:3, :3]
    linear = linear / np.maximum(np.linalg.norm(linear, axis=0), 1e-12)
    return math.atan2(linear[1, 0], linear[0, 0]) if abs(linear[2, 2]) > 0.999 else 0.0
