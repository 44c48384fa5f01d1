"""Pairs in a kitchen: what Base and Dynamic share, what the event does, and where it may put a container."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from evals import registry
from evals.libero_max.sampler import sample_manifest
from evals.roboquest import skills
from mjx_bench.cases import Manifest
from mjx_bench.records import Run, load_run
from mjx_bench.rescore import rescore
from mjx_bench.schedule import run_pairs
from mjx_bench.settings import RunSettings
from policies.reference.oracle import Oracle

PICK, Q = registry.load_task("roboquest", 1), 8


def pairs(number: int) -> Manifest:
    return sample_manifest([PICK], number, 0, events=["target_relocation"], init_states=range(number))


def run(out: Path, replay: bool = False) -> Run:
    settings = RunSettings(policy="oracle", lanes=2, query_interval=Q, threads=1, replay=replay)
    run_pairs(pairs(1), settings, out, load_task=lambda case: PICK, policy=Oracle())
    return load_run(out)


@pytest.fixture(scope="module")
def forked(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return run(tmp_path_factory.mktemp("pair"))


def test_the_container_is_moved_once_and_all_before_is_shared_to_the_bit(forked: Run):
    (case,) = pairs(1).cases
    base, dynamic = (forked.done[case.case_id, arm] for arm in ("base", "dynamic"))
    assert (base.verdict, dynamic.verdict) == ("success", "success")
    assert base.trigger_step == dynamic.trigger_step
    assert base.fork_sha256 == dynamic.fork_sha256
    assert base.event is None
    step, answer = dynamic.trigger_step, dynamic.first_response_step
    assert step is not None
    assert answer == Q * -(-step // Q), "the first query after it"
    assert Q < step < base.end_step, "a prefix that is more than a chunk, and an arm that is on its way"

    def both(name: str) -> tuple[np.ndarray, np.ndarray]:
        return np.asarray(forked.array(base, name)), np.asarray(forked.array(dynamic, name))

    assert {name for name in base.arrays if name.startswith("signals.")} >= {"signals.entity_pos", "signals.touch"}
    for name in {*base.arrays} - {"actions", "chunks", "query_steps"}:
        ours, theirs = both(name)
        np.testing.assert_array_equal(ours[:step], theirs[:step], name)
    ours, theirs = both("actions")
    np.testing.assert_array_equal(ours[:answer], theirs[:answer], "what was chosen before is still done")
    assert not np.array_equal(ours, theirs[: len(ours)]), "the oracle's next move is to where it stands now"

    ours, theirs = both("target_pos")
    assert dynamic.event is not None
    (moved,) = dynamic.event["moved"]
    assert moved["entity"] == "container"
    np.testing.assert_array_equal(moved["before"], theirs[step - 1])
    apart = np.array(moved["after"]) - moved["before"]
    assert apart == pytest.approx(case.scenario.change.fields["delta_position_m"])  # type: ignore[union-attr]
    assert np.linalg.norm(apart) == pytest.approx(0.12 if case.scenario.severity == "high" else 0.06)  # type: ignore[union-attr]
    np.testing.assert_allclose(theirs[step : step + 5] - moved["after"], 0.0, atol=1e-3)  # it stands there
    np.testing.assert_allclose(ours[step : step + 5] - moved["before"], 0.0, atol=1e-3)  # where Base's still does


def test_a_prefix_that_is_played_again_arrives_at_the_same_bits(forked: Run, tmp_path: Path):
    again = run(tmp_path / "again", replay=True)
    assert {key: r.result() for key, r in again.done.items()} == {key: r.result() for key, r in forked.done.items()}
    found = rescore(again.directory)
    assert (found.arms, found.agrees, found.triggers_unchecked) == (2, True, 0)


def test_a_container_is_moved_to_a_free_spot_of_the_work_top():
    made, seen = PICK.extra["instances"], set()
    cases = pairs(40).cases
    assert len({case.init_state_index for case in cases}) > 10
    for case in cases:
        container, square = made.instance(case.init_state_index).placed
        fields = case.scenario.change.fields  # type: ignore[union-attr]
        at = np.add(container.xy, fields["delta_position_m"][:2])
        seen.add(tuple(np.sign(np.round(fields["delta_position_m"][:2], 6))))
        r, work_top = container.thing.radius, skills.FOOTPRINT
        assert abs(at[0]) + r < work_top.x / 2 + 0.02, case.case_id  # as near as the kitchen's own things may stand
        assert abs(at[1]) + r < work_top.y / 2 + 0.03, case.case_id  # the inset of the front edge
        assert np.abs(at - square.xy).max() > skills.TARGET_HALF + r, f"{case.case_id}: on the square, or half on it"
    assert len(seen) > 4, "all ways round"
