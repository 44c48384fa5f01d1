"""Conditions over time: of each family of evidence what counts, what does not, and the line between; NumPy and JAX alike."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
import pytest

from mjx_bench import evidence as ev
from mjx_bench.evidence import Checker, Gate, Trial
from mjx_bench.memories import lanes
from mjx_bench.predicates import compile_atom
from mjx_bench.signals import GRIP, HAND, PRESS, SUPPORT, SignalIndex, Signals, touch_pair
from mjx_bench.task import Atom, Entity, Region, Threshold

HZ = 50


def holds(sample: Any) -> Any:
    return sample["p"]


def other(sample: Any) -> Any:
    return sample["q"]


def bits(text: str) -> np.ndarray:
    return np.array([c == "1" for c in text])


def met(checker: Checker, first: int = 0, **samples: Any) -> str:
    """Whether one episode meets a condition after each sample, as a string of 0 and 1; a str is one bit a sample."""
    arrays = {name: bits(v) if isinstance(v, str) else np.asarray(v) for name, v in samples.items()}
    memory, out = lanes(checker.start, 1), ""
    for t in range(len(next(iter(arrays.values())))):
        sample = {name: array[t : t + 1] for name, array in arrays.items()}
        memory, now = checker.update(memory, sample, np.array([first + t], np.int32))
        out += "01"[int(now[0])]
    return out


# ---- position and orientation; state of objects; contact and motion: tests of an instant

SCENE: Any = type("Names", (), {})()
SCENE.entities = {
    "mug": Entity("mug", "object", "mug", "mug", "mug_free"),
    "mark": Entity("mark", "fixture", "mark", "mark", None),
    "drawer": Entity(
        "drawer", "fixture", "drawer", "drawer", None, joints=("slide",), thresholds={"close": Threshold("<=", 0.05)}
    ),
}
SCENE.regions = {"frame": Region("frame", None, (0.1, 0.1, 0.1))}
TOUCHES = {"touch": touch_pair(HAND, "mug"), "held": touch_pair(GRIP, "mug"), "beside": ("mark", "mug")}
TOUCHES |= {"on": touch_pair("mug", SUPPORT + "mark"), "under": touch_pair(HAND, PRESS + "mug")}
INDEX = SignalIndex(("mug", "mark"), ("frame",), ("slide",), tuple(TOUCHES.values()), ("mug",))


def instant(atom: Atom, **fields: Any) -> list[bool]:
    """What an atom says of lanes, each given one value of a field."""
    [(name, values)] = fields.items()
    s = Signals.zeros(len(values), INDEX)
    for lane, value in enumerate(values):
        if name == "away":
            s.entity_pos[lane, 0] = value, 0.0, 0.0
        elif name == "up":
            s.entity_pos[lane, 0, 2] = value
        elif name == "degrees":
            a = np.radians(value)
            s.region_mat[lane, 0] = [[np.cos(a), 0, np.sin(a)], [0, 1, 0], [-np.sin(a), 0, np.cos(a)]]
        elif name == "opening":
            s.joint_qpos[lane, 0] = value
        elif name == "speed":
            s.entity_vel[lane, 0, :2] = 0.6 * value, 0.8 * value
        else:
            s.touch[lane, INDEX.touch(*TOUCHES[name])] = value
    return compile_atom(atom, SCENE, INDEX)(s).tolist()


@pytest.mark.parametrize(
    ("atom", "good", "bad"),
    [
        (Atom("distance", ("mug", "mark"), Threshold("<=", 0.05)), {"away": [0.0, 0.05]}, {"away": [0.0501, 1.0]}),
        (Atom("distance", ("mug", "mark"), Threshold("<", 0.05)), {"away": [0.0499]}, {"away": [0.05]}),
        (
            Atom("tilt", ("frame",), Threshold("<=", np.radians(15.0))),
            {"degrees": [0.0, 14.99, -14.99]},
            {"degrees": [15.01, 90.0, 180.0]},
        ),
        (Atom("close", ("drawer",)), {"opening": [0.0, 0.05]}, {"opening": [0.0501, 0.4]}),
        (Atom("free", ("mug",)), {"touch": [False]}, {"touch": [True]}),
        (Atom("held", ("mug",)), {"held": [True]}, {"held": [False]}),
        (Atom("supported", ("mug", "mark")), {"on": [True]}, {"on": [False]}),
        (Atom("pressed", ("mug",)), {"under": [True]}, {"under": [False]}),
        (Atom("touching", ("mug", "mark")), {"beside": [True]}, {"beside": [False]}),
        (Atom("clear", ("mug", "mark")), {"beside": [False]}, {"beside": [True]}),
        (Atom("rise", ("mug", "mark"), Threshold(">=", 0.03)), {"up": [0.03, 1.0]}, {"up": [0.0299, -0.03]}),
        (Atom("speed", ("mug",), Threshold("<=", 0.25)), {"speed": [0.0, 0.25]}, {"speed": [0.2501, -3.0]}),
    ],
    ids=lambda v: str(v) if isinstance(v, Atom) else "",
)
def test_tests_of_an_instant(atom: Atom, good: dict[str, Any], bad: dict[str, Any]):
    assert all(instant(atom, **good))
    assert not any(instant(atom, **bad))


def test_exactly_so_many():
    three = ev.exactly(2, [holds, other, lambda s: s["r"]])
    assert met(three, p="00111", q="00011", r="01110") == "00101"


def test_what_holds_now_is_forgotten():
    assert met(ev.now(holds), p="0110") == "0110"
    assert met(ev.every(ev.now(holds), ev.now(other)), p="0101", q="0011") == "0001"
    assert met(ev.either(ev.now(holds), ev.now(other)), p="0101", q="0011") == "0111"


# ---- persistence


@pytest.mark.parametrize(
    ("seconds", "hz", "samples"), [(2, 50, 101), (2, 62, 125), (3, 50, 151), (0.6, 50, 31), (2, 5, 11), (1, 100, 101)]
)
def test_a_hold_counts_both_ends(seconds: float, hz: float, samples: int):
    assert ev.samples_of_hold(seconds, hz) == samples
    checker = ev.hold(holds, samples)
    assert met(checker, p="1" * samples)[-2:] == "01"


@pytest.mark.parametrize(("seconds", "samples"), [(0.8, 40), (1.0, 50), (0.5, 25), (0.3, 15), (0.35, 18)])
def test_a_timer_adds_up_periods(seconds: float, samples: int):
    assert ev.samples_of_timer(seconds, HZ) == samples


def test_a_hold_starts_again_and_a_window_does_not():
    gap = "1101111"
    assert met(ev.hold(holds, 4), p=gap) == "0000001"
    assert met(ev.hold(holds, 4), p="1111011") == "0001000"  # lost again
    assert met(ev.always(holds, 0, 4), p=gap) == "0000000"  # what broke it is never repaired
    assert met(ev.always(holds, 3, 5), p=gap) == "0000011"  # before the window nothing counts
    assert met(ev.always(holds, 0, 4), p="1111100") == "0000111"  # nor behind it


@pytest.mark.parametrize("broken", range(8))
def test_a_window_reaches_from_its_first_to_its_last_tick(broken: int):
    p = np.ones(8, np.bool_)
    p[broken] = False
    assert (met(ev.always(holds, 2, 5), p=p)[-1] == "1") is (broken not in (2, 3, 4, 5))


def test_windows_of_seconds_round_outwards():
    assert ev.ticks_of_window(2, 12, 50) == (100, 600)
    assert ev.ticks_of_window(0.5, 8.5, 62) == (31, 527)
    assert ev.ticks_of_window(0.51, 8.49, 62) == (31, 527)


# ---- events and order


def test_juggling_hits_are_counted_with_a_refractory_time():
    """A contact more than 25 steps after the last counted one is a true hit, a closer one a wrong hit."""
    for gap, hits, wrong in ((26, "1", "0"), (25, "0", "1"), (1, "0", "1")):
        p = np.zeros(60, np.bool_)
        p[[10, 10 + gap]] = True
        assert met(ev.count(ev.now(holds), 2, refractory=25), p=p)[-1] == hits
        assert met(ev.once(ev.too_soon(ev.now(holds), 25)), p=p)[-1] == wrong
    p = np.zeros(80, np.bool_)
    p[[10, 30, 36]] = True  # the one between counts for nothing, and starts no new time
    assert met(ev.count(ev.now(holds), 2, refractory=25), p=p).index("1") == 36
    assert met(ev.count(ev.now(holds), 1, refractory=25, most=1), p=p)[35:37] == "10"
    assert met(ev.count(ev.now(holds), 1, refractory=25), p="1")[0] == "1"  # the first has none before it


@pytest.mark.parametrize(("gap", "early"), [(4, True), (5, True), (6, False)])
def test_hits_of_a_rally_keep_apart(gap: int, early: bool):
    touch = np.zeros(20, np.bool_)
    touch[[3, 3 + gap]] = True
    assert ("1" in met(ev.rally(holds, other, 5), p=touch, q=np.ones(20, np.bool_))) is early
    assert met(ev.rally(holds, other, 5), p="0111", q="1111") == "0000", "what lasts is one hit"


def test_a_hit_of_a_rally_counts_with_what_must_be_between():
    checker = ev.rally(holds, other, 1)
    memory, counted = lanes(checker.start, 1), ""
    for p, q in zip(bits("1001001001"), bits("0010000101"), strict=True):
        memory, _ = checker.update(memory, {"p": np.array([p]), "q": np.array([q])}, np.zeros(1, np.int32))
        counted += str(int(memory.number[0]))
    assert counted == "0001111112", "the third came after nothing, and the last after two at once"


def test_what_lasts_is_one_event():
    assert met(ev.rises(ev.now(holds)), p="1101") == "1001"
    assert met(ev.rises(ev.now(holds), before=True), p="1101") == "0001"
    assert met(ev.count(ev.rises(ev.now(holds)), 2), p="0111011") == "0000011"


def test_a_press_is_released_below_another_threshold():
    """Above 4 mm it is pressed, below 2 mm it is free again; between, it stays what it was."""
    pressed = ev.switch(lambda s: s["x"] > 0.004, lambda s: s["x"] < 0.002)
    x = np.array([0.0, 0.004, 0.0041, 0.003, 0.002, 0.0019, 0.003, 0.005])
    assert met(pressed, x=x) == "00111001"
    assert met(ev.count(ev.rises(pressed), 2), x=x) == "00000001"


def test_a_melody_needs_its_keys_in_order_and_each_released():
    """Two keys, 18 18 23; a wrong key is ignored and does not start it again."""

    def press(key: str) -> ev.Test:
        return lambda s: s[key] > 0.004

    def free(key: str) -> ev.Test:
        return lambda s: s[key] < 0.002

    melody = ev.order(press("a"), free("a"), press("a"), free("b"), press("b"), chain=True)
    down, up = 0.005, 0.0
    a = np.array([down, down, up, down, up, up])
    b = np.array([up, down, up, up, up, down])
    assert met(melody, a=a, b=b) == "000001"
    assert met(melody, a=np.array([down] * 6), b=b) == "000000"  # never let go: one press
    assert met(melody, a=a, b=np.array([down] * 6)) == "000000"  # the next key must be free before it counts


def test_stages_go_forward_and_stay():
    stages = [holds, other, lambda s: s["r"]]
    assert met(ev.order(*stages), p="1000", q="0100", r="0010") == "0011"
    assert met(ev.order(*stages), p="0100", q="1000", r="0010") == "0000"  # wrong order
    assert met(ev.order(*stages), p="1111", q="1111", r="1111") == "0011"  # one a sample
    assert met(ev.order(*stages, chain=True), p="1", q="1", r="1") == "1"
    assert met(ev.order(*stages), p="1000", q="0100", r="0000") == "0000"


def test_a_line_is_crossed_between_two_samples():
    crossed = ev.once(ev.every(ev.previous(holds), ev.now(other)))
    assert met(ev.previous(holds), p="10110") == "01011"
    assert met(crossed, p="1100", q="0010") == "0011"
    assert met(crossed, p="1000", q="0010") == "0000"


def test_recent_reaches_back_so_many_samples():
    assert met(ev.recent(holds, 2), p="00100000") == "00111000"


def test_a_strike_is_a_swing_and_an_answer_close_together():
    """Both within 50 samples, one of them now; with 15 samples before the next."""

    def strike(s: Any) -> Any:
        return s["p"] | s["q"]

    both = ev.every(ev.recent(holds, 50), ev.recent(other, 50), ev.now(strike))
    counted = ev.count(ev.rises(both), 1, refractory=15)
    for apart, hit in ((50, "1"), (51, "0"), (0, "1")):
        p, q = np.zeros((2, 70), np.bool_)
        p[5], q[5 + apart] = True, True
        assert met(counted, p=p, q=q)[-1] == hit


def test_amounts_add_up_only_where_they_count():
    x, distance = np.array([0.25, 0.125, 0.5, 0.125]), ev.total(lambda s: s["x"], holds, 0.5)
    assert met(distance, x=x, p="1101") == "0001"
    assert met(distance, x=x, p="0101") == "0000"
    assert met(distance, x=x, p="1110") == "0011"


def test_parking_counts_after_the_last_checkpoint():
    parked = ev.after(ev.once(ev.now(other)), ev.hold(holds, 3))
    assert met(parked, p="1111111", q="0001000") == "0000011"
    assert met(parked, p="1111111", q="0000000") == "0000000"
    assert met(parked, p="1111101", q="0001000") == "0000000"


# ---- path and safety

COURSE = (Gate((1.0, 0.0), (1.0, 0.0), 0.4), Gate((1.0, 1.0), (0.0, 1.0), 0.4))


def drive(*points: tuple[float, float]) -> str:
    return met(ev.gates(lambda s: s["xy"], COURSE), xy=np.array(points))


def test_gates_count_in_order_and_in_their_direction():
    assert drive((0, 0), (1.2, 0), (1.2, 0.9), (1.2, 1.1)) == "0001"
    assert drive((1.2, 0), (0.9, 0), (1.0, 0.9), (1.0, 1.1)) == "0000"  # the first from its front, or not at all
    assert drive((1.0, 0.9), (1.0, 1.1), (0, 0), (1.2, 0)) == "0000"  # the second before the first
    assert drive((0, 0), (1.0, 0), (1.2, 0.9), (1.2, 1.0)) == "0001"  # up to the line is across it
    assert drive((0, 0), (2.0, 2.0)) == "00"
    assert drive((0.9, 0.9), (1.1, 1.1))[-1] == "0"
    assert drive((1.2, 0), (1.2, 0.9), (1.2, 1.1)) == "000"  # where it came from is not known


@pytest.mark.parametrize(("aside", "passes"), [(0.0, True), (0.4, True), (-0.4, True), (0.41, False), (-0.41, False)])
def test_a_gate_is_as_wide_as_it_is(aside: float, passes: bool):
    """Where the line was crossed counts, not where the samples before and after were."""
    one = ev.gates(lambda s: s["xy"], COURSE[:1])
    xy = np.array([(0.5, aside + 0.5), (1.5, aside - 0.5)])
    assert met(one, xy=xy)[-1] == "01"[passes]


def test_a_pose_that_is_good_again_repairs_nothing():
    assert met(ev.never(ev.now(holds)), p="00100") == "11000"
    kept = Trial(ev.every(ev.now(other), ev.never(ev.now(holds))), ends_on_success=False)
    assert ends(kept, p="00100", q="00001")[-1] == (0, False)
    assert ends(kept, p="00000", q="00001")[-1] == (0, True)


def ends(trial: Trial, **samples: str) -> list[tuple[int, bool]]:
    state, out = lanes(trial.start, 1), []
    arrays = {name: bits(v) for name, v in samples.items()}
    for t in range(len(next(iter(arrays.values())))):
        sample = {name: array[t : t + 1] for name, array in arrays.items()}
        state = trial.update(state, sample, np.array([t], np.int32))
        out.append((int(state.ended[0]), bool(state.met[0])))
    return out


def test_safety_wins_over_success_at_the_same_sample_and_for_good():
    trial = Trial(ev.hold(holds, 2), (ev.now(other), ev.now(lambda s: s["r"])))
    safe = ends(trial, p="011", q="000", r="000")
    assert safe == [(0, False), (0, False), (ev.SUCCEEDED, True)]
    assert ends(trial, p="0111", q="0010", r="0000")[2:] == [(ev.FAILED, False)] * 2
    assert ends(trial, p="0110", q="0001", r="0000")[2:] == [(ev.SUCCEEDED, True)] * 2  # it had ended before
    assert ends(trial, p="00", q="01", r="01")[-1] == (ev.FAILED, False)  # the first listed names it
    assert ends(trial, p="00", q="00", r="01")[-1] == (ev.FAILED + 1, False)


def test_success_that_must_last_to_the_end_can_be_lost():
    trial = Trial(ev.hold(holds, 2), (ev.now(other),), ends_on_success=False)
    assert ends(trial, p="0111", q="0000")[-1] == (ev.RUNNING, True)
    assert ends(trial, p="0110", q="0000")[-1] == (ev.RUNNING, False)


# ---- engines


def everything() -> Trial:
    """Every combinator in one."""
    success = ev.every(
        ev.either(
            ev.after(ev.once(ev.now(other)), ev.hold(holds, 4)),
            ev.after(ev.gates(lambda s: s["xy"], COURSE), ev.count(ev.rises(ev.now(holds)), 2, refractory=3)),
        ),
        ev.either(ev.always(lambda s: s["x"] < 0.9, 3, 9), ev.total(lambda s: s["x"], holds, 6.0)),
        ev.either(ev.order(holds, other, holds), ev.exactly(2, [holds, other])),
    )
    pressed = ev.switch(lambda s: s["x"] > 0.95, lambda s: s["x"] < 0.1)
    failures = (
        ev.count(ev.rises(pressed), 4, most=9),
        ev.once(ev.too_soon(ev.every(ev.now(holds), ev.recent(other, 2)), 1)),
        ev.rally(lambda s: s["x"] > 0.97, holds, 1),
    )
    return Trial(ev.every(success, ev.never(ev.now(lambda s: s["x"] > 0.9999))), failures, ends_on_success=False)


def test_numpy_and_jax_judge_alike_and_lanes_do_not_mix():
    trial, steps, number = everything(), 60, 128
    rng = np.random.default_rng(0)
    samples = {
        "p": rng.random((steps, number)) < 0.4,
        "q": rng.random((steps, number)) < 0.05,
        "x": rng.random((steps, number)).astype(np.float32),
        "xy": np.cumsum(rng.normal(0.02, 0.2, (steps, number, 2)), axis=0).astype(np.float32),
    }
    ticks = np.repeat(np.arange(steps, dtype=np.int32)[:, None], number, axis=1)

    def step(state: Any, now: Any) -> Any:
        new = trial.update(state, *now)
        return new, new

    start = lanes(trial.start, number)
    compiled = jax.tree.map(np.asarray, jax.jit(lambda s, x: jax.lax.scan(step, s, x)[1])(start, (samples, ticks)))
    state, alone, states, lane = start, lanes(trial.start, 1), [], []
    for t in range(steps):
        state = trial.update(state, {k: v[t] for k, v in samples.items()}, ticks[t])
        alone = trial.update(alone, {k: v[t, 7:8] for k, v in samples.items()}, ticks[t, 7:8])
        states.append(state)
        lane.append(alone)
    together, single = (jax.tree.map(lambda *leaves: np.stack(leaves), *found) for found in (states, lane))
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, atol=1e-5, strict=True), together, compiled)
    jax.tree.map(lambda a, b: np.testing.assert_array_equal(a[:, 7:8], b), together, single)
    assert {ev.RUNNING, ev.FAILED, ev.FAILED + 1} <= set(np.unique(state.ended).tolist())
    assert state.met.any()
