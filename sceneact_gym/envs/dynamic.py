"""`SceneAct/Dynamic-v0` and `SceneAct/DynamicPhotoreal-v0`."""

from __future__ import annotations

from sceneact_gym.envs.base import SceneActEnv


class DynamicEnv(SceneActEnv):
    """Build a scene from a component library and animate it as a video shows it.

    ## Description
    The video has 144 frames at 24 frames a second; its camera is known and does not move. Two to six things move:
    vehicles, trains, boats, goods on belts, balls, figures that jump, mechanisms that swing or lift. The components lie
    as GLB files in the folder `components` of Blender's current folder.

    ## Observation space
    `Dict` of
    - `references`: `Box(0, 255, (9, R, R, 3), uint8)`, the frames 0, 18, 36, 54, 72, 89, 107, 125 and 143 of the video
      on white, R = `reference_size`; all others come from `read_reference_frames`.
    - `render`: `Box(0, 255, (H, H, 3), uint8)`, the newest picture that a tool returned, zeros at first,
      H = `render_size`.
    - `message`: `Text`, the prompt after `reset`, then the texts of the last results (ASCII, at most 24,000).
    - `steps_left`: `Discrete(max_steps + 1)`.

    ## Action space
    `ToolCalls`: a call `{"name": ..., "arguments": {...}}`, a list of at most 16 calls, or a JSON string of either.
    Tools: `get_scene_info`, `get_object_info`, `execute_blender_code`, `render_scene_view`, `read_reference_frames`,
    `submit`; with `toolset="typed"` also `set_camera_pose`, `set_object_pose`, `set_keyframes`, `import_component`.

    ## Reward
    0 until the end, then score / 100. The score is the mean of `100 * max(0, 1 - MME)` and `100 * max(0, 1 - LE)`: MME
    is the mean distance between the paths of the worst mover over the scene's size, LE the mean distance between
    standing things over the same. `strict` counts each mover too many as one more error of 1 and samples Blender's
    frames where they are; `paper` reads them one frame late, as published.

    ## Starting state
    Light and the active camera `camera`; no mesh. Frames 1 to 144.

    ## Episode end
    Terminated by `submit` or an empty list; truncated when the budget of 80 steps is used up (what was done still
    counts) or when Blender cannot be brought back (`status` is then `infra_error` and `score` None).

    ## Arguments
    Those of `SceneAct/Camera-v0`.

    ## Registered ids
    `SceneAct/Dynamic-v0`
    """

    task = "dynamic"


class DynamicPhotorealEnv(DynamicEnv):
    """`SceneAct/Dynamic-v0` with a video that looks like real footage.

    ## Description
    As there: the same scenes, components and truth. Only the video differs: physically based materials, sky, sun,
    ground to the horizon and haze.

    ## Observation space
    As there; the pictures have no white background.

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
    `SceneAct/DynamicPhotoreal-v0`
    """

    task = "dynamic_photoreal"
