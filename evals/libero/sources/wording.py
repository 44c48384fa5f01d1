"""LIBERO-Plus's language instructions, regenerated: the same request in other words.

LIBERO-Plus's own 50 paraphrases a task were written by a language model and are not public; these follow from a list of
synonyms and of polite or plain openings, and mean the same. What names an object or a place is never changed.
"""

from __future__ import annotations

import functools
import itertools
import re

import numpy as np

from mjx_bench.cases import stable_seed

SAMPLER = "mjx-bench-plus-wording-v1"
COUNT = 50

# A phrase of LIBERO's instructions to other words for it, tried in this order; the longest first.
_SYNONYMS = (
    ("pick up", ("pick up", "grab", "take", "lift up", "grasp", "get hold of", "fetch")),
    ("and place it", ("and place it", "and put it", "and set it down", "and lay it", "then place it", "then put it")),
    ("turn on", ("turn on", "switch on", "power on")),
    ("and close it", ("and close it", "and shut it", "then close it", "then shut it")),
    ("and put", ("and put", "and place", "then put", "then place", "and set")),
    ("put", ("put", "place", "set", "lay")),
    ("open", ("open", "pull open")),
    ("push", ("push", "slide", "shove")),
)
_OPENINGS = (
    *("", "please ", "could you ", "i want you to ", "your task is to ", "now ", "robot, ", "would you "),
    *("i need you to ", "go ahead and ", "you should ", "it is time to "),
)
_ENDINGS = ("", " for me", " carefully", " now")

_NAME = re.compile(r"language_(\d+)_view_0_0_100_0_0_initstate_0")


def number_of(name: str) -> int | None:
    """The n of `language_<n>_view_0_0_100_0_0_initstate_0`, 1 to 50; None for another name."""
    match = _NAME.fullmatch(name)
    return int(match.group(1)) if match and 1 <= int(match.group(1)) <= COUNT else None


def paraphrase(instruction: str, number: int) -> str:
    """The wording `number`, 1 to 50, of an instruction: all 50 are different, and none is the instruction itself."""
    return paraphrases(instruction)[number - 1]


@functools.lru_cache(maxsize=128)
def paraphrases(instruction: str) -> tuple[str, ...]:
    """`COUNT` wordings of an instruction, in an order of chance that depends on it alone."""
    pattern = "|".join(re.escape(phrase) for phrase, _ in _SYNONYMS)
    parts = re.split(rf"\b({pattern})\b", instruction.lower())
    choices = [dict(_SYNONYMS).get(part, (part,)) for part in parts]
    bodies = ["".join(body) for body in itertools.product(*choices)]
    wordings = [o + body + e for o in _OPENINGS for body in bodies for e in _ENDINGS]
    others = [w for w in dict.fromkeys(wordings) if w != instruction.lower()]
    order = np.random.RandomState(stable_seed(SAMPLER, instruction)).permutation(len(others))
    return tuple(others[i] for i in order[:COUNT])
