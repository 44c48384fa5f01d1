"""A compiled engine against bare MJX on the same scene, lanes and physics steps, and against XLA's own settings.

Bare means `jit(vmap(scan(mjx.step)))`: the model with each lane's own fields, the states that our lanes are in, the actuator
commands held over each control step, and nothing else: no control law, signals, goal or trace. It is compiled with the same
options as ours, since without them there would be nothing to compare with on a CPU. It runs right after each of our
segments, in the same process.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np
from mujoco import mjx

from mjx_bench.bench.engine import EngineFigures, segments
from mjx_bench.bench.figures import Spread
from mjx_bench.engines import engine_of
from mjx_bench.errors import BenchError
from mjx_bench.physics.compiled import Compiled
from mjx_bench.physics.mjx_compile import Program, compile_program, compiler_options
from mjx_bench.physics.mjx_program import Execute
from mjx_bench.physics.mjx_rows import STATE
from mjx_bench.policy import Observation, Policy
from mjx_bench.predicates import compile_goal
from mjx_bench.task import Reset, Task


@dataclasses.dataclass(frozen=True)
class CompiledFigures:
    """What a measurement of a compiled engine found beside its speed.

    Attributes:
      tile: lanes a program.
      trace_s, compile_s: seconds in Python, and in XLA or its persistent cache; cached: whether it came from there.
      vs_stock: our speed over that of the same program under XLA's own settings; None where ours are XLA's own.
      stock_note: how that was measured, or why not.
    """

    tile: int
    trace_s: float
    compile_s: float
    cached: bool
    vs_stock: float | None
    stock_note: str


class CompiledLanes:
    """`lanes` lanes of a task on a compiled engine, announced and executed a chunk at a time, as a rollout does it."""

    def __init__(self, task: Task, backend: str, lanes: int, action_mode: str, interval: int, tile: int | None) -> None:
        physics = engine_of(task, backend, lanes, action_mode, interval=interval, tile=tile)
        assert isinstance(physics, Compiled)
        self._success = compile_goal(task.goal, task.scene, physics.index)[1]
        self.physics = physics
        self.lanes = lanes
        self._task = task

    @property
    def execute(self) -> Execute:
        """The program."""
        return self.physics._execute

    def load(self, states: Sequence[np.ndarray], reset: Reset) -> None:
        """Puts lane i at `states[i]`, the instances in turn."""
        task = self._task
        count = len(task.load_init_states())
        for lane, state in enumerate(states):
            self.physics.load(lane, state, reset, task.fields_of(lane % count))

    def observe(self, task: Task, step: int) -> Observation:
        """What a policy is told."""
        seen = self.physics.kinematics(np.arange(self.lanes, dtype=np.int32))
        return Observation(task=task, step=np.full(self.lanes, step, np.int64), **vars(seen))

    def run(self, actions: np.ndarray) -> tuple[float, np.ndarray]:
        """Executes actions [Q, B, A]; returns seconds, and commands [B, Q, nu] as each control step left them.

        Raises:
          BenchError: a lane failed.
        """
        ids = np.arange(self.lanes, dtype=np.int32)
        commands = []
        start = time.perf_counter()
        for first in range(0, len(actions), self.execute.interval):
            chunk = actions[first : first + self.execute.interval]
            self.physics.announce(ids, chunk.swapaxes(0, 1), np.full(self.lanes, len(chunk)))
            for row in chunk:
                if failed := self.physics.control_step(ids, row):
                    lane = min(failed)
                    raise BenchError(f"lane {lane} failed: {failed[lane]}; choose another policy or task to measure")
                commands.append(self.physics._row["ctrl"][: self.lanes].copy())
        return time.perf_counter() - start, np.stack(commands, 1)

    def succeeded(self) -> float:
        """Share of lanes whose goal holds."""
        return float(np.asarray(self._success(self.physics.signals))[: self.lanes].mean())

    def close(self) -> None:
        self.physics.close()


class Bare:
    """Bare MJX on the lanes' scene.

    Args:
      ours: whose scene, lanes and fields.
      substeps: physics steps a control step.
      steps: control steps a call.
    """

    def __init__(self, ours: CompiledLanes, substeps: int, steps: int) -> None:
        execute, physics = ours.execute, ours.physics
        stepper: Any = execute.stepper
        model, data = stepper.bare(ours.lanes)
        moving, given = execute.moving, execute.given

        def lane(row: jax.Array, own: jax.Array, commands: jax.Array) -> jax.Array:
            parts = given.split(own)
            m = model.replace(**{n: parts[n].reshape(getattr(model, n).shape) for n in execute.fields})
            d = data.replace(**{n: value for n, value in moving.split(row).items() if n in STATE})

            def physics_step(d: Any, _: None) -> tuple[Any, None]:
                return mjx.step(m, d), None

            def control_step(d: Any, ctrl: jax.Array) -> tuple[Any, None]:
                return jax.lax.scan(physics_step, d.replace(ctrl=ctrl), length=substeps)[0], None

            return jax.lax.scan(control_step, d, commands)[0].qpos

        shapes = ((ours.lanes, moving.size), (ours.lanes, given.size), (ours.lanes, steps, physics.scene.model.nu))
        self.program: Program = compile_program(
            jax.vmap(lane), *(jax.ShapeDtypeStruct(shape, np.float32) for shape in shapes)
        )
        self._given = jax.numpy.asarray(physics._given[: ours.lanes])

    def run(self, rows: np.ndarray, commands: np.ndarray) -> float:
        """Seconds from rows [B, R] under commands [B, Q, nu], which are on the device before the clock starts.

        Raises:
          BenchError: it did not arrive at a finite state.
        """
        arguments = jax.block_until_ready((jax.numpy.asarray(rows), self._given, jax.numpy.asarray(commands)))
        start = time.perf_counter()
        qpos = jax.block_until_ready(self.program.call(*arguments))
        seconds = time.perf_counter() - start
        if not np.isfinite(np.asarray(qpos)).all():
            raise BenchError("bare MJX left the finite numbers on our lanes' states and commands")
        return seconds


def against_stock(ours: CompiledLanes) -> tuple[float | None, str]:
    """Our speed over that of the same program under XLA's own settings, and how that was measured.

    One control step of one tile, and only once under XLA's own settings, where it may take half a minute.
    """
    execute = ours.execute
    platform = jax.default_backend()
    if not compiler_options(platform):
        return None, f"XLA's own settings are used on {platform}"
    stock = Execute(execute.stepper, *execute.arguments, stock=True)
    lanes = execute.tile
    chosen = np.arange(lanes) % ours.lanes
    arguments = (
        ours.physics._rows[chosen],
        ours.physics._given[chosen],
        np.zeros((lanes, execute.interval, execute.action_dim), np.float32),
        np.ones(lanes, np.int32),
        np.zeros(lanes, np.bool_),
    )

    def seconds(program: Execute) -> float:
        start = time.perf_counter()
        jax.block_until_ready(program(*arguments))
        return time.perf_counter() - start

    seconds(execute)
    mine = Spread.of([seconds(execute) for _ in range(5)]).median
    theirs = seconds(stock)
    return theirs / mine, (
        f"one control step of {lanes} lanes: {theirs:.3g} s, once, against {mine:.3g} s;"
        f" compiled in {stock.program.compile_s:.3g} s"
    )


def measure(
    task: Task,
    policy: Policy,
    *,
    backend: str,
    lanes: int,
    seconds: float = 30.0,
    query_interval: int = 8,
    seed: int = 0,
    tile: int | None = None,
    progress: Callable[[str], None] = lambda line: None,
) -> tuple[EngineFigures, CompiledFigures]:
    """Runs `policy` on `task` in segments of one query, each of them bare right after.

    Args:
      task, policy, lanes, query_interval, seed: as for `engine.measure`.
      backend: `jax` or `warp`.
      seconds: after so many no segment is begun, once there are three; compiling and the first segment do not count.
      tile: lanes a program; None for the platform's own.
      progress: called with a line about what is done.

    Raises:
      BenchError: a lane failed, or a scene that the engine cannot simulate.
    """
    ours = CompiledLanes(task, backend, lanes, policy.spec.action_mode, query_interval, tile)
    program = ours.execute.program
    progress(f"compiled in {program.compile_s:.3g} s" + (", from the cache" if program.cached else ""))
    rates, against_bare = [], []
    bare: Bare | None = None
    deadline = None
    episodes = 0
    try:
        for first, actions in segments(task, policy, ours, task.load_reset(seed), seed, query_interval, None):
            episodes += first
            before = ours.physics._rows[:lanes].copy()
            mine, commands = ours.run(actions)
            bare = bare or Bare(ours, task.substeps, query_interval)
            theirs = bare.run(before, commands)
            if deadline is None:  # the first segment finds every cache cold
                deadline = time.perf_counter() + seconds
                continue
            rates.append(actions.shape[0] * lanes / mine)
            against_bare.append(theirs / mine)
            progress(f"{rates[-1]:.4g} control steps a second, {against_bare[-1]:.3g} of bare MJX")
            if len(rates) >= 3 and time.perf_counter() >= deadline:
                break
        tile = ours.execute.tile
        found = CompiledFigures(tile, program.trace_s, program.compile_s, program.cached, *against_stock(ours))
    finally:
        ours.close()
    return EngineFigures(Spread.of(rates), Spread.of(against_bare), None, episodes), found
