"""Mends what dates an answer, not what is wrong with it: names that PyTorch has moved or removed since.

Models tuned on torch.compile's output import helpers of its runtime, of which `grid` is gone since torch 2.7: every
such kernel would fail at its import, whatever its quality. What is mended is named, and counted apart.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass

_GRID = '''\
def grid(*numels):
    """Programs along x, y and z for these numbers of elements, x last."""

    def programs(meta):
        blocks = zip(reversed(numels), ("XBLOCK", "YBLOCK", "ZBLOCK"))
        return tuple(-(-numel // meta.get(name, 1)) for numel, name in blocks)

    return programs
'''

_RAW_STREAM = '''\
def {name}(device):
    """Triton finds the stream by itself."""
    return 0
'''

_EMPTY = '''\
def {name}(size, stride, dtype):
    """Memory on the device that is in use."""
    device = "cuda" if torch.cuda.is_available() else "cpu"
    return torch.empty_strided(size, stride, dtype=dtype, device=device)
'''

_GUARD = '''\
class DeviceGuard:
    """Launch where the inputs are: the device's number 0 was an accident of the training data."""

    def __init__(self, device):
        pass

    def __enter__(self):
        return self

    def __exit__(self, *fault):
        return False
'''


_GUARDED = "torch.cuda._DeviceGuard"


@dataclass(frozen=True)
class _Mend:
    """Lines of the answer (from 1) that go, what of them stays, what stands in for them, and why."""

    first: int
    last: int
    kept: str
    stand_in: str
    why: str


def repaired(code: str) -> tuple[str, tuple[str, ...]]:
    """Return the code with outdated names mended, and what was mended; the same text when nothing was."""
    try:
        tree = ast.parse(code)
    except (SyntaxError, ValueError, RecursionError):
        return code, ()
    mends = [mend for node in tree.body if (mend := _mend(node))]
    stand_ins, said = [mend.stand_in for mend in mends], [mend.why for mend in mends]
    lines = code.split("\n")
    for mend in reversed(mends):
        lines[mend.first - 1 : mend.last] = [mend.kept] if mend.kept else []
    code = "\n".join(lines)
    if _GUARDED in code:
        code = code.replace(_GUARDED, "DeviceGuard").replace("torch.cuda.set_device(0)", "pass")
        stand_ins.append(_GUARD)
        said.append("launches follow the inputs' device instead of number 0")
    code, renamed = _with_the_class(_after_imports(code, stand_ins))
    return code, (*said, *renamed)


def _mend(node: ast.stmt) -> _Mend | None:
    """Return what a top-level statement needs; nothing where it can stay."""
    match node:
        case ast.ImportFrom(module="torch._inductor.runtime.triton_heuristics", names=names):
            kept = [name for name in names if name.name != "grid"]
            if len(kept) == len(names):
                return None
            rest = ast.unparse(ast.ImportFrom(node.module, kept, 0)) if kept else ""
            text, why = _GRID, "`grid` is no longer in torch._inductor"
        case ast.ImportFrom(module="torch._C", names=[ast.alias("_cuda_getCurrentRawStream", name)]):
            text, why = _RAW_STREAM.format(name=name or "_cuda_getCurrentRawStream"), "the raw stream is not asked for"
            rest = ""
        case ast.Assign(targets=[ast.Name(name)], value=ast.Attribute(attr="_empty_strided_cuda")):
            text, why, rest = _EMPTY.format(name=name), "memory is taken on the device in use", ""
        case _:
            return None
    return _Mend(node.lineno, node.end_lineno or node.lineno, rest, text, why)


def _after_imports(code: str, stand_ins: list[str]) -> str:
    if not stand_ins:
        return code
    tree = ast.parse(code)
    last = max((n.end_lineno or 0 for n in tree.body if isinstance(n, ast.Import | ast.ImportFrom)), default=0)
    lines = code.split("\n")
    texts = [line for text in stand_ins for line in ["", "", *text.rstrip("\n").split("\n")]]
    return "\n".join([*lines[:last], *texts, "", "", "\n".join(lines[last:]).lstrip("\n")])


def _with_the_class(code: str) -> tuple[str, tuple[str, ...]]:
    """Call the one module class ModelNew when the answer calls it something else."""
    try:
        classes = [node for node in ast.parse(code).body if isinstance(node, ast.ClassDef) and _is_module(node)]
    except SyntaxError:
        return code, ()
    names = [node.name for node in classes]
    meant = [name for name in names if name.endswith("New")] or names
    if "ModelNew" in names or len(meant) != 1 or "@triton.jit" not in code:
        return code, ()
    return f"{code.rstrip()}\n\n\nModelNew = {meant[0]}\n", (f"the class was called {meant[0]}",)


def _is_module(node: ast.ClassDef) -> bool:
    return any(ast.unparse(base) in ("nn.Module", "torch.nn.Module", "Module") for base in node.bases)
