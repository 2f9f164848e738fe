"""Cases of a few boxes, submissions to them and run folders, all made by hand and without Blender."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from sceneact_gym._version import __version__
from sceneact_gym.blender.render import encode_png
from sceneact_gym.cases import Case, Public, View
from sceneact_gym.data.glb import Material, Node, Part, write_glb
from sceneact_gym.envs import ENVS
from sceneact_gym.tasks import TASKS, Submission

PAINT = Material("paint", (0.5, 0.5, 0.5))
FACES = np.array(
    [[0, 2, 1], [1, 2, 3], [4, 5, 6], [5, 7, 6], [0, 1, 4], [1, 5, 4], [2, 6, 3], [3, 6, 7], [0, 4, 2], [2, 4, 6]]
    + [[1, 3, 5], [3, 7, 5]]
)
CORNERS = np.array([[x, y, z] for z in (0, 1) for y in (0, 1) for x in (0, 1)], float)
EYE = np.array([[1.0, 0, 0, 0], [0, 0, -1, -6], [0, 1, 0, 1], [0, 0, 0, 1]])
"""A camera at (0, -6, 1) that looks along +Y."""
VIEW = View("camera", EYE, 40.0)


def box(low: Sequence[float], size: Sequence[float]) -> Part:
    """An upright box."""
    return Part(np.asarray(low, float) + CORNERS * np.asarray(size, float), FACES, PAINT)


def glb(**parts: Part) -> bytes:
    """Boxes as a file, named by the arguments."""
    return write_glb([Node(name, [part]) for name, part in parts.items()])


def as_truth(data: bytes) -> np.ndarray:
    return np.frombuffer(data, np.uint8)


def shifts(steps: np.ndarray) -> np.ndarray:
    """(T, 4, 4) poses from (T, 3) places."""
    poses = np.tile(np.eye(4), (len(steps), 1, 1))
    poses[:, :3, 3] = steps
    return poses


TABLE, SHELF = box((0, 0, 0), (1, 0.6, 0.7)), box((2, 1, 0), (0.5, 0.5, 1.8))
ROOM = glb(object_00=TABLE, object_01=SHELF)


def layout_case(task: str = "layout") -> Case:
    """Two pieces; its true floor is 1 m."""
    public = Public(views=(VIEW,), data={"objects": ["object_00", "object_01"]})
    return Case("two-boxes", task, public, {"scene.glb": as_truth(ROOM), "floor": 1.0, "object_floors": [1.0, 1.0]})


def layout_submission(shift: Sequence[float] = (0.3, 0.0, 0.0)) -> Submission:
    """The second piece is off by `shift`, metres."""
    return Submission({"objects": []}, {"scene.glb": glb(object_00=TABLE, object_01=SHELF.moved(shift))})


def reconstruction_case() -> Case:
    return Case("two-boxes", "reconstruction", Public(views=(VIEW,)), {"scene.glb": as_truth(ROOM)})


def camera_case() -> Case:
    return Case(
        "one-room",
        "camera",
        Public({"scene.glb": ROOM}, data={"fov_x_deg": 40.0, "objects": ["object_00", "object_01"]}),
        {"matrix_world": EYE, "fov_x_deg": 40.0},
    )


def camera_submission() -> Submission:
    """The camera is 2 m to the right."""
    matrix = EYE + np.array([[0, 0, 0, 2.0], [0] * 4, [0] * 4, [0] * 4])
    return Submission({"matrix_world": matrix.tolist(), "fov_x_deg": 40.0, "changed_objects": []})


def opening(frame: int) -> float:
    return min(frame, 32 - frame) / 16


def articulated_case() -> Case:
    """A body, and a drawer that slides by 0.8 m along -Y, both of 8 vertices."""
    body, drawer = box((0, 0, 0), (1, 1, 1)), box((0.1, -0.1, 0.2), (0.8, 0.9, 0.3))
    slide = np.array([[0, -0.8 * opening(frame), 0] for frame in range(32)])
    frames = np.stack([np.concatenate([body.vertices, drawer.vertices + step]) for step in slide])
    parts = [
        {"id": 0, "joint_type": None, "nodes": ["node_000"], "range": 0.0},
        {"id": 1, "joint_type": "translation", "nodes": ["node_001"], "range": 0.8},
    ]
    return Case(
        "one-drawer",
        "articulated",
        Public(
            {"object.glb": glb(node_000=body, node_001=drawer)}, (VIEW,), data={"objects": ["node_000", "node_001"]}
        ),
        {
            "frames": frames.astype(np.float32),
            "part_of_vertex": np.repeat([0, 1], 8),
            "parts": parts,
            "poses": np.stack([np.tile(np.eye(4), (32, 1, 1)), shifts(slide)], axis=1),
        },
    )


def states(frames: np.ndarray) -> Submission:
    """(32, V, 3) vertices as a submission."""
    return Submission({"vertices": [frames.shape[1]] * len(frames)}, {"frames.f32": frames.astype("<f4").tobytes()})


def dynamic_glb(speed: float = 0.05, side: float = 0.0) -> bytes:
    """Ground, and a car with a load upon it that drives along +X by `speed` metres a frame, at y = `side`."""
    places = np.array([[speed * frame, side, 0.1] for frame in range(144)])
    load = Node("load", [box((0, 0, 0.5), (0.3, 0.3, 0.3))])
    car = Node("mover_00", [box((0, 0, 0), (1, 0.5, 0.5))], poses=shifts(places), children=[load])
    return write_glb([Node("static_00", [box((-1, -2, -0.1), (10, 5, 0.1))]), car])


def dynamic_case(task: str = "dynamic") -> Case:
    tracks = np.array([[[0.05 * frame, 0, 0.1] for frame in range(144)]])
    return Case(
        "one-car",
        task,
        Public(views=(VIEW,), data={"components": []}),
        {"scene.glb": as_truth(dynamic_glb()), "movers": ["mover_00"], "tracks": tracks, "statics": np.zeros((1, 3))},
    )


# --------------------------------------------------------------------------------------------------------- run folders


def picture(value: int, size: int = 24) -> bytes:
    """A PNG of one grey."""
    return encode_png(np.full((size, size, 3), value, np.uint8))


def run_folder(path: Path, source: Path, episodes: Sequence[Mapping[str, Any]], **config: Any) -> Path:
    """A run folder.

    Args:
        path: where to.
        source: the folder of its cases.
        episodes: each with `case`, `submission` (None for none), and perhaps `turns` (pairs of an action and its
            results, whose `images` are PNG files) and `row` (further values of its row).
        config: values of its configuration.
    """
    path.mkdir(parents=True)
    tasks = sorted({episode["case"].task for episode in episodes})
    about = {"agent": "noop", "tasks": tasks, "source": str(source), **config}
    (path / "config.json").write_text(json.dumps({"package": __version__, "config": about}))
    rows = []
    for number, episode in enumerate(episodes):
        case, key = episode["case"], f"{episode['case'].task}-{episode['case'].id}-r{number}"
        folder = path / "episodes" / f"{key}-a1"
        (folder / "images").mkdir(parents=True)
        events: list[dict[str, Any]] = [
            {"event": "begin", "system_prompt": "The <rules>.", "prompt": "The task.", "references": [], "tools": []}
        ]
        events[0]["references"] = [_store(folder, picture(200 + number))]
        for step, (action, results) in enumerate(episode.get("turns", ()), 1):
            stored = [
                {"name": "", "is_error": False, "text": "", **result}
                | {"images": [_store(folder, data) for data in result.get("images", ())]}
                for result in results
            ]
            events.append({"event": "step", "step": step, "action": action, "results": stored})
        (folder / "trace.jsonl").write_text("".join(json.dumps(event) + "\n" for event in events))
        submission = episode["submission"]
        if submission is not None:
            (folder / "submission.json").write_text(json.dumps(dict(submission.data)))
            for name, data in submission.files.items():
                (folder / name).write_bytes(data)
        rows.append(
            {
                **{"key": key, "attempt": 1, "folder": folder.name, "env_id": env_of(case.task), "task": case.task},
                **{"case_id": case.id, "repeat": number, "seed": 0, "status": "ok", "score": 50.0},
                **{"score_paper": 50.0, "score_strict": 25.0, "metrics": {"add_s": 0.15}, "reason": ""},
                **{"steps": len(events) - 1, "tool_calls": 3, "checkpoints": {}, "setting": {"budget": 30}},
                **{"privileged": False, "usage": None, "seconds": 1.5},
                **episode.get("row", {}),
            }
        )
    (path / "episodes.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def env_of(task: str) -> str:
    assert TASKS[task].env_id in ENVS
    return TASKS[task].env_id


def _store(folder: Path, data: bytes) -> str:
    name = hashlib.sha256(data).hexdigest()
    (folder / "images" / f"{name}.png").write_bytes(data)
    return name


def save_cases(folder: Path, cases: Sequence[Case]) -> Path:
    """The cases as a folder to open as a source."""
    for case in cases:
        case.save(folder / f"{case.task}-{case.id}")
    return folder
