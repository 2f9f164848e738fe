"""What a picture or a GLB holds besides what it is needed for: metadata, orphans, bytes that nothing uses."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from typing import Any

import numpy as np

from sceneact_gym.blender.draco import EXTENSION as DRACO
from sceneact_gym.blender.draco import decode_draco
from sceneact_gym.data.gltf_raw import RawGlb, parse
from sceneact_gym.errors import SceneActError

PNG_CHUNKS = {b"IHDR", b"PLTE", b"tRNS", b"gAMA", b"cHRM", b"sRGB", b"IDAT", b"IEND"}
WEBP_CHUNKS = {b"VP8 ", b"VP8L", b"VP8X", b"ALPH"}
KINDS = ("nodes", "meshes", "accessors", "bufferViews", "materials", "textures", "images", "samplers")
"""Lists of a glTF document in which nothing may lie unused."""

LIGHTS = "KHR_lights_punctual"
PADDING = 7
"""Zeros that may align what follows, bytes."""

Problem = tuple[str, str]
"""What, and where in the file."""


def picture_problems(data: bytes) -> Iterator[Problem]:
    """What a PNG, JPEG or WebP holds besides its pixels."""
    if data[:8] == b"\x89PNG\r\n\x1a\n":
        yield from png_problems(data)
    elif data[:2] == b"\xff\xd8":
        yield from _jpeg_problems(data)
    elif data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        yield from _webp_problems(data)
    else:
        yield "a picture that is neither PNG nor JPEG nor WebP", "its first bytes"


def png_problems(data: bytes) -> Iterator[Problem]:
    """What a PNG holds besides its pixels: other chunks (text, EXIF, time, ...), data after the pixels or the end."""
    if data[:8] != b"\x89PNG\r\n\x1a\n":
        yield "a picture that is no PNG", "its first bytes"
        return
    at, ended, pixels = 8, False, zlib.decompressobj()
    while at + 12 <= len(data) and not ended:
        length, kind = struct.unpack_from(">I4s", data, at)
        body = data[at + 8 : at + 8 + length]
        if kind not in PNG_CHUNKS:
            yield f"the PNG chunk {kind.decode('latin-1')}, which no picture needs", f"byte {at}"
        elif kind == b"IDAT":
            try:
                # Bounded: only the end of the stream is of interest.
                rest = body
                while rest and not pixels.eof:
                    pixels.decompress(rest, 1 << 20)
                    rest = pixels.unconsumed_tail
            except zlib.error as problem:
                yield f"broken pixels ({problem})", f"byte {at}"
                return
        ended = kind == b"IEND"
        at += 12 + length
    if pixels.unused_data:
        yield f"{len(pixels.unused_data)} bytes after the pixels' data", "IDAT"
    if at < len(data):
        yield f"{len(data) - at} bytes after the picture's end", f"byte {at}"


def _jpeg_problems(data: bytes) -> Iterator[Problem]:
    at = 2
    while at + 4 <= len(data) and data[at] == 0xFF:
        kind, length = data[at + 1], struct.unpack_from(">H", data, at + 2)[0]
        # APP0 is JFIF, APP14 tells how colours are stored.
        if kind == 0xFE or (0xE1 <= kind <= 0xEF and kind != 0xEE):
            yield f"a JPEG segment of metadata (0x{kind:02x})", f"byte {at}"
        at += 2 + length
        if kind == 0xDA:
            break
    end = data.find(b"\xff\xd9", at)
    if end < 0 or end + 2 < len(data):
        yield "bytes after the picture's end" if end >= 0 else "a picture without an end", f"byte {max(end, 0)}"


def _webp_problems(data: bytes) -> Iterator[Problem]:
    total = 8 + struct.unpack_from("<I", data, 4)[0]
    at = 12
    while at + 8 <= min(total, len(data)):
        kind, length = struct.unpack_from("<4sI", data, at)
        if kind not in WEBP_CHUNKS:
            yield f"the WebP chunk {kind.decode('latin-1').strip()}, which no picture needs", f"byte {at}"
        at += 8 + length + length % 2
    if at < len(data):
        yield f"{len(data) - at} bytes after the picture's end", f"byte {at}"


def glb_problems(data: bytes) -> Iterator[Problem]:
    """What a GLB holds that nothing in its scene uses, and pictures in it with metadata."""
    try:
        glb = parse(data)
    except SceneActError as problem:
        yield f"a file that cannot be searched ({problem})", "the whole file"
        return
    yield from ((oddity, "the container") for oddity in glb.oddities)
    try:
        yield from _orphans(glb)
        yield from _uncovered(glb)
        yield from _limits(parse(decode_draco(data)), DRACO in glb.document.get("extensionsUsed", ()))
        for number, row in enumerate(glb.rows("images")):
            if "bufferView" in row:
                start, end = glb.view(row["bufferView"])
                picture = glb.binary[start:end]
                bare = picture.rstrip(b"\0")
                # Some writers count the zeros that align what follows as part of the picture.
                for what, where in picture_problems(bare if len(picture) - len(bare) <= PADDING else picture):
                    yield what, f"images[{number}], {where}"
            else:
                yield "a picture outside of the file", f"images[{number}].uri"
    except (KeyError, IndexError, TypeError, ValueError, AttributeError, OverflowError, SceneActError) as problem:
        yield f"a document that is broken ({problem!r})", "the GLB's JSON"


def used(glb: RawGlb) -> dict[str, set[int]]:
    """Indices of what the scene uses, per list of the document."""
    found: dict[str, set[int]] = {kind: set() for kind in (*KINDS, "skins")}
    document = glb.document
    scenes = glb.rows("scenes")
    stack = list(scenes[document.get("scene", 0)].get("nodes", ())) if scenes else []
    while stack:
        number = stack.pop()
        if number in found["nodes"]:
            continue
        found["nodes"].add(number)
        node = glb.rows("nodes")[number]
        stack += node.get("children", ())
        found["meshes"] |= {node["mesh"]} if "mesh" in node else set()
        found["skins"] |= {node["skin"]} if "skin" in node else set()
        instancing = node.get("extensions", {}).get("EXT_mesh_gpu_instancing", {})
        found["accessors"].update(instancing.get("attributes", {}).values())
    for number in found["skins"]:
        skin = glb.rows("skins")[number]
        found["accessors"] |= {skin["inverseBindMatrices"]} if "inverseBindMatrices" in skin else set()
    for number in found["meshes"]:
        for primitive in glb.rows("meshes")[number]["primitives"]:
            found["accessors"].update(primitive["attributes"].values())
            found["accessors"] |= {primitive["indices"]} if "indices" in primitive else set()
            found["materials"] |= {primitive["material"]} if "material" in primitive else set()
            for target in primitive.get("targets", ()):
                found["accessors"].update(target.values())
            packed = primitive.get("extensions", {}).get(DRACO)
            found["bufferViews"] |= {packed["bufferView"]} if packed else set()
    for animation in glb.rows("animations"):
        for sampler in animation["samplers"]:
            found["accessors"] |= {sampler["input"], sampler["output"]}
    for number in found["materials"]:
        found["textures"].update(_textures(glb.rows("materials")[number]))
    for number in found["textures"]:
        row = glb.rows("textures")[number]
        sources = [row, *row.get("extensions", {}).values()]
        found["images"].update(source["source"] for source in sources if "source" in source)
        found["samplers"] |= {row["sampler"]} if "sampler" in row else set()
    for number in found["accessors"]:
        row = glb.rows("accessors")[number]
        sparse = row.get("sparse", {})
        owners = [row, sparse.get("indices", {}), sparse.get("values", {})]
        found["bufferViews"].update(owner["bufferView"] for owner in owners if "bufferView" in owner)
    for number in found["images"]:
        row = glb.rows("images")[number]
        found["bufferViews"] |= {row["bufferView"]} if "bufferView" in row else set()
    return found


def _textures(value: Any, key: str = "") -> Iterator[int]:
    """Indices of the textures that a material names."""
    if isinstance(value, dict):
        if key.endswith("Texture") and isinstance(value.get("index"), int):
            yield value["index"]
        for name, child in value.items():
            yield from _textures(child, name)


def _orphans(glb: RawGlb) -> Iterator[Problem]:
    if len(glb.rows("scenes")) > 1:
        yield "more than one scene; only the first shown one is used", "scenes"
    if len(glb.rows("buffers")) > 1 or any("uri" in row for row in glb.rows("buffers")):
        yield "data outside of the BIN chunk", "buffers"
    found = used(glb)
    for kind in KINDS:
        for number in sorted(set(range(len(glb.rows(kind)))) - found[kind]):
            yield "something that the scene does not use", f"{kind}[{number}]"
    lights = glb.document.get("extensions", {}).get(LIGHTS, {}).get("lights", [])
    lit = {glb.rows("nodes")[number].get("extensions", {}).get(LIGHTS, {}).get("light") for number in found["nodes"]}
    for number in sorted(set(range(len(lights))) - lit):
        yield "something that the scene does not use", f"lights[{number}]"
    for kind in ("cameras", "skins"):
        owners = {row.get(kind[:-1]) for number, row in enumerate(glb.rows("nodes")) if number in found["nodes"]}
        for number in sorted(set(range(len(glb.rows(kind)))) - owners):
            yield "something that the scene does not use", f"{kind}[{number}]"


def _uncovered(glb: RawGlb) -> Iterator[Problem]:
    """Bytes of the BIN chunk that belong to no accessor and no picture; zeros that align what follows are fine."""
    covered = np.zeros(len(glb.binary), bool)
    for number, row in enumerate(glb.rows("accessors")):
        place = glb.layout(number)
        if place is not None:
            start, stride, size, count = place
            if stride == size:
                covered[start : start + size * count] = True
            else:
                at = start + stride * np.arange(count)[:, None] + np.arange(size)
                covered[at[at < len(covered)]] = True
        if "sparse" in row:
            # Both parts of a sparse accessor are packed tightly, so that their views are their own.
            for part in ("indices", "values"):
                start, end = glb.view(row["sparse"][part]["bufferView"])
                covered[start:end] = True
    whole = [row["bufferView"] for row in glb.rows("images") if "bufferView" in row]
    for mesh in glb.rows("meshes"):
        for primitive in mesh["primitives"]:
            packed = primitive.get("extensions", {}).get(DRACO)
            whole += [packed["bufferView"]] if packed else []
    for number in whole:
        start, end = glb.view(number)
        covered[start:end] = True
    edges = np.flatnonzero(np.diff(np.concatenate([[True], covered, [True]]).astype(np.int8)))
    for start, end in zip(edges[::2], edges[1::2], strict=True):
        if end - start > PADDING or any(glb.binary[start:end]):
            yield f"{end - start} bytes that belong to nothing", f"byte {start} of the BIN chunk"


def _limits(glb: RawGlb, draco: bool) -> Iterator[Problem]:
    """`min` and `max` of accessors that are not those of the data; Draco's quantisation moves them a little."""
    for number, row in enumerate(glb.rows("accessors")):
        if glb.layout(number) is None and "sparse" not in row:
            continue
        values = glb.accessor(number).astype(np.float64)
        for name, truth in (("min", values.min(axis=0)), ("max", values.max(axis=0))) if len(values) else ():
            if name not in row:
                continue
            slack = (5e-3 if draco else 1e-5) * max(1.0, float(np.abs(values).max()))
            if len(row[name]) != len(truth) or not np.allclose(row[name], truth, rtol=0, atol=slack):
                yield f"a {name} that is not that of the data", f"accessors[{number}]"
