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
    links = re.findall(r"\]\(([^)]+)\)", TEXT)
    assert links
    assert [link for link in links if not (ROOT / link).is_file()] == []
