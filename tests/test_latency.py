"""A policy that answers late, and one that is asked again when the scene changes: what is executed, and what is recorded."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mjx_bench.errors import BenchError
from mjx_bench.observe.watching import FLICKER, JUMP_M, Sight, notice, sights
from mjx_bench.policy import Observation, PolicySpec
from mjx_bench.records import Record, Run
from mjx_bench.task import Task
from tests.scenes import libero_lanes
from tests.test_pairs import HORIZON, MIXED, H, Q, a_case, at, manifest_of, near, results, run

BOWL = "libero_spatial"
RELOCATED = manifest_of(a_case("target_relocation", at(12)), a_case("target_relocation", at(8), init=1))


def trace(found: Run, record: Record, name: str) -> np.ndarray:
    return np.asarray(found.array(record, name))


class Counting:
    """Its k-th action of the n-th query says so: (n, k) in the first two numbers, as hundredths."""

    spec = PolicySpec("counting", horizon=H)

    def init(self, task: Task, seed: int) -> Any:
        return 0

    def act(self, carries: Sequence[Any], obs: Observation, seeds: np.ndarray) -> tuple[np.ndarray, Sequence[Any]]:
        out = np.zeros((len(carries), H, 7), np.float32)
        out[:, :, 0] = np.array(carries)[:, None] / 100
        out[:, :, 1] = np.arange(H) / 100
        return out, [carry + 1 for carry in carries]


@pytest.mark.parametrize("delay", [0, 1, 3])
def test_an_action_is_for_its_own_step_however_late_the_answer_comes(delay: int, tmp_path: Path):
    found = run(tmp_path, RELOCATED, Counting(), delay=delay)
    for record in found.records:
        np.testing.assert_array_equal(trace(found, record, "query_steps"), np.arange(0, record.end_step, Q))
        executed = np.rint(trace(found, record, "actions")[:, :2] * 100).astype(int)
        step = np.arange(record.end_step)
        query = np.maximum(step - delay, 0) // Q
        np.testing.assert_array_equal(executed, np.stack([query, step - Q * query], 1))
    for record in (r for r in found.records if r.arm == "dynamic"):
        # Both events fall on a query: the answer to it is late by the delay alone.
        assert (record.first_response_step, record.stale_actions) == (record.trigger_step, delay)


def test_late_answers_need_actions_to_bridge_them(tmp_path: Path):
    with pytest.raises(
        BenchError, match=f"query interval {Q} and delay 5 need 9 actions .* horizon of wanderer is {H}"
    ):
        run(tmp_path, delay=5)
    with pytest.raises(BenchError, match="delay must be 0 or more"):
        run(tmp_path, delay=-1)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("settings", [{"delay": 3}, {"cancel_on_change": True}, {"delay": 2, "cancel_on_change": True}])
def test_forks_equal_replays_in_any_lanes(settings: dict[str, Any], tmp_path: Path):
    forked = run(tmp_path / "forked", lanes=3, **settings)
    replayed = run(tmp_path / "replayed", lanes=1, replay=True, **settings)
    assert results(forked) == results(replayed)
    assert len(forked.records) == 2 * len(MIXED.cases)


def test_what_was_interrupted_is_finished_to_the_same_bits(tmp_path: Path):
    settings: dict[str, Any] = {"delay": 2, "cancel_on_change": True, "lanes": 1}
    whole = run(tmp_path / "whole", **settings)

    def stop(done: int, total: int, record: Any) -> None:
        if done == 5:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(tmp_path / "cut", progress=stop, **settings)
    assert results(run(tmp_path / "cut", **settings)) == results(whole)


@pytest.mark.parametrize("delay", [0, 2])
def test_a_jump_is_answered_at_once(delay: int, tmp_path: Path):
    """Relocated between two queries: asked again in the step of the event; only the delay makes actions stale."""
    cases = manifest_of(a_case("target_relocation", at(12)), a_case("illumination_switch", at(8)))
    found = run(tmp_path, cases, query_interval=Q, delay=delay, cancel_on_change=True)
    by_key = {(r.change_type, str(r.arm)): r for r in found.records}
    for record in found.records:
        queries, cancels = trace(found, record, "query_steps"), trace(found, record, "cancel_steps")
        assert np.isin(cancels, queries).all()
    moved = by_key["target_relocation", "dynamic"]
    assert moved.stale_actions == delay
    # A policy that is told positions cannot see the light.
    for key in (("illumination_switch", "dynamic"), ("illumination_switch", "base"), ("target_relocation", "base")):
        assert trace(found, by_key[key], "cancel_steps").size == 0
        np.testing.assert_array_equal(trace(found, by_key[key], "query_steps"), np.arange(0, HORIZON, Q))


def test_a_cancel_drops_what_waits(tmp_path: Path):
    """With the event in mid-chunk: Q = 8 executes all of it without the detector, and none after the event with it."""
    cases = manifest_of(a_case("target_relocation", near(10.0)))
    blind = run(tmp_path / "a", cases, query_interval=8)
    alert = run(tmp_path / "b", cases, query_interval=8, cancel_on_change=True)
    stale = [next(r.stale_actions for r in f.records if r.arm == "dynamic") for f in (blind, alert)]
    assert stale == [7, 0]
    dynamic = next(r for r in alert.records if r.arm == "dynamic")
    assert trace(alert, dynamic, "cancel_steps").tolist() == [1]
    assert trace(alert, dynamic, "query_steps").tolist()[:3] == [0, 1, 9]


def test_positions_jump_beyond_the_threshold_and_once():
    here = np.zeros((3, 3))
    there = here.copy()
    there[1, 0] = JUMP_M * 1.01
    sight, changed = notice(None, here)
    assert not changed
    assert not notice(sight, here + 0.99 * JUMP_M / np.sqrt(3))[1]
    after, changed = notice(sight, there)
    assert changed
    assert not notice(after, here)[1]  # it jumped in the step before as well
    assert notice(Sight(here), there)[1]


def test_pictures_are_compared_in_blocks():
    obs = libero_lanes(BOWL, 4, 1)
    kinematics = obs.kinematics(np.zeros(1, np.int32))
    fields = {f.name: getattr(kinematics, f.name) for f in dataclasses.fields(kinematics)}
    rng = np.random.default_rng(0)
    picture = rng.integers(40, 200, (1, 66, 64, 3), dtype=np.uint8)

    def seen(image: np.ndarray) -> np.ndarray:
        return sights(Observation(task=None, step=np.zeros(1), images={"agentview": image}, **fields))[0]  # type: ignore[arg-type]

    before = seen(picture)
    assert before.shape == (16, 16, 3)
    np.testing.assert_allclose(before[2, 3], picture[0, 8:12, 12:16].mean((0, 1)), rtol=1e-6)
    assert notice(Sight(before), seen((picture * 0.2).astype(np.uint8)))[1]
    assert not notice(Sight(before), seen(picture + np.uint8(int(FLICKER) - 1)))[1]
