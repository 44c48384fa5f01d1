"""Every policy by name; nothing is imported before it is asked for."""

from __future__ import annotations

import importlib

from mjx_bench.errors import unknown_name
from mjx_bench.policy import Policy

# name: (module, class called without arguments)
_POLICIES = {
    "random": ("policies.simple", "Random"),
    "scripted.open_loop": ("policies.scripted", "OpenLoop"),
    "scripted.reactive": ("policies.scripted", "Reactive"),
    "zero": ("policies.simple", "Zero"),
}


def names() -> tuple[str, ...]:
    """Names that `make` knows."""
    return tuple(_POLICIES)


def make(name: str) -> Policy:
    """A fresh policy.

    Raises:
      BenchError: no policy has this name; the message gives the nearest ones.
    """
    if name not in _POLICIES:
        raise unknown_name("policy", name, _POLICIES)
    module, cls = _POLICIES[name]
    policy: Policy = getattr(importlib.import_module(module), cls)()
    return policy
