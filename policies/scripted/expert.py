"""Two pick-and-place experts with privileged state: one looks at every query, one only at the first.

Both act like any other policy, in chunks of OSC_POSE actions. They differ in nothing but when they look, so that what a
mid-episode change costs the second one, and not the first, is the price of not looking.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np

from mjx_bench.policy import Carry, Observation, PolicySpec
from mjx_bench.task import Task
from policies.scripted import goals, planner
from policies.scripted.arm import ArmPlant
from policies.scripted.geometry import View
from policies.scripted.motion import OPEN, Cursor, LinearPlant, Motion, Track, Waypoint, track
from policies.scripted.planner import Hold, Library

HORIZON = 16

_MOVED = 0.008  # metres: a target or support this far from where the plan was made for has moved
_LOST = 0.03  # metres: a carried object this far from where the hand should have it was dropped


@dataclasses.dataclass(frozen=True)
class ReactiveCarry:
    """What the reactive expert remembers between queries; never changed, only replaced.

    Attributes:
      atom: index of the goal atom being worked on.
      plan: waypoints, empty when there is nothing to do.
      track: the last chunk and what was expected of it, None before the first query.
      step: policy step at which `track` was made.
      hold: the grasp in use.
      grip: [3] grip site relative to the object's origin, as planned or last seen.
      subject: [3] position of the object that the pick was planned for.
      support: [3] position of the support that the place was planned for.
      failed: table indices of grasps that did not work on this object.
    """

    atom: int = 0
    plan: tuple[Waypoint, ...] = ()
    track: Track | None = None
    step: int = 0
    hold: Hold | None = None
    grip: np.ndarray = dataclasses.field(default_factory=lambda: np.zeros(3))
    subject: np.ndarray = dataclasses.field(default_factory=lambda: np.zeros(3))
    support: np.ndarray = dataclasses.field(default_factory=lambda: np.zeros(3))
    failed: tuple[int, ...] = ()


class Reactive:
    """Plans from the current observation at each query."""

    def __init__(self) -> None:
        self.spec = PolicySpec("scripted.reactive", HORIZON, privileged=True)
        self._library = Library()

    def init(self, task: Task, seed: int) -> ReactiveCarry:
        """The carry of a new episode.

        Raises:
          BenchError: the task has a goal that the experts cannot do.
        """
        goals.check(task)
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
            if carry.track is None:
                motion = Motion(np.zeros(3), np.zeros(3), view.hand_rot)
            else:
                motion = carry.track.motions[min(view.step - carry.step, HORIZON)]
            arm.place(data, view)
            plant = LinearPlant(view.eef, view.hand_rot, motion, arm.response(data))
            carry, cursor = self._update(carry, obs.task, view)
            plan = carry.plan or (Waypoint("wait", view.eef, view.hand_rot, OPEN),)
            chunk = track(plant, plan, cursor, HORIZON)
            actions[lane] = chunk.actions
            out.append(dataclasses.replace(carry, track=chunk, step=view.step))
        return actions, out

    def _update(self, carry: ReactiveCarry, task: Task, view: View) -> tuple[ReactiveCarry, Cursor]:
        """Compares what the plan expected with what is seen, and plans again from where they part."""
        if carry.track is None:
            return self._start(carry, task, view)
        cursor = carry.track.cursors[min(view.step - carry.step, HORIZON)]
        if cursor.index >= len(carry.plan) or carry.hold is None:
            return self._next(carry, task, view)
        atom = task.goal[carry.atom]
        subject, stage = view.pos(atom.args[0]), carry.plan[cursor.index].label
        if stage in planner.PICK:
            if np.abs(subject - carry.subject).max() > _MOVED:
                return self._start(carry, task, view)
        elif stage in planner.CLOSE:
            # Closing drags the object to the middle; only a hand that closes on nothing is worth an interruption.
            if np.linalg.norm(view.eef - carry.grip - subject) > 1.5 * _LOST:
                return self._retry(carry, task, view)
        elif stage in planner.CARRY:
            if np.linalg.norm(view.eef - carry.grip - subject) > _LOST:
                return self._retry(carry, task, view)
            slipped = np.abs(view.eef - subject - carry.grip).max() > _MOVED
            shifted = np.abs(goals.target_point(view, task, atom) - carry.support).max() > _MOVED
            if shifted or slipped:
                return self._replace(carry, task, view)
        return carry, cursor

    def _start(self, carry: ReactiveCarry, task: Task, view: View) -> tuple[ReactiveCarry, Cursor]:
        """A whole plan for the current atom."""
        atom = task.goal[carry.atom]
        entity = atom.args[0]
        hold = planner.choose(self._library, task, view, atom, carry.failed)
        if hold is None:
            return dataclasses.replace(carry, plan=(), hold=None), Cursor()
        steps, grip = pick_and_place(self._library, task, view, carry.atom, hold, view.eef)
        carry = dataclasses.replace(
            carry,
            plan=tuple(steps),
            hold=hold,
            grip=grip,
            subject=view.pos(entity),
            support=goals.target_point(view, task, atom),
        )
        return carry, Cursor()

    def _retry(self, carry: ReactiveCarry, task: Task, view: View) -> tuple[ReactiveCarry, Cursor]:
        """The object is not in the hand: begin again, with another grasp."""
        failed = carry.failed if carry.hold is None else (*carry.failed, carry.hold.index)
        return self._start(dataclasses.replace(carry, failed=failed), task, view)

    def _replace(self, carry: ReactiveCarry, task: Task, view: View) -> tuple[ReactiveCarry, Cursor]:
        """Plans the way to the support again, from how the object now lies in the hand."""
        assert carry.hold is not None
        atom = task.goal[carry.atom]
        entity = atom.args[0]
        grip = view.eef - view.pos(entity)
        shapes = self._library.shapes(task)
        steps = planner.place(view, task, atom, carry.hold, grip, view.rot(entity), view.eef, shapes)
        support = goals.target_point(view, task, atom)
        return dataclasses.replace(carry, plan=tuple(steps), grip=grip, support=support), Cursor()

    def _next(self, carry: ReactiveCarry, task: Task, view: View) -> tuple[ReactiveCarry, Cursor]:
        """The plan is used up: on to the first atom that does not hold, or the same again (the episode is not over)."""
        missing = [i for i, atom in enumerate(task.goal) if not goals.satisfied(view, task, atom)]
        atom = missing[0] if missing else carry.atom
        failed = carry.failed if atom == carry.atom else ()
        return self._start(dataclasses.replace(carry, atom=atom, failed=failed), task, view)


def pick_and_place(
    library: Library, task: Task, view: View, index: int, hold: Hold, start: np.ndarray
) -> tuple[list[Waypoint], np.ndarray]:
    """Plan for one goal atom from `start` [3]; also where the grip site will be relative to the object's origin [3]."""
    atom = task.goal[index]
    entity = atom.args[0]
    grip = hold.site - view.pos(entity)
    steps = planner.pick(view, entity, hold, start)
    shapes = library.shapes(task)
    return steps + planner.place(view, task, atom, hold, grip, view.rot(entity), hold.site, shapes), grip


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
        self.spec = PolicySpec("scripted.open_loop", HORIZON, privileged=True)
        self._library = Library()

    def init(self, task: Task, seed: int) -> OpenLoopCarry:
        """The carry of a new episode.

        Raises:
          BenchError: the task has a goal that the experts cannot do.
        """
        goals.check(task)
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
        """[n, 7] actions for all atoms, found by tracking waypoints with a model of the arm."""
        plant = ArmPlant(self._library.arm(task), view)
        chunks = [np.zeros((0, 7), np.float32)]
        left = task.horizon
        for index, atom in enumerate(task.goal):
            hold = planner.choose(self._library, task, view, atom, ())
            if hold is None:
                continue
            steps, _ = pick_and_place(self._library, task, view, index, hold, plant.pos)
            cursor = Cursor()
            while cursor.index < len(steps) and left > 0:
                piece = track(plant, steps, cursor, 1)
                chunks.append(piece.actions)
                cursor = piece.cursors[-1]
                left -= 1
        actions = np.concatenate(chunks)
        actions.flags.writeable = False
        return actions
