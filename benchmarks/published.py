"""Published metrics of real submissions against what the evaluators compute for them.

    python -m benchmarks.published [--folder DIR] [--task TASK] [--seeds N]

DIR (default: $SCENEACT_PUBLISHED) holds `cases.json`, the submissions and `reference/`: the examples of SceneActBench's
project page (arXiv 2607.22393), which are not part of this repository. What the files do not say is written here once,
with its origin: the hidden camera, the similarity between two frames, which nodes are movers.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import re
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from sceneact_gym.evaluators import articulated, camera, gltf, layout
from sceneact_gym.evaluators.base import Array, Mesh

ROOT = Path(__file__).resolve().parent.parent
TASKS = ("layout", "camera", "articulated", "reconstruction", "dynamic")

# The only camera that gives all six published PE and AE, to the digits printed.
CAMERA_CENTRE = np.array([-4.644019, -4.399865, 1.425967])
CAMERA_VIEW = np.array([1.0, 1.0, 0.0]) / np.sqrt(2)

# The room's file is normalised; v * scale + shift (glTF Y-up) takes it to the submissions' frame.
LAYOUT_SCALE = 1.4735449803
LAYOUT_SHIFT = np.array([0.0, 1.39984511, -0.0030876])
FURNITURE = re.compile(r"[A-Za-z]+_[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")

ARTICULATED_FPS = 16
# The keys of these web files hold world transforms, the published evaluator never applied the chain twice.
WORLD_KEYS = True

RECONSTRUCTION_OBJECTS = 4  # Lighting, two Cabinets, Bed; the rest is the room's shell

DYNAMIC_MOVERS = ("Bridge", "arm", "SiegeRam", "SiegeTower")
DYNAMIC_SCALE = 8.6279
DYNAMIC_FRAMES = 144
DYNAMIC_FPS = 24

# Published name -> the field of our result.
METRICS: Mapping[str, Mapping[str, str]] = {
    "layout": {"ADD-S": "add_s", "Chamfer": "chamfer", "Placement": "pa"},
    "camera": {"PE": "pe", "AE": "ae"},
    "articulated": {"MPE": "mpe", "Mean Part": "mean_part", "Recall": "recall"},
    "reconstruction": {"F@5%": "f5", "Coverage": "coverage", "Centroid": "centroid_err"},
    "dynamic": {"MME": "mme", "AME": "ame", "LE": "le"},
}


def default_folder() -> Path:
    """$SCENEACT_PUBLISHED, else the folder beside the repository."""
    return Path(os.environ.get("SCENEACT_PUBLISHED", ROOT.parent / "shared" / "published"))


def read_cases(folder: Path, task: str | None = None) -> list[dict[str, Any]]:
    """The published cases, of one task or all."""
    cases = json.loads((folder / "cases.json").read_text(encoding="utf-8"))
    return [c for c in cases if task is None or c["task"] == task]


def look_along(centre: Array, view: Array) -> Array:
    """A 4x4 camera pose at `centre` that looks along the horizontal unit vector `view`."""
    right = np.cross(view, [0.0, 0.0, 1.0])
    matrix = np.eye(4)
    matrix[:3, 0], matrix[:3, 1], matrix[:3, 2], matrix[:3, 3] = right, np.cross(right, view), -view, centre
    return matrix


def layout_truth(folder: Path) -> list[Array]:
    """Vertices of the furniture of the dining room, in the submissions' frame."""
    scene = gltf.load(folder / "reference/layout/gt-scene.glb")
    shift = gltf.to_zup(LAYOUT_SHIFT)
    return [m.vertices * LAYOUT_SCALE + shift for m in scene.world_meshes() if FURNITURE.match(m.name)]


def layout_prediction(folder: Path, case: Mapping[str, Any]) -> dict[str, Array]:
    """All named meshes of a submission."""
    return {m.name: m.vertices for m in gltf.load(folder / case["submission"]).world_meshes()}


def articulated_frames(path: Path) -> list[Array]:
    """The 32 states of an animated file, vertices in mesh order."""
    scene = gltf.load(path)
    times = [i / ARTICULATED_FPS for i in range(articulated.FRAMES)]
    states = [scene.world_meshes(t, ignore_parents=WORLD_KEYS, mesh_order=True) for t in times]
    return [np.concatenate([m.vertices for m in meshes]) for meshes in states]


def articulated_truth(folder: Path) -> articulated.ArticulatedTruth:
    """The kitchen cabinet: three doors that turn, a fixed base (part 0)."""
    path = folder / "reference/articulated/gt-animation.glb"
    labels: list[int] = []
    for mesh in gltf.load(path).world_meshes(mesh_order=True):
        kind, number = mesh.name.split(".")[:2]
        labels += [int(number) if kind == "door" else 0] * len(mesh.vertices)
    doors = sorted(set(labels) - {0})
    return articulated.ArticulatedTruth(
        np.stack(articulated_frames(path)), np.array(labels), set(doors), {d: "rotation" for d in doors}
    )


def reconstruction_truth(folder: Path) -> list[Mesh]:
    """The bedroom's furniture, in the normalised frame of its file."""
    return gltf.load(folder / "reference/reconstruction/gt-scene.glb").world_meshes()[:RECONSTRUCTION_OBJECTS]


def reconstruction_prediction(folder: Path, case: Mapping[str, Any]) -> list[Mesh]:
    """All meshes of a submission."""
    return gltf.load(folder / case["submission"]).world_meshes()


def dynamic_truth_parts(folder: Path) -> tuple[dict[str, Array], Array]:
    """Tracks of the movers `(144, 3)` and positions of the statics `(58, 3)`: origins of nodes, Z-up metres.

    Blender wrote its frame 1 at 1/24 s, so frame r of the truth is read at (r + 1)/24 s.
    """
    scene = gltf.load(folder / "reference/dynamic/gt-scene.glb")
    origins = gltf.to_zup(scene.world_matrices(np.arange(1, DYNAMIC_FRAMES + 1) / DYNAMIC_FPS)[..., :3, 3])
    by_name = {node.name: i for i, node in enumerate(scene.nodes)}
    movers = {name: origins[:, by_name[name]] for name in DYNAMIC_MOVERS}
    above = {scene.top_level(by_name[name]) for name in DYNAMIC_MOVERS}
    return movers, origins[0, [i for i in scene.roots if i not in above]]


@dataclass(frozen=True)
class Task:
    """How one task's published cases are scored.

    Attributes:
        truth: Reads the truth, once for all cases.
        prediction: Reads one submission.
        score: Prediction, truth and seed -> the evaluator's result.
    """

    truth: Callable[[Path], Any]
    prediction: Callable[[Path, Mapping[str, Any]], Any]
    score: Callable[[Any, Any, int], Any]


def evaluator(name: str) -> ModuleType:
    """The evaluator's module.

    Raises:
        ImportError: It is not there.
    """
    return importlib.import_module(f"sceneact_gym.evaluators.{name}")


def task(name: str) -> Task:
    """How to score the published cases of one task.

    Raises:
        ImportError: Its evaluator is not there.
    """
    if name == "layout":
        return Task(layout_truth, layout_prediction, lambda p, t, _: layout.evaluate(p, t))
    if name == "camera":
        return Task(
            lambda _: look_along(CAMERA_CENTRE, CAMERA_VIEW),
            lambda _, case: {"matrix_world": case["pose"]["agent_matrix_world"]},
            lambda p, t, _: camera.evaluate(p, t),
        )
    if name == "articulated":
        return Task(
            articulated_truth,
            lambda folder, case: articulated_frames(folder / case["submission"]),
            lambda p, t, _: articulated.evaluate(p, t),
        )
    module = evaluator(name)
    if name == "reconstruction":
        return Task(
            reconstruction_truth, reconstruction_prediction, lambda p, t, seed: module.evaluate(p, t, seed=seed)
        )
    if name == "dynamic":

        def truth(folder: Path) -> Any:
            tracks, statics = dynamic_truth_parts(folder)
            return module.DynamicTruth(tracks=tracks, statics=statics, scene_scale=DYNAMIC_SCALE)

        return Task(
            truth,
            lambda folder, case: module.tracks_from_gltf(gltf.load(folder / case["submission"])),
            lambda p, t, _: module.evaluate(p.tracks, p.statics, t, boxes=p.boxes, mover_sizes=p.mover_sizes),
        )
    raise ValueError(f"no task is called {name!r}")


@dataclass(frozen=True)
class Line:
    """One published figure beside the computed one."""

    task: str
    configuration: str
    metric: str
    published: float
    computed: float | None
    spread: float
    note: str


def compare(folder: Path, name: str, seeds: Sequence[int] = (0,)) -> list[Line]:
    """Published and computed metrics of all cases of one task; `spread` is max - min over the seeds."""
    how = task(name)
    truth = how.truth(folder)
    lines = []
    for case in read_cases(folder, name):
        prediction = how.prediction(folder, case)
        results = [how.score(prediction, truth, seed) for seed in seeds]
        # Two agents exported loose states; the web file keeps one of them, so nothing can be checked.
        note = ""
        if name == "articulated" and not case["has_animation"] and case["metrics"]["Recall"] > 0:
            note = "file is static: cannot be checked"
        for published, ours in METRICS[name].items():
            values = [getattr(r, ours) for r in results]
            numbers = [v for v in values if v is not None]
            spread = max(numbers) - min(numbers) if numbers else 0.0
            lines.append(
                Line(name, case["configuration"], published, case["metrics"][published], values[0], spread, note)
            )
    return lines


def main(arguments: Sequence[str] | None = None) -> int:
    """Prints the table as Markdown; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--folder", type=Path, default=default_folder())
    parser.add_argument("--task", choices=TASKS)
    parser.add_argument("--seeds", type=int, default=1, help="seeds for the spread of Reconstruction")
    options = parser.parse_args(arguments)
    if not (options.folder / "cases.json").is_file():
        print(f"no cases.json in {options.folder}: set SCENEACT_PUBLISHED or give --folder", file=sys.stderr)
        return 2
    print("| task | configuration | metric | published | computed | difference | note |")
    print("|---|---|---|---:|---:|---:|---|")
    for name in TASKS if options.task is None else (options.task,):
        began = time.perf_counter()
        try:
            lines = compare(options.folder, name, range(options.seeds) if name == "reconstruction" else (0,))
        except ImportError as problem:
            print(f"| {name} | | | | | | not computed: {problem} |")
            continue
        for line in lines:
            note = line.note or (f"spread {line.spread:.4f} over {options.seeds} seeds" if line.spread else "")
            if line.computed is None:
                print(f"| {name} | {line.configuration} | {line.metric} | {line.published:.4f} | none | | {note} |")
                continue
            print(
                f"| {name} | {line.configuration} | {line.metric} | {line.published:.4f} | {line.computed:.4f}"
                f" | {line.computed - line.published:+.4f} | {note} |"
            )
        print(f"{name}: {time.perf_counter() - began:.1f} s", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
