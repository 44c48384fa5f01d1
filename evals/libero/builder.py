"""The one process that imports LIBERO and robosuite: builds scenes into the cache on request.

`python -m evals.libero.builder` reads a JSON job a line on standard input and answers with a JSON line on standard output:

    {"bddl": path, "key": cache key, "cache": root, "name": ..., "versions": {...}, "seeds": [195, ...], "draw": false}
    {"error": null, "reset_errors": {"195": "..."}, "seconds": 2.1}

With "draw" it also draws initial states, for a task that comes without any; with "starts", seeds, it draws a whole start
for each (`training.py`).

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
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from evals.libero.bddl import JOINT_PREDICATES, Problem, parse_file
from evals.libero.cache import Cache, digest
from mjx_bench.errors import BenchError, unknown_name

# Bump whenever the builder's output, or a constant of an episode in `assemble.py`, changes: it is part of a task's version,
# and old cache entries are then never read again.
BUILDER_VERSION = "2"

# LIBERO's placement sampler gives up now and then; the benchmark tries this many seeds before it calls a task broken.
ATTEMPTS = 10

# Seeds of drawn initial states, one state each.
STATE_SEEDS = tuple(range(10))


def main() -> None:
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    without_log_file()
    for line in sys.stdin:
        answers.write(json.dumps(_answer(json.loads(line))) + "\n")
        answers.flush()


def without_log_file() -> None:
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
        error = explain(cause)
    return {"error": error, "reset_errors": reset_errors, "seconds": time.perf_counter() - started}


def _build(job: dict[str, Any]) -> dict[str, str]:
    """Puts the scene and the resets of a job into the cache; returns the resets that failed, by seed."""
    cache, key = Cache(Path(job["cache"])), job["key"]
    scene_missing = cache.read_scene(key) is None
    seeds = [int(seed) for seed in job["seeds"] if cache.read_reset(key, int(seed)) is None]
    states_missing = job.get("draw", False) and cache.read_states(key) is None
    starts = [int(seed) for seed in job.get("starts", ()) if cache.read_start(key, int(seed)) is None]
    errors: dict[str, str] = {}
    if not scene_missing and not seeds and not states_missing and not starts:
        return errors
    problem = parse_file(Path(job["bddl"]))
    _check_categories(problem)
    try:
        with environment(Path(job["bddl"])) as env:
            if scene_missing:
                _write_scene(env, job, cache)
            if states_missing:
                cache.write_states(key, {"seeds": list(STATE_SEEDS), "states": _draw_states(env, cache, key)})
            for seed in seeds:
                try:
                    cache.write_reset(key, seed, {"seed": seed, **reset(env, seed)})
                except Exception as cause:  # one unlucky seed must not cost the other seeds
                    errors[str(seed)] = explain(cause)
            if starts:
                at_home = _fixtures_at_home(env, cache, key)
                for seed in starts:
                    state = _draw(env, seed, at_home)
                    cache.write_start(key, seed, {"seed": seed, "state": state, **_held(env)})
    except Exception:
        _check_models(problem)
        raise
    return errors


def _check_categories(problem: Problem) -> None:
    """Raises `BenchError` with the nearest names for a category that LIBERO lacks; LIBERO would raise KeyError."""
    from libero.libero.envs.objects import get_object_dict

    for name, category in {**problem.fixtures, **problem.objects}.items():
        if name != problem.workspace and category not in get_object_dict():
            raise BenchError(f"{name}: {unknown_name('category', category, get_object_dict())}")


def _check_models(problem: Problem) -> None:
    """Raises `BenchError` for a region or a joint setting that its model does not have, naming those that it has.

    LIBERO raises something unspecific then. Asked after a failure only, as it loads the models once more.
    """
    from libero.libero.envs.objects import get_object_fn

    categories = {**problem.fixtures, **problem.objects}
    models = {name: get_object_fn(kind)(name=name) for name, kind in categories.items() if name != problem.workspace}
    for atom in (*problem.init, *problem.goal):
        for name in atom.args:
            if name in problem.regions and (owner := problem.regions[name].target) in models:
                sites = [site.get("name") for site in models[owner].worldbody.iter("site")]
                if name not in sites:
                    raise unknown_name(f"region of {owner},", name, sites)
    for atom in problem.init:
        if atom.predicate in JOINT_PREDICATES:
            owner = problem.regions[atom.args[0]].target if atom.args[0] in problem.regions else atom.args[0]
            settings = models[owner].object_properties.get("articulation", {}) if owner in models else {}
            able = [name for name in JOINT_PREDICATES if len(settings.get(f"default_{name}_ranges", ()))]
            if atom.predicate not in able:
                raise BenchError(f"initial state {atom}: {owner} can be set to {', '.join(able) or 'nothing'}")


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
def environment(bddl: Path) -> Iterator[Any]:
    """LIBERO's own environment of a task, without a renderer, as its inner domain. Closed and collected on exit.

    Raises:
      RandomizationError: robosuite's; no free place for every object in `ATTEMPTS` tries.
    """
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


def reset(env: Any, seed: int) -> dict[str, Any]:
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


def _draw_states(env: Any, cache: Cache, key: str) -> list[list[float]]:
    """A state for each of `STATE_SEEDS`: time, qpos, qvel right after LIBERO's reset, as its stored ones were made."""
    at_home = _fixtures_at_home(env, cache, key)
    return [_draw(env, seed, at_home) for seed in STATE_SEEDS]


def _held(env: Any) -> dict[str, Any]:
    from evals.libero.export import reset_state

    return reset_state(env)


def _fixtures_at_home(env: Any, cache: Cache, key: str) -> Callable[[], None]:
    """What puts every fixture where the scene's file has it."""
    import mujoco

    from evals.libero.mjcf import untextured_spec

    scene = cache.read_scene(key)
    assert scene is not None
    fresh = untextured_spec(cache.read_xml(key, scene["xml_sha256"]), cache.blobs).compile()
    live = env.sim.model._model
    fixtures = [mujoco.mj_name2id(live, mujoco.mjtObj.mjOBJ_BODY, obj.root_body) for obj in env.fixtures_dict.values()]

    def at_home() -> None:
        # LIBERO adds a fixture's drawn place to where its regions are now. That is right in a model just loaded, which it
        # loads at every reset, and puts objects metres away in one whose fixtures were moved by the reset before.
        live.body_pos[fixtures] = fresh.body_pos[fixtures]
        live.body_quat[fixtures] = fresh.body_quat[fixtures]

    return at_home


def _draw(env: Any, seed: int, at_home: Callable[[], None]) -> list[float]:
    import numpy as np
    from robosuite.utils.errors import RandomizationError

    np.random.seed(seed)  # noqa: NPY002 - LIBERO draws from the global generator
    for attempt in range(ATTEMPTS):
        at_home()
        try:
            # A failed try moves the generator on. Another seed here would draw the state of that seed a second time.
            env.reset()
            return [float(value) for value in env.sim.get_state().flatten()]
        except RandomizationError:
            if attempt + 1 == ATTEMPTS:
                raise
    raise AssertionError("unreachable")


def explain(cause: BaseException) -> str:
    """One line of what went wrong, for an answer."""
    text = " ".join(str(cause).split())
    if isinstance(cause, BenchError):
        return text
    if type(cause).__name__ == "RandomizationError":  # robosuite's, which this process may not have imported
        return f"no free place for every object after {ATTEMPTS} tries; widen the regions, or place fewer objects"
    return f"{type(cause).__name__}: {text}" if text else type(cause).__name__


if __name__ == "__main__":
    main()
