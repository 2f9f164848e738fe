"""Tracks through the blobs of a video of a fixed camera: which of them are the same thing, and which are parts of one.

Places are pixels (x to the right, y down), frames are 0-based.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray
from scipy import ndimage
from scipy.optimize import linear_sum_assignment

from sceneact_gym.agents.video_blobs import Blob, Library, cast, find_blobs, foreground

Array = NDArray[np.float64]

FRAMES = 144
GAP = 14
"""Frames for which a thing may be unseen and still go on as before."""
FRAGMENT = 4
PIECE = 8
SHORTEST = 40
"""Frames that a track must have to be looked at, to be joined with one elsewhere, and to be something that moves."""
STILL = 0.008
LEAST_WAY = 0.012
"""Shares of the picture's width: what goes less far is no piece of a track, or no track."""
STEADY = 2
MOST_JUMPS = 7
"""Sudden changes of place that a track may have to be more believable than others, and to be believed at all."""


@dataclass(eq=False)
class Track:
    """Blobs that are taken for one thing: by frame."""

    blobs: dict[int, Blob] = field(default_factory=dict)

    @property
    def first(self) -> int:
        """First frame."""
        return min(self.blobs)

    @property
    def last(self) -> int:
        """Last frame."""
        return max(self.blobs)

    def owner(self) -> int:
        """The thing whose colours it has most often."""
        owners, counts = np.unique([blob.owner for blob in self.blobs.values()], return_counts=True)
        return int(owners[np.argmax(counts)])

    def color(self) -> Array:
        """(3,) median colour."""
        return np.median([blob.color for blob in self.blobs.values()], axis=0)

    def size(self) -> Array:
        """(2,) median width and height."""
        return np.median([blob.high - blob.low for blob in self.blobs.values()], axis=0)

    def places(self, count: int = FRAMES) -> Array:
        """(count, 2) centres, evenly filled in where it is unseen, at rest before and after."""
        frames = sorted(self.blobs)
        known = np.array([self.blobs[frame].centre for frame in frames])
        if len(frames) > 4:
            # Single frames with a wrong outline should not shake it.
            known = ndimage.median_filter(known, (3, 1), mode="nearest")
        return np.stack([np.interp(np.arange(count), frames, known[:, axis]) for axis in (0, 1)], axis=1)

    def area(self) -> int:
        """Pixels of all its blobs."""
        return sum(blob.area for blob in self.blobs.values())

    def jumps(self, width: int) -> int:
        """How often it is suddenly elsewhere."""
        frames = np.array(sorted(self.blobs))
        places = np.array([self.blobs[frame].centre for frame in frames])
        steps = np.linalg.norm(np.diff(places, axis=0), axis=1)
        return int((steps > 0.04 * width + 0.02 * width * (np.diff(frames) - 1)).sum())

    def way(self) -> float:
        """Diagonal of the middle nine tenths of its places, pixels."""
        places = np.array([blob.centre for blob in self.blobs.values()])
        return float(np.linalg.norm(np.percentile(places, 95, axis=0) - np.percentile(places, 5, axis=0)))


def link(found: Sequence[Sequence[Blob]], width: int) -> list[Track]:
    """Tracks through the blobs of all frames: what moved on as it did before and looks the same is the same thing."""
    tracks: list[Track] = []
    for frame, blobs in enumerate(found):
        open_ = [track for track in tracks if frame - track.last <= GAP]
        cost = np.array([[_cost(track, blob, frame, width) for blob in blobs] for track in open_])
        taken = set()
        if cost.size:
            for i, j in zip(*linear_sum_assignment(np.minimum(cost, 10.0)), strict=True):
                if cost[i, j] < 1.0:
                    open_[i].blobs[frame] = blobs[j]
                    taken.add(j)
        tracks += [Track({frame: blob}) for j, blob in enumerate(blobs) if j not in taken]
    return tracks


def _cost(track: Track, blob: Blob, frame: int, width: int) -> float:
    """Below 1 where the blob may continue the track."""
    recent = sorted(track.blobs)[-6:]
    last = track.blobs[recent[-1]]
    speed = np.zeros(2)
    if len(recent) > 2:
        speed = (last.centre - track.blobs[recent[0]].centre) / (recent[-1] - recent[0])
    gap = frame - recent[-1]
    reach = width * (0.03 + 0.004 * gap) + 0.25 * float(np.linalg.norm(last.high - last.low))
    way = float(np.linalg.norm(blob.centre - last.centre - speed * gap)) / reach
    unlike = float(np.linalg.norm(blob.color - last.color)) / 160
    if last.owner != blob.owner and last.owner >= 0 and blob.owner >= 0:
        unlike += 0.6
    return way + unlike + 0.15 * abs(np.log(blob.area / last.area))


def alike(first: Track, second: Track) -> bool:
    """Whether two tracks that are not seen at the same time may be the same thing."""
    if max(first.first, second.first) <= min(first.last, second.last):
        return _near(first, second)
    early, late = sorted((first, second), key=lambda track: track.first)
    way = float(np.linalg.norm(late.blobs[late.first].centre - early.blobs[early.last].centre))
    if late.first - early.last <= GAP and way < 0.3 * float(np.linalg.norm(early.size() + late.size())):
        return True
    if min(len(first.blobs), len(second.blobs)) < PIECE:
        return False
    ratio = np.log(np.maximum(first.size(), 1) / np.maximum(second.size(), 1))
    same = first.owner() == second.owner() >= 0
    return bool(np.linalg.norm(first.color() - second.color()) < (80 if same else 40) and np.abs(ratio).max() < 1.0)


def _near(first: Track, second: Track) -> bool:
    """Whether two tracks that take turns are always at the same place."""
    frames = sorted(first.blobs)
    away = []
    for frame, blob in second.blobs.items():
        nearest = min(frames, key=lambda other: abs(other - frame))
        if abs(nearest - frame) <= 3:
            away.append(np.linalg.norm(first.blobs[nearest].centre - blob.centre))
    return bool(away) and float(np.median(away)) < float(np.linalg.norm(first.size() + second.size())) / 3


def join(tracks: Sequence[Track]) -> list[Track]:
    """Tracks that look alike and are never seen at the same time become one, the nearest in time first."""
    tracks = sorted(tracks, key=lambda track: (track.first, track.last))
    while True:
        best = None
        for i, one in enumerate(tracks):
            for two in tracks[i + 1 :]:
                both = len(one.blobs.keys() & two.blobs.keys())
                if both > 2 + 0.1 * min(len(one.blobs), len(two.blobs)) or not alike(one, two):
                    continue
                gap = max(one.first, two.first) - min(one.last, two.last)
                if best is None or gap < best[0]:
                    best = (gap, one, two)
        if best is None:
            return tracks
        _, one, two = best
        one, two = sorted((one, two), key=lambda track: len(track.blobs))
        tracks = [track for track in tracks if track is not one and track is not two]
        tracks.append(Track({**one.blobs, **two.blobs}))
        tracks.sort(key=lambda track: (track.first, track.last))


def absorb(tracks: Sequence[Track], width: int) -> list[Track]:
    """Without tracks that are parts of another one: beside it and as fast all the time."""
    kept: list[Track] = []
    for track in sorted(tracks, key=lambda track: (track.jumps(width) > STEADY, -track.area())):
        part = False
        for whole in kept:
            both = sorted(track.blobs.keys() & whole.blobs.keys())
            if len(both) < 0.5 * len(track.blobs):
                continue
            offset = np.array([track.blobs[frame].centre - whole.blobs[frame].centre for frame in both])
            reach = (whole.size() + track.size()) / 2
            beside = (np.abs(offset) < reach + 1).all(axis=1).mean() > 0.7
            inside = (np.abs(offset) < whole.size() / 2).all(axis=1).mean() > 0.7
            steady = np.linalg.norm(offset.std(axis=0)) < 1 + 0.1 * np.linalg.norm(reach)
            part = part or bool((beside and steady) or inside)
        if not part:
            kept.append(track)
    return kept


def find_tracks(
    frames: NDArray[np.uint8], background: NDArray[np.uint8], library: Library, metres: Array
) -> list[Track]:
    """What moves in a video.

    Args:
        frames: (T, H, W, 3) sRGB.
        background: (H, W, 3) what they show where nothing moves.
        library: the colours of the things that may move.
        metres: (H,) width of a pixel on the ground seen in each row, metres.
    """
    masks = foreground(frames, background, library.ground)
    found = [find_blobs(frame, mask, library, metres) for frame, mask in zip(frames, masks, strict=True)]
    library = cast(found, library)
    found = [find_blobs(frame, mask, library, metres) for frame, mask in zip(frames, masks, strict=True)]
    width = frames.shape[2]
    tracks = [track for track in link(found, width) if len(track.blobs) >= FRAGMENT]
    tracks = [track for track in tracks if track.way() >= STILL * width or len(track.blobs) < 12]
    moving = [t for t in join(tracks) if len(t.blobs) >= SHORTEST and t.way() >= LEAST_WAY * width]
    return absorb([track for track in moving if track.jumps(width) <= MOST_JUMPS], width)
