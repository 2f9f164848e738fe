"""Dynamic through real tool calls in real Blender: oracle, floor, between, what counts as moving, and tricks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

from sceneact_gym.agents import OracleAgent
from sceneact_gym.evaluators import dynamic, gltf
from sceneact_gym.tasks.dynamic import SHOWN, placing_code

SMALL: dict[str, Any] = {"render_size": 48, "reference_size": 48, "render": {"samples": 1}}


@pytest.fixture(scope="module")
def env() -> Iterator[gym.Env]:
    made = gym.make("SceneAct/Dynamic-v0", **SMALL)
    yield made
    made.close()


def begin(env: gym.Env, number: int = 6) -> tuple[Any, dict[str, Any], Any]:
    """The sixth case is the smallest: figures that jump between platforms."""
    observation, info = env.reset(seed=0, options={"case_id": f"dynamic-test-{number:04d}"})
    return observation, info, env.unwrapped.episode.case.truth


def code(text: str) -> dict[str, Any]:
    return {"name": "execute_blender_code", "arguments": {"code": text}}


def run(env: gym.Env, *calls: dict[str, Any]) -> dict[str, Any]:
    *_, info = env.step(list(calls))
    assert not any(result["is_error"] for result in info["results"]), info["results"]
    return info


def found(env: gym.Env) -> dynamic.DynamicPrediction:
    """What the evaluator would see now."""
    episode = env.unwrapped.episode
    submission = episode.host.task.collect(episode.session, episode.case, None)
    return dynamic.tracks_from_gltf(gltf.load(submission.files["scene.glb"]), protocol="strict")


@pytest.mark.parametrize("number", [0, 3, 5])
def test_the_oracle_reaches_the_top_and_doing_nothing_the_floor(env: gym.Env, number: int) -> None:
    observation, info, truth = begin(env, number)
    assert observation["references"].shape == (9, 48, 48, 3) and info["budget"] == 80
    *_, info = env.step(OracleAgent(env).act(observation, info))
    assert info["status"] == "ok", info
    assert info["score_strict"] > 99.99 and info["metrics"]["recall"] == 1 and info["metrics"]["extra"] == 0
    assert info["metrics"]["scene_scale"] == pytest.approx(
        np.linalg.norm(np.ptp(np.concatenate([*truth["tracks"], truth["statics"]])[:, :2], axis=0)), rel=1e-4
    )
    # Under `paper` a perfect export lags one frame: less than a whole step of the fastest mover.
    steps = np.linalg.norm(np.diff(truth["tracks"], axis=1), axis=2).max(axis=1)
    lag = 50 * steps.max() / info["metrics"]["scene_scale"]
    assert 100 - lag - 0.5 < info["score_paper"] < 100

    begin(env, number)
    *_, info = env.step([])
    assert info["status"] == "ok" and info["score_strict"] == info["score_paper"] == 0
    assert (info["metrics"]["mme"], info["metrics"]["le"], info["metrics"]["recall"]) == (1, 1, 0)


def test_between_nothing_and_everything(env: gym.Env) -> None:
    _, _, truth = begin(env)
    episode = env.unwrapped.episode
    run(env, code(placing_code({**truth, "moving": [], "poses": np.zeros((0, 144, 4, 4))})))
    score = episode.score_now()["strict"]
    # All that stands and nothing that moves: half of the score.
    assert score.metrics["mme"] == 1 and score.metrics["le"] < 1e-4 and score.score == pytest.approx(50, abs=0.01)

    begin(env)
    episode = env.unwrapped.episode
    run(env, code(placing_code({**truth, "moving": truth["moving"][:-1], "poses": truth["poses"][:-1]})))
    score = episode.score_now()["strict"]
    count = len(truth["moving"])
    assert score.metrics["mme"] == 1 and score.metrics["ame"] == pytest.approx(1 / count, abs=1e-4)
    assert score.metrics["recall"] == pytest.approx((count - 1) / count)
    assert score.score == pytest.approx(50, abs=0.01)

    # One that the video has not: `strict` charges it, `paper` does not.
    begin(env)
    episode = env.unwrapped.episode
    extra = {"moving": [*truth["moving"], truth["moving"][0]], "poses": [*truth["poses"], truth["poses"][0] + 0.01]}
    run(env, code(placing_code({**truth, **extra})))
    scores = episode.score_now()
    assert scores["strict"].metrics["mme"] == 1 and scores["paper"].metrics["mme"] < 0.1
    assert scores["strict"].metrics["extra"] == 1

    # The whole scene shifted: forgiven. Played backwards: not.
    begin(env)
    episode = env.unwrapped.episode
    shift = np.eye(4)
    shift[:3, 3] = [3, -2, 1]
    placements = [[name, (shift @ np.array(pose)).tolist()] for name, pose in truth["placements"]]
    run(env, code(placing_code({**truth, "placements": placements, "poses": shift @ truth["poses"]})))
    assert episode.score_now()["strict"].score > 99.9
    begin(env)
    episode = env.unwrapped.episode
    run(env, code(placing_code({**truth, "poses": truth["poses"][:, ::-1]})))
    assert 0 < episode.score_now()["strict"].metrics["mme"] < 1


def test_the_agents_frames_are_those_of_the_video(env: gym.Env) -> None:
    observation, _, truth = begin(env)
    assert SHOWN == (0, 18, 36, 54, 72, 89, 107, 125, 143)
    views = [{"name": "render_scene_view", "arguments": {"camera": "camera", "frame": f}} for f in (1, 73, 101)]
    reading = {"name": "read_reference_frames", "arguments": {"indices": [0, 72, 100]}}
    info = run(env, code(placing_code(truth)), *views, reading)
    shown = [result["images"][0].astype(float) for result in info["results"][1:4]]
    frames = [picture.astype(float) for picture in info["results"][4]["images"]]
    assert np.array_equal(frames[1], observation["references"][4])
    for mine, theirs in zip(shown, frames, strict=True):
        # Triangles may lie in another order, which moves a few samples at their edges.
        assert np.abs(mine - theirs).mean() < 0.2 < np.abs(frames[0] - frames[2]).mean()
    *_, info = env.step({"name": "read_reference_frames", "arguments": {"indices": [144]}})
    assert info["results"][0]["is_error"] and "0 to 143" in info["results"][0]["text"]


def test_what_counts_as_moving(env: gym.Env) -> None:
    """Keys, parents, constraints, drivers and instances, against places by hand."""
    begin(env)
    run(
        env,
        code("""
import math
scene = bpy.context.scene
def cube(name, at=(0, 0, 0)):
    bpy.ops.mesh.primitive_cube_add(size=1, location=at)
    bpy.context.object.name = name
    return bpy.context.object
def linear(thing):
    for layer in thing.animation_data.action.layers:
        for strip in layer.strips:
            for bag in strip.channelbags:
                for curve in bag.fcurves:
                    for point in curve.keyframe_points:
                        point.interpolation = "LINEAR"
keyed = cube("keyed", (0, 0, 0)); keyed.keyframe_insert("location", frame=1)
keyed.location = (14.3, 0, 0); keyed.keyframe_insert("location", frame=144); linear(keyed)
still = cube("still", (0, 50, 0)); still.keyframe_insert("location", frame=1)
# An empty that turns, with a child 2 m beside it.
pivot = bpy.data.objects.new("pivot", None); scene.collection.objects.link(pivot); pivot.location = (0, 10, 0)
child = cube("child"); child.parent = pivot; child.location = (2, 0, 0)
pivot.keyframe_insert("rotation_euler", frame=1); pivot.rotation_euler = (0, 0, math.pi)
pivot.keyframe_insert("rotation_euler", frame=144); linear(pivot)
follower = cube("follower", (0, 20, 0)); follower.constraints.new("COPY_LOCATION").target = keyed
follower.constraints[0].use_offset = True
driven = cube("driven", (0, 30, 0)); driven.driver_add("location", 2).driver.expression = "frame * 0.1"
# A collection that is shown by a moving empty.
inside = cube("inside"); box = bpy.data.collections.new("box"); box.objects.link(inside)
scene.collection.objects.unlink(inside)
shower = bpy.data.objects.new("shower", None); shower.instance_type = "COLLECTION"; shower.instance_collection = box
scene.collection.objects.link(shower); shower.location = (0, 40, 0); shower.keyframe_insert("location", frame=1)
shower.location = (0, 40, 7); shower.keyframe_insert("location", frame=144); linear(shower)
hidden = cube("hidden", (0, 60, 0)); hidden.hide_render = True
late = cube("late", (0, 70, 0)); late.keyframe_insert("location", frame=200)
late.location.x = 9; late.keyframe_insert("location", frame=300)
"""),
    )
    seen = found(env)
    time = np.arange(144) / 143
    assert set(seen.tracks) == {"keyed", "pivot", "follower", "driven", "shower"}
    assert np.allclose(seen.tracks["keyed"], np.outer(time, [14.3, 0, 0]), atol=1e-4)
    turn = np.pi * time
    expected = np.stack([2 * np.cos(turn), 10 + 2 * np.sin(turn), 0 * turn], axis=1)
    assert np.allclose(seen.tracks["pivot"], expected, atol=1e-4)
    assert np.allclose(seen.tracks["follower"], [0, 20, 0] + np.outer(time, [14.3, 0, 0]), atol=1e-4)
    assert np.allclose(seen.tracks["driven"][[0, 143], 2], [0.1, 14.4], atol=1e-4)
    assert np.allclose(seen.tracks["shower"], [0, 40, 0] + np.outer(time, [0, 0, 7]), atol=1e-4)
    # What hangs unmoved from something that moves stands as well, where it is in the first frame.
    assert np.allclose(sorted(seen.statics[:, 1]), [10, 40, 50, 70], atol=1e-4)
    # The scene still shows the frame that it showed.
    assert env.unwrapped.episode.session.query("scene_info")["frame"] == 1


def test_odd_scenes_are_collected_or_refused(env: gym.Env) -> None:
    begin(env)
    run(
        env,
        code("""
bpy.ops.mesh.primitive_cube_add(size=1, location=(1, 2, 3)); flat = bpy.context.object; flat.scale = (0, 1, 1)
bpy.ops.mesh.primitive_cube_add(size=1, location=(4, 5, 6)); mirrored = bpy.context.object; mirrored.scale = (-2, 1, 1)
bpy.ops.mesh.primitive_cube_add(size=1, location=(0.5, 0, 0)); below = bpy.context.object; below.parent = mirrored
"""),
    )
    places = found(env).statics
    # The child at x = 0.5 of a parent of the scale -2 stands one metre to the left; the two are one thing.
    assert np.allclose(sorted(places.tolist()), [[1, 2, 3], [3.5, 5, 6]], atol=1e-4)
    run(
        env,
        code("""
last = None
for number in range(150):
    thing = bpy.data.objects.new("link", None); bpy.context.scene.collection.objects.link(thing)
    thing.parent = last; last = thing
bpy.ops.mesh.primitive_cube_add(); bpy.context.object.parent = last
"""),
    )
    *_, info = env.step({"name": "submit"})
    assert info["status"] == "agent_error" and info["score"] == 0 and "could not be collected" in info["reason"]


def test_components_are_files_that_survive_a_crash(env: gym.Env) -> None:
    _, info, _ = begin(env, 2)
    assert 'filepath="components/' in info["prompt"]
    listing = "import os; print(sorted(os.listdir('components')))"
    names = list(env.unwrapped.episode.case.public.data["components"])
    assert run(env, code(listing))["results"][0]["text"].strip() == str(names)
    # What an agent does to the files is its own loss, until Blender has to be replaced.
    run(env, code("import shutil; shutil.rmtree('components')"))
    *_, info = env.step(code("import os; os._exit(3)"))
    assert info["results"][0]["is_error"] and "restarted" in info["results"][0]["text"]
    assert run(env, code(listing))["results"][0]["text"].strip() == str(names)
    # Another case has other files, also when Blender was not replaced in between.
    begin(env, 6)
    begin(env, 2)
    assert run(env, code(listing))["results"][0]["text"].strip() == str(names)


def test_a_policy_without_code_can_solve_it() -> None:
    env = gym.make("SceneAct/Dynamic-v0", toolset="typed", **SMALL)
    try:
        _, _, truth = begin(env)
        calls = []
        for number, (name, pose) in enumerate(truth["placements"]):
            location = np.array(pose)[:3, 3].tolist()
            turn = float(np.degrees(np.arctan2(pose[1][0], pose[0][0])))
            calls += [
                {"name": "import_component", "arguments": {"component": name, "name": f"s{number}"}},
                {
                    "name": "set_object_pose",
                    "arguments": {"name": f"s{number}", "location": location, "rotation_deg": [0, 0, turn]},
                },
            ]
        for number, (name, poses) in enumerate(zip(truth["moving"], truth["poses"], strict=True)):
            turns = np.degrees(np.unwrap(np.arctan2(poses[:, 1, 0], poses[:, 0, 0])))
            keys = [
                {"frame": index + 1, "location": pose[:3, 3].tolist(), "rotation_deg": [0, 0, float(turn)]}
                for index, (pose, turn) in enumerate(zip(poses, turns, strict=True))
            ]
            calls += [
                {"name": "import_component", "arguments": {"component": name, "name": f"m{number}"}},
                {"name": "set_keyframes", "arguments": {"name": f"m{number}", "keyframes": keys}},
            ]
        for first in range(0, len(calls), 16):
            run(env, *calls[first : first + 16])
        *_, info = env.step({"name": "submit"})
        assert info["score_strict"] > 99.9
    finally:
        env.close()


def test_the_real_look_shows_the_same_scene(env: gym.Env) -> None:
    plain, *_ = begin(env)
    made = gym.make("SceneAct/DynamicPhotoreal-v0", **SMALL)
    try:
        real, info = made.reset(seed=0, options={"case_id": "dynamic_photoreal-test-0006"})
        assert "real footage" in info["system_prompt"] and "real footage" not in env.unwrapped.episode.system_prompt
        # Plain pictures have a white background, real ones have none.
        corner = (slice(None), slice(0, 4), slice(0, 4))
        assert (plain["references"][corner] == 255).all() and (real["references"][corner] < 250).any(axis=-1).all()
        # Where something moved it moved in both.
        moved = [np.abs(np.diff(o["references"].astype(float), axis=0)).mean(axis=(0, 3)) for o in (plain, real)]
        assert np.corrcoef(moved[0].ravel(), moved[1].ravel())[0, 1] > 0.5
        *_, info = made.step(OracleAgent(made).act(real, {}))
        assert info["score_strict"] > 99.99
    finally:
        made.close()
