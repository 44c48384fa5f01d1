"""Runs a task's program: one move after another, looking again at every query."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np

from mjx_bench.errors import BenchError
from mjx_bench.policy import Carry, Observation, PolicySpec
from mjx_bench.task import Task
from policies.mobile.moves import ACTION_DIM, Move, State
from policies.mobile.program import Memory, Program
from policies.mobile.view import Library, MobileView

HORIZON = 16
# Moves that may have ended already when they begin, in a row; a program that goes on so has lost its way.
_MOST_ENDED = 16


@dataclasses.dataclass(frozen=True)
class MobileCarry:
    """Memory of one episode.

    Attributes:
      memory: the program's.
      move, state: what is going on; None before the first query.
      stage: what the program calls it.
    """

    memory: Memory
    move: Move | None = None
    state: State = None
    stage: str = ""


class Mobile:
    """Acts by `Task.extra["program"]`."""

    def __init__(self) -> None:
        self.spec = PolicySpec("mobile.program", HORIZON, "mobile_osc")
        self._library = Library()

    def init(self, task: Task, seed: int) -> MobileCarry:
        """The carry of a new episode."""
        return MobileCarry(_program(task).start(task))

    def act(self, carries: Sequence[Carry], obs: Observation, seeds: np.ndarray) -> tuple[np.ndarray, Sequence[Carry]]:
        """One query; see `mjx_bench.policy.Policy.act`. Lanes do not see each other."""
        program, out = _program(obs.task), []
        actions = np.zeros((len(carries), HORIZON, ACTION_DIM), np.float32)
        for lane, carry in enumerate(carries):
            view = MobileView(self._library, obs, lane)
            carry = self._update(program, carry, view)
            assert carry.move is not None, "there is always a next move"
            actions[lane], state = carry.move.act(carry.state, view, self._library, HORIZON)
            out.append(dataclasses.replace(carry, state=state))
        return actions, out

    def _update(self, program: Program, carry: MobileCarry, view: MobileView) -> MobileCarry:
        """Goes on to the next move once one has ended."""
        move, state, memory, stage = carry.move, carry.state, carry.memory, carry.stage
        for _ in range(_MOST_ENDED):
            if move is not None:
                state, ended = move.look(state, view)
                if not ended:
                    return MobileCarry(memory, move, state, stage)
            memory, move, stage = program.next(memory, view)
            state = move.start(view)
        return MobileCarry(memory, move, state, stage)


def _program(task: Task) -> Program:
    program: Program | None = task.extra.get("program")
    if program is None:
        raise BenchError(f"{task.suite} task {task.name} has no program that a scripted expert could follow")
    return program
