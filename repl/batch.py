"""Many problems, a few at a time: a line for each as it ends, a summary last; goes on where an earlier run ended."""

from __future__ import annotations

import hashlib
import json
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from backends import Backend
from repl.arguments import Settings
from repl.convert import convert
from repl.events import Finished
from repl.oneshot import say, unexpected
from repl.parts import opened
from repl.sources import Unreadable, read_problem
from repl.tally import Result, how_far, natural, rows, summary
from repl.turn import INTERRUPTED, NO_BACKEND, USAGE, Trouble, Turn, trouble_of
from verifier import Verifier

SKIPPED_FOLDERS = {"__pycache__", ".git", ".venv"}


def bench(settings: Settings) -> int:
    """Convert every problem that was named; return the exit code of the whole."""
    try:
        files = find(settings.paths)
        known = _earlier(settings)
    except Unreadable as fault:
        print(f"error [{fault.trouble.code}]: {fault.trouble.message}\n  {fault.trouble.hint}", file=sys.stderr)
        if settings.json:
            say(json.dumps(Turn(error=fault.trouble).to_dict()))
        return USAGE
    began = time.monotonic()
    results = {file: known[key] for file in files if (key := _key(settings, file)) in known}
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
    stop = threading.Event()
    with ExitStack() as stack:
        keep = stack.enter_context(_output(settings))
        advance = stack.enter_context(_progress(len(files), settings))
        crew = stack.enter_context(_Crew(settings, stop))
        pool = ThreadPoolExecutor(settings.jobs)
        stack.callback(pool.shutdown, wait=True, cancel_futures=True)
        futures: dict[Future[Turn], Path] = {pool.submit(crew.convert, file): file for file in files}
        try:
            for future in as_completed(futures):
                file, turn = futures[future], future.result()
                results[file] = {"file": str(file), "level": file.resolve().parent.name, **turn.to_dict()}
                keep(_key(settings, file), results[file])
                advance(results[file])
                if turn.error and turn.error.exit_code == NO_BACKEND:
                    break  # the next problem would meet the same
        except KeyboardInterrupt:
            return True
        finally:
            stop.set()
            crew.close()
    return False


class _Crew:
    """A verifier and a backend for each thread, opened at its first problem."""

    def __init__(self, settings: Settings, stop: threading.Event) -> None:
        self._settings, self._stop = settings, stop
        self._mine = threading.local()
        self._stack, self._lock = ExitStack(), threading.Lock()

    def __enter__(self) -> _Crew:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End what runs: the threads' conversions end with their children."""
        with self._lock:
            self._stack.close()

    def convert(self, file: Path) -> Turn:
        """Convert one problem; what goes wrong is in the turn."""
        problem = None
        try:
            problem = read_problem(str(file))
            backend, verifier = self._parts()
            for event in convert(problem, backend, verifier, self._settings.options):
                if isinstance(event, Finished):
                    return event.turn
            return Turn(problem, error=Trouble("interrupted", "interrupted"))
        except Unreadable as fault:
            return Turn(error=fault.trouble)
        except Exception as fault:
            if self._stop.is_set():  # its children were taken away: no fault of the problem
                return Turn(problem, error=Trouble("interrupted", "interrupted"))
            return Turn(problem, error=trouble_of(fault) or unexpected(fault))

    def _parts(self) -> tuple[Backend, Verifier]:
        if not hasattr(self._mine, "parts"):
            with self._lock:
                self._mine.parts = self._stack.enter_context(opened(self._settings))
        parts: tuple[Backend, Verifier] = self._mine.parts
        return parts


def _key(settings: Settings, file: Path) -> str:
    """What must be the same for an earlier result to stand: the file's bytes, the backend and the options."""
    asked = replace(settings, paths=(), output=None, json=False, plain=False, theme=None, jobs=0)
    return hashlib.sha256(repr(asked).encode() + b"\0" + file.read_bytes()).hexdigest()[:16]


def _earlier(settings: Settings) -> dict[str, Result]:
    """Read the results of an earlier run; a line that was cut off when it was ended is left out."""
    if not settings.output or not Path(settings.output).exists():
        return {}
    known = {}
    for line in _text_of(settings.output).splitlines():
        try:
            kept = json.loads(line)
            known[kept["key"]] = kept["result"]
        except (ValueError, KeyError, TypeError):
            continue
    return known


def _text_of(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8", errors="replace")
    except OSError as fault:
        message = f"{path} cannot be read: {fault.strerror}"
        raise Unreadable(Trouble("unreadable", message, "give --output a file")) from fault


@contextmanager
def _output(settings: Settings) -> Iterator[Any]:
    if not settings.output:
        yield lambda key, result: None
        return
    with Path(settings.output).open("a", encoding="utf-8") as file:
        if file.tell():
            file.write("\n")  # ends a line that was cut off; an empty line says nothing

        def keep(key: str, result: Result) -> None:
            file.write(json.dumps({"key": key, "result": result}, ensure_ascii=False) + "\n")
            file.flush()

        yield keep


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
