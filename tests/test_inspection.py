"""The timeline of a case says what the records say, and its trajectories are the run's."""

from __future__ import annotations

import numpy as np
import pytest

from mjx_bench.arms import Arms
from mjx_bench.inspection import ArmView, inspect_case
from mjx_bench.types import Arm
from tests.scenes import libero_task
from tests.test_pairs import HORIZON, MIXED, H, Q, Wanderer, arms, array, run, short_task


@pytest.fixture(scope="module")
def views() -> dict[Arm, ArmView]:
    case = MIXED.cases[1]
    return inspect_case(case, short_task(case), Wanderer(), Arms(Q, H))


def said(view: ArmView) -> list[str]:
    return [f"{m.step} {m.what}" for m in view.moments]


def test_the_timeline_names_queries_trigger_event_and_end_in_order(views):
    dynamic = said(views[Arm.DYNAMIC])
    assert dynamic[0] == "0 query 0"
    trigger = next(i for i, line in enumerate(dynamic) if "trigger on_proximity alphabet_soup_1" in line)
    assert dynamic[trigger].startswith("1 ")
    assert dynamic[trigger + 1].startswith("1 event move_object: alphabet_soup_1 (")
    assert f"{Q} query 1, the first after the event" in dynamic
    assert dynamic[-1] == f"{HORIZON} end: timeout (horizon)"
    base = said(views[Arm.BASE])
    assert any("nothing happens in the Base arm" in line for line in base)
    assert not any("event" in line for line in base)


def test_it_is_the_same_run_as_a_recorded_one(views, tmp_path):
    recorded = run(tmp_path)
    for arm, record in zip(views, arms(recorded, "libero_object-i0-target_relocation-p"), strict=True):
        for name in ("actions", "eef_pos"):
            np.testing.assert_array_equal(views[arm].result.arrays[name], array(recorded, record, name))


def test_trajectories_hold_every_control_step(views):
    settle = libero_task("libero_object", 0).settle_steps
    assert len(views[Arm.BASE].qpos) == settle + HORIZON
    assert len(views[Arm.DYNAMIC].qpos) == HORIZON - 1, "from the event at step 1 on"
