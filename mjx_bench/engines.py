"""An engine for a task: its scene, the contacts that are judged, its control law, and the test that ends an episode."""

from __future__ import annotations

import contextlib
from collections import defaultdict
from collections.abc import Iterator, Sequence

from mjx_bench.checkers import ending
from mjx_bench.errors import BenchError, MissingExtra
from mjx_bench.physics.base import Physics
from mjx_bench.physics.choice import make_physics, room_in
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
    touches: Sequence[tuple[str, str]] = (),
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
      touches: pairs of names whose contacts are to be reported besides. With fingers, a compiled engine reports those of
        all entities anyway.
      row: an initial state that will be loaded: all have the same fields of their own.
      threads, tile: as for `physics.choice.make_physics`.

    Raises:
      BenchError: a goal that does not fit the scene, or a scene that the engine cannot simulate.
      MissingExtra: an engine whose package is not installed.
    """
    touches = tuple(dict.fromkeys((*touches_judged(task, triggers, engine=backend), *touches)))
    with _named(task):
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


def check_scenes(tasks: Sequence[Task], backend: str) -> str:
    """Refuses what an engine cannot simulate of `tasks`, and says in a line what its programs have room for.

    Args:
      tasks: those that will be run.
      backend: an engine's name, not `auto`; of `c` there is nothing to say.

    Raises:
      BenchError: the first task whose scene the engine cannot simulate, by name.
    """
    found: dict[str, dict[str, int]] = {}
    for task in tasks:
        if task.scene.key not in found:
            with _named(task):
                found[task.scene.key] = room_in(backend, task.scene, task.fields_of(0))
    sizes: dict[str, set[int]] = defaultdict(set)
    for room in found.values():
        for name, size in room.items():
            sizes[name].add(size)
    said = (
        f"{name} {min(values)}" + (f" to {max(values)}" if len(values) > 1 else "") for name, values in sizes.items()
    )
    return f"engine {backend}, {len(found)} scene{'s' * (len(found) != 1)}: {', '.join(said)}" if sizes else ""


@contextlib.contextmanager
def _named(task: Task) -> Iterator[None]:
    """Says of which task an engine complains."""
    try:
        yield
    except MissingExtra:
        raise
    except BenchError as error:
        raise BenchError(f"{task.suite} task {task.index}: {error}") from None
