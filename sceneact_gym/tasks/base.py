"""What a task is: how its scene starts, what is collected at its end, and how that is scored.

A task holds no state. Everything about one episode is in the `Case`, in the Blender session and in the `Episode`.
"""

from __future__ import annotations

import hashlib
import json
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sceneact_gym.blender.render import RenderSettings
from sceneact_gym.blender.session import BlenderSession
from sceneact_gym.cases import Case, View
from sceneact_gym.evaluators.base import Protocol
from sceneact_gym.tasks import lighting


@dataclass(frozen=True)
class Submission:
    """What an episode leaves behind.

    Attributes:
        data: JSON values.
        files: files by name, for example an exported GLB.
    """

    data: Mapping[str, Any]
    files: Mapping[str, bytes] = field(default_factory=dict)

    @property
    def hash(self) -> str:
        """SHA-256 over all of it: equal for equal submissions."""
        digest = hashlib.sha256(json.dumps(self.data, sort_keys=True).encode())
        for name in sorted(self.files):
            digest.update(name.encode() + b"\0" + hashlib.sha256(self.files[name]).digest())
        return digest.hexdigest()


@dataclass(frozen=True)
class Score:
    """A scored submission.

    Attributes:
        score: 0 to 100.
        metrics: the native metrics; units in the evaluator's documentation.
        valid: whether there was anything to score.
        reason: why not.
    """

    score: float
    metrics: Mapping[str, Any]
    valid: bool = True
    reason: str = ""


class Task(ABC):
    """One task.

    Attributes:
        name: short, for example `camera`.
        env_id: the registered environment.
        budget: steps by default.
        references: how many reference pictures an observation holds.
        hidden_tools: tools that make no sense here.
        object_names: objects that every case of the task has; action spaces sample from these.
    """

    name: str
    env_id: str
    budget: int
    references: int
    hidden_tools: tuple[str, ...] = ()
    object_names: tuple[str, ...] = ("camera",)

    @abstractmethod
    def prompts(self, case: Case, budget: int) -> tuple[str, str]:
        """The system prompt and the prompt: everything the evaluator assumes, nothing that gives the answer away."""

    @abstractmethod
    def build(self, session: BlenderSession, case: Case) -> None:
        """Builds the initial scene in an empty one, from public data only."""

    @abstractmethod
    def protected(self, case: Case) -> Sequence[str]:
        """Objects that must stay in the scene; a call that removes one is undone."""

    def baseline(self, session: BlenderSession, case: Case) -> Any:
        """What `collect` compares the final scene with; taken when the episode begins."""
        return None

    @abstractmethod
    def collect(self, session: BlenderSession, case: Case, baseline: Any) -> Submission | None:
        """The scene's final output, checked; None when the agent left nothing that can be scored."""

    @abstractmethod
    def evaluate(self, case: Case, submission: Submission | None, protocol: Protocol) -> Score:
        """Scores a submission against the truth."""

    def reference_settings(self, settings: RenderSettings) -> RenderSettings:
        """The render settings of the references; the agent's own, in the references' size, by default."""
        return settings

    def reference_look(self) -> str:
        """Everything besides case and settings that changes how the references look."""
        return json.dumps([lighting.ROOM, lighting.OBJECT, lighting.OUTDOOR], sort_keys=True)

    def files(self, case: Case) -> Mapping[str, bytes]:
        """Files that agent code finds in its current folder, by their paths there."""
        return {}

    def shown_references(self, case: Case) -> Sequence[int]:
        """Which of the references an observation holds, at most `references` of them; the first ones by default."""
        return range(min(self.references, len(case.public.references)))

    def telling_references(self, case: Case) -> Sequence[int]:
        """The few references that show a case best on a contact sheet."""
        return (0,)

    @abstractmethod
    def reference_views(self, case: Case) -> Sequence[View]:
        """The cameras, in order, whose pictures are the references. Used by the trusted renderer only."""

    def build_references(self, session: BlenderSession, case: Case) -> None:
        """Builds the scene that the references show, with its motion; the initial scene by default.

        `session` is trusted: it may see the truth.
        """
        self.build(session, case)

    def reference_frames(self, case: Case) -> Sequence[int] | None:
        """For moving references: the 1-based frame of each view's picture; None where the initial scene is shown."""
        return None

    def audit(
        self, session: BlenderSession, case: Case, submission: Submission, settings: RenderSettings
    ) -> Mapping[str, Any]:
        """Render-based figures that are reported beside the score and never change it. `session` is trusted."""
        return {}
