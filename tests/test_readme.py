"""What the README shows is true: its policy keeps the contract, its links lead somewhere."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np

from mjx_bench.policy import Policy

ROOT = Path(__file__).resolve().parents[1]
TEXT = (ROOT / "README.md").read_text()


def test_the_example_policy_keeps_the_contract():
    [source] = re.findall(r"```python\n(.*?)```", TEXT, re.S)
    namespace: dict = {}
    exec(compile(source, "README.md", "exec"), namespace)  # our own file's example
    policy = namespace["Lift"]()
    assert isinstance(policy, Policy)
    carry = policy.init(None, 0)

    class Obs:
        eef_pos = np.zeros((2, 3))

    actions, after = policy.act([carry, carry], Obs(), np.zeros(2, np.uint64))
    assert actions.shape == (2, 16, 7)
    assert np.abs(actions).max() <= 1
    assert after == [1, 1]
    assert len(source.strip().splitlines()) <= 25


def test_every_link_leads_to_a_file():
    """In the README and in every page of `docs/`: to files, and to headings in them."""
    broken, seen = [], 0
    for page in (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))):
        for link in re.findall(r"\]\(([^)]+)\)", page.read_text()):
            name, _, heading = link.partition("#")
            target = page.parent / name if name else page
            if "://" not in link and (not target.is_file() or (heading and heading not in headings(target))):
                broken.append(f"{page.name}: {link}")
            seen += 1
    assert seen > 30
    assert broken == []


def headings(page: Path) -> set[str]:
    """Of a page of Markdown, as they stand behind the # of a link."""
    titles = re.findall(r"^#+ (.+)$", page.read_text(), re.M)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}
