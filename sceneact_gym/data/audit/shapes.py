"""Meshes of public files that stand, or are turned, as the truth's do."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from sceneact_gym.cases import Case
from sceneact_gym.data.audit.files import Problem
from sceneact_gym.data.audit.truth_index import TruthIndex
from sceneact_gym.evaluators import gltf
from sceneact_gym.evaluators.base import Mesh, box_centre

Array = NDArray[np.float64]

OBJECT_ASSET = "object.glb"
SAME = 1e-4
"""Metres between equal vertices."""
MOVED = 1e-2
"""Metres by which something must stand elsewhere before its place tells anything."""


def shape_problems(meshes: list[Mesh], case: Case, truth: TruthIndex) -> Iterator[Problem]:
    """What of these meshes gives the answer away.

    Args:
        meshes: of one public file, in the world, Z up.
        case: their case.
        truth: its truth.
    """
    if case.task in ("layout", "layout_multiview"):
        yield from _placed(meshes, case, truth)
    elif case.task == "reconstruction":
        yield from _copies(meshes, truth)
    elif case.task == "articulated":
        yield from _opened(meshes, case)
    elif case.task in ("dynamic", "dynamic_photoreal"):
        yield from _standing(meshes, truth)


def _placed(meshes: list[Mesh], case: Case, truth: TruthIndex) -> Iterator[Problem]:
    """Canonical objects that stand in, or are turned to, their true place."""
    poses = case.truth.get("poses") or [None] * len(truth.meshes)
    for mesh in meshes:
        centre = box_centre(mesh.vertices)
        for (true, matrix), pose in zip(truth.meshes, poses, strict=False):
            true_centre = box_centre(true.vertices)
            if np.linalg.norm(true_centre) > MOVED and np.abs(centre - true_centre).max() < SAME:
                yield f"a mesh in the true place of {true.name}", mesh.name
            elif len(mesh.vertices) == len(true.vertices):
                yaw = float(np.arctan2(matrix[0, 2], matrix[0, 0])) if pose is None else pose[3]
                moved = mesh.vertices - centre - (true.vertices - true_centre)
                if abs(np.sin(yaw / 2)) > 1e-3 and np.abs(moved).max() < SAME:
                    yield f"a mesh that is turned as {true.name} truly is", mesh.name


def _copies(meshes: list[Mesh], truth: TruthIndex) -> Iterator[Problem]:
    """Shapes of the furniture that is to be modelled."""
    for mesh in meshes:
        for true, _ in truth.meshes:
            if np.abs(np.sort(np.ptp(mesh.vertices, axis=0)) - np.sort(np.ptp(true.vertices, axis=0))).max() < SAME:
                yield f"a mesh of the size of {true.name}", mesh.name


def _opened(meshes: list[Mesh], case: Case) -> Iterator[Problem]:
    """Meshes that stand as a part does in a state that is not the closed one."""
    frames = np.asarray(case.truth["frames"], float)
    given = case.public.assets.get(OBJECT_ASSET, b"")
    closed = {mesh.name: len(mesh.vertices) for mesh in (gltf.load(given).world_meshes() if given else ())}
    starts = np.cumsum([0, *(closed.get(name, 0) for name in case.public.data.get("objects", ()))])
    if starts[-1] != frames.shape[1]:
        # The meshes are not those of the truth: whole parts are compared instead.
        owner = np.asarray(case.truth["part_of_vertex"])
        slices = [owner == part for part in np.unique(owner)]
    else:
        slices = [np.arange(start, end) for start, end in zip(starts, starts[1:], strict=False)]
    boxes = np.array([np.stack([mesh.vertices.min(axis=0), mesh.vertices.max(axis=0)]) for mesh in meshes])
    for chosen in slices:
        points = frames[:, chosen]
        if not points.shape[1]:
            continue
        states = np.stack([points.min(axis=1), points.max(axis=1)], axis=1)
        away = np.abs(points - points[0]).max(axis=(1, 2)) > MOVED
        for number, box in enumerate(boxes):
            if (np.abs(states[away] - box).max(axis=(1, 2), initial=0) < SAME).any():
                yield "a mesh where a part is in another than the closed state", meshes[number].name


def _standing(meshes: list[Mesh], truth: TruthIndex) -> Iterator[Problem]:
    """Components whose vertices already stand in a true place; a thing whose true pose is none may."""
    at_origin = [true.vertices.mean(axis=0) for true, matrix in truth.meshes if np.abs(matrix - np.eye(4)).max() < SAME]
    for mesh in meshes:
        mean = mesh.vertices.mean(axis=0)
        if any(np.abs(mean - other).max() < SAME for other in at_origin):
            continue
        for _, label in truth.near(mean[None], SAME, strict=False):
            yield f"a mesh in a true place: {label}", mesh.name
