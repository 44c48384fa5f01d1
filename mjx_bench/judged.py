"""`tasks.json`: what judging an episode needs of its task, as data, so that records are judged again without a simulator."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NoReturn

from mjx_bench.errors import BenchError
from mjx_bench.fields import Reader, canonical_json, is_number
from mjx_bench.manifest import Case
from mjx_bench.predicates import COMPARE, goal_index
from mjx_bench.signals import SignalIndex
from mjx_bench.task import (
    GOAL_ALONE,
    Atom,
    Covered,
    Crossing,
    Entity,
    Finds,
    Fraction,
    Hits,
    Noted,
    Part,
    Region,
    Robot,
    Rules,
    Scene,
    Score,
    Task,
    Threshold,
)

TaskKey = tuple[str, int, str]


def task_key(case: Case) -> TaskKey:
    """Equal for cases of one task: suite, index, and for a varied task its file and a hash of all it is made from."""
    variant = case.substrate_variant
    if variant is None:
        return case.task_suite_name, case.task_index, ""
    made_from = hashlib.sha256(canonical_json(variant).encode()).hexdigest()[:8]
    return case.task_suite_name, case.task_index, f"{variant['bddl_file']}#{made_from}"


def task_name(key: TaskKey) -> str:
    """The task's name in `tasks.json` and among the assets of a header."""
    return "/".join(map(str, key)).rstrip("/")


@dataclasses.dataclass(frozen=True)
class Judged:
    """What an episode is judged by.

    Attributes:
      task: name of the task, the stem of its file.
      version: of the task; changes when anything that can change a result does.
      instruction: the task's; what an instance says instead is not in the file.
      goal: atoms that must hold at the same instant.
      scene: entities and regions that the goal and the trigger name, and nothing that could be simulated.
      horizon: policy steps before the episode times out.
      rules: when the goal counts and what else ends an episode.
      trigger_entity: whose position `target_pos` holds; None if the task has none.
      one_hand: whether the robot has no other, so that triggers go by `eef_pos` alone.
    """

    task: str
    version: str
    instruction: str
    goal: tuple[Atom, ...]
    scene: Scene
    horizon: int
    trigger_entity: str | None
    rules: Rules = GOAL_ALONE
    one_hand: bool = True

    @property
    def index(self) -> SignalIndex:
        """Columns of the recorded `signals.<field>` arrays."""
        return goal_index((*self.goal, *self.rules.atoms()), self.scene)


def dump_tasks(tasks: Mapping[TaskKey, Task]) -> str:
    """The file's text: an object of tasks by name."""
    data = {task_name(key): describe(task) for key, task in tasks.items()}
    return json.dumps(data, indent=2, sort_keys=True, allow_nan=False) + "\n"


def tasks_sha256(text: str) -> str:
    """Hex SHA-256 of the canonical JSON of the file's text: independent of its layout."""
    return hashlib.sha256(canonical_json(json.loads(text)).encode()).hexdigest()


def describe(task: Task) -> dict[str, Any]:
    """One task as plain JSON data; `read_judged` is the inverse."""
    scene, args = task.scene, dict.fromkeys(name for atom in task.atoms for name in atom.args)
    regions = {name: scene.regions[name] for name in args if name in scene.regions}
    named = [*args, *(r.parent for r in regions.values()), task.trigger_entity]
    entities = {name: scene.entities[name] for name in named if name is not None and name in scene.entities}
    described = {
        "task": task.name,
        "version": task.version,
        "instruction": task.instruction,
        "goal": [_dump_atom(atom) for atom in task.goal],
        "horizon": task.horizon,
        "trigger_entity": task.trigger_entity,
        "entities": {
            name: {
                "kind": e.kind,
                "joints": list(e.joints),
                "thresholds": {predicate: [t.comparison, t.value] for predicate, t in e.thresholds.items()},
            }
            for name, e in entities.items()
        },
        "regions": {
            name: {"parent": r.parent, "half_size_m": list(r.half_size), "joints": list(r.joints)}
            for name, r in regions.items()
        },
    }
    if scene.robot.other_hands:
        described["one_hand"] = False
    return described if task.rules == GOAL_ALONE else described | {"rules": _dump_rules(task.rules)}


def read_judged(data: Any, where: str) -> Judged:
    """Reads one task of the file.

    Args:
      data: what `describe` returned.
      where: file and task, for messages.

    Raises:
      BenchError: a missing, unknown or mistyped field; one line.
    """
    r = Reader(data, where)
    entities, regions = r.object("entities"), r.object("regions")
    names = (list(data["entities"]), list(data["regions"]))
    judged = Judged(
        task=r.text("task"),
        version=r.text("version"),
        instruction=r.text("instruction"),
        goal=_read_atoms(r, "goal"),
        scene=_scene(
            {name: _entity(name, entities.object(name)) for name in names[0]},
            {name: _region(name, regions.object(name)) for name in names[1]},
        ),
        horizon=r.integer("horizon", low=1),
        trigger_entity=r.get("trigger_entity", lambda v: v is None or v in names[0], "null or an entity's name"),
        rules=_read_rules(r.object("rules")) if r.has("rules") else GOAL_ALONE,
        one_hand=r.flag("one_hand", default=True),
    )
    r.finish()
    return judged


def _texts(value: Any) -> bool:
    return isinstance(value, (list, tuple)) and all(isinstance(v, str) for v in value)


def _dump_atom(atom: Atom) -> list[Any]:
    """The predicate, its arguments, and the bound of a measure."""
    bound = [] if atom.bound is None else [[atom.bound.comparison, atom.bound.value]]
    return [atom.predicate, *atom.args, *bound]


def _dump_rules(rules: Rules) -> dict[str, Any]:
    def tests(found: Iterable[tuple[Atom, ...]]) -> list[Any]:
        return [[_dump_atom(atom) for atom in test] for test in found]

    score = rules.score
    # Only where there are any, so that rules without are written as they always were.
    more: dict[str, Any] = {"at_once": True} if rules.at_once else {}
    if rules.stages:
        more["stages"] = tests(rules.stages)
    if rules.events:
        more["events"] = [_dump_event(event) for event in rules.events]
    if rules.hits is not None:
        hits = rules.hits
        touch, between = ([_dump_atom(atom) for atom in atoms] for atoms in (hits.touch, hits.between))
        more["hits"] = {"touch": touch, "between": between, "least": hits.least, "apart": hits.apart}
    if rules.finds is not None:
        others = [_dump_atom(atom) for atom in rules.finds.others]
        more["finds"] = {"others": others, "spare": rules.finds.spare, "given": tests(rules.finds.given)}
    if rules.whole:
        more["whole"] = True
    if rules.noted:
        more["noted"] = {noted.name: [_dump_atom(atom) for atom in noted.atoms] for noted in rules.noted}
    if isinstance(score, Fraction):
        more["fraction"] = _dump_fraction(score)
        score = None
    return {
        **more,
        "hold": rules.hold,
        "submit": [_dump_atom(atom) for atom in rules.submit],
        "failures": [_dump_atom(atom) for atom in rules.failures],
        "wanted": [] if score is None else tests(score.wanted),
        "unwanted": [] if score is None else tests(score.unwanted),
        "deduction": 0.0 if score is None else score.deduction,
    }


def _dump_fraction(score: Fraction) -> dict[str, Any]:
    def tests(found: Iterable[tuple[Atom, ...]]) -> list[Any]:
        return [[_dump_atom(atom) for atom in test] for test in found]

    def part(p: Part) -> dict[str, Any]:
        given = [_dump_atom(atom) for atom in p.given]
        return {"weight": p.weight, "given": given, "tests": tests(p.tests), "latches": list(p.latches)}

    return {
        "earned": [part(p) for p in score.earned],
        "possible": [part(p) for p in score.possible],
        "latches": [tests(latch) for latch in score.latches],
        "every": score.every,
        "unwanted": tests(score.unwanted),
        "deduction": score.deduction,
    }


def _read_fraction(r: Reader) -> Fraction:
    def part(row: Reader) -> Part:
        latches = row.get("latches", lambda v: isinstance(v, (list, tuple)), "a list of numbers")
        made = Part(
            row.number("weight"),
            _read_atoms(row, "given"),
            _conjunctions(row.get("tests", _tests, "a list of lists of atoms")),
            tuple(latches),
        )
        row.finish()
        return made

    def latches(v: Any) -> bool:
        return isinstance(v, (list, tuple)) and all(map(_tests, v))

    score = Fraction(
        tuple(part(Reader(row, r.where, "earned")) for row in r.items("earned")),
        tuple(part(Reader(row, r.where, "possible")) for row in r.items("possible", at_least=1)),
        tuple(map(_conjunctions, r.get("latches", latches, "lists of lists of atoms"))),
        r.integer("every", low=1),
        _conjunctions(r.get("unwanted", _tests, "a list of lists of atoms")),
        r.number("deduction", low=0.0),
    )
    if any(not 0 <= i < len(score.latches) for p in (*score.earned, *score.possible) for i in p.latches):
        raise BenchError(f"{r.where}: a part of the score names a latch that is not there")
    r.finish()
    return score


def _dump_event(event: Crossing | Covered) -> dict[str, Any]:
    if isinstance(event, Crossing):
        return {"before": [_dump_atom(atom) for atom in event.before], "after": [_dump_atom(a) for a in event.after]}
    when = [_dump_atom(atom) for atom in event.when]
    return {"speed": _dump_atom(event.speed), "when": when, "period": event.period, "least": event.least}


def _read_event(r: Reader) -> Crossing | Covered:
    event: Crossing | Covered
    if r.has("before"):
        event = Crossing(_read_atoms(r, "before"), _read_atoms(r, "after"))
    else:
        speed = _atom(r.get("speed", lambda v: _atoms([v]), "an atom"))
        event = Covered(speed, _read_atoms(r, "when"), r.number("period", low=0.0), r.number("least"))
    r.finish()
    return event


def _read_rules(r: Reader) -> Rules:
    wanted, unwanted = (r.get(name, _tests, "a list of lists of atoms") for name in ("wanted", "unwanted"))
    deduction = r.number("deduction", low=0.0)
    score: Score | Fraction | None = None
    if r.has("fraction"):
        score = _read_fraction(r.object("fraction"))
    elif wanted:
        score = Score(_conjunctions(wanted), _conjunctions(unwanted), deduction)
    rules = Rules(
        hold=r.integer("hold", low=1) if r.get("hold", lambda v: True, "") is not None else None,
        at_once=r.flag("at_once", default=False),
        events=tuple(_read_event(Reader(row, r.where, "rules.events")) for row in r.items("events", default=())),
        stages=_conjunctions(r.get("stages", _tests, "a list of lists of atoms", default=())),
        submit=_read_atoms(r, "submit"),
        failures=_read_atoms(r, "failures"),
        hits=_read_hits(r.object("hits")) if r.has("hits") else None,
        finds=_read_finds(r.object("finds")) if r.has("finds") else None,
        score=score,
        whole=r.flag("whole", default=False),
        noted=_read_noted(r),
    )
    r.finish()
    return rules


def _read_noted(r: Reader) -> tuple[Noted, ...]:
    def named(v: Any) -> bool:
        return isinstance(v, Mapping) and all(_atoms(atoms) and len(atoms) for atoms in v.values())

    found = r.get("noted", named, "an object of lists of atoms", default={})
    return tuple(Noted(name, tuple(map(_atom, atoms))) for name, atoms in found.items())


def _read_finds(r: Reader) -> Finds:
    finds = Finds(
        _read_atoms(r, "others"),
        r.integer("spare", low=0),
        _conjunctions(r.get("given", lambda v: isinstance(v, (list, tuple)) and all(map(_atoms, v)), "lists of atoms")),
    )
    r.finish()
    return finds


def _read_hits(r: Reader) -> Hits:
    least, apart = r.integer("least", low=1), r.integer("apart", low=0)
    hits = Hits(_read_atoms(r, "touch"), _read_atoms(r, "between"), least, apart)
    r.finish()
    return hits


def _conjunctions(data: Sequence[Sequence[Any]]) -> tuple[tuple[Atom, ...], ...]:
    return tuple(tuple(map(_atom, test)) for test in data)


def _read_atoms(r: Reader, name: str) -> tuple[Atom, ...]:
    return tuple(map(_atom, r.get(name, _atoms, "a list of atoms")))


def _atom(data: Sequence[Any]) -> Atom:
    predicate, *args = data
    bound = None if isinstance(args[-1], str) else Threshold(*args.pop())
    return Atom(predicate, tuple(args), bound)


def _atoms(value: Any) -> bool:
    def is_atom(v: Any) -> bool:
        if not isinstance(v, (list, tuple)) or not v:
            return False
        return (len(v) > 1 and _texts(v)) or (len(v) > 2 and _texts(v[:-1]) and _threshold(v[-1]))

    return isinstance(value, (list, tuple)) and all(is_atom(v) for v in value)


def _tests(value: Any) -> bool:
    return isinstance(value, (list, tuple)) and all(_atoms(v) and len(v) for v in value)


def _threshold(value: Any) -> bool:
    return isinstance(value, (list, tuple)) and len(value) == 2 and value[0] in COMPARE and is_number(value[1])


def _entity(name: str, r: Reader) -> Entity:
    thresholds = r.object("thresholds")
    entity = Entity(
        name=name,
        kind=r.choice("kind", ("object", "fixture")),
        category="",
        body="",
        free_joint=None,
        joints=tuple(r.get("joints", _texts, "a list of names")),
        thresholds={
            predicate: Threshold(*thresholds.get(predicate, _threshold, f"one of {', '.join(COMPARE)} and a number"))
            for predicate in r.get("thresholds", lambda v: isinstance(v, Mapping), "an object")
        },
    )
    r.finish()
    return entity


def _region(name: str, r: Reader) -> Region:
    region = Region(
        name=name,
        parent=r.get("parent", lambda v: v is None or isinstance(v, str), "null or an entity's name"),
        half_size=tuple(r.vector("half_size_m", 3)),
        joints=tuple(r.get("joints", _texts, "a list of names")),
    )
    r.finish()
    return region


def _scene(entities: Mapping[str, Entity], regions: Mapping[str, Region]) -> Scene:
    """Names to judge by; the parts of a scene that only a simulator reads are empty."""

    def no_model() -> NoReturn:
        raise BenchError("tasks.json describes how episodes are judged, not scenes that could be simulated")

    robot = Robot((), (), (), (), "", "", ((), ()), ((), ()))
    return Scene("", entities, regions, (), robot, (), no_model)
