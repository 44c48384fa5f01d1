"""Statistics as LeRobot keeps them beside `model.safetensors`: tensors of the step that normalises a policy's inputs."""

from __future__ import annotations

from pathlib import Path

from mjx_bench.errors import BenchError, MissingExtra
from policies.pi05.statistics import Statistics

_VECTORS = {"state": "observation.state", "actions": "action"}
_NAMES = ("mean", "std", "q01", "q99")


def read(folder: Path) -> Statistics | None:
    """The statistics in a folder, None if it has none.

    Raises:
      BenchError: several files of them, or one that holds something else.
      MissingExtra: safetensors is not installed.
    """
    files = sorted(folder.glob("*_normalizer_processor.safetensors"))
    if not files:
        return None
    if len(files) > 1:
        raise BenchError(f"{folder} has statistics in {' and '.join(path.name for path in files)}; keep one")
    try:
        from safetensors import SafetensorError
        from safetensors.numpy import load_file
    except ImportError:
        raise MissingExtra("LeRobot's statistics need safetensors: pip install -e '.[pi05]'") from None
    try:
        tensors = load_file(files[0])
    except (OSError, SafetensorError) as error:
        raise BenchError(f"{files[0]}: no safetensors file: {error}") from None
    tables = {
        vector: {name: tensors[f"{feature}.{name}"].tolist() for name in _NAMES if f"{feature}.{name}" in tensors}
        for vector, feature in _VECTORS.items()
    }
    if not all(tables.values()):
        raise BenchError(f"{files[0]}: no statistics of {' and '.join(_VECTORS.values())}")
    return Statistics(tables)
