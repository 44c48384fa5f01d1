"""Success of a model in training on instances that no demonstration shows: the same runs and records as any evaluation."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path

from evals import registry
from mjx_bench import records
from mjx_bench.cases import evaluation
from mjx_bench.errors import BenchError
from mjx_bench.manifest import Manifest
from mjx_bench.observe.choice import choose
from mjx_bench.schedule import run_pairs
from mjx_bench.settings import RunSettings, check_settings
from mjx_bench.task import Task
from policies.pi05.checkpoint import Checkpoint
from policies.pi05.policy import Pi05

FOLDER = "held_out"
_SEED = 195  # policy seed, as in published manifests
_LANES = 8


@dataclasses.dataclass(frozen=True)
class HeldOut:
    """What a model is evaluated on.

    Attributes:
      suite, index: the task.
      instances: how many.
      first: the first of them. A final evaluation takes those from 0, which are better not looked at before.
      query_interval: Q.
      renderer: of the model's pictures, `auto` or one of `mjx_bench.observe.choice.RENDERERS`.
    """

    suite: str
    index: int
    instances: int = 20
    first: int = 9_000
    query_interval: int = 8
    renderer: str = "auto"

    def check(self, horizon: int) -> None:
        """Refuses what the first evaluation would stumble over, steps later.

        Args:
          horizon: of the model, T.

        Raises:
          BenchError: more actions between two queries than the model returns, or a renderer that does not work here.
        """
        if self.query_interval > horizon:
            raise BenchError(f"--eval-interval {self.query_interval} is more than the model's {horizon} actions")
        choose(self.renderer)

    def cases(self) -> tuple[Task, Manifest]:
        """The task, and one case an instance."""
        registry.build([(self.suite, self.index)], seeds=(_SEED,), workers=1, progress=lambda line: None)
        task = registry.load_task(self.suite, self.index, seeds=(_SEED,))
        whole = evaluation([task], self.first + self.instances, _SEED)
        return task, dataclasses.replace(whole, cases=whole.cases[self.first :])

    def success(self, found: Checkpoint, run: Path, step: int, note: Callable[[str], None]) -> float:
        """Share of the instances that this checkpoint solves; records go to `run/held_out/STEP`.

        Raises:
          BenchError: see `mjx_bench.schedule.run_pairs`.
        """
        policy = Pi05(found, f"step {step}")
        settings = RunSettings(policy.spec.name, _LANES, self.query_interval, renderer=self.renderer)
        check_settings(settings, policy)
        _, manifest = self.cases()
        out = run / FOLDER / f"{step:08}"
        run_pairs(manifest, settings, out, load_task=registry.load_case, policy=policy, note=note)
        ended = [r.success for r in records.load_run(out).done.values() if r.success is not None]
        return sum(ended) / max(len(ended), 1)
