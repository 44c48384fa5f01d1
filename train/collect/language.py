"""What an expert is doing, in words of two levels: the stage (a job of the task) and the subtask (a move of the hand).

Both are told from the intent that the expert has settled on after its last look: nothing is named before it was seen.
"""

from __future__ import annotations

import re

from mjx_bench.task import Atom, Task
from policies.mobile.expert import MobileCarry
from policies.scripted.agenda import Job, agenda
from policies.scripted.expert import ReactiveCarry
from policies.scripted.intents import Carry, Handle, Intent, Shove

_TURNED = {"open": "open", "close": "close", "turnon": "turn on", "turnoff": "turn off"}
_PLACED = {"on": "on", "in": "in", "inside": "in"}

# Label of a waypoint to what the hand does; {x} is the thing, {y} where it goes, {how} "on" or "in".
_CARRY = {
    **dict.fromkeys(("rise", "over", "open", "shape", "before"), "move to {x}"),
    "reach": "reach for {x}",
    "close": "grasp {x}",
    "lift": "lift {x}",
    "carry": "carry it to {y}",
    "lower": "put it {how} {y}",
    "insert": "put it {how} {y}",
    **dict.fromkeys(("release", "leave"), "let go of {x}"),
}
_SHOVE = {
    **dict.fromkeys(("rise", "over", "open", "shape", "before", "lower"), "reach behind {x}"),
    "push": "push {x} to {y}",
    "leave": "let go of {x}",
}
_HANDLE = {
    **dict.fromkeys(("rise", "over", "before", "open", "shape"), "move to {x}"),
    "reach": "reach for {x}",
    "close": "grasp {x}",
    "drive": "{turn} {x}",
    **dict.fromkeys(("release", "leave"), "let go of {x}"),
}


def stage_of(task: Task, carry: ReactiveCarry | MobileCarry) -> str:
    """The job being done; the instruction itself where the task has no other.

    A program says both levels in one, "stage: subtask", or one that serves as both.
    """
    if isinstance(carry, MobileCarry):
        return carry.stage.partition(": ")[0]
    jobs = agenda(task)
    if len(jobs) == 1:
        return task.instruction
    return _job(task, jobs[carry.job])


def subtask_of(task: Task, carry: ReactiveCarry | MobileCarry, ahead: int = 0) -> str:
    """The move of the hand, `ahead` control steps after the last query; a program's lasts until its next move."""
    if isinstance(carry, MobileCarry):
        return carry.stage.rpartition(": ")[2]
    assert carry.intent is not None, "a carry after a query"
    assert carry.track is not None
    plan, intent = carry.intent.plan, carry.intent
    atom = agenda(task)[carry.job].atom
    words = {
        "x": named(task, atom.args[0]),
        "y": named(task, atom.args[1]) if len(atom.args) > 1 else "the air",
        "how": _PLACED.get(atom.predicate, "on"),
        "turn": _verb(atom, intent),
    }
    label = plan[min(carry.track.cursors[ahead].index, len(plan) - 1)].label
    forms = _SHOVE if isinstance(intent, Shove) else _HANDLE if isinstance(intent, Handle) else _CARRY
    form = forms.get(label, "move to {x}") if isinstance(intent, (Carry, Shove, Handle)) else "look at {x}"
    return form.format(**words)


def _verb(atom: Atom, intent: Intent) -> str:
    slides = isinstance(intent, Handle) and not intent.goal.mechanism.joint.hinge
    return "press" if slides and atom.predicate == "turnon" else _TURNED.get(atom.predicate, "move")


def named(task: Task, name: str) -> str:
    """An entity or a region as people call it."""
    owner = task.entity_of(name)
    if owner is None or owner == name:
        return "the " + _words(name)
    rest = _words(re.sub(r"_region$", "", name.removeprefix(f"{owner}_")))
    return f"the {_words(owner)}" if rest in ("", "inside", "area", "contain") else f"the {rest} of the {_words(owner)}"


def _job(task: Task, job: Job) -> str:
    atom: Atom = job.atom
    thing = named(task, atom.args[0])
    if atom.predicate in _PLACED:
        return f"put {thing} {_PLACED[atom.predicate]} {named(task, atom.args[1])}"
    return f"{_TURNED.get(atom.predicate, 'lift')} {thing}"


def _words(name: str) -> str:
    return re.sub(r"_\d+$", "", name).replace("_", " ")
