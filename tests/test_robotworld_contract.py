"""RobotWorld's contracts: all 84 of them, what a bad file is told, and `mjx-bench tasks`."""

from __future__ import annotations

import collections
import json
import math
import re
import subprocess
import sys
from pathlib import Path

import pytest

from evals import registry
from evals.robotworld import contract as contracts
from evals.robotworld import payload, tasks
from evals.robotworld.contract import DOMAINS, contract, load, read
from mjx_bench.errors import BenchError
from mjx_bench.fields import thaw
from scripts import cli

ROOT = Path(__file__).resolve().parents[1]
SHEET = ROOT.parent / "shared" / "specs" / "robotworld_tasks.json"
TEXT = contracts.PATH.read_text()


def test_the_suite_is_composed_as_published():
    found = load()
    assert [c.id for c in found] == [f"{i:02}" for i in range(1, 85)]
    assert collections.Counter(c.domain for c in found) == DOMAINS
    assert len({c.group for c in found}) == 20
    assert collections.Counter(c.profile for c in found) == {"N": 68, "W": 16}
    assert {c.id for c in found if c.profile == "W"} == {
        *("50", "51", "53"), *(str(i) for i in range(70, 76)), "77", "78", "79", "81", "82", "83", "84",
    }  # fmt: skip
    kinds = collections.Counter((c.domain, c.kind) for c in found if c.kind is not None)
    for (domain, kind), published in {
        ("driving", "Drift & timed passage"): 4, ("driving", "Routes & terrain"): 5, ("driving", "Precision parking"): 2,
        ("aerial", "Stabilisation & tracking"): 2, ("aerial", "Ball interaction"): 2,
        ("locomotion", "Carrying & ball interaction"): 3, ("locomotion", "Locomotion & terrain"): 4,
        ("locomotion", "Balance & recovery"): 4, ("manipulation", "Multi-stage workflows"): 8,
        ("manipulation", "Pouring & processing"): 3, ("manipulation", "Dynamic manipulation"): 4,
    }.items():  # fmt: skip
        assert kinds[domain, kind] == published
    rates = {"RoboDojo": 25, "BEHAVIOR-1K": 30, "RoboCasa": 20, "RoboLab": 15, "OmniDrones": 62, "Wheel-Legged": 100}
    assert all(c.interface.control_hz == rates[c.group] for c in found if c.group in rates)
    assert sorted({c.interface.control_hz for c in found if c.group == "WheeledLab"}) == [5, 10, 50]


def test_budgets_are_the_published_ones():
    assert {c.id: (c.consecutive, c.total) for c in load() if c.total is not None} == {
        "42": (15, 30),
        "80": (20, 150),
    }
    assert {c.consecutive for c in load() if c.id != "80"} == {15}


def test_horizons_and_rates_make_the_published_seconds():
    assert {c.task: c.seconds for c in load() if c.id in ("79", "81", "84")} == {
        "humanoid_table_tennis_return": 30.0, "drone_volleyball_solo_juggle": 16.0, "rear_wheel_upright_balance": 20.0,
    }  # fmt: skip
    assert contract("73").seconds == pytest.approx(8.0645, abs=1e-4)


def test_the_task_that_runs_is_the_one_of_its_contract():
    c = contract(payload.NAME)
    assert (c.horizon, c.interface.control_hz, c.interface.dim) == (payload.HORIZON, payload.CONTROL_HZ, 4)
    bounds = [p.value if p.unit != "deg" else math.radians(p.value) for p in c.predicates]
    assert bounds == [atom.bound.value for atom in payload.GOAL if atom.bound is not None]
    assert [p.operator for p in c.predicates] == ["<="] * 4
    assert c.over_time[0]["seconds"] * c.interface.control_hz + 1 == payload.RULES.hold


ACTION = ("tool", "dim", "meaning", "semantics", "rate_hz", "steps_per_call")
CHECKER = ("families", "predicates", "temporal", "failure_overrides", "ends_on_success", "evaluation_seconds")
MORE = ("scene_id", "partial_score", "native_task", "mapping_note", "scene_note", "native_horizon_steps", "note")


@pytest.mark.skipif(not SHEET.exists(), reason="the benchmark's table is not beside the repository")
def test_contracts_say_what_the_benchmarks_table_says():
    """Every field of its 84 rows but the published outcomes and what these are counted by."""
    for c, row in zip(load(), json.loads(SHEET.read_text()), strict=True):
        action, checker, i = row["action"], row["checker"], c.interface
        assert (c.id, c.group, c.task, c.domain, c.kind) == (
            row["id"], row["source_group"], row["task"], row["domain"], row["primary_type"],
        )  # fmt: skip
        assert (c.horizon, c.profile, c.goal) == (row["horizon_steps"], row["score_profile"], row["goal"])
        assert {"consecutive": c.consecutive, "total": c.total} == row["nonaction_budget"]
        assert c.code_control == row["code_control_supported"]
        assert thaw(c.start) == row["initial_conditions"]
        assert (i.robot, i.observation, i.assistance) == (
            row["embodiment"], row["observation"], row["controller_assistance"],
        )  # fmt: skip
        calls = None if i.steps_per_call is None else list(i.steps_per_call)
        assert (list(i.tools), i.dim, i.action, i.semantics, i.control_hz, calls) == (
            re.split(r"; | \| ", action["tool"]), *(action.get(name) for name in ACTION[1:]),
        )  # fmt: skip
        assert thaw(i.scaling) == {k: v for k, v in action.items() if k not in ACTION and v is not None}
        assert list(c.families) == checker["families"]
        assert json.dumps([[p.quantity, p.operator, thaw(p.value), thaw(p.unit), p.note] for p in c.predicates]) == (
            json.dumps(
                [[p[k] for k in ("quantity", "op", "value", "unit")] + [p.get("note")] for p in checker["predicates"]]
            )
        )
        # Of an instant the table says, too, that it takes 0 s.
        assert [thaw(rule) for rule in c.over_time] == [
            {k: v for k, v in rule.items() if (k, v) != ("seconds", 0)} for rule in checker["temporal"]
        ]
        assert list(c.failures) == checker["failure_overrides"]
        assert c.ends_on_success == checker["ends_on_success"]
        assert c.seconds == pytest.approx(checker.get("evaluation_seconds", c.seconds), abs=1e-4)
        assert thaw(c.extras) == {k: v for k, v in checker.items() if k not in CHECKER} | {
            k: row[k] for k in MORE if row.get(k) is not None
        }


def test_predicates_read_as_text():
    assert [str(p) for p in contract("01").predicates][
        -1
    ] == "each arm pose vs its episode-start pose <= 0.15 m, 20 deg"
    assert str(contract("45").predicates[1]) == "mug touches table == true"
    assert str(contract("08").predicates[1]) == "cup Z axis up <= ? deg"
    assert str(contract("65").predicates[6]) == "4 mug minus tray height in [0.0, 0.035] m"


def changed(change: dict[str, object], task: int = 0) -> str:
    data = json.loads(TEXT)
    data["tasks"][task] |= change
    return json.dumps(data)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"domain": "driveing"}, "unknown domain 'driveing'; did you mean driving?"),
        ({"domain": "driving"}, "37 tasks of domain 'manipulation'; the benchmark has 38"),
        ({"interface": "RoboDojoo"}, "unknown interface 'RoboDojoo'; did you mean RoboDojo"),
        ({"families": ["persistance"]}, "unknown family of evidence 'persistance'; did you mean persistence?"),
        ({"over_time": [{"kind": "holds"}]}, "unknown rule over time 'holds'; did you mean hold?"),
        ({"over_time": [{"kind": "hold", "seconds": -1}]}, "seconds = -1: expected a number > 0"),
        ({"over_time": [{"kind": "always", "window_s": [3, 2]}]}, "window_s = (3, 2): expected its begin and its end"),
        ({"predicates": [["height", "=<", 1, "m"]]}, "unknown operator '=<'"),
        ({"predicates": [["height", "in", 1, "m"]]}, "'in' needs two bounds, got 1"),
        ({"predicates": []}, "expected a list of at least 1 item"),
        ({"horizon": 0}, "horizon = 0: expected an integer >= 1"),
        ({"profile": "X"}, "unknown profile 'X'"),
        ({"total": 0}, "total = 0: expected null or an integer >= 1"),
        ({"horizont": 3}, "unknown field 'horizont'; did you mean horizon?"),
        ({"id": "02"}, "ids must be 01 to 84 in order, and entry 1 breaks that"),
    ],
)
def test_a_wrong_file_is_told_where(change: dict[str, object], message: str):
    with pytest.raises(BenchError, match=r"^here: ") as caught:
        read(changed(change), "here")
    assert message in str(caught.value)


def test_a_file_that_ends_early_is_told():
    data = json.loads(TEXT)
    data["tasks"].pop()
    with pytest.raises(BenchError, match="entry 84 breaks that"):
        read(json.dumps(data), "here")


def test_an_unknown_task_has_near_names():
    with pytest.raises(BenchError, match="did you mean drone_payload_hover"):
        contract("drone_payload_hoover")


def test_a_number_is_an_id_before_it_is_a_name():
    assert contract("42").task == "BlockStackingSpecifiedOrderTask"
    assert contract("Bench2Dex/42").id == "62"
    assert contract("AI-CPS/22").id == "47"
    assert contract("24").group == "BEHAVIOR-1K"


def test_every_task_is_listed_and_seven_run():
    rows = registry.listing("robotworld")
    assert len(rows) == 84
    running = [row for row in rows if row["runs"]]
    columns = ("suite", "index", "name", "instruction", "goal", "horizon")
    assert sorted(([row[k] for k in columns] for row in running), key=lambda row: row[1]) == [
        [row[k] for k in columns] for row in registry.task_table("robotworld")
    ]
    assert {row["id"] for row in running} == {"42", "45", "54", "59", "72", "73", "81"}
    assert all((row["index"] is None) is not row["runs"] for row in rows)
    assert all(bool(row["lacks"]) is not row["runs"] for row in rows)
    assert set(tasks.LACKS) == {row["group"] for row in rows} - {"Go2 Push", "VolleyBots"}, "their robots are here"
    assert registry.listing("roboquest") == registry.task_table("roboquest")


def test_a_task_that_does_not_run_says_what_it_lacks(capfd: pytest.CaptureFixture[str], tmp_path: Path):
    command = ["eval", "--suite", "robotworld", "--policy", "zero", "--out", str(tmp_path / "run"), "--task"]
    assert cli.main([*command, "drone_volleyball_1v1"]) == 2
    said = "robotworld task 'drone_volleyball_1v1' does not run here: it lacks the scripted opponent, which is not public\n"
    assert capfd.readouterr().err.endswith(said)
    assert cli.main([*command, "rw-reverse-bey"]) == 2
    assert "did you mean rw-reverse-bay?" in capfd.readouterr().err
    # A number of the benchmark's is no index of ours; two of them are names of other tasks.
    for number, name in (("42", "BlockStackingSpecifiedOrderTask"), ("73", "drone_payload_hover")):
        assert cli.main([*command, number]) == 2
        assert f"the task with the benchmark's number {number} is {name}: give that name" in capfd.readouterr().err


def test_the_command_lists_them(capfd: pytest.CaptureFixture[str]):
    assert cli.main(["tasks", "--suite", "robotworld"]) == 0
    out = capfd.readouterr().out
    assert "robotworld: 7 of 84 tasks run here" in out
    [row] = [line for line in out.splitlines() if "drone_payload_hover" in line]
    assert row.split()[0] == "73"
    assert row.split()[-1] == "runs"
    assert "lacks the Unitree A1" in out


def test_the_command_lists_them_as_json():
    done = subprocess.run(
        [sys.executable, "-m", "scripts.cli", "tasks", "--suite", "robotworld", "--json"],
        cwd=ROOT, capture_output=True, text=True, check=True, timeout=120,
    )  # fmt: skip
    rows = json.loads(done.stdout)
    assert [row["id"] for row in rows] == [c.id for c in load()]
    assert {row["name"]: (row["control_hz"], row["horizon"], row["profile"]) for row in rows}["visual"] == (5, 150, "W")
