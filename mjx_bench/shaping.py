"""How near a goal is, as a number between 0 and 1: the potential that dense rewards are differences of.

A reward `goal + potential(next) - potential(now)` leads where the goal alone would (Ng, Harada and Russell, 1999), and a
return is at most 2. The functions use operators that NumPy and JAX arrays share.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mjx_bench.predicates import JOINT_PREDICATES, UP_HEIGHT, compile_atom
from mjx_bench.signals import SignalIndex, Signals
from mjx_bench.task import Atom, Task

# Signals to float [B] in [0, 1].
Potential = Callable[[Signals], Any]

# At this distance nearness is a half; beyond it there is still a slope to follow.
HALF_M = 0.2
# Of the whole: the hand is where the work is.
REACH = 0.4


def compile_potential(task: Task, index: SignalIndex) -> Potential:
    """The potential of a task.

    Two fifths are how near the end effector is to the entity that the goal is about; the rest is the mean over the goal's
    atoms of how near each is: by distance for `on`, `in`, `inside` and `up`, by the joint's way to its threshold for `open`,
    `close`, `turnon` and `turnoff`, and 0 or 1 for all others.

    Raises:
      BenchError: as `predicates.compile_goal`.
    """
    nearness = [_nearness(atom, task, index) for atom in task.goal]
    about = task.trigger_entity
    reach = None if about is None else index.entity(about)

    def potential(s: Signals) -> Any:
        done = sum(near(s) for near in nearness) / len(nearness)
        if reach is None:
            return done
        return REACH * _near(s.eef_pos - s.entity_pos[:, reach]) + (1 - REACH) * done

    return potential


def _near(offset: Any) -> Any:
    """1 at no distance, down to 0; [B] from [B, 3]."""
    return HALF_M / (HALF_M + (offset[:, 0] ** 2 + offset[:, 1] ** 2 + offset[:, 2] ** 2) ** 0.5)


def _nearness(atom: Atom, task: Task, index: SignalIndex) -> Potential:
    if atom.predicate in ("on", "in", "inside"):
        a, (_, b) = index.entity(atom.args[0]), atom.args
        if b in task.scene.entities:
            other = index.entity(b)
            return lambda s: _near(s.entity_pos[:, a] - s.entity_pos[:, other])
        region = index.region(b)
        return lambda s: _near(s.entity_pos[:, a] - s.region_pos[:, region])
    if atom.predicate == "up":
        a = index.entity(atom.args[0])

        def up(s: Signals) -> Any:
            below = UP_HEIGHT - s.entity_pos[:, a, 2]
            return HALF_M / (HALF_M + below.__array_namespace__().maximum(below, 0.0))

        return up
    if atom.predicate in JOINT_PREDICATES:
        return _joint_nearness(atom, task, index)
    test = compile_atom(atom, task.scene, index)
    return lambda s: test(s) * 1.0


def _joint_nearness(atom: Atom, task: Task, index: SignalIndex) -> Potential:
    """The share of a joint's range that is not between it and its threshold; of several joints the best or the mean."""
    scene, (name,) = task.scene, atom.args
    region = scene.regions.get(name)
    if region is None:
        owner, joints = scene.entities[name], scene.entities[name].joints
    else:
        assert region.parent is not None, "a region of the workspace has no joints"
        owner, joints = scene.entities[region.parent], region.joints
    threshold = owner.thresholds[atom.predicate]
    model = scene.load_spec().compile()
    parts = []
    for joint in joints:
        low, high = model.joint(joint).range
        parts.append((index.joint(joint), float(high - low) or 1.0))
    sign = 1.0 if threshold.comparison in (">", ">=") else -1.0

    def near(s: Signals) -> Any:
        found = []
        for column, span in parts:
            short = sign * (threshold.value - s.joint_qpos[:, column]) / span
            found.append(1.0 - short.__array_namespace__().clip(short, 0.0, 1.0))
        numpy = found[0].__array_namespace__()
        together = numpy.stack(found)
        return together.max(0) if JOINT_PREDICATES[atom.predicate] is any else together.mean(0)

    return near
