"""The plots of the HTML page. All take rows: a name and the statistics of a group, be it an event, a suite or a policy."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any

from mjx_bench.report import svg
from mjx_bench.report.svg import TOP, heights, x

Rows = Sequence[tuple[str, Mapping[str, Any]]]

# Field of `outcomes` to its name and what it means, in the order of the bars.
OUTCOMES = {
    "preserved": ("both succeed", "both"),
    "regressed": ("only Base succeeds: regression", "regression"),
    "gained": ("only Dynamic succeeds: recovery", "recovery"),
    "failed": ("neither succeeds", "neither"),
}

_ROW, _THIN_ROW = 54, 40
_NARROWEST = 0.075  # of the width, that a number in a bar needs
_HISTOGRAM = 120  # pixels of its highest bar

# Regressions are told from the rest without colour too. Once a page.
STRIPES = (
    '<svg width="0" height="0" aria-hidden="true" style="position:absolute"><defs>'
    '<pattern id="stripes" width="6" height="6" patternUnits="userSpaceOnUse" patternTransform="rotate(45)">'
    '<rect width="6" height="6" class="stripe-ground"/><line x1="0" y1="0" x2="0" y2="6" class="stripe"/>'
    "</pattern></defs></svg>"
)


def event_name(event: str) -> str:
    """An event as people read it."""
    return event.replace("_", " ")


def percent(rate: float | None) -> str:
    """A fraction in per cent; a dash for None."""
    return "–" if rate is None else f"{100 * rate:.1f}%"


def points(value: float | None) -> str:
    """Signed percentage points; exactly 0 has no sign."""
    if value is None:
        return "–"
    return "0" if value == 0 else f"{value:+.1f}".replace("-", "−")


def facts(rows: Iterable[tuple[str, str, str]]) -> str:
    """A table of names, values and what they mean."""
    body = "".join(
        f'<tr><th scope="row">{escape(name)}</th><td>{escape(value)}</td><td>{escape(meaning)}</td></tr>'
        for name, value, meaning in rows
    )
    return f'<table class="facts"><tbody>{body}</tbody></table>'


def keys(**meanings: str) -> str:
    """A line that says what colours mean."""
    return " ".join(f'<span class="key {name}">{escape(meaning)}</span>' for name, meaning in meanings.items())


ARM_KEYS = keys(base="Base", dynamic="Dynamic")
COVERAGE_KEYS = keys(fired="the event fired", answered="the policy was asked again after it")
OUTCOME_KEYS = keys(**{short: meaning for meaning, short in OUTCOMES.values()})


def figure(caption: str, plot: str, legend: str = "") -> str:
    """A plot below its caption."""
    return f"<figure><figcaption>{escape(caption)} <span>{legend}</span></figcaption>{plot}</figure>"


def event_rows(summary: Mapping[str, Any]) -> Rows:
    """Every event, and all."""
    return [*((event_name(name), group) for name, group in summary["events"].items()), ("all", summary)]


def profile(rows: Rows, name: str = "profile") -> str:
    """Success of both arms, with Wilson intervals."""
    marks = []
    for y, (label, group) in zip(heights(len(rows), _ROW), rows, strict=True):
        marks.append(svg.row_label(y, label, _change(group)))
        for arm, below in (("base", 26), ("dynamic", 38)):
            rate, bounds = group[arm]["rate"], group[arm]["wilson95"]
            if rate is not None:
                says = f"{label}, {arm}: {percent(rate)} of {group['pairs']} pairs"
                says += f", 95% interval {percent(bounds[0])} to {percent(bounds[1])}"
                marks.append(svg.interval_mark(arm, says, rate, bounds, y + below))
    return svg.rate_rows(
        name,
        "Success rate of both arms",
        "Dots are success rates, lines their 95% Wilson intervals. Upper: Base, lower: Dynamic.",
        TOP + len(rows) * _ROW,
        marks,
    )


def rates(rows: Rows, name: str = "rates") -> str:
    """Success by task of an evaluation, with Wilson intervals."""
    marks = []
    for y, (label, group) in zip(heights(len(rows), _ROW), rows, strict=True):
        rate, bounds = group["rate"], group["wilson95"]
        marks.append(svg.row_label(y, label, percent(rate)))
        if rate is not None:
            says = f"{label}: {percent(rate)} of {group['instances']} instances"
            says += f", 95% interval {percent(bounds[0])} to {percent(bounds[1])}"
            marks.append(svg.interval_mark("base", says, rate, bounds, y + 30))
    title, meaning = "Success rate by task", "Dots are success rates, lines their 95% Wilson intervals."
    return svg.rate_rows(name, title, meaning, TOP + len(rows) * _ROW, marks)


def partition(rows: Rows, name: str = "partition") -> str:
    """How pairs divide into the four outcomes."""
    marks = []
    for y, (label, group) in zip(heights(len(rows), _ROW), rows, strict=True):
        pairs, outcomes = group["pairs"], group["outcomes"]
        marks.append(svg.row_label(y, label, f"{pairs} pair{'s' * (pairs != 1)}"))
        before = 0
        for field, (meaning, short) in OUTCOMES.items():
            if count := outcomes[field]:
                says, share = f"{label}: {count} of {pairs}, {meaning}", count / pairs
                number = str(count) if share >= _NARROWEST else ""
                marks.append(svg.bar(short, says, y + 22, 20, before / pairs, share, number))
            before += count
    return svg.rate_rows(
        name,
        "Outcome partition: what became of each pair",
        "Bars are divided into pairs in which both arms succeed, only Base, only Dynamic, neither.",
        TOP + len(rows) * _ROW,
        marks,
    )


def arrows(rows: Rows, name: str = "arrows") -> str:
    """From the rate of Base to that of Dynamic."""
    marks = []
    for y, (label, group) in zip(heights(len(rows), _THIN_ROW), rows, strict=True):
        base, dynamic = group["base"]["rate"], group["dynamic"]["rate"]
        marks.append(svg.row_label(y, label, f"{points(group['delta_pp'])} points"))
        if base is None:
            continue
        says, at = f"{label}: {percent(base)} as it is, {percent(dynamic)} with the event", y + 26
        point = svg.head(dynamic, at, 1 if dynamic > base else -1) if dynamic != base else ""
        marks.append(
            f'<g class="{"regression" if dynamic < base else "recovery"}"><title>{escape(says)}</title>'
            f'<line class="shaft" x1="{x(base)}" x2="{x(dynamic)}" y1="{at}" y2="{at}"/>{point}</g>'
            f'<g class="base"><circle class="mark" cx="{x(base)}" cy="{at}" r="4.5"/></g>'
        )
    return svg.rate_rows(
        name,
        "From Base to Dynamic",
        "Arrows go from the success rate of Base to that of Dynamic; a dot alone means that they are equal.",
        TOP + len(rows) * _THIN_ROW,
        marks,
    )


def coverage(rows: Rows, name: str = "coverage") -> str:
    """In how many pairs the event fired, and in how many the policy was asked again after it."""
    marks = []
    for y, (label, group) in zip(heights(len(rows), _THIN_ROW), rows, strict=True):
        # The reference counts only queries that both arms made at the same step.
        answered = (
            group["response_coverage"] if group["response_coverage"] is not None else group["common_response_coverage"]
        )
        shares = (("fired", "the event fired", group["trigger_coverage"], 18), ("answered", "answered", answered, 27))
        marks.append(svg.row_label(y, label, " / ".join(percent(share) for _, _, share, _ in shares)))
        for kind, meaning, share, below in shares:
            if share is not None:
                marks.append(svg.bar(kind, f"{label}: {meaning} in {percent(share)}", y + below, 8, 0, share))
    return svg.rate_rows(
        name,
        "Coverage",
        "Upper bars: pairs in which the event fired. Lower bars: pairs in which the policy was asked again after it.",
        TOP + len(rows) * _THIN_ROW,
        marks,
    )


def bars(rows: Rows, name: str) -> str:
    """Success of both arms as bars."""
    marks = []
    for y, (label, group) in zip(heights(len(rows), _THIN_ROW), rows, strict=True):
        marks.append(svg.row_label(y, label, _change(group)))
        for arm, below in (("base", 18), ("dynamic", 27)):
            rate = group[arm]["rate"]
            if rate is not None:
                marks.append(
                    svg.bar(arm, f"{label}, {arm}: {percent(rate)} of {group['pairs']} pairs", y + below, 8, 0, rate)
                )
    title, meaning = "Success rate by group", "Upper bars: Base, lower bars: Dynamic."
    return svg.rate_rows(name, title, meaning, TOP + len(rows) * _THIN_ROW, marks)


def _change(group: Mapping[str, Any]) -> str:
    return f"{percent(group['base']['rate'])} → {percent(group['dynamic']['rate'])}"


def stale_histogram(rows: Rows, name: str = "stale") -> str:
    """How many actions were executed after the event that were chosen before it; one histogram a row, on one scale of x."""
    found = [(label, {int(n): c for n, c in group["stale_actions"].items()}) for label, group in rows]
    most = max((n for _, counts in found for n in counts), default=0)
    slot = 1 / (most + 1)
    every = max(1, -(-(most + 1) // 12))  # at most a dozen ticks
    height = _HISTOGRAM if len(rows) == 1 else _HISTOGRAM // 3
    marks, y = [], TOP
    for label, counts in found:
        pairs, tallest = sum(counts.values()), max(counts.values(), default=1)
        marks.append(svg.row_label(y, label, f"{pairs} pair{'s' * (pairs != 1)}"))
        ground = y + 34 + height
        for n, count in sorted(counts.items()):
            tall = height * count / tallest
            says = f"{label}: {n} stale action{'s' * (n != 1)} in {count} of {pairs} pairs"
            marks.append(svg.bar("dynamic", says, ground - tall, tall, (n + 0.1) * slot, 0.8 * slot))
            if slot >= 0.04:
                marks.append(f'<text class="tick" x="{x((n + 0.5) * slot)}" y="{ground - tall - 4:.1f}">{count}</text>')
        marks.append(f'<line class="grid" x1="{x(0)}" x2="{x(1)}" y1="{ground}" y2="{ground}"/>')
        y = ground + 12
    ticks = [f'<text class="tick" x="{x((n + 0.5) * slot)}" y="{y + 4}">{n}</text>' for n in range(0, most + 1, every)]
    return svg.frame(
        name,
        "Stale actions",
        "Bars: pairs by the number of actions executed after the event that were chosen before it.",
        y + AXIS_BELOW,
        [*marks, *ticks],
    )


AXIS_BELOW = 12  # pixels below the ticks of a histogram


def heat_map(
    title: str, columns: Sequence[str], rows: Sequence[tuple[str, Sequence[float | None]]], scale: float | None = None
) -> str:
    """A table whose cells, percentage points, are coloured by how much was lost or gained.

    Args:
      title: for readers that see no colours.
      columns: heads.
      rows: name and cells; None is a dash.
      scale: points of the deepest colour; the largest of the cells if not given.
    """
    most = scale or max((abs(v) for _, cells in rows for v in cells if v is not None), default=0.0) or 1.0

    def cell(value: float | None) -> str:
        if not value:
            return f"<td>{points(value)}</td>"
        kind = "loss" if value < 0 else "gain"
        return f'<td class="{kind}" style="--depth:{min(1.0, abs(value) / most):.3f}">{points(value)}</td>'

    head = "".join(f'<th scope="col">{escape(c)}</th>' for c in ("", *columns))
    body = "".join(f'<tr><th scope="row">{escape(name)}</th>{"".join(map(cell, cells))}</tr>' for name, cells in rows)
    return (
        f'<div class="wide" role="region" aria-label="{escape(title)}" tabindex="0"><table class="heat">'
        f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>"
    )
