"""The truth audit: every kind of planted leak is found, and built-in cases have none."""

from __future__ import annotations

import copy
import functools
import io
import json
import re
import struct
import zlib
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from PIL.PngImagePlugin import PngInfo
from typer.testing import CliRunner

from sceneact_gym.blender.render import encode_png
from sceneact_gym.cases import Case, View
from sceneact_gym.cli import app
from sceneact_gym.data.audit import audit_case, audit_folder
from sceneact_gym.data.audit.files import picture_problems
from sceneact_gym.data.glb import Material, Node, Part, write_glb
from sceneact_gym.data.gltf_raw import join, parse
from sceneact_gym.data.procedural.source import BUILDERS
from sceneact_gym.errors import SceneActError

PNG = encode_png(np.random.default_rng(0).integers(0, 255, (8, 8, 3), np.uint8))
UUID = "Chair_1b30b6c7-b465-49d8-87e6-dd2314e53ad2"
CLAY = Material("clay", (0.5, 0.5, 0.5))


@functools.cache
def built(task: str) -> Case:
    case = BUILDERS[task][0](f"{task}-test-0001", "test", 1)
    return replace(case.with_references((PNG,)), truth={**case.truth, "source_names": {"object_00": UUID}})


def with_data(case: Case, **values: Any) -> Case:
    return replace(case, public=replace(case.public, data={**case.public.data, **values}))


def with_asset(case: Case, name: str, data: bytes) -> Case:
    return replace(case, public=replace(case.public, assets={**case.public.assets, name: data}))


def edited(case: Case, change: Callable[[dict[str, Any], bytearray], None], name: str = "") -> Case:
    """The case with its first (or the named) asset's JSON and BIN chunk changed."""
    name = name or next(iter(case.public.assets))
    glb = parse(case.public.assets[name])
    document, binary = copy.deepcopy(glb.document), bytearray(glb.binary)
    change(document, binary)
    document["buffers"][0]["byteLength"] = len(binary)
    return with_asset(case, name, join(document, bytes(binary)))


def document(change: Callable[[dict[str, Any]], Any], task: str = "layout") -> Callable[[], Case]:
    return lambda: edited(built(task), lambda rows, _: change(rows))


def pose(number: int = 0) -> list[float]:
    """x, y, z, yaw of a piece of the layout case."""
    return built("layout").truth["poses"][number]


def turned() -> int:
    """The number of a piece whose yaw is no multiple of 15 degrees."""
    return next(n for n, p in enumerate(built("layout").truth["poses"]) if abs(np.degrees(p[3]) % 15 - 7.5) < 7)


def camera() -> np.ndarray:
    return np.asarray(built("camera").truth["matrix_world"])


def to_yup(point: Any) -> list[float]:
    x, y, z = (float(value) for value in point)
    return [x, z, -y]


def node(name: str, vertices: Any) -> bytes:
    return write_glb([Node(name, [Part(np.asarray(vertices, float), np.arange(len(vertices)).reshape(-1, 3), CLAY)])])


def moved_vertices(in_place: bool) -> Case:
    """The piece's mesh as it stands in the room, or only turned as it is there, instead of canonical."""
    from sceneact_gym.data.procedural.rooms import generate_room

    case = built("layout")
    thing = generate_room("test", 1).objects[turned()]
    turn = np.array([[np.cos(thing.yaw), -np.sin(thing.yaw), 0], [np.sin(thing.yaw), np.cos(thing.yaw), 0], [0, 0, 1]])
    offset = thing.location if in_place else np.zeros(3)
    parts = [Part(part.vertices @ turn.T + offset, part.faces, part.material) for part in thing.parts]
    return with_asset(case, f"{thing.name}.glb", write_glb([Node(thing.name, parts)]))


def open_part() -> Case:
    case = built("articulated")
    part = next(part for part in case.truth["parts"] if part["joint_type"] is not None)
    name = part["nodes"][0]
    names, frames = case.public.data["objects"], case.truth["frames"]
    counts = [len(mesh) for mesh in closed_meshes(case)]
    start = sum(counts[: names.index(name)])
    opened = frames[16, start : start + counts[names.index(name)]]
    # A triangle from corner to corner of its box.
    return with_asset(case, "extra.glb", node("node_900", box_corners(opened)))


def box_corners(points: np.ndarray) -> np.ndarray:
    return np.array([points.min(axis=0), points.max(axis=0), points.max(axis=0)])


def closed_meshes(case: Case) -> list[np.ndarray]:
    from sceneact_gym.evaluators import gltf

    return [mesh.vertices for mesh in gltf.load(case.public.assets["object.glb"]).world_meshes()]


def animated(case: Case, name: str, place: Any) -> Case:
    poses = np.stack([np.eye(4)] * 3)
    poses[1:, :3, 3] = place
    triangle = Part(np.eye(3), np.array([[0, 1, 2]]), CLAY)
    return with_asset(case, name, write_glb([Node("component_00", [triangle], poses=poses)]))


def attribute(rows: Mapping[str, Any], binary: bytearray, values: np.ndarray) -> None:
    data = values.astype("<f4").tobytes()
    rows["bufferViews"].append({"buffer": 0, "byteOffset": len(binary), "byteLength": len(data)})
    rows["accessors"].append(
        {"bufferView": len(rows["bufferViews"]) - 1, "componentType": 5126, "count": len(values), "type": "VEC3"}
    )
    binary += data
    rows["meshes"][0]["primitives"][0]["attributes"]["_ORIGIN"] = len(rows["accessors"]) - 1


def hidden_attribute(rows: dict[str, Any], binary: bytearray) -> None:
    count = rows["accessors"][rows["meshes"][0]["primitives"][0]["attributes"]["POSITION"]]["count"]
    attribute(rows, binary, np.repeat([pose()[:3]], count, axis=0))


def hidden_camera(rows: dict[str, Any]) -> None:
    x, y, z, w = quaternion(camera()[:3, :3])
    rows["cameras"] = [{"type": "perspective", "perspective": {"yfov": 0.7, "znear": 0.1}}]
    rows["nodes"].append({"camera": 0, "rotation": [x, z, -y, w], "translation": [0.0, 0.0, 0.0]})
    rows["scenes"][0]["nodes"].append(len(rows["nodes"]) - 1)


def light(rows: dict[str, Any]) -> None:
    rows["extensions"] = {"KHR_lights_punctual": {"lights": [{"type": "point"}]}}
    place = to_yup(camera()[:3, 3])
    rows["nodes"].append({"translation": place, "extensions": {"KHR_lights_punctual": {"light": 0}}})
    rows["scenes"][0]["nodes"].append(len(rows["nodes"]) - 1)


def morph(rows: dict[str, Any], binary: bytearray) -> None:
    primitive = rows["meshes"][0]["primitives"][0]
    primitive["targets"] = [{"POSITION": primitive["attributes"]["POSITION"]}]


def quaternion(matrix: np.ndarray) -> list[float]:
    """Of a camera's rotation; glTF's cameras look along their own -Z as Blender's do, so that only the world turns."""
    from scipy.spatial.transform import Rotation

    world = np.array([[1.0, 0, 0], [0, 0, 1], [0, -1, 0]]) @ matrix
    x, y, z, w = Rotation.from_matrix(world).as_quat()
    # Undone by the (x, z, -y) above.
    return [x, -z, y, w]


def orphan_view(rows: dict[str, Any], binary: bytearray) -> None:
    rows["bufferViews"].append({"buffer": 0, "byteOffset": len(binary), "byteLength": 8})
    binary += b"\x01" * 8


def unused(kind: str, row: dict[str, Any]) -> Callable[[], Case]:
    return document(lambda rows: rows.setdefault(kind, []).append(row))


def png(**options: Any) -> bytes:
    buffer = io.BytesIO()
    Image.new("RGB", (8, 8), (10, 200, 30)).save(buffer, format="PNG", **options)
    return buffer.getvalue()


def png_chunk(kind: bytes, body: bytes) -> bytes:
    chunk = struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))
    return PNG[:-12] + chunk + PNG[-12:]


def png_text() -> bytes:
    info = PngInfo()
    info.add_text("pose", "1 2 3")
    return png(pnginfo=info)


def png_exif() -> bytes:
    exif = Image.Exif()
    exif[0x010E] = "door opens left"
    return png(exif=exif)


def after_the_pixels() -> bytes:
    """A second stream of data within the last IDAT chunk."""
    at = PNG.index(b"IDAT") - 4
    length = struct.unpack_from(">I", PNG, at)[0]
    body = PNG[at + 8 : at + 8 + length] + b"1 2 3"
    chunk = struct.pack(">I", len(body)) + b"IDAT" + body + struct.pack(">I", zlib.crc32(b"IDAT" + body))
    return PNG[:at] + chunk + PNG[at + 12 + length :]


def picture_in_glb(data: bytes) -> Callable[[], Case]:
    def change(rows: dict[str, Any], binary: bytearray) -> None:
        rows["bufferViews"].append({"buffer": 0, "byteOffset": len(binary), "byteLength": len(data)})
        rows["images"] = [{"bufferView": len(rows["bufferViews"]) - 1, "mimeType": "image/png"}]
        rows["textures"] = [{"source": 0}]
        rows["materials"][0]["pbrMetallicRoughness"]["baseColorTexture"] = {"index": 0}
        binary += data + b"\0" * (-len(data) % 4)

    return lambda: edited(built("layout"), change)


def twice() -> Case:
    case = built("layout")
    name = next(iter(case.public.assets))
    data = case.public.assets[name]
    length = struct.unpack_from("<I", data, 12)[0]
    text = data[20 : 20 + length].rstrip(b" ").replace(b'{"asset":', b'{"asset":[1.5],"asset":', 1)
    text += b" " * (-len(text) % 4)
    chunks = struct.pack("<II", len(text), 0x4E4F534A) + text + data[20 + length :]
    return with_asset(case, name, struct.pack("<4sII", b"glTF", 2, 12 + len(chunks)) + chunks)


def with_bytes(tail: bytes, whole: bool = False) -> Case:
    case = built("layout")
    name = next(iter(case.public.assets))
    data = case.public.assets[name] + tail
    if whole:
        data = data[:8] + struct.pack("<I", len(data)) + data[12:]
    return with_asset(case, name, data)


def mean_in_place() -> Case:
    """A component that is already where a mover of the scene is in frame 9."""
    case = built("dynamic")
    return with_asset(
        case, next(iter(case.public.assets)), node("component", np.eye(3) - 1 / 3 + case.truth["tracks"][0, 9])
    )


PLANTS: dict[str, tuple[Callable[[], Case], str, str]] = {
    # Texts and numbers of public.json, case.json and file names.
    "a place in the data": (lambda: with_data(built("layout"), hint=[0, *pose()[:3]]), "public.json", "the place"),
    "a place, Y up": (lambda: with_data(built("layout"), hint=to_yup(pose()[:3])), "public.json", "Y up"),
    "a place by keys": (
        lambda: with_data(built("layout"), hint=dict(zip("xyz", pose(), strict=False))),
        "public.json",
        "place",
    ),
    "a place, rounded, in a text": (
        lambda: with_data(built("layout"), note="put it at ({:.3f}, {:.3f}, {:.3f})".format(*pose()[:3])),
        "public.json",
        "the place",
    ),
    "a camera's matrix": (lambda: with_data(built("camera"), m=camera().tolist()), "public.json", "the place"),
    "a camera's direction": (
        lambda: with_data(built("camera"), d=(-camera()[:3, 2]).tolist()),
        "public.json",
        "direction",
    ),
    "a view at the hidden camera": (
        lambda: replace(built("camera"), public=replace(built("camera").public, views=(View("v", camera(), 39.6),))),
        "public.json",
        "the place",
    ),
    "an angle in radians": (lambda: with_data(built("layout"), a=pose(turned())[3]), "public.json", "the angle"),
    "an angle in degrees": (
        lambda: with_data(built("layout"), a=f"{np.degrees(pose(turned())[3]):.3f}"),
        "public.json",
        "the angle",
    ),
    "a joint's type": (lambda: with_data(built("articulated"), joint="Rotation"), "public.json", "'rotation'"),
    "a joint's type as a key": (lambda: with_data(built("articulated"), rotation=1), "public.json", "'rotation'"),
    "a category": (lambda: with_data(built("layout"), names=["a chair"]), "public.json", "'chair'"),
    "a mover by name": (lambda: with_data(built("dynamic"), see="mover_00"), "public.json", "'mover'"),
    "a track": (
        lambda: with_data(built("dynamic"), t=built("dynamic").truth["tracks"][0, 70].tolist()),
        "public.json",
        "tracks",
    ),
    "a place in the id": (
        lambda: replace(built("camera"), id="room_{:.3f}_{:.3f}_{:.3f}".format(*camera()[:3, 3])),
        "case.json",
        "the place",
    ),
    "a category in a file's name": (
        lambda: with_asset(built("layout"), f"{UUID}.glb", node("object_00", np.eye(3))),
        f"{UUID}.glb",
        "the word",
    ),
    "two coordinates": (lambda: with_data(built("layout"), at=pose(turned())[:2]), "public.json", "on the floor"),
    # The JSON of a GLB.
    "a node's name": (document(lambda rows: rows["nodes"][0].update(name=UUID)), "object_00.glb", "'1b30b6c7"),
    "a material's name": (document(lambda rows: rows["materials"][0].update(name="chair")), "object_00.glb", "'chair'"),
    "a custom property": (
        document(lambda rows: rows["nodes"][0].update(extras={"p": pose()[:3]})),
        "object_00.glb",
        "place",
    ),
    "a custom property's key": (
        document(lambda rows: rows["nodes"][0].update(extras={"Chair": 1})),
        "object_00.glb",
        "chair",
    ),
    "a scene's property": (
        document(lambda rows: rows["scenes"][0].update(extras={"yaw": pose(turned())[3]})),
        ".glb",
        "angle",
    ),
    "a copyright": (
        document(lambda rows: rows["asset"].update(copyright=str(pose()[:3]))),
        "object_00.glb",
        "the place",
    ),
    "a node's place": (
        document(lambda rows: rows["nodes"][0].update(translation=to_yup(pose()[:3]))),
        "object_00.glb",
        "place",
    ),
    "a node's turn": (
        document(
            lambda rows: rows["nodes"][0].update(
                rotation=[0.0, float(np.sin(pose(turned())[3] / 2)), 0.0, float(np.cos(pose(turned())[3] / 2))]
            )
        ),
        "object_00.glb",
        "the turn of a node",
    ),
    "a camera of the hidden view": (document(hidden_camera, "camera"), "scene.glb", "the direction of a node"),
    "a light where the camera is": (document(light, "camera"), "scene.glb", "the place of a node"),
    "a node below its place": (
        document(lambda rows: rows["nodes"][0].update(translation=[pose(turned())[0], 0.0, -pose(turned())[1]])),
        "object_00.glb",
        "on the floor",
    ),
    "a false maximum": (document(lambda rows: rows["accessors"][0].update(max=pose()[:3])), "object_00.glb", "a max"),
    "a key that is there twice": (twice, "object_00.glb", "twice"),
    # Data that nothing uses.
    "an unused node": (unused("nodes", {"name": "x"}), "object_00.glb", "does not use"),
    "an unused mesh": (unused("meshes", {"primitives": []}), "object_00.glb", "does not use"),
    "an unused accessor": (
        unused("accessors", {"componentType": 5126, "count": 1, "type": "VEC3"}),
        ".glb",
        "does not use",
    ),
    "an unused material": (unused("materials", {}), "object_00.glb", "does not use"),
    "an unused camera": (unused("cameras", {"type": "perspective"}), "object_00.glb", "does not use"),
    "an unused light": (
        document(lambda rows: rows.update(extensions={"KHR_lights_punctual": {"lights": [{"type": "point"}]}})),
        "object_00.glb",
        "does not use",
    ),
    "an unused view": (lambda: edited(built("layout"), orphan_view), "object_00.glb", "does not use"),
    "a second scene": (
        document(lambda rows: rows["scenes"].append({"nodes": []})),
        "object_00.glb",
        "more than one scene",
    ),
    "bytes of nothing": (
        lambda: edited(built("layout"), lambda _, data: data.extend(b"1234")),
        ".glb",
        "belong to nothing",
    ),
    "zeros of nothing": (
        lambda: edited(built("layout"), lambda _, data: data.extend(bytes(16))),
        ".glb",
        "belong to nothing",
    ),
    "bytes after the end": (lambda: with_bytes(b"1234"), "object_00.glb", "the header speaks of"),
    "bytes after the last chunk": (lambda: with_bytes(b"1234", True), "object_00.glb", "after the last chunk"),
    "another chunk": (
        lambda: with_bytes(struct.pack("<II", 4, 0x41414141) + b"1234", True),
        ".glb",
        "a chunk of 4 bytes",
    ),
    "a file of another kind": (lambda: with_asset(built("layout"), "poses.txt", b"1 2 3"), "poses.txt", "no GLB"),
    # Geometry.
    "a mesh in its place": (lambda: moved_vertices(True), ".glb", "in the true place of"),
    "a mesh turned as in the room": (lambda: moved_vertices(False), ".glb", "turned as"),
    "an attribute of vertices": (lambda: edited(built("layout"), hidden_attribute), "object_00.glb", "a value that is"),
    "a vertex at the hidden camera": (
        lambda: with_asset(
            built("camera"), "mark.glb", node("mark", np.eye(3) * 0.01 + camera()[:3, 3] - [0.01, 0, 0])
        ),
        "mark.glb",
        "a value that is",
    ),
    "an open door": (open_part, "extra.glb", "another than the closed state"),
    "an animation": (
        lambda: animated(built("articulated"), "object.glb", [0, 0, 1]),
        "object.glb",
        "animations, though",
    ),
    "a shape that opens": (lambda: edited(built("articulated"), morph), "object.glb", "another shape of a mesh"),
    "a key of a track": (
        lambda: animated(built("camera"), "extra.glb", camera()[:3, 3]),
        "extra.glb",
        "a value that is",
    ),
    "a component in its place": (mean_in_place, ".glb", "a mesh in a true place"),
    "the furniture to be modelled": (
        lambda: with_asset(built("reconstruction"), "r.glb", built("reconstruction").truth["scene.glb"].tobytes()),
        "r.glb",
        "of the size of",
    ),
    # Pictures.
    "a PNG's text": (lambda: built("layout").with_references((PNG, png_text())), "0001.png", "tEXt"),
    "a PNG's EXIF": (lambda: built("layout").with_references((png_exif(),)), "0000.png", "eXIf"),
    "a PNG's time": (lambda: built("layout").with_references((png_chunk(b"tIME", bytes(7)),)), "0000.png", "tIME"),
    "a PNG's XMP": (
        lambda: built("layout").with_references((png_chunk(b"iTXt", b"XML:com.adobe.xmp\0"),)),
        ".png",
        "iTXt",
    ),
    "bytes after a PNG": (
        lambda: built("layout").with_references((PNG + b"1",)),
        "0000.png",
        "after the picture's end",
    ),
    "bytes after the pixels": (
        lambda: built("layout").with_references((after_the_pixels(),)),
        ".png",
        "after the pixels",
    ),
    "a picture of another kind": (lambda: built("layout").with_references((b"GIF89a",)), "0000.png", "no PNG"),
    "metadata of a texture": (picture_in_glb(png_text()), "object_00.glb", "tEXt"),
}


@pytest.mark.parametrize("plant", PLANTS)
def test_a_planted_leak_is_found(plant: str) -> None:
    make, file, what = PLANTS[plant]
    found = audit_case(make())
    assert any(finding.file.endswith(file) and what in finding.what and finding.where for finding in found), found
    # Only what was planted, not the rest of the case.
    assert {finding.file for finding in found} == {finding.file for finding in found if finding.file.endswith(file)}


@pytest.mark.parametrize("task", BUILDERS)
def test_built_in_cases_have_no_leak(task: str) -> None:
    make, splits = BUILDERS[task]
    for split, index in (("test", 0), ("test", 1), ("val", 2), ("train", 5)):
        assert split in splits
        case = make(f"{task}-{split}-{index:04d}", split, index).with_references((PNG,))
        assert audit_case(case) == []


def test_a_clean_texture_is_fine() -> None:
    assert audit_case(picture_in_glb(png())()) == []
    # A few zeros may align what follows.
    assert audit_case(picture_in_glb(png() + bytes(3))()) == []
    assert audit_case(picture_in_glb(png() + bytes(9))()) != []
    assert audit_case(picture_in_glb(png() + b"\1\2\3")()) != []


def test_metadata_of_other_pictures_is_found() -> None:
    def saved(form: str, **options: Any) -> bytes:
        buffer = io.BytesIO()
        Image.new("RGB", (8, 8), (10, 200, 30)).save(buffer, format=form, **options)
        return buffer.getvalue()

    exif = Image.Exif()
    exif[0x010E] = "door opens left"
    for form in ("JPEG", "WEBP"):
        assert list(picture_problems(saved(form))) == []
        assert "metadata" in str(list(picture_problems(saved(form, exif=exif)))) or "EXIF" in str(
            list(picture_problems(saved(form, exif=exif)))
        )
        assert "after the picture's end" in str(list(picture_problems(saved(form) + b"1 2 3")))


@pytest.fixture
def bundle(tmp_path: Path) -> Path:
    built("camera").save(tmp_path / "bundle" / "one")
    return tmp_path / "bundle"


def change_json(path: Path, change: Callable[[dict[str, Any]], Any]) -> None:
    values = json.loads(path.read_text())
    change(values)
    path.write_text(json.dumps(values))


@pytest.mark.parametrize(
    ("plant", "what"),
    [
        (lambda case: (case / "public" / "gt.json").write_text("{}"), "no case needs"),
        (lambda case: (case / "public" / "assets" / "more").mkdir(), "no case needs"),
        (lambda case: (case / "public" / "references" / "pose.txt").write_text(""), "no case needs"),
        (
            lambda case: (case / "public" / "assets" / "t.json").symlink_to(case / "truth" / "truth.json"),
            "no case needs",
        ),
        (lambda case: change_json(case / "case.json", lambda v: v.update(seed=1)), "'seed', which nobody reads"),
        (lambda case: change_json(case / "public" / "public.json", lambda v: v.update(gt=1)), "'gt', which nobody"),
    ],
)
def test_what_the_loader_does_not_read_is_found_on_disk(bundle: Path, plant: Callable[[Path], Any], what: str) -> None:
    assert audit_folder(bundle) == (1, [])
    plant(bundle / "one")
    count, found = audit_folder(bundle)
    assert count == 1 and any(what in finding.what for finding in found), found


def test_the_command(bundle: Path) -> None:
    clean = CliRunner().invoke(app, ["data", "audit", str(bundle)])
    assert clean.exit_code == 0 and "1 cases, 0 findings" in clean.output
    place = camera()[:3, 3].tolist()
    change_json(bundle / "one" / "public" / "public.json", lambda values: values["data"].update(hint=place))
    leaky = CliRunner().invoke(app, ["data", "audit", str(bundle)])
    assert leaky.exit_code == 1
    assert re.search(r"camera-test-0001: public/public\.json: the place .* \(data\.hint\[0\]\)", leaky.output)


def test_a_folder_without_cases_is_no_clean_folder(tmp_path: Path) -> None:
    with pytest.raises(SceneActError, match="no case folder"):
        audit_folder(tmp_path)


@pytest.mark.parametrize(
    "text", [b"[]", b"{}", b'{"nodes":[{"mesh":9}],"scenes":[{"nodes":[0]}]}', b'{"scenes":3}', b'{"extensionsUsed":3}']
)
def test_a_broken_file_is_a_finding(text: bytes) -> None:
    text += b" " * (-len(text) % 4)
    data = struct.pack("<4sIIII", b"glTF", 2, 20 + len(text), len(text), 0x4E4F534A) + text
    found = audit_case(with_asset(built("layout"), "broken.glb", data))
    assert any(finding.file.endswith("broken.glb") for finding in found) or text.strip() == b"{}"
