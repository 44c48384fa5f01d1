"""Programs of this process by what they compute: engines of one scene, in any thread, share one."""

from __future__ import annotations

import collections
import dataclasses
import hashlib
import threading
from collections.abc import Callable
from typing import Any

import jax
import mujoco
import numpy as np

from mjx_bench.physics.mjx_program import Execute, Stepper
from mjx_bench.physics.scene import SceneModel
from mjx_bench.signals import SignalIndex, Signals

# Programs kept when no engine uses them; each holds a few megabytes.
KEPT = 16

_programs: collections.OrderedDict[str, Execute] = collections.OrderedDict()
_lock = threading.Lock()


def execute_of(
    engine: str,
    make_stepper: Callable[[SceneModel, tuple[str, ...], int], Stepper],
    scene: SceneModel,
    action_mode: str,
    substeps: int,
    interval: int,
    fields: tuple[str, ...],
    success: Callable[[Signals], Any] | None,
    tile: int,
) -> Execute:
    """The program that `Execute` would make of these arguments, made only once.

    Args:
      engine: its name.
      make_stepper: makes its physics of a scene, the fields that lanes have their own of, and the lanes a program.
      scene, action_mode, substeps, interval, fields, success, tile: as for `Execute`.
    """
    goal = "" if success is None else _traced(success, scene.index)
    settings = (engine, action_mode, substeps, interval, fields, goal, tile)
    key = _digest(scene) + repr(settings)
    with _lock:
        if key not in _programs:
            stepper = make_stepper(scene, fields, tile)
            program = Execute(stepper, action_mode, substeps, interval, fields, success, tile)
            _programs[key] = program.compiled()
        _programs.move_to_end(key)
        while len(_programs) > KEPT:
            _programs.popitem(last=False)
        return _programs[key]


def _traced(success: Callable[[Signals], Any], index: SignalIndex) -> str:
    """What a test computes, as text: two tests of the same text are one."""
    zeros = vars(Signals.zeros(1, index))
    return str(jax.make_jaxpr(lambda *arrays: success(Signals(*arrays)))(*zeros.values()))


def _digest(part: Any) -> str:
    """SHA-256 over everything in a compiled scene."""
    if isinstance(part, mujoco.MjModel):
        content = np.empty(mujoco.mj_sizeModel(part), np.uint8)
        mujoco.mj_saveModel(part, None, content)
        return hashlib.sha256(content.tobytes()).hexdigest()
    if isinstance(part, np.ndarray):
        return hashlib.sha256(repr((part.dtype.str, part.shape)).encode() + part.tobytes()).hexdigest()
    if dataclasses.is_dataclass(part):
        part = [(f.name, getattr(part, f.name)) for f in dataclasses.fields(part)]
    if isinstance(part, list | tuple):
        return hashlib.sha256("".join(map(_digest, part)).encode()).hexdigest()
    return hashlib.sha256(repr(part).encode()).hexdigest()
