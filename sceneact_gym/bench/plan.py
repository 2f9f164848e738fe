"""What a benchmark run plays: its configuration, and the list of episodes that follows from it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from sceneact_gym.data.sources import CaseSource, open_source
from sceneact_gym.envs import ENVS
from sceneact_gym.episode import EpisodeConfig
from sceneact_gym.tasks import TASKS


@dataclass(frozen=True)
class BenchConfig:
    """A benchmark run. Everything that its results depend on.

    Attributes:
        agent: a name in `AGENTS`, or `package.module:factory`.
        tasks: names of tasks, in the order in which they are played.
        cases: how many cases per task, from the first one of the split; None plays all of a split that ends.
        case_ids: only these cases; each task plays those that are its own.
        repeats: how often each case is played, with the agent's seeds `seed`, `seed + 1`, ...
        seed: of the agent.
        source: `procedural`, or a folder of cases.
        split: `train`, `val` or `test`.
        options: further arguments for `gym.make`, JSON values.
        audit: whether render-based figures are made after each episode.
        time_limit: seconds of one episode, after which its player is killed: a fault, since nobody knows of what.
    """

    agent: str
    tasks: Sequence[str]
    cases: int | None = None
    case_ids: Sequence[str] = ()
    repeats: int = 1
    seed: int = 0
    source: str = "procedural"
    split: str = "test"
    options: Mapping[str, Any] = field(default_factory=dict)
    audit: bool = False
    time_limit: float = 4 * 3600.0

    def __post_init__(self) -> None:
        """Checks the values.

        Raises:
            ValueError: a value is not possible; the message says which are.
        """
        unknown = [name for name in self.tasks if name not in TASKS]
        if unknown or not self.tasks:
            raise ValueError(f"tasks must be some of {', '.join(TASKS)}; {', '.join(unknown) or 'none'} is no task")
        if self.repeats < 1 or (self.cases is not None and self.cases < 1):
            raise ValueError("cases and repeats must be at least 1")
        if self.seed < 0:
            raise ValueError(f"seed must be at least 0; it is {self.seed}")
        if not self.time_limit > 0:
            raise ValueError(f"time_limit must be above 0 seconds; it is {self.time_limit}")
        self.episode_config()

    def episode_config(self, record_dir: Path | None = None) -> EpisodeConfig:
        """What its episodes depend on besides case and agent.

        Raises:
            ValueError: an option is not possible.
        """
        try:
            return EpisodeConfig(**self.options, source=self.source, split=self.split, record_dir=record_dir)
        except TypeError as problem:
            raise ValueError(f"options must be arguments of an environment: {problem}") from problem

    def as_dict(self) -> dict[str, Any]:
        """As JSON values."""
        return {**asdict(self), "tasks": list(self.tasks), "case_ids": list(self.case_ids)}

    @staticmethod
    def from_dict(data: Mapping[str, Any]) -> BenchConfig:
        """From `as_dict`.

        Raises:
            ValueError: it is no configuration.
        """
        try:
            return BenchConfig(**data)
        except TypeError as problem:
            raise ValueError(f"it is no configuration of a run: {problem}") from problem


@dataclass(frozen=True)
class Play:
    """One episode of a run.

    Attributes:
        env_id: the environment.
        task: its task.
        case_id: the case.
        repeat: which of the repeats, from 0.
        seed: of the agent.
    """

    env_id: str
    task: str
    case_id: str
    repeat: int
    seed: int

    @property
    def key(self) -> str:
        """Names the episode within its run, also as a folder."""
        return f"{self.task}-{self.case_id}-r{self.repeat}"


def plays(config: BenchConfig) -> list[Play]:
    """All episodes of a run, in order.

    Raises:
        CaseNotFound: the source has no cases of a task.
        ValueError: an endless split without a number of cases, or a case that no task has.
    """
    found: list[Play] = []
    env_of = {task.name: task.env_id for task in TASKS.values() if task.env_id in ENVS}
    # Each once, however often it is named: an episode that is planned twice would always be missing once.
    for name in dict.fromkeys(config.tasks):
        source = open_source(config.source, name, config.split)
        known = source.ids()
        if config.case_ids:
            ids = [case_id for case_id in dict.fromkeys(config.case_ids) if _has(source, known, case_id)]
        elif config.cases is None and known is None:
            raise ValueError(f"the split {config.split} of {name} has no end: say how many cases")
        else:
            count = len(known or ()) if config.cases is None else config.cases
            ids = [source.nth(number) for number in range(count if known is None else min(count, len(known)))]
        found += [
            Play(env_of[name], name, case_id, repeat, config.seed + repeat)
            for case_id in ids
            for repeat in range(config.repeats)
        ]
    missing = set(config.case_ids) - {play.case_id for play in found}
    if missing:
        raise ValueError(f"no task of the run has the case {', '.join(sorted(missing))}")
    return found


def _has(source: CaseSource, known: Sequence[str] | None, case_id: str) -> bool:
    """Whether a source has a case, which is not made for that."""
    if known is not None:
        return case_id in known
    number = case_id.rpartition("-")[2]
    return number.isdecimal() and source.nth(int(number)) == case_id
