"""Run by the tests in a process of its own: imports GLB files into Blender and writes down what it finds.

Argument: a folder that holds `input.npz` (arrays `glb_K`: bytes; `cameras_K`: (C, 4, 4)). Writes `output.json` there.
"""

import json
import math
import sys
from pathlib import Path

import bpy
import numpy as np
from mathutils import Matrix, Vector

GRID = 28
FOV_X = math.radians(39.6)


def world_points(thing):
    points = np.empty(len(thing.data.vertices) * 3, np.float32)
    thing.data.vertices.foreach_get("co", points)
    matrix = np.array(thing.matrix_world)
    return points.reshape(-1, 3) @ matrix[:3, :3].T + matrix[:3, 3]


def seen(matrix):
    """Rays through the cells of a picture: how many hit what, and the nearest hit."""
    matrix = Matrix(matrix.tolist())
    origin, turn = matrix.translation, matrix.to_3x3()
    graph, reach = bpy.context.evaluated_depsgraph_get(), math.tan(FOV_X / 2)
    counts, nearest = {}, math.inf
    for row in range(GRID):
        for column in range(GRID):
            x, y = ((v + 0.5) / GRID * 2 - 1 for v in (column, row))
            ray = turn @ Vector((x * reach, -y * reach, -1)).normalized()
            hit, place, _, _, thing, _ = bpy.context.scene.ray_cast(graph, origin, ray)
            if hit:
                counts[thing.name] = counts.get(thing.name, 0) + 1
                nearest = min(nearest, (place - origin).length)
    return {"shares": {name: count / GRID**2 for name, count in counts.items()}, "nearest": nearest}


def probe(glb, cameras):
    bpy.ops.wm.read_factory_settings(use_empty=True)
    path = folder / "scene.glb"
    path.write_bytes(glb)
    bpy.ops.import_scene.gltf(filepath=str(path))
    bpy.context.view_layer.update()
    things = {}
    for thing in bpy.context.scene.objects:
        points = world_points(thing) if thing.type == "MESH" else np.zeros((1, 3))
        things[thing.name] = {
            "low": points.min(axis=0).tolist(),
            "high": points.max(axis=0).tolist(),
            "mean": points.mean(axis=0).tolist(),
            "location": list(thing.matrix_world.translation),
            "yaw": thing.matrix_world.to_euler().z,
            "parent": thing.parent.name if thing.parent else None,
        }
    blocks = [*bpy.data.objects, *bpy.data.meshes, *bpy.data.materials, *bpy.data.scenes, *bpy.data.collections]
    properties = sorted({key for block in blocks for key in block.keys()})
    return {"things": things, "properties": properties, "views": [seen(camera) for camera in cameras]}


folder = Path(sys.argv[1])
with np.load(folder / "input.npz") as arrays:
    count = sum(name.startswith("glb_") for name in arrays.files)
    found = [probe(arrays[f"glb_{k}"].tobytes(), arrays[f"cameras_{k}"]) for k in range(count)]
(folder / "output.json").write_text(json.dumps(found))
