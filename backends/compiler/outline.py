"""Blocks of a network that are written alike become functions, called with the submodule.

Kernels are formed first, over the whole network. A block is what lies wholly inside one call of a submodule: a kernel
that also computes what belongs to the next block stays outside of both, where it was.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from backends.compiler.host import state_text
from backends.compiler.naming import class_name
from backends.compiler.script import MODULE, Call, Function, Line, Step, Tokens, renamed, tokens_in

CONTAINERS = ("nn.Sequential", "nn.ModuleList")
"""Classes whose name says nothing of what is computed: the attribute that holds them does."""
FEW = 3
"""Rows from which on a block is called that differs from the repeated ones of its class."""
ROW = 84
"""Characters of a statement that take a row."""
FRAME = 6
"""Rows that a function needs besides its statements."""

Unused = Callable[..., str]
"""Takes wishes, the first first, and returns a name of the file that is free."""
Parameters = Callable[[str], Sequence[str]]
"""Names what the forward of a class of the file takes."""


@dataclass(frozen=True)
class Block:
    """The lines of one call of a submodule, first to last, and what they are up to names and the submodule's path."""

    call: Call
    first: int
    last: int
    key: tuple[str, ...]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]


def outlined(
    lines: list[Line], reads: re.Pattern[str], tokens: Tokens, parameters: Parameters, unused: Unused
) -> tuple[list[Line], list[Function]]:
    """Take what repeats out of forward, the innermost modules first; return what is left and the functions."""
    functions: list[Function] = []
    depths: dict[str, int] = {}
    for line in lines:
        for depth, (_, kind) in enumerate(line.calls):
            depths[kind] = max(depths.get(kind, 0), depth)
    for kind in sorted(depths, key=lambda kind: -depths[kind]):
        alike: dict[tuple[str, ...], list[Block]] = {}
        for block in _blocks(lines, kind, reads):
            alike.setdefault(block.key, []).append(block)
        called: dict[int, tuple[Block, str]] = {}
        repeats = [blocks for blocks in alike.values() if _is_worth(blocks, lines)]
        for blocks in sorted(alike.values(), key=lambda blocks: len(blocks[0].key)) if repeats else ():
            is_one_of_them = not kind.startswith("nn.") and _rows(blocks[0], lines) >= FEW
            if blocks in repeats or is_one_of_them:
                function = _function(blocks[0], lines, unused, functions)
                functions.append(_with_own_inputs(function, reads, tokens, parameters))
                called |= {block.first: (block, function.name) for block in blocks}
        lines = _replaced(lines, called)
    return lines, functions


def _blocks(lines: list[Line], kind: str, reads: re.Pattern[str]) -> list[Block]:
    """Find the calls of a class whose lines stand together, several of them."""
    places: dict[Call, list[int]] = {}
    for index, line in enumerate(lines):
        own = [call for call in line.calls if call[1] == kind]
        if own:
            places.setdefault(own[-1], []).append(index)
    read_at: dict[str, list[int]] = {}
    for index, line in enumerate(lines):
        for token in tokens_in(line.text, reads):
            read_at.setdefault(token, []).append(index)
    found = []
    for call, at in places.items():
        if len(at) > 1 and at[-1] - at[0] == len(at) - 1:
            block = _block(lines, call, at[0], at[-1], reads, read_at)
            found += [block] if block else []
    return found


def _block(
    lines: list[Line], call: Call, first: int, last: int, reads: re.Pattern[str], read_at: dict[str, list[int]]
) -> Block | None:
    own = _owned(call)
    numbers: dict[str, str] = {}
    made = [result for line in lines[first : last + 1] for result in line.results if result != "_"]
    outputs = tuple(token for token in made if any(not first <= at <= last for at in read_at.get(token, [])))
    key = []
    for line in lines[first : last + 1]:
        text = reads.sub(lambda match: numbers.setdefault(match[0], f"%{len(numbers)}"), own.sub(MODULE, line.text))
        if re.search(r"\bself\b", text):
            return None  # another module's tensors
        key.append(", ".join(numbers.setdefault(result, f"%{len(numbers)}") for result in line.results) + text)
    inputs = tuple(token for token in numbers if token not in made and token != "_")
    return Block(call, first, last, (*key, *(numbers[token] for token in outputs)), inputs, outputs)


def _path(call: Call) -> str:
    return state_text(re.sub(r"@\d+", "", call[0]))


def _owned(call: Call) -> re.Pattern[str]:
    """Find the submodule in a text, and no other whose path begins alike."""
    return re.compile(rf"(?<![\w.]){re.escape(_path(call))}(?=[.\[),]|$)")


def _is_worth(blocks: list[Block], lines: list[Line]) -> bool:
    """Tell whether the file gets shorter."""
    return (len(blocks) - 1) * (_rows(blocks[0], lines) - 1) > FRAME


def _rows(block: Block, lines: list[Line]) -> int:
    """Estimate the rows of a block's statements: what is too long for one has a row for each argument."""
    return sum(1 + len(line.row) // ROW * line.row.count(",") for line in lines[block.first : block.last + 1])


def _function(block: Block, lines: list[Line], unused: Unused, known: list[Function]) -> Function:
    inside = lines[block.first : block.last + 1]
    own = _owned(block.call)
    body = tuple(Line(own.sub(MODULE, line.text), line.results, line.calls) for line in inside)
    body += (Line(f"return {', '.join(block.outputs)}"),) if block.outputs else ()
    is_begun = any(own.search(line.text) for line in lines[: block.first])
    is_continued = any(own.search(line.text) for line in lines[block.last + 1 :])
    part = "inner" if is_begun and is_continued else "finish" if is_begun else "begin" if is_continued else ""
    name = "_".join(filter(None, [part, _named(block.call)]))
    known = [function for function in known if (function.kind, function.part) == (block.call[1], part)]
    differs = [word for word in _attributes(body) if known and word not in _attributes(known[0].body)]
    longer = [f"{name}_with_{differs[0]}"] if differs else []
    return Function(unused(name, *longer, name), block.call[1], part, block.inputs, body)


def _with_own_inputs(function: Function, reads: re.Pattern[str], tokens: Tokens, parameters: Parameters) -> Function:
    """Name what a function takes for itself: the one tensor that a module computes with as the user's forward does."""
    is_whole = len(function.inputs) == 1 and function.part in ("", "begin")
    users = ["x"] if function.kind.startswith("nn.") else parameters(function.kind)
    own = {
        token: tokens.new([*(users[:1] if is_whole else []), *tokens.wishes.get(token, (token,))])
        for token in function.inputs
    }
    body = tuple(renamed(line, own, reads) for line in function.body if isinstance(line, Line))
    return replace(function, inputs=tuple(own.values()), body=body)


def _named(call: Call) -> str:
    """Name a function after the class, or after the attribute where the class only holds layers: layers.3 → layer."""
    path, kind = call
    if kind not in CONTAINERS and class_name(kind.removeprefix("nn.")):
        return class_name(kind.removeprefix("nn."))
    words = [word for word in re.sub(r"@\d+", "", path).split(".") if not word.isdigit()]
    return words[-1].removesuffix("s") if words else "layer"


def _attributes(body: Iterable[Step]) -> list[str]:
    """Name the submodules that lines read, in order."""
    text = "\n".join(line.text for line in body if isinstance(line, Line))
    return list(dict.fromkeys(re.findall(rf"{MODULE}\.([A-Za-z]\w*)", text)))


def _replaced(lines: list[Line], called: dict[int, tuple[Block, str]]) -> list[Line]:
    left, index = [], 0
    while index < len(lines):
        if index not in called:
            left.append(lines[index])
            index += 1
            continue
        block, name = called[index]
        calls = lines[index].calls
        outer = calls[: calls.index(block.call)]
        left.append(Line(f"{name}({', '.join([_path(block.call), *block.inputs])})", block.outputs, outer))
        index = block.last + 1
    return left
