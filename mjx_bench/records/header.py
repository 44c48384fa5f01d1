"""`run.json`, the header of a results folder: what it was made with, and when it may be continued."""

from __future__ import annotations

import dataclasses
import datetime
import importlib.metadata
import json
import pathlib
import platform
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from mjx_bench.errors import BenchError
from mjx_bench.fields import Reader, short, thaw
from mjx_bench.records.schema import SCHEMA, TEXT_OR_NULL, check_schema, optional

# Equal in every folder whose records can be put side by side. What a person chose comes first: packages follow from it.
SAME_RUN = ("settings", "mjx_bench_version", "packages")

# Settings that are options of a command, before those that follow from them.
_OPTIONS = (
    "policy", "backend", "scene_form", "query_interval", "horizon", "replay", "no_event", "faithful", "run_on", "delay",
    "cancel_on_change", "restoration", "renderer",
)  # fmt: skip


@dataclasses.dataclass(frozen=True)
class Shard:
    """Which part of a run a folder holds, where several shards make one run.

    Attributes:
      index, count: the shard, 0 to count - 1, and how many there are.
      manifest_sha256: of the canonical JSON of the cases of all shards.
      case_ids: of all shards, in the manifest's order.
    """

    index: int
    count: int
    manifest_sha256: str
    case_ids: tuple[str, ...]

    @classmethod
    def read(cls, r: Reader) -> Shard:
        def ids(v: Any) -> bool:
            return isinstance(v, (list, tuple)) and all(isinstance(x, str) for x in v)

        shard = cls(
            index=r.integer("index"),
            count=r.integer("count", low=1),
            manifest_sha256=r.text("manifest_sha256"),
            case_ids=tuple(r.get("case_ids", ids, "a list of case ids")),
        )
        if shard.index >= shard.count:
            r.fail("index", f"an integer below count = {shard.count}")
        r.finish()
        return shard

    def __str__(self) -> str:
        return f"{self.index}/{self.count}"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Header:
    """`run.json`: what a results folder was made with.

    Attributes:
      mjx_bench_version: of this package.
      git_commit: of the checkout it ran from, null outside of one.
      git_dirty: whether that checkout had uncommitted changes.
      packages: package name to version, of everything that can change a bit of the result.
      device: the machine in words.
      settings: everything that was chosen and can change a result, as JSON data. `policy`, `query_interval`, `horizon` (H,
        actions a query returns) and `sees_pictures` are read by reports. Lanes, threads and shards do not belong here.
      manifest_sha256: of the canonical JSON of the cases as run.
      assets: asset name to hash.
      tasks_sha256: of the canonical JSON of `tasks.json`; null where that was not written.
      shard: the shard that this folder holds; null for a whole run.
      created: UTC, ISO 8601.
      resumed: created, git_commit, git_dirty and device of every later continuation.
    """

    mjx_bench_version: str
    git_commit: str | None
    git_dirty: bool | None
    packages: Mapping[str, str]
    device: str
    settings: Mapping[str, Any]
    manifest_sha256: str
    assets: Mapping[str, str]
    created: str
    tasks_sha256: str | None = None
    shard: Shard | None = None
    resumed: tuple[Mapping[str, Any], ...] = ()
    schema: int = SCHEMA

    @classmethod
    def collect(
        cls,
        settings: Mapping[str, Any],
        manifest_sha256: str,
        *,
        packages: Mapping[str, str],
        assets: Mapping[str, str],
        device: str | None = None,
        tasks_sha256: str | None = None,
        shard: Shard | None = None,
    ) -> Header:
        """A header for now, here: versions, checkout and machine are looked up."""
        try:
            version = importlib.metadata.version("mjx-bench")
        except importlib.metadata.PackageNotFoundError:
            version = "0+uninstalled"
        commit, dirty = git_state(pathlib.Path(__file__).parent)
        return cls(
            mjx_bench_version=version,
            git_commit=commit,
            git_dirty=dirty,
            packages=packages,
            device=device or f"{platform.system()} {platform.machine()}",
            settings=settings,
            manifest_sha256=manifest_sha256,
            assets=assets,
            created=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
            tasks_sha256=tasks_sha256,
            shard=shard,
        )

    @classmethod
    def from_json(cls, data: Any, where: str) -> Header:
        r = Reader(data, where)
        check_schema(r)

        def objects(v: Any) -> bool:
            return isinstance(v, (list, tuple)) and all(isinstance(x, Mapping) for x in v)

        sharded = r.get("shard", optional(lambda v: isinstance(v, Mapping)), "null or an object") is not None
        shard = Shard.read(r.object("shard")) if sharded else None
        header = cls(
            mjx_bench_version=r.text("mjx_bench_version"),
            git_commit=r.get("git_commit", *TEXT_OR_NULL),
            git_dirty=r.get("git_dirty", optional(lambda v: isinstance(v, bool)), "true, false or null"),
            packages=r.get("packages", lambda v: isinstance(v, Mapping), "an object"),
            device=r.text("device"),
            settings=r.get("settings", lambda v: isinstance(v, Mapping), "an object"),
            manifest_sha256=r.text("manifest_sha256"),
            assets=r.get("assets", lambda v: isinstance(v, Mapping), "an object"),
            created=r.text("created"),
            tasks_sha256=r.get("tasks_sha256", *TEXT_OR_NULL),
            shard=shard,
            resumed=tuple(r.get("resumed", objects, "a list of objects")),
        )
        r.finish()
        return header

    def to_json(self) -> dict[str, Any]:
        out = {f.name: getattr(self, f.name) for f in dataclasses.fields(self)}
        out["shard"] = None if self.shard is None else dataclasses.asdict(self.shard)
        return thaw(out)

    def text(self) -> str:
        """The file's text."""
        return json.dumps(self.to_json(), indent=2, sort_keys=True) + "\n"

    def note(self) -> dict[str, Any]:
        """What may differ between two sessions of one run: an entry of `resumed`."""
        return {name: getattr(self, name) for name in ("created", "git_commit", "git_dirty", "device")}

    def difference(self, other: Header, fields: Iterable[str]) -> tuple[str, str, str] | None:
        """Dotted path and both values of the first of `fields` that differs; None if none does."""
        path, ours, theirs = self._difference(other, fields)
        return (path, short(ours), short(theirs)) if path else None

    def _difference(self, other: Header, fields: Iterable[str]) -> tuple[str, Any, Any]:
        a, b = self.to_json(), other.to_json()
        found = (_difference(field, a[field], b[field]) for field in fields)
        return next((each for each in found if each[0]), ("", None, None))

    def check_same_run(self, other: Header, where: str, cases: tuple[Sequence[Any], Sequence[Any]] = ((), ())) -> None:
        """Raises unless `other` would produce the same results, naming the first difference, and how to continue.

        Checkout, machine and times may differ; they are noted in `resumed`.

        Args:
          other: of the call that wants to continue.
          where: the folder, for the message.
          cases: of this header's manifest and of the other's, for the message.
        """
        # Cases before versions of their tasks, and both before packages.
        fields = (SAME_RUN[0], "shard", "manifest_sha256", "assets", *SAME_RUN[1:], "tasks_sha256")
        path, ours, theirs = self._difference(other, fields)
        if not path:
            return
        if ("agent" in self.settings) != ("agent" in other.settings):
            then, now = _player(self.settings), _player(other.settings)
            raise BenchError(f"{where}: this folder holds episodes of {then}, now it is {now}; give another --out")
        if path.startswith("shard") and str(self.shard) != str(other.shard):
            made = f"shard {self.shard or 'none'}, now it is {other.shard or 'none'}"
            advice = f"give --shard {self.shard}" if self.shard else "leave out --shard"
        elif path.startswith(("shard", "manifest_sha256")):
            made = f"other cases ({_cases(*cases)})"
            advice = "choose the cases as then (--suite, --pairs, --instances, ...)"
        else:
            made = f"{path} = {short(ours)}, now it is {short(theirs)}"
            advice = _advice(path, ours, "agent" in self.settings)
        raise BenchError(f"{where}: this folder was made with {made}; {advice} to continue, or use another folder")


def _cases(then: Sequence[Any], now: Sequence[Any]) -> str:
    """How two lists of cases differ."""
    if len(then) != len(now):
        return f"{len(then)} then, {len(now)} now"
    for i, (a, b) in enumerate(zip(then, now, strict=True)):
        if a != b:
            same = a["case_id"] == b["case_id"]
            return (
                f"case {a['case_id']!r} is another one now"
                if same
                else f"case {i} was {a['case_id']!r}, now {b['case_id']!r}"
            )
    return f"{len(then)} then as now, of another manifest"


def _player(settings: Mapping[str, Any]) -> str:
    """Who acts, and by which command."""
    name = str(settings.get("policy"))
    if "agent" in settings:
        return f"the agent {name.removeprefix('agent:')!r} (mjx-bench agent)"
    return f"the policy {name!r} (mjx-bench eval or pair)"


def _advice(path: str, value: Any, agent: bool) -> str:
    """What brings back `value` of a header's field, in a folder of an agent's or of a policy's."""
    field, _, name = path.partition(".")
    if path == "settings.policy" and agent:
        own = str(value).removeprefix("agent:")
        # An agent of the user's own is recorded by the name that it gives itself, which is no option's value.
        known = own == "scripted" or own.startswith(("openai:", "code:"))
        return f"give --agent {own}" if known else f"give the --agent that is named {own!r}"
    if field == "settings" and name in _OPTIONS:
        option = "--event none" if name == "no_event" else "--" + name.replace("_", "-")
        if isinstance(value, bool):
            return f"{'give' if value else 'leave out'} {option}"
        return f"give {option} {value}"
    if field == "packages":
        return f"install {name} {value}" if value else f"run without {name}"
    if path == "assets.policy source":
        return "bring back the policy's source file as it was"
    if path.startswith("assets.policy"):
        return "take the same policy"
    return "use the same settings and versions"


def _order(key: str) -> tuple[int, str]:
    return (_OPTIONS.index(key) if key in _OPTIONS else len(_OPTIONS)), key


def _difference(path: str, a: Any, b: Any) -> tuple[str, Any, Any]:
    """Dotted path and values of the first difference; ("", None, None) if there is none."""
    if isinstance(a, dict) and isinstance(b, dict):
        for key in sorted(a.keys() | b.keys(), key=_order):
            found = _difference(f"{path}.{key}", a.get(key), b.get(key))
            if found[0]:
                return found
        return "", None, None
    return ("", None, None) if a == b and type(a) is type(b) else (path, a, b)


def git_state(folder: pathlib.Path) -> tuple[str | None, bool | None]:
    """Commit of the checkout that holds `folder` and whether it is dirty; (None, None) outside of one or without git."""

    def git(*args: str) -> str:
        return subprocess.run(
            ["git", "-C", str(folder), *args], capture_output=True, text=True, check=True, timeout=20
        ).stdout.strip()

    try:
        return git("rev-parse", "HEAD"), git("status", "--porcelain") != ""
    except (OSError, subprocess.SubprocessError):
        return None, None
