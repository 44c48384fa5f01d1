"""Reads LIBERO's task files: a problem in a small Lisp-like grammar, into plain frozen data.

```
(define (problem NAME) (:domain robosuite) (:language words ...)
  (:regions (NAME (:target T) (:ranges ((x0 y0 x1 y1) ...)) (:yaw_rotation ((a b))) (:rgba (r g b a))) ...)
  (:fixtures a b - category ...) (:objects a - category ...) (:obj_of_interest a b ...)
  (:init (On a b) ...) (:goal (And (On a b) ...)))
```

LIBERO lower-cases a whole file before it reads it, names and instruction alike; so does this parser. A region's full
name is `<target>_<name>`. Lengths are metres in the target's frame, angles radians.
"""

from __future__ import annotations

import ast
import dataclasses
import math
import operator
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from mjx_bench.errors import BenchError
from mjx_bench.task import Atom

Tree = list["str | Tree"]

_SECTIONS = (
    "problem",
    ":domain",
    ":language",
    ":regions",
    ":fixtures",
    ":objects",
    ":obj_of_interest",
    ":init",
    ":goal",
)

# Sections that LIBERO does not act on (PRO adds the last, for a program of its own to act on).
_UNREAD = (":scene_properties", ":perturbation_config")
_IGNORED = (":requirements", *_UNREAD)

# Predicates on joints: in the initial state they set them, in a goal they test them.
JOINT_PREDICATES = ("open", "close", "turnon", "turnoff")

# Fixture categories that are the room's own surface rather than a model placed in it.
_WORKSPACES = ("table", "floor", "kitchen_table", "living_room_table", "study_table", "coffee_table")


@dataclasses.dataclass(frozen=True)
class RegionSpec:
    """A region as the task file declares it.

    Attributes:
      target: the workspace or entity it lies on.
      ranges: rectangles (x0, y0, x1, y1), metres in the target's frame; none for a site that the target's model holds.
      yaw: (low, high) yaw at placement, radians.
      rgba: colour of the site.
    """

    target: str
    ranges: tuple[tuple[float, float, float, float], ...] = ()
    yaw: tuple[float, float] = (0.0, 0.0)
    rgba: tuple[float, float, float, float] = (0.0, 0.0, 1.0, 0.0)


@dataclasses.dataclass(frozen=True)
class Problem:
    """A task file.

    Attributes:
      name: the problem class, e.g. "libero_floor_manipulation".
      language: the file's own instruction, lower case.
      regions: full region name to region.
      fixtures: instance to category, in the file's order; the workspace ("main_table", "floor") is one of them.
      objects: instance to category, in the file's order.
      objects_of_interest: instances.
      init: initial atoms.
      goal: atoms that must all hold.
      unread: names of sections whose contents are passed over, as LIBERO passes over them.
    """

    name: str
    language: str
    regions: Mapping[str, RegionSpec]
    fixtures: Mapping[str, str]
    objects: Mapping[str, str]
    objects_of_interest: tuple[str, ...]
    init: tuple[Atom, ...]
    goal: tuple[Atom, ...]
    unread: tuple[str, ...] = ()

    @property
    def workspace(self) -> str:
        """The fixture that the others stand on, e.g. "main_table"; LIBERO gives it no model of its own."""
        tables = [name for name, category in self.fixtures.items() if category in _WORKSPACES]
        if len(tables) != 1:
            raise BenchError(f"problem {self.name}: expected one workspace fixture, found {tables or 'none'}")
        return tables[0]


def parse_file(path: Path) -> Problem:
    """Reads a task file; raises `BenchError` that names the file and what is wrong with it."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise BenchError(f"{path}: cannot read a task file ({error})") from error
    return parse(text, str(path))


def parse(text: str, source: str = "<text>") -> Problem:
    """Reads a task file's text; `source` is what error messages call it."""
    try:
        return _problem(_read(text))
    except _Malformed as error:
        raise BenchError(f"{source}: {error}") from error


class _Malformed(Exception):
    """What is wrong; `parse` adds where."""


def _read(text: str) -> Tree:
    """Nested lists of lower-case words; a `;` starts a comment."""
    text = re.sub(r";.*", "", text).lower()
    open_lists: list[Tree] = [[]]
    open_lines: list[int] = []
    for match in re.finditer(r"[()]|[^\s()]+", text):
        token = match.group()
        if token == "(":
            open_lists.append([])
            open_lines.append(text.count("\n", 0, match.start()) + 1)
        elif token == ")":
            if not open_lines:
                raise _Malformed(f"line {text.count(chr(10), 0, match.start()) + 1}: ')' without '('")
            open_lines.pop()
            closed = open_lists.pop()
            open_lists[-1].append(closed)
        else:
            open_lists[-1].append(token)
    if open_lines:
        raise _Malformed(f"line {open_lines[-1]}: '(' is never closed")
    top = open_lists[0]
    if len(top) != 1 or not isinstance(top[0], list) or top[0][:1] != ["define"]:
        raise _Malformed("expected exactly one (define ...)")
    return top[0][1:]


def _problem(groups: Tree) -> Problem:
    sections: dict[str, Tree] = {}
    for group in groups:
        head, *body = _as_list(group, "a section")
        if not isinstance(head, str):
            raise _Malformed("a section starts with a list, expected its name")
        if head in sections:
            raise _Malformed(f"section {head} appears twice")
        if head not in _SECTIONS and head not in _IGNORED:
            raise _Malformed(f"unknown section {head}; known: {', '.join(_SECTIONS)}")
        sections[head] = body
    if missing := [name for name in ("problem", ":language", ":objects", ":goal") if name not in sections]:
        raise _Malformed(f"missing section {', '.join(missing)}")
    if (domain := _words(sections.get(":domain", ["robosuite"]), ":domain")) != ["robosuite"]:
        raise _Malformed(f"domain {' '.join(domain)!r}, expected robosuite")

    name = _words(sections["problem"], "problem")
    if len(name) != 1:
        raise _Malformed(f"expected (problem NAME), got {len(name)} names")
    return Problem(
        name=name[0],
        language=" ".join(_words(sections[":language"], ":language")),
        regions=dict(_region(_as_list(item, "a region")) for item in sections.get(":regions", [])),
        fixtures=_typed(sections.get(":fixtures", []), ":fixtures"),
        objects=_typed(sections[":objects"], ":objects"),
        objects_of_interest=tuple(_words(sections.get(":obj_of_interest", []), ":obj_of_interest")),
        init=tuple(_atom(item) for item in sections.get(":init", [])),
        goal=tuple(_goal(sections[":goal"])),
        unread=tuple(name for name in _UNREAD if name in sections),
    )


def _typed(items: Tree, section: str) -> dict[str, str]:
    """`a b - kind c - other` as {a: kind, b: kind, c: other}."""
    out: dict[str, str] = {}
    seen: set[str] = set()
    pending: list[str] = []
    words = iter(_words(items, section))
    for word in words:
        if word != "-":
            pending.append(word)
            continue
        category = next(words, None)
        if category is None or not pending:
            raise _Malformed(f"{section}: '-' needs names before it and a category after it")
        if category in seen:
            # LIBERO silently forgets the first group's instances; a task that loses objects is not worth running.
            raise _Malformed(f"{section}: category {category} is declared twice; list its instances together")
        seen.add(category)
        for name in pending:
            if name in out:
                raise _Malformed(f"{section}: {name} is declared twice")
            out[name] = category
        pending = []
    if pending:
        raise _Malformed(f"{section}: no category for {', '.join(pending)}")
    return out


def _region(tree: Tree) -> tuple[str, RegionSpec]:
    name, *attributes = tree
    if not isinstance(name, str):
        raise _Malformed("a region starts with a list, expected its name")
    fields: dict[str, Tree] = {}
    for attribute in attributes:
        key, *value = _as_list(attribute, f"region {name}")
        if key not in (":target", ":ranges", ":yaw_rotation", ":rgba"):
            raise _Malformed(f"region {name}: unknown attribute {key}")
        fields[str(key)] = value
    target = _words(fields.get(":target", []), f"region {name} :target")
    if len(target) != 1:
        raise _Malformed(f"region {name}: expected one :target, got {len(target)}")
    spec = RegionSpec(target[0])
    if ":ranges" in fields:
        rows = [_numbers(row, 4, f"region {name} :ranges") for row in _only(fields[":ranges"], name)]
        spec = dataclasses.replace(spec, ranges=tuple((x0, y0, x1, y1) for x0, y0, x1, y1 in rows))
    if ":yaw_rotation" in fields:
        for row in _only(fields[":yaw_rotation"], name):  # the last one counts, as in LIBERO
            low, high = _numbers(row, 2, f"region {name} :yaw_rotation")
            spec = dataclasses.replace(spec, yaw=(low, high))
    if ":rgba" in fields:
        red, green, blue, alpha = _numbers(_only(fields[":rgba"], name), 4, f"region {name} :rgba")
        spec = dataclasses.replace(spec, rgba=(red, green, blue, alpha))
    return f"{spec.target}_{name}", spec


def _goal(body: Tree) -> Iterator[Atom]:
    if len(body) != 1:
        raise _Malformed(f"expected one expression in :goal, got {len(body)}")
    tree = _as_list(body[0], ":goal")
    if tree[:1] == ["and"]:
        for item in tree[1:]:
            yield _atom(item)
    else:
        yield _atom(tree)


def _atom(item: str | Tree) -> Atom:
    predicate, *args = _words(_as_list(item, "an atom"), "an atom")
    return Atom(predicate, tuple(args))


def _as_list(item: str | Tree, what: str) -> Tree:
    if not isinstance(item, list) or not item:
        raise _Malformed(f"{what}: expected a list in parentheses, got {item if item else '()'}")
    return item


def _only(items: Tree, region: str) -> Tree:
    if len(items) != 1:
        raise _Malformed(f"region {region}: expected one list, got {len(items)}")
    return _as_list(items[0], f"region {region}")


def _words(items: Tree, what: str) -> list[str]:
    words = [item for item in items if isinstance(item, str)]
    if len(words) != len(items):
        raise _Malformed(f"{what}: a list where a word was expected")
    return words


def _numbers(item: str | Tree, count: int, what: str) -> list[float]:
    words = _words(_as_list(item, what), what)
    if len(words) != count:
        raise _Malformed(f"{what}: expected {count} numbers, got {len(words)}")
    return [_number(word, what) for word in words]


_BINARY: dict[type[ast.operator], Callable[[float, float], float]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
}


def _number(word: str, what: str) -> float:
    """A number, or arithmetic on numbers and `pi`: LIBERO runs yaw ranges through `eval`, so files may hold `pi/2`."""

    def value(node: ast.expr) -> float:
        if isinstance(node, ast.Constant) and isinstance(node.value, (int, float)):
            return float(node.value)
        if isinstance(node, ast.Name) and node.id == "pi":
            return math.pi
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, (ast.USub, ast.UAdd)):
            return -value(node.operand) if isinstance(node.op, ast.USub) else value(node.operand)
        if isinstance(node, ast.BinOp) and type(node.op) in _BINARY:
            return _BINARY[type(node.op)](value(node.left), value(node.right))
        raise ValueError(word)

    try:
        number = value(ast.parse(word, mode="eval").body)
    except (SyntaxError, ValueError, ZeroDivisionError, RecursionError) as error:
        raise _Malformed(f"{what}: {word!r} is not a number") from error
    if not math.isfinite(number):
        raise _Malformed(f"{what}: {word!r} is not finite")
    return number
