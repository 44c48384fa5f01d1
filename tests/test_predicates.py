"""Goal predicates on hand-made signals: each test just inside and just outside its bound."""

from __future__ import annotations

import numpy as np
import pytest

from mjx_bench.errors import BenchError
from mjx_bench.predicates import compile_goal, touches_of
from mjx_bench.signals import SignalIndex, Signals
from mjx_bench.task import Atom, Entity, Region, Robot, Scene, Threshold

CABINET = {"open": Threshold("<", -0.14), "close": Threshold(">", 0.0)}
STOVE = {"turnon": Threshold(">=", 0.5), "turnoff": Threshold("<", 0.0)}

SCENE = Scene(
    key="test",
    entities={
        "bowl_1": Entity("bowl_1", "object", "bowl", "bowl_1_main", "bowl_1_joint0"),
        "plate_1": Entity("plate_1", "object", "plate", "plate_1_main", "plate_1_joint0"),
        "cabinet_1": Entity("cabinet_1", "fixture", "cabinet", "cabinet_1_main", None, ("top", "bottom"), (), CABINET),
        "stove_1": Entity("stove_1", "fixture", "stove", "stove_1_main", None, ("knob",), (), STOVE),
    },
    regions={
        "table_region": Region("table_region", None, (0.1, 0.2, 0.007)),
        "cabinet_1_top_region": Region("cabinet_1_top_region", "cabinet_1", (0.03, 0.08, 0.10), ("top",)),
    },
    placements=(),
    robot=Robot((), (), (), (), "", "", ((), ()), ((), ())),
    cameras=(),
    load_spec=lambda: pytest.fail("predicates need no model"),
)


def index_of(*goal: Atom) -> SignalIndex:
    return SignalIndex(tuple(SCENE.entities), tuple(SCENE.regions), ("top", "bottom", "knob"), touches_of(goal, SCENE))


def judge(atom: Atom, rows: int = 1, **values) -> list[bool]:
    """Judges `atom` on `rows` lanes whose named signals are `values`, e.g. bowl_1=[[x, y, z], ...]."""
    index = index_of(atom)
    s = Signals.zeros(rows, index)
    s.region_mat[:] = np.eye(3)
    for name, value in values.items():
        if name in SCENE.entities:
            s.entity_pos[:, index.entity(name)] = value
        elif name in SCENE.regions:
            s.region_pos[:, index.region(name)] = value
        elif name in index.joints:
            s.joint_qpos[:, index.joint(name)] = value
        elif name == "rotation":
            s.region_mat[:] = value
        else:
            s.touch[:] = np.reshape(value, (-1, 1))
    (test,), success = compile_goal([atom], SCENE, index)
    np.testing.assert_array_equal(test(s), success(s))
    return [bool(x) for x in test(s)]


def test_on_an_object_needs_height_contact_and_three_centimetres():
    atom = Atom("on", ("bowl_1", "plate_1"))
    offsets = [[0.0299, 0, 0], [0.0301, 0, 0], [0, 0.0299, 0.1], [0.0213, 0.0213, 0], [0, 0, -1e-9]]
    assert judge(atom, 5, bowl_1=offsets, touching=True) == [True, False, True, False, False]
    assert judge(atom, 1, bowl_1=[[0, 0, 0.01]], touching=False) == [False]


def test_on_a_region_of_the_table_needs_no_contact():
    atom = Atom("on", ("bowl_1", "table_region"))
    z = 0.007
    rows = [[0.099, 0.199, z], [0.101, 0, z], [0, 0.201, z], [0, 0, z - 0.006], [0, 0, z + 0.101], [0, 0, z + 0.099]]
    assert judge(atom, 6, bowl_1=rows) == [True, False, False, False, False, True]


def test_on_a_region_of_a_fixture_needs_contact_with_the_fixture():
    atom = Atom("on", ("bowl_1", "cabinet_1_top_region"))
    assert touches_of([atom], SCENE) == (("bowl_1", "cabinet_1"),)
    assert judge(atom, 2, bowl_1=[[0, 0, 0.11]] * 2, touching=[True, False]) == [True, False]


def test_on_a_region_applies_its_rotation_as_it_is():
    turn = np.array([[0.0, -1, 0], [1, 0, 0], [0, 0, 1]])  # x -> y, y -> -x
    atom = Atom("on", ("bowl_1", "table_region"))
    assert judge(atom, 2, bowl_1=[[0.15, 0, 0.01], [0, 0.15, 0.01]], rotation=turn) == [True, False]


def test_in_a_region_is_a_box_a_centimetre_deeper():
    atom = Atom("in", ("bowl_1", "cabinet_1_top_region"))
    rows = [[0.029, 0.079, 0.099], [0.031, 0, 0], [0, 0, -0.109], [0, 0, -0.111], [0, 0, 0.101]]
    assert judge(atom, 5, bowl_1=rows) == [True, False, True, False, False]
    turn = np.array([[0.0, 0, 1], [0, 1, 0], [-1, 0, 0]])  # a drawer's site is turned by 90 degrees about y
    assert judge(atom, 2, bowl_1=[[0.09, 0, 0], [0, 0, 0.09]], rotation=turn) == [True, False]


def test_open_is_any_joint_and_close_is_all():
    rows = {"top": [-0.141, -0.14, 0.001, 0.0], "bottom": [0.001, 0.001, 0.001, 0.001]}
    assert judge(Atom("open", ("cabinet_1",)), 4, **rows) == [True, False, False, False]
    assert judge(Atom("close", ("cabinet_1",)), 4, **rows) == [False, False, True, False]
    only_top = {"top": [0.0, -0.15], "bottom": [-0.15, 0.0]}
    assert judge(Atom("open", ("cabinet_1_top_region",)), 2, **only_top) == [False, True]


def test_turnon_includes_its_bound_and_turnoff_does_not():
    rows = {"knob": [0.5, 0.4999, -0.001, 0.0]}
    assert judge(Atom("turnon", ("stove_1",)), 4, **rows) == [True, False, False, False]
    assert judge(Atom("turnoff", ("stove_1",)), 4, **rows) == [False, False, True, False]


def test_up_is_one_metre():
    assert judge(Atom("up", ("bowl_1",)), 2, bowl_1=[[0, 0, 1.0], [0, 0, 0.999]]) == [True, False]


def test_a_goal_holds_when_all_its_atoms_hold_at_once():
    goal = [Atom("turnon", ("stove_1",)), Atom("up", ("bowl_1",))]
    index = index_of(*goal)
    _, success = compile_goal(goal, SCENE, index)
    s = Signals.zeros(4, index)
    s.joint_qpos[:, 2] = [1, 1, 0, 0]
    s.entity_pos[:, 0, 2] = [1, 0, 1, 0]
    assert success(s).tolist() == [True, False, False, False]


@pytest.mark.parametrize(
    ("atom", "message"),
    [
        (Atom("onn", ("bowl_1", "plate_1")), "unknown predicate 'onn'; did you mean on"),
        (Atom("on", ("bowl_2", "plate_1")), "did you mean bowl_1"),
        (Atom("on", ("bowl_1",)), "takes 2 arguments, got 1"),
        (Atom("on", ("table_region", "plate_1")), "must be an object, not a region"),
        (Atom("in", ("bowl_1", "plate_1")), "must be a region"),
        (Atom("open", ("stove_1",)), "it knows: turnon, turnoff"),
        (Atom("open", ("table_region",)), "has no joints"),
    ],
)
def test_a_goal_that_cannot_be_judged_is_refused(atom, message):
    with pytest.raises(BenchError, match=message):
        compile_goal(
            [atom], SCENE, SignalIndex(tuple(SCENE.entities), tuple(SCENE.regions), ("top", "bottom", "knob"), ())
        )


def test_an_empty_goal_is_refused():
    with pytest.raises(BenchError, match="at least one atom"):
        compile_goal([], SCENE, index_of())
