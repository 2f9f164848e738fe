"""Decodes Draco-compressed GLB files before Blender sees them, since some of its builds lack the Draco library."""

from __future__ import annotations

import json
import struct
from typing import Any

import numpy as np

from sceneact_gym.errors import SceneActError

EXTENSION = "KHR_draco_mesh_compression"
COMPONENTS = {5120: "<i1", 5121: "<u1", 5122: "<i2", 5123: "<u2", 5125: "<u4", 5126: "<f4"}


def decode_draco(glb: bytes) -> bytes:
    """The same GLB without Draco compression; a file that has none comes back as it is.

    Only for a case's own assets, which are trusted.

    Raises:
        SceneActError: the file is broken, or DracoPy is missing.
    """
    try:
        length = struct.unpack_from("<I", glb, 12)[0]
        document = json.loads(glb[20 : 20 + length])
        if EXTENSION not in document.get("extensionsUsed", ()):
            return glb
        binary = bytearray(glb[28 + length :])
    except (struct.error, ValueError) as problem:
        raise SceneActError(f"the asset is no binary glTF file: {problem}") from problem
    try:
        import DracoPy
    except ImportError as problem:
        raise SceneActError(
            "the asset is Draco-compressed; decoding it needs DracoPy: pip install sceneact-gym[draco]"
        ) from problem
    try:
        for mesh in document["meshes"]:
            for primitive in mesh["primitives"]:
                packed = primitive.get("extensions", {}).pop(EXTENSION, None)
                if packed is None:
                    continue
                view = document["bufferViews"][packed["bufferView"]]
                start = view.get("byteOffset", 0)
                decoded = DracoPy.decode(bytes(binary[start : start + view["byteLength"]]))
                _append(document, binary, primitive["indices"], np.asarray(decoded.faces).ravel())
                for name, number in packed["attributes"].items():
                    data = decoded.get_attribute_by_unique_id(number)["data"]
                    _append(document, binary, primitive["attributes"][name], np.asarray(data))
    except Exception as problem:  # DracoPy's own errors derive from nothing narrower.
        raise SceneActError(f"the asset's Draco data cannot be decoded: {problem}") from problem
    for key in ("extensionsUsed", "extensionsRequired"):
        if key in document:
            document[key] = [name for name in document[key] if name != EXTENSION]
    document["buffers"][0]["byteLength"] = len(binary)
    text = json.dumps(document, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 4)
    binary += b"\0" * (-len(binary) % 4)
    chunks = struct.pack("<II", len(text), 0x4E4F534A) + text + struct.pack("<II", len(binary), 0x004E4942) + binary
    return struct.pack("<4sII", b"glTF", 2, 12 + len(chunks)) + chunks


def _append(document: dict[str, Any], binary: bytearray, accessor: int, values: np.ndarray) -> None:
    """Stores an accessor's decoded values behind everything else."""
    row = document["accessors"][accessor]
    data = values.astype(COMPONENTS[row["componentType"]]).tobytes()
    binary += b"\0" * (-len(binary) % 4)
    document["bufferViews"].append({"buffer": 0, "byteOffset": len(binary), "byteLength": len(data)})
    binary += data
    row["bufferView"], row["byteOffset"] = len(document["bufferViews"]) - 1, 0
