"""The small renderer by hand, replies of every odd kind, and one episode of each environment in real Blender."""

from __future__ import annotations

import base64
import dataclasses
import json
import math
import zlib
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

from sceneact_gym.agents import AGENTS, layout_fit, layout_search
from sceneact_gym.agents.layout_fit import LayoutFit
from sceneact_gym.agents.layout_search import LayoutSearchAgent, parse_scene
from sceneact_gym.agents.raster import Camera, Light, Piece, draw, turn

# Looks along -Z from the origin; a picture of 64 pixels has a focal length of 32 pixels.
CAMERA = Camera(np.eye(4), 1.0)
EVEN = Light(np.ones(3), np.zeros((0, 3)), np.zeros((0, 3)))
NOTHING_SEEN = {"references": np.full((1, 64, 64, 3), 255, np.uint8)}


def square(grey: float = 0.2, faces: tuple[tuple[int, int, int], ...] = ((0, 1, 2), (0, 2, 3))) -> Piece:
    """1 m wide, in the XY plane, its front towards +Z."""
    corners = np.array([[-0.5, -0.5, 0], [0.5, -0.5, 0], [0.5, 0.5, 0], [-0.5, 0.5, 0]])
    looks = np.full((len(faces), 3), grey)
    return Piece("object_00", corners, np.array(faces), looks, np.zeros_like(looks))


def test_a_square_by_hand() -> None:
    layer = draw(square(), np.array([0.25, 0.505, -2.02, 0.0]), CAMERA, EVEN, 64)
    # 1 m at 2.02 m is 15.84 pixels; the centre is 3.96 pixels right of the middle and 8 above it.
    rows, columns = np.divmod(layer.pixels, 64)
    assert len(layer.pixels) > 0.97 * 256
    assert (rows.min(), rows.max(), columns.min(), columns.max()) == (16, 31, 28, 43)
    assert np.allclose(layer.nearness, 1 / 2.02)
    # Linear 0.2 and 0.04 of gloss; sRGB of 0.24 by its definition.
    assert np.allclose(layer.colors, 1.055 * 0.24 ** (1 / 2.4) - 0.055)


def test_a_positive_yaw_turns_from_x_to_y() -> None:
    assert np.allclose(turn(math.pi / 2) @ [1.0, 0.0, 0.0], [0.0, 1.0, 0.0])
    tall = dataclasses.replace(square(), vertices=square().vertices * [0.25, 1, 1])
    layer = draw(tall, np.array([0, 0, -2.0, math.pi / 2]), CAMERA, EVEN, 64)
    rows, columns = np.divmod(layer.pixels, 64)
    assert 3 <= np.ptp(rows) <= 4 and 15 <= np.ptp(columns) <= 16


def test_backs_and_what_is_behind_the_camera_are_not_drawn() -> None:
    assert not len(draw(square(faces=((0, 2, 1), (0, 3, 2))), np.array([0, 0, -2.0, 0]), CAMERA, EVEN, 64).pixels)
    assert not len(draw(square(), np.array([0, 0, 2.0, 0]), CAMERA, EVEN, 64).pixels)


def test_the_nearer_part_hides_the_farther_one() -> None:
    # Twice the same square, the second one 0.5 m nearer and lighter; in both orders.
    corners = square().vertices
    for order in (1, -1):
        both = Piece(
            "object_00",
            np.concatenate([corners, corners + [0, 0, 0.5]]),
            np.array([[0, 1, 2], [0, 2, 3], [4, 5, 6], [4, 6, 7]])[::order],
            np.array([[0.2] * 3, [0.2] * 3, [0.8] * 3, [0.8] * 3])[::order],
            np.zeros((4, 3)),
        )
        layer = draw(both, np.array([0, 0, -2.0, 0]), CAMERA, EVEN, 64)
        assert np.allclose(layer.nearness, 1 / 1.5) and np.ptp(layer.colors) == 0 and layer.colors.min() > 0.9


def test_the_sun_lights_what_faces_it() -> None:
    light = Light(np.full(3, 0.25), np.array([[0.0, 0.6, 0.8]]), np.full((1, 3), 0.5))
    layer = draw(square(0.5), np.array([0, 0, -2.0, 0]), CAMERA, light, 64)
    linear = 0.5 * (0.25 + 0.8 * 0.5) + 0.04 * 0.25
    assert np.allclose(layer.colors, 1.055 * linear ** (1 / 2.4) - 0.055)
    # A sun behind it takes nothing away.
    below = Light(light.ambient, -light.suns, light.colors)
    assert np.allclose(square(0.5).colors(0.0, below), 1.055 * (0.5 * 0.25 + 0.01) ** (1 / 2.4) - 0.055)


def test_the_error_counts_what_is_wrong() -> None:
    # A black square of 16 x 16 pixels on white.
    picture = np.full((64, 64, 3), 255, np.uint8)
    picture[24:40, 24:40] = 0
    fit = LayoutFit([square(0.0)], [CAMERA], Light(np.zeros(3), *[np.zeros((0, 3))] * 2), [picture], 64, _rng())
    assert math.isclose(fit.error(), 256 * 0.5)  # Nothing is shown: the largest error and the outline's at each pixel.
    fit.take([np.array([0, 0, -2.0, 0])])
    assert fit.error() < 0.03 * 128 and fit.explained(0) > 0.97
    fit.take([np.array([0.5, 0, -2.0, 0])])
    # Half of it misses: 8 columns are white where they should be black, and 8 the other way round.
    assert math.isclose(fit.error(), 128, rel_tol=0.04) and math.isclose(fit.explained(0), 0.5, abs_tol=0.03)


def scene_text(**changes: Any) -> str:
    """What Blender says of a black square and a camera that looks down on it."""
    matrix = np.eye(4)
    matrix[2, 3] = 3.0
    piece = {
        "name": "object_00",
        "step": 0.5,
        "vertices": [[-1, 1, 1, -1], [-1, -1, 1, 1], [0, 0, 0, 0]],
        "triangles": [[0, 0], [1, 2], [2, 3], [0, 0]],
        "looks": [[[0.0, 0.0, 0.0], [0.0, 0.0, 0.0]]],
    }
    world = {
        "ambient": [1.0, 1.0, 1.0],
        "suns": [],
        "cameras": [{"name": "view_00", "matrix": matrix.tolist(), "tangent": 1.0}],
        "pieces": [piece],
    }
    return packed({**world, **changes})


def packed(world: Any) -> str:
    return base64.b64encode(zlib.compress(json.dumps(world).encode())).decode()


def reply(text: str, is_error: bool = False) -> dict[str, Any]:
    return {"name": "execute_blender_code", "text": text, "is_error": is_error, "images": []}


def said(text: str) -> list[dict[str, Any]]:
    return [reply(f"{len(text)} {text}")]


def test_a_scene_is_read_as_it_is_written() -> None:
    scene = parse_scene(scene_text())
    assert list(scene.cameras) == ["view_00"] and scene.cameras["view_00"].matrix[2, 3] == 3.0
    assert np.allclose(scene.pieces[0].vertices, [[-0.5, -0.5, 0], [0.5, -0.5, 0], [0.5, 0.5, 0], [-0.5, 0.5, 0]])
    assert np.array_equal(scene.pieces[0].triangles, [[0, 1, 2], [0, 2, 3]])


WRONG_CORNER = {
    "name": "a",
    "step": 1,
    "vertices": [[0], [0], [0]],
    "triangles": [[0], [1], [2], [0]],
    "looks": [0] * 6,
}


@pytest.mark.parametrize(
    "results",
    [
        [],
        [{}],
        [reply("RuntimeError", is_error=True)],
        [reply("")],
        [reply("The code ran without output.")],
        [reply("999999999 AAAA")],
        said("AAAA"),
        said("AAAAA"),
        said(base64.b64encode(zlib.compress(b"{")).decode()),
        said(packed([])),
        said(packed({})),
        said(scene_text(pieces=[])),
        said(scene_text(cameras=[])),
        said(scene_text(ambient=[math.nan] * 3)),
        said(scene_text(ambient="bright")),
        said(scene_text(pieces=[WRONG_CORNER])),
    ],
)
def test_a_scene_that_cannot_be_read_ends_the_episode(results: list[Any]) -> None:
    agent = LayoutSearchAgent(None, 0)  # type: ignore[arg-type]  # It never touches the environment.
    agent.reset(NOTHING_SEEN, {"budget": 30})
    assert [call["name"] for call in agent.act(NOTHING_SEEN, {})] == ["execute_blender_code"]
    assert agent.act(NOTHING_SEEN, {"results": results}) == [{"name": "submit", "arguments": {}}]


@pytest.mark.parametrize("budget", [1, 2, 3, 30])
@pytest.mark.parametrize("later", [[], [reply("RuntimeError", is_error=True)] * 16])
def test_renders_that_fail_are_no_obstacle(budget: int, later: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(layout_search, "ROUNDS", 1)
    monkeypatch.setattr(layout_fit, "REFINED", 1)
    monkeypatch.setattr(layout_fit, "GUESSES", 10)
    agent = LayoutSearchAgent(None, 0)  # type: ignore[arg-type]
    agent.reset(NOTHING_SEEN, {"budget": budget})
    turns = [agent.act(NOTHING_SEEN, {})]
    while len(turns) < budget and turns[-1][-1]["name"] != "submit":
        turns.append(agent.act(NOTHING_SEEN, {"results": said(scene_text()) if len(turns) == 1 else later}))
    assert all(1 <= len(calls) <= 16 for calls in turns)
    # Even when the budget ends first, the pieces have been put somewhere.
    assert budget == 1 or "location" in turns[-1][0]["arguments"]["code"]
    assert budget < 30 or turns[-1][-1]["name"] == "submit"


@pytest.mark.parametrize("env_id", ["SceneAct/Layout-v0", "SceneAct/LayoutMultiView-v0"])
def test_an_episode_in_blender(env_id: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"ROUNDS": 1, "REAL_TURNS": 1, "VIEWS": 2}.items():
        monkeypatch.setattr(layout_search, name, value)
    for name, value in {"REFINED": 2, "GUESSES": 60}.items():
        monkeypatch.setattr(layout_fit, name, value)
    env = gym.make(env_id, split="train", reference_size=48, render_size=32, render={"samples": 1})
    first, second = (AGENTS["layout-search"](env, 3) for _ in range(2))
    task = "layout" if env_id == "SceneAct/Layout-v0" else "layout_multiview"
    try:
        observation, info = env.reset(options={"case_id": f"{task}-train-0001"})
        for agent in (first, second):
            agent.reset(observation, info)
        while True:
            action = first.act(observation, info)
            # Another agent of the same seed that sees the same does the same.
            assert second.act(observation, info) == action
            observation, _, terminated, truncated, info = env.step(action)
            assert not any(result["is_error"] for result in info["results"]), info["results"]
            if terminated or truncated:
                break
    finally:
        env.close()
    # Doing nothing scores 0 under `strict` in every room.
    assert info["status"] == "ok" and info["score_strict"] > 60
    assert info["metrics"]["n_altered"] == 0


def _rng() -> np.random.Generator:
    return np.random.default_rng(0)
