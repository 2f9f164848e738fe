"""What of a hidden truth must not be found in public files: places, angles, telling words, meshes in their places."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.spatial import cKDTree

from sceneact_gym.cases import Case
from sceneact_gym.evaluators import gltf
from sceneact_gym.evaluators.base import Mesh

Array = NDArray[np.float64]

NOT_PLACES = ("frames", "part_of_vertex", "object_floors", "boxes", "sizes")
"""Arrays of the truth whose rows are no places: the mesh itself, labels, distances, extents."""
ANGLES = ("yaw", "range", "angle", "rotation", "yaw_deg", "rotz_deg")
ANONYMOUS = re.compile(r"(object|node|component|view|part|material)_\d+(\.glb)?|camera|scene(\.glb)?")
"""Names that public data need and that tell nothing."""
WORD = re.compile(r"[a-z]{4,}|[0-9a-f]{8,}")
PLAIN = {"object", "node", "mesh", "part", "view", "camera", "scene", "component", "material", "name", "body"}
COMMON = (0.0, 0.25, 0.5, 1.0, 2.0, 0.70710678)
"""Coordinates that occur everywhere."""


@dataclass
class TruthIndex:
    """The truth of a case, ready to be searched for.

    Attributes:
        points: (3,) places and directions, Z up, each with where it comes from.
        angles: radians, with where they come from.
        words: lower case, with where they come from.
        meshes: the true meshes in their places, Z up, with the (4, 4) world matrices (Y up) of their nodes.
    """

    points: list[tuple[Array, str]] = field(default_factory=list)
    angles: list[tuple[float, str]] = field(default_factory=list)
    words: dict[str, str] = field(default_factory=dict)
    meshes: list[tuple[Mesh, Array]] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Nothing is indexed yet."""
        self._trees: dict[bool, tuple[cKDTree, list[str]] | None] = {}
        self._floor: tuple[cKDTree, list[str]] | None = None

    def near(self, rows: Array, tolerance: float, strict: bool) -> Iterator[tuple[int, str]]:
        """Rows (N, 3) that are a true place in Blender's or in glTF's frame, with what they are.

        Args:
            rows: candidates.
            tolerance: per coordinate, metres.
            strict: only places that cannot be there by chance (for rows out of meshes).
        """
        if strict not in self._trees:
            self._trees[strict] = self._tree(strict)
        tree = self._trees[strict]
        if tree is None or not len(rows):
            return
        rows = np.where(np.isfinite(rows) & (np.abs(rows) < 1e9), rows, 1e12)
        distance, number = tree[0].query(rows, distance_upper_bound=tolerance, p=np.inf)
        for row in np.flatnonzero(np.isfinite(distance)):
            yield int(row), tree[1][number[row]]

    def _tree(self, strict: bool) -> tuple[cKDTree, list[str]] | None:
        kept = [(point, label) for point, label in self.points if _distinctive(point, strict)]
        if not kept:
            return None
        zup = np.array([point for point, _ in kept])
        yup = np.stack([zup[:, 0], zup[:, 2], -zup[:, 1]], axis=1)
        labels = [label for _, label in kept]
        return cKDTree(np.concatenate([zup, yup])), [*labels, *(f"{label}, Y up" for label in labels)]

    def near_on_floor(self, rows: Array, tolerance: float) -> Iterator[tuple[int, str]]:
        """Rows (N, 2) that are x and y of a true place, or x and glTF's z, with what they are."""
        if self._floor is None:
            kept = [(point[:2], label) for point, label in self.points if not _on_grid(point[:2]).any()]
            pairs = np.array([pair for pair, _ in kept]).reshape(-1, 2)
            self._floor = cKDTree(np.concatenate([pairs, pairs * [1, -1]])), [label for _, label in kept] * 2
        tree, labels = self._floor
        if not labels or not len(rows):
            return
        distance, number = tree.query(rows, distance_upper_bound=tolerance, p=np.inf)
        for row in np.flatnonzero(np.isfinite(distance)):
            yield int(row), labels[number[row]]

    def angle(self, value: float, tolerance: float = 1e-4) -> str | None:
        """What this number is if it is a true angle in radians or degrees."""
        for angle, label in self.angles:
            if abs(value - angle) < tolerance or abs(value - np.degrees(angle)) < 100 * tolerance:
                return label
        return None

    def word(self, text: str) -> str | None:
        """The telling word in a text, with what it is."""
        low = text.lower()
        parts = set(WORD.findall(low))
        for word, label in self.words.items():
            if word in parts or (not word.isalpha() and word in low):
                return f"{word!r}: {label}"
        return None


def read_truth(case: Case) -> TruthIndex:
    """Everything in a case's truth that is worth searching for."""
    index = TruthIndex()
    needed = set()
    if case.task.startswith("dynamic"):
        # The library's names are given; which of them are used, and where, is the truth.
        stems = [asset.lower().removesuffix(".glb") for asset in case.public.assets]
        needed = {name for stem in stems for name in (stem, f"{stem}.glb", *WORD.findall(stem))}
    for name, value in case.truth.items():
        _read(index, name, value, needed, name)
    if case.task == "camera" and "matrix_world" in case.truth:
        matrix = np.asarray(case.truth["matrix_world"], float)
        index.points += [(-matrix[:3, 2], "the viewing direction"), (matrix[:3, 2], "the viewing direction, reversed")]
    return index


def _read(index: TruthIndex, key: str, value: Any, needed: set[str], label: str) -> None:
    if isinstance(value, np.ndarray) and value.dtype == np.uint8:
        if key.endswith(".glb"):
            _read_glb(index, value.tobytes(), needed, label)
        return
    if isinstance(value, str):
        _add_words(index, value, needed, label)
    elif isinstance(value, Mapping):
        for name, child in value.items():
            # Numbers keyed by names, as in {"door": 1.2}, are told by the name of the whole.
            inner = key if isinstance(child, float) and name not in ANGLES else str(name)
            _read(index, inner, child, needed, f"{label}.{name}")
    elif isinstance(value, (float, int)) and not isinstance(value, bool):
        if key in ANGLES:
            _add_angle(index, float(value), label)
    elif isinstance(value, (Sequence, np.ndarray)) and key not in NOT_PLACES:
        array = _numbers(value)
        if array is None:
            for number, child in enumerate(value):
                _read(index, key, child, needed, f"{label}[{number}]")
        else:
            _add_numbers(index, array, key, label)


def _add_numbers(index: TruthIndex, array: Array, key: str, label: str) -> None:
    if array.shape[-2:] == (4, 4) and np.allclose(array[..., 3, :], [0, 0, 0, 1], atol=1e-6):
        rows = array[..., :3, 3].reshape(-1, 3)
    elif array.ndim and array.shape[-1] == 3:
        rows = array.reshape(-1, 3)
    elif array.ndim and array.shape[-1] == 4 and key == "poses":
        rows = array[..., :3].reshape(-1, 3)
        for number, angle in enumerate(array[..., 3].ravel()):
            _add_angle(index, float(angle), f"{label}[{number}].yaw")
    else:
        for angle in array.ravel() if key in ANGLES else ():
            _add_angle(index, float(angle), label)
        return
    # A motion says the same place many times.
    _, first = np.unique(np.round(rows, 6), axis=0, return_index=True)
    index.points += [(rows[number], f"{label}, row {number}") for number in sorted(first)]


def _read_glb(index: TruthIndex, data: bytes, needed: set[str], label: str) -> None:
    scene = gltf.load(data)
    matrices = scene.world_matrices()[0]
    for number, mesh in zip(scene.mesh_nodes, scene.world_meshes(), strict=True):
        index.meshes.append((mesh, matrices[number]))
    for number in scene.active:
        name = scene.nodes[number].name
        place = gltf.to_zup(matrices[number][:3, 3])
        index.points.append((place, f"the place of {name} in {label}"))
        _add_words(index, name, needed, f"a node of {label}")
    for channel in scene.channels:
        if channel.path == "translation":
            rows = channel.values.reshape(-1, 3)
            name = scene.nodes[channel.node].name
            index.points += [(gltf.to_zup(row), f"a key of {name} in {label}") for row in rows]


def _add_angle(index: TruthIndex, value: float, label: str) -> None:
    # Multiples of 15 degrees occur everywhere.
    if abs(np.degrees(value) / 15 - round(np.degrees(value) / 15)) > 1e-3:
        index.angles.append((value, label))


def _add_words(index: TruthIndex, text: str, needed: set[str], label: str) -> None:
    low = text.lower()
    if ANONYMOUS.fullmatch(low) or low in needed:
        return
    words = set(WORD.findall(low)) - PLAIN
    for word in sorted({low} | words if len(low) >= 4 else words):
        if re.search("[a-z]", word) and word not in needed and word not in PLAIN:
            index.words.setdefault(word, label)


def _numbers(value: Any) -> Array | None:
    """The value as an array where all of it is numbers of one shape."""
    try:
        array = np.asarray(value)
    except ValueError:
        return None
    return array.astype(float) if array.size and array.dtype.kind in "fi" else None


def _distinctive(point: Array, strict: bool) -> bool:
    """Whether these coordinates say something: not those of zeros, axes and corners of unit boxes."""
    size = np.abs(point)
    if not np.isfinite(point).all() or (size > 1e-3).sum() < 2:
        return False
    if all(min(abs(value - common) for common in COMMON) < 1e-4 for value in size):
        return False
    # Out of thousands of vertices some lie on a grid by chance.
    return not strict or int((~_on_grid(size)).sum()) >= 2


def _on_grid(values: Array) -> NDArray[np.bool_]:
    """Which coordinates are multiples of 5 cm."""
    return np.abs(values * 20 - np.round(values * 20)) <= 1e-3
