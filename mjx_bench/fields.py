"""Reading JSON strictly: every key is asked for by name and type, and whatever nobody asked for is refused.

A silent default for a misspelt key is the costliest kind of bug in a benchmark, so nothing here guesses. Standard
library only, because records stand on it.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NoReturn

from mjx_bench.errors import BenchError, unknown_name

_REQUIRED: Any = object()


class FrozenMap(Mapping[str, Any]):
    """An immutable, hashable, picklable mapping (`MappingProxyType` is neither hashable nor picklable)."""

    __slots__ = ("_data",)

    def __init__(self, data: Mapping[str, Any]):
        self._data = {key: freeze(value) for key, value in data.items()}

    def __getitem__(self, key: str) -> Any:
        return self._data[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._data)

    def __len__(self) -> int:
        return len(self._data)

    def __hash__(self) -> int:
        return hash(frozenset(self._data.items()))

    def __repr__(self) -> str:
        return f"FrozenMap({self._data!r})"

    def __reduce__(self) -> tuple[Any, ...]:
        return FrozenMap, (self._data,)


def freeze(value: Any) -> Any:
    """JSON data with lists as tuples and objects as `FrozenMap`s."""
    if isinstance(value, Mapping):
        return value if isinstance(value, FrozenMap) else FrozenMap(value)
    if isinstance(value, (list, tuple)):
        return tuple(freeze(item) for item in value)
    return value


def thaw(value: Any) -> Any:
    """The inverse of `freeze`: plain lists and dicts, ready for `json.dumps`."""
    if isinstance(value, Mapping):
        return {key: thaw(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [thaw(item) for item in value]
    return value


def canonical_json(value: Any) -> str:
    """One spelling for equal data (sorted keys, no spaces, ASCII), so that hashes of it are comparable."""
    return json.dumps(thaw(value), sort_keys=True, separators=(",", ":"), allow_nan=False)


def parse_json(text: str, where: str) -> Any:
    """Parses JSON, refusing what Python would let pass: repeated keys (the last one wins), NaN and Infinity.

    Raises:
      BenchError: one line that starts with `where`.
    """

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        out = dict(pairs)
        if len(out) != len(pairs):
            keys = [key for key, _ in pairs]
            twice = next(key for key in keys if keys.count(key) > 1)
            raise BenchError(f"{where}: key {twice!r} appears twice in one object; keep one")
        return out

    def constant(name: str) -> NoReturn:
        raise BenchError(f"{where}: {name} is not valid JSON; use a finite number")

    try:
        return json.loads(text, object_pairs_hook=unique, parse_constant=constant)
    except json.JSONDecodeError as e:
        raise BenchError(f"{where}: not valid JSON at line {e.lineno} column {e.colno}: {e.msg}") from None
    except (RecursionError, ValueError) as e:
        # ValueError: an integer of more digits than Python converts.
        raise BenchError(f"{where}: not readable as JSON: {str(e).splitlines()[0]}") from None


def short(value: Any, limit: int = 80) -> str:
    """`repr` on one line, cut to `limit` characters: a message must not drown in the value it complains about."""
    text = repr(thaw(value)).replace("\n", " ")
    return text if len(text) <= limit else text[: limit - 4] + " ..."


def is_int(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def is_number(value: Any) -> bool:
    """A finite int or float; JSON's 1e999 parses to infinity and is refused."""
    if is_int(value):
        return abs(value) < 10**300
    return isinstance(value, float) and math.isfinite(value)


class Reader:
    """Reads one JSON object field by field; `finish` refuses the rest.

    Every getter takes a key and returns its value as it was written (an int stays an int, so that files round-trip).
    Without `default` the key is required. Errors are one line: where, field, value, what was expected.

    Attributes:
      where: file and case, the start of every message.
      path: dotted path of this object inside the case, "" at the top.
    """

    def __init__(self, value: Any, where: str, path: str = ""):
        self.where, self.path = where, path
        if not isinstance(value, Mapping):
            name = f" {path}" if path else ""
            raise BenchError(f"{where}:{name} = {short(value)}: expected a JSON object")
        self._data = dict(value)
        self._seen: list[str] = []

    def _name(self, key: str) -> str:
        return f"{self.path}.{key}" if self.path else key

    def fail(self, key: str, expected: str) -> NoReturn:
        """Raises for `key`, naming its value (or its absence) and what is `expected`."""
        if key in self._data:
            raise BenchError(f"{self.where}: {self._name(key)} = {short(self._data[key])}: expected {expected}")
        raise BenchError(f"{self.where}: {self._name(key)} is missing: expected {expected}")

    def has(self, key: str) -> bool:
        return key in self._data

    def get(self, key: str, ok: Callable[[Any], bool], expected: str, default: Any = _REQUIRED) -> Any:
        self._seen.append(key)
        if key not in self._data and default is not _REQUIRED:
            return default
        value = self._data.get(key, _REQUIRED)
        if value is _REQUIRED or not ok(value):
            self.fail(key, expected)
        return value

    def text(self, key: str, default: Any = _REQUIRED) -> Any:
        return self.get(key, lambda v: isinstance(v, str) and v != "", "a non-empty string", default)

    def choice(self, key: str, known: Sequence[str], default: Any = _REQUIRED) -> Any:
        value = self.text(key, default)
        if key in self._data and value not in known:
            raise BenchError(f"{self.where}: {unknown_name(self._name(key), value, known)}")
        return value

    def flag(self, key: str, default: Any = _REQUIRED) -> Any:
        return self.get(key, lambda v: isinstance(v, bool), "true or false", default)

    def integer(self, key: str, low: int = 0, default: Any = _REQUIRED) -> Any:
        return self.get(key, lambda v: is_int(v) and v >= low, f"an integer >= {low}", default)

    def number(
        self, key: str, low: float = -math.inf, high: float = math.inf, strict: bool = False, default: Any = _REQUIRED
    ) -> Any:
        """A finite number in [low, high], or in (low, high) when `strict`."""

        def ok(v: Any) -> bool:
            return is_number(v) and (low < v < high if strict else low <= v <= high)

        if math.isinf(low) and math.isinf(high):
            expected = "a finite number"
        elif math.isinf(high):
            expected = f"a finite number {'>' if strict else '>='} {low:g}"
        else:
            a, b = "()" if strict else "[]"
            expected = f"a number in {a}{low:g}, {high:g}{b}"
        return self.get(key, ok, expected, default)

    def vector(self, key: str, size: int, low: float = -math.inf, default: Any = _REQUIRED) -> Any:
        def ok(v: Any) -> bool:
            return isinstance(v, (list, tuple)) and len(v) == size and all(is_number(x) and x >= low for x in v)

        bound = "" if math.isinf(low) else f" >= {low:g}"
        return self.get(key, ok, f"a list of {size} finite numbers{bound}", default)

    def items(self, key: str, at_least: int = 0, default: Any = _REQUIRED) -> Any:
        expected = f"a list of at least {at_least} item(s)" if at_least else "a list"
        return self.get(key, lambda v: isinstance(v, (list, tuple)) and len(v) >= at_least, expected, default)

    def object(self, key: str) -> Reader:
        """A reader of the nested object `key`."""
        value = self.get(key, lambda v: isinstance(v, Mapping), "a JSON object")
        return Reader(value, self.where, self._name(key))

    def finish(self) -> FrozenMap:
        """Refuses every key that no getter asked for, and returns the whole object, frozen."""
        for key in self._data:
            if key not in self._seen:
                raise BenchError(f"{self.where}: {unknown_name('field', self._name(key), map(self._name, self._seen))}")
        return FrozenMap(self._data)
