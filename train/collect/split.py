"""Which instances may be demonstrated: never one that anybody is evaluated on."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from mjx_bench.errors import BenchError


def evaluation_instances(suite: str) -> range:
    """The instances of a task of this suite that are for evaluation."""
    return _split(suite)[0]


def training_instances(suite: str) -> range:
    """The instances of a task of this suite that are for training.

    Raises:
      BenchError: a suite whose instances are all for evaluation.
    """
    return _split(suite)[1]


def _split(suite: str) -> tuple[range, range]:
    from evals import instances as seeded
    from evals.libero import package
    from evals.libero import training as libero

    if suite in ("tabletop", "roboquest"):  # which count their instances alike
        return seeded.EVALUATION, seeded.TRAINING
    if suite in package.SUITES:
        return libero.EVALUATION, libero.TRAINING
    raise BenchError(
        f"every instance of {suite} is for evaluation, and none is left to demonstrate; suites with instances for"
        f" training: tabletop, roboquest, {', '.join(package.SUITES)}"
    )


def check_first(suite: str, first: int | None, count: int) -> int:
    """The first instance to demonstrate; the first for training if none is given.

    Raises:
      BenchError: some of `count` from it on are not for training.
    """
    allowed = training_instances(suite)
    first = allowed.start if first is None else first
    if first not in allowed or first + count > allowed.stop:
        raise BenchError(
            f"--first {first}: demonstrations of {suite} take instances {allowed.start} to {allowed.stop - 1};"
            f" {evaluation_instances(suite).start} to {evaluation_instances(suite).stop - 1} are for evaluation"
        )
    return first


def check_held_out(demonstrations: Mapping[str, Any], suite: str, task: str, instances: Iterable[int]) -> None:
    """Refuses to evaluate on what was demonstrated.

    Args:
      demonstrations: `meta/demonstrations.json` of the dataset that was trained on.
      suite, task: names.
      instances: those to be evaluated.

    Raises:
      BenchError: one of them was demonstrated, by its number or by the range that numbers were taken from.
    """
    if demonstrations.get("suite") != suite:
        return
    shown = {int(i) for row in demonstrations["tasks"] if row["name"] == task for i in row["instances"]}
    start, stop = demonstrations["training_instances"]
    for instance in instances:
        if instance in shown or start <= instance < stop:
            raise BenchError(
                f"{suite} {task} instance {instance} is one for training"
                f"{', and was demonstrated' * (instance in shown)}; evaluate on instances outside {start} to {stop - 1}"
            )
