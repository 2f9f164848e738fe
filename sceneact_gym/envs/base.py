"""The Gymnasium face of an episode; one subclass per task only adds its documentation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from sceneact_gym.blender.process import IsolationMode
from sceneact_gym.blender.render import RenderSettings, resize
from sceneact_gym.envs.spaces import Message, ToolCalls
from sceneact_gym.episode import Episode, EpisodeConfig, EpisodeHost, Outcome
from sceneact_gym.evaluators.base import Protocol
from sceneact_gym.tasks import TASKS
from sceneact_gym.tools import ToolResult

MESSAGE_LIMIT = 24_000
"""Characters of the observation's message; `info["results"]` holds the whole texts."""
CHARACTERS = frozenset("\n" + "".join(map(chr, range(32, 127))))

Observation = dict[str, Any]


class SceneActEnv(gym.Env[Observation, Any]):
    """Base of all environments of this package; see the subclasses."""

    metadata: ClassVar[dict[str, Any]] = {"render_modes": ["rgb_array"], "render_fps": 4}  # type: ignore[misc]
    task: ClassVar[str]

    def __init__(
        self,
        *,
        source: str = "procedural",
        split: str = "test",
        protocol: Protocol = "paper",
        toolset: str = "paper",
        max_steps: int | None = None,
        reference_size: int = 384,
        render_size: int = 384,
        render: RenderSettings | Mapping[str, Any] | None = None,
        isolation: IsolationMode = "auto",
        checkpoints: Sequence[int] = (),
        record_dir: str | Path | None = None,
        render_mode: str | None = None,
    ) -> None:
        """Checks the arguments; Blender starts in the first `reset`.

        Raises:
            ValueError: an argument is not possible; the message says what is.
            CaseNotFound: no such source or split.
        """
        if render_mode not in (None, *self.metadata["render_modes"]):
            raise ValueError(f"render_mode must be None or 'rgb_array'; it is {render_mode!r}")
        self.render_mode = render_mode
        self.host = EpisodeHost(
            self.task,
            EpisodeConfig(
                source=source,
                split=split,
                protocol=protocol,
                toolset=toolset,
                max_steps=max_steps,
                reference_size=reference_size,
                render_size=render_size,
                render=render,
                isolation=isolation,
                checkpoints=tuple(checkpoints),
                record_dir=record_dir,
            ),
        )
        task = TASKS[self.task]
        self.episode: Episode | None = None
        self._picture = np.zeros((render_size, render_size, 3), np.uint8)
        references = (task.references, reference_size, reference_size, 3)
        self.observation_space = spaces.Dict(
            {
                "references": spaces.Box(0, 255, references, np.uint8),
                "render": spaces.Box(0, 255, (render_size, render_size, 3), np.uint8),
                "message": Message(MESSAGE_LIMIT, min_length=0, charset=CHARACTERS),
                "steps_left": spaces.Discrete(self.host.budget + 1),
            }
        )
        self.action_space = ToolCalls(toolset, task.hidden_tools, task.object_names)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        """Begins an episode.

        Args:
            seed: chooses the case, unless `options` does.
            options: `case_id` names the case.

        Returns:
            The observation, and `info` with `case_id`, `system_prompt`, `prompt`, `tools` (JSON schemas) and `budget`.

        Raises:
            CaseNotFound: no such case.
            BlenderNotFound: no usable Blender.
            IsolationUnavailable: this kernel cannot confine Blender and `isolation` is not `off`.
            InfraError: Blender failed to prepare the scene.
        """
        super().reset(seed=seed)
        unknown = set(options or {}) - {"case_id"}
        if unknown:
            raise ValueError(f"options has only case_id; remove {', '.join(sorted(map(str, unknown)))}")
        case_id = (options or {}).get("case_id") or self.host.source.draw(self.np_random)
        self.episode = episode = self.host.begin(case_id)
        self._picture = np.zeros_like(self._picture)
        info = {
            "case_id": case_id,
            "system_prompt": episode.system_prompt,
            "prompt": episode.prompt,
            "tools": [tool.schema() for tool in episode.tools.values()],
            "budget": self.host.budget,
        }
        return self._observation(episode.prompt), info

    def step(self, action: Any) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        """One turn: runs the calls of an action in order.

        Args:
            action: a call `{"name": ..., "arguments": {...}}`, a list of at most 16, or a JSON string of either. An
                empty list ends the episode. What is none of these costs its step and gives an error message.

        Returns:
            Observation, reward (score / 100 at the end, else 0), terminated, truncated, and `info` with `results` and,
            at the end, `score`, `score_paper`, `score_strict`, `metrics`, `status`, `steps`, `tool_calls`.

        Raises:
            gymnasium.error.ResetNeeded: there is no episode, or it is over.
        """
        if self.episode is None or self.episode.outcome is not None:
            raise gym.error.ResetNeeded("call reset before step: there is no episode, or it is over")
        step = self.episode.act(action)
        for result in step.results:
            for picture in result.images:
                self._picture = resize(picture, self._picture.shape[1], self._picture.shape[0])
        info: dict[str, Any] = {"results": [_result_info(result) for result in step.results]}
        reward = 0.0
        if self.episode.outcome is not None:
            info |= outcome_info(self.episode.outcome)
            reward = (self.episode.outcome.score or 0.0) / 100.0
        text = "\n".join(f"[{result.name}] {result.text}" for result in step.results)
        return self._observation(text), reward, step.terminated, step.truncated, info

    def render(self) -> NDArray[np.uint8] | None:
        """The first reference and the newest picture side by side, (H, 2H, 3) uint8, in the mode `rgb_array`."""
        if self.render_mode is None:
            return None
        size = self._picture.shape[0]
        if self.episode is None or not len(self.episode.references):
            reference = np.zeros_like(self._picture)
        else:
            reference = resize(self.episode.references[0], size, size)
        return np.concatenate([reference, self._picture], axis=1)

    def close(self) -> None:
        """Ends Blender; safe to call twice."""
        self.episode = None
        self.host.close()

    def _observation(self, message: str) -> Observation:
        assert self.episode is not None
        return {
            "references": self.episode.references.copy(),
            "render": self._picture.copy(),
            "message": _plain(message),
            "steps_left": np.int64(self.episode.steps_left),
        }


def outcome_info(outcome: Outcome) -> dict[str, Any]:
    """What `info` tells at the end of an episode."""
    return {
        "score": outcome.score,
        "score_paper": outcome.scores["paper"],
        "score_strict": outcome.scores["strict"],
        "metrics": dict(outcome.metrics),
        "status": outcome.status,
        "reason": outcome.reason,
        "steps": outcome.steps,
        "tool_calls": outcome.tool_calls,
        "submission_hash": outcome.submission_hash,
        "checkpoints": {step: dict(scores) for step, scores in outcome.checkpoints.items()},
        "setting": dict(outcome.setting),
    }


def _result_info(result: ToolResult) -> dict[str, Any]:
    return {
        "name": result.name,
        "is_error": result.is_error,
        "text": result.text,
        "images": [picture.copy() for picture in result.images],
    }


def _plain(text: str) -> str:
    """Printable ASCII with line breaks, as the space says; other characters are shown as escapes."""
    text = text.replace("\t", "    ")
    if not CHARACTERS.issuperset(text):
        text = "".join(c if c in CHARACTERS else c.encode("unicode_escape").decode() for c in text)
    if len(text) > MESSAGE_LIMIT:
        text = text[: MESSAGE_LIMIT - 40] + "\n[cut; see info['results']]"
    return text
