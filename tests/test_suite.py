"""LIBERO-MAX's cases: the released ones from the rules, the choice of cases, Lite, preflight that resumes, the commands."""

from __future__ import annotations

import collections
import dataclasses
import hashlib
import json
import random
import re
from pathlib import Path

import pytest

from evals.libero import tasks, variants
from evals.libero_max import choosing, construction, pool, screening, suite, suite_check
from evals.libero_max.released import Source, case_of, eligible
from mjx_bench.cases import EVENT_ORDER, Manifest, dump_manifest, load_manifest, manifest_sha256
from mjx_bench.errors import BenchError
from mjx_bench.observe.choice import choose
from tests.libero_oracle import needs_libero
from tests.scenes import libero_task
from tests.test_cli import mjx_bench
from tests.test_libero_pro import CATALOGUE, RELEASED, needs_catalogue, needs_released

pytestmark = needs_libero

SEMANTIC = ("semantic", "object", "position", "task")  # whose scenes LIBERO may have to build first


def released_cases(extended: bool):
    for case in json.loads(RELEASED.read_text())["cases"]:
        if (case["substrate_variant"]["category"] not in SEMANTIC) == extended:
            yield case


def same_as_released(cases) -> int:
    """How many released cases there are; each must follow from its source, event and draw, every field of it."""
    loaded = {}
    count = 0
    for case in cases:
        variant, scenario = case["substrate_variant"], case["scenario"]
        place = case["task_suite_name"], case["task_index"]
        key = (variant["category"], *place)
        task = loaded.get(key) or loaded.setdefault(key, tasks.load_variant(variant, *place))
        source = Source("pro", variant["category"], *place, "", case["init_state_index"])
        made = case_of(source, variant, task, scenario["change_type"], scenario["randomization"]["draw_id"])
        assert made == case
        assert scenario["change_type"] in eligible(task)
        own = pool.variant_of(dataclasses.replace(source, init_state=0))
        for field in ("bddl_file", "init_reference_bddl_file", "init_states_file", "language"):
            assert own[field] == variant[field]
        count += 1
    return count


@needs_released
def test_released_cases_of_the_extended_categories_follow_from_the_rules_in_every_field():
    assert same_as_released(released_cases(extended=True)) == 480


@needs_released
@pytest.mark.slow
def test_released_cases_of_the_classic_categories_follow_from_the_rules_in_every_field():
    assert same_as_released(released_cases(extended=False)) == 320


@needs_catalogue
def test_tasks_can_have_the_events_that_the_release_lets_them_have():
    rows = [r for r in json.loads(CATALOGUE.read_text())["tasks"] if r["pro_category"] == "camera_view_angle"]
    assert len(rows) == 40
    for row in rows:
        task = libero_task(row["task_suite_name"], row["task_index"])
        assert set(eligible(task)) == set(row["eligible_change_types"]), row["bddl_file"]


# The pool.


def test_the_pool_has_as_many_variants_as_libero_plus_each_named_once():
    for category, counts in pool.COUNTS.items():
        sources = pool.plus_sources(category)
        assert len(sources) == len(set(sources)) == sum(counts)
        by_suite = collections.Counter(s.suite for s in sources)
        assert tuple(by_suite[name] for name in pool.SUITES) == counts
        for source in sources[::97]:
            variant = pool.variant_of(source)
            assert variants.is_regenerated(variant)
            assert source.name in variant["bddl_file"]
    assert len(pool.pro_sources("semantic")) == 400


def test_strength_goes_with_the_parameters():
    def of(category: str, name: str) -> int | None:
        return pool.strength(Source("plus", category, "libero_spatial", 0, name))

    assert [of("Robot Initial States", f"view_0_0_100_0_0_initstate_{k}") for k in (1, 100, 101, 500)] == [1, 1, 2, 5]
    noise = [of("Sensor Noise", f"view_0_0_100_0_0_initstate_0_noise_{m}") for m in (1, 10, 11, 50)]
    assert noise == [1, 5, 1, 5]
    views = [of("Camera Viewpoints", f"view_{v}_initstate_0") for v in ("5_0_100_0_0", "0_15_100_0_0", "300_0_100_0_0")]
    assert views == [1, 1, 4]
    assert of("Light Conditions", "light_3") is None


# Choosing.

SLOTS = (("illumination_switch", 0), ("illumination_switch", 1), ("distractor_burst", 0))


def made_up(count: int) -> list[Source]:
    return [Source("plus", "Light Conditions", "libero_object", i % 10, f"light_{i + 1}") for i in range(count)]


def events(source: Source) -> tuple[str, ...]:
    return ("illumination_switch", "distractor_burst") if source.index < 4 else ("illumination_switch",)


def test_a_matching_fills_every_cell_with_variants_of_their_own():
    sources = made_up(40)

    def strong(source: Source) -> int:
        return source.index // 5

    picks = choosing.fill_plus(sources, events, SLOTS, (), (), strong, size=10)
    assert collections.Counter(slot for _, slot in picks) == dict.fromkeys(SLOTS, 10)
    assert len({source for source, _ in picks}) == 30
    assert all(slot[0] in events(source) for source, slot in picks)
    assert collections.Counter(strong(source) for source, _ in picks) == {0: 15, 1: 15}
    assert choosing.fill_plus(sources, events, SLOTS, (), (), strong, size=10) == picks


def test_what_failed_is_replaced_inside_its_cell_and_what_passed_stays():
    sources = made_up(40)
    first = choosing.fill_plus(sources, events, SLOTS, (), (), lambda s: None, size=10)
    failed, passed = set(first[::4]), [p for i, p in enumerate(first) if i % 4]
    more = choosing.fill_plus(sources, events, SLOTS, failed, passed, lambda s: None, size=10)
    assert not failed & set(more)
    assert collections.Counter(slot for _, slot in more) == dict.fromkeys(SLOTS, 10)
    assert len({source for source, _ in more}) == 30
    assert choosing.fill_plus(sources, events, SLOTS, failed, more, lambda s: None, size=10) == more
    # All of these can have the burst, which needs ten: what has passed elsewhere makes room.
    able = [s for s in sources if s.index < 4]
    elsewhere = [(s, SLOTS[0]) for s in able[:10]]
    made = choosing.fill_plus(sources, events, SLOTS, (), elsewhere, lambda s: None, size=10)
    assert collections.Counter(slot for _, slot in made) == dict.fromkeys(SLOTS, 10)
    free = choosing.fill_plus(made_up(80), events, SLOTS, failed, passed, lambda s: None, size=10)
    assert set(passed) <= set(free)


def test_too_few_variants_are_said_so():
    with pytest.raises(BenchError, match="Light Conditions: 2 of 30 places are left without a variant"):
        choosing.fill_plus(made_up(28), events, SLOTS, (), (), lambda s: None, size=10)
    with pytest.raises(BenchError, match="is left without configurations"):
        choosing.fill_pro(made_up(3), events, SLOTS, (), (), collections.Counter(), size=4)


def test_pro_cells_take_tasks_in_turn_and_stay_with_what_works():
    sources = [Source("pro", "semantic", "libero_object", i, "", row) for i in range(5) for row in range(10)]
    used: collections.Counter[tuple[str, str, int]] = collections.Counter()
    slots = SLOTS[:2]
    picks = choosing.fill_pro(sources, lambda s: ("illumination_switch",), slots, (), (), used, size=10)
    for slot in slots:
        inside = [source for source, at in picks if at == slot]
        assert len(set(inside)) == 10
        assert set(collections.Counter(s.index for s in inside).values()) == {2}
    assert set(used.values()) == {4}
    passed = [pick for pick in picks if pick[0].index < 2]
    more = choosing.fill_pro(sources, lambda s: ("illumination_switch",), slots, picks[4:], passed, used, size=10)
    assert {source.index for source, _ in more} <= {0, 1}  # tasks that have passed come first


# Lite.


def a_manifest() -> Manifest:
    """8,000 cases whose ids say where they are from; their contents are of no matter."""
    task = libero_task("libero_object", 0)
    cases = []
    for event in EVENT_ORDER:
        source = Source("pro", "object_shape", "libero_object", 0)
        data = case_of(source, pool.variant_of(source), task, event, 0)
        (case,) = construction._manifest([data], 1).cases
        ids = [f"plus-{event}-{i:03d}" for i in range(700)] + [f"pro-{event}-{i:03d}" for i in range(300)]
        cases += [dataclasses.replace(case, case_id=name) for name in ids]
    return dataclasses.replace(construction._manifest([data], 1), cases=tuple(sorted(cases, key=lambda c: c.case_id)))


def test_lite_is_drawn_by_the_published_rule():
    lite = suite.lite_of(a_manifest())
    rng = random.Random(20260830)
    expected = []
    for event in sorted(EVENT_ORDER):
        for track, size, quota in (("plus", 700, 70), ("pro", 300, 30)):
            drawn = rng.sample([f"{track}-{event}-{i:03d}" for i in range(size)], quota)
            expected += [(event, track, name) for name in drawn]
    assert [c.case_id for c in lite.cases] == [name for *_, name in sorted(expected)]
    assert len(lite.cases) == 800
    assert lite.protocol.profile == "lite"
    few = dataclasses.replace(a_manifest(), cases=tuple(c for c in a_manifest().cases if not c.case_id.endswith("9")))
    assert len(suite.lite_of(few).cases) == 800
    none = dataclasses.replace(few, cases=tuple(c for c in few.cases if "pro-camera_shift" not in c.case_id))
    with pytest.raises(BenchError, match="0 pro cases of camera_shift, and Lite takes 30"):
        suite.lite_of(none)


# The whole, on one suite's few tasks.


@pytest.fixture
def small(monkeypatch):
    """Two categories, on the ten tasks of libero_object."""
    plus, pro = (
        [s for s in made("Sensor Noise" if i == 0 else "camera_view_angle") if s.suite == "libero_object"]
        for i, made in enumerate((pool.plus_sources, pool.pro_sources))
    )
    monkeypatch.setattr(pool, "categories", lambda: (("plus", "Sensor Noise"), ("pro", "camera_view_angle")))
    monkeypatch.setattr(pool, "plus_sources", lambda category: tuple(plus))
    monkeypatch.setattr(pool, "pro_sources", lambda category: tuple(pro))


def picky(cases):
    """Fails a fifth of all cases, by their ids alone."""
    return [("x touches y",) * (int(hashlib.sha256(c["case_id"].encode()).hexdigest(), 16) % 5 == 0) for c in cases]


def test_cells_are_full_two_builds_are_one_and_every_case_is_checked(small, tmp_path):
    built = construction.build(picky, part=5)
    again = construction.build(picky, part=5)
    assert manifest_sha256(built.manifest) == manifest_sha256(again.manifest)
    assert manifest_sha256(built.lite) == manifest_sha256(again.lite)
    cells = collections.Counter((c.substrate_category, c.event, c.scenario.draw) for c in built.manifest.cases)
    assert set(cells.values()) == {10, 3}
    assert len(cells) == 32
    assert not any(problems for problems in picky([c.to_json() for c in built.manifest.cases]))
    assert built.failures == {"touches something new": built.tried - len(built.manifest.cases)}
    assert len(built.lite.cases) == 8 * (14 + 6) - 8 * (14 - 14)
    summary = suite.write(built, tmp_path)
    assert summary[suite.MAX]["event"] == dict.fromkeys(EVENT_ORDER, 26)
    assert suite_check.check(tmp_path) == []
    assert manifest_sha256(suite.load_suite("libero-max-lite", tmp_path)) == manifest_sha256(built.lite)


def test_a_suite_that_was_changed_is_found_out(small, tmp_path):
    built = construction.build(lambda cases: [()] * len(cases), part=5)
    suite.write(built, tmp_path)
    path = tmp_path / suite.FILES[suite.MAX]
    data = json.loads(path.read_text())
    moved = next(c for c in data["cases"] if c["scenario"]["change_type"] == "target_relocation")
    moved["scenario"]["change"]["delta_position_m"] = [0.5, 0.0, 0.0]
    del data["cases"][0]
    path.write_text(dump_manifest(Manifest.read(data)))
    findings = suite_check.check(tmp_path)
    assert any("is not the file that was built" in line for line in findings)
    assert any("expected 10" in line or "expected 3" in line for line in findings)
    assert any("delta_position_m" in line for line in findings)
    assert any("delta_position_m" in line for line in suite_check.check(path))
    with pytest.raises(BenchError, match="no checksums; is a suite built there"):
        suite_check.check(tmp_path / "..")


def test_a_name_that_is_no_suite_or_not_built(tmp_path):
    with pytest.raises(BenchError, match="did you mean libero-max-lite"):
        suite.load_suite("libero-max-light")
    with pytest.raises(BenchError, match=r"libero-max is not built there; .* --manifest DIR/libero_max\.json"):
        suite.load_suite("libero-max", tmp_path)


def test_the_command_shows_and_checks_a_suite(small, tmp_path):
    built = construction.build(lambda cases: [()] * len(cases), part=5)
    suite.write(built, tmp_path)
    path = tmp_path / suite.FILES[suite.MAX]
    shown = mjx_bench("suite", "show", "libero-max-lite", "--folder", str(tmp_path), "--json")
    assert shown.returncode == 0, shown.stderr
    found = json.loads(shown.stdout)
    assert found["cases"] == len(built.lite.cases)
    assert {"event", "source", "category", "variant"} <= found.keys()
    assert found["variant"] == {"regenerated": len(built.lite.cases)}
    assert suite_check.check(path) == []
    path.write_text(path.read_text().replace('"scale": 0.2', '"scale": 0.3'))
    wrong = mjx_bench("suite", "check", str(path))
    assert wrong.returncode == 1
    assert "change.scale" in wrong.stdout or "scale = 0.3, expected 0.2" in wrong.stdout
    absent = mjx_bench("suite", "show", "libero-max", "--folder", str(tmp_path / "none"))
    assert absent.returncode == 2
    assert "is not built there; mjx-bench suite build libero-max" in absent.stderr


def test_a_manifest_alone_is_counted_and_its_version_read(small, tmp_path):
    built = construction.build(lambda cases: [()] * len(cases), part=5)
    suite.write(built, tmp_path)
    whole, lite = (tmp_path / suite.FILES[name] for name in suite.NAMES)
    assert suite_check.check(lite) == []
    data = json.loads(lite.read_text())
    data["cases"], data["benchmark_version"] = data["cases"][1:], "3.0.0"
    lite.write_text(json.dumps(data))
    version, count = suite_check.check(lite)
    assert "of version '3.0.0', and this project builds version '1'" in version
    assert re.search(r"\d+ (plus|pro) cases of camera_shift, expected \d+$", count)
    lite.unlink()
    assert suite_check.check(tmp_path) == [f"{lite}: is missing"]
    data = json.loads(whole.read_text())
    del data["cases"][0]["substrate_variant"]
    whole.write_text(json.dumps(data))
    assert any("no substrate_variant" in line for line in suite_check.check(whole))


@needs_released
def test_any_manifest_can_be_shown():
    found = suite.counts(load_manifest(RELEASED.parent.parent / "v1" / "core.json"))
    assert (found["source"], found["variant"], found["strength"]) == ({"plain": 1335}, {"exact": 1335}, {})


# Preflight of many.


def renderer_or_skip(name: str) -> str:
    try:
        choose(name)
    except (BenchError, ImportError) as error:
        pytest.skip(str(error))
    return name


def some_cases() -> list[dict]:
    task = libero_task("libero_object", 0)
    sources = [
        Source("plus", "Sensor Noise", "libero_object", 0, "view_0_0_100_0_0_initstate_0_noise_3"),
        Source("plus", "Camera Viewpoints", "libero_object", 0, "view_10_0_100_0_0_initstate_0"),
        Source("pro", "camera_view_angle", "libero_object", 0, "", 2),
    ]
    chosen = ("sensor_noise_onset", "target_relocation", "illumination_switch")
    return [case_of(s, pool.variant_of(s), task, e, 1) for s, e in zip(sources, chosen, strict=True)]


def test_preflight_is_kept_and_goes_on_after_a_kill(tmp_path, monkeypatch):
    gl = renderer_or_skip("gl")
    path, cases = tmp_path / "verdicts.jsonl", some_cases()
    found = screening.Screen(path, 1, gl).check(cases)
    assert found[0] == ()
    assert len(path.read_text().splitlines()) == 3
    path.write_text(path.read_text()[:-20])  # killed while it wrote

    judged = []
    judge = screening.judge
    monkeypatch.setattr(screening, "judge", lambda chunk, name: judged.extend(chunk) or judge(chunk, name))
    assert screening.Screen(path, 1, gl).check(cases) == found
    assert len(judged) == 1
    assert screening.Screen(path, 1, gl).check(cases) == found
    assert len(judged) == 1
    screening.Screen(path, 1, "warp")  # another renderer's verdicts are its own
    assert len({json.loads(line)["key"] for line in path.read_text().splitlines()}) == 3


@pytest.mark.slow
def test_a_tenth_of_the_suite_is_the_same_twice(tmp_path):
    gl = renderer_or_skip("gl")
    hashes = []
    for name in ("one", "two"):
        folder = tmp_path / name
        folder.mkdir()
        built = construction.build(screening.Screen(folder / suite.VERDICTS, 2, gl).check, part=10)
        suite.write(built, folder)
        assert suite_check.check(folder) == []
        hashes.append(manifest_sha256(load_manifest(folder / suite.FILES[suite.MAX])))
    assert hashes[0] == hashes[1]


def test_the_summary_that_is_kept_is_of_the_whole_suite():
    kept = json.loads(suite_check.COMMITTED.read_text())
    whole, lite = kept[suite.MAX], kept[suite.LITE]
    assert (whole["cases"], lite["cases"]) == (8000, 800)
    assert whole["event"] == dict.fromkeys(sorted(EVENT_ORDER), 1000)
    assert whole["source"] == {"plus": 5600, "pro": 2400}
    assert lite["event"] == dict.fromkeys(sorted(EVENT_ORDER), 100)
    assert whole["severity"] == {"high": 7000, "medium": 1000}
    assert kept["preflight"]["failed"] == sum(kept["preflight"]["causes"].values())
    assert kept["preflight"]["tried"] - kept["preflight"]["failed"] == 8000
    assert Path(suite_check.__file__).with_name("built.json") == suite_check.COMMITTED
