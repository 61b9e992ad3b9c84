"""The top of the file: what runs in Triton, what stays in PyTorch and why, and the imports."""

from __future__ import annotations

import re
from collections.abc import Iterable
from textwrap import wrap

from backends.compiler.extern import FREE
from backends.compiler.group import Group
from backends.compiler.ir import Extern
from backends.compiler.margin import WIDTH

STANDARD = ("math", "typing", "collections", "dataclasses", "functools")
"""Packages whose imports come first."""
IMPORTED = {
    "TensorDescriptor": "from triton.tools.tensor_descriptor import TensorDescriptor",
    "libdevice": "from triton.language.extra import libdevice",
    "WeakTensorKeyDictionary": "from torch.utils.weak import WeakTensorKeyDictionary",
    "register_optimizer_step_post_hook": "from torch.optim.optimizer import register_optimizer_step_post_hook",
}
"""What kernels, launchers and carried functions may need besides, by its name in their text."""
LABEL = 12
"""Width of "In PyTorch: "."""


def header(entry: str, groups: list[Group], schedule: str = "", unset: Iterable[str] = ()) -> str:
    """Write the file's docstring.

    `schedule` says in words how this candidate differs from the usual one, `unset` names the attributes in which the
    user's forward left tensors for others to read.
    """
    here = ", ".join(dict.fromkeys(step for group in groups for step in group.steps))
    stayed = [f"{label}: {reason}" for label, reason in _stayed(groups).items()] or ["nothing"]
    lines = [f"Triton for `{entry}`.", "", *_labelled("In Triton:  ", [here]), *_labelled("In PyTorch: ", stayed)]
    lines += _labelled("Schedule:   ", [schedule]) if schedule else []
    lines += _labelled("Not kept:   ", [f"{text}, which only the original forward sets" for text in unset])
    text = "\n".join(lines)
    return f'"""{text}\n"""'


def _labelled(label: str, entries: list[str]) -> list[str]:
    lines: list[str] = []
    for entry in entries:
        for part in wrap(entry, WIDTH - LABEL, break_long_words=False):
            lines.append((" " * LABEL if lines else label) + part)
    return lines


def _stayed(groups: Iterable[Group]) -> dict[str, str]:
    """The operators that PyTorch runs, each with its reason."""
    found: dict[str, str] = {}
    for group in groups:
        op = group.ops[0]
        if isinstance(op, Extern) and op.is_work:
            found.setdefault(op.label, op.reason)
    return found


def only_copies(groups: list[Group]) -> bool:
    """Tell whether PyTorch would do all the work, and kernels only copy for it."""
    copied = all(group.kind == "extern" or set(group.steps) <= FREE for group in groups)
    return copied and bool(_stayed(groups))


def nothing(groups: list[Group]) -> str:
    """Say why no kernel can be written."""
    stayed = _stayed(groups)
    if not stayed:
        return "builtin can write no kernel for this module: there is no work in it"
    return f"builtin can write no kernel for this module: {', '.join(stayed)} would all stay in PyTorch"


def imports(user: Iterable[str], kernels: str, forward: str, classes: str) -> str:
    """Write the imports that the file's parts need, the standard library's first."""
    wanted = ["import torch"]
    if re.search(r"\bmath\.", kernels + forward):
        wanted.append("import math")
    if re.search(r"\bnn\b", classes):
        wanted.append("import torch.nn as nn")
    if re.search(r"\bF\.", forward):
        wanted.append("import torch.nn.functional as F")
    wanted += [line for name, line in IMPORTED.items() if re.search(rf"\b{name}\b", kernels)]
    unique = list(dict.fromkeys([*wanted, "import triton", "import triton.language as tl", *user]))
    future = [line for line in unique if "__future__" in line]
    standard = sorted(line for line in unique if line.split()[1].split(".")[0] in STANDARD)
    rest = sorted((line for line in unique if line not in future and line not in standard), key=_import_key)
    return "\n\n".join("\n".join(block) for block in (future, standard, rest) if block)


def _import_key(line: str) -> tuple[bool, str]:
    words = line.split()
    return (words[0] == "from", words[1])
