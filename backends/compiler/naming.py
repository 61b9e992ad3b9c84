"""Names a person would choose: from the user's variables, the parameters' own names, and PyTorch's."""

from __future__ import annotations

import builtins
import keyword
import re
from collections.abc import Iterable

from backends.compiler.carried import CARRIED

RESERVED = {
    "tl",
    "triton",
    "torch",
    "nn",
    "F",
    "math",
    "self",
    "inside",
    "row",
    "column",
    "line",
    "offsets",
    "start",
    "shape",
    "block",
    "block_lines",
    "block_rows",
    "block_m",
    "block_n",
    "block_k",
    "warps",
    "parts",
    "left",
    "right",
    "batch",
    "acc",
    "pid",
    "grid",
    *CARRIED,
    *keyword.kwlist,
    *dir(builtins),
}
"""What the emitted text uses itself."""

FREE = {"block", "row", "column", "line"}
"""Of these, what only kernels and launchers use: functions that call them may, for a module."""

OTHER_WORDS = {
    "abs": "magnitude",
    "sum": "total",
    "max": "largest",
    "min": "smallest",
    "pow": "power",
    "all": "all_true",
    "any": "any_true",
    "round": "rounded",
    "slice": "part",
    "pad": "padded",
}
"""What to call a variable whose operator has the name of a Python builtin."""


class Names:
    """Gives each thing of one scope an unused name."""

    def __init__(self, taken: Iterable[str] = ()) -> None:
        self.taken = set(taken) | RESERVED

    def unused(self, *wishes: str) -> str:
        """Return the first wish that is free, else the last one with a number."""
        wishes = tuple(OTHER_WORDS.get(wish, wish) for wish in wishes)
        for wish in wishes:
            if identifier(wish) not in self.taken:
                return self.take(identifier(wish))
        base, number = identifier(wishes[-1]), 2
        while f"{base}_{number}" in self.taken:
            number += 1
        return self.take(f"{base}_{number}")

    def take(self, name: str) -> str:
        """Mark a name as used."""
        self.taken.add(name)
        return name


def identifier(text: str) -> str:
    """Make any text a Python name."""
    name = re.sub(r"\W+", "_", text).strip("_")
    return name if name and not name[0].isdigit() else f"t_{name}"


STEPS = 4
"""Operations that a kernel's name tells: the first ones and the last."""


def chain(steps: list[str]) -> str:
    """Name a kernel after what it computes: the operations' PyTorch names, in order, each once."""
    kept = list(dict.fromkeys(steps))
    if len(kept) > STEPS:
        kept = [*kept[: STEPS - 1], kept[-1]]
    return "_".join(kept)


ANY_MODULE = re.compile(r"_*(My|Custom|Simple|Test|Toy|Tiny)?(Model|Net|Network|Module|Main|Wrapper)(New|\d)?")
"""Class names that say nothing of what is computed."""


def class_name(entry: str) -> str:
    """Turn a telling class name into a function's, LayerNorm2d → layer_norm2d; "" for one such as Model."""
    if ANY_MODULE.fullmatch(entry):
        return ""
    words = re.findall(r"[A-Z]+(?![a-z])\d*|[A-Z]?[a-z]+(?:\d+d(?![a-z]))?\d*|\d+", entry)
    name = "_".join(word.lower() for word in words)
    return "" if name in dir(builtins) or not name.isidentifier() else name
