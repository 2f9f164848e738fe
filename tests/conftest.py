"""Fixtures that every part of the suite shares."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent


def published_dir() -> Path:
    """The folder of published submissions with their published scores: third-party data, never in this repository."""
    return Path(os.environ.get("SCENEACT_PUBLISHED", ROOT.parent / "shared" / "published"))


@pytest.fixture(scope="session")
def published() -> Path:
    """`published_dir()`, or a skip that says how to get it."""
    folder = published_dir()
    if not (folder / "cases.json").is_file():
        pytest.skip(f"no published cases at {folder}: set SCENEACT_PUBLISHED to the folder that holds cases.json")
    return folder
