"""How the experts see drawers, doors, knobs and buttons, roofs and round things: geometry and plans, nothing moves."""

from __future__ import annotations

import dataclasses

import mujoco
import numpy as np
import pytest

from mjx_bench.physics.mujoco_c import MujocoC
from mjx_bench.policy import Observation
from mjx_bench.task import Atom, Task
from policies.scripted import agenda, goals, handling, inserting, plans, pushing
from policies.scripted.agenda import Job
from policies.scripted.arm import Arm
from policies.scripted.contacts import Travel, find_contacts
from policies.scripted.geometry import box_points
from policies.scripted.grasp import HALF_TURN, HAND_ABOVE, TIP_BELOW, obstruction, thinned
from policies.scripted.library import Library
from policies.scripted.motion import rotation, rotation_error
from policies.scripted.view import View
from tests.test_scripted import cabinet_task, cabinet_view
from tests.test_tabletop import scene_of

DOWN = np.diag([1.0, -1.0, -1.0])
LIBRARY = Library()


def start(name: str, index: int) -> tuple[Task, View]:
    """A task of the native suite and what an expert sees of an instance."""
    task, scene, _ = scene_of(name)
    physics = MujocoC(scene, 1, "osc_pose", task.substeps)
    assert task.load_fields is not None
    physics.load(0, task.load_init_states()[index], task.load_reset(0), task.load_fields(index))
    k = physics.kinematics(np.zeros(1, np.int32))
    physics.close()
    fields = {f.name: getattr(k, f.name) for f in dataclasses.fields(k)}
    return task, View(LIBRARY.shapes(task), Observation(task=task, step=np.zeros(1, int), **fields), 0)


def intended(name: str, index: int) -> tuple[Task, View, handling.Goal, handling.Placed]:
    task, view = start(name, index)
    goal = handling.goal_of(view, task, task.goal[0])
    assert goal is not None
    placed = handling.choose(LIBRARY, task, view, goal, ())
    assert placed is not None
    return task, view, goal, placed


# What a joint is asked for.


@pytest.mark.parametrize(
    ("name", "forward", "low", "high"),
    [
        ("open_drawer", 1.0, 0.09, 0.15),
        ("close_drawer", -1.0, 0.0, 0.0),
        ("open_door", 1.0, 0.7, 1.7),
        ("press_button", 1.0, 0.009, 0.014),
        ("turn_knob", 1.0, 1.1, 1.9),
    ],
)
def test_the_target_is_past_the_threshold_and_in_range(name: str, forward: float, low: float, high: float):
    task, view = start(name, 0)
    goal = handling.goal_of(view, task, task.goal[0])
    assert goal is not None
    assert goal.forward == forward
    assert low <= goal.target <= high
    (threshold,) = (e.thresholds[task.goal[0].predicate] for e in [task.scene.entities[task.goal[0].args[0]]])
    assert forward * (goal.target - threshold.value) > 0.0


def test_of_several_joints_the_one_that_lacks_least_is_moved():
    task = cabinet_task()
    cabinet = task.scene.entities["cabinet"]
    assert handling.joints_of(task, Atom("open", ("cabinet",))) is None, "it says no threshold"
    tested = dataclasses.replace(cabinet, thresholds={"open": handling.Threshold(">", 0.1)})
    scene = dataclasses.replace(task.scene, entities={**task.scene.entities, "cabinet": tested})
    task = dataclasses.replace(task, scene=scene)
    found = handling.joints_of(task, Atom("open", ("cabinet_inside",)))
    assert found is not None
    assert found[0] == ("slide",)
    assert handling.joints_of(task, Atom("open", ("top",))) is None, "a region of the workspace has no joints"
    assert agenda.holds(task, cabinet_view(0.2), Atom("open", ("cabinet_inside",)))
    assert not agenda.holds(task, cabinet_view(0.05), Atom("open", ("cabinet_inside",)))


def test_supports_come_before_what_goes_on_them_and_doors_are_closed_last():
    task = scene_of("stack_three_in_order")[0]
    turned = dataclasses.replace(task, goal=task.goal[::-1])
    for one in (task, turned):
        assert [j.atom.args for j in agenda.agenda(one)] == [
            ("green_block", "red_block"),
            ("blue_block", "green_block"),
        ]
    task = cabinet_task(Atom("close", ("cabinet",)), Atom("in", ("can", "cabinet_inside")))
    tested = {"open": handling.Threshold(">", 0.1), "close": handling.Threshold("<", 0.01)}
    cabinet = dataclasses.replace(task.scene.entities["cabinet"], thresholds=tested)
    scene = dataclasses.replace(task.scene, entities={**task.scene.entities, "cabinet": cabinet})
    task = dataclasses.replace(task, scene=scene)
    put, close = task.goal[1], task.goal[0]
    assert agenda.agenda(task) == (Job(Atom("open", ("cabinet_inside",)), put), Job(put), Job(close))


# Contacts.


def test_a_drawer_is_taken_by_its_bar_and_goes_with_the_hand():
    _, view, goal, placed = intended("open_drawer", 3)
    pos, rot = view.moving(goal.mechanism)
    handle = goal.mechanism.points[goal.mechanism.points[:, 1] < -0.03] @ rot.T + pos
    assert np.linalg.norm(handle - placed.site, axis=1).min() < 0.02
    there, _ = placed.at(goal.target, goal.forward)
    moved = view.with_joint(goal.mechanism.joint.name, goal.target)
    np.testing.assert_allclose(there, handling.place(moved, goal, placed.contact).site, atol=1e-9)
    outwards = rot @ np.array([0.0, -1.0, 0.0])
    np.testing.assert_allclose(there - placed.site, (goal.target - placed.here) * outwards, atol=1e-9)


def test_a_knob_is_held_in_its_middle_and_turned():
    _, view, goal, placed = intended("turn_knob", 5)
    assert placed.contact.grip
    assert np.hypot(*(placed.site - view.pos("knob"))[:2]) < 0.006
    site, rot = placed.at(goal.target, goal.forward)
    assert np.hypot(*(site - placed.site)[:2]) < 0.01
    turned = rotation_error(rot, placed.rot)
    np.testing.assert_allclose(turned, [0.0, 0.0, goal.target - placed.here], atol=1e-6)


def test_a_button_is_pressed_from_above_in_its_middle():
    _, view, goal, placed = intended("press_button", 2)
    assert not placed.contact.grip
    np.testing.assert_allclose(placed.rot[:, 2], [0.0, 0.0, -1.0], atol=1e-9)
    assert np.hypot(*(placed.site - view.pos("button"))[:2]) < 0.02
    last = [w for w in handling.drive(placed, goal) if w.label == "drive"][-1]
    assert last.pos[2] < placed.site[2] - goal.target


def test_a_door_follows_its_hinge():
    _, view, goal, placed = intended("open_door", 0)
    moved = view.with_joint(goal.mechanism.joint.name, 0.8)
    now = handling.place(moved, goal, placed.contact)
    site, rot = placed.at(0.8, goal.forward)
    np.testing.assert_allclose(site, now.site, atol=1e-9)
    np.testing.assert_allclose(rot, now.rot, atol=1e-9)
    assert np.linalg.norm(site - placed.site) > 0.08


def test_contacts_avoid_what_failed():
    task, view, goal, placed = intended("open_drawer", 3)
    other = handling.choose(LIBRARY, task, view, goal, (placed.contact.site,))
    assert other is not None
    assert np.linalg.norm(other.contact.site - placed.contact.site) > 0.024


def test_a_plate_offers_a_push_on_the_right_side_only():
    board = box_points(np.array([0.1, 0.008, 0.05])) + np.array([0.0, 0.0, 0.1])
    table = find_contacts(board, Travel(False, np.array([0.0, 1.0, 0.0]), np.zeros(3)))
    pushes = [c for c in table if not c.grip]
    assert pushes
    for contact in pushes:
        assert contact.site[1] < -0.008, "behind the board"
        assert contact.push[1] > 0.5
    upright = [c for c in pushes if c.rot[2, 2] < -0.999]
    assert upright
    assert all(0.15 - HAND_ABOVE - 0.001 < c.site[2] < 0.15 + TIP_BELOW for c in upright), (
        "tips on it, the hand over it"
    )
    assert [c.cost for c in table] == sorted(c.cost for c in table)


def test_obstruction_knows_fingers_hand_and_the_way_in():
    at = np.zeros(3)

    def depth(*point: float, rot: np.ndarray = DOWN, inner: float = 0.02) -> float:
        return obstruction(np.array([point]), at, rot, inner)

    assert depth(0.0, 0.0, 0.0) < 0.0, "between the fingers"
    assert depth(0.0, 0.03, 0.0) == pytest.approx(0.0085), "in one of them"
    assert depth(0.0, 0.03, 0.15) > 0.008, "in its way in"
    assert depth(0.0, 0.03, -TIP_BELOW - 0.005) == pytest.approx(-0.005), "under it"
    assert depth(0.02, 0.09, 0.1) == pytest.approx(0.012), "in the hand"
    assert depth(0.02, 0.09, 0.0) < 0.0
    assert depth(0.0, 0.0, 0.0, inner=0.0) > 0.008, "in closed fingers"
    lying = rotation(np.array([-np.pi / 2, 0.0, 0.0])) @ DOWN  # points along -y or +y
    assert depth(0.0, *(-0.1 * lying[1:, 2]), rot=lying) > 0.01
    assert depth(0.0, 0.0, 0.3) < 0.0, "out of reach"


def test_thinned_keeps_one_point_a_cube():
    points = np.random.default_rng(0).uniform(0.0, 0.1, (5000, 3))
    few = thinned(points, 0.02)
    assert 100 < len(few) <= 6**3
    assert len({tuple(p) for p in few}) == len(few)
    assert np.isin(few, points).all()
    assert len(thinned(np.zeros((0, 3)), 0.02)) == 0


# The arm.


def test_inverse_kinematics_reaches_what_can_be_reached_and_says_when_not():
    task, view = start("pick_lift", 0)
    arm = Arm(task)
    tilted = rotation(np.array([0.9, 0.0, 0.0])) @ view.hand_rot
    joints, left = arm.reach(view.eef + np.array([0.1, 0.1, -0.1]), tilted, view.joint_pos)
    assert left < 1e-3
    assert ((arm.ranges[:, 0] < joints) & (joints < arm.ranges[:, 1])).all()
    data = mujoco.MjData(arm.model)
    data.qpos[arm.qpos] = joints
    mujoco.mj_kinematics(arm.model, data)
    np.testing.assert_allclose(data.site_xpos[arm.site], view.eef + np.array([0.1, 0.1, -0.1]), atol=2e-3)
    assert np.linalg.norm(rotation_error(tilted, data.xmat[arm.hand_body].reshape(3, 3))) < 0.02
    assert arm.reach(view.eef + np.array([0.9, 0.0, 0.0]), view.hand_rot, view.joint_pos)[1] > 0.2


def test_the_wrist_is_not_wound_up():
    task, view = start("pick_lift", 0)
    arm = Arm(task)
    wound = view.joint_pos.copy()
    wound[6] = arm.ranges[6, 1] - 0.1
    turn = float(wound[6] - view.joint_pos[6])
    hand = rotation(-turn * np.array([0.0, 0.0, 1.0])) @ view.hand_rot
    far = view.with_hand(view.eef, hand, wound)
    wanted = rotation(-0.6 * np.array([0.0, 0.0, 1.0])) @ hand  # as near, but past the stop
    np.testing.assert_array_equal(arm.turned(far, [view.eef], wanted), wanted @ HALF_TURN)
    np.testing.assert_array_equal(arm.turned(view, [view.eef], view.hand_rot @ HALF_TURN), view.hand_rot)


# Objects.


def test_a_dome_is_pushed_from_behind_by_fingers_side_by_side():
    task, view = start("push_to_region", 1)
    push = pushing.aim(LIBRARY.arm(task), view, task, task.goal[0])
    dome, zone = view.pos("red_dome")[:2], view.region("zone_area")[0][:2]
    np.testing.assert_allclose(push.end, zone)
    np.testing.assert_allclose(push.along, (zone - dome) / np.linalg.norm(zone - dome), atol=1e-12)
    assert 0.045 < push.back < 0.07
    assert abs(push.hand[:2, 1] @ push.along) < 1e-9
    assert push.height - TIP_BELOW > view.shapes.ground


def test_a_hand_leans_over_what_it_pushes_when_there_is_no_room_behind_it():
    task, view = start("push_to_region", 1)
    push = pushing.aim(LIBRARY.arm(task), view, task, task.goal[0])
    wall = box_points(np.array([0.15, 0.002, 0.1]))
    heading = np.column_stack(
        [[-push.along[1], push.along[0], 0.0], [-push.along[0], -push.along[1], 0.0], [0, 0, 1.0]]
    )
    behind = np.array([*(view.pos("red_dome")[:2] - (push.back + 0.045) * push.along), push.height + 0.14])
    view.shapes.parts["wall"] = ()  # a thing of its own for this view alone
    try:
        view._clouds["wall"] = view._corners["wall"] = wall @ heading.T + behind
        leaning = pushing.aim(LIBRARY.arm(task), view, task, task.goal[0])
    finally:
        del view.shapes.parts["wall"]
    assert leaning.hand[2, 2] > push.hand[2, 2] + 0.05
    assert leaning.hand[:2, 2] @ push.along < -0.3, "the fingers point back under the wall"


def test_an_object_beside_a_ledge_is_moved_out_before_it_goes_up():
    _, view = start("pick_lift", 0)
    hold = plans.Hold(np.zeros(3), view.pos("red_block"), DOWN, 0.0, 0.04, 0.08)
    free = plans.sidestep(view, "red_block", hold.site, hold, 1.1)
    np.testing.assert_array_equal(free, [0.0, 0.0])
    ledge = box_points(np.array([0.06, 0.06, 0.005])) + view.pos("red_block") + np.array([0.0, 0.07, 0.06])
    view.shapes.parts["ledge"] = ()
    try:
        view._clouds["ledge"] = view._corners["ledge"] = ledge
        step = plans.sidestep(view, "red_block", hold.site, hold, 1.1)
    finally:
        del view.shapes.parts["ledge"]
    assert step[1] < -0.01, "away from it"
    assert np.hypot(*step) <= 0.08


def test_two_things_for_one_region_get_places_of_their_own():
    task = cabinet_task(Atom("on", ("can", "top")), Atom("on", ("cabinet", "top")))
    view, body = cabinet_view(0.0), box_points(np.full(3, 0.01))
    first, second = (goals.landing(view, task, atom, body) for atom in task.goal)

    def place(there: goals.Landing) -> np.ndarray:
        return there.spots[int(np.argmin(there.spots[:, 2] + there.price))]

    assert len(goals.landing(view, cabinet_task(task.goal[0]), task.goal[0], body).spots) == 1
    middle = view.region("top")[0]
    assert place(first)[0] - middle[0] == pytest.approx(0.03)
    assert place(second)[0] - middle[0] == pytest.approx(-0.03)


def test_a_way_in_leads_under_a_roof_and_the_hand_stays_out():
    task, view = cabinet_task(), cabinet_view(0.0)
    atom, body = Atom("in", ("can", "cabinet_inside")), box_points(np.array([0.015, 0.015, 0.01]))
    centre, _, half = view.region("cabinet_inside")
    # A box around the region, open towards -x, like an oven.
    walls = [
        box_points(np.array([half[1] + 0.02, half[0], 0.004])) + centre + np.array([0, 0, s * (half[2] + 0.02)])
        for s in (-1.0, 1.0)
    ]
    walls += [
        box_points(np.array([half[1] + 0.02, 0.004, half[2] + 0.02])) + centre + np.array([0, s * (half[0] + 0.004), 0])
        for s in (-1.0, 1.0)
    ]
    walls.append(box_points(np.array([0.004, half[0], half[2] + 0.02])) + centre + np.array([half[1] + 0.02, 0, 0]))
    view._clouds["cabinet"] = view._corners["cabinet"] = np.vstack(walls)
    there = goals.landing(view, task, atom, body)
    assert inserting.covered(view, atom, there, body)
    ways = inserting.Inserting(view, task, atom, body)
    found = ways.best(np.array([-0.07, 0.0, 0.0]), DOWN, 0.02)
    assert found is not None
    _, way = found
    assert way.outside[0] < way.inside[0] - 0.1
    assert way.outside[2] == way.inside[2]
    assert abs(way.inside[0] - centre[0]) < half[1]
    assert ways.best(np.zeros(3), DOWN, 0.02) is None, "the hand would meet the roof"
