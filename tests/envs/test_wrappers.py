"""Wrappers for reinforcement learning: spaces, poses by hand, and rewards that add up."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator
from functools import partial
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

import sceneact_gym  # noqa: F401
from sceneact_gym.blender.render import resize
from sceneact_gym.envs.wrappers import (
    PITCH_LIMIT,
    CameraBoxAction,
    CameraImageObservation,
    DenseReward,
    make_camera_policy_env,
    moved,
)
from sceneact_gym.tasks.camera import NEUTRAL_POSE

FAST = {"render": {"samples": 1}}


def policy_env(**kwargs: Any) -> gym.Env[Any, Any]:
    return make_camera_policy_env(**{"size": 32, "max_steps": 4, **FAST, **kwargs})


@pytest.fixture(scope="module")
def env() -> Iterator[gym.Env[Any, Any]]:
    """One environment of the split `train`, with dense reward and gamma 1."""
    env = policy_env(gamma=1.0)
    yield env
    env.close()


def state_of(env: gym.Env[Any, Any]) -> np.ndarray:
    """Where the camera really stands, asked in Blender."""
    return np.array(env.unwrapped.episode.session.query("camera_state")["matrix_world"])  # type: ignore[attr-defined]


def pose(place: list[float], yaw: float = 0.0, pitch: float = 0.0) -> np.ndarray:
    """A pose as Euler angles have it: Rz(yaw) Rx(90 + pitch)."""
    z, x = math.radians(yaw), math.radians(90 + pitch)
    rz = np.array([[math.cos(z), -math.sin(z), 0], [math.sin(z), math.cos(z), 0], [0, 0, 1]])
    rx = np.array([[1, 0, 0], [0, math.cos(x), -math.sin(x)], [0, math.sin(x), math.cos(x)]])
    result = np.eye(4)
    result[:3, :3] = rz @ rx
    result[:3, 3] = place
    return result


# --- spaces and checkers --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [16, 32, 64])
def test_the_spaces_hold_at_every_size(size: int) -> None:
    env = policy_env(size=size)
    try:
        assert env.observation_space == gym.spaces.Box(0, 255, (size, 2 * size, 3), np.uint8)
        assert env.action_space == gym.spaces.Box(-1, 1, (5,), np.float32)
        first, _ = env.reset(seed=1)
        assert first in env.observation_space
        assert not first[:, size:].any()
        second, _, _, _, info = env.step(np.zeros(5, np.float32))
        assert second in env.observation_space
        assert [result["is_error"] for result in info["results"]] == [False, False]
        assert info["results"][1]["images"][0].shape == (size, size, 3)
        assert (second[:, size:] == info["results"][1]["images"][0]).all()
        episode = env.unwrapped.episode  # type: ignore[attr-defined]
        assert (second[:, :size] == episode.references[0]).all()
        assert episode.steps == 1 and episode.tool_calls == 2
    finally:
        env.close()


def test_larger_pictures_are_reduced() -> None:
    env = CameraImageObservation(gym.make("SceneAct/Camera-v0", render_size=48, reference_size=64), size=16)
    rng = np.random.default_rng(0)
    given = {
        "references": rng.integers(0, 256, (1, 64, 64, 3), np.uint8),
        "render": rng.integers(0, 256, (48, 48, 3), np.uint8),
    }
    picture = env.observation(given)
    assert picture.shape == (16, 32, 3) and picture.dtype == np.uint8
    # 64 to 16: each pixel is the mean of 4x4 pixels.
    means = given["references"][0].reshape(16, 4, 16, 4, 3).mean((1, 3))
    assert np.abs(picture[:, :16] - means).max() <= 1
    assert (picture[:, 16:] == resize(given["render"], 16, 16)).all()


def test_gymnasiums_checker_has_nothing_to_say() -> None:
    env = policy_env()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            # Said of every wrapped environment.
            warnings.filterwarnings("ignore", message=".*is different from the unwrapped version.*")
            check_env(env)
    finally:
        env.close()


def test_stable_baselines3s_checker_has_nothing_to_say() -> None:
    checker = pytest.importorskip(
        "stable_baselines3.common.env_checker", reason="needs the extra rl: pip install 'sceneact-gym[rl]'"
    )
    env = policy_env(size=64)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            checker.check_env(env, warn=True)
    finally:
        env.close()


def test_the_spec_rebuilds_all_wrappers() -> None:
    env = policy_env(move=0.25, gamma=0.9)
    assert env.spec is not None
    again = gym.make(gym.envs.registration.EnvSpec.from_json(env.spec.to_json()))
    names = []
    while isinstance(again, gym.Wrapper):
        names.append(type(again).__name__)
        if isinstance(again, CameraBoxAction):
            assert again.move == 0.25
        if isinstance(again, DenseReward):
            assert again.gamma == 0.9
        again = again.env
    assert [name for name in names if name in ("CameraImageObservation", "DenseReward", "CameraBoxAction")] == [
        "CameraImageObservation",
        "DenseReward",
        "CameraBoxAction",
    ]


# --- refusals -------------------------------------------------------------------------------------------------------


def test_box_actions_need_the_typed_tools() -> None:
    with pytest.raises(ValueError, match="toolset='typed'"):
        CameraBoxAction(gym.make("SceneAct/Camera-v0"))


@pytest.mark.parametrize("wrapper", [CameraBoxAction, CameraImageObservation, DenseReward])
def test_other_environments_are_refused(wrapper: Any) -> None:
    with pytest.raises(ValueError, match="environments of this package"):
        wrapper(gym.make("CartPole-v1"))


@pytest.mark.parametrize("split", ["val", "test"])
def test_dense_reward_refuses_other_splits(split: str) -> None:
    with pytest.raises(ValueError, match="split='train' only"):
        DenseReward(gym.make("SceneAct/Camera-v0", split=split))
    with pytest.raises(ValueError, match="split='train' only"):
        policy_env(split=split, dense=True)


@pytest.mark.parametrize("split", ["val", "test"])
def test_other_splits_have_the_plain_reward(split: str) -> None:
    env = policy_env(split=split)
    while isinstance(env, gym.Wrapper):
        assert not isinstance(env, DenseReward)
        env = env.env


@pytest.mark.parametrize(
    "arguments",
    [{"size": 15}, {"size": 1025}, {"size": 32.0}, {"move": 0.0}, {"move": math.nan}, {"turn": -1.0}, {"gamma": 1.1}],
)
def test_impossible_arguments_are_refused(arguments: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=f"{next(iter(arguments))} must be"):
        policy_env(**arguments)


@pytest.mark.parametrize("action", [[0.0] * 4, [0.0] * 4 + [math.nan], [[0.0] * 5]])
def test_wrong_actions_are_refused(env: gym.Env[Any, Any], action: Any) -> None:
    env.reset(seed=0)
    with pytest.raises(ValueError, match="five finite numbers"):
        env.step(np.array(action))
    assert env.unwrapped.episode.steps == 0  # type: ignore[attr-defined]


# --- poses ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("start", "move", "yaw", "pitch", "expected"),
    [
        # From the neutral pose: right is +X, forward is +Y.
        (pose([0, 0, 1.5]), [0.5, 0, 0], 0, 0, pose([0.5, 0, 1.5])),
        (pose([0, 0, 1.5]), [0, 0.25, 0], 0, 0, pose([0, 0, 1.75])),
        (pose([0, 0, 1.5]), [0, 0, -0.5], 0, 0, pose([0, -0.5, 1.5])),
        (pose([0, 0, 1.5]), [0, 0, 0], 90, 0, pose([0, 0, 1.5], 90)),
        (pose([0, 0, 1.5]), [0, 0, 0], 0, -30, pose([0, 0, 1.5], 0, -30)),
        # Turned left by 90 degrees it looks along -X, and its right is +Y.
        (pose([0, 0, 1.5], 90), [0.5, 0, 0.25], -15, 10, pose([-0.25, 0.5, 1.5], 75, 10)),
        # Looking down by 60 degrees: half of a step forward is level, sqrt(3) / 2 of it goes down.
        (pose([1, 2, 1.5], 0, -60), [0, 0, 1], 0, 0, pose([1, 2.5, 1.5 - math.sqrt(0.75)], 0, -60)),
        # Not beyond the limit.
        (pose([0, 0, 1.5], 20, -80), [0, 0, 0], 0, -15, pose([0, 0, 1.5], 20, -PITCH_LIMIT)),
        (pose([0, 0, 1.5], 20, 80), [0, 0, 0], 10, 15, pose([0, 0, 1.5], 30, PITCH_LIMIT)),
        # A camera that looks straight down keeps the heading of its right side.
        (pose([0, 0, 1.5], 90, -90), [1, 0, 0], 0, 0, pose([0, 1, 1.5], 90, -PITCH_LIMIT)),
    ],
)
def test_moves_by_hand(start: np.ndarray, move: list[float], yaw: float, pitch: float, expected: np.ndarray) -> None:
    assert moved(start, np.array(move), yaw, pitch) == pytest.approx(expected, abs=1e-9)


def test_the_camera_never_flips_or_rolls() -> None:
    rng = np.random.default_rng(3)
    current = NEUTRAL_POSE
    for _ in range(500):
        current = moved(current, rng.uniform(-0.5, 0.5, 3), *rng.uniform(-90, 90, 2))
        assert current[:3, :3] @ current[:3, :3].T == pytest.approx(np.eye(3), abs=1e-9)
        assert np.linalg.det(current[:3, :3]) == pytest.approx(1)
        assert current[2, 0] == pytest.approx(0, abs=1e-9)
        assert current[2, 1] > 0


def test_blenders_camera_stands_where_the_actions_say(env: gym.Env[Any, Any]) -> None:
    env.reset(seed=0)
    assert state_of(env) == pytest.approx(NEUTRAL_POSE, abs=1e-6)
    assert pose([0, 0, 1.5]) == pytest.approx(NEUTRAL_POSE, abs=1e-12)
    # Scaled by 0.5 m and 15 degrees: turned left by 15 degrees while it moves 0.5 m to its right.
    env.step(np.array([1, 0, 0, 1, 0], np.float32))
    assert state_of(env) == pytest.approx(pose([0.5, 0, 1.5], 15), abs=2e-6)
    env.step(np.array([0, -1, 1, 0, -1], np.float32))
    place = [0.5 - 0.5 * math.sin(math.radians(15)), 0.5 * math.cos(math.radians(15)), 1.0]
    assert state_of(env) == pytest.approx(pose(place, 15, -15), abs=3e-6)
    # Values beyond the limits count as the limits.
    env.step(np.array([0, 7, 0, 0, 9], np.float32))
    place[2] = 1.5
    assert state_of(env) == pytest.approx(pose(place, 15, 0), abs=4e-6)
    assert env.get_wrapper_attr("pose") == pytest.approx(state_of(env), abs=1e-6)


def test_the_render_shows_the_new_pose(env: gym.Env[Any, Any]) -> None:
    env.reset(seed=0)
    observation, _, _, _, info = env.step(np.array([0, 0, 0, 1, 0], np.float32))
    again = env.unwrapped.episode.session.render(  # type: ignore[attr-defined]
        env.unwrapped.episode.render_settings,
        matrix=pose([0, 0, 1.5], 15).tolist(),  # type: ignore[attr-defined]
    )
    assert np.abs(again.astype(int) - observation[:, 32:]).mean() < 1
    env.reset(seed=0)
    other = env.step(np.zeros(5, np.float32))[0]
    assert (other[:, 32:] != observation[:, 32:]).any()


def test_a_refused_move_leaves_the_pose(env: gym.Env[Any, Any]) -> None:
    env.reset(seed=0)
    wrapper: Any = env
    while not isinstance(wrapper, CameraBoxAction):
        wrapper = wrapper.env
    wrapper._pose = pose([1e6, 0, 0])  # From there every step to the right is out of the tool's range.
    _, _, _, _, info = env.step(np.array([1, 0, 0, 0, 0], np.float32))
    assert info["results"][0]["is_error"] and not info["results"][1]["is_error"]
    assert wrapper.pose == pytest.approx(pose([1e6, 0, 0]))
    env.reset(seed=0)
    assert wrapper.pose == pytest.approx(NEUTRAL_POSE)


# --- rewards --------------------------------------------------------------------------------------------------------


def run(env: gym.Env[Any, Any], seed: int) -> tuple[float, list[float], bool, bool, dict[str, Any]]:
    """An episode of fixed moves: the initial score / 100, the rewards, and how it ended."""
    env.reset(seed=seed)
    first = env.unwrapped.episode.score_now()["paper"].score / 100  # type: ignore[attr-defined]
    rng = np.random.default_rng(seed)
    rewards = []
    while True:
        _, reward, terminated, truncated, info = env.step(rng.uniform(-1, 1, 5).astype(np.float32))
        rewards.append(float(reward))
        if terminated or truncated:
            return first, rewards, terminated, truncated, info


def test_dense_rewards_add_up_to_the_final_score(env: gym.Env[Any, Any]) -> None:
    for seed in (0, 5):
        first, rewards, terminated, truncated, info = run(env, seed)
        assert len(rewards) == 4 and terminated and not truncated
        assert sum(rewards) == pytest.approx(info["score"] / 100 - first, abs=1e-9)
        assert any(abs(reward) > 1e-3 for reward in rewards[:-1])


def test_discounted_rewards_add_up_as_well() -> None:
    env = policy_env(gamma=0.9)
    try:
        first, rewards, _, _, info = run(env, 2)
    finally:
        env.close()
    total = sum(reward * 0.9**step for step, reward in enumerate(rewards))
    assert total == pytest.approx(0.9**3 * info["score"] / 100 - first, abs=1e-9)


def test_the_same_seed_gives_the_same_episode(env: gym.Env[Any, Any]) -> None:
    one, two = run(env, 7), run(env, 7)
    assert one[:2] == two[:2]
    assert one[4]["submission_hash"] == two[4]["submission_hash"]
    first, info = env.reset(seed=7)
    second, again = env.reset(seed=7)
    _, other = env.reset(seed=8)
    assert info["case_id"] == again["case_id"] != other["case_id"]
    assert info["case_id"].startswith("camera-train-")
    assert (first == second).all()


def test_a_failure_of_blender_is_not_punished(env: gym.Env[Any, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    from sceneact_gym.errors import InfraError

    env.reset(seed=0)
    episode = env.unwrapped.episode  # type: ignore[attr-defined]

    def gone(*_: Any, **__: Any) -> Any:
        raise InfraError("Blender is gone")

    monkeypatch.setattr(episode.session, "tool", gone)
    monkeypatch.setattr(episode, "score_now", gone)
    _, reward, terminated, truncated, info = env.step(np.zeros(5, np.float32))
    assert (reward, terminated, truncated) == (0.0, False, True)
    assert info["status"] == "infra_error" and info["score"] is None


def test_vector_environments_of_policies() -> None:
    make = partial(policy_env, gamma=1.0, max_steps=2)
    envs = gym.vector.AsyncVectorEnv([make, make])
    try:
        observations, _ = envs.reset(seed=3)
        assert observations.shape == (2, 32, 64, 3)
        for _ in range(2):
            observations, rewards, terminated, truncated, info = envs.step(np.zeros((2, 5), np.float32))
        assert terminated.all() and not truncated.any()
        # The camera has not moved: nothing was gained, whatever the scores are.
        assert rewards == pytest.approx([0, 0], abs=1e-9)
        assert (info["score"] > 0).all()
    finally:
        envs.close()
