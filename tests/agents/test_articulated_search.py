"""Parts, motions and pictures against hand-made scenes, and one episode in real Blender."""

from __future__ import annotations

import math
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

from sceneact_gym.agents.articulated_scene import MeshPiece, Scene, groups
from sceneact_gym.agents.articulated_search import REST, Motion, Stage, find_motions
from tests.agents.playing import play

QUADS = np.array([[0, 1, 3, 2], [4, 6, 7, 5], [0, 4, 5, 1], [2, 3, 7, 6], [0, 2, 6, 4], [1, 5, 7, 3]])
TRIANGLES = np.concatenate([QUADS[:, [0, 1, 2]], QUADS[:, [0, 2, 3]]])


def block(name: str, low: tuple[float, ...], high: tuple[float, ...], color: tuple[float, ...]) -> MeshPiece:
    corners = np.array([[(low, high)[(number >> axis) & 1][axis] for axis in (0, 1, 2)] for number in range(8)])
    return MeshPiece(name, corners, TRIANGLES, np.array(color))


def cupboard() -> Scene:
    """A block with a red door 1 mm before it, a handle on the door, and a camera 3 m before all that."""
    meshes = (
        block("node_000", (-0.4, 0.0, 0.0), (0.4, 0.4, 0.8), (0.3, 0.3, 0.3)),
        block("node_001", (-0.4, -0.021, 0.0), (0.4, -0.001, 0.8), (0.6, 0.1, 0.1)),
        block("node_002", (0.3, -0.041, 0.3), (0.35, -0.021, 0.5), (0.1, 0.1, 0.6)),
    )
    camera = np.eye(4)
    camera[:3] = [[1, 0, 0, 0.3], [0, 0, -1, -3], [0, 1, 0, 0.4]]
    none = np.zeros((0, 3))
    return Scene(meshes, camera, math.tan(math.radians(20)), np.ones(3), none, none)


def test_parts_are_what_touches() -> None:
    # The handle lies on the door; the door keeps 1 mm from the block, which has the largest box.
    assert groups(cupboard().meshes) == [[0], [1, 2]]


def test_poses_by_hand() -> None:
    door = Motion("turn", (0.0, 0.0, -1.0), (-0.4, 0.0, 0.0), math.pi / 2)
    # A quarter turn clockwise, seen from above, takes the free edge from +X of the hinge to -Y of it.
    assert np.allclose(door.pose(1.0) @ [0.4, 0.0, 0.5, 1.0], [-0.4, -0.8, 0.5, 1.0])
    assert np.allclose(Motion("slide", (0.0, -1.0, 0.0), range=0.3).pose(0.5) @ [0, 0, 0, 1], [0, -0.15, 0, 1])
    assert np.array_equal(REST.pose(1.0), np.eye(4))


@pytest.mark.parametrize(
    "motion",
    [
        Motion("turn", (0.0, 0.0, -1.0), (-0.4, -0.021, 0.0), math.radians(100)),
        Motion("slide", (1.0, 0.0, 0.0), range=0.5),
        REST,
    ],
)
def test_a_motion_is_found_in_pictures_of_it(motion: Motion) -> None:
    scene = cupboard()
    white = np.full((32, 120, 120, 3), 255, np.uint8)
    stage = Stage(scene, [[0], [1, 2]], white, 120)
    pictures = white.copy()
    for frame in range(32):
        depth = np.full(120 * 120, np.inf)
        flat = pictures[frame].reshape(-1, 3)
        for part, moves in enumerate((REST, motion)):
            layer = fresh(stage, part, moves, min(frame, 32 - frame))
            won = layer.depth < depth[layer.pixels]
            depth[layer.pixels[won]] = layer.depth[won]
            flat[layer.pixels[won]] = np.round(layer.colors[won] * 255)
    found = find_motions(scene, pictures)
    if motion == REST:
        assert found == []
        return
    ((names, got),) = found
    assert names == ["node_001", "node_002"] and got.kind == motion.kind
    assert np.allclose(got.axis, motion.axis) and abs(got.range - motion.range) < 0.05 * motion.range
    assert np.allclose(got.origin, motion.origin, atol=0.03)


def fresh(stage: Stage, part: int, motion: Motion, frame: int) -> Any:
    """Drawn anew, since a stage gives what rests the colours of its first picture."""
    from sceneact_gym.agents.articulated_scene import draw

    return draw(stage.scene, stage.points[part], motion.pose(frame / 16), stage.size)


def test_an_episode_beats_doing_nothing_and_comes_again() -> None:
    env = gym.make("SceneAct/Articulated-v0", split="val", reference_size=96, render_size=32, render={"samples": 1})
    try:
        actions, info = play(env, "articulated-search", "articulated-val-0016", 5)
        # Doing nothing scores 0.
        assert info["status"] == "ok" and info["score_strict"] > 70
        assert play(env, "articulated-search", "articulated-val-0016", 5)[0] == actions
    finally:
        env.close()
