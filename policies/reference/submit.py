"""Does what a task asks for, lets go, and presses SUBMIT: the table's expert with one job more at the end.

The expert (`policies.scripted.Reactive`) takes jobs from a task's goal, and would press a button before it carries anything.
So it is shown two tasks: the goal's objects first, and the press once all of them are in place and out of the hand.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np

from mjx_bench.policy import Carry, Observation, PolicySpec
from mjx_bench.task import Atom, Rules, Task
from policies.scripted import agenda
from policies.scripted.expert import HORIZON, Reactive, ReactiveCarry
from policies.scripted.library import Library
from policies.scripted.view import View

WIDE = 0.055  # metres between the fingers: they hold nothing


@dataclasses.dataclass(frozen=True)
class SubmitCarry:
    """Memory of one episode.

    Attributes:
      pressing: whether it is on its way to the button.
      expert: of the task at hand.
    """

    pressing: bool = False
    expert: ReactiveCarry = dataclasses.field(default_factory=ReactiveCarry)


class Submitting:
    """Plans from the current observation at each query."""

    def __init__(self) -> None:
        self.spec = PolicySpec("reference.submit", HORIZON)
        self._expert, self._library = Reactive(), Library()

    def init(self, task: Task, seed: int) -> SubmitCarry:
        """The carry of a new episode."""
        return SubmitCarry()

    def act(self, carries: Sequence[Carry], obs: Observation, seeds: np.ndarray) -> tuple[np.ndarray, Sequence[Carry]]:
        """One query; see `mjx_bench.policy.Policy.act`."""
        carrying, pressing = _parts(obs.task)
        shapes = self._library.shapes(obs.task)
        out: list[SubmitCarry] = []
        for lane, carry in enumerate(carries):
            view = View(shapes, obs, lane)
            done = self._done(carrying, view, carry)
            out.append(carry if done == carry.pressing else SubmitCarry(done))
        actions = np.zeros((len(carries), HORIZON, 7), np.float32)
        for task, now in ((carrying, False), (pressing, True)):
            rows = [i for i, carry in enumerate(out) if carry.pressing == now]
            if rows:
                part = _rows(dataclasses.replace(obs, task=task), np.array(rows))
                actions[rows], new = self._expert.act([out[i].expert for i in rows], part, seeds[rows])
                for i, expert in zip(rows, new, strict=True):
                    out[i] = SubmitCarry(now, expert)
        return actions, out

    def _done(self, task: Task, view: View, carry: SubmitCarry) -> bool:
        """Whether all of a task is done, and it is time to press."""
        return agenda.missing(task, view, agenda.agenda(task)) is None and (carry.pressing or view.opening > WIDE)


def _parts(task: Task) -> tuple[Task, Task]:
    """The task without its press, and the press alone; neither has rules."""
    carried = tuple(atom for atom in task.goal if atom.predicate in agenda.CARRIED)
    press = tuple(Atom(a.predicate, a.args) for a in task.rules.submit if a.predicate == "turnon")
    return dataclasses.replace(task, goal=carried, rules=Rules()), dataclasses.replace(task, goal=press, rules=Rules())


def _rows(obs: Observation, rows: np.ndarray) -> Observation:
    """Some lanes of an observation."""
    arrays = {f.name: getattr(obs, f.name) for f in dataclasses.fields(obs)}
    return dataclasses.replace(
        obs,
        **{name: value[rows] for name, value in arrays.items() if isinstance(value, np.ndarray)},
        articulation={name: value[rows] for name, value in obs.articulation.items()},
        images={name: value[rows] for name, value in obs.images.items()},
    )
