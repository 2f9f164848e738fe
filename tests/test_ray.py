"""A benchmark on a Ray cluster of this machine gives what one without it gives."""

from __future__ import annotations

import importlib
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
import ray

from sceneact_gym.bench.folder import RunFolder, results
from sceneact_gym.bench.runner import run_bench
from sceneact_gym.errors import SceneActError
from tests.test_bench import AGENT, SMALL, config, counting, gone, played

# Ray opens files and sockets that it leaves to the end of its process, and warns of its own coming changes.
pytestmark = [
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
    pytest.mark.timeout(240),
]


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """One for both runs of a test; starting takes longer than what is played."""
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    from sceneact_gym.bench.ray_executor import connect

    connect(2)
    yield
    ray.shutdown()


@pytest.mark.usefixtures("cluster")
def test_the_same_run_folder_and_a_fresh_player_for_a_lost_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = config("random", cases=3, options={**SMALL, "max_steps": 2})
    local = played(tmp_path / "local", made)
    with RunFolder(tmp_path / "ray", made) as folder:
        rows = run_bench(folder, 2, executor="ray")
        assert counting(rows) == counting(local) and {row["status"] for row in rows} == {"ok"}
        for row in rows:
            here = folder.episodes / row["folder"]
            there = tmp_path / "local" / "episodes" / results(local)[row["key"]]["folder"]
            files = sorted(file.relative_to(there) for file in there.rglob("*"))
            assert sorted(file.relative_to(here) for file in here.rglob("*")) == files
            for file in files:
                if file.suffix in (".png", ".json"):
                    assert (here / file).read_bytes() == (there / file).read_bytes()
        assert not list(folder.playing.iterdir())

    # The actor's process dies in the middle of its first episode.
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    mark = "(Path(__file__).parent / 'pid').write_text(str(os.getpid()))"
    fault = f"{mark}\n        os.kill(os.getpid(), signal.SIGKILL)"
    (tmp_path / "agent_on_ray.py").write_text(AGENT.replace("FAULT", fault))
    with RunFolder(tmp_path / "killed", config("agent_on_ray:Agent", cases=1)) as folder:
        first, second = run_bench(folder, executor="ray")
    assert first["status"] == "infra_error" and first["score"] is None and "Ray" in first["reason"]
    assert second["status"] == "ok" and second["attempt"] == 2 and second["usage"] == {"tokens": 12}
    assert gone(int((tmp_path / "pid").read_text()))
    assert not list(Path(tempfile.gettempdir()).glob("sceneact-ray-*"))


def test_mistakes_end_in_a_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAY_ADDRESS", "127.0.0.1:1")
    with RunFolder(tmp_path / "a", config()) as folder:
        with pytest.raises(SceneActError, match="the Ray cluster 127.0.0.1:1 cannot be used"):
            run_bench(folder, executor="ray")
        with pytest.raises(ValueError, match="executor must be one of local, ray; it is 'cloud'"):
            run_bench(folder, executor="cloud")
    monkeypatch.setitem(sys.modules, "ray", None)
    monkeypatch.delitem(sys.modules, "sceneact_gym.bench.ray_executor", raising=False)
    with pytest.raises(SceneActError, match=r"pip install 'sceneact-gym\[ray\]'"):
        importlib.import_module("sceneact_gym.bench.ray_executor")
