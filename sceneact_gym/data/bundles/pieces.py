"""Takes GLB files apart and writes clean ones of their pieces.

A written file holds the named nodes, their meshes, materials and pictures, and nothing else: no other names, custom
properties, cameras, lights, metadata, or data that nothing uses. Matrices here are glTF's: Y up, metres.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image
from scipy.spatial.transform import Rotation

from sceneact_gym.blender.draco import decode_draco
from sceneact_gym.data.gltf_raw import RawGlb, join, parse
from sceneact_gym.errors import SceneActError
from sceneact_gym.evaluators import gltf

Array = NDArray[np.float64]

FPS = 24.0
KEPT = ("POSITION", "NORMAL", "TANGENT", "TEXCOORD_0", "TEXCOORD_1", "COLOR_0")
"""Attributes of vertices that a picture may need."""
WEBP = "EXT_texture_webp"


class SourceGlb:
    """A GLB that pieces are taken from.

    Attributes:
        glb: its inside, Draco decoded.
        scene: its checked nodes, meshes and animations; indices are the same in both.
    """

    def __init__(self, data: bytes, name: str) -> None:
        """Reads the file.

        Args:
            data: its bytes.
            name: for messages.

        Raises:
            SceneActError: it cannot be read.
        """
        try:
            data = decode_draco(data)
            self.glb: RawGlb = parse(data)
            self.scene = gltf.load(data)
        except (SceneActError, gltf.GltfError) as problem:
            raise SceneActError(f"{name} cannot be read: {problem}") from problem
        self.name = name
        self._pictures: dict[int, tuple[bytes, str]] = {}

    def picture(self, index: int) -> tuple[bytes, str]:
        """A picture without metadata, and its MIME type: JPEG where it was lossy and opaque, else PNG.

        Raises:
            SceneActError: it is not in the file, or cannot be read.
        """
        if index not in self._pictures:
            row = self.glb.rows("images")[index]
            if "bufferView" not in row:
                raise SceneActError(f"{self.name} has a picture outside of the file")
            start, end = self.glb.view(row["bufferView"])
            try:
                opened = Image.open(io.BytesIO(self.glb.binary[start:end]), formats=["PNG", "JPEG", "WEBP"])
                clear = opened.mode in ("RGBA", "LA", "PA") or "transparency" in opened.info
                lossy = opened.format in ("JPEG", "WEBP") and not clear
                pixels = np.asarray(opened.convert("RGBA" if clear else "RGB"))
            except OSError as problem:
                raise SceneActError(f"a picture of {self.name} cannot be read: {problem}") from problem
            buffer = io.BytesIO()
            # From the pixels alone: an opened picture carries its metadata along.
            if lossy:
                Image.fromarray(pixels).save(buffer, format="JPEG", quality=95)
            else:
                Image.fromarray(pixels).save(buffer, format="PNG")
            self._pictures[index] = buffer.getvalue(), "image/jpeg" if lossy else "image/png"
        return self._pictures[index]


@dataclass(frozen=True, eq=False)
class Chunk:
    """A mesh of a source, and the (4, 4) matrix that its vertices are moved by for good."""

    source: SourceGlb
    mesh: int
    matrix: Array


@dataclass(frozen=True, eq=False)
class Piece:
    """A node to be written.

    Attributes:
        name: its name, and its mesh's.
        chunks: its mesh.
        matrix: (4, 4) its pose.
        poses: (T, 4, 4) poses instead: row r lies at (r + 1) / 24 s, where Blender puts its frame r + 1.
    """

    name: str
    chunks: Sequence[Chunk]
    matrix: Array = field(default_factory=lambda: np.eye(4))
    poses: Array | None = None

    def vertices(self) -> Array:
        """(V, 3) vertices that triangles use, before the pose, Z up."""
        rows = []
        for chunk in self.chunks:
            mesh = chunk.source.scene.meshes[chunk.mesh]
            rows.append(moved(mesh.vertices[np.unique(mesh.faces)], chunk.matrix))
        return gltf.to_zup(np.concatenate(rows))


def moved(points: Array, matrix: Array) -> Array:
    """(N, 3) points moved by a (4, 4) matrix."""
    return points @ matrix[:3, :3].T + matrix[:3, 3]


def compose(pieces: Sequence[Piece]) -> bytes:
    """The pieces as one GLB, in this order.

    Raises:
        SceneActError: a mesh or a material needs something that is not supported.
    """
    return _Writer().write(pieces)


class _Writer:
    def __init__(self) -> None:
        self.binary = bytearray()
        kinds = "nodes meshes materials textures samplers images accessors bufferViews".split()
        self.rows: dict[str, list[dict[str, Any]]] = {kind: [] for kind in kinds}
        self.done: dict[tuple[Any, ...], int] = {}
        self.extensions: set[str] = set()
        self.channels: list[dict[str, Any]] = []
        self.tracks: list[dict[str, Any]] = []

    def write(self, pieces: Sequence[Piece]) -> bytes:
        for piece in pieces:
            row: dict[str, Any] = {"name": piece.name, "mesh": self._mesh(piece)}
            poses = piece.matrix[None] if piece.poses is None else piece.poses
            values = decompose(poses)
            row |= {path: value[0].tolist() for path, value in values.items()}
            if piece.poses is not None:
                self._animate(len(self.rows["nodes"]), values)
            self.rows["nodes"].append(row)
        document: dict[str, Any] = {
            "asset": {"version": "2.0", "generator": "sceneact-gym"},
            "scene": 0,
            "scenes": [{"nodes": list(range(len(pieces)))}],
            **{kind: rows for kind, rows in self.rows.items() if rows},
            **({"animations": [{"channels": self.channels, "samplers": self.tracks}]} if self.channels else {}),
            **({"extensionsUsed": sorted(self.extensions)} if self.extensions else {}),
            "buffers": [{"byteLength": len(self.binary)}],
        }
        return join(document, bytes(self.binary))

    def _add(self, kind: str, row: dict[str, Any]) -> int:
        self.rows[kind].append(row)
        return len(self.rows[kind]) - 1

    def _mesh(self, piece: Piece) -> int:
        key = ("mesh", *((id(chunk.source), chunk.mesh, chunk.matrix.tobytes()) for chunk in piece.chunks))
        if key not in self.done:
            primitives = [
                self._primitive(chunk, primitive)
                for chunk in piece.chunks
                for primitive in chunk.source.glb.rows("meshes")[chunk.mesh]["primitives"]
            ]
            self.done[key] = self._add("meshes", {"name": piece.name, "primitives": primitives})
        return self.done[key]

    def _primitive(self, chunk: Chunk, primitive: dict[str, Any]) -> dict[str, Any]:
        glb, linear = chunk.source.glb, chunk.matrix[:3, :3]
        if primitive.get("mode", 4) != 4:
            raise SceneActError(f"{chunk.source.name} has a mesh of something else than triangles")
        count = glb.rows("accessors")[primitive["attributes"]["POSITION"]]["count"]
        corners = glb.accessor(primitive["indices"]).ravel() if "indices" in primitive else np.arange(count)
        # Blender drops vertices that no triangle uses, and the truth's order must be Blender's.
        used, corners = np.unique(corners, return_inverse=True)
        kept = [name for name in primitive["attributes"] if name in KEPT]
        if "NORMAL" in kept and _inside_out(glb, primitive["attributes"], used[corners]):
            kept = [name for name in kept if name not in ("NORMAL", "TANGENT")]
        attributes: dict[str, int] = {}
        for name in kept:
            number = primitive["attributes"][name]
            values = glb.floats(number)[used]
            if name == "POSITION":
                values = moved(values, chunk.matrix)
            elif name == "NORMAL":
                values = _unit(values @ np.linalg.inv(linear))
            elif name == "TANGENT":
                values = np.concatenate([_unit(values[:, :3] @ linear.T), values[:, 3:]], axis=1)
            attributes[name] = self._values(values, name == "POSITION")
        if np.linalg.det(linear) < 0:
            # A mirror turns triangles inside out.
            corners = corners[: len(corners) // 3 * 3].reshape(-1, 3)[:, ::-1].ravel()
        row: dict[str, Any] = {"attributes": attributes, "indices": self._indices(corners)}
        if "material" in primitive:
            row["material"] = self._material(chunk.source, primitive["material"])
        return row

    def _values(self, values: Array, limits: bool = False) -> int:
        stored = values.astype("<f4")
        kind = {1: "SCALAR", 2: "VEC2", 3: "VEC3", 4: "VEC4"}[stored.shape[1]]
        row = {"componentType": 5126, "count": len(stored), "type": kind}
        if limits:
            row |= {"min": stored.min(axis=0).tolist(), "max": stored.max(axis=0).tolist()}
        return self._add("accessors", {"bufferView": self._view(stored.tobytes()), **row})

    def _indices(self, corners: NDArray[Any]) -> int:
        view = self._view(corners.astype("<u4").tobytes())
        return self._add(
            "accessors", {"bufferView": view, "componentType": 5125, "count": len(corners), "type": "SCALAR"}
        )

    def _view(self, data: bytes) -> int:
        view = {"buffer": 0, "byteOffset": len(self.binary), "byteLength": len(data)}
        self.binary += data + b"\0" * (-len(data) % 4)
        return self._add("bufferViews", view)

    def _material(self, source: SourceGlb, index: int) -> int:
        key = ("material", id(source), index)
        if key not in self.done:
            row = self._clean(source, source.glb.rows("materials")[index])
            self.done[key] = self._add("materials", {"name": f"material_{len(self.rows['materials']):02d}", **row})
        return self.done[key]

    def _clean(self, source: SourceGlb, value: Any, key: str = "") -> Any:
        """A material's values without names and custom properties, its textures taken along."""
        if isinstance(value, list):
            return [self._clean(source, child) for child in value]
        if not isinstance(value, dict):
            return value
        row = {}
        for name, child in value.items():
            if key == "extensions":
                if not name.startswith("KHR_"):
                    continue
                self.extensions.add(name)
            if name == "index" and key.endswith("Texture"):
                row[name] = self._texture(source, child)
            elif name != "extras" and not (name == "name" and not key):
                row[name] = self._clean(source, child, name)
        return row

    def _texture(self, source: SourceGlb, index: int) -> int:
        key = ("texture", id(source), index)
        if key not in self.done:
            texture = source.glb.rows("textures")[index]
            packed = texture.get("extensions", {}).get(WEBP, texture)
            if "source" not in packed:
                raise SceneActError(f"{source.name} has a texture of a kind that is not supported")
            row = {"source": self._image(source, packed["source"])}
            if "sampler" in texture:
                names = ("magFilter", "minFilter", "wrapS", "wrapT")
                sampler = source.glb.rows("samplers")[texture["sampler"]]
                row["sampler"] = self._add("samplers", {name: sampler[name] for name in names if name in sampler})
            self.done[key] = self._add("textures", row)
        return self.done[key]

    def _image(self, source: SourceGlb, index: int) -> int:
        key = ("image", id(source), index)
        if key not in self.done:
            data, kind = source.picture(index)
            self.done[key] = self._add("images", {"bufferView": self._view(data), "mimeType": kind})
        return self.done[key]

    def _animate(self, node: int, values: dict[str, Array]) -> None:
        count = len(values["translation"])
        if ("times", count) not in self.done:
            times = ((np.arange(count) + 1) / FPS)[:, None]
            self.done["times", count] = self._values(times, limits=True)
        for path, rows in values.items():
            target = {"node": node, "path": path}
            self.channels.append({"sampler": len(self.tracks), "target": target})
            output = self._values(rows)
            self.tracks.append({"input": self.done["times", count], "output": output, "interpolation": "LINEAR"})


def decompose(matrices: Array) -> dict[str, Array]:
    """Translations (T, 3), rotations (T, 4: x, y, z, w), scales (T, 3) of (T, 4, 4); shear is dropped."""
    linear = matrices[:, :3, :3]
    scale = np.linalg.norm(linear, axis=1) * np.where(np.linalg.det(linear) < 0, -1.0, 1.0)[:, None]
    u, _, v = np.linalg.svd(linear / np.where(np.abs(scale) > 1e-12, scale, 1.0)[:, None])
    u[..., 2] *= np.linalg.det(u @ v)[:, None]
    rotation = Rotation.from_matrix(u @ v).as_quat()
    for row in range(1, len(rotation)):
        # Of the two quaternions of a rotation the one nearer to the last.
        if rotation[row] @ rotation[row - 1] < 0:
            rotation[row] *= -1
    return {"translation": matrices[:, :3, 3], "rotation": rotation, "scale": scale}


def _inside_out(glb: RawGlb, attributes: dict[str, int], corners: NDArray[Any]) -> bool:
    """Whether the normals of many triangles contradict their winding: such surfaces are rendered black."""
    triangles = corners[: len(corners) // 3 * 3].reshape(-1, 3)
    a, b, c = glb.floats(attributes["POSITION"])[triangles].swapaxes(0, 1)
    normals = glb.floats(attributes["NORMAL"])[triangles].mean(axis=1)
    return bool((np.einsum("ij,ij->i", np.cross(b - a, c - a), normals) < 0).mean() > 0.1)


def _unit(vectors: Array) -> Array:
    length = np.linalg.norm(vectors, axis=1, keepdims=True)
    return np.divide(vectors, length, out=np.zeros_like(vectors), where=length > 0)
