"""Parts of the page's plots: SVG that keeps its text size at any width, so x is in per cent of it and y in pixels."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from html import escape

EDGE = 3.0  # per cent left free on both sides, so that marks at 0 and 1 are whole
TOP, AXIS = 6, 26
_TICKS = (0.0, 0.25, 0.5, 0.75, 1.0)


def x(share: float) -> str:
    """The place of a fraction of the plot's width."""
    return f"{EDGE + share * (100 - 2 * EDGE):.3f}%"


def width(share: float) -> str:
    """A length of a fraction of the plot's width."""
    return f"{share * (100 - 2 * EDGE):.3f}%"


def row_label(y: int, label: str, value: str) -> str:
    """The line above a row: its name, and what it shows in figures."""
    total = " total" if label == "all" else ""
    return (
        f'<text class="label{total}" x="{x(0)}" y="{y + 13}">{escape(label)}</text>'
        f'<text class="value{total}" x="{x(1)}" y="{y + 13}">{escape(value)}</text>'
    )


def heights(count: int, row: int) -> Iterator[int]:
    """y of each of `count` rows of `row` pixels."""
    return iter(range(TOP, TOP + count * row, row))


def rate_rows(name: str, title: str, description: str, bottom: int, marks: Iterable[str]) -> str:
    """A plot whose x is a rate, with a grid from 0 to 100%, `bottom` pixels high."""
    grid = "".join(
        f'<line class="grid" x1="{x(tick)}" x2="{x(tick)}" y1="{TOP}" y2="{bottom}"/>'
        f'<text class="tick" x="{x(tick)}" y="{bottom + 17}">{100 * tick:.0f}%</text>'
        for tick in _TICKS
    )
    return frame(name, title, description, bottom + AXIS, [grid, *marks])


def frame(name: str, title: str, description: str, height: int, marks: Iterable[str]) -> str:
    """The plot itself; `name` must be unlike any other on its page."""
    return (
        f'<svg class="plot" id="{name}" role="img" aria-labelledby="{name}-title {name}-desc" width="100%"'
        f' height="{height}"><title id="{name}-title">{escape(title)}</title>'
        f'<desc id="{name}-desc">{escape(description)}</desc>{"".join(marks)}</svg>'
    )


def interval_mark(arm: str, says: str, rate: float, bounds: Sequence[float], y: int) -> str:
    """A dot at a rate on a line for its interval."""
    return (
        f'<g class="{arm}"><title>{escape(says)}</title>'
        f'<line class="interval" x1="{x(bounds[0])}" x2="{x(bounds[1])}" y1="{y}" y2="{y}"/>'
        f'<circle class="mark" cx="{x(rate)}" cy="{y}" r="5"/></g>'
    )


def bar(name: str, says: str, y: float, height: float, start: float, share: float, number: str = "") -> str:
    """A bar from `start`, `share` of the width long, with a number in its middle."""
    text = f'<text class="count" x="{x(start + share / 2)}" y="{y + height - 5.5}">{number}</text>' if number else ""
    return (
        f'<g class="{name}"><title>{escape(says)}</title>'
        f'<rect class="mark" x="{x(start)}" width="{width(share)}" y="{y}" height="{height}"/>{text}</g>'
    )


def head(share: float, y: float, direction: int) -> str:
    """The point of a horizontal arrow that ends at `share`; `direction` 1 to the right, -1 to the left.

    A nested picture is placed in per cent and drawn in pixels.
    """
    back = -9 * direction
    return (
        f'<svg x="{x(share)}" y="{y:g}" width="1" height="1" overflow="visible">'
        f'<path class="mark" d="M0 0L{back} -6L{back} 6Z"/></svg>'
    )
