"""Initial states of a task: rows of time, qpos, qvel, stored beside a task or drawn by LIBERO's own reset."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from evals.libero.cache import Cache
from mjx_bench.errors import BenchError


def read_states(path: Path, width: int) -> np.ndarray:
    """Reads a file of initial states.

    Args:
      path: an .npz file with an array `states`, or an .npy file.
      width: 1 + nq + nv of the task's scene.

    Returns:
      float64 [N, 1 + nq + nv]: time, qpos, qvel. qpos is the arm's 7 joints, the 2 fingers, every object in the task
      file's order (position, quaternion wxyz), then the fixtures' joints.

    Raises:
      BenchError: not such a file, states of another scene, or a number that is not finite.
    """
    try:
        with path.open("rb") as file:
            content = np.load(file, allow_pickle=False)
            states = content if isinstance(content, np.ndarray) else content["states"]
    except KeyError:
        raise BenchError(f"{path}: no array named 'states' in this file of initial states") from None
    except (OSError, ValueError, EOFError) as error:
        raise BenchError(f"{path}: cannot read a file of initial states ({' '.join(str(error).split())})") from error
    if states.ndim != 2 or states.dtype.kind != "f" or not len(states):
        raise BenchError(f"{path}: expected floats [N, {width}] of initial states, got {states.dtype} {states.shape}")
    if states.shape[1] != width:
        raise BenchError(
            f"{path}: initial states have {states.shape[1]} numbers, the scene needs {width} (time, qpos, qvel);"
            " they were made for another scene"
        )
    if not np.isfinite(states).all():
        row = int(np.flatnonzero(~np.isfinite(states).all(axis=1))[0])
        raise BenchError(f"{path}: initial state {row} holds a number that is not finite")
    return states.astype(np.float64)


def drawn_states(cache: Cache, key: str) -> np.ndarray:
    """The states that the builder drew for a scene, float64 [N, 1 + nq + nv]; see `read_states`."""
    data = cache.read_states(key)
    if data is None:
        raise BenchError(f"{cache.states_json(key)}: the drawn initial states vanished; load the task again")
    return np.array(data["states"], np.float64)
