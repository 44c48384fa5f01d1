"""Preflight of thousands of cases: in worker processes, what is known is kept in a file, and a kill loses next to nothing.

A verdict depends on its case, the rules of its source and the packages of its scene. The file is one JSON line a case, under
a hash of all of these.
"""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import hashlib
import io
import json
import multiprocessing
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evals.libero import package
from evals.libero.cache import write_atomic
from evals.libero.sources.catalogue import REVISION
from mjx_bench.cases import Case, case_sha256
from mjx_bench.fields import Reader
from mjx_bench.task import Scene, Task

if TYPE_CHECKING:
    import mujoco

# Cases that a worker takes at a time, at most: what is lost by a kill, and how often progress is told.
CHUNK = 100

# Of textures, a side: a picture has 256 pixels.
TEXELS = 512

Problems = tuple[str, ...]


class Screen:
    """Verdicts of cases, as far as they are known.

    Args:
      path: the file of verdicts; made where there is none. A torn last line is cut off.
      workers: processes.
      renderer: what takes the pictures.
      told: called with (cases done, cases asked for) as a call goes on.
      built: called with a line for each scene that LIBERO had to build first.
    """

    def __init__(
        self,
        path: Path,
        workers: int,
        renderer: str,
        told: Callable[[int, int], None] = lambda done, of: None,
        built: Callable[[str], None] = lambda line: None,
    ) -> None:
        self._path, self._workers, self._renderer, self._told, self._built = path, workers, renderer, told, built
        self._made_by = json.dumps([REVISION, renderer, package.versions()], sort_keys=True)
        self._known: dict[str, Problems] = {}
        if path.is_file():
            text = path.read_text(encoding="utf-8")
            whole = text[: text.rfind("\n") + 1]
            if whole != text:
                path.write_text(whole, encoding="utf-8")
            for line in whole.splitlines():
                row = json.loads(line)
                self._known[row["key"]] = tuple(row["problems"])
        self.seconds = 0.0

    def check(self, cases: Sequence[dict[str, Any]]) -> list[Problems]:
        """What is wrong with each case, JSON as in a manifest; nothing for one that passes."""
        keys = [self._key(case) for case in cases]
        missing = [(key, case) for key, case in zip(keys, cases, strict=True) if key not in self._known]
        done = 0
        if missing:
            from evals.libero import tasks

            # Extra objects are scenes that LIBERO builds; what it cannot build fails when it is loaded.
            tasks.prepare([read_case(case) for _, case in missing], workers=self._workers, progress=self._built)
            with self._path.open("a", encoding="utf-8") as file:
                for rows in self._run(_chunks(missing)):
                    for key, case_id, problems in rows:
                        self._known[key] = problems
                        line = {"key": key, "case_id": case_id, "problems": list(problems)}
                        file.write(json.dumps(line, sort_keys=True) + "\n")
                    file.flush()
                    done += len(rows)
                    self._told(done, len(missing))
        return [self._known[key] for key in keys]

    def _key(self, case: dict[str, Any]) -> str:
        return hashlib.sha256(f"{case_sha256(read_case(case))}|{self._made_by}".encode()).hexdigest()

    def _run(self, chunks: list[list[tuple[str, dict[str, Any]]]]) -> Iterator[list[tuple[str, str, Problems]]]:
        if self._workers == 1 or len(chunks) == 1:
            for chunk in chunks:
                yield judge(chunk, self._renderer)
            return
        # A fresh interpreter: OpenGL and MuJoCo do not survive a fork.
        spawn = multiprocessing.get_context("spawn")
        with ProcessPoolExecutor(self._workers, mp_context=spawn) as pool:
            futures = [pool.submit(judge, chunk, self._renderer) for chunk in chunks]
            try:
                for future in as_completed(futures):
                    yield future.result()
            except BaseException:
                pool.shutdown(wait=False, cancel_futures=True)
                for process in multiprocessing.active_children():
                    process.terminate()  # in the middle of a chunk, which comes again
                raise


def read_case(data: dict[str, Any]) -> Case:
    return Case.read(Reader(data, data["case_id"]))


def _chunks(missing: Sequence[tuple[str, dict[str, Any]]]) -> list[list[tuple[str, dict[str, Any]]]]:
    """Cases in chunks of at most `CHUNK`, of one suite each: its tasks and their variants share many scenes."""
    by_suite = collections.defaultdict(list)
    for row in missing:
        by_suite[row[1]["task_suite_name"]].append(row)
    out = []
    for rows in by_suite.values():
        rows.sort(key=lambda row: (row[1]["task_index"], row[1]["substrate_category"], row[1]["case_id"]))
        out += [rows[i : i + CHUNK] for i in range(0, len(rows), CHUNK)]
    return out


def judge(chunk: Sequence[tuple[str, dict[str, Any]]], renderer: str) -> list[tuple[str, str, Problems]]:
    """(hash, id, problems) of each case; runs in a worker."""
    from evals.libero import tasks
    from evals.libero.sources.edits import physics_key
    from mjx_bench.errors import BenchError

    out: list[tuple[str, str, Problems]] = []
    loaded: list[tuple[str, Case, Task]] = []
    for key, data in chunk:
        case = read_case(data)
        try:
            loaded.append((key, case, tasks.load_case(case, seeds=(case.policy_seed,))))
        except BenchError as error:
            out.append((key, case.case_id, (str(error),)))
    # Cases of one scene one after another: compiling it and decoding its textures takes as long as ten cases.
    loaded.sort(key=lambda row: (physics_key(row[2]), row[2].scene.key, row[1].case_id))
    with _Bench(renderer) as bench:
        out += [(key, case.case_id, bench.problems(case, task)) for key, case, task in loaded]
    return out


class _Bench:
    """The scene that was last looked at, and its renderer."""

    def __init__(self, renderer: str) -> None:
        self._renderer = renderer
        self._moving, self._drawing = "", ""  # keys of what is held
        self._held = contextlib.ExitStack()

    def __enter__(self) -> _Bench:
        return self

    def __exit__(self, *error: object) -> None:
        self._held.close()

    def problems(self, case: Case, task: Task) -> Problems:
        from evals.libero.sources.edits import physics_key
        from mjx_bench import preflight
        from mjx_bench.errors import BenchError
        from mjx_bench.observe.choice import make_renderer
        from mjx_bench.observe.pictures import Pictures
        from mjx_bench.physics.scene import compile_scene

        try:
            if physics_key(task) != self._moving:
                self._scene = compile_scene(task.scene, ())
                self._known = preflight.Known.of(self._scene)
                self._moving = physics_key(task)
            if task.scene.key != self._drawing:
                self._held.close()
                size, cameras = preflight.PICTURE_SIZE, task.scene.observed[:1]
                self._drawn = make_renderer(self._renderer, _roughly(task.scene), cameras, size, size)
                self._held.callback(self._drawn.close)
                self._drawing = task.scene.key
            pictures = Pictures(self._drawn, task.scene)
            return preflight.Preflight(task, self._scene, pictures, self._known).check(case).problems
        except BenchError as error:
            return (str(error),)


def _roughly(scene: Scene) -> Scene:
    """The scene for pictures of one sample a pixel and of small textures, which take OpenGL a third of the time.

    Whether anything is seen in a picture, and changes in it, does not hang on the smoothness of edges.
    """

    def load() -> mujoco.MjSpec:
        spec = (scene.load_textured_spec or scene.load_spec)()
        spec.visual.quality.offsamples = 0
        for texture in spec.textures:
            if texture.file:
                texture.file = str(_small(Path(spec.texturedir) / texture.file))
        return spec

    return dataclasses.replace(scene, key=f"{scene.key}-rough", load_textured_spec=load)


def _small(path: Path) -> Path:
    """A texture of at most `TEXELS` a side, kept in the cache."""
    from PIL import Image

    kept = path.parents[1] / "small" / path.name
    if not kept.is_file():
        image = Image.open(path).convert("RGB")
        scale = min(1.0, TEXELS / max(image.size))
        width, height = (max(1, round(side * scale)) for side in image.size)
        data = io.BytesIO()
        image.resize((width, height), Image.Resampling.BOX).save(data, "PNG")
        write_atomic(kept, data.getvalue())
    return kept
