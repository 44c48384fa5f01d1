"""What LIBERO's own cameras show, for tests to compare with.

`seen` runs, once a task and session, `python -m tests.libero_picture_oracle OUT SEED FILE.bddl INIT`, which fills the file
OUT from one environment with offscreen rendering, as benchmark runners make it.
"""

from __future__ import annotations

import functools
import sys
import tempfile
import warnings
from pathlib import Path

import numpy as np
import pytest

from evals.libero import package
from mjx_bench.errors import BenchError
from mjx_bench.observe import gl_platform
from tests.libero_oracle import run_python
from tests.scenes import SEED, libero_task

CAMERAS = ("agentview", "robot0_eye_in_hand")
SIZE = 256
STEPS = 3
ACTION = (0.6, -0.4, -0.5, 0.1, 0.2, -0.3, 1.0)


@functools.cache
def seen(suite: str, index: int) -> dict[str, np.ndarray]:
    """Observations and the state that each belongs to, as `moment.name`; pictures as LIBERO returns them.

    Moments: `init`, after restoring initial state 0; `step`, what the last of `STEPS` control steps under `ACTION` returned,
    with the joint positions before each of its physics steps in `step.trail`; `forced`, an update that was forced right
    after it; `turned`, after restoring the initial state with every joint of a fixture at two fifths of its range; `again`,
    after restoring it as it is once more.
    """
    libero_task(suite, index)  # skips where LIBERO is not installed
    try:
        platform = gl_platform.find().name
    except BenchError as error:
        pytest.skip(str(error))
    files = package.find(suite, index)
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "seen.npz"
        run_python("-m", "tests.libero_picture_oracle", out, SEED, files.bddl, files.init_states, MUJOCO_GL=platform)
        with np.load(out) as file:
            return dict(file)


def main(out: str, seed: str, bddl: str, init_states: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of robosuite's logging
        from libero.libero.envs.env_wrapper import OffScreenRenderEnv
    from robosuite.utils.transform_utils import quat2axisangle

    control = OffScreenRenderEnv(bddl_file_name=bddl, camera_heights=SIZE, camera_widths=SIZE)
    np.random.seed(int(seed))  # noqa: NPY002 - LIBERO draws fixture poses from the global generator
    control.env.reset()
    env, sim = control.env, control.sim
    model, data = sim.model._model, sim.data._data
    kept: dict[str, np.ndarray] = {}

    def keep(moment: str, obs: dict[str, np.ndarray]) -> None:
        for camera in CAMERAS:
            kept[f"{moment}.{camera}"] = obs[f"{camera}_image"]
        for name in ("eef_pos", "eef_quat", "gripper_qpos"):
            kept[f"{moment}.{name}"] = np.array(obs[f"robot0_{name}"])
        kept[f"{moment}.axis_angle"] = quat2axisangle(np.array(obs["robot0_eef_quat"]))
        kept[f"{moment}.qpos"] = data.qpos.copy()
        kept[f"{moment}.body_pos"], kept[f"{moment}.body_quat"] = model.body_pos.copy(), model.body_quat.copy()

    with np.load(init_states) as file:
        state = file["states"][0]
    keep("init", control.set_init_state(state))
    trail = []
    step = sim.step

    def noted(*args: object, **kwargs: object) -> None:
        trail.append(data.qpos.copy())
        step(*args, **kwargs)

    sim.step = noted
    for _ in range(STEPS):
        trail.clear()
        obs = control.step(np.array(ACTION))[0]
    keep("step", obs)
    kept["step.trail"] = np.array(trail)
    sim.forward()
    keep("forced", env._get_observations(force_update=True))

    turned = state.copy()
    for fixture in env.fixtures_dict.values():
        for joint in fixture.joints:
            low, high = model.joint(joint).range
            turned[1 + model.joint(joint).qposadr[0]] = low + 0.4 * (high - low)
    keep("turned", control.set_init_state(turned))
    keep("again", control.set_init_state(state))
    np.savez(out, **kept)
    control.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
