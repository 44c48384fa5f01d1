"""Whether a robot starts clear of a piece of furniture and of the things on it."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

import numpy as np

from evals.robot_agent_bench.furniture import BY_NAME
from evals.robot_agent_bench.household import PALETTES, Home, initial_state, yaw_quat
from evals.robot_agent_bench.robot import add_robot
from evals.robot_agent_bench.things import add_thing

if TYPE_CHECKING:
    import mujoco


def is_clear(home: Home, piece: str) -> bool:
    """Whether nothing of the robot touches the piece or a thing at the start of an instance."""
    import mujoco

    model, data, robot = _scene(piece, tuple(placed.role for placed in home.things))
    x, y, yaw = home.plan.poses[piece]
    body = model.body(piece).id
    model.body_pos[body], model.body_quat[body] = (x, y, 0.0), yaw_quat(yaw)
    for placed in home.things:
        geom = model.geom(f"{placed.role}_body").id
        model.geom_size[geom] = placed.thing.half
        model.geom_rbound[geom] = np.linalg.norm(placed.thing.half)
    data.qpos[:] = initial_state(model, home)[1 : 1 + model.nq]
    mujoco.mj_kinematics(model, data)
    mujoco.mj_collision(model, data)
    touching = data.contact.geom[data.contact.dist <= 0.0]
    return not robot[touching].any()


@functools.cache
def _scene(piece: str, roles: tuple[str, ...]) -> tuple[mujoco.MjModel, mujoco.MjData, np.ndarray]:
    """The robot, the piece and the things alone; and bool [ngeom], whether a geom is the robot's."""
    import mujoco

    from evals.robot_agent_bench.catalogue import DRINKS

    spec = mujoco.MjSpec()
    spec.compiler.degree = False
    # The trees that midphase walks are built of the sizes that were compiled.
    spec.option.disableflags = int(mujoco.mjtDisableBit.mjDSBL_MIDPHASE)
    BY_NAME[piece].add(spec.worldbody, [0, 0, 0], [1, 0, 0, 0], PALETTES[0])
    add_robot(spec)
    for role in roles:
        add_thing(spec.worldbody, role, DRINKS[0].thing, [0, 0, 0])
    model = spec.compile()
    return model, mujoco.MjData(model), model.body_rootid[model.geom_bodyid] == model.body("base").id
