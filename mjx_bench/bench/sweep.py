"""All curves of `bench curve`: one process after another, each with its share of the time, points kept as they come."""

from __future__ import annotations

import dataclasses
import json
import os
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from mjx_bench.bench import apart, curve
from mjx_bench.bench.curve import Budget, LoadTask
from mjx_bench.errors import BenchError

PICTURES = "pictures"

# Seconds below which there is no point in starting a process once more: it loads and traces for longer.
WORTHWHILE = 15.0


@dataclasses.dataclass(frozen=True)
class Part:
    """What one process measures.

    Attributes:
      backend: engine, or `PICTURES`.
      tile: lanes a program, for a compiled engine.
    """

    backend: str
    tile: int | None = None

    def __str__(self) -> str:
        return self.backend if self.tile is None else f"{self.backend}, tiles of {self.tile}"

    @property
    def key(self) -> dict[str, Any]:
        """What tells its curve from others."""
        return {"backend": self.backend} | ({} if self.tile is None else {"tile": self.tile})

    @property
    def speed(self) -> str:
        """The figure of a point that is its speed."""
        return "images_per_s" if self.backend == PICTURES else "control_steps_per_s"


class Sweep:
    """What is measured, and what was.

    Args:
      about: what makes two measurements comparable, as JSON data.
      parts: in their order.
      lanes: numbers of lanes, ascending.
      path: file that holds what was found so far, and goes on to; None for none.
      progress: called with a line about each step.

    Attributes:
      found: `about`, `curves` (of a part each, its points by lanes) and `skipped` (what was not measured, and why).

    Raises:
      BenchError: the file holds something else.
    """

    def __init__(
        self,
        about: dict[str, Any],
        parts: Sequence[Part],
        lanes: Sequence[int],
        path: Path | None,
        progress: Callable[[str], None],
    ) -> None:
        self.parts, self.lanes = parts, lanes
        self._path, self._progress = path, progress
        self._started = time.monotonic()
        self.found: dict[str, Any] = about | {"curves": [], "skipped": []}
        if path is not None and path.exists() and path.stat().st_size:
            self.found["curves"] = _read(path, about)

    @property
    def measured(self) -> int:
        """Points that there are."""
        return sum(len(self.lanes) - len(self._missing(part)) for part in self.parts)

    @property
    def wanted(self) -> int:
        """Points that there will be."""
        return len(self.parts) * len(self.lanes)

    def curve_of(self, part: Part) -> dict[str, Any] | None:
        """What was found of a part so far."""
        return next(
            (c for c in self.found["curves"] if {k: c.get(k) for k in ("backend", "tile")} == _full(part)), None
        )

    def _points(self, part: Part) -> dict[int, float]:
        found = self.curve_of(part)
        return {} if found is None else {p["lanes"]: p[part.speed] for p in found["points"]}

    def _missing(self, part: Part) -> list[int]:
        have = self._points(part)
        return [count for count in self.lanes if count not in have]

    def run(self, load_task: LoadTask, seed: int, size: int, budget: Budget) -> None:
        """Measures what is missing.

        Args:
          load_task: what is simulated; a new process can be handed it.
          seed: of the actions, and the policy seed.
          size: pixels a side, for pictures.
          budget: of everything together; a part gets an equal share of what is left when it begins, and those for which
            that was not enough share what the others left.
        """
        cut = self._round([part for part in self.parts if self._missing(part)], load_task, seed, size, budget)
        if self._left(budget) > WORTHWHILE:
            self._round(cut, load_task, seed, size, budget)
        self._relate()
        self._save()

    def _left(self, budget: Budget) -> float:
        return max(0.0, budget.total - (time.monotonic() - self._started))

    def _round(self, parts: Sequence[Part], load_task: LoadTask, seed: int, size: int, budget: Budget) -> list[Part]:
        """Measures parts, each with an equal share of the time that is left; returns those whose share was not enough."""
        cut = []
        for k, part in enumerate(parts):
            share = dataclasses.replace(budget, total=self._left(budget) / (len(parts) - k))
            if not self._measure(part, load_task, seed, size, share):
                cut.append(part)
        return cut

    def _measure(self, part: Part, load_task: LoadTask, seed: int, size: int, budget: Budget) -> bool:
        """Measures what is missing of a part; False if its process had to be ended."""
        self.found["skipped"] = [row for row in self.found["skipped"] if not part.key.items() <= row.items()]
        missing = self._missing(part)
        known = sorted(self._points(part).items())
        # The last point below the first that is missing is what the next one's time is told from.
        known = [point for point in known if point[0] < missing[0]][-1:]
        seconds = None if budget.total == float("inf") else budget.total
        rest = (missing, known, budget, seed)
        if part.backend == PICTURES:
            pieces = apart.run(curve.pictures, load_task, size, *rest, seconds=seconds)
        else:
            pieces = apart.run(curve.points, load_task, part.backend, part.tile, *rest, seconds=seconds)
        self._say(f"{part}: a process of its own" + ("" if seconds is None else f", for {seconds:.0f} s at most"))
        left = list(missing)
        try:
            for said in pieces:
                self._take(part, said, left)
        except apart.OutOfTimeError:
            self._skip(part, left, f"its share of the time, {seconds:.0f} s, was over")
            return False
        except BenchError as error:
            self._skip(part, left, str(error))
        return True

    def _take(self, part: Part, said: dict[str, Any], left: list[int]) -> None:
        """Keeps what a part's process said."""
        if "begins" in said:
            expected = said["expected_s"]
            self._say(f"{part}, {said['begins']} lanes" + ("" if expected is None else f": at least {expected:.1f} s"))
        elif "skipped" in said:
            left.remove(said["skipped"])
            self._skip(part, [said["skipped"]], said["why"])
        elif "compiled" in said:
            for name, value in said["compiled"].items():
                self._curve(part).setdefault(name, value)
            self._say(f"{part}: " + ", ".join(f"{name} {value}" for name, value in said["compiled"].items()))
        else:
            point = said["point"]
            left.remove(point["lanes"])
            points = self._curve(part)["points"]
            points.append(point)
            points.sort(key=lambda p: p["lanes"])
            self._save()
            low, high = point["range"]
            self._say(
                f"{part}, {point['lanes']} lanes: {point[part.speed]:.4g} a second ({low:.4g} to {high:.4g}),"
                f" {point['peak_rss_mib']:.0f} MiB"
            )

    def _curve(self, part: Part) -> dict[str, Any]:
        found = self.curve_of(part)
        if found is None:
            found = part.key | {"points": []}
            self.found["curves"].append(found)
        return found

    def _skip(self, part: Part, lanes: Sequence[int], why: str) -> None:
        for count in lanes:
            self.found["skipped"].append(part.key | {"lanes": count, "why": why})
            self._say(f"{part}, {count} lanes: skipped, {why}")
        self._save()

    def _say(self, line: str) -> None:
        took = time.monotonic() - self._started
        self._progress(f"[{self.measured} of {self.wanted} points, {took:.0f} s] {line}")

    def _save(self) -> None:
        if self._path is not None:
            whole = self._path.with_name(self._path.name + ".part")
            whole.write_text(json.dumps(self.found, indent=2, allow_nan=False) + "\n")
            os.replace(whole, self._path)

    def _relate(self) -> None:
        """Gives each point of an engine its speed relative to that of the first engine with as many lanes."""
        engines = [part for part in self.parts if part.backend != PICTURES]
        first = self._points(engines[0])
        for part in engines[1:]:
            for point in (self.curve_of(part) or {"points": []})["points"]:
                if (reference := first.get(point["lanes"])) is not None:
                    point["ratio_vs_first"] = float(f"{point[part.speed] / reference:.4g}")


def _full(part: Part) -> dict[str, Any]:
    return {"backend": part.backend, "tile": part.tile}


def _read(path: Path, about: dict[str, Any]) -> list[dict[str, Any]]:
    """The curves of a file."""
    try:
        found = json.loads(path.read_text())
        curves: list[dict[str, Any]] = found["curves"]
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise BenchError(f"{path}: no file of `bench curve` ({error}); choose another name") from None
    for name, value in _flat(about):
        there = dict(_flat(found)).get(name)
        if there != value:
            raise BenchError(
                f"{path}: was measured with {name} {there!r}, and this is {value!r}; choose another file, or remove it"
            )
    return curves


def _flat(values: dict[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in values.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{prefix}{name} ")
        else:
            yield prefix + name, value


def plot(found: dict[str, Any], path: Path) -> None:
    """Draws the curves of engines.

    Raises:
      BenchError: the file cannot be written.
    """
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(figsize=(6.4, 4.0), layout="constrained")
    for one in found["curves"]:
        if one["backend"] == PICTURES or not one["points"]:
            continue
        tile = f", tiles of {one['tile']}" if "tile" in one else ""
        points = one["points"]
        lanes, rates = ([p[name] for p in points] for name in ("lanes", "physics_steps_per_s"))
        (line,) = axes.plot(lanes, rates, marker="o", label=one["backend"] + tile)
        low, high = ([found["substeps"] * p["range"][k] for p in points] for k in (0, 1))
        axes.fill_between(lanes, low, high, color=line.get_color(), alpha=0.2, linewidth=0)
    axes.set(xlabel="lanes", ylabel="physics steps a second", title=f"{found['suite']} {found['name']}")
    axes.grid(alpha=0.3, which="both")
    if axes.lines:  # a scale of logarithms needs something to show
        axes.set(xscale="log", yscale="log")
        axes.legend()
    try:
        figure.savefig(path)
    except (OSError, ValueError) as error:
        raise BenchError(f"cannot draw {path}: {error}") from None
    finally:
        plt.close(figure)
