"""Render settings, and pictures as arrays."""

from __future__ import annotations

import io
import warnings
from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from PIL import Image

Engine = Literal["auto", "cycles", "workbench", "eevee"]
ENGINES: tuple[Engine, ...] = ("cycles", "workbench", "eevee")
"""In the order in which `auto` tries them: Cycles needs no GPU and no display, and its pixels are reproducible."""


@dataclass(frozen=True)
class RenderSettings:
    """How pictures are rendered.

    Attributes:
        engine: `cycles`, `workbench`, `eevee`, or `auto`: the first of these that is proven to render on this machine.
        samples: samples per pixel (Cycles, EEVEE).
        width: pixels.
        height: pixels.
        transparent: leave the background out (alpha 0); it is shown as white.
        view_transform: Blender's colour view transform.
        seed: of Cycles' sampling.
        threads: CPU threads; 0 takes all cores.
        denoise: whether Cycles' picture is denoised.
    """

    engine: Engine = "auto"
    samples: int = 16
    width: int = 384
    height: int = 384
    transparent: bool = True
    view_transform: str = "Standard"
    seed: int = 0
    threads: int = 0
    denoise: bool = False

    def __post_init__(self) -> None:
        """Checks the values.

        Raises:
            ValueError: a value is out of range; the message says which are possible.
        """
        if self.engine not in ("auto", *ENGINES):
            raise ValueError(f"engine must be one of auto, {', '.join(ENGINES)}; it is {self.engine!r}")
        for name, low, high in (("samples", 1, 4096), ("width", 16, 4096), ("height", 16, 4096), ("threads", 0, 1024)):
            value = getattr(self, name)
            if not low <= value <= high:
                raise ValueError(f"{name} must be between {low} and {high}; it is {value}")

    def as_dict(self) -> dict[str, Any]:
        """The settings as JSON values, as the worker takes them."""
        return asdict(self)


def decode_png(data: bytes, size: tuple[int, int] | None = None) -> NDArray[np.uint8]:
    """A PNG composited on white.

    Args:
        data: PNG bytes; may be untrusted.
        size: the (width, height) in pixels that it must have; by default any up to 4096 x 4096.

    Returns:
        (H, W, 3) uint8 RGB.

    Raises:
        ValueError: the bytes are not a PNG of that size.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            picture = Image.open(io.BytesIO(data), formats=["PNG"])
            # The size stands in the header, so that a decompression bomb is refused before it is unpacked.
            if picture.size != size if size else max(picture.size) > 4096:
                raise ValueError(f"the picture is {picture.size[0]}x{picture.size[1]} pixels")
            rgba = np.asarray(picture.convert("RGBA"))
    except ValueError:
        raise
    except Exception as problem:
        raise ValueError(f"the picture cannot be read: {problem}") from problem
    return on_white(rgba)


def on_white(rgba: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """(H, W, 4) straight-alpha uint8 composited on white, as (H, W, 3) uint8."""
    alpha = rgba[..., 3:].astype(np.uint16)
    mixed = rgba[..., :3] * alpha + 255 * (255 - alpha)
    return ((mixed + 127) // 255).astype(np.uint8)


def encode_png(rgb: NDArray[np.uint8]) -> bytes:
    """(H, W, 3) uint8 as PNG bytes."""
    buffer = io.BytesIO()
    Image.fromarray(rgb).save(buffer, format="PNG")
    return buffer.getvalue()


def resize(rgb: NDArray[np.uint8], width: int, height: int) -> NDArray[np.uint8]:
    """(H, W, 3) uint8 at another size (area filter when it shrinks); always a new array."""
    if rgb.shape[:2] == (height, width):
        return rgb.copy()
    shrinks = rgb.shape[0] >= height and rgb.shape[1] >= width
    how = Image.Resampling.BOX if shrinks else Image.Resampling.BICUBIC
    return np.array(Image.fromarray(rgb).resize((width, height), how))


def is_constant(rgb: NDArray[np.uint8]) -> bool:
    """Whether all pixels are equal: nothing is in view, or the engine does not work."""
    return bool((rgb == rgb[:1, :1]).all())
