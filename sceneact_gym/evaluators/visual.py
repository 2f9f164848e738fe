"""Picture comparisons for audits. They are reported beside a score and never change it.

Source: SceneActBench (arXiv 2607.22393), Appendix B.2: RGB in [0, 1] at 256 px; SSIM, PSNR, CLIP and LPIPS.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

SIZE = 256


def compare(first: NDArray[np.uint8], second: NDArray[np.uint8]) -> dict[str, Any]:
    """Compares two pictures.

    Args:
        first: (H, W, 3) uint8 RGB.
        second: the same.

    Returns:
        `ssim` in [-1, 1] and `psnr` in dB (None for identical pictures, whose PSNR is infinite), or None for both
        without scikit-image; `clip` and `lpips` are None, since no weights come with the package; `unavailable` says
        why.
    """
    figures: dict[str, Any] = {"ssim": None, "psnr": None, "clip": None, "lpips": None}
    unavailable = {"clip": "no CLIP ViT-B/32 weights", "lpips": "no LPIPS AlexNet weights"}
    try:
        from skimage.metrics import structural_similarity
    except ImportError:
        unavailable |= dict.fromkeys(("ssim", "psnr"), "scikit-image is missing: pip install sceneact-gym[visual]")
        return {**figures, "unavailable": unavailable}
    a, b = (_small(picture) for picture in (first, second))
    figures["ssim"] = float(structural_similarity(a, b, channel_axis=2, data_range=1.0))
    error = float(np.mean((a - b) ** 2))
    figures["psnr"] = float(-10 * np.log10(error)) if error > 0 else None
    return {**figures, "unavailable": unavailable}


def _small(picture: NDArray[np.uint8]) -> NDArray[np.float64]:
    if picture.shape[:2] != (SIZE, SIZE):
        picture = np.asarray(Image.fromarray(picture).resize((SIZE, SIZE), Image.Resampling.LANCZOS))
    return picture.astype(np.float64) / 255.0
