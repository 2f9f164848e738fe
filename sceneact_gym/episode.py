"""The core: one case, one agent, one Blender. Begin, act, finish.

`EpisodeHost` owns the Blenders and begins episodes; `Episode` counts steps, runs calls, keeps the trace and scores once
at the end. Environments, servers and runners wrap these two and add no logic of their own.
"""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from sceneact_gym import tools as toolbox
from sceneact_gym._version import __version__
from sceneact_gym.blender.process import IsolationMode
from sceneact_gym.blender.render import RenderSettings, decode_png, resize
from sceneact_gym.blender.session import BlenderSession, SessionSettings
from sceneact_gym.cases import Case
from sceneact_gym.data.references import ReferenceRenderer
from sceneact_gym.data.sources import CaseSource, open_source
from sceneact_gym.errors import InfraError, blame
from sceneact_gym.evaluators.base import Protocol
from sceneact_gym.tasks import TASKS, Score, Submission, Task
from sceneact_gym.tools import MAX_CALLS, Tool, ToolResult
from sceneact_gym.trace import Trace

Status = Literal["ok", "agent_error", "infra_error"]
PROTOCOLS: tuple[Protocol, ...] = ("paper", "strict")


@dataclass(frozen=True)
class EpisodeConfig:
    """Everything that an episode depends on besides its case and its agent.

    Attributes:
        source: `procedural`, or a folder of case folders.
        split: `train`, `val` or `test`.
        protocol: which protocol's score becomes `score` and the reward; both are always computed.
        toolset: `paper`, or `typed` for policies that do not write code.
        max_steps: steps; None is the task's own budget.
        reference_size: width and height of the reference pictures, pixels.
        render_size: width and height of the agent's renders, pixels.
        render: render settings, or a mapping of some of their fields; its size is replaced by `render_size`.
        isolation: `auto`, or `off` to run agent code unconfined.
        checkpoints: steps after which the scene is scored without telling the agent.
        record_dir: folder for the traces of the episodes; None records nothing.
    """

    source: str = "procedural"
    split: str = "test"
    protocol: Protocol = "paper"
    toolset: str = "paper"
    max_steps: int | None = None
    reference_size: int = 384
    render_size: int = 384
    render: RenderSettings | Mapping[str, Any] | None = None
    isolation: IsolationMode = "auto"
    checkpoints: Sequence[int] = ()
    record_dir: str | Path | None = None

    def __post_init__(self) -> None:
        """Checks what can be checked without starting anything.

        Raises:
            ValueError: a value is not possible; the message says which are.
        """
        if self.protocol not in PROTOCOLS:
            raise ValueError(f"protocol must be one of {', '.join(PROTOCOLS)}; it is {self.protocol!r}")
        if self.max_steps is not None and self.max_steps < 1:
            raise ValueError(f"max_steps must be at least 1; it is {self.max_steps}")
        if any(isinstance(step, bool) or not isinstance(step, int) or step < 1 for step in self.checkpoints):
            raise ValueError(f"checkpoints must be numbers of steps from 1 on; they are {list(self.checkpoints)!r}")
        for name in ("reference_size", "render_size"):
            if not 16 <= getattr(self, name) <= 1024:
                raise ValueError(f"{name} must be between 16 and 1024 pixels; it is {getattr(self, name)}")
        toolbox.toolset(self.toolset)
        SessionSettings(isolation=self.isolation)
        self.render_settings()

    def render_settings(self) -> RenderSettings:
        """The settings of the agent's renders."""
        given = self.render
        if isinstance(given, Mapping):
            unknown = set(given) - set(RenderSettings.__dataclass_fields__)
            if unknown:
                raise ValueError(
                    f"render has no field {', '.join(sorted(unknown))}; it has "
                    f"{', '.join(RenderSettings.__dataclass_fields__)}"
                )
            given = RenderSettings(**given)
        return replace(given or RenderSettings(), width=self.render_size, height=self.render_size)


@dataclass(frozen=True)
class Step:
    """What one turn gave.

    Attributes:
        results: one per call that was run.
        terminated: the agent ended the episode.
        truncated: the budget is used up, or Blender cannot be brought back.
    """

    results: tuple[ToolResult, ...]
    terminated: bool
    truncated: bool


@dataclass(frozen=True)
class Outcome:
    """The end of an episode.

    Attributes:
        status: `ok`, `agent_error` (nothing valid was submitted: 0) or `infra_error` (Blender or the host failed).
        score: 0 to 100 under the chosen protocol; None after an `infra_error`.
        scores: the score per protocol.
        metrics: the native metrics under the chosen protocol.
        reason: why the status is not `ok`.
        steps: turns taken.
        tool_calls: calls run.
        submission_hash: equal for equal submissions; None without one.
        checkpoints: per asked step the scores that the scene had then.
        setting: what the result depends on: package, Blender, engine, isolation, tool set, budget.
    """

    status: Status
    score: float | None
    scores: Mapping[str, float | None]
    metrics: Mapping[str, Any]
    reason: str
    steps: int
    tool_calls: int
    submission_hash: str | None
    checkpoints: Mapping[int, Mapping[str, float | None]]
    setting: Mapping[str, Any]

    def as_dict(self) -> dict[str, Any]:
        """As JSON values."""
        return asdict(self)


class EpisodeHost:
    """Begins episodes of one task, one after the other, on one Blender.

    Nothing is started before the first episode.
    """

    def __init__(self, task: str, config: EpisodeConfig | None = None) -> None:
        """Keeps task and configuration; opens the case source.

        Raises:
            CaseNotFound: no such source or split.
        """
        self.task: Task = TASKS[task]
        self.config = config or EpisodeConfig()
        self.budget = self.config.max_steps or self.task.budget
        self.source: CaseSource = open_source(self.config.source, task, self.config.split)
        settings = SessionSettings(isolation=self.config.isolation, render=self.config.render_settings())
        self.session = BlenderSession(settings)
        self._trusted = ReferenceRenderer(settings)
        self._cases: OrderedDict[str, Case] = OrderedDict()
        self._count = 0
        self._trace: Trace | None = None

    def begin(self, case_id: str) -> Episode:
        """Begins an episode on a case.

        Raises:
            CaseNotFound: no such case.
            BlenderNotFound: no usable Blender.
            IsolationUnavailable: the kernel cannot confine Blender and `isolation` is not `off`.
            InfraError: Blender failed to prepare the scene.
        """
        case = self.case(case_id)
        self._end_trace()
        self.session.load(case.id, lambda session: self.task.build(session, case), self.task.files(case))
        self._count += 1
        folder = None
        if self.config.record_dir is not None:
            folder = Path(self.config.record_dir) / f"{self._count:04d}-{case.id}"
        self._trace = Trace(folder)
        return Episode(self, case, self._trace)

    def case(self, case_id: str) -> Case:
        """A case with its references, which are rendered when they are looked at.

        The last few cases are kept, since making one again costs more than a reset.

        Raises:
            As `begin`.
        """
        case = self._cases.get(case_id) or self.source.load(case_id)
        self.session.start()
        size = self.config.reference_size
        look = replace(self.render_settings, width=size, height=size)
        case = self._trusted.complete(case, self.task, look, self.session.version)
        self._cases[case_id] = case
        self._cases.move_to_end(case_id)
        while len(self._cases) > self.session.settings.cached_scenes:
            self._cases.popitem(last=False)
        return case

    @property
    def tools(self) -> Mapping[str, Tool]:
        """The tools on offer; looked up, since handlers cannot be pickled and a host can."""
        return toolbox.toolset(self.config.toolset, without=self.task.hidden_tools)

    @property
    def render_settings(self) -> RenderSettings:
        """The agent's render settings with the proven engine."""
        settings = self.config.render_settings()
        return replace(settings, engine=self.session.engine or settings.engine)

    def audit(self, episode: Episode) -> Mapping[str, Any]:
        """Render-based figures of a finished episode, made by the trusted Blender; they never change a score."""
        if episode.submission is None:
            return {}
        settings = replace(self.render_settings, width=384, height=384)
        return self.task.audit(self._trusted.session, episode.case, episode.submission, settings)

    def setting(self) -> dict[str, Any]:
        """What results depend on."""
        return {
            "package": __version__,
            "blender": self.session.version,
            "engine": self.session.engine,
            "isolation": self.session.isolation_level,
            "toolset": self.config.toolset,
            "budget": self.budget,
            "protocol": self.config.protocol,
        }

    def cancel(self, *, begin: bool = False) -> bool:
        """Cancels, from another thread, the call that an episode runs; it ends as after a fault of Blender.

        Args:
            begin: cancel a `begin` instead, which then raises `InfraError` or `ToolFault`.

        Returns:
            Whether that is done; if not, it is to be repeated until the call or `begin` has ended.
        """
        self._trusted.cancel()
        return self.session.cancel(own_work=begin) and not begin

    def close(self) -> None:
        """Ends the Blenders; safe to call twice."""
        self._end_trace()
        self.session.close()
        self._trusted.close()

    def _end_trace(self) -> None:
        """Closes the record of an episode that was left unfinished."""
        if self._trace is not None:
            self._trace.close()


class Episode:
    """One case in progress. Made by `EpisodeHost.begin`.

    Attributes:
        case: the case; its `truth` is for evaluators and tests only.
        references: (R, H, W, 3) uint8 reference pictures on white, those that an observation holds; a case that has
            fewer leaves the last ones black.
        system_prompt: role and rules.
        prompt: the case's own prompt.
        steps: turns taken.
        tool_calls: calls run.
        outcome: set once the episode is over.
        submission: what was submitted, once it is over.
    """

    def __init__(self, host: EpisodeHost, case: Case, trace: Trace) -> None:
        """Takes the scene that the host has loaded."""
        self.host = host
        self.case = case
        self.trace = trace
        self.session = host.session
        self.render_settings = host.render_settings
        self.protected = tuple(host.task.protected(case))
        self.tools: Mapping[str, Tool] = host.tools
        self.references = self._shown_references()
        self.system_prompt, self.prompt = host.task.prompts(case, host.budget)
        self.steps = 0
        self.tool_calls = 0
        self.outcome: Outcome | None = None
        self.submission: Submission | None = None
        self._checkpoints: dict[int, dict[str, float | None]] = {}
        self._baseline = host.task.baseline(self.session, case)
        trace.event(
            "begin",
            case_id=case.id,
            task=case.task,
            split=case.split,
            setting=host.setting(),
            system_prompt=self.system_prompt,
            prompt=self.prompt,
            tools=list(self.tools),
            references=trace.images(self.references),
        )

    @property
    def steps_left(self) -> int:
        """Turns that remain."""
        return self.host.budget - self.steps

    def reference_frames(self, indices: Sequence[int]) -> tuple[NDArray[np.uint8], ...]:
        """Reference pictures by 0-based index, new arrays."""
        return tuple(self._picture(index) for index in indices)

    def act(self, action: Any) -> Step:
        """One turn.

        Args:
            action: a call, a list of at most 16 calls, or a JSON string of either; anything else is an error of the
                agent's that costs its turn.

        Returns:
            The results; the episode is over when `terminated` or `truncated`.

        Raises:
            RuntimeError: the episode is over.
        """
        if self.outcome is not None:
            raise RuntimeError("the episode is over: begin another one")
        self.steps += 1
        results: list[ToolResult] = []
        terminated = False
        calls, problem = parse_action(action)
        try:
            if problem:
                results.append(ToolResult("", problem, True))
            elif not calls:
                terminated = True
            for call in calls:
                self.tool_calls += 1
                results.append(toolbox.run(self.tools, self, call))
                if results[-1].ends:
                    terminated = True
                    break
            if self.steps in self.host.config.checkpoints and not terminated:
                self._checkpoints[self.steps] = {name: score.score for name, score in self.score_now().items()}
        except InfraError as failure:
            self._record(action, results)
            self._conclude("infra_error", str(failure), {})
            return Step(tuple(results), False, True)
        self._record(action, results)
        truncated = not terminated and self.steps >= self.host.budget
        if terminated or truncated:
            self.finish()
            infra = self.outcome is not None and self.outcome.status == "infra_error"
            return Step(tuple(results), terminated and not infra, truncated or infra)
        return Step(tuple(results), False, False)

    def finish(self) -> Outcome:
        """Ends the episode if it is not over, and scores what is in the scene."""
        if self.outcome is None:
            try:
                self.submission = self._collect()
                scores = self._scores(self.submission)
            except InfraError as failure:
                self._conclude("infra_error", str(failure), {})
            else:
                chosen = scores[self.host.config.protocol]
                self._conclude("ok" if chosen.valid else "agent_error", chosen.reason, scores)
        assert self.outcome is not None
        return self.outcome

    def score_now(self) -> dict[Protocol, Score]:
        """The hidden score of the scene as it is, per protocol; the episode is not touched. Never for the agent."""
        return self._scores(self._collect())

    # --- inside ---------------------------------------------------------------------------------------------------

    def _collect(self) -> Submission | None:
        with blame("the collection of the scene"):
            return self.host.task.collect(self.session, self.case, self._baseline)

    def _scores(self, submission: Submission | None) -> dict[Protocol, Score]:
        with blame("the evaluator"):
            return {protocol: self.host.task.evaluate(self.case, submission, protocol) for protocol in PROTOCOLS}

    def _conclude(self, status: Status, reason: str, scores: Mapping[Protocol, Score]) -> None:
        chosen = scores.get(self.host.config.protocol)
        self.outcome = Outcome(
            status=status,
            score=chosen.score if chosen else None,
            scores={name: scores[name].score if name in scores else None for name in PROTOCOLS},
            metrics=dict(chosen.metrics) if chosen else {},
            reason=reason,
            steps=self.steps,
            tool_calls=self.tool_calls,
            submission_hash=self.submission.hash if self.submission else None,
            checkpoints=self._checkpoints,
            setting=self.host.setting(),
        )
        if self.submission is not None:
            self.trace.file("submission.json", json.dumps(dict(self.submission.data), indent=1).encode())
            for name, data in self.submission.files.items():
                self.trace.file(name, data)
        self.trace.event("end", **self.outcome.as_dict())
        self.trace.file("blender.log", self.session.log.encode())
        self.trace.close()

    def _record(self, action: Any, results: Sequence[ToolResult]) -> None:
        self.trace.event(
            "step",
            step=self.steps,
            action=_recordable(action),
            results=[
                {
                    "name": result.name,
                    "is_error": result.is_error,
                    "text": result.text,
                    "images": self.trace.images(result.images),
                }
                for result in results
            ],
        )

    def _shown_references(self) -> NDArray[np.uint8]:
        size = self.host.config.reference_size
        shown = np.zeros((self.host.task.references, size, size, 3), np.uint8)
        for place, index in enumerate(self.host.task.shown_references(self.case)):
            shown[place] = self._picture(index)
        return shown

    def _picture(self, index: int) -> NDArray[np.uint8]:
        size = self.host.config.reference_size
        return resize(decode_png(self.case.public.references[index]), size, size)


def _recordable(action: Any) -> Any:
    """An action as it came, or its text where it is no JSON."""
    try:
        # Eight lists around it: the trace nests it too, and must not be the one to hit the recursion limit.
        json.dumps([[[[[[[[action]]]]]]]], allow_nan=False)
    except (TypeError, ValueError, RecursionError):
        try:
            return repr(action)[:2000]
        except Exception:  # Nested too deeply, or an object whose own __repr__ fails.
            return f"<{type(action).__name__}>"
    return action


def parse_action(action: Any) -> tuple[list[Any], str]:
    """The calls of an action, or what is wrong with it.

    Args:
        action: a call, a list or tuple of calls, or a JSON string of either.

    Returns:
        The calls (unchecked) and an empty text, or no calls and a message for the agent.
    """
    shape = 'an action is one call {"name": ..., "arguments": {...}}, a list of calls, or a JSON string of either'
    if isinstance(action, str):
        try:
            action = json.loads(action)
        except (ValueError, RecursionError) as problem:
            return [], f"The action is not valid JSON ({problem}); {shape}."
    if isinstance(action, Mapping):
        return [action], ""
    if not isinstance(action, (list, tuple)):
        return [], f"The action is a {type(action).__name__}; {shape}."
    if len(action) > MAX_CALLS:
        return [], f"The action has {len(action)} calls; at most {MAX_CALLS} are run in one turn, so none was."
    return list(action), ""
