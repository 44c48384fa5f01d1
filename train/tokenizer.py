"""How the small tokenizer of `policies.pi05` was made: `python -m train.tokenizer FILE` makes it again.

Its corpus is the language of the suites (LIBERO's extra must be installed): every instruction that they listed, states in
the form of the prompt, and the words of subtasks. What no piece covers falls back on bytes, so any text can be written.
"""

from __future__ import annotations

import io
import sys
from pathlib import Path

import numpy as np

from evals import registry
from policies.pi05.configs import BOS, EOS, PAD, SMALL
from policies.pi05.tokenizer import cleaned

# Verbs and places of subtasks, crossed with the things that instructions speak of.
_SUBTASKS = (
    "move to the {}",
    "reach for the {}",
    "grasp the {}",
    "lift the {}",
    "carry it to the {}",
    "place it on the {}",
    "put it in the {}",
    "open the {}",
    "close the {}",
    "push the {}",
    "pull the {}",
    "press the {}",
    "turn the {}",
    "let go of the {}",
    "look behind the {}",
    "drive to the {}",
    "return to the {}",
)
_THINGS = (
    *("red block", "green block", "blue block", "red ball", "plate", "bin", "drawer", "door", "button", "knob", "peg"),
    *("hole", "bowl", "mug", "cup", "bottle", "box", "basket", "stove", "cabinet", "microwave", "tray", "book", "pot"),
    *("left", "right", "front", "back", "middle", "top", "bottom", "submit button", "robot", "table", "shelf", "rack"),
)

_REPEATS = 100
# Tasks of suites that grow, as many as there were: pieces stay what they are, since checkpoints are trained on their ids.
_THEN = {"roboquest": 1, "robotworld": 1, "robot_agent_bench": 0}


def corpus() -> list[str]:
    """Sentences, in an order that never changes."""
    instructions = sorted({cleaned(row["instruction"]) for suite in registry.suites() for row in _rows(suite)})
    rng = np.random.default_rng(0)
    # Each number often enough to become one token, after a space as in a prompt.
    states = [" " + " ".join(map(str, rng.permutation(np.arange(-1, 256)))) for _ in range(_REPEATS)]
    subtasks = [form.format(thing) for form in _SUBTASKS for thing in _THINGS]
    forms = [f"Task: {text}, State:" for text in instructions]
    return [*forms, *instructions, *[";\nAction: "] * _REPEATS, *states, *subtasks]


def _rows(suite: str) -> list[dict[str, str]]:
    return [{"instruction": str(row["instruction"])} for row in registry.task_table(suite)[: _THEN.get(suite)]]


def train(sentences: list[str]) -> bytes:
    """Merged pairs (BPE), with PaliGemma's special tokens, and bytes for what no piece covers."""
    import sentencepiece

    out = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(sentences),
        model_writer=out,
        vocab_size=SMALL.vocabulary,
        model_type="bpe",
        pad_id=PAD,
        eos_id=EOS,
        bos_id=BOS,
        unk_id=3,
        byte_fallback=True,
        add_dummy_prefix=True,
        remove_extra_whitespaces=False,
        normalization_rule_name="identity",
        user_defined_symbols=["\n"],
        num_threads=1,
        minloglevel=2,
    )
    return out.getvalue()


if __name__ == "__main__":
    Path(sys.argv[1]).write_bytes(train(corpus()))
