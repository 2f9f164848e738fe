"""Generated dynamic scenes: what they promise, and their motions against hand calculations."""

from __future__ import annotations

import numpy as np
import pytest

from sceneact_gym.data.procedural.dynamic import motions
from sceneact_gym.data.procedural.dynamic.scene import FOV_X_DEG, DynamicScene, generate_dynamic
from sceneact_gym.data.procedural.dynamic.themes import THEMES
from sceneact_gym.data.procedural.source import dynamic_case, dynamic_photoreal_case
from sceneact_gym.evaluators import dynamic, gltf

SCENES = [(split, index) for split in ("test", "val", "train") for index in range(len(THEMES))]


@pytest.fixture(scope="module")
def scenes() -> dict[tuple[str, int], DynamicScene]:
    return {key: generate_dynamic(*key) for key in SCENES}


def test_the_kinds_of_motion(scenes: dict[tuple[str, int], DynamicScene]) -> None:
    kinds = {mover.kind for key, scene in scenes.items() if key[0] == "test" for mover in scene.movers}
    assert kinds >= {"straight", "rail", "curve", "swing", "conveyor", "lift", "lane_change", "roll", "hop", "loop"}
    assert "spin" in {mover.kind for scene in scenes.values() for mover in scene.movers}
    for scene in scenes.values():
        assert 2 <= len(scene.movers) <= 6
        scale = dynamic.scene_scale(list(scene.tracks()), scene.static_places())
        for track in scene.tracks():
            # What the evaluator calls moving.
            assert np.linalg.norm(np.diff(track, axis=0), axis=1).sum() > 0.05 * scale


def test_the_same_scene_every_time_and_another_one_for_another_number() -> None:
    first, again = generate_dynamic("train", 4), generate_dynamic("train", 4)
    assert first.scene_glb() == again.scene_glb() and np.array_equal(first.camera, again.camera)
    # Nine further on the theme comes again.
    other = generate_dynamic("train", 4 + len(THEMES))
    assert other.theme == first.theme and other.scene_glb() != first.scene_glb()
    assert generate_dynamic("val", 4).scene_glb() != generate_dynamic("test", 4).scene_glb()


def test_everything_is_in_the_picture(scenes: dict[tuple[str, int], DynamicScene]) -> None:
    slope = np.tan(np.radians(FOV_X_DEG) / 2)
    for scene in scenes.values():
        inverse = np.linalg.inv(scene.camera)
        points = [*scene.tracks().reshape(-1, 3), *scene.static_places()[1:]]
        x, y, z = (np.array(points) @ inverse[:3, :3].T + inverse[:3, 3]).T
        assert (z < 0).all()
        assert (np.abs(x / -z) < slope).all() and (np.abs(y / -z) < slope).all()


def test_scattered_things_leave_the_way_free(scenes: dict[tuple[str, int], DynamicScene]) -> None:
    scattered = ("tree", "pine", "bush", "rock", "buoy", "barrel")
    for scene in scenes.values():
        places = np.array([pose[:2, 3] for name, pose in scene.statics if name in scattered]).reshape(-1, 2)
        ways = scene.tracks()[..., :2].reshape(-1, 1, 2)
        assert (np.linalg.norm(ways - places, axis=2) > 0.9).all(), scene.theme


def test_the_file_tells_what_the_truth_says(scenes: dict[tuple[str, int], DynamicScene]) -> None:
    scene = scenes["test", 3]
    found = dynamic.tracks_from_gltf(gltf.load(scene.scene_glb()), protocol="strict")
    assert list(found.tracks) == [f"mover_{number:02d}" for number in range(len(scene.movers))]
    assert np.allclose(np.array(list(found.tracks.values())), scene.tracks(), atol=2e-5)
    assert np.allclose(found.statics, scene.static_places(), atol=2e-5)


def test_components_are_plain_and_the_library_has_more_than_is_used() -> None:
    case = dynamic_case("dynamic-test-0002", "test", 2)
    used = {name for name, _ in case.truth["placements"]} | set(case.truth["moving"])
    assert used < set(case.public.data["components"]) == set(case.public.assets)
    for name, data in case.public.assets.items():
        scene = gltf.load(data)
        assert [node.name for node in scene.nodes] == [name.removesuffix(".glb")] and not scene.animated
        (mesh,) = scene.world_meshes()
        assert np.abs(mesh.vertices).max() < 30


def test_both_looks_share_scene_and_truth() -> None:
    plain, real = dynamic_case("dynamic-test-0001", "test", 1), dynamic_photoreal_case("p", "test", 1)
    assert plain.public.assets == real.public.assets
    assert plain.truth.keys() == real.truth.keys()
    assert np.array_equal(plain.truth["tracks"], real.truth["tracks"])
    assert (plain.condition, real.condition) == ("lowpoly", "photoreal")


# --- motions by hand ------------------------------------------------------------------------------------------------


def front(poses: np.ndarray) -> np.ndarray:
    """Where the front (-Y) looks."""
    return -poses[:, :3, 1]


def test_straight() -> None:
    poses = motions.straight((1.0, 2.0, 0.5), np.pi / 2, 3.0, wait=1.0)
    assert np.allclose(poses[:25, :3, 3], [1, 2, 0.5])
    assert np.allclose(poses[143, :3, 3], [1, 2 + 3 * (143 / 24 - 1), 0.5])
    assert np.allclose(front(poses), [0, 1, 0])


def test_lane_change() -> None:
    poses = motions.lane_change((0, 0, 0), 0.0, 5.0, 3.5, 1.0, 3.0)
    assert np.allclose(poses[:25, 1, 3], 0) and np.allclose(poses[72:, 1, 3], 3.5)
    # Half of the time, half of the way; there the smooth step is steepest: 1.5 * 3.5 m / 2 s beside 5 m/s.
    assert np.isclose(poses[48, 1, 3], 1.75)
    x, y, _ = front(poses)[48]
    assert np.isclose(y / x, 1.5 * 3.5 / 2 / 5, atol=1e-3)
    assert np.allclose(front(poses)[[0, 143]], [1, 0, 0])


def test_circle() -> None:
    poses = motions.circle((1, 0, 0.2), 8.0, 8.0 * np.pi / 6, 0.0)
    # A full turn takes 12 s: 72 frames are a quarter of it.
    assert np.allclose(poses[0, :3, 3], [9, 0, 0.2]) and np.allclose(poses[72, :3, 3], [1, 8, 0.2])
    assert np.allclose(front(poses)[[0, 72]], [[0, 1, 0], [-1, 0, 0]], atol=1e-9)


def test_a_conveyor_brings_back_what_arrives() -> None:
    poses = motions.conveyor((0, 0, 1), (10, 0, 1), 2.0, 1.0)
    x = poses[:, 0, 3]
    assert x[0] == 1 and np.isclose(x[107], 1 + 2 * 107 / 24) and np.isclose(x[109], 1 + 2 * 109 / 24 - 10)
    assert (np.diff(x) < 0).sum() == 1


def test_a_ball_rolls_without_slipping() -> None:
    poses = motions.roll([(0, 0, 0.5), (6, 0, 0.5)], [2.0, 2.0], 0.5)
    assert np.isclose(poses[36, 0, 3], 3.0) and np.allclose(poses[72:, :3, 3], [6, 0, 0.5])
    # After pi * radius it stands on its head.
    frame = round(np.pi * 0.5 / 2 * 24)
    angle = 2 * frame / 24 / 0.5
    assert np.allclose(poses[frame, :3, 2], [np.sin(angle), 0, np.cos(angle)], atol=1e-9)


def test_hops() -> None:
    poses = motions.hop([(0, 0, 1), (2, 0, 2)], 1.0, 1.5, rest=0.0)
    # Highest over the middle of the straight line; back on the first stop after two jumps.
    assert np.allclose(poses[12, :3, 3], [1, 0, 1.5 + 1.5]) and np.allclose(poses[48, :3, 3], [0, 0, 1])
    assert np.allclose(front(poses)[[5, 30]], [[1, 0, 0], [-1, 0, 0]], atol=1e-9)


def test_mechanisms() -> None:
    swing = motions.swing((1, 2, 3), 0.0, -0.5, 0.5, 2.0)
    assert np.allclose(swing[:, :3, 3], [1, 2, 3])
    # A pitch about +X takes the front, -Y, down.
    assert np.allclose(front(swing)[[0, 24]], [[0, -np.cos(0.5), np.sin(0.5)], [0, -np.cos(0.5), -np.sin(0.5)]])
    slew = motions.slew((0, 0, 5), 0.0, np.pi / 2, 4.0)
    assert np.allclose(front(slew)[[0, 48]], [[0, -1, 0], [1, 0, 0]], atol=1e-9)
    lift = motions.lift((1, 1, 0), 0.2, 4.2, 6.0)
    assert np.allclose(lift[[0, 72], 2, 3], [0.2, 4.2]) and np.isclose(lift[36, 2, 3], 2.2)
