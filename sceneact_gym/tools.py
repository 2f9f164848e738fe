"""The tool registry: each tool is declared once; action space, JSON schemas and documentation come from here.

A handler gets the call's context and its checked arguments, and returns a `ToolResult`. A wrong call is never an
exception for the caller: `run` turns it into a result with `is_error` and a message that says what would be right.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from sceneact_gym.blender.draco import decode_draco
from sceneact_gym.blender.process import OperationError
from sceneact_gym.blender.render import RenderSettings, is_constant
from sceneact_gym.blender.session import BlenderSession, ToolFault
from sceneact_gym.cases import Case

TEXT_LIMIT = 16_000
"""Characters of a result's text; what is beyond is cut and said."""
CODE_LIMIT = 200_000
MAX_CALLS = 16
"""Calls in one step; more are refused."""

Toolset = Literal["paper", "typed"]


@dataclass(frozen=True)
class ToolResult:
    """What one call gave.

    Attributes:
        name: the tool's name as it was called.
        text: for the agent; JSON where a tool reports values.
        is_error: whether the call was wrong or failed.
        images: (H, W, 3) uint8 RGB pictures.
        ends: whether the episode ends with this call.
    """

    name: str
    text: str
    is_error: bool = False
    images: tuple[NDArray[np.uint8], ...] = ()
    ends: bool = False


class Context(Protocol):
    """What a handler may use."""

    session: BlenderSession
    case: Case
    render_settings: RenderSettings

    @property
    def protected(self) -> Sequence[str]:
        """Objects that must stay in the scene."""

    def reference_frames(self, indices: Sequence[int]) -> tuple[NDArray[np.uint8], ...]:
        """The reference pictures at these 0-based indices."""


class _Arguments(BaseModel):
    model_config = ConfigDict(extra="forbid", allow_inf_nan=False, strict=False)


Number = Annotated[float, Field(ge=-1e6, le=1e6)]
Vector3 = Annotated[list[Number], Field(min_length=3, max_length=3)]
Matrix4 = Annotated[list[Annotated[list[Number], Field(min_length=4, max_length=4)]], Field(min_length=4, max_length=4)]
Name = Annotated[str, Field(min_length=1, max_length=200)]
Frame = Annotated[int, Field(ge=-100_000, le=100_000)]


class NoArguments(_Arguments):
    """None."""


class ObjectName(_Arguments):
    """An object by name."""

    name: Name = Field(description="Name of the object, as get_scene_info shows it.")


class Code(_Arguments):
    """Code to run."""

    code: str = Field(max_length=CODE_LIMIT, description="Python source. `bpy` is already imported.")


class _Pose(_Arguments):
    matrix: Matrix4 | None = Field(None, description="Camera pose, 4x4 row-major matrix_world; it looks along -Z.")
    location: Vector3 | None = Field(None, description="Place of the camera in metres; needs look_at.")
    look_at: Vector3 | None = Field(None, description="Point that the camera at `location` looks at, metres, Z up.")

    def problem(self) -> str | None:
        """What is wrong with the combination, if anything."""
        if (self.location is None) != (self.look_at is None):
            return "location and look_at go together: give both"
        if self.matrix is not None and self.location is not None:
            return "give either a matrix or location with look_at, not both"
        return None


class RenderView(_Pose):
    """A view to render."""

    camera: Name | None = Field(None, description="Name of an existing camera; the active camera by default.")
    fov_x_deg: float | None = Field(None, ge=1.0, le=170.0, description="Horizontal field of view in degrees.")
    frame: Frame | None = Field(None, description="Frame to show, 1-based; the current frame by default.")
    size: int | None = Field(None, ge=16, le=1024, description="Width and height of the square picture in pixels.")

    @model_validator(mode="after")
    def _one_view(self) -> RenderView:
        problem = self.problem()
        if problem is None and self.camera is not None and (self.matrix is not None or self.location is not None):
            problem = "give one view: a camera's name, or a matrix, or location with look_at"
        if problem:
            raise ValueError(problem)
        return self


class CameraPose(_Pose):
    """A pose for the active camera."""

    @model_validator(mode="after")
    def _one_pose(self) -> CameraPose:
        problem = self.problem()
        if problem is None and self.matrix is None and self.location is None:
            problem = "give a matrix, or location with look_at"
        if problem:
            raise ValueError(problem)
        return self


class ObjectPose(_Arguments):
    """A pose for an object; what is left out stays."""

    name: Name
    location: Vector3 | None = Field(None, description="World location in metres.")
    rotation_deg: Vector3 | None = Field(None, description="World rotation, XYZ Euler angles in degrees.")
    scale: Vector3 | None = None


class Keyframe(_Arguments):
    """One key."""

    frame: Frame
    location: Vector3 | None = None
    rotation_deg: Vector3 | None = None
    scale: Vector3 | None = None


class Keyframes(_Arguments):
    """An object's animation."""

    name: Name
    keyframes: Annotated[list[Keyframe], Field(min_length=1, max_length=400)]
    interpolation: Literal["LINEAR", "CONSTANT", "BEZIER"] = "LINEAR"


class FrameIndices(_Arguments):
    """Which frames."""

    indices: Annotated[list[int], Field(min_length=1, max_length=16)] = Field(description="0-based, at most 16.")


class ComponentName(_Arguments):
    """A library component."""

    component: Name = Field(description="Name of a file of the component library.")
    name: Name = Field(description="Name that the new object gets.")


@dataclass(frozen=True)
class Tool:
    """One tool.

    Attributes:
        name: as agents call it.
        description: one paragraph for agents.
        arguments: the model of its arguments.
        handler: what it does.
        sample: draws valid arguments for tests and random agents.
        changes_scene: whether it may change the scene.
    """

    name: str
    description: str
    arguments: type[_Arguments]
    handler: Callable[[Context, Any], ToolResult]
    sample: Callable[[np.random.Generator, Sequence[str]], dict[str, Any]]
    changes_scene: bool = False

    def __reduce__(self) -> tuple[Callable[[str], Tool], tuple[str]]:
        """Pickled as its name, since handlers and samples may be functions without one."""
        return _registered, (self.name,)

    def schema(self) -> dict[str, Any]:
        """The tool as a provider-neutral JSON schema: `name`, `description`, `input_schema`."""
        schema = self.arguments.model_json_schema()
        _strip_titles(schema)
        schema.pop("description", None)
        return {"name": self.name, "description": self.description, "input_schema": schema}


def _registered(name: str) -> Tool:
    return TOOLS[name]


def openai_tools(tools: Sequence[Tool]) -> list[dict[str, Any]]:
    """The tools as the OpenAI API takes them."""
    schemas = [tool.schema() for tool in tools]
    return [
        {
            "type": "function",
            "function": {"name": s["name"], "description": s["description"], "parameters": s["input_schema"]},
        }
        for s in schemas
    ]


def anthropic_tools(tools: Sequence[Tool]) -> list[dict[str, Any]]:
    """The tools as the Anthropic API takes them."""
    return [tool.schema() for tool in tools]


def _strip_titles(schema: Any) -> None:
    if isinstance(schema, dict):
        if isinstance(schema.get("title"), str):
            del schema["title"]
        for value in schema.values():
            _strip_titles(value)
    elif isinstance(schema, list):
        for value in schema:
            _strip_titles(value)


# --- handlers -------------------------------------------------------------------------------------------------------


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(", ", ": "))


def _get_scene_info(context: Context, _: NoArguments) -> ToolResult:
    return ToolResult("get_scene_info", _json(context.session.tool("scene_info", {})[0]))


def _get_object_info(context: Context, arguments: ObjectName) -> ToolResult:
    return ToolResult("get_object_info", _json(context.session.tool("object_info", {"name": arguments.name})[0]))


def _execute_blender_code(context: Context, arguments: Code) -> ToolResult:
    name = "execute_blender_code"
    answer, _ = context.session.tool(
        "execute",
        {"code": arguments.code, "output_limit": TEXT_LIMIT - 5000, "protected": list(context.protected)},
        changes="anything",
    )
    if not isinstance(answer, dict):
        return ToolResult(name, "The code changed how Blender answers: nothing can be said about its result.", True)
    output, error, lost = str(answer.get("output") or ""), answer.get("error"), answer.get("missing")
    if lost and isinstance(lost, list):
        context.session.undo()
        return ToolResult(
            name,
            f"The scene was put back as it was before this call, since the call removed {_list(lost)} from the active "
            "scene. Objects that the task gives must stay; move or hide others instead of removing these.",
            True,
        )
    if error:
        return ToolResult(name, f"{output}\n{error}".strip(), True)
    return ToolResult(name, output or "The code ran without output.")


def _render_scene_view(context: Context, arguments: RenderView) -> ToolResult:
    settings = context.render_settings
    if arguments.size is not None:
        settings = replace(settings, width=arguments.size, height=arguments.size)
    view = arguments.model_dump(exclude={"size"}, exclude_none=True)
    picture = context.session.render(settings, **view)
    text = f"Rendered {settings.width}x{settings.height} pixels."
    if is_constant(picture):
        text += " The picture is empty: nothing is in view."
    return ToolResult("render_scene_view", text, images=(picture,))


def _read_reference_frames(context: Context, arguments: FrameIndices) -> ToolResult:
    count = len(context.case.public.references)
    wrong = [index for index in arguments.indices if not 0 <= index < count]
    if wrong:
        raise OperationError(f"there is no reference frame {_list(wrong)}; indices go from 0 to {count - 1}")
    return ToolResult(
        "read_reference_frames",
        f"Reference frames {_list(arguments.indices)}.",
        images=context.reference_frames(arguments.indices),
    )


def _submit(_: Context, __: NoArguments) -> ToolResult:
    return ToolResult("submit", "The scene is submitted; the episode ends.", ends=True)


def _journalled(name: str, operation: str) -> Callable[[Context, _Arguments], ToolResult]:
    def handler(context: Context, arguments: _Arguments) -> ToolResult:
        args = arguments.model_dump(exclude_none=True)
        return ToolResult(name, _json(context.session.tool(operation, args, changes="journal")[0]))

    return handler


def _import_component(context: Context, arguments: ComponentName) -> ToolResult:
    library = list(context.case.public.data.get("components", ()))
    if arguments.component not in library:
        raise OperationError(f"there is no component {arguments.component!r}; the library has {_list(library)}")
    names, _ = context.session.tool(
        "import_glb",
        {"rename": arguments.name},
        blobs=(decode_draco(context.case.public.assets[arguments.component]),),
        changes="journal",
    )
    return ToolResult("import_component", _json({"objects": names}))


def _list(values: Sequence[Any]) -> str:
    shown = ", ".join(str(value)[:80] for value in values[:12])
    return shown + (f" and {len(values) - 12} more" if len(values) > 12 else "")


# --- samples --------------------------------------------------------------------------------------------------------


def _point(rng: np.random.Generator, low: Sequence[float], high: Sequence[float]) -> list[float]:
    return [round(float(value), 3) for value in rng.uniform(low, high)]


def _sample_view(rng: np.random.Generator, _: Sequence[str] = ()) -> dict[str, Any]:
    return {
        "location": _point(rng, [-3, -3, 0.5], [3, 3, 2]),
        "look_at": _point(rng, [-3, -3, 0.3], [3, 3, 1.4]),
    }


def _sample_code(rng: np.random.Generator, names: Sequence[str]) -> dict[str, Any]:
    name = _sample_name(rng, names)["name"]
    view = _sample_view(rng)
    turn = (
        f"(Vector({view['look_at']}) - thing.location).to_track_quat('-Z', 'Y').to_euler()"
        if name == "camera"
        else f"(0, 0, {round(float(rng.uniform(-3.14, 3.14)), 3)})"
    )
    return {
        "code": "from mathutils import Vector\n"
        f"thing = bpy.data.objects[{name!r}]\n"
        f"thing.location = {view['location']}\n"
        "thing.rotation_mode = 'XYZ'\n"
        f"thing.rotation_euler = {turn}\n"
        "print(thing.location)"
    }


def _sample_name(rng: np.random.Generator, names: Sequence[str]) -> dict[str, Any]:
    return {"name": str(rng.choice(list(names) or ["camera"]))}


def _nothing(_: np.random.Generator, __: Sequence[str]) -> dict[str, Any]:
    return {}


TOOLS: dict[str, Tool] = {
    tool.name: tool
    for tool in (
        Tool(
            "get_scene_info",
            "Lists every object of the scene (name, type, world location in metres, rotation in degrees XYZ, scale, "
            "world bounding box), the cameras with their horizontal field of view, and the frame range.",
            NoArguments,
            _get_scene_info,
            _nothing,
        ),
        Tool(
            "get_object_info",
            "Describes one object: world matrix, world bounding box, numbers of vertices and faces, materials, parent, "
            "children and keyframes.",
            ObjectName,
            _get_object_info,
            _sample_name,
        ),
        Tool(
            "execute_blender_code",
            "Runs Python code inside Blender and returns what it prints or, if it fails, the traceback of your lines. "
            "Each call starts with a fresh namespace in which `bpy` is imported; the scene stays. There is no network, "
            "no subprocess, and only Blender's temporary folder can be written.",
            Code,
            _execute_blender_code,
            _sample_code,
            changes_scene=True,
        ),
        Tool(
            "render_scene_view",
            "Renders one square picture of the scene on a white background: from a named camera, from a pose given as "
            "matrix or as location with look_at, or else from the active camera. The scene is not changed.",
            RenderView,
            _render_scene_view,
            _sample_view,
        ),
        Tool(
            "read_reference_frames",
            "Shows frames of the reference sequence by their 0-based indices, at most 16 a call.",
            FrameIndices,
            _read_reference_frames,
            lambda rng, _: {"indices": [0]},
        ),
        Tool(
            "submit",
            "Submits the scene as it is and ends the episode.",
            NoArguments,
            _submit,
            _nothing,
        ),
        Tool(
            "set_camera_pose",
            "Moves the active camera to a pose: a 4x4 matrix_world, or location with look_at (metres, Z up).",
            CameraPose,
            _journalled("set_camera_pose", "set_camera_pose"),
            _sample_view,
            changes_scene=True,
        ),
        Tool(
            "set_object_pose",
            "Places an object in the world by location (metres), rotation (XYZ Euler angles, degrees) and scale; what "
            "is left out stays as it is.",
            ObjectPose,
            _journalled("set_object_pose", "set_object_pose"),
            lambda rng, names: {**_sample_name(rng, names), "location": _point(rng, [-3, -3, 0.5], [3, 3, 2])},
            changes_scene=True,
        ),
        Tool(
            "set_keyframes",
            "Replaces the animation of an object by keys of location, rotation (XYZ Euler angles, degrees) and scale, "
            "in the frame of its parent; frames are 1-based.",
            Keyframes,
            _journalled("set_keyframes", "set_keyframes"),
            lambda rng, names: {
                **_sample_name(rng, names),
                "keyframes": [{"frame": 1, "location": _point(rng, [-3, -3, 0.5], [3, 3, 2])}],
            },
            changes_scene=True,
        ),
        Tool(
            "import_component",
            "Adds one component of the library to the scene, at the origin, under the name you give.",
            ComponentName,
            _import_component,
            lambda rng, names: {"component": "ground.glb", **_sample_name(rng, names)},
            changes_scene=True,
        ),
    )
}

_PAPER = tuple(TOOLS)[:6]
TOOLSETS: Mapping[str, tuple[str, ...]] = {"paper": _PAPER, "typed": tuple(TOOLS)}


def toolset(name: str, without: Sequence[str] = ()) -> dict[str, Tool]:
    """The tools of a set, in order.

    Args:
        name: `paper`, or `typed` for policies that do not write code.
        without: tools that a task does not offer.

    Raises:
        ValueError: there is no such set.
    """
    if name not in TOOLSETS:
        raise ValueError(f"toolset must be one of {', '.join(TOOLSETS)}; it is {name!r}")
    return {tool: TOOLS[tool] for tool in TOOLSETS[name] if tool not in without}


def run(tools: Mapping[str, Tool], context: Context, call: Any) -> ToolResult:
    """Runs one call.

    Args:
        tools: the tools on offer.
        context: the episode.
        call: `{"name": ..., "arguments": {...}}`, unchecked.

    Returns:
        Its result; wrong calls and faults of Blender become results with `is_error`.

    Raises:
        InfraError: Blender cannot be brought back.
    """
    if not isinstance(call, Mapping) or not isinstance(call.get("name"), str):
        return ToolResult("", 'A call must look like {"name": "get_scene_info", "arguments": {}}.', True)
    name = call["name"]
    surplus = [str(key) for key in call if key not in ("name", "arguments")]
    if surplus:
        return ToolResult(name[:100], f"A call has only name and arguments; remove {_list(surplus)}.", True)
    tool = tools.get(name)
    if tool is None:
        return ToolResult(name[:100], f"There is no tool {name[:100]!r}; the tools are {', '.join(tools)}.", True)
    given = call.get("arguments")
    try:
        arguments = tool.arguments.model_validate({} if given is None else given)
    except ValidationError as problem:
        return ToolResult(name, _explain(problem, tool), True)
    except RecursionError:
        return ToolResult(name, "The arguments are nested too deeply.", True)
    try:
        result = tool.handler(context, arguments)
    except (OperationError, ToolFault) as problem:
        return ToolResult(name, _capped(str(problem)), True)
    return replace(result, text=_capped(result.text))


def _explain(problem: ValidationError, tool: Tool) -> str:
    lines = []
    for error in problem.errors(include_url=False, include_input=False, include_context=False)[:5]:
        where = ".".join(str(part)[:60] for part in error["loc"])
        lines.append(f"{where}: {error['msg']}" if where else error["msg"].removeprefix("Value error, "))
    fields = ", ".join(
        name if info.is_required() else f"{name} (optional)" for name, info in tool.arguments.model_fields.items()
    )
    return _capped(f"Wrong arguments for {tool.name}: {'; '.join(lines)}. It takes: {fields or 'no arguments'}.")


def _capped(text: str) -> str:
    if len(text) <= TEXT_LIMIT:
        return text
    return f"{text[: TEXT_LIMIT - 60]}\n[{len(text) - TEXT_LIMIT + 60} more characters were cut]"
