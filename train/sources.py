"""From datasets to arrays that a model can be trained on: what each must have is checked here, before anything is built."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from mjx_bench.errors import BenchError, unknown_name
from policies.pi05 import adapters
from policies.pi05.adapters import Adapter
from policies.pi05.configs import Config
from policies.pi05.statistics import Statistics
from train import store
from train.lerobot import schema, stats
from train.lerobot.check import TIME_TOLERANCE
from train.lerobot.read import Dataset, open_dataset

STATE, ACTION, EXPERT, PLACES = "observation.state", "action", "expert_action", "environment_state"
CHUNK = "expert_chunk"
# Names of the same things in openpi's own LIBERO set.
_OTHERS = {STATE: "state", ACTION: "actions"}


@dataclasses.dataclass(frozen=True)
class Source:
    """One dataset as arrays over its N frames, episode after episode.

    Attributes:
      folder: where it lies.
      pictures: [N, S, S, 3] of each of the model's cameras, None where the robot lacks it.
      mirrored: pictures are mirrored left to right before the model sees them.
      state: float32 [N, s].
      actions: float32 [N, a], what is to be learnt: the expert's where the dataset has it.
      chunks: float32 [N, H, a], what the expert had in mind at each frame, or None: then it is the actions of the frames
        that follow. H is at least the model's horizon.
      end: int64 [N], one past the last frame of the frame's episode.
      prompts: text of each task.
      task: int64 [N], number of the prompt.
      subtasks: texts, empty for none.
      subtask: int64 [N], number of the subtask; zeros without.
      places: float32 [N, p], positions of the things that a task names (of all, if it names none), or None.
      stats: of "state" and "actions", from the dataset's own meta files.
    """

    folder: Path
    pictures: tuple[store.Pictures | None, ...]
    mirrored: bool
    state: np.ndarray
    actions: np.ndarray
    chunks: np.ndarray | None
    end: np.ndarray
    prompts: tuple[str, ...]
    task: np.ndarray
    subtasks: tuple[str, ...]
    subtask: np.ndarray
    places: np.ndarray | None
    stats: dict[str, dict[str, np.ndarray]]

    def __len__(self) -> int:
        return len(self.state)


def load(folder: Path, config: Config, progress: Callable[[str], None] | None = None) -> Source:
    """Opens a dataset for a model.

    Raises:
      BenchError: other features, other cameras, numbers that are not finite, a film that is missing or broken.
    """
    dataset, adapter = open_dataset(folder), adapters.named(config.adapter)
    cameras = _cameras(dataset, adapter)
    state, action = (_feature(dataset, name) for name in (STATE, ACTION))
    target = EXPERT if EXPERT in dataset.features else action
    for name, wanted in ((state, adapter.state), (target, adapter.actions)):
        _check_names(dataset, name, wanted)
    planned = EXPERT in dataset.features and _plans(dataset, config.horizon, len(adapter.actions))
    more = [n for n in (PLACES, "subtask_index") if n in dataset.features] + [CHUNK] * planned
    columns = _columns(dataset, [state, target, "task_index", *more])
    for name in (state, target, *[CHUNK] * planned):
        _check_finite(dataset, name, columns[name])
    lengths = dataset.lengths
    subtasks = tuple(dataset.language.get("subtasks", ())) if config.subtask_tokens else ()
    subtask = columns.get("subtask_index", np.zeros(len(columns[state]))).astype(np.int64).reshape(-1)
    if subtasks and not 0 <= subtask.min() <= subtask.max() < len(subtasks):
        raise BenchError(
            f"{folder}: subtask_index goes from {subtask.min()} to {subtask.max()}, of {len(subtasks)} subtasks"
        )
    task = columns["task_index"].astype(np.int64).reshape(-1)
    if not 0 <= task.min() <= task.max() < len(dataset.tasks):
        raise BenchError(f"{folder}: task_index goes from {task.min()} to {task.max()}, of {len(dataset.tasks)} tasks")
    side = config.vision.image_size
    pictures = tuple(None if c is None else store.pictures(dataset, c, side, progress) for c in cameras)
    return Source(
        folder=folder,
        pictures=pictures,
        mirrored=adapter.mirrored and all(c is None or c.rsplit(".", 1)[-1] in adapter.cameras for c in cameras),
        state=columns[state].astype(np.float32),
        actions=columns[target].astype(np.float32),
        chunks=columns[CHUNK][:, : config.horizon].astype(np.float32) if planned else None,
        end=np.repeat(np.cumsum(lengths), lengths),
        prompts=dataset.tasks,
        task=task,
        subtasks=subtasks,
        subtask=subtask,
        places=columns[PLACES][:, _named(dataset)].astype(np.float32) if PLACES in columns else None,
        stats={"state": _statistics(dataset, state, columns), "actions": _statistics(dataset, target, columns)},
    )


def _columns(dataset: Dataset, names: Sequence[str]) -> dict[str, np.ndarray]:
    """[N, ...] of each, over all episodes."""
    if missing := [name for name in names if name not in dataset.features]:
        raise BenchError(f"{dataset.folder}: has no column {', '.join(missing)}")
    parts: dict[str, list[np.ndarray]] = {name: [] for name in names}
    for episode in range(len(dataset.lengths)):
        columns = dataset.columns(episode)
        _check_times(dataset, episode, columns)
        for name in names:
            parts[name].append(columns[name])
    if not len(dataset.lengths):
        raise BenchError(f"{dataset.folder}: has no episode")
    return {name: np.concatenate(found) for name, found in parts.items()}


def _feature(dataset: Dataset, name: str) -> str:
    for known in (name, _OTHERS[name]):
        if known in dataset.features:
            return known
    raise unknown_name(f"feature of {dataset.folder}", name, dataset.features)


def _check_names(dataset: Dataset, feature: str, wanted: Sequence[str]) -> None:
    """Compares numbers of dimensions, and their order where the names are ours: others call the same thing as they like."""
    shape = tuple(dataset.features[feature].shape)
    if shape != (len(wanted),):
        raise BenchError(
            f"{dataset.folder}: {feature} has shape {list(shape)}, and the robot has {len(wanted)}: {', '.join(wanted)}"
        )
    names = dataset.features[feature].names
    listed = [str(name) for part in names.values() for name in part] if isinstance(names, dict) else list(names or ())
    if set(listed) == set(wanted) and listed != list(wanted):
        theirs, ours = next(pair for pair in zip(listed, wanted, strict=True) if pair[0] != pair[1])
        raise BenchError(f"{dataset.folder}: {feature} has {theirs}, where {ours} is needed")


def _plans(dataset: Dataset, horizon: int, actions: int) -> bool:
    """Whether the dataset has chunks of the expert that are long enough."""
    found = dataset.features.get(CHUNK)
    return found is not None and len(found.shape) == 2 and found.shape[0] >= horizon and found.shape[1] == actions


def _named(dataset: Dataset) -> np.ndarray:
    """Columns of `PLACES` (`red_block.x`) that belong to a thing that a task names; all of them if none is named."""
    names = [str(name) for name in dataset.features[PLACES].names or ()]
    texts = [task.lower() for task in dataset.tasks]
    things = [name.rsplit(".", 1)[0].replace("_", " ").lower() for name in names]
    found = [i for i, thing in enumerate(things) if any(thing in text for text in texts)]
    return np.array(found or range(dataset.features[PLACES].shape[0]))


def _check_finite(dataset: Dataset, name: str, values: np.ndarray) -> None:
    bad = np.flatnonzero(~np.isfinite(values.reshape(len(values), -1)).all(1))
    if len(bad):
        episode = int(np.searchsorted(np.cumsum(dataset.lengths), bad[0], side="right"))
        frame = int(bad[0] - np.cumsum(dataset.lengths)[episode] + dataset.lengths[episode])
        raise BenchError(
            f"{dataset.folder}: {name} is not finite in {len(bad)} frames, first in frame {frame} of episode {episode}"
        )


def _check_times(dataset: Dataset, episode: int, columns: Mapping[str, np.ndarray]) -> None:
    """Pictures are found by the number of a frame, numbers by their row: a shift between them would be learnt."""
    times = columns.get("timestamp", np.zeros(0))
    wanted = np.arange(len(times)) / dataset.fps
    if len(late := np.flatnonzero(~(np.abs(times - wanted) <= TIME_TOLERANCE))):
        k = int(late[0])
        raise BenchError(
            f"{dataset.episodes[episode].data}: frame {k} is at {times[k]:.4f} s, and belongs at {wanted[k]:.4f} s; pictures"
            " and numbers may be of different moments (mjx-bench dataset check names every such episode)"
        )


def _statistics(dataset: Dataset, name: str, columns: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Those of the meta files; what they lack (LeRobot before 0.4 knew no quantiles) is counted from the column."""
    found, values = dict(dataset.stats.get(name, {})), columns[name]
    if wrong := stats.misfit({name: found}, dataset.features):
        raise BenchError(f"{dataset.folder / schema.STATS}: {wrong}")
    if not {"mean", "std", "q01", "q99", "count"} <= set(found):
        low, high = np.quantile(values.astype(np.float64), (0.01, 0.99), axis=0)
        count = np.array([len(values)])
        found = {"mean": values.mean(0), "std": values.std(0), "q01": low, "q99": high, "count": count, **found}
    return found


def _cameras(dataset: Dataset, adapter: Adapter) -> list[str | None]:
    """The dataset's name of each of the model's cameras: a scene's camera, or the key that requests have."""
    scene = iter(adapter.cameras)
    found: list[str | None] = []
    for key in adapter.pictures:
        if key is None:
            found.append(None)
            continue
        short = key.removeprefix("observation/")
        names = [f"observation.images.{name}" for name in (next(scene, None), short) if name is not None] + [short]
        name = next((name for name in names if name in dataset.cameras), None)
        if name is None:
            raise BenchError(
                f"{dataset.folder}: has no camera {' or '.join(names)}; it has {', '.join(dataset.cameras) or 'none'}"
            )
        found.append(name)
    return found


def statistics_of(sources: Sequence[Source], config: Config) -> Statistics:
    """Statistics of all datasets together, from theirs: no film is decoded.

    Means and deviations are those of the union. Quantiles of a union are not known from quantiles of its parts: the
    lowest and the highest are taken.
    """
    adapter = adapters.named(config.adapter)
    tables: dict[str, dict[str, Any]] = {
        vector: _merged([source.stats[vector] for source in sources]) for vector in ("state", "actions")
    }
    return Statistics(tables, config.normalisation, {"state": adapter.state, "actions": adapter.actions})


def _merged(tables: Sequence[dict[str, np.ndarray]]) -> dict[str, np.ndarray]:
    count = np.array([float(np.ravel(t["count"])[0]) for t in tables])
    mean, std, low, high = (
        np.stack([np.asarray(t[name], np.float64) for t in tables]) for name in ("mean", "std", "q01", "q99")
    )
    share = (count / count.sum())[:, None]
    together = (share * mean).sum(0)
    variance = (share * (std**2 + (mean - together) ** 2)).sum(0)
    return {"mean": together, "std": np.sqrt(variance), "q01": low.min(0), "q99": high.max(0)}
