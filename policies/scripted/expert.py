"""Two pick-and-place experts with privileged state: one looks at every query, one only at the first.

Both act like any other policy, in chunks of OSC_POSE actions. They differ in nothing but when they look, so that what a
mid-episode change costs the second one, and not the first, is the price of not looking.

They carry objects. What they cannot do (drawers, doors, knobs) they go to and wait at, and the episode times out.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np

from mjx_bench.policy import Carry, Observation, PolicySpec
from mjx_bench.task import Task
from policies.scripted import goals, plans
from policies.scripted.arm import ArmPlant
from policies.scripted.choice import Hold, choose
from policies.scripted.library import Library
from policies.scripted.motion import OPEN, Cursor, LinearPlant, Motion, Track, Waypoint, track
from policies.scripted.view import View

HORIZON = 16

_MOVED = 0.008  # metres: the object this far from where the plan has it calls for another plan
_DISTURBED = 0.015  # metres: so does anything else, the support included, this far from where it was
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
      seen: [E, 3] positions of all entities that the plan was made for.
      failed: offsets [3] of grasps that did not work on this object.
    """

    atom: int = 0
    plan: tuple[Waypoint, ...] = ()
    track: Track | None = None
    step: int = 0
    hold: Hold | None = None
    grip: np.ndarray = dataclasses.field(default_factory=lambda: np.zeros(3))
    seen: np.ndarray = dataclasses.field(default_factory=lambda: np.zeros((0, 3)))
    failed: tuple[np.ndarray, ...] = ()


class Reactive:
    """Plans from the current observation at each query."""

    def __init__(self) -> None:
        self.spec = PolicySpec("scripted.reactive", HORIZON)
        self._library = Library()

    def init(self, task: Task, seed: int) -> ReactiveCarry:
        """The carry of a new episode."""
        return ReactiveCarry(atom=_order(task)[0])

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
        if carry.plan and carry.hold is None and cursor.index < len(carry.plan):
            return carry, cursor  # on a visit
        if cursor.index >= len(carry.plan) or carry.hold is None:
            return self._next(carry, task, view)
        subject = task.goal[carry.atom].args[0]
        stage = carry.plan[cursor.index].label
        own = list(task.scene.entities).index(subject)
        shift = view.positions - carry.seen
        # What moves with the object rides on it (or did not move, when nothing has): no reason for another plan.
        riding = np.abs(shift - shift[own]).max(1) < _DISTURBED
        moved = np.abs(shift).max(1)
        disturbed = bool(((moved > _DISTURBED) & ~riding).any())
        in_hand = view.eef - carry.grip - view.pos(subject)  # where the plan has the object, less where it is
        if stage in plans.PICK:
            if moved[own] > _MOVED or disturbed:
                return self._start(carry, task, view)
        elif stage == plans.CLOSE:
            # Closing drags the object to the middle; only a hand that closes on nothing is worth an interruption.
            if in_hand @ in_hand > (1.5 * _LOST) ** 2:
                return self._retry(carry, task, view)
        elif stage in plans.CARRY:
            if in_hand @ in_hand > _LOST**2:
                return self._retry(carry, task, view)
            if np.abs(in_hand).max() > _MOVED or disturbed:
                return self._replace(carry, task, view)
        return carry, cursor

    def _start(self, carry: ReactiveCarry, task: Task, view: View) -> tuple[ReactiveCarry, Cursor]:
        """A whole plan for the current atom."""
        atom = task.goal[carry.atom]
        if not goals.doable(task, atom):
            return dataclasses.replace(carry, plan=tuple(plans.visit(view, task, atom)), hold=None), Cursor()
        hold = choose(self._library, task, view, atom, carry.failed)
        if hold is None:
            return dataclasses.replace(carry, plan=(), hold=None), Cursor()
        steps, grip = plans.pick_and_place(self._library, task, view, atom, hold, view.eef)
        carry = dataclasses.replace(
            carry,
            plan=tuple(steps),
            hold=hold,
            grip=grip,
            seen=view.positions,
        )
        return carry, Cursor()

    def _retry(self, carry: ReactiveCarry, task: Task, view: View) -> tuple[ReactiveCarry, Cursor]:
        """The object is not in the hand: begin again, with another grasp."""
        failed = carry.failed if carry.hold is None else (*carry.failed, carry.hold.offset)
        return self._start(dataclasses.replace(carry, failed=failed), task, view)

    def _replace(self, carry: ReactiveCarry, task: Task, view: View) -> tuple[ReactiveCarry, Cursor]:
        """Plans the way to the support again, from how the object now lies in the hand."""
        assert carry.hold is not None
        atom = task.goal[carry.atom]
        entity = atom.args[0]
        grip = view.eef - view.pos(entity)
        steps = plans.place(self._library, task, view, atom, carry.hold, grip, view.rot(entity), view.eef)
        return dataclasses.replace(carry, plan=tuple(steps), grip=grip, seen=view.positions), Cursor()

    def _next(self, carry: ReactiveCarry, task: Task, view: View) -> tuple[ReactiveCarry, Cursor]:
        """The plan is used up: on to the first atom that does not hold, or the same again (the episode is not over)."""
        order = _order(task)
        missing = [
            i for i in order if not (goals.doable(task, task.goal[i]) and goals.satisfied(view, task, task.goal[i]))
        ]
        atom = missing[0] if missing else carry.atom
        failed = carry.failed if atom == carry.atom else ()
        return self._start(dataclasses.replace(carry, atom=atom, failed=failed), task, view)


def _order(task: Task) -> list[int]:
    """Indices of the goal's atoms, those first that the experts know how to do."""
    return sorted(range(len(task.goal)), key=lambda i: not goals.doable(task, task.goal[i]))


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
        """[n, 7] actions for all atoms, found by tracking waypoints with a model of the arm."""
        plant = ArmPlant(self._library.arm(task), view)
        chunks = [np.zeros((0, 7), np.float32)]
        left = task.horizon
        for atom in (task.goal[i] for i in _order(task)):
            if goals.doable(task, atom):
                hold = choose(self._library, task, view, atom, ())
                if hold is None:
                    continue
                steps, _ = plans.pick_and_place(self._library, task, view, atom, hold, plant.pos)
            else:
                steps = plans.visit(view, task, atom)
            cursor = Cursor()
            while cursor.index < len(steps) and left > 0:
                piece = track(plant, steps, cursor, 1)
                chunks.append(piece.actions)
                cursor = piece.cursors[-1]
                left -= 1
        actions = np.concatenate(chunks)
        actions.flags.writeable = False
        return actions
