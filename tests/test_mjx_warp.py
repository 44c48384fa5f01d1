"""The engine `warp`, on a CPU: agreement with the C engine, exact tiles and snapshots, buffers that are too small."""

from __future__ import annotations

import numpy as np
import pytest

from mjx_bench.errors import MissingExtra
from mjx_bench.physics import choice
from mjx_bench.physics.compiled import Compiled
from mjx_bench.physics.mjx_program import Execute
from mjx_bench.physics.mjx_warp import WarpStepper
from tests.arm_scene import arm_scene, initial_state, reset_of
from tests.test_mjx_engine import (
    INTERVAL,
    KEPT,
    OWN,
    SUBSTEPS,
    TILE,
    check_parity,
    chunks,
    digests,
    ids_of,
    lanes_of,
    run,
)

pytestmark = [pytest.mark.slow, pytest.mark.skipif(bool(choice.missing_warp()), reason="needs the extra: warp")]


def test_one_control_step_from_200_injected_states_agrees_with_the_c_engine():
    check_parity("warp")


def test_a_lane_has_the_same_bits_in_any_number_of_tiles_at_any_place_and_in_any_company():
    actions = chunks(INTERVAL, 12, seed=2)
    physics = lanes_of(12, "warp")
    run(physics, np.arange(12, dtype=np.int32), actions)
    wanted = digests(physics, range(12))
    alone = lanes_of(12, "warp")
    run(alone, ids_of(3, 10), actions[[3, 10]])
    assert digests(alone, [3, 10]) == [wanted[3], wanted[10]]
    order = np.random.default_rng(0).permutation(12)
    for place, lane in enumerate(order):
        physics.load(place, initial_state(lane, grasped=bool(lane % 2)), reset_of())
    run(physics, np.arange(12, dtype=np.int32), actions[order])
    assert digests(physics, range(12)) == [wanted[lane] for lane in order]


def test_a_snapshot_in_the_middle_of_a_chunk_continues_with_the_same_bits_in_another_lane():
    actions, cut = chunks(INTERVAL, 2, seed=4), 3
    physics, ids = lanes_of(2, "warp"), ids_of(0, 1)
    physics.announce(ids, actions, np.full(2, INTERVAL))
    for step in range(cut):
        physics.control_step(ids, actions[:, step])
    snapshot = physics.snapshot(1)
    for step in range(cut, INTERVAL):
        physics.control_step(ids, actions[:, step])
    physics.restore(0, snapshot)
    run(physics, ids_of(0), actions[1:2, cut:])
    assert physics.snapshot(0).digest() == physics.snapshot(1).digest()


def test_a_contact_buffer_that_is_too_small_is_made_larger_and_changes_no_bit():
    scene, success = arm_scene()
    small = Execute(WarpStepper(scene, OWN, TILE, contacts=3), "osc_pose", SUBSTEPS, INTERVAL, OWN, success, TILE)
    physics, enough = Compiled(scene, small, TILE, success, KEPT), lanes_of(TILE, "warp")
    for lane in range(TILE):
        physics.load(lane, initial_state(lane, grasped=bool(lane % 2)), reset_of())
    actions = chunks(2, TILE, seed=5)
    run(physics, np.arange(TILE, dtype=np.int32), actions)
    run(enough, np.arange(TILE, dtype=np.int32), actions)
    assert physics.grown == 1
    assert enough.grown == 0
    assert digests(physics, range(TILE)) == digests(enough, range(TILE))


def test_a_buffer_that_cannot_grow_voids_every_lane_of_the_program(monkeypatch):
    monkeypatch.setattr("mjx_bench.physics.compiled.MOST_GROWTH", 0)
    scene, success = arm_scene()
    small = Execute(WarpStepper(scene, OWN, TILE, contacts=3), "osc_pose", SUBSTEPS, INTERVAL, OWN, success, TILE)
    physics = Compiled(scene, small, TILE, success, KEPT)
    for lane in range(TILE):
        physics.load(lane, initial_state(lane, grasped=bool(lane % 2)), reset_of())
    failed = physics.control_step(np.arange(TILE, dtype=np.int32), np.zeros((TILE, 7)))
    assert sorted(failed) == list(range(TILE))
    assert all(
        "contact buffer of 3 contacts a lane is full" in reason or "constraint" in reason for reason in failed.values()
    )


def test_the_missing_extra_is_named(monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(MissingExtra, match="warp-lang"):
        choice.choose("warp")
