"""Text to tokens, and the prompt that a query becomes."""

from __future__ import annotations

import functools
import hashlib
import importlib.resources
import logging
import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from mjx_bench.errors import BenchError, MissingExtra
from policies.pi05.configs import BOS, EOS, PAD, Config
from policies.pi05.sequence import Subtask

_log = logging.getLogger(__name__)

# Edges of the 256 bins that a state is written in: of width 1/128, from -1.
_EDGES = np.linspace(-1.0, 1.0, 257)[:-1]


class Tokenizer:
    """A SentencePiece model.

    Args:
      model: the file's bytes.
      name: of the file, for messages.

    Attributes:
      sha256: of the bytes: two tokenizers are the same if these are.
      size: rows that a token table needs.

    Raises:
      BenchError: it is no SentencePiece model, or its first tokens are not PaliGemma's (padding 0, end 1, begin 2).
      MissingExtra: sentencepiece is not installed.
    """

    def __init__(self, model: bytes, name: str) -> None:
        try:
            import sentencepiece
        except ImportError:
            raise MissingExtra("tokenizers need sentencepiece: pip install -e '.[pi05]'") from None
        self.model, self.name = model, name
        self.sha256 = hashlib.sha256(model).hexdigest()
        try:
            self._pieces = sentencepiece.SentencePieceProcessor(model_proto=model)
            special = self._pieces.pad_id(), self._pieces.eos_id(), self._pieces.bos_id()
        except RuntimeError as error:
            raise BenchError(f"{name}: no SentencePiece model: {error}") from None
        if special != (PAD, EOS, BOS):
            raise BenchError(f"{name}: padding, end and begin are tokens {special}, expected {(PAD, EOS, BOS)}")
        self.size: int = self._pieces.get_piece_size()

    def encode(self, text: str, *, begin: bool = False) -> list[int]:
        """Tokens of a text, after BOS if `begin`; without EOS."""
        return self._pieces.encode(text, add_bos=begin)

    def decode(self, tokens: Sequence[int]) -> str:
        """The text of tokens."""
        return self._pieces.decode([int(token) for token in tokens if token not in (PAD, EOS, BOS)])


@functools.cache
def small() -> Tokenizer:
    """The one in this package, trained on the suites' instructions."""
    name = "small_tokenizer.model"
    return Tokenizer(importlib.resources.files("policies.pi05").joinpath(name).read_bytes(), name)


def load(path: Path) -> Tokenizer:
    """A tokenizer from a file.

    Raises:
      BenchError: no such file, or no such model.
    """
    try:
        return Tokenizer(path.read_bytes(), str(path))
    except OSError as error:
        raise BenchError(f"{path}: no tokenizer: {error.strerror}") from None


def fitting(config: Config, given: Tokenizer | None) -> Tokenizer:
    """The tokenizer of a model: the one in this package where it is that, otherwise the one given.

    Raises:
      BenchError: none is given where one is needed, or it is another than the configuration's.
    """
    if given is None:
        if config.tokenizer != "small":
            raise BenchError(
                f"{config.name} needs PaliGemma's tokenizer, which is not in this package: give the path of"
                " paligemma_tokenizer.model"
            )
        given = small()
    if config.tokenizer == "small" and given.sha256 != small().sha256:
        raise BenchError(f"{config.name} has the tokenizer of this package, and {given.name} is another")
    if given.size > config.vocabulary:
        raise BenchError(f"{given.name}: {given.size} tokens, and {config.name} has {config.vocabulary}")
    return given


def cleaned(text: str) -> str:
    """A text as openpi cleans it."""
    return text.strip().replace("_", " ").replace("\n", " ")


def bins(state: np.ndarray) -> np.ndarray:
    """A normalised state [n] as whole numbers 0 to 255; anything below -1 is -1."""
    return np.digitize(state, _EDGES) - 1


def prompt(tokenizer: Tokenizer, config: Config, text: str, state: np.ndarray) -> list[int]:
    """Tokens of a query, cut off at `config.prompt_tokens`.

    Args:
      tokenizer: of the model.
      config: of the model; says whether the state is in the prompt.
      text: the instruction.
      state: [n] normalised, not padded.
    """
    if not config.state_in_prompt:
        tokens = tokenizer.encode(cleaned(text), begin=True) + tokenizer.encode("\n")
    else:
        numbers = " ".join(map(str, bins(state)))
        tokens = tokenizer.encode(f"Task: {cleaned(text)}, State: {numbers};\nAction: ", begin=True)
    if len(tokens) > config.prompt_tokens:
        _log.warning("%r: %d tokens, cut off at %d as openpi does", text[:80], len(tokens), config.prompt_tokens)
    return tokens[: config.prompt_tokens]


def padded(rows: Sequence[Sequence[int]], places: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows of at most `places` tokens, padded on the right: int32 [B, places], and bool where a token is."""
    tokens = np.full((len(rows), places), PAD, np.int32)
    for row, values in zip(tokens, rows, strict=True):
        row[: len(values)] = values
    return tokens, np.arange(places) < np.array([len(row) for row in rows])[:, None]


def subtasks(tokenizer: Tokenizer, config: Config, texts: Sequence[str]) -> Subtask:
    """Subtasks for training; a text that does not fit is cut off, and then has no end.

    Raises:
      BenchError: the configuration has no place for them.
    """
    places = config.subtask_tokens
    if not places:
        raise BenchError(f"{config.name} predicts no subtasks")
    rows = [tokenizer.encode(cleaned(text)) for text in texts]
    inputs, mask = padded([[BOS, *row][:places] for row in rows], places)
    targets, _ = padded([[*row, EOS][:places] for row in rows], places)
    return Subtask(inputs, targets, mask)


def one_line(text: str) -> str:
    """A decoded subtask without the white space that a model may put anywhere."""
    return re.sub(r"\s+", " ", text).strip()
