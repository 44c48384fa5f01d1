"""What the experts can intend: carry or lift an object, push one, move a joint, or merely go there.

An intent is a plan with what it assumed. The expert that looks again asks it whether it still makes sense; the one that does
not asks it what the scene will be like afterwards.
"""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Sequence
from typing import Protocol

import numpy as np

from mjx_bench.task import Atom, Task
from policies.scripted import agenda, handling, plans, pushing
from policies.scripted.agenda import Job
from policies.scripted.choice import Hold, choose
from policies.scripted.handling import Placed
from policies.scripted.library import Library
from policies.scripted.motion import Waypoint
from policies.scripted.pushing import Push
from policies.scripted.view import View

_MOVED = 0.008  # metres: the object this far from where the plan has it calls for another plan
_DISTURBED = 0.015  # metres: so does anything else, the support included, this far from where it was
_LOST = 0.03  # metres: a carried object this far from where the hand should have it was dropped
_SLIPPED = 0.03  # metres: fingers this far from the part that they should be moving have lost it
_ASTRAY = 0.03  # metres: an object this far aside of the fingers that push it is about to slip past them


class Review(enum.Enum):
    """What to do about an intent."""

    GO_ON = enum.auto()
    ANEW = enum.auto()  # from the beginning
    RETRY = enum.auto()  # from the beginning, and otherwise


class Intent(Protocol):
    """One job being done.

    Attributes:
      plan: waypoints.
      mark: [3] what names this way of doing it, to choose another when it fails.
    """

    @property
    def plan(self) -> tuple[Waypoint, ...]: ...

    @property
    def mark(self) -> np.ndarray: ...

    def review(self, library: Library, task: Task, view: View, stage: str) -> Review | Intent:
        """What to do, given what is seen in the middle of a stage of the plan; an intent to go on with instead."""
        ...

    def after(self, task: Task, view: View) -> View:
        """The scene once it has gone as planned."""
        ...


def intend(library: Library, task: Task, view: View, job: Job, failed: Sequence[np.ndarray]) -> Intent:
    """The intent to do a job, by a way that has not failed yet if there is one."""
    atom = job.atom
    if atom.predicate in (*agenda.CARRIED, "up"):
        made: Intent | None = Carry.begin(library, task, view, atom, failed)
        if made is None and len(atom.args) == 2:
            made = Shove.begin(library, task, view, atom)
    else:
        made = Handle.begin(library, task, view, job, failed)
    return made or Visit(tuple(plans.visit(view, task, atom)))


@dataclasses.dataclass(frozen=True)
class Visit:
    """Going to what cannot be done, and waiting there."""

    plan: tuple[Waypoint, ...]
    mark: np.ndarray = dataclasses.field(default_factory=lambda: np.zeros(3))

    def review(self, library: Library, task: Task, view: View, stage: str) -> Review:
        """Never changes its mind."""
        return Review.GO_ON

    def after(self, task: Task, view: View) -> View:
        """Nothing has changed."""
        return view


@dataclasses.dataclass(frozen=True)
class Carry:
    """Taking an object somewhere, or up.

    Attributes:
      atom: what it is for.
      hold: the grasp in use.
      grip: [3] grip site relative to the object's origin, as planned or last seen, world axes.
      seen: [E, 3] positions of all entities that the plan was made for.
    """

    atom: Atom
    plan: tuple[Waypoint, ...]
    hold: Hold
    grip: np.ndarray
    seen: np.ndarray

    @property
    def mark(self) -> np.ndarray:
        """The grasp's place on the object."""
        return self.hold.offset

    @classmethod
    def begin(cls, library: Library, task: Task, view: View, atom: Atom, failed: Sequence[np.ndarray]) -> Carry | None:
        """A whole plan; None when nothing of the object can be taken hold of."""
        hold = choose(library, task, view, atom, failed)
        if hold is None:
            return None
        steps = plans.pick(library, task, view, atom, hold, view.eef)
        grip = hold.site - view.pos(atom.args[0])
        rest = _rest(library, task, view, atom, hold, grip, hold.site)
        return cls(atom, (*steps, *rest), hold, grip, view.positions)

    def review(self, library: Library, task: Task, view: View, stage: str) -> Review | Carry:
        """Compares where the object and all others are with what the plan was made for."""
        subject = self.atom.args[0]
        own = list(task.scene.entities).index(subject)
        shift = view.positions - self.seen
        # What moves with the object rides on it (or did not move, when nothing has): no reason for another plan.
        riding = np.abs(shift - shift[own]).max(1) < _DISTURBED
        moved = np.abs(shift).max(1)
        disturbed = bool(((moved > _DISTURBED) & ~riding).any())
        in_hand = view.eef - self.grip - view.pos(subject)  # where the plan has the object, less where it is
        if stage in plans.PICK:
            return Review.ANEW if moved[own] > _MOVED or disturbed else Review.GO_ON
        if stage == plans.CLOSE:
            # Closing drags the object to the middle; only a hand that closes on nothing is worth an interruption.
            return Review.RETRY if in_hand @ in_hand > (1.5 * _LOST) ** 2 else Review.GO_ON
        if stage in plans.CARRY:
            if in_hand @ in_hand > _LOST**2:
                return Review.RETRY
            if np.abs(in_hand).max() > _MOVED or disturbed:
                return self._adjusted(library, task, view)
        return Review.GO_ON

    def _adjusted(self, library: Library, task: Task, view: View) -> Carry:
        """The way to the support again, from how the object now lies in the hand."""
        grip = view.eef - view.pos(self.atom.args[0])
        rest = _rest(library, task, view, self.atom, self.hold, grip, view.eef)
        return dataclasses.replace(self, plan=tuple(rest), grip=grip, seen=view.positions)

    def after(self, task: Task, view: View) -> View:
        """The object stands where it was let go."""
        entity, rest = self.atom.args[0], [w for w in self.plan if w.label in ("release", "lift")]
        return view.with_pose(entity, rest[-1].pos - self.grip, view.rot(entity))


def _rest(
    library: Library, task: Task, view: View, atom: Atom, hold: Hold, grip: np.ndarray, start: np.ndarray
) -> list[Waypoint]:
    if atom.predicate == "up":
        return plans.lift(library, task, view, atom, hold, start)
    if hold.way is not None:
        return plans.insert(library, task, view, atom, hold, hold.way, grip, start)
    return plans.place(library, task, view, atom, hold, grip, view.rot(atom.args[0]), start)


@dataclasses.dataclass(frozen=True)
class Handle:
    """Moving a joint.

    Attributes:
      goal: what is wanted of it.
      placed: the contact in use, where the plan was made for it.
    """

    plan: tuple[Waypoint, ...]
    goal: handling.Goal
    placed: Placed

    @property
    def mark(self) -> np.ndarray:
        """The contact's place on the part."""
        return self.placed.contact.site

    @classmethod
    def begin(cls, library: Library, task: Task, view: View, job: Job, failed: Sequence[np.ndarray]) -> Handle | None:
        """A whole plan; None when the part offers nothing to move it by, or the atom judges no joint."""
        goal = handling.goal_of(view, task, job.atom, job.opens_for)
        placed = None if goal is None else handling.choose(library, task, view, goal, failed)
        if goal is None or placed is None:
            return None
        return cls(tuple(handling.plan(library, task, view, placed, goal)), goal, placed)

    def review(self, library: Library, task: Task, view: View, stage: str) -> Review:
        """Compares where the part is with where the plan has it, or with where the fingers are."""
        now = handling.place(view, self.goal, self.placed.contact)
        if stage in handling.APPROACH:
            return Review.ANEW if np.abs(now.site - self.placed.site).max() > _MOVED else Review.GO_ON
        if stage == handling.DRIVE:
            apart = view.eef - now.site
            return Review.RETRY if apart @ apart > _SLIPPED**2 else Review.GO_ON
        return Review.GO_ON

    def after(self, task: Task, view: View) -> View:
        """The joint is where it should go."""
        return view.with_joint(self.goal.mechanism.joint.name, self.goal.target)


@dataclasses.dataclass(frozen=True)
class Shove:
    """Pushing an object over what it stands on.

    Attributes:
      atom: what it is for.
      push: the push.
    """

    atom: Atom
    plan: tuple[Waypoint, ...]
    push: Push

    @property
    def mark(self) -> np.ndarray:
        """Pushes are not told apart."""
        return np.zeros(3)

    @classmethod
    def begin(cls, library: Library, task: Task, view: View, atom: Atom) -> Shove:
        """A whole plan."""
        push = pushing.aim(library.arm(task), view, task, atom)
        return cls(atom, tuple(pushing.plan(library, task, view, push)), push)

    def review(self, library: Library, task: Task, view: View, stage: str) -> Review:
        """Whether the object is where the plan has it, and then whether it stays in front of the fingers and on its way."""
        here, push = view.pos(self.atom.args[0])[:2], self.push
        if stage in pushing.APPROACH:
            return Review.ANEW if np.abs(here - push.start).max() > _MOVED else Review.GO_ON
        if stage == pushing.PUSH:
            side = np.array([-push.along[1], push.along[0]])
            astray = max(abs(float((here - point) @ side)) for point in (view.eef[:2], push.end))
            return Review.ANEW if astray > _ASTRAY else Review.GO_ON
        return Review.GO_ON

    def after(self, task: Task, view: View) -> View:
        """The object is where it was pushed."""
        entity = self.atom.args[0]
        return view.with_pose(entity, np.array([*self.push.end, view.pos(entity)[2]]), view.rot(entity))
