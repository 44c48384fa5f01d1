"""The `mjx-bench` command: parses options, runs one command, turns mistakes into one line.

Nothing here or in a command's options imports NumPy, JAX, MuJoCo or a benchmark: `--help` answers at once, and the
environment is set before any of them is loaded. Each command's `run` imports what it needs.
"""

from __future__ import annotations

import contextlib
import errno
import importlib
import io
import os
import sys
import threading
from collections.abc import Sequence
from typing import Annotated, Any

INTERRUPTED = 130  # 128 + SIGINT, what a shell reports

try:
    import tyro

    from mjx_bench import runtime
    from mjx_bench.errors import BenchError
    from scripts import (
        agent,
        bench,
        build,
        dataset,
        demo,
        demos,
        doctor,
        evaluate,
        film,
        inspect_case,
        merge,
        output,
        pair,
        policy,
        preflight,
        report,
        rescore,
        sample,
        serve,
        stopping,
        study,
        suite,
        sweep,
        tasks,
        train,
    )
except KeyboardInterrupt:  # nothing has begun, and there is nothing to say
    raise SystemExit(INTERRUPTED) from None

Command = (
    Annotated[demo.Demo, tyro.conf.subcommand("demo")]
    | Annotated[tasks.Tasks, tyro.conf.subcommand("tasks")]
    | Annotated[pair.Pair, tyro.conf.subcommand("pair")]
    | Annotated[evaluate.Eval, tyro.conf.subcommand("eval")]
    | Annotated[agent.AgentRun, tyro.conf.subcommand("agent")]
    | Annotated[sweep.Sweep, tyro.conf.subcommand("sweep")]
    | Annotated[study.Study, tyro.conf.subcommand("study")]
    | Annotated[report.Report, tyro.conf.subcommand("report")]
    | Annotated[film.Film, tyro.conf.subcommand("film")]
    | Annotated[rescore.Rescore, tyro.conf.subcommand("rescore")]
    | Annotated[merge.Merge, tyro.conf.subcommand("merge")]
    | Annotated[inspect_case.Inspect, tyro.conf.subcommand("inspect")]
    | Annotated[preflight.Preflight, tyro.conf.subcommand("preflight")]
    | Annotated[sample.Sample, tyro.conf.subcommand("sample")]
    | Annotated[suite.Suite, tyro.conf.subcommand("suite")]
    | Annotated[build.Build, tyro.conf.subcommand("build")]
    | Annotated[demos.Demos, tyro.conf.subcommand("demos")]
    | Annotated[dataset.DatasetFiles, tyro.conf.subcommand("dataset")]
    | Annotated[bench.Bench, tyro.conf.subcommand("bench")]
    | Annotated[train.Train, tyro.conf.subcommand("train")]
    | Annotated[policy.PolicyFiles, tyro.conf.subcommand("policy")]
    | Annotated[serve.Serve, tyro.conf.subcommand("serve")]
    | Annotated[doctor.Doctor, tyro.conf.subcommand("doctor")]
)

_RUN: dict[type, Any] = {
    demo.Demo: demo.run,
    tasks.Tasks: tasks.run,
    pair.Pair: pair.run,
    evaluate.Eval: evaluate.run,
    agent.AgentRun: agent.run,
    sweep.Sweep: sweep.run,
    study.Study: study.run,
    report.Report: report.run,
    film.Film: film.run,
    rescore.Rescore: rescore.run,
    merge.Merge: merge.run,
    inspect_case.Inspect: inspect_case.run,
    preflight.Preflight: preflight.run,
    sample.Sample: sample.run,
    suite.Suite: suite.run,
    build.Build: build.run,
    demos.Demos: demos.run,
    dataset.DatasetFiles: dataset.run,
    bench.Bench: bench.run,
    train.Train: train.run,
    policy.PolicyFiles: policy.run,
    serve.Serve: serve.run,
    doctor.Doctor: doctor.run,
}

# Commands that load no simulator, so that a setting of its pictures is nothing to them.
_ON_RECORDS = (report.Report, rescore.Rescore, merge.Merge, dataset.DatasetFiles)

# Commands that go on from what an interrupted one has finished.
_RESUMES = (
    demo.Demo,
    pair.Pair,
    evaluate.Eval,
    agent.AgentRun,
    sweep.Sweep,
    study.Study,
    film.Film,
    build.Build,
    suite.Suite,
    train.Train,
    demos.Demos,
)

BROKEN_PIPE = 141  # 128 + SIGPIPE
TERMINATED = 143  # 128 + SIGTERM


def parse(args: Sequence[str]) -> Any:
    """Returns the options of the command in `args`.

    Raises:
      BenchError: the one-line form of what tyro prints for a mistake.
      SystemExit: after `--help`.
    """
    complaint = io.StringIO()
    try:
        with contextlib.redirect_stderr(complaint):
            return tyro.cli(
                Command,
                prog="mjx-bench",
                description="Evaluates robot policies in pairs: as it is, and with one change in mid-episode.",
                args=list(args),
                config=(tyro.conf.FlagCreatePairsOff, tyro.conf.OmitArgPrefixes),
            )
    except SystemExit as exit_:
        if exit_.code in (0, None):
            raise
        raise BenchError(one_line(complaint.getvalue())) from None


def one_line(box: str) -> str:
    """Joins the text of tyro's error box: the complaint, and the first suggestion if there is one."""
    parts: list[list[str]] = [[]]
    for line in box.splitlines():
        text = line.strip().strip("│|").strip()
        if text.startswith(("╭", "╰", "+-")):
            continue
        if set(text) <= set("─-"):
            parts.append([])
        else:
            parts[-1].append(text)
    words = [part for part in parts if part]
    if not words:
        return "the options could not be read; see mjx-bench --help"
    message = " ".join(words[0])
    for part in words[1:]:
        if part[0].startswith(("Perhaps you meant", "Available subcommands")):
            message += "; " + " ".join(part[:2] if part[0].endswith(":") else part)
    return message


def check_opengl() -> None:
    """Refuses a `MUJOCO_GL` that MuJoCo cannot be imported with, whether pictures are wanted or not.

    Raises:
      BenchError: with the value, and the Debian package of a library that is not there.
    """
    asked = os.environ.get("MUJOCO_GL")
    if not asked:
        return
    try:
        importlib.import_module("mujoco")
    except Exception:
        from mjx_bench.observe.gl_platform import LIBRARIES

        library = LIBRARIES.get(asked.lower().strip())
        cause = "MuJoCo knows no such value"
        if library is not None:
            cause = f"lib{library[0]} does not work here (Debian package {library[1]})"
        raise BenchError(
            f"MUJOCO_GL={asked}: {cause}; unset it, and a platform that works is found by a trial"
        ) from None


def main(argv: Sequence[str] | None = None) -> int:
    """Entry point of a process; see `reserve_stdout` for what `--json` does to it."""
    runtime.configure()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal that lacks a character must not cost a report
    args = sys.argv[1:] if argv is None else list(argv)
    stop = stopping.Stopping()
    with stop if threading.current_thread() is threading.main_thread() else contextlib.nullcontext():
        return _obey(args, stop)


def _obey(args: Sequence[str], stop: stopping.Stopping) -> int:
    options: Any = None
    try:
        options = parse(args)
        if isinstance(options, _RESUMES):
            stop.kept = "; what was finished is kept, and the same command goes on from there"
        if not isinstance(options, _ON_RECORDS):
            check_opengl()
        emit = output.reserve_stdout() if getattr(options, "json", False) else output.no_json
        status: int = _RUN[type(options)](options, emit)
        sys.stdout.flush()
        return status
    except BenchError as error:
        print("mjx-bench: error:", " ".join(str(error).split()), file=sys.stderr)
        return 2
    except KeyboardInterrupt as interrupt:
        print(f"\nmjx-bench: interrupted{stop.kept}", file=sys.stderr)
        return TERMINATED if isinstance(interrupt, stopping.Terminated) else INTERRUPTED
    except BrokenPipeError:
        output.drop_stdout()
        return BROKEN_PIPE
    except OSError as error:
        if error.errno != errno.ENOSPC:
            raise
        output.drop_stdout()
        print(f"mjx-bench: error: cannot write the output: {error.strerror}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
