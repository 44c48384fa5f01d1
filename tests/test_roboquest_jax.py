"""Puzzle Box and Odd Parcel on MJX in JAX: what is taken, ticks as on C, and an episode."""

from __future__ import annotations

import dataclasses
import functools
from typing import NamedTuple

import numpy as np
import pytest

from evals import registry
from mjx_bench.engines import engine_of
from mjx_bench.errors import BenchError
from mjx_bench.physics.mjx_jax import contact_slots, refuse
from mjx_bench.policy import Observation, settling
from mjx_bench.task import Task
from mjx_bench.types import Verdict
from policies.reference.oracle import Oracle
from tests.roboquest_runs import outcomes

BOX, ODD = 3, 4  # their places in the suite
Q = 8
TICKS = 6


@functools.cache
def task(number: int) -> Task:
    return registry.load_task("roboquest", number)


def test_puzzle_box_is_taken_and_odd_parcel_has_too_many_contacts():
    instances = task(BOX).extra["instances"]
    refuse(instances.template, instances.varied)
    assert contact_slots(instances.template) <= 560
    many = task(ODD).extra["instances"]
    with pytest.raises(BenchError, match=r"2000 contacts a step at most, and this scene has 3\d\d\d"):
        refuse(many.template, many.varied)


class Moment(NamedTuple):
    """A state of an episode, and what the oracle did next: qpos, qvel, actions [Q, 12]."""

    qpos: np.ndarray
    qvel: np.ndarray
    actions: np.ndarray


def moments(made: Task, index: int, wanted: dict[str, int]) -> list[Moment]:
    """The oracle's episode on C, at the n-th query of each wanted stage."""
    physics = engine_of(made, "c", 1, "mobile_osc", interval=Q)
    lane, policy = np.zeros(1, np.int32), Oracle()
    physics.load(0, made.load_init_states()[index], made.load_reset(0), made.fields_of(index))
    for _ in range(made.settle_steps):
        assert physics.control_step(lane, settling(made, 12)[None]) == {}
    carries, found, count = [policy.init(made, 0)], [], dict.fromkeys(wanted, 0)
    for step in range(0, 2400, Q):
        k = physics.kinematics(lane)
        seen = {f.name: getattr(k, f.name) for f in dataclasses.fields(k)}
        seeds, obs = np.zeros(1, np.uint64), Observation(task=made, step=np.array([step]), **seen)
        actions, carries = policy.act(carries, obs, seeds)
        stage = carries[0].stage.split(":")[0]
        if stage in wanted:
            count[stage] += 1
            if count[stage] == wanted[stage]:
                found.append(Moment(k.qpos[0].copy(), k.qvel[0].copy(), actions[0, :Q]))
        if len(found) == len(wanted):
            physics.close()
            return found
        for tick in range(Q):
            assert physics.control_step(lane, actions[:, tick]) == {}
    raise AssertionError(f"the episode has only so many queries of each stage: {count}")


# Queries of the stages: a handle that is pulled at, the lid that slides, the item over the tray, the hand at the button.
MOMENTS = {"unlock the chest": 14, "open the lid": 12, "move what is inside": 26, "finish": 30}
HAND, THINGS, JOINTS = 2e-4, 2e-4, 1e-3  # metres; metres; radians, metres and quaternions


@pytest.mark.slow
def test_ticks_of_puzzle_box_on_jax_are_those_on_c():
    """From states that both are put into, in single and in double precision, some six minutes."""
    made = task(BOX)
    chosen = moments(made, 0, MOMENTS)
    ids = np.arange(len(chosen), dtype=np.int32)
    actions = np.stack([moment.actions for moment in chosen])
    found = {}
    for backend in ("c", "jax"):
        physics = engine_of(made, backend, len(chosen), "mobile_osc", interval=Q)
        for lane, moment in enumerate(chosen):
            state = np.concatenate([[0.0], moment.qpos, moment.qvel])
            physics.load(lane, state, made.load_reset(0), made.fields_of(0))
        physics.announce(ids, actions, np.full(len(ids), Q))
        steps = []
        for tick in range(TICKS):
            assert physics.control_step(ids, actions[:, tick]) == {}
            k = physics.kinematics(ids)
            steps.append((k.eef_pos.copy(), k.entity_pos.copy(), k.qpos.copy()))
        found[backend] = steps
        physics.close()
    for ours, theirs in zip(found["c"], found["jax"], strict=True):
        for value, other, most in zip(ours, theirs, (HAND, THINGS, JOINTS), strict=True):
            np.testing.assert_allclose(other, value, rtol=0, atol=most)


@pytest.mark.slow
def test_the_oracle_solves_a_puzzle_box_on_jax():
    """An eighth of a second of processor time a tick of one lane, a minute to compile: some five minutes."""
    assert outcomes(task(BOX), "scripted.oracle", [0], "jax") == [(Verdict.SUCCESS, pytest.approx(1.0))]
