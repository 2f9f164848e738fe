"""Cases out of one's own scenes: what they hold is what was put into the scenes, worked out by hand."""

from __future__ import annotations

import io
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from PIL import Image

import sceneact_gym  # noqa: F401
from sceneact_gym.agents.simple import OracleAgent
from sceneact_gym.cases import Case
from sceneact_gym.data.audit import audit_case
from sceneact_gym.data.bundles.build import entry_cases
from sceneact_gym.data.bundles.pieces import SourceGlb, compose
from sceneact_gym.data.bundles.spec import CameraPose, Spec
from sceneact_gym.data.glb import Material, Node, Part, write_glb
from sceneact_gym.data.gltf_raw import join, parse
from sceneact_gym.errors import SceneActError
from sceneact_gym.evaluators import gltf
from sceneact_gym.tasks import TASKS
from sceneact_gym.tasks.base import Submission

CLAY = Material("clay", (0.6, 0.5, 0.4))
VIEW = {"location": [0, -5, 2], "look_at": [0, 0, 0.5]}
# A wedge without any symmetry, in the unit box's lower corner.
WEDGE = np.array([[0, 0, 0], [1.0, 0, 0], [0, 0.6, 0], [0, 0, 0.3]])
WEDGE_CENTRE = np.array([0.5, 0.3, 0.15])
FACES = np.array([[0, 2, 1], [0, 1, 3], [1, 2, 3], [0, 3, 2]])


def wedge(name: str, offset: Sequence[float] = (0, 0, 0), **place: Any) -> Node:
    return Node(name, [Part(WEDGE + np.asarray(offset, float), FACES, CLAY)], **place)


def turn_z(degrees: float) -> np.ndarray:
    c, s = math.cos(math.radians(degrees)), math.sin(math.radians(degrees))
    return np.array([[c, -s, 0], [s, c, 0], [0, 0, 1.0]])


def pose(turn: np.ndarray | None = None, place: Sequence[float] = (0, 0, 0)) -> np.ndarray:
    matrix = np.eye(4)
    matrix[:3, :3] = np.eye(3) if turn is None else turn
    matrix[:3, 3] = place
    return matrix


def made(folder: Path, nodes: list[Node] | bytes, **entry: Any) -> Case:
    """The case of one entry whose scene is these nodes."""
    (folder / "scene.glb").write_bytes(nodes if isinstance(nodes, bytes) else write_glb(nodes))
    (case,) = entry_cases(Spec.model_validate({"cases": [{"id": "mine"} | entry]}).cases[0], folder)
    return case


def meshes(data: Any) -> dict[str, np.ndarray]:
    return {mesh.name: mesh.vertices for mesh in gltf.load(bytes(data)).world_meshes()}


def at_sixteen_fps(glb: bytes) -> bytes:
    """The same animation with row r of its keys at r / 16 s."""
    inside = parse(glb)
    binary = bytearray(inside.binary)
    for number in {sampler["input"] for sampler in inside.document["animations"][0]["samplers"]}:
        start, _, _, count = inside.layout(number)  # type: ignore[misc]
        binary[start : start + 4 * count] = (np.arange(count) / 16).astype("<f4").tobytes()
        inside.document["accessors"][number] |= {"min": [0.0], "max": [(count - 1) / 16]}
    return join(inside.document, bytes(binary))


def test_camera(tmp_path: Path) -> None:
    nodes = [Node("world", [], children=[wedge("Bed_1234", location=(1, 2, 0))]), wedge("None.obj")]
    case = made(
        tmp_path, nodes, task="camera", scene="scene.glb", camera=VIEW | {"fov_x_deg": 50}, scale=2, turn_deg=90
    )
    assert case.public.data["fov_x_deg"] == 50 and sorted(case.public.data["objects"]) == ["object_00", "object_01"]
    found = meshes(case.public.assets["scene.glb"])
    names = case.truth["source_names"]
    assert sorted(names.values()) == ["Bed_1234", "None.obj"]
    # Twice the size, then a quarter turn: (x, y, z) -> (-2 y, 2 x, 2 z).
    for name, offset in (("Bed_1234", [1, 2, 0]), ("None.obj", [0, 0, 0])):
        x, y, z = (WEDGE + offset).T
        key = next(new for new, old in names.items() if old == name)
        assert np.allclose(found[key], np.stack([-2 * y, 2 * x, 2 * z], axis=1), atol=1e-6)
    # From (0, -5, 2) to (0, 0, 0.5): along (0, 5, -1.5), level horizon.
    matrix = case.truth["matrix_world"]
    assert np.allclose(matrix[:3, 3], [0, -5, 2]) and np.allclose(matrix[:3, 0], [1, 0, 0])
    assert np.allclose(-matrix[:3, 2], np.array([0, 5, -1.5]) / math.hypot(5, 1.5))
    assert audit_case(case) == []


@pytest.mark.parametrize(("look_at", "up"), [([0, 0, 0], [0, 1, 0]), ([0, 0, 4], [0, 1, 0])])
def test_a_camera_may_look_straight_down_or_up(look_at: list[float], up: list[float]) -> None:
    matrix = CameraPose(location=[0, 0, 2], look_at=look_at).matrix_world
    assert np.allclose(np.linalg.det(matrix), 1) and np.allclose(matrix[:3, 1], up)
    assert np.allclose(-matrix[:3, 2], np.sign(look_at[2] - 2) * np.array([0, 0, 1]))


def test_layout_of_a_scene(tmp_path: Path) -> None:
    yaw = math.radians(30)
    baked = [Part(WEDGE @ turn_z(-50).T + [3, 1, 0], FACES, CLAY)]
    nodes = [wedge("Table_1", location=(1, 2, 0), yaw=yaw), Node("Chair_1", baked), wedge("Wall")]
    case = made(
        tmp_path,
        nodes,
        task="layout",
        scene="scene.glb",
        furniture=["Table_*", "Chair_*"],
        yaw_deg={"Chair_*": -50},
        views=[VIEW],
    )
    names = {old: new for new, old in case.truth["source_names"].items()}
    assert sorted(names) == ["Chair_1", "Table_1"] and case.public.data["objects"] == ["object_00", "object_01"]
    for old, place, degrees in (("Table_1", [1, 2, 0], 30), ("Chair_1", [3, 1, 0], -50)):
        (canonical,) = meshes(case.public.assets[f"{names[old]}.glb"]).values()
        assert np.allclose(canonical, WEDGE - WEDGE_CENTRE, atol=1e-6)
        x, y, z, turned = case.truth["poses"][int(names[old][-1])]
        assert np.allclose([x, y, z], turn_z(degrees) @ WEDGE_CENTRE + place, atol=1e-6)
        assert math.degrees(turned) == pytest.approx(degrees, abs=1e-4)
        true = meshes(case.truth["scene.glb"])[names[old]]
        assert np.allclose(true, WEDGE @ turn_z(degrees).T + place, atol=1e-5)
    assert audit_case(case) == []
    submission = Submission({}, {"scene.glb": case.truth["scene.glb"].tobytes()})
    for protocol in ("paper", "strict"):
        assert TASKS["layout"].evaluate(case, submission, protocol).score == pytest.approx(100, abs=0.1)  # type: ignore[arg-type]
    nothing = write_glb([Node(name, [Part(WEDGE - WEDGE_CENTRE, FACES, CLAY)]) for name in names.values()])
    assert TASKS["layout"].evaluate(case, Submission({}, {"scene.glb": nothing}), "strict").score == pytest.approx(0)


def test_layout_of_canonical_files(tmp_path: Path) -> None:
    (tmp_path / "table.glb").write_bytes(write_glb([wedge("anything", (7, 7, 7))]))
    case = made(
        tmp_path,
        [],
        task="layout_multiview",
        objects=[
            {"file": "table.glb", "location": [1, 2, 0.15], "yaw_deg": 30},
            {"file": "table.glb", "location": [-1, 2, 0.15]},
        ],
        views=[VIEW, VIEW],
    )
    assert [view.name for view in case.public.views] == ["view_00", "view_01"] and case.condition == "multi"
    for index, name in enumerate(case.public.data["objects"]):
        x, y, z, yaw = case.truth["poses"][index]
        assert np.allclose(meshes(case.public.assets[f"{name}.glb"])[name], WEDGE - WEDGE_CENTRE, atol=1e-5)
        expected = (WEDGE - WEDGE_CENTRE) @ turn_z(30 if x > 0 else 0).T + [x, 2, 0.15]
        assert np.allclose(meshes(case.truth["scene.glb"])[name], expected, atol=1e-5)
        assert math.degrees(yaw) == pytest.approx(30 if x > 0 else 0)
    assert audit_case(case) == []


def test_reconstruction(tmp_path: Path) -> None:
    nodes = [Node("Bed", [], children=[wedge("frame", location=(1, 0, 0)), wedge("cushion")]), wedge("room")]
    case = made(
        tmp_path, nodes, task="reconstruction", scene="scene.glb", furniture=["Bed"], views=[VIEW], offset=[0, 0, 1]
    )
    ((name, points),) = meshes(case.truth["scene.glb"]).items()
    assert name == "object_00" and not case.public.assets
    expected = np.concatenate([WEDGE + [1, 0, 1], WEDGE + [0, 0, 1]])
    assert np.allclose(points, expected, atol=1e-6)
    assert audit_case(case) == []


def cabinet(lift: float = 0.0, stretch: float = 0.0) -> bytes:
    """A body, a door that turns by 90 degrees about the upright through (0.4, -0.3), a drawer that slides 0.3 m."""
    opening = np.minimum(np.arange(32), 32 - np.arange(32)) / 16
    hinge = np.array([0.4, -0.3, 0])
    door = [pose(turn_z(90 * o), hinge - turn_z(90 * o) @ hinge) for o in opening]
    slide = [pose(np.eye(3) * [1, 1, 1 + stretch * o], [0, -0.3 * o, 0]) for o in opening]
    lifted = [pose(None, [0, 0, lift * o]) for o in opening]
    nodes = [
        wedge("base", poses=np.stack(lifted)),
        wedge("door.0", (0.1, 0, 0), poses=np.stack(door)),
        wedge("door.handle", (0.2, 0, 0), poses=np.stack(door)),
        wedge("drawer", (0.3, 0, 0), poses=np.stack(slide)),
    ]
    return at_sixteen_fps(write_glb(nodes))


ARTICULATED = {"task": "articulated", "scene": "scene.glb", "camera": VIEW}


def test_articulated(tmp_path: Path) -> None:
    case = made(tmp_path, cabinet(), **ARTICULATED, parts={"door": ["door.0", "door.handle"], "drawer": "drawer"})
    names = {old: new for new, old in case.truth["source_names"].items()}
    assert sorted(names.values()) == case.public.data["objects"] == [f"node_{n:03d}" for n in range(4)]
    body, door, drawer = case.truth["parts"]
    assert body["joint_type"] is None and body["nodes"] == [names["base"]]
    assert door["joint_type"] == "rotation" and door["nodes"] == sorted([names["door.0"], names["door.handle"]])
    assert np.allclose(door["axis"], [0, 0, 1], atol=1e-5) and door["range"] == pytest.approx(math.pi / 2, abs=1e-5)
    assert np.allclose(door["origin"], [0.4, -0.3, 0], atol=1e-5)
    assert drawer["joint_type"] == "translation" and np.allclose(drawer["axis"], [0, -1, 0], atol=1e-5)
    assert drawer["range"] == pytest.approx(0.3, abs=1e-5)
    frames, owner = case.truth["frames"], case.truth["part_of_vertex"]
    assert frames.shape == (32, 16, 3) and np.bincount(owner).tolist() == [4, 8, 4]
    start = 4 * case.public.data["objects"].index(names["door.0"])
    closed = WEDGE + [0.1, 0, 0]
    assert np.allclose(frames[0, start : start + 4], closed, atol=1e-6)
    hinge = np.array([0.4, -0.3, 0])
    assert np.allclose(frames[16, start : start + 4], (closed - hinge) @ turn_z(90).T + hinge, atol=1e-5)
    assert np.allclose(frames[28], frames[4], atol=1e-5)
    # Closed, without motion, and not even the audit finds how it opens.
    assert "animations" not in parse(case.public.assets["object.glb"]).document
    assert audit_case(case) == []


@pytest.mark.parametrize(
    ("scene", "parts", "message"),
    [
        (cabinet(), {"door": "door.*"}, "'drawer' moves, but no part's pattern names it"),
        (cabinet(lift=0.1), {"door": "door.*", "drawer": "drawer"}, "'base' moves, but no part"),
        (cabinet(stretch=0.5), {"door": "door.*", "drawer": "drawer"}, "'drawer' does not move rigidly"),
        (cabinet(), {"both": ["door.*", "drawer"]}, "does not move rigidly with the part 'both'"),
        (cabinet(), {"door": "door.*", "drawer": "drawer", "b": "base"}, "there is no body"),
        (cabinet(), {"door": "door.*", "drawer": ["drawer", "door.0"]}, "belongs to 'door' and to 'drawer'"),
        (cabinet(), {"lid": "lid"}, "no mesh of scene.glb is named like 'lid'; it has base, door.0"),
        (
            at_sixteen_fps(write_glb([wedge("base", poses=np.stack([np.eye(4)] * 2)), wedge("lid")])),
            {"lid": "lid"},
            "the part 'lid' is in frame 16 where it is in frame 0",
        ),
    ],
)
def test_articulated_scenes_that_make_no_case(tmp_path: Path, scene: bytes, parts: Any, message: str) -> None:
    with pytest.raises(SceneActError, match=message):
        made(tmp_path, scene, **ARTICULATED, parts=parts)


def castle() -> list[Node]:
    path = np.stack([pose(None, [0.01 * row, 1, 0]) for row in range(144)])
    arm = np.stack([pose(turn_z(row), [0, 0, 1]) for row in range(144)])
    return [
        wedge("Ram", poses=path, children=[wedge("roof", (0, 0, 1))]),
        Node("Catapult", [], location=(5, 0, 0), children=[wedge("frame"), wedge("arm", poses=arm)]),
        wedge("Wall_1", location=(1, 2, 0)),
        wedge("Wall_2", location=(2, 2, 0), yaw=0.5),
        wedge("Rock", (-3, 4, 0)),
        wedge("Flag", poses=np.stack([pose(None, [8, 8, 0.001 * row]) for row in range(144)])),
    ]


def test_dynamic(tmp_path: Path) -> None:
    case = made(tmp_path, castle(), task="dynamic", scene="scene.glb", movers=["Ram", "arm"], camera=VIEW)
    names = case.truth["source_names"]
    assert case.truth["movers"] == ["mover_00", "mover_01"] and names["mover_00"] == "Ram"
    assert sorted(names.values()) == ["Catapult", "Flag", "Ram", "Rock", "Wall_1", "Wall_2", "arm"]
    mean = WEDGE.mean(axis=0)
    # The ram with its roof a metre above, frame r in row r.
    ram, arm = case.truth["tracks"]
    assert np.allclose(ram, [[0.01 * row, 1, 0.5] + mean for row in range(144)], atol=1e-5)
    assert np.allclose(arm, [[5, 0, 1] + turn_z(row) @ mean for row in range(144)], atol=1e-5)
    expected = [[5, 0, 0] + mean, [1, 2, 0] + mean, [2, 2, 0] + turn_z(math.degrees(0.5)) @ mean, [-3, 4, 0] + mean]
    assert np.allclose(case.truth["statics"], expected, atol=1e-5)
    assert np.allclose(case.truth["poses"][0][7], pose(None, [0.07, 1, 0]), atol=1e-6)
    assert len(case.truth["placements"]) == 4 and len(set(case.truth["moving"])) == 2
    # Walls, catapult, arm and flag have one shape; the ram has two wedges; the rock's origin is put below it.
    assert list(case.public.assets) == case.public.data["components"] and len(case.public.assets) == 3
    rock = [WEDGE - [0.5, 0.3, 0]]
    shapes = [meshes(data)[name.removesuffix(".glb")] for name, data in case.public.assets.items()]
    assert any(len(shape) == 4 and np.allclose(shape, rock, atol=1e-5) for shape in shapes)
    assert any(len(shape) == 8 for shape in shapes)
    assert audit_case(case) == []
    submission = Submission({}, {"scene.glb": case.truth["scene.glb"].tobytes()})
    score = TASKS["dynamic"].evaluate(case, submission, "strict")
    # The flag moves, though it is no mover: one mover more than there should be. The true ones are in place.
    assert score.metrics["extra"] == 1 and score.metrics["le"] == pytest.approx(0, abs=1e-5)
    assert score.metrics["recall"] == 1


def test_dynamic_places_by_origins(tmp_path: Path) -> None:
    case = made(
        tmp_path,
        castle(),
        task="dynamic_photoreal",
        scene="scene.glb",
        movers=["Ram"],
        statics=["Wall_*", "Rock"],
        places="origins",
        scene_scale=9.5,
        camera=VIEW,
    )
    assert np.allclose(case.truth["tracks"], [[[0.01 * row, 1, 0] for row in range(144)]], atol=1e-5)
    assert np.allclose(case.truth["statics"], [[1, 2, 0], [2, 2, 0], [0, 0, 0]], atol=1e-6)
    assert case.truth["scene_scale"] == 9.5 and case.condition == "photoreal"


def test_a_library_of_files_keeps_its_names(tmp_path: Path) -> None:
    (tmp_path / "library").mkdir()
    for name in ("castle-wall", "ram"):
        (tmp_path / "library" / f"{name}.glb").write_bytes(write_glb([wedge("x")]))
    entry = {"task": "dynamic", "scene": "scene.glb", "movers": ["Ram"], "components": "library", "camera": VIEW}
    case = made(tmp_path, castle(), **entry)
    assert case.public.data["components"] == ["castle-wall.glb", "ram.glb"]
    # Walls are in the scene and in the library: that a component has such a name tells nothing.
    assert audit_case(case) == []
    assert list(meshes(case.public.assets["ram.glb"])) == ["ram"]


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ({"task": "reconstruction", "furniture": ["Sofa*"]}, "named like 'Sofa\\*'; it has Bed, frame"),
        ({"task": "reconstruction", "furniture": ["empty"]}, "the node 'empty' of scene.glb has no mesh"),
        ({"task": "layout", "furniture": ["Bed"], "yaw_deg": {"Sofa": 3}}, "yaw_deg: no furniture"),
        ({"task": "reconstruction", "scene": "none.glb", "furniture": ["Bed"]}, "none.glb cannot be read"),
        (
            {"task": "reconstruction", "scene": "text.glb", "furniture": ["Bed"]},
            "text.glb cannot be read",
        ),
        (
            {"task": "reconstruction", "furniture": ["Bed"], "references": ["no.png"]},
            "the picture no.png cannot be read",
        ),
    ],
)
def test_what_is_missing_is_named(tmp_path: Path, entry: dict[str, Any], message: str) -> None:
    (tmp_path / "text.glb").write_bytes(b"no GLB at all")
    nodes = [Node("Bed", [], children=[wedge("frame")]), Node("empty", [])]
    with pytest.raises(SceneActError, match=message):
        made(tmp_path, nodes, **{"scene": "scene.glb", "views": [VIEW], **entry})


def test_given_pictures_lose_their_metadata(tmp_path: Path) -> None:
    exif = Image.Exif()
    exif[0x010E] = "taken from (1, 2, 3)"
    picture = Image.new("RGB", (6, 4), (200, 30, 10))
    picture.save(tmp_path / "view.webp", lossless=True, exif=exif)
    case = made(tmp_path, [wedge("a")], task="camera", scene="scene.glb", camera=VIEW, references=["view.webp"])
    (stored,) = case.public.references
    opened = Image.open(io.BytesIO(stored))
    assert opened.format == "PNG" and opened.size == (6, 4) and opened.convert("RGB").getpixel((3, 2)) == (200, 30, 10)
    assert audit_case(case) == []


def textured(form: str, **options: Any) -> bytes:
    """A wedge with a picture of another format, and things that must not be written on."""
    inside = parse(write_glb([wedge("Secret_name")]))
    buffer = io.BytesIO()
    Image.new(options.pop("mode", "RGB"), (8, 8), options.pop("color", (200, 30, 10))).save(buffer, form, **options)
    document, binary = inside.document, bytearray(inside.binary)
    for data in (buffer.getvalue(), np.linspace(0, 1, 8, dtype="<f4").tobytes(), bytes(range(48))):
        document["bufferViews"].append({"buffer": 0, "byteOffset": len(binary), "byteLength": len(data)})
        binary += data + b"\0" * (-len(data) % 4)
    first = len(document["bufferViews"]) - 3
    document["images"] = [{"bufferView": first, "mimeType": f"image/{form.lower()}", "name": "secret"}]
    webp = {"extensions": {"EXT_texture_webp": {"source": 0}}}
    document["textures"] = [webp if form == "WEBP" else {"source": 0}]
    document["accessors"] += [
        {"bufferView": first + 1, "componentType": 5126, "count": 4, "type": "VEC2"},
        {"bufferView": first + 2, "componentType": 5126, "count": 4, "type": "VEC3"},
    ]
    attributes = document["meshes"][0]["primitives"][0]["attributes"]
    attributes |= {"TEXCOORD_0": len(document["accessors"]) - 2, "_SECRET": len(document["accessors"]) - 1}
    document["materials"][0]["pbrMetallicRoughness"]["baseColorTexture"] = {"index": 0}
    document["materials"][0] |= {"name": "secret", "extras": {"secret": 1}}
    document["nodes"][0]["extras"] = {"secret": 1}
    document["cameras"] = [{"type": "perspective", "perspective": {"yfov": 1, "znear": 0.1}, "name": "secret"}]
    document["nodes"].append({"camera": 0, "translation": [1, 2, 3], "name": "secret"})
    document["scenes"][0]["nodes"].append(1)
    document["buffers"][0]["byteLength"] = len(binary)
    return join(document, bytes(binary))


@pytest.mark.parametrize(
    ("glb", "kind"),
    [
        (textured("WEBP"), "image/jpeg"),
        (textured("WEBP", mode="RGBA", color=(1, 2, 3, 99)), "image/png"),
        (textured("JPEG", comment="secret"), "image/jpeg"),
        (textured("PNG"), "image/png"),
    ],
)
def test_only_what_a_picture_needs_is_written(tmp_path: Path, glb: bytes, kind: str) -> None:
    case = made(tmp_path, glb, task="camera", scene="scene.glb", camera=VIEW)
    written = case.public.assets["scene.glb"]
    document = parse(written).document
    assert b"ecret" not in written and "cameras" not in document and len(document["nodes"]) == 1
    assert document["images"][0]["mimeType"] == kind and "extensionsUsed" not in document
    assert set(document["meshes"][0]["primitives"][0]["attributes"]) == {"POSITION", "TEXCOORD_0"}
    uv = parse(written).floats(document["meshes"][0]["primitives"][0]["attributes"]["TEXCOORD_0"])
    assert np.allclose(uv.ravel(), np.linspace(0, 1, 8), atol=1e-6)
    assert audit_case(case) == []


def test_a_mirrored_node_is_not_turned_inside_out(tmp_path: Path) -> None:
    (tmp_path / "m.glb").write_bytes(write_glb([wedge("m", matrix=np.diag([-1.0, 1, 1, 1]))]))
    from sceneact_gym.data.bundles.own import chunks_of, read_source
    from sceneact_gym.data.bundles.pieces import Piece

    source: SourceGlb = read_source(tmp_path, "m.glb")
    (mesh,) = gltf.load(compose([Piece("m", chunks_of(source, [0], np.eye(4)))])).world_meshes()
    a, b, c = mesh.vertices[mesh.faces].swapaxes(0, 1)
    outwards = ((a + b + c) / 3 - mesh.vertices.mean(axis=0)) * np.cross(b - a, c - a)
    assert (outwards.sum(axis=1) > 0).all() and mesh.vertices[:, 0].min() == -1


def test_the_truth_is_perfect_in_blender(tmp_path: Path) -> None:
    """The castle is built from its components by tool calls, at the true places."""
    case = made(tmp_path, castle()[:5], task="dynamic", scene="scene.glb", movers=["Ram", "arm"], camera=VIEW)
    case.save(tmp_path / "cases" / "mine")
    env = gym.make(
        "SceneAct/Dynamic-v0",
        source=str(tmp_path / "cases"),
        protocol="strict",
        render_size=32,
        reference_size=32,
        render={"samples": 1},
    )
    try:
        observation, info = env.reset(seed=0)
        assert observation["references"].std() > 1
        agent = OracleAgent(env)
        agent.reset(observation, info)
        *_, info = env.step(agent.act(observation, info))
        assert info["score"] == pytest.approx(100, abs=0.1) and info["metrics"]["recall"] == 1
    finally:
        env.close()


def test_vertices_that_no_triangle_uses_are_not_written(tmp_path: Path) -> None:
    """Blender would drop them, and the truth's vertices must be Blender's; and they could tell something."""
    points = np.concatenate([[[9.0, 9, 9]], WEDGE, [[8.0, 8, 8]]])
    nodes = [Node("a", [Part(points, FACES + 1, CLAY)])]
    case = made(tmp_path, nodes, task="reconstruction", scene="scene.glb", furniture=["a"], views=[VIEW])
    (mesh,) = gltf.load(case.truth["scene.glb"].tobytes()).world_meshes()
    assert np.allclose(mesh.vertices, WEDGE) and np.array_equal(mesh.faces, FACES)


def test_numbers_tell_nothing_about_the_order_in_the_file(tmp_path: Path) -> None:
    nodes = [wedge(f"thing_{number}", location=(number, 0, 0)) for number in range(8)]
    entry = {"task": "camera", "scene": "scene.glb", "camera": VIEW}
    one, again = (made(tmp_path, nodes, **entry).truth["source_names"] for _ in range(2))
    other = made(tmp_path, nodes, **entry, id="other").truth["source_names"]
    assert one == again and sorted(one.values()) == sorted(other.values()) == [f"thing_{n}" for n in range(8)]
    assert list(one.values()) != sorted(one.values()) and one != other
