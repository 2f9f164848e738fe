"""The page of an episode: every call with its pictures beside the references, and submission against truth in 3D."""

from __future__ import annotations

import functools
import hashlib
import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from sceneact_gym._version import __version__
from sceneact_gym.bench.report import meshes, scenes
from sceneact_gym.bench.report.calls import KINDS, SHAPES, Picture, picture_size, read_record, timeline
from sceneact_gym.bench.report.load import Row, Run, page_of
from sceneact_gym.bench.report.pages import write_page
from sceneact_gym.bench.report.spending import COLUMNS, amount
from sceneact_gym.bench.report.summary import TITLES
from sceneact_gym.bench.report.turntable import SIZE, turntable, webp
from sceneact_gym.cases import Case
from sceneact_gym.data.sources import open_source
from sceneact_gym.errors import SceneActError
from sceneact_gym.trace import read_trace

PICTURED = 30_000
"""Triangles of a side in the pictures from around, which are too small to show more."""
MAX_PICTURE_BYTES = 64 * 2**20
UNITS = {
    **dict.fromkeys("add_s pos_err chamfer pe mpe mean_part open_add_s centroid_err scene_scale".split(), "m"),
    **dict.fromkeys(("ae", "fov_x"), "°"),
}
STATUS = {"ok": "ok", "agent_error": "agent error", "infra_error": "infra error"}


def write_episode(run: Run, row: Row, out: Path, href: str) -> None:
    """Writes the page of an episode and what it loads.

    Args:
        run: the run.
        row: one of its rows.
        out: the report's folder.
        href: of the page, from there; two folders deep.
    """
    folder = run.episode_folder(row)
    notes = [] if folder else ["The run folder has no record of this episode."]
    events: list[Any] = []
    if folder is not None:
        try:
            events = list(read_trace(folder))
        except OSError as problem:
            notes.append(f"The trace cannot be read: {problem}.")
    record = read_record(events, lambda name: _copied(folder, name, out))
    scene = _write_scene(run, row, folder, out, href)
    strip = timeline(record.turns, _scores(row), _spent_budget(row, record.turns))
    write_page(
        out / href,
        "episode.html",
        root="../../",
        run=run,
        row=row,
        title=TITLES[row["task"]],
        status=STATUS[row["status"]],
        facts=_facts(row),
        metrics=[(name, value, UNITS.get(name, "")) for name, value in (row.get("metrics") or {}).items()],
        neighbours=_neighbours(run, row),
        notes=notes,
        record=record,
        timeline=strip,
        counts={kind: sum(mark.kind == kind for mark in strip.marks) for kind in KINDS},
        kinds=KINDS,
        shapes=SHAPES,
        scene=scene,
    )


def _facts(row: Row) -> list[tuple[str, str]]:
    facts = []
    for column, title in COLUMNS.items():
        value = amount(row, column)
        if value is not None:
            digits = {"seconds": 1, "cost": 4}.get(column, 0)
            facts.append((title, f"{value:,.{digits}f}"))
    return facts


def _neighbours(run: Run, row: Row) -> list[tuple[str, str, str]]:
    """Relation, link and name of the episodes before and after."""
    keys = [other["key"] for other in run.rows]
    at = keys.index(row["key"])
    found = []
    for relation, index in (("prev", at - 1), ("next", at + 1)):
        if 0 <= index < len(keys):
            other = run.rows[index]
            found.append((relation, "../../" + page_of(run, other), other["key"]))
    return found


def _scores(row: Row) -> dict[str, dict[int, float]]:
    """Per protocol the hidden scores at the checkpoints, and the final one."""
    found: dict[str, dict[int, float]] = {}
    for protocol in ("paper", "strict"):
        points = {}
        for step, scores in (row.get("checkpoints") or {}).items():
            value = scores.get(protocol) if isinstance(scores, dict) else None
            if str(step).isdecimal() and int(step) <= 10_000 and isinstance(value, (int, float)):
                points[int(step)] = min(100.0, max(0.0, float(value)))
        final = row.get(f"score_{protocol}")
        if final is not None and points:
            points[int(min(row.get("steps") or 0, 10_000))] = final
        found[protocol] = points
    return found


def _spent_budget(row: Row, turns: Any) -> int | None:
    """The budget, if its end ended the episode."""
    budget = (row.get("setting") or {}).get("budget")
    if row["status"] == "infra_error" or not turns or not isinstance(budget, int) or len(turns) < budget:
        return None
    return None if any(call.kind == "stop" for call in turns[-1].calls) else budget


def _copied(folder: Path | None, name: Any, out: Path) -> Picture | None:
    """A picture of the trace, copied into the report; None if it is missing or is not what its name says."""
    if folder is None or not isinstance(name, str) or len(name) != 64 or set(name) - set("0123456789abcdef"):
        return None
    target = out / "images" / f"{name}.png"
    try:
        if target.exists():
            with target.open("rb") as file:
                size = picture_size(file.read(32))
        else:
            source = folder / "images" / f"{name}.png"
            if source.stat().st_size > MAX_PICTURE_BYTES:
                return None
            data = source.read_bytes()
            size = picture_size(data)
            if size is None or hashlib.sha256(data).hexdigest() != name:
                return None
            target.parent.mkdir(parents=True, exist_ok=True)
            # Another process that writes pages must not meet half a picture.
            part = target.with_suffix(f".{os.getpid()}.part")
            part.write_bytes(data)
            os.replace(part, target)
    except OSError:
        return None
    return None if size is None else Picture(target.name, *size)


# ------------------------------------------------------------------------------------------------------ the 3D scene


def _write_scene(run: Run, row: Row, folder: Path | None, out: Path, href: str) -> dict[str, Any]:
    """Writes the scenes of an episode; returns what the page says of them, with `truth` None if there is none."""
    notes: list[str] = []
    scene: dict[str, Any] = {"truth": None, "submission": None, "picture": None, "notes": notes, "frames": 1}
    try:
        case, truth, rough, packed, text = _truth(run.config.source, run.config.split, row["task"], row["case_id"])
    except Exception as problem:  # A case may be gone, or be another one by now: the rest stands without it.
        notes.append(f"The case cannot be loaded any more, so that its scene is not shown: {_sentence(problem)}")
        return scene
    mine = None
    try:
        submission = scenes.read_submission(folder, row["task"]) if folder is not None else None
        if submission is None:
            notes.append("Nothing was submitted: only the truth is shown.")
        else:
            mine = scenes.submitted_scene(case, submission)
            if not mine.parts and mine.eye is None:
                notes.append("The submitted scene has no mesh.")
            own = meshes.packed_side(mine)
            values = meshes.script("submission", own)
    except Exception as problem:  # Nobody vouches for a submission; whatever is wrong with it concerns this page alone.
        mine = None
        notes.append(f"The submission cannot be drawn: {_sentence(problem)}")
    name = f"scenes/{case.task}-{case.id}-{hashlib.sha256(text.encode()).hexdigest()[:8]}.js"
    (out / "scenes").mkdir(parents=True, exist_ok=True)
    if not (out / name).exists():
        (out / name).write_text(text, encoding="ascii")
    if run.package != __version__:
        notes.append(f"The run was begun with version {run.package}; the truth shown is that of version {__version__}.")
    notes += truth.side.notes
    counted = [("truth", packed)]
    if mine is not None:
        script = Path(href).with_suffix(".js")
        (out / script).parent.mkdir(parents=True, exist_ok=True)
        (out / script).write_text(values, encoding="ascii")
        scene["submission"] = script.name
        notes += mine.notes
        counted.append(("submission", own))
    for side, shown in counted:
        if shown["triangles"] < shown["of"]:
            fewer = f"{shown['triangles']:,} are drawn, by merging near vertices."
            notes.append(f"The {side} has {shown['of']:,} triangles; {fewer}")
    drawn = mine is not None and (bool(mine.parts) or mine.eye is not None)
    picture = webp(turntable(rough, _rough(mine) if mine is not None and drawn else None))
    file = f"{hashlib.sha256(picture).hexdigest()}.webp"
    (out / "images").mkdir(parents=True, exist_ok=True)
    (out / "images" / file).write_bytes(picture)
    overlaid = drawn and truth.side.eye is None
    scene |= {
        "truth": name,
        "picture": Picture(file, 8 * SIZE, (3 if overlaid else 1) * SIZE),
        "overlaid": overlaid,
        "camera": truth.side.eye is not None,
        "links": mine is not None and mine.links is not None and len(mine.links) > 0,
        "frames": truth.frames,
        "telling": truth.telling,
    }
    return scene


@functools.lru_cache(maxsize=8)
def _truth(
    source: str, split: str, task: str, case_id: str
) -> tuple[Case, scenes.Truth, scenes.Truth, Mapping[str, Any], str]:
    """A case, its true scene, the same for pictures, and as values and as script.

    The last few are kept: runs share their cases.
    """
    case = open_source(source, task, split).load(case_id)
    truth = scenes.truth_scene(case)
    packed = meshes.packed_truth(truth)
    rough = replace(truth, side=_rough(truth.side), room=meshes.thin(truth.room, PICTURED))
    return case, truth, rough, packed, meshes.script("truth", packed)


def _rough(side: scenes.Side) -> scenes.Side:
    return replace(side, parts=meshes.thin(side.parts, PICTURED))


def _sentence(problem: Exception) -> str:
    expected = isinstance(problem, (SceneActError, ValueError)) and str(problem)
    text = str(problem) if expected else f"{type(problem).__name__} {problem}".strip()
    return text[:500].rstrip(".") + "."
