"""Scoring profile W: rules over the state of the world, sampled at reset and after every control step.

Thresholds and times are those of the contracts; here stand the names of the measured fields that each predicate reads, and
which predicates each rule over time takes together. Nothing is ever taken on trust: what is missing, not finite, of the
wrong type, out of rhythm or not set up as declared makes an evaluation invalid, which is no outcome and no failure.
"""

from __future__ import annotations

import dataclasses
import operator
from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

import numpy as np

from evals.robotworld.contract import Contract, Predicate, contract
from mjx_bench import evidence
from mjx_bench.errors import BenchError
from mjx_bench.memories import lanes

VERSION = "world-state-v1"
# Seconds by which the measured control period may differ from the declared one.
PERIOD_SLACK = 1e-6

_COMPARE = {"==": operator.eq, "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge}


class Plan(NamedTuple):
    """What the rules of a task read.

    Attributes:
      fields: of each predicate of the contract, in its order; angles in the unit that the predicate has.
      rules: of each rule over time, the predicates that it takes together.
      ends: what ends an episode before its horizon, beside a failure.
    """

    fields: tuple[str, ...]
    rules: tuple[tuple[int, ...], ...]
    ends: Literal["horizon", "success", "event"] = "horizon"


_DRIFT = Plan(("lap_complete", "drift_bends"), ((0,), (1,)))
_GOAL = ("goal_distance", "speed")
PLANS: dict[str, Plan] = {
    "50": _DRIFT,
    "51": _DRIFT,
    "53": Plan(("route_complete", "in_goal_box", *_GOAL, "heading_error"), ((0,), (1, 2, 3, 4))),
    "70": Plan(("wrist_position_error", "wrist_rotation_error", *_GOAL), ((0, 1), (2, 3, 0, 1))),
    "71": Plan(("jumps", "wheels_supported", "tilt", "vertical_speed"), ((0,), (1, 2, 3))),
    "72": Plan((*_GOAL, "tilt"), ((0, 1, 2),)),
    "73": Plan(("payload_error", "payload_speed", "swing", "tilt"), ((0, 1, 2, 3),)),
    "74": Plan(("tip_error", "rod_tilt", "tip_error", "tip_speed", "rod_tilt"), ((0, 1), (2, 3, 4))),
    "75": Plan(("route_complete", *_GOAL, "tilt"), ((0,), (1, 2, 3))),
    "77": Plan(("front_feet_contact", "rear_feet_free", "rear_foot_height", "gravity_angle"), ((0, 1, 2, 3),)),
    "78": Plan((*_GOAL, "object_supported", "pushes_applied"), ((0, 1, 2, 3),), "success"),
    "79": Plan(("scored_serves", "returns"), ((0, 1),), "event"),
    # The second predicate is part of how hits are counted.
    "81": Plan(("high_hits", "", "ball_height", "ball_supported"), ((0,), (2, 3))),
    "82": Plan(("recovered_attempts", "tilt", "clearance"), ((0,), (1, 2))),
    "83": Plan(("route_complete", *_GOAL, "tilt", "clearance"), ((0,), (1, 2, 3, 4))),
    "84": Plan(
        ("rear_wheels_contact", "front_wheels_free", "other_contact", "height_error", "tilt"), ((0, 1, 2, 3, 4),)
    ),
}


@dataclasses.dataclass(frozen=True)
class Trace:
    """What was measured in one episode, sample 0 at reset.

    Attributes:
      fields: name to [n] values: booleans for what is true or false, numbers for the rest.
      failures: name to bool [n]; native failures and those of the scene. A native time-out is none.
      period: seconds of a control step, as measured.
      verified: whether the scene was set up as declared.
      ended: whether the event that ends an episode of this task has come.
      ticks: [n] numbers of the samples.
    """

    fields: Mapping[str, np.ndarray]
    failures: Mapping[str, np.ndarray]
    period: float
    verified: bool = True
    ended: bool = False
    ticks: np.ndarray = dataclasses.field(default_factory=lambda: np.zeros(0, np.int64))


@dataclasses.dataclass(frozen=True)
class RuleState:
    """How a rule stood at the last sample.

    Attributes:
      kind: of rule.
      passed: whether it is met.
      since: seconds at the first sample of the run of good ones that goes on; None if the last is not good.
      first_violation: seconds at the first sample, of those that count, that was not good; None if all were.
      samples: how many counted.
    """

    kind: str
    passed: bool
    since: float | None
    first_violation: float | None
    samples: int


@dataclasses.dataclass(frozen=True)
class Evaluation:
    """What the rules make of an episode.

    Attributes:
      success: None where the evaluation is not valid.
      valid: see `evaluate`.
      complete: whether the episode went on for as long as it had to.
      failures: names, in the order in which they came; of one sample, by name.
      invalid: reasons.
      rules: in the order of the contract; empty where a field is missing or mistyped.
    """

    success: bool | None
    valid: bool
    complete: bool
    failures: tuple[str, ...]
    invalid: tuple[str, ...]
    rules: tuple[RuleState, ...]


def evaluate(task: str, trace: Trace) -> Evaluation:
    """Judges an episode of a task with profile W.

    It is valid if the scene is verified, nothing is wrong with the samples, and the episode is complete or failed. It is a
    success if it is valid, complete, without a failure, and every rule is met at the last sample.

    Args:
      task: its id or name.
      trace: what was measured.

    Raises:
      BenchError: the task has another profile, or samples are missing, repeated, or none.
    """
    c = contract(task)
    if c.id not in PLANS:
        raise BenchError(f"{c.task} is scored by profile {c.profile}, its own checker; there are no world rules")
    plan, hz, n = PLANS[c.id], float(c.interface.control_hz), len(trace.ticks)
    if n == 0 or not np.array_equal(trace.ticks, np.arange(n)):
        raise BenchError(f"{c.task}: samples must be numbered 0, 1, 2, ... without a gap or a repeat")
    invalid = _wrong(c, plan, trace, n)
    if abs(trace.period - 1.0 / hz) > PERIOD_SLACK:
        invalid.append(f"a control step took {trace.period:g} s, declared are {1.0 / hz:g} s")
    came = {name: int(np.argmax(flags)) for name, flags in trace.failures.items() if np.any(flags)}
    failures = tuple(sorted(came, key=lambda name: (came[name], name)))
    rules = () if invalid else tuple(_rule(c, plan, i, trace, hz) for i in range(len(plan.rules)))
    passing = bool(rules) and all(rule.passed for rule in rules)
    early = (plan.ends == "event" and trace.ended) or (plan.ends == "success" and passing)
    complete = n - 1 >= c.horizon or early
    if not trace.verified:
        invalid.append("the scene was not set up as declared")
    valid = not invalid and (complete or bool(failures))
    success = (complete and not failures and passing) if valid else None
    return Evaluation(success, valid, complete, failures, tuple(invalid), rules)


def _wrong(c: Contract, plan: Plan, trace: Trace, n: int) -> list[str]:
    """What is wrong with the samples."""
    reasons = []
    for i in dict.fromkeys(i for rule in plan.rules for i in rule):
        name, wants_bool = plan.fields[i], isinstance(c.predicates[i].value, bool)
        values = trace.fields.get(name)
        if values is None or values.shape != (n,):
            reasons.append(f"{name} is missing")
        elif (values.dtype == np.bool_) is not wants_bool or values.dtype.kind not in "bfiu":
            reasons.append(f"{name} is {values.dtype}, not {'true or false' if wants_bool else 'a number'}")
        elif not np.isfinite(values).all():
            reasons.append(f"{name} is not finite")
    for name, flags in trace.failures.items():
        if flags.shape != (n,) or flags.dtype != np.bool_:
            reasons.append(f"failure {name} is missing")
    return list(dict.fromkeys(reasons))


def _rule(c: Contract, plan: Plan, number: int, trace: Trace, hz: float) -> RuleState:
    rule, n = c.over_time[number], len(trace.ticks)
    good = np.logical_and.reduce([_holds(c.predicates[i], trace.fields[plan.fields[i]]) for i in plan.rules[number]])
    first, last = 0, n - 1
    if rule["kind"] == "final":
        checker = evidence.now(_value)
    elif rule["kind"] == "hold":
        checker = evidence.hold(_value, evidence.samples_of_hold(rule["seconds"], hz))
    else:
        begin, end = rule["window_s"]
        first, last = evidence.ticks_of_window(begin, end, hz)
        checker = evidence.always(_value, first, last)
    counting = good[first : last + 1]
    bad = np.flatnonzero(~counting)
    run = n - 1 - int(np.flatnonzero(~good)[-1]) if not good.all() else n
    return RuleState(
        kind=rule["kind"],
        passed=_last(checker, good),
        since=(n - run) / hz if run else None,
        first_violation=(first + int(bad[0])) / hz if bad.size else None,
        samples=len(counting),
    )


def _value(sample: Any) -> Any:
    return sample


def _holds(predicate: Predicate, values: np.ndarray) -> np.ndarray:
    return _COMPARE[predicate.operator](values, predicate.value)


def _last(checker: evidence.Checker, samples: np.ndarray) -> bool:
    """Whether a condition is met at the last of an episode's samples."""
    memory, met = lanes(checker.start, 1), np.zeros(1, np.bool_)
    for t in range(len(samples)):
        memory, met = checker.update(memory, samples[t : t + 1], np.array([t], np.int32))
    return bool(met[0])
