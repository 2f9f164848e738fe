"""The glTF reader: every accessor form, the node tree, animations, and files that lie."""

from __future__ import annotations

import base64
import io
import json
import struct
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image
from scipy.spatial import cKDTree
from scipy.spatial.transform import Rotation

from sceneact_gym.evaluators import gltf
from sceneact_gym.evaluators.gltf import GltfError, load

from .glbs import TRIANGLE, Glb, pack, triangle_scene

HALF = np.sqrt(0.5)


def one_mesh(glb: Glb) -> gltf.Mesh:
    glb.node(mesh=0)
    return load(glb.bytes()).meshes[0]


# ------------------------------------------------------------------------------------------------------- geometry


@pytest.mark.parametrize("dtype", ["<u1", "<u2", "<u4"])
def test_indexed_triangles_of_every_index_type(dtype: str) -> None:
    glb = Glb()
    glb.mesh(TRIANGLE, np.array([2, 1, 0, 0, 1, 2], dtype))
    mesh = one_mesh(glb)
    assert mesh.vertices.tolist() == [[0, 0, 0], [1, 0, 0], [0, 2, 0]]
    assert mesh.faces.tolist() == [[2, 1, 0], [0, 1, 2]]


@pytest.mark.parametrize(
    ("mode", "count", "faces"),
    [
        (4, 6, [[0, 1, 2], [3, 4, 5]]),
        (4, 7, [[0, 1, 2], [3, 4, 5]]),
        (5, 5, [[0, 1, 2], [1, 3, 2], [2, 3, 4]]),
        (5, 2, []),
        (6, 5, [[1, 2, 0], [2, 3, 0], [3, 4, 0]]),
        (6, 2, []),
        (0, 3, []),
        (1, 4, []),
        (2, 4, []),
        (3, 4, []),
    ],
)
def test_modes_without_indices(mode: int, count: int, faces: list[list[int]]) -> None:
    glb = Glb()
    glb.mesh(np.arange(3 * count, dtype="<f4").reshape(-1, 3), mode=mode)
    mesh = one_mesh(glb)
    assert len(mesh.vertices) == count
    assert mesh.faces.tolist() == faces


def test_strips_and_fans_go_through_their_indices() -> None:
    for mode, faces in ((5, [[3, 2, 1], [2, 0, 1]]), (6, [[2, 1, 3], [1, 0, 3]])):
        glb = Glb()
        glb.mesh(np.eye(4, 3, dtype="<f4"), np.array([3, 2, 1, 0], "<u1"), mode=mode)
        assert one_mesh(glb).faces.tolist() == faces


def test_interleaved_positions() -> None:
    glb = Glb()
    rows = np.arange(24, dtype="<f4").reshape(3, 8)
    view = glb.view(rows.tobytes(), byteStride=32)
    accessor = {"bufferView": view, "byteOffset": 8, "componentType": 5126, "count": 3, "type": "VEC3"}
    glb.add("meshes", {"primitives": [{"attributes": {"POSITION": glb.add("accessors", accessor)}}]})
    assert one_mesh(glb).vertices.tolist() == [[2, 3, 4], [10, 11, 12], [18, 19, 20]]


@pytest.mark.parametrize("with_view", [True, False])
def test_sparse_accessors_with_and_without_a_base(with_view: bool) -> None:
    glb = Glb()
    base = glb.accessor(TRIANGLE)
    places = glb.view(np.array([2, 0], "<u2").tobytes())
    values = glb.view(np.array([[7, 7, 7], [5, 5, 5]], "<f4").tobytes())
    accessor = glb.document["accessors"][base]
    accessor["sparse"] = {
        "count": 2,
        "indices": {"bufferView": places, "componentType": 5123},
        "values": {"bufferView": values},
    }
    if not with_view:
        del accessor["bufferView"]
    glb.add("meshes", {"primitives": [{"attributes": {"POSITION": base}}]})
    middle = [1, 0, 0] if with_view else [0, 0, 0]
    assert one_mesh(glb).vertices.tolist() == [[5, 5, 5], middle, [7, 7, 7]]


def test_an_accessor_without_a_view_is_zeros() -> None:
    glb = Glb()
    accessor = glb.add("accessors", {"componentType": 5126, "count": 4, "type": "VEC3"})
    glb.add("meshes", {"primitives": [{"attributes": {"POSITION": accessor}}]})
    assert one_mesh(glb).vertices.tolist() == [[0, 0, 0]] * 4


@pytest.mark.parametrize(
    ("dtype", "raw", "value"),
    [("<i1", -128, -1), ("<i1", 127, 1), ("<u1", 51, 0.2), ("<i2", -32767, -1), ("<u2", 65535, 1), ("<u2", 13107, 0.2)],
)
def test_normalised_integers(dtype: str, raw: int, value: float) -> None:
    glb = Glb()
    rows = np.full((3, 4), raw, dtype)  # padded to a multiple of four bytes, as quantised positions are
    view = glb.view(rows.tobytes(), byteStride=rows.strides[0] if rows.strides[0] >= 4 else 4)
    accessor = glb.add(
        "accessors",
        {
            "bufferView": view,
            "componentType": {"<i1": 5120, "<u1": 5121, "<i2": 5122, "<u2": 5123}[dtype],
            "count": 3,
            "type": "VEC3",
            "normalized": True,
        },
    )
    glb.add("meshes", {"primitives": [{"attributes": {"POSITION": accessor}}]})
    np.testing.assert_allclose(one_mesh(glb).vertices, value, rtol=0, atol=1e-12)


def test_quantised_positions_may_be_required() -> None:
    glb = Glb()
    glb.document["extensionsRequired"] = ["KHR_mesh_quantization"]
    glb.mesh(np.array([[1, -2, 3]], "<i2"))
    assert one_mesh(glb).vertices.tolist() == [[1, -2, 3]]


def test_primitives_are_merged_and_a_shared_accessor_counts_once() -> None:
    glb = Glb()
    position = glb.accessor(TRIANGLE)
    other = glb.accessor(TRIANGLE + np.float32(5))
    a, b = glb.accessor(np.array([0, 1, 2], "<u1")), glb.accessor(np.array([2, 1, 0], "<u1"))
    primitives = [{"attributes": {"POSITION": p}, "indices": i} for p, i in ((position, a), (other, a), (position, b))]
    glb.add("meshes", {"primitives": [*primitives, {"attributes": {"NORMAL": 0}}]})
    mesh = one_mesh(glb)
    assert len(mesh.vertices) == 6
    assert mesh.faces.tolist() == [[0, 1, 2], [3, 4, 5], [2, 1, 0]]


def test_referenced_drops_vertices_that_no_face_uses() -> None:
    glb = Glb()
    glb.mesh(np.arange(15, dtype="<f4").reshape(5, 3), np.array([4, 2, 1], "<u1"))
    mesh = one_mesh(glb).referenced()
    assert mesh.vertices[:, 0].tolist() == [3, 6, 12]
    assert mesh.faces.tolist() == [[2, 1, 0]]


def test_buffers_as_data_uris_in_a_text_file(tmp_path: Path) -> None:
    glb = triangle_scene()
    uri = "data:application/octet-stream;base64," + base64.b64encode(glb.blob).decode()
    glb.document["buffers"] = [{"byteLength": len(glb.blob), "uri": uri}]
    for data in (pack(glb.document), json.dumps(glb.document).encode()):
        assert load(data).meshes[0].vertices.tolist() == TRIANGLE.tolist()
    (tmp_path / "a.gltf").write_text(json.dumps(glb.document))
    assert len(load(tmp_path / "a.gltf").nodes) == 1


@pytest.mark.parametrize("sequential", [True, False])
def test_draco_round_trip(sequential: bool) -> None:
    draco = pytest.importorskip("DracoPy")
    grid = np.stack(np.meshgrid(np.arange(9.0), np.arange(9.0), [0.0, 2.0]), -1).reshape(-1, 3)
    faces = np.array([[i, i + 1, i + 2] for i in range(len(grid) - 2)], np.uint32)
    data = draco.encode(grid, faces, quantization_bits=14, preserve_order=sequential)
    assert gltf._draco_counts(data, "it")[1] == len(faces)
    mesh = load(draco_glb(data)).meshes[0]
    assert len(mesh.faces) == len(faces)
    # Vertices and triangles come back in another order, a 14-bit grid of 8 m coarser.
    got, expected = mesh.vertices[mesh.faces].mean(axis=1), grid[faces.astype(int)].mean(axis=1)
    assert cKDTree(expected).query(got)[0].max() < 1e-3
    assert cKDTree(got).query(expected)[0].max() < 1e-3


def draco_glb(data: bytes) -> bytes:
    glb = Glb()
    view = glb.view(data)
    glb.document["extensionsRequired"] = [gltf.DRACO]
    glb.add("accessors", {"componentType": 5126, "count": 3, "type": "VEC3"})
    glb.add("accessors", {"componentType": 5125, "count": 3, "type": "SCALAR"})
    extension = {gltf.DRACO: {"bufferView": view, "attributes": {"POSITION": 0}}}
    glb.add("meshes", {"primitives": [{"attributes": {"POSITION": 0}, "indices": 1, "extensions": extension}]})
    glb.node(mesh=0)
    return glb.bytes()


def test_draco_without_dracopy_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    draco = pytest.importorskip("DracoPy")
    data = draco_glb(draco.encode(TRIANGLE.astype(float), np.array([[0, 1, 2]], np.uint32)))
    monkeypatch.setitem(sys.modules, "DracoPy", None)
    with pytest.raises(GltfError, match=r"pip install sceneact-gym\[draco\]"):
        load(data)


# ----------------------------------------------------------------------------------------------------- node tree


def test_world_transforms_by_hand() -> None:
    glb = Glb()
    mesh = glb.mesh()
    # Child: twice as large. Parent: a quarter turn about Y (x -> -z, z -> x), then 10 along x.
    glb.node(name="child", mesh=mesh, scale=[2, 2, 2], translation=[0, 0, 1])
    glb.node(name="parent", children=[0], rotation=[0, HALF, 0, HALF], translation=[10, 0, 0])
    scene = load(glb.bytes())
    (world,) = scene.world_meshes()
    assert world.name == "child"
    # Vertex (1, 0, 0): scaled and shifted (2, 0, 1), turned (1, 0, -2), shifted (11, 0, -2), Z-up (11, 2, 0).
    np.testing.assert_allclose(world.vertices, [[11, 0, 0], [11, 2, 0], [11, 0, 4]], atol=1e-6)
    (alone,) = scene.world_meshes(ignore_parents=True)
    np.testing.assert_allclose(alone.vertices, [[0, -1, 0], [2, -1, 0], [0, -1, 4]], atol=1e-6)


def test_a_matrix_is_read_column_by_column() -> None:
    glb = Glb()
    glb.node(mesh=glb.mesh(), matrix=[0, 1, 0, 0, -1, 0, 0, 0, 0, 0, 3, 0, 5, 6, 7, 1])
    matrix = load(glb.bytes()).world_matrices()[0, 0]
    assert matrix.tolist() == [[0, -1, 0, 5], [1, 0, 0, 6], [0, 0, 3, 7], [0, 0, 0, 1]]


def test_to_zup() -> None:
    assert gltf.to_zup(np.array([[1.0, 2.0, 3.0]])).tolist() == [[1, -3, 2]]


def test_names_fall_back_to_the_mesh_and_the_index() -> None:
    glb = Glb()
    mesh = glb.mesh()
    glb.document["meshes"][0]["name"] = "chair"
    for record in ({"name": "x", "mesh": mesh}, {"mesh": mesh}, {}, {"name": ""}):
        glb.node(**record)
    assert [n.name for n in load(glb.bytes()).nodes] == ["x", "chair", "node_2", "node_3"]


def test_only_the_active_scene_counts() -> None:
    glb = Glb()
    mesh = glb.mesh()
    for i in range(3):
        glb.node(name=f"n{i}", mesh=mesh)
    everything = load(glb.bytes())
    glb.document["scenes"] = [{"nodes": [0]}, {"nodes": [2, 1]}]
    first = load(glb.bytes())
    glb.document["scene"] = 1
    second = load(glb.bytes())
    names = [[m.name for m in s.world_meshes()] for s in (everything, first, second)]
    assert names == [["n0", "n1", "n2"], ["n0"], ["n1", "n2"]]
    assert second.roots == (2, 1)


def test_tree_helpers_and_mesh_order() -> None:
    glb = Glb()
    a, b = glb.mesh(), glb.mesh(TRIANGLE + np.float32(1))
    glb.node(name="leaf", mesh=b)
    glb.node(name="middle", children=[0], mesh=a)
    glb.node(name="top", children=[1, 3])
    glb.node(name="other", mesh=a)
    glb.animate([(1, "translation", [0.5, 1], [[0, 0, 0], [1, 0, 0]], "LINEAR")])
    scene = load(glb.bytes())
    assert scene.roots == (2,)
    assert scene.subtree(1) == (0, 1)
    assert scene.subtree(2) == (0, 1, 2, 3)
    assert [scene.top_level(i) for i in range(4)] == [2, 2, 2, 2]
    assert scene.animated == (1,)
    assert scene.first_key == 0.5
    assert scene.mesh_nodes == (0, 1, 3)
    assert [m.name for m in scene.world_meshes(mesh_order=True)] == ["middle", "other", "leaf"]
    assert [m.name for m in scene.world_meshes(nodes=[3, 0])] == ["leaf", "other"]
    assert scene.nodes[0].parent == 1 and scene.nodes[1].children == (0,)


def test_an_empty_file_has_an_empty_scene() -> None:
    scene = load(pack({"asset": {"version": "2.0"}}))
    assert scene.world_meshes() == [] and scene.first_key is None and scene.animated == ()
    assert scene.world_matrices([0.0, 1.0]).shape == (2, 0, 4, 4)
    assert scene.world_centroids([0.0, 1.0], []).shape == (2, 0, 3)


# ---------------------------------------------------------------------------------------------------- animations


def animated(*channels: tuple[str, list[float], list, str], rest: dict | None = None) -> gltf.GltfScene:
    glb = Glb()
    glb.node(mesh=glb.mesh(), **(rest or {}))
    for channel in channels:
        glb.animate([(0, *channel)])
    return load(glb.bytes())


def places(scene: gltf.GltfScene, times: list[float]) -> np.ndarray:
    return scene.world_matrices(times)[:, 0, :3, 3]


def test_linear_is_held_outside_its_keys() -> None:
    scene = animated(("translation", [1, 2, 4], [[0, 0, 0], [10, 0, 0], [10, 4, 0]], "LINEAR"))
    expected = [[0, 0, 0], [0, 0, 0], [5, 0, 0], [10, 0, 0], [10, 1, 0], [10, 4, 0], [10, 4, 0]]
    np.testing.assert_allclose(places(scene, [-3, 1, 1.5, 2, 2.5, 4, 99]), expected, atol=1e-6)


def test_step_jumps_at_the_key() -> None:
    scene = animated(("translation", [1, 2], [[1, 0, 0], [7, 0, 0]], "STEP"))
    assert places(scene, [0, 1, 1.999, 2, 3])[:, 0].tolist() == [1, 1, 1, 7, 7]


def test_cubic_spline_by_hand() -> None:
    # Keys at 0 and 2 s, values 0 and 1, out-tangent 3 at the first and in-tangent -1 at the second. At u = 1/4, span 2:
    # (2u3-3u2+1) 0 + (u3-2u2+u) 2*3 + (3u2-2u3) 1 + (u3-u2) 2*(-1) = 0.140625*6 + 0.15625 + 0.046875*2 = 1.09375
    values = [[0, 0, 0], [0, 0, 0], [3, 0, 0], [-1, 0, 0], [1, 0, 0], [0, 0, 0]]
    scene = animated(("translation", [0, 2], values, "CUBICSPLINE"))
    np.testing.assert_allclose(places(scene, [-1, 0, 0.5, 2, 5])[:, 0], [0, 0, 1.09375, 1, 1], atol=1e-6)


@pytest.mark.parametrize("interpolation", ["LINEAR", "STEP", "CUBICSPLINE"])
def test_a_single_key_is_a_constant(interpolation: str) -> None:
    values = [[9, 9, 9], [1, 2, 3], [9, 9, 9]] if interpolation == "CUBICSPLINE" else [[1, 2, 3]]
    assert places(animated(("translation", [1], values, interpolation)), [0, 1, 2]).tolist() == [[1, 2, 3]] * 3


def test_two_keys_at_one_time() -> None:
    scene = animated(("translation", [0, 1, 1, 2], [[0, 0, 0], [1, 0, 0], [5, 0, 0], [6, 0, 0]], "LINEAR"))
    np.testing.assert_allclose(places(scene, [0.5, 1, 1.5])[:, 0], [0.5, 5, 5.5], atol=1e-6)


def test_slerp_takes_the_shorter_way() -> None:
    quarter = [0, HALF, 0, HALF]
    for end in (quarter, [-q for q in quarter]):
        scene = animated(("rotation", [0, 1], [[0, 0, 0, 1], end], "LINEAR"))
        turned = Rotation.from_matrix(scene.world_matrices([1 / 3, 1.0])[:, 0, :3, :3]).as_rotvec(degrees=True)
        np.testing.assert_allclose(turned, [[0, 30, 0], [0, 90, 0]], atol=1e-4)


def test_slerp_between_equal_and_opposite_rotations_is_finite() -> None:
    for end in ([0, 0, 0, 1], [0, 0, 0, -1], [0, 1, 0, 0], [1e-9, 0, 0, 1]):
        scene = animated(("rotation", [0, 1], [[0, 0, 0, 1], end], "LINEAR"))
        matrices = scene.world_matrices(np.linspace(0, 1, 7))[:, 0, :3, :3]
        np.testing.assert_allclose(matrices @ matrices.transpose(0, 2, 1), np.tile(np.eye(3), (7, 1, 1)), atol=1e-9)


def test_cubic_rotations_are_normalised() -> None:
    zero = [0, 0, 0, 0]
    scene = animated(
        ("rotation", [0, 1], [zero, [0, 0, 0, 1], zero, zero, [0, HALF, 0, HALF], zero], "CUBICSPLINE")
    )
    turned = Rotation.from_matrix(scene.world_matrices([0.5])[:, 0, :3, :3]).as_rotvec(degrees=True)
    np.testing.assert_allclose(turned, [[0, 45, 0]], atol=1e-4)


def test_animations_are_all_played_and_the_last_one_wins() -> None:
    scene = animated(
        ("translation", [0], [[1, 0, 0]], "LINEAR"),
        ("scale", [0], [[2, 2, 2]], "LINEAR"),
        ("translation", [0], [[5, 0, 0]], "LINEAR"),
    )
    assert scene.world_matrices([0.0])[0, 0].tolist() == [[2, 0, 0, 5], [0, 2, 0, 0], [0, 0, 2, 0], [0, 0, 0, 1]]
    assert scene.world_matrices()[0, 0].tolist() == np.eye(4).tolist()


def test_an_animated_matrix_keeps_the_parts_without_keys() -> None:
    turn = [0, 1, 0, 0, -2, 0, 0, 0, 0, 0, 3, 0, 5, 6, 7, 1]  # quarter turn about Z, scales 1, 2, 3, shift 5, 6, 7
    scene = animated(("translation", [0], [[0, 0, 0]], "LINEAR"), rest={"matrix": turn})
    expected = [[0, -2, 0, 0], [1, 0, 0, 0], [0, 0, 3, 0], [0, 0, 0, 1]]
    np.testing.assert_allclose(scene.world_matrices([0.0])[0, 0], expected, atol=1e-12)


def test_morph_weights_and_targets_without_a_node_are_passed_over() -> None:
    glb = triangle_scene()
    targets = [{"node": 0, "path": "weights"}, {"path": "translation"}]
    glb.add("animations", {"channels": [{"sampler": 0, "target": t} for t in targets], "samplers": [{}]})
    assert load(glb.bytes()).channels == ()


def walk(scene: gltf.GltfScene, time: float) -> dict[int, np.ndarray]:
    """World matrices at one time by walking the tree: the plain transcription."""
    out: dict[int, np.ndarray] = {}

    def visit(node: int, above: np.ndarray) -> None:
        parts = {path: getattr(scene, f"{path}s")[node] for path in ("translation", "rotation", "scale")}
        for channel in scene.channels:
            if channel.node == node:
                parts[channel.path] = channel.sample(np.array([time]))[0]
        local = np.eye(4)
        local[:3, :3] = Rotation.from_quat(parts["rotation"]).as_matrix() @ np.diag(parts["scale"])
        local[:3, 3] = parts["translation"]
        out[node] = above @ local
        for child in scene.nodes[node].children:
            visit(child, out[node])

    for root in scene.roots:
        visit(root, np.eye(4))
    return out


def random_tree(rng: np.random.Generator, count: int) -> gltf.GltfScene:
    glb = Glb()
    glb.mesh()
    parents = [None if i == 0 or rng.random() < 0.2 else int(rng.integers(0, i)) for i in range(count)]
    order = rng.permutation(count)  # children may come before their parents in the file
    for i in np.argsort(order):
        children = [int(order[k]) for k, p in enumerate(parents) if p == i]
        rotation = Rotation.random(random_state=int(rng.integers(1 << 30))).as_quat().tolist()
        glb.node(mesh=0, children=children, rotation=rotation, translation=rng.normal(size=3).tolist(),
                 scale=rng.uniform(0.5, 2, 3).tolist())  # fmt: skip
    for i in rng.choice(count, (count + 1) // 2, replace=False):
        times = np.sort(rng.uniform(0, 2, 3)).tolist()
        turns = Rotation.random(3, random_state=int(i)).as_quat().tolist()
        glb.animate([(int(i), "rotation", times, turns, "LINEAR"), (int(i), "scale", times, np.ones((3, 3)), "STEP")])
    return load(glb.bytes())


@settings(max_examples=15, deadline=None)
@given(st.integers(1, 12), st.integers(0, 2**31))
def test_batched_matrices_equal_a_tree_walk(count: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    scene = random_tree(rng, count)
    times = [0.0, 0.7, 1.9]
    chosen = rng.permutation(count)[: max(1, count // 2)].tolist()
    batched, some = scene.world_matrices(times), scene.world_matrices(times, chosen)
    for t, time in enumerate(times):
        plain = walk(scene, time)
        for node, matrix in plain.items():
            np.testing.assert_allclose(batched[t, node], matrix, atol=1e-9)
        np.testing.assert_array_equal(some[t], batched[t, chosen])
    centroids = scene.world_centroids(times, scene.mesh_nodes)
    for t, time in enumerate(times):
        for k, mesh in enumerate(scene.world_meshes(time)):
            np.testing.assert_allclose(centroids[t, k], mesh.vertices.mean(axis=0), atol=1e-9)


# ---------------------------------------------------------------------------------------------------- real files


def test_published_files_agree_with_trimesh(published: Path) -> None:
    """An independent reader sees the same boxes; Draco files are left out, as it does not decode them."""
    trimesh = pytest.importorskip("trimesh")
    checked = 0
    for path in sorted(published.rglob("*.glb")):
        text = path.read_bytes()[20:].split(b"BIN\0")[0]
        scene = load(path)
        assert scene.world_meshes()
        if b"draco" in text:
            continue
        theirs = trimesh.load(io.BytesIO(path.read_bytes()), file_type="glb", process=False, skip_materials=True)
        box = np.array([[m.vertices.min(axis=0), m.vertices.max(axis=0)] for m in scene.world_meshes()])
        low, high = theirs.bounds
        expected = gltf.to_zup(np.array([low, high]))
        np.testing.assert_allclose(box[:, 0].min(axis=0), expected.min(axis=0), atol=1e-5)
        np.testing.assert_allclose(box[:, 1].max(axis=0), expected.max(axis=0), atol=1e-5)
        assert sum(len(m.faces) for m in scene.meshes) == sum(len(g.faces) for g in theirs.geometry.values())
        checked += 1
    assert checked >= 18


@pytest.mark.parametrize(("form", "options"), [("PNG", {}), ("JPEG", {}), ("WEBP", {}), ("WEBP", {"lossless": True})])
def test_image_sizes_from_headers(form: str, options: dict) -> None:
    file = io.BytesIO()
    Image.new("RGB", (301, 77)).save(file, form, **options)
    assert gltf.image_size(file.getvalue()) == (301, 77)
    for cut in range(40):
        gltf.image_size(file.getvalue()[:cut])


def test_image_size_of_other_data_is_unknown() -> None:
    extended = b"RIFF\0\0\0\0WEBPVP8X" + b"\x0a\0\0\0\0\0\0\0" + b"\x2c\x01\x00" + b"\x4c\x00\x00"
    assert gltf.image_size(extended) == (301, 77)
    assert gltf.image_size(b"\xff\xd8\xff\x01\xff\xff\xd9") is None
    assert gltf.image_size(b"GIF89a") is None


# ------------------------------------------------------------------------------------------------------ bad files


def changed(change: Callable[[dict], object], glb: Glb | None = None) -> bytes:
    glb = glb or triangle_scene()
    glb.document["buffers"] = [{"byteLength": len(glb.blob)}]
    change(glb.document)
    return glb.bytes()


def put(*path: object, value: object) -> Callable[[dict], None]:
    """A change that sets the entry at `path`."""

    def change(document: dict) -> None:
        at = document
        for key in path[:-1]:
            at = at[key]  # type: ignore[index]
        at[path[-1]] = value  # type: ignore[index]

    return change


def keyed(times: list, values: list, interpolation: str = "LINEAR", path: str = "translation") -> Glb:
    glb = triangle_scene()
    glb.animate([(0, path, times, values, interpolation)])
    return glb


def chain(length: int) -> bytes:
    nodes = [{"children": [i + 1]} for i in range(length - 1)] + [{"mesh": 0}]
    return changed(put("nodes", value=nodes))


def with_floats(position: float) -> bytes:
    glb = Glb()
    glb.node(mesh=glb.mesh(np.full((3, 3), position, "<f4")))
    return glb.bytes()


def png(width: int, height: int) -> bytes:
    return b"\x89PNG\r\n\x1a\n" + struct.pack(">I4sII", 13, b"IHDR", width, height) + bytes(64)


def with_image(data: bytes) -> bytes:
    glb = triangle_scene()
    glb.add("images", {"bufferView": glb.view(data), "mimeType": "image/png"})
    return glb.bytes()


def sparse(**changes: object) -> bytes:
    glb = triangle_scene()
    places, values = glb.view(np.array([0], "<u2").tobytes()), glb.view(bytes(12))
    record: dict = {
        "count": 1,
        "indices": {"bufferView": places, "componentType": 5123},
        "values": {"bufferView": values},
    }
    for key, value in changes.items():
        outer, _, inner = key.partition("__")
        if inner:
            record[outer][inner] = value
        else:
            record[outer] = value
    glb.document["accessors"][0]["sparse"] = record
    return glb.bytes()


def draco_header(points: int, faces: int) -> bytes:
    def varint(value: int) -> bytes:
        out = b""
        while value >= 128:
            out, value = out + bytes([value & 127 | 128]), value >> 7
        return out + bytes([value])

    return b"DRACO\x02\x02\x01\x01\0\0\0" + varint(points) + varint(faces) + bytes(64)


GOOD = triangle_scene().bytes()
HUGE = 2**60
ASSET = b'{"asset": {"version": "2.0"}, '
BAD: dict[str, bytes | Callable[[], bytes]] = {
    # the container
    "nothing": b"",
    "text": b"hello, this is no model at all",
    "magic only": b"glTF",
    "header cut": GOOD[:11],
    "no chunk": struct.pack("<4sII", b"glTF", 2, 12),
    "chunk header cut": struct.pack("<4sII", b"glTF", 2, 16) + b"\0\0\0\0",
    "version 1": GOOD[:4] + struct.pack("<I", 1) + GOOD[8:],
    "length too large": GOOD[:8] + struct.pack("<I", len(GOOD) + 4) + GOOD[12:],
    "length absurd": GOOD[:8] + struct.pack("<I", 2**32 - 1) + GOOD[12:],
    "length too small": GOOD[:8] + struct.pack("<I", 40) + GOOD[12:],
    "json chunk too long": GOOD[:12] + struct.pack("<I", 2**31) + GOOD[16:],
    "binary chunk first": GOOD[:16] + b"BIN\0" + GOOD[20:],
    "cut in the json": GOOD[:60],
    "cut in the binary": GOOD[:-8],
    "many chunks": struct.pack("<4sII", b"glTF", 2, 12 + 8 * 2000) + struct.pack("<I4s", 0, b"JSON") * 2000,
    # the json
    "json not an object": pack([1, 2, 3]),
    "json broken": pack(None, text=b'{"asset": {"version": "2.0"}, '),
    "json not utf-8": pack(None, text=b'{"asset": "\xff\xfe"}'),
    "json NaN": pack(None, text=b'{"asset": {"version": "2.0"}, "nodes": [{"translation": [NaN, 0, 0]}]}'),
    "json Infinity": pack(None, text=b'{"nodes": [{"scale": [Infinity, 1, 1]}]}'),
    "json 1e999": pack(None, text=ASSET + b'"nodes": [{"scale": [1e999, 1, 1]}]}'),
    "json nested": lambda: pack(None, text=b'{"nodes": ' + b"[" * 2_000_000),
    "json nested objects": lambda: pack(None, text=b'{"a":' * 500_000),
    "json long integer": lambda: pack(None, text=ASSET + b'"scene": ' + b"9" * 100_000 + b"}"),
    "json big integer": lambda: pack(None, text=ASSET + b'"nodes": [{"scale": [' + b"9" * 4000 + b", 1, 1]}]}"),
    "json too large": lambda: pack(None, text=b'{"a": "' + b"x" * (17 * 2**20) + b'"}'),
    "json of lists": lambda: pack(None, text=b'{"nodes": [' + b"[]," * 5_000_000 + b"[]]}"),
    "json of objects": lambda: pack(None, text=b'{"extras": [' + b"{}," * 5_000_000 + b"{}]}"),
    "glTF 1": changed(put("asset", "version", value="1.0")),
    "no asset": pack({"nodes": []}),
    "asset a list": changed(put("asset", value=[])),
    "unknown extension": changed(put("extensionsRequired", value=["EXT_meshopt_compression"])),
    "extension not a name": changed(put("extensionsRequired", value=[7])),
    "nodes an object": changed(put("nodes", value={})),
    "a node a number": changed(put("nodes", value=[3])),
    "too many nodes": lambda: changed(put("nodes", value=[{}] * 30_000)),
    "too many accessors": lambda: changed(put("accessors", value=[{}] * 150_000)),
    # buffers and views
    "external buffer": changed(put("buffers", value=[{"byteLength": 4, "uri": "../secret.bin"}])),
    "http buffer": changed(put("buffers", value=[{"byteLength": 4, "uri": "https://example.org/a.bin"}])),
    "file buffer": changed(put("buffers", value=[{"byteLength": 4, "uri": "file:///etc/passwd"}])),
    "uri a number": changed(put("buffers", value=[{"byteLength": 4, "uri": 7}])),
    "uri not base64": changed(put("buffers", value=[{"byteLength": 4, "uri": "data:text/plain,abcd"}])),
    "uri bad base64": changed(put("buffers", value=[{"byteLength": 4, "uri": "data:;base64,@@@@"}])),
    "uri too short": changed(put("buffers", value=[{"byteLength": 400, "uri": "data:;base64,AAAA"}])),
    "buffer lies": changed(put("buffers", 0, "byteLength", value=10**9)),
    "buffer negative": changed(put("buffers", 0, "byteLength", value=-1)),
    "buffer true": changed(put("buffers", 0, "byteLength", value=True)),
    "buffer without data": changed(put("bufferViews", 0, "buffer", value=1)),
    "second buffer empty": changed(
        lambda d: (d["buffers"].append({"byteLength": 99}), d["bufferViews"][0].update(buffer=1))
    ),
    "view too long": changed(put("bufferViews", 0, "byteLength", value=HUGE)),
    "view beyond": changed(put("bufferViews", 0, "byteOffset", value=HUGE)),
    "view negative": changed(put("bufferViews", 0, "byteOffset", value=-4)),
    "stride large": changed(put("bufferViews", 0, "byteStride", value=10**6)),
    "stride too small": changed(put("bufferViews", 0, "byteStride", value=4)),
    "stride beyond": changed(put("bufferViews", 0, "byteStride", value=252)),
    # accessors
    "count huge": changed(put("accessors", 0, "count", value=HUGE)),
    "count huge without view": changed(
        put("accessors", 0, value={"count": HUGE, "componentType": 5126, "type": "VEC3"})
    ),
    "count large without view": changed(
        put("accessors", 0, value={"count": 10**8, "componentType": 5126, "type": "VEC3"})
    ),
    "count one too many": changed(put("accessors", 0, "count", value=4)),
    "count a string": changed(put("accessors", 0, "count", value="3")),
    "count 2.5": changed(put("accessors", 0, "count", value=2.5)),
    "count missing": changed(lambda d: d["accessors"][0].pop("count")),
    "offset beyond": changed(put("accessors", 0, "byteOffset", value=HUGE)),
    "component type": changed(put("accessors", 0, "componentType", value=5130)),
    "component type a list": changed(put("accessors", 0, "componentType", value=[5126])),
    "type MAT4": changed(put("accessors", 0, "type", value="MAT4")),
    "type VEC2": changed(put("accessors", 0, "type", value="VEC2")),
    "view index": changed(put("accessors", 0, "bufferView", value=99)),
    "view index a list": changed(put("accessors", 0, "bufferView", value=[0])),
    "sparse count": sparse(count=4),
    "sparse huge": sparse(count=HUGE),
    "sparse index": sparse(indices__bufferView=99),
    "sparse float index": sparse(indices__componentType=5126),
    "sparse values short": sparse(count=3),
    "sparse no values": sparse(values=None),
    "sparse a list": changed(put("accessors", 0, "sparse", value=[])),
    "NaN position": with_floats(float("nan")),
    "infinite position": with_floats(float("inf")),
    # meshes
    "index beyond": lambda: bad_index(),
    "indices float": changed(put("meshes", 0, "primitives", 0, "indices", value=0)),
    "indices missing": changed(put("meshes", 0, "primitives", 0, "indices", value=9)),
    "position missing": changed(put("meshes", 0, "primitives", 0, "attributes", "POSITION", value=9)),
    "position negative": changed(put("meshes", 0, "primitives", 0, "attributes", "POSITION", value=-1)),
    "attributes a list": changed(put("meshes", 0, "primitives", 0, "attributes", value=[])),
    "mode": changed(put("meshes", 0, "primitives", 0, "mode", value=9)),
    "primitives a number": changed(put("meshes", 0, "primitives", value=1)),
    "a primitive null": changed(put("meshes", 0, "primitives", value=[None])),
    "primitive bomb": lambda: primitive_bomb(),
    "instance bomb": lambda: instance_bomb(),
    "mesh name": changed(put("meshes", 0, "name", value={})),
    "draco garbage": draco_glb(b"this is not draco data"),
    "draco header only": draco_glb(b"DRACO\x02\x02\x01\x01"),
    "draco bomb": draco_glb(draco_header(2**31, 2**31)),
    "draco large": draco_glb(draco_header(1_900_000, 1_900_000)),
    "draco varint": draco_glb(b"DRACO\x02\x02\x01\x01\0\0\0" + b"\xff" * 64),
    "draco point cloud bomb": draco_glb(b"DRACO\x02\x02\0\0\0\0" + struct.pack("<I", 2**32 - 1) + bytes(32)),
    "draco version": draco_glb(b"DRACO\x01\x01\x01\x01\0\0\0" + bytes(64)),
    "draco view": changed(
        put("meshes", 0, "primitives", 0, "extensions", value={gltf.DRACO: {"bufferView": 77}})
    ),
    "draco a list": changed(put("meshes", 0, "primitives", 0, "extensions", value={gltf.DRACO: []})),
    # nodes
    "own child": changed(put("nodes", value=[{"children": [0]}])),
    "cycle": changed(put("nodes", value=[{"children": [1]}, {"children": [2]}, {"children": [0]}])),
    "cycle beside a root": changed(put("nodes", value=[{"mesh": 0}, {"children": [2]}, {"children": [1]}])),
    "two parents": changed(put("nodes", value=[{"children": [2]}, {"children": [2]}, {}])),
    "child twice": changed(put("nodes", value=[{"children": [1, 1]}, {}])),
    "child beyond": changed(put("nodes", value=[{"children": [5]}])),
    "child a string": changed(put("nodes", value=[{"children": ["0"]}])),
    "deep": lambda: chain(300),
    "very deep": lambda: chain(19_000),
    "mesh beyond": changed(put("nodes", 0, "mesh", value=4)),
    "node name": changed(put("nodes", 0, "name", value=["thing"])),
    "translation short": changed(put("nodes", 0, "translation", value=[0, 0])),
    "translation text": changed(put("nodes", 0, "translation", value=[0, 0, "0"])),
    "translation absurd": changed(put("nodes", 0, "translation", value=[1e300, 0, 0])),
    "rotation zero": changed(put("nodes", 0, "rotation", value=[0, 0, 0, 0])),
    "matrix short": changed(put("nodes", 0, "matrix", value=[1] * 15)),
    "matrix projective": changed(put("nodes", 0, "matrix", value=[1, 0, 0, 1, 0, 1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1])),
    "scales overflow": changed(
        put("nodes", value=[{"scale": [1e15] * 3, "children": [i + 1]} for i in range(40)] + [{"mesh": 0}])
    ),
    "scene beyond": changed(lambda d: d.update(scenes=[{}], scene=1)),
    "scene a child": changed(
        lambda d: d.update(nodes=[{"children": [1]}, {}], scenes=[{"nodes": [1]}])
    ),
    "scene twice": changed(put("scenes", value=[{"nodes": [0, 0]}])),
    "scene node beyond": changed(put("scenes", value=[{"nodes": [8]}])),
    # animations
    "times backwards": keyed([1, 0], [[0, 0, 0]] * 2).bytes(),
    "times NaN": keyed([0, float("nan")], [[0, 0, 0]] * 2).bytes(),
    "values NaN": keyed([0, 1], [[0, 0, 0], [0, float("nan"), 0]]).bytes(),
    "values too few": keyed([0, 1], [[0, 0, 0]]).bytes(),
    "values for splines": keyed([0, 1], [[0, 0, 0]] * 2, "CUBICSPLINE").bytes(),
    "no keys": keyed([], np.zeros((0, 3)).tolist() or [[0, 0, 0]]).bytes(),
    "interpolation": keyed([0], [[0, 0, 0]], "BEZIER").bytes(),
    "rotation of three": keyed([0], [[0, 0, 0]], path="rotation").bytes(),
    "target beyond": changed(put("animations", 0, "channels", 0, "target", "node", value=7), keyed([0], [[0, 0, 0]])),
    "target missing": changed(lambda d: d["animations"][0]["channels"][0].pop("target"), keyed([0], [[0, 0, 0]])),
    "sampler beyond": changed(put("animations", 0, "channels", 0, "sampler", value=7), keyed([0], [[0, 0, 0]])),
    "sampler null": changed(put("animations", 0, "samplers", value=[None]), keyed([0], [[0, 0, 0]])),
    "input missing": changed(lambda d: d["animations"][0]["samplers"][0].pop("input"), keyed([0], [[0, 0, 0]])),
    "too many channels": lambda: changed(
        lambda d: d["animations"][0].update(channels=d["animations"][0]["channels"] * 40_000),
        keyed([0], [[0, 0, 0]]),
    ),
    # images
    "external image": changed(put("images", value=[{"uri": "wood.png"}])),
    "image view": changed(put("images", value=[{"bufferView": 55}])),
    "image wide": with_image(png(100_000, 10)),
    "image of too many pixels": with_image(png(16_000, 16_000)),
    "too many images": changed(put("images", value=[{}] * 2_000)),
}
"""Every one of these must be refused."""

HARMLESS: dict[str, bytes | Callable[[], bytes]] = {
    "good": GOOD,
    "json of numbers": lambda: pack(None, text=ASSET + b'"extras": [' + b"0," * 8_000_000 + b"0]}"),
    "trailing bytes": GOOD + bytes(100),
    "image without a source": changed(put("images", value=[{}])),
    "unused external nothing": changed(put("extensionsUsed", value=["EXT_meshopt_compression"])),
    "many small primitives": lambda: many_primitives(),
    "many channels": lambda: many_channels(),
    "many sparse": sparse(),
    "deep but allowed": lambda: chain(250),
}
"""Odd, but readable."""


def bad_index() -> bytes:
    glb = Glb()
    glb.node(mesh=glb.mesh(TRIANGLE, np.array([0, 1, 3], "<u2")))
    return glb.bytes()


def primitive_bomb() -> bytes:
    """20,000 primitives over one accessor of 100,000 vertices: small on disk, 48 GB decoded."""
    glb = Glb()
    glb.mesh(np.zeros((100_000, 3), "<f4"))
    first = glb.document["meshes"][0]["primitives"][0]
    glb.document["meshes"] = [{"primitives": [first]} for _ in range(20_000)]
    glb.node(mesh=0)
    return glb.bytes()


def instance_bomb() -> bytes:
    """15,000 nodes that all show a mesh of 100,000 vertices."""
    glb = Glb()
    glb.mesh(np.zeros((100_000, 3), "<f4"))
    glb.document["nodes"] = [{"mesh": 0}] * 15_000
    return glb.bytes()


def many_primitives() -> bytes:
    glb = triangle_scene()
    glb.document["meshes"][0]["primitives"] *= 15_000
    return glb.bytes()


def many_channels() -> bytes:
    glb = triangle_scene()
    glb.animate([(0, "translation", [0, 1], [[0, 0, 0], [1, 1, 1]], "LINEAR")])
    glb.document["animations"][0]["channels"] *= 25_000
    return glb.bytes()


WATCH = """
import json, os, resource, sys, time
from pathlib import Path
from sceneact_gym.evaluators import gltf
try:
    import DracoPy
except ImportError:
    pass
out = {}
for path in sorted(Path(sys.argv[1]).iterdir()):
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(read)
        used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (used + 2**30, used + 2**30))
        began = time.process_time()
        try:
            scene = gltf.load(path)
            scene.world_matrices([0.0, 1.0])
            scene.world_meshes(0.5)
            said = "read"
        except gltf.GltfError as error:
            said = "refused: " + str(error)
        except BaseException as error:
            said = "raised: " + repr(error)[:300]
        os.write(write, json.dumps([said, time.process_time() - began]).encode())
        os._exit(0)
    os.close(write)
    answer = os.read(read, 65536)
    os.close(read)
    _, status = os.waitpid(child, 0)
    out[path.name] = json.loads(answer) if answer and status == 0 else ["died with status %d" % status, 0.0]
print(json.dumps(out))
"""
"""Loads each file of a folder in its own forked process with 1 GB to spare."""


def watched(files: dict[str, bytes | Callable[[], bytes]], folder: Path) -> dict[str, tuple[str, float]]:
    for i, data in enumerate(files.values()):
        (folder / f"{i:04d}.glb").write_bytes(data() if callable(data) else data)
    done = subprocess.run([sys.executable, "-c", WATCH, str(folder)], capture_output=True, text=True, check=True)
    return {name: tuple(json.loads(done.stdout)[f"{i:04d}.glb"]) for i, name in enumerate(files)}


def test_malformed_files_are_refused_in_bounded_time_and_memory(tmp_path: Path) -> None:
    assert len(BAD) >= 60
    results = watched(BAD, tmp_path)
    wrong = {name: result for name, result in results.items() if not result[0].startswith("refused: ")}
    assert not wrong
    assert {name: seconds for name, (_, seconds) in results.items() if seconds > 2} == {}
    for name, (sentence, _) in results.items():
        text = sentence.removeprefix("refused: ")
        assert text.endswith(".") and "\n" not in text and len(text) < 300, (name, text)


def test_odd_files_are_read_in_bounded_time_and_memory(tmp_path: Path) -> None:
    results = watched(HARMLESS, tmp_path)
    assert {name: said for name, (said, _) in results.items() if said != "read"} == {}
    assert {name: seconds for name, (_, seconds) in results.items() if seconds > 2} == {}


def test_mutated_real_files_end_in_a_result_or_an_error(published: Path, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    files: dict[str, bytes | Callable[[], bytes]] = {}
    sources = ("dynamic/minimax-m3-high.glb", "dynamic/doubao-seed-2-pro-high.glb", "reference/layout/gt-scene.glb")
    for source in sources:
        data = (published / source).read_bytes()
        (length,) = struct.unpack_from("<I", data, 12)
        for k in range(6):
            files[f"{source} cut {k}"] = data[: int(rng.integers(0, len(data)))]
        for k in range(24):
            mutated = bytearray(data)
            # In the structure for half of them, anywhere (textures, vertices, Draco streams) for the others.
            low, high = (20, 20 + length) if k % 2 else (20 + length, len(data))
            for at in rng.integers(low, high, int(rng.integers(1, 9))):
                mutated[at] = rng.integers(0, 256)
            files[f"{source} mutated {k}"] = bytes(mutated)
        digits = [i for i in range(20, 20 + length) if chr(data[i]).isdigit()]
        for k in range(24):
            mutated = bytearray(data)
            for at in rng.choice(digits, 3):
                mutated[at] = ord(str(rng.integers(0, 10)))
            files[f"{source} digits {k}"] = bytes(mutated)
    results = watched(files, tmp_path)
    wrong = {n: r for n, r in results.items() if r[0] != "read" and not r[0].startswith("refused: ")}
    assert not wrong
    assert {name: seconds for name, (_, seconds) in results.items() if seconds > 2} == {}


def test_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(GltfError, match="cannot be read"):
        load(tmp_path / "missing.glb")
    with pytest.raises(GltfError, match="cannot be read"):
        load(tmp_path)


def test_limits_on_file_size_and_sampling(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.glb"
    path.write_bytes(GOOD)
    scene = load(path)
    monkeypatch.setattr(gltf, "MAX_SAMPLED_MATRICES", 5)
    with pytest.raises(GltfError, match="node transforms"):
        scene.world_matrices(np.zeros(6))
    monkeypatch.setattr(gltf, "MAX_FILE_BYTES", 50)
    for data in (path, GOOD):
        with pytest.raises(GltfError, match="bytes, more than 50"):
            load(data)


def test_positions_that_end_up_too_far_away() -> None:
    glb = triangle_scene()
    glb.document["nodes"][0]["scale"] = [1e12, 1, 1]
    scene = load(glb.bytes())
    with pytest.raises(GltfError, match="beyond"):
        scene.world_meshes()
    with pytest.raises(GltfError, match="beyond"):
        scene.world_centroids([0.0], [0])
