"""Pictures as MCP content within a budget of bytes."""

from __future__ import annotations

import base64
import io
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from sceneact_gym.blender.render import encode_png, resize

SMALLEST_BUDGET = 65_536
"""Bytes in which sixteen pictures fit, however they look."""
SMALLEST_SIDE = 16


def pack(pictures: Sequence[NDArray[np.uint8]], budget: int) -> tuple[list[tuple[str, str]], str]:
    """Encodes pictures: as PNG if they fit, else as JPEG, else as smaller and smaller JPEGs.

    Args:
        pictures: (H, W, 3) uint8 each.
        budget: bytes of base64 text that all of them together may take.

    Returns:
        MIME type and base64 text of each picture, and a sentence for the agent when something was lost, else an empty
        text. If nothing else helps, the last pictures are left out.
    """
    packed = [("image/png", _text(encode_png(picture))) for picture in pictures]
    if _size(packed) <= budget:
        return packed, ""
    scale, shown = 1.0, list(pictures)
    packed = [("image/jpeg", _jpeg(picture)) for picture in shown]
    while _size(packed) > budget and max(max(picture.shape[:2]) for picture in shown) > SMALLEST_SIDE:
        # The size falls about with the area; a little less, so that most pictures need one try.
        scale *= min(0.9, 0.95 * (budget / _size(packed)) ** 0.5)
        shown = [_scaled(picture, scale) for picture in pictures]
        packed = [("image/jpeg", _jpeg(picture)) for picture in shown]
    left_out = 0
    while packed and _size(packed) > budget:
        packed.pop()
        left_out += 1
    note = f"To keep the answer under {budget} bytes, the pictures are sent as JPEG"
    if scale < 1:
        sizes = sorted({f"{picture.shape[1]}x{picture.shape[0]}" for picture in shown})
        note += f", scaled down to {', '.join(sizes)} pixels"
    if left_out:
        note += f", and the last {left_out} are left out"
    return packed, note + "."


def _scaled(picture: NDArray[np.uint8], scale: float) -> NDArray[np.uint8]:
    height, width = (max(SMALLEST_SIDE, round(side * scale)) for side in picture.shape[:2])
    return resize(picture, width, height)


def _jpeg(picture: NDArray[np.uint8]) -> str:
    buffer = io.BytesIO()
    Image.fromarray(picture).save(buffer, format="JPEG", quality=85)
    return _text(buffer.getvalue())


def _text(data: bytes) -> str:
    return base64.b64encode(data).decode()


def _size(packed: Sequence[tuple[str, str]]) -> int:
    return sum(len(text) for _, text in packed)
