"""The ordinary Gymnasium loop: turns the camera around in eight steps, looks each time, and submits the best view.

    python examples/step_loop.py

It chooses the view that is most like the reference; where the camera stands, it leaves as it is.
"""

from __future__ import annotations

import gymnasium as gym

import sceneact_gym  # noqa: F401 - registers the environments


def main() -> None:
    """Plays one episode and prints the score."""
    env = gym.make("SceneAct/Camera-v0", reference_size=128, render_size=128)
    obs, info = env.reset(seed=0)  # info: prompt, system_prompt, tools (JSON schemas), budget
    seen = []
    for angle in range(0, 360, 45):
        code = f"import math; bpy.context.scene.camera.rotation_euler = (math.pi / 2, 0, math.radians({angle}))"
        turn = [{"name": "execute_blender_code", "arguments": {"code": code}}, {"name": "render_scene_view"}]
        obs, reward, terminated, truncated, info = env.step(turn)  # obs["render"] is what the camera sees now
        likeness = -abs(obs["render"].astype(float) - obs["references"][0]).mean()
        seen.append((likeness, code))
        print(f"{angle:3d} degrees: mean difference of {-likeness:.1f} grey levels from the reference")
    last = [{"name": "execute_blender_code", "arguments": {"code": max(seen)[1]}}, {"name": "submit"}]
    obs, reward, terminated, truncated, info = env.step(last)
    print(f"score {info['score']:.1f} of 100, {info['metrics']}")  # pe in metres, ae in degrees
    env.close()


if __name__ == "__main__":
    main()
