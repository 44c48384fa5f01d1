"""Varied tasks as cases name them: LIBERO-PRO's and LIBERO-Plus's, exact or regenerated, and what is not held here.

A varied case names a plain task by suite and index, and in `substrate_variant` the files of its variant. The installed
package holds four of LIBERO-PRO's ten categories, byte for byte at the release's revision. The other six, and LIBERO-Plus's
seven, are regenerated from their rules (`sources/`); their files need not exist, as the names say all.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from typing import Any

from evals.libero import package
from evals.libero.cache import Cache, digest
from evals.libero.package import TaskFiles
from evals.libero.sources import catalogue, extra
from evals.libero.sources.edits import Edit
from mjx_bench.errors import BenchError
from mjx_bench.manifest import Case

# The category's name in a manifest to the tail of its folders' names.
_TAILS = {category: tail for tail, category in package.PRO_CATEGORIES.items()}


def missing_source(case: Case) -> str | None:
    """Why a case cannot be run here, in one line; None when all that it is made from is there, or can be regenerated.

    It tells what is not held from what is wrong: a case that contradicts itself gives None, and an error when loaded.

    Raises:
      MissingExtra: when LIBERO is not installed.
    """
    variant, category = case.substrate_variant, case.substrate_category
    if variant is None:
        if category is None or category.startswith("LIBERO-PRO"):
            return None
        return f"needs LIBERO-Plus category {category}, whose files the installed package does not hold"
    if is_regenerated(variant):
        return None
    if variant["category"] not in _TAILS:
        # Numbered folders are how these categories are known.
        folder = variant["bddl_file"].split("/")[0]
        name = folder if folder[0].isdigit() else variant["category"]
        return f"needs LIBERO-PRO category {name}, whose files the installed package does not hold"
    files = package.root() / "init_files" / f"{variant['init_states_file']}.npz"
    if not files.is_file():
        return f"needs LIBERO-PRO file {variant['init_states_file']}, which the installed package does not hold"
    return None


def is_regenerated(variant: Mapping[str, Any] | None) -> bool:
    """Whether a `substrate_variant` is made from its rule, because its files are not public or not installed."""
    if variant is None:
        return False
    return variant["benchmark"] == catalogue.PLUS or variant["category"] in catalogue.PRO_FOLDERS


def find_variant(variant: Mapping[str, Any], suite: str, index: int, cache: Cache | None = None) -> TaskFiles:
    """The files of a varied task, before `edit_of` it; see `tasks.load_variant`."""
    if variant["benchmark"] == catalogue.PLUS:
        return _plus_files(variant, suite, index, cache or Cache.default())
    if variant["category"] in catalogue.PRO_FOLDERS:
        return _regenerated(variant, _check_pro(variant, suite, index))
    return _held_files(variant, suite, index)


def edit_of(variant: Mapping[str, Any], suite: str, index: int) -> Edit:
    """What is done to the task that is loaded from `find_variant`."""
    if variant["benchmark"] == catalogue.PLUS:
        return catalogue.plus_edit(variant["category"], _suffix(variant, package.find(suite, index)))
    if variant["category"] in catalogue.PRO_FOLDERS:
        return catalogue.pro_edit(variant["category"])
    return lambda task: task


def plus_variant(category: str, suite: str, index: int, name: str) -> dict[str, str]:
    """The `substrate_variant` of a variant of LIBERO-Plus: `name` is what its file has after the task's name.

    Raises:
      BenchError: a name that is none of the category.
    """
    catalogue.plus_edit(category, name)
    plain = package.find(suite, index)
    return {
        "benchmark": catalogue.PLUS,
        "category": category,
        "bddl_file": f"{suite}/{plain.name}_{name}.bddl",
        "init_reference_bddl_file": f"{suite}/{plain.name}.bddl",
        "init_states_file": f"{suite}/{plain.name}.pruned_init",
        "language": catalogue.wording_of(category, name, plain.instruction or ""),
        "source_revision": catalogue.REVISION,
    }


def pro_variant(category: str, suite: str, index: int, language: str) -> dict[str, str]:
    """The `substrate_variant` of LIBERO-PRO's variant of a task in one of its ten categories.

    Args:
      category: as manifests call it.
      suite, index: the plain task.
      language: the wording inside the variant's task file.
    """
    plain = package.find(suite, index)
    if category in catalogue.PRO_FOLDERS:
        return {
            "benchmark": catalogue.PRO,
            "category": category,
            "bddl_file": f"{catalogue.PRO_FOLDERS[category]}/bddl/{suite}/{plain.name}.bddl",
            "init_reference_bddl_file": f"{suite}_lan/{plain.name}.bddl",
            "init_states_file": f"{suite}/{plain.name}.pruned_init",
            "language": language,
            "source_revision": catalogue.REVISION,
        }
    folder = f"{suite}_{_TAILS[category]}"
    return {
        "benchmark": "LIBERO-PRO",
        "category": category,
        "bddl_file": f"{folder}/{plain.name}.bddl",
        "init_reference_bddl_file": f"{folder}/{plain.name}.bddl",
        "init_states_file": f"{folder}/{plain.name}.pruned_init",
        "language": language,
        "source_revision": PRO_REVISION,
    }


# Of LIBERO-PRO's data, in the release and in the package.
PRO_REVISION = "c86fc3b8293185a6f373677018ff3e37f8391602"


def _plus_files(variant: Mapping[str, Any], suite: str, index: int, cache: Cache) -> TaskFiles:
    plain = package.find(suite, index)
    name = _suffix(variant, plain)
    catalogue.plus_edit(variant["category"], name)  # refuses a name that is none
    expected = plus_variant(variant["category"], suite, index, name)
    for field in ("init_reference_bddl_file", "init_states_file", "source_revision"):
        if variant[field] != expected[field]:
            raise BenchError(f"substrate_variant.{field} = {variant[field]!r}: expected {expected[field]!r}")
    number = extra.number_of(name)
    return _regenerated(variant, plain if number is None else extra.files_with_extras(plain, number, cache))


def _suffix(variant: Mapping[str, Any], plain: TaskFiles) -> str:
    start, file = f"{plain.suite}/{plain.name}_", variant["bddl_file"]
    if not file.startswith(start):
        raise BenchError(f"substrate_variant.bddl_file = {file!r}: expected a variant of {start[:-1]!r}")
    return str(file.removeprefix(start).removesuffix(".bddl"))


def _check_pro(variant: Mapping[str, Any], suite: str, index: int) -> TaskFiles:
    """The plain files of a task that an extended category varies, whose states and scene it shares."""
    if suite not in package.SUITES[:4]:
        raise BenchError(f"LIBERO-PRO has no variants of {suite!r}; it varies {', '.join(package.SUITES[:4])}")
    expected = pro_variant(variant["category"], suite, index, variant["language"])
    for field in ("bddl_file", "init_reference_bddl_file", "init_states_file"):
        if variant[field] != expected[field]:
            raise BenchError(
                f"substrate_variant.{field} = {variant[field]!r}: for category {variant['category']!r} and task {index}"
                f" of {suite} expected {expected[field]!r}"
            )
    return package.find(suite, index)


def _regenerated(variant: Mapping[str, Any], files: TaskFiles) -> TaskFiles:
    identity = [catalogue.REVISION, files.version, variant["category"], variant["bddl_file"], variant["language"]]
    return dataclasses.replace(files, instruction=variant["language"], version=digest(json.dumps(identity).encode()))


def _held_files(variant: Mapping[str, Any], suite: str, index: int) -> TaskFiles:
    category = variant["category"]
    if category not in _TAILS:
        raise BenchError(
            f"substrate_variant.category = {category!r}: the installed package does not hold its files, and there is no rule"
            f" to regenerate it; known: {', '.join([*_TAILS, *catalogue.PRO_FOLDERS])}"
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
