"""The measurements run, say what they promise, and count exactly. How fast anything is, no test asks."""

from __future__ import annotations

import contextlib
import json
import threading
import types

import numpy as np
import pytest

from evals import registry
from mjx_bench.bench import c_lanes, engine, pairs, where, workers
from mjx_bench.bench.figures import Spread, machine, peak_rss_mib
from mjx_bench.cases import base_key
from mjx_bench.errors import BenchError, MissingExtra
from mjx_bench.records import load_run
from mjx_bench.schedule import run_pairs
from mjx_bench.sessions import Session
from mjx_bench.settings import RunSettings
from policies.reference.oracle import Oracle
from policies.simple import Zero
from scripts import bench_engine
from tests.libero_oracle import needs_libero
from tests.scenes import SEED, libero_task
from tests.test_cli import mjx_bench
from tests.test_pairs import Q, Wanderer, a_case, at, manifest_of, near, short_task

ENGINE_KEYS = {
    "control_steps_per_s",
    "ratio_vs_raw",
    "ratio_vs_raw_range",
    "ratio_vs_libero",
    "ratio_vs_libero_range",
    "ratio_vs_libero_note",
    "peak_rss_mib",
    "lanes",
    "threads",
    "versions",
    "processors",
}


@needs_libero
def test_bench_engine_prints_its_ratios():
    command = (
        "bench",
        "engine",
        "--suite",
        "libero_object",
        "--task",
        "0",
        "--lanes",
        "2",
        "--seconds",
        "0.1",
        "--json",
    )
    done = mjx_bench(*command)
    assert done.returncode == 0, done.stderr
    figures = json.loads(done.stdout)
    assert set(figures) >= ENGINE_KEYS
    assert figures["ratio_vs_libero_note"] is None
    for name in ("ratio_vs_raw", "ratio_vs_libero"):
        low, high = figures[f"{name}_range"]
        assert 0 < low <= figures[name] <= high
    assert figures["control_steps_per_s"] > 0
    assert figures["versions"]["mujoco"]


@needs_libero
def test_liberos_clock_steps_liberos_environment_and_says_what_it_could_not_do():
    from evals.libero.timing import LiberoClock

    states = libero_task("libero_object", 0).load_init_states()
    with LiberoClock("libero_object", 0, SEED) as clock:
        clock.restart(states[0])
        assert clock.step(np.zeros((3, 7))) > 0
        with pytest.raises(BenchError, match="could not run libero_object/0"):
            clock.step(np.zeros((1, 3)))


class OneEpisode:
    """A reference that remembers what it was asked."""

    def __init__(self) -> None:
        self.states: list[np.ndarray] = []
        self.executed = 0

    def restart(self, init_state: np.ndarray) -> None:
        self.states.append(init_state)

    def step(self, actions: np.ndarray) -> float:
        assert actions.shape[1:] == (7,)
        self.executed += len(actions)
        return 1.0


@pytest.mark.parametrize("threads", [1, 2])
def test_bare_mujoco_arrives_at_our_bits_over_episodes_that_end(threads: int):
    task = libero_task("libero_object", 0)
    reference = OneEpisode()
    with contextlib.closing(c_lanes.CLanes(task, 3, threads, "osc_pose")) as lanes:
        found = engine.measure(task, Zero(), lanes, seconds=0.01, query_interval=2, seed=SEED, reference=reference)
    assert found.vs_raw.count == 3
    assert found.episodes == len(reference.states) == 1
    assert reference.executed == task.settle_steps + 2 * 4, "settling, the segment that warms up, and three"
    assert found.vs_reference is not None


def test_another_model_than_ours_is_not_measured_against(monkeypatch: pytest.MonkeyPatch):
    real = c_lanes._as_reset

    def heavier(scene, reset):
        model = real(scene, reset)
        model.body_mass[:] *= 1.01
        return model

    monkeypatch.setattr(c_lanes, "_as_reset", heavier)
    task = libero_task("libero_object", 0)
    with (
        contextlib.closing(c_lanes.CLanes(task, 1, 1, "osc_pose")) as lanes,
        pytest.raises(BenchError, match="arrived at another state"),
    ):
        engine.measure(task, Zero(), lanes, seconds=0.01, query_interval=1, seed=SEED)


@pytest.mark.parametrize(("suite", "mode"), [("robotworld", "rotors"), ("roboquest", "osc_pose")])
def test_bare_mujoco_arrives_at_our_bits_on_tasks_with_rules(suite: str, mode: str):
    """Each lane has masses and sizes of its own, which bare MuJoCo must have too."""
    task = registry.load_task(suite, 0)
    assert not np.array_equal(task.fields_of(0)["body_mass"], task.fields_of(1)["body_mass"])
    with contextlib.closing(c_lanes.CLanes(task, 3, 2, mode)) as lanes:
        found = engine.measure(task, Oracle(), lanes, seconds=0.01)
    assert found.vs_raw.count >= engine.LEAST
    assert found.episodes == 1


def test_an_episode_is_over_where_the_rules_end_it():
    """Rotors that stop: the goal does not hold, and yet nothing is left to measure."""
    task = registry.load_task("robotworld", 0)
    with contextlib.closing(c_lanes.CLanes(task, 2, 1, "rotors")) as lanes:
        lanes.load([task.load_init_states()[i] for i in range(2)], task.load_reset(0))
        lanes.run(np.full((1, 2, 4), -1.0))
        assert lanes.ended() == 0.0
        lanes.run(np.full((99, 2, 4), -1.0))
        assert lanes.ended() == 1.0


def test_without_libero_its_ratio_is_null_and_says_why(monkeypatch: pytest.MonkeyPatch):
    from evals.libero import timing

    task = libero_task("libero_object", 0)
    with contextlib.ExitStack() as stack:
        assert "joint_position" in str(bench_engine._reference(task, "joint_position", stack)[1])

        def missing(*_: object) -> None:
            raise MissingExtra("LIBERO tasks need the package")

        monkeypatch.setattr(timing, "LiberoClock", missing)
        assert bench_engine._reference(task, "osc_pose", stack) == (None, "LIBERO tasks need the package")


# Three Base arms: one shared by three cases, one of a case that never triggers, one of another initial state.
CASES = manifest_of(
    a_case("illumination_switch", near(10.0)),
    a_case("target_relocation", at(8)),
    a_case("target_relocation", at(12), tag="-late"),
    a_case("target_relocation", at(1000), init=1),
    a_case("illumination_switch", at(4), init=2),
).with_query_interval(Q)


@pytest.fixture(scope="module")
def spent() -> dict[str, pairs.Spent]:
    return pairs.measure(short_task(CASES.cases[0]), CASES.cases, Wanderer, 2, Q, turn=1)


def test_control_steps_are_those_that_the_records_show(spent: dict[str, pairs.Spent], tmp_path):
    settings = RunSettings("wanderer", lanes=2, query_interval=Q, threads=1)
    session = run_pairs(CASES, settings, tmp_path / "run", load_task=short_task, policy=Wanderer())
    records = {r.key: r for r in load_run(tmp_path / "run").records}
    settle = short_task(CASES.cases[0]).settle_steps
    base = {c.case_id: settle + records[c.case_id, "base"].end_step for c in CASES.cases}
    dynamic = {c.case_id: records[c.case_id, "dynamic"] for c in CASES.cases}
    fired = {case_id: r for case_id, r in dynamic.items() if r.trigger_step is not None}
    bases = sum({base_key(c): base[c.case_id] for c in CASES.cases}.values())
    forked = sum(r.end_step - r.trigger_step for r in fired.values())
    assert 0 < len(fired) < len(dynamic)

    assert spent["as_run"].control_steps == bases + forked == session.control_steps
    assert spent["replay"].control_steps == bases + sum(settle + r.end_step for r in fired.values())
    assert spent["own_base"].control_steps == sum(base.values()) + forked
    assert spent["waves"].control_steps == spent["as_run"].control_steps
    assert [s.base_arms for s in spent.values()] == [3, 3, 5, 3]
    assert list(spent) == list(pairs.WAYS)


def test_the_summary_relates_every_way_to_the_first(spent: dict[str, pairs.Spent]):
    rows = pairs.summary([spent, spent])
    assert rows["as_run"]["control_steps"] == 2 * spent["as_run"].control_steps
    assert rows["waves"]["control_steps_ratio"] == 1.0
    assert rows["replay"]["control_steps_ratio"] > 1.0
    assert rows["waves"]["batch_steps"] == 2 * spent["waves"].batch_steps
    assert json.dumps(rows)


def test_ways_that_disagree_are_no_measurement(monkeypatch: pytest.MonkeyPatch):
    real = pairs._run

    def strange(way, *args):
        taken, outcomes = real(way, *args)
        return taken, dict.fromkeys(outcomes, ("void", 0, None)) if way.replay else outcomes

    monkeypatch.setattr(pairs, "_run", strange)
    one = manifest_of(a_case("illumination_switch", at(4)))
    with pytest.raises(BenchError, match="'replay' differ from those of 'as_run'"):
        pairs.measure(short_task(one.cases[0]), one.cases, Wanderer, 1, Q, turn=0)


def test_workers_are_compared_on_whole_runs(tmp_path):
    scenes = manifest_of(
        a_case("illumination_switch", at(4)), a_case("target_relocation", at(8), suite="libero_spatial")
    )
    asked = []

    def whole(threads: int) -> Session:
        asked.append(threads)
        settings = RunSettings("wanderer", lanes=2, query_interval=Q, threads=threads)
        session = run_pairs(scenes, settings, tmp_path / str(len(asked)), load_task=short_task, policy=Wanderer())
        assert session is not None
        return session

    found = workers.measure(whole, 2, repeats=2)
    assert asked == [1, 2, 2, 1]
    assert set(found) == {"speedup", "cpu_ratio", "busy_fraction", "processors_in_use", "control_steps", "where"}
    assert found["speedup"]["count"] == 2
    assert found["control_steps"] > 0
    for shares in found["where"].values():
        assert abs(sum(shares.values()) - 1) < 0.01
        assert shares["physics"] > 0
    assert json.dumps(found)


def test_time_is_told_by_whose_code_is_on_the_stack():
    """A policy that calls the loop's code, or MuJoCo, is still the policy."""

    def waits() -> None:
        done.wait(0.2)

    def calls() -> None:
        inner()

    done = threading.Event()
    inner = types.FunctionType(waits.__code__, {"__name__": "mjx_bench.rollout"}, closure=waits.__closure__)
    outer = types.FunctionType(calls.__code__, {"__name__": "policies.mine"}, closure=calls.__closure__)
    with where.Sampler("scene-of-test", period_s=0.005) as sampler:
        threads = [threading.Thread(target=f, name=f"scene-of-test-{i}") for i, f in enumerate((outer, inner))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    shares = sampler.shares()
    assert set(shares) >= {"policy", "loop"}
    assert shares["policy"] > 0.3
    assert shares["loop"] > 0.3


def test_figures():
    assert Spread.of([3.0, 1.0, 2.0]) == Spread(2.0, 1.0, 3.0, 3)
    assert peak_rss_mib() > 10
    assert machine()["processors"] >= 1


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["engine", "--suite", "libero_object", "--lanes", "0"], "--lanes 0 is too small"),
        (["engine", "--suite", "libero_object", "--seconds", "0"], "--seconds 0.0 is no time"),
        (["engine", "--suite", "libero_objekt"], "did you mean libero_object"),
        (["engine", "--suite", "libero_object", "--policy", "zer"], "did you mean zero"),
        (
            ["engine", "--suite", "robotworld", "--policy", "scripted.reactive"],
            "robotworld/drone_payload_hover takes rotors",
        ),
        (["pairs", "--manifest", "none.json"], "none.json: cannot read the manifest"),
        (["workers", "--manifest", "none.json", "--threads", "1"], "--threads 1 is too small"),
        ([], "Expected one of"),
    ],
)
def test_a_mistake_is_one_line(options: list[str], message: str, capfd: pytest.CaptureFixture[str]):
    from scripts import cli

    assert cli.main(["bench", *options]) == 2
    out, err = capfd.readouterr()
    assert message in err
    assert err.count("\n") == 1
    assert out == ""
