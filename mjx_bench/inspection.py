"""One case under the magnifier: both arms run again, with everything that happened in them, step by step."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from mjx_bench.arms import ArmResult, Arms, BaseJob
from mjx_bench.cases import Case, base_key
from mjx_bench.engines import engine_of
from mjx_bench.pairing import PairRunner
from mjx_bench.physics.base import Physics, Pose, Snapshot
from mjx_bench.policy import Policy
from mjx_bench.predicates import compile_goal, goal_index, touches_of
from mjx_bench.signals import FINGERS, SignalIndex, Signals, borne_of, held_of, touch_pair
from mjx_bench.task import Reset, Task
from mjx_bench.triggers import touches_of_triggers
from mjx_bench.types import Arm


@dataclasses.dataclass(frozen=True)
class Moment:
    """Something that happened after `step` policy steps."""

    step: int
    what: str


@dataclasses.dataclass(frozen=True)
class ArmView:
    """One arm of the inspected case.

    Attributes:
      result: as a run would record it.
      moments: what happened, in order.
      poses: [T] after each control step, the settling steps of a Base arm included; a Dynamic arm's begin at its event.
    """

    result: ArmResult
    moments: tuple[Moment, ...]
    poses: tuple[Pose, ...]

    @property
    def qpos(self) -> np.ndarray:
        """[T, nq] joint positions."""
        return np.array([pose.qpos for pose in self.poses])


class _Filmed:
    """One lane of an engine that keeps its poses, one reel an arm; implements `physics.base.Physics`."""

    lanes = 1

    def __init__(self, physics: Physics) -> None:
        self.reels: list[list[Pose]] = []
        self.index, self.signals, self.grown = physics.index, physics.signals, physics.grown
        self._physics = physics
        # As they are.
        self.announce, self.kinematics, self.poses = physics.announce, physics.kinematics, physics.poses
        self.snapshot, self.parked, self.edit = physics.snapshot, physics.parked, physics.edit
        self.close = physics.close

    def load(
        self, lane: int, init_state: np.ndarray, reset: Reset, fields: Mapping[str, np.ndarray] | None = None
    ) -> None:
        self._physics.load(lane, init_state, reset, fields)
        self.reels.append([])

    def restore(self, lane: int, snapshot: Snapshot) -> None:
        self._physics.restore(lane, snapshot)
        self.reels.append([])

    def control_step(self, ids: np.ndarray, actions: np.ndarray) -> dict[int, str]:
        failed = self._physics.control_step(ids, actions)
        self.reels[-1] += self._physics.poses(ids)
        return failed


def inspect_case(case: Case, task: Task, policy: Policy, arms: Arms, backend: str = "c") -> dict[Arm, ArmView]:
    """Runs both arms of one case, or the one arm of an evaluation's, and says what happened.

    Args:
      case: one case of a manifest.
      task: its task.
      policy: what acts.
      arms: how.
      backend: an engine's name, not `auto`.

    Raises:
      BenchError: a scene that the engine cannot simulate.
    """
    goal = goal_index(task.atoms, task.scene)
    # Besides what the goal reads: which of the goal's objects the fingers touch.
    held = [n for n in task.goal_entities if task.scene.entities[n].kind == "object"]
    shown = tuple(touch_pair(finger, name) for name in held for finger in FINGERS)
    triggers = [] if case.trigger is None else [case.trigger]
    physics = _Filmed(
        engine_of(
            task,
            backend,
            1,
            policy.spec.action_mode,
            interval=arms.query_interval,
            triggers=triggers,
            row=case.init_state_index,
            touches=shown,
        )
    )
    touches = (*touches_of(task.atoms, task.scene), *shown, *touches_of_triggers(triggers))
    judged = dataclasses.replace(goal, touches=tuple(dict.fromkeys(touches)))
    _, success = compile_goal(task.goal, task.scene, physics.index)
    found: dict[Arm, ArmResult] = {}

    def keep(_: Case, result: ArmResult) -> None:
        found[result.arm] = result

    runner = PairRunner(task, physics, policy, arms, success, keep, lambda: False, judged)
    wanted = frozenset([case.case_id])
    dynamic = frozenset() if case.scenario is None else wanted
    runner.run([BaseJob(base_key(case), (case,), wanted, dynamic)])
    physics.close()
    reels = {Arm.BASE: physics.reels[0], Arm.DYNAMIC: physics.reels[-1]}
    return {
        arm: ArmView(result, tuple(_moments(case, task, judged, result)), tuple(reels[arm]))
        for arm, result in found.items()
    }


def _moments(case: Case, task: Task, judged: SignalIndex, result: ArmResult) -> Iterator[Moment]:
    """The timeline of an arm, by step; what happens in one step is in the order cause, effect, end."""
    found: list[tuple[int, int, str]] = []
    for n, step in enumerate(result.query_steps):
        late = result.arm is Arm.DYNAMIC and step == result.first_response_step
        found.append((step, 3, f"query {n}" + (", the first after the event" if late else "")))
    if result.trigger_step is not None:
        found.append((result.trigger_step, 1, _trigger(case, result)))
    if result.event is not None:
        found.append((result.trigger_step or 0, 2, _event(result.event)))
    signals = signals_of(result, judged)
    atoms = tuple(dict.fromkeys(task.atoms))
    tests, _ = compile_goal(atoms, task.scene, judged)
    series: list[tuple[str, Any]] = [(str(atom), test(signals)) for atom, test in zip(atoms, tests, strict=True)]
    for pair, values in zip(judged.touches, signals.touch.T, strict=True):
        if held_of(pair) is not None or borne_of(pair) is not None:
            continue  # the atoms above say it
        # A pair is stored in alphabetical order; the fingers are the ones that touch.
        a, b = sorted(pair, key=lambda name: name not in FINGERS)
        series.append((f"{a} touches {b}", values))
    for name, values in series:
        found += [(step, 0, f"{name}: {'yes' if on else 'no longer'}") for step, on in _changes(values)]
    found.append((result.end_step, 4, f"end: {result.verdict} ({result.reason})"))
    for step, _, what in sorted(found):
        yield Moment(step, what)


def signals_of(result: ArmResult, judged: SignalIndex) -> Signals:
    """An arm's kept signals with time as the lane axis, for the same predicates that judged it."""
    signals = Signals.zeros(result.end_step, judged)
    for name in judged.columns_of(judged):
        if f"signals.{name}" in result.arrays:
            setattr(signals, name, result.arrays[f"signals.{name}"])
    return signals


def _changes(values: Iterable[Any]) -> Iterator[tuple[int, bool]]:
    """(policy steps executed, new value) wherever a boolean series changes; it starts as False."""
    last = False
    for i, value in enumerate(values):
        if bool(value) != last:
            last = bool(value)
            yield i + 1, last


def _trigger(case: Case, result: ArmResult) -> str:
    trigger = case.trigger
    assert trigger is not None
    where = "" if result.trigger_distance is None else f", {result.trigger_distance:.3f} m"
    happens = "" if result.arm is Arm.DYNAMIC else " (nothing happens in the Base arm)"
    return f"trigger {trigger.type} {trigger.value}{where}{happens}"


def _event(event: Any) -> str:
    moved = [f"{m['entity']} {_point(m['before'])} -> {_point(m['after'])}" for m in event.get("moved", ())]
    return f"event {event['operation']}" + (": " + "; ".join(moved) if moved else "")


def _point(pos: Sequence[float]) -> str:
    return "(" + ", ".join(f"{x:.3f}" for x in pos) + ")"
