"""Our control step against the bare simulator and against the source's own, on the same states and actions.

What bare means for an engine, its lanes say: `c_lanes` for MuJoCo's own, `compiled` for MJX. It runs right after each of
our segments, in the same process.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol

import numpy as np

from mjx_bench.bench.figures import Spread
from mjx_bench.policy import ACTION_DIMS, Observation, Policy, action_mode_for, settling
from mjx_bench.seeds import policy_seed, query_seed
from mjx_bench.task import Reset, Task

LEAST = 3  # segments
QUERY = 8  # control steps a segment, where nothing else is asked for


class Lanes(Protocol):
    """Lanes of one task on some engine, all stepped together; pushes that instances come with are left out."""

    lanes: int

    def load(self, states: Sequence[np.ndarray], reset: Reset) -> None:
        """Puts lane i at `states[i]`, the instances in turn."""
        ...

    def observe(self, task: Task, step: int) -> Observation:
        """What a policy is told."""
        ...

    @property
    def state(self) -> np.ndarray:
        """[B, ...] where the lanes are, for `bare`."""
        ...

    def run(self, actions: np.ndarray) -> tuple[float, np.ndarray]:
        """Executes actions [Q, B, A]; returns seconds, and the actuator commands, for `bare`.

        Raises:
          BenchError: a lane failed.
        """
        ...

    def bare(self, state: np.ndarray, commands: np.ndarray) -> float:
        """Seconds that the bare simulator takes from `state` under `commands`.

        Raises:
          BenchError: it arrived where it should not have.
        """
        ...

    def ended(self) -> float:
        """Share of lanes whose episode would be over."""
        ...

    def close(self) -> None: ...


class Reference(Protocol):
    """The source's own simulator: one episode of the same task, in a process of its own."""

    def restart(self, init_state: np.ndarray) -> None:
        """Begins an episode at an initial state [1 + nq + nv]."""
        ...

    def step(self, actions: np.ndarray) -> float:
        """Executes actions [n, A]; returns the seconds that took, the exchange with the process not counted."""
        ...


@dataclasses.dataclass(frozen=True)
class EngineFigures:
    """What `measure` found, over its segments.

    Attributes:
      steps_per_s: control steps a second, all lanes together.
      vs_raw: our speed over the bare simulator's.
      vs_reference: our speed over the reference's, all lanes against its one episode; None without a reference.
      episodes: times that all lanes were loaded anew.
    """

    steps_per_s: Spread
    vs_raw: Spread
    vs_reference: Spread | None
    episodes: int


def measure(
    task: Task,
    policy: Policy,
    ours: Lanes,
    *,
    seconds: float = 30.0,
    query_interval: int = QUERY,
    seed: int = 0,
    reference: Reference | None = None,
    progress: Callable[[str], None] = lambda line: None,
) -> EngineFigures:
    """Runs `policy` on `task` in segments of one query, each of them bare, and in the reference, right after.

    Args:
      task: what to run; lane i starts at initial state i, and all start again when half of them are done.
      policy: where the actions come from; its own time is not counted.
      ours: of the task, for the policy's control law.
      seconds: after so many no segment is begun, once there are three; loading and the first segment do not count.
      query_interval: control steps a segment.
      seed: policy seed, which fixes fixtures and controllers.
      reference: the source's simulator, given lane 0's actions.
      progress: called with a line about each segment.

    Raises:
      BenchError: as `Lanes.run` and `Lanes.bare`.
    """
    rates: list[float] = []
    against_raw: list[float] = []
    against_reference: list[float] = []
    deadline = None
    episodes = 0
    for first, actions in _segments(task, policy, ours, seed, query_interval, reference):
        episodes += first
        before = ours.state
        mine, commands = ours.run(actions)
        raw = ours.bare(before, commands)
        theirs = None if reference is None else reference.step(actions[:, 0])
        if deadline is None:  # the first segment compiles, and finds every cache cold
            deadline = time.perf_counter() + seconds
            continue
        rates.append(actions.shape[0] * ours.lanes / mine)
        against_raw.append(raw / mine)
        if theirs is not None:
            against_reference.append(theirs * ours.lanes / mine)
        progress(f"{rates[-1]:.4g} control steps a second, {against_raw[-1]:.3g} of the bare simulator's")
        if len(rates) >= LEAST and time.perf_counter() >= deadline:
            break
    theirs_spread = Spread.of(against_reference) if against_reference else None
    return EngineFigures(Spread.of(rates), Spread.of(against_raw), theirs_spread, episodes)


def _segments(
    task: Task, policy: Policy, ours: Lanes, seed: int, interval: int, reference: Reference | None
) -> Iterator[tuple[bool, np.ndarray]]:
    """Actions [Q, B, A] of one query after another, for ever; True with the first of an episode.

    Whoever takes them executes them in all lanes before asking for more. An episode ends where half of the lanes are done:
    arms at rest over a finished task are cheap to simulate, and no run spends its time on them.
    """
    states, reset = task.load_init_states(), task.load_reset(seed)
    lanes = ours.lanes
    width = ACTION_DIMS[action_mode_for(policy.spec.action_mode, task)]
    settle = np.tile(settling(task, width), (task.settle_steps, lanes, 1))
    while True:
        ours.load([states[lane % len(states)] for lane in range(lanes)], reset)
        if len(settle):
            ours.run(settle)
        if reference is not None:
            reference.restart(states[0])
            reference.step(settle[:, 0])
        keys = [f"bench/{task.suite}/{task.index}/{seed}/{lane}" for lane in range(lanes)]
        carries: Sequence[Any] = [policy.init(task, policy_seed(key)) for key in keys]
        for query in range(task.horizon // interval):
            seeds = np.array([query_seed(key, query) for key in keys], np.uint64)
            chunk, carries = policy.act(carries, ours.observe(task, query * interval), seeds)
            yield query == 0, np.asarray(chunk, np.float64)[:, :interval].swapaxes(0, 1)
            if ours.ended() > 0.5:
                break
