"""Published reference files as cases: made by the builder from `published.toml`."""

from __future__ import annotations

import tomllib
from pathlib import Path

from sceneact_gym.cases import Case
from sceneact_gym.data.bundles.build import entry_cases
from sceneact_gym.data.bundles.spec import Spec

SPEC = Path(__file__).with_name("published.toml")


def published_case(published: Path, task: str) -> Case:
    """The case of one task, without rendered references."""
    spec = Spec.model_validate(tomllib.loads(SPEC.read_text()))
    (entry,) = [entry for entry in spec.cases if entry.task == task]
    (case,) = entry_cases(entry, published)
    return case
