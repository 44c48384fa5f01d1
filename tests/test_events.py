"""Operations as data: what each edits, resolved without a simulator; and triggers at their bounds."""

from __future__ import annotations

import numpy as np
import pytest

from mjx_bench.changes import Change
from mjx_bench.errors import BenchError
from mjx_bench.events import PARK_ORIGIN, LaneView, resolve
from mjx_bench.physics.base import Park, Parked, SetPosition, Visual
from mjx_bench.scenario import Trigger
from mjx_bench.signals import SignalIndex, Signals, touch_pair
from mjx_bench.triggers import compile_trigger, touches_of_triggers, trigger_distance

UPRIGHT = np.array([1.0, 0, 0, 0])
VIEW = LaneView(
    position={
        "soup_1": np.array([0.1, 0.2, 0.05]),
        "milk_1": np.array([-2.0, 0.0, 5.0]),
        "basket_1": np.array([0.0, -0.2, 0.0]),
    },
    eef_pos=np.array([0.0, 0.2, 0.25]),
    parked={"milk_1": Parked(np.array([0.3, 0.3, 0.07]), UPRIGHT)},
)


def only(change: Change) -> SetPosition:
    [edit], details = resolve(change, VIEW)
    assert isinstance(edit, SetPosition)
    [moved] = details["moved"]
    assert moved["entity"] == edit.entity
    assert moved["after"] == edit.pos.tolist()
    assert moved["before"] == VIEW.position[edit.entity].tolist()
    return edit


def test_a_relocation_adds_its_offset_and_keeps_the_orientation():
    edit = only(Change.make("move_object", object="soup_1", delta_position_m=[0.06, 0.0, 0.0]))
    np.testing.assert_allclose(edit.pos, [0.16, 0.2, 0.05])
    assert edit.quat is None


def test_the_first_position_form_wins():
    both = {"position_m": [1, 1, 1], "delta_position_m": [9, 9, 9]}
    np.testing.assert_array_equal(only(Change.make("move_object", object="soup_1", **both)).pos, [1, 1, 1])


def test_an_obstacle_of_the_paper_s_form_stands_beside_the_target_at_its_own_height():
    change = Change.make(
        "insert_obstacle", object="milk_1", relative_to="soup_1", offset_m=[0.14, 0, 0], preserve_initial_z=True
    )
    edit = only(change)
    np.testing.assert_allclose(edit.pos, [0.24, 0.2, 0.07])
    np.testing.assert_array_equal(edit.quat, UPRIGHT)


def test_an_obstacle_of_version_1_stands_beside_the_path():
    # From the gripper (0, 0.2) to the target (0.1, 0.2): halfway, then 6 cm to the left of the direction of travel.
    change = Change.make(
        "insert_obstacle", object="milk_1", path_target="soup_1", path_fraction=0.5, lateral_offset_m=0.06
    )
    np.testing.assert_allclose(only(change).pos, [0.05, 0.26, 0.07])


def test_distractors_are_placed_in_order_relative_to_the_target():
    placements = [
        {"object": "milk_1", "relative_to": "soup_1", "offset_m": [0.1, 0, 0], "preserve_initial_z": True},
        {"object": "basket_1", "relative_to": "soup_1", "offset_m": [0, 0.1, 0]},
    ]
    edits, details = resolve(Change.make("insert_distractors", placements=placements), VIEW)
    np.testing.assert_allclose([e.pos for e in edits], [[0.2, 0.2, 0.07], [0.1, 0.3, 0.05]])
    assert [m["entity"] for m in details["moved"]] == ["milk_1", "basket_1"]


def test_removed_objects_wait_in_slots_of_their_own():
    slots = []
    for name in VIEW.position:
        [edit], _ = resolve(Change.make("remove_object", object=name, offworld_position_m=[-2, 0, -5]), VIEW)
        assert isinstance(edit, Park)
        slots.append(edit.pos)
    apart = np.linalg.norm(np.diff(slots, axis=0), axis=1)
    assert (apart >= 0.5 - 1e-12).all()
    assert all(s[2] == PARK_ORIGIN[2] > 4 for s in slots)


@pytest.mark.parametrize(
    ("operation", "fields"),
    [
        ("set_lighting", {"scale": 0.2}),
        ("shift_camera", {"camera": "agentview", "yaw_degrees": 18.0}),
        ("set_visual_theme", {"rgb_permutation": [2, 0, 1], "rgb_multiplier": [0.7, 1.15, 1.3]}),
        ("set_sensor_corruption", {"noise_std": 24, "occlusion_fraction": 0.08, "seed": 1}),
    ],
)
def test_visual_operations_are_recorded_state_and_move_nothing(operation, fields):
    edits, details = resolve(Change.make(operation, **fields), VIEW)
    assert edits == [Visual(operation, fields)]
    assert details == {"operation": operation, "visual": fields}


def test_what_cannot_be_applied_is_refused():
    never_removed = Change.make(
        "insert_obstacle", object="soup_1", relative_to="basket_1", offset_m=[0, 0, 0], preserve_initial_z=True
    )
    with pytest.raises(BenchError, match="nothing took it away"):
        resolve(never_removed, VIEW)
    above = LaneView(VIEW.position, VIEW.position["soup_1"] + [0, 0, 0.2], VIEW.parked)
    beside = Change.make(
        "insert_obstacle", object="milk_1", path_target="soup_1", path_fraction=0.5, lateral_offset_m=0.06
    )
    with pytest.raises(BenchError, match="straight above 'soup_1'"):
        resolve(beside, above)
    with pytest.raises(BenchError, match="changes the instruction"):
        resolve(Change.make("cancel_instruction"), VIEW)


INDEX = SignalIndex(("soup_1",), (), (), ())


def test_proximity_includes_its_distance_and_reads_the_lane_it_is_asked_for():
    s = Signals.zeros(3, INDEX)
    s.entity_now[:, 0] = [[0.18, 0, 0], [0.1801, 0, 0], [0, 0.1, 0.1]]
    trigger = Trigger("on_proximity", "soup_1", 0.18)
    fires = compile_trigger(trigger, INDEX)
    assert [fires(s, lane, 1) for lane in range(3)] == [True, False, True]
    assert trigger_distance(trigger, INDEX, s, 1) == pytest.approx(0.1801)


def test_a_fixed_step_holds_from_that_step_on():
    fires = compile_trigger(Trigger("fixed_step", 8), INDEX)
    s = Signals.zeros(1, INDEX)
    assert [fires(s, 0, step) for step in (7, 8, 9)] == [False, True, True]
    assert trigger_distance(Trigger("fixed_step", 8), INDEX, s, 0) is None


GRASP_INDEX = SignalIndex(
    ("soup_1", "basket_1"), (), (), (touch_pair("finger:left", "soup_1"), touch_pair("finger:right", "soup_1"))
)


def grasping(trigger: Trigger) -> list[bool]:
    """Judges lanes 0: far and free, 1: near and touched by one pad, 2: near and grasped, 3: grasped at the basket."""
    s = Signals.zeros(4, GRASP_INDEX)
    s.entity_now[:, 0] = [[1, 0, 0], [0.1, 0, 0], [0.1, 0, 0], [0.1, 0, 0]]
    s.entity_now[:, 1] = [[1, 0, 0], [0.5, 0, 0], [0.5, 0, 0], [0.2, 0, 0]]
    s.entity_now[0, 1] = [2, 0, 0]
    s.touch[:] = [[0, 0], [1, 0], [1, 1], [1, 1]]
    fires = compile_trigger(trigger, GRASP_INDEX)
    return [fires(s, lane, 1) for lane in range(4)]


def test_the_grasp_triggers_need_both_finger_pads():
    assert grasping(Trigger("after_grasp", "soup_1")) == [False, False, True, True]
    assert grasping(Trigger("before_grasp", "soup_1")) == [False, True, False, False]
    assert grasping(Trigger("before_grasp", "soup_1", 0.05)) == [False, False, False, False]
    assert grasping(Trigger("before_place", "soup_1", 0.12, "basket_1")) == [False, False, False, True]
    triggers = [Trigger("after_grasp", "soup_1"), Trigger("on_proximity", "soup_1", 0.18)]
    assert touches_of_triggers(triggers) == GRASP_INDEX.touches


def test_a_trigger_that_is_not_judged_is_refused_by_name():
    with pytest.raises(BenchError, match=r"'progress_fraction' is not supported; supported: on_proximity, fixed_step"):
        compile_trigger(Trigger("progress_fraction", 0.5), INDEX)


def test_faithful_removal_goes_under_the_floor_and_comes_back_as_it_tumbled():
    removal = Change.make("remove_object", object="soup_1", offworld_position_m=[-2, 0, -5])
    [edit], _ = resolve(removal, VIEW, faithful=True)
    assert isinstance(edit, Park)
    assert not edit.floating
    np.testing.assert_array_equal(edit.pos, [-2, 0, -5])
    back = Change.make(
        "insert_obstacle", object="milk_1", relative_to="soup_1", offset_m=[0.14, 0, 0], preserve_initial_z=True
    )
    [edit], _ = resolve(back, VIEW, faithful=True)
    assert isinstance(edit, SetPosition)
    np.testing.assert_allclose(edit.pos, [0.24, 0.2, 0.07])
    assert edit.quat is None
