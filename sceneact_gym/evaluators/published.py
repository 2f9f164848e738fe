"""The published main table of SceneActBench (arXiv 2607.22393, Table 3) as data, for reports to show beside their own.

Source: the authors' project page (github.com/Feinaldo2/sceneactbench-project-page, `src/data/leaderboard.ts`, commit
89d108c), which states that its Overall and task scores are the exact values of the paper's main table. They are scores
from 0 to 100 under the `paper` protocol, rounded to one decimal; Layout is the single-view and Dynamic the low-poly
condition.

Not here, because no source for them was available: the scores of the other two conditions (multi-view Layout,
photo-realistic Dynamic), the native metrics behind the scores, and any spread.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import NamedTuple


class PublishedRow(NamedTuple):
    """Scores 0 to 100 of one configuration.

    Attributes:
        model: The model's name.
        setting: Its reasoning setting.
        overall: Mean of the five task scores.
        layout: Single-view Layout.
        camera: Camera.
        articulated: Articulated.
        reconstruction: Reconstruction.
        dynamic: Low-poly Dynamic.
    """

    model: str
    setting: str
    overall: float
    layout: float
    camera: float
    articulated: float
    reconstruction: float
    dynamic: float


TABLE_3 = MappingProxyType(
    {
        "doubao-seed-2-pro-high": PublishedRow("Doubao Seed 2.0 Pro", "high", 50.2, 77.4, 34.5, 59.6, 8.8, 70.7),
        "claude-opus-4-6-high": PublishedRow("Claude Opus 4.6", "high", 48.9, 73.5, 34.0, 63.7, 9.8, 63.2),
        "gpt-5-4-medium": PublishedRow("GPT 5.4", "medium", 48.7, 72.7, 29.6, 62.3, 10.4, 68.5),
        "gpt-5-4-high": PublishedRow("GPT 5.4", "high", 48.7, 84.1, 26.4, 73.8, 12.3, 46.7),
        "qwen-3-7-plus-high": PublishedRow("Qwen 3.7 Plus", "high", 46.2, 76.2, 21.7, 58.0, 9.0, 66.0),
        "gemini-3-1-pro-high": PublishedRow("Gemini 3.1 Pro", "high", 45.4, 65.4, 33.9, 56.5, 7.1, 63.9),
        "mimo-2-5-high": PublishedRow("MiMo 2.5", "high", 41.4, 79.4, 25.0, 49.8, 9.1, 43.7),
        "kimi-k2-6-reason": PublishedRow("Kimi K2.6", "reason", 41.2, 70.9, 24.6, 57.3, 8.5, 44.8),
        "step-3-7-flash-high": PublishedRow("Step 3.7 Flash", "high", 41.1, 77.5, 13.2, 48.3, 8.6, 57.9),
        "claude-sonnet-5-high": PublishedRow("Claude Sonnet 5", "high", 39.5, 51.9, 27.3, 57.8, 10.5, 49.9),
        "minimax-m3-high": PublishedRow("MiniMax M3", "high", 38.6, 58.1, 25.6, 58.4, 9.6, 41.4),
    }
)
"""Configuration id -> its published row, by descending Overall."""
