"""The plots of the HTML page, as SVG that keeps its text size at any width: x is in per cent of it, y in pixels."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from html import escape
from typing import Any

# Field of `summary["outcomes"]` to its name and what it means, in the order of the bars.
OUTCOMES = {
    "preserved": ("both succeed", "both"),
    "regressed": ("only Base succeeds: regression", "regression"),
    "gained": ("only Dynamic succeeds: recovery", "recovery"),
    "failed": ("neither succeeds", "neither"),
}

_EDGE = 3.0  # per cent left free on both sides, so that marks at 0 and 1 are whole
_ROW, _TOP, _AXIS = 54, 6, 26
_NARROWEST = 7.0  # per cent of the width that a number in a bar needs

# Regressions are told from the rest without colour too.
_STRIPES = (
    '<defs><pattern id="stripes" width="6" height="6" patternUnits="userSpaceOnUse" patternTransform="rotate(45)">'
    '<rect width="6" height="6" class="stripe-ground"/><line x1="0" y1="0" x2="0" y2="6" class="stripe"/>'
    "</pattern></defs>"
)


def event_name(event: str) -> str:
    """An event as people read it."""
    return event.replace("_", " ")


def percent(rate: float | None) -> str:
    """A fraction in per cent; a dash for None."""
    return "–" if rate is None else f"{100 * rate:.1f}%"


def facts(rows: Iterable[tuple[str, str, str]]) -> str:
    """A table of names, values and what they mean."""
    body = "".join(
        f'<tr><th scope="row">{escape(name)}</th><td>{escape(value)}</td><td>{escape(meaning)}</td></tr>'
        for name, value, meaning in rows
    )
    return f'<table class="facts"><tbody>{body}</tbody></table>'


def profile(summary: Mapping[str, Any]) -> str:
    """Success of both arms by event, with Wilson intervals."""
    marks = []
    for y, label, group in _rows(summary):
        marks.append(_label(y, label, f"{percent(group['base']['rate'])} → {percent(group['dynamic']['rate'])}"))
        for arm, height in (("base", y + 26), ("dynamic", y + 38)):
            rate, interval = group[arm]["rate"], group[arm]["wilson95"]
            if rate is None:
                continue
            says = f"{label}, {arm}: {percent(rate)} of {group['pairs']} pairs"
            says += f", 95% interval {percent(interval[0])} to {percent(interval[1])}"
            marks.append(
                f'<g class="{arm}"><title>{escape(says)}</title>'
                f'<line class="interval" x1="{_x(interval[0])}" x2="{_x(interval[1])}" y1="{height}" y2="{height}"/>'
                f'<circle class="mark" cx="{_x(rate)}" cy="{height}" r="5"/></g>'
            )
    return _svg(
        "profile",
        "Event profile: success rate of both arms, by event",
        "One row an event; dots are success rates, lines their 95% Wilson intervals. Upper: Base, lower: Dynamic.",
        summary,
        marks,
    )


def rates(summary: Mapping[str, Any]) -> str:
    """Success by task of an evaluation, with Wilson intervals."""
    marks = []
    for y, label, group in _rows(summary):
        rate, interval = group["rate"], group["wilson95"]
        marks.append(_label(y, label, percent(rate)))
        if rate is None:
            continue
        says = f"{label}: {percent(rate)} of {group['instances']} instances"
        says += f", 95% interval {percent(interval[0])} to {percent(interval[1])}"
        marks.append(
            f'<g class="base"><title>{escape(says)}</title>'
            f'<line class="interval" x1="{_x(interval[0])}" x2="{_x(interval[1])}" y1="{y + 30}" y2="{y + 30}"/>'
            f'<circle class="mark" cx="{_x(rate)}" cy="{y + 30}" r="5"/></g>'
        )
    return _svg(
        "rates",
        "Success rate by task",
        "One row a task; dots are success rates, lines their 95% Wilson intervals.",
        summary,
        marks,
    )


def partition(summary: Mapping[str, Any]) -> str:
    """How pairs divide into the four outcomes, by event."""
    marks = [_STRIPES]
    for y, label, group in _rows(summary):
        pairs, outcomes = group["pairs"], group["outcomes"]
        marks.append(_label(y, label, f"{pairs} pair{'s' * (pairs != 1)}"))
        before = 0
        for field, (meaning, short) in OUTCOMES.items():
            count = outcomes[field]
            if count:
                says = f"{label}: {count} of {pairs}, {meaning}"
                marks.append(_bar(y + 22, short, says, count, before / pairs, count / pairs))
            before += count
    return _svg(
        "partition",
        "Outcome partition: what the event did to each pair, by event",
        "One bar an event, divided into pairs in which both arms succeed, only Base, only Dynamic, neither.",
        summary,
        marks,
    )


def _bar(y: int, name: str, says: str, count: int, start: float, share: float) -> str:
    """One part of a bar, with its count where there is room for it."""
    width = share * (100 - 2 * _EDGE)
    number = f'<text class="count" x="{_x(start + share / 2)}" y="{y + 14.5}">{count}</text>'
    return (
        f'<g class="{name}"><title>{escape(says)}</title>'
        f'<rect class="mark" x="{_x(start)}" width="{width:.3f}%" y="{y}" height="20"/>'
        f"{number if width >= _NARROWEST else ''}</g>"
    )


def _rows(summary: Mapping[str, Any]) -> Iterator[tuple[int, str, Mapping[str, Any]]]:
    """(y of the row, label, group) of every event, or task, and of all."""
    groups = [*((event_name(name), group) for name, group in _groups(summary).items()), ("all", summary)]
    for i, (label, group) in enumerate(groups):
        yield _TOP + i * _ROW, label, group


def _groups(summary: Mapping[str, Any]) -> Mapping[str, Any]:
    groups: Mapping[str, Any] = summary["tasks"] if "tasks" in summary else summary["events"]
    return groups


def _x(share: float) -> str:
    return f"{_EDGE + share * (100 - 2 * _EDGE):.3f}%"


def _label(y: int, label: str, value: str) -> str:
    total = " total" if label == "all" else ""
    return (
        f'<text class="label{total}" x="{_x(0)}" y="{y + 13}">{escape(label)}</text>'
        f'<text class="value{total}" x="{_x(1)}" y="{y + 13}">{escape(value)}</text>'
    )


def _svg(name: str, title: str, description: str, summary: Mapping[str, Any], marks: list[str]) -> str:
    bottom = _TOP + (len(_groups(summary)) + 1) * _ROW
    grid = "".join(
        f'<line class="grid" x1="{_x(tick)}" x2="{_x(tick)}" y1="{_TOP}" y2="{bottom}"/>'
        f'<text class="tick" x="{_x(tick)}" y="{bottom + 17}">{100 * tick:.0f}%</text>'
        for tick in (0.0, 0.25, 0.5, 0.75, 1.0)
    )
    return (
        f'<svg class="plot" id="{name}" role="img" aria-labelledby="{name}-title {name}-desc"'
        f' width="100%" height="{bottom + _AXIS}">'
        f'<title id="{name}-title">{escape(title)}</title><desc id="{name}-desc">{escape(description)}</desc>'
        f"{grid}{''.join(marks)}</svg>"
    )
