"""What must not be in any file of the repository: other people's machines, and ways to run data as code."""

from __future__ import annotations

import ast
import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ("mjx_bench", "kernels", "policies", "evals", "train", "scripts")

# Written in two parts, or this file would hold what it looks for.
_HOSTS = ["pypi" + ".org", "python" + "hosted", "npm" + "js.org", "deb.debian" + ".org"]
_HOMES = ["/" + "work/", "/" + "root/", r"/" + r"home/\w", "/" + r"Users/\w"]
PRIVATE = re.compile("|".join([re.escape(host) for host in _HOSTS] + [rf"(?<![\w.~$}}]){home}" for home in _HOMES]))


def repository_files() -> list[Path]:
    """Tracked files and new ones that are not ignored; in an export without git, everything outside dot folders."""
    try:
        command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
        listing = subprocess.run(command, cwd=ROOT, capture_output=True, check=True).stdout.decode()
        paths = [ROOT / name for name in listing.split("\0") if name]
    except (OSError, subprocess.CalledProcessError):
        paths = [p for p in ROOT.rglob("*") if not any(part.startswith(".") for part in p.relative_to(ROOT).parts)]
    return [p for p in paths if p.is_file() and "__pycache__" not in p.parts]


def text_of(path: Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        return None


def test_no_machine_paths_or_registry_hosts():
    files = repository_files()
    assert ROOT / "pyproject.toml" in files
    found = [
        f"{path.relative_to(ROOT)}:{number}: {line.strip()}"
        for path in files
        for number, line in enumerate((text_of(path) or "").splitlines(), 1)
        if PRIVATE.search(line)
    ]
    assert not found


@pytest.mark.parametrize("line", ["see /" + "work/x", "open('/" + "root/a')", "from https://" + "pypi" + ".org/simple"])
def test_private_lines_are_seen(line: str):
    assert PRIVATE.search(line)


@pytest.mark.parametrize("line", ["the frame" + "work/parts", "~/.cache", "evals/work" + "/a.py", "$X/" + "root/b"])
def test_innocent_lines_are_left_alone(line: str):
    assert not PRIVATE.search(line)


# Runs an agent's program, in a process of its own that is locked before it reads the program; it does nothing else.
LOCKED = {"mjx_bench/agents/program_child.py": "calls exec"}
# Modules that turn bytes into running code.
UNSAFE_MODULES = {"pickle", "cPickle", "dill", "cloudpickle", "marshal", "shelve", "joblib"}


def unsafe(tree: ast.AST) -> list[str]:
    out = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            out += [f"{node.lineno}: imports {a.name}" for a in node.names if a.name.split(".")[0] in UNSAFE_MODULES]
        elif isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] in UNSAFE_MODULES:
            out.append(f"{node.lineno}: imports {node.module}")
        elif isinstance(node, ast.Call):
            called = ast.unparse(node.func)
            if called in ("eval", "exec", "torch.load", "yaml.load", "yaml.unsafe_load"):
                out.append(f"{node.lineno}: calls {called}")
            for keyword in node.keywords:
                if keyword.arg in ("allow_pickle", "shell") and not _is_false(keyword.value):
                    out.append(f"{node.lineno}: passes {keyword.arg}")
    return out


def _is_false(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is False


def test_no_code_from_data():
    found = [
        f"{path.relative_to(ROOT)}:{what}"
        for package in PACKAGES
        for path in sorted((ROOT / package).rglob("*.py"))
        for what in unsafe(ast.parse(path.read_text(encoding="utf-8")))
        if not what.endswith(LOCKED.get(path.relative_to(ROOT).as_posix(), "?"))
    ]
    assert not found


@pytest.mark.parametrize(
    "source",
    ["eval('1')", "import pickle", "from pickle import loads", "np.load(f, allow_pickle=True)", "torch.load(f)"],
)
def test_unsafe_code_is_seen(source: str):
    assert unsafe(ast.parse(source))


@pytest.mark.parametrize("source", ["ast.literal_eval('1')", "np.load(f, allow_pickle=False)", "model.eval()"])
def test_safe_code_is_left_alone(source: str):
    assert not unsafe(ast.parse(source))
