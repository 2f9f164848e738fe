"""The calls of an episode out of its trace, ready to be shown, and their marks on a timeline."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from sceneact_gym.episode import parse_action

KINDS = {
    "read": "looks at the scene or the references",
    "edit": "changes the scene",
    "render": "renders a view",
    "error": "ended in an error",
    "stop": "ends the episode",
}
"""What calls do."""
SHAPES = {
    "read": "M-4.5,0a4.5,4.5 0 1,0 9,0a4.5,4.5 0 1,0 -9,0M-2,0a2,2 0 1,1 4,0a2,2 0 1,1 -4,0",
    "edit": "M-4.5,-4.5h9v9h-9z",
    "render": "M0,-5.5L5.5,4.5H-5.5z",
    "error": "M-5,-3L-3,-5L0,-2L3,-5L5,-3L2,0L5,3L3,5L0,2L-3,5L-5,3L-2,0z",
    "stop": "M0,-6L6,0L0,6L-6,0z",
}
"""Their marks, as SVG paths about the origin; told apart by their shape alone."""
PICTURE_HEADER = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR"
FOLDED = 700
"""Characters from which a text is folded."""
TOP, PITCH, CHART = 12, 13, 84
"""Of the timeline, pixels: the first mark, from mark to mark in a column, and the height of the scores."""


@dataclass(frozen=True)
class Picture:
    """A picture in the report's folder `images`.

    Attributes:
        file: its name there.
        width: pixels.
        height: pixels.
    """

    file: str
    width: int
    height: int


@dataclass(frozen=True)
class Call:
    """A tool call and its result.

    Attributes:
        anchor: names it on the page.
        tool: the tool's name.
        kind: of `KINDS`.
        code: Python code that it ran.
        arguments: its other arguments as text.
        text: its result.
        pictures: its pictures; None for one that is missing.
    """

    anchor: str
    tool: str
    kind: str
    code: str
    arguments: str
    text: str
    pictures: Sequence[Picture | None]

    @property
    def wide(self) -> bool:
        """Whether it needs the full width."""
        return bool(self.code) or len(self.text) > 240 or len(self.pictures) > 1

    @property
    def folded(self) -> bool:
        """Whether its text is long."""
        return len(self.text) > FOLDED or self.text.count("\n") > 11

    @property
    def first_line(self) -> str:
        """How its text begins."""
        return self.text.strip().partition("\n")[0][:110]


@dataclass(frozen=True)
class Turn:
    """One step of an episode.

    Attributes:
        number: from 1.
        calls: in order.
        raw: the action as it came, where it is no list of calls.
        said: the agent's text.
    """

    number: int
    calls: Sequence[Call]
    raw: str
    said: str = ""

    @property
    def few(self) -> bool:
        """Whether its pictures can be large."""
        return sum(not call.wide for call in self.calls) <= 3


@dataclass
class Record:
    """What a trace says.

    Attributes:
        prompts: titles and texts.
        references: the pictures that the agent was given.
        turns: the steps.
    """

    prompts: dict[str, str] = field(default_factory=dict)
    references: list[Picture | None] = field(default_factory=list)
    turns: list[Turn] = field(default_factory=list)


def read_record(events: Sequence[Any], picture: Callable[[Any], Picture | None]) -> Record:
    """Sorts the events of a trace.

    Args:
        events: of `read_trace`.
        picture: from the name of a picture in the trace to the one of the report.
    """
    record = Record()
    said = ""
    for event in events:
        kind = event.get("event") if isinstance(event, dict) else None
        if kind == "begin":
            record.prompts = {
                title: str(event[name])
                for title, name in (("System prompt", "system_prompt"), ("Prompt", "prompt"))
                if event.get(name)
            }
            record.references = [picture(name) for name in _list(event.get("references"))]
        elif kind == "said":
            said = str(event.get("text") or "")
        elif kind == "step":
            record.turns.append(replace(_turn(len(record.turns) + 1, event, picture), said=said))
            said = ""
    return record


def _turn(number: int, event: Mapping[str, Any], picture: Callable[[Any], Picture | None]) -> Turn:
    action = event.get("action")
    asked, problem = parse_action(action)
    results = [result for result in _list(event.get("results")) if isinstance(result, dict)]
    calls = []
    for index, result in enumerate(results):
        given = asked[index] if index < len(asked) and isinstance(asked[index], dict) else {}
        tool = str(result.get("name") or given.get("name") or "no tool")
        arguments = given.get("arguments")
        arguments = dict(arguments) if isinstance(arguments, dict) else {"arguments": arguments} if arguments else {}
        code = arguments.pop("code", "") if isinstance(arguments.get("code"), str) else ""
        calls.append(
            Call(
                anchor=f"call-{number}-{index + 1}",
                tool=tool,
                kind="error" if result.get("is_error") else kind_of(tool),
                code=code,
                arguments=", ".join(f"{name} = {_short(value)}" for name, value in arguments.items()),
                text=str(result.get("text") or ""),
                pictures=[picture(name) for name in _list(result.get("images"))],
            )
        )
    raw = ""
    if problem or not isinstance(action, (list, dict, str)):
        raw = action if isinstance(action, str) else _short(action)
    elif not asked:
        calls.append(Call(f"call-{number}-1", "no call", "stop", "", "", "A turn without calls ends the episode.", ()))
    return Turn(number, calls, raw)


def kind_of(tool: str) -> str:
    """What a tool does, of `KINDS`."""
    if tool == "submit":
        return "stop"
    if tool.startswith("render"):
        return "render"
    if tool.startswith(("execute", "set_", "import_")):
        return "edit"
    return "read"


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _short(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)


def picture_size(data: bytes) -> tuple[int, int] | None:
    """Width and height of a PNG file; None if it is none."""
    if not data.startswith(PICTURE_HEADER) or len(data) < 24:
        return None
    width, height = struct.unpack(">II", data[16:24])
    return (width, height) if 0 < width <= 16384 and 0 < height <= 16384 else None


@dataclass(frozen=True)
class Mark:
    """A call on the timeline.

    Attributes:
        x: of its middle, pixels.
        y: of its middle, pixels.
        kind: of `KINDS`.
        anchor: of its call.
        label: says what it is.
    """

    x: float
    y: float
    kind: str
    anchor: str
    label: str


@dataclass(frozen=True)
class Timeline:
    """A strip with a column per step: marks of the calls, and below them the scores.

    Attributes:
        width: pixels.
        height: pixels.
        marks: one per call.
        ticks: x and step number.
        base: y of score 0.
        chart: pixels from score 0 to score 100.
        scores: per protocol its points: x, y, step, score.
        budget: x of the last step's column if the budget ended the episode, else None.
    """

    width: float
    height: float
    marks: Sequence[Mark]
    ticks: Sequence[tuple[float, int]]
    base: float
    chart: int
    scores: Mapping[str, Sequence[tuple[float, float, int, float]]]
    budget: float | None


def timeline(turns: Sequence[Turn], scores: Mapping[str, Mapping[int, float]], budget: int | None) -> Timeline:
    """Places the marks.

    Args:
        turns: the steps.
        scores: per protocol the score after some steps; empty ones are left away.
        budget: the number of steps, if their end ended the episode.
    """
    last = max([len(turns), 1, *(step for points in scores.values() for step in points)])
    column = min(46.0, max(15.0, 1050 / (last + 1)))
    left = 30.0

    def x(step: int) -> float:
        return round(left + column * (step - 0.5), 1)

    most = max([len(turn.calls) for turn in turns] + [1]) + (budget is not None)
    foot = TOP + most * PITCH
    marks = [
        Mark(x(turn.number), foot - 8 - PITCH * row, call.kind, call.anchor, _label(turn, row, call))
        for turn in turns
        for row, call in enumerate(turn.calls)
    ]
    if budget is not None and turns:
        turn = turns[-1]
        label = f"Step {turn.number}: the budget of {budget} steps is used up"
        marks.append(Mark(x(turn.number), foot - 8 - PITCH * len(turn.calls), "stop", f"step-{turn.number}", label))
    every = 1 if last <= 15 else 5
    ticks = [(x(step), step) for step in range(1, last + 1) if step == 1 or step % every == 0]
    drawn = {name: points for name, points in scores.items() if points}
    chart = CHART if drawn else 0
    base = foot + 22 + chart

    def y(score: float) -> float:
        return round(base - chart * score / 100, 1)

    lines = {
        name: [(x(max(step, 1)), y(score), step, score) for step, score in sorted(points.items())]
        for name, points in drawn.items()
    }
    end = x(turns[-1].number) if budget is not None and turns else None
    return Timeline(left + column * last + 14, base + 12, marks, ticks, base, chart, lines, end)


def _label(turn: Turn, row: int, call: Call) -> str:
    error = ", error" if call.kind == "error" else ""
    return f"Step {turn.number}, call {row + 1}: {call.tool}{error}"
