"""`SceneAct/Reconstruction-v0`."""

from __future__ import annotations

from sceneact_gym.envs.base import SceneActEnv


class ReconstructionEnv(SceneActEnv):
    """Rebuild the furniture of a room from eleven calibrated views.

    ## Description
    The scene is empty but for the cameras `view_00` to `view_10`, which stand where the pictures were taken. The agent
    models the furniture by any means of Blender.

    ## Observation space
    `Dict` of
    - `references`: `Box(0, 255, (11, R, R, 3), uint8)`, the pictures on white, R = `reference_size`.
    - `render`: `Box(0, 255, (H, H, 3), uint8)`, the newest picture that a tool returned, zeros at first,
      H = `render_size`.
    - `message`: `Text`, the prompt after `reset`, then the texts of the last results (ASCII, at most 24,000).
    - `steps_left`: `Discrete(max_steps + 1)`.

    ## Action space
    `ToolCalls`: a call `{"name": ..., "arguments": {...}}`, a list of at most 16 calls, or a JSON string of either.
    Tools: `get_scene_info`, `get_object_info`, `execute_blender_code`, `render_scene_view`, `submit`; with
    `toolset="typed"` also `set_camera_pose`, `set_object_pose`, `set_keyframes`.

    ## Reward
    0 until the end, then score / 100, and the score is 100 times F@5%: under `paper` of clustered vertices, under
    `strict` of surfaces. An empty scene is an `agent_error` and scores 0.

    ## Starting state
    Cameras and light; `view_00` is the active camera.

    ## Episode end
    Terminated by `submit` or an empty list; truncated when the budget of 35 steps is used up (what was done still
    counts) or when Blender cannot be brought back (`status` is then `infra_error` and `score` None).

    ## Arguments
    Those of `SceneAct/Camera-v0`.

    ## Registered ids
    `SceneAct/Reconstruction-v0`
    """

    task = "reconstruction"
