"""How far Reconstruction moves with the seed of its subsamples, on the published cases.

Under `paper` the ICP's best start and DBSCAN's best radius are decided by a hair and flip with the random subsample; a
user should know by how much before reading anything into a difference. Run from the repository's root:

    python -m benchmarks.reconstruction_spread [--folder FOLDER_WITH_CASES_JSON] [--seeds 20] [--protocol paper|strict]
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

import numpy as np

from benchmarks.published import default_folder, reconstruction_truth
from sceneact_gym.evaluators import reconstruction
from sceneact_gym.evaluators.gltf import load


def main() -> int:
    """Prints one row per published submission; 1 when the published cases are not there."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, default=default_folder())
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--protocol", choices=("paper", "strict"), default="paper")
    arguments = parser.parse_args()
    if not (arguments.folder / "cases.json").is_file():
        print("Give the folder that holds cases.json with --folder or in SCENEACT_PUBLISHED.", file=sys.stderr)
        return 1
    truth = reconstruction_truth(arguments.folder)
    print(f"{'configuration':28} {'published':>9} {'seed 0':>7} {'mean':>7} {'std':>7} {'min':>7} {'max':>7}")
    errors = []
    for case in json.loads((arguments.folder / "cases.json").read_text()):
        if case["task"] != "reconstruction":
            continue
        meshes = load(arguments.folder / case["submission"]).world_meshes()
        runs = [
            reconstruction.evaluate(meshes, truth, protocol=arguments.protocol, seed=s) for s in range(arguments.seeds)
        ]
        f5 = np.array([r.f5 for r in runs], np.float64)
        published = case["metrics"]["F@5%"]
        errors.append(np.abs(f5 - published))
        numbers = " ".join(f"{v:7.4f}" for v in (f5[0], f5.mean(), f5.std(), f5.min(), f5.max()))
        print(f"{case['configuration']:28} {published:9.4f} {numbers}")
    print(f"mean |F - published|: seed 0 {np.mean([e[0] for e in errors]):.4f}, all seeds {np.mean(errors):.4f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
