"""Which Blender is found, and what is said about those that cannot be used."""

from __future__ import annotations

import importlib.util
import os
import sys
from pathlib import Path

import pytest

from sceneact_gym.blender import locate
from sceneact_gym.errors import BlenderNotFound

HELP = "pip install sceneact-gym[blender]"


@pytest.fixture(autouse=True)
def nothing_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    locate._binary.cache_clear()
    monkeypatch.delenv(locate.VARIABLE, raising=False)


def fake(folder: Path, text: str, name: str = "blender", code: int = 0) -> Path:
    folder.mkdir(exist_ok=True)
    path = folder / name
    path.write_text(f"#!/bin/sh\ncat <<'END'\n{text}\nEND\nexit {code}\n")
    path.chmod(0o755)
    return path


def refusal() -> str:
    with pytest.raises(BlenderNotFound) as caught:
        locate.find_blender()
    assert HELP in str(caught.value) and "4.2 or newer" in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize("version", ["3.4.1", "2.93.0", "4.1.1", "4.0"])
def test_an_old_blender_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: str) -> None:
    path = fake(tmp_path, f"Blender {version}\n\tbuild date: 2023-01-01")
    monkeypatch.setenv(locate.VARIABLE, str(path))
    message = refusal()
    assert f"is Blender {version}, which is too old: 4.2 or newer is needed" in message
    assert f"{locate.VARIABLE}={path}" in message


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("Blender 4.2.0", "4.2.0"),
        ("Blender 4.2.3 LTS\n\tbuild date: 2024-10-14", "4.2.3"),
        ("Blender 4.10.1", "4.10.1"),
        ("Blender 5.0", "5.0"),
        ("Blender 5.3.0 Beta", "5.3.0"),
        ("Color management: using fallback mode\nBlender 4.5.1 LTS", "4.5.1"),
    ],
)
def test_a_new_blender_is_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, version: str) -> None:
    path = fake(tmp_path, text)
    monkeypatch.setenv(locate.VARIABLE, str(path))
    assert locate.find_blender() == locate.Blender("binary", path.resolve(), version)


def test_a_missing_file_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(locate.VARIABLE, str(tmp_path / "none"))
    assert f"{tmp_path / 'none'} is not an executable file" in refusal()


def test_a_folder_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(locate.VARIABLE, str(tmp_path))
    assert "is not an executable file" in refusal()


def test_a_file_that_cannot_be_executed_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = fake(tmp_path, "Blender 5.0.1")
    path.chmod(0o644)
    monkeypatch.setenv(locate.VARIABLE, str(path))
    assert "is not an executable file" in refusal()


def test_what_no_kernel_can_execute_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "blender"
    path.write_bytes(b"\x00\x01\x02\x03 no program")
    path.chmod(0o755)
    monkeypatch.setenv(locate.VARIABLE, str(path))
    assert "did not tell its version" in refusal()


@pytest.mark.parametrize("text", ["", "Python 3.11.7", "usage: not Blender 5.0", "blender 5.0", "Blender"])
def test_another_program_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setenv(locate.VARIABLE, str(fake(tmp_path, text, code=1)))
    assert "does not call itself Blender" in refusal()


def test_output_that_is_no_text_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = fake(tmp_path, "")
    path.write_text("#!/bin/sh\nprintf '\\377\\376\\000garbage'\n")
    monkeypatch.setenv(locate.VARIABLE, str(path))
    assert "does not call itself Blender" in refusal()


def test_a_home_folder_can_be_written_with_a_tilde(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = fake(tmp_path, "Blender 4.5.0")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv(locate.VARIABLE, "~/blender")
    assert locate.find_blender().path == path.resolve()


def test_the_module_comes_before_the_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(fake(tmp_path, "Blender 4.5.0").parent), prepend=os.pathsep)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: object())
    monkeypatch.setattr(locate.importlib.metadata, "version", lambda name: "5.0.1")
    assert locate.find_blender() == locate.Blender("module", Path(sys.executable), "5.0.1")


def test_without_the_module_the_path_is_searched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    found = fake(tmp_path / "new", "Blender 4.5.0")
    monkeypatch.setenv("PATH", str(found.parent), prepend=os.pathsep)
    assert locate.find_blender() == locate.Blender("binary", found.resolve(), "4.5.0")
    old = fake(tmp_path / "old", "Blender 3.4.1")
    monkeypatch.setenv("PATH", str(old.parent), prepend=os.pathsep)
    assert "is Blender 3.4.1, which is too old" in refusal()
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))
    assert "No Blender was found" in refusal()


def test_the_refusal_reaches_who_resets_an_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import gymnasium as gym

    import sceneact_gym  # noqa: F401

    monkeypatch.setenv(locate.VARIABLE, str(fake(tmp_path, "Blender 3.4.1")))
    env = gym.make("SceneAct/Camera-v0")  # Nothing is started, so nothing is wrong yet.
    with pytest.raises(BlenderNotFound, match=r"Blender 3\.4\.1, which is too old"):
        env.reset(seed=0)
    env.close()


def test_the_commands_of_module_and_binary(tmp_path: Path) -> None:
    worker = tmp_path / "worker.py"
    module = locate.Blender("module", Path("/python"), "5.0.1").command(worker, ["3", "4"])
    binary = locate.Blender("binary", Path("/blender"), "5.0.1").command(worker, ["3", "4"])
    assert module[0] == "/python" and {"-s", "-P"} <= set(module) and module[-4:] == [str(worker), "--", "3", "4"]
    assert binary[0] == "/blender" and binary[-5:] == ["--python", str(worker), "--", "3", "4"]
    assert {"--background", "--factory-startup"} <= set(binary)
