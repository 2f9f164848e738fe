"""A baseline for Dynamic without learning: find what moves in the video, and put components on its path.

All frames are read in one turn; `video_blobs` and `video_tracks` separate what moves from what stands. A ray through
the middle of a blob meets the height that the middle of the likeliest component has when it stands on the ground; that
is its place, so that what is lifted or hops is placed behind its true place. What stands comes from the background in
the same way. The agent sees only what every agent sees.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import ndimage

from sceneact_gym.agents import video_blobs as video
from sceneact_gym.agents.base import BaseAgent, Info
from sceneact_gym.agents.video_tracks import FRAMES, Track, find_tracks
from sceneact_gym.tools import MAX_CALLS

Array = NDArray[np.float64]

LOOK_FRAMES = (1, 73, 144)
FLAT = 0.06
LONG = 6.0
"""A component longer than LONG metres and flatter than this share of its length lies on the ground and never moves."""
FOLDER = "components"
SUBMIT: dict[str, Any] = {"name": "submit", "arguments": {}}

LOOK = f"""
import json, logging, os
logging.disable(logging.INFO)
camera = bpy.context.scene.camera
rows = []
for name in sorted(os.listdir("{FOLDER}")):
    bpy.ops.import_scene.gltf(filepath="{FOLDER}/" + name)
    things = list(bpy.context.selected_objects)
    points, areas = [], {{}}
    for thing in things:
        if thing.type != "MESH":
            continue
        points += [tuple(thing.matrix_world @ vertex.co) for vertex in thing.data.vertices]
        for face in thing.data.polygons:
            color = (0.8, 0.8, 0.8)
            material = thing.data.materials[face.material_index] if thing.data.materials else None
            for node in material.node_tree.nodes if material and material.node_tree else ():
                if node.type == "BSDF_PRINCIPLED":
                    color = tuple(round(value, 3) for value in node.inputs["Base Color"].default_value[:3])
            areas[color] = areas.get(color, 0.0) + face.area
    bpy.data.batch_remove(things)
    if points:
        axes = list(zip(*points))
        box = [[round(f(axis), 3) for axis in axes] for f in (lambda a: sum(a) / len(a), min, max)]
        colors = sorted(((round(area, 3), color) for color, area in areas.items()), reverse=True)[:5]
        rows.append([name, *box, colors])
print(json.dumps({{"matrix": [list(row) for row in camera.matrix_world], "fov": camera.data.angle_x, "rows": rows}}))
"""
"""What the library holds: per file the mean vertex, the corners of the box, and areas of its colours."""

BUILD = """
import logging
logging.disable(logging.INFO)
def place(component, name):
    bpy.ops.import_scene.gltf(filepath="{folder}/" + component)
    thing = bpy.context.selected_objects[0]
    thing.name = name
    thing.rotation_mode = "XYZ"
    return thing
for number, (component, at) in enumerate({standing}):
    place(component, f"stands_{{number:02d}}").location = at
for number, (component, path) in enumerate({moving}):
    thing = place(component, f"moves_{{number:02d}}")
    for frame, at in enumerate(path, 1):
        thing.location = at
        thing.keyframe_insert("location", frame=frame)
"""


@dataclass(frozen=True, eq=False)
class Component:
    """A file of the library, at the origin; metres.

    Attributes:
        name: of the file.
        middle: (3,) mean of its vertices.
        low: (3,) lower corner of its box.
        high: (3,) upper corner.
        colors: pairs of an area and a linear colour.
    """

    name: str
    middle: Array
    low: Array
    high: Array
    colors: list[tuple[float, list[float]]]

    @property
    def extent(self) -> Array:
        """(3,) metres."""
        return self.high - self.low


@dataclass(frozen=True, eq=False)
class Camera:
    """The camera of the video.

    Attributes:
        matrix: (4, 4) pose; it looks along its -Z.
        focal: of a picture, pixels.
        width: of the square picture, pixels.
    """

    matrix: Array
    focal: float
    width: int

    def at_height(self, places: Array, height: float) -> Array:
        """(..., 3) where the rays through places (..., 2) in the picture meet z = height, metres.

        Rays that do not come down are taken as ones that hardly do.
        """
        x, y = np.moveaxis(np.asarray(places, float) - self.width / 2, -1, 0)
        ray = np.stack([x, -y, np.full_like(x, -self.focal)], axis=-1) @ self.matrix[:3, :3].T
        ray /= np.linalg.norm(ray, axis=-1, keepdims=True)
        down = np.minimum(ray[..., 2:], -0.05)
        return self.matrix[:3, 3] + ray * ((height - self.matrix[2, 3]) / down)

    def pixel_size(self) -> Array:
        """(width,) metres that a pixel spans on the ground seen in each row."""
        rows = np.arange(self.width) + 0.5
        ground = self.at_height(np.column_stack([np.full(self.width, self.width / 2), rows]), 0.0)
        return np.linalg.norm(ground - self.matrix[:3, 3], axis=1) / self.focal


class DynamicTracksAgent(BaseAgent):
    """Reads the video and the library, builds once, looks at the result, submits."""

    def reset(self, observation: Any, info: Info) -> None:
        """Starts over."""
        self.turn = 0

    def act(self, observation: Any, info: Info) -> Any:
        """Three turns: look, build, submit."""
        self.turn += 1
        if self.turn == 1:
            indices = [list(range(first, min(first + 16, FRAMES))) for first in range(0, FRAMES, 16)]
            calls = [{"name": "read_reference_frames", "arguments": {"indices": part}} for part in indices]
            return [*calls, _code(LOOK)][:MAX_CALLS]
        if self.turn == 2:
            *read, library = info["results"]
            frames = np.array([picture for result in read for picture in result["images"]])
            code = build(frames, library["text"])
            looks = [{"name": "render_scene_view", "arguments": {"camera": "camera", "frame": f}} for f in LOOK_FRAMES]
            return [_code(code), *looks]
        return [SUBMIT]


def build(frames: NDArray[np.uint8], library_text: str) -> str:
    """Code that builds the scene of a video (144, H, W, 3) from what `LOOK` printed."""
    camera, components = read_library(library_text, frames.shape[2])
    library = colors_of(components)
    background = video.find_background(frames, library.ground)
    blobs = standing_blobs(background, library, camera)
    tracks = find_tracks(frames, background, library, camera.pixel_size())
    moving = []
    for track in tracks:
        component = components[likely(track.owner(), track.size(), track.places()[0], components, camera)]
        path = world_path(track, component, camera) - component.middle
        moving.append([component.name, np.round(path, 3).tolist()])
    standing = [
        [component.name, np.round(place - component.middle, 3).tolist()]
        for component, place in find_standing(blobs, components, camera)
    ]
    return BUILD.format(folder=FOLDER, standing=standing, moving=moving)


def read_library(text: str, width: int) -> tuple[Camera, list[Component]]:
    """The camera and the components that `LOOK` printed, for pictures of that width."""
    data = json.loads(text.strip().splitlines()[-1])
    components = [
        Component(name, np.array(middle), np.array(low), np.array(high), colors)
        for name, middle, low, high, colors in data["rows"]
    ]
    camera = Camera(np.array(data["matrix"]), width / 2 / np.tan(data["fov"] / 2), width)
    return camera, components


def ground_of(components: Sequence[Component]) -> int:
    """The number of the component that covers most of the plane."""
    return int(np.argmax([np.prod(component.extent[:2]) for component in components]))


def colors_of(components: Sequence[Component]) -> video.Library:
    """The colours and sizes of what may stand or move on the ground; what lies flat on it is endlessly large."""
    extents = np.array([component.extent for component in components])
    longest = extents.max(axis=1)
    flat = (longest > LONG) & (extents[:, 2] < FLAT * longest)
    sizes = np.where(flat, video.UNFIT, np.linalg.norm(extents, axis=1))
    ground = np.array(components[ground_of(components)].colors[0][1])
    return video.make_library([component.colors for component in components], sizes, ground)


def likely(owner: int, size: Array, place: Array, components: Sequence[Component], camera: Camera) -> int:
    """The number of the component that a blob shows: its owner, or else the one whose size is nearest."""
    if owner >= 0:
        return owner
    row = int(np.clip(place[1], 0, camera.width - 1))
    diagonal = float(np.linalg.norm(size)) * camera.pixel_size()[row]
    return int(np.argmin([abs(np.log(np.linalg.norm(c.extent) * 0.85 / diagonal)) for c in components]))


def world_path(track: Track, component: Component, camera: Camera) -> Array:
    """(144, 3) places of the middle of a component that moves as the track does, metres."""
    return camera.at_height(track.places(), float(component.middle[2]))


def standing_blobs(background: NDArray[np.uint8], library: video.Library, camera: Camera) -> list[video.Blob]:
    """What the background shows on the ground."""
    smooth = ndimage.median_filter(background, (3, 3, 1))
    mask = ~(smooth >= 250).all(axis=2) & ~video.is_ground(smooth, library.ground)
    return video.find_blobs(smooth, mask, library, camera.pixel_size())


def find_standing(
    blobs: Sequence[video.Blob], components: Sequence[Component], camera: Camera
) -> list[tuple[Component, Array]]:
    """Components with the places of their middles, the ground first."""
    ground = components[ground_of(components)]
    out = [(ground, ground.middle)]
    for blob in blobs:
        component = components[likely(blob.owner, blob.high - blob.low, blob.centre, components, camera)]
        out.append((component, camera.at_height(blob.centre, float(component.middle[2]))))
    return out


def _code(code: str) -> dict[str, Any]:
    return {"name": "execute_blender_code", "arguments": {"code": code}}
