"""Draco-compressed assets."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

from sceneact_gym.blender.draco import decode_draco
from sceneact_gym.data.glb import Material, Node, write_glb
from sceneact_gym.data.procedural.shapes import box
from sceneact_gym.errors import SceneActError
from sceneact_gym.evaluators import gltf

PLAIN = write_glb([Node("thing", [box((1, 2, 3), (0, 0, 0), Material("red", (1.0, 0.0, 0.0)))])])


def test_a_file_without_draco_stays_as_it_is() -> None:
    assert decode_draco(PLAIN) is PLAIN


def test_a_published_room_decodes_to_the_same_geometry(published: Path) -> None:
    packed = (published / "reference" / "camera" / "gt-scene.glb").read_bytes()
    decoded = decode_draco(packed)
    assert b"KHR_draco" not in decoded
    # The evaluators' reader decodes by itself, and reads the decoded file without Draco.
    before, after = (gltf.load(data).world_meshes() for data in (packed, decoded))
    assert [mesh.name for mesh in before] == [mesh.name for mesh in after]
    for one, other in zip(before, after, strict=True):
        assert np.array_equal(one.vertices, other.vertices) and np.array_equal(one.faces, other.faces)


def test_broken_files_and_a_missing_library_are_named(published: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(SceneActError, match="no binary glTF"):
        decode_draco(b"nothing")
    packed = (published / "reference" / "camera" / "gt-scene.glb").read_bytes()
    with pytest.raises(SceneActError, match="cannot be decoded"):
        decode_draco(packed[: len(packed) // 2])
    monkeypatch.setitem(sys.modules, "DracoPy", None)
    with pytest.raises(SceneActError, match=r"sceneact-gym\[draco\]"):
        decode_draco(packed)
