"""How long a reset takes per task, and how large the built-in data are.

`python -m benchmarks.resets [--cases N]`. References are rendered into a cache of its own, so that the first reset of a
case pays for all of its pictures.
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
import time
from collections.abc import Callable

import gymnasium as gym

from sceneact_gym.cases import Case
from sceneact_gym.envs import ENVS


def seconds(action: Callable[[], object]) -> float:
    """How long an action takes."""
    start = time.perf_counter()
    action()
    return time.perf_counter() - start


def megabytes(case: Case) -> tuple[float, float]:
    """Public assets and truth of a case in memory, 10^6 bytes."""
    truth = sum(value.nbytes for value in case.truth.values() if hasattr(value, "nbytes"))
    return sum(map(len, case.public.assets.values())) / 1e6, truth / 1e6


def measure(env_id: str, cases: int) -> list[str]:
    """A row of the table: medians over the first test cases."""
    env = gym.make(env_id)
    host = env.unwrapped.host  # type: ignore[attr-defined]
    ids = [host.source.nth(number) for number in range(cases)]
    generated = [seconds(lambda case_id=case_id: host.source.load(case_id)) for case_id in ids]
    sizes = [megabytes(host.source.load(case_id)) for case_id in ids]

    def reset(case_id: str) -> None:
        env.reset(seed=0, options={"case_id": case_id})

    reset(host.source.nth(cases))  # Blender starts, and the trusted one as well.
    cold = [seconds(lambda case_id=case_id: reset(case_id)) for case_id in ids]
    warm = [seconds(lambda case_id=case_id: reset(case_id)) for case_id in ids]
    env.close()
    env = gym.make(env_id)
    first = seconds(lambda: env.reset(seed=0, options={"case_id": ids[0]}))
    cached = [seconds(lambda case_id=case_id: env.reset(seed=0, options={"case_id": case_id})) for case_id in ids[1:]]
    env.close()
    return [
        f"`{env_id}`",
        *(f"{statistics.median(values):.2f}" for values in (generated, cold)),
        f"{first:.2f}",
        *(f"{statistics.median(values):.2f}" for values in (cached, warm)),
        *(f"{statistics.median(column):.2f}" for column in zip(*sizes, strict=True)),
    ]


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", type=int, default=4, help="cases per task")
    cases = parser.parse_args().cases
    print("| environment | generate, s | new case, s | first reset, s | cached case, s | same case again, s "
          "| public, MB | truth, MB |")
    print("|---|---|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        os.environ["SCENEACT_CACHE"] = folder
        for env_id in ENVS:
            print(f"| {' | '.join(measure(env_id, cases))} |", flush=True)


if __name__ == "__main__":
    main()
