"""What real Blender says about GLB files, asked in a process of its own."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np

PROBE = Path(__file__).with_name("blender_probe.py")


def ask(folder, scenes):
    """For each (glb bytes, cameras): see `blender_probe.py`."""
    arrays = {f"glb_{k}": np.frombuffer(glb, np.uint8) for k, (glb, _) in enumerate(scenes)}
    arrays |= {f"cameras_{k}": np.reshape(cameras, (-1, 4, 4)) for k, (_, cameras) in enumerate(scenes)}
    np.savez(folder / "input.npz", **arrays)
    done = subprocess.run([sys.executable, str(PROBE), str(folder)], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads((folder / "output.json").read_text())
