"""Small modules as problem texts, and what the compiler makes of them."""

from __future__ import annotations

import ast
import re
import tempfile
import textwrap
from dataclasses import replace
from pathlib import Path

from backends.compiler import schedule
from backends.compiler.attend import attended
from backends.compiler.capture import capture
from backends.compiler.convert import convert
from backends.compiler.fuse import fuse
from backends.compiler.group import Group
from backends.compiler.ir import Program, Value
from backends.compiler.lower import lower

EVERYTHING = replace(schedule.EVERYTHING, name="")  # what is left to a library for its speed is tested too


def source(forward: str, *shapes: tuple[int, ...], init: str = "", arguments: str = "") -> str:
    """Write a problem: the body of forward over x0, x1, ..., and the shapes of those."""
    names = ", ".join(f"x{index}" for index in range(len(shapes)))
    made = ", ".join(f"torch.rand({shape})" for shape in shapes)
    constructor = f"    def __init__(self):\n        super().__init__()\n{_block(init)}\n\n" if init else ""
    return (
        "import torch\nimport torch.nn as nn\nimport torch.nn.functional as F\n\n\nclass Model(nn.Module):\n"
        f"{constructor}    def forward(self, {arguments or names}):\n{_block(forward)}\n\n\n"
        f"def get_inputs():\n    return [{made}]\n\n\ndef get_init_inputs():\n    return []\n"
    )


def _block(text: str) -> str:
    return textwrap.indent(textwrap.dedent(text).strip(), " " * 8)


def triton(text: str) -> str:
    """Convert a problem text."""
    with tempfile.TemporaryDirectory() as folder:
        return "".join(convert(text, "Model", Path(folder), schedules=[EVERYTHING]))


def unbroken(text: str) -> str:
    """Write a file with one line a statement, as ast does: what it says, however it is laid out."""
    return ast.unparse(ast.parse(text))


def kernels(text: str) -> list[str]:
    """Name the kernels of a file, in order."""
    return re.findall(r"^def (\w+)_kernel\(", text, flags=re.M)


def program(text: str) -> Program:
    """Lower a problem text."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "problem.py"
        path.write_text(text, encoding="utf-8")
        return lower(capture(path, "Model"), text, EVERYTHING)


def groups(text: str) -> list[Group]:
    """Fuse a problem's operations."""
    lowered = program(text)
    returned = [value for value in lowered.outputs if isinstance(value, Value)]
    return fuse(attended(lowered.ops, returned), returned)
