"""What a bundle is made of: the SPEC file of `sceneact data build`, TOML or JSON. See docs/data.md for examples.

Lengths are metres, angles degrees, the frame is Blender's (Z up). Paths are relative to the SPEC file. Patterns are
those of shells (`Chair_*`), compared with the names of nodes.
"""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Discriminator, Field, Tag, ValidationError, model_validator

from sceneact_gym.errors import SceneActError

Vector3 = Annotated[list[float], Field(min_length=3, max_length=3)]
Matrix4 = Annotated[list[Annotated[list[float], Field(min_length=4, max_length=4)]], Field(min_length=4, max_length=4)]
Names = Annotated[list[str], Field(min_length=1)]
CaseId = Annotated[str, Field(pattern=r"^\w[\w.-]{0,199}$")]


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid", allow_inf_nan=False, frozen=True)


class CameraPose(_Model):
    """A camera: `matrix` (4x4 matrix_world, it looks along -Z), or `location` with `look_at`."""

    matrix: Matrix4 | None = None
    location: Vector3 | None = None
    look_at: Vector3 | None = None
    fov_x_deg: float = Field(39.6, ge=1, le=170)

    @model_validator(mode="after")
    def _one_pose(self) -> CameraPose:
        if (self.matrix is None) == (self.location is None) or (self.location is None) != (self.look_at is None):
            raise ValueError("a camera needs either matrix, or location with look_at")
        if self.location is not None and self.location == self.look_at:
            raise ValueError("a camera cannot look at its own place")
        return self

    @property
    def matrix_world(self) -> NDArray[np.float64]:
        """(4, 4) pose."""
        if self.matrix is not None:
            return np.array(self.matrix, float)
        assert self.location is not None and self.look_at is not None
        place = np.array(self.location, float)
        back = place - np.array(self.look_at, float)
        back /= np.linalg.norm(back)
        # Straight up or down there is no horizon: the picture's top is then +Y.
        right = np.cross([0.0, 0.0, 1.0] if np.hypot(back[0], back[1]) > 1e-9 else [0.0, 1.0, 0.0], back)
        right /= np.linalg.norm(right)
        pose = np.eye(4)
        pose[:3] = np.stack([right, np.cross(back, right), back, place], axis=1)
        return pose


class Rendering(_Model):
    """How references are rendered."""

    size: int = Field(default=384, ge=16, le=1024)
    samples: int = Field(default=16, ge=1, le=4096)
    engine: Literal["auto", "cycles", "workbench", "eevee"] = "auto"


class Generated(_Model):
    """Cases out of a built-in generator: `count` of them from the first one, or those named by `ids`."""

    task: str
    source: Literal["procedural"]
    split: Literal["train", "val", "test"] = "test"
    count: int | None = Field(None, ge=1)
    ids: Names | None = None

    @model_validator(mode="after")
    def _which(self) -> Generated:
        if (self.count is None) == (self.ids is None):
            raise ValueError("give either count or ids")
        return self


class OwnScene(_Model):
    """A scene of one's own.

    `scale`, `turn_deg` (about Z) and `offset`, in this order, take the file to the case's frame.
    """

    id: CaseId
    split: Literal["", "train", "val", "test"] = ""
    scale: float = Field(1.0, gt=0)
    turn_deg: float = 0.0
    offset: Vector3 = [0.0, 0.0, 0.0]
    references: list[str] = []
    """Pictures in the order of the views or frames; without any they are rendered."""


class CameraScene(OwnScene):
    """A furnished room and the camera to be found."""

    task: Literal["camera"]
    scene: str
    camera: CameraPose


class PlacedObject(_Model):
    """A canonical object (centred at its origin, front towards -Y) and its true place."""

    file: str
    location: Vector3
    yaw_deg: float = 0.0


class LayoutScene(OwnScene):
    """Furniture to be placed: nodes of a `scene`, or canonical `objects`."""

    task: Literal["layout", "layout_multiview"]
    scene: str | None = None
    furniture: Names | None = None
    yaw_deg: dict[str, float] = {}
    """Pattern -> yaw of nodes whose turn is baked into their vertices; else the node's own turn about Z counts."""
    objects: list[PlacedObject] | None = None
    views: Annotated[list[CameraPose], Field(min_length=1, max_length=11)]

    @model_validator(mode="after")
    def _one_kind(self) -> LayoutScene:
        if (self.scene is None) == (self.objects is None) or (self.scene is None) != (self.furniture is None):
            raise ValueError("give either scene with furniture, or objects")
        if self.task == "layout" and len(self.views) != 1:
            raise ValueError("layout has one view; layout_multiview has several")
        return self


class ReconstructionScene(OwnScene):
    """Furniture to be modelled."""

    task: Literal["reconstruction"]
    scene: str
    furniture: Names
    views: Annotated[list[CameraPose], Field(min_length=1, max_length=11)]


class ArticulatedScene(OwnScene):
    """An animated object: 32 states, closed, open at 16 (0-based) and back."""

    task: Literal["articulated"]
    scene: str
    parts: Annotated[dict[str, str | Names], Field(min_length=1)]
    """Moving part -> pattern or patterns of its nodes; all other nodes are the body."""
    fps: float = Field(16.0, gt=0)
    world_keys: bool = False
    """Whether the keys are world transforms, so that parents do not count."""
    camera: CameraPose


class DynamicScene(OwnScene):
    """An animated scene of 144 frames at 24 a second."""

    task: Literal["dynamic", "dynamic_photoreal"]
    scene: str
    movers: Names
    """Patterns of the animated nodes that count; other animated nodes are shown and neither mover nor static."""
    statics: Names | None = None
    """Patterns of the top-level nodes that count as standing; by default all that do not move."""
    places: Literal["means", "origins"] = "means"
    """What the place of a thing is: the mean of its vertices, or its node's origin."""
    components: str | None = None
    """A folder of component GLBs; without it the things of the scene become the components."""
    scene_scale: float | None = Field(None, gt=0)
    world_keys: bool = False
    camera: CameraPose


def _kind(entry: Any) -> str:
    """Which model an entry is checked with, so that messages are about that one only."""
    get = entry.get if isinstance(entry, dict) else lambda name: getattr(entry, name, None)
    return "procedural" if get("source") is not None else str(get("task"))


Entry = Annotated[
    Annotated[Generated, Tag("procedural")]
    | Annotated[CameraScene, Tag("camera")]
    | Annotated[LayoutScene, Tag("layout")]
    | Annotated[LayoutScene, Tag("layout_multiview")]
    | Annotated[ReconstructionScene, Tag("reconstruction")]
    | Annotated[ArticulatedScene, Tag("articulated")]
    | Annotated[DynamicScene, Tag("dynamic")]
    | Annotated[DynamicScene, Tag("dynamic_photoreal")],
    Discriminator(_kind),
]


class Spec(_Model):
    """A whole SPEC file."""

    render: Rendering = Field(default_factory=Rendering)
    cases: Annotated[list[Entry], Field(min_length=1)]


def read_spec(path: Path) -> Spec:
    """Reads a SPEC file.

    Raises:
        SceneActError: it cannot be read or something in it is wrong; the message says where.
    """
    try:
        text = path.read_text(encoding="utf-8")
        values = tomllib.loads(text) if path.suffix == ".toml" else json.loads(text)
    except OSError as problem:
        raise SceneActError(f"{path} cannot be read: {problem.strerror}") from problem
    except ValueError as problem:
        raise SceneActError(f"{path} is no {'TOML' if path.suffix == '.toml' else 'JSON'}: {problem}") from problem
    try:
        return Spec.model_validate(values)
    except ValidationError as problem:
        lines = [f"{'.'.join(map(str, error['loc']))}: {error['msg']}" for error in problem.errors()]
        raise SceneActError(f"{path} is no spec of a bundle: {'; '.join(lines)}") from problem
