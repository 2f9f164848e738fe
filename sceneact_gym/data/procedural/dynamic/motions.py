"""The kinds of motion in dynamic scenes: each function gives the (144, 4, 4) poses of one mover, Z-up metres.

Things look to -Y, so that one which travels in the direction a (radians from +X) is turned by a + 90 degrees. Frame r
(0-based) is r / 24 s after the beginning.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.interpolate import CubicSpline
from scipy.spatial.transform import Rotation

Array = NDArray[np.float64]

FRAMES = 144
FPS = 24.0
SECONDS = np.arange(FRAMES) / FPS


def _poses(places: Array, turns: Rotation) -> Array:
    out = np.tile(np.eye(4), (FRAMES, 1, 1))
    out[:, :3, :3] = turns.as_matrix()
    out[:, :3, 3] = places
    return out


def _about(axis: int, angle: Array | float) -> Rotation:
    """A turn for each frame about the X, Y or Z axis (0, 1, 2), radians."""
    return Rotation.from_rotvec(np.broadcast_to(angle, FRAMES)[:, None] * np.eye(3)[axis])


def _heading(angle: Array | float) -> Rotation:
    """Turned so that the front looks in the direction `angle`."""
    return _about(2, np.asarray(angle) + np.pi / 2)


def _along(line: Array, distance: Array) -> tuple[Array, Array]:
    """Places and headings on a dense line of points (N, 3), by the distances from its beginning."""
    steps = np.linalg.norm(np.diff(line, axis=0), axis=1)
    arc = np.concatenate([[0.0], np.cumsum(steps)])
    directions = np.unwrap(np.arctan2(*np.diff(line, axis=0).T[1::-1]))
    places = np.stack([np.interp(distance, arc, line[:, i]) for i in range(3)], axis=1)
    return places, np.interp(distance, (arc[1:] + arc[:-1]) / 2, directions)


def _smooth(x: Array) -> Array:
    x = np.clip(x, 0.0, 1.0)
    return x * x * (3 - 2 * x)


def straight(start: Sequence[float], angle: float, speed: float, wait: float = 0.0) -> Array:
    """Even motion along a line.

    Args:
        start: place at the beginning.
        angle: direction.
        speed: metres a second.
        wait: seconds before it starts.
    """
    way = speed * np.maximum(SECONDS - wait, 0.0)
    return _poses(np.asarray(start) + way[:, None] * [np.cos(angle), np.sin(angle), 0.0], _heading(angle))


def back_and_forth(start: Sequence[float], angle: float, reach: float, period: float) -> Array:
    """Forwards by `reach` metres and back, without turning."""
    way = reach * (0.5 - 0.5 * np.cos(2 * np.pi * SECONDS / period))
    return _poses(np.asarray(start) + way[:, None] * [np.cos(angle), np.sin(angle), 0.0], _heading(angle))


def lane_change(start: Sequence[float], angle: float, speed: float, shift: float, begin: float, end: float) -> Array:
    """Even motion with a smooth shift to the left by `shift` metres between the seconds `begin` and `end`."""
    side = shift * _smooth((SECONDS - begin) / (end - begin))
    way = speed * SECONDS
    ahead, left = np.array([np.cos(angle), np.sin(angle), 0.0]), np.array([-np.sin(angle), np.cos(angle), 0.0])
    turn = np.arctan2(np.gradient(side), np.gradient(way))
    return _poses(np.asarray(start) + way[:, None] * ahead + side[:, None] * left, _heading(angle + turn))


def loop(line: Array, speed: float, begin: float) -> Array:
    """Round and round on a closed dense line of points (N, 3), from `begin` metres on."""
    length = np.linalg.norm(np.diff(line, axis=0), axis=1).sum()
    twice = np.concatenate([line, line[1:]])
    distance = begin % length + speed * SECONDS
    return _with_heading(*_along(twice, np.where(distance > 1.5 * length, distance - length, distance)))


def _with_heading(places: Array, headings: Array) -> Array:
    return _poses(places, _heading(headings))


def circle(centre: Sequence[float], radius: float, speed: float, begin: float) -> Array:
    """Round a circle (to the left), from the angle `begin` (radians) on."""
    angle = begin + speed / radius * SECONDS
    ring = np.stack([np.cos(angle), np.sin(angle), np.zeros(FRAMES)], axis=1)
    return _poses(np.asarray(centre) + radius * ring, _heading(angle + np.pi / 2))


def curve(points: Array, speed: float, bob: float = 0.0) -> Array:
    """Along a smooth curve through points (N, 2) on the water, with a slight rocking of `bob` metres."""
    knots = np.arange(len(points))
    dense = CubicSpline(knots, points)(np.linspace(0, len(points) - 1, 400))
    line = np.column_stack([dense, np.zeros(len(dense))])
    length = np.linalg.norm(np.diff(line, axis=0), axis=1).sum()
    places, headings = _along(line, np.minimum(speed * SECONDS, length))
    places[:, 2] = bob * np.sin(2 * np.pi * SECONDS / 2.0)
    rock = _about(1, 1.2 * bob * np.sin(2 * np.pi * SECONDS / 3.0))
    return _poses(places, _heading(headings) * rock)


def conveyor(start: Sequence[float], end: Sequence[float], speed: float, begin: float) -> Array:
    """Carried from start to end; what arrives at the end comes again at the start."""
    a, b = np.asarray(start, float), np.asarray(end, float)
    length = float(np.linalg.norm(b - a))
    way = (begin + speed * SECONDS) % length
    return _poses(a + way[:, None] * (b - a) / length, Rotation.identity(FRAMES))


def roll(line: Sequence[Sequence[float] | Array], speeds: Sequence[float], radius: float) -> Array:
    """A ball that rolls along straight pieces and then rests; `line` is the way of its centre.

    Args:
        line: (N, 3) corners.
        speeds: (N,) speeds at the corners, metres a second; even acceleration between them.
        radius: of the ball.
    """
    corners, v = np.asarray(line, float), np.asarray(speeds, float)
    lengths = np.linalg.norm(np.diff(corners, axis=0), axis=1)
    arc = np.concatenate([[0.0], np.cumsum(lengths)])
    times = np.concatenate([[0.0], np.cumsum(2 * lengths / (v[1:] + v[:-1]))])
    piece = np.clip(np.searchsorted(times, SECONDS, side="right") - 1, 0, len(lengths) - 1)
    t = np.minimum(SECONDS, times[-1]) - times[piece]
    gain = (v[1:] - v[:-1]) / np.diff(times)
    way = arc[piece] + v[piece] * t + gain[piece] * t * t / 2
    places = np.stack([np.interp(way, arc, corners[:, i]) for i in range(3)], axis=1)
    along = (corners[1:] - corners[:-1]) / lengths[:, None]
    axes = np.cross([0.0, 0.0, 1.0], along)
    axes /= np.linalg.norm(axes, axis=1, keepdims=True)
    turned, turns = Rotation.identity(), []
    for step, axis in zip(np.diff(way, prepend=0.0), axes[piece], strict=True):
        turned = Rotation.from_rotvec(step / radius * axis) * turned
        turns.append(turned.as_quat())
    return _poses(places, Rotation.from_quat(np.array(turns)))


def spin(centre: Sequence[float], drift: float, rate: float, begin: float) -> Array:
    """A spinning top that wanders on a circle of the radius `drift` and leans outwards a little.

    Args:
        centre: of its wandering.
        drift: metres.
        rate: turns a second about its own axis.
        begin: angle on the circle at the beginning, radians.
    """
    angle = begin + 2 * np.pi * SECONDS / 6.5
    places = np.asarray(centre) + drift * np.stack([np.cos(angle), np.sin(angle), np.zeros(FRAMES)], axis=1)
    lean = Rotation.from_rotvec(0.16 * np.stack([-np.sin(angle), np.cos(angle), np.zeros(FRAMES)], axis=1))
    return _poses(places, lean * _about(2, 2 * np.pi * rate * SECONDS))


def hop(stops: Sequence[Sequence[float]], seconds: float, height: float, rest: float = 0.3) -> Array:
    """Jumps from one place (N, 3) to the next and over again.

    Args:
        stops: where it lands; after the last one comes the first.
        seconds: of one jump with the rest before it.
        height: of the jump above the straight line, metres.
        rest: share of the time that it stands.
    """
    places = np.asarray(stops, float)
    number = (SECONDS / seconds).astype(int)
    t = np.clip((SECONDS / seconds - number - rest) / (1 - rest), 0.0, 1.0)
    a, b = places[number % len(places)], places[(number + 1) % len(places)]
    out = a + t[:, None] * (b - a)
    out[:, 2] += 4 * height * t * (1 - t)
    direction = np.arctan2(b[:, 1] - a[:, 1], b[:, 0] - a[:, 0])
    return _with_heading(out, direction)


def swing(pivot: Sequence[float], yaw: float, low: float, high: float, period: float, begin: float = 0.0) -> Array:
    """Turns about its own X axis between two angles (radians), smoothly.

    Args:
        pivot: place of its origin.
        yaw: its turn about Z, radians.
        low: pitch at the beginning when `begin` is 0.
        high: the other pitch.
        period: seconds there and back.
        begin: share of the period that has gone by.
    """
    pitch = low + (high - low) * (0.5 - 0.5 * np.cos(2 * np.pi * (SECONDS / period + begin)))
    turns = _about(2, yaw) * _about(0, pitch)
    return _poses(np.tile(np.asarray(pivot, float), (FRAMES, 1)), turns)


def slew(pivot: Sequence[float], low: float, high: float, period: float, begin: float = 0.0) -> Array:
    """Turns about Z between two yaws (radians), smoothly; arguments as for `swing`."""
    yaw = low + (high - low) * (0.5 - 0.5 * np.cos(2 * np.pi * (SECONDS / period + begin)))
    return _poses(np.tile(np.asarray(pivot, float), (FRAMES, 1)), _about(2, yaw))


def lift(base: Sequence[float], low: float, high: float, period: float, begin: float = 0.0, yaw: float = 0.0) -> Array:
    """Up and down between two heights, with a stop at each end; arguments as for `swing`."""
    phase = (SECONDS / period + begin) % 1.0
    share = _smooth((0.5 - np.abs(phase - 0.5)) * 3.0 - 0.25)
    places = np.tile(np.asarray(base, float), (FRAMES, 1))
    places[:, 2] = low + (high - low) * share
    return _poses(places, _about(2, yaw))
