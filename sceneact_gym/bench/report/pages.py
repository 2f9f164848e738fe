"""Turns templates into pages. Whatever a model or a file name brings along stays text: escaping is always on."""

from __future__ import annotations

import functools
import json
import math
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from sceneact_gym._version import __version__

DASH = "\N{EN DASH}"
"""Stands for what is not known."""


def render(template: str, **values: Any) -> str:
    """A page.

    Args:
        template: its name in `templates/`. Pages extend `base.html`, whose blocks are `title`, `head` and `main`.
        values: for the template; `base.html` needs `root`, the way from the page up to the report's folder: empty for
            the front page, `../../` for the page of an episode.
    """
    return _environment().get_template(template).render(version=__version__, **values)


def write_page(path: Path, template: str, **values: Any) -> None:
    """Writes a page, and the folders above it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    # A lone surrogate in a model's text has no UTF-8.
    path.write_text(render(template, **values), encoding="utf-8", errors="backslashreplace")


def number(value: float | None, digits: int = 1, sign: bool = False) -> str:
    """A number for people; a dash where there is none."""
    if value is None or not math.isfinite(value):
        return DASH
    text = f"{value:{'+' if sign else ''},.{digits}f}"
    # -0.0 is 0, and a true minus sign is as wide as a plus.
    zero = f"{0:.{digits}f}"
    return zero if text.lstrip("+-") == zero else text.replace("-", "\N{MINUS SIGN}")


def script_json(value: Any) -> Markup:
    """JSON that may stand inside a script element: no text in it can end the element or a line."""
    text = json.dumps(value, allow_nan=False, ensure_ascii=True, separators=(",", ":"))
    for character in "<>&":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return Markup(text)


@functools.cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("sceneact_gym.bench.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(number=number, script_json=script_json)
    environment.globals.update(DASH=DASH)
    return environment
