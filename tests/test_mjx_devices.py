"""Tiles of lanes over all devices of a host: the same bits as on one device."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from mjx_bench.physics.compiled import Compiled
from mjx_bench.physics.mjx_program import Execute
from mjx_bench.physics.mjx_rows import judged_layout
from tests.arm_scene import arm_scene

ROOT = Path(__file__).resolve().parents[1]
TILE, INTERVAL, LANES = 4, 3, 29


class Toy:
    """An engine whose step is a few sums and sines, so that eight programs compile in seconds."""

    slots = 0
    faults: Mapping[str, int] = {}
    exclusive = False

    def __init__(self) -> None:
        self.scene = arm_scene(sensors=False)[0]

    def grown(self) -> None:
        return None

    def step(self, moving: dict[str, jax.Array], given: dict[str, jax.Array], law: Any) -> tuple[Any, Any]:
        mass = given["body_pos"].sum(axis=1)
        qvel = jnp.sin(moving["qvel"] * 1.7 + mass.sum()) + moving["ctrl"].mean()
        qpos = moving["qpos"].at[: len(qvel)].add(0.01 * qvel)
        judged = {name: jnp.zeros(shape) for name, shape in judged_layout(self.scene.index).shapes.items()}
        return moving | {"qpos": qpos, "qvel": qvel}, judged | {"fault": jnp.zeros((), jnp.int32)}


def digest() -> tuple[int, str]:
    """How many devices had tiles, and what came out of `LANES` lanes."""
    execute = Execute(Toy(), "osc_pose", 5, INTERVAL, ("body_pos", "body_quat"), None, TILE)  # type: ignore[arg-type]
    physics = Compiled(arm_scene(sensors=False)[0], execute, LANES, None)
    rng = np.random.default_rng(0)
    physics._rows[:] = rng.normal(size=physics._rows.shape)
    physics._given[:] = rng.normal(size=physics._given.shape)
    ids = np.arange(LANES, dtype=np.int32)
    actions = rng.normal(size=(LANES, 2 * INTERVAL, 7))
    for start in (0, INTERVAL):
        physics.announce(ids, actions[:, start : start + INTERVAL], np.full(LANES, INTERVAL))
        for step in range(INTERVAL):
            assert physics.control_step(ids, actions[:, start + step]) == {}
    return len(execute._programs), hashlib.sha256(physics._rows[:LANES].tobytes()).hexdigest()


def on_eight_devices(code: str, *arguments: str, seconds: float) -> str:
    """What Python code prints on a host that pretends to be eight devices."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "XLA_FLAGS": "--xla_force_host_platform_device_count=8"}
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments], cwd=ROOT, env=environment, capture_output=True, text=True,
        timeout=seconds,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_lanes_spread_over_eight_devices_have_the_bits_of_one_device():
    used, wanted = digest()
    assert used == len(jax.local_devices()) == 1
    code = "from mjx_bench import runtime; runtime.configure(); from tests.test_mjx_devices import digest; print(*digest())"
    assert on_eight_devices(code, seconds=300).split() == ["8", wanted]


RECORDS = """
import sys
from pathlib import Path
from mjx_bench import runtime
runtime.configure()
from tests.test_mjx_pairs import results, run
print(repr(sorted(results(run(Path(sys.argv[1]), lanes=24)).items())))
"""


@pytest.mark.slow
def test_records_on_eight_devices_equal_those_of_one(tmp_path: Path):
    """Real physics: ten arms are two tiles, each on a device of its own."""
    from tests.test_mjx_pairs import results, run

    wanted = repr(sorted(results(run(tmp_path / "one")).items()))
    assert on_eight_devices(RECORDS, str(tmp_path / "eight"), seconds=900).strip() == wanted
