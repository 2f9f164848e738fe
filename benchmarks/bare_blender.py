"""Blender without this package around it, for comparison: the same scene, operations and settings in one plain process.

Run by `benchmarks.speed` inside Blender's Python. Takes the folder of `worker_ops` and a descriptor; reads one JSON
request per line from standard input and writes one JSON answer per line to the descriptor. Times are seconds.
"""

from __future__ import annotations

import json
import os
import sys
import time
from typing import Any


def load(ops: Any, glb: str, lighting: dict, camera: dict) -> None:
    """Builds the scene of an episode."""
    ops.new_scene()
    with open(glb, "rb") as file:
        ops.import_glb(file.read())
    ops.set_lighting(**lighting)
    ops.add_camera(**camera)


def times(ops: Any, operation: str, args: dict, count: int) -> list[float]:
    """The seconds of each of `count` runs of one operation of the worker's."""
    run = getattr(ops, operation)
    result = []
    for _ in range(count):
        start = time.perf_counter()
        run(**args)
        result.append(time.perf_counter() - start)
    return result


def render(ops: Any, settings: dict, matrices: list, path: str) -> list[float]:
    """The seconds of each bare `bpy.ops.render.render`; everything is set before, the camera moves between renders."""
    import bpy
    from mathutils import Matrix

    scene = bpy.context.scene
    result = []
    with ops._render_settings(scene, settings, scene.camera, path):
        for matrix in matrices:
            scene.camera.matrix_world = Matrix(matrix)
            bpy.context.view_layer.update()
            start = time.perf_counter()
            bpy.ops.render.render(write_still=True)
            result.append(time.perf_counter() - start)
    return result


def main() -> None:
    """Serves requests until standard input ends."""
    folder, answers = sys.argv[sys.argv.index("--") + 1 :]
    sys.path.insert(0, folder)
    import worker_ops  # type: ignore[import-not-found]

    for line in sys.stdin:
        request = json.loads(line)
        what = {"load": load, "times": times, "render": render}[request.pop("do")]
        os.write(int(answers), (json.dumps(what(worker_ops, **request)) + "\n").encode())


if __name__ == "__main__":
    main()
