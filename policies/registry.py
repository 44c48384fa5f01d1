"""Every policy by name; nothing is imported before it is asked for.

A name is one of `names()`; `replay:DIR`, the recorded Base arms of a results folder; `seeing:NAME`, another policy with
pictures; `pi05:DIR`, or the folder alone, a checkpoint or a run of `mjx-bench train`; `pi05_tiny:random` and the like, one
without training; `ws://host:port`, a policy server; `libero_max:NAME`, one of these three with LIBERO-MAX's noise; or
`module:factory`, a policy of the user's own: a callable without arguments that returns an object with the members of
`mjx_bench.policy.Policy`.
"""

from __future__ import annotations

import dataclasses
import importlib
import os
import sys
from typing import TYPE_CHECKING

from mjx_bench.errors import BenchError, MissingExtra, unknown_name
from mjx_bench.policy import ACTION_DIMS, NATIVE, Policy, PolicySpec
from policies.pi05.configs import CONFIGS

if TYPE_CHECKING:
    from policies.noise import NoiseRule

# name: (module, class called without arguments)
_POLICIES = {
    "random": ("policies.simple", "Random"),
    "scripted.open_loop": ("policies.scripted", "OpenLoop"),
    "scripted.oracle": ("policies.reference.oracle", "Oracle"),
    "scripted.reactive": ("policies.scripted", "Reactive"),
    "zero": ("policies.simple", "Zero"),
}


def names() -> tuple[str, ...]:
    """Names that `make` knows without a colon."""
    return tuple(_POLICIES)


def make(name: str) -> Policy:
    """A fresh policy.

    Raises:
      BenchError: no policy has this name (the message gives the nearest ones), a results folder that cannot be replayed,
        or a module or factory that is not there, fails, or returns something that is no policy.
    """
    kind, colon, rest = name.partition(":")
    if kind == "replay":
        if not rest:
            raise BenchError("policy 'replay' needs a results folder: replay:DIR")
        from policies.replay import Replay

        return Replay(rest)
    if kind == "seeing":
        if not rest:
            raise BenchError("policy 'seeing' needs another policy, which then acts with pictures: seeing:NAME")
        from policies.seeing import Seeing

        return Seeing(make(rest))
    if kind == "libero_max":
        drawn = _drawing(rest, "libero_max")
        if drawn is None:
            raise BenchError(
                f"policy {rest!r} draws no noise that could follow LIBERO-MAX's rule; libero_max:NAME is for pi05:DIR,"
                " pi05_tiny:random and the like, and ws://host:port"
            )
        drawn.spec = dataclasses.replace(drawn.spec, name=name)
        return drawn
    if (drawn := _drawing(name, "query")) is not None:
        return drawn
    if rest == "random":
        raise unknown_name("configuration", kind, CONFIGS)
    if colon:
        return _own(name, kind, rest)
    if name not in _POLICIES:
        known = (*_POLICIES, "replay:DIR", "seeing:NAME", "libero_max:NAME", "ws://host:port", "module:factory")
        raise unknown_name("policy", name, known)
    module, cls = _POLICIES[name]
    policy: Policy = getattr(importlib.import_module(module), cls)()
    return policy


def _drawing(name: str, noise: NoiseRule) -> Policy | None:
    """A policy that draws noise, by this rule; None for another."""
    kind, _, rest = name.partition(":")
    if kind in ("ws", "wss"):
        from policies.remote import Remote

        return Remote(name, noise)
    if name not in _POLICIES and os.path.isdir(name):
        return _pi05("pi05", name, noise)
    if kind == "pi05" or kind in CONFIGS or (rest == "random" and kind.startswith("pi0")):
        return _pi05(kind, rest, noise)
    return None


def _pi05(kind: str, rest: str, noise: NoiseRule) -> Policy:
    if not rest or (kind != "pi05" and rest != "random"):
        untrained = f"{'pi05_tiny' if kind == 'pi05' else kind} --random-weights"
        raise BenchError(f"policy {kind!r} needs weights: pi05:DIR for a checkpoint, or {untrained} for none")
    try:
        from policies.pi05 import policy
    except ModuleNotFoundError as error:
        raise MissingExtra(f"policy {kind!r} needs {error.name}: pip install -e '.[pi05]'") from None
    return policy.from_folder(rest, noise) if kind == "pi05" else policy.random(kind, noise)


def _own(name: str, module: str, factory: str) -> Policy:
    # A console script's path lacks the working folder, which is where a user's module usually lies.
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    try:
        found = importlib.import_module(module)
    except ModuleNotFoundError as error:
        raise BenchError(f"policy {name!r}: {error}; give module:factory, importable from here") from error
    except Exception as error:
        raise BenchError(f"policy {name!r}: importing {module} failed: {type(error).__name__}: {error}") from error
    if not callable(getattr(found, factory, None)):
        known = [n for n, value in vars(found).items() if callable(value) and not n.startswith("_")]
        raise unknown_name(f"factory in module {module}", factory, known)
    try:
        policy = getattr(found, factory)()
    except Exception as error:
        raise BenchError(f"policy {name!r}: {factory}() failed: {type(error).__name__}: {error}") from error
    _check(name, policy)
    return policy


def _check(name: str, policy: object) -> None:
    """Refuses what could only fail later, in the middle of a run."""
    spec = getattr(policy, "spec", None)
    if not isinstance(spec, PolicySpec):
        raise BenchError(f"policy {name!r}: its `spec` is {type(spec).__name__}, expected mjx_bench.policy.PolicySpec")
    for method in ("init", "act"):
        if not callable(getattr(policy, method, None)):
            raise BenchError(f"policy {name!r}: it has no method `{method}` (see mjx_bench.policy.Policy)")
    if spec.action_mode not in (known := (*ACTION_DIMS, NATIVE)):
        raise unknown_name(f"action mode of policy {name!r}", spec.action_mode, known)
    for field in ("horizon", "image_size"):
        value = getattr(spec, field)
        if not isinstance(value, int) or isinstance(value, bool) or value < 1:
            raise BenchError(f"policy {name!r}: its {field} is {value!r}, expected an integer of at least 1")
    names: object = spec.cameras
    if not isinstance(names, tuple) or not all(isinstance(camera, str) for camera in names):  # not a lone string either
        raise BenchError(f"policy {name!r}: its cameras are {names!r}, expected a tuple of names")
    if len(set(names)) < len(names):
        raise BenchError(f"policy {name!r}: its cameras are {names!r}, expected each name once")
