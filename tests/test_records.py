"""Results folders: what is written comes back, a kill at any byte costs one line, and bad folders are refused by name."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import resource
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mjx_bench.errors import BenchError
from mjx_bench.records import ArrayRef, Header, Record, RunWriter, Shard, git_state, load_run, read_tasks

MANIFEST = json.dumps({"cases": [{"case_id": f"case-{i}"} for i in range(4)]}, indent=2, sort_keys=True) + "\n"
# Of the canonical form: sorted keys, no spaces.
MANIFEST_SHA256 = hashlib.sha256(
    b'{"cases":[{"case_id":"case-0"},{"case_id":"case-1"},{"case_id":"case-2"},{"case_id":"case-3"}]}'
).hexdigest()

HEADER = Header(
    mjx_bench_version="0.1.0",
    git_commit="abc",
    git_dirty=False,
    packages={"mujoco": "3.17.0"},
    device="test machine",
    settings={"policy": "scripted.reactive", "query_interval": 8, "physics": {"backend": "c", "tolerance": 1e-8}},
    manifest_sha256=MANIFEST_SHA256,
    assets={"scene": "0" * 64},
    created="2026-01-01T00:00:00+00:00",
)


def record(case: int = 0, arm: str = "base", **changes: Any) -> Record:
    fields: dict[str, Any] = {
        "case_id": f"case-{case}",
        "arm": arm,
        "verdict": "success",
        "reason": "",
        "success": True,
        "end_step": 90,
        "success_step": 90,
        "success_end": True,
        "trigger_step": 34,
        "trigger_distance_m": 0.1799,
        "first_response_step": 40,
        "common_response_step": None,
        "stale_actions": 6,
        "n_queries": 12,
        "base_key": "0123456789abcdef",
        "suite": "libero_object",
        "task_index": 0,
        "task_name": "pick_up_the_soup",
        "init_state_index": 3,
        "policy_seed": 195,
        "change_type": "target_relocation",
        "change_family": "GEO",
        "severity": "high",
        "draw": 1,
        "event": {"before": [0.0, 1.0], "after": [0.1, 1.0]} if arm == "dynamic" else None,
        "fork_sha256": "f" * 64,
        "init_sha256": "1" * 64,
        "timing": {"policy_s": 0.25},
    }
    return Record(**(fields | changes))


def arrays(seed: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    return {"actions": rng.normal(size=(9, 7)).astype(np.float32), "eef_pos": rng.normal(size=(9, 3))}


def write(folder: Path, todo: list[tuple[int, str]]) -> None:
    with RunWriter.open(folder, HEADER, MANIFEST) as writer:
        for case, arm in todo:
            if record(case, arm).key not in writer.done:
                writer.append(record(case, arm), arrays(case))


ALL = [(0, "base"), (0, "dynamic"), (1, "base")]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write(tmp_path / "run", ALL)
    return tmp_path / "run"


def refused(folder: Path) -> str:
    """The message that both reading and continuing give."""
    with pytest.raises(BenchError) as read:
        load_run(folder)
    with pytest.raises(BenchError) as resume:
        RunWriter.open(folder, HEADER, MANIFEST)
    assert str(read.value) == str(resume.value)
    assert "\n" not in str(read.value)
    return str(read.value)


def test_what_is_written_comes_back(folder: Path):
    run = load_run(folder)
    assert run.header == HEADER
    assert run.case_ids == ("case-0", "case-1", "case-2", "case-3")
    assert list(run.done) == [("case-0", "base"), ("case-0", "dynamic"), ("case-1", "base")]
    for (case, arm), got in zip(ALL, run.records, strict=True):
        assert dataclasses.replace(got, arrays={}) == record(case, arm)
        for name, want in arrays(case).items():
            back = np.asarray(run.array(got, name))
            assert back.dtype == want.dtype
            np.testing.assert_array_equal(back, want)
    assert (folder / "manifest.json").read_text() == MANIFEST
    lines = (folder / "records.jsonl").read_text().splitlines()
    assert len(lines) == 3
    assert {"case_id", "arm", "verdict", "end_step", "trigger_step", "first_response_step", "stale_actions"} <= set(
        json.loads(lines[0])
    )


@pytest.mark.parametrize(
    "array",
    [
        np.zeros((0, 16, 7), np.float32),
        np.array(3.5),
        np.arange(6, dtype=np.int32).reshape(2, 3).T,
        np.array([True, False]),
        np.arange(3, dtype=np.uint64),
        np.arange(3, dtype=np.int8),
        np.arange(4, dtype=np.float16),
    ],
    ids=lambda a: f"{a.dtype}{a.shape}",
)
def test_arrays_of_every_kind(tmp_path: Path, array: np.ndarray):
    with RunWriter.open(tmp_path, HEADER, MANIFEST) as writer:
        done = writer.append(record(), {"x": array})
        back = np.asarray(writer.array(done, "x"))
    assert back.dtype == array.dtype
    np.testing.assert_array_equal(back, array)
    assert done.arrays["x"].nbytes == array.nbytes


def test_arrays_that_cannot_be_written(tmp_path: Path):
    with RunWriter.open(tmp_path, HEADER, MANIFEST) as writer:
        for bad, says in [([1, 2], "no buffer"), (np.array(["a"]), "not a plain"), (np.array([1j]), "not a plain")]:
            with pytest.raises(BenchError, match=says):
                writer.append(record(), {"x": bad})
        with pytest.raises(BenchError, match="past the end"):
            writer.append(record(arrays={"x": ArrayRef(0, (100,), "<f8", "0")}))
    assert (tmp_path / "arrays.bin").stat().st_size == 0
    assert (tmp_path / "records.jsonl").stat().st_size == 0


def test_a_shared_base_points_at_the_same_bytes(folder: Path):
    size = (folder / "arrays.bin").stat().st_size
    with RunWriter.open(folder, HEADER, MANIFEST) as writer:
        first = writer.done["case-0", "base"]
        writer.append(record(2, arrays=first.arrays))
    assert (folder / "arrays.bin").stat().st_size == size
    run = load_run(folder)
    np.testing.assert_array_equal(run.array(run.done["case-2", "base"], "eef_pos"), arrays(0)["eef_pos"])


def test_a_kill_at_any_byte_costs_at_most_the_unfinished_arm(tmp_path: Path, folder: Path):
    whole = {name: (folder / name).read_bytes() for name in ("records.jsonl", "arrays.bin")}
    kept = len(b"".join(whole["records.jsonl"].splitlines(keepends=True)[:2]))
    used = load_run(folder).done["case-1", "base"].arrays["actions"].offset
    # The last arm's arrays are written first, then its line: every state in between is a prefix of one of them.
    lengths = {name: len(content) for name, content in whole.items()}
    cuts = [(kept, n) for n in (*range(used, lengths["arrays.bin"], 37), lengths["arrays.bin"])]
    ends = range(lengths["records.jsonl"] - 3, lengths["records.jsonl"] + 1)
    cuts += [(n, lengths["arrays.bin"]) for n in (*range(kept, kept + 3), *range(kept, ends[0], 41), *ends)]
    broken = tmp_path / "broken"
    for lines, data in cuts:
        shutil.copytree(folder, broken)
        (broken / "records.jsonl").write_bytes(whole["records.jsonl"][:lines])
        (broken / "arrays.bin").write_bytes(whole["arrays.bin"][:data])
        assert len(load_run(broken).records) == (3 if lines == len(whole["records.jsonl"]) else 2)
        write(broken, ALL)
        for name, content in whole.items():
            assert (broken / name).read_bytes() == content, (lines, data)
        shutil.rmtree(broken)


def test_a_kill_before_the_header_is_not_fatal(tmp_path: Path):
    (tmp_path / "records.jsonl").touch()
    (tmp_path / "manifest.json").write_text("{half")
    write(tmp_path, ALL)
    assert len(load_run(tmp_path).records) == 3


def test_every_continuation_is_noted(folder: Path):
    later = dataclasses.replace(
        HEADER, created="2026-01-02T00:00:00+00:00", git_commit="def", git_dirty=True, device="other"
    )
    RunWriter.open(folder, later, MANIFEST).close()
    header = load_run(folder).header
    assert (header.created, header.git_commit) == (HEADER.created, "abc")
    (note,) = header.resumed
    assert note == {
        "created": "2026-01-02T00:00:00+00:00",
        "git_commit": "def",
        "git_dirty": True,
        "device": "other",
    }


@pytest.mark.parametrize(
    ("field", "value", "says"),
    [
        ("mjx_bench_version", "0.2.0", "mjx_bench_version = '0.1.0', now it is '0.2.0'"),
        ("packages", {"mujoco": "3.18.0"}, "packages.mujoco = '3.17.0', now it is '3.18.0'"),
        ("assets", {}, "assets.scene"),
        ("manifest_sha256", "0" * 64, "made with other cases (4 then as now, of another manifest)"),
        (
            "settings",
            {**HEADER.settings, "query_interval": 16},
            "settings.query_interval = 8, now it is 16",
        ),
        (
            "settings",
            {**HEADER.settings, "physics": {"backend": "c", "tolerance": 1e-6}},
            "settings.physics.tolerance = 1e-08, now it is 1e-06",
        ),
        ("settings", {**HEADER.settings, "seed": 1}, "settings.seed = None, now it is 1"),
    ],
)
def test_other_settings_are_refused(folder: Path, field: str, value: Any, says: str):
    before = {p.name: p.read_bytes() for p in folder.iterdir()}
    with pytest.raises(BenchError) as e:
        RunWriter.open(folder, dataclasses.replace(HEADER, **{field: value}), MANIFEST)
    assert says in str(e.value)
    assert str(folder) in str(e.value)
    assert {p.name: p.read_bytes() for p in folder.iterdir()} == before


def test_what_was_chosen_is_named_before_what_follows_from_it_and_how_to_continue(tmp_path: Path):
    made = dataclasses.replace(
        HEADER,
        settings={
            "backend": "c",
            "scene_form": "exact",
            "replay": False,
            "no_event": True,
            "policy": "zero",
            "tile": None,
        },
    )
    RunWriter.open(tmp_path / "run", made, MANIFEST).close()
    jax = {"packages": {"jax": "0.10.2"}, "assets": {"scene": "1" * 64}, "mjx_bench_version": "0.2.0"}
    for changed, says in (
        (
            {"backend": "jax", "tile": 8},
            r"settings\.backend = 'c', now it is 'jax'; give --backend c to continue, or use",
        ),
        (
            {"scene_form": "lean"},
            r"settings\.scene_form = 'exact', now it is 'lean'; give --scene-form exact to continue",
        ),
        ({"replay": True}, r"settings\.replay = False, now it is True; leave out --replay to continue"),
        ({"no_event": False}, r"settings\.no_event = True, now it is False; give --event none to continue"),
        ({"policy": "random", "backend": "jax"}, r"settings\.policy = 'zero', now it is 'random'; give --policy zero"),
    ):
        other = dataclasses.replace(made, settings={**made.settings, **changed}, **jax)
        with pytest.raises(BenchError, match=f"this folder was made with {says}"):
            RunWriter.open(tmp_path / "run", other, MANIFEST)
    shard = Shard(0, 2, HEADER.manifest_sha256, ())
    with pytest.raises(BenchError, match=r"made with shard none, now it is 0/2; leave out --shard to continue"):
        RunWriter.open(tmp_path / "run", dataclasses.replace(made, shard=shard), MANIFEST)
    with pytest.raises(BenchError, match=r"packages\.jax = None, now it is '0\.10\.2'; run without jax to continue"):
        RunWriter.open(
            tmp_path / "run", dataclasses.replace(made, packages={**made.packages, "jax": "0.10.2"}), MANIFEST
        )


@pytest.mark.parametrize(
    ("ids", "says"),
    [
        (range(3), r"4 then, 3 now"),
        ((0, 1, 3, 2), r"case 2 was 'case-2', now 'case-3'"),
    ],
)
def test_other_cases_are_said_in_words(folder: Path, ids: Any, says: str):
    cases = {"cases": [{"case_id": f"case-{i}"} for i in ids]}
    text = json.dumps(cases)
    digest = hashlib.sha256(json.dumps(cases, separators=(",", ":")).encode()).hexdigest()
    changed = dataclasses.replace(HEADER, manifest_sha256=digest, packages={}, assets={})
    with pytest.raises(BenchError, match=rf"made with other cases \({says}\); choose the cases as then \(--suite"):
        RunWriter.open(folder, changed, text)


def test_one_writer_at_a_time(folder: Path):
    with (
        RunWriter.open(folder, HEADER, MANIFEST),
        pytest.raises(BenchError, match="another process is writing"),
    ):
        RunWriter.open(folder, HEADER, MANIFEST)
    RunWriter.open(folder, HEADER, MANIFEST).close()


def test_an_arm_is_recorded_once(folder: Path):
    with RunWriter.open(folder, HEADER, MANIFEST) as writer:
        with pytest.raises(BenchError, match="'case-0' arm base is recorded already"):
            writer.append(record(0, "base"))
        with pytest.raises(BenchError, match=r"'case-9' is not in this folder's manifest\.json"):
            writer.append(record(9, "base"))
    lines = (folder / "records.jsonl").read_text()
    (folder / "records.jsonl").write_text(lines + lines.splitlines()[0] + "\n")
    assert "records.jsonl line 4: case 'case-0' arm base repeats line 1" in refused(folder)


def edit_line(folder: Path, number: int, edit: Any) -> None:
    lines = (folder / "records.jsonl").read_text().splitlines()
    data = json.loads(lines[number - 1])
    edit(data)
    lines[number - 1] = json.dumps(data)
    (folder / "records.jsonl").write_text("\n".join(lines) + "\n")


@pytest.mark.parametrize(
    ("edit", "says"),
    [
        ({"verdict": "succes"}, "verdict = 'succes': expected one of success,"),
        ({"arm": "control"}, "arm = 'control'"),
        ({"end_step": None}, "end_step = None: expected an integer >= 0"),
        ({"end_step": 1.0}, "end_step = 1.0"),
        ({"trigger_step": -1}, "trigger_step = -1"),
        ({"trigger_distance_m": "0.1"}, "trigger_distance_m = '0.1'"),
        ({"success": False}, "success = False: expected True with verdict 'success'"),
        ({"verdict": "void"}, "success = True: expected None with verdict 'void'"),
        ({"schema": 1}, "schema = 1: expected 2, the layout that this version reads; use the version"),
        ({"extra": 1}, "unknown field 'extra'"),
        ({"event": {}}, "event = {}: expected null in the base arm"),
        ({"timing": {"a": "b"}}, "timing.a = 'b'"),
        ({"arrays": {"x": {"offset": 0}}}, "arrays.x.shape is missing"),
        ({"arrays": {"x": {"offset": 0, "shape": [1], "dtype": "O", "sha256": "0"}}}, "arrays.x.dtype = 'O'"),
    ],
)
def test_a_broken_line_is_named(folder: Path, edit: dict[str, Any], says: str):
    edit_line(folder, 3, lambda data: data.update(edit))
    text = refused(folder)
    assert text.startswith(f"{folder / 'records.jsonl'} line 3: ")
    assert says in text


def test_missing_fields_and_torn_lines_in_the_middle(folder: Path):
    edit_line(folder, 2, lambda data: data.pop("reason"))
    assert "line 2: reason is missing" in refused(folder)
    path = folder / "records.jsonl"
    path.write_text(path.read_text().replace('"schema": 2', '"schema"', 1))
    assert "line 2: not valid JSON" in refused(folder)
    path.write_text("\0\0\n")
    assert "line 1: not valid JSON" in refused(folder)


def test_folders_that_are_not_results(tmp_path: Path, folder: Path):
    with pytest.raises(BenchError, match="not a results folder"):
        load_run(tmp_path / "none")
    (folder / "run.json").rename(folder / "gone")
    with pytest.raises(BenchError, match=r"records\.jsonl without run\.json"):
        RunWriter.open(folder, HEADER, MANIFEST)
    (folder / "run.json").write_text(json.dumps({**HEADER.to_json(), "schema": 99}))
    assert "run.json: schema = 99: expected 2" in refused(folder)
    (tmp_path / "file").touch()
    with pytest.raises(BenchError, match="cannot write"):
        RunWriter.open(tmp_path / "file", HEADER, MANIFEST)


def test_a_changed_manifest_is_refused(folder: Path):
    (folder / "manifest.json").write_text(MANIFEST.replace("case-3", "case-4"))
    assert "not the manifest that run.json names" in refused(folder)


def test_tasks_are_kept_with_the_run_and_held_to_their_hash(tmp_path: Path, folder: Path):
    text, sha256 = '{"t": {"horizon": 1}}', hashlib.sha256(b'{"t":{"horizon":1}}').hexdigest()
    header = dataclasses.replace(HEADER, tasks_sha256=sha256)
    RunWriter.open(tmp_path / "judged", header, MANIFEST, text).close()
    run = load_run(tmp_path / "judged")
    assert read_tasks(run.directory, run.header) == {"t": {"horizon": 1}}
    (run.directory / "tasks.json").write_text('{"t": {"horizon": 2}}')
    with pytest.raises(BenchError, match=r"not the tasks that run\.json names"):
        read_tasks(run.directory, run.header)
    with pytest.raises(BenchError, match=r"not the tasks that run\.json names"):
        RunWriter.open(run.directory, header, MANIFEST, text)
    with pytest.raises(BenchError, match=r"no tasks\.json was written with this run"):
        read_tasks(folder, load_run(folder).header)


def test_a_shard_is_continued_as_that_shard_only(tmp_path: Path):
    shard = Shard(0, 2, "0" * 64, ("case-0", "other"))
    header = dataclasses.replace(HEADER, shard=shard)
    RunWriter.open(tmp_path, header, MANIFEST).close()
    assert load_run(tmp_path).header.shard == shard
    for other, says in [
        (None, "shard 0/2, now it is none; give --shard 0/2 to continue"),
        (dataclasses.replace(shard, count=3), "shard 0/2, now it is 0/3; give --shard 0/2 to continue"),
        (dataclasses.replace(shard, case_ids=("case-0",)), "other cases \\(4 then as now, of another manifest\\)"),
    ]:
        with pytest.raises(BenchError, match=says):
            RunWriter.open(tmp_path, dataclasses.replace(header, shard=other), MANIFEST)
    data = json.loads((tmp_path / "run.json").read_text())
    data["shard"]["index"] = 2
    (tmp_path / "run.json").write_text(json.dumps(data))
    with pytest.raises(BenchError, match=r"shard\.index = 2: expected an integer below count = 2"):
        load_run(tmp_path)


def test_lost_or_changed_arrays_are_seen(folder: Path):
    path = folder / "arrays.bin"
    whole = path.read_bytes()
    path.write_bytes(whole[:1] + b"\x99" + whole[2:])
    run = load_run(folder)
    with pytest.raises(BenchError, match="do not match their recorded sha256"):
        run.array(run.records[0], "actions")
    path.write_bytes(whole[:-1])
    with pytest.raises(BenchError, match="ends before byte"):
        run.array(run.records[2], "eef_pos")
    with pytest.raises(BenchError, match="shorter than"):
        RunWriter.open(folder, HEADER, MANIFEST)
    with pytest.raises(BenchError, match="no array 'chunks'; recorded: actions, eef_pos"):
        run.array(run.records[0], "chunks")


def test_a_full_disk_loses_nothing_finished(folder: Path):
    """A limit on the size of files stands for the full disk: writes fail half-way with an OSError."""
    before = {name: (folder / name).read_bytes() for name in ("records.jsonl", "arrays.bin")}
    with RunWriter.open(folder, HEADER, MANIFEST) as writer:
        old = resource.getrlimit(resource.RLIMIT_FSIZE)
        room = {name: len(content) + 30 for name, content in before.items()}
        assert room["arrays.bin"] < room["records.jsonl"]
        for limit, arm in [(room["arrays.bin"], {"x": np.zeros(10)}), (room["records.jsonl"], {})]:
            resource.setrlimit(resource.RLIMIT_FSIZE, (limit, old[1]))
            try:
                with pytest.raises(BenchError, match="cannot write: File too large; finished arms are kept"):
                    writer.append(record(2), arm)
            finally:
                resource.setrlimit(resource.RLIMIT_FSIZE, old)
            assert {name: (folder / name).read_bytes() for name in before} == before
        writer.append(record(2), {"x": np.zeros(10)})
    assert len(load_run(folder).records) == 4


def test_a_bad_record_fails_when_it_is_made(tmp_path: Path):
    with RunWriter.open(tmp_path, HEADER, MANIFEST) as writer:
        for bad, says in [
            ({"trigger_distance_m": float("nan")}, "not representable as JSON"),
            ({"end_step": np.int64(3)}, "not representable as JSON"),
            ({"verdict": "timeout"}, "success = True: expected False"),
        ]:
            with pytest.raises(BenchError, match=says):
                writer.append(record(**bad))
        writer.append(record())
    assert len(load_run(tmp_path).records) == 1


def test_results_compare_without_times_and_places(folder: Path):
    a = load_run(folder).records[0]
    moved = {name: dataclasses.replace(ref, offset=ref.offset + 8) for name, ref in a.arrays.items()}
    b = dataclasses.replace(a, timing={"policy_s": 9.0}, arrays=moved)
    assert a != b
    assert a.result() == b.result()
    assert dataclasses.replace(a, end_step=1).result() != a.result()


def test_the_header_looks_things_up():
    header = Header.collect({"policy": "zero"}, "0" * 64, packages={"numpy": np.__version__}, assets={})
    assert Header.from_json(json.loads(json.dumps(header.to_json())), "run.json") == header
    assert git_state(Path("/nowhere")) == (None, None)


def test_reading_needs_the_standard_library_only(folder: Path):
    script = f"""
import sys
sys.modules["numpy"] = None
from mjx_bench.records import load_run
run = load_run({str(folder)!r})
print(len(run.records), len(run.array(run.records[0], "actions").data))
"""
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, cwd=Path(__file__).parents[1]
    )
    assert done.stdout.split() == ["3", str(9 * 7 * 4)]
