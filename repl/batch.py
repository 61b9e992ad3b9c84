"""Many problems, a few at a time: a line for each as it ends, a summary last; goes on where an earlier run ended."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from repl.arguments import Settings
from repl.crew import Crew
from repl.kept import earlier, is_lasting, key, output
from repl.oneshot import say
from repl.sources import Unreadable
from repl.tally import Result, how_far, natural, rows, summary
from repl.turn import INTERRUPTED, NO_BACKEND, USAGE, Trouble, Turn

SKIPPED_FOLDERS = {"__pycache__", ".git", ".venv"}


def bench(settings: Settings) -> int:
    """Convert every problem that was named; return the exit code of the whole."""
    try:
        return _bench(settings)
    except Unreadable as fault:
        print(f"error [{fault.trouble.code}]: {fault.trouble.message}\n  {fault.trouble.hint}", file=sys.stderr)
        if settings.json:
            say(json.dumps(Turn(error=fault.trouble).to_dict()))
        return USAGE


def _bench(settings: Settings) -> int:
    files, known = find(settings.paths), earlier(settings)
    began = time.monotonic()
    results = {file: known[mark] | _place(file) for file in files if (mark := key(settings, file)) in known}
    _tell_kept(settings, results)
    interrupted = _work(settings, [file for file in files if file not in results], results)
    told = summary([results[file] for file in files if file in results], time.monotonic() - began)
    say(json.dumps(told) if settings.json else "\n".join(["", *rows(told)]))
    return INTERRUPTED if interrupted else exit_code(told)


def find(paths: tuple[str, ...]) -> list[Path]:
    """Return the problem files, folders searched in the order people count; raise Unreadable."""
    files: list[Path] = []
    for name in paths:
        path = Path(name)
        if path.is_dir():
            inside = (p for p in path.rglob("*.py") if not SKIPPED_FOLDERS & set(p.parts))
            files += sorted((p for p in inside if p.name != "__init__.py"), key=lambda p: natural(str(p)))
        elif path.exists():
            files.append(path)
        else:
            raise Unreadable(Trouble("missing_file", f"{name} does not exist", "check the path"))
    if not files:
        raise Unreadable(Trouble("empty", f"no *.py file in {', '.join(paths)}", "name files, or a folder with some"))
    return list(dict.fromkeys(files))


def exit_code(told: dict[str, Any]) -> int:
    """Return 1 when a kernel was wrong, 0 when some were verified, else why none was (3, 4 or 2)."""
    total = told["total"]
    if total["failed"]:
        return 1
    if total["verified"]:
        return 0
    if "backend_unavailable" in total["codes"]:
        return NO_BACKEND
    return 4 if total["cannot_verify"] else USAGE


def _work(settings: Settings, files: list[Path], results: dict[Path, Result]) -> bool:
    """Fill `results`; return whether Ctrl-C ended it, with what was done by then kept."""
    crew = Crew(settings)
    with output(settings) as keep, _progress(len(files), settings) as advance:
        try:
            for file, turn in crew.results(files):
                results[file] = _place(file) | turn.to_dict()
                if is_lasting(turn):
                    keep(key(settings, file), results[file])
                advance(results[file])
                if turn.error and turn.error.exit_code == NO_BACKEND:
                    return False  # the next problem would meet the same
        except KeyboardInterrupt:
            return True
    crew.close()
    return False


def _place(file: Path) -> Result:
    return {"file": str(file), "level": file.resolve().parent.name}


def _tell_kept(settings: Settings, results: dict[Path, Result]) -> None:
    """A reader of the JSON lines gets every problem; a person is told how many need no second run."""
    if settings.json:
        for result in results.values():
            say(json.dumps(result, ensure_ascii=False))
    elif results:
        print(f"{len(results)} results are kept in {settings.output}", file=sys.stderr)


@contextmanager
def _progress(total: int, settings: Settings) -> Iterator[Any]:
    """Print each result as it comes; on a terminal a bar below them, on stderr."""

    def line(result: Result) -> None:
        say(json.dumps(result, ensure_ascii=False) if settings.json else _row(result))

    if settings.plain or not sys.stderr.isatty():
        yield line
        return
    from rich.progress import Progress

    from repl.stream import console

    with Progress(console=console(stderr=True), redirect_stdout=sys.stdout.isatty(), transient=True) as bar:
        task = bar.add_task("", total=total)

        def advance(result: Result) -> None:
            line(result)
            bar.advance(task)

        yield advance


def _row(result: Result) -> str:
    verdict, error = result["verdict"], result["error"]
    if verdict is None:
        told = f"{error['code']}: {error['message']}" if error else "nothing"
    elif verdict["outcome"] == "pass":
        speed = f" {verdict['timing']['speedup']:.2f}x" if verdict["timing"] else ""
        told = f"verified, {how_far(result)} converted{speed}"
    else:
        told = f"{verdict['outcome']} {verdict['code']}: {verdict['message']}"
    return f"{result['level']}/{Path(result['file']).name}  {' '.join(told.split())}"
