"""What there is to do for a goal, and in which order: its atoms, and what must be opened first."""

from __future__ import annotations

import dataclasses

from mjx_bench.task import COMPARE, Atom, Task
from policies.scripted import goals
from policies.scripted.handling import joints_of, open_enough
from policies.scripted.view import View

CARRIED = ("on", "in", "inside")
_ALL_JOINTS = ("close", "turnoff")  # these ask it of all joints, the others of one


@dataclasses.dataclass(frozen=True)
class Job:
    """One thing to do.

    Attributes:
      atom: what must hold.
      opens_for: the goal atom that it prepares; it need not be done when that one holds. None for an atom of the goal.
    """

    atom: Atom
    opens_for: Atom | None = None


def agenda(task: Task) -> tuple[Job, ...]:
    """The jobs of a task: knobs and drawers that the goal wants open, then objects, supports before what goes on them, then
    what is to be closed.
    """
    jobs: list[Job] = []
    for atom in sorted(task.goal, key=lambda a: _rank(task, a)):
        if atom.predicate in ("in", "inside") and (opening := _opening(task, atom)) is not None:
            jobs.append(Job(opening, atom))
        jobs.append(Job(atom))
    return tuple(jobs)


def _rank(task: Task, atom: Atom) -> tuple[int, int]:
    if atom.predicate in CARRIED:
        return 1, _depth(task, atom, len(task.goal))
    return (2, 0) if atom.predicate == "close" else (0, 0)


def _depth(task: Task, atom: Atom, limit: int) -> int:
    """How many goal atoms must hold before this one: those that put its support in place, and theirs."""
    below = [a for a in task.goal if a.predicate in CARRIED and a.args[0] == task.entity_of(atom.args[1])]
    return 1 + max(_depth(task, a, limit - 1) for a in below) if below and limit else 0


def _opening(task: Task, atom: Atom) -> Atom | None:
    """What must be open for an object to go in: the drawer that the region sits in, or the one door of its owner."""
    region = task.scene.regions.get(atom.args[1])
    if region is None or region.parent is None:
        return None
    name = atom.args[1] if region.joints else region.parent
    opening = Atom("open", (name,))
    found = joints_of(task, opening)
    return opening if found is not None and len(found[0]) == 1 else None


def missing(task: Task, view: View, jobs: tuple[Job, ...]) -> int | None:
    """Index of the first job that is not done, as far as poses tell; None when all are."""
    for i, job in enumerate(jobs):
        if job.opens_for is None:
            if not holds(task, view, job.atom):
                return i
        elif not holds(task, view, job.opens_for) and not open_enough(view, task, job.atom, job.opens_for):
            return i
    return None


def holds(task: Task, view: View, atom: Atom) -> bool:
    """Whether an atom holds, as far as poses tell; one that the experts know nothing of never does."""
    if atom.predicate in (*CARRIED, "up"):
        return goals.satisfied(view, task, atom)
    found = joints_of(task, atom)
    if found is None:
        return False
    names, test = found
    passed = [COMPARE[test.comparison](view.joints[name], test.value) for name in names]
    return all(passed) if atom.predicate in _ALL_JOINTS else any(passed)
