"""The GLB writer, read back by the evaluators' own reader."""

from __future__ import annotations

import json
import math
import struct
from pathlib import Path

import numpy as np
import pytest

from sceneact_gym.data.glb import Material, Node, Part, write_glb
from sceneact_gym.data.procedural.shapes import box, cylinder, lathe
from sceneact_gym.evaluators import gltf
from tests.data.in_blender import ask

RED = Material("red", (1.0, 0.0, 0.0))
BLUE = Material("blue", (0.0, 0.0, 1.0))


def volume(part: Part) -> float:
    """Signed volume of a closed mesh; positive when its faces look outwards."""
    a, b, c = (part.vertices[part.faces[:, i]] for i in range(3))
    return float(np.einsum("ij,ij->", a, np.cross(b, c)) / 6)


def test_a_triangle_keeps_its_place_and_frame() -> None:
    part = Part(np.array([[0.0, 0, 0], [1, 0, 0], [0, 0, 2]]), np.array([[0, 1, 2]]), RED)
    scene = gltf.load(write_glb([Node("thing", [part], location=(1.0, 2.0, 3.0), yaw=math.pi / 2)]))
    (mesh,) = scene.world_meshes()
    # A quarter turn about Z takes +X to +Y; then the shift.
    assert np.allclose(mesh.vertices, [[1, 2, 3], [1, 3, 3], [1, 2, 5]], atol=1e-6)


def test_same_nodes_same_bytes_and_one_primitive_per_material() -> None:
    parts = [box((1, 1, 1), (x, 0, 0), material) for x, material in ((0, RED), (2, BLUE), (4, RED))]
    nodes = [Node("thing", parts)]
    data = write_glb(nodes)
    assert data == write_glb(nodes)
    length = struct.unpack_from("<I", data, 12)[0]
    document = json.loads(data[20 : 20 + length])
    assert [len(mesh["primitives"]) for mesh in document["meshes"]] == [2]
    assert [material["name"] for material in document["materials"]] == ["red", "blue"]
    assert "extras" not in json.dumps(document)


def test_shapes_are_closed_and_face_outwards() -> None:
    # Hand-calculated: a box loses only its rounded edges; a cylinder of 20 sides has the area of a regular polygon.
    cube = box((1, 2, 3), (5, 5, 5), RED, rounding=0.01)
    assert 0.999 * 6 < volume(cube) < 6
    assert np.allclose([cube.vertices.min(0), cube.vertices.max(0)], [[4.5, 4, 5], [5.5, 6, 8]])
    polygon = 20 / 2 * math.sin(2 * math.pi / 20)
    assert math.isclose(volume(cylinder(1.0, 2.0, (0, 0, 0), RED)), 2 * polygon, rel_tol=1e-9)
    assert volume(lathe([(0, 0), (1, 0.5), (0, 1)], (0, 0, 0), RED)) > 0
    for part in (cube, cylinder(1.0, 2.0, (0, 0, 0), RED)):
        edges = np.concatenate([part.faces[:, [0, 1]], part.faces[:, [1, 2]], part.faces[:, [2, 0]]])
        assert {tuple(edge) for edge in edges} == {tuple(edge[::-1]) for edge in edges}


def test_shapes_stay_closed_when_they_are_thin_or_hollow() -> None:
    bowl = lathe([(0, 0), (0.1, 0), (0.2, 0.3), (0.15, 0.3), (0.05, 0.1), (0, 0.1)], (1, 2, 3), RED)
    for part in (bowl, box((0.4, 0.004, 0.8), (0, 0, 0), RED), cylinder(0.3, 0.5, (0, 0, 0), RED, top=0.1)):
        corners = part.vertices[part.faces]
        areas = np.linalg.norm(np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0]), axis=1) / 2
        assert volume(part) > 0 and areas.min() > 0
        edges = np.concatenate([part.faces[:, [0, 1]], part.faces[:, [1, 2]], part.faces[:, [2, 0]]])
        assert len({tuple(edge) for edge in edges}) == len(edges)


def test_views_of_the_buffer_fit_their_accessors() -> None:
    data = write_glb([Node("one", [box((1, 1, 1), (0, 0, 0), RED), cylinder(1, 1, (0, 0, 2), BLUE, segments=7)])])
    assert struct.unpack_from("<4sII", data) == (b"glTF", 2, len(data))
    document = json.loads(data[20 : 20 + struct.unpack_from("<I", data, 12)[0]])
    for accessor in document["accessors"]:
        view = document["bufferViews"][accessor["bufferView"]]
        assert view["byteOffset"] % 4 == 0
        assert view["byteLength"] == accessor["count"] * 4 * (3 if accessor["type"] == "VEC3" else 1)


def test_blender_reads_it_back(tmp_path: Path) -> None:
    first = Node("first", [box((1, 2, 3), (0, 0, 0), RED), cylinder(0.1, 1, (0, 0, 3), BLUE)], (1, 2, 3), 0.7)
    child = Node("child", [box((0.2, 0.2, 0.2), (0, 0, 0), BLUE)], (0.5, 0, 1.5))
    second = Node("second", [box((1, 1, 1), (0, 0, 0), RED)], (-4, 0, 0), math.pi / 2, [child])
    found = ask(tmp_path, [(write_glb([first, second]), [])])[0]
    things = found["things"]
    assert sorted(things) == ["child", "first", "second"]
    assert found["properties"] == []
    assert things["child"]["parent"] == "second" and things["first"]["parent"] is None
    assert things["child"]["location"] == pytest.approx([-4, 0.5, 1.5], abs=1e-5)
    assert things["first"]["location"] == pytest.approx([1, 2, 3], abs=1e-5)
    assert things["first"]["yaw"] == pytest.approx(0.7, abs=1e-5)
    c, s = math.cos(0.7), math.sin(0.7)
    points = np.concatenate([part.vertices for part in first.parts]) @ [[c, s, 0], [-s, c, 0], [0, 0, 1]] + [1, 2, 3]
    assert things["first"]["low"] == pytest.approx(points.min(axis=0).tolist(), abs=1e-5)
    assert things["first"]["high"] == pytest.approx(points.max(axis=0).tolist(), abs=1e-5)
