"""RobotAgentBench's 139 tasks as data, whether they run here or not: `contract.json`, checked when it is read.

Names, families, settings and completion are the benchmark's, in words of our own. Points, thresholds and time limits are not
public; those here are this project's, version rab-1, and no figures of the benchmark.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping
from pathlib import Path

from mjx_bench.errors import BenchError, unknown_name
from mjx_bench.fields import Reader, parse_json

PATH = Path(__file__).with_name("contract.json")
VERSION = "rab-1"

# Family to its number of tasks.
FAMILIES = {
    "short": 18, "long": 8, "discovery": 4, "context": 4, "recovery": 5, "robustness": 6, "scenario": 4, "atomic": 90,
}  # fmt: skip
# When points are earned: at the first touch, when a step is done (both for good), and by the state at the end.
CHANNELS = ("contact", "process", "final")
PHYSICS = ("rigid", "articulated", "cloth", "granular")


@dataclasses.dataclass(frozen=True)
class Checkpoint:
    """Points of a task.

    Attributes:
      channel: one of `CHANNELS`.
      points: of the task's `score_max`.
      latched: once earned they stay.
      when: the predicate, in the sheet's words.
      per: set whose members share the points, None for none.
      scale: how a fraction of them is earned, None for all or nothing.
    """

    channel: str
    points: float
    latched: bool
    when: str
    per: str | None = None
    scale: str | None = None


@dataclasses.dataclass(frozen=True)
class Contract:
    """One task.

    Attributes:
      id: family and number, "context.01"; name: of the task.
      family: one of `FAMILIES`.
      instruction: template of what is asked.
      objects, appliances: what it needs.
      completion: predicates that all hold where it succeeds.
      checkpoints: points; score_max: their sum, None where subtasks bring them.
      horizon_s: seconds.
      physics: kinds from `PHYSICS`.
    """

    id: str
    family: str
    name: str
    instruction: str
    objects: tuple[str, ...]
    appliances: tuple[str, ...]
    completion: tuple[str, ...]
    checkpoints: tuple[Checkpoint, ...]
    score_max: float | None
    horizon_s: float
    physics: tuple[str, ...]


@functools.cache
def load() -> tuple[Contract, ...]:
    """All contracts, in the file's order.

    Raises:
      BenchError: the file is not as it should be; one line.
    """
    return read(PATH.read_text(), PATH.name)


def contract(task: str) -> Contract:
    """The contract of a task by id ("context.01") or name.

    Raises:
      BenchError: no such task.
    """
    known = {found.name: found for found in load()} | {found.id: found for found in load()}
    if task not in known:
        raise unknown_name("RobotAgentBench task", task, known)
    return known[task]


def read(text: str, where: str) -> tuple[Contract, ...]:
    """Contracts from the file's text.

    Raises:
      BenchError: a missing, unknown or mistyped field, a wrong number of tasks, or points that do not add up.
    """
    r = Reader(parse_json(text, where), where)
    found = tuple(_contract(Reader(row, f"{where}: task {i + 1}")) for i, row in enumerate(r.items("tasks")))
    r.finish()
    for family, number in FAMILIES.items():
        ids = [c.id for c in found if c.family == family]
        if ids != [f"{family}.{i:02}" for i in range(1, number + 1)]:
            raise BenchError(f"{where}: family {family!r} must have ids {family}.01 to {family}.{number:02}, in order")
    return found


def _contract(r: Reader) -> Contract:
    def texts(name: str) -> tuple[str, ...]:
        ok = lambda v: isinstance(v, (list, tuple)) and all(isinstance(x, str) for x in v)  # noqa: E731
        return tuple(r.get(name, ok, "a list of texts"))

    contract = Contract(
        id=r.text("id"),
        family=r.choice("family", tuple(FAMILIES)),
        name=r.text("name"),
        instruction=r.text("instruction"),
        objects=texts("objects"),
        appliances=texts("appliances"),
        completion=texts("completion"),
        checkpoints=tuple(
            _checkpoint(Reader(row, r.where, f"checkpoints[{i}]")) for i, row in enumerate(r.items("checkpoints"))
        ),
        score_max=r.get("score_max", lambda v: v is None or isinstance(v, (int, float)), "null or a number"),
        horizon_s=r.number("horizon_s", low=0, strict=True),
        physics=texts("physics"),
    )
    r.finish()
    if unknown := set(contract.physics) - set(PHYSICS):
        raise BenchError(f"{r.where}: physics {sorted(unknown)}; known are {', '.join(PHYSICS)}")
    total = sum(c.points for c in contract.checkpoints)
    if contract.score_max is not None and abs(total - contract.score_max) > 1e-9:
        raise BenchError(f"{r.where}: the points of {contract.id} add up to {total:g}, not to {contract.score_max:g}")
    return contract


def _checkpoint(r: Reader) -> Checkpoint:
    found = Checkpoint(
        channel=r.choice("channel", CHANNELS),
        points=r.number("points", low=0),
        latched=r.flag("latched"),
        when=r.text("when"),
        per=r.text("per", default=None),
        scale=r.text("scale", default=None),
    )
    r.finish()
    return found


# What a task would need that is not here, by what it names.
_APPLIANCES = {
    "coffee_machine": "the coffee machine",
    "air_fryer": "the air fryer",
    "coffee_table_drawer": "the drawer",
    "refrigerator": "the refrigerator's door",
    "microwave": "the microwave",
}
_FAMILIES: Mapping[str, str] = {
    "scenario": "a whole scenario with all its subtasks",
    "atomic": "its start, in the middle of a longer task",
    "discovery": "its scenario's things",
}
_PHYSICS = {"cloth": "a cloth", "granular": "coffee beans"}


def lacks(c: Contract) -> str:
    """What a task that does not run would need."""
    needs = [_PHYSICS[kind] for kind in c.physics if kind in _PHYSICS]
    needs += [text for name, text in _APPLIANCES.items() if any(name in a for a in c.appliances)]
    if c.family in _FAMILIES:
        needs.append(_FAMILIES[c.family])
    return "; ".join(dict.fromkeys(needs)) or "carrying and setting down"
