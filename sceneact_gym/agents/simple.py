"""Agents that mark the ends of the scale: doing nothing, acting by chance, and knowing the answer."""

from __future__ import annotations

import base64
import zlib
from typing import Any

import numpy as np

from sceneact_gym.agents.base import BaseAgent, Info
from sceneact_gym.evaluators import gltf
from sceneact_gym.tasks.articulated import motion_code
from sceneact_gym.tasks.dynamic import placing_code


class NoopAgent(BaseAgent):
    """Ends the episode at once: its score is the task's floor."""

    def act(self, observation: Any, info: Info) -> Any:
        """An empty list."""
        return []


class RandomAgent(BaseAgent):
    """Makes valid calls by chance until the budget is used up; the same calls for the same seed and case."""

    def reset(self, observation: Any, info: Info) -> None:
        """Seeds the action space by its own seed and the case."""
        case_number = int.from_bytes(str(info["case_id"]).encode()[-8:], "big")
        seed = np.random.SeedSequence([self.seed, case_number]).generate_state(1)[0]
        self.env.action_space.seed(int(seed))

    def act(self, observation: Any, info: Info) -> Any:
        """A sample without `submit`."""
        calls = self.env.action_space.sample()
        return [call for call in calls if call["name"] != "submit"] if isinstance(calls, list) else calls


class OracleAgent(BaseAgent):
    """Reads the truth and submits it by ordinary tool calls. For tests: shows that the top of the scale is reached."""

    privileged = True

    def act(self, observation: Any, info: Info) -> Any:
        """The calls that build the answer, then `submit`."""
        case = self.env.unwrapped.episode.case  # type: ignore[attr-defined]
        return [*ORACLES[case.task](case.truth), {"name": "submit", "arguments": {}}]


def _camera(truth: Any) -> list[dict[str, Any]]:
    matrix = np.asarray(truth["matrix_world"], float).tolist()
    code = f"from mathutils import Matrix\nbpy.context.scene.camera.matrix_world = Matrix({matrix})"
    return [{"name": "execute_blender_code", "arguments": {"code": code}}]


def _layout(truth: Any) -> list[dict[str, Any]]:
    lines = [
        f"bpy.data.objects['object_{number:02d}'].location = {(x, y, z)}\n"
        f"bpy.data.objects['object_{number:02d}'].rotation_mode = 'XYZ'\n"
        f"bpy.data.objects['object_{number:02d}'].rotation_euler = (0, 0, {yaw})"
        for number, (x, y, z, yaw) in enumerate(truth["poses"])
    ]
    return [{"name": "execute_blender_code", "arguments": {"code": "\n".join(lines)}}]


def _articulated(truth: Any) -> list[dict[str, Any]]:
    return [{"name": "execute_blender_code", "arguments": {"code": motion_code(truth)}}]


def _reconstruction(truth: Any) -> list[dict[str, Any]]:
    calls = []
    for mesh in gltf.load(truth["scene.glb"].tobytes()).world_meshes():
        # Packed, since a call takes a limited number of characters.
        packed = [
            base64.b64encode(zlib.compress(array.tobytes())).decode()
            for array in (mesh.vertices.astype("<f4"), mesh.faces.astype("<i4"))
        ]
        code = (
            "import base64, numpy, zlib\n"
            "def unpack(text, kind):\n"
            "    return numpy.frombuffer(zlib.decompress(base64.b64decode(text)), kind).reshape(-1, 3).tolist()\n"
            f"mesh = bpy.data.meshes.new({mesh.name!r})\n"
            f"mesh.from_pydata(unpack({packed[0]!r}, '<f4'), [], unpack({packed[1]!r}, '<i4'))\n"
            f"bpy.context.scene.collection.objects.link(bpy.data.objects.new({mesh.name!r}, mesh))"
        )
        calls.append({"name": "execute_blender_code", "arguments": {"code": code}})
    return calls


def _dynamic(truth: Any) -> list[dict[str, Any]]:
    return [{"name": "execute_blender_code", "arguments": {"code": placing_code(truth)}}]


ORACLES = {
    "camera": _camera,
    "layout": _layout,
    "layout_multiview": _layout,
    "articulated": _articulated,
    "reconstruction": _reconstruction,
    "dynamic": _dynamic,
    "dynamic_photoreal": _dynamic,
}
"""Per task: from the truth to the calls that rebuild it."""
