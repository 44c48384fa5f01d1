"""Two experts with privileged state: one looks at every query, one only at the first.

Both act like any other policy, in chunks of OSC_POSE actions. They differ in nothing but when they look, so that what a
mid-episode change costs the second one, and not the first, is the price of not looking.

They carry, lift and push objects, and move drawers, doors, knobs and buttons. What they cannot do they go to and wait at,
and the episode times out.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np

from mjx_bench.policy import Carry, Observation, PolicySpec
from mjx_bench.task import Task
from policies.scripted import agenda
from policies.scripted.arm import ArmPlant
from policies.scripted.intents import Intent, Review, intend
from policies.scripted.library import Library
from policies.scripted.motion import OPEN, Cursor, LinearPlant, Motion, Track, track
from policies.scripted.view import View

HORIZON = 16
FLIGHT = frozenset({"rise", "over", "before", "leave"})
_PATIENCE = 3  # queries


@dataclasses.dataclass(frozen=True)
class ReactiveCarry:
    """What the reactive expert remembers between queries; never changed, only replaced.

    Attributes:
      job: index of the job being worked on.
      intent: how; None before the first query.
      track: the last chunk and what was expected of it, None before the first query.
      step: policy step at which `track` was made.
      failed: marks [3] of ways that did not work for this job.
      held_up: queries in a row at which the hand, with nothing in it, was found not to have got on.
    """

    job: int = 0
    intent: Intent | None = None
    track: Track | None = None
    step: int = 0
    failed: tuple[np.ndarray, ...] = ()
    held_up: int = 0


class Reactive:
    """Plans from the current observation at each query."""

    def __init__(self) -> None:
        self.spec = PolicySpec("scripted.reactive", HORIZON)
        self._library = Library()

    def init(self, task: Task, seed: int) -> ReactiveCarry:
        """The carry of a new episode."""
        return ReactiveCarry()

    def act(self, carries: Sequence[Carry], obs: Observation, seeds: np.ndarray) -> tuple[np.ndarray, Sequence[Carry]]:
        """One query; see `mjx_bench.policy.Policy.act`. Lanes are handled one by one and do not see each other."""
        import mujoco

        shapes, arm = self._library.shapes(obs.task), self._library.arm(obs.task)
        data = mujoco.MjData(arm.model)
        actions = np.zeros((len(carries), HORIZON, 7), np.float32)
        out = []
        for lane, carry in enumerate(carries):
            view = View(shapes, obs, lane)
            motion, drift = Motion(np.zeros(3), np.zeros(3), view.hand_rot), np.zeros(3)
            if carry.track is not None:
                done = min(view.step - carry.step, HORIZON)
                motion = carry.track.motions[done]
                drift = (view.eef - carry.track.positions[done]) / (max(1, done) * arm.period)
            arm.place(data, view)
            plant = LinearPlant(view.eef, view.hand_rot, motion, arm.response(data))
            carry, cursor = self._update(carry, obs.task, view)
            assert carry.intent is not None
            chunk = track(plant, carry.intent.plan, cursor, HORIZON, drift)
            actions[lane] = chunk.actions
            out.append(dataclasses.replace(carry, track=chunk, step=view.step))
        return actions, out

    def _update(self, carry: ReactiveCarry, task: Task, view: View) -> tuple[ReactiveCarry, Cursor]:
        """Compares what the plan expected with what is seen, and plans again from where they part."""
        if carry.track is None or carry.intent is None:
            return self._next(carry, task, view)
        intent, done = carry.intent, min(view.step - carry.step, HORIZON)
        cursor = carry.track.cursors[done]
        if cursor.index >= len(intent.plan):
            return self._next(carry, task, view)
        stage = intent.plan[cursor.index].label
        review = intent.review(self._library, task, view, stage)
        held_up = carry.held_up + 1 if stage in FLIGHT and _held_up(carry.track, done, view) else 0
        if review is Review.GO_ON and held_up >= _PATIENCE:
            review, held_up = Review.RETRY, 0
        carry = dataclasses.replace(carry, held_up=held_up)
        if review is Review.GO_ON:
            return carry, cursor
        if not isinstance(review, Review):
            return dataclasses.replace(carry, intent=review), Cursor()
        failed = (*carry.failed, intent.mark) if review is Review.RETRY else carry.failed
        return self._start(carry, carry.job, failed, task, view)

    def _start(
        self, carry: ReactiveCarry, job: int, failed: tuple[np.ndarray, ...], task: Task, view: View
    ) -> tuple[ReactiveCarry, Cursor]:
        """A whole plan for a job."""
        intent = intend(self._library, task, view, agenda.agenda(task)[job], failed)
        return dataclasses.replace(carry, job=job, failed=failed, intent=intent), Cursor()

    def _next(self, carry: ReactiveCarry, task: Task, view: View) -> tuple[ReactiveCarry, Cursor]:
        """The plan is used up: on to the first job that is not done, or the same again (the episode is not over)."""
        job = agenda.missing(task, view, agenda.agenda(task))
        if carry.intent is not None and job in (None, carry.job):
            return self._start(carry, carry.job, (*carry.failed, carry.intent.mark), task, view)
        return self._start(carry, job or 0, (), task, view)


def _held_up(last: Track, done: int, view: View) -> bool:
    """Whether the hand moved by less than a quarter of what was expected of it."""
    expected, moved = last.positions[done] - last.positions[0], view.eef - last.positions[0]
    return bool(expected @ expected > 0.02**2 and moved @ moved < expected @ expected / 16.0)


@dataclasses.dataclass(frozen=True)
class OpenLoopCarry:
    """The whole episode's actions.

    Attributes:
      actions: float32 [n, 7], read-only; None before the first query. Beyond its end the arm holds still, gripper open.
      start: policy step of the first query.
    """

    actions: np.ndarray | None = None
    start: int = 0


class OpenLoop:
    """Plans at the first query and never looks again; queries return slices of that plan."""

    def __init__(self) -> None:
        self.spec = PolicySpec("scripted.open_loop", HORIZON)
        self._library = Library()

    def init(self, task: Task, seed: int) -> OpenLoopCarry:
        """The carry of a new episode."""
        return OpenLoopCarry()

    def act(self, carries: Sequence[Carry], obs: Observation, seeds: np.ndarray) -> tuple[np.ndarray, Sequence[Carry]]:
        """One query; see `mjx_bench.policy.Policy.act`. After a lane's first query only `obs.step` is read."""
        actions = np.zeros((len(carries), HORIZON, 7), np.float32)
        actions[:, :, 6] = OPEN
        out = []
        for lane, carry in enumerate(carries):
            if carry.actions is None:
                view = View(self._library.shapes(obs.task), obs, lane)
                carry = OpenLoopCarry(self._plan(obs.task, view), view.step)
            begin = int(obs.step[lane]) - carry.start
            piece = carry.actions[begin : begin + HORIZON]
            actions[lane, : len(piece)] = piece
            out.append(carry)
        return actions, out

    def _plan(self, task: Task, view: View) -> np.ndarray:
        """[n, 7] actions for all jobs, found by tracking waypoints with a model of the arm in the scene as imagined."""
        plant = ArmPlant(self._library.arm(task), view)
        chunks = [np.zeros((0, 7), np.float32)]
        left, jobs = task.horizon, agenda.agenda(task)
        for _ in jobs:
            job = agenda.missing(task, view, jobs)
            if job is None:
                break
            intent = intend(self._library, task, view, jobs[job], ())
            cursor = Cursor()
            while cursor.index < len(intent.plan) and left > 0:
                piece = track(plant, intent.plan, cursor, 1)
                chunks.append(piece.actions)
                cursor = piece.cursors[-1]
                left -= 1
            view = intent.after(task, plant.seen(view))
        actions = np.concatenate(chunks)
        actions.flags.writeable = False
        return actions
