"""Seeds from names: every random draw comes from (case, role, counter) and from nothing else. Standard library only."""

from __future__ import annotations

import hashlib


def fold_seed(key: str, role: str, counter: int) -> int:
    """64 bits that depend on nothing but their names: the first 8 bytes, big-endian, of a SHA-256."""
    return int.from_bytes(hashlib.sha256(f"{key}|{role}|{counter}".encode()).digest()[:8], "big")


def policy_seed(base_key: str) -> int:
    """The seed of a policy's episode: equal in both arms of a pair, since both start as the same Base run."""
    return fold_seed(base_key, "policy", 0)


def query_seed(base_key: str, query: int) -> int:
    """The seed of an episode's query number `query`, counted from 0 over the whole arm."""
    return fold_seed(base_key, "query", query)
