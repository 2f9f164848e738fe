"""A real published room as a Camera case: the published poses, submitted by tool call, get the published errors."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

import sceneact_gym  # noqa: F401
from benchmarks.published import CAMERA_CENTRE, CAMERA_VIEW
from sceneact_gym.agents.simple import NoopAgent, OracleAgent
from sceneact_gym.cases import Case
from sceneact_gym.data.audit import audit_case
from tests.published_spec import published_case

pytest.importorskip("DracoPy", reason="the published room is Draco-compressed: pip install sceneact-gym[draco]")

FOV_X_DEG = 39.6
CONFIGURATIONS = (
    "claude-opus-4-6-high",
    "doubao-seed-2-pro-high",
    "gpt-5-4-high",
    "kimi-k2-6-reason",
    "minimax-m3-high",
    "step-3-7-flash-high",
)


def hidden_camera() -> np.ndarray:
    """The pose of a camera at the published centre that looks along the published direction, Z up."""
    right = np.cross(CAMERA_VIEW, [0, 0, 1])
    matrix = np.eye(4)
    matrix[:3, :3] = np.stack([right, np.cross(right, CAMERA_VIEW), -CAMERA_VIEW], axis=1)
    matrix[:3, 3] = CAMERA_CENTRE
    return matrix


@pytest.fixture(scope="module")
def case(published: Path) -> Case:
    return published_case(published, "camera")


@pytest.fixture(scope="module")
def objects(case: Case) -> list[str]:
    return case.public.data["objects"]


def test_the_case_is_the_published_one_and_tells_nothing(case: Case) -> None:
    assert np.allclose(case.truth["matrix_world"], hidden_camera(), atol=1e-6)
    assert case.public.data["objects"] == [f"object_{number:02d}" for number in range(6)]
    assert sum(name.startswith("Cabinet_Shelf_Desk_") for name in case.truth["source_names"].values()) == 3
    assert audit_case(case) == []


@pytest.fixture(scope="module")
def source(case: Case, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the one case, written as people write their own."""
    folder = tmp_path_factory.mktemp("cases")
    case.save(folder / "published-bedroom")
    return folder


@pytest.fixture(scope="module")
def env(source: Path) -> Iterator[gym.Env[Any, Any]]:
    env = gym.make("SceneAct/Camera-v0", source=str(source), render_size=64, reference_size=64, render={"samples": 1})
    yield env
    env.close()


@pytest.fixture(scope="module")
def poses(published: Path) -> dict[str, dict[str, Any]]:
    cases = json.loads((published / "cases.json").read_text())
    return {case["configuration"]: case for case in cases if case["task"] == "camera"}


def test_all_published_poses_are_tried(poses: dict[str, dict[str, Any]]) -> None:
    assert sorted(poses) == sorted(CONFIGURATIONS)


def test_the_room_is_there_and_can_be_seen(env: gym.Env[Any, Any], objects: list[str]) -> None:
    observation, info = env.reset(seed=0)
    assert info["case_id"] == "published-bedroom" and "39.6 degrees" in info["prompt"]
    assert observation["references"].shape == (1, 64, 64, 3) and observation["references"].std() > 10
    truth = np.round(hidden_camera(), 6).tolist()
    observation, *_, info = env.step(
        [
            {"name": "get_scene_info", "arguments": {}},
            *({"name": "get_object_info", "arguments": {"name": name}} for name in objects),
            {"name": "render_scene_view", "arguments": {"matrix": truth}},
        ]
    )
    assert [result["is_error"] for result in info["results"]] == [False] * (len(objects) + 2)
    scene = json.loads(info["results"][0]["text"])
    assert set(objects) | {"camera"} <= {thing["name"] for thing in scene["objects"]}
    assert len(objects) == 6
    for name, result in zip(objects, info["results"][1:-1], strict=True):
        thing = json.loads(result["text"])
        assert thing["name"] == name and thing["type"] == "MESH" and thing["vertices"] > 3 and thing["faces"] > 1
    picture = info["results"][-1]["images"][0]
    assert picture.std() > 10 and np.array_equal(picture, observation["render"])
    # The published file is scaled to a unit box, unlike the published poses: the pictures cannot be compared.


@pytest.mark.parametrize("configuration", CONFIGURATIONS)
def test_a_published_pose_gets_the_published_errors(
    env: gym.Env[Any, Any], poses: dict[str, dict[str, Any]], configuration: str
) -> None:
    published = poses[configuration]
    matrix = published["pose"]["agent_matrix_world"]
    env.reset(seed=0)
    code = f"from mathutils import Matrix\nbpy.context.scene.camera.matrix_world = Matrix({matrix})"
    _, reward, *_, info = env.step({"name": "execute_blender_code", "arguments": {"code": code}})
    assert not info["results"][0]["is_error"] and reward == 0 and "metrics" not in info
    _, reward, terminated, _, info = env.step({"name": "submit", "arguments": {}})
    assert terminated and info["status"] == "ok"
    pe, ae = info["metrics"]["pe"], info["metrics"]["ae"]
    assert pe == pytest.approx(published["metrics"]["PE"], abs=1e-3)
    assert ae == pytest.approx(published["metrics"]["AE"], abs=1e-3)
    assert info["metrics"]["fov_x"] == pytest.approx(published["pose"]["agent_fov_x_deg"], abs=1e-3)
    assert info["metrics"]["n_changed"] == 0
    assert info["score"] == pytest.approx(50 * max(0, 1 - pe / 4) + 50 * max(0, 1 - ae / 90))
    assert info["score_paper"] == info["score_strict"] == info["score"] == pytest.approx(100 * reward)


def test_the_truth_gets_everything(env: gym.Env[Any, Any]) -> None:
    observation, info = env.reset(seed=0)
    agent = OracleAgent(env)
    agent.reset(observation, info)
    *_, info = env.step(agent.act(observation, info))
    assert info["score"] == pytest.approx(100, abs=1e-3)
    assert info["metrics"]["pe"] < 1e-5 and info["metrics"]["ae"] < 1e-3


def test_doing_nothing_gets_the_floor(env: gym.Env[Any, Any]) -> None:
    observation, info = env.reset(seed=0)
    agent = NoopAgent(env)
    agent.reset(observation, info)
    _, reward, terminated, _, info = env.step(agent.act(observation, info))
    # The camera stands at (0, 0, 1.5) and looks along +Y: 45 degrees off, and too far away for any point by distance.
    distance = math.dist(CAMERA_CENTRE, (0, 0, 1.5))
    assert distance > 4 and terminated
    assert info["metrics"]["pe"] == pytest.approx(distance, abs=1e-5)
    assert info["metrics"]["ae"] == pytest.approx(45, abs=1e-4)
    assert info["score"] == pytest.approx(25, abs=1e-3) and reward == pytest.approx(0.25, abs=1e-5)


def test_a_changed_room_is_reported_and_not_rewarded(env: gym.Env[Any, Any], objects: list[str]) -> None:
    env.reset(seed=0)
    code = f"bpy.data.objects[{objects[0]!r}].location.x += 1\nbpy.data.objects[{objects[1]!r}].hide_render = True"
    *_, info = env.step([{"name": "execute_blender_code", "arguments": {"code": code}}, {"name": "submit"}])
    assert info["metrics"]["n_changed"] == 2 and info["score"] == pytest.approx(25, abs=1e-3)


def test_without_a_reference_one_is_rendered(case: Case, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SCENEACT_CACHE", str(tmp_path / "cache"))
    case.with_references(()).save(tmp_path / "cases" / "bare")
    env = gym.make(
        "SceneAct/Camera-v0", source=str(tmp_path / "cases"), render_size=64, reference_size=64, render={"samples": 1}
    )
    try:
        observation, _ = env.reset(seed=0)
        *_, info = env.step({"name": "render_scene_view", "arguments": {"matrix": hidden_camera().tolist()}})
        assert np.array_equal(observation["references"][0], info["results"][0]["images"][0])
        assert len(list((tmp_path / "cache").rglob("*.png"))) == 1
    finally:
        env.close()
