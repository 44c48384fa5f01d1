"""What experts know of rotors: what a command makes of a thrust, which command makes a thrust, and what thrusts do.

The law is `mjx_bench.control.rotors`; thrusts and commands are [4], thrusts in newtons.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from mjx_bench.task import Robot

if TYPE_CHECKING:
    import mujoco

LAG = 0.43  # a control step


def after(thrusts: np.ndarray, actions: np.ndarray, most: float) -> np.ndarray:
    """Thrusts of the next control step, under `actions`; `most` is a rotor's largest."""
    throttle = np.sqrt(thrusts / most)
    wanted = np.sqrt(np.clip((actions + 1.0) / 2.0, 0.0, 1.0))
    return np.asarray(most * (throttle + LAG * (wanted - throttle)) ** 2)


def asking(thrusts: np.ndarray, wanted: np.ndarray, most: float) -> np.ndarray:
    """Actions that ask for so much that the lag leaves what is wanted, as far as rotors go."""
    throttle = np.sqrt(thrusts / most)
    asked = np.clip(throttle + (np.sqrt(wanted / most) - throttle) / LAG, 0.0, 1.0)
    return 2.0 * asked**2 - 1.0


def allocation(model: mujoco.MjModel, robot: Robot) -> tuple[np.ndarray, float]:
    """[4, 4] thrusts from total thrust and torques about the drone's axes; and a rotor's largest thrust."""
    rotors = [model.actuator(name) for name in robot.arm_actuators]
    sites = [int(rotor.trnid[0]) for rotor in rotors]
    # Columns: what a newton of each rotor does in thrust and about the drone's axes.
    effect = np.array(
        [[1.0, model.site_pos[s][1], -model.site_pos[s][0], r.gear[5]] for s, r in zip(sites, rotors, strict=True)]
    ).T
    return np.linalg.inv(effect), float(model.actuator_ctrlrange[rotors[0].id][1])
