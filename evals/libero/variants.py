"""LIBERO-PRO's varied tasks as cases name them, and which sources of cases are not held here.

A case of LIBERO-PRO names a plain task by suite and index, and in `substrate_variant` the files of its variant. The
installed package holds four of the ten categories of the LIBERO-MAX release, byte for byte at the release's revision.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from typing import Any

from evals.libero import package
from evals.libero.cache import digest
from evals.libero.package import TaskFiles
from mjx_bench.errors import BenchError
from mjx_bench.manifest import Case

# The category's name in a manifest to the tail of its folders' names.
_TAILS = {category: tail for tail, category in package.PRO_CATEGORIES.items()}


def missing_source(case: Case) -> str | None:
    """Why a case cannot be run here, in one line; None when all that it is made from is there.

    It tells what is not held from what is wrong: a case that contradicts itself gives None, and an error when loaded.

    Raises:
      MissingExtra: when LIBERO is not installed.
    """
    variant, category = case.substrate_variant, case.substrate_category
    if variant is None:
        if category is None or category.startswith("LIBERO-PRO"):
            return None
        return f"needs LIBERO-Plus category {category}, whose files the installed package does not hold"
    if variant["category"] not in _TAILS:
        # The extended categories live in numbered folders, by which they are asked for.
        folder = variant["bddl_file"].split("/")[0]
        name = folder if folder[0].isdigit() else variant["category"]
        return f"needs LIBERO-PRO category {name}, whose files the installed package does not hold"
    files = package.root() / "init_files" / f"{variant['init_states_file']}.npz"
    if not files.is_file():
        return f"needs LIBERO-PRO file {variant['init_states_file']}, which the installed package does not hold"
    return None


def find_variant(variant: Mapping[str, Any], suite: str, index: int) -> TaskFiles:
    """The files of a varied task; see `tasks.load_variant`."""
    category = variant["category"]
    if category not in _TAILS:
        raise BenchError(
            f"substrate_variant.category = {category!r}: the installed package does not hold its files;"
            f" it holds {', '.join(_TAILS)}"
        )
    varied = f"{suite}_{_TAILS[category]}"
    if varied not in package.PRO_SUITES:
        raise BenchError(f"LIBERO-PRO has no variants of {suite!r}; it varies {', '.join(package.SUITES[:4])}")
    files = package.find(varied, index)
    expected = f"{varied}/{files.name}.bddl"
    # The reference names the scene that the initial states were recorded in: another one than the task's own would need
    # its states to be carried over joint by joint.
    for field in ("bddl_file", "init_reference_bddl_file"):
        if variant[field] != expected:
            raise BenchError(
                f"substrate_variant.{field} = {variant[field]!r}: for category {category!r} and task {index} of {suite}"
                f" expected {expected!r}"
            )
    states = package.root() / "init_files" / f"{variant['init_states_file']}.npz"
    if not states.is_file():
        raise BenchError(
            f"substrate_variant.init_states_file = {variant['init_states_file']!r}: the installed package does not hold it"
        )
    return dataclasses.replace(
        files,
        suite=suite,
        init_states=states,
        instruction=variant["language"],
        version=digest(json.dumps([variant["language"], variant["init_states_file"]]).encode()),
    )
