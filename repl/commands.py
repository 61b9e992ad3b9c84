"""Slash commands: a function and its docstring are a command and its help."""

from __future__ import annotations

import difflib
import inspect
import os
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from repl.reading import BARE

if TYPE_CHECKING:
    from repl.desk import Desk

Command = Callable[["Desk", str], None]

COMMANDS: dict[str, Command] = {}

KEYS = (
    ("Enter", "converts a complete module, else makes a new line"),
    ("Esc Enter", "sends the text as it is; Ctrl-J makes a new line"),
    ("Ctrl-X Ctrl-E", "edits the text in $EDITOR"),
    ("Ctrl-R, ↑", "earlier pastes"),
    ("Ctrl-C", "stops what is running, or clears the text"),
    ("Ctrl-D", "leaves"),
)


class Unusable(Exception):
    """The command cannot be done now; says why in one line."""


class Leave(Exception):
    """The person asked to leave."""


def command(function: Command) -> Command:
    """Make the function a slash command of its own name."""
    COMMANDS["/" + function.__name__.rstrip("_")] = function
    return function


def run(desk: Desk, line: str) -> None:
    """Run one command line; what is wrong with it is one clear line."""
    name, _, argument = BARE.get(line.strip(), line.strip()).partition(" ")
    known = COMMANDS.get(name)
    if known is None:
        near = difflib.get_close_matches(name, COMMANDS, 1, cutoff=0.4)
        hint = f"did you mean {near[0]}?" if near else "/help lists them"
        desk.say(f"no command is called {name}; {hint}", "red")
        return
    try:
        known(desk, argument.strip())
    except Unusable as fault:
        desk.say(str(fault), "red")


def meaning(function: Command) -> str:
    """Return the first line of a command's docstring."""
    return (inspect.getdoc(function) or "").partition("\n")[0].rstrip(".")


def complete(text: str) -> Iterator[tuple[str, str, str]]:
    """Yield what may follow the text before the cursor: (word, what it replaces, what it is)."""
    name, space, argument = text.partition(" ")
    if not space:
        yield from ((known, text, meaning(function)) for known, function in COMMANDS.items() if known.startswith(text))
    elif name == "/show":
        yield from ((part, argument, "") for part in _PARTS if part.startswith(argument))
    elif name == "/model":
        from repl.arguments import BACKENDS

        yield from ((backend, argument, "") for backend in BACKENDS if backend.startswith(argument))
    elif name == "/save":
        yield from ((path, argument, "") for path in _paths(argument))


@command
def help_(desk: Desk, argument: str) -> None:
    """List the commands and the keys."""
    rows = [(name, meaning(function)) for name, function in COMMANDS.items()]
    width = max(len(name) for name, _ in (*rows, *KEYS))
    for name, text in (*rows, ("", ""), *KEYS):
        desk.say(f"  {name:<{width}}  {text}".rstrip())


@command
def retry(desk: Desk, argument: str) -> None:
    """Write another kernel, knowing what became of the last one."""
    _problem(desk)
    earlier = desk.turn.candidates if desk.turn else ()
    desk.new_turn()
    desk.convert(earlier)


@command
def ask(desk: Desk, argument: str) -> None:
    """Have the model write again as you say: /ask use less memory."""
    _problem(desk)
    if not argument.strip():
        raise Unusable("say what the model should do: /ask keep the sums in float64")
    if desk.settings.backend == "builtin":
        raise Unusable("builtin takes no wishes; /model chooses a language model")
    earlier = desk.turn.candidates if desk.turn else ()
    desk.new_turn()
    desk.convert(earlier, argument.strip())


@command
def verify(desk: Desk, argument: str) -> None:
    """Judge the kernel again."""
    kernel = _kernel(desk)
    desk.judge(kernel)


@command
def show(desk: Desk, argument: str) -> None:
    """Print a part: /show [problem|kernel|error|reasoning]."""
    match argument or "kernel":
        case "problem":
            desk.code(_problem(desk))
        case "kernel":
            desk.code(_kernel(desk))
        case "error":
            desk.say(desk.trace.rstrip() or "there is no error to show")
        case "reasoning":
            desk.say(desk.reasoning.strip() or "no reasoning came with the answer", "dim")
        case other:
            raise Unusable(f"/show prints {', '.join(_PARTS)}; not {other!r}")


@command
def save(desk: Desk, argument: str) -> None:
    """Write the kernel to a file: /save [path]."""
    kernel = _kernel(desk)
    path = Path(argument or f"{desk.problem.entry if desk.problem else 'kernel'}_triton.py").expanduser()
    if path.is_dir():
        path = path / "kernel.py"
    if path in desk.saved or not path.exists():
        try:
            path.write_text(kernel if kernel.endswith("\n") else kernel + "\n", "utf-8")
        except OSError as error:
            raise Unusable(f"{path} cannot be written: {error.strerror}") from None
        desk.saved.add(path)
        best = desk.turn.best if desk.turn else None
        desk.say(f"saved {path}" + ("" if best and best.verdict.passed else " · not verified"))
    else:
        raise Unusable(f"{path} exists and was not saved from here; /save another path")


@command
def edit(desk: Desk, argument: str) -> None:
    """Edit the kernel in $EDITOR, then judge it."""
    kernel = _kernel(desk)
    edited = _edited(kernel)
    if edited == kernel:
        desk.say("the kernel is unchanged")
        return
    desk.new_turn()
    desk.judge(edited)


@command
def model(desk: Desk, argument: str) -> None:
    """Say who writes the kernels, or choose: /model [backend] [name]."""
    from repl.arguments import BACKENDS, UsageError, parse

    first, _, rest = argument.partition(" ")
    if argument:
        words = ["--backend", first, *(["--model", rest.strip()] if rest else [])]
        try:
            settings = parse(words if first in BACKENDS else ["--model", argument])
        except UsageError as fault:
            raise Unusable(fault.message) from None
        desk.attempt(lambda: desk.choose(settings))
    now = desk.settings
    desk.say(now.backend + (f" · {now.model}" if now.model else ""))


@command
def download(desk: Desk, argument: str) -> None:
    """Say how large a model is, then fetch it: /download NAME [now]."""
    from backends.download import fetch, size
    from backends.local import DEFAULT_MODEL, is_here

    name, _, consent = argument.strip().partition(" ")
    name = (name or desk.settings.model or DEFAULT_MODEL).partition("#")[0]
    if is_here(name):
        desk.say(f"{name} is here; /model {name} chooses it")
    elif consent == "now":
        desk.attempt(lambda: desk.follow_words(fetch(name)))
    else:
        desk.attempt(lambda: desk.say(f"{name}: {size(name)}\n  /download {name} now fetches it"))


@command
def backend(desk: Desk, argument: str) -> None:
    """Say which servers answer; draw one token from the chosen one."""
    from backends.probe import checked, reachable

    for name, state in reachable():
        desk.say(f"  {name:<12} {state}", "" if state.startswith("answers") else "dim")
    now = desk.settings
    if now.backend.endswith("server"):
        desk.say(f"  {'chosen':<12} {checked(now.model)}")
    else:
        desk.say(f"  {'chosen':<12} {now.backend}" + (f" · {now.model}" if now.model else ""))


@command
def quit_(desk: Desk, argument: str) -> None:
    """Leave; every turn is already kept."""
    raise Leave


_PARTS = ("problem", "kernel", "error", "reasoning")


def _problem(desk: Desk) -> str:
    if desk.problem is None:
        raise Unusable("nothing was pasted yet")
    return desk.problem.source


def _kernel(desk: Desk) -> str:
    if not desk.kernel:
        raise Unusable("there is no kernel yet")
    return desk.kernel


def _edited(text: str) -> str:
    from repl.terminal import ordinary

    editor = _editor()
    with tempfile.TemporaryDirectory(prefix="kernelllm-") as folder:
        path = Path(folder) / "kernel.py"
        path.write_text(text, "utf-8")
        with ordinary():
            code = subprocess.run([*editor, str(path)], check=False).returncode
        if code:
            raise Unusable(f"{editor[0]} ended with {code}; the kernel is unchanged")
        return path.read_text("utf-8")


def _editor() -> list[str]:
    wished = os.environ.get("VISUAL") or os.environ.get("EDITOR")
    for candidate in [wished] if wished else ["nano", "vim", "vi"]:
        words = shlex.split(candidate)
        if words and shutil.which(words[0]):
            return words
    raise Unusable(f"{wished or 'no editor'} was not found; set $EDITOR")


def _paths(start: str) -> Iterator[str]:
    folder, _, name = start.rpartition("/")
    try:
        found = sorted(Path(folder + "/" if folder or start.startswith("/") else ".").expanduser().iterdir())
    except OSError:
        return
    for path in found[:200]:
        if path.name.startswith(name) and (name or not path.name.startswith(".")):
            yield start[: len(start) - len(name)] + path.name + ("/" if path.is_dir() else "")
