"""Themes of dynamic scenes: what stands where, and what moves how. One function per theme fills a `Draft`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from sceneact_gym.data.glb import Part
from sceneact_gym.data.procedural.dynamic import components as make
from sceneact_gym.data.procedural.dynamic import motions

Array = NDArray[np.float64]
Rng = np.random.Generator
COLORS = ("red", "blue", "yellow", "green", "white", "orange")
GAP = 0.6
"""Metres that scattered things keep from everything else."""


@dataclass
class Draft:
    """A scene in the making.

    Attributes:
        rng: all of its randomness.
        library: component name -> its parts.
        statics: component and (4, 4) pose of what stands.
        movers: component, (144, 4, 4) poses and kind of motion of what moves.
        half: half extents of the ground in x and y, metres.
    """

    rng: Rng
    library: dict[str, list[Part]] = field(default_factory=dict)
    statics: list[tuple[str, Array]] = field(default_factory=list)
    movers: list[tuple[str, Array, str]] = field(default_factory=list)
    half: tuple[float, float] = (0.0, 0.0)

    def add(self, name: str, parts: list[Part]) -> str:
        """Puts a component into the library."""
        self.library[name] = parts
        return name

    def ground(self, width: float, depth: float, kind: str) -> None:
        """The ground, around the origin."""
        self.half = (width / 2, depth / 2)
        self.stand(self.add("ground", make.ground((width, depth), kind)), (0, 0))

    def stand(self, name: str, at: Sequence[float], yaw: float = 0.0) -> None:
        """Something that stands; `at` is x, y and perhaps z."""
        pose = np.eye(4)
        pose[:2, :2] = [[np.cos(yaw), -np.sin(yaw)], [np.sin(yaw), np.cos(yaw)]]
        pose[: len(at), 3] = at
        self.statics.append((name, pose))

    def move(self, name: str, poses: Array, kind: str) -> None:
        """Something that moves."""
        self.movers.append((name, poses, kind))

    def reach(self, name: str) -> float:
        """Largest distance of a component's vertices from its Z axis, metres."""
        return max(float(np.linalg.norm(part.vertices[:, :2], axis=1).max()) for part in self.library[name])

    def scatter(self, name: str, count: int, z: float = 0.0) -> None:
        """Puts up to `count` things where nothing stands or comes by."""
        taken = self._taken()
        mine = self.reach(name)
        # Beyond the reach there may be no room for half of a big thing.
        low, high = -np.array(self.half) + mine, np.array(self.half) - mine
        for _ in range(40 * count):
            at = self.rng.uniform(low, high)
            if all(np.linalg.norm(points - at, axis=1).min() > mine + reach + GAP for points, reach in taken):
                self.stand(name, (*at, z), float(self.rng.uniform(0, 2 * np.pi)))
                taken.append((at[None], mine))
                count -= 1
                if count == 0:
                    return

    def _taken(self) -> list[tuple[Array, float]]:
        """Points in the plane that are kept free, with the distance around them."""
        taken = []
        for name, poses, _ in self.movers:
            taken.append((poses[::4, :2, 3], min(self.reach(name), 3.0)))
        for name, pose in self.statics:
            if name == "ground":
                continue
            # Along long things many small discs say more than one big one.
            points = np.concatenate([part.vertices for part in self.library[name]]) @ pose[:3, :3].T + pose[:3, 3]
            taken.append((points[:, :2], 0.2))
        return taken


def _pick(rng: Rng, count: int) -> list[str]:
    """Different colours."""
    return [COLORS[i] for i in rng.permutation(len(COLORS))[:count]]


def town(draft: Draft) -> None:
    """Straight traffic in both directions between houses."""
    rng = draft.rng
    draft.ground(46, 42, "grass")
    turn = np.pi / 2
    draft.stand(draft.add("road", make.road(44.0)), (0, 0), turn)
    colors = _pick(rng, 4)
    kinds = [make.car, make.bus, make.van, make.car]
    names = [draft.add(f"{kind.__name__}_{color}", kind(color)) for kind, color in zip(kinds, colors, strict=True)]
    # Things in one lane keep their distance, since they are equally fast.
    for side in (0, 1):
        speed = rng.uniform(3.0, 4.6)
        angle = np.pi * side
        for place, number in enumerate(rng.permutation(2)[: int(rng.integers(1, 3))]):
            start = -17.0 + 11.0 * place + rng.uniform(-1, 1)
            at = (start * np.cos(angle), (-1.75 if side == 0 else 1.75), 0.06)
            draft.move(names[2 * side + number], motions.straight(at, angle, speed), "straight")
    for index, x in enumerate((-15.5, -4.5, 7.0, 16.5)):
        back = draft.add(f"block_{('red', 'blue')[index % 2]}", make.block(("red", "blue")[index % 2]))
        draft.stand(back, (x + rng.uniform(-0.7, 0.7), 11.5), 0.0)
    house = draft.add("house", make.house("white"))
    for x in (-14.0, 1.0, 14.5):
        draft.stand(house, (x + rng.uniform(-1, 1), -15.0 + rng.uniform(-0.6, 0.6)), np.pi)
    lamp = draft.add("lamp_post", make.lamp_post())
    for x in (-12.0, 0.0, 12.0):
        draft.stand(lamp, (x, 4.7), 0.0)
    draft.scatter(draft.add("tree", make.tree()), 6)
    draft.add("bench", make.bench())


def highway(draft: Draft) -> None:
    """Three lanes in one direction; some change their lane to overtake."""
    rng = draft.rng
    draft.ground(54, 30, "grass")
    draft.stand(draft.add("road", make.road(52.0, 10.5, (-1.75, 1.75))), (0, 0), np.pi / 2)
    slow, fast = rng.uniform(2.2, 3.0), rng.uniform(5.0, 5.8)
    colors = _pick(rng, 4)
    truck = draft.add("truck", make.truck(colors[0]))
    cars = [draft.add(f"car_{color}", make.car(color)) for color in colors[1:3]]
    van = draft.add("van", make.van(colors[3]))
    draft.move(truck, motions.straight((-8.0 + rng.uniform(-1, 1), -3.5, 0.06), 0.0, slow), "straight")
    begin = rng.uniform(0.8, 1.4)
    left = motions.lane_change((-22.0, -3.5, 0.06), 0.0, fast, 3.5, begin, begin + 1.8)
    draft.move(cars[0], left, "lane_change")
    if rng.random() < 0.7:
        right = motions.lane_change((-12.0, 3.5, 0.06), 0.0, fast - 0.6, -3.5, 3.2, 5.2)
        draft.move(cars[1], right, "lane_change")
    if rng.random() < 0.7:
        draft.move(van, motions.straight((-21.0, 3.5, 0.06), 0.0, slow + 1.0), "straight")
    cone = draft.add("cone", make.cone())
    for x in range(4):
        draft.stand(cone, (9.0 + 3.0 * x, -6.3), 0.0)
    draft.scatter(draft.add("house", make.house("red")), 1)
    draft.scatter(draft.add("pine", make.pine()), 6)
    draft.scatter(draft.add("rock", make.rock()), 3)
    draft.add("lamp_post", make.lamp_post())


def circuit(draft: Draft) -> None:
    """Racing cars on a closed course."""
    rng = draft.rng
    draft.ground(48, 36, "grass")
    radius, length, height = 7.0, 16.0, 6.0
    curve = draft.add("road_curve", make.road_curve(radius))
    long = draft.add("road_long", make.road(length, 5.0))
    short = draft.add("road_short", make.road(height, 5.0))
    corners = [(a * length / 2, b * height / 2) for a, b in ((1, 1), (-1, 1), (-1, -1), (1, -1))]
    line = []
    for quarter, corner in enumerate(corners):
        draft.stand(curve, corner, quarter * np.pi / 2)
        angle = np.linspace(0, np.pi / 2, 40) + quarter * np.pi / 2
        line.append(np.asarray(corner) + radius * np.stack([np.cos(angle), np.sin(angle)], axis=1))
    for y in (height / 2 + radius, -height / 2 - radius):
        draft.stand(long, (0, y), np.pi / 2)
    for x in (length / 2 + radius, -length / 2 - radius):
        draft.stand(short, (x, 0), 0.0)
    round_ = np.concatenate([*line, line[0][:1]])
    whole = np.linalg.norm(np.diff(round_, axis=0), axis=1).sum()
    count, speed = int(rng.integers(2, 5)), rng.uniform(7.5, 10.5)
    colors = _pick(rng, count)
    for number, color in enumerate(colors):
        name = draft.add(f"racing_car_{color}", make.racing_car(color))
        side = rng.uniform(-0.9, 0.9)
        # A line beside the middle, by moving each point along its normal.
        ahead = np.gradient(round_, axis=0)
        normal = np.stack([ahead[:, 1], -ahead[:, 0]], axis=1) / np.linalg.norm(ahead, axis=1, keepdims=True)
        own = np.column_stack([round_ + side * normal, np.full(len(round_), 0.06)])
        draft.move(name, motions.loop(own, speed + rng.uniform(-0.4, 0.4), number * whole / 6), "loop")
    flag = draft.add("flag", make.flag(colors[0]))
    for x in (-4.0, 0.0, 4.0):
        draft.stand(flag, (x, -14.4), 0.0)
    stand = draft.add("grandstand", make.station())
    draft.stand(stand, (0, 0.5 + rng.uniform(-0.5, 0.5)), -np.pi / 2)
    draft.scatter(draft.add("tree", make.tree()), 5)
    draft.scatter(draft.add("bush", make.bush()), 3)
    draft.add("cone", make.cone())


def railway(draft: Draft) -> None:
    """A train on a round track."""
    rng = draft.rng
    draft.ground(34, 32, "grass")
    radius = 9.0
    track = draft.add("track_curve", make.track_curve(radius))
    for number in range(8):
        draft.stand(track, (0, 0), number * np.pi / 4)
    colors = _pick(rng, 4)
    engine = draft.add("locomotive", make.locomotive(colors[0]))
    wagons = [draft.add(f"wagon_{colors[1]}", make.wagon(colors[1]))]
    wagons.append(draft.add("tank_wagon", make.tank_wagon(colors[2])))
    speed, begin = rng.uniform(3.5, 6.5), rng.uniform(0, 2 * np.pi)
    count = int(rng.integers(1, 4))
    draft.move(engine, motions.circle((0, 0, 0.28), radius, speed, begin), "rail")
    for number in range(count):
        angle = begin - (4.2 + 3.8 * number) / radius
        draft.move(wagons[number % 2], motions.circle((0, 0, 0.28), radius, speed, angle), "rail")
    if rng.random() < 0.5:
        car = draft.add(f"car_{colors[3]}", make.car(colors[3]))
        draft.stand(draft.add("road", make.road(32.0, 4.0, ())), (0, -13.2), np.pi / 2)
        draft.move(car, motions.straight((-13.0, -13.2, 0.06), 0.0, rng.uniform(2.5, 4.2)), "straight")
    draft.stand(draft.add("station", make.station()), (0.0, 12.2), np.pi / 2)
    draft.stand(draft.add("signal", make.signal()), (-11.2, -1.0), 0.0)
    draft.stand(draft.add("house", make.house("blue")), (11.5, 11.0), rng.uniform(-0.7, 0.0))
    draft.scatter(draft.add("pine", make.pine()), 6)
    draft.scatter(draft.add("bush", make.bush()), 3)
    draft.add("rock", make.rock())


def harbour(draft: Draft) -> None:
    """Boats on curves, and a crane that turns."""
    rng = draft.rng
    draft.ground(40, 34, "water")
    colors = _pick(rng, 4)
    boats = [
        draft.add(f"sailboat_{colors[0]}", make.sailboat(colors[0])),
        draft.add(f"motorboat_{colors[1]}", make.motorboat(colors[1])),
        draft.add(f"tugboat_{colors[2]}", make.tugboat(colors[2])),
    ]
    lanes = [(-11.0, 1.6), (-4.5, 1.6), (2.0, 1.5)]
    for number in rng.permutation(3)[: int(rng.integers(2, 4))]:
        y, swell = lanes[number]
        way = 1.0 if rng.random() < 0.5 else -1.0
        xs = np.linspace(-15, 15, 5) * way
        points = np.column_stack([xs, y + swell * np.array([0, 1, -1, 1, 0]) * rng.choice([-1, 1])])
        draft.move(boats[number], motions.curve(points, rng.uniform(2.6, 4.6), 0.06), "curve")
    quay = draft.add("quay", make.quay())
    draft.stand(quay, (0, 13.5))
    tower = (rng.uniform(-6, 6), 12.5, 0.9)
    draft.stand(draft.add("crane_tower", make.crane_tower()), tower)
    low = rng.uniform(-1.2, -0.6)
    jib = motions.slew((tower[0], tower[1], tower[2] + 7.2), low, -low + rng.uniform(0, 0.6), rng.uniform(5.0, 8.0))
    draft.move(draft.add("crane_jib", make.crane_jib()), jib, "swing")
    draft.stand(draft.add("lighthouse", make.lighthouse()), (-16.0, 8.0), 0.0)
    side = -1.0 if tower[0] > 0 else 1.0
    draft.stand(draft.add("shed", make.shed()), (side * 9.0, 14.2, 0.9), 0.0)
    draft.scatter(draft.add("island", make.island()), 1)
    draft.scatter(draft.add("buoy", make.buoy()), 4)
    draft.add("pier", make.pier())


def factory(draft: Draft) -> None:
    """Crates on conveyor belts, and a lift."""
    rng = draft.rng
    draft.ground(26, 24, "concrete")
    length = 12.0
    belt = draft.add("conveyor", make.conveyor(length))
    colors = _pick(rng, 3)
    crates = [draft.add(f"crate_{color}", make.crate(color)) for color in colors]
    speed = rng.uniform(1.1, 1.9)
    rows = (-4.0, -0.5) if rng.random() < 0.6 else (-2.0,)
    number = 0
    for row, y in enumerate(rows):
        draft.stand(belt, (-2.0, y), np.pi / 2)
        count = int(rng.integers(1, 3)) if len(rows) == 2 else int(rng.integers(2, 4))
        way = 1.0 if row == 0 else -1.0
        start, end = (-2.0 - way * (length / 2 - 0.6), y, 0.9), (-2.0 + way * (length / 2 - 0.6), y, 0.9)
        for place in range(count):
            begin = rng.uniform(0, 2) + place * (length - 1.2) / count
            draft.move(crates[number % 3], motions.conveyor(start, end, speed, begin), "conveyor")
            number += 1
    gantry = (7.5, rng.uniform(-2, 3), 0.0)
    draft.stand(draft.add("gantry", make.gantry()), gantry)
    platform = draft.add("lift_platform", make.lift_platform())
    base = (gantry[0], gantry[1], 0.0)
    draft.move(platform, motions.lift(base, 0.2, 4.4, rng.uniform(4.0, 6.0), rng.uniform(0, 0.4)), "lift")
    draft.stand(draft.add("shed", make.shed()), (-5.0, 8.5), 0.0)
    draft.scatter(draft.add("barrel", make.barrel("blue")), 4)
    draft.scatter(draft.add("cone", make.cone()), 3)
    draft.scatter(draft.add("bench", make.bench()), 1)
    draft.scatter(draft.add("lamp_post", make.lamp_post()), 1)


def playground(draft: Draft) -> None:
    """Rolling balls, spinning tops, a swing and a seesaw."""
    rng = draft.rng
    draft.ground(25, 20, "earth")
    colors = _pick(rng, 5)
    radius = 0.6
    ball = draft.add(f"ball_{colors[0]}", make.ball(colors[0], radius))
    draft.stand(draft.add("ramp", make.ramp()), (-6.5, 2.0), 0.0)
    # The slope rises 2.3 m over 6 m; a ball on it touches at its normal, not below its centre.
    slope = np.array([0.0, -6.0, -2.3]) / np.hypot(6.0, 2.3)
    normal = np.array([0.0, -2.3, 6.0]) / np.hypot(6.0, 2.3)
    top = np.array([-6.5, 5.0, 2.4]) + radius * normal + 0.8 * slope
    foot = np.array([-6.5, -1.0 - 0.7, radius])
    stop = foot + [0, -rng.uniform(2.5, 4.0), 0]
    draft.move(ball, motions.roll([top, foot, stop], [0.3, 4.2, 1.2], radius), "roll")
    other = draft.add(f"ball_{colors[1]}", make.ball(colors[1], 0.8))
    y = rng.uniform(-7.5, -6.5)
    draft.move(other, motions.roll([(10, y, 0.8), (-1.0, y, 0.8)], [3.0, 1.2], 0.8), "roll")
    top_name = draft.add("spinning_top", make.spinning_top(colors[2]))
    if rng.random() < 0.7:
        draft.move(top_name, motions.spin((0.5, -2.5, 0), 1.5, 2.5, rng.uniform(0, 6)), "spin")
    place = (3.5 + rng.uniform(-0.5, 0.5), 5.0)
    draft.stand(draft.add("swing_frame", make.swing_frame()), place, 0.0)
    seat = draft.add("swing_seat", make.swing_seat())
    draft.move(seat, motions.swing((*place, 3.1), 0.0, -0.75, 0.75, rng.uniform(2.4, 3.4)), "swing")
    saw = (8.0, -1.5 + rng.uniform(-0.6, 0.6))
    draft.stand(draft.add("seesaw_base", make.seesaw_base()), saw, 0.3)
    plank = draft.add("seesaw_plank", make.seesaw_plank())
    # The plank carries its weight evenly: its middle hardly moves, so that it is part of what stands.
    draft.stand(plank, (*saw, 0.75), 0.3)
    draft.scatter(draft.add("bench", make.bench()), 2)
    draft.scatter(draft.add("tree", make.tree()), 4)
    draft.add("bush", make.bush())


def platforms(draft: Draft) -> None:
    """Figures that jump between platforms, some of which move."""
    rng = draft.rng
    draft.ground(24, 16, "sky")
    colors = _pick(rng, 3)
    block = draft.add("platform", make.platform())
    heights = np.cumsum(rng.uniform(-0.9, 1.2, 5)).clip(-1.0, 2.5) + 2.2
    xs = np.linspace(-8.5, 8.5, 5)
    ys = rng.uniform(-1.2, 1.2, 5)
    stops = [(x, y, z) for x, y, z in zip(xs, ys, heights, strict=True)]
    for stop in stops:
        draft.stand(block, stop)
    hero = draft.add(f"hopper_{colors[0]}", make.hopper(colors[0]))
    there = [*stops, *stops[-2:0:-1]]
    seconds = rng.uniform(0.75, 1.1)
    draft.move(hero, motions.hop(there, seconds, rng.uniform(1.0, 1.6)), "hop")
    if rng.random() < 0.75:
        second = draft.add(f"hopper_{colors[1]}", make.hopper(colors[1]))
        spots = [(-6.0, -5.5, 0.0), (0.0, -5.5, 0.0), (6.0, -5.5, 0.0), (0.0, -5.5, 0.0)]
        draft.move(second, motions.hop(spots, rng.uniform(1.0, 1.4), 1.8, 0.2), "hop")
    lifts = int(rng.integers(1, 3))
    for number in range(lifts):
        base = (-5.0 + 10.0 * number, 4.8, 0.0)
        draft.move(block, motions.lift(base, 1.4, 4.2, rng.uniform(3.5, 5.5), rng.uniform(0, 1)), "lift")
    draft.stand(draft.add("flag", make.flag(colors[2])), (stops[-1][0] + 0.7, stops[-1][1] + 0.6, stops[-1][2]), 0.0)
    pillar = draft.add("pillar", make.pillar())
    for x in (-10.3, 10.3):
        draft.stand(pillar, (x, 5.0))
    draft.scatter(draft.add("bush", make.bush()), 3)
    draft.scatter(draft.add("rock", make.rock()), 2)
    draft.add("tree", make.tree())


def castle(draft: Draft) -> None:
    """A drawbridge, a battering ram and siege towers before a castle."""
    rng = draft.rng
    draft.ground(34, 30, "grass")
    colors = _pick(rng, 2)
    wall = draft.add("castle_wall", make.castle_wall())
    tower = draft.add("castle_tower", make.castle_tower())
    draft.stand(draft.add("gatehouse", make.gatehouse()), (0, 6.0))
    for x in (-5.4, 5.4):
        draft.stand(wall, (x, 6.2))
    for x in (-9.6, 9.6):
        draft.stand(tower, (x, 6.2))
        draft.stand(wall, (x, 10.6), np.pi / 2)
    bridge = draft.add("drawbridge", make.drawbridge())
    high = rng.uniform(-1.35, -1.1)
    opening = motions.swing((0, 4.95, 0.15), 0.0, high, 0.0, rng.uniform(6.0, 11.0))
    draft.move(bridge, opening, "swing")
    ram = draft.add("siege_ram", make.siege_ram())
    side = 1.0 if rng.random() < 0.5 else -1.0
    start = (side * 5.4, -3.0, 0.0)
    draft.move(ram, motions.back_and_forth(start, np.pi / 2, rng.uniform(3.6, 5.2), rng.uniform(2.2, 4.0)), "straight")
    siege = draft.add("siege_tower", make.siege_tower())
    for number in range(int(rng.integers(1, 3))):
        at = (-side * (4.6 + 5.0 * number), -9.0 + rng.uniform(-1, 1), 0.0)
        draft.move(siege, motions.straight(at, np.pi / 2, rng.uniform(1.0, 1.9), rng.uniform(0, 0.8)), "straight")
    tent = draft.add("tent", make.tent(colors[0]))
    for x in (-11.5, 12.0):
        draft.stand(tent, (x, -9.5 + rng.uniform(-1.5, 1.5)))
    draft.stand(draft.add("flag", make.flag(colors[1])), (side * 13.0, -2.0))
    draft.scatter(draft.add("pine", make.pine()), 5)
    draft.scatter(draft.add("rock", make.rock()), 2)
    draft.add("barrel", make.barrel("red"))


THEMES: tuple[Callable[[Draft], None], ...] = (
    town,
    railway,
    harbour,
    factory,
    highway,
    playground,
    platforms,
    castle,
    circuit,
)
"""In the order in which a split's cases take them."""
