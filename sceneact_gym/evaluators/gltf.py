"""Reads what scoring needs from a glTF binary that nobody has vouched for.

`load` turns the bytes of a GLB (or of a glTF JSON text with embedded buffers) into a `GltfScene`: the node tree, the
triangle meshes and the animations, each checked by hand. Every fault of the file, from a truncated header to a cycle
in the node tree, ends in a `GltfError` with one sentence; nothing is allocated before the real length of the data
behind it is known, so time and memory stay bounded.

pygltflib supplies the format's names and constants. Its own record decoding is not used: it accepts values of the wrong
type, and it takes half a millisecond per record, which for 32 frames of a cabinet would cost more than their scoring.

Frames: glTF is Y-up, Blender Z-up. Whatever has `world` in its name and returns points returns Blender's frame, metres;
matrices stay in glTF's frame.

Not read: skins and morph targets (a skinned mesh is taken in its rest pose at its node), instancing extensions,
cameras, lights, materials. A file that *requires* an extension which changes geometry and is not known here is refused.
"""

from __future__ import annotations

import base64
import binascii
import json
import struct
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt
import pygltflib

from sceneact_gym.evaluators.base import MAX_COORDINATE, Array, IntArray, Mesh

MAX_FILE_BYTES = 256 * 2**20
MAX_JSON_BYTES = 16 * 2**20
MAX_JSON_CONTAINERS = 1_000_000
MAX_NODES = 20_000
MAX_RECORDS = 100_000
MAX_PRIMITIVES = 20_000
MAX_CHANNELS = 30_000
MAX_DEPTH = 256
MAX_ELEMENTS = 8_000_000
"""Decoded accessor elements (vertices, indices, keys) of a whole file, and separately the vertices of all its nodes."""
MAX_DRACO_ELEMENTS = 2_000_000
MAX_SAMPLED_MATRICES = 2_000_000
MAX_NUMBER = 1e15
"""Of a node's own transform: beyond it float64 has no millimetres left anyway."""
MAX_IMAGES = 1_024
MAX_IMAGE_BYTES = 64 * 2**20
MAX_IMAGE_SIDE = 16_384
MAX_IMAGE_PIXELS = 2**27

DRACO = "KHR_draco_mesh_compression"
_HARMLESS_EXTENSIONS = frozenset(
    {
        DRACO,
        "KHR_mesh_quantization",
        "KHR_texture_transform",
        "KHR_texture_basisu",
        "EXT_texture_webp",
        "EXT_texture_avif",
        "MSFT_texture_dds",
        "KHR_lights_punctual",
        "KHR_xmp_json_ld",
    }
)
"""Extensions a file may require: Draco is decoded, quantised positions are ordinary accessors, the others are looks."""

_DTYPES: dict[int, np.dtype[Any]] = {
    pygltflib.BYTE: np.dtype("<i1"),
    pygltflib.UNSIGNED_BYTE: np.dtype("<u1"),
    pygltflib.SHORT: np.dtype("<i2"),
    pygltflib.UNSIGNED_SHORT: np.dtype("<u2"),
    pygltflib.UNSIGNED_INT: np.dtype("<u4"),
    pygltflib.FLOAT: np.dtype("<f4"),
}
_INDEX_TYPES = (pygltflib.UNSIGNED_BYTE, pygltflib.UNSIGNED_SHORT, pygltflib.UNSIGNED_INT)
_WIDTHS = {pygltflib.SCALAR: 1, pygltflib.VEC2: 2, pygltflib.VEC3: 3, pygltflib.VEC4: 4}
_PATH_WIDTHS = {"translation": 3, "rotation": 4, "scale": 3}


class GltfError(ValueError):
    """A file that cannot be read or is not acceptable; the message is one plain sentence."""


@dataclass(frozen=True)
class Node:
    """One node of the tree.

    Attributes:
        name: Its name, else its mesh's, else `node_<index>`.
        parent: Index of the parent, or None.
        children: Indices of the children.
        mesh: Index into `GltfScene.meshes`, or None.
    """

    name: str
    parent: int | None
    children: tuple[int, ...]
    mesh: int | None


@dataclass(frozen=True, eq=False)
class Channel:
    """One animated property of one node.

    Attributes:
        node: The node's index.
        path: `translation`, `rotation` (quaternion x, y, z, w) or `scale`.
        interpolation: `LINEAR`, `STEP` or `CUBICSPLINE`.
        times: `(K,)` key times, seconds, not decreasing.
        values: `(K, 3)` or `(K, 4)`; for `CUBICSPLINE` `(K, 3, width)`: in-tangent, value, out-tangent.
    """

    node: int
    path: str
    interpolation: str
    times: Array
    values: Array

    def sample(self, at: Array) -> Array:
        """`(T, width)` values at the times `at` (seconds); held constant before the first and after the last key."""
        times, values = self.times, self.values
        is_rotation = self.path == "rotation"
        if self.interpolation == pygltflib.ANIM_CUBICSPLINE and len(times) == 1:
            values = values[:, 1]
        if len(times) == 1:
            return np.broadcast_to(_unit(values) if is_rotation else values, (len(at), values.shape[-1]))
        at = np.clip(at, times[0], times[-1])
        left = np.clip(np.searchsorted(times, at, side="right") - 1, 0, len(times) - 2)
        if self.interpolation == pygltflib.ANIM_STEP:
            # The last key counts from its own time on.
            left = np.where(at >= times[-1], len(times) - 1, left)
            return _unit(values[left]) if is_rotation else values[left]
        span = times[left + 1] - times[left]
        # Two keys at one time have no interval between them: the later one holds.
        u = np.divide(at - times[left], span, out=np.ones(len(at)), where=span > 0)[:, None]
        if self.interpolation == pygltflib.ANIM_CUBICSPLINE:
            start, end = values[left], values[left + 1]
            d = span[:, None]
            u2, u3 = u * u, u * u * u
            out = (
                (2 * u3 - 3 * u2 + 1) * start[:, 1]
                + (u3 - 2 * u2 + u) * d * start[:, 2]
                + (3 * u2 - 2 * u3) * end[:, 1]
                + (u3 - u2) * d * end[:, 0]
            )
            return _unit(out) if is_rotation else out
        if is_rotation:
            return _slerp(_unit(values[left]), _unit(values[left + 1]), u)
        return values[left] * (1 - u) + values[left + 1] * u


@dataclass(frozen=True, eq=False)
class GltfScene:
    """A checked glTF scene: immutable, without any reference to the file.

    Attributes:
        nodes: All nodes, in file order.
        meshes: All meshes in their own (Y-up) frame, in file order, primitives merged; empty without positions.
        roots: The top-level nodes of the active scene.
        channels: Every animated property, one per node and path (of several animations the last one in the file).
        translations: `(N, 3)` the nodes' own translations.
        rotations: `(N, 4)` their own unit quaternions x, y, z, w.
        scales: `(N, 3)` their own scales.
        matrices: Node -> its own 4x4 matrix where the file gives one in place of the three above.
    """

    nodes: tuple[Node, ...]
    meshes: tuple[Mesh, ...]
    roots: tuple[int, ...]
    channels: tuple[Channel, ...]
    translations: Array
    rotations: Array
    scales: Array
    matrices: dict[int, Array] = field(default_factory=dict)

    @cached_property
    def active(self) -> tuple[int, ...]:
        """The nodes of the active scene, in file order; what lies outside it is neither seen nor scored."""
        found = set()
        stack = list(self.roots)
        while stack:
            node = stack.pop()
            found.add(node)
            stack.extend(self.nodes[node].children)
        return tuple(sorted(found))

    @cached_property
    def mesh_nodes(self) -> tuple[int, ...]:
        """Nodes of the active scene whose mesh has at least one vertex, in file order."""
        return tuple(i for i in self.active if (m := self.nodes[i].mesh) is not None and len(self.meshes[m].vertices))

    @cached_property
    def animated(self) -> tuple[int, ...]:
        """Nodes of the active scene with at least one animated property, in file order."""
        targets = {c.node for c in self.channels}
        return tuple(i for i in self.active if i in targets)

    @cached_property
    def first_key(self) -> float | None:
        """Time of the earliest key of any animated node of the active scene, seconds; None without animation."""
        nodes = set(self.animated)
        return min((float(c.times[0]) for c in self.channels if c.node in nodes), default=None)

    def subtree(self, node: int) -> tuple[int, ...]:
        """`node` and all its descendants, in file order."""
        found = [node]
        for i in found:  # grows while it is walked
            found.extend(self.nodes[i].children)
        return tuple(sorted(found))

    def top_level(self, node: int) -> int:
        """The root above `node` (itself when it has no parent)."""
        while (parent := self.nodes[node].parent) is not None:
            node = parent
        return node

    def vertices_of(self, node: int) -> Array:
        """`(V, 3)` vertices of the node's mesh in the mesh's own Y-up frame; none without a mesh."""
        mesh = self.nodes[node].mesh
        return np.zeros((0, 3)) if mesh is None else self.meshes[mesh].vertices

    def world_matrices(
        self,
        times: npt.ArrayLike | None = None,
        nodes: Sequence[int] | None = None,
        *,
        ignore_parents: bool = False,
    ) -> Array:
        """World transforms of many nodes at many times at once, in glTF's Y-up frame.

        Args:
            times: `(T,)` times in seconds at which all animations are played; None for the nodes' own transforms.
            nodes: Which nodes; all when None.
            ignore_parents: Take each node's local transform for its world transform.

        Returns:
            `(T, len(nodes), 4, 4)`, with T = 1 when `times` is None.

        Raises:
            GltfError: A transform overflows, or more than `MAX_SAMPLED_MATRICES` matrices are asked for.
        """
        at = None if times is None else np.atleast_1d(np.asarray(times, np.float64))
        count = 1 if at is None else len(at)
        wanted = np.arange(len(self.nodes)) if nodes is None else np.asarray(nodes, np.int64)
        order, parents = self._order(wanted, ignore_parents)
        if count * len(order) > MAX_SAMPLED_MATRICES:
            raise GltfError(
                f"The scene asks for {count * len(order)} node transforms, more than {MAX_SAMPLED_MATRICES}."
            )
        slot = np.full(len(self.nodes), -1)
        slot[order] = np.arange(len(order))
        with np.errstate(over="ignore", invalid="ignore"):
            world = self._local(at, order, slot)
            # Parents come before their children; each level of the tree is one batch of products.
            depth = np.zeros(len(order), np.int64)
            for i, parent in enumerate(parents):
                depth[i] = 0 if parent < 0 else depth[parent] + 1
            for level in range(1, int(depth.max(initial=0)) + 1):
                here = np.flatnonzero(depth == level)
                world[:, here] = world[:, parents[here]] @ world[:, here]
        out = world[:, slot[wanted]]
        if not np.isfinite(out).all():
            raise GltfError("A node transform of the scene overflows to infinity.")
        return out

    def world_meshes(
        self,
        time: float | None = None,
        *,
        nodes: Iterable[int] | None = None,
        ignore_parents: bool = False,
        mesh_order: bool = False,
    ) -> list[Mesh]:
        """The meshes as they stand in the world, in Blender's Z-up frame.

        Args:
            time: Seconds at which all animations are played; None for the nodes' own transforms.
            nodes: Only the meshes of these nodes; all of the active scene when None.
            ignore_parents: Take each node's local transform for its world transform (files whose keys are world
                transforms already).
            mesh_order: Sort by mesh index, then node index, in place of node order.

        Returns:
            One `Mesh` per node with a non-empty mesh, under the node's name.

        Raises:
            GltfError: A coordinate overflows or lies beyond `base.MAX_COORDINATE`.
        """
        keep = None if nodes is None else set(nodes)
        chosen = [i for i in self.mesh_nodes if keep is None or i in keep]
        if mesh_order:
            chosen.sort(key=lambda i: (self.nodes[i].mesh, i))
        if not chosen:
            return []
        matrices = self.world_matrices(None if time is None else [time], chosen, ignore_parents=ignore_parents)[0]
        out = []
        for node, matrix in zip(chosen, matrices, strict=True):
            mesh = self.meshes[self.nodes[node].mesh]  # type: ignore[index]  # mesh_nodes have one
            with np.errstate(over="ignore", invalid="ignore"):
                vertices = to_zup(mesh.vertices @ matrix[:3, :3].T + matrix[:3, 3])
            if not np.abs(vertices).max() <= MAX_COORDINATE:  # also false for NaN
                raise GltfError(f"Node {self.nodes[node].name!r} has vertices beyond {MAX_COORDINATE:g} m.")
            out.append(Mesh(self.nodes[node].name, vertices, mesh.faces))
        return out

    def world_centroids(
        self, times: npt.ArrayLike | None, nodes: Sequence[int], *, ignore_parents: bool = False
    ) -> Array:
        """Mean vertex of each node's mesh over time, in Blender's Z-up frame.

        Args:
            times: `(T,)` seconds, or None for the nodes' own transforms.
            nodes: Nodes out of `mesh_nodes`.
            ignore_parents: As in `world_matrices`.

        Returns:
            `(T, len(nodes), 3)` metres, with T = 1 when `times` is None.
        """
        matrices = self.world_matrices(times, nodes, ignore_parents=ignore_parents)
        if not len(nodes):
            return np.zeros((len(matrices), 0, 3))
        # An affine map takes the mean to the mean, so the vertices themselves need not move.
        means = np.stack([self._means[self.nodes[i].mesh] for i in nodes])  # type: ignore[index]
        with np.errstate(over="ignore", invalid="ignore"):
            points = to_zup(np.einsum("tnij,nj->tni", matrices[..., :3, :3], means) + matrices[..., :3, 3])
        if not np.abs(points).max(initial=0.0) <= MAX_COORDINATE:
            raise GltfError(f"An animated node moves beyond {MAX_COORDINATE:g} m.")
        return points

    @cached_property
    def _means(self) -> tuple[Array, ...]:
        return tuple(m.vertices.mean(axis=0) if len(m.vertices) else np.zeros(3) for m in self.meshes)

    def _order(self, wanted: IntArray, ignore_parents: bool) -> tuple[IntArray, IntArray]:
        """`wanted` with all ancestors, parents first, and each one's parent as a position in that list (-1: none)."""
        position: dict[int, int] = {}
        parents: list[int] = []
        for start in wanted.tolist():
            chain = []
            node: int | None = start
            while node is not None and node not in position:
                chain.append(node)
                node = None if ignore_parents else self.nodes[node].parent
            for node in reversed(chain):
                parent = None if ignore_parents else self.nodes[node].parent
                parents.append(-1 if parent is None else position[parent])
                position[node] = len(position)
        return np.array(list(position), np.int64), np.array(parents, np.int64)

    def _local(self, at: Array | None, order: IntArray, slot: IntArray) -> Array:
        """`(T, len(order), 4, 4)` local transforms."""
        count = 1 if at is None else len(at)
        rest = _compose(self.translations[order], self.rotations[order], self.scales[order])
        for node, matrix in self.matrices.items():
            if slot[node] >= 0:
                rest[slot[node]] = matrix
        local = np.repeat(rest[None], count, axis=0)
        if at is None:
            return local
        moving: dict[int, dict[str, Array]] = {}
        for channel in self.channels:
            if slot[channel.node] >= 0:
                moving.setdefault(channel.node, {})[channel.path] = channel.sample(at)
        if not moving:
            return local
        # All moving nodes are composed in one batch; (T, M, width) per property.
        index = np.array(list(moving))
        parts = {
            "translation": np.repeat(self.translations[index][None], count, axis=0),
            "rotation": np.repeat(self.rotations[index][None], count, axis=0),
            "scale": np.repeat(self.scales[index][None], count, axis=0),
        }
        for column, sampled in enumerate(moving.values()):
            for path, values in sampled.items():
                parts[path][:, column] = values
        local[:, slot[index]] = _compose(parts["translation"], parts["rotation"], parts["scale"])
        return local


def to_zup(points: Array) -> Array:
    """Y-up points of glTF `(..., 3)` in Blender's Z-up frame: (x, y, z) -> (x, -z, y)."""
    return np.stack([points[..., 0], -points[..., 2], points[..., 1]], axis=-1)


def load(data: bytes | Path) -> GltfScene:
    """Reads and checks a GLB, or a glTF JSON text whose buffers are embedded as data URIs.

    Args:
        data: The file's bytes, or its path.

    Returns:
        The scene.

    Raises:
        GltfError: The file is missing, damaged, too large or uses what cannot be read; one sentence says why.
    """
    if isinstance(data, Path):
        data = _read(data)
    if len(data) > MAX_FILE_BYTES:
        raise GltfError(f"The file has {len(data)} bytes, more than {MAX_FILE_BYTES}.")
    text, blob = _chunks(data)
    return _Reader(_parse_json(text), blob).scene()


# ---------------------------------------------------------------------------------------------------------- container


def _read(path: Path) -> bytes:
    try:
        if path.stat().st_size > MAX_FILE_BYTES:
            raise GltfError(f"The file {path.name!r} has {path.stat().st_size} bytes, more than {MAX_FILE_BYTES}.")
        return path.read_bytes()
    except OSError as error:
        raise GltfError(f"The file {path.name!r} cannot be read: {error.strerror or error}.") from error


def _chunks(data: bytes) -> tuple[bytes, bytes]:
    """The JSON chunk and the binary chunk (empty when there is none)."""
    if data[:4] != b"glTF":
        if data[:64].lstrip()[:1] == b"{":
            return data, b""
        raise GltfError("The file is empty." if not data else "The file is not a GLB: it does not begin with 'glTF'.")
    if len(data) < 12:
        raise GltfError("The GLB header is truncated.")
    version, length = struct.unpack_from("<II", data, 4)
    if version != 2:
        raise GltfError(f"The GLB has version {version}, not 2.")
    if length > len(data):
        raise GltfError(f"The GLB declares {length} bytes but has {len(data)}.")
    text = blob = None
    at, count = 12, 0
    while at < length:
        if at + 8 > length:
            raise GltfError("The GLB's last chunk header is truncated.")
        size, kind = struct.unpack_from("<I4s", data, at)
        at += 8
        if at + size > length:
            raise GltfError(f"A GLB chunk declares {size} bytes but {length - at} are left.")
        if count == 0 and kind != b"JSON":
            raise GltfError("The GLB's first chunk is not JSON.")
        if count == 0:
            text = data[at : at + size]
        elif kind == b"BIN\0" and blob is None:
            blob = data[at : at + size]
        at += size
        count += 1
        if count > 64:
            raise GltfError("The GLB has more than 64 chunks.")
    if text is None:
        raise GltfError("The GLB has no JSON chunk.")
    return text, blob or b""


def _parse_json(text: bytes) -> dict[str, Any]:
    if len(text) > MAX_JSON_BYTES:
        raise GltfError(f"The JSON part has {len(text)} bytes, more than {MAX_JSON_BYTES}.")
    # Millions of empty lists fit into the size limit and take seconds and half a gigabyte to build.
    if text.count(b"[") + text.count(b"{") > MAX_JSON_CONTAINERS:
        raise GltfError(f"The JSON part has more than {MAX_JSON_CONTAINERS} lists and objects.")

    def refuse(constant: str) -> NoReturn:
        raise GltfError(f"The JSON part contains {constant}, which is not a JSON number.")

    try:
        document = json.loads(text.decode("utf-8"), parse_constant=refuse)
    except RecursionError:
        raise GltfError("The JSON part is nested too deeply.") from None
    except GltfError:
        raise
    except ValueError as error:  # bad syntax, bad UTF-8, or an integer of absurd length
        raise GltfError(f"The JSON part cannot be parsed: {str(error)[:120]}.") from None
    if not isinstance(document, dict):
        raise GltfError("The JSON part is not an object.")
    return document


# ---------------------------------------------------------------------------------------------------- checked JSON


def _list(owner: dict[str, Any], key: str, where: str) -> list[Any]:
    value = owner.get(key, [])
    if not isinstance(value, list):
        raise GltfError(f"{where}{key} is not a list.")
    return value


def _records(document: dict[str, Any], key: str, limit: int = MAX_RECORDS) -> list[dict[str, Any]]:
    """The top-level list `key`, whose entries must be objects."""
    records = _list(document, key, "")
    if len(records) > limit:
        raise GltfError(f"The file has {len(records)} {key}, more than {limit}.")
    for i, record in enumerate(records):
        if not isinstance(record, dict):
            raise GltfError(f"{key}[{i}] is not an object.")
    return records


def _object(value: Any, where: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise GltfError(f"{where} is not an object.")
    return value


def _integer(value: Any, where: str, below: int | None = None) -> int:
    """A non-negative integer; 3.0 passes as 3, as some writers emit it."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise GltfError(f"{where} is not a non-negative integer.")
    if below is not None and value >= below:
        raise GltfError(f"{where} is {_short(value)} but must be below {below}.")
    return value


def _short(value: int) -> str:
    """An integer from the file in few characters, however long it is."""
    return str(value) if abs(value) < 10**18 else "an absurdly large number"


def _numbers(value: Any, count: int, where: str) -> Array:
    if not isinstance(value, list) or len(value) != count:
        raise GltfError(f"{where} is not a list of {count} numbers.")
    if not all(isinstance(x, (int, float)) and not isinstance(x, bool) for x in value):
        raise GltfError(f"{where} is not a list of {count} numbers.")
    # Compared before the conversion: an integer of any length is valid JSON. 1e400 was read as infinity.
    if not all(abs(x) <= MAX_NUMBER for x in value):
        raise GltfError(f"{where} contains a number beyond {MAX_NUMBER:g}.")
    return np.array(value, np.float64)


# -------------------------------------------------------------------------------------------------------- rotations


def _unit(quaternions: Array) -> Array:
    """Quaternions of length 1; one without a direction becomes the identity."""
    norms = np.linalg.norm(quaternions, axis=-1, keepdims=True)
    good = norms > 1e-12
    return np.where(good, quaternions / np.where(good, norms, 1.0), np.array([0.0, 0.0, 0.0, 1.0]))


def _slerp(a: Array, b: Array, u: Array) -> Array:
    """`(T, 4)` spherical interpolation between unit quaternions on the shorter way; `u` is `(T, 1)`."""
    cosine = np.sum(a * b, axis=-1, keepdims=True)
    b = np.where(cosine < 0, -b, b)
    angle = np.arccos(np.clip(np.abs(cosine), 0.0, 1.0))
    sine = np.sin(angle)
    # Between all but equal rotations the quotient loses its digits, and straight interpolation has no error left.
    near = sine < 1e-6
    safe = np.where(near, 1.0, sine)
    wa = np.where(near, 1 - u, np.sin((1 - u) * angle) / safe)
    wb = np.where(near, u, np.sin(u * angle) / safe)
    return _unit(wa * a + wb * b)


def _compose(translation: Array, rotation: Array, scale: Array) -> Array:
    """`(..., 4, 4)` matrices from translations, unit quaternions (x, y, z, w) and scales."""
    x, y, z, w = np.moveaxis(rotation, -1, 0)
    out = np.zeros((*translation.shape[:-1], 4, 4))
    out[..., 0, 0] = 1 - 2 * (y * y + z * z)
    out[..., 0, 1] = 2 * (x * y - z * w)
    out[..., 0, 2] = 2 * (x * z + y * w)
    out[..., 1, 0] = 2 * (x * y + z * w)
    out[..., 1, 1] = 1 - 2 * (x * x + z * z)
    out[..., 1, 2] = 2 * (y * z - x * w)
    out[..., 2, 0] = 2 * (x * z - y * w)
    out[..., 2, 1] = 2 * (y * z + x * w)
    out[..., 2, 2] = 1 - 2 * (x * x + y * y)
    out[..., :3, :3] *= scale[..., None, :]
    out[..., :3, 3] = translation
    out[..., 3, 3] = 1.0
    return out


def _decompose(matrix: Array) -> tuple[Array, Array, Array]:
    """Translation, unit quaternion and scale of an affine matrix; shear is dropped, a mirror goes into the x scale."""
    from scipy.spatial.transform import Rotation

    linear = matrix[:3, :3]
    scale = np.linalg.norm(linear, axis=0)
    if np.linalg.det(linear) < 0:
        scale[0] = -scale[0]
    axes = linear / np.where(scale == 0, 1.0, scale)
    u, _, vt = np.linalg.svd(axes)  # the nearest rotation, whatever the shear
    sign = 1.0 if np.linalg.det(u @ vt) >= 0 else -1.0
    return matrix[:3, 3].copy(), Rotation.from_matrix(u @ np.diag([1.0, 1.0, sign]) @ vt).as_quat(), scale


# ----------------------------------------------------------------------------------------------------------- reader


class _Reader:
    """One pass over one document. Lives only inside `load`."""

    def __init__(self, document: dict[str, Any], blob: bytes) -> None:
        self.document = document
        self.blob = blob
        self.elements = 0
        self.cache: dict[tuple[int, bool], npt.NDArray[Any]] = {}
        version = _object(document.get("asset"), "asset").get("version")
        if not isinstance(version, str) or not version.startswith("2."):
            raise GltfError("The file does not say that it is glTF version 2.")
        for name in _list(document, "extensionsRequired", ""):
            if not isinstance(name, str):
                raise GltfError("extensionsRequired contains something that is not a name.")
            if name not in _HARMLESS_EXTENSIONS and not name.startswith("KHR_materials_"):
                raise GltfError(f"The file requires the extension {name[:80]!r}, which cannot be read here.")
        self.buffers = [self._buffer(i, b) for i, b in enumerate(_records(document, "buffers", 1_000))]
        self.views = [self._view(i, v) for i, v in enumerate(_records(document, "bufferViews"))]
        self.accessors = _records(document, "accessors")

    def scene(self) -> GltfScene:
        self._check_images()
        meshes = self._meshes()
        nodes, translations, rotations, scales, matrices = self._nodes(meshes)
        channels = self._channels(len(nodes))
        for channel in channels:
            if channel.node in matrices:
                # An animated node must not have a matrix; where one does, its parts are what the keys replace.
                i = channel.node
                translations[i], rotations[i], scales[i] = _decompose(matrices.pop(i))
        roots = self._roots(nodes)
        scene = GltfScene(nodes, meshes, roots, tuple(channels), translations, rotations, scales, matrices)
        instanced = sum(len(scene.vertices_of(i)) for i in scene.active)
        if instanced > MAX_ELEMENTS:
            raise GltfError(f"The scene's nodes show {instanced} vertices, more than {MAX_ELEMENTS}.")
        scene.world_matrices()  # a tree whose scales multiply to infinity is refused here, not in the middle of scoring
        return scene

    # buffers and accessors

    def _buffer(self, i: int, buffer: dict[str, Any]) -> memoryview | None:
        """The bytes of a buffer, cut to its declared length; None for one that has no bytes here."""
        where = f"buffers[{i}]"
        length = _integer(buffer.get("byteLength"), f"{where}.byteLength")
        uri = buffer.get("uri")
        if uri is None:
            if i > 0 or not self.blob:
                return None  # a placeholder (meshopt fallback) or a file without a binary part: an error only if read
            data: bytes = self.blob
        else:
            data = _data_uri(uri, where)
        if length > len(data):
            raise GltfError(f"{where} declares {_short(length)} bytes but has {len(data)}.")
        return memoryview(data)[:length]

    def _view(self, i: int, view: dict[str, Any]) -> tuple[int, int, int, int]:
        """Buffer, offset, length and stride (0: tightly packed) of a view that lies inside its buffer."""
        where = f"bufferViews[{i}]"
        buffer = _integer(view.get("buffer"), f"{where}.buffer", len(self.buffers))
        offset = _integer(view.get("byteOffset", 0), f"{where}.byteOffset")
        length = _integer(view.get("byteLength"), f"{where}.byteLength")
        stride = _integer(view.get("byteStride", 0), f"{where}.byteStride")
        data = self.buffers[buffer]
        if data is not None and offset + length > len(data):
            raise GltfError(f"{where} ends at byte {_short(offset + length)} of a buffer of {len(data)} bytes.")
        if stride and not 4 <= stride <= 252:
            raise GltfError(f"{where}.byteStride is {_short(stride)}, not between 4 and 252.")
        return buffer, offset, length, stride

    def _view_bytes(self, index: Any, where: str) -> memoryview:
        buffer, offset, length, _ = self.views[_integer(index, where, len(self.views))]
        data = self.buffers[buffer]
        if data is None:
            raise GltfError(f"{where} refers to buffers[{buffer}], which has no data in this file.")
        return data[offset : offset + length]

    def _spend(self, count: int, what: str) -> None:
        """Counts decoded elements against the limit of the whole file, before they are allocated."""
        self.elements += count
        if count > MAX_ELEMENTS or self.elements > MAX_ELEMENTS:
            raise GltfError(f"{what} brings the file beyond {MAX_ELEMENTS} vertices, indices and keys.")

    def _raw(
        self, view: Any, offset: Any, dtype: np.dtype[Any], count: int, width: int, where: str, strided: bool
    ) -> npt.NDArray[Any]:
        """`(count, width)` numbers of a buffer view, not copied; its end is checked against the view's."""
        data = self._view_bytes(view, f"{where}.bufferView")
        start = _integer(offset, f"{where}.byteOffset")
        size = dtype.itemsize * width
        stride = (self.views[int(view)][3] if strided else 0) or size
        if stride < size:
            raise GltfError(f"{where} has elements of {size} bytes in steps of {stride}.")
        end = start + stride * (count - 1) + size if count else start
        if end > len(data):
            raise GltfError(f"{where} ends at byte {_short(end)} of a buffer view of {len(data)} bytes.")
        if not count:
            return np.zeros((0, width), dtype)
        return np.ndarray((count, width), dtype, buffer=data, offset=start, strides=(stride, dtype.itemsize))

    def _accessor(self, index: Any, kind: str, where: str, *, indices: bool = False) -> npt.NDArray[Any]:
        """`(count, width)` values of an accessor of the given type: float64, or int64 for `indices`."""
        i = _integer(index, where, len(self.accessors))
        if (i, indices) in self.cache:
            self._spend(len(self.cache[i, indices]), f"accessors[{i}]")
            return self.cache[i, indices]
        accessor, where = self.accessors[i], f"accessors[{i}]"
        if accessor.get("type") != kind:
            raise GltfError(f"{where} has type {str(accessor.get('type'))[:20]!r} where {kind} is needed.")
        component = accessor.get("componentType")
        dtype = _DTYPES.get(component) if isinstance(component, int) else None
        if dtype is None:
            raise GltfError(f"{where} has a componentType that glTF does not have.")
        if indices and component not in _INDEX_TYPES:
            raise GltfError(f"{where} holds indices that are not unsigned integers.")
        count = _integer(accessor.get("count"), f"{where}.count")
        width = _WIDTHS[kind]
        sparse = accessor.get("sparse")
        self._spend(count, where)
        if "bufferView" in accessor:
            raw = self._raw(accessor["bufferView"], accessor.get("byteOffset", 0), dtype, count, width, where, True)
        else:
            raw = np.zeros((count, width), dtype)
        if sparse is not None:
            raw = self._sparse(_object(sparse, f"{where}.sparse"), raw, f"{where}.sparse")
        if indices:
            values: npt.NDArray[Any] = raw.astype(np.int64)
        else:
            values = raw.astype(np.float64)
            if accessor.get("normalized") is True and dtype.kind in "iu":
                values = np.maximum(values / np.iinfo(dtype.type).max, -1.0)
            if not np.isfinite(values).all():
                raise GltfError(f"{where} contains NaN or infinite numbers.")
        self.cache[i, indices] = values
        return values

    def _sparse(self, sparse: dict[str, Any], raw: npt.NDArray[Any], where: str) -> npt.NDArray[Any]:
        """`raw` with the sparse replacements put in."""
        count = _integer(sparse.get("count"), f"{where}.count")
        if count > len(raw):
            raise GltfError(f"{where} replaces {_short(count)} of {len(raw)} elements.")
        places = _object(sparse.get("indices"), f"{where}.indices")
        values = _object(sparse.get("values"), f"{where}.values")
        component = places.get("componentType")
        if component not in _INDEX_TYPES:
            raise GltfError(f"{where}.indices are not unsigned integers.")
        kind, start = _DTYPES[component], places.get("byteOffset", 0)
        at = self._raw(places.get("bufferView"), start, kind, count, 1, f"{where}.indices", False)[:, 0]
        if count and int(at.max()) >= len(raw):
            raise GltfError(f"{where}.indices point beyond the accessor.")
        width, start = raw.shape[1], values.get("byteOffset", 0)
        new = self._raw(values.get("bufferView"), start, raw.dtype, count, width, f"{where}.values", False)
        raw = raw.copy()
        raw[at] = new
        return raw

    # meshes

    def _meshes(self) -> tuple[Mesh, ...]:
        records = _records(self.document, "meshes", MAX_NODES)
        if sum(len(_list(m, "primitives", f"meshes[{i}].")) for i, m in enumerate(records)) > MAX_PRIMITIVES:
            raise GltfError(f"The file has more than {MAX_PRIMITIVES} mesh primitives.")
        return tuple(self._mesh(i, m) for i, m in enumerate(records))

    def _mesh(self, i: int, mesh: dict[str, Any]) -> Mesh:
        """One mesh, its primitives one after the other; primitives on one and the same accessor share its vertices."""
        vertices: list[Array] = []
        faces: list[IntArray] = []
        starts: dict[int, int] = {}
        total = 0
        for k, value in enumerate(mesh.get("primitives", [])):
            where = f"meshes[{i}].primitives[{k}]"
            primitive = _object(value, where)
            attributes = _object(primitive.get("attributes", {}), f"{where}.attributes")
            if "POSITION" not in attributes:
                continue
            extensions = _object(primitive.get("extensions", {}), f"{where}.extensions")
            mode = _integer(primitive.get("mode", pygltflib.TRIANGLES), f"{where}.mode", 7)
            if DRACO in extensions:
                points, triangles = self._draco(primitive, _object(extensions[DRACO], f"{where} Draco"), where)
                start = total
            else:
                position = attributes["POSITION"]
                points = self._accessor(position, pygltflib.VEC3, f"{where}.attributes.POSITION")
                order = np.arange(len(points))
                if "indices" in primitive:
                    order = self._accessor(primitive["indices"], pygltflib.SCALAR, f"{where}.indices", indices=True)
                    order = order[:, 0]
                    if len(order) and int(order.max()) >= len(points):
                        raise GltfError(f"{where} refers to vertex {int(order.max())} of {len(points)}.")
                triangles = _triangles(order, mode)
                self._spend(len(triangles), where)
                start = starts.setdefault(int(position), total)
            faces.append(triangles + start)
            if start == total:
                vertices.append(points)
                total += len(points)
        return Mesh(
            _name(mesh.get("name"), f"mesh_{i}", f"meshes[{i}].name"),
            np.concatenate(vertices) if vertices else np.zeros((0, 3)),
            np.concatenate(faces) if faces else np.zeros((0, 3), np.int64),
        )

    def _draco(self, primitive: dict[str, Any], draco: dict[str, Any], where: str) -> tuple[Array, IntArray]:
        """Vertices and triangles of a Draco-compressed primitive."""
        data = bytes(self._view_bytes(draco.get("bufferView"), f"{where} Draco bufferView"))
        for declared in _draco_counts(data, where):
            if declared > MAX_DRACO_ELEMENTS:
                raise GltfError(f"{where} declares more than {MAX_DRACO_ELEMENTS} Draco-compressed elements.")
            self._spend(declared, where)
        try:
            import DracoPy
        except ImportError:
            raise GltfError(
                "The file is Draco-compressed; reading it needs DracoPy: pip install sceneact-gym[draco]."
            ) from None
        try:
            decoded = DracoPy.decode(data)
            points = np.asarray(decoded.points, np.float64).reshape(-1, 3)
            faces = getattr(decoded, "faces", None)
            triangles = np.zeros((0, 3), np.int64) if faces is None else np.asarray(faces, np.int64).reshape(-1, 3)
        except Exception as error:  # whatever the decoder of another project raises on data it cannot read
            raise GltfError(f"{where} has Draco data that cannot be decoded: {str(error)[:120]}.") from None
        if not np.isfinite(points).all():
            raise GltfError(f"{where} has Draco data with NaN or infinite positions.")
        if len(triangles) and not 0 <= int(triangles.min()) <= int(triangles.max()) < len(points):
            raise GltfError(f"{where} has Draco data whose triangles point beyond its vertices.")
        return points, triangles

    # nodes

    def _nodes(self, meshes: tuple[Mesh, ...]) -> tuple[tuple[Node, ...], Array, Array, Array, dict[int, Array]]:
        records = _records(self.document, "nodes", MAX_NODES)
        n = len(records)
        parents: list[int | None] = [None] * n
        children: list[tuple[int, ...]] = []
        for i, record in enumerate(records):
            listed = _list(record, "children", f"nodes[{i}].")
            children.append(tuple(_integer(c, f"nodes[{i}].children", n) for c in listed))
            for child in children[i]:
                if parents[child] is not None:
                    raise GltfError(f"nodes[{child}] has two parents: the node tree is not a tree.")
                parents[child] = i
        _check_tree(parents, children)

        translations, rotations, scales = np.zeros((n, 3)), np.tile([0.0, 0.0, 0.0, 1.0], (n, 1)), np.ones((n, 3))
        matrices: dict[int, Array] = {}
        nodes = []
        for i, record in enumerate(records):
            where = f"nodes[{i}]"
            mesh = None if record.get("mesh") is None else _integer(record["mesh"], f"{where}.mesh", len(meshes))
            fallback = meshes[mesh].name if mesh is not None else f"node_{i}"
            nodes.append(Node(_name(record.get("name"), fallback, f"{where}.name"), parents[i], children[i], mesh))
            if "matrix" in record:
                # Column by column in the file.
                matrix = _numbers(record["matrix"], 16, f"{where}.matrix").reshape(4, 4).T.copy()
                if not np.allclose(matrix[3], [0.0, 0.0, 0.0, 1.0], rtol=0, atol=1e-5):
                    raise GltfError(f"{where}.matrix is not an affine transform.")
                matrix[3] = 0.0, 0.0, 0.0, 1.0
                matrices[i] = matrix
                continue
            if "translation" in record:
                translations[i] = _numbers(record["translation"], 3, f"{where}.translation")
            if "scale" in record:
                scales[i] = _numbers(record["scale"], 3, f"{where}.scale")
            if "rotation" in record:
                rotation = _numbers(record["rotation"], 4, f"{where}.rotation")
                norm = np.linalg.norm(rotation)
                if not 1e-12 < norm < 1e12:
                    raise GltfError(f"{where}.rotation is not a rotation.")
                rotations[i] = rotation / norm
        return tuple(nodes), translations, rotations, scales, matrices

    def _roots(self, nodes: tuple[Node, ...]) -> tuple[int, ...]:
        scenes = _records(self.document, "scenes", 1_000)
        if not scenes:
            return tuple(i for i, node in enumerate(nodes) if node.parent is None)
        active = _integer(self.document.get("scene", 0), "scene", len(scenes))
        listed = _list(scenes[active], "nodes", f"scenes[{active}].")
        roots = tuple(_integer(i, f"scenes[{active}].nodes", len(nodes)) for i in listed)
        if len(set(roots)) < len(roots):
            raise GltfError(f"scenes[{active}] lists a node twice.")
        for i in roots:
            if nodes[i].parent is not None:
                raise GltfError(f"scenes[{active}] lists nodes[{i}], which is the child of another node.")
        return roots

    # animations

    def _channels(self, node_count: int) -> list[Channel]:
        """One channel per animated node and property; of several animations the last one wins."""
        found: dict[tuple[int, str], Channel] = {}
        seen = 0
        for a, animation in enumerate(_records(self.document, "animations", 10_000)):
            samplers = _list(animation, "samplers", f"animations[{a}].")
            channels = _list(animation, "channels", f"animations[{a}].")
            seen += len(channels)
            if seen > MAX_CHANNELS:
                raise GltfError(f"The file has more than {MAX_CHANNELS} animation channels.")
            for c, value in enumerate(channels):
                where = f"animations[{a}].channels[{c}]"
                channel = _object(value, where)
                target = _object(channel.get("target"), f"{where}.target")
                path = target.get("path")
                if "node" not in target or not isinstance(path, str) or path not in _PATH_WIDTHS:
                    continue  # morph weights, and targets of extensions
                node = _integer(target["node"], f"{where}.target.node", node_count)
                index = _integer(channel.get("sampler"), f"{where}.sampler", len(samplers))
                sampler = _object(samplers[index], f"animations[{a}].samplers[{index}]")
                found[node, path] = self._channel(node, path, sampler, f"animations[{a}].samplers[{index}]")
        return list(found.values())

    def _channel(self, node: int, path: str, sampler: dict[str, Any], where: str) -> Channel:
        width = _PATH_WIDTHS[path]
        interpolation = sampler.get("interpolation", pygltflib.ANIM_LINEAR)
        if interpolation not in (pygltflib.ANIM_LINEAR, pygltflib.ANIM_STEP, pygltflib.ANIM_CUBICSPLINE):
            raise GltfError(f"{where} has an interpolation that glTF does not have.")
        times = self._accessor(sampler.get("input"), pygltflib.SCALAR, f"{where}.input")[:, 0]
        kind = pygltflib.VEC4 if width == 4 else pygltflib.VEC3
        values = self._accessor(sampler.get("output"), kind, f"{where}.output")
        per_key = 3 if interpolation == pygltflib.ANIM_CUBICSPLINE else 1
        if not len(times):
            raise GltfError(f"{where} has no keys.")
        if len(values) != per_key * len(times):
            raise GltfError(f"{where} has {len(times)} key times and {len(values)} values.")
        if (np.diff(times) < 0).any():
            raise GltfError(f"{where} has key times that go backwards.")
        if per_key == 3:
            values = values.reshape(len(times), 3, width)
        return Channel(node, path, interpolation, times, values)

    # images

    def _check_images(self) -> None:
        """Texture limits, from headers alone: a scorer never decodes a picture, but what renders the scene does."""
        for i, image in enumerate(_records(self.document, "images", MAX_IMAGES)):
            where = f"images[{i}]"
            if "bufferView" in image:
                data: bytes | memoryview = self._view_bytes(image["bufferView"], f"{where}.bufferView")
            elif image.get("uri") is not None:
                data = _data_uri(image["uri"], where)
            else:
                continue
            if len(data) > MAX_IMAGE_BYTES:
                raise GltfError(f"{where} has {len(data)} bytes, more than {MAX_IMAGE_BYTES}.")
            size = image_size(bytes(data[: 2**20]))
            if size and (max(size) > MAX_IMAGE_SIDE or size[0] * size[1] > MAX_IMAGE_PIXELS):
                raise GltfError(f"{where} is {size[0]} x {size[1]} pixels, which is too large.")


def _name(value: Any, fallback: str, where: str) -> str:
    if value is None or value == "":
        return fallback
    if not isinstance(value, str):
        raise GltfError(f"{where} is not a string.")
    return value[:256]


def _data_uri(uri: Any, where: str) -> bytes:
    """The bytes of a base64 data URI. Their number is bounded by the limit of the JSON part."""
    if not isinstance(uri, str):
        raise GltfError(f"{where}.uri is not a string.")
    if not uri.startswith("data:"):
        raise GltfError(f"{where} refers to the external file {uri[:80]!r}; everything must be inside the GLB.")
    head, comma, body = uri.partition(",")
    if not comma or not head.endswith(";base64"):
        raise GltfError(f"{where} has a data URI that is not base64.")
    try:
        return base64.b64decode(body, validate=True)
    except (binascii.Error, ValueError):
        raise GltfError(f"{where} has a data URI with invalid base64.") from None


def _triangles(order: IntArray, mode: int) -> IntArray:
    """`(F, 3)` triangles of an index list; points and lines have none, a rest that fills no triangle is dropped."""
    n = len(order)
    if mode == pygltflib.TRIANGLES:
        return order[: n - n % 3].reshape(-1, 3)
    if n < 3 or mode not in (pygltflib.TRIANGLE_STRIP, pygltflib.TRIANGLE_FAN):
        return np.zeros((0, 3), np.int64)
    if mode == pygltflib.TRIANGLE_FAN:
        return np.stack([order[1:-1], order[2:], np.full(n - 2, order[0])], axis=1)
    strip = np.stack([order[:-2], order[1:-1], order[2:]], axis=1)
    strip[1::2] = strip[1::2][:, [0, 2, 1]]  # every second triangle of a strip winds the other way
    return strip


def _check_tree(parents: list[int | None], children: list[tuple[int, ...]]) -> None:
    """Every node is reached from a parentless one, within the depth limit; each has at most one parent already."""
    level = [i for i, parent in enumerate(parents) if parent is None]
    reached = depth = 0
    while level:
        depth += 1
        if depth > MAX_DEPTH:
            raise GltfError(f"The node tree is deeper than {MAX_DEPTH} levels.")
        reached += len(level)
        level = [c for i in level for c in children[i]]
    if reached < len(parents):
        raise GltfError("The node tree contains a cycle.")


def _draco_counts(data: bytes, where: str) -> tuple[int, int]:
    """Vertices and faces that a Draco stream declares, read from its header before anything is decoded."""
    try:
        if data[:5] != b"DRACO":
            raise ValueError
        version, kind, method = (data[5], data[6]), data[7], data[8]
        flags = struct.unpack_from("<H", data, 9)[0]
        if version != (2, 2) or flags & 0x8000:
            # Other versions and metadata move the counts; glTF prescribes 2.2, and no exporter writes metadata.
            raise GltfError(f"{where} has Draco data of a form that glTF does not use.")
        at = 11
        if kind == 0:
            return struct.unpack_from("<I", data, at)[0], 0
        if method == 1:
            at += 1  # the traversal type
        numbers = _varints(data, at)
        first, second = next(numbers), next(numbers)
    except (ValueError, IndexError, struct.error, StopIteration) as error:
        if isinstance(error, GltfError):
            raise
        raise GltfError(f"{where} has Draco data with a damaged header.") from None
    # Sequential streams name faces first, edgebreaker streams vertices.
    return (first, second) if method == 1 else (second, first)


def _varints(data: bytes, at: int) -> Iterator[int]:
    """Little-endian base-128 integers, at most 32 bits each."""
    while True:
        value = shift = 0
        while True:
            byte = data[at]
            at += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                break
            if shift > 28:
                raise ValueError("varint too long")
        yield value


def image_size(data: bytes) -> tuple[int, int] | None:
    """Width and height that a PNG, JPEG or WebP file declares in its header; None for anything else."""
    if data[:8] == b"\x89PNG\r\n\x1a\n" and len(data) >= 24:
        width, height = struct.unpack_from(">II", data, 16)
        return width, height
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP" and len(data) >= 30:
        if data[12:16] == b"VP8 ":
            width, height = struct.unpack_from("<HH", data, 26)
            return width & 0x3FFF, height & 0x3FFF
        if data[12:16] == b"VP8L":
            bits = int.from_bytes(data[21:25], "little")
            return (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
        if data[12:16] == b"VP8X":
            return int.from_bytes(data[24:27], "little") + 1, int.from_bytes(data[27:30], "little") + 1
    if data[:2] == b"\xff\xd8":
        at = 2
        while at + 9 <= len(data) and data[at] == 0xFF:
            marker = data[at + 1]
            if marker == 0xFF:  # fill byte
                at += 1
            elif 0xC0 <= marker <= 0xCF and marker not in (0xC4, 0xC8, 0xCC):  # the frame headers
                height, width = struct.unpack_from(">HH", data, at + 5)
                return width, height
            elif marker == 0x01 or 0xD0 <= marker <= 0xD7:  # markers without a length
                at += 2
            else:
                at += 2 + max(2, struct.unpack_from(">H", data, at + 2)[0])
    return None
