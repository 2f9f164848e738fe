"""`SceneAct/Camera-v0`."""

from __future__ import annotations

from sceneact_gym.envs.base import SceneActEnv


class CameraEnv(SceneActEnv):
    """Find the pose from which a picture of a furnished room was taken.

    ## Description
    The agent sees one picture of a furnished room and has the same room in Blender. It moves the active camera, called
    `camera`, until it sees the same. The room itself is fixed: changes are reported (`n_changed`), never rewarded, and
    a call that removes something is undone.

    ## Observation space
    `Dict` of
    - `references`: `Box(0, 255, (1, R, R, 3), uint8)`, the picture on white, R = `reference_size`.
    - `render`: `Box(0, 255, (H, H, 3), uint8)`, the newest picture that a tool returned, zeros at first,
      H = `render_size`.
    - `message`: `Text`, the prompt after `reset`, then the texts of the last results (ASCII, at most 24,000).
    - `steps_left`: `Discrete(max_steps + 1)`.

    ## Action space
    `ToolCalls`: a call `{"name": ..., "arguments": {...}}`, a list of at most 16 calls, or a JSON string of either.
    Tools: `get_scene_info`, `get_object_info`, `execute_blender_code`, `render_scene_view`, `submit`; with
    `toolset="typed"` also `set_camera_pose`, `set_object_pose`, `set_keyframes`.

    ## Reward
    0 until the end, then score / 100. The score is the mean of `100 * max(0, 1 - PE / 4 m)` and
    `100 * max(0, 1 - AE / 90 deg)`: PE is the distance between the camera centres, AE the angle between the viewing
    directions. Roll is free. Both protocols agree here.

    ## Starting state
    The camera stands at (0, 0, 1.5) m and looks along +Y; its horizontal field of view is that of the picture.

    ## Episode end
    Terminated by `submit` or an empty list; truncated when the budget of 30 steps is used up (what was done still
    counts) or when Blender cannot be brought back (`status` is then `infra_error` and `score` None).

    ## Arguments
    `source="procedural"`, `split="test"`, `protocol="paper"`, `toolset="paper"`, `max_steps=None` (30),
    `reference_size=384`, `render_size=384`, `render=None` (a `RenderSettings` or a mapping of its fields),
    `isolation="auto"`, `checkpoints=()`, `record_dir=None`. `reset(options={"case_id": ...})` picks a case.

    ## Registered ids
    `SceneAct/Camera-v0`
    """

    task = "camera"
