"""What goes into a pair and what comes out: the jobs of a run, how its arms are run, and the result of each."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from mjx_bench.cases import Case
from mjx_bench.task import Task
from mjx_bench.types import Arm, Verdict


@dataclasses.dataclass(frozen=True, kw_only=True)
class Manner:
    """How arms are run, whatever the policy.

    Attributes:
      replay: Dynamic arms replay their prefix instead of forking.
      no_event: nothing changes at the trigger: both arms must come out equal (an A/A run).
      faithful: removed objects behave as in the reference.
      run_on: success does not end an episode.
      delay: control steps from an observation to the first action that was chosen from it; the first query of an episode
        has none. Until then, the actions chosen before go on.
      cancel_on_change: actions that wait are dropped when the policy's observation changes at once (`observe.watching`).
      restoration: what is done to the policy's pictures (`observe.repair`).
    """

    replay: bool = False
    no_event: bool = False
    faithful: bool = False
    run_on: bool = False
    delay: int = 0
    cancel_on_change: bool = False
    restoration: str = "off"


@dataclasses.dataclass(frozen=True)
class Arms(Manner):
    """The same for one policy.

    Attributes:
      query_interval, horizon: Q and H.
    """

    query_interval: int
    horizon: int


@dataclasses.dataclass(frozen=True)
class Stored:
    """What an earlier run recorded of a Base arm, for the Dynamic arms that it left unfinished.

    Attributes:
      chunks: query step to [H, A]; executed again, to arrive at the same trigger in the same state.
      fork_sha256: case id to the digest of that state, for the cases whose Base arm is recorded.
    """

    chunks: Mapping[int, np.ndarray]
    fork_sha256: Mapping[str, str | None]


@dataclasses.dataclass(frozen=True)
class BaseJob:
    """One Base arm and what is still wanted of it.

    Attributes:
      key: equal for all its cases (`cases.base_key`).
      cases: the cases that share it; they differ in their event only.
      base_wanted: ids of cases whose Base arm is not recorded yet.
      dynamic_wanted: ids of cases whose Dynamic arm is not recorded yet.
      stored: the Base arm, where an earlier run recorded it for any of the cases.
    """

    key: str
    cases: tuple[Case, ...]
    base_wanted: frozenset[str]
    dynamic_wanted: frozenset[str]
    stored: Stored | None = None


@dataclasses.dataclass(frozen=True)
class ArmResult:
    """What one finished arm leaves behind.

    Attributes:
      trigger_step: policy steps executed when the trigger held, None if it never did. On the Base arm: when it would have.
      trigger_distance: metres from the end effector to the trigger's entity then.
      fork_sha256: digest of the lane at that moment, equal in both arms.
      event: what the event changed (Dynamic only).
      common_response_step: first query at or after the event that the Base arm made as well (Dynamic only).
      progress: by the task's rules, in [0, 1]; None for a task without.
      wall_s: seconds from start to end, other lanes' work included; a measure of nothing but progress.
      delay: as in `Arms`.
      waited: seconds that each of the arm's own queries took, see `Episode`.
      repair_s: seconds that the arm's own queries spent on their pictures, None without restoration.
    """

    arm: Arm
    verdict: Verdict
    reason: str
    end_step: int
    success_step: int | None
    success_end: bool
    query_steps: tuple[int, ...]
    arrays: Mapping[str, np.ndarray]
    init_sha256: str | None
    trigger_step: int | None = None
    trigger_distance: float | None = None
    fork_sha256: str | None = None
    event: Mapping[str, Any] | None = None
    common_response_step: int | None = None
    progress: float | None = None
    wall_s: float = 0.0
    delay: int = 0
    waited: tuple[float, ...] = ()
    repair_s: float | None = None

    @property
    def first_response_step(self) -> int | None:
        """First query at or after the event, None if the arm ended before one."""
        if self.trigger_step is None:
            return None
        return next((s for s in self.query_steps if s >= self.trigger_step), None)

    @property
    def stale_actions(self) -> int | None:
        """Actions executed after the event that were chosen before it; None without a response."""
        response = self.first_response_step
        if response is None or self.trigger_step is None:
            return None
        return min(response + self.delay, self.end_step) - self.trigger_step


Emit = Callable[[Case, ArmResult], None]
Report = Callable[[Case, Task, ArmResult], None]


@dataclasses.dataclass(frozen=True)
class Pass:
    """Jobs of one task that are run in one way.

    Attributes:
      arms: how.
      jobs: of the task.
      report: receives every finished arm, from any thread.
    """

    arms: Arms
    jobs: tuple[BaseJob, ...]
    report: Report

    @property
    def wanted(self) -> int:
        """Arms that are to be recorded."""
        return sum(len(job.base_wanted) + len(job.dynamic_wanted) for job in self.jobs)


def untriggered(base: ArmResult) -> ArmResult:
    """The Dynamic arm of a case whose trigger never held: the same run, and so the same outcome."""
    why = "base arm void" if base.verdict is Verdict.VOID else "event not triggered"
    return dataclasses.replace(base, arm=Arm.DYNAMIC, reason=f"{base.reason}; {why}")
