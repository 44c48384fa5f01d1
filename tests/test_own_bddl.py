"""A task file of one's own: built on LIBERO's fixtures and objects, with its own or drawn states, or refused by name."""

import io
import pickle
import textwrap

import numpy as np
import pytest

from evals import registry
from evals.libero import tasks
from evals.libero.cache import Cache
from mjx_bench.errors import BenchError
from mjx_bench.physics.mujoco_c import MujocoC
from mjx_bench.physics.scene import compile_scene
from mjx_bench.predicates import compile_goal, touches_of
from tests.libero_oracle import needs_libero, run_python

MILK = """
(define (problem LIBERO_Floor_Manipulation)
  (:domain robosuite)
  (:language Put the milk into the basket)
  (:regions
    (bin_region (:target floor) (:ranges ((-0.01 0.25 0.01 0.27))))
    (milk_region (:target floor) (:ranges ((-0.15 -0.15 0.05 0.05))))
    (contain_region (:target basket_1)))
  (:fixtures floor - floor)
  (:objects milk_1 - milk basket_1 - basket)
  (:obj_of_interest milk_1 basket_1)
  (:init (On milk_1 floor_milk_region) (On basket_1 floor_bin_region))
  (:goal (And (In milk_1 basket_1_contain_region))))
"""

# The milk starts in a drawer: where it is depends on where the cabinet is.
DRAWER = """
(define (problem LIBERO_Tabletop_Manipulation)
  (:domain robosuite)
  (:language Take the milk out and close the drawer)
  (:regions
    (cabinet_region (:target main_table) (:ranges ((-0.01 -0.31 0.01 -0.29))) (:yaw_rotation ((pi pi))))
    (goal_region (:target main_table) (:ranges ((-0.1 0.0 0.1 0.2))))
    (top_region (:target cabinet_1)))
  (:fixtures main_table - table cabinet_1 - wooden_cabinet)
  (:objects milk_1 - milk)
  (:obj_of_interest milk_1 cabinet_1)
  (:init (Open cabinet_1_top_region) (On cabinet_1 main_table_cabinet_region) (In milk_1 cabinet_1_top_region))
  (:goal (And (On milk_1 main_table_goal_region) (Close cabinet_1_top_region))))
"""


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    return Cache(tmp_path_factory.mktemp("cache"))


def written(folder, text, name="mine"):
    path = folder / f"{name}.bddl"
    path.write_text(text)
    return path


@pytest.fixture(scope="module")
def milk(tmp_path_factory, cache):
    """The path and the task of `MILK`."""
    path = written(tmp_path_factory.mktemp("own"), MILK, "milk_in_basket")
    return path, tasks.load_bddl(path, seeds=(195,), cache=cache)


@needs_libero
def test_a_file_becomes_a_task(milk):
    _, task = milk
    assert (task.suite, task.index, task.name) == ("bddl", 0, "milk_in_basket")
    assert task.instruction == "put the milk into the basket"
    assert (task.trigger_entity, task.receptacle, task.horizon) == ("milk_1", "basket_1", 520)
    scene = compile_scene(task.scene, touches_of(task.goal, task.scene))
    success = compile_goal(task.goal, task.scene, scene.index)[1]
    states = task.load_init_states()
    assert states.shape == (10, 1 + scene.model.nq + scene.model.nv)
    assert len({tuple(row) for row in states}) == 10
    assert not states[:, 0].any()
    assert not states[:, 1 + scene.model.nq :].any()
    milk_xy = states[:, 10:12]
    assert ((milk_xy > -0.15) & (milk_xy < 0.05)).all()

    # Lane 1 starts with the milk in the basket.
    moved = states[0].copy()
    moved[10:13] = np.add(moved[17:20], (0.0, 0.0, 0.1))
    physics = MujocoC(scene, 2, "osc_pose", task.substeps)
    for lane, state in enumerate((states[0], moved)):
        physics.load(lane, state, task.load_reset(195))
    assert physics.control_step(np.arange(2), np.zeros((2, 7))) == {}
    assert success(physics.signals).tolist() == [False, True]
    physics.close()


@needs_libero
def test_the_task_is_the_file_as_it_was_loaded(milk, cache):
    path, task = milk
    copy = pickle.loads(pickle.dumps(task))
    path.write_text("something else")
    try:
        assert copy.load_reset(7).controller.eef_pos.shape == (3,)
        np.testing.assert_array_equal(copy.load_init_states(), task.load_init_states())
    finally:
        path.write_text(MILK)
    assert tasks.load_bddl(path, cache=cache).version == task.version


@needs_libero
@pytest.mark.parametrize("text", [MILK, DRAWER], ids=["milk", "drawer"])
def test_drawn_states_are_those_of_liberos_own_reset(tmp_path, cache, text):
    path = written(tmp_path, text)
    states = tasks.load_bddl(path, cache=cache).load_init_states()
    code = f"""
        import numpy as np
        from libero.libero.envs.env_wrapper import ControlEnv
        np.random.seed(77)
        env = ControlEnv({str(path)!r}, has_offscreen_renderer=False, use_camera_obs=False).env  # loads anew at each reset
        rows = []
        for seed in (4, 0):
            # Every load appends to this list, so that a drawer would be drawn once more at each reset.
            env.object_property_initializers.clear()
            np.random.seed(seed)
            env.reset()
            rows.append(env.sim.get_state().flatten())
        np.save({str(tmp_path / "theirs.npy")!r}, rows)
    """
    run_python("-c", textwrap.dedent(code))
    np.testing.assert_array_equal(states[[4, 0]], np.load(tmp_path / "theirs.npy"))


@needs_libero
def test_states_and_words_of_ones_own(milk, cache, tmp_path):
    path, task = milk
    drawn = task.load_init_states()
    np.savez(tmp_path / "two.npz", states=drawn[:2])
    np.save(tmp_path / "three.npy", drawn[:3].astype(np.float32))
    two = tasks.load_bddl(path, init_states=tmp_path / "two.npz", cache=cache)
    three = tasks.load_bddl(path, init_states=tmp_path / "three.npy", cache=cache)
    told = tasks.load_bddl(path, instruction="Milk, please", horizon=100, cache=cache)
    np.testing.assert_array_equal(two.load_init_states(), drawn[:2])
    assert three.load_init_states().dtype == np.float64
    assert len(three.load_init_states()) == 3
    assert (told.instruction, told.horizon) == ("Milk, please", 100)
    assert len({t.version for t in (task, two, three, told)}) == 4
    assert {t.scene.key for t in (task, two, three, told)} == {task.scene.key}


def npz(**arrays):
    out = io.BytesIO()
    np.savez(out, **arrays)
    return out.getvalue()


def npy(array):
    out = io.BytesIO()
    np.save(out, array)
    return out.getvalue()


@needs_libero
@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.npz", b"not a zip", "a.npz: cannot read a file of initial states"),
        ("a.npz", b"", "a.npz: cannot read a file of initial states"),
        ("a.npz", npz(rows=np.zeros((1, 45))), "a.npz: no array named 'states'"),
        ("a.npy", npy(np.array([{}], dtype=object)), "a.npy: cannot read a file of initial states .*pickle"),
        ("a.npy", npy(np.zeros(45)), r"a.npy: expected floats \[N, 45\] of initial states, got float64 \(45,\)"),
        ("a.npy", npy(np.zeros((2, 44))), "a.npy: initial states have 44 numbers, the scene needs 45"),
        ("a.npy", npy(np.full((2, 45), np.nan)), "a.npy: initial state 0 holds a number that is not finite"),
    ],
)
def test_states_that_do_not_fit_are_refused(milk, cache, tmp_path, name, content, message):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(BenchError, match=message):
        tasks.load_bddl(milk[0], init_states=tmp_path / name, cache=cache)


def test_a_file_that_is_not_there_is_named(tmp_path):
    with pytest.raises(BenchError, match=r"none\.bddl: cannot read a task file"):
        registry.load_bddl(tmp_path / "none.bddl")
    (tmp_path / "binary.bddl").write_bytes(b"\xff\xfe")
    with pytest.raises(BenchError, match=r"binary\.bddl: cannot read a task file"):
        registry.load_bddl(tmp_path / "binary.bddl")
    path = written(tmp_path, MILK)
    with pytest.raises(BenchError, match=r"none\.npz: cannot read a file of initial states"):
        registry.load_bddl(path, init_states=tmp_path / "none.npz")


# What shows without building anything.
FAULTS = [
    ("(:goal", "(:goal)) (:goal", r"'\)' without|expected exactly one"),
    (
        "LIBERO_Floor",
        "LIBERO_Flor",
        "unknown problem 'libero_flor_manipulation'; did you mean libero_floor_manipulation",
    ),
    ("LIBERO_Floor", "LIBERO_Tabletop", "problem libero_tabletop_manipulation needs the fixture 'main_table - table'"),
    ("(:goal", "(:perturbation_config (a)) (:goal", "section :perturbation_config would be passed over"),
    ("floor - floor", "floor - floor milk_1 - milk", "milk_1 is both a fixture and an object"),
    ("(And (In milk_1 basket_1_contain_region))", "(And)", "the goal is empty"),
    (
        "(:target basket_1)",
        "(:target baskt_1)",
        "region baskt_1_contain_region: unknown target 'baskt_1'; did you mean basket",
    ),
    ("(:ranges ((-0.01 0.25 0.01 0.27)))", "", "region floor_bin_region: a region of floor needs :ranges"),
    ("-0.01 0.25 0.01 0.27", "0.01 0.25 -0.01 0.27", r"region floor_bin_region: range \(0.01 0.25 -0.01 0.27\) is not"),
    (
        "(contain_region (:t",
        "(floor_region (:t",
        "region basket_1_floor_region: LIBERO would take it for a region of floor",
    ),
    (
        "On milk_1 floor_milk_region",
        "On milk_1 floor_milk_regio",
        "unknown region 'floor_milk_regio'; did you mean floor_m",
    ),
    ("On milk_1 floor_milk_region", "Near milk_1 floor", "initial state near.*: unknown predicate 'near'"),
    ("On milk_1 floor_milk_region", "On milk_1", r"initial state on\(milk_1\): expected on\(what, where\)"),
    ("On milk_1 floor_milk_region", "On milk_2 floor_milk_region", "unknown object 'milk_2'; did you mean milk_1"),
    ("On milk_1 floor_milk_region", "On milk_1 floor", "name a region of floor, declared in :regions"),
    ("On milk_1 floor_milk_region", "In milk_1 floor_milk_region", "'in' needs a region inside a fixture or an object"),
    ("(On milk_1 floor_milk_region)", "", r"milk_1 has no place; add \(On milk_1 <region>\) to :init"),
    ("(:init", "(:init (On milk_1 floor_bin_region)", r"milk_1 has a place already, on\(milk_1, floor_bin_region\)"),
    ("(:init", "(:init (Open door_1)", r"initial state open\(door_1\): expected one fixture, object or region"),
    ("interest milk_1", "interest mlik_1", ":obj_of_interest: unknown name 'mlik_1'; did you mean milk_1"),
    (
        "In milk_1 basket_1_c",
        "In milk_1 bsket_1_c",
        "unknown object or region 'bsket_1_contain_region'; did you mean basket",
    ),
    ("Put the milk into the basket", "", "no instruction"),
]


@pytest.mark.parametrize(("old", "new", "message"), FAULTS)
def test_a_mistake_is_named_before_anything_is_built(tmp_path, old, new, message):
    assert old in MILK
    path = written(tmp_path, MILK.replace(old, new, 1))
    with pytest.raises(BenchError, match=message) as caught:
        tasks.load_bddl(path, cache=Cache(tmp_path))
    assert str(caught.value).startswith(f"{path}: ")
    assert not (tmp_path / "libero").exists()


# What only LIBERO, or the built scene, can tell.
BUILD_FAULTS = [
    ("milk_1 - milk", "milk_1 - milc", "milk_1: unknown category 'milc'; did you mean milk"),
    ("contain_region", "contains_region", "unknown region of basket_1, .* did you mean basket_1_contain_region"),
    ("(:init", "(:init (Turnon basket_1)", r"initial state turnon\(basket_1\): basket_1 can be set to nothing"),
    ("(In milk_1 basket_1_contain_region)", "(Open basket_1)", "'basket_1' has no joint that can be judged so"),
]


@needs_libero
@pytest.mark.parametrize(("old", "new", "message"), BUILD_FAULTS)
def test_a_mistake_that_liberos_models_reveal_is_named(tmp_path, cache, old, new, message):
    assert old in MILK
    path = written(tmp_path, MILK.replace(old, new))
    with pytest.raises(BenchError, match=message) as caught:
        tasks.load_bddl(path, cache=cache)
    assert str(path) in str(caught.value)


@needs_libero
def test_objects_that_find_no_place_are_said_so(tmp_path, cache):
    crowd = MILK.replace("milk_1 - milk", "milk_1 milk_2 milk_3 - milk")
    crowd = crowd.replace("-0.15 -0.15 0.05 0.05", "0 0 0.001 0.001")
    crowd = crowd.replace("(:init", "(:init (On milk_2 floor_milk_region) (On milk_3 floor_milk_region)")
    with pytest.raises(BenchError, match="no free place for every object after 10 tries; widen the regions"):
        tasks.load_bddl(written(tmp_path, crowd), cache=cache)
