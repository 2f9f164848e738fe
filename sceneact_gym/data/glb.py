"""Writes GLB files from meshes and motions in Blender's frame (Z up, metres). The same input gives the same bytes.

Blender (x, y, z) becomes glTF (x, z, -y). No normals are written: by the glTF rules such faces are shaded flat, and
vertices need not be doubled at edges.
"""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.transform import Rotation

FPS = 24.0

_TO_YUP = np.array([[1.0, 0, 0], [0, 0, 1], [0, -1, 0]])


@dataclass(frozen=True)
class Material:
    """A surface.

    Attributes:
        name: the material's name.
        color: linear RGB in [0, 1].
        roughness: 0 (mirror) to 1 (matt).
        metallic: 0 or 1.
        emission: linear RGB that it emits.
    """

    name: str
    color: tuple[float, float, float]
    roughness: float = 0.7
    metallic: float = 0.0
    emission: tuple[float, float, float] = (0.0, 0.0, 0.0)


@dataclass(frozen=True, eq=False)
class Part:
    """Triangles of one material.

    Attributes:
        vertices: (V, 3) metres, Z up.
        faces: (F, 3) indices, counter-clockwise seen from outside.
        material: their surface.
    """

    vertices: NDArray[np.float64]
    faces: NDArray[np.int64]
    material: Material

    def moved(self, offset: Sequence[float]) -> Part:
        """The same part, shifted."""
        return Part(self.vertices + np.asarray(offset, float), self.faces, self.material)


@dataclass(frozen=True, eq=False)
class Node:
    """A named object.

    Attributes:
        name: its name in the file, and in Blender after the import.
        parts: its mesh; empty for a node without one.
        location: metres, in its parent's frame.
        yaw: radians about Z.
        children: nodes in its frame.
        matrix: (4, 4) pose in its parent's frame, instead of location and yaw. glTF knows no shear: it is dropped.
        poses: (T, 4, 4) poses in its parent's frame: its animation. Row r lies at (r + 1) / 24 s, where Blender puts
            its frame r + 1.
    """

    name: str
    parts: Sequence[Part]
    location: Sequence[float] = (0.0, 0.0, 0.0)
    yaw: float = 0.0
    children: Sequence[Node] = field(default=())
    matrix: NDArray[np.float64] | None = None
    poses: NDArray[np.float64] | None = None


def write_glb(nodes: Sequence[Node]) -> bytes:
    """The nodes as one GLB file."""
    return _Writer().write(nodes)


class _Writer:
    def __init__(self) -> None:
        self.binary = bytearray()
        self.gltf: dict[str, list[Any]] = {
            name: [] for name in ("nodes", "meshes", "materials", "accessors", "bufferViews")
        }
        self.materials: dict[Material, int] = {}
        self.channels: list[dict[str, Any]] = []
        self.samplers: list[dict[str, Any]] = []
        self.times: dict[int, int] = {}

    def write(self, nodes: Sequence[Node]) -> bytes:
        roots = [self._node(node) for node in nodes]
        document: dict[str, Any] = {
            "asset": {"version": "2.0", "generator": "sceneact-gym"},
            "scene": 0,
            "scenes": [{"nodes": roots}],
            **{name: rows for name, rows in self.gltf.items() if rows},
            **({"animations": [{"channels": self.channels, "samplers": self.samplers}]} if self.channels else {}),
            "buffers": [{"byteLength": len(self.binary)}],
        }
        text = json.dumps(document, separators=(",", ":")).encode()
        text += b" " * (-len(text) % 4)
        chunks = struct.pack("<II", len(text), 0x4E4F534A) + text
        chunks += struct.pack("<II", len(self.binary), 0x004E4942) + bytes(self.binary)
        return struct.pack("<4sII", b"glTF", 2, 12 + len(chunks)) + chunks

    def _node(self, node: Node) -> int:
        index = len(self.gltf["nodes"])
        row: dict[str, Any] = {"name": node.name}
        self.gltf["nodes"].append(row)
        if node.poses is not None:
            self._animate(index, row, np.asarray(node.poses, float))
        elif node.matrix is not None:
            values = _decompose(np.asarray(node.matrix, float)[None])
            row |= {path: value[0].tolist() for path, value in values.items()}
        else:
            x, y, z = (float(value) for value in node.location)
            row["translation"] = [x, z, -y]
            if node.yaw:
                # A turn about Blender's Z is one about glTF's Y.
                row["rotation"] = [0.0, math.sin(node.yaw / 2), 0.0, math.cos(node.yaw / 2)]
        if node.parts:
            row["mesh"] = len(self.gltf["meshes"])
            self.gltf["meshes"].append(
                {"name": node.name, "primitives": [self._primitive(part) for part in _by_material(node.parts)]}
            )
        if node.children:
            row["children"] = [self._node(child) for child in node.children]
        return index

    def _animate(self, index: int, row: dict[str, Any], poses: NDArray[np.float64]) -> None:
        count = len(poses)
        if count not in self.times:
            times = ((np.arange(count) + 1) / FPS).astype("<f4")
            self.times[count] = self._accessor(times.tobytes(), 5126, count, "SCALAR")
            self.gltf["accessors"][-1] |= {"min": [float(times[0])], "max": [float(times[-1])]}
        for path, values in _decompose(poses).items():
            row[path] = values[0].tolist()
            kind = "VEC4" if path == "rotation" else "VEC3"
            output = self._accessor(values.astype("<f4").tobytes(), 5126, count, kind)
            self.channels.append({"sampler": len(self.samplers), "target": {"node": index, "path": path}})
            self.samplers.append({"input": self.times[count], "output": output, "interpolation": "LINEAR"})

    def _primitive(self, part: Part) -> dict[str, Any]:
        x, y, z = part.vertices.T
        points = np.stack([x, z, -y], axis=1).astype("<f4")
        positions = self._accessor(points.tobytes(), 5126, len(points), "VEC3", 34962)
        self.gltf["accessors"][positions] |= {"min": points.min(axis=0).tolist(), "max": points.max(axis=0).tolist()}
        indices = part.faces.astype("<u4").ravel()
        return {
            "attributes": {"POSITION": positions},
            "indices": self._accessor(indices.tobytes(), 5125, len(indices), "SCALAR", 34963),
            "material": self._material(part.material),
        }

    def _accessor(self, data: bytes, component: int, count: int, kind: str, target: int = 0) -> int:
        view = {"buffer": 0, "byteOffset": len(self.binary), "byteLength": len(data)}
        self.gltf["bufferViews"].append({**view, "target": target} if target else view)
        self.binary += data
        self.gltf["accessors"].append(
            {
                "bufferView": len(self.gltf["bufferViews"]) - 1,
                "componentType": component,
                "count": count,
                "type": kind,
            }
        )
        return len(self.gltf["accessors"]) - 1

    def _material(self, material: Material) -> int:
        if material not in self.materials:
            self.materials[material] = len(self.gltf["materials"])
            row: dict[str, Any] = {
                "name": material.name,
                "pbrMetallicRoughness": {
                    "baseColorFactor": [*map(float, material.color), 1.0],
                    "metallicFactor": float(material.metallic),
                    "roughnessFactor": float(material.roughness),
                },
            }
            if any(material.emission):
                row["emissiveFactor"] = [*map(float, material.emission)]
            self.gltf["materials"].append(row)
        return self.materials[material]


def _decompose(matrices: NDArray[np.float64]) -> dict[str, NDArray[np.float64]]:
    """Translations (T, 3), rotations (T, 4: x, y, z, w), scales (T, 3) in glTF's frame, of (T, 4, 4) in Blender's."""
    turned = _TO_YUP @ matrices[:, :3, :3] @ _TO_YUP.T
    scale = np.linalg.norm(turned, axis=1)
    # A mirrored object has one negative scale, as in Blender.
    scale *= np.where(np.linalg.det(turned) < 0, -1.0, 1.0)[:, None]
    # SVD instead of division alone: the nearest rotation also of a sheared or flattened matrix.
    u, _, v = np.linalg.svd(turned / np.where(np.abs(scale) > 1e-12, scale, 1.0)[:, None])
    u[..., 2] *= np.linalg.det(u @ v)[:, None]
    rotation = Rotation.from_matrix(u @ v).as_quat()
    for row in range(1, len(rotation)):
        # Of the two quaternions of a rotation the one nearer to the last, so that what lies between is the short way.
        if rotation[row] @ rotation[row - 1] < 0:
            rotation[row] *= -1
    return {"translation": matrices[:, :3, 3] @ _TO_YUP.T, "rotation": rotation, "scale": scale}


def _by_material(parts: Sequence[Part]) -> list[Part]:
    """One part per material, in order of first use."""
    groups: dict[Material, list[Part]] = {}
    for part in parts:
        groups.setdefault(part.material, []).append(part)
    return [merge(group, material) for material, group in groups.items()]


def merge(parts: Sequence[Part], material: Material) -> Part:
    """Several parts as one of the given material."""
    starts = np.cumsum([0, *(len(part.vertices) for part in parts)])
    return Part(
        np.concatenate([part.vertices for part in parts]),
        np.concatenate([part.faces + start for part, start in zip(parts, starts, strict=False)]),
        material,
    )
