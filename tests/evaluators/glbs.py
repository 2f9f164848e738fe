"""Writes small GLBs for the tests, byte by byte and without the package's own reader."""

from __future__ import annotations

import json
import struct
from typing import Any

import numpy as np

COMPONENTS = {"i1": 5120, "u1": 5121, "i2": 5122, "u2": 5123, "u4": 5125, "f4": 5126}
TYPES = {1: "SCALAR", 2: "VEC2", 3: "VEC3", 4: "VEC4"}
TRIANGLE = np.array([[0, 0, 0], [1, 0, 0], [0, 2, 0]], "<f4")


def pack(document: Any, blob: bytes = b"", *, text: bytes | None = None) -> bytes:
    """The container around a JSON document (or any text in its place) and a binary chunk."""
    text = json.dumps(document).encode() if text is None else text
    text += b" " * (-len(text) % 4)
    blob += b"\0" * (-len(blob) % 4)
    chunks = struct.pack("<I4s", len(text), b"JSON") + text
    if blob:
        chunks += struct.pack("<I4s", len(blob), b"BIN\0") + blob
    return struct.pack("<4sII", b"glTF", 2, 12 + len(chunks)) + chunks


class Glb:
    """A document under construction; every method returns the index of what it added."""

    def __init__(self) -> None:
        self.document: dict[str, Any] = {"asset": {"version": "2.0"}}
        self.blob = b""

    def add(self, key: str, record: dict[str, Any]) -> int:
        self.document.setdefault(key, []).append(record)
        return len(self.document[key]) - 1

    def view(self, data: bytes, **more: Any) -> int:
        self.blob += b"\0" * (-len(self.blob) % 4)
        view = {"buffer": 0, "byteOffset": len(self.blob), "byteLength": len(data), **more}
        self.blob += data
        return self.add("bufferViews", view)

    def accessor(self, array: np.ndarray, **more: Any) -> int:
        array = np.ascontiguousarray(array)
        width = 1 if array.ndim == 1 else array.shape[1]
        record = {
            "bufferView": self.view(array.tobytes()),
            "componentType": COMPONENTS[array.dtype.str[1:]],
            "count": len(array),
            "type": TYPES[width],
        }
        return self.add("accessors", {**record, **more})

    def mesh(self, positions: np.ndarray = TRIANGLE, indices: np.ndarray | None = None, **more: Any) -> int:
        primitive: dict[str, Any] = {"attributes": {"POSITION": self.accessor(positions)}, **more}
        if indices is not None:
            primitive["indices"] = self.accessor(indices)
        return self.add("meshes", {"primitives": [primitive]})

    def node(self, **record: Any) -> int:
        return self.add("nodes", record)

    def animate(self, keys: list[tuple[int, str, Any, Any, str]]) -> int:
        """One animation of (node, path, times, values, interpolation) channels."""
        channels, samplers = [], []
        for node, path, times, values, interpolation in keys:
            channels.append({"sampler": len(samplers), "target": {"node": node, "path": path}})
            samplers.append(
                {
                    "input": self.accessor(np.array(times, "<f4")),
                    "output": self.accessor(np.array(values, "<f4")),
                    "interpolation": interpolation,
                }
            )
        return self.add("animations", {"channels": channels, "samplers": samplers})

    def bytes(self) -> bytes:
        document = dict(self.document)
        if self.blob and "buffers" not in document:
            document["buffers"] = [{"byteLength": len(self.blob)}]
        return pack(document, self.blob)


def triangle_scene() -> Glb:
    """One indexed triangle on one node."""
    glb = Glb()
    glb.node(name="thing", mesh=glb.mesh(TRIANGLE, np.array([0, 1, 2], "<u2")))
    return glb
