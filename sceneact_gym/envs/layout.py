"""`SceneAct/Layout-v0` and `SceneAct/LayoutMultiView-v0`."""

from __future__ import annotations

from sceneact_gym.envs.base import SceneActEnv


class LayoutEnv(SceneActEnv):
    """Put the given pieces of furniture where a picture of a room shows them.

    ## Description
    All pieces are in the scene, at the origin, unturned, in their true size. The camera `view_00` stands where the
    picture was taken. Pieces and cameras cannot be removed: such a call is undone.

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
    0 until the end, then score / 100. `paper`: `100 * max(0, 1 - ADD-S / 4 m)`. `strict`: the mean runs over all true
    pieces, and the reference is what the untouched scene costs in that room: doing nothing scores 0.

    ## Starting state
    `object_00`, `object_01`, ... at the origin; `view_00` is the active camera.

    ## Episode end
    Terminated by `submit` or an empty list; truncated when the budget of 30 steps is used up (what was done still
    counts) or when Blender cannot be brought back (`status` is then `infra_error` and `score` None).

    ## Arguments
    Those of `SceneAct/Camera-v0`.

    ## Registered ids
    `SceneAct/Layout-v0`
    """

    task = "layout"


class LayoutMultiViewEnv(LayoutEnv):
    """`SceneAct/Layout-v0` with eleven views of the same rooms.

    ## Description
    As there; the cameras `view_00` to `view_10` stand where the pictures were taken.

    ## Observation space
    As there, but `references` is `Box(0, 255, (11, R, R, 3), uint8)`.

    ## Action space
    As there.

    ## Reward
    As there.

    ## Starting state
    As there.

    ## Episode end
    As there.

    ## Arguments
    As there.

    ## Registered ids
    `SceneAct/LayoutMultiView-v0`
    """

    task = "layout_multiview"
