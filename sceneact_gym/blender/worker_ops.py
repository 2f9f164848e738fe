"""What a worker can do, one public function per operation. Runs inside Blender; see `worker` for the protocol.

Angles in degrees, lengths in metres, matrices 4x4 row-major `matrix_world`, frames 1-based as Blender shows them.
An operation that cannot do what was asked raises `Refused` with a sentence for the agent.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import linecache
import math
import os
import socket
import traceback
from collections.abc import Iterator
from typing import Any

import bpy
import numpy as np
from mathutils import Euler, Matrix, Vector

OPERATIONS = (
    "hello",
    "renderer",
    "new_scene",
    "open_scene",
    "save_scene",
    "add_cube",
    "import_glb",
    "set_lighting",
    "add_camera",
    "set_frames",
    "fingerprint",
    "camera_state",
    "scene_info",
    "object_info",
    "execute",
    "render",
    "set_camera_pose",
    "set_object_pose",
    "set_keyframes",
    "evaluated_meshes",
    "animated_vertices",
    "animated_scene",
)

AGENT_FILE = "<agent code>"
FOLDER = os.getcwd()
"""The only folder that can be written; agent code may change the current one."""
GEOMETRY = {"MESH", "CURVE", "SURFACE", "FONT", "META"}
ELEMENT_LIMIT = 20_000_000
OBJECT_LIMIT = 10_000
ENGINES = {
    "cycles": "CYCLES",
    "workbench": "BLENDER_WORKBENCH",
    # The engine that took EEVEE's place in 4.2 got the old name back in 5.0.
    "eevee": "BLENDER_EEVEE_NEXT" if bpy.app.version < (5, 0, 0) else "BLENDER_EEVEE",
}


class Refused(Exception):
    """The request is wrong; the message says what would be right."""


# --- session -----------------------------------------------------------------------------------------------------


def hello(canary: str = "") -> dict:
    """Versions, and whether the walls hold: tries to read the file `canary` and to open a socket."""
    escaped = []
    if canary:
        with contextlib.suppress(OSError), open(canary, "rb") as file:
            file.read(1)
            escaped.append("read a file outside its folder")
    with contextlib.suppress(OSError), socket.socket(socket.AF_INET, socket.SOCK_DGRAM):
        escaped.append("opened a socket")
    return {
        "blender": bpy.app.version_string,
        "version": list(bpy.app.version),
        "pid": os.getpid(),
        "escaped": escaped,
    }


def renderer() -> str:
    """Name of the graphics device; known once Workbench or EEVEE has rendered."""
    import gpu  # type: ignore[import-not-found]

    return gpu.platform.renderer_get()


def new_scene() -> None:
    """An empty scene with factory settings: no object, no world, 24 fps."""
    bpy.ops.wm.read_factory_settings(use_empty=True)
    scene = _scene()
    scene.render.fps = 24
    # Undo steps would cost memory with every operator call and nobody can press undo here.
    bpy.context.preferences.edit.use_global_undo = False


def open_scene(path: str) -> None:
    """Replaces everything by a snapshot that `save_scene` made."""
    _drop_handlers("load")
    bpy.ops.wm.open_mainfile(filepath=path, load_ui=False, use_scripts=False)


def save_scene(path: str) -> None:
    """Writes a snapshot."""
    _object_mode()
    _drop_handlers("save")
    bpy.ops.wm.save_as_mainfile(filepath=path, copy=True, compress=False, check_existing=False)


# --- building a scene ---------------------------------------------------------------------------------------------


def add_cube() -> None:
    """A lit cube of 2 m at the origin: what an engine has to show to be proven."""
    bpy.ops.mesh.primitive_cube_add()
    set_lighting([1.0, 1.0, 1.0], 0.5, [{"energy": 2.0, "rotation_deg": [40.0, 20.0, 0.0], "angle_deg": 1.0}])


def import_glb(data: bytes, rename: str = "") -> list[str]:
    """Imports a GLB; with `rename` its only top-level object gets that name. Returns the new objects' names."""
    if data[:4] != b"glTF":
        raise Refused("the data is not a binary glTF file (.glb)")
    before = set(bpy.data.objects)
    path = os.path.join(FOLDER, "import.glb")
    with open(path, "wb") as file:
        file.write(data)
    try:
        bpy.ops.import_scene.gltf(filepath=path, loglevel=50)
    except RuntimeError as problem:
        raise Refused(f"Blender's glTF importer refused the file: {problem}") from problem
    finally:
        with contextlib.suppress(OSError):
            os.unlink(path)
    created = [thing for thing in bpy.data.objects if thing not in before]
    if rename:
        tops = [thing for thing in created if thing.parent is None]
        if len(tops) != 1:
            raise Refused(f"the file has {len(tops)} top-level objects where one is expected")
        tops[0].name = rename
    for thing in created:
        thing.select_set(False)
    bpy.context.view_layer.objects.active = None
    _update()
    return sorted(thing.name for thing in created)


def set_lighting(world_color: list[float], world_strength: float, suns: list[dict]) -> None:
    """An even world and sun lamps: the same light for the reference and for the agent.

    Args:
        world_color: linear RGB of the world's background.
        world_strength: its strength.
        suns: one dict per sun with `energy` (W/m2), `rotation_deg` (XYZ), `angle_deg` (the sun's apparent size).
    """
    scene = _scene()
    world = bpy.data.worlds.new("world")
    world.use_nodes = True
    background = next(node for node in world.node_tree.nodes if node.type == "BACKGROUND")
    background.inputs["Color"].default_value = (*world_color, 1.0)
    background.inputs["Strength"].default_value = world_strength
    if hasattr(world, "cycles"):
        # An even world needs no importance map: without one a picture takes about two thirds of the time.
        world.cycles.sampling_method = "NONE"
    scene.world = world
    for index, sun in enumerate(suns):
        data = bpy.data.lights.new(f"sun_{index}", "SUN")
        data.energy = sun["energy"]
        data.angle = math.radians(sun["angle_deg"])
        thing = bpy.data.objects.new(f"sun_{index}", data)
        thing.rotation_euler = [math.radians(angle) for angle in sun["rotation_deg"]]
        scene.collection.objects.link(thing)
    _update()


def add_camera(name: str, matrix: list, fov_x_deg: float, active: bool = False) -> None:
    """Adds a camera with a horizontal field of view."""
    scene = _scene()
    camera = bpy.data.objects.new(name, bpy.data.cameras.new(name))
    camera.matrix_world = Matrix(matrix)
    _set_fov(camera.data, fov_x_deg)
    scene.collection.objects.link(camera)
    if active:
        scene.camera = camera
    _update()


def set_frames(first: int, last: int) -> None:
    """Sets the frame range and shows its first frame."""
    scene = _scene()
    scene.frame_start, scene.frame_end = first, last
    scene.frame_set(first)


# --- what the parent asks for itself -------------------------------------------------------------------------------


def fingerprint(names: list[str]) -> dict[str, str]:
    """A hash per object of its placement, its mesh, its materials and whether it is shown in renders."""
    _update()
    prints = {}
    for name in names:
        thing = _scene().objects.get(name)
        if thing is None:
            prints[name] = "missing"
            continue
        digest = hashlib.sha256(np.round(np.array(thing.matrix_world, float), 4).astype(np.float32).tobytes())
        digest.update(json.dumps([thing.type, thing.hide_render, thing.visible_camera]).encode())
        if thing.type == "MESH":
            mesh = thing.data
            points = np.empty(3 * len(mesh.vertices), np.float32)
            mesh.vertices.foreach_get("co", points)
            digest.update(points.tobytes())
            materials = [slot.material.name if slot.material else "" for slot in thing.material_slots]
            digest.update(json.dumps([len(mesh.polygons), materials, [m.type for m in thing.modifiers]]).encode())
        prints[name] = digest.hexdigest()[:16]
    return prints


def camera_state() -> dict | None:
    """The active camera's pose and horizontal field of view, or None without an active camera."""
    _update()
    camera = _scene().camera
    if camera is None or camera.type != "CAMERA":
        return None
    return {
        "name": camera.name,
        "matrix_world": [list(row) for row in camera.matrix_world],
        "fov_x_deg": _fov(camera.data),
    }


def evaluated_meshes(prefix: str = "") -> tuple[dict, list[bytes]]:
    """The meshes that a render would show, in the world: modifiers applied, instances made real.

    Returns:
        `meshes`: a row per mesh with `name` and its numbers of `vertices` and `triangles`; then all vertices as float32
        xyz and all triangles as int32 indices into their own mesh, one mesh after the other.
    """
    _object_mode()
    _update()
    rows, points, triangles = [], [], []
    for owner, instance, local, corners in _shown_meshes(prefix):
        matrix = np.array(instance.matrix_world, np.float64)
        world = local.astype(np.float64) @ matrix[:3, :3].T + matrix[:3, 3]
        rows.append({"name": owner.name, "vertices": len(world), "triangles": len(corners) // 3})
        points.append(world.astype("<f4").tobytes())
        triangles.append(corners.tobytes())
    return {"meshes": rows}, [b"".join(points), b"".join(triangles)]


def animated_scene(frames: list[int]) -> tuple[dict, list[bytes]]:
    """The meshes that a render of the first frame would show, and how they and what they hang from move.

    Instances become objects of their own that hang from the object which makes them. The scene's current frame is put
    back.

    Args:
        frames: 1-based.

    Returns:
        `nodes`: a row per object with `name`, `parent` (an earlier or later row, or -1) and the numbers of `vertices`
        and `triangles` of its mesh (0 without one), and `moving`: the rows whose place in the world is not the same in
        all frames. Then vertices in the object's frame (float32 xyz), triangles (int32), the world matrix of each row
        in the first frame (float32, 4x4), and those of the moving rows in all frames, one frame after the other.
    """
    _object_mode()
    scene = _scene()
    rows: list[dict[str, Any]] = []
    points, triangles = [], []
    objects: list[bpy.types.Object] = []
    numbers: dict[bpy.types.Object, int] = {}
    fixed: dict[int, Matrix] = {}
    with contextlib.ExitStack() as undo:
        undo.callback(scene.frame_set, scene.frame_current)
        scene.frame_set(frames[0])

        def number(thing: bpy.types.Object) -> int:
            """The row of an object; it and its ancestors are added when they are new."""
            if thing not in numbers:
                row = {"name": thing.name, "parent": -1, "vertices": 0, "triangles": 0}
                numbers[thing] = len(rows)
                rows.append(row)
                objects.append(thing)
                if thing.parent is not None:
                    row["parent"] = number(thing.parent)
            return numbers[thing]

        shapes = []
        for owner, instance, local, corners in _shown_meshes(""):
            # The matrix is copied at once: the instance is gone with the next one.
            shapes.append((owner, Matrix(instance.matrix_world) if instance.is_instance else None, local, corners))
        for owner, _, _, _ in shapes:
            number(owner)
        meshes: dict[int, tuple] = {}
        for owner, matrix, local, corners in shapes:
            row = numbers[owner]
            if matrix is not None:
                parent, row = row, len(rows)
                rows.append({"name": owner.name, "parent": parent, "vertices": 0, "triangles": 0})
                fixed[row] = owner.matrix_world.inverted_safe() @ matrix
            meshes[row] = (local, corners)
        if len(rows) > OBJECT_LIMIT:
            raise Refused(f"the scene has more than {OBJECT_LIMIT} objects: it is too large to collect")
        for row, (local, corners) in sorted(meshes.items()):
            rows[row]["vertices"], rows[row]["triangles"] = len(local), len(corners) // 3
            points.append(local.tobytes())
            triangles.append(corners.tobytes())
        poses = np.empty((len(frames), len(rows), 4, 4), np.float32)
        for step, frame in enumerate(frames):
            scene.frame_set(frame)
            graph = bpy.context.evaluated_depsgraph_get()
            for row, thing in enumerate(objects):
                poses[step, row] = np.array(thing.evaluated_get(graph).matrix_world)
            for row, relative in fixed.items():
                poses[step, row] = poses[step, rows[row]["parent"]] @ np.array(relative)
    moving = np.flatnonzero((poses != poses[0]).any(axis=(0, 2, 3)))
    blobs = [b"".join(points), b"".join(triangles), poses[0].tobytes(), poses[:, moving].tobytes()]
    return {"nodes": rows, "moving": moving.tolist()}, blobs


def _shown_meshes(prefix: str) -> Iterator[tuple]:
    """Per mesh that a render would show: owner, instance, local vertices (V, 3) float32, triangle corners int32."""
    total = 0
    for instance in bpy.context.evaluated_depsgraph_get().object_instances:
        thing = instance.object
        shown = instance.show_self and not thing.original.hide_render
        owner = instance.parent.original if instance.is_instance and instance.parent else thing.original
        if not shown or owner.hide_render or thing.type not in GEOMETRY or not owner.name.startswith(prefix):
            continue
        mesh = thing.to_mesh()
        if mesh is None:
            continue
        mesh.calc_loop_triangles()
        total += len(mesh.vertices) + len(mesh.loop_triangles)
        if total > ELEMENT_LIMIT:
            raise Refused(f"the scene has more than {ELEMENT_LIMIT} vertices and triangles: it is too large to collect")
        local = np.empty(3 * len(mesh.vertices), "<f4")
        mesh.vertices.foreach_get("co", local)
        corners = np.empty(3 * len(mesh.loop_triangles), "<i4")
        mesh.loop_triangles.foreach_get("vertices", corners)
        yield owner, instance, local.reshape(-1, 3), corners
        thing.to_mesh_clear()


def animated_vertices(names: list[str], frames: list[int], limit: int) -> tuple[dict, list[bytes]]:
    """World vertices of meshes in several frames, modifiers applied; the scene's current frame is put back.

    Args:
        names: the meshes, in the order in which their vertices come.
        frames: 1-based.
        limit: vertices per frame that are not exceeded.

    Returns:
        `vertices`: their number per frame; then all of them as float32 xyz, one frame after the other.
    """
    _object_mode()
    scene = _scene()
    counts, points = [], []
    with contextlib.ExitStack() as undo:
        undo.callback(scene.frame_set, scene.frame_current)
        for frame in frames:
            scene.frame_set(frame)
            graph = bpy.context.evaluated_depsgraph_get()
            total = 0
            for name in names:
                thing = _object(name).evaluated_get(graph)
                if thing.type != "MESH":
                    raise Refused(f"{name!r} is no mesh any more")
                mesh = thing.to_mesh()
                total += len(mesh.vertices)
                if total > limit:
                    raise Refused(f"the meshes have more than {limit} vertices in frame {frame}")
                local = np.empty(3 * len(mesh.vertices), np.float32)
                mesh.vertices.foreach_get("co", local)
                thing.to_mesh_clear()
                matrix = np.array(thing.matrix_world, np.float64)
                world = local.reshape(-1, 3).astype(np.float64) @ matrix[:3, :3].T + matrix[:3, 3]
                points.append(world.astype("<f4").tobytes())
            counts.append(total)
    return {"vertices": counts}, [b"".join(points)]

# --- tools ----------------------------------------------------------------------------------------------------------


def scene_info() -> dict:
    """All objects with their placement, the cameras and the frame range."""
    _update()
    scene = _scene()
    objects = []
    for thing in sorted(scene.objects, key=lambda thing: thing.name):
        location, rotation, scale = thing.matrix_world.decompose()
        row: dict[str, Any] = {
            "name": thing.name,
            "type": thing.type,
            "location": _rounded(location),
            "rotation_deg": _rounded(math.degrees(angle) for angle in rotation.to_euler("XYZ")),
            "scale": _rounded(scale),
        }
        box = _world_box(thing)
        if box is not None:
            row["bounding_box"] = {"min": _rounded(box[0]), "max": _rounded(box[1])}
        objects.append(row)
    return {
        "objects": objects,
        "cameras": [
            {"name": thing.name, "active": thing == scene.camera, "fov_x_deg": round(_fov(thing.data), 4)}
            for thing in sorted(scene.objects, key=lambda thing: thing.name)
            if thing.type == "CAMERA"
        ],
        "frame_range": [scene.frame_start, scene.frame_end],
        "frame": scene.frame_current,
        "fps": scene.render.fps,
    }


def object_info(name: str) -> dict:
    """One object in full."""
    _update()
    thing = _object(name)
    info: dict[str, Any] = {
        "name": thing.name,
        "type": thing.type,
        "matrix_world": [_rounded(row, 6) for row in thing.matrix_world],
        "parent": thing.parent.name if thing.parent else None,
        "children": sorted(child.name for child in thing.children),
        "visible_in_render": not thing.hide_render,
        "materials": [slot.material.name for slot in thing.material_slots if slot.material],
        "keyframes": _keyframes(thing),
    }
    box = _world_box(thing)
    if box is not None:
        info["bounding_box"] = {"min": _rounded(box[0]), "max": _rounded(box[1])}
    if thing.type == "MESH":
        info["vertices"], info["faces"] = len(thing.data.vertices), len(thing.data.polygons)
        info["modifiers"] = [modifier.type for modifier in thing.modifiers]
    if thing.type == "CAMERA":
        info["fov_x_deg"] = round(_fov(thing.data), 4)
        info["active"] = thing == _scene().camera
    return info


def execute(code: str, output_limit: int, protected: list[str] | None = None) -> dict:
    """Runs agent code in a fresh namespace that holds `bpy`.

    Args:
        code: Python source.
        output_limit: characters of what it prints that are kept.
        protected: objects that should still be in the active scene afterwards.

    Returns:
        `output`, `error` (a traceback or None), `missing` (of the protected objects).
    """
    output = _CappedText(output_limit)
    error = None
    try:
        with contextlib.redirect_stdout(output), contextlib.redirect_stderr(output):
            # dont_inherit: this file's own `from __future__` switches must not change how the agent's code is read.
            exec(  # noqa: S102 - running the agent's code is this operation's purpose
                compile(code, AGENT_FILE, "exec", dont_inherit=True), {"bpy": bpy, "__name__": "__main__"}
            )
    except BaseException as problem:  # noqa: B036 - SystemExit and KeyboardInterrupt are the agent's errors as well
        error = _agent_traceback(problem, code)
    if bpy.context.view_layer is not None:
        # Edits of location or rotation reach matrix_world only through the dependency graph.
        _update()
    return {"output": output.text(), "error": error, "missing": _missing(protected or [])}


def set_camera_pose(matrix: list | None = None, location: list | None = None, look_at: list | None = None) -> dict:
    """Moves the active camera; see `_pose` for the forms."""
    camera = _scene().camera
    if camera is None:
        raise Refused("the scene has no active camera to move")
    camera.matrix_world = _pose(matrix, location, look_at)
    _update()
    return {"name": camera.name, "matrix_world": [_rounded(row, 6) for row in camera.matrix_world]}


def set_object_pose(
    name: str, location: list | None = None, rotation_deg: list | None = None, scale: list | None = None
) -> dict:
    """Places one object in the world; what is not given stays."""
    thing = _object(name)
    old_location, old_rotation, old_scale = thing.matrix_world.decompose()
    place = Vector(location) if location is not None else old_location
    turn = _euler(rotation_deg) if rotation_deg is not None else old_rotation.to_matrix()
    size = Vector(scale) if scale is not None else old_scale
    thing.matrix_world = Matrix.Translation(place) @ turn.to_4x4() @ Matrix.Diagonal((*size, 1.0))
    _update()
    return {"name": thing.name, "matrix_world": [_rounded(row, 6) for row in thing.matrix_world]}


def set_keyframes(name: str, keyframes: list[dict], interpolation: str = "LINEAR") -> dict:
    """Replaces an object's animation by keys of location, rotation (deg XYZ) and scale in its parent's frame."""
    thing = _object(name)
    thing.animation_data_clear()
    thing.rotation_mode = "XYZ"
    for key in keyframes:
        if key.get("location") is not None:
            thing.location = key["location"]
            thing.keyframe_insert("location", frame=key["frame"])
        if key.get("rotation_deg") is not None:
            thing.rotation_euler = [math.radians(angle) for angle in key["rotation_deg"]]
            thing.keyframe_insert("rotation_euler", frame=key["frame"])
        if key.get("scale") is not None:
            thing.scale = key["scale"]
            thing.keyframe_insert("scale", frame=key["frame"])
    for curve in _fcurves(thing):
        for point in curve.keyframe_points:
            point.interpolation = interpolation
    _update()
    return {"name": thing.name, "keyframes": _keyframes(thing)}


def render(
    settings: dict,
    camera: str | None = None,
    matrix: list | None = None,
    location: list | None = None,
    look_at: list | None = None,
    fov_x_deg: float | None = None,
    frame: int | None = None,
) -> tuple[dict, list[bytes]]:
    """One PNG (8 bit RGBA), from a named camera, from a pose, or from the active camera.

    Args:
        settings: engine, samples, width, height, transparent, view_transform, seed, threads.
        camera: an existing camera's name.
        matrix: a 4x4 camera pose.
        location: the camera's place, together with `look_at`.
        look_at: the point that it looks at.
        fov_x_deg: horizontal field of view; else that of the camera, or of the active camera for a free pose.
        frame: the frame to show; the scene's current frame is put back.
    """
    scene = _scene()
    _object_mode()
    source = scene.camera
    if camera is not None:
        source = _object(camera)
        if source.type != "CAMERA":
            raise Refused(f"{camera!r} is a {source.type}, not a camera")
    if matrix is not None or location is not None:
        pose = _pose(matrix, location, look_at)
    elif source is None:
        raise Refused("the scene has no active camera: name one, or give a matrix, or a location and a look_at")
    else:
        pose = None
    path = os.path.join(FOLDER, "render.png")
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)
    with contextlib.ExitStack() as undo:
        if frame is not None:
            undo.callback(scene.frame_set, scene.frame_current)
            scene.frame_set(frame)
        if pose is not None or fov_x_deg is not None:
            # A camera of our own, so that the agent's cameras never change, not even for the time of a render.
            eye = bpy.data.objects.new("sceneact_view", bpy.data.cameras.new("sceneact_view"))
            undo.callback(bpy.data.cameras.remove, eye.data)
            scene.collection.objects.link(eye)
            eye.matrix_world = pose if pose is not None else source.matrix_world
            if source is not None:
                eye.data.clip_start, eye.data.clip_end = source.data.clip_start, source.data.clip_end
            _set_fov(eye.data, fov_x_deg or (_fov(source.data) if source is not None else 39.6))
        else:
            eye = source
        undo.enter_context(_render_settings(scene, settings, eye, path))
        try:
            bpy.ops.render.render(write_still=True)
        except RuntimeError as problem:
            raise Refused(f"Blender could not render: {' '.join(str(problem).split())}") from problem
    try:
        with open(path, "rb") as file:
            data = file.read()
        os.unlink(path)
    except OSError as problem:
        raise Refused(
            f"the render left no picture ({errno.errorcode.get(problem.errno or 0, problem)}): a handler of the scene "
            "moved or removed it; remove your bpy.app.handlers and render again"
        ) from problem
    return {"frame": scene.frame_current if frame is None else frame}, [data]


# --- helpers --------------------------------------------------------------------------------------------------------


def _missing(names: list[str]) -> list[str]:
    """Those of `names` that the active scene no longer has."""
    present = {thing.name for thing in _scene().objects}
    return [name for name in names if name not in present]


class _CappedText:
    """A text stream that keeps the first `limit` characters and counts the rest."""

    encoding = "utf-8"

    def __init__(self, limit: int) -> None:
        self.limit, self.kept, self.lost = limit, 0, 0
        self.pieces: list[str] = []

    def write(self, text: str) -> int:
        text = str(text)
        room = text[: max(0, self.limit - self.kept)]
        if room:
            self.pieces.append(room)
            self.kept += len(room)
        self.lost += len(text) - len(room)
        return len(text)

    def flush(self) -> None:
        pass

    def isatty(self) -> bool:
        return False

    def writable(self) -> bool:
        return True

    def text(self) -> str:
        text = "".join(self.pieces)
        return f"{text}\n[{self.lost} more characters were cut]" if self.lost else text


def _agent_traceback(problem: BaseException, code: str) -> str:
    """The traceback without this file's frames; the agent's own lines are shown."""
    try:
        linecache.cache[AGENT_FILE] = (len(code), None, code.splitlines(keepends=True), AGENT_FILE)
        trace = problem.__traceback__
        while trace is not None and trace.tb_frame.f_code.co_filename == __file__:
            trace = trace.tb_next
        text = "".join(traceback.format_exception(type(problem), problem, trace, limit=12, chain=False))
    except Exception:  # An exception class of the agent's whose own __str__ fails.
        text = type(problem).__name__
    finally:
        linecache.cache.pop(AGENT_FILE, None)
    return text if len(text) <= 4000 else text[:2000] + "\n[...]\n" + text[-2000:]


def _scene() -> bpy.types.Scene:
    return bpy.context.scene


def _object(name: str) -> bpy.types.Object:
    thing = _scene().objects.get(name)
    if thing is None:
        names = sorted(thing.name for thing in _scene().objects)
        shown = ", ".join(names[:40]) + (f" and {len(names) - 40} more" if len(names) > 40 else "")
        raise Refused(f"there is no object {name!r}; the scene has: {shown or 'no objects'}")
    return thing


def _update() -> None:
    bpy.context.view_layer.update()


def _drop_handlers(prefix: str) -> None:
    """Forgets handlers of agent code that would run in the session's own work, perhaps without an end.

    Blender's own stay. A handler in disguise still meets the deadline.
    """
    for name in dir(bpy.app.handlers):
        if name.startswith(prefix):
            handlers = getattr(bpy.app.handlers, name)
            files = [getattr(getattr(handler, "__code__", None), "co_filename", "") for handler in handlers]
            handlers[:] = [handler for handler, file in zip(handlers, files, strict=True) if file != AGENT_FILE]


def _object_mode() -> None:
    """Leaves edit, sculpt or pose mode, in which operators refuse and mesh edits are not yet in the mesh."""
    active = bpy.context.view_layer.objects.active
    if active is not None and active.mode != "OBJECT":
        bpy.ops.object.mode_set(mode="OBJECT")


def _rounded(values, digits: int = 4) -> list[float]:
    # + 0.0 turns -0.0 into 0.0: two ways to the same pose must give the same text.
    return [round(float(value), digits) + 0.0 for value in values]


def _euler(angles: list) -> Matrix:
    """Rotation matrix of XYZ Euler angles in degrees."""
    return Euler([math.radians(angle) for angle in angles], "XYZ").to_matrix()


def _pose(matrix: list | None, location: list | None, look_at: list | None) -> Matrix:
    """A camera pose from a 4x4 matrix, or from a place and the point it looks at (Z stays up)."""
    if matrix is not None:
        pose = Matrix(matrix)
        place, turn, _ = pose.decompose()  # Without scale or shear: a camera has none.
        if abs(pose.to_3x3().determinant()) < 1e-9:
            raise Refused("the matrix is singular: its upper 3x3 part must be a rotation")
        return Matrix.Translation(place) @ turn.to_matrix().to_4x4()
    if location is None or look_at is None:
        raise Refused("give a matrix, or a location together with a look_at")
    direction = Vector(look_at) - Vector(location)
    if direction.length < 1e-9:
        raise Refused("location and look_at are the same point")
    return Matrix.Translation(Vector(location)) @ direction.to_track_quat("-Z", "Y").to_matrix().to_4x4()


def _fov(camera: bpy.types.Camera) -> float:
    """Horizontal field of view in degrees of a square picture."""
    return math.degrees(camera.angle_x)


def _set_fov(camera: bpy.types.Camera, fov_x_deg: float) -> None:
    camera.sensor_fit = "HORIZONTAL"
    camera.angle_x = math.radians(fov_x_deg)


def _world_box(thing: bpy.types.Object) -> tuple[Vector, Vector] | None:
    """World axis-aligned bounding box of what has geometry."""
    if thing.type not in GEOMETRY:
        return None
    corners = [thing.matrix_world @ Vector(corner) for corner in thing.bound_box]
    return (
        Vector([min(corner[axis] for corner in corners) for axis in range(3)]),
        Vector([max(corner[axis] for corner in corners) for axis in range(3)]),
    )


def _fcurves(thing: bpy.types.Object) -> list:
    """An object's animation curves, in Blender's older and newer (slotted) actions alike."""
    animation = thing.animation_data
    if animation is None or animation.action is None:
        return []
    action = animation.action
    if hasattr(action, "layers") and action.layers:
        return [
            curve
            for layer in action.layers
            for strip in layer.strips
            for bag in strip.channelbags
            if animation.action_slot is None or bag.slot_handle == animation.action_slot.handle
            for curve in bag.fcurves
        ]
    return list(getattr(action, "fcurves", ()))


def _keyframes(thing: bpy.types.Object) -> list[dict]:
    return [
        {
            "path": f"{curve.data_path}[{curve.array_index}]",
            "frames": [round(point.co[0], 3) for point in curve.keyframe_points][:200],
        }
        for curve in _fcurves(thing)
    ]


@contextlib.contextmanager
def _render_settings(scene: bpy.types.Scene, settings: dict, camera: bpy.types.Object, path: str) -> Iterator[None]:
    """Every setting that changes the picture, for the time of one render; then the agent's own are put back."""
    render = scene.render
    wanted: list[tuple[Any, str, Any]] = [
        (scene, "camera", camera),
        (render, "engine", ENGINES[settings["engine"]]),
        (render, "resolution_x", settings["width"]),
        (render, "resolution_y", settings["height"]),
        (render, "resolution_percentage", 100),
        (render, "pixel_aspect_x", 1.0),
        (render, "pixel_aspect_y", 1.0),
        (render, "use_border", False),
        (render, "film_transparent", settings["transparent"]),
        (render, "filepath", path),
        (render, "use_file_extension", False),
        (render, "use_overwrite", True),
        (render, "use_placeholder", False),
        (render, "use_compositing", False),
        (render, "use_sequencer", False),
        (render, "use_multiview", False),
        (render, "use_stamp", False),
        (render, "dither_intensity", 0.0),
        (render, "use_persistent_data", True),
        (render, "threads_mode", "FIXED" if settings["threads"] else "AUTO"),
        (render, "threads", settings["threads"] or 1),
        (render.image_settings, "media_type", "IMAGE"),
        (render.image_settings, "file_format", "PNG"),
        (render.image_settings, "color_mode", "RGBA"),
        (render.image_settings, "color_depth", "8"),
        # The picture only crosses a pipe: hardly any compression is faster than a good one.
        (render.image_settings, "compression", 5),
        (render.image_settings, "color_management", "FOLLOW_SCENE"),
        (scene.view_settings, "view_transform", settings["view_transform"]),
        (scene.view_settings, "look", "None"),
        (scene.view_settings, "exposure", 0.0),
        (scene.view_settings, "gamma", 1.0),
        (scene.view_settings, "use_curve_mapping", False),
    ]
    if settings["engine"] == "cycles":
        wanted += [
            (scene.cycles, "device", "CPU"),
            (scene.cycles, "samples", settings["samples"]),
            (scene.cycles, "seed", settings["seed"]),
            (scene.cycles, "use_animated_seed", False),
            (scene.cycles, "use_adaptive_sampling", False),
            (scene.cycles, "use_denoising", settings["denoise"]),
            # One bounce lights the corners; more cost time and bring noise at few samples.
            (scene.cycles, "max_bounces", 1),
            (scene.cycles, "time_limit", 0.0),
            (scene.cycles, "film_exposure", 1.0),
        ]
    elif settings["engine"] == "eevee":
        wanted += [(scene.eevee, "taa_render_samples", settings["samples"])]
    elif settings["engine"] == "workbench":
        shading = scene.display.shading
        wanted += [
            (scene.display, "render_aa", "8"),
            (shading, "light", "STUDIO"),
            (shading, "color_type", "MATERIAL"),
            (shading, "show_cavity", False),
            (shading, "show_shadows", False),
        ]
    # Some settings exist in some Blender versions only (media_type came with 5.0).
    wanted = [row for row in wanted if hasattr(row[0], row[1])]
    before = [(owner, name, getattr(owner, name)) for owner, name, _ in wanted]
    try:
        for owner, name, value in wanted:
            setattr(owner, name, value)
        yield
    finally:
        for owner, name, value in before:
            # A former file format may belong to a media type that is not back yet: such odd values are let go.
            with contextlib.suppress(TypeError, ReferenceError):
                setattr(owner, name, value)
