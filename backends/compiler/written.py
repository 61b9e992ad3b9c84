"""Statements over tokens → the text of forward, and of the functions that it calls."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from backends.compiler.localnames import local_names
from backends.compiler.margin import TAB, function, quoted
from backends.compiler.naming import FREE, class_name
from backends.compiler.script import MODULE, TOKEN, Function, Loop, Step, loop_variables, renamed

PARTS = {
    "": "Compute what {kind} does.",
    "begin": "Compute the beginning of {kind}: the rest is one kernel with what comes behind it.",
    "finish": "Compute the rest of {kind}: its beginning is one kernel with what comes before it.",
    "inner": "Compute the inside of {kind}: its ends are kernels together with what is around it.",
}


@dataclass(frozen=True)
class Written:
    """The statements of forward, the functions before it, and the name of every token that has one."""

    body: str
    functions: list[str]
    names: Mapping[str, str] = field(default_factory=dict)


def written(
    steps: list[Step],
    functions: Iterable[Function],
    arguments: Iterable[str],
    wishes: Mapping[str, tuple[str, ...]],
    taken: set[str],
    reads: re.Pattern[str],
) -> Written:
    """Name the tensors of forward and of every function, and write both; `taken` are the file's other names."""
    names, texts = dict[str, str](), []
    for shared in functions:
        own = local_names(shared.body, wishes, taken, shared.inputs, reads)
        names |= own
        module = _module_name(shared.kind, taken, {*own.values(), *loop_variables(shared.body)})
        rows = [row.replace(MODULE, module) for row in _rows(shared.body, own)]
        parameters = [module, *(own.get(token, token) for token in shared.inputs)]
        summary = PARTS[shared.part].format(kind=_quoted(shared.kind))
        texts.append(function(shared.name, parameters, quoted(summary), rows))
    own = local_names(steps, wishes, taken, arguments, reads)
    return Written("\n".join(_rows(steps, own)), texts, names | own)


def _quoted(kind: str) -> str:
    """Write a class in a sentence: an `nn.Linear`, an `Attention`, a `Block`."""
    return f"an `{kind}`" if kind.startswith("nn.") or kind[0] in "AEIO" else f"a `{kind}`"


def _module_name(kind: str, taken: set[str], used: set[str]) -> str:
    """Call a submodule after the last word of its class: DenseLayer → layer.

    `used` are the function's own names, `taken` those of the file, of which some are only a launcher's.
    """
    word = re.sub(r"\d+d?$", "", class_name(kind.removeprefix("nn.")).rpartition("_")[2])
    word = "layers" if word == "sequential" else word
    free = (name for name in (word, "block", "module", "layer") if name and name not in (taken - FREE) | used)
    return next(free, "the_module")


def _rows(steps: Iterable[Step], names: dict[str, str]) -> list[str]:
    """Write statements, the last one and the return behind it as one where they can be."""
    rows: list[str] = []
    for step in steps:
        if isinstance(step, Loop):
            rows += [f"for {step.variable} in {TOKEN.sub(lambda match: names[match[0]], step.over)}:"]
            rows += [TAB + row for row in _rows(step.body, names)]
        else:
            line = renamed(step, names)
            rows += [line.row] if line.results != (line.text,) else []  # x = x: a loop may start with a name as it is
    if len(rows) > 1 and rows[-1].startswith("return ") and not rows[-2].startswith(TAB):
        name, _, call = rows[-2].partition(" = ")
        if call and rows[-1] == f"return {name}":
            rows[-2:] = [f"return {call}"]
    return rows
