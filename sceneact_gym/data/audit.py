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
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sceneact_gym.blender.draco import decode_draco
from sceneact_gym.cases import Case
from sceneact_gym.data.audit_files import Problem, glb_problems, png_problems
from sceneact_gym.data.audit_shapes import shape_problems
from sceneact_gym.data.gltf_raw import RawGlb, parse
from sceneact_gym.data.truth_index import TruthIndex, read_truth
from sceneact_gym.errors import SceneActError
from sceneact_gym.evaluators import gltf

TOLERANCE = 1e-4
"""Of coordinates in meshes, metres."""
TEXT_TOLERANCE = 6e-4
"""Of coordinates in JSON and texts, where they may be rounded to millimetres."""
NUMBER = re.compile(r"[-+]?(?:\d+\.\d*|\.\d+|\d+)(?:[eE][-+]?\d+)?")
FORMAT_KEYS = ("type", "path", "interpolation", "mimeType", "alphaMode")
"""Of glTF, with words of the format as values."""
SURFACE = ("NORMAL", "TANGENT", "TEXCOORD", "COLOR", "JOINTS", "WEIGHTS")
"""Attributes of vertices that are no places."""
CASE_KEYS = {"id", "task", "condition", "split"}
UNREADABLE = (
    SceneActError,
    gltf.GltfError,
    KeyError,
    IndexError,
    TypeError,
    ValueError,
    AttributeError,
    OverflowError,
    RecursionError,
)
"""What reading a broken GLB may raise."""
MAX_NUMBER = 1e12
MAX_FINDINGS = 20
"""Per file: one is enough to know that it leaks."""

Array = NDArray[np.float64]


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
    add("case.json", _search_json(about, truth))
    views = [view.as_dict() for view in case.public.views]
    add("public/public.json", _search_json({"views": views, "data": dict(case.public.data)}, truth))
    for name, data in case.public.assets.items():
        file = f"public/assets/{name}"
        add(file, ((what, "its name") for what, _ in _search_json(name, truth)))
        if data[:4] == b"glTF":
            add(file, glb_problems(data))
            add(file, _search_glb(data, case, truth))
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


# --- texts and numbers ------------------------------------------------------------------------------------------------


def _search_json(value: Any, truth: TruthIndex, words: bool = True) -> Iterator[Problem]:
    """The truth in JSON values: words in keys and texts, places and angles in numbers, also those in texts."""
    numbers: list[tuple[str, float]] = []
    for where, item in _leaves(value):
        if isinstance(item, str):
            word = truth.word(item) if words else None
            if word:
                yield f"the word {word}", where
            yield from _search_numbers([(where, number) for number in _numbers_in(item)], truth)
            numbers += [(where, number) for number in _numbers_in(item) if not number.is_integer()]
        else:
            numbers.append((where, float(item)))
    yield from _search_numbers(numbers, truth)


def _search_numbers(numbers: list[tuple[str, float]], truth: TruthIndex, angles: bool = True) -> Iterator[Problem]:
    values = np.array([value for _, value in numbers])
    # Three in a row, or the last column of a 4x4 matrix.
    for step in (1, 4):
        if len(values) > 2 * step:
            rows = np.stack([values[: -2 * step], values[step : len(values) - step], values[2 * step :]], axis=1)
            for row, label in truth.near(rows, TEXT_TOLERANCE, strict=False):
                yield f"the place {np.round(rows[row], 4).tolist()}: {label}", numbers[row][0]
    for where, number in numbers:
        # The given cameras have many numbers, and none of them is an angle.
        searched = angles and not where.startswith("views") and not number.is_integer()
        angle = truth.angle(number) if searched else None
        if angle:
            yield f"the angle {number:g}: {angle}", where


def _numbers_in(text: str) -> list[float]:
    return [number for number in map(float, NUMBER.findall(text)) if abs(number) < MAX_NUMBER]


def _leaves(value: Any, where: str = "") -> Iterator[tuple[str, Any]]:
    """All texts (keys, too) and numbers of JSON values, with their paths."""
    if isinstance(value, dict):
        for key, child in value.items():
            yield where, str(key)
            yield from _leaves(child, f"{where}.{key}".lstrip("."))
    elif isinstance(value, (list, tuple)):
        for number, child in enumerate(value):
            yield from _leaves(child, f"{where}[{number}]")
    elif isinstance(value, str) or (isinstance(value, (int, float)) and abs(value) < MAX_NUMBER):
        yield where, value


# --- GLB --------------------------------------------------------------------------------------------------------------


def _search_glb(data: bytes, case: Case, truth: TruthIndex) -> Iterator[Problem]:
    try:
        glb = parse(decode_draco(data))
        scene = gltf.load(data)
        yield from _search_document(glb, truth)
        yield from _search_nodes(glb, scene, truth)
        yield from _search_binary(glb, case, truth)
        yield from shape_problems(scene.world_meshes(), case, truth)
    except UNREADABLE as problem:
        yield f"a file that cannot be searched ({problem})", "the whole file"


def _search_document(glb: RawGlb, truth: TruthIndex) -> Iterator[Problem]:
    """Names, texts, custom properties and numbers of the JSON."""
    for where, text in _texts(glb.document):
        word = truth.word(text)
        if word:
            yield f"the word {word}", where
    free = list(_extras(glb.document))
    for where, extras in free:
        for what, inside in _search_json(extras, truth):
            yield what, f"{where}.{inside}"
    # What is derived from the data is compared with the data (`glb_problems`), not with the truth: the corner of a
    # door may well lie on its hinge. Whole numbers here are indices.
    plain = {kind: rows for kind, rows in glb.document.items() if kind not in ("accessors", "bufferViews", "buffers")}
    lists: dict[str, list[tuple[str, float]]] = {}
    for where, item in _leaves(plain):
        if isinstance(item, float):
            lists.setdefault(where.rpartition("[")[0], []).append((where, item))
    for numbers in lists.values():
        yield from _search_numbers(numbers, truth, angles=False)
    yield from _search_json([text for _, text in _texts(glb.document)], truth, words=False)


def _texts(value: Any, where: str = "", free: bool = False) -> Iterator[tuple[str, str]]:
    """The texts of a glTF document that are not the format's own words; in custom properties the keys as well."""
    if isinstance(value, dict):
        for key, child in value.items():
            if free:
                yield where, str(key)
            path = f"{where}.{key}".lstrip(".")
            if isinstance(child, str) and not free and key in FORMAT_KEYS:
                continue
            yield from _texts(child, path, free or key == "extras")
    elif isinstance(value, list):
        for number, child in enumerate(value):
            yield from _texts(child, f"{where}[{number}]", free)
    elif isinstance(value, str):
        yield where, value


def _extras(value: Any, where: str = "") -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict):
        for key, child in value.items():
            path = f"{where}.{key}".lstrip(".")
            if key == "extras":
                yield path, child
            else:
                yield from _extras(child, path)
    elif isinstance(value, list):
        for number, child in enumerate(value):
            yield from _extras(child, f"{where}[{number}]")


def _search_nodes(glb: RawGlb, scene: gltf.GltfScene, truth: TruthIndex) -> Iterator[Problem]:
    """Where the nodes stand in the world, cameras and lights among them, and how they are turned about Z."""
    matrices = scene.world_matrices()[0]
    places = gltf.to_zup(matrices[:, :3, 3])
    for rows, what in (
        (places, "the place"),
        (gltf.to_zup(-matrices[:, :3, 2]), "the direction"),
        (gltf.to_zup(matrices[:, :3, 2]), "the direction"),
    ):
        for number, label in truth.near(rows, TOLERANCE, strict=False):
            yield f"{what} of a node: {label}", f"nodes[{number}] ({scene.nodes[number].name})"
    for number, matrix in enumerate(matrices):
        # A turn about Blender's Z is one about glTF's Y.
        yaw = float(np.arctan2(matrix[0, 2], matrix[0, 0]))
        hit = truth.angle(yaw) or truth.angle(yaw % (2 * np.pi))
        if hit:
            yield f"the turn of a node, {np.degrees(yaw):.2f} degrees: {hit}", f"nodes[{number}]"


def _search_binary(glb: RawGlb, case: Case, truth: TruthIndex) -> Iterator[Problem]:
    """Places in the values of accessors: keys of animations, attributes of vertices."""
    if glb.rows("animations") and case.task in ("articulated", "dynamic", "dynamic_photoreal"):
        yield "an animation, though motion is the answer", "animations"
    weak: set[int] = set()
    strong: set[int] = set()
    for animation in glb.rows("animations"):
        weak.update(sampler["output"] for sampler in animation["samplers"])
    for mesh in glb.rows("meshes"):
        for primitive in mesh["primitives"]:
            for name, number in primitive["attributes"].items():
                if name == "POSITION":
                    strong.add(number)
                elif not name.startswith(SURFACE):
                    weak.add(number)
    if case.task == "articulated":
        # A hinge goes through vertices of its door.
        strong = set()
    for number in sorted(weak | strong):
        values = glb.floats(number)
        if values.shape[1] == 1 and len(values) > 2:
            values = np.lib.stride_tricks.sliding_window_view(values[:, 0], 3)
        if values.shape[1] < 3:
            continue
        for row, label in truth.near(values[:, :3].astype(float), TOLERANCE, strict=number in strong):
            yield f"a value that is {label}", f"accessors[{number}], element {row}"
