"""The examples run as their texts say, on real Blender with small pictures."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from examples import step_loop
from sceneact_gym.trace import read_trace
from tests.test_bench import SMALL, config, played


def test_the_ordinary_loop(capsys: pytest.CaptureFixture[str]) -> None:
    step_loop.main()
    said = capsys.readouterr().out
    assert len(re.findall(r"degrees: mean difference of \d+\.\d grey", said)) == 8
    assert 0 < float(re.findall(r"score (\S+) of 100", said)[0]) < 100


def test_an_agent_of_ones_own_in_the_runner(tmp_path: Path) -> None:
    made = config("examples.custom_agent:Greedy", tasks=["layout"], cases=1, options={**SMALL, "max_steps": 4})
    (row,) = played(tmp_path / "run", made)
    assert row["status"] == "ok" and row["steps"] == 4, row["reason"]
    steps = [event for event in read_trace(tmp_path / "run" / "episodes" / row["folder"]) if event["event"] == "step"]
    # Seven places a turn are tried and looked at; the next turn begins with the best of them.
    assert [len(step["results"]) for step in steps] == [14, 15, 15, 2]
    assert not any(result["is_error"] for step in steps for result in step["results"])
    tried = [call["arguments"]["code"] for call in steps[0]["action"][::2]]
    assert steps[1]["action"][0]["arguments"]["code"] in tried and steps[3]["action"][1] == {"name": "submit"}
