"""The truth audit: searches what an agent may see for the hidden truth, and for room where it could hide.

Numbers are compared in Blender's frame (Z up) and in glTF's (Y up). What no search can find: a truth that was drawn
into a picture, encrypted, or compressed into a text.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from sceneact_gym.cases import Case
from sceneact_gym.data.audit.files import Problem, glb_problems, png_problems
from sceneact_gym.data.audit.search import search_glb, search_json
from sceneact_gym.data.audit.truth_index import read_truth
from sceneact_gym.errors import SceneActError

CASE_KEYS = {"id", "task", "condition", "split"}
MAX_FINDINGS = 20
"""Per file: one is enough to know that it leaks."""


@dataclass(frozen=True)
class Finding:
    """Something that should not be there.

    Attributes:
        case: the case's id.
        file: the public file, relative to the case folder.
        what: what was found.
        where: where in the file.
    """

    case: str
    file: str
    what: str
    where: str


def audit_case(case: Case) -> list[Finding]:
    """Searches a case in memory.

    Args:
        case: with its references; those that are rendered when they are looked at will be.

    Returns:
        The findings, at most `MAX_FINDINGS` per file; none for a clean case.
    """
    truth = read_truth(case)
    found: list[Finding] = []

    def add(file: str, problems: Iterator[Problem]) -> None:
        found.extend(Finding(case.id, file, what, where) for what, where in islice(problems, MAX_FINDINGS))

    about = {"id": case.id, "condition": case.condition, "split": case.split}
    add("case.json", search_json(about, truth))
    views = [view.as_dict() for view in case.public.views]
    add("public/public.json", search_json({"views": views, "data": dict(case.public.data)}, truth))
    for name, data in case.public.assets.items():
        file = f"public/assets/{name}"
        add(file, ((what, "its name") for what, _ in search_json(name, truth)))
        if data[:4] == b"glTF":
            add(file, glb_problems(data))
            add(file, search_glb(data, case, truth))
        else:
            add(file, iter([("a file that is no GLB and cannot be searched", "the whole file")]))
    for number, data in enumerate(case.public.references):
        add(f"public/references/{number:04d}.png", png_problems(data))
    return found


def audit_folder(folder: Path) -> tuple[int, list[Finding]]:
    """Searches all case folders under a folder, their raw files included.

    Returns:
        The number of cases, and the findings.

    Raises:
        SceneActError: there is no case folder, or one cannot be read.
    """
    cases = [path.parent for path in sorted(folder.glob("*/case.json"))]
    if not cases:
        raise SceneActError(f"{folder} has no case folder")
    found: list[Finding] = []
    for path in cases:
        case = Case.load(path)
        found += [Finding(case.id, file, what, where) for file, what, where in _strangers(path)]
        found += audit_case(case)
    return len(cases), found


def _strangers(folder: Path) -> Iterator[tuple[str, str, str]]:
    """Files of a case folder that no case needs, and values in its JSON files that nobody reads."""
    for path in sorted((folder / "public").rglob("*")):
        name = path.relative_to(folder).as_posix()
        expected = re.fullmatch(r"public/(public\.json|assets(/[^/]+)?|references(/\d{4}\.png)?)", name)
        if not expected or path.is_symlink() or (path.is_dir() and name.count("/") > 1):
            yield name, "a file that no case needs", "its name"
    for name, keys in (("case.json", CASE_KEYS), ("public/public.json", {"views", "data"})):
        for key in sorted(json.loads((folder / name).read_text(encoding="utf-8")).keys() - keys):
            yield name, f"the value {key!r}, which nobody reads", key
    for view in json.loads((folder / "public" / "public.json").read_text(encoding="utf-8")).get("views", ()):
        for key in sorted(view.keys() - {"name", "matrix_world", "fov_x_deg"}):
            yield "public/public.json", f"the value {key!r} of a view, which nobody reads", "views"
