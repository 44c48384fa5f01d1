"""Which instances a policy was shown in training: kept beside its weights, so that it is not evaluated on them."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from mjx_bench.errors import BenchError
from mjx_bench.manifest import Case
from train import run_folder
from train.collect import split
from train.lerobot.schema import DEMONSTRATIONS

FILE = "demonstrations.json"  # in a checkpoint's folder: a list of what `DEMONSTRATIONS` says in each dataset

_WRAPPERS = ("libero_max:", "seeing:", "pi05:")  # around a folder, in the name of a policy


def of_datasets(folders: Iterable[Path]) -> list[dict[str, Any]]:
    """Where the episodes of these datasets come from; others' datasets do not say."""
    return [_read(path) for folder in folders if (path := folder / DEMONSTRATIONS).exists()]


def write(checkpoint: Path, shown: Sequence[dict[str, Any]]) -> None:
    """Puts it beside the weights."""
    (checkpoint / FILE).write_text(json.dumps(list(shown)) + "\n", encoding="utf-8")


def of_checkpoint(checkpoint: Path) -> list[dict[str, Any]]:
    """Of a checkpoint's folder: its own file, or that of the datasets that its run names, where they are still there."""
    if (path := checkpoint / FILE).exists():
        return list(_read(path))
    run = checkpoint.parent.parent
    if not (run / run_folder.SETTINGS).exists():
        return []
    return of_datasets(Path(name) for name in run_folder.read(run)["data"]["folders"])


def check(policy: str, cases: Iterable[Case]) -> None:
    """Refuses to evaluate a trained policy on what it was shown.

    Args:
      policy: its name; only that of a folder is looked into.
      cases: what it is to be evaluated on.

    Raises:
      BenchError: a case that is one for training, with the instances that are not.
    """
    name = policy
    for wrapper in _WRAPPERS:
        name = name.removeprefix(wrapper)
    if not Path(name).is_dir():
        return
    from policies.pi05 import checkpoint

    check_instances(of_checkpoint(checkpoint.newest(Path(name))), cases)


def check_instances(shown: Sequence[dict[str, Any]], cases: Iterable[Case]) -> None:
    """As `check`, of what was demonstrated.

    Raises:
      BenchError: a case that is one for training, with the instances that are not.
    """
    if not shown:
        return
    from evals import registry

    instances = defaultdict(list)
    for case in cases:
        instances[case.task_suite_name, case.task_index].append(case.init_state_index)
    suites = {row.get("suite") for row in shown}
    for (suite, index), found in instances.items():
        if suite not in suites:
            continue
        names = {row["index"]: row["name"] for row in registry.task_table(suite)}
        for row in shown if index in names else ():  # LIBERO-Plus counts its variants on from there
            split.check_held_out(row, suite, names[index], found)


def _read(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise BenchError(f"{path} cannot be read: {error}; it says what was demonstrated") from None
