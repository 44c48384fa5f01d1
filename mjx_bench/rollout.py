"""The one loop: observe, act, execute. It advances episodes in lanes and knows nothing of pairs.

Everything happens at the granularity of one query. A tick asks the policy for a chunk in every lane that has run out of
actions, then executes up to Q control steps in all of them. Lanes with fewer actions left (an arm that continues in the
middle of a chunk, the last settling steps) wait for the rest, so that queries stay batched.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from mjx_bench.checkers import START, Standing, judge_of, stack, unstack
from mjx_bench.errors import BenchError
from mjx_bench.observe.pictures import Pictures
from mjx_bench.physics.base import Physics
from mjx_bench.policy import ACTION_DIMS, Observation, Policy, action_mode_for
from mjx_bench.predicates import Test
from mjx_bench.seeds import policy_seed, query_seed
from mjx_bench.signals import SignalIndex
from mjx_bench.task import Push, Task
from mjx_bench.types import Verdict


class PolicyMistake(BenchError):
    """A policy broke its contract in a way that no other case would escape; the run stops."""


@dataclasses.dataclass
class Episode:
    """One arm being run. Traces grow as it runs; a fork copies them.

    Attributes:
      key: what randomness is folded from; equal in both arms of a pair.
      carry: the policy's memory after the last query.
      pending: [n, A] actions still to execute, before the next query.
      settle: control steps of `pending` that belong to the settling phase, before the policy acts.
      stored_chunks: query step to [H, A]; a chunk recorded earlier is executed instead of a new one.
      step: policy steps executed.
      verdict, reason: how and why the arm ended, once it has.
      success_step: steps after which the goal first held; success_end: whether it held after the last step.
      signals: what the goal was judged by after each step, by `Signals` field.
      pushes: policy step to the push that comes with it.
      standing: how it stands by the task's rules.
    """

    key: str
    carry: Any
    pending: np.ndarray
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
            started=time.perf_counter(),
        )

    def finish(self, verdict: Verdict, reason: str) -> None:
        self.verdict, self.reason = verdict, reason

    def arrays(self) -> dict[str, np.ndarray]:
        """Traces for the record.

        actions [T, A], eef_pos and target_pos [T, 3], chunks [n, H, A], query_steps [n], and the goal's signals as
        `signals.<field>` [T, ...], those that it reads.
        """
        traces: dict[str, np.ndarray] = {
            "actions": np.array(self.actions, np.float32),
            "eef_pos": np.array(self.eef_pos, np.float64).reshape(-1, 3),
            "target_pos": np.array(self.target_pos, np.float64).reshape(-1, 3),
            "chunks": np.array(self.chunks, np.float32),
            "query_steps": np.array(self.query_steps, np.int32),
        }
        return traces | {f"signals.{name}": np.array(rows) for name, rows in self.signals.items()}


def apply_push(physics: Physics, lane: int, pushes: Mapping[int, Push], step: int) -> None:
    """Begins the push that comes with a policy step, or ends the one that came with the step before."""
    if (push := pushes.get(step)) is not None:
        physics.edit(lane, [push])
    elif (last := pushes.get(step - 1)) is not None:
        physics.edit(lane, [Push(last.entity, np.zeros(3))])


class Rollout:
    """Lanes of one task under one policy.

    Args:
      task: the task of every lane.
      physics: the engine that holds the lanes.
      policy: what acts.
      query_interval: Q, actions executed of each chunk.
      horizon: H, actions kept of each chunk; at most what the policy returns.
      success: signals to bool [B].
      judged: the columns that `success` reads; they are kept with the episode.
      after_step: called with (lane, episode) after each policy step before the first success.
      run_on: success does not end the episode; it runs to the horizon, and may be undone by then.
      pictures: the policy's cameras, None for a policy that sees no pictures.
    """

    def __init__(
        self,
        task: Task,
        physics: Physics,
        policy: Policy,
        query_interval: int,
        horizon: int,
        success: Test,
        judged: SignalIndex,
        after_step: Callable[[int, Episode], None],
        *,
        run_on: bool = False,
        pictures: Pictures | None = None,
    ) -> None:
        self._task = task
        self._physics = physics
        self._policy = policy
        self._width = ACTION_DIMS[action_mode_for(policy.spec.action_mode, task)]
        self._interval = query_interval
        self._horizon = horizon
        self._success = success
        self._judge = judge_of(task, physics.index)
        self._columns = {name: c for name, c in physics.index.columns_of(judged).items() if c.size}
        self._after_step = after_step
        self._run_on = run_on
        self._pictures = pictures
        self.control_steps = 0  # of all lanes, settling and repeated prefixes included
        target = task.trigger_entity
        self._target = None if target is None else physics.index.entity(target)

    def begin(self, key: str) -> Episode:
        """The episode that starts in a lane that was just loaded, settling steps first."""
        task = self._task
        settle = np.zeros(self._width)
        # Nothing moves but the gripper, whatever the control law: the last number is the gripper in all of them.
        settle[-1] = task.settle_action[-1]
        pending = np.tile(settle, (task.settle_steps, 1))
        episode = Episode(key=key, carry=None, pending=pending, settle=task.settle_steps)
        try:
            episode.carry = self._policy.init(task, policy_seed(key))
        except BenchError:
            raise
        except (Exception, SystemExit) as error:  # a policy is the user's code: what it raises is its own lane's end
            episode.finish(Verdict.VOID, f"policy raised {type(error).__name__}: {error}")
        return episode

    def tick(self, lanes: Mapping[int, Episode]) -> None:
        """One query and up to Q control steps of every running lane."""
        self._query({lane: e for lane, e in lanes.items() if e.verdict is None and not len(e.pending)})
        running = self._running(lanes)
        if running:
            self._announce(running, [lanes[lane].pending[: self._interval] for lane in running])
        for _ in range(self._interval):
            if not running:
                return
            self._step(np.array(running, np.int32), [lanes[lane] for lane in running])
            running = self._running(lanes)

    @staticmethod
    def _running(lanes: Mapping[int, Episode]) -> list[int]:
        return [lane for lane, e in sorted(lanes.items()) if e.verdict is None and len(e.pending)]

    def _announce(self, running: Sequence[int], pending: Sequence[np.ndarray]) -> None:
        actions = np.zeros((len(running), self._interval, pending[0].shape[1]))
        for row, own in zip(actions, pending, strict=True):
            row[: len(own)] = own
        counts = np.array([len(own) for own in pending], np.int64)
        self._physics.announce(np.array(running, np.int32), actions, counts)

    def _query(self, asking: Mapping[int, Episode]) -> None:
        if not asking:
            return
        episodes = [e for _, e in sorted(asking.items())]
        obs = self.observe(np.array(sorted(asking), np.int32), episodes)
        seeds = np.array([query_seed(e.key, len(e.chunks)) for e in episodes], np.uint64)
        try:
            answer = self._policy.act([e.carry for e in episodes], obs, seeds)
        except BenchError:
            raise
        except (Exception, SystemExit) as error:
            if len(asking) == 1:
                episodes[0].finish(Verdict.VOID, f"policy raised {type(error).__name__}: {error}")
                return
            # Whose fault it is must not depend on the company: each lane is asked again alone.
            for lane, e in asking.items():
                self._query({lane: e})
            return
        actions, carries = self._checked(answer, len(episodes))
        for e, chunk, carry in zip(episodes, actions, carries, strict=True):
            chunk = e.stored_chunks.get(e.step, chunk)
            if not np.isfinite(chunk).all():
                e.finish(Verdict.VOID, f"policy returned a value that is not finite at step {e.step}")
                continue
            e.carry = carry
            e.query_steps.append(e.step)
            e.chunks.append(chunk)
            e.pending = np.asarray(chunk[: self._interval], np.float64)

    def _checked(self, answer: Any, n: int) -> tuple[np.ndarray, Sequence[Any]]:
        """The actions [n, H, A] and carries [n] of an answer; raises `PolicyMistake` for anything else."""
        spec = self._policy.spec
        if not isinstance(answer, tuple) or len(answer) != 2:
            raise PolicyMistake(f"policy {spec.name!r} returned {type(answer).__name__}, expected (actions, carries)")
        try:
            out = np.asarray(answer[0], np.float32)
        except (TypeError, ValueError) as error:
            raise PolicyMistake(
                f"policy {spec.name!r} returned actions that are no array of numbers: {error}"
            ) from None
        want = (n, spec.horizon, self._width)
        if out.shape != want:
            raise PolicyMistake(
                f"policy {spec.name!r} returned actions of shape {out.shape}, expected {want} (lanes, horizon, action)"
            )
        if not isinstance(answer[1], Sequence) or len(answer[1]) != n:
            raise PolicyMistake(f"policy {spec.name!r} must return a sequence of {n} carries, one a lane")
        return out[:, : self._horizon], answer[1]

    def observe(self, ids: np.ndarray, episodes: Sequence[Episode]) -> Observation:
        """What a policy may read of the lanes `ids` (int32 [n], ascending) now."""
        k = self._physics.kinematics(ids)
        fields = {f.name: getattr(k, f.name) for f in dataclasses.fields(k)}
        images = {} if self._pictures is None else self._pictures.take(self._physics.poses(ids))
        step = np.array([e.step for e in episodes], np.int64)
        return Observation(task=self._task, step=step, images=images, **fields)

    def _step(self, ids: np.ndarray, episodes: list[Episode]) -> None:
        actions = np.stack([e.pending[0] for e in episodes])
        self._push(ids, episodes)
        failed = self._physics.control_step(ids, actions)
        self.control_steps += len(ids)
        signals = self._physics.signals
        standings = self._standings(ids, episodes)
        success = self._success(signals) if standings is None else ()
        for i, (lane, e, action) in enumerate(zip(ids.tolist(), episodes, actions, strict=True)):
            e.pending = e.pending[1:]
            if lane in failed:
                e.finish(Verdict.VOID, f"{failed[lane]} at step {e.step}")
                continue
            if e.settle:
                e.settle -= 1
                continue
            e.step += 1
            e.actions.append(action)
            e.eef_pos.append(signals.eef_pos[lane].copy())
            if self._target is not None:
                e.target_pos.append(signals.entity_now[lane, self._target].copy())
            for name, columns in self._columns.items():
                e.signals.setdefault(name, []).append(getattr(signals, name)[lane, columns])
            if standings is not None:
                self._conclude(lane, e, standings[i])
                continue
            e.success_end = bool(success[lane])
            if e.success_end and e.success_step is None:
                e.success_step = e.step
            if e.success_step is None:
                self._after_step(lane, e)
            elif not self._run_on:
                e.finish(Verdict.SUCCESS, "goal")
            if e.verdict is None and e.step >= self._task.horizon:
                done = e.success_step is not None
                e.finish(Verdict.SUCCESS if done else Verdict.TIMEOUT, "goal" if done else "horizon")

    def _push(self, ids: np.ndarray, episodes: Sequence[Episode]) -> None:
        """Brings the pushes of this step to the lanes."""
        for lane, e in zip(ids.tolist(), episodes, strict=True):
            if not e.settle:
                apply_push(self._physics, lane, e.pushes, e.step)

    def _standings(self, ids: np.ndarray, episodes: Sequence[Episode]) -> list[Standing] | None:
        """How the lanes stand after this step by the task's rules; None for a task without."""
        if self._judge is None:
            return None
        signals = self._physics.signals.take(ids)
        return unstack(self._judge.update(stack([e.standing for e in episodes]), signals))

    def _conclude(self, lane: int, e: Episode, standing: Standing) -> None:
        """What the rules make of a policy step."""
        assert self._judge is not None
        e.standing = standing
        end = self._judge.end(standing, at_horizon=False)
        if end is None and e.step < self._task.horizon:
            self._after_step(lane, e)
            return
        end = end or self._judge.end(standing, at_horizon=True)
        assert end is not None, "there is an end at the horizon"
        e.success_end = end[0] is Verdict.SUCCESS
        e.success_step = e.step if e.success_end else None
        e.finish(*end)
