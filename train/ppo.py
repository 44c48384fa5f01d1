"""Trains a policy on a task of the native suite with brax's PPO: `python -m train.ppo --task press_button`.

A folder gets the learning curve (`progress.json`, `progress.png`) and brax's own checkpoints.
"""

from __future__ import annotations

import dataclasses
import json
import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import tyro

from mjx_bench import runtime
from mjx_bench.errors import BenchError, MissingExtra, unknown_name

if TYPE_CHECKING:
    from mjx_bench.brax_env import TaskBraxEnv

# What `mjx_compile.CPU_OPTIONS` says of one function, for the whole process: brax compiles by itself.
XLA_FLAG = "--xla_cpu_use_fusion_emitters=false"


@dataclasses.dataclass(frozen=True)
class Ppo:
    """Train a policy with PPO, on the state of the scene, with the shaped reward."""

    task: str = "press_button"
    """Task, by name."""
    suite: str = "tabletop"
    """Its suite."""
    out: Path = Path("runs/ppo")
    """Folder of the results."""
    steps: int = 300_000
    """Control steps of training."""
    evals: int = 7
    """Times that the policy is evaluated, the first before any training."""
    eval_envs: int = 64
    """Episodes of an evaluation."""
    envs: int = 32
    """Episodes side by side."""
    instances: int = 256
    """Initial states to train on, the first of those for training."""
    reward: str = "shaped"
    """shaped, or sparse: success alone."""
    action_repeat: int = 4
    """Control steps that an action is held for."""
    episode: int | None = None
    """Control steps of an episode; the task's horizon if not given."""
    unroll: int = 10
    """Actions of each episode between two updates."""
    minibatches: int = 4
    """Minibatches of an update."""
    updates: int = 8
    """Times that the data of an update is used."""
    learning_rate: float = 5e-4
    """Of Adam."""
    entropy: float = 1e-3
    """Weight of the entropy bonus."""
    reward_scale: float = 10.0
    """What rewards are multiplied by: shaped ones are small beside the first guesses of a value network."""
    discount: float = 0.97
    """Of an action to the next."""
    width: int = 128
    """Units of each of the two hidden layers."""
    seed: int = 0
    """Of everything that is drawn."""


def prepare() -> None:
    """Sets the process up; before JAX is loaded.

    Raises:
      BenchError: JAX is loaded already, and would not read its flags again.
    """
    if "jax" in sys.modules:
        raise BenchError("JAX is loaded already; start the training in a process of its own (python -m train.ppo)")
    runtime.configure()
    flags = os.environ.get("XLA_FLAGS", "")
    if "xla_cpu_use_fusion_emitters" not in flags:
        os.environ["XLA_FLAGS"] = f"{flags} {XLA_FLAG}".strip()


def make_env(options: Ppo) -> TaskBraxEnv:
    """The environment that the options name.

    Raises:
      BenchError: a task that there is not, or that brax environments cannot do.
      MissingExtra: brax is not installed.
    """
    try:
        from mjx_bench.brax_env import TaskBraxEnv
    except ImportError:
        raise MissingExtra("PPO needs the package brax: pip install -e '.[rl]'") from None
    from evals import registry
    from evals.instances import TRAINING

    registry.check_suite(options.suite)
    rows = {row["name"]: int(row["index"]) for row in registry.task_table(options.suite)}
    known = rows.keys() | {str(index) for index in rows.values()}
    if options.task not in known:
        raise unknown_name(f"task of {options.suite}", options.task, rows)
    task = registry.load_task(options.suite, rows[options.task] if options.task in rows else int(options.task))
    first = TRAINING.start if options.suite == "tabletop" else 0
    return TaskBraxEnv(task, range(first, first + options.instances), reward=options.reward)


def train(options: Ppo) -> list[dict[str, float]]:
    """Trains, writes what came of it into the folder, and returns the learning curve.

    Returns:
      One row an evaluation: `steps` (control steps of training so far), `return` and `return_std` (over episodes), `success`
      and `void` (shares of episodes), `wall_s`.
    """
    if options.envs % options.minibatches:
        raise BenchError(f"--envs {options.envs} must be a multiple of --minibatches {options.minibatches}")
    env = make_env(options)
    import functools

    import jax
    import jax.numpy as jnp
    from brax.training.agents.ppo import networks
    from brax.training.agents.ppo import train as ppo

    from mjx_bench.brax_env import wrap

    if not hasattr(jax, "device_put_replicated"):  # JAX 0.10 dropped it, and brax 0.14 still calls it
        jax.device_put_replicated = lambda x, devices: jax.tree.map(lambda leaf: jnp.stack([leaf] * len(devices)), x)
    options.out.mkdir(parents=True, exist_ok=True)
    rows: list[dict[str, float]] = []
    start = time.perf_counter()

    def progress(steps: int, metrics: dict[str, Any]) -> None:
        row = {
            "steps": int(steps),
            "return": float(metrics["eval/episode_reward"]),
            "return_std": float(metrics["eval/episode_reward_std"]),
            "success": float(metrics["eval/episode_success"]),
            "void": float(metrics["eval/episode_void"]),
            "wall_s": round(time.perf_counter() - start, 1),
        }
        rows.append(row)
        (options.out / "progress.json").write_text(
            json.dumps({"options": _plain(options), "curve": rows}, indent=2) + "\n"
        )
        print(
            f"{row['steps']:8d} steps  return {row['return']:6.3f} ± {row['return_std']:.3f}"
            f"  success {row['success']:4.0%}  {row['wall_s']:7.1f} s",
            flush=True,
        )

    hidden = (options.width, options.width)
    ppo.train(
        env,
        num_timesteps=options.steps,
        episode_length=options.episode or env.task.horizon,
        action_repeat=options.action_repeat,
        wrap_env_fn=wrap,
        num_envs=options.envs,
        num_eval_envs=options.eval_envs,
        num_evals=options.evals,
        deterministic_eval=True,
        unroll_length=options.unroll,
        num_minibatches=options.minibatches,
        batch_size=options.envs // options.minibatches,
        num_updates_per_batch=options.updates,
        learning_rate=options.learning_rate,
        entropy_cost=options.entropy,
        discounting=options.discount,
        reward_scaling=options.reward_scale,
        normalize_observations=True,
        network_factory=functools.partial(
            networks.make_ppo_networks, policy_hidden_layer_sizes=hidden, value_hidden_layer_sizes=hidden
        ),
        seed=options.seed,
        progress_fn=progress,
        save_checkpoint_path=str((options.out / "checkpoints").resolve()),
    )
    plot(rows, options.out / "progress.png", f"PPO on {options.task.replace('_', ' ')}")
    return rows


def plot(rows: list[dict[str, float]], path: Path, title: str) -> None:
    """Draws the learning curve: return and success over control steps."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    steps = [row["steps"] / 1000 for row in rows]
    with plt.rc_context({"font.size": 10, "axes.spines.top": False, "axes.spines.right": False}):
        figure, axes = plt.subplots(1, 2, figsize=(9, 3.4), layout="constrained")
        axes[0].plot(steps, [row["return"] for row in rows], "o-", color="#0072B2")
        low, high = ([row["return"] + sign * row["return_std"] for row in rows] for sign in (-1, 1))
        axes[0].fill_between(steps, low, high, color="#0072B2", alpha=0.15, lw=0)
        axes[0].set(ylabel="return", xlabel="thousand control steps")
        axes[1].plot(steps, [100 * row["success"] for row in rows], "o-", color="#D55E00")
        axes[1].set(ylabel="success, %", xlabel="thousand control steps", ylim=(-3, 103))
        for ax in axes:
            ax.grid(alpha=0.25)
        figure.suptitle(title)
        figure.savefig(path, dpi=130)
        plt.close(figure)


def _plain(options: Ppo) -> dict[str, Any]:
    return dataclasses.asdict(options) | {"out": str(options.out)}


def main(args: list[str] | None = None) -> int:
    """Entry point of a process."""
    options = tyro.cli(Ppo, prog="train.ppo", args=args)
    try:
        prepare()
        train(options)
    except BenchError as error:
        print("train.ppo: error:", error, file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
