"""Run folders as `sceneact bench` writes them, made without Blender."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from sceneact_gym._version import __version__

Row = dict[str, Any]
BUDGET = 30


def result(
    case: int = 0,
    score: float | None = 50.0,
    strict: float | None = None,
    task: str = "layout",
    *,
    repeat: int = 0,
    status: str = "ok",
    **values: Any,
) -> Row:
    """A row; `strict` is the score by default."""
    case_id = f"{task}-test-{case:04d}"
    key = f"{task}-{case_id}-r{repeat}"
    whole = {
        "key": key,
        "attempt": 1,
        "folder": f"{key}-a1",
        "env_id": "SceneAct/Layout-v0",
        "task": task,
        "case_id": case_id,
        "repeat": repeat,
        "seed": repeat,
        "score": score,
        "score_paper": score,
        "score_strict": score if strict is None else strict,
        "metrics": {},
        "status": status,
        "reason": "",
        "steps": BUDGET,
        "tool_calls": 40,
        "submission_hash": None,
        "checkpoints": {},
        "setting": {
            **{"package": __version__, "blender": "5.0.1", "engine": "cycles", "isolation": "landlock-7+seccomp"},
            **{"toolset": "paper", "budget": BUDGET, "protocol": "paper"},
        },
        "privileged": False,
        "usage": None,
        "seconds": 10.0,
    }
    if status == "infra_error":
        # As a player that died leaves it: without steps, setting and scores.
        for name in (
            "score_paper",
            "score_strict",
            "steps",
            "tool_calls",
            "setting",
            "checkpoints",
            "usage",
            "seconds",
        ):
            del whole[name]
        whole["score"] = None
    return {**whole, **values}


def call(name: str, is_error: bool = False, images: Sequence[str] = ()) -> Row:
    """A result in a trace."""
    return {"name": name, "is_error": is_error, "text": "said", "images": list(images)}


def write_run(
    folder: Path,
    rows: Sequence[Row],
    *,
    agent: str = "layout-search",
    tasks: Sequence[str] = ("layout",),
    cases: int = 20,
    repeats: int = 1,
    traces: dict[str, Sequence[Sequence[Row]]] | None = None,
    **options: Any,
) -> Path:
    """A run folder.

    Args:
        folder: where.
        rows: of `result`.
        agent: its name.
        tasks: of the run.
        cases: planned per task.
        repeats: planned per case.
        traces: by key, per step the results of its calls; every other row has no trace.
        options: of the environment.
    """
    config = {
        **{"agent": agent, "tasks": list(tasks), "cases": cases, "case_ids": [], "repeats": repeats, "seed": 0},
        **{"source": "procedural", "split": "test", "options": options},
    }
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps({"package": __version__, "config": config}))
    (folder / "episodes.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    for row in rows:
        steps = (traces or {}).get(row["key"])
        if steps is None:
            continue
        episode = folder / "episodes" / row["folder"]
        episode.mkdir(parents=True)
        begin = {"event": "begin", "case_id": row["case_id"], "task": row["task"], "split": "test", "setting": {}}
        begin |= {"system_prompt": "Rules.", "prompt": "Do it.", "tools": [], "references": []}
        events: list[Row] = [begin]
        for number, results in enumerate(steps, 1):
            action = [{"name": one["name"], "arguments": {}} for one in results]
            events.append({"event": "step", "step": number, "action": action, "results": list(results)})
        events.append({"event": "end", "status": row["status"], "score": row["score"]})
        (episode / "trace.jsonl").write_text("".join(json.dumps(event) + "\n" for event in events))
    return folder
