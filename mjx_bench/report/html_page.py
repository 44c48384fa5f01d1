"""One HTML page of a run that stands alone: no script, no network, no other file; it opens from a disk or a mail."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from html import escape
from importlib import resources
from typing import Any

from mjx_bench.records import Run
from mjx_bench.report import html_evaluation, html_media, html_plots, table
from mjx_bench.report.html_plots import percent

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
        _notes(summary["notes"]),
        html_evaluation.plots(summary) if "tasks" in summary else _plots(summary),
        _gallery(run, shown),
        _numbers(summary),
        _void(summary),
        _settings(run),
    ]
    style = resources.files("mjx_bench.report").joinpath("page.css").read_text("utf-8")
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(title)}</title>\n<style>\n{style}</style>\n</head>\n<body>\n"
        f"<header><h1>{escape(title)}</h1>{_subtitle(run)}</header>\n<main>\n"
        + "\n".join(section for section in sections if section)
        + "\n</main>\n<footer><p>Made by mjx-bench from the records alone.</p></footer>\n</body>\n</html>\n"
    )


def _subtitle(run: Run | None) -> str:
    if run is None:
        return ""
    suites = sorted({record.suite for record in run.records})
    parts = [*suites, run.header.created[:10]]
    return f"<p>{escape(' · '.join(parts))}</p>"


def _headline(summary: Mapping[str, Any]) -> str:
    """The three numbers that matter, then the rest of them."""
    delta, interval = summary["delta_pp"], summary["delta_ci95"]
    tiles = [_tile(name.title(), name, summary) for name in ("base", "dynamic")]
    bounds = "" if interval is None else f"95% interval {_points(interval[0])} to {_points(interval[1])}"
    tiles.append(
        f'<div class="tile change"><dt>Change</dt><dd><b>{_points(delta)}</b> points<span>Dynamic minus Base</span>'
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


def _points(value: float | None) -> str:
    if value is None:
        return "–"
    return "0" if value == 0 else f"{value:+.1f}".replace("-", "−")


def _p_value(p: float) -> str:
    return "< 0.0001" if p < 0.0001 else f"{p:.4f}"


def _notes(notes: Iterable[str]) -> str:
    items = "".join(f"<li{' class=fault' * n.startswith('FAULT')}>{escape(n)}</li>" for n in notes)
    return f'<section><h2>To know</h2><ul class="notes">{items}</ul></section>' if items else ""


def _plots(summary: Mapping[str, Any]) -> str:
    if not summary["pairs"]:
        return "<section><h2>By event</h2><p>No pair has been scored, so there is nothing to plot.</p></section>"
    arms = '<span class="key base">Base</span> <span class="key dynamic">Dynamic</span>'
    outcomes = " ".join(
        f'<span class="key {short}">{escape(meaning)}</span>' for meaning, short in html_plots.OUTCOMES.values()
    )
    return (
        "<section><h2>By event</h2>"
        f"<figure><figcaption>Success rate with 95% Wilson intervals <span>{arms}</span></figcaption>"
        f"{html_plots.profile(summary)}</figure>"
        f"<figure><figcaption>What became of the pairs <span>{outcomes}</span></figcaption>"
        f"{html_plots.partition(summary)}</figure></section>"
    )


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
    head = "".join(f'<th scope="col">{escape(name)}</th>' for name in table.columns(dict(summary)))
    *events, total = table.rows(dict(summary))
    body = "".join(_row(cells) for cells in events)
    return (
        f'<section><h2>{title}</h2><div class="wide" role="region" aria-label="{title}" tabindex="0">'
        f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody><tfoot>{_row(total)}</tfoot></table></div>"
        f"<p>{escape(table.legend(dict(summary)))}</p></section>"
    )


def _row(cells: Iterable[str]) -> str:
    first, *rest = cells
    return f'<tr><th scope="row">{escape(first)}</th>' + "".join(f"<td>{escape(c)}</td>" for c in rest) + "</tr>"


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
