"""Finds the poses of known pieces of furniture in calibrated pictures, with the renderer of `raster`.

Pieces are placed one after the other, the largest first: a few sample points of a piece, compared with the picture at
every place of a grid, give guesses; exact drawing chooses among them; small random steps refine. Then pairs of pieces
that explain the picture badly are taken out and placed again, as long as that helps.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from sceneact_gym.agents.raster import NEAR, Array, Camera, IntArray, Layer, Light, Piece, draw, surface_samples, turn

LARGEST_ERROR = 0.35
"""Colours that differ more than this (mean of the channels, sRGB in [0, 1]) are equally wrong."""
OUTLINE_ERROR = 0.15
"""On top, where the background shows in one picture only: some pieces are as white as the background."""
RIGHT = 0.12
"""Below this error a pixel is explained."""
SAMPLES = 120
GUESSES = 120
REFINED = 6
DEPTHS = (1.0, 14.0)
STEPS = (0.16, 0.08, 0.04, 0.02)
"""Standard deviations of the random steps, metres; turns take 1.5 times as many radians."""
TRIES = 10
HIGHEST = 3.0
"""Metres up to which pieces may hang."""
UNEXPLAINED = 60
"""Pixels through which a hanging piece is looked for."""
STANDING_YAWS = np.arange(16) * (math.pi / 8)
HANGING_YAWS = np.arange(4) * (math.pi / 4)
"""Half a turn is enough to begin with: most lamps look the same after it."""
HANGING_GAIN = 0.05
"""A piece hangs if that explains so much more (a part of all that it explains), since nearly all pieces stand."""

Canvas = tuple[Array, Array]
"""Of one view: nearness (1 / depth) and error of each pixel."""


class LayoutFit:
    """Pieces, pictures, and where the pieces are thought to be.

    Attributes:
        poses: (x, y, z, yaw) of each piece, metres and radians; None while a piece is not placed.
    """

    def __init__(
        self,
        pieces: Sequence[Piece],
        cameras: Sequence[Camera],
        light: Light,
        references: Sequence[NDArray[np.uint8]],
        size: int,
        rng: np.random.Generator,
    ) -> None:
        """Shrinks the pictures.

        Args:
            pieces: all with triangles.
            cameras: one per picture.
            light: of the scene.
            references: (R, R, 3) uint8 on white.
            size: pixels of the pictures that are compared.
            rng: of the random steps.
        """
        self.pieces, self.cameras, self.light, self.size, self.rng = pieces, cameras, light, size, rng
        self._references = [_shrunk(picture, size).reshape(-1, 3).astype(np.float32) for picture in references]
        # What it costs to show something where the picture is empty, and nothing where it is not.
        filled = [(picture < 0.985).any(axis=1) for picture in self._references]
        self._outline = [np.where(there, 0, OUTLINE_ERROR).astype(np.float32) for there in filled]
        self._empty = [
            np.where(there, np.minimum(np.abs(1 - picture).mean(axis=1), LARGEST_ERROR) + OUTLINE_ERROR, 0.0)
            for there, picture in zip(filled, self._references, strict=True)
        ]
        self.poses: list[Array | None] = [None] * len(pieces)
        self._layers: list[list[Layer]] = [[] for _ in pieces]
        self._samples = [surface_samples(piece, SAMPLES) for piece in pieces]
        areas = [piece.normals()[1].sum() for piece in pieces]
        self.order = [int(number) for number in np.argsort(areas, kind="stable")[::-1]]
        self._floor = self._grid(0.25)

    def error(self) -> float:
        """Of the whole scene: the sum over the pixels of all views."""
        return float(sum(error.sum() for _, error in self._canvases(None)))

    def start(self) -> None:
        """Places all pieces, then those again that explain little, now that the others hide what is theirs."""
        for number in self.order:
            self._place(number, may_hang=False)
        for number in self.order:
            if self.explained(number) < 0.8:
                self._place(number)

    def improve(self) -> None:
        """Takes two pieces out, rather such as explain little, and places them again; keeps what is better."""
        before, poses, layers = self.error(), list(self.poses), list(self._layers)
        badness = np.array([1.02 - self.explained(number) for number in range(len(self.pieces))])
        count = min(2, len(self.pieces))
        pair = [int(n) for n in self.rng.choice(len(self.pieces), count, replace=False, p=badness / badness.sum())]
        for number in pair:
            self._put(number, None)
        for number in pair:
            self._place(number)
        self.polish(STEPS[1:], 4)
        if self.error() >= before:
            self.poses, self._layers = poses, layers

    def polish(self, steps: Sequence[float], tries: int) -> None:
        """Small random steps of every piece in turn, `tries` for each size in metres."""
        for step in steps:
            for number in self.order:
                pose = self.poses[number]
                if pose is not None:
                    others = self._canvases(number)
                    hangs = abs(pose[2] - self.pieces[number].base) > 1e-6
                    cost = self._cost(self._layers[number], others)
                    self._put(number, self._refine(number, pose, cost, others, hangs, (step,), tries)[0])

    def take(self, poses: Sequence[Array | None]) -> None:
        """Puts all pieces where another fit has them."""
        for number, pose in enumerate(poses):
            self._put(number, pose)

    def explained(self, number: int) -> float:
        """Which part of a piece's pixels, hidden ones included, shows the right colour."""
        own = right = 0
        for view, (layer, (nearness, _)) in enumerate(zip(self._layers[number], self._canvases(number), strict=False)):
            front = layer.nearness > nearness[layer.pixels]
            own += len(front)
            right += int((self._errors(view, layer.pixels[front], layer.colors[front]) < RIGHT).sum())
        return right / max(own, 1)

    def _put(self, number: int, pose: Array | None) -> None:
        self.poses[number] = pose
        self._layers[number] = [] if pose is None else self._draw(number, pose)

    def _draw(self, number: int, pose: Array) -> list[Layer]:
        return [draw(self.pieces[number], pose, camera, self.light, self.size) for camera in self.cameras]

    def _errors(self, view: int, pixels: IntArray, colors: NDArray[np.floating[Any]]) -> Array:
        wrong = np.abs(colors - self._references[view][pixels]).mean(axis=-1)
        return np.minimum(wrong, LARGEST_ERROR) + self._outline[view][pixels]

    def _canvases(self, without: int | None) -> list[Canvas]:
        """All views of the scene without one piece."""
        canvases = []
        for view, empty in enumerate(self._empty):
            nearness, error = np.zeros(len(empty)), empty.copy()
            for number, layers in enumerate(self._layers):
                if layers and number != without:
                    layer = layers[view]
                    front = layer.nearness > nearness[layer.pixels]
                    pixels = layer.pixels[front]
                    nearness[pixels] = layer.nearness[front]
                    error[pixels] = self._errors(view, pixels, layer.colors[front])
            canvases.append((nearness, error))
        return canvases

    def _cost(self, layers: Sequence[Layer], others: Sequence[Canvas]) -> float:
        """How the error changes when a piece joins the others: negative if it explains something."""
        change = 0.0
        for view, (layer, (nearness, error)) in enumerate(zip(layers, others, strict=True)):
            front = layer.nearness > nearness[layer.pixels]
            pixels = layer.pixels[front]
            change += float((self._errors(view, pixels, layer.colors[front]) - error[pixels]).sum())
        return change

    def _place(self, number: int, may_hang: bool = True) -> None:
        """Looks for a piece's best place among the others, on the floor and, if nothing fits there, above it."""
        others = self._canvases(number)
        old, base = self.poses[number], self.pieces[number].base
        standing = np.column_stack([self._floor, np.full(len(self._floor), base)])
        found = self._search(number, others, standing, STANDING_YAWS, hangs=False)
        if old is not None:
            found = min(found, (self._cost(self._layers[number], others), old), key=lambda row: row[0])
        self._put(number, found[1])
        if may_hang and self.explained(number) < 0.6:
            cost, pose = self._search(number, others, self._above_floor(others, base), HANGING_YAWS, hangs=True)
            if cost < found[0] - max(1.0, HANGING_GAIN * abs(found[0])):
                self._put(number, pose)

    def _search(
        self, number: int, others: Sequence[Canvas], places: Array, yaws: Array, hangs: bool
    ) -> tuple[float, Array]:
        """The best cost and pose with the origin near one of (N, 3) places, turned by about one of the yaws."""
        places = self._in_view(places)
        guesses: list[tuple[float, Array]] = [(0.0, np.array([0.0, 0.0, self.pieces[number].base, 0.0]))]
        for yaw in yaws:
            costs = self._guess(number, places, float(yaw), others)
            best = np.argsort(costs, kind="stable")[:GUESSES]
            guesses += [(float(costs[k]), np.array([*places[k], yaw])) for k in best]
        guesses.sort(key=lambda row: row[0])
        exact = [(self._cost(self._draw(number, pose), others), pose) for _, pose in guesses[:GUESSES]]
        exact.sort(key=lambda row: row[0])
        different: list[Array] = []
        found = exact[0]
        for cost, pose in exact:
            if any(_alike(pose, other) for other in different):
                continue
            different.append(pose)
            refined, cost = self._refine(number, pose, cost, others, hangs, STEPS, TRIES)
            if cost < found[0]:
                found = cost, refined
            if len(different) == REFINED:
                break
        return found

    def _refine(
        self,
        number: int,
        pose: Array,
        cost: float,
        others: Sequence[Canvas],
        hangs: bool,
        steps: Sequence[float],
        tries: int,
    ) -> tuple[Array, float]:
        """Random steps that are kept when they help; what stands stays on the floor."""
        for step in steps:
            for _ in range(tries):
                near = pose + self.rng.normal(size=4) * [step, step, step * hangs, 1.5 * step]
                change = self._cost(self._draw(number, near), others)
                if change < cost:
                    pose, cost = near, change
        return pose, cost

    def _guess(self, number: int, places: Array, yaw: float, others: Sequence[Canvas]) -> Array:
        """(N,) rough costs of a piece at (N, 3) places, from its sample points; it does not hide parts of itself."""
        points, normals, triangles, area = self._samples[number]
        rotation = turn(yaw)
        world = (places[:, None] + points @ rotation.T).astype(np.float32)
        facing = (normals @ rotation.T).astype(np.float32)
        colors = self.pieces[number].colors(yaw, self.light)[triangles].astype(np.float32)
        costs = np.zeros(len(places))
        for view, (camera, (nearness, error)) in enumerate(zip(self.cameras, others, strict=True)):
            rays = world - camera.matrix[:3, 3].astype(np.float32)
            local = rays @ camera.matrix[:3, :3].astype(np.float32)
            depth = np.maximum(-local[..., 2], np.float32(NEAR))
            focal = np.float32(self.size / 2 / camera.tangent)
            column = self.size / 2 + local[..., 0] * focal / depth
            row = self.size / 2 - local[..., 1] * focal / depth
            inside = (column >= 0) & (column < self.size) & (row >= 0) & (row < self.size)
            pixels = np.where(inside, row.astype(np.int64) * self.size + column.astype(np.int64), 0)
            # The pixels that a sample stands for; none where the surface looks away.
            share = np.maximum(-np.einsum("nsk,sk->ns", rays, facing), 0) / depth**3 * np.float32(area * focal**2)
            change = self._errors(view, pixels, colors) - error.astype(np.float32)[pixels]
            hidden = 1 / depth < nearness.astype(np.float32)[pixels]
            costs += (share * np.where(inside, np.where(hidden, 0, change), LARGEST_ERROR)).sum(axis=1)
        return costs

    def _grid(self, step: float) -> Array:
        """(N, 2) places on the floor, `step` metres apart, that all cameras have between their left and right."""
        reach = np.arange(-DEPTHS[1], DEPTHS[1] + step / 2, step)
        places = np.stack(np.meshgrid(reach, reach), axis=-1).reshape(-1, 2) + self.cameras[0].matrix[:2, 3]
        seen = np.ones(len(places), bool)
        for camera in self.cameras:
            column, _, depth = camera.project(np.column_stack([places, np.zeros(len(places))]), 1)
            seen &= (column > 0) & (column < 1) & (depth > DEPTHS[0]) & (depth < DEPTHS[1])
        return places[seen]

    def _above_floor(self, others: Sequence[Canvas], base: float) -> Array:
        """(N, 3) places along the rays through pixels of the first view that nothing explains yet."""
        camera = self.cameras[0]
        pixels = np.flatnonzero((others[0][1] > RIGHT) & (self._outline[0] == 0))
        pixels = pixels[:: len(pixels) // UNEXPLAINED + 1]
        row, column = (np.array(np.divmod(pixels, self.size)) + 0.5) * (2 / self.size) - 1
        rays = np.column_stack([column, -row, np.full(len(pixels), -1 / camera.tangent)]) * camera.tangent
        depths = np.arange(DEPTHS[0], DEPTHS[1], 0.35)
        places = (depths[:, None, None] * (rays @ camera.matrix[:3, :3].T)).reshape(-1, 3) + camera.matrix[:3, 3]
        return places[(places[:, 2] > base) & (places[:, 2] < HIGHEST)]

    def _in_view(self, places: Array) -> Array:
        """Those of (N, 3) places that all cameras have in their pictures."""
        seen = np.ones(len(places), bool)
        for camera in self.cameras:
            column, row, _ = camera.project(places, 1)
            seen &= (column > 0) & (column < 1) & (row > 0) & (row < 1)
        return places[seen]


def _alike(first: Array, second: Array) -> bool:
    """Whether two poses are so near that refining leads from one to the other."""
    turned = abs(math.remainder(first[3] - second[3], 2 * math.pi))
    return float(np.linalg.norm((first - second)[:3])) < 0.3 and turned < 0.6


def _shrunk(picture: NDArray[np.uint8], size: int) -> Array:
    """(size, size, 3) sRGB in [0, 1], averaged over areas."""
    return np.asarray(Image.fromarray(picture).resize((size, size), Image.Resampling.BOX), float) / 255.0
