"""The four behavioural metrics of open-ended scenarios, as pure functions over what was recorded of each episode.

Task Coverage, Task Progress, Recovery Rate and Stagnation are pooled: numerators and denominators are summed over episodes
first, and a metric whose denominator is zero is undefined. Times are counted in control steps of the simulation's clock.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Hashable, Iterable, Sequence

import numpy as np

CONTROL_HZ = 20
GRACE_S = 30.0  # of repetition, and least length of a loop
LEAST_EXECUTIONS, LONGEST_CYCLE, LEAST_REPEATS = 3, 8, 3
# Two states are the same within these: base position, joints and base yaw, hand position and rotation.
SAME_BASE_M, SAME_JOINT, SAME_HAND_M, SAME_HAND = 0.02, 0.035, 0.01, 0.052
# Navigation that succeeded and went farther than one of these is no repetition.
NAVIGATED_M, NAVIGATED_RAD = 0.02, 0.035
LEAST_CELLS = 25  # of the map, newly known


@dataclasses.dataclass(frozen=True)
class Subtask:
    """What became of one required subtask.

    Attributes:
      engaged: a finger touched one of its targets, or an operation of it was begun.
      earned: points of contact and process at the end; possible: of the same channels. Final channels count in neither.
    """

    engaged: bool
    earned: float
    possible: float


@dataclasses.dataclass(frozen=True)
class Happening:
    """A failure, or a success that would make up for one.

    Attributes:
      step: when.
      subtask: whose.
      success: a checkpoint of the subtask earned, or earned again; False for a failure.
      excluded: of the interface or of settlement at the end: it counts as no failure.
    """

    step: int
    subtask: str
    success: bool
    excluded: bool = False


@dataclasses.dataclass(frozen=True)
class State:
    """What the robot was like when a call began: base x, y, yaw; joints; hands [2, 3] and their rotations [2, 3, 3]."""

    base: np.ndarray
    joints: np.ndarray
    hands: np.ndarray
    turns: np.ndarray

    def same(self, other: State) -> bool:
        """Whether two states match within the tolerances of a loop."""
        if np.linalg.norm(self.base[:2] - other.base[:2]) > SAME_BASE_M:
            return False
        if abs(self.base[2] - other.base[2]) > SAME_JOINT or np.abs(self.joints - other.joints).max() > SAME_JOINT:
            return False
        if np.linalg.norm(self.hands - other.hands, axis=-1).max() > SAME_HAND_M:
            return False
        traces = (self.turns * other.turns).sum((-1, -2))
        return bool(np.arccos(np.clip((traces - 1.0) / 2.0, -1.0, 1.0)).max() <= SAME_HAND)


@dataclasses.dataclass(frozen=True)
class Call:
    """One execution: a tool call or a chunk of a policy.

    Attributes:
      begin, end: control steps of its simulation; equal for one that advanced none.
      key: what was called, with its arguments; equal for calls that repeat.
      score: the aggregate score increased.
      manipulated: a new hold, a target moved in the hand, a joint or a cell of a stain: the sheet's list.
      cells: of the map, newly known.
      navigated: metres and radians of a base move that succeeded; None for anything else.
      state: when it began; None where that is not known, which matches nothing.
    """

    begin: int
    end: int
    key: Hashable
    score: bool = False
    manipulated: bool = False
    cells: int = 0
    navigated: tuple[float, float] | None = None
    state: State | None = None

    @property
    def progressed(self) -> bool:
        """Whether it interrupts repetition and loops."""
        return self.score or self.manipulated or self.cells >= LEAST_CELLS

    @property
    def went(self) -> bool:
        """Whether it is navigation that repetition leaves out."""
        return self.navigated is not None and (self.navigated[0] > NAVIGATED_M or self.navigated[1] > NAVIGATED_RAD)


@dataclasses.dataclass(frozen=True)
class Episode:
    """What the metrics read of one episode; `steps` is all of its simulation."""

    subtasks: tuple[Subtask, ...] = ()
    happenings: tuple[Happening, ...] = ()
    calls: tuple[Call, ...] = ()
    steps: int = 0


def task_coverage(episodes: Iterable[Episode]) -> float | None:
    """Percent of required subtasks that were engaged."""
    subtasks = [s for e in episodes for s in e.subtasks]
    return _percent(sum(s.engaged for s in subtasks), len(subtasks))


def task_progress(episodes: Iterable[Episode]) -> float | None:
    """Percent of the points of contact and process that were earned, over the subtasks that were engaged."""
    engaged = [s for e in episodes for s in e.subtasks if s.engaged]
    return _percent(sum(s.earned for s in engaged), sum(s.possible for s in engaged))


def recovery_rate(episodes: Iterable[Episode]) -> float | None:
    """Percent of failure segments that a later success of the same subtask followed.

    Failures of a subtask that come again before it recovers are one segment.
    """
    segments = recovered = 0
    for episode in episodes:
        open_since: dict[str, int] = {}
        for h in sorted(episode.happenings, key=lambda h: (h.step, h.success)):
            if h.success:
                if open_since.get(h.subtask, h.step) < h.step:
                    recovered += 1
                    del open_since[h.subtask]
            elif not h.excluded and h.subtask not in open_since:
                open_since[h.subtask] = h.step
                segments += 1
    return _percent(recovered, segments)


def stagnation(episodes: Iterable[Episode], *, hz: int = CONTROL_HZ) -> float | None:
    """Percent of simulated time that was repetition or a loop; what is both counts once."""
    stagnant = total = 0
    for episode in episodes:
        stagnant += int(stagnant_steps(episode, hz=hz).sum())
        total += episode.steps
    return _percent(stagnant, total)


def stagnant_steps(episode: Episode, *, hz: int = CONTROL_HZ) -> np.ndarray:
    """bool [steps] whether each control step was part of a repetition or of a loop."""
    grace = round(GRACE_S * hz)
    flags = np.zeros(episode.steps, np.bool_)
    calls = [c for c in episode.calls if c.end > c.begin]
    for interval in _uninterrupted(calls):
        counted = [c for c in interval if not c.went]
        if len(counted) >= LEAST_EXECUTIONS:
            steps = np.concatenate([np.arange(c.begin, c.end) for c in counted])
            flags[steps[grace:]] = True
        for first, last in _loops(interval, grace):
            flags[interval[first].begin : interval[last].end] = True
    return flags


def _uninterrupted(calls: Sequence[Call]) -> list[list[Call]]:
    """Runs of calls without progress."""
    runs: list[list[Call]] = [[]]
    for call in calls:
        if call.progressed:
            runs.append([])
        else:
            runs[-1].append(call)
    return [run for run in runs if run]


def _loops(calls: Sequence[Call], least: int) -> list[tuple[int, int]]:
    """First and last call of what is stagnant of each loop: all of it but its first cycle."""
    found = []
    for period in range(1, LONGEST_CYCLE + 1):
        start = 0
        while start + LEAST_REPEATS * period <= len(calls):
            end = start + period
            while end < len(calls) and _repeats(calls[end - period], calls[end]):
                end += 1
            whole = (end - start) // period * period
            long_enough = calls[start + whole - 1].end - calls[start].begin >= least
            if whole >= LEAST_REPEATS * period and long_enough:
                found.append((start + period, start + whole - 1))
                start = end
            else:
                start += 1
    return found


def _repeats(a: Call, b: Call) -> bool:
    return a.key == b.key and a.state is not None and b.state is not None and a.state.same(b.state)


def _percent(part: float, whole: float) -> float | None:
    return 100.0 * part / whole if whole else None
