"""Contexts that say which of several candidates is wanted: drawn, written, read again, and refused unless one alone fits.

The sheet's procedure: the smallest conjunction of one to three literals that holds for the right candidate alone, in one of
four frames. Every text is parsed again by machine; what does not name exactly one visible candidate is no context.
"""

from __future__ import annotations

import dataclasses
import itertools
import re
from collections.abc import Mapping, Sequence

import numpy as np

from evals.robot_agent_bench.catalogue import Item
from mjx_bench.errors import BenchError

FRAMES = ("plain", "preference", "revised", "competing")
PEOPLE = ("Jon", "Lena", "Ryan", "Emma", "Alex", "Mira")
MOST = 3  # literals


@dataclasses.dataclass(frozen=True, order=True)
class Literal:
    """An attribute that has a value, or must not have it."""

    attribute: str
    value: str
    positive: bool = True

    def holds(self, item: Item) -> bool:
        return (item.facts[self.attribute] == self.value) == self.positive


@dataclasses.dataclass(frozen=True)
class Words:
    """How the literals of one kind of candidate are said.

    Attributes:
      phrases: literal to words; these are all the literals there are.
      something: what is asked for.
      templates: frame to what it may say. `all` is the requirement that counts, or `first` and `rest` of it; `earlier`
        counts no more.
    """

    phrases: Mapping[Literal, str]
    something: str
    templates: Mapping[str, tuple[str, ...]]

    def say(self, literals: Sequence[Literal]) -> str:
        """Words for a requirement."""
        return ", ".join(self.phrases[literal] for literal in literals)

    def read(self, text: str) -> tuple[Literal, ...]:
        """The literals of a requirement's words.

        Raises:
          BenchError: a phrase that stands for none.
        """
        literals = {phrase: literal for literal, phrase in self.phrases.items()}
        parts = text.split(", ")
        if unknown := [part for part in parts if part not in literals]:
            raise BenchError(f"context: nothing is meant by {unknown[0]!r}; phrases are {', '.join(sorted(literals))}")
        return tuple(literals[part] for part in parts)


@dataclasses.dataclass(frozen=True)
class Context:
    """One context.

    Attributes:
      frame: one of `FRAMES`.
      text: what the robot is told.
      answer: name of the candidate that it means.
      requirement: what makes it so; earlier: what was asked for and no longer counts, or by another person.
      near: a candidate that meets all of the requirement but one literal.
    """

    frame: str
    text: str
    answer: str
    requirement: tuple[Literal, ...]
    earlier: tuple[Literal, ...]
    near: str


def fitting(requirement: Sequence[Literal], visible: Sequence[Item]) -> list[str]:
    """Names of the candidates that meet a requirement."""
    return [item.name for item in visible if all(literal.holds(item) for literal in requirement)]


def near_misses(requirement: Sequence[Literal], visible: Sequence[Item]) -> list[str]:
    """Names of the candidates that meet all of a requirement but one literal; of one literal, those that miss it."""
    return [i.name for i in visible if sum(not literal.holds(i) for literal in requirement) == 1]


def requirements(answer: Item, visible: Sequence[Item], words: Words) -> list[tuple[Literal, ...]]:
    """The smallest requirements that `answer` alone meets, of at most three literals."""
    true = sorted(literal for literal in words.phrases if literal.holds(answer))
    for size in range(1, MOST + 1):
        found = [
            chosen
            for chosen in itertools.combinations(true, size)
            if len({c.attribute for c in chosen}) == size and fitting(chosen, visible) == [answer.name]
        ]
        if found:
            return found
    return []


def draw(rng: np.random.Generator, visible: Sequence[Item], words: Words) -> Context | None:
    """A context over visible candidates; None where these allow of none."""
    answer = visible[int(rng.integers(len(visible)))]
    frames = tuple(frame for frame in FRAMES if frame in words.templates)
    frame = frames[int(rng.integers(len(frames)))]
    found = [r for r in requirements(answer, visible, words) if near_misses(r, visible)]
    if not found:
        return None
    requirement = found[int(rng.integers(len(found)))]
    requirement = tuple(requirement[i] for i in rng.permutation(len(requirement)))
    earlier: tuple[Literal, ...] = ()
    if frame in ("revised", "competing"):
        others = [item for item in visible if item.name != answer.name]
        other = others[int(rng.integers(len(others)))]
        ways = requirements(other, visible, words)
        if not ways:
            return None
        earlier = ways[int(rng.integers(len(ways)))]
    if frame == "preference" and len(requirement) < 2:
        frame = "plain"
    near = near_misses(requirement, visible)
    one, two = (PEOPLE[i] for i in rng.choice(len(PEOPLE), 2, replace=False))
    template = words.templates[frame][int(rng.integers(len(words.templates[frame])))]
    text = template.format(
        one=one, two=two, something=words.something, all=words.say(requirement), first=words.say(requirement[:1]),
        rest=words.say(requirement[1:]), earlier=words.say(earlier) if earlier else "",
    )  # fmt: skip
    check(text, visible, words, answer.name)
    return Context(frame, text, answer.name, requirement, earlier, near[int(rng.integers(len(near)))])


def check(text: str, visible: Sequence[Item], words: Words, answer: str | None = None) -> str:
    """Reads a context and returns the one candidate that it means.

    Args:
      text: the context.
      visible: candidates.
      words: of their kind.
      answer: the candidate that it was written for, if it was.

    Raises:
      BenchError: it cannot be read, means none or several of the candidates, another one than it was written for, or names
        a candidate.
    """
    for item in visible:
        if item.name in text or item.name.replace("_", " ") in text.lower():
            raise BenchError(f"context {text!r} names the candidate {item.name!r}; say what is wanted, not which it is")
    right = fitting(read(text, words), visible)
    if len(right) != 1:
        said = f"{len(right)} right answers ({', '.join(right)})" if right else "no right answer"
        raise BenchError(f"context {text!r} has {said} among {', '.join(i.name for i in visible)}; it must have one")
    if answer is not None and right[0] != answer:
        raise BenchError(f"context {text!r} means {right[0]!r}, and was written for {answer!r}")
    return right[0]


def read(text: str, words: Words) -> tuple[Literal, ...]:
    """The requirement that counts in a context.

    Raises:
      BenchError: a text of none of the templates.
    """
    for templates in words.templates.values():
        for template in templates:
            if (match := _pattern(template, words.something).fullmatch(text)) is not None:
                said = match.groupdict()
                if "all" in said:
                    return words.read(said["all"])
                return (*words.read(said["first"]), *words.read(said["rest"]))
    raise BenchError(f"context {text!r} is written like none of the templates")


def _pattern(template: str, something: str) -> re.Pattern[str]:
    out, seen = "", set()
    for piece in re.split(r"(\{\w+\})", template):
        name = piece[1:-1]
        if not piece.startswith("{"):
            out += re.escape(piece)
        elif name == "something":
            out += re.escape(something)
        elif name in seen:
            out += f"(?P={name})"
        else:
            seen.add(name)
            out += f"(?P<{name}>[^.;:]+?)"
    return re.compile(out)
