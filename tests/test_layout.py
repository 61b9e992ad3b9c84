"""The shape of the house: which way the imports run, and what importing it costs."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = ("kernelllm", "repl", "backends", "verifier")
ALLOWED = {
    "kernelllm": {"kernelllm", "repl", "backends", "verifier"},
    "repl": {"repl", "backends", "verifier"},
    "backends": {"backends"},
    "verifier": {"verifier"},
}
FILES = [ROOT / "kernelllm.py", *(f for p in PACKAGES[1:] for f in sorted((ROOT / p).rglob("*.py")))]


def imported(path: Path) -> set[str]:
    """Return the top names a file imports, also inside functions."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names.add(node.module.partition(".")[0])
    return names


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_arrows(path: Path) -> None:
    """kernelllm → repl → {backends, verifier}, and never back; also not inside a function."""
    home = path.relative_to(ROOT).parts[0].removesuffix(".py")
    assert imported(path) & set(PACKAGES) <= ALLOWED[home]


def test_one_home_for_each_terminal_library() -> None:
    """prompt_toolkit is known to the editor and its keys alone, rich.live to the stream alone."""
    texts = {path.relative_to(ROOT).as_posix(): path.read_text(encoding="utf-8") for path in FILES}
    assert [name for name, text in texts.items() if "rich.live" in text] == ["repl/stream.py"]
    users = [path.relative_to(ROOT).as_posix() for path in FILES if "prompt_toolkit" in imported(path)]
    assert users == ["repl/editor.py", "repl/keyboard.py"]


def test_importing_everything_loads_nothing_heavy() -> None:
    """The four packages leave torch, triton and transformers out: the prompt appears at once."""
    code = (
        f"import sys; sys.path.insert(0, {str(ROOT)!r}); import kernelllm, repl, backends, verifier\n"
        "import repl.arguments, repl.convert, repl.oneshot, repl.loop, repl.batch, backends.local, backends.server\n"
        "print(sorted({'torch', 'triton', 'transformers', 'numpy'} & set(sys.modules)))"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert run.stdout.strip() == "[]"


def test_every_module_says_what_it_is() -> None:
    """Each file begins with a docstring that states its boundary."""
    files = [path for path in FILES if path.stat().st_size]
    assert [p.name for p in files if not ast.get_docstring(ast.parse(p.read_text(encoding="utf-8")))] == []
