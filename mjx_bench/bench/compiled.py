"""Lanes on a compiled engine, bare MJX on the same, and the program against XLA's own settings.

Bare means `jit(vmap(scan(mjx.step)))`: the model with each lane's own fields, the states that our lanes are in, the actuator
commands held over each control step, and nothing else: no control law, signals, goal or trace. It is compiled with the same
options as ours, since without them there would be nothing to compare with on a CPU.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import jax
import numpy as np
from mujoco import mjx

from mjx_bench.bench.figures import Spread
from mjx_bench.checkers import ending
from mjx_bench.engines import engine_of
from mjx_bench.errors import BenchError
from mjx_bench.physics.compiled import Compiled
from mjx_bench.physics.mjx_compile import Program, compile_program, compiler_options
from mjx_bench.physics.mjx_program import Execute
from mjx_bench.physics.mjx_rows import STATE
from mjx_bench.policy import Observation
from mjx_bench.task import Reset, Task


class CompiledLanes:
    """Lanes announced and executed a chunk at a time, as a rollout does it; `engine.Lanes`.

    Args:
      task: what to run.
      backend: `jax` or `warp`.
      lanes: how many.
      action_mode: of a policy, see `PolicySpec`.
      interval: control steps a segment.
    """

    def __init__(self, task: Task, backend: str, lanes: int, action_mode: str, interval: int) -> None:
        physics = engine_of(task, backend, lanes, action_mode, interval=interval)
        assert isinstance(physics, Compiled)
        self._over = ending(task, physics.index)
        self.physics = physics
        self.lanes = lanes
        self._task = task
        self._bare: Bare | None = None

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

    @property
    def state(self) -> np.ndarray:
        """[B, R] rows."""
        return self.physics._rows[: self.lanes].copy()

    def bare(self, state: np.ndarray, commands: np.ndarray) -> float:
        """Seconds that bare MJX takes from rows [B, R] under commands [B, Q, nu]; compiled first.

        Raises:
          BenchError: as `Bare.run`.
        """
        self._bare = self._bare or Bare(self, self._task.substeps, commands.shape[1])
        return self._bare.run(state, commands)

    def ended(self) -> float:
        """Share of lanes whose episode would be over; none where only the horizon ends one."""
        if self._over is None:
            return 0.0
        return float(np.asarray(self._over(self.physics.signals))[: self.lanes].mean())

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
