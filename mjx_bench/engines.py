"""An engine for a task: its scene, the contacts that are judged, its control law, and the test that ends an episode."""

from __future__ import annotations

from collections.abc import Sequence

from mjx_bench.checkers import ending
from mjx_bench.physics.base import Physics
from mjx_bench.physics.choice import make_physics
from mjx_bench.physics.scene import signal_index
from mjx_bench.policy import action_mode_for
from mjx_bench.scenario import Trigger
from mjx_bench.task import Task
from mjx_bench.triggers import touches_judged


def engine_of(
    task: Task,
    backend: str,
    lanes: int,
    action_mode: str,
    *,
    interval: int,
    triggers: Sequence[Trigger] = (),
    row: int = 0,
    threads: int = 1,
    tile: int | None = None,
) -> Physics:
    """An engine with `lanes` copies of a task's scene.

    Args:
      task: what will be judged.
      backend: an engine's name, not `auto`.
      lanes: how many.
      action_mode: of a policy, see `PolicySpec`.
      interval: Q, control steps of a chunk at most.
      triggers: what else is read.
      row: an initial state that will be loaded: all have the same fields of their own.
      threads, tile: as for `physics.choice.make_physics`.

    Raises:
      BenchError: a goal that does not fit the scene, or a scene that the engine cannot simulate.
      MissingExtra: an engine whose package is not installed.
    """
    touches = touches_judged(task, triggers, engine=backend)
    return make_physics(
        backend,
        task.scene,
        touches,
        lanes,
        action_mode_for(action_mode, task),
        task.substeps,
        threads=threads,
        interval=interval,
        fields=task.fields_of(row),
        success=ending(task, signal_index(task.scene, touches)),
        tile=tile,
    )
