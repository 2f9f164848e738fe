"""The light of generated scenes; the same for the reference and for everything that the agent renders."""

from __future__ import annotations

from typing import Any

ROOM: dict[str, Any] = {
    "world_color": [1.0, 1.0, 1.0],
    "world_strength": 1.0,
    "suns": [{"energy": 2.5, "rotation_deg": [35.0, 15.0, 30.0], "angle_deg": 6.0}],
}

OUTDOOR: dict[str, Any] = {
    "world_color": [1.0, 1.0, 1.0],
    "world_strength": 0.75,
    "suns": [{"energy": 3.0, "rotation_deg": [38.0, 12.0, 35.0], "angle_deg": 3.0}],
}

OBJECT: dict[str, Any] = {
    "world_color": [1.0, 1.0, 1.0],
    "world_strength": 0.42,
    "suns": [{"energy": 1.6, "rotation_deg": [50.0, 10.0, 20.0], "angle_deg": 6.0}],
}
"""For one object, seen from the front on white: dim enough that white fronts stand out; it reaches inside."""
