"""Articulated through real tool calls in real Blender: oracle, floor, what lies between, and tricks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

from sceneact_gym.agents import OracleAgent
from sceneact_gym.tasks.articulated import _checked_counts, motion_code

# One with a single door, and one with two doors and two drawers.
ONE, FOUR = "articulated-test-0011", "articulated-test-0012"


@pytest.fixture(scope="module")
def env() -> Iterator[gym.Env]:
    made = gym.make("SceneAct/Articulated-v0", render_size=32, reference_size=32, render={"samples": 1})
    yield made
    made.close()


def begin(env: gym.Env, case_id: str) -> tuple[Any, dict[str, Any], Any]:
    observation, info = env.reset(seed=0, options={"case_id": case_id})
    return observation, info, env.unwrapped.episode.case.truth


def code(text: str) -> dict[str, Any]:
    return {"name": "execute_blender_code", "arguments": {"code": text}}


def finish(env: gym.Env, *calls: dict[str, Any], errors: bool = False) -> dict[str, Any]:
    *_, info = env.step([*calls, {"name": "submit"}])
    assert any(result["is_error"] for result in info["results"]) == errors, info["results"]
    return info


def travels(truth: Any) -> dict[int, float]:
    """Mean way of a moving part's vertices, by hand."""
    moved = np.linalg.norm(truth["frames"][16].astype(float) - truth["frames"][0], axis=1)
    ids = [part["id"] for part in truth["parts"] if part["joint_type"]]
    return {number: float(moved[truth["part_of_vertex"] == number].mean()) for number in ids}


@pytest.mark.parametrize("case_id", [ONE, FOUR])
def test_the_oracle_reaches_the_top_and_doing_nothing_the_floor(env: gym.Env, case_id: str) -> None:
    observation, info, truth = begin(env, case_id)
    assert observation["references"].shape == (32, 32, 32, 3)
    assert info["budget"] == 60
    agent = OracleAgent(env)
    *_, info = env.step(agent.act(observation, info))
    assert info["status"] == "ok" and not info["metrics"]["fallback"], info
    assert info["score_strict"] >= 99 and info["score_paper"] >= 99
    assert info["metrics"]["recall"] == 1 and info["metrics"]["false_move"] == 0
    assert info["metrics"]["type_mismatch"] == info["metrics"]["reverse_dir"] == info["metrics"]["off_axis"] == 0

    begin(env, case_id)
    *_, info = env.step([])
    assert info["status"] == "ok" and info["score_strict"] < 1e-3
    # The reference of `paper` is 1 m, whatever the object: standing still costs the largest way, and no more.
    assert np.isclose(info["score_paper"], 100 * (1 - max(travels(truth).values())), atol=1e-3)


def test_the_agents_frames_are_those_of_the_pictures(env: gym.Env) -> None:
    observation, _, truth = begin(env, FOUR)
    references = observation["references"]
    assert not np.array_equal(references[0], references[16])
    assert np.array_equal(references[8], references[24])
    *_, info = env.step(
        [
            code(motion_code(truth)),
            *({"name": "render_scene_view", "arguments": {"camera": "camera", "frame": f}} for f in (1, 17, 25)),
            {"name": "read_reference_frames", "arguments": {"indices": [0, 16, 24]}},
        ]
    )
    assert not any(result["is_error"] for result in info["results"])
    shown = [result["images"][0] for result in info["results"][1:4]]
    for picture, reference in zip(shown, info["results"][4]["images"], strict=True):
        assert np.array_equal(picture, reference)


def test_between_nothing_and_everything(env: gym.Env) -> None:
    _, _, truth = begin(env, FOUR)
    episode = env.unwrapped.episode

    def scores(**changed: Any) -> tuple[Any, Any]:
        *_, info = env.step(code(motion_code({**truth, **changed})))
        assert not info["results"][0]["is_error"]
        found = episode.score_now()
        return found["strict"], found["paper"]

    # One part forgotten: charged what it should have moved.
    largest = max(travels(truth).values())
    moving = [part for part in truth["parts"] if part["joint_type"]]
    left = {**moving[0], "joint_type": None}
    strict, _ = scores(parts=[left if part is moving[0] else part for part in truth["parts"]])
    assert np.isclose(strict.score, 100 * (1 - travels(truth)[left["id"]] / largest), atol=0.5)
    assert strict.metrics["recall"] == 0.75

    back = [min(frame, 32 - frame) for frame in range(32)]
    strict, paper = scores(poses=truth["poses"][[number // 2 for number in back]])
    assert 35 < strict.score < 65 and strict.score < paper.score < 99
    # Faster, and without the way back: speed is free.
    assert scores(poses=truth["poses"][[min(4 * frame, 16) for frame in range(32)]])[0].score >= 99
    strict, _ = scores(poses=np.linalg.inv(truth["poses"]))
    assert strict.score < 1 and strict.metrics["reverse_dir"] > 0


def test_pivots_and_sparse_keys_count_and_places_without_keys_do_not_move(env: gym.Env) -> None:
    _, _, truth = begin(env, ONE)
    episode = env.unwrapped.episode
    (part,) = (part for part in truth["parts"] if part["joint_type"])
    names = list(part["nodes"])
    env.step(code(f"for name in {names!r}: bpy.data.objects[name].rotation_euler = (0, 0, 1)"))
    assert episode.score_now()["strict"].score < 1
    x, y, z = part["origin"]
    env.step(
        code(f"""
pivot = bpy.data.objects.new("pivot", None)
bpy.context.scene.collection.objects.link(pivot)
pivot.location = ({x}, {y}, {z})
for frame, angle in ((1, 0), (17, {part["range"] * part["axis"][2]}), (33, 0)):
    pivot.rotation_euler[2] = angle
    pivot.keyframe_insert("rotation_euler", frame=frame)
for name in {names!r}:
    thing = bpy.data.objects[name]
    thing.rotation_mode = "XYZ"
    thing.rotation_euler = (0, 0, 0)
    thing.parent = pivot
    thing.matrix_parent_inverse.translation = ({-x}, {-y}, {-z})
""")
    )
    # Eased between three keys: the path is right, but openings between the true ones meet the nearer one.
    assert 95 < episode.score_now()["strict"].score < 99
    env.step(
        code(
            "action = bpy.data.objects['pivot'].animation_data.action\n"
            "for curve in action.layers[0].strips[0].channelbags[0].fcurves:\n"
            "    for point in curve.keyframe_points:\n"
            "        point.interpolation = 'LINEAR'"
        )
    )
    assert episode.score_now()["strict"].score >= 99


def test_the_scene_tells_nothing_of_the_truth(env: gym.Env) -> None:
    begin(env, FOUR)
    episode = env.unwrapped.episode
    *_, info = env.step(
        code(
            "things = bpy.data.objects\n"
            "print([t.name for t in things if t.type == 'MESH' and (t.matrix_world != t.matrix_world.Identity(4))])\n"
            "print([t.name for t in things if t.parent or t.animation_data or t.keys()], list(bpy.data.actions))\n"
            "print(sorted(t.name for t in things if t.type == 'MESH'))"
        )
    )
    assert info["results"][0]["text"] == f"[]\n[] []\n{episode.case.public.data['objects']}\n"
    words = (episode.system_prompt + episode.prompt).lower()
    assert not any(word in words for word in ("cabinet", "drawer", "door", "microwave"))


def test_tricks_end_in_a_low_score_or_an_error(env: gym.Env) -> None:
    _, _, truth = begin(env, ONE)
    name = truth["parts"][0]["nodes"][0]
    gone = finish(env, code(f"bpy.data.objects.remove(bpy.data.objects[{name!r}])"), errors=True)
    assert gone["status"] == "ok" and gone["score_strict"] < 1

    # Other vertex counts are compared by nearest neighbours; the motion still counts.
    begin(env, ONE)
    split = f"bpy.data.objects[{name!r}].modifiers.new('split', 'SUBSURF').subdivision_type = 'SIMPLE'"
    other = finish(env, code(motion_code(truth)), code(split))
    assert other["metrics"]["fallback"] and other["score_strict"] > 80

    for bad in (
        f"bpy.data.objects[{name!r}].location = (float('nan'), 0, 0)",
        f"bpy.data.objects[{name!r}].data.clear_geometry()\n"
        f"bpy.data.objects[{name!r}].data.from_pydata([(0, 0, i) for i in range(400001)], [], [])",
    ):
        begin(env, ONE)
        info = finish(env, code(bad))
        assert info["status"] == "agent_error" and info["score_strict"] == info["score_paper"] == 0, info


def test_what_the_worker_says_is_checked() -> None:
    good = np.zeros((64, 3), "<f4").tobytes()
    assert _checked_counts({"vertices": [2] * 32}, [good]) == [2] * 32
    for answer, blobs in (
        (None, [good]),
        ({}, [good]),
        ({"vertices": [2] * 31}, [good]),
        ({"vertices": [2.0] * 32}, [good]),
        ({"vertices": [True] * 32}, [good]),
        ({"vertices": [-2, 6, *[2] * 30]}, [good]),
        ({"vertices": [3] * 32}, [good]),
        ({"vertices": [2] * 32}, []),
        ({"vertices": [2] * 32}, [good, good]),
        ({"vertices": [2] * 32}, [np.full((64, 3), np.nan, "<f4").tobytes()]),
    ):
        assert _checked_counts(answer, blobs) is None
