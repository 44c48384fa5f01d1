"""Checkpoints of a run: written while training goes on, whole or not at all, kept by rule.

    RUN/config.json               settings
    RUN/checkpoints/STEP/params   weights that act, as openpi stores them
                        /assets   statistics
                        /policy.json, tokenizer.model, demonstrations.json
                        /train_state          what goes on from here: weights, average, optimiser

So a step's folder is a checkpoint as openpi writes it, and a policy.
"""

from __future__ import annotations

import dataclasses
import logging
import math
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import jax
import numpy as np

from mjx_bench.errors import BenchError, MissingExtra
from policies.pi05 import checkpoint, statistics
from policies.pi05.checkpoint import Checkpoint
from policies.pi05.params_item import quiet
from train import shown
from train import step as stepping
from train.configs import Config
from train.step import State

try:
    import orbax.checkpoint as ocp
except ImportError:
    raise MissingExtra("checkpoints need orbax-checkpoint: pip install -e '.[train]'") from None

_STATE = "train_state"
_ROOM = 1.05  # a checkpoint's files against its arrays


class _Around(ocp.CheckpointHandler):
    """Statistics, configuration and tokenizer: the item `assets`, and files beside it in the same step's folder."""

    def save(self, directory: Path, args: _AroundSave) -> None:
        if jax.process_index() == 0:
            around = args.checkpoint
            assert around.stats is not None, "a run has statistics"
            statistics.write(Path(directory) / around.asset / "norm_stats.json", around.stats)
            checkpoint.save_around(Path(directory).parent, dataclasses.replace(around, stats=None))
            shown.write(Path(directory).parent, args.shown)

    def restore(self, directory: Path, args: Any = None) -> None:
        raise NotImplementedError("read by policies.pi05.checkpoint")


class _AroundSave(ocp.args.CheckpointArgs):
    def __init__(self, checkpoint: Checkpoint, shown: Sequence[dict[str, Any]]) -> None:
        self.checkpoint, self.shown = checkpoint, shown


ocp.args.register_with_handler(_Around, for_save=True, for_restore=True)(_AroundSave)


class Saver:
    """The checkpoints of one run.

    Args:
      run: its folder.
      config: of the training: how many are kept.
      around: what a checkpoint has beside its weights; its tree is not read.
      shown: where the episodes come from, see `train.shown`.
    """

    def __init__(self, run: Path, config: Config, around: Checkpoint, shown: Sequence[dict[str, Any]] = ()) -> None:
        self._folder = (run / checkpoint.STEPS).absolute()
        self._around = _AroundSave(around, shown)
        options = ocp.CheckpointManagerOptions(
            max_to_keep=config.keep, keep_period=config.keep_every or None, create=True, cleanup_tmp_directories=True
        )
        handlers = {
            checkpoint.PARAMS: ocp.PyTreeCheckpointHandler(use_ocdbt=True, use_zarr3=False),
            _STATE: ocp.PyTreeCheckpointHandler(),
            checkpoint.ASSETS: _Around(),
        }
        with quiet(logging.CRITICAL):
            self._manager = ocp.CheckpointManager(self._folder, options=options, item_handlers=handlers)

    @property
    def latest(self) -> int | None:
        """Step of the newest checkpoint that is whole."""
        return self._manager.latest_step()

    def check_room(self, state: State) -> None:
        """Refuses to begin where not even two checkpoints have room.

        Raises:
          BenchError: with what is needed and what there is.
        """
        need, free = 2 * _ROOM * bytes_of(state), shutil.disk_usage(self._folder).free
        if free < need:
            raise BenchError(
                f"{self._folder}: two checkpoints take {need / 1e9:.2f} GB, and {free / 1e9:.2f} GB are free; make room,"
                " or choose another --out"
            )

    def save(self, state: State) -> None:
        """Begins to write a checkpoint of this step; the arrays are copied before it returns.

        Raises:
          BenchError: the one before could not be written.
        """
        step = int(state.step)
        if step == self.latest:
            return
        wrapped = {"params": jax.tree.map(lambda leaf: {"value": leaf}, stepping.acting(state))}
        items = ocp.args.Composite(
            **{
                checkpoint.PARAMS: ocp.args.PyTreeSave(wrapped),
                _STATE: ocp.args.PyTreeSave(state),
                checkpoint.ASSETS: self._around,
            }
        )
        with self._explained(), quiet(logging.CRITICAL):
            self._manager.save(step, args=items)

    def wait(self) -> None:
        """Until what was begun is on the disk.

        Raises:
          BenchError: it could not be written.
        """
        with self._explained(), quiet(logging.CRITICAL):
            self._manager.wait_until_finished()

    def restore(self, like: Any) -> State:
        """The newest checkpoint's state.

        Args:
          like: the state as arrays or shapes, with shardings.

        Raises:
          BenchError: it is not whole, or of another model.
        """
        step = self.latest
        assert step is not None, "there is a checkpoint"
        how = ocp.args.PyTreeRestore(like, restore_args=ocp.checkpoint_utils.construct_restore_args(like))
        try:
            with quiet(logging.CRITICAL):
                found = self._manager.restore(step, args=ocp.args.Composite(**{_STATE: how}))
        except Exception as error:
            why = " ".join(str(error).split())[:200]
            raise BenchError(
                f"{self._folder / str(step)} cannot be read, and may be half written: delete this folder to go on from the"
                f" checkpoint before ({type(error).__name__}: {why})"
            ) from None
        return found[_STATE]

    def close(self) -> None:
        """Waits, and lets go."""
        self.wait()
        self._manager.close()

    @contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            yield
        except BenchError:
            raise
        except Exception as error:
            why = " ".join(str(error).split())[:200]
            last = max((int(p.name) for p in self._folder.iterdir() if p.name.isdecimal()), default=None)
            kept = "there is none before it" if last is None else f"the last whole one is {last}"
            raise BenchError(
                f"{self._folder}: a checkpoint could not be written ({type(error).__name__}: {why}); {kept};"
                " make room, and the same command goes on from there"
            ) from None


def bytes_of(state: State) -> int:
    """Of a checkpoint: the state, and the weights that act once more."""
    acting = jax.eval_shape(stepping.acting, state)
    leaves = [*jax.tree.leaves(state), *jax.tree.leaves(acting)]
    return sum(math.prod(leaf.shape) * np.dtype(leaf.dtype).itemsize for leaf in leaves)
