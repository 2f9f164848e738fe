"""Tracks in hand-made videos, rays by hand, and one episode in real Blender."""

from __future__ import annotations

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from sceneact_gym.agents import AGENTS
from sceneact_gym.agents.dynamic_tracks import Camera
from sceneact_gym.agents.video_blobs import Library, find_background, make_library
from sceneact_gym.agents.video_tracks import Track, find_tracks

GRASS, SHADE, RED, BLUE = (150, 180, 120), (117, 141, 93), (200, 40, 40), (40, 60, 200)
"""Levels; SHADE is GRASS with 0.6 times its linear intensity."""
SIZE = 96
METRES = np.full(SIZE, 0.1)


def library() -> Library:
    """A red thing and a blue one of 1.2 m, and a wall that is red and blue and too large for the blobs below."""
    red, blue = (0.58, 0.02, 0.02), (0.02, 0.04, 0.58)
    things = [[(1.0, red)], [(1.0, blue)], [(1.0, red), (1.0, blue)]]
    return make_library(things, np.array([1.7, 1.7, 30.0]), np.array([0.3, 0.46, 0.19]))


def video(paint) -> NDArray[np.uint8]:
    """144 pictures of grass with a red square that stands, painted on by `paint(picture, frame)`."""
    frames = np.full((144, SIZE, SIZE, 3), GRASS, np.uint8)
    frames[:, 4:16, 4:16] = RED
    for number, frame in enumerate(frames):
        paint(frame, number)
    return frames


def tracks_of(frames: NDArray[np.uint8]) -> list[Track]:
    return find_tracks(frames, find_background(frames, library().ground), library(), METRES)


def test_things_of_different_colours_are_two_while_they_touch() -> None:
    def paint(frame: NDArray[np.uint8], number: int) -> None:
        red, blue = 2 + number // 4, 14 + max(number // 4, number // 2 - 20)
        frame[40:52, red : red + 12] = RED
        frame[40:52, blue : blue + 12] = BLUE
        frame[52:56, red : blue + 12] = SHADE

    blue, red = sorted(tracks_of(video(paint)), key=lambda track: track.owner(), reverse=True)
    assert (red.owner(), blue.owner()) == (0, 1)
    # 12 pixels wide, so that the middle is 5.5 pixels to the right of the first one; the shadow does not count.
    number = np.arange(144)
    places = 2 + number // 4, 14 + np.maximum(number // 4, number // 2 - 20)
    for track, left in zip((red, blue), places, strict=True):
        assert np.abs(track.places() - np.column_stack([left + 5.5, np.full(144, 45.5)])).max() < 1.0


def test_what_vanishes_at_one_end_and_comes_again_at_the_other_is_one() -> None:
    def paint(frame: NDArray[np.uint8], number: int) -> None:
        left = 10 + (40 + number) % 70
        frame[60:72, left : left + 12] = BLUE

    (track,) = tracks_of(video(paint))
    assert len(track.blobs) == 144
    assert np.abs(track.places()[[0, 29, 30, 143], 0] - [55.5, 84.5, 15.5, 58.5]).max() < 1.5


def test_a_thing_that_is_hidden_for_a_while_is_one_and_goes_on_evenly() -> None:
    def paint(frame: NDArray[np.uint8], number: int) -> None:
        if not 60 <= number < 72:
            frame[40:52, number // 2 : number // 2 + 12] = BLUE

    (track,) = tracks_of(video(paint))
    assert np.abs(track.places()[:, 0] - (np.arange(144) // 2 + 5.5)).max() < 1.5


def test_nothing_moves_where_only_a_shadow_or_noise_does() -> None:
    noise = np.random.default_rng(0).integers(0, SIZE, (144, 5, 2))

    def paint(frame: NDArray[np.uint8], number: int) -> None:
        frame[70:80, number // 2 : number // 2 + 14] = SHADE
        frame[noise[number, :, 0], noise[number, :, 1]] = BLUE

    assert tracks_of(video(paint)) == []


def test_the_background_shows_through_where_a_train_passes_most_of_the_time() -> None:
    def paint(frame: NDArray[np.uint8], number: int) -> None:
        if number >= 50:
            # Its colours change, as those of several wagons do; all are darker than the grass.
            frame[40:52, 30:60] = 10 + number * 37 % 90

    background = find_background(video(paint), library().ground)
    assert (background[40:52, 30:60] == GRASS).all() and (background[4:16, 4:16] == RED).all()


def test_rays_meet_heights() -> None:
    down = np.eye(4)
    down[2, 3] = 10.0
    # 100 pixels wide, 50 of them for 45 degrees: a pixel is 0.2 m on the ground 10 m below, and 0.16 m 2 m above it.
    camera = Camera(down, 50.0, 100)
    assert np.allclose(camera.at_height(np.array([[60.0, 30.0]]), 0.0), [[2.0, 4.0, 0.0]])
    assert np.allclose(camera.at_height(np.array([[60.0, 30.0]]), 2.0), [[1.6, 3.2, 2.0]])
    assert np.allclose(camera.pixel_size()[49:51], 0.2, atol=1e-4)
    # Half way down towards +Y: back is (0, -s, s), up is (0, s, s).
    half = np.sqrt(0.5)
    slanted = np.array([[1, 0, 0, 0], [0, half, -half, -10], [0, half, half, 10], [0, 0, 0, 1]])
    assert np.allclose(Camera(slanted, 50.0, 100).at_height(np.array([50.0, 50.0]), 0.0), [0.0, 0.0, 0.0])
    # The lower edge lies 45 degrees below that, straight down.
    assert np.allclose(Camera(slanted, 50.0, 100).at_height(np.array([50.0, 100.0]), 0.0), [0.0, -10.0, 0.0])


def test_an_episode_beats_doing_nothing_and_comes_again() -> None:
    env = gym.make("SceneAct/Dynamic-v0", split="val", reference_size=64, render_size=32, render={"samples": 1})
    try:
        observation, info = env.reset(options={"case_id": "dynamic-val-0008"})
        agent, again = AGENTS["dynamic-tracks"](env), AGENTS["dynamic-tracks"](env)
        agent.reset(observation, info)
        again.reset(observation, info)
        terminated = False
        while not terminated:
            action = agent.act(observation, info)
            assert again.act(observation, info) == action
            observation, _, terminated, _, info = env.step(action)
            assert not any(result["is_error"] for result in info["results"]), info["results"]
        # Doing nothing scores 0; all that stands and one mover missed, or one too many, at most 50.
        assert info["status"] == "ok" and info["steps"] == 3
        assert info["score_paper"] > 70 and info["score_strict"] > 70
        assert info["metrics"]["recall"] == 1
    finally:
        env.close()
