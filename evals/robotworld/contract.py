"""The contracts of RobotWorld's 84 tasks as data, whether they run here or not: `contract.json`, checked when it is read.

Figures and rules are the benchmark's, in words of our own. What nobody published is None.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from mjx_bench.errors import BenchError, unknown_name
from mjx_bench.fields import FrozenMap, Reader, freeze, is_int, is_number, parse_json

PATH = Path(__file__).with_name("contract.json")

# Domain to its number of tasks.
DOMAINS = {"manipulation": 38, "mobile_manipulation": 20, "locomotion": 11, "driving": 11, "aerial": 4}
# What a checker looks at. A task is usually a conjunction over several.
FAMILIES = ("position_orientation", "object_state", "contact_motion", "persistence", "events_order", "path_safety")
# How a checker's conditions count over time; `mjx_bench.evidence` has the rules.
OVER_TIME = (
    "instant",
    "final",
    "hold",
    "dwell",
    "always",
    "stl_always",
    "event",
    "terminal_event",
    "triggered",
    "ordered_sequence",
    "order_query",
)
OPERATORS = ("==", "<", "<=", ">", ">=", "in")
# N: the task's own checker. W: rules over the sampled state of the world (`evals.robotworld.world`).
PROFILES = ("N", "W")


@dataclasses.dataclass(frozen=True)
class Interface:
    """What acts, and how; many tasks share one.

    Attributes:
      robot: in words.
      tools: names of the calls that an agent has.
      dim: values in an action.
      control_hz: control steps a second.
      steps_per_call: least and most control steps of one call; None where a planner decides.
      action: what the values are; semantics: what a call does with them; scaling: units, scale, offset and bounds.
      observation: what an agent is given.
      assistance: what runs below the action.
    """

    robot: str
    tools: tuple[str, ...]
    dim: int
    control_hz: float
    steps_per_call: tuple[int, int] | None
    action: str
    semantics: str
    scaling: FrozenMap
    observation: str
    assistance: str


@dataclasses.dataclass(frozen=True)
class Predicate:
    """One condition of a checker: a quantity, an operator, and a bound (None where it is not public)."""

    quantity: str
    operator: str
    value: Any
    unit: Any = None
    note: str | None = None

    def __str__(self) -> str:
        if self.operator == "in":
            low, high = self.value
            return f"{self.quantity} in [{low}, {high}]" + ("" if self.unit is None else f" {self.unit}")
        values = self.value if isinstance(self.value, tuple) else (self.value,)
        units = self.unit if isinstance(self.unit, tuple) else (self.unit,) * len(values)
        bounds = [_text(v) if u is None else f"{_text(v)} {u}" for v, u in zip(values, units, strict=True)]
        return f"{self.quantity} {self.operator} {', '.join(bounds)}"


@dataclasses.dataclass(frozen=True)
class Contract:
    """One task.

    Attributes:
      id: "01" to "84".
      group: the source that it comes from; task: its name there.
      domain: one of `DOMAINS`; kind: its primary type, None where it is not public.
      interface: what acts, sees and helps.
      goal: what is to be done, in short.
      start: initial conditions, in words or as an object.
      horizon: control steps.
      consecutive, total: limits of the non-action budget; None for a total that is not public.
      profile: one of `PROFILES`.
      families: of evidence, from `FAMILIES`.
      predicates: conditions; over_time: how they count, each with its `kind`; failures: what overrides them.
      ends_on_success: whether success ends the episode; None where another rule ends it.
      code_control: whether an agent may be allowed to run a program each control step.
      extras: what only some tasks have.
    """

    id: str
    group: str
    task: str
    domain: str
    kind: str | None
    interface: Interface
    goal: str
    start: Any
    horizon: int
    consecutive: int
    total: int | None
    profile: str
    families: tuple[str, ...]
    predicates: tuple[Predicate, ...]
    over_time: tuple[FrozenMap, ...]
    failures: tuple[str, ...]
    ends_on_success: bool | None
    code_control: bool
    extras: FrozenMap

    @property
    def seconds(self) -> float:
        """Simulated length of an episode that runs to its horizon."""
        return self.horizon / self.interface.control_hz


@functools.cache
def load() -> tuple[Contract, ...]:
    """All contracts, by id.

    Raises:
      BenchError: the file is not as it should be; one line.
    """
    return read(PATH.read_text(), PATH.name)


def contract(task: str) -> Contract:
    """The contract of a task: by id ("73"), by name, or by both of its names ("Bench2Dex/42").

    Some groups number their tasks; "42" alone is the task with that id.

    Raises:
      BenchError: no such task.
    """
    known = {f"{found.group}/{found.task}": found for found in load()}
    known |= {found.task: found for found in load()}
    known |= {found.id: found for found in load()}
    if task not in known:
        raise unknown_name("RobotWorld task", task, known)
    return known[task]


def read(text: str, where: str) -> tuple[Contract, ...]:
    """Contracts from the file's text.

    Args:
      text: JSON.
      where: for messages.

    Raises:
      BenchError: a missing, unknown or mistyped field, a repeated or missing id, or a task without its interface.
    """
    r = Reader(parse_json(text, where), where)
    names = r.get("interfaces", lambda v: isinstance(v, Mapping), "an object of interfaces by name")
    interfaces = {name: _interface(r.object("interfaces").object(name)) for name in names}
    contracts = tuple(
        _contract(Reader(row, f"{where}: task {i + 1}"), interfaces) for i, row in enumerate(r.items("tasks"))
    )
    r.finish()
    expected = [f"{i:02}" for i in range(1, sum(DOMAINS.values()) + 1)]
    if (ids := [c.id for c in contracts]) != expected:
        wrong = next((i for i, pair in enumerate(zip(ids, expected, strict=False)) if pair[0] != pair[1]), len(ids))
        raise BenchError(f"{where}: ids must be 01 to {expected[-1]} in order, and entry {wrong + 1} breaks that")
    for domain, count in DOMAINS.items():
        if (found := sum(c.domain == domain for c in contracts)) != count:
            raise BenchError(f"{where}: {found} tasks of domain {domain!r}; the benchmark has {count}")
    return contracts


def _interface(r: Reader) -> Interface:
    calls = r.get("steps_per_call", _is_range, "null, or the least and the most steps")
    interface = Interface(
        robot=r.text("robot"),
        tools=tuple(r.get("tools", _texts, "a list of names")),
        dim=r.integer("dim", low=1),
        control_hz=r.number("control_hz", low=0.0, strict=True),
        steps_per_call=None if calls is None else (calls[0], calls[1]),
        action=r.text("action"),
        semantics=r.text("semantics"),
        scaling=FrozenMap(r.get("scaling", lambda v: isinstance(v, Mapping), "an object")),
        observation=r.text("observation"),
        assistance=r.text("assistance"),
    )
    r.finish()
    return interface


def _contract(r: Reader, interfaces: Mapping[str, Interface]) -> Contract:
    families = r.get("families", _texts, "a list of names")
    for name in families:
        if name not in FAMILIES:
            raise BenchError(f"{r.where}: {unknown_name('family of evidence', name, FAMILIES)}")
    over_time = [FrozenMap(r_time) for r_time in r.items("over_time", at_least=1)]
    for rule in over_time:
        if rule.get("kind") not in OVER_TIME:
            raise BenchError(f"{r.where}: {unknown_name('rule over time', rule.get('kind'), OVER_TIME)}")
        if "seconds" in rule and not (is_number(rule["seconds"]) and rule["seconds"] > 0):
            raise BenchError(f"{r.where}: over_time seconds = {rule['seconds']!r}: expected a number > 0")
        window = rule.get("window_s", (0, 1))
        if not (
            isinstance(window, tuple) and len(window) == 2 and all(map(is_number, window)) and window[0] < window[1]
        ):
            raise BenchError(f"{r.where}: over_time window_s = {window!r}: expected its begin and its end")
    made = Contract(
        id=r.text("id"),
        group=r.text("group"),
        task=r.text("task"),
        domain=r.choice("domain", tuple(DOMAINS)),
        kind=r.get("kind", lambda v: v is None or isinstance(v, str), "null or a name"),
        interface=interfaces[r.choice("interface", tuple(interfaces))],
        goal=r.text("goal"),
        start=freeze(r.get("start", lambda v: isinstance(v, (str, Mapping)), "text or an object")),
        horizon=r.integer("horizon", low=1),
        consecutive=r.integer("consecutive", low=1),
        total=r.get("total", lambda v: v is None or (is_int(v) and v > 0), "null or an integer >= 1"),
        profile=r.choice("profile", PROFILES),
        families=tuple(families),
        predicates=tuple(_predicate(row, r.where) for row in r.items("predicates", at_least=1)),
        over_time=tuple(over_time),
        failures=tuple(r.get("failures", _texts, "a list of sentences")),
        ends_on_success=r.get("ends_on_success", lambda v: v is None or isinstance(v, bool), "null, true or false"),
        code_control=r.flag("code_control"),
        extras=FrozenMap(r.get("extras", lambda v: isinstance(v, Mapping), "an object", default={})),
    )
    r.finish()
    return made


def _predicate(row: Any, where: str) -> Predicate:
    texts = (str, type(None))
    if not isinstance(row, (list, tuple)) or not 3 <= len(row) <= 5 or not isinstance(row[0], str):
        raise BenchError(f"{where}: predicate {row!r}: expected quantity, operator, value, and perhaps unit and note")
    if row[1] not in OPERATORS:
        raise BenchError(f"{where}: {unknown_name('operator', row[1], OPERATORS)}")
    if row[1] == "in" and not (isinstance(row[2], (list, tuple)) and len(row[2]) == 2):
        raise BenchError(f"{where}: predicate {row[0]!r}: 'in' needs two bounds, got {row[2]!r}")
    if len(row) == 5 and not isinstance(row[4], texts):
        raise BenchError(f"{where}: predicate {row[0]!r}: its note must be text, got {row[4]!r}")
    quantity, operator, value, *rest = row
    return Predicate(quantity, operator, freeze(value), *map(freeze, rest))


def _text(value: Any) -> str:
    return "?" if value is None else str(value).lower() if isinstance(value, bool) else str(value)


def _texts(value: Any) -> bool:
    return isinstance(value, (list, tuple)) and bool(value) and all(isinstance(v, str) and v for v in value)


def _is_range(value: Any) -> bool:
    two: Sequence[Any] = value if isinstance(value, (list, tuple)) else ()
    return value is None or (len(two) == 2 and all(is_int(v) and v > 0 for v in two) and two[0] <= two[1])
