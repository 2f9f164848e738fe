"""The visual hull: its geometry against hand-made cubes, and one episode in real Blender."""

from __future__ import annotations

import math

import gymnasium as gym
import numpy as np

from sceneact_gym.agents.reconstruction_hull import Grid, View, carve, hull, pieces
from tests.agents.playing import play

TANGENT = math.tan(math.radians(20))


def axis_views(colors: list[tuple[int, int, int]], size: int = 200) -> list[View]:
    """Four level cameras 4 m from a cube of 1 m whose lower face lies on z = 0, each of which sees one face of it."""
    views = []
    for number, color in enumerate(colors):
        angle = number * math.pi / 2
        back = np.array([math.cos(angle), math.sin(angle), 0.0])
        matrix = np.eye(4)
        matrix[:3] = np.stack([[-back[1], back[0], 0.0], [0.0, 0.0, 1.0], back, 4 * back + [0, 0, 0.5]], axis=1)
        picture = np.full((size, size, 3), 255, np.uint8)
        # The near face is 3.5 m away: half of it takes size / 2 * 0.5 / 3.5 / tan(20 deg) pixels.
        half = round(size / 2 * 0.5 / 3.5 / TANGENT)
        picture[size // 2 - half : size // 2 + half, size // 2 - half : size // 2 + half] = color
        views.append(View(matrix, TANGENT, picture))
    return views


def test_the_hull_of_a_cube_is_the_cube() -> None:
    views = axis_views([(90, 60, 30)] * 4)
    masks = [(view.picture < 250).any(axis=2) for view in views]
    grid = hull(views, masks, np.array([-1.0, -1.0, 0.0]), np.array([1.0, 1.0, 2.0]), 0.05)
    (piece,) = pieces(grid)
    size = np.array(piece.solid.shape) * 0.05
    # Each silhouette is that of the near face, seen in perspective: at the centre the cone is 4 / 3.5 as wide.
    assert np.allclose(piece.low[:2], -0.5, atol=0.1) and piece.low[2] == 0
    assert np.allclose(size, [1.0, 1.0, 1.07], atol=0.2)
    assert not grid.solid[0].any() and grid.solid[20, 20, :20].all()


def test_carving_takes_what_looks_different_from_different_sides() -> None:
    same, other = axis_views([(90, 60, 30)] * 4), axis_views([(90, 60, 30), (20, 200, 40), (220, 30, 30), (0, 0, 90)])
    # A pole of one cell's width in the middle: all four cameras see each cell, on the colour of their own picture.
    solid = np.zeros((20, 20, 20), bool)
    solid[10, 10, 5:15] = True
    pole = Grid(solid, np.array([-0.5, -0.5, 0.0]), 0.05)
    assert carve(pole, same).solid.sum() == 10
    assert carve(pole, other).solid.sum() == 0


def test_pieces_are_apart_and_leftovers_are_dropped() -> None:
    solid = np.zeros((10, 10, 10), bool)
    solid[0:2, 0:2, 0:2] = True
    solid[5:8, 5:8, 5:8] = True
    solid[9, 0, 0] = True
    large, small = pieces(Grid(solid, np.zeros(3), 0.1))
    assert large.solid.shape == (3, 3, 3) and np.allclose(large.low, 0.5)
    assert small.solid.sum() == 8


def test_an_episode_beats_doing_nothing_and_comes_again() -> None:
    env = gym.make("SceneAct/Reconstruction-v0", split="val", reference_size=128, render_size=32, render={"samples": 1})
    try:
        actions, info = play(env, "reconstruction-hull", "reconstruction-val-0003", 10)
        # Doing nothing scores 0, and one box around the room at most 15.
        assert info["status"] == "ok" and info["score_strict"] > 50
        assert play(env, "reconstruction-hull", "reconstruction-val-0003", 10)[0] == actions
    finally:
        env.close()
