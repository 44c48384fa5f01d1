"""Whether a file holds exactly the tensors of a model: each by name and shape, and every one that does not fit is named."""

from __future__ import annotations

from collections.abc import Mapping

from mjx_bench.errors import BenchError
from policies.pi05 import weights
from policies.pi05.configs import Config

Shapes = Mapping[str, tuple[int, ...]]


def wanted(config: Config) -> dict[str, tuple[int, ...]]:
    """What a model of this configuration has."""
    return {name: tuple(leaf.shape) for name, leaf in weights.flat(weights.abstract(config)[1]).items()}


def account(where: object, config: str, found: Shapes, expected: Shapes) -> None:
    """Compares names and shapes.

    Args:
      where: the file or folder, for the message.
      config: name of the configuration whose model it is to be.
      found: what it holds.
      expected: what the model has.

    Raises:
      BenchError: with every tensor that is missing, that no such model has, or that has another shape.
    """
    complaints = [
        *_listed("missing", [name for name in expected if name not in found]),
        *_listed("unknown", [name for name in found if name not in expected]),
        *_listed(
            "of another shape",
            [
                f"{name} {list(found[name])} where {list(shape)} is expected"
                for name, shape in expected.items()
                if name in found and tuple(found[name]) != tuple(shape)
            ],
        ),
    ]
    if complaints:
        raise BenchError(f"{where} is no checkpoint of {config}: {'; '.join(complaints)}")


def _listed(what: str, names: list[str]) -> list[str]:
    return [f"{len(names)} {what}: {', '.join(sorted(names))}"] if names else []
