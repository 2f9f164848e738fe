"""Generated rooms: the same for the same number, furnished as a room is, and seen by every camera."""

import hashlib
import math
import os
import subprocess
import sys
from collections import Counter
from itertools import combinations

import numpy as np
import pytest
import trimesh
from scipy.spatial import ConvexHull, cKDTree

from sceneact_gym.data.glb import write_glb
from sceneact_gym.data.procedural.furniture import KINDS, draw_palette
from sceneact_gym.data.procedural.rooms import (
    CAMERA_COUNT,
    FOV_X_DEG,
    ROOM_SPLITS,
    WALL_HEIGHT,
    canonical_glb,
    generate_room,
    room_scene_glb,
    survey_cameras,
)
from sceneact_gym.evaluators import gltf
from tests.data.in_blender import ask

FIXED = [(split, index) for split in ("val", "test") for index in range(20)]
AT_WALLS = {"bed", "wardrobe", "dresser", "desk", "bookshelf", "tv_bench", "sofa"}
SIZES = {  # metres: smallest and largest width, depth, height
    "bed": ((1.15, 1.95, 0.8), (1.8, 2.2, 1.2)),
    "nightstand": ((0.35, 0.35, 0.7), (0.55, 0.5, 1.0)),
    "wardrobe": ((1.0, 0.55, 1.8), (1.7, 0.75, 2.3)),
    "dresser": ((0.9, 0.4, 0.7), (1.5, 0.6, 1.2)),
    "desk": ((1.1, 0.55, 1.0), (1.6, 0.8, 1.3)),
    "chair": ((0.4, 0.4, 0.8), (0.5, 0.5, 1.0)),
    "dining_table": ((1.2, 0.75, 0.7), (1.8, 1.0, 0.9)),
    "sofa": ((1.6, 0.8, 0.7), (2.3, 1.0, 0.95)),
    "armchair": ((0.75, 0.8, 0.7), (1.0, 1.0, 0.95)),
    "coffee_table": ((0.8, 0.45, 0.4), (1.3, 0.7, 0.6)),
    "bookshelf": ((0.7, 0.25, 1.5), (1.2, 0.4, 2.1)),
    "tv_bench": ((1.2, 0.35, 0.9), (1.9, 0.5, 1.4)),
    "floor_lamp": ((0.3, 0.3, 1.4), (0.6, 0.8, 1.8)),
    "pendant_lamp": ((0.5, 0.15, 0.6), (1.0, 0.35, 1.1)),
    "stool": ((0.3, 0.3, 0.4), (0.5, 0.5, 0.75)),
    "plant": ((0.4, 0.4, 0.6), (1.3, 1.3, 1.5)),
}


@pytest.fixture(scope="module")
def rooms():
    return {key: generate_room(*key) for key in FIXED}


@pytest.fixture(scope="module")
def in_blender(rooms, tmp_path_factory):
    scenes = [(room_scene_glb(room), room.cameras) for room in rooms.values()]
    return dict(zip(rooms, ask(tmp_path_factory.mktemp("probe"), scenes), strict=True))


def turned(yaw):
    return np.array([[math.cos(yaw), -math.sin(yaw)], [math.sin(yaw), math.cos(yaw)]])


def front(thing):
    """Where an object looks, on the floor."""
    return turned(thing.yaw) @ [0.0, -1.0]


def digest(keys):
    total = hashlib.sha256()
    for key in keys:
        room = generate_room(*key)
        total.update(room_scene_glb(room) + np.stack(room.cameras).tobytes())
        total.update(repr([(t.kind, t.location.tolist(), t.yaw) for t in room.objects]).encode())
    return total.hexdigest()


# --- numbers --------------------------------------------------------------------------------------------------------


def test_the_same_in_another_process():
    keys = [("train", 0), ("train", 10**9), ("val", 3), ("test", 19)]
    code = f"from tests.data.test_rooms import digest; print(digest({keys!r}))"
    found = set()
    for seed in ("1", "4242"):
        done = subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)},
            capture_output=True,
            text=True,
            check=True,
            timeout=120,
        )
        found.add(done.stdout.strip())
    assert found == {digest(keys)}


def test_rooms_differ(rooms):
    assert len({room_scene_glb(room) for room in rooms.values()}) == len(FIXED)
    first = generate_room("train", 0)
    assert room_scene_glb(first) not in {room_scene_glb(room) for room in rooms.values()}


@pytest.mark.parametrize(
    ("split", "index", "message"),
    [("test", 20, "0 to 19"), ("val", -1, "0 to 19"), ("train", -1, "any number"), ("exam", 0, "train, val, test")],
)
def test_rooms_that_do_not_exist(split, index, message):
    with pytest.raises(ValueError, match=message):
        generate_room(split, index)


def test_splits():
    assert ROOM_SPLITS == {"train": None, "val": 20, "test": 20}


# --- furniture ------------------------------------------------------------------------------------------------------


def test_kinds_and_counts(rooms):
    for split in ("val", "test"):
        chosen = [room for key, room in rooms.items() if key[0] == split]
        kinds = Counter(thing.kind for room in chosen for thing in room.objects)
        assert len(kinds) >= 12, kinds
        assert len({room.theme for room in chosen}) == 4
        assert all(3 <= len(room.objects) <= 7 for room in chosen)


def test_names_tell_nothing(rooms):
    at = Counter()
    for room in rooms.values():
        assert [thing.name for thing in room.objects] == [f"object_{k:02d}" for k in range(len(room.objects))]
        at[room.objects[0].kind] += 1
    assert len(at) >= 6, "the first number belongs to few kinds only"


@pytest.mark.parametrize("kind", KINDS)
def test_each_kind(kind):
    assert set(SIZES) == set(KINDS)
    low, high = SIZES[kind]
    for seed in range(8):
        rng = np.random.default_rng(seed)
        parts = KINDS[kind](rng, draw_palette(rng))
        points = np.concatenate([part.vertices for part in parts])
        assert len(np.unique(points.round(7), axis=0)) >= 300
        size = np.ptp(points, axis=0)
        assert (size >= low).all() and (size <= high).all(), size
        ground = points[:, 2].max() if kind == "pendant_lamp" else points[:, 2].min()
        assert ground == pytest.approx(0.0, abs=1e-9)
        assert len({part.material.color for part in parts}) >= 2
        for part in parts:
            mesh = trimesh.Trimesh(part.vertices, part.faces, process=False)
            assert mesh.is_watertight and mesh.is_winding_consistent and mesh.volume > 0


@pytest.mark.parametrize("kind", KINDS)
def test_each_kind_has_a_front(kind):
    """A half turn changes the geometry, so that the yaw can be seen and measured."""
    rng = np.random.default_rng(5)
    points = np.concatenate([part.vertices for part in KINDS[kind](rng, draw_palette(rng))])
    points -= (points.min(axis=0) + points.max(axis=0)) / 2
    distance = cKDTree(points).query(points * [-1, -1, 1])[0]
    assert distance.max() > 0.02


def test_solids_of_one_object_share_no_plane():
    """Faces that lie in each other are drawn as black patches by a path tracer."""
    for kind, maker in KINDS.items():
        if kind == "plant":  # Leaves are leaning: their bounding boxes say nothing.
            continue
        for seed in range(4):
            rng = np.random.default_rng(seed)
            boxes = [(part.vertices.min(axis=0), part.vertices.max(axis=0)) for part in maker(rng, draw_palette(rng))]
            for (low, high), (low2, high2) in combinations(boxes, 2):
                common = np.minimum(high, high2) - np.maximum(low, low2)
                for axis in range(3):
                    across = np.delete(common, axis) > 0.006
                    same = [abs(high[axis] - high2[axis]) < 2e-4]
                    # What stands on the floor does share it.
                    same += [abs(low[axis] - low2[axis]) < 2e-4] if axis < 2 else []
                    assert not (across.all() and any(same)), (kind, seed, low, high, low2, high2)


# --- arrangement ----------------------------------------------------------------------------------------------------


def hulls(thing):
    """Outward planes (normal, offset) of every solid in the world; a hull is never smaller than its solid."""
    return [(ConvexHull(part.vertices @ rotation(thing).T + thing.location).equations, part) for part in thing.parts]


def rotation(thing):
    full = np.eye(3)
    full[:2, :2] = turned(thing.yaw)
    return full


def test_nothing_reaches_into_another(rooms):
    """Points all over one object against the solids of another."""
    for key, room in rooms.items():
        clouds = []
        for number, thing in enumerate(room.objects):
            faces = np.concatenate([part.vertices[part.faces] for part in thing.parts])
            mesh = trimesh.Trimesh(faces.reshape(-1, 3), np.arange(len(faces) * 3).reshape(-1, 3), process=False)
            points, _ = trimesh.sample.sample_surface(mesh, 3000, seed=number)
            clouds.append(np.concatenate([points @ rotation(thing).T + thing.location, thing.world_vertices()]))
        for (i, first), (j, second) in combinations(enumerate(room.objects), 2):
            low = np.maximum(clouds[i].min(axis=0), clouds[j].min(axis=0))
            high = np.minimum(clouds[i].max(axis=0), clouds[j].max(axis=0))
            if (low > high).any():
                continue
            for cloud, other in ((clouds[i], second), (clouds[j], first)):
                near = cloud[((cloud > low - 1e-9) & (cloud < high + 1e-9)).all(axis=1)]
                for planes, _ in hulls(other) if len(near) else []:
                    inside = (near @ planes[:, :3].T + planes[:, 3] < -1e-6).all(axis=1)
                    assert not inside.any(), (key, first.kind, second.kind)


def test_everything_stands_inside(rooms):
    for key, room in rooms.items():
        low, high = room.bounds
        for thing in room.objects:
            points = thing.world_vertices()
            assert (points > low - 1e-6).all() and (points < high + 1e-6).all(), (key, thing.kind)
            if thing.kind == "pendant_lamp":
                assert points[:, 2].max() == pytest.approx(WALL_HEIGHT)
            else:
                assert points[:, 2].min() == pytest.approx(0.0, abs=1e-9)
            assert -math.pi <= thing.yaw <= math.pi


def test_backs_to_walls(rooms):
    for key, room in rooms.items():
        half = np.array(room.size) / 2
        for thing in room.objects:
            if thing.kind not in AT_WALLS:
                continue
            back = -front(thing)
            axis = int(np.abs(back).argmax())
            assert abs(back[axis]) == pytest.approx(1.0)
            gap = half[axis] - (thing.world_vertices()[:, axis] * np.sign(back[axis])).max()
            assert 0 <= gap < 0.1, (key, thing.kind, gap)


def test_pieces_that_belong_together(rooms):
    chairs = tucked = 0
    for key, room in rooms.items():
        kinds = {thing.kind: thing for thing in room.objects}
        for thing in room.objects:
            if thing.kind == "chair":
                table = kinds.get("dining_table") or kinds["desk"]
                local = turned(table.yaw).T @ (thing.location - table.location)[:2]
                towards = turned(table.yaw).T @ front(thing)
                assert towards[1] * -np.sign(local[1]) > 0.95, key
                chairs += 1
                tucked += abs(local[1]) - thing.half_size[1] < table.half_size[1] - 0.02
            elif thing.kind == "nightstand":
                local = turned(kinds["bed"].yaw).T @ (thing.location - kinds["bed"].location)[:2]
                assert thing.yaw == kinds["bed"].yaw and local[1] > 0
                assert abs(local[0]) - thing.half_size[0] - kinds["bed"].half_size[0] < 0.3
            elif thing.kind == "coffee_table":
                local = turned(kinds["sofa"].yaw).T @ (thing.location - kinds["sofa"].location)[:2]
                assert local[1] < 0 and abs(local[0]) < 0.1
            elif thing.kind == "armchair" and "coffee_table" in kinds:
                assert front(thing) @ (kinds["coffee_table"].location - thing.location)[:2] > 0, key
            elif thing.kind == "pendant_lamp":
                below = kinds.get("dining_table") or kinds["bed"]
                assert np.linalg.norm((thing.location - below.location)[:2]) < 0.3
    assert chairs >= 20 and tucked >= 10


# --- files and cameras ----------------------------------------------------------------------------------------------


def test_canonical_objects(rooms):
    room = rooms["test", 0]
    for thing in room.objects:
        points = np.concatenate([part.vertices for part in thing.parts])
        assert points.min(axis=0) == pytest.approx(-points.max(axis=0), abs=1e-9)
        moved = points @ rotation(thing).T + thing.location
        assert moved == pytest.approx(thing.world_vertices(), abs=1e-9)
    # A canonical file says nothing about the place.
    assert len({canonical_glb(thing) for thing in room.objects}) == len(room.objects)
    assert canonical_glb(room.objects[0]) != write_glb([])


def test_the_evaluators_reader_sees_the_same_room(rooms):
    room = rooms["test", 3]
    meshes = {mesh.name: mesh.vertices for mesh in gltf.load(room_scene_glb(room)).world_meshes()}
    assert set(meshes) == set(room.node_names)
    for thing in room.objects:
        found, wanted = meshes[thing.name], thing.world_vertices()
        assert found.min(axis=0) == pytest.approx(wanted.min(axis=0), abs=1e-4)
        assert found.max(axis=0) == pytest.approx(wanted.max(axis=0), abs=1e-4)


def test_blender_sees_the_same_room(rooms, in_blender):
    for key, room in rooms.items():
        found = in_blender[key]
        assert sorted(found["things"]) == sorted(room.node_names)
        assert found["properties"] == []
        for thing in room.objects:
            points, there = thing.world_vertices(), found["things"][thing.name]
            assert there["low"] == pytest.approx(points.min(axis=0).tolist(), abs=1e-4)
            assert there["high"] == pytest.approx(points.max(axis=0).tolist(), abs=1e-4)
            assert there["location"] == pytest.approx(thing.location.tolist(), abs=1e-4)
            assert math.remainder(there["yaw"] - thing.yaw, 2 * math.pi) == pytest.approx(0.0, abs=1e-5)


def test_cameras(rooms):
    for key, room in rooms.items():
        assert len(room.cameras) == CAMERA_COUNT == 11
        half = np.array(room.size) / 2
        for camera in room.cameras:
            assert camera.shape == (4, 4) and camera[3].tolist() == [0, 0, 0, 1]
            turn, place = camera[:3, :3], camera[:3, 3]
            assert turn.T @ turn == pytest.approx(np.eye(3), abs=1e-9) and np.linalg.det(turn) > 0
            assert 0.8 <= place[2] <= 1.7 and (np.abs(place[:2]) < half - 0.1).all()
            assert turn[2, 0] == pytest.approx(0.0, abs=1e-9), "a camera leans to the side"
            assert abs(math.degrees(math.asin(turn[2, 2]))) < 15
            for thing in room.objects:
                local = rotation(thing).T @ (place - thing.location)
                for part in thing.parts:
                    outside = np.maximum(part.vertices.min(axis=0) - local, local - part.vertices.max(axis=0))
                    assert outside.max() > 0.1, (key, thing.kind)
        # All around, except where furniture takes up a wall.
        angles = np.sort([math.atan2(camera[1, 3], camera[0, 3]) for camera in room.cameras])
        assert np.diff([*angles, angles[0] + 2 * math.pi]).max() < 0.8 * math.pi


def test_each_camera_sees_two_objects(in_blender):
    """Rays cast by Blender itself."""
    for key, found in in_blender.items():
        for number, view in enumerate(found["views"]):
            shares = [share for name, share in view["shares"].items() if name.startswith("object_")]
            shares.sort(reverse=True)
            assert len(shares) >= 2 and shares[1] >= 0.01, (key, number, view)
            assert view["nearest"] > 0.6, (key, number, view)
            assert shares[0] < 0.6, (key, number, view)


def test_survey_cameras_have_all_furniture_in_the_picture() -> None:
    for index in range(0, 20, 4):
        room = generate_room("test", index)
        points = np.concatenate([thing.world_vertices() for thing in room.objects])
        poses = survey_cameras(room)
        assert len(poses) == 11
        for pose in poses:
            x, y, z = ((np.linalg.inv(pose) @ np.c_[points, np.ones(len(points))].T)[:3]).astype(float)
            half = -z * np.tan(np.radians(FOV_X_DEG / 2))
            assert (z < 0).all() and (abs(x) < half).all() and (abs(y) < half).all()
            # Level with the furniture or above, and not inside it.
            assert 0.5 < pose[2, 3] < 3.5 and np.linalg.norm(points - pose[:3, 3], axis=1).min() > 1.0
