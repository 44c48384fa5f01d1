"""Gymnasium environments of every task that is installed; importing this module registers them.

    import gymnasium
    import evals.envs

    envs = gymnasium.make_vec("mjx-bench/tabletop-pick_place-v0", num_envs=16, reward="shaped")

or, in one, `gymnasium.make_vec("evals.envs:mjx-bench/tabletop-pick_place-v0", num_envs=16)`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from evals import registry
from evals.instances import TRAINING
from mjx_bench.errors import MissingExtra
from mjx_bench.task import Task

try:
    import gymnasium
except ImportError:
    raise MissingExtra("environments need the package gymnasium: pip install -e '.[gym]'") from None

if TYPE_CHECKING:
    from mjx_bench.single_env import TaskEnv
    from mjx_bench.vector_env import TaskVectorEnv

NAMESPACE, VERSION = "mjx-bench", 0


def env_id(suite: str, name: str) -> str:
    """The id that a task is registered under."""
    return f"{NAMESPACE}/{suite}-{name}-v{VERSION}"


def load(suite: str, index: int, reset_seed: int, options: dict[str, Any]) -> Task:
    """A task; `options` get the instances for training, where a suite sets some apart and nobody asked for others."""
    task = registry.load_task(suite, index, seeds=(reset_seed,))
    if len(task.load_init_states()) == TRAINING.stop:  # a suite of our own
        options.setdefault("instances", TRAINING)
    return task


def make_vec(suite: str, index: int, num_envs: int = 1, *, reset_seed: int = 195, **options: Any) -> TaskVectorEnv:
    """Environments of one task; `options` as for `vector_env.TaskVectorEnv`.

    Instances are drawn from those for training, in a suite that sets some apart.
    """
    from mjx_bench.vector_env import TaskVectorEnv

    task = load(suite, index, reset_seed, options)
    return TaskVectorEnv(task, num_envs, reset_seed=reset_seed, **options)


def make(suite: str, index: int, *, reset_seed: int = 195, **options: Any) -> TaskEnv:
    """One environment of a task; see `make_vec`."""
    from mjx_bench.single_env import TaskEnv

    return TaskEnv(load(suite, index, reset_seed, options), reset_seed=reset_seed, **options)


def register() -> None:
    """Registers the tasks of all suites whose packages are installed."""
    for suite in registry.suites():
        try:
            rows = registry.task_table(suite)
        except MissingExtra:
            continue
        for row in rows:
            gymnasium.register(
                env_id(suite, row["name"]),
                entry_point="evals.envs:make",
                vector_entry_point="evals.envs:make_vec",
                kwargs={"suite": suite, "index": row["index"]},
                order_enforce=False,
                disable_env_checker=True,
            )


register()
