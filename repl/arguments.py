"""The command line → Settings. Knows the options and their help; reads no file and starts nothing."""

from __future__ import annotations

import argparse
import difflib
import math
import re
from dataclasses import dataclass, field
from typing import NoReturn

from backends.presets import is_server
from repl.events import Options

BACKENDS = (
    "builtin", "local", "server", "recorded", "builtin+local", "builtin+server", "builtin+recorded",
)  # fmt: skip

_TAKES_A_VALUE = {
    "--backend", "--model", "-k", "--budget", "--seed", "--device", "--baseline", "--theme", "--output", "--jobs",
    "--ask", "--record", "--precision", "--sanitize", "--max-tokens",
}  # fmt: skip

_EPILOG = """\
ways to run
  kernelllm                        the prompt, when stdin and stdout are terminals
  kernelllm FILE                   convert one file ("-" or piped input: standard input)
  kernelllm verify PROBLEM KERNEL  judge a kernel somebody wrote
  kernelllm bench DIR|FILE...      many problems, one table

exit codes
  0 verified   1 a check failed   2 bad usage, or not a convertible problem
  3 backend unavailable   4 cannot verify here   130 interrupted
"""


class UsageError(Exception):
    """The command line cannot be understood; exit code 2."""

    def __init__(self, message: str, hint: str = "kernelllm --help lists the options") -> None:
        super().__init__(message)
        self.message, self.hint = message, hint


@dataclass(frozen=True)
class Settings:
    """What was asked for on the command line."""

    command: str = "convert"
    paths: tuple[str, ...] = ()
    backend: str = "builtin"
    model: str | None = None
    options: Options = field(default_factory=Options)
    json: bool = False
    plain: bool = False
    theme: str | None = None
    output: str | None = None
    jobs: int = 2
    record: str | None = None
    download: bool = False


def parse(arguments: list[str]) -> Settings:
    """Read the command line; raise UsageError, or SystemExit after --help and --version."""
    command, rest = _split_command(arguments)
    chosen = _PARSERS[command]().parse_args(rest)
    return Settings(
        command=command,
        paths=tuple(_paths(command, chosen)),
        backend=chosen.backend or _backend_for(chosen.model),
        model=chosen.model,
        options=Options(
            candidates=chosen.k,
            budget=chosen.budget,
            max_tokens=chosen.max_tokens,
            seed=chosen.seed,
            device=chosen.device,
            speed=not chosen.no_speed,
            in_process=chosen.in_process,
            baseline=chosen.baseline,
            precision=chosen.precision,
            sanitize=chosen.sanitize,
            instructions=chosen.ask or "",
        ),
        json=chosen.json,
        plain=chosen.plain,
        theme=_theme(chosen.theme),
        output=getattr(chosen, "output", None),
        jobs=getattr(chosen, "jobs", 2),
        record=chosen.record,
        download=chosen.download,
    )


def _split_command(arguments: list[str]) -> tuple[str, list[str]]:
    """Find `verify` or `bench` as the first word that is no option; a file of that name is given as ./verify."""
    before = ""
    for place, word in enumerate(arguments):
        if not word.startswith("-") and before not in _TAKES_A_VALUE:
            if word in ("verify", "bench"):
                return word, arguments[:place] + arguments[place + 1 :]
            break
        before = word
    return "convert", arguments


def _backend_for(model: str | None) -> str:
    """`--model` alone says which backend is meant: an address is a server, anything else a local model."""
    if model is None:
        return "builtin"
    return "server" if is_server(model) else "local"


def _paths(command: str, chosen: argparse.Namespace) -> list[str]:
    if command == "verify":
        return [chosen.problem, chosen.kernel]
    if command == "bench":
        return list(chosen.problems)
    return [chosen.file] if chosen.file is not None else []


def _theme(name: str | None) -> str | None:
    if name is not None:
        from repl.highlight import UnknownTheme, prompt_style  # pygments is only wanted with a theme

        try:
            prompt_style(name)
        except UnknownTheme as fault:
            raise UsageError(str(fault), "pygmentize -L styles lists them") from None
    return name


class _Parser(argparse.ArgumentParser):
    """argparse with our error: one line and the nearest option instead of the whole usage."""

    def error(self, message: str) -> NoReturn:
        unknown = re.search(r"unrecognized arguments: (\S+)", message)
        near = difflib.get_close_matches(unknown[1], self._option_string_actions, 1) if unknown else []
        if near:
            raise UsageError(message, f"did you mean {near[0]}?")
        raise UsageError(message)


def _common(usage: str, epilog: str = "") -> _Parser:
    parser = _Parser(
        prog="kernelllm",
        usage=usage,
        description="Paste a PyTorch nn.Module, get a Triton kernel that is proven right and measured.",
        epilog=epilog,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"kernelllm {VERSION}")
    add = parser.add_argument_group("who writes").add_argument
    add("--backend", choices=BACKENDS, metavar="NAME", help="builtin (default), local, server, recorded, builtin+...")
    add("--model", metavar="M", help="a model's path or name, a server's address or name (ollama), a recorded answer")
    add("-k", type=_count, default=1, metavar="N", help="draw N candidates and keep the best verified one")
    add("--budget", type=_seconds, metavar="TIME", help="ask again with what failed until TIME ends: 90s, 10m, 1h")
    add("--max-tokens", type=_count, metavar="N", help="what one answer of a model may take, thinking included")
    add("--ask", metavar="TEXT", help="what the language model should do, in your words")
    add("--seed", type=int, metavar="N", help="makes drawing and judging repeatable")
    add("--record", metavar="FILE", help="keep what the backend is asked and answers, to be replayed")
    add("--download", action="store_true", help="fetch the named model when it is not on this machine")
    add = parser.add_argument_group("how it is judged").add_argument
    add("--device", choices=("auto", "cuda", "cpu"), default="auto", help="where (auto: the GPU when there is one)")
    add("--precision", choices=("exact", "fast"), default="exact", help="fast: float32 may be as inexact as TF32")
    add("--no-speed", action="store_true", help="judge only; measure nothing")
    add("--baseline", choices=("eager", "compile", "both"), default="both", help="what speed is compared with")
    add("--sanitize", choices=("memcheck", "racecheck", "both"), default="", help="run it under compute-sanitizer, too")
    add("--in-process", action="store_true", help="everything in this process, unprotected: for debuggers")
    add = parser.add_argument_group("how it is shown").add_argument
    add("--json", action="store_true", help="one JSON object on stdout")
    add("--plain", action="store_true", help="no colours, no live display")
    add("--theme", metavar="NAME", help="a Pygments style for the code")
    return parser


def _convert_parser() -> _Parser:
    parser = _common("kernelllm [FILE | -] [options]", _EPILOG)
    parser.add_argument("file", nargs="?", metavar="FILE", help='a PyTorch module; "-" reads standard input')
    return parser


def _verify_parser() -> _Parser:
    parser = _common("kernelllm verify PROBLEM KERNEL [options]")
    parser.add_argument("problem", metavar="PROBLEM", help="the PyTorch module")
    parser.add_argument("kernel", metavar="KERNEL", help="a file that defines ModelNew")
    return parser


def _bench_parser() -> _Parser:
    parser = _common("kernelllm bench DIR|FILE... [options]")
    parser.add_argument("problems", nargs="+", metavar="DIR|FILE", help="problems; a folder is searched for *.py")
    parser.add_argument("--output", metavar="FILE", help="keep the results here, and go on from them when it exists")
    parser.add_argument("--jobs", type=_count, default=2, metavar="N", help="problems at a time (default 2)")
    return parser


_PARSERS = {"convert": _convert_parser, "verify": _verify_parser, "bench": _bench_parser}

VERSION = "0.1.0"


def _count(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from 1")
    return int(text)


def _seconds(text: str) -> float:
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*(s|m|h|)", text.strip())
    seconds = float(match[1]) * {"": 1, "s": 1, "m": 60, "h": 3600}[match[2]] if match else 0.0
    if not 0 < seconds < math.inf:
        raise argparse.ArgumentTypeError(f"{text!r} is not a time such as 90s, 10m or 1h")
    return seconds
