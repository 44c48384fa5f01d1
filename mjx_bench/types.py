"""The vocabulary that every other module speaks: verdicts and arms.

Batch letters, fixed everywhere: `B` lanes, `Q` executed steps, `H` horizon, `A` action dim, `K` predicates, `E` entities,
`T` recorded steps, `C` cameras. Quaternions are wxyz and say so when another order crosses a border. Positions are world
metres unless the name carries a frame. Angles are radians.
"""

from __future__ import annotations

import enum


class Verdict(enum.StrEnum):
    """How one arm of one case ended.

    `VOID` is not an outcome: numerics or infrastructure failed, and the arm is counted beside the success rate, never in it.
    `TIMEOUT` is the ordinary failure of a task that is only ever judged by success: the horizon was reached without it.
    """

    SUCCESS = "success"
    FAILURE = "failure"
    VIOLATION = "violation"
    TIMEOUT = "timeout"
    ABSTAIN = "abstain"
    VOID = "void"


class Arm(enum.StrEnum):
    """`BASE` is the control arm, `DYNAMIC` the arm with the same executed prefix and one event."""

    BASE = "base"
    DYNAMIC = "dynamic"
