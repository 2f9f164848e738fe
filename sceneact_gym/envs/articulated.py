"""`SceneAct/Articulated-v0`."""

from __future__ import annotations

from sceneact_gym.envs.base import SceneActEnv


class ArticulatedEnv(SceneActEnv):
    """Find out how a container opens, and animate its anonymous meshes so that it moves as pictures show it.

    ## Description
    The agent sees 32 pictures of an object whose one to six doors, flaps, lids, drawers or sliding doors open (fully in
    picture 16) and close again. It has the closed object in Blender, cut into meshes `node_000`, `node_001`, ... that
    tell nothing about parts, and sets keys on the frames 1 to 32, one per picture. A call that removes a mesh is
    undone.

    ## Observation space
    `Dict` of
    - `references`: `Box(0, 255, (32, R, R, 3), uint8)`, the pictures on white, R = `reference_size`.
    - `render`: `Box(0, 255, (H, H, 3), uint8)`, the newest picture that a tool returned, zeros at first,
      H = `render_size`.
    - `message`: `Text`, the prompt after `reset`, then the texts of the last results (ASCII, at most 24,000).
    - `steps_left`: `Discrete(max_steps + 1)`.

    ## Action space
    `ToolCalls`: a call `{"name": ..., "arguments": {...}}`, a list of at most 16 calls, or a JSON string of either.
    Tools: `get_scene_info`, `get_object_info`, `execute_blender_code`, `render_scene_view`, `read_reference_frames`,
    `submit`; with `toolset="typed"` also `set_camera_pose`, `set_object_pose`, `set_keyframes`.

    ## Reward
    0 until the end, then score / 100. The score is `100 * max(0, 1 - MPE / u)`: MPE is the error of the worst moving
    part in metres, u is 1 m under `paper` and the largest true travel of a part under `strict`, where an object that
    does not move scores 0.

    ## Starting state
    The closed object, its front towards -Y, on z = 0, and the active camera `camera`, which took the pictures.

    ## Episode end
    Terminated by `submit` or an empty list; truncated when the budget of 60 steps is used up (what was done still
    counts) or when Blender cannot be brought back (`status` is then `infra_error` and `score` None).

    ## Arguments
    Those of `SceneAct/Camera-v0`.

    ## Registered ids
    `SceneAct/Articulated-v0`
    """

    task = "articulated"
