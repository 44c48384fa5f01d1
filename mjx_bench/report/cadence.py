"""Curves over the query interval or the delay: one policy at several settings. Section 5.4 of the LIBERO-MAX protocol."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from mjx_bench.report import svg
from mjx_bench.report.html_plots import percent, points
from mjx_bench.report.svg import TOP, x

_HEIGHT = 240  # pixels from 0 to 100%
_X = {"query_interval": "Q", "delay": "delay"}
_LEFT = 0.07  # of the width, for the scale's labels


def curves(settings: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Groups a policy's settings into curves.

    Over Q: those with H = Q, and those of each H, at one delay. Over the delay: those of each H and Q.

    Args:
      settings: summaries with `policy`, `horizon`, `query_interval`, `base`, `dynamic` and `delta_pp`, as `summarise`
        and `compare` make them, and `delay` (0 if there is none); those that lack a name, H or Q are in no curve.

    Returns:
      One each: `policy`, `protocol` (what is held, "H = Q" or "H = 16, delay 2"), `over` ("query_interval" or "delay"),
        and
      `points`, two or more settings by rising x, each with `horizon`, `query_interval`, `delay`, `pairs`, `base` and
      `dynamic` (`successes`, `rate`, `wilson95`) and `delta_pp`. A setting that is there twice makes no curve.
    """
    fields = ("horizon", "query_interval", "pairs", "base", "dynamic", "delta_pp")
    known = [
        {field: s[field] for field in ("policy", *fields)} | {"delay": s.get("delay", 0)}
        for s in settings
        if None not in (s["policy"], s["horizon"], s["query_interval"])
    ]
    out = []
    for policy in dict.fromkeys(s["policy"] for s in known):
        own = [s for s in known if s["policy"] == policy]
        delays = sorted({s["delay"] for s in own})
        groups = []
        for delay in delays:
            at = f", delay {delay}" if delays != [0] else ""
            same = [s for s in own if s["delay"] == delay]
            groups.append(("query_interval", f"H = Q{at}", [s for s in same if s["horizon"] == s["query_interval"]]))
            for h in sorted({s["horizon"] for s in same}):
                groups.append(("query_interval", f"H = {h}{at}", [s for s in same if s["horizon"] == h]))
        for h, q in sorted({(s["horizon"], s["query_interval"]) for s in own}):
            same = [s for s in own if (s["horizon"], s["query_interval"]) == (h, q)]
            groups.append(("delay", f"H = {h}, Q = {q}", same))
        for over, protocol, group in groups:
            by_x = {s[over]: s for s in group}
            if len(by_x) == len(group) > 1:
                points = [{k: v for k, v in by_x[x_].items() if k != "policy"} for x_ in sorted(by_x)]
                out.append({"policy": policy, "protocol": protocol, "over": over, "points": points})
    return out


def plot(curve: Mapping[str, Any], name: str) -> str:
    """Success of Base and Dynamic, with Wilson intervals, and the gap between them, over Q or the delay, evenly spaced."""
    found = curve["points"]
    places = [_LEFT + (1 - _LEFT) * (i + 0.5) / len(found) for i in range(len(found))]
    marks = [
        f'<line class="grid" x1="{x(_LEFT)}" x2="{x(1)}" y1="{_y(tick)}" y2="{_y(tick)}"/>'
        f'<text class="scale" x="{x(0)}" y="{_y(tick) + 4}">{100 * tick:.0f}%</text>'
        for tick in (0.0, 0.25, 0.5, 0.75, 1.0)
    ]
    for series in ("gap", "base", "dynamic"):
        rates = [_rate(p, series) for p in found]
        for i, (place, rate) in enumerate(zip(places, rates, strict=True)):
            if rate is None:
                continue
            before = rates[i - 1] if i else None
            if before is not None:
                marks.append(
                    f'<g class="{series}"><line class="shaft" x1="{x(places[i - 1])}" y1="{_y(before)}"'
                    f' x2="{x(place)}" y2="{_y(rate)}"/></g>'
                )
            marks.append(_point(series, found[i], rate, place))
    marks += [
        f'<text class="tick" x="{x(place)}" y="{_y(0) + 18}">{_X[curve["over"]]} = {p[curve["over"]]}</text>'
        for place, p in zip(places, found, strict=True)
    ]
    return svg.frame(
        name,
        f"Success over {_X[curve['over']]}: {curve['policy']}, {curve['protocol']}",
        "Lines join the success rates of Base and of Dynamic, and the gap between them.",
        int(_y(0)) + svg.AXIS,
        marks,
    )


def _rate(point: Mapping[str, Any], series: str) -> float | None:
    """In [0, 1]; a gap below zero, where the event helped, lies below the axis' zero line."""
    if series == "gap":
        return None if point["delta_pp"] is None else -point["delta_pp"] / 100
    rate: float | None = point[series]["rate"]
    return rate


def _point(series: str, point: Mapping[str, Any], rate: float, place: float) -> str:
    where = f"H = {point['horizon']}, Q = {point['query_interval']}, delay {point['delay']}"
    if series == "gap":
        says, whisker = f"{where}: gap {points(100 * rate)} points", ""
    else:
        low, high = point[series]["wilson95"]
        says = f"{where}, {series}: {percent(rate)}, 95% interval {percent(low)} to {percent(high)}"
        whisker = f'<line class="interval" x1="{x(place)}" x2="{x(place)}" y1="{_y(low)}" y2="{_y(high)}"/>'
    return (
        f'<g class="{series}"><title>{escape(says)}</title>{whisker}'
        f'<circle class="mark" cx="{x(place)}" cy="{_y(rate)}" r="5"/></g>'
    )


def _y(rate: float) -> float:
    return round(TOP + _HEIGHT * (1 - rate), 1)
