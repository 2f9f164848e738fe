"""Wrappers that turn Camera into an environment for reinforcement-learning libraries: pictures in, small moves out.

    env = make_camera_policy_env(size=64)
    observation, info = env.reset(seed=0)  # (64, 128, 3) uint8: the reference and what the camera sees now
    observation, reward, terminated, truncated, info = env.step(env.action_space.sample())

Nothing here knows the answer: a policy gets what an agent with the typed tools gets. `DenseReward` alone uses the
hidden score, and refuses every split but `train`.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from gymnasium.utils import RecordConstructorArgs
from numpy.typing import NDArray

from sceneact_gym.blender.render import resize
from sceneact_gym.envs.base import SceneActEnv
from sceneact_gym.episode import Episode
from sceneact_gym.errors import InfraError
from sceneact_gym.tasks.camera import NEUTRAL_POSE

Matrix = NDArray[np.float64]
Picture = NDArray[np.uint8]

MIN_SIZE = 16
"""The smallest picture that Blender's tool renders, pixels."""
MAX_SIZE = 1024
PITCH_LIMIT = 85.0
"""Degrees that `CameraBoxAction` looks up or down at most: straight up, left and right would change sides."""


class CameraImageObservation(gym.ObservationWrapper[Picture, Any, dict[str, Any]], RecordConstructorArgs):
    """Observes one picture: the reference on the left, the newest render on the right.

    Observation space: `Box(0, 255, (size, 2 * size, 3), uint8)`, RGB on white, channels last. The right half is black
    until something has been rendered.
    """

    def __init__(self, env: gym.Env[Any, Any], size: int = 64) -> None:
        """Wraps an environment of this package.

        Args:
            env: its observations are reduced; make it with small `reference_size` and `render_size` to save time.
            size: height of the picture and half of its width, pixels, 16 to 1024.

        Raises:
            ValueError: another environment, or an impossible size.
        """
        RecordConstructorArgs.__init__(self, size=size)
        super().__init__(env)
        _scene_env(env)
        self.size = _checked_size(size)
        self.observation_space = spaces.Box(0, 255, (size, 2 * size, 3), np.uint8)

    def observation(self, observation: Mapping[str, Any]) -> Picture:
        """The first reference and the newest render, (size, 2 * size, 3) uint8."""
        pictures = (observation["references"][0], observation["render"])
        return np.concatenate([resize(picture, self.size, self.size) for picture in pictures], axis=1)


class CameraBoxAction(gym.Wrapper[Any, NDArray[np.float32], Any, Any], RecordConstructorArgs):
    """Moves and turns the active camera by small steps, and looks.

    Action space: `Box(-1, 1, (5,), float32)`: move right, up and forward, each times `move` metres; then yaw (left is
    positive) and pitch (up is positive), each times `turn` degrees. Right and forward are the camera's own before it
    turns, up is the world's Z; there is no roll. Values beyond the limits are clipped, and so is the pitch, at 85
    degrees, so that the camera never flips.

    One action is one turn of the episode with two typed calls, `set_camera_pose` and `render_scene_view`: the render
    shows the new pose. The wrapper knows the pose from the tool's own answers, as any agent would; in the beginning it
    is the neutral pose that the task documents.

    A policy has no way to submit: its episodes last as long as the budget. The scene is scored then, nothing is cut
    off, so the end is reported as `terminated` and learners do not add the value of a state that never comes. It stays
    `truncated` when Blender failed (`info["status"] == "infra_error"`).
    """

    def __init__(
        self, env: gym.Env[Any, Any], move: float = 0.5, turn: float = 15.0, render_size: int = 64
    ) -> None:
        """Wraps the Camera environment.

        Args:
            env: `SceneAct/Camera-v0` made with `toolset="typed"`.
            move: metres of the action 1.
            turn: degrees of the action 1.
            render_size: width and height of what is rendered, pixels, 16 to 1024.

        Raises:
            ValueError: another environment or tool set, or an impossible value.
        """
        RecordConstructorArgs.__init__(self, move=move, turn=turn, render_size=render_size)
        super().__init__(env)
        scene_env = _scene_env(env)
        if scene_env.task != "camera":
            raise ValueError(f"CameraBoxAction moves the camera of SceneAct/Camera-v0; this is {scene_env.task!r}")
        if scene_env.host.config.toolset != "typed":
            raise ValueError(
                "CameraBoxAction acts through set_camera_pose: make the environment with toolset='typed' "
                f"(it has {scene_env.host.config.toolset!r})"
            )
        for name, value in (("move", move), ("turn", turn)):
            if not (math.isfinite(value) and value > 0):
                raise ValueError(f"{name} must be a positive number; it is {value!r}")
        self.move = float(move)
        self.turn = float(turn)
        self.render_size = _checked_size(render_size)
        self.action_space = spaces.Box(-1.0, 1.0, (5,), np.float32)
        self._pose: Matrix = NEUTRAL_POSE.copy()

    @property
    def pose(self) -> Matrix:
        """(4, 4) pose of the camera as the tool last told it, `matrix_world`, metres; a copy."""
        return self._pose.copy()

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Begins an episode; the camera stands at the neutral pose."""
        self._pose = NEUTRAL_POSE.copy()
        return self.env.reset(seed=seed, options=options)

    def step(self, action: NDArray[np.float32]) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """Moves, turns and renders.

        Args:
            action: (5,) right, up, forward, yaw, pitch, each from -1 to 1.

        Raises:
            ValueError: another shape, or a value that is no number.
        """
        values = np.asarray(action, np.float64)
        if values.shape != (5,) or not np.isfinite(values).all():
            raise ValueError(f"an action is five finite numbers (right, up, forward, yaw, pitch); it is {action!r}")
        values = np.clip(values, -1.0, 1.0)
        wanted = moved(self._pose, values[:3] * self.move, *(values[3:] * self.turn))
        calls: Any = [
            {"name": "set_camera_pose", "arguments": {"matrix": wanted.tolist()}},
            {"name": "render_scene_view", "arguments": {"size": self.render_size}},
        ]
        observation, reward, terminated, truncated, info = self.env.step(calls)
        answered = next((result for result in info["results"] if result["name"] == "set_camera_pose"), None)
        if answered is not None and not answered["is_error"]:
            self._pose = np.array(json.loads(answered["text"])["matrix_world"], np.float64)
        if truncated and info.get("status") != "infra_error":
            terminated, truncated = True, False
        return observation, reward, terminated, truncated, info


class DenseReward(gym.Wrapper[Any, Any, Any, Any], RecordConstructorArgs):
    """Rewards progress while it happens, for training only.

    Adds `gamma * phi(s') - phi(s)` to each reward, where phi is the hidden score of the scene / 100 under the
    environment's protocol, and 0 once the episode is over. That is potential-based shaping: it changes when reward
    comes, not which policy is best. With gamma = 1 the rewards of an episode add up to the final score / 100 minus that
    of the initial scene; in general so do the discounted ones, with the final score / 100 discounted as without the
    wrapper. When Blender fails for good there is no final score, and the last reward is left as it is.

    The score is asked for once per step, in the process of the environment, so that it works in vector environments as
    well. Spaces do not change.
    """

    def __init__(self, env: gym.Env[Any, Any], gamma: float = 0.99) -> None:
        """Wraps an environment of the split `train`.

        Args:
            env: any environment of this package.
            gamma: the learner's discount, 0 to 1.

        Raises:
            ValueError: another split or environment, or an impossible discount.
        """
        RecordConstructorArgs.__init__(self, gamma=gamma)
        super().__init__(env)
        split = _scene_env(env).host.config.split
        if split != "train":
            raise ValueError(
                f"DenseReward shows the hidden score, so it is for split='train' only; this environment has {split!r}"
            )
        if not 0.0 <= gamma <= 1.0:
            raise ValueError(f"gamma must be between 0 and 1; it is {gamma!r}")
        self.gamma = float(gamma)
        self._potential = 0.0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Begins an episode and takes the initial scene's potential.

        Raises:
            ValueError: `options` chose a case of another split.
        """
        observation, info = self.env.reset(seed=seed, options=options)
        episode = self._episode()
        if episode.case.split not in ("", "train"):
            raise ValueError(
                f"DenseReward is for the split 'train' only; the case {episode.case.id} is of {episode.case.split!r}"
            )
        self._potential = self._score(episode)
        return observation, info

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Steps and adds the progress to the reward."""
        observation, reward, terminated, truncated, info = self.env.step(action)
        if info.get("status") == "infra_error":
            return observation, float(reward), terminated, truncated, info
        potential = 0.0 if terminated or truncated else self._score(self._episode())
        reward = float(reward) + self.gamma * potential - self._potential
        self._potential = potential
        return observation, reward, terminated, truncated, info

    def _episode(self) -> Episode:
        episode = _scene_env(self.env).episode
        assert episode is not None
        return episode

    def _score(self, episode: Episode) -> float:
        try:
            return episode.score_now()[episode.host.config.protocol].score / 100.0
        except InfraError:
            # The next step meets the same failure and reports it as the end of the episode.
            return self._potential


def make_camera_policy_env(
    *,
    size: int = 64,
    move: float = 0.5,
    turn: float = 15.0,
    dense: bool | None = None,
    gamma: float = 0.99,
    split: str = "train",
    **kwargs: Any,
) -> gym.Env[Picture, NDArray[np.float32]]:
    """`SceneAct/Camera-v0` as an environment from pictures to moves.

    Args:
        size: pixels of each half of the observation, see `CameraImageObservation`.
        move: metres, see `CameraBoxAction`.
        turn: degrees, see `CameraBoxAction`.
        dense: whether `DenseReward` is used; by default in the split `train` only, where it is allowed.
        gamma: of `DenseReward`.
        split: `train`, `val` or `test`.
        kwargs: further arguments of the environment, for example `render={"samples": 4}` or `max_steps`.

    Returns:
        Observations (size, 2 * size, 3) uint8, actions (5,) float32 from -1 to 1.

    Raises:
        ValueError: an argument is not possible; the message says what is.
    """
    kwargs = {"render_size": _checked_size(size), "reference_size": size, "toolset": "typed", **kwargs}
    env: gym.Env[Any, Any] = gym.make("SceneAct/Camera-v0", split=split, **kwargs)
    env = CameraBoxAction(env, move=move, turn=turn, render_size=size)
    if dense if dense is not None else split == "train":
        env = DenseReward(env, gamma=gamma)
    return CameraImageObservation(env, size=size)


def moved(pose: Matrix, move: NDArray[np.float64], yaw: float, pitch: float) -> Matrix:
    """A camera pose after one move and one turn.

    Args:
        pose: (4, 4) `matrix_world`; roll is dropped.
        move: (3,) metres along the camera's right, the world's Z and the viewing direction, all before the turn.
        yaw: degrees about the world's Z, left is positive.
        pitch: degrees, up is positive; the result looks up or down by at most `PITCH_LIMIT`.

    Returns:
        (4, 4) `matrix_world` without roll or scale.
    """
    forward = -pose[:3, 2] / np.linalg.norm(pose[:3, 2])
    level = math.hypot(forward[0], forward[1])
    # Looking straight up or down, the direction lies in the camera's own right instead.
    heading = math.atan2(-forward[0], forward[1]) if level > 1e-6 else math.atan2(pose[1, 0], pose[0, 0])
    right = np.array([math.cos(heading), math.sin(heading), 0.0])
    place = pose[:3, 3] + move[0] * right + move[1] * np.array([0.0, 0.0, 1.0]) + move[2] * forward
    heading += math.radians(yaw)
    limit = math.radians(PITCH_LIMIT)
    tilt = min(max(math.atan2(forward[2], level) + math.radians(pitch), -limit), limit)
    right = np.array([math.cos(heading), math.sin(heading), 0.0])
    forward = np.array(
        [-math.sin(heading) * math.cos(tilt), math.cos(heading) * math.cos(tilt), math.sin(tilt)]
    )
    result = np.eye(4)
    result[:3, :3] = np.column_stack([right, np.cross(right, forward), -forward])
    result[:3, 3] = place
    return result


def _scene_env(env: gym.Env[Any, Any]) -> SceneActEnv:
    if not isinstance(env.unwrapped, SceneActEnv):
        raise ValueError(f"this wrapper is for the environments of this package; {env.unwrapped!r} is none of them")
    return env.unwrapped


def _checked_size(size: int) -> int:
    if not isinstance(size, int) or not MIN_SIZE <= size <= MAX_SIZE:
        raise ValueError(f"size must be a whole number from {MIN_SIZE} to {MAX_SIZE} pixels; it is {size!r}")
    return size
