"""The report's figures as files: CSV in long form, JSON with everything, and a table for LaTeX."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Mapping
from typing import Any

from sceneact_gym.bench.report.statistics import PROTOCOLS
from sceneact_gym.bench.report.summary import TITLES

CSV_COLUMNS = (
    *("run", "agent", "task", "protocol", "cases", "mean", "ci_low", "ci_high", "floor", "lift", "ok", "agent_error"),
    *("infra_error", "missing", "bound_low", "bound_high", "steps", "tool_calls", "tokens", "cost"),
)
"""`steps`, `tool_calls`, `tokens` and `cost` (US dollars) are means per episode; empty is not known."""

LATEX_SPECIAL = {
    "\\": r"\textbackslash{}",
    "{": r"\{",
    "}": r"\}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    '"': r"\textquotedbl{}",
    **{character: "\\" + character for character in "&%$#_"},
}


def as_csv(summary: Mapping[str, Any]) -> str:
    """A line per run, task and protocol."""
    text = io.StringIO()
    writer = csv.DictWriter(text, CSV_COLUMNS, lineterminator="\n")
    writer.writeheader()
    for run in summary["runs"]:
        for task, found in run["tasks"].items():
            for protocol in PROTOCOLS:
                values = {
                    **{"run": run["name"], "agent": _cell(run["agent"]), "task": task, "protocol": protocol},
                    **found["counts"],
                    **found[protocol],
                    **{name: found["spending"][name]["mean"] for name in ("steps", "tool_calls", "tokens", "cost")},
                }
                writer.writerow({name: values[name] for name in CSV_COLUMNS})
    return text.getvalue()


def _cell(text: str) -> str:
    """Text that a spreadsheet does not take for a formula."""
    return "'" + text if text[:1] in ("=", "+", "-", "@", "\t", "\r") else text


def as_json(summary: Mapping[str, Any]) -> str:
    """Everything that the front page shows."""
    return json.dumps(summary, indent=1, allow_nan=False) + "\n"


def as_latex(summary: Mapping[str, Any]) -> str:
    """A table for the package booktabs: a row per run and protocol, means with their intervals."""
    tasks = summary["tasks"]
    level = f"{100 * summary['bootstrap']['level']:g}"
    lines = [
        f"% Needs \\usepackage{{booktabs}}. Means over cases, {level} % bootstrap intervals over cases in brackets.",
        rf"\begin{{tabular}}{{ll{'r' * (len(tasks) + 1)}}}",
        r"\toprule",
        " & ".join(["Run", "Protocol", *(latex_text(TITLES[task]) for task in tasks), "Overall"]) + r" \\",
        r"\midrule",
    ]
    for run in summary["runs"]:
        mark = r"$^\dagger$" if run["privileged"] else ""
        for protocol in PROTOCOLS:
            cells = [_latex_score(run["tasks"][task][protocol]) if task in run["tasks"] else "--" for task in tasks]
            cells.append(_latex_score(run["overall"][protocol]))
            lines.append(" & ".join([latex_text(run["name"]) + mark, protocol, *cells]) + r" \\")
    lines += [r"\bottomrule", r"\end{tabular}"]
    if any(run["privileged"] for run in summary["runs"]):
        lines.append(r"% $^\dagger$ privileged: the agent reads the truth.")
    return "\n".join(lines) + "\n"


def latex_text(text: str) -> str:
    """Text without a meaning for LaTeX."""
    return "".join(LATEX_SPECIAL.get(character, character if character.isprintable() else " ") for character in text)


def _latex_score(values: Mapping[str, Any]) -> str:
    if values["mean"] is None:
        return "--"
    interval = (
        "" if values["ci_low"] is None else rf" {{\scriptsize [{values['ci_low']:.1f}, {values['ci_high']:.1f}]}}"
    )
    return f"{values['mean']:.1f}{interval}"
