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

from mjx_bench import seeds
from mjx_bench.checkers import Standing, judge_of, stack, unstack
from mjx_bench.episode import Episode, apply_push
from mjx_bench.errors import BenchError
from mjx_bench.observe.pictures import Pictures
from mjx_bench.observe.repair import Repair
from mjx_bench.observe.watching import notice, sights
from mjx_bench.physics.base import Physics
from mjx_bench.policy import ACTION_DIMS, Observation, Policy, action_mode_for, settling
from mjx_bench.predicates import Test
from mjx_bench.signals import SignalIndex
from mjx_bench.task import Task
from mjx_bench.types import Verdict


class PolicyMistake(BenchError):
    """A policy broke its contract in a way that no other case would escape; the run stops."""


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
      delay: control steps from an observation to the first action that was chosen from it, see `Arms`.
      watching: actions that wait are dropped when the observation changes at once.
      repair: what is done to the pictures before the policy sees them.
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
        delay: int = 0,
        watching: bool = False,
        repair: Repair | None = None,
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
        self._delay = delay
        self._watching = watching
        self._repair = repair
        self._on_device = policy.spec.on_device and repair is None
        self.control_steps = 0  # of all lanes, settling and repeated prefixes included
        target = task.trigger_entity
        self._target = None if target is None else physics.index.entity(target)

    def begin(self, key: str, policy_seed: int | None = None) -> Episode:
        """The episode that starts in a lane that was just loaded, settling steps first; see `Episode` for both names."""
        task = self._task
        pending = np.tile(settling(task, self._width), (task.settle_steps, 1))
        episode = Episode(key, None, pending, policy_seed, settle=task.settle_steps)
        try:
            episode.carry = self._policy.init(task, seeds.policy_seed(key))
        except BenchError:
            raise
        except (Exception, SystemExit) as error:  # a policy is the user's code: what it raises is its own lane's end
            episode.finish(Verdict.VOID, f"policy raised {type(error).__name__}: {error}")
        return episode

    def tick(self, lanes: Mapping[int, Episode]) -> None:
        """One query and up to Q control steps of every running lane."""
        self._query({lane: e for lane, e in lanes.items() if e.verdict is None and not self._ready(e)})
        running = self._running(lanes)
        if running:
            ready = [lanes[lane].pending[: self._ready(lanes[lane])] for lane in running]
            self._announce(running, [actions[: self._interval] for actions in ready])
        for _ in range(self._interval):
            if not running:
                return
            self._step(np.array(running, np.int32), [lanes[lane] for lane in running])
            running = self._running(lanes)

    def _ready(self, e: Episode) -> int:
        """Actions to execute before the next query: the last `delay` of them bridge the time that its answer takes."""
        return len(e.pending) if e.settle else max(len(e.pending) - self._delay, 0)

    def _running(self, lanes: Mapping[int, Episode]) -> list[int]:
        return [lane for lane, e in sorted(lanes.items()) if e.verdict is None and self._ready(e)]

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
        obs = self.observe(np.array(sorted(asking), np.int32), episodes, on_device=self._on_device)
        obs, repaired = (obs, []) if self._repair is None else self._repair(obs)
        drawn = np.array([seeds.query_seed(e.key, len(e.chunks)) for e in episodes], np.uint64)
        start = time.perf_counter()
        try:
            answer = self._policy.act([e.carry for e in episodes], obs, drawn)
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
        waited = time.perf_counter() - start
        actions, carries = self._checked(answer, len(episodes))
        for i, (e, chunk, carry) in enumerate(zip(episodes, actions, carries, strict=True)):
            chunk = e.stored_chunks.get(e.step, chunk)
            if not np.isfinite(chunk).all():
                e.finish(Verdict.VOID, f"policy returned a value that is not finite at step {e.step}")
                continue
            e.carry = carry
            e.query_steps.append(e.step)
            e.waited.append(waited)
            e.chunks.append(chunk)
            # A chunk's k-th action is for k steps after the observation, whatever is executed until it is known.
            e.pending = np.concatenate(
                [e.pending, chunk[len(e.pending) : self._interval + self._delay]], dtype=np.float64
            )
            if repaired:
                e.repaired.append(repaired[i])

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

    def observe(self, ids: np.ndarray, episodes: Sequence[Episode], *, on_device: bool = False) -> Observation:
        """What a policy may read of the lanes `ids` (int32 [n], ascending) now; pictures on the device where they can be."""
        k = self._physics.kinematics(ids)
        fields = {f.name: getattr(k, f.name) for f in dataclasses.fields(k)}
        images: Mapping[str, Any] = {}
        if self._pictures is not None:
            poses = self._physics.poses(ids)
            images = self._pictures.take_on_device(poses) if on_device else self._pictures.take(poses)
        step = np.array([e.step for e in episodes], np.int64)
        return Observation(
            task=self._task,
            step=step,
            images=images,
            policy_seed=_known([e.policy_seed for e in episodes]),
            instance=_known([e.instance for e in episodes]),
            **fields,
        )

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

        if self._watching:
            self.watch(dict(zip(ids.tolist(), episodes, strict=True)))

    def watch(self, lanes: Mapping[int, Episode]) -> None:
        """Looks at lanes after a step, or after an event, and drops what waits where the scene has changed at once."""
        looking = {lane: e for lane, e in sorted(lanes.items()) if e.verdict is None and not e.settle}
        if not looking:
            return
        obs = self.observe(np.array(list(looking), np.int32), list(looking.values()))
        for e, now in zip(looking.values(), sights(obs), strict=True):
            e.sight, changed = notice(e.sight, now)
            if changed and self._ready(e):
                e.pending = e.pending[: self._delay]
                e.cancels.append(e.step)

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


def _known(numbers: Sequence[int | None]) -> np.ndarray | None:
    """int64 [n]; None where one is missing."""
    known = [number for number in numbers if number is not None]
    return np.array(known, np.int64) if len(known) == len(numbers) else None
