"""Charts as SVG inside the page: text stays text, colours come from the style sheet, shapes tell series apart."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from markupsafe import Markup, escape

WIDTH = 440
"""Of every chart, in its own units; pages scale it."""
COLOURS = 8
"""Classes `s0` to `s7` of the style sheet."""
SHAPES = ("circle", "square", "up", "diamond", "down", "cross", "bar")

LEFT, RIGHT, TOP, BOTTOM = 34, 12, 10, 34
PLOT = 190


def curve_chart(name: str, title: str, series: Sequence[tuple[int, str, Sequence[dict[str, Any]]]]) -> Markup:
    """Mean scores against steps, with their intervals.

    Args:
        name: unique in the page; names the parts of the chart.
        title: what it shows.
        series: per run its number among the runs, its name, and its points: `step`, `mean`, `ci_low`, `ci_high`.
    """
    last = max((point["step"] for _, _, points in series for point in points), default=1)
    span = WIDTH - LEFT - RIGHT

    def x(step: float) -> float:
        return LEFT + span * step / last

    def y(score: float) -> float:
        return TOP + PLOT * (1 - score / 100)

    parts = [_score_grid(y)]
    for step in _ticks(last):
        parts.append(_text(x(step), TOP + PLOT + 15, str(step), "middle"))
    parts.append(_text(LEFT + span / 2, TOP + PLOT + 29, "steps", "middle"))
    for number, label, points in series:
        kept = [point for point in points if point["mean"] is not None]
        marks = []
        for point in kept:
            px = x(point["step"])
            if point["ci_low"] is not None:
                marks.append(_line(px, y(point["ci_low"]), px, y(point["ci_high"]), "whisker"))
        if len(kept) > 1:
            way = " ".join(f"{x(point['step']):.1f},{y(point['mean']):.1f}" for point in kept)
            marks.append(f'<polyline class="way" points="{way}"/>')
        for point in kept:
            hint = f"{label}, step {point['step']}: {_mean_text(point)}"
            marks.append(f"<g>{_shape(number, x(point['step']), y(point['mean']))}<title>{escape(hint)}</title></g>")
        parts.append(f'<g class="s{number % COLOURS}">{"".join(marks)}</g>')
    top = TOP + PLOT + BOTTOM + 8
    for place, (number, label, _) in enumerate(series):
        parts.append(f'<g class="s{number % COLOURS}">{_shape(number, LEFT + 6, top + 16 * place)}</g>')
        parts.append(_text(LEFT + 16, top + 16 * place + 4, _short(label), "start"))
    said = "; ".join(
        f"{label}: " + ", ".join(f"step {p['step']} {_mean_text(p)}" for p in ps) for _, label, ps in series
    )
    return _svg(name, title, said, top + 16 * len(series), parts)


def interval_chart(name: str, title: str, rows: Sequence[tuple[int, str, dict[str, Any], dict[str, Any]]]) -> Markup:
    """Per run its mean under both protocols with its interval, and the floor.

    Args:
        name: unique in the page; names the parts of the chart.
        title: what it shows.
        rows: per run its number among the runs, its name, and its values under `paper` and `strict`: `mean`, `ci_low`,
            `ci_high`, `floor`.
    """
    span = WIDTH - 2 * RIGHT

    def x(score: float) -> float:
        return RIGHT + span * score / 100

    height = 44
    bottom = 6 + height * len(rows)
    parts = []
    for score in (0, 25, 50, 75, 100):
        parts.append(_line(x(score), 4, x(score), bottom, "grid"))
        parts.append(_text(x(score), bottom + 14, str(score), "middle"))
    for place, (number, label, paper, strict) in enumerate(rows):
        top = 6 + height * place
        marks = []
        for values, py, filled in ((paper, top + 24, True), (strict, top + 36, False)):
            if values["mean"] is None:
                continue
            if values["floor"] is not None:
                marks.append(_line(x(values["floor"]), py - 5, x(values["floor"]), py + 5, "floor"))
            if values["ci_low"] is not None:
                marks.append(_line(x(values["ci_low"]), py, x(values["ci_high"]), py, "whisker"))
            kind = "mark" if filled else "hollow"
            marks.append(f'<circle class="{kind}" cx="{x(values["mean"]):.1f}" cy="{py}" r="4"/>')
        parts.append(f'<g class="s{number % COLOURS}">{"".join(marks)}</g>')
        figures = f"{_short(label, 34)}  {_mean_text(paper)} / {_mean_text(strict)}"
        parts.append(_text(RIGHT, top + 13, figures, "start"))
    said = "; ".join(
        f"{label}: paper {_mean_text(paper)}, strict {_mean_text(strict)}" for _, label, paper, strict in rows
    )
    return _svg(name, title, said, bottom + 20, parts)


def _svg(name: str, title: str, said: str, height: float, parts: Sequence[str]) -> Markup:
    return Markup(
        f'<svg class="chart" viewBox="0 0 {WIDTH} {height:.0f}" width="{WIDTH}" height="{height:.0f}" role="img" '
        f'aria-labelledby="{escape(name)}-t {escape(name)}-d"><title id="{escape(name)}-t">{escape(title)}</title>'
        f'<desc id="{escape(name)}-d">{escape(said)}</desc>{"".join(parts)}</svg>'
    )


def _score_grid(y: Any) -> str:
    parts = []
    for score in (0, 25, 50, 75, 100):
        parts.append(_line(LEFT, y(score), WIDTH - RIGHT, y(score), "grid"))
        parts.append(_text(LEFT - 6, y(score) + 4, str(score), "end"))
    return "".join(parts)


def _ticks(last: int) -> list[int]:
    step = next((step for step in (1, 2, 5, 10, 20, 50, 100, 200, 500) if last / step <= 8), last)
    return list(range(0, last + 1, step))


def _mean_text(values: dict[str, Any]) -> str:
    return "no score" if values["mean"] is None else f"{values['mean']:.1f}"


def _short(label: str, most: int = 52) -> str:
    return label if len(label) <= most else label[: most - 1] + "\N{HORIZONTAL ELLIPSIS}"


def _line(x1: float, y1: float, x2: float, y2: float, kind: str) -> str:
    return f'<line class="{kind}" x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}"/>'


def _text(x: float, y: float, text: str, anchor: str) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(text)}</text>'


def _shape(number: int, x: float, y: float) -> str:
    kind = SHAPES[number % len(SHAPES)]
    if kind == "circle":
        return f'<circle class="mark" cx="{x:.1f}" cy="{y:.1f}" r="4"/>'
    corners = {
        "square": "-3.6,-3.6 3.6,-3.6 3.6,3.6 -3.6,3.6",
        "up": "0,-5 4.6,3.6 -4.6,3.6",
        "down": "0,5 4.6,-3.6 -4.6,-3.6",
        "diamond": "0,-5 5,0 0,5 -5,0",
        "cross": "-1.4,-5 1.4,-5 1.4,-1.4 5,-1.4 5,1.4 1.4,1.4 1.4,5 -1.4,5 -1.4,1.4 -5,1.4 -5,-1.4 -1.4,-1.4",
        "bar": "-5,-2 5,-2 5,2 -5,2",
    }[kind]
    return f'<polygon class="mark" transform="translate({x:.1f} {y:.1f})" points="{corners}"/>'
