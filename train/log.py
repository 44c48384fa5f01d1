"""What a run tells: a line of JSON now and then, the same in TensorBoard's files, and pictures of sample predictions.

RUN/log.jsonl         one object a line: step, losses, rate, seconds; with `success` for an evaluation
RUN/tensorboard/      the same, for `tensorboard --logdir RUN`
RUN/samples/STEP.png  what the model sees, and its actions beside those that were to be learnt
"""

from __future__ import annotations

import io
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from mjx_bench.errors import MissingExtra
from mjx_bench.records.writer import write_whole

try:
    from tensorboardX import SummaryWriter
except ImportError:
    raise MissingExtra("logs need tensorboardX: pip install -e '.[train]'") from None

FILE, BOARD, SAMPLES = "log.jsonl", "tensorboard", "samples"


class Log:
    """The log of one run.

    Args:
      run: its folder.
      step: where the run goes on; what an interrupted one has said of later steps is dropped.
    """

    def __init__(self, run: Path, step: int) -> None:
        self._path, self._samples = run / FILE, run / SAMPLES
        kept = [row for row in read(run) if row["step"] <= step]
        write_whole(self._path, "".join(json.dumps(row) + "\n" for row in kept))
        self._file = self._path.open("a", encoding="utf-8")
        self._board = SummaryWriter(str(run / BOARD), purge_step=step + 1 if step else None)

    def scalars(self, step: int, values: Mapping[str, Any]) -> None:
        """Numbers by name."""
        row = {name: float(value) for name, value in values.items()}
        self._file.write(json.dumps({"step": step, **row}) + "\n")
        self._file.flush()
        for name, value in row.items():
            self._board.add_scalar(name, value, step)

    def sample(self, step: int, images: np.ndarray, told: np.ndarray, wanted: np.ndarray, names: Sequence[str]) -> None:
        """A picture of predictions; see `drawn`."""
        from PIL import Image

        png = drawn(images, told, wanted, names)
        self._samples.mkdir(exist_ok=True)
        (self._samples / f"{step:08}.png").write_bytes(png)
        self._board.add_image(
            "samples", np.asarray(Image.open(io.BytesIO(png)).convert("RGB")), step, dataformats="HWC"
        )

    def close(self) -> None:
        """Writes what is left."""
        self._file.close()
        self._board.close()


def read(run: Path) -> list[dict[str, Any]]:
    """The lines of a run's log; a last one that was cut off is left out."""
    path = run / FILE
    rows = []
    for line in path.read_text(encoding="utf-8").splitlines() if path.exists() else []:
        try:
            rows.append(json.loads(line))
        except ValueError:
            break
    return rows


def drawn(images: np.ndarray, told: np.ndarray, wanted: np.ndarray, names: Sequence[str]) -> bytes:
    """A PNG with a row a frame: its pictures, then each action over the chunk, predicted and wanted.

    Args:
      images: uint8 [B, C, S, S, 3].
      told: [B, T, a].
      wanted: [B, T, a].
      names: of the a actions.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    rows, cameras = images.shape[:2]
    figure = Figure((1.6 * (cameras + len(names)), 1.6 * rows), dpi=60, layout="constrained")
    axes = figure.subplots(rows, cameras + len(names), squeeze=False)
    for row in range(rows):
        for camera in range(cameras):
            axes[row, camera].imshow(images[row, camera])
            axes[row, camera].axis("off")
        for i, name in enumerate(names):
            plot = axes[row, cameras + i]
            plot.plot(wanted[row, :, i], color="0.6", linewidth=3)
            plot.plot(told[row, :, i], color="tab:red")
            plot.set_ylim(-1.6, 1.6)
            plot.tick_params(labelleft=i == 0, labelbottom=row == rows - 1, labelsize=6)
            if row == 0:
                plot.set_title(name, fontsize=7)
    out = io.BytesIO()
    FigureCanvasAgg(figure).print_png(out)
    return out.getvalue()
