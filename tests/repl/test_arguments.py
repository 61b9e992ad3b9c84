"""The command line: every option of the contract, and one clear line for what is none."""

from __future__ import annotations

import pytest

from repl.arguments import UsageError, parse


def test_all_common_options() -> None:
    """Each way to run takes every common option, before or after its words."""
    words = "--backend local --model m -k 4 --budget 10m --seed 7 --device cpu --json --plain --in-process --no-speed"
    words += " --max-tokens 300"
    for command in (["f.py"], ["verify", "p.py", "k.py"], ["bench", "d"]):
        for line in (words.split() + command, command + words.split()):
            settings = parse(line)
            assert settings.backend == "local" and settings.model == "m" and settings.json and settings.plain
            options = settings.options
            assert (options.candidates, options.budget, options.seed, options.device) == (4, 600.0, 7, "cpu")
            assert options.in_process and not options.speed and options.max_tokens == 300


def test_ways_to_run() -> None:
    """A file, standard input, and the two commands are told apart."""
    assert (parse([]).command, parse([]).paths) == ("convert", ())
    assert parse(["-"]).paths == ("-",)
    assert (parse(["verify", "p", "k"]).command, parse(["verify", "p", "k"]).paths) == ("verify", ("p", "k"))
    assert parse(["bench", "a", "b"]).paths == ("a", "b") and parse(["./verify"]).paths == ("./verify",)


def test_a_model_says_which_backend() -> None:
    """An address is a server, any other model a local one, and no model means builtin."""
    models = {None: "builtin", "owner/name": "local", "http://127.0.0.1:8000/v1": "server"}
    assert {m: parse(["--model", m] if m else []).backend for m in models} == models


@pytest.mark.parametrize(("text", "seconds"), [("90s", 90), ("10m", 600), ("1.5h", 5400), ("30", 30)])
def test_times(text: str, seconds: float) -> None:
    """Times are written as people write them."""
    assert parse(["--budget", text]).options.budget == seconds


@pytest.mark.parametrize(
    ("line", "part"),
    [
        ("--bugdet 3", "unrecognized"), ("-k 0", "whole number"), ("--budget soon", "10m"), ("a b", "unrecognized"),
        ("verify p", "KERNEL"), ("bench", "DIR"), ("--backend gpt", "builtin"), ("--device tpu", "auto"),
        ("--seed x", "--seed"), ("--no", "unrecognized"),
    ],
)  # fmt: skip
def test_bad_usage_is_one_line(line: str, part: str) -> None:
    """What cannot be understood is named."""
    with pytest.raises(UsageError) as fault:
        parse(line.split())
    assert part in fault.value.message and "\n" not in fault.value.message


def test_the_nearest_option_is_offered() -> None:
    """A slip of the fingers is answered with the option that was meant."""
    with pytest.raises(UsageError) as fault:
        parse(["--bugdet", "3"])
    assert fault.value.hint == "did you mean --budget?"
