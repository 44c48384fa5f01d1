"""Collects demonstrations of tasks into one dataset; an interrupted collection goes on with the same call."""

from __future__ import annotations

import collections
import dataclasses
import importlib.metadata
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import Any

from mjx_bench.errors import BenchError
from mjx_bench.observe.choice import choose
from mjx_bench.observe.pictures import check_cameras
from mjx_bench.policy import Policy
from mjx_bench.schedule import check_actions
from mjx_bench.task import Task
from mjx_bench.types import Verdict
from train.collect import split
from train.collect.assemble import assemble
from train.collect.demonstrator import Demonstrator, Errors
from train.collect.films import Filming
from train.collect.rollouts import runs
from train.collect.staging import Staging, check_plan, failure, writing
from train.lerobot import read, schema, video

# More instances than these without a success, and the expert cannot do it.
_TRIES, _SPARE = 4, 20


@dataclasses.dataclass(frozen=True)
class Wish:
    """What is to be collected.

    Attributes:
      episodes: successful ones, of each task.
      version: of the dataset, "v2.1" or "v3.0".
      image_size: pixels a side.
      renderer: "gl", "warp", or "auto".
      errors: of the execution.
      first: instance to begin with; the first for training if None.
    """

    episodes: int
    version: str = schema.V21
    image_size: int = 64
    renderer: str = "auto"
    errors: Errors = dataclasses.field(default_factory=Errors)
    first: int | None = None


@dataclasses.dataclass(frozen=True)
class State:
    """How far a collection is.

    Attributes:
      done: successes that are filmed, of all tasks.
      wanted: successes, of all tasks.
      failed: instances that the expert did not solve.
      before: how many of the successes were there before this call.
    """

    done: int
    wanted: int
    failed: int
    before: int


def collect(
    tasks: Sequence[Task],
    expert: Policy,
    wish: Wish,
    out: Path,
    *,
    lanes: int,
    threads: int = 1,
    progress: Callable[[State], None] = lambda state: None,
) -> dict[str, Any]:
    """Runs the expert on instances for training until there are enough successes, and writes them as a dataset.

    What is written depends on neither `lanes` nor `threads`, nor on where it was interrupted.

    Args:
      tasks: all of one suite.
      expert: what is demonstrated, see `embodiments`.
      wish: what to collect.
      out: folder of the dataset; a whole one of the same wish is left as it is.
      lanes, threads: see `rollouts.runs`.
      progress: told at the start and after each episode.

    Returns:
      `meta/demonstrations.json` of the dataset: where its episodes come from, and which instances failed.

    Raises:
      BenchError: before any work, a wish that cannot be fulfilled; and with everything finished kept, an expert that hardly
        ever succeeds, or a file that cannot be written.
    """
    plan = planned(tasks, expert, wish)
    if (whole := _whole(out, plan)) is not None:
        progress(State(len(tasks) * wish.episodes, len(tasks) * wish.episodes, 0, len(tasks) * wish.episodes))
        return whole
    video.check_encoder()
    staging = Staging(out, plan)
    ready = [sum(failure(p) is None for p in staging.done(task).values()) for task in tasks]
    before = sum(ready)
    for i, task in enumerate(tasks):

        def told(done: int, failed: int, others: int = sum(ready) - ready[i]) -> None:
            progress(State(others + done, len(tasks) * wish.episodes, failed, before))

        _collect_task(task, expert, wish, plan, staging, lanes, threads, told)
        ready[i] = wish.episodes
    with writing(out):
        found = assemble(out, tasks, plan, staging)
    staging.clear()
    return found


def planned(tasks: Sequence[Task], expert: Policy, wish: Wish) -> dict[str, Any]:
    """What decides what the dataset holds; raises `BenchError` for what cannot be."""
    suites = {task.suite for task in tasks}
    if len(suites) != 1:
        raise BenchError(f"demonstrations of {', '.join(sorted(suites)) or 'nothing'}; give tasks of one suite")
    if wish.version not in schema.VERSIONS:
        raise BenchError(f"version {wish.version!r}; give {' or '.join(schema.VERSIONS)}")
    if wish.image_size < 16 or wish.image_size % 2:
        raise BenchError(f"pictures of {wish.image_size} pixels a side; give an even number of at least 16")
    (suite,) = suites
    first = split.check_first(suite, wish.first, wish.episodes * _TRIES + _SPARE)
    cameras = _cameras(tasks[0])
    check_cameras(dataclasses.replace(expert.spec, cameras=cameras, image_size=wish.image_size), tasks)
    check_actions(expert.spec, tasks)
    renderer, platform = choose(wish.renderer)
    allowed, kept = split.training_instances(suite), split.evaluation_instances(suite)
    return {
        "suite": suite,
        "tasks": [{"name": task.name, "index": task.index, "version": task.version} for task in tasks],
        "expert": expert.spec.name,
        "episodes": wish.episodes,
        "format": wish.version,
        "image_size": wish.image_size,
        "cameras": list(cameras),
        "renderer": renderer,
        "renderer_platform": platform,
        "errors": dataclasses.asdict(wish.errors),
        "first": first,
        "training_instances": [allowed.start, allowed.stop],
        "evaluation_instances": [kept.start, kept.stop],
        "mujoco": importlib.metadata.version("mujoco"),
    }


def _cameras(task: Task) -> tuple[str, ...]:
    """Those of the robot's own observation, all that its benchmark has: two at a table, three on a base that drives."""
    return task.scene.observed if len(task.scene.observed) > 1 else task.scene.cameras[:2]


def _whole(out: Path, plan: dict[str, Any]) -> dict[str, Any] | None:
    """What a folder says that holds the dataset already; None where it is to be made."""
    if not (out / schema.INFO).is_file():
        return None
    if not (out / schema.DEMONSTRATIONS).is_file():
        raise BenchError(f"{out}: holds another dataset; give another folder")
    found = read.read_json(out / schema.DEMONSTRATIONS)
    names = {name: value for name, value in plan.items() if name != "tasks"}
    check_plan(out, found, names)
    theirs = [{k: row[k] for k in ("name", "index", "version")} for row in found["tasks"]]
    check_plan(out, {"tasks": theirs}, {"tasks": plan["tasks"]})
    return found


def _collect_task(
    task: Task,
    expert: Policy,
    wish: Wish,
    plan: dict[str, Any],
    staging: Staging,
    lanes: int,
    threads: int,
    told: Callable[[int, int], None],
) -> None:
    """Stages instances of a task, in order, until enough of them are successes."""
    done = staging.done(task)
    failed = sum(failure(path) is not None for path in done.values())
    solved, filmed = len(done) - failed, len(done) - failed
    told(filmed, failed)
    if solved >= wish.episodes:
        return
    running, tried = 0, len(done)

    left = iter(i for i in range(plan["first"], plan["training_instances"][1]) if i not in done)

    def take() -> int | None:
        # No more than would be enough if all succeeded: so the same are run however many lanes there are.
        nonlocal running, tried
        if solved + running >= wish.episodes:
            return None
        if tried >= wish.episodes * _TRIES + _SPARE:
            raise BenchError(
                f"{task.suite} {task.name}: {expert.spec.name} solved {solved} of {tried - running} instances;"
                f" it cannot show {wish.episodes}"
            )
        running, tried = running + 1, tried + 1
        return next(left)

    waiting: collections.deque[tuple[Future[None], bool]] = collections.deque()
    demonstrator = Demonstrator(expert, wish.errors)
    with Filming(task, plan["cameras"], wish.image_size, plan["renderer"], staging) as films:
        for run in runs(task, demonstrator, take, lanes, threads):
            success = run.episode.verdict is Verdict.SUCCESS
            running, solved, failed = running - 1, solved + success, failed + (not success)
            waiting.append((films.film(run), success))
            while waiting and (len(waiting) > lanes or waiting[0][0].done()):
                future, counts = waiting.popleft()
                future.result()
                filmed += counts
                told(filmed, failed)
        for future, counts in waiting:
            future.result()
            filmed += counts
            told(filmed, failed)
