"""Scripted experts with privileged state."""

from policies.scripted.expert import OpenLoop, Reactive

__all__ = ["OpenLoop", "Reactive"]
