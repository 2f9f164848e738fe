"""The generated rooms: the same for the same seed, plausible, free of overlaps, and worth looking at."""

from __future__ import annotations

import collections
import hashlib
import itertools
import subprocess
import sys

import numpy as np
import pytest
import trimesh

from sceneact_gym.blender.session import BlenderSession
from sceneact_gym.data.procedural.furniture import KINDS, draw_palette
from sceneact_gym.data.procedural.rooms import FOV_X_DEG, Room, canonical_glb, generate_room, room_scene_glb
from sceneact_gym.evaluators import gltf

FIXED = [(split, index) for split in ("val", "test") for index in range(20)]
AT_WALLS = {"bed", "wardrobe", "dresser", "desk", "sofa", "bookshelf", "tv_bench"}


@pytest.fixture(scope="module")
def rooms() -> dict[tuple[str, int], Room]:
    return {key: generate_room(*key) for key in FIXED}


def test_every_fixed_room_has_three_to_seven_objects_of_many_kinds(rooms: dict[tuple[str, int], Room]) -> None:
    kinds = collections.Counter(thing.kind for room in rooms.values() for thing in room.objects)
    assert len(kinds) >= 12, kinds
    assert set(kinds) <= set(KINDS)
    for room in rooms.values():
        assert 3 <= len(room.objects) <= 7
        assert len(room.cameras) == 11
        assert [thing.name for thing in room.objects] == [f"object_{i:02d}" for i in range(len(room.objects))]


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_furniture_is_rich_standing_and_of_real_size(kind: str) -> None:
    for seed in range(5):
        rng = np.random.default_rng(seed)
        parts = KINDS[kind](rng, draw_palette(rng))
        points = np.concatenate([part.vertices for part in parts])
        assert len(np.unique(points.round(6), axis=0)) >= 300
        size = points.max(axis=0) - points.min(axis=0)
        assert (size > 0.2).all() and (size < 2.4).all(), size
        if kind != "pendant_lamp":
            assert abs(points[:, 2].min()) < 1e-6
        assert len({part.material.color for part in parts}) >= 2


def test_objects_do_not_touch_each_other_or_leave_the_room(rooms: dict[tuple[str, int], Room]) -> None:
    # Independent of the generator's own check, which compares boxes: no hull has points of another inside.
    for key, room in rooms.items():
        low, high = room.bounds
        hulls = [trimesh.convex.convex_hull(thing.world_vertices()) for thing in room.objects]
        for thing in room.objects:
            points = thing.world_vertices()
            assert (points.min(axis=0) > low - 1e-6).all(), (key, thing.kind)
            assert (points.max(axis=0) < high + 1e-6).all(), (key, thing.kind)
        for (i, a), (j, b) in itertools.combinations(enumerate(hulls), 2):
            points = np.concatenate([b.sample(300, seed=0), b.vertices])
            inside = _inside(a, points)
            assert not inside.any(), (key, room.objects[i].kind, room.objects[j].kind)
            assert _inside(a, a.vertices.mean(axis=0)[None]).all()


def _inside(hull: trimesh.Trimesh, points: np.ndarray) -> np.ndarray:
    """Which points lie behind all faces of a convex hull."""
    heights = points @ hull.face_normals.T - np.einsum("ij,ij->i", hull.face_normals, hull.triangles[:, 0])
    return (heights < -1e-6).all(axis=1)


def test_large_furniture_stands_with_its_back_to_a_wall(rooms: dict[tuple[str, int], Room]) -> None:
    for key, room in rooms.items():
        for thing in room.objects:
            if thing.kind in AT_WALLS:
                back = np.array([-np.sin(thing.yaw), np.cos(thing.yaw)])
                reach = (thing.world_vertices()[:, :2] @ back).max()
                wall = abs(back) @ np.array(room.size) / 2
                assert 0 < wall - reach < 0.1, (key, thing.kind)


def test_the_same_seed_gives_the_same_bytes_in_another_process() -> None:
    digest = hashlib.sha256(room_scene_glb(generate_room("train", 12345))).hexdigest()
    code = (
        "import hashlib\n"
        "from sceneact_gym.data.procedural.rooms import generate_room, room_scene_glb\n"
        "print(hashlib.sha256(room_scene_glb(generate_room('train', 12345))).hexdigest())"
    )
    other = subprocess.run(
        [sys.executable, "-c", code], env={"PYTHONHASHSEED": "77"}, capture_output=True, text=True, check=True
    )
    assert other.stdout.strip() == digest
    assert digest != hashlib.sha256(room_scene_glb(generate_room("train", 12346))).hexdigest()


def test_rooms_that_do_not_exist() -> None:
    with pytest.raises(ValueError, match="0 to 19"):
        generate_room("test", 20)
    with pytest.raises(ValueError, match="train, val, test"):
        generate_room("secret", 0)


def test_world_placement_is_that_of_the_file(rooms: dict[tuple[str, int], Room]) -> None:
    room = rooms["test", 3]
    scene = gltf.load(room_scene_glb(room))
    meshes = {mesh.name: mesh for mesh in scene.world_meshes()}
    assert set(meshes) == set(room.node_names)
    for thing in room.objects:
        got, want = meshes[thing.name].vertices, thing.world_vertices()
        assert np.allclose([got.min(0), got.max(0)], [want.min(0), want.max(0)], atol=1e-4)
    (alone,) = gltf.load(canonical_glb(room.objects[0])).world_meshes()
    assert np.allclose(alone.vertices.min(0) + alone.vertices.max(0), 0, atol=1e-5)


def test_in_blender_every_camera_sees_two_objects(rooms: dict[tuple[str, int], Room]) -> None:
    """Rays through a grid of pixels, cast by Blender itself in the imported file."""
    session = BlenderSession()
    code = """
import json, math
from mathutils import Matrix
graph = bpy.context.evaluated_depsgraph_get()
found = []
for matrix in POSES:
    pose, counts, near = Matrix(matrix), {}, 1e9
    n, reach = 32, math.tan(math.radians(FOV / 2))
    for i in range(n):
        for j in range(n):
            x, y = ((i + 0.5) / n * 2 - 1) * reach, ((j + 0.5) / n * 2 - 1) * reach
            from mathutils import Vector
            direction = pose.to_3x3() @ Vector((x, y, -1))
            hit, where, _, _, thing, _ = bpy.context.scene.ray_cast(graph, pose.translation, direction)
            if hit:
                near = min(near, (where - pose.translation).length)
                if thing.name.startswith("object_"):
                    counts[thing.name] = counts.get(thing.name, 0) + 1
    found.append([sorted(counts.values()), near])
print(json.dumps([found, sorted(o.name for o in bpy.data.objects), [dict(o) for o in bpy.data.objects if o.keys()]]))
"""
    import json

    try:
        for key in FIXED[::8]:
            room = rooms[key]
            session.load(str(key), lambda s, room=room: s.call("import_glb", room_scene_glb(room)))  # type: ignore[misc]
            poses = json.dumps([pose.tolist() for pose in room.cameras])
            source = code.replace("POSES", poses).replace("FOV", str(FOV_X_DEG))
            answer, _ = session.tool("execute", {"code": source, "output_limit": 100_000}, changes="anything")
            assert answer["error"] is None
            found, names, properties = json.loads(answer["output"])
            assert names == sorted(room.node_names) and properties == []
            for counts, near in found:
                # At least two objects cover 8 of 1024 rays each, and nothing stands right before the camera.
                assert sum(count >= 8 for count in counts) >= 2, (key, counts)
                assert near > 0.3, key
    finally:
        session.close()
