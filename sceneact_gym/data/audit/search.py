"""Searches JSON values and GLB files for the truth of a case."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sceneact_gym.blender.draco import decode_draco
from sceneact_gym.cases import Case
from sceneact_gym.data.audit.files import Problem
from sceneact_gym.data.audit.shapes import shape_problems
from sceneact_gym.data.audit.truth_index import TruthIndex
from sceneact_gym.data.gltf_raw import RawGlb, parse
from sceneact_gym.errors import SceneActError
from sceneact_gym.evaluators import gltf

Array = NDArray[np.float64]

TOLERANCE = 1e-4
"""Of coordinates in meshes, metres."""
TEXT_TOLERANCE = 6e-4
"""Of coordinates in JSON and texts, where they may be rounded to millimetres."""
NUMBER = re.compile(r"[-+]?(?:\d+\.\d*|\.\d+|\d+)(?:[eE][-+]?\d+)?")
FORMAT_KEYS = ("type", "path", "interpolation", "mimeType", "alphaMode")
"""Of glTF, with words of the format as values."""
SURFACE = ("NORMAL", "TANGENT", "TEXCOORD", "COLOR", "JOINTS", "WEIGHTS")
"""Attributes of vertices that are no places."""
MOTION_TASKS = ("articulated", "dynamic", "dynamic_photoreal")
"""Of which motion is the answer."""
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


# --- texts and numbers ------------------------------------------------------------------------------------------------


def search_json(value: Any, truth: TruthIndex, words: bool = True) -> Iterator[Problem]:
    """The truth in JSON values: words in keys and texts, places and angles in numbers, also those in texts.

    Args:
        value: JSON values; paths that begin with `views` are the given cameras.
        truth: what is searched for.
        words: whether texts are searched for words as well.
    """
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
    if angles and len(values) > 1:
        # On the floor two coordinates tell a place.
        free = [row for row, (where, _) in enumerate(numbers[:-1]) if not where.startswith("views")]
        for row, label in truth.near_on_floor(np.stack([values[:-1], values[1:]], axis=1)[free], TEXT_TOLERANCE):
            pair = [number for _, number in numbers[free[row] : free[row] + 2]]
            yield f"the place {np.round(pair, 4).tolist()} on the floor: {label}", numbers[free[row]][0]
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


def search_glb(data: bytes, case: Case, truth: TruthIndex) -> Iterator[Problem]:
    """The truth in a GLB: in its texts, properties, nodes, animations, attributes of vertices and meshes."""
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
        for what, inside in search_json(extras, truth):
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
    yield from search_json([text for _, text in _texts(glb.document)], truth, words=False)


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
    for number, label in truth.near_on_floor(places[:, :2], TOLERANCE):
        yield f"the place of a node on the floor: {label}", f"nodes[{number}] ({scene.nodes[number].name})"
    for number, matrix in enumerate(matrices):
        # A turn about Blender's Z is one about glTF's Y.
        yaw = float(np.arctan2(matrix[0, 2], matrix[0, 0]))
        hit = truth.angle(yaw) or truth.angle(yaw % (2 * np.pi))
        if hit:
            yield f"the turn of a node, {np.degrees(yaw):.2f} degrees: {hit}", f"nodes[{number}]"


def _search_binary(glb: RawGlb, case: Case, truth: TruthIndex) -> Iterator[Problem]:
    """Places in the values of accessors: keys of animations, attributes of vertices."""
    if case.task in MOTION_TASKS:
        for kind in ("animations", "skins"):
            if glb.rows(kind):
                yield f"{kind}, though motion is the answer", kind
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
            for target in primitive.get("targets", ()):
                weak.update(target.values())
                if case.task in MOTION_TASKS:
                    yield "another shape of a mesh, though motion is the answer", "meshes"
    weak.update(skin["inverseBindMatrices"] for skin in glb.rows("skins") if "inverseBindMatrices" in skin)
    if case.task == "articulated":
        # A hinge goes through vertices of its door.
        strong = set()
    for number in sorted(weak | strong):
        values = glb.floats(number)
        if values.shape[1] == 16:
            # A matrix, column by column; and its inverse, whose place is that of the joint.
            values = np.concatenate([values[:, 12:15], -values[:, 12:15]])
        if values.shape[1] == 1 and len(values) > 2:
            values = np.lib.stride_tricks.sliding_window_view(values[:, 0], 3)
        if values.shape[1] < 3:
            continue
        for row, label in truth.near(values[:, :3].astype(float), TOLERANCE, strict=number in strong):
            yield f"a value that is {label}", f"accessors[{number}], element {row}"
