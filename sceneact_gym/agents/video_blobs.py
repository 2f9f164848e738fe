"""Blobs in a video of a fixed camera: what differs from the background, told apart by the colours of known things.

Pictures are (T, H, W, 3) uint8 sRGB; places in the picture are pixels (x to the right, y down).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy import ndimage
from scipy.spatial import KDTree

Array = NDArray[np.float64]
Bools = NDArray[np.bool_]
Labels = NDArray[np.int64]

DIFFERENT = 26
"""Levels (of 255) by which a channel must differ from the background to be something else."""
SAME = 8
"""Levels within which a pixel's colour is the same."""
SHADOW = (0.3, 0.97)
SHADOW_SPREAD = 0.1
"""A pixel of the background's hue whose brightness fell to a share within SHADOW lies in a shadow."""
LIKE_GROUND = 30
GROUND_SHARE = 0.12
GROUND_HUE = 0.13
COLORED = 0.25
"""Levels within which a pixel shows the ground, share of the frames in which it must, distance of unit vectors within
which a hue is the ground's, and how far a ground must be from grey for its hue to tell it from things."""
DARK = 0.08
"""Linear intensity below which hues are not told apart."""
OTHER_HUE = 0.12
"""Distance of unit vectors from which on two hues are different."""
LEAST_SHARE = 0.05
"""Share of a thing's surface below which a hue does not count."""
SHARE = 0.1
"""Share of a blob that a colour must have to be a thing of its own."""
CAST_SHARE = 0.05
"""Share of all that moves which a component must explain to take part."""
UNFIT = 1e3
"""Size of what must not be found, metres."""
PART = 0.4
"""Share of the largest piece of one colour that another piece needs to be a thing of its own."""
SMALLEST = 5
"""Pixels of the smallest blob, in a picture 128 pixels wide."""

_LEVELS = np.arange(256) / 255.0
_LINEAR = np.where(_LEVELS <= 0.04045, _LEVELS / 12.92, ((_LEVELS + 0.055) / 1.055) ** 2.4)


@dataclass(frozen=True, eq=False)
class Library:
    """The colours of N things.

    Attributes:
        hues: (K, 3) unit vectors of the different hues.
        shares: (N, K) share of each hue in a thing's surface, 0 where it is small.
        sizes: (N,) diagonals of the things' boxes, metres.
        ground: (3,) linear colour of the ground.
    """

    hues: Array
    shares: Array
    sizes: Array
    ground: Array


@dataclass(frozen=True, eq=False)
class Blob:
    """Something that differs from the background in one frame.

    Attributes:
        centre: (2,) mean x and y of its pixels.
        low: (2,) left and upper edge.
        high: (2,) right and lower edge.
        area: number of its pixels.
        owner: number of the thing whose colours it has, or -1.
        color: (3,) mean colour, 0 to 255.
    """

    centre: Array
    low: Array
    high: Array
    area: int
    owner: int
    color: Array


def linear(picture: NDArray[np.uint8]) -> Array:
    """SRGB levels (uint8) as linear intensities."""
    return _LINEAR[picture]


def find_background(frames: NDArray[np.uint8], ground: Array) -> NDArray[np.uint8]:
    """(H, W, 3) the colour that each pixel shows most often, or that of the ground if it shows it often enough.

    What stands looks exactly alike in all frames (even its sampling noise does), what moves does not: a pixel that a
    train covers for most of the time still shows its background more often than anything else. Slow things of one
    colour do not follow that rule, but few things look like the ground.
    """
    out = np.median(frames, axis=0).astype(np.uint8)
    still = out[(np.ptp(frames, axis=0) < SAME).all(axis=2) & is_ground(out, ground)]
    usual = np.median(still, axis=0) if len(still) else None
    places = np.argwhere((np.ptp(frames, axis=0) > DIFFERENT).any(axis=2))
    for chunk in np.array_split(places, max(1, len(places) // 200)):
        values = frames[:, chunk[:, 0], chunk[:, 1]].astype(np.int16).transpose(1, 0, 2)
        alike = np.ones((len(chunk), len(frames), len(frames)), bool)
        for level in np.moveaxis(values, -1, 0):
            alike &= np.abs(level[:, :, None] - level[:, None]) <= SAME
        votes = alike.sum(axis=2)
        best = votes.argmax(axis=1)
        if usual is not None:
            like = (np.abs(values - usual).max(axis=2) < LIKE_GROUND) & (votes >= GROUND_SHARE * len(frames))
            best = np.where(like.any(axis=1), np.where(like, votes, 0).argmax(axis=1), best)
        out[chunk[:, 0], chunk[:, 1]] = values[np.arange(len(chunk)), best]
    return out


def is_ground(pixels: NDArray[np.uint8], ground: Array) -> Bools:
    """Where pixels (..., 3) have the hue of the linear colour of the ground."""
    value = linear(pixels)
    unit = value / np.maximum(np.linalg.norm(value, axis=-1, keepdims=True), 1e-6)
    return np.linalg.norm(unit - ground / np.linalg.norm(ground), axis=-1) < GROUND_HUE


def foreground(frames: NDArray[np.uint8], background: NDArray[np.uint8], ground: Array) -> Bools:
    """(T, H, W) where the frames show something else than the background, shadows left out."""
    colored = float(np.ptp(ground / np.linalg.norm(ground))) > COLORED
    empty = (background >= 250).all(axis=2)
    base = linear(background) + 0.004
    masks = np.zeros(frames.shape[:3], bool)
    for mask, frame in zip(masks, frames, strict=True):
        seen = np.abs(frame.astype(np.int16) - background.astype(np.int16)).max(axis=2) > DIFFERENT
        rows, columns = np.nonzero(seen)
        pixels = frame[rows, columns]
        ratio = (linear(pixels) + 0.004) / base[rows, columns]
        mean = ratio.mean(axis=1)
        shadow = (mean > SHADOW[0]) & (mean < SHADOW[1]) & (np.ptp(ratio, axis=1) < SHADOW_SPREAD)
        seen[rows, columns] = ~(shadow & ~empty[rows, columns]) & ~(colored & is_ground(pixels, ground))
        # Sampling noise flickers in single pixels.
        near = ndimage.uniform_filter(seen.astype(float), 3, mode="constant")
        mask[:] = seen & (near > 2.5 / 9)
    return masks


def make_library(things: Sequence[Sequence[tuple[float, Sequence[float]]]], sizes: Array, ground: Array) -> Library:
    """The hues of things, each given as pairs of an area and a linear colour; what is nearly black has none."""
    kept: list[Array] = []
    numbers = []
    for thing in things:
        row = []
        for area, rgb in thing:
            color = np.asarray(rgb, float)
            if color.max() <= DARK:
                continue
            unit = color / np.linalg.norm(color)
            away = [float(np.linalg.norm(unit - other)) for other in kept]
            if not away or min(away) > OTHER_HUE:
                kept.append(unit)
                away.append(0.0)
            row.append((int(np.argmin(away)), area))
        numbers.append(row)
    shares = np.zeros((len(things), len(kept)))
    for share, row in zip(shares, numbers, strict=True):
        for number, area in row:
            share[number] += area
    shares /= np.maximum(shares.sum(axis=1, keepdims=True), 1e-9)
    return Library(np.array(kept).reshape(-1, 3), np.where(shares < LEAST_SHARE, 0.0, shares), sizes, ground)


def hues_of(pixels: NDArray[np.uint8], palette: Array) -> Labels:
    """(N,) number of the hue that each pixel (N, 3) has whatever the light is; -1 if it is dark or unlike all."""
    value = linear(pixels)
    unit = value / np.maximum(np.linalg.norm(value, axis=1, keepdims=True), 1e-6)
    away = np.linalg.norm(unit[:, None] - palette, axis=2)
    known = (value.max(axis=1) > DARK) & (away.min(axis=1, initial=9.0) < 2.0 * OTHER_HUE)
    return np.where(known, away.argmin(axis=1), -1) if len(palette) else np.full(len(pixels), -1)


def find_blobs(frame: NDArray[np.uint8], mask: Bools, library: Library, metres: Array) -> list[Blob]:
    """Connected pixels of a mask, split where colours say that two things touch."""
    smallest = SMALLEST * (frame.shape[1] / 128) ** 2
    joined = ndimage.binary_closing(np.pad(mask, 2), np.ones((3, 3)))[2:-2, 2:-2] | mask
    labels, count = ndimage.label(joined, np.ones((3, 3)))
    blobs = []
    for number in range(1, count + 1):
        rows, columns = np.nonzero((labels == number) & mask)
        if len(rows) < smallest:
            continue
        pixels = frame[rows, columns]
        places = np.column_stack([columns, rows]).astype(float)
        extent = float(np.linalg.norm(np.ptp(places, axis=0) + 1)) * metres[rows.max()]
        owners = _split(places, hues_of(pixels, library.hues), library, smallest, extent)
        for owner in np.unique(owners):
            mine = owners == owner
            if mine.sum() < smallest:
                continue
            for part in _parts(places[mine]):
                own = places[mine][part]
                centre, low, high = own.mean(axis=0), own.min(axis=0), own.max(axis=0) + 1
                blobs.append(Blob(centre, low, high, len(own), int(owner), pixels[mine][part].mean(axis=0)))
    return blobs


def _distance(places: Array, others: Array) -> Array:
    """(N,) distance from each place to the nearest of some others."""
    return np.asarray(KDTree(others).query(places)[0])


def _parts(places: Array) -> list[Bools]:
    """Masks over pixels (N, 2): the pieces that lie apart, small ones with the nearest large one."""
    corner = places.min(axis=0).astype(int) - 2
    columns, rows = (places - corner).astype(int).T
    grid = np.zeros((rows.max() + 3, columns.max() + 3), bool)
    grid[rows, columns] = True
    labels, count = ndimage.label(ndimage.binary_closing(grid, np.ones((3, 3))), np.ones((3, 3)))
    label = labels[rows, columns]
    sizes = np.bincount(label, minlength=count + 1)
    if count == 1:
        return [label > 0]
    large = np.flatnonzero(sizes[1:] >= max(PART * sizes.max(), 1)) + 1
    far = np.array([_distance(places, places[label == k]) for k in large])
    return [far.argmin(axis=0) == index for index in range(len(large))]


def _split(places: Array, hue: Labels, library: Library, smallest: float, extent: float) -> Labels:
    """For each pixel of a blob the thing that it belongs to: as few things as have all of the blob's hues."""
    counts = np.bincount(hue[hue >= 0], minlength=len(library.hues))
    seen = counts * (counts >= max(SHARE * len(hue), smallest))
    chosen: list[int] = []
    left = seen.copy()
    # Nothing is much larger than the blob that it is in; and it is as large as the blob if it is alone in it.
    fits = library.sizes < 2.0 * extent
    wrong = np.abs(np.log(0.85 * np.maximum(library.sizes, 1e-3) / extent))
    while left.any():
        # Among those that explain the most, the one whose colours are nearest to what is there.
        explained = np.where(fits, library.shares.astype(bool) @ left, 0)
        unlike = np.abs(library.shares - seen / max(seen.sum(), 1)).sum(axis=1)
        doubt = 0.3 * unlike + 0.15 * np.minimum(wrong, 2.0)
        best = int(np.argmax(np.where(explained > 0, explained / left.sum() - doubt, -9.0)))
        if not explained[best]:
            break
        chosen.append(best)
        left = left * (library.shares[best] == 0)
    if not chosen:
        return np.full(len(hue), -1)
    if len(chosen) == 1:
        return np.full(len(hue), chosen[0])
    # A hue that only one of them has tells; every other pixel goes to the nearest of these.
    has = library.shares[chosen] > 0
    alone = np.where(has.sum(axis=0) == 1, has.argmax(axis=0), -1)
    sure = np.where(hue >= 0, alone[hue], -1)
    far = np.full((len(chosen), len(hue)), np.inf)
    for index in range(len(chosen)):
        if (sure == index).any():
            far[index] = _distance(places, places[sure == index])
    return np.array(chosen)[far.argmin(axis=0)]


def cast(found: Sequence[Sequence[Blob]], library: Library) -> Library:
    """The library with only those things that a fair part of all blobs' area was taken for."""
    total = np.zeros(len(library.sizes))
    for blobs in found:
        for blob in blobs:
            if blob.owner >= 0:
                total[blob.owner] += blob.area
    return replace(library, sizes=np.where(total >= CAST_SHARE * total.sum(), library.sizes, UNFIT))
