"""What spoils a picture after it was rendered: the exposure that follows a change of light, and the faults of cameras.

Both are in the lane's visual edits and hold until the episode ends. The frame counter of a fault starts at 0 in the picture
of its own event and advances once a control step, whether anybody looks or not; so a picture depends on its pose alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from kernels import corruption
from mjx_bench.errors import BenchError
from mjx_bench.observe.looks import brightness_of
from mjx_bench.physics.base import Pose


def spoil(images: Mapping[str, np.ndarray], poses: Sequence[Pose], stream: tuple[str, ...]) -> dict[str, np.ndarray]:
    """Applies to each lane's pictures what its visual edits say of light and cameras.

    Args:
      images: camera to uint8 [n, H, W, 3], upright, all of one size. They are not changed.
      poses: of the n lanes.
      stream: cameras of the environment in the order in which it observes them, which is the order in which their noise is
        drawn. The draws of those that are not in `images` are taken too; what `images` has besides draws after them.

    Returns:
      Camera to uint8 [n, H, W, 3]. Lanes without a fault keep their bits; where no lane has one, the arrays are `images`'
      own.

    Raises:
      BenchError: a fault whose seed leaves 32 bits.
    """
    faults = {lane: fault for lane, pose in enumerate(poses) if (fault := fault_of(pose)) is not None}
    if not faults:
        return dict(images)
    lanes = list(faults)
    cameras = [*stream, *(name for name in images if name not in stream)]
    # The official faults are drawn into pictures as OpenGL returns them, the lowest row first.
    rows = [np.flip(images[name][lanes], axis=1) if name in images else None for name in cameras]
    out = {name: array.copy() for name, array in images.items()}
    for name, spoiled in zip(cameras, corruption.spoil(rows, list(faults.values())), strict=True):
        if spoiled is not None:
            out[name][lanes] = np.flip(spoiled, axis=1)
    return out


def fault_of(pose: Pose) -> corruption.Fault | None:
    """What is wrong with the cameras in this picture; None if nothing is.

    Raises:
      BenchError: a seed that leaves 32 bits.
    """
    brightness = brightness_of(pose.visual)
    edit = next((e for e in reversed(pose.visual) if e.operation == "set_sensor_corruption"), None)
    if edit is None:
        return None if brightness is None else corruption.Fault(brightness=brightness)
    frame = pose.steps - edit.step
    seed = edit.fields["seed"] + frame
    if seed >= 2**32:
        raise BenchError(
            f"set_sensor_corruption with seed {edit.fields['seed']} reaches {seed} in frame {frame}; "
            f"its seeds, one a control step, must stay below {2**32}: choose a smaller one"
        )
    return corruption.Fault(
        seed=seed,
        noise_std=edit.fields["noise_std"],
        occlusion_fraction=edit.fields["occlusion_fraction"],
        brightness=1.0 if brightness is None else brightness,
    )
