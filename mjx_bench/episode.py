"""One arm being run: what is left to execute, what the policy remembers, and the traces that go into its record."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Mapping
from typing import Any

import numpy as np

from mjx_bench.checkers import START, Standing
from mjx_bench.observe.repair import Repaired
from mjx_bench.observe.watching import Sight
from mjx_bench.physics.base import Physics
from mjx_bench.task import Push
from mjx_bench.types import Verdict


@dataclasses.dataclass
class Episode:
    """One arm being run. Traces grow as it runs; a fork copies them.

    Attributes:
      key: what randomness is folded from; equal in both arms of a pair.
      carry: the policy's memory after the last query.
      pending: [n, A] actions still to execute, before the next query.
      policy_seed: of its case, as the manifest has it; None where there are no cases.
      instance: index of the initial state that it began with.
      settle: control steps of `pending` that belong to the settling phase, before the policy acts.
      stored_chunks: query step to [H, A]; a chunk recorded earlier is executed instead of a new one.
      step: policy steps executed.
      verdict, reason: how and why the arm ended, once it has.
      success_step: steps after which the goal first held; success_end: whether it held after the last step.
      signals: what the goal was judged by after each step, by `Signals` field.
      pushes: policy step to the push that comes with it.
      standing: how it stands by the task's rules.
      sight: what the policy could see after the last step, where changes are watched for.
      cancels: steps after which actions were dropped because of one.
      repaired: what was done to the pictures of each query, where they are repaired.
      waited: seconds from asking the policy to its answer, of each query of this arm's own; turns of other tasks' workers
        are part of it, and so are the other lanes of the batch.
    """

    key: str
    carry: Any
    pending: np.ndarray
    policy_seed: int | None = None
    instance: int | None = None
    settle: int = 0
    stored_chunks: Mapping[int, np.ndarray] = dataclasses.field(default_factory=dict)
    step: int = 0
    verdict: Verdict | None = None
    reason: str = ""
    success_step: int | None = None
    success_end: bool = False
    started: float = dataclasses.field(default_factory=time.perf_counter)
    query_steps: list[int] = dataclasses.field(default_factory=list)
    chunks: list[np.ndarray] = dataclasses.field(default_factory=list)
    actions: list[np.ndarray] = dataclasses.field(default_factory=list)
    eef_pos: list[np.ndarray] = dataclasses.field(default_factory=list)
    target_pos: list[np.ndarray] = dataclasses.field(default_factory=list)
    signals: dict[str, list[np.ndarray]] = dataclasses.field(default_factory=dict)
    pushes: Mapping[int, Push] = dataclasses.field(default_factory=dict)
    standing: Standing = START
    sight: Sight | None = None
    cancels: list[int] = dataclasses.field(default_factory=list)
    repaired: list[Repaired] = dataclasses.field(default_factory=list)
    waited: list[float] = dataclasses.field(default_factory=list)

    def fork(self) -> Episode:
        """An independent copy that continues from here: same memory, same actions in flight, nothing stored to repeat."""
        return dataclasses.replace(
            self,
            stored_chunks={},
            pending=self.pending.copy(),
            query_steps=list(self.query_steps),
            chunks=list(self.chunks),
            actions=list(self.actions),
            eef_pos=list(self.eef_pos),
            target_pos=list(self.target_pos),
            signals={name: list(rows) for name, rows in self.signals.items()},
            cancels=list(self.cancels),
            repaired=list(self.repaired),
            waited=[],
            started=time.perf_counter(),
        )

    def skip_settling(self) -> None:
        """For a lane that is put into the state that it settled to before."""
        self.pending, self.settle = self.pending[:0], 0

    def finish(self, verdict: Verdict, reason: str) -> None:
        self.verdict, self.reason = verdict, reason

    @property
    def repair_s(self) -> float | None:
        """Seconds that this arm's own queries spent on pictures; None where none were repaired."""
        own = self.repaired[len(self.repaired) - len(self.waited) :]
        return sum(r.seconds for r in own) if self.repaired else None

    def arrays(self) -> dict[str, np.ndarray]:
        """Traces for the record.

        actions [T, A], eef_pos and target_pos [T, 3], chunks [n, H, A], query_steps [n], and the goal's signals as
        `signals.<field>` [T, ...], those that it reads. See `records.Record` for those that only some runs have.
        """
        traces: dict[str, np.ndarray] = {
            "actions": np.array(self.actions, np.float32),
            "eef_pos": np.array(self.eef_pos, np.float64).reshape(-1, 3),
            "target_pos": np.array(self.target_pos, np.float64).reshape(-1, 3),
            "chunks": np.array(self.chunks, np.float32),
            "query_steps": np.array(self.query_steps, np.int32),
        }
        if self.sight is not None:
            traces["cancel_steps"] = np.array(self.cancels, np.int32)
        if self.repaired:
            traces["repaired"] = np.array([r.opened for r in self.repaired])
        return traces | {f"signals.{name}": np.array(rows) for name, rows in self.signals.items()}


def apply_push(physics: Physics, lane: int, pushes: Mapping[int, Push], step: int) -> None:
    """Begins the push that comes with a policy step, or ends the one that came with the step before."""
    if (push := pushes.get(step)) is not None:
        physics.edit(lane, [push])
    elif (last := pushes.get(step - 1)) is not None:
        physics.edit(lane, [Push(last.entity, np.zeros(3))])
