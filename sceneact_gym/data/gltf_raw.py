"""The inside of GLB files that are trusted or only searched: JSON, binary chunk, accessors as arrays.

For scoring there is `evaluators.gltf`, which checks everything and shows nothing of the file itself.
"""

from __future__ import annotations

import json
import struct
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sceneact_gym.errors import SceneActError

DTYPES = {5120: "<i1", 5121: "<u1", 5122: "<i2", 5123: "<u2", 5125: "<u4", 5126: "<f4"}
WIDTHS = {"SCALAR": 1, "VEC2": 2, "VEC3": 3, "VEC4": 4, "MAT2": 4, "MAT3": 9, "MAT4": 16}


@dataclass(frozen=True)
class RawGlb:
    """A GLB taken apart.

    Attributes:
        document: its JSON.
        binary: its BIN chunk, padding included.
        oddities: what the container holds besides one JSON and one BIN chunk, one sentence each.
    """

    document: dict[str, Any]
    binary: bytes
    oddities: tuple[str, ...] = ()

    def rows(self, kind: str) -> list[dict[str, Any]]:
        """A list of the document, for example `nodes`; empty where there is none."""
        return self.document.get(kind, [])

    def view(self, index: int) -> tuple[int, int]:
        """Start and end of a bufferView in the BIN chunk."""
        row = self.rows("bufferViews")[index]
        start = row.get("byteOffset", 0)
        return start, start + row["byteLength"]

    def layout(self, index: int) -> tuple[int, int, int, int] | None:
        """Start, stride, bytes per element and number of elements of an accessor; None without a bufferView."""
        row = self.rows("accessors")[index]
        if "bufferView" not in row:
            return None
        size = WIDTHS[row["type"]] * np.dtype(DTYPES[row["componentType"]]).itemsize
        view = self.rows("bufferViews")[row["bufferView"]]
        start = view.get("byteOffset", 0) + row.get("byteOffset", 0)
        return start, view.get("byteStride") or size, size, row["count"]

    def accessor(self, index: int) -> NDArray[Any]:
        """(count, width) values as they are stored, sparse ones put in.

        Raises:
            SceneActError: it lies outside of the file.
        """
        row = self.rows("accessors")[index]
        kind, width = np.dtype(DTYPES[row["componentType"]]), WIDTHS[row["type"]]
        values = np.zeros((row["count"], width), kind)
        place = self.layout(index)
        try:
            if place is not None:
                start, stride, _, count = place
                values = np.ndarray((count, width), kind, self.binary, start, (stride, kind.itemsize)).copy()
            if "sparse" in row:
                sparse = row["sparse"]
                where, what = sparse["indices"], sparse["values"]
                at: NDArray[Any] = np.ndarray(
                    (sparse["count"],),
                    DTYPES[where["componentType"]],
                    self.binary,
                    self.view(where["bufferView"])[0] + where.get("byteOffset", 0),
                )
                begin = self.view(what["bufferView"])[0] + what.get("byteOffset", 0)
                values[at] = np.ndarray((sparse["count"], width), kind, self.binary, begin)
        except (TypeError, ValueError, IndexError) as problem:
            raise SceneActError(f"the accessor {index} of the GLB lies outside of the file: {problem}") from problem
        return values

    def floats(self, index: int) -> NDArray[np.float64]:
        """(count, width) values, normalised integers as the fractions that they stand for."""
        row, values = self.rows("accessors")[index], self.accessor(index)
        if not row.get("normalized"):
            return values.astype(np.float64)
        return np.maximum(values.astype(np.float64) / np.iinfo(values.dtype).max, -1.0)


def parse(glb: bytes) -> RawGlb:
    """Takes a GLB apart.

    Raises:
        SceneActError: it is no GLB.
    """
    oddities = []
    document: dict[str, Any] | None = None
    binary: bytes | None = None
    try:
        magic, version, total = struct.unpack_from("<4sII", glb)
        if magic != b"glTF" or version != 2:
            raise ValueError("it does not begin as one of version 2")
        if total != len(glb):
            oddities.append(f"the header speaks of {total} bytes, the file has {len(glb)}")
        at = 12
        while at + 8 <= len(glb):
            length, kind = struct.unpack_from("<II", glb, at)
            data = glb[at + 8 : at + 8 + length]
            if at + 8 + length > len(glb) and document is not None:
                break
            if kind == 0x4E4F534A and document is None:
                document = _json(data, oddities)
            elif kind == 0x004E4942 and binary is None and document is not None:
                binary = data
            else:
                oddities.append(f"a chunk of {length} bytes that is neither the JSON nor the BIN chunk")
            at += 8 + length
        if at != len(glb):
            oddities.append(f"{len(glb) - at} bytes after the last chunk")
        if not isinstance(document, dict):
            raise ValueError("it has no JSON")
    except (struct.error, ValueError, RecursionError) as problem:
        raise SceneActError(f"this is no GLB: {problem}") from problem
    return RawGlb(document, binary or b"", tuple(oddities))


def join(document: dict[str, Any], binary: bytes) -> bytes:
    """A GLB of a JSON and a BIN chunk."""
    text = json.dumps(document, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 4)
    binary += b"\0" * (-len(binary) % 4)
    chunks = struct.pack("<II", len(text), 0x4E4F534A) + text + struct.pack("<II", len(binary), 0x004E4942) + binary
    return struct.pack("<4sII", b"glTF", 2, 12 + len(chunks)) + chunks


def _json(text: bytes, oddities: list[str]) -> Any:
    padding = len(text) - len(text.rstrip())
    if padding > 7 or text[len(text) - padding :].strip(b" "):
        oddities.append("the JSON is padded with something else than a few spaces")

    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        keys = [key for key, _ in pairs]
        oddities.extend(f"the JSON has the key {key!r} twice" for key in sorted({k for k in keys if keys.count(k) > 1}))
        return dict(pairs)

    return json.loads(text, object_pairs_hook=once)
