"""Trains a PPO policy to find the hidden camera, from pictures to small moves. Needs the extra `rl`.

    python examples/train_ppo_camera.py --steps 20000 --size 64 --out ppo-camera

Learning anything takes far more steps than the default, which only shows that everything fits together. The policy sees
the reference and what its camera sees side by side; the reward is progress in the hidden score, which exists in the
split `train` only. At the end the policy plays rooms of the split `val` with the plain score.
"""

from __future__ import annotations

import argparse
from functools import partial
from pathlib import Path


def main() -> None:
    """Reads the options, trains, saves, and evaluates."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=512, help="environment steps to train for (default: 512)")
    parser.add_argument("--size", type=int, default=64, help="picture size in pixels, 16 to 1024 (default: 64)")
    parser.add_argument("--envs", type=int, default=1, help="environments, each with a Blender of its own (default: 1)")
    parser.add_argument("--samples", type=int, default=2, help="Cycles samples per pixel (default: 2)")
    parser.add_argument("--max-steps", type=int, default=16, help="steps of an episode (default: 16)")
    parser.add_argument("--episodes", type=int, default=2, help="rooms to evaluate on afterwards (default: 2)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=Path("ppo-camera"), help="folder for the policy")
    options = parser.parse_args()

    try:
        import stable_baselines3
        import torch
    except ImportError as missing:
        raise SystemExit(f"{missing}: install the extra rl, pip install 'sceneact-gym[rl]'") from None
    from stable_baselines3.common.env_util import make_vec_env
    from stable_baselines3.common.vec_env import DummyVecEnv, SubprocVecEnv

    from sceneact_gym.envs.wrappers import make_camera_policy_env

    torch.set_num_threads(1)  # The small network gains nothing from more, and Blender needs the cores.
    gamma = 0.99
    make = partial(
        make_camera_policy_env,
        size=options.size,
        max_steps=options.max_steps,
        # With several environments each takes one core.
        render={"samples": options.samples, "threads": 0 if options.envs == 1 else 1},
    )
    envs = make_vec_env(
        partial(make, gamma=gamma),
        n_envs=options.envs,
        seed=options.seed,
        vec_env_cls=DummyVecEnv if options.envs == 1 else SubprocVecEnv,
    )
    rollout = max(2, min(256, options.steps // options.envs))
    try:
        policy = stable_baselines3.PPO(
            # The convolutional network needs pictures of 36 pixels at least.
            "CnnPolicy" if options.size >= 36 else "MlpPolicy",
            envs,
            n_steps=rollout,
            batch_size=rollout * options.envs,
            n_epochs=4,
            gamma=gamma,
            seed=options.seed,
            device="cpu",
            verbose=1,
        )
        policy.learn(options.steps)
    finally:
        envs.close()
    options.out.mkdir(parents=True, exist_ok=True)
    policy.save(options.out / "policy.zip")
    print(f"saved {options.out / 'policy.zip'}")

    env = make(split="val")
    try:
        for episode in range(options.episodes):
            observation, info = env.reset(seed=options.seed + episode)
            case, over = info["case_id"], False
            while not over:
                action, _ = policy.predict(observation, deterministic=True)
                observation, _, terminated, truncated, info = env.step(action)
                over = terminated or truncated
            print(f"{case}: score {info['score']}, {info['metrics']}")
    finally:
        env.close()


if __name__ == "__main__":
    main()
