"""One HTML page of a run that stands alone: no script, no network, no other file; it opens from a disk or a mail."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from importlib import resources
from typing import Any

from mjx_bench.records import Run
from mjx_bench.report import html_evaluation, html_media, html_plots, table
from mjx_bench.report.grid import Grid
from mjx_bench.report.html_plots import ARM_KEYS, OUTCOME_KEYS, event_name, figure, keys, percent, points

# Nothing is loaded from anywhere, and nothing in the page can run.
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; media-src data:"

_SHOWN_VOID = 40  # rows of reasons; the rest is in report.json


def render(summary: Mapping[str, Any], run: Run | None = None, shown: html_media.Gallery | None = None) -> str:
    """The page.

    Args:
      summary: what `summarise` or `summarise_outcomes` returned.
      run: the results folder; None for results that come from elsewhere, which have no settings and no pictures.
      shown: its pictures, where they have been collected already.
    """
    title = table.title(dict(summary))
    sections = [
        html_evaluation.headline(summary) if "tasks" in summary else _headline(summary),
        notes_section(summary["notes"]),
        html_evaluation.plots(summary) if "tasks" in summary else _plots(summary),
        _gallery(run, shown),
        _numbers(summary),
        _void(summary),
        _settings(run),
    ]
    return document(title, _subtitle(run), sections)


def document(title: str, subtitle: str, sections: Iterable[str]) -> str:
    """A page of sections in HTML below a title and a subtitle in plain text."""
    style = resources.files("mjx_bench.report").joinpath("page.css").read_text("utf-8")
    below = f"<p>{escape(subtitle)}</p>" if subtitle else ""
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(title)}</title>\n<style>\n{style}</style>\n</head>\n<body>\n{html_plots.STRIPES}"
        f"<header><h1>{escape(title)}</h1>{below}</header>\n<main>\n"
        + "\n".join(section for section in sections if section)
        + "\n</main>\n<footer><p>Made by mjx-bench from the records alone.</p></footer>\n</body>\n</html>\n"
    )


def _subtitle(run: Run | None) -> str:
    if run is None:
        return ""
    suites = sorted({record.suite for record in run.records})
    return " · ".join([*suites, run.header.created[:10]])


def _headline(summary: Mapping[str, Any]) -> str:
    """The three numbers that matter, then the rest of them."""
    delta, interval = summary["delta_pp"], summary["delta_ci95"]
    tiles = [_tile(name.title(), name, summary) for name in ("base", "dynamic")]
    bounds = "" if interval is None else f"95% interval {points(interval[0])} to {points(interval[1])}"
    tiles.append(
        f'<div class="tile change"><dt>Change</dt><dd><b>{points(delta)}</b> points<span>Dynamic minus Base</span>'
        f"<span>{bounds}</span></dd></div>"
    )
    p, stale = summary["mcnemar_p"], summary["mean_stale_actions"]
    rows = [
        ("Retained performance", percent(summary["retained_performance"]), "Dynamic successes over Base successes"),
        (
            "Broken by the event",
            percent(summary["conditional_regression"]),
            "share of Base successes that Dynamic lost",
        ),
        ("McNemar's exact p", "–" if p is None else _p_value(p), "of pairs with different outcomes, two-sided"),
        ("Trigger coverage", percent(summary["trigger_coverage"]), "pairs in which the event fired"),
        ("Response coverage", percent(summary["response_coverage"]), "pairs in which the policy was asked after it"),
        (
            "Common response coverage",
            percent(summary["common_response_coverage"]),
            "the same, at a step where both arms were asked",
        ),
        ("Stale actions", "–" if stale is None else f"{stale:.1f}", "executed after the event, chosen before it; mean"),
        ("Pairs", f"{summary['pairs']}", f"scored, of {summary['cases']} cases; {summary['void']} void"),
    ]
    progress = summary["mean_progress"]
    if progress["pairs"]:
        means = " and ".join(f"{progress[arm]:.2f}" for arm in ("base", "dynamic"))
        rows.append(
            ("Progress", means, f"Base and Dynamic at the end, mean of {progress['pairs']} pairs that measure it")
        )
    if summary["success_end"]["base"] is not None and summary["success_end"] != summary["success_any"]:
        ends = " and ".join(percent(summary["success_end"][arm]) for arm in ("base", "dynamic"))
        rows.insert(
            0, ("Success at the last step", ends, "Base and Dynamic; everything else counts success at any step")
        )
    return f'<section><h2>Result</h2><dl class="tiles">{"".join(tiles)}</dl>{html_plots.facts(rows)}</section>'


def _tile(title: str, arm: str, summary: Mapping[str, Any]) -> str:
    group = summary[arm]
    bounds = group["wilson95"]
    interval = "" if bounds is None else f"95% interval {percent(bounds[0])} to {percent(bounds[1])}"
    return (
        f'<div class="tile {arm}"><dt>{title}</dt><dd><b>{percent(group["rate"])}</b> success'
        f"<span>{group['successes']} of {summary['pairs']} pairs</span><span>{interval}</span></dd></div>"
    )


def _p_value(p: float) -> str:
    return "< 0.0001" if p < 0.0001 else f"{p:.4f}"


def notes_section(notes: Iterable[str]) -> str:
    """What to know, faults in red; nothing without notes."""
    items = "".join(f"<li{' class=fault' * n.startswith('FAULT')}>{escape(n)}</li>" for n in notes)
    return f'<section><h2>To know</h2><ul class="notes">{items}</ul></section>' if items else ""


def _plots(summary: Mapping[str, Any]) -> str:
    if not summary["pairs"]:
        return "<section><h2>By event</h2><p>No pair has been scored, so there is nothing to plot.</p></section>"
    rows = html_plots.event_rows(summary)
    return (
        "<section><h2>By event</h2>"
        + figure("Success rate with 95% Wilson intervals", html_plots.profile(rows), ARM_KEYS)
        + figure("From Base to Dynamic", html_plots.arrows(rows), keys(base="Base", regression="loss", recovery="gain"))
        + figure("What became of the pairs", html_plots.partition(rows), OUTCOME_KEYS)
        + figure("Coverage", html_plots.coverage(rows), html_plots.COVERAGE_KEYS)
        + (figure(STALE, html_plots.stale_histogram([("all", summary)])) if summary["stale_actions"] else "")
        + "</section>"
        + _groups(summary)
    )


STALE = "Stale actions: pairs by the number of actions executed after the event that were chosen before it"


def _groups(summary: Mapping[str, Any]) -> str:
    """By suite, category and so on, where there are several; and which event hurts in which of them."""
    shown = {field: groups for field, groups in summary["breakdowns"].items() if len(groups) > 1}
    if not shown:
        return ""
    events = list(summary["events"])
    rows = [("all", [*(summary["events"][e]["delta_pp"] for e in events), summary["delta_pp"]])]
    for field, groups in shown.items():
        for name, group in groups.items():
            cells = summary["profiles"][field][name]
            rows.append((group_name(field, name), [*(cells[e]["delta_pp"] for e in events), group["delta_pp"]]))
    figures = [
        figure(
            f"Success rate by {field}",
            html_plots.bars([(group_name(field, n), g) for n, g in groups.items()], f"by-{field}"),
            ARM_KEYS,
        )
        for field, groups in shown.items()
    ]
    heat = html_plots.heat_map("Event profile by group", [*map(event_name, events), "all"], rows)
    return (
        "<section><h2>By group</h2>"
        + figure("Event profile: Dynamic minus Base, percentage points", heat)
        + "".join(figures)
        + "</section>"
    )


def group_name(field: str, name: str) -> str:
    """A group of a breakdown as people read it."""
    if field == "category":
        return event_name(name.replace("LIBERO-PRO/", "PRO "))
    return f"{field} {name}" if field in ("draw", "difficulty", "severity") else event_name(name)


def _gallery(run: Run | None, shown: html_media.Gallery | None) -> str:
    if run is None:
        return ""
    shown, title = shown or html_media.gallery(run), "Pairs" if len(run.arms) > 1 else "Episodes"
    if not shown.figures and not shown.left_out and not shown.damaged:
        return (
            f"<section><h2>{title}</h2><p>There are no pictures of this run yet. "
            f"<code>mjx-bench film DIR --video 2</code> makes films of two {title.lower()}, then report again.</p></section>"
        )
    notes = [html_media.left_out_note(run, shown.left_out)] if shown.left_out else []
    notes += [html_media.damaged_note(shown.damaged)] if shown.damaged else []
    below = "".join(f"<p>{escape(note)}</p>" for note in notes)
    return f"<section><h2>{title}</h2>{''.join(shown.figures)}{below}</section>"


def _numbers(summary: Mapping[str, Any]) -> str:
    title = "Numbers by task" if "tasks" in summary else "Numbers by event"
    whole = dict(summary)
    cells = table.rows(whole)
    return (
        f"<section><h2>{title}</h2>{plain_table(title, table.columns(whole), cells, total=True)}"
        f"<p>{escape(table.legend(whole))}</p></section>"
    )


def table_section(title: str, grid: Grid, folded: bool = False) -> str:
    """A table below a heading, with its legend; closed until it is asked for where `folded`."""
    body = plain_table(title, grid.heads, grid.shown, grid.total, grid.left)
    if folded:
        body = f"<details><summary>{len(grid.rows)} rows</summary>{body}</details>"
    return f"<section><h2>{escape(title)}</h2>{body}<p>{escape(grid.legend)}</p></section>"


def plain_table(
    title: str, head: Sequence[str], rows: Sequence[Sequence[str]], total: bool = False, left: int = 1
) -> str:
    """A table that scrolls sideways by itself; the first `left` columns are names, the last row may be a total."""
    heads = "".join(f'<th scope="col"{_WORDS * (0 < i < left)}>{escape(name)}</th>' for i, name in enumerate(head))
    most, last = (rows[:-1], rows[-1:]) if total else (rows, rows[:0])
    body, foot = ("".join(_row(cells, left) for cells in part) for part in (most, last))
    foot = f"<tfoot>{foot}</tfoot>" if foot else ""
    return (
        f'<div class="wide" role="region" aria-label="{escape(title)}" tabindex="0">'
        f"<table><thead><tr>{heads}</tr></thead><tbody>{body}</tbody>{foot}</table></div>"
    )


_WORDS = ' class="words"'


def _row(cells: Sequence[str], left: int) -> str:
    first, *rest = cells
    more = "".join(f"<td{_WORDS * (i < left)}>{escape(cell)}</td>" for i, cell in enumerate(rest, 1))
    return f'<tr><th scope="row">{escape(first)}</th>{more}</tr>'


def _void(summary: Mapping[str, Any]) -> str:
    """Arms without an outcome, by reason."""
    arms: dict[tuple[str, str], list[str]] = {}
    for void in summary["void_arms"]:
        arms.setdefault((void["arm"], void["reason"]), []).append(void["case_id"])
    missing = summary["incomplete"]
    if not arms and not missing:
        return "<section><h2>Void and missing</h2><p>None: every arm has an outcome.</p></section>"
    most = sorted(arms.items(), key=lambda item: -len(item[1]))
    body = "".join(
        f'<tr><td>{len(cases)}</td><th scope="row">{escape(arm)}</th><td>{escape(reason)}</td>'
        f'<td class="id">{escape(cases[0])}</td></tr>'
        for (arm, reason), cases in most[:_SHOWN_VOID]
    )
    found = (
        '<div class="wide" role="region" aria-label="Void arms" tabindex="0"><table class="void"><thead><tr>'
        '<th scope="col">arms</th><th scope="col">arm</th><th scope="col">reason</th><th scope="col">first case</th>'
        f"</tr></thead><tbody>{body}</tbody></table></div>"
        if arms
        else ""
    )
    if (rest := len(most) - _SHOWN_VOID) > 0:
        found += f"<p>{rest} more reasons are in report.json.</p>"
    if missing:
        many = f"{len(missing)} cases have" if len(missing) > 1 else "1 case has"
        found += f"<p>{many} an arm that is not recorded yet, {escape(missing[0])} first.</p>"
    return f"<section><h2>Void and missing</h2>{found}</section>"


def _settings(run: Run | None) -> str:
    if run is None:
        return ""
    h = run.header
    commit = "none" if h.git_commit is None else h.git_commit + (" and changes" if h.git_dirty else "")
    rows = {
        **{name: value for name, value in h.settings.items() if name != "left_out"},
        "mjx-bench": h.mjx_bench_version,
        "commit": commit,
        **h.packages,
        "device": h.device,
        "created": h.created,
        "continued": f"{len(h.resumed)} times" if h.resumed else "never",
        "cases": f"{len(run.case_ids)}, SHA-256 {h.manifest_sha256[:16]}…",
    }
    body = "".join(
        f'<tr><th scope="row">{escape(str(name).replace("_", " "))}</th><td>{escape(_value(value))}</td></tr>'
        for name, value in rows.items()
    )
    return f'<section><h2>Settings and versions</h2><table class="facts"><tbody>{body}</tbody></table></section>'


def _value(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if value is None:
        return "–"
    if isinstance(value, (list, tuple)):
        return ", ".join(map(str, value)) or "none"
    return str(value)
