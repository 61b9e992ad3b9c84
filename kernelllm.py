"""The command and the library door: arguments in, exit code out; `KernelLLM` is what Python users import."""

from __future__ import annotations

import signal
import sys
from typing import TYPE_CHECKING, Any, NoReturn

if TYPE_CHECKING:
    from repl.library import KernelLLM

__all__ = ["KernelLLM", "main"]


def main(arguments: list[str] | None = None) -> int:
    """Run the command; return its exit code."""
    from repl.arguments import Settings, UsageError, parse

    words = sys.argv[1:] if arguments is None else arguments
    signal.signal(signal.SIGTERM, _end)
    try:
        settings: Settings = parse(words)
    except UsageError as fault:
        return _bad_usage(fault, "--json" in words)
    try:
        return _run(settings)
    except KeyboardInterrupt:
        return 130


def _run(settings: Any) -> int:
    if settings.command == "bench":
        from repl.batch import bench

        return bench(settings)
    if settings.command == "convert" and not settings.paths and not settings.json and _at_a_terminal():
        from repl.loop import run

        return run(settings)
    from repl.oneshot import convert_one, verify_one

    return verify_one(settings) if settings.command == "verify" else convert_one(settings)


def _at_a_terminal() -> bool:
    return all(stream is not None and stream.isatty() for stream in (sys.stdin, sys.stdout))


def _bad_usage(fault: Any, as_json: bool) -> int:
    import json

    from repl.turn import Trouble, Turn

    trouble = Trouble("usage", fault.message, fault.hint)
    if as_json:
        print(json.dumps(Turn(error=trouble).to_dict()))
    print(f"error [usage]: {trouble.message}\n  {trouble.hint}", file=sys.stderr)
    return trouble.exit_code


def _end(*_: object) -> NoReturn:
    """SIGTERM unwinds the stack, so that children and terminal settings are cleaned up."""
    raise SystemExit(143)


def __getattr__(name: str) -> Any:
    # The class pulls the whole library in, which `--help` must not wait for.
    if name == "KernelLLM":
        from repl.library import KernelLLM

        return KernelLLM
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


if __name__ == "__main__":
    sys.exit(main())
