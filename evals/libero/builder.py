"""The one process that imports LIBERO and robosuite: builds scenes into the cache on request.

`python -m evals.libero.builder` reads a JSON job a line on standard input and answers with a JSON line on standard output:

    {"bddl": path, "key": cache key, "cache": root, "name": ..., "versions": {...}, "seeds": [195, ...]}
    {"error": null, "reset_errors": {"195": "..."}, "seconds": 2.1}

What the cache already holds is not built again. LIBERO and robosuite print to standard output at will; file descriptor
1 is therefore pointed at standard error before they are imported, and the answers leave through a private copy of it.
"""

from __future__ import annotations

import contextlib
import gc
import importlib.util
import json
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from evals.libero.bddl import parse_file
from evals.libero.cache import Cache, digest

# Bump whenever the builder's output, or a constant of an episode in `tasks.py`, changes: it is part of a task's version,
# and old cache entries are then never read again.
BUILDER_VERSION = "1"

# LIBERO's placement sampler gives up now and then; the benchmark tries this many seeds before it calls a task broken.
ATTEMPTS = 10


def main() -> None:
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    _without_log_file()
    for line in sys.stdin:
        answers.write(json.dumps(_answer(json.loads(line))) + "\n")
        answers.flush()


def _without_log_file() -> None:
    """Keeps robosuite from opening its log file, which has one fixed name a machine: a second user could not open it."""
    package = importlib.util.find_spec("robosuite")
    folders = list(package.submodule_search_locations or ()) if package is not None else []
    if not folders:
        return  # LIBERO's own import error says what is missing
    spec = importlib.util.spec_from_file_location("robosuite.macros", Path(folders[0]) / "macros.py")
    assert spec is not None
    assert spec.loader is not None
    macros = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(macros)
    macros.FILE_LOGGING_LEVEL = None  # type: ignore[attr-defined] # a setting of the module's
    sys.modules["robosuite.macros"] = macros


def _answer(job: dict[str, Any]) -> dict[str, Any]:
    started = time.perf_counter()
    reset_errors: dict[str, str] = {}
    error = None
    try:
        reset_errors = _build(job)
    except Exception as cause:  # any failure of LIBERO is this job's, and must not cost the others
        error = _explain(cause)
    return {"error": error, "reset_errors": reset_errors, "seconds": time.perf_counter() - started}


def _build(job: dict[str, Any]) -> dict[str, str]:
    """Puts the scene and the resets of a job into the cache; returns the resets that failed, by seed."""
    cache, key = Cache(Path(job["cache"])), job["key"]
    scene_missing = cache.read_scene(key) is None
    seeds = [int(seed) for seed in job["seeds"] if cache.read_reset(key, int(seed)) is None]
    errors: dict[str, str] = {}
    if not scene_missing and not seeds:
        return errors
    with _environment(Path(job["bddl"])) as env:
        if scene_missing:
            _write_scene(env, job, cache)
        for seed in seeds:
            try:
                cache.write_reset(key, seed, {"seed": seed, **_reset(env, seed)})
            except Exception as cause:  # one unlucky seed must not cost the other seeds
                errors[str(seed)] = _explain(cause)
    return errors


def _write_scene(env: Any, job: dict[str, Any], cache: Cache) -> None:
    from evals.libero.export import check_export, describe
    from evals.libero.mjcf import externalise

    bddl = Path(job["bddl"])
    xml, blobs = externalise(env.model.get_xml(), cache.put_blob)
    check_export(env, xml, cache.blobs)
    scene = {
        "builder_version": BUILDER_VERSION,
        "versions": job["versions"],
        "name": job["name"],
        "bddl_sha256": digest(bddl.read_bytes()),
        "xml_sha256": digest(xml.encode()),
        **describe(env, parse_file(bddl)),
        "blobs": blobs,
    }
    cache.write_scene(job["key"], xml, scene)


@contextlib.contextmanager
def _environment(bddl: Path) -> Iterator[Any]:
    """LIBERO's own environment of a task, without a renderer, as its inner domain."""
    import numpy as np
    from libero.libero.envs.env_wrapper import ControlEnv
    from robosuite.utils.errors import RandomizationError

    control = None
    for attempt in range(ATTEMPTS):
        # Construction samples a placement too. It decides nothing that is kept, but it can fail.
        np.random.seed(attempt)  # noqa: NPY002 - LIBERO draws from the global generator
        try:
            control = ControlEnv(str(bddl), has_offscreen_renderer=False, use_camera_obs=False, hard_reset=False)
            break
        except RandomizationError:
            if attempt + 1 == ATTEMPTS:
                raise
    assert control is not None
    try:
        yield control.env
    finally:
        control.close()
        del control
        gc.collect()  # environments hold cycles, and each its textures: 250 MB


def _reset(env: Any, seed: int) -> dict[str, Any]:
    """Runs LIBERO's reset with NumPy's global generator freshly seeded, and reads what it leaves behind.

    The benchmark seeds the generator right before it resets, so construction and earlier resets have no influence. The
    wrapper's own `reset` is avoided: it swallows every exception and tries again for ever.
    """
    import numpy as np
    from robosuite.utils.errors import RandomizationError

    from evals.libero.export import reset_state

    for attempt in range(ATTEMPTS):
        np.random.seed(seed + attempt)  # noqa: NPY002 - LIBERO draws from the global generator
        try:
            env.reset()
            return {"attempts": attempt + 1, **reset_state(env)}
        except RandomizationError:
            if attempt + 1 == ATTEMPTS:
                raise
    raise AssertionError("unreachable")


def _explain(cause: BaseException) -> str:
    text = " ".join(str(cause).split())
    return f"{type(cause).__name__}: {text}" if text else type(cause).__name__


if __name__ == "__main__":
    main()
