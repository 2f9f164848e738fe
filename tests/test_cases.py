"""Cases in memory and on disk, and the folder source."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from sceneact_gym.cases import Case, Public, View
from sceneact_gym.data.sources import open_source
from sceneact_gym.errors import CaseNotFound


def make(case_id: str = "one", split: str = "") -> Case:
    return Case(
        case_id,
        "camera",
        Public({"scene.glb": b"glTF"}, (View("view", np.eye(4), 39.6),), (b"png",), {"fov_x_deg": 39.6}),
        {"matrix_world": np.arange(16.0).reshape(4, 4), "note": "hidden"},
        split=split,
    )


def test_a_case_survives_the_disk_and_keeps_the_truth_apart(tmp_path: Path) -> None:
    make().save(tmp_path / "case")
    back = Case.load(tmp_path / "case")
    assert (back.id, back.task, back.truth["note"]) == ("one", "camera", "hidden")
    assert set(back.truth) == {"matrix_world", "note"}
    back.save(tmp_path / "again")
    assert np.array_equal(back.truth["matrix_world"], np.arange(16.0).reshape(4, 4))
    assert back.public.assets == {"scene.glb": b"glTF"} and back.public.references == (b"png",)
    assert np.array_equal(back.public.views[0].matrix_world, np.eye(4))
    public = b"".join(path.read_bytes() for path in (tmp_path / "case" / "public").rglob("*") if path.is_file())
    assert b"hidden" not in public and b"note" not in public
    assert "hidden" not in repr(back)


@pytest.mark.parametrize("lost", ["case.json", "public/public.json", "truth/truth.json", "truth/truth.npz"])
def test_a_missing_or_broken_file_is_named(tmp_path: Path, lost: str) -> None:
    make().save(tmp_path / "case")
    (tmp_path / "case" / lost).write_bytes(b"{")
    with pytest.raises(CaseNotFound, match=Path(lost).name):
        Case.load(tmp_path / "case")
    (tmp_path / "case" / lost).unlink()
    with pytest.raises(CaseNotFound, match=Path(lost).name):
        Case.load(tmp_path / "case")


def test_names_that_would_leave_the_folder_are_refused() -> None:
    for name in ("../up", "a/b", "", ".hidden", "a" * 300):
        with pytest.raises(ValueError, match="cannot name"):
            make(name)


def test_the_folder_source(tmp_path: Path) -> None:
    make("b", "test").save(tmp_path / "1")
    make("a").save(tmp_path / "2")
    make("c", "val").save(tmp_path / "3")
    source = open_source(str(tmp_path), "camera", "test")
    assert source.ids() == ["b", "a"] and source.nth(3) == "a"
    assert source.load("a").id == "a"
    assert source.draw(np.random.default_rng(0)) in ("a", "b")
    with pytest.raises(CaseNotFound, match="the folder has b, a"):
        source.load("c")
    with pytest.raises(CaseNotFound, match="no case folder of the task 'layout'"):
        open_source(str(tmp_path), "layout", "test")
    with pytest.raises(CaseNotFound, match="neither"):
        open_source("/nowhere", "camera", "test")
    with pytest.raises(CaseNotFound, match="train, val, test"):
        open_source("procedural", "camera", "dev")


def test_the_procedural_source() -> None:
    source = open_source("procedural", "camera", "test")
    assert source.ids() == [f"camera-test-{index:04d}" for index in range(20)]
    train = open_source("procedural", "camera", "train")
    assert train.ids() is None and train.nth(123456) == "camera-train-123456"
    case = train.load("camera-train-123456")
    assert case.public.data["objects"] and "matrix_world" in case.truth
    for wrong in ("camera-test-0020", "camera-train-0000", "layout-test-0000", "camera-test-1", "../../etc"):
        with pytest.raises(CaseNotFound, match="ids look like camera-test-0000"):
            source.load(wrong)
