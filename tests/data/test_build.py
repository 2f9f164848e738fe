"""Case bundles: built from a spec, played by gym.make, and refused when a file was changed."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import tomllib
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from typer.testing import CliRunner

import sceneact_gym  # noqa: F401
from sceneact_gym._version import __version__
from sceneact_gym.blender.render import decode_png
from sceneact_gym.cases import Case
from sceneact_gym.cli import app
from sceneact_gym.data.audit import audit_folder
from sceneact_gym.data.bundles.build import build
from sceneact_gym.data.bundles.spec import Spec
from sceneact_gym.data.procedural.source import ProceduralSource
from sceneact_gym.data.sources import open_source
from sceneact_gym.errors import CaseNotFound, SceneActError

GENERATED = """
[render]
size = 32
samples = 1

[[cases]]
task = "camera"
source = "procedural"
count = 2

[[cases]]
task = "articulated"
source = "procedural"
split = "train"
ids = ["articulated-train-0007"]
"""
IDS = ["camera-test-0000", "camera-test-0001", "articulated-train-0007"]


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Written once; who changes it takes a copy."""
    folder = tmp_path_factory.mktemp("build")
    (folder / "spec.toml").write_text(GENERATED)
    said: list[str] = []
    assert build(folder / "spec.toml", folder / "out", say=said.append) == IDS
    assert [line.split(":")[0] for line in said] == IDS
    # Nothing is left of the work beside the result.
    assert sorted(path.name for path in folder.iterdir()) == ["out", "spec.toml"]
    return folder / "out"


@pytest.fixture
def copied(bundle: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(bundle, tmp_path / "bundle"))


def spec(folder: Path, *entries: dict[str, Any]) -> Path:
    path = folder / "spec.json"
    path.write_text(json.dumps({"render": {"size": 32, "samples": 1}, "cases": entries}))
    return path


def test_the_manifest_says_what_is_there(bundle: Path) -> None:
    manifest = json.loads((bundle / "manifest.json").read_text())
    assert manifest["package"] == __version__ and manifest["cases"] == IDS
    assert manifest["blender"][:2].isdigit() or manifest["blender"][0].isdigit()
    assert manifest["render"]["samples"] == 1 and manifest["render"]["width"] == 32
    assert manifest["render"]["engine"] in ("cycles", "workbench", "eevee")
    files = {path.relative_to(bundle).as_posix(): path.read_bytes() for path in bundle.rglob("*") if path.is_file()}
    del files["manifest.json"]
    assert manifest["files"] == {
        name: {"sha256": hashlib.sha256(data).hexdigest(), "size": len(data)} for name, data in files.items()
    }
    assert "camera-test-0000/public/references/0000.png" in files


def test_the_cases_are_those_of_the_generator_with_their_pictures(bundle: Path) -> None:
    made = ProceduralSource("articulated", "train").load("articulated-train-0007")
    case = Case.load(bundle / "articulated-train-0007")
    assert case.public.assets == made.public.assets and case.public.data == made.public.data
    assert (case.split, case.task) == ("train", "articulated")
    assert np.array_equal(case.truth["frames"], made.truth["frames"]) and len(case.public.references) == 32
    pictures = [decode_png(data, (32, 32)) for data in case.public.references]
    # Closed and open differ; what opens closes by the same states.
    assert (pictures[0] != pictures[16]).any() and np.array_equal(pictures[10], pictures[22])
    assert audit_folder(bundle) == (3, [])


def test_a_bundle_is_played_from_its_folder(bundle: Path) -> None:
    env = gym.make("SceneAct/Camera-v0", source=str(bundle), reference_size=32, render_size=32, render={"samples": 1})
    try:
        observation, info = env.reset(options={"case_id": "camera-test-0001"})
        stored = decode_png((bundle / "camera-test-0001" / "public" / "references" / "0000.png").read_bytes())
        assert info["case_id"] == "camera-test-0001" and np.array_equal(observation["references"][0], stored)
        matrix = Case.load(bundle / "camera-test-0001").truth["matrix_world"].tolist()
        code = f"from mathutils import Matrix\nbpy.context.scene.camera.matrix_world = Matrix({matrix})"
        *_, info = env.step([{"name": "execute_blender_code", "arguments": {"code": code}}, {"name": "submit"}])
        assert info["score"] == pytest.approx(100, abs=1e-3)
    finally:
        env.close()


@pytest.mark.parametrize("split", ["train", "test"])
def test_splits_are_kept_apart(bundle: Path, split: str) -> None:
    task = {"train": "articulated", "test": "camera"}[split]
    assert open_source(str(bundle), task, split).ids() == [name for name in IDS if split in name]
    with pytest.raises(CaseNotFound, match="no case folder of the task"):
        open_source(str(bundle), task, "val")


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("public/assets/scene.glb", b"glTF"),
        ("truth/truth.json", b'{"fov_x_deg": 39.7}\n'),
        ("case.json", b'{"id": "camera-test-0000", "task": "camera", "split": "test", "condition": "x"}'),
        ("public/references/0000.png", None),
        ("public/references/0001.png", b"new"),
        ("notes.txt", b"new"),
    ],
)
def test_a_changed_file_is_named(copied: Path, name: str, data: bytes | None) -> None:
    path = copied / "camera-test-0000" / name
    if data is None:
        path.unlink()
    else:
        path.write_bytes(data)
    source = open_source(str(copied), "camera", "test")
    with pytest.raises(CaseNotFound, match=f"camera-test-0000/{name} is "):
        source.load("camera-test-0000")
    # The others still fit, and without a manifest nothing is compared.
    assert source.load("camera-test-0001").id == "camera-test-0001"


def test_a_change_of_the_same_size_is_found_and_no_manifest_means_no_check(copied: Path) -> None:
    path = copied / "camera-test-0000" / "public" / "assets" / "scene.glb"
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    with pytest.raises(CaseNotFound, match=r"scene\.glb is not the file of manifest\.json"):
        open_source(str(copied), "camera", "test").load("camera-test-0000")
    (copied / "manifest.json").unlink()
    assert open_source(str(copied), "camera", "test").load("camera-test-0000").public.assets["scene.glb"] == bytes(data)


@pytest.mark.parametrize("text", ["{", "[]", '{"format": 2, "files": {}}', '{"format": 1}'])
def test_a_broken_manifest_is_named(copied: Path, text: str) -> None:
    (copied / "manifest.json").write_text(text)
    with pytest.raises(CaseNotFound, match=r"manifest\.json"):
        open_source(str(copied), "camera", "test")


def test_two_folders_of_one_id_are_refused(copied: Path) -> None:
    shutil.copytree(copied / "camera-test-0000", copied / "again")
    with pytest.raises(CaseNotFound, match="have the same id"):
        open_source(str(copied), "camera", "test")


def test_a_failed_build_leaves_nothing(tmp_path: Path) -> None:
    good = {"task": "reconstruction", "source": "procedural", "count": 1}
    path = spec(tmp_path, good, {"task": "camera", "source": "procedural", "ids": ["camera-test-9999"]})
    # The first case is written when the second one turns out to be wrong.
    with pytest.raises(CaseNotFound, match="camera-test-9999"):
        build(path, tmp_path / "out")
    assert [entry.name for entry in tmp_path.iterdir()] == ["spec.json"]


def test_what_is_there_is_not_overwritten(tmp_path: Path) -> None:
    path = spec(tmp_path, {"task": "camera", "source": "procedural", "count": 1})
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "mine.txt").write_text("mine")
    with pytest.raises(SceneActError, match="not an empty folder"):
        build(path, tmp_path / "out")
    with pytest.raises(SceneActError, match="not an empty folder"):
        build(path, path)
    assert (tmp_path / "out" / "mine.txt").read_text() == "mine"


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ({"task": "camera", "source": "procedural"}, "give either count or ids"),
        ({"task": "camera", "source": "procedural", "count": 21}, "20 test cases, fewer than 21"),
        ({"task": "chess", "source": "procedural", "count": 1}, "no generated cases for the task 'chess'"),
        ({"task": "camera", "source": "web", "count": 1}, "procedural"),
        ({"task": "chess"}, "camera"),
        ({"task": "camera", "id": "a", "scene": "a.glb"}, "camera: Field required"),
        ({"task": "camera", "id": "../a", "scene": "a.glb", "camera": {"location": [0, 0, 1]}}, "look_at"),
    ],
)
def test_a_wrong_spec_says_where(tmp_path: Path, entry: dict[str, Any], message: str) -> None:
    with pytest.raises(SceneActError, match=message):
        build(spec(tmp_path, entry), tmp_path / "out")


def test_the_command_says_what_it_did(tmp_path: Path) -> None:
    missing = CliRunner().invoke(app, ["data", "build", str(tmp_path / "no.toml"), "--out", str(tmp_path / "out")])
    assert isinstance(missing.exception, SceneActError) and "no.toml cannot be read" in str(missing.exception)
    broken = tmp_path / "broken.toml"
    broken.write_text("[[cases")
    with pytest.raises(SceneActError, match="is no TOML"):
        build(broken, tmp_path / "out")
    path = spec(tmp_path, {"task": "camera", "source": "procedural", "count": 1})
    done = CliRunner().invoke(app, ["data", "build", str(path), "--out", str(tmp_path / "out")])
    assert done.exit_code == 0, done.output
    assert "1 cases" in done.output and "SHA-256" in done.output and "render settings" in done.output


def test_the_examples_of_the_documentation_are_specs() -> None:
    text = (Path(__file__).parents[2] / "docs" / "data.md").read_text()
    tasks = [
        entry.task
        for example in re.findall(r"```toml\n(.*?)```", text, re.DOTALL)
        for entry in Spec.model_validate(tomllib.loads(example)).cases
    ]
    assert set(tasks) == {"camera", "layout", "layout_multiview", "reconstruction", "articulated", "dynamic"}
