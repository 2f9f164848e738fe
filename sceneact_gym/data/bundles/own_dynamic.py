"""Dynamic cases out of animated GLBs of one's own."""

from __future__ import annotations

import fnmatch
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sceneact_gym.cases import Case, Public, View
from sceneact_gym.data.bundles.own import chunks_of, frame, order, read_source, shift, to_yup, to_zup
from sceneact_gym.data.bundles.pieces import FPS, Chunk, Piece, SourceGlb, compose, decompose
from sceneact_gym.data.bundles.spec import DynamicScene
from sceneact_gym.errors import SceneActError
from sceneact_gym.evaluators import dynamic as evaluator
from sceneact_gym.evaluators import gltf

Array = NDArray[np.float64]

CONDITIONS = {"dynamic": "lowpoly", "dynamic_photoreal": "photoreal"}


@dataclass(frozen=True, eq=False)
class Thing:
    """What stands or moves as one: a top-level node without what moves in it, or what hangs from an animated node.

    Attributes:
        node: that node.
        chunks: its mesh in its own frame, at true size.
        poses: (T, 4, 4) places, Y up; T is 1 for what stands.
        origins: (T, 3) places of the node itself, Y up.
    """

    node: int
    chunks: list[Chunk]
    poses: Array
    origins: Array


def dynamic_case(entry: DynamicScene, folder: Path) -> Case:
    """The things of the scene as a component library; the truth is the scene.

    Raises:
        SceneActError: a pattern names nothing.
    """
    source = read_source(folder, entry.scene)
    scene = source.scene
    movers = _named(source, entry.movers, scene.animated, "animated node")
    things = _things(entry, source)
    moving = [thing for thing in things if thing.node in movers]
    still = [thing for thing in things if len(thing.poses) == 1]
    others = [thing for thing in things if thing not in moving and thing not in still]
    if len(moving) < len(movers):
        raise SceneActError(f"a mover of {source.name} has no mesh of its own")
    pieces, names = [], {}
    for kind, group in (("static", still), ("mover", moving), ("other", others)):
        for number, thing in enumerate(group):
            name = f"{kind}_{number:02d}"
            names[name] = scene.nodes[thing.node].name
            if len(thing.poses) == 1:
                pieces.append(Piece(name, thing.chunks, thing.poses[0]))
            else:
                pieces.append(Piece(name, thing.chunks, poses=thing.poses))
    truth: dict[str, Any] = {
        "scene.glb": np.frombuffer(compose(pieces), np.uint8),
        "movers": [name for name in names if name.startswith("mover")],
        "tracks": np.array([_places(entry, thing) for thing in moving]),
        "statics": _statics(entry, source, things, still),
        "source_names": names,
    }
    if entry.components is None:
        assets, files = _library(entry, things)
        # How to build the scene from the library, for oracles.
        truth |= {
            "placements": [[files[thing.node], to_zup(thing.poses[0]).tolist()] for thing in still],
            "moving": [files[thing.node] for thing in moving],
            "poses": np.array([to_zup(thing.poses) for thing in moving]),
        }
    else:
        assets = _library_files(folder / entry.components)
    if entry.scene_scale is not None:
        truth["scene_scale"] = entry.scene_scale
    return Case(
        id=entry.id,
        task=entry.task,
        condition=CONDITIONS[entry.task],
        split=entry.split,
        public=Public(
            assets=assets,
            views=(View("camera", entry.camera.matrix_world, entry.camera.fov_x_deg),),
            data={"components": list(assets), "frames": evaluator.FRAMES},
        ),
        truth=truth,
    )


def _named(source: SourceGlb, patterns: Sequence[str], nodes: Sequence[int], kind: str) -> list[int]:
    found: list[int] = []
    for pattern in patterns:
        hits = [node for node in nodes if fnmatch.fnmatchcase(source.scene.nodes[node].name, pattern)]
        if not hits:
            known = ", ".join(source.scene.nodes[node].name for node in nodes[:40])
            raise SceneActError(f"no {kind} of {source.name} is named like {pattern!r}; there are {known}")
        found += hits
    return found


def _things(entry: DynamicScene, source: SourceGlb) -> list[Thing]:
    scene = source.scene
    animated = set(scene.animated)
    groups: dict[int, list[int]] = {}
    for node in scene.mesh_nodes:
        owner = node
        while owner not in animated and (parent := scene.nodes[owner].parent) is not None:
            owner = parent
        groups.setdefault(owner, []).append(node)
    times = (np.arange(evaluator.FRAMES) + 1) / FPS
    things = []
    for owner, nodes in groups.items():
        matrices = scene.world_matrices(times, [owner, *nodes], ignore_parents=entry.world_keys)
        world = frame(entry) @ matrices[:, 0] if owner in animated else frame(entry) @ matrices[:1, 0]
        # Size belongs to the component, place and turn to the pose.
        size = np.diag([*decompose(world[:1])["scale"][0], 1.0])
        poses = np.asarray(world @ np.linalg.inv(size), float)
        # Rounded, so that the same shape comes out of different products.
        within = size @ np.linalg.inv(matrices[0, 0])
        chunks = [
            Chunk(source, mesh, np.round(within @ matrices[0, column + 1], 6) + 0.0)
            for column, node in enumerate(nodes)
            if (mesh := scene.nodes[node].mesh) is not None
        ]
        things.append(_at_home(Thing(owner, chunks, poses, poses[:, :3, 3])))
    return things


def _at_home(thing: Thing) -> Thing:
    """The thing with an origin of its own: where its node stands at the world's origin, its vertices tell its place."""
    if np.abs(thing.poses[0, :3, 3]).max() > 1e-3:
        return thing
    points = Piece("", thing.chunks).vertices()
    low, high = points.min(axis=0), points.max(axis=0)
    foot = np.array([*((low + high) / 2)[:2], low[2]])
    away, back = to_yup(shift(-foot)), to_yup(shift(foot))
    chunks = [Chunk(chunk.source, chunk.mesh, away @ chunk.matrix) for chunk in thing.chunks]
    return Thing(thing.node, chunks, thing.poses @ back, thing.origins)


def _statics(entry: DynamicScene, source: SourceGlb, things: list[Thing], still: list[Thing]) -> Array:
    """(K, 3) places of what counts as standing, Z up."""
    if entry.statics is not None:
        roots = _named(source, entry.statics, source.scene.roots, "top-level node")
        if entry.places == "origins":
            # Also of nodes that have no mesh of their own.
            world = frame(entry) @ source.scene.world_matrices([1 / FPS], roots)[0]
            return gltf.to_zup(world[:, :3, 3])
        still = [thing for thing in things if thing.node in roots]
    return np.array([_places(entry, thing)[0] for thing in still]).reshape(-1, 3)


def _places(entry: DynamicScene, thing: Thing) -> Array:
    """(T, 3) places, Z up; one that stands has one."""
    if entry.places == "origins":
        return gltf.to_zup(thing.origins)
    x, y, z = Piece("", thing.chunks).vertices().mean(axis=0)
    return gltf.to_zup(thing.poses[:, :3, :3] @ np.array([x, z, -y]) + thing.poses[:, :3, 3])


def _library(entry: DynamicScene, things: Sequence[Thing]) -> tuple[dict[str, bytes], dict[int, str]]:
    """Every shape of the scene once, with its surface, numbered by chance; and the file of each thing by its node."""
    shapes: dict[bytes, list[Thing]] = {}
    for thing in things:
        # Files often hold the same shape several times: what is written tells.
        shapes.setdefault(compose([Piece("", thing.chunks)]), []).append(thing)
    numbers = order(entry.id, len(shapes))
    rows = sorted(zip(numbers, shapes.values(), strict=True), key=lambda row: row[0])
    library = {f"component_{number:02d}.glb": alike for number, alike in rows}
    assets = {name: compose([Piece(name.removesuffix(".glb"), alike[0].chunks)]) for name, alike in library.items()}
    return assets, {thing.node: name for name, alike in library.items() for thing in alike}


def _library_files(folder: Path) -> dict[str, bytes]:
    """The GLBs of a folder, written anew under their own names."""
    paths = sorted(folder.glob("*.glb"))
    if not paths:
        raise SceneActError(f"{folder} has no component GLBs")
    assets = {}
    for path in paths:
        source = read_source(folder, path.name)
        assets[path.name] = compose([Piece(path.stem, chunks_of(source, source.scene.mesh_nodes, np.eye(4)))])
    return assets
