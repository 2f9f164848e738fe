"""The generated containers: the same for the same seed, anonymous, standing, and free to open."""

from __future__ import annotations

import collections
import hashlib
import itertools
import json
import re
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
import trimesh
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from sceneact_gym.data.procedural.articulated import (
    KINDS,
    ArticulatedObject,
    closed_glb,
    frame_opening,
    generate_articulated,
    state,
)
from sceneact_gym.data.procedural.source import articulated_case
from sceneact_gym.evaluators import gltf

FIXED = [(split, index) for split in ("val", "test") for index in range(20)]


@pytest.fixture(scope="module")
def things() -> dict[tuple[str, int], ArticulatedObject]:
    return {key: generate_articulated(*key) for key in FIXED}


def test_many_kinds_with_one_to_six_movable_parts(things: dict[tuple[str, int], ArticulatedObject]) -> None:
    kinds = collections.Counter(thing.kind for thing in things.values())
    assert len(kinds) >= 10 and set(kinds) == set(KINDS), kinds
    counts, joints = set(), collections.Counter()
    for index in range(60):
        thing = generate_articulated("train", index)
        counts.add(len(thing.movable))
        for part in thing.movable:
            joints[part.joint_type, tuple(np.round(part.axis).astype(int).tolist())] += 1
    assert counts == {1, 2, 3, 4, 5, 6}
    # Doors left and right, flaps at the bottom and the top (or lids), drawers, and sliding doors both ways.
    assert set(joints) >= {
        ("rotation", (0, 0, -1)),
        ("rotation", (0, 0, 1)),
        ("rotation", (1, 0, 0)),
        ("rotation", (-1, 0, 0)),
        ("translation", (0, -1, 0)),
        ("translation", (1, 0, 0)),
        ("translation", (-1, 0, 0)),
    }


def test_it_stands_on_the_ground_in_real_size_and_is_cut_into_anonymous_meshes(
    things: dict[tuple[str, int], ArticulatedObject],
) -> None:
    orders = set()
    for key, thing in things.items():
        points = thing.vertices(0)
        size = points.max(axis=0) - points.min(axis=0)
        assert abs(points[:, 2].min()) < 1e-5 and (size > 0.1).all() and (size < 2.3).all(), (key, size)
        assert list(thing.nodes) == [f"node_{number:03d}" for number in range(len(thing.nodes))]
        owned = [name for part in thing.parts for name in part.nodes]
        assert sorted(owned) == list(thing.nodes)
        assert all(len(part.nodes) >= 1 for part in thing.parts)
        # Several meshes for the body and for most of what moves: a mesh is not a part.
        assert len(owned) >= 2 * len(thing.parts), key
        assert [part.id for part in thing.parts] == list(range(len(thing.parts)))
        orders.add(next(part.id for part in thing.parts if not part.movable))
        for name, pose in state(thing, 0.0).items():
            assert np.array_equal(pose, np.eye(4)), (key, name)
        # The meshes all stand at the origin: a transform would tell where a hinge is.
        document = gltf.load(closed_glb(thing))
        assert {mesh.name for mesh in document.world_meshes()} == set(thing.nodes)
    assert len(orders) > 1


def test_the_file_tells_nothing_but_meshes(things: dict[tuple[str, int], ArticulatedObject]) -> None:
    for thing in things.values():
        data = closed_glb(thing)
        length = int.from_bytes(data[12:16], "little")
        document = json.loads(data[20 : 20 + length])
        assert len({json.dumps({**node, "name": "", "mesh": 0}) for node in document["nodes"]}) == 1
        assert not {"animations", "extras", "skins"} & set(document)
        names = [row["name"] for key in ("nodes", "meshes") for row in document[key]]
        assert all(re.fullmatch(r"node_\d{3}", name) for name in names)
        assert all(re.fullmatch(r"material_\d\d", row["name"]) for row in document["materials"])
        words = json.dumps(document).lower()
        assert not any(word in words for word in ("door", "drawer", "lid", "hinge", "handle", thing.kind))


def test_frames_open_to_the_middle_and_come_back(things: dict[tuple[str, int], ArticulatedObject]) -> None:
    assert [frame_opening(frame) for frame in (0, 8, 16, 24, 31)] == [0, 0.5, 1, 0.5, 1 / 16]
    for thing in list(things.values())[::5]:
        frames, labels = thing.frames(), thing.part_of_vertex
        assert frames.shape == (32, len(labels), 3)
        assert np.array_equal(frames[1:16], frames[31:16:-1])
        moved = np.linalg.norm(frames[16] - frames[0], axis=1)
        for part in thing.parts:
            travel = moved[labels == part.id]
            assert travel.max() == 0 if not part.movable else travel.mean() > 0.05
        placed = state(thing, 0.5)
        names = list(thing.nodes)
        byhand = np.concatenate([thing.nodes[n].vertices @ placed[n][:3, :3].T + placed[n][:3, 3] for n in names])
        assert np.allclose(byhand, frames[8])
        # Rigid: distances within a part stay.
        part = thing.movable[0]
        rows = np.flatnonzero(labels == part.id)[:40]
        for frame in (5, 16):
            assert np.allclose(
                np.linalg.norm(frames[frame, rows] - frames[frame, rows[:1]], axis=1),
                np.linalg.norm(frames[0, rows] - frames[0, rows[:1]], axis=1),
            )


def test_whatever_opens_stays_in_view(things: dict[tuple[str, int], ArticulatedObject]) -> None:
    for key, thing in things.items():
        points = np.concatenate([thing.vertices(opening) for opening in (0.0, 0.5, 1.0)])
        local = (points - thing.camera[:3, 3]) @ thing.camera[:3, :3]
        assert (local[:, 2] < -0.1).all(), key
        reach = np.abs(local[:, :2] / local[:, 2:]).max() / np.tan(np.radians(39.6 / 2))
        assert 0.75 < reach < 0.95, (key, reach)
        assert thing.camera[1, 3] < 0  # from the front


def test_parts_do_not_run_into_each_other(things: dict[tuple[str, int], ArticulatedObject]) -> None:
    for key, thing in things.items():
        assert _deepest(thing) < 0.002, (key, thing.kind)
    # The check sees what it should: hinges that turn the wrong way, and drawers that are pushed instead of pulled.
    thing = things["val", 7]
    for part in thing.movable:
        wrong = replace(part, axis=(-part.axis[0], -part.axis[1], -part.axis[2]))
        assert _deepest(replace(thing, parts=tuple(wrong if p is part else p for p in thing.parts))) > 0.004


def _deepest(thing: ArticulatedObject) -> float:
    """The deepest overlap of convex solids of two parts at several openings, by separating axes."""
    solids = {part.id: [s for name in part.nodes for s in _solids(thing, name)] for part in thing.parts}
    deepest = 0.0
    for opening in (0.0, 0.1, 0.25, 0.5, 0.75, 1.0):
        placed = {}
        for part in thing.parts:
            pose = part.matrix(opening)
            moved = [points @ pose[:3, :3].T + pose[:3, 3] for points in solids[part.id]]
            boxes = np.array([[points.min(axis=0), points.max(axis=0)] for points in moved])
            placed[part.id] = (moved, boxes, pose[:3, :3].T)
        for first, second in itertools.combinations(thing.parts, 2):
            (a, a_boxes, a_axes), (b, b_boxes, b_axes) = placed[first.id], placed[second.id]
            overlap = np.minimum(a_boxes[:, None, 1], b_boxes[None, :, 1]) - np.maximum(
                a_boxes[:, None, 0], b_boxes[None, :, 0]
            )
            for i, j in np.argwhere((overlap > 0.001).all(axis=2)):
                deepest = max(deepest, _overlap(a[i], b[j], a_axes, b_axes))
    return deepest


def _overlap(a: np.ndarray, b: np.ndarray, a_axes: np.ndarray, b_axes: np.ndarray) -> float:
    """How far two convex sets overlap along the best of the axes in question: theirs, between theirs, and diagonals."""
    crosses = np.cross(a_axes[:, None], b_axes[None]).reshape(-1, 3)
    turns = np.radians(np.arange(15, 180, 15))
    round_front = np.stack([np.cos(turns), np.zeros(len(turns)), np.sin(turns)], axis=1)
    round_top = np.stack([np.cos(turns), np.sin(turns), np.zeros(len(turns))], axis=1)
    axes = np.concatenate([a_axes, b_axes, crosses, round_front @ a_axes, round_front @ b_axes, round_top])
    lengths = np.linalg.norm(axes, axis=1)
    axes = axes[lengths > 1e-6] / lengths[lengths > 1e-6, None]
    p, q = a @ axes.T, b @ axes.T
    return float((np.minimum(p.max(axis=0), q.max(axis=0)) - np.maximum(p.min(axis=0), q.min(axis=0))).min())


def _solids(thing: ArticulatedObject, name: str) -> list[np.ndarray]:
    """The points of each convex solid of a mesh; rings are left out."""
    mesh = thing.nodes[name]
    edges = np.concatenate([mesh.faces[:, [0, 1]], mesh.faces[:, [1, 2]]])
    count = len(mesh.vertices)
    graph = coo_array((np.ones(len(edges)), (edges[:, 0], edges[:, 1])), shape=(count, count))
    number, labels = connected_components(graph, directed=False)
    found = []
    for label in range(number):
        points = mesh.vertices[labels == label]
        # By Euler's formula: all solids without a hole are boxes or cylinders.
        if (labels[mesh.faces[:, 0]] == label).sum() == 2 * len(points) - 4:
            found.append(points)
    return found


def test_meshes_are_closed_and_face_outwards(things: dict[tuple[str, int], ArticulatedObject]) -> None:
    for key in FIXED[::3]:
        for name, mesh in things[key].nodes.items():
            solid = trimesh.Trimesh(mesh.vertices, mesh.faces, process=False)
            assert solid.is_watertight and solid.volume > 0, (key, things[key].kind, name)


def test_another_process_makes_the_same_bytes() -> None:
    code = (
        "import hashlib; from sceneact_gym.data.procedural.articulated import *;"
        "t = generate_articulated('train', 4711);"
        "print(hashlib.sha256(closed_glb(t) + t.frames().tobytes() + t.camera.tobytes()).hexdigest())"
    )
    other = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    thing = generate_articulated("train", 4711)
    digest = hashlib.sha256(closed_glb(thing) + thing.frames().tobytes() + thing.camera.tobytes()).hexdigest()
    assert other.stdout.strip() == digest
    assert closed_glb(thing) != closed_glb(generate_articulated("train", 4712))


def test_a_case_keeps_its_truth_apart() -> None:
    case = articulated_case("articulated-test-0003", "test", 3)
    assert case.public.data == {"objects": sorted(case.public.data["objects"])}
    assert set(case.public.assets) == {"object.glb"}
    assert not case.public.references


def test_objects_that_do_not_exist() -> None:
    with pytest.raises(ValueError, match="0 to 19"):
        generate_articulated("test", 20)
    with pytest.raises(ValueError, match="train, val, test"):
        generate_articulated("secret", 0)
