"""Scores a submission on disk against a truth folder: what `sceneact score` does, without any printing.

A truth folder is one of two things.

**A folder with `truth.json`** (JSON object; files are named relative to the folder, lengths are metres):

- camera: `matrix_world` (4x4, row-major, Blender), optionally `initial_matrix_world`.
- layout: `file` (GLB of the true arrangement, default `truth.glb`), optionally `objects` (a regular expression that the
  names of the furniture nodes begin with; default all meshes), `similarity` `{"scale": s, "shift": [x, y, z]}` that
  takes the file's glTF coordinates to the submission's (v * s + shift), `floor` and `object_floors`, or `initial` (GLB
  of the untouched scene, from which both follow).
- articulated: `file` (animated GLB), `fps` (default 16), `parts`: a list of `{"id", "nodes", "movable", "joint_type",
  "joint_range"}` where `nodes` is a regular expression that the names of the part's nodes begin with; other meshes are
  part 0 and fixed. `world_keys`: true if the keys of `file` are world transforms, `submission_world_keys` likewise.
- reconstruction: `file`, optionally `objects` as for layout.
- dynamic: `file` (animated GLB), `movers` (names of the moving nodes, whose origins are the tracks), optionally
  `scene_scale`; or, without `file`, `tracks` `{name: [[x, y, z], ...]}` and `statics` `[[x, y, z], ...]`, Z-up.

**A scene folder of the SceneActBench data set** as its authors publish it: `gt.json` with `canonical/` (layout),
`scene/*_full.glb` (reconstruction), `gt/gt_0000.glb` ... with `_scoring_partmap.json` and `meta.json` (articulated),
`gt/trajectory.json` with `layout_gt.json` (dynamic).

A submission is the file itself, or a folder (also a run folder of the published harness) that holds it: a GLB for
layout, reconstruction and dynamic; for articulated a folder of 32 GLB states or one animated GLB; for camera a JSON
with `matrix_world` and `fov_x_deg`, or with `agent_matrix_world` and `agent_fov_x_deg`.
"""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from sceneact_gym.evaluators import articulated, camera, gltf, layout
from sceneact_gym.evaluators.base import Array, Mesh, Protocol, check_protocol
from sceneact_gym.evaluators.gltf import GltfError, GltfScene

TASKS = ("layout", "camera", "articulated", "reconstruction", "dynamic")
FRAMES_FPS = 16
DYNAMIC_FRAMES, DYNAMIC_FPS = 144, 24
FURNITURE = r".+_[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}"
SCENE_NAMES = ("agent_scene.glb", "scene.glb", "submission.glb")
CAMERA_NAMES = ("agent_camera.json", "camera.json", "submission.json")


class TruthError(ValueError):
    """The truth folder cannot be used; the message names the file. A bad submission is no error: it scores 0."""


class _SubmissionError(ValueError):
    """The submission cannot be used; becomes the reason of an invalid result."""


def score_submission(task: str, submission: Path, truth_dir: Path, protocol: Protocol = "paper") -> dict[str, Any]:
    """Scores one submission.

    Args:
        task: One of `TASKS`.
        submission: File or folder, see above.
        truth_dir: Folder, see above.
        protocol: `paper` or `strict`.

    Returns:
        JSON-ready: `task`, `protocol`, `score` (0 to 100), `valid`, `reason`, `metrics` (by the evaluator's field
        names; units in its documentation) and `rows` (one object per true object, part or mover).

    Raises:
        TruthError: The truth folder is incomplete or damaged.
        ValueError: There is no such task or protocol.
    """
    check_protocol(protocol)
    if task not in _SCORERS:
        raise ValueError(f"no task is called {task!r}; there are {', '.join(TASKS)}")
    if not truth_dir.is_dir():
        raise TruthError(f"the truth folder {truth_dir} does not exist")
    reason = ""
    try:
        run = _SCORERS[task](truth_dir, protocol)
    except GltfError as error:
        raise TruthError(f"a GLB of the truth folder {truth_dir} is unusable: {error}") from error
    try:
        result = run(submission)
    except (GltfError, _SubmissionError) as error:
        # The evaluator itself says what an absent submission is worth and which metrics it has.
        reason = str(error)
        result = run(None)
    return _as_dict(task, result, reason)


def _as_dict(task: str, result: Any, reason: str) -> dict[str, Any]:
    """The evaluator's frozen result as JSON values."""
    metrics: dict[str, Any] = {}
    rows: list[Any] = []
    for name, value in dataclasses.asdict(result).items():
        if name in ("score", "valid", "reason", "protocol"):
            continue
        if isinstance(value, tuple | list) and dataclasses.is_dataclass(next(iter(getattr(result, name)), None)):
            rows = list(value)
        else:
            metrics[name] = list(value) if isinstance(value, tuple) else value
    return {
        "task": task,
        "protocol": result.protocol,
        "score": result.score,
        "valid": result.valid and not reason,
        "reason": reason or result.reason,
        "metrics": metrics,
        "rows": rows,
    }


# --------------------------------------------------------------------------------------------------------- small files


def _read_json(path: Path, failure: type[ValueError]) -> dict[str, Any]:
    try:
        if path.stat().st_size > gltf.MAX_JSON_BYTES:
            raise failure(f"{path.name} is larger than {gltf.MAX_JSON_BYTES} bytes")
        value = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise failure(f"{path.name} cannot be read: {error.strerror or error}") from error
    except (ValueError, RecursionError) as error:
        if isinstance(error, failure):
            raise
        raise failure(f"{path.name} is not JSON: {str(error)[:120]}") from error
    if not isinstance(value, dict):
        raise failure(f"{path.name} does not hold a JSON object")
    return value


def _truth_json(folder: Path) -> dict[str, Any] | None:
    """`truth.json`, or None for a folder without it (a scene folder of the published data set)."""
    path = folder / "truth.json"
    return _read_json(path, TruthError) if path.exists() else None


def _truth_file(folder: Path, name: Any) -> Path:
    """A file that `truth.json` names: it must exist and lie in the folder."""
    if not isinstance(name, str) or Path(name).is_absolute() or ".." in Path(name).parts:
        raise TruthError(f"truth.json names {str(name)[:80]!r}, which is not a file of its folder")
    if not (folder / name).is_file():
        raise TruthError(f"{name} is missing in {folder}")
    return folder / name


def _need(record: Mapping[str, Any], key: str, where: str) -> Any:
    if key not in record:
        raise TruthError(f"{where} has no {key!r}")
    return record[key]


def _list(record: Mapping[str, Any], key: str, where: str) -> list[Any]:
    value = _need(record, key, where)
    if not isinstance(value, list):
        raise TruthError(f"{key!r} of {where} is not a list")
    return value


def _array(value: Any, shape: tuple[int, ...], what: str) -> Array:
    """Finite numbers of the given shape (-1: any length) out of the truth."""
    try:
        array = np.asarray(value, np.float64)
    except (TypeError, ValueError, OverflowError):
        array = np.zeros(0)
    fits = array.ndim == len(shape) and all(n in (-1, m) for n, m in zip(shape, array.shape, strict=True))
    if not fits or not np.isfinite(array).all():
        raise TruthError(f"{what} is not an array of finite numbers of shape {shape}")
    return array


def _submitted(submission: Path | None, names: Sequence[str], suffix: str) -> Path | None:
    """The submitted file: itself, or the expected one of a folder, or the only one with that ending."""
    if submission is None or submission.is_file():
        return submission
    if not submission.is_dir():
        raise _SubmissionError(f"the submission {submission.name!r} does not exist")
    for name in names:
        if (submission / name).is_file():
            return submission / name
    found = sorted(p for p in submission.iterdir() if p.suffix.lower() == suffix)
    if len(found) == 1:
        return found[0]
    raise _SubmissionError(f"the submission folder has {len(found)} *{suffix} files and none is called {names[0]}")


def _select(meshes: Sequence[Mesh], pattern: Any, where: str) -> list[Mesh]:
    """The meshes whose names begin with a regular expression; all without one."""
    if pattern is not None:
        try:
            expression = re.compile(pattern)
        except (re.error, TypeError) as error:
            raise TruthError(f"'objects' of truth.json is not a regular expression: {error}") from error
        meshes = [m for m in meshes if expression.match(m.name)]
    if not meshes:
        raise TruthError(f"{where} holds no object that is to be scored")
    return list(meshes)


# -------------------------------------------------------------------------------------------------------------- tasks


def _camera(folder: Path, protocol: Protocol) -> Callable[[Path | None], Any]:
    truth = _truth_json(folder)
    if truth is None:
        raise TruthError(f"truth.json is missing in {folder}")
    truth = {**truth, "matrix_world": _array(_need(truth, "matrix_world", "truth.json"), (4, 4), "matrix_world")}

    def run(submission: Path | None) -> camera.CameraScore:
        path = _submitted(submission, CAMERA_NAMES, ".json")
        if path is None:
            return camera.evaluate(None, truth, protocol=protocol)
        pose = _read_json(path, _SubmissionError)
        predicted = {
            "matrix_world": pose.get("matrix_world", pose.get("agent_matrix_world")),
            "fov_x_deg": pose.get("fov_x_deg", pose.get("agent_fov_x_deg")),
        }
        return camera.evaluate(predicted, truth, protocol=protocol)

    return run


def _layout(folder: Path, protocol: Protocol) -> Callable[[Path | None], Any]:
    spec = _truth_json(folder)
    floor: float | None = None
    object_floors: Sequence[float] | None = None
    initial: dict[str, Array] | None = None
    if spec is None:
        truth, initial = _canonical_room(folder)
    else:
        path = _truth_file(folder, spec.get("file", "truth.glb"))
        similarity = spec.get("similarity", {})
        if not isinstance(similarity, dict):
            raise TruthError("'similarity' of truth.json is not an object")
        scale = float(_array(similarity.get("scale", 1.0), (), "similarity.scale"))
        shift = gltf.to_zup(_array(similarity.get("shift", [0, 0, 0]), (3,), "similarity.shift"))
        meshes = _select(gltf.load(path).world_meshes(), spec.get("objects"), path.name)
        truth = [m.vertices * scale + shift for m in meshes]
        if "floor" in spec:
            floor = float(_array(spec["floor"], (), "floor"))
        if "object_floors" in spec:
            object_floors = _array(spec["object_floors"], (len(truth),), "object_floors").tolist()
        if "initial" in spec:
            initial = _by_name(gltf.load(_truth_file(folder, spec["initial"])))
    if initial is not None and floor is None and protocol == "strict":
        floor, object_floors = layout.do_nothing(initial, truth)

    def run(submission: Path | None) -> layout.LayoutScore:
        path = _submitted(submission, SCENE_NAMES, ".glb")
        predicted = {} if path is None else _by_name(gltf.load(path))
        return layout.evaluate(predicted, truth, protocol=protocol, floor=floor, object_floors=object_floors)

    return run


def _by_name(scene: GltfScene) -> dict[str, Array]:
    """Vertices by node name; a repeated name gets a number, so that no object is lost."""
    out: dict[str, Array] = {}
    for mesh in scene.world_meshes():
        name, count = mesh.name, 1
        while name in out:
            count += 1
            name = f"{mesh.name}#{count}"
        out[name] = mesh.vertices
    return out


def _canonical_room(folder: Path) -> tuple[list[Array], dict[str, Array]]:
    """True arrangement and initial scene of a published room: canonical objects, placed as `gt.json` says."""
    gt = _read_json(folder / "gt.json", TruthError)
    truth, initial = [], {}
    for i, record in enumerate(_list(gt, "objects", "gt.json")):
        where = f"gt.json: objects[{i}]"
        if not isinstance(record, dict):
            raise TruthError(f"{where} is not an object")
        name = str(_need(record, "anon_id", where))
        meshes = gltf.load(_truth_file(folder, f"canonical/{name}.glb")).world_meshes()
        if not meshes:
            raise TruthError(f"canonical/{name}.glb has no mesh")
        vertices = np.concatenate([m.vertices for m in meshes])
        place = gltf.to_zup(_array(_need(record, "location", where), (3,), f"{where}.location"))
        yaw = float(_array(record.get("rotation", 0.0), (), f"{where}.rotation"))
        c, s = np.cos(yaw), np.sin(yaw)
        truth.append(vertices @ np.array([[c, -s, 0], [s, c, 0], [0, 0, 1]]).T + place)
        initial[f"{layout.PREFIX}{i:03d}"] = vertices
    return truth, initial


def _articulated(folder: Path, protocol: Protocol) -> Callable[[Path | None], Any]:
    spec = _truth_json(folder)
    world_keys = False
    if spec is None:
        truth = _frames_truth(folder)
    else:
        truth = _animated_truth(folder, spec)
        world_keys = spec.get("submission_world_keys", False) is True
    fps = FRAMES_FPS if spec is None else _fps(spec)

    def run(submission: Path | None) -> articulated.ArticulatedScore:
        if submission is None:
            return articulated.evaluate([], truth, protocol=protocol)
        frames, current = _states(submission, fps, world_keys)
        return articulated.evaluate(frames, truth, protocol=protocol, current=current)

    return run


def _fps(spec: Mapping[str, Any]) -> float:
    fps = float(_array(spec.get("fps", FRAMES_FPS), (), "fps"))
    if fps <= 0:
        raise TruthError("'fps' of truth.json is not positive")
    return fps


def _states(submission: Path, fps: float, world_keys: bool) -> tuple[list[Array | None], Array | None]:
    """The submitted states, None where a file is missing, and the final scene's state where the folder holds it."""
    if submission.is_dir():
        inner = submission / "agent_frames"
        files = sorted((inner if inner.is_dir() else submission).glob("*.glb"))
        numbered = {int(m.group(1)): p for p in files if (m := re.search(r"_(\d{4})\.glb$", p.name))}
        if numbered:
            frames: list[Array | None] = [None] * articulated.FRAMES
            for i, path in numbered.items():
                if i < articulated.FRAMES:
                    frames[i] = _merged(gltf.load(path))
            scene = submission / SCENE_NAMES[0]
            return frames, _merged(gltf.load(scene)) if scene.is_file() else None
    file = _submitted(submission, SCENE_NAMES, ".glb")
    assert file is not None  # only for a missing submission, which `run` handles
    animated = gltf.load(file)
    return [_merged(animated, i / fps, world_keys) for i in range(articulated.FRAMES)], None


def _merged(scene: GltfScene, time: float | None = None, world_keys: bool = False) -> Array:
    """All vertices in mesh-index order."""
    meshes = scene.world_meshes(time, ignore_parents=world_keys, mesh_order=True)
    return np.concatenate([m.vertices for m in meshes]) if meshes else np.zeros((0, 3))


def _animated_truth(folder: Path, spec: Mapping[str, Any]) -> articulated.ArticulatedTruth:
    path = _truth_file(folder, spec.get("file", "truth.glb"))
    scene, fps, world_keys = gltf.load(path), _fps(spec), spec.get("world_keys", False) is True
    parts = _list(spec, "parts", "truth.json")
    if not all(isinstance(p, dict) for p in parts):
        raise TruthError("'parts' of truth.json is not a list of objects")
    try:
        patterns = [(int(_need(p, "id", "a part")), re.compile(_need(p, "nodes", "a part"))) for p in parts]
    except (re.error, TypeError, ValueError) as error:
        if isinstance(error, TruthError):
            raise
        raise TruthError(f"a part of truth.json has a bad 'id' or 'nodes': {error}") from error
    labels: list[int] = []
    for mesh in scene.world_meshes(mesh_order=True):
        part = next((number for number, pattern in patterns if pattern.match(mesh.name)), 0)
        labels += [part] * len(mesh.vertices)
    frames = [_merged(scene, i / fps, world_keys) for i in range(articulated.FRAMES)]
    ids = [number for number, _ in patterns]
    return articulated.ArticulatedTruth(
        np.stack(frames),
        np.array(labels, np.int64),
        {i for i, p in zip(ids, parts, strict=True) if p.get("movable", True)},
        {i: str(p["joint_type"]) for i, p in zip(ids, parts, strict=True) if "joint_type" in p},
        {
            i: float(_array(p["joint_range"], (), "joint_range"))
            for i, p in zip(ids, parts, strict=True)
            if "joint_range" in p
        },
    )


def _frames_truth(folder: Path) -> articulated.ArticulatedTruth:
    """The truth of a published articulated object: 32 GLBs, the part map and the joints."""
    partmap = _read_json(folder / "_scoring_partmap.json", TruthError)
    meta = _read_json(folder / "meta.json", TruthError)
    frames = [_merged(gltf.load(_truth_file(folder, f"gt/gt_{i:04d}.glb"))) for i in range(articulated.FRAMES)]
    total = int(_array(_need(partmap, "total_verts", "_scoring_partmap.json"), (), "total_verts"))
    for i, frame in enumerate(frames):
        if len(frame) != total:
            raise TruthError(f"gt/gt_{i:04d}.glb has {len(frame)} vertices, _scoring_partmap.json says {total}")
    labels = np.full(total, -1)
    movable = set()
    for k, segment in enumerate(_list(partmap, "segments", "_scoring_partmap.json")):
        try:
            start, count, part = (int(segment[key]) for key in ("v_start", "v_count", "pid"))
        except (KeyError, TypeError, ValueError) as error:
            raise TruthError(f"_scoring_partmap.json: segments[{k}] lacks v_start, v_count or pid") from error
        labels[start : start + count] = part
        if segment.get("movable"):
            movable.add(part)
    joints = meta.get("joints", {})
    try:
        kinds = {int(part): str(joint["type"]) for part, joint in joints.items()}
        ranges = {int(part): abs(float(joint.get("rangeMax", 0.0))) for part, joint in joints.items()}
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise TruthError(f"'joints' of meta.json is damaged: {error!r}") from error
    return articulated.ArticulatedTruth(np.stack(frames), labels, movable, kinds, ranges)


def _reconstruction(folder: Path, protocol: Protocol) -> Callable[[Path | None], Any]:
    from sceneact_gym.evaluators import reconstruction

    spec = _truth_json(folder)
    if spec is None:
        full = sorted((folder / "scene").glob("*_full.glb"))
        if len(full) != 1:
            raise TruthError(f"{folder} has neither truth.json nor exactly one scene/*_full.glb")
        path = full[0]
        pattern: Any = FURNITURE
    else:
        path, pattern = _truth_file(folder, spec.get("file", "truth.glb")), spec.get("objects")
    truth = _select(gltf.load(path).world_meshes(), pattern, path.name)

    def run(submission: Path | None) -> Any:
        found = _submitted(submission, SCENE_NAMES, ".glb")
        predicted = [] if found is None else gltf.load(found).world_meshes()
        return reconstruction.evaluate(predicted, truth, protocol=protocol)

    return run


def _dynamic(folder: Path, protocol: Protocol) -> Callable[[Path | None], Any]:
    from sceneact_gym.evaluators import dynamic

    spec = _truth_json(folder)
    scale = None
    if spec is None:
        tracks, statics = _trajectories(folder)
    elif "file" in spec:
        tracks, statics = _origins(gltf.load(_truth_file(folder, spec["file"])), _need(spec, "movers", "truth.json"))
    else:
        given = _need(spec, "tracks", "truth.json")
        if not isinstance(given, dict):
            raise TruthError("'tracks' of truth.json is not an object")
        tracks = {name: _array(track, (-1, 3), f"tracks.{name}") for name, track in given.items()}
        statics = _places(spec.get("statics", []), "statics")
    if spec is not None and spec.get("scene_scale") is not None:
        scale = float(_array(spec["scene_scale"], (), "scene_scale"))
    truth = dynamic.DynamicTruth(tracks=tracks, statics=statics, scene_scale=scale)

    def run(submission: Path | None) -> Any:
        path = _submitted(submission, SCENE_NAMES, ".glb")
        if path is None:
            return dynamic.evaluate({}, np.zeros((0, 3)), truth, protocol=protocol)
        found = dynamic.tracks_from_gltf(gltf.load(path), protocol=protocol)
        return dynamic.evaluate(
            found.tracks, found.statics, truth, protocol=protocol, boxes=found.boxes, mover_sizes=found.mover_sizes
        )

    return run


def _places(value: Any, what: str) -> Array:
    return np.zeros((0, 3)) if value == [] else _array(value, (-1, 3), what)


def _origins(scene: GltfScene, movers: Any) -> tuple[dict[str, Array], Array]:
    """Tracks of the named nodes' origins, and the places of the other top-level nodes at the first frame.

    Blender writes its frame 1 at 1/24 s, so frame r of the truth is read at (r + 1)/24 s.
    """
    by_name = {scene.nodes[i].name: i for i in reversed(scene.active)}
    if not isinstance(movers, list) or not all(isinstance(m, str) and m in by_name for m in movers):
        raise TruthError("'movers' of truth.json must list names of nodes of the file")
    origins = gltf.to_zup(scene.world_matrices(np.arange(1, DYNAMIC_FRAMES + 1) / DYNAMIC_FPS)[..., :3, 3])
    above = {scene.top_level(by_name[name]) for name in movers}
    standing = [i for i in scene.roots if i not in above]
    return {name: origins[:, by_name[name]] for name in movers}, origins[0, standing]


def _trajectories(folder: Path) -> tuple[dict[str, Array], Array]:
    """Tracks and places of a published dynamic scene; what has no `f` and `loc` is not a mover."""
    tracks: dict[str, Array] = {}
    for name, keys in _read_json(folder / "gt" / "trajectory.json", TruthError).items():
        if not isinstance(keys, list) or not keys:
            continue
        if not all(isinstance(k, dict) and "f" in k and "loc" in k for k in keys):
            continue
        track = np.full((DYNAMIC_FRAMES, 3), np.nan)
        for key in keys:
            frame = int(_array(key["f"], (), f"gt/trajectory.json: {name}")) - 1
            if 0 <= frame < DYNAMIC_FRAMES:
                track[frame] = _array(key["loc"], (3,), f"gt/trajectory.json: {name}")
        tracks[name] = track
    listed = _read_json(folder / "layout_gt.json", TruthError)
    objects = listed.get("objects", listed.get("static_objects", []))
    if not isinstance(objects, list) or not all(isinstance(o, dict) for o in objects):
        raise TruthError("layout_gt.json does not list objects")
    places = [o.get("location", o.get("loc")) for o in objects]
    return tracks, _places(places, "layout_gt.json: locations")


_SCORERS: dict[str, Callable[[Path, Protocol], Callable[[Path | None], Any]]] = {
    "layout": _layout,
    "camera": _camera,
    "articulated": _articulated,
    "reconstruction": _reconstruction,
    "dynamic": _dynamic,
}
