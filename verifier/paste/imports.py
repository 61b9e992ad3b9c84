"""Imports: adds the usual ones that were not copied, drops what nobody uses, names what is missing."""

from __future__ import annotations

import ast
import sys
from functools import cache
from importlib.util import find_spec

from verifier.paste.edits import Edit, dropping, replacing
from verifier.paste.lines import Lines
from verifier.paste.refusal import NotAProblem
from verifier.paste.statements import Statement

_TYPING = (
    "Any Callable Dict Final Generic Iterable Iterator List Literal Mapping NamedTuple Optional Sequence Set Tuple "
    "Type TypeVar Union"
)
_NN = (
    "Module ModuleList ModuleDict Sequential Parameter ParameterList Linear Bilinear Identity Embedding "
    "Conv1d Conv2d Conv3d ConvTranspose1d ConvTranspose2d ConvTranspose3d BatchNorm1d BatchNorm2d BatchNorm3d "
    "LayerNorm GroupNorm InstanceNorm2d RMSNorm Dropout Dropout2d ReLU ReLU6 LeakyReLU GELU SiLU ELU PReLU Tanh "
    "Sigmoid Softmax LogSoftmax Softplus Hardtanh MaxPool1d MaxPool2d MaxPool3d AvgPool1d AvgPool2d "
    "AdaptiveAvgPool1d AdaptiveAvgPool2d AdaptiveMaxPool2d Flatten Unflatten Upsample PixelShuffle ZeroPad2d "
    "MultiheadAttention LSTM GRU RNN LSTMCell GRUCell CrossEntropyLoss MSELoss L1Loss NLLLoss BCELoss "
    "BCEWithLogitsLoss KLDivLoss SmoothL1Loss CosineSimilarity TransformerEncoder TransformerEncoderLayer"
)
_MODULES = (
    "math random os sys copy itertools functools collections warnings enum abc typing types time json operator "
    "string re logging torch torchvision einops"
)
USUAL: dict[str, str] = {
    "torch": "import torch",
    "nn": "import torch.nn as nn",
    "F": "import torch.nn.functional as F",
    "np": "import numpy as np",
    **{name: f"import {name}" for name in _MODULES.split()},
    **{name: f"from typing import {name}" for name in _TYPING.split()},
    **{name: f"from torch.nn import {name}" for name in _NN.split()},
    **{name: f"from einops import {name}" for name in ("rearrange", "repeat", "einsum")},
    "Tensor": "from torch import Tensor",
    "init": "from torch.nn import init",
    "Variable": "from torch.autograd import Variable",
    "Function": "from torch.autograd import Function",
    "checkpoint": "from torch.utils.checkpoint import checkpoint",
    "dataclass": "from dataclasses import dataclass",
    "field": "from dataclasses import field",
    "partial": "from functools import partial",
    "lru_cache": "from functools import lru_cache",
    "OrderedDict": "from collections import OrderedDict",
    "defaultdict": "from collections import defaultdict",
    "namedtuple": "from collections import namedtuple",
    "SimpleNamespace": "from types import SimpleNamespace",
    "deepcopy": "from copy import deepcopy",
    "ABC": "from abc import ABC",
    "abstractmethod": "from abc import abstractmethod",
    "Enum": "from enum import Enum",
    "sqrt": "from math import sqrt",
}
"""Names that a paste may use without the import that everybody has, most usual first."""

_QUICK = frozenset(sys.stdlib_module_names) | {"torch", "numpy", "triton"}
_ORDER = {line: index for index, line in enumerate(dict.fromkeys(USUAL.values()))}


@cache
def is_available(package: str) -> bool:
    """Tell whether a top-level package can be imported, without importing it."""
    try:
        return find_spec(package) is not None
    except (ImportError, ValueError, AttributeError):
        return False


def sorted_out(lines: Lines, kept: list[Statement]) -> tuple[list[Edit], list[str]]:
    """Drop imports that nobody uses and that are slow or missing; raise NotAProblem for one that is needed."""
    used = {name for s in kept if not s.imports for name in s.used}
    edits: list[Edit] = []
    gone: list[str] = []
    for statement in kept:
        node = statement.node
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            left = [alias for alias in node.names if _stays(lines, node, alias, used)]
            gone += [_written(node, alias) for alias in node.names if alias not in left]
            if not left:
                edits.append(dropping(lines, node))
            elif len(left) < len(node.names):
                edits.append(replacing(lines, node, _rewritten(node, left)))
    return edits, [f"left out imports that nothing here uses: {', '.join(gone)}"] if gone else []


def missing(names: set[str]) -> tuple[list[str], set[str]]:
    """Return the import lines for undefined names that are usual ones, and the names that are not."""
    known = {name for name in names if name in USUAL and _is_here(_package(USUAL[name]))}
    return sorted({USUAL[name] for name in known}, key=_ORDER.__getitem__), names - known


def insertion_point(tree: ast.Module) -> int:
    """Return after which line imports may be added: below the docstring and `from __future__`."""
    line = 0
    for index, node in enumerate(tree.body):
        is_docstring = index == 0 and isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        if is_docstring or (isinstance(node, ast.ImportFrom) and node.module == "__future__"):
            line = node.end_lineno or node.lineno
        else:
            break
    return line


def _stays(lines: Lines, node: ast.Import | ast.ImportFrom, alias: ast.alias, used: set[str]) -> bool:
    package = "" if isinstance(node, ast.ImportFrom) and node.level else _root(node, alias)
    name = alias.asname or alias.name.split(".")[0]
    needed = name in used or (alias.name == "*" and package in _QUICK)
    if package and (package in _QUICK or (needed and is_available(package))):
        return True
    if not needed:
        return False
    line = lines.number(node.lineno)
    if not package:
        hint = f"Paste the definition of {name} too."
        raise NotAProblem("missing_package", f"{name} comes from a file that is not in the paste", hint, line)
    hint = f"Install it (pip install {package}) or paste the definition of {name}."
    raise NotAProblem("missing_package", f"the module uses {name} of {package}, which is not installed", hint, line)


def _root(node: ast.Import | ast.ImportFrom, alias: ast.alias) -> str:
    return (alias.name if isinstance(node, ast.Import) else node.module or "").split(".")[0]


def _is_here(package: str) -> bool:
    return package in _QUICK or is_available(package)


def _package(line: str) -> str:
    return line.split()[1].split(".")[0]


def _written(node: ast.Import | ast.ImportFrom, alias: ast.alias) -> str:
    source = "" if isinstance(node, ast.Import) else "." * node.level + (node.module or "")
    return f"{source}{'.' if source.strip('.') else ''}{alias.name}"


def _rewritten(node: ast.Import | ast.ImportFrom, left: list[ast.alias]) -> str:
    if isinstance(node, ast.Import):
        return ast.unparse(ast.Import(names=left))
    return ast.unparse(ast.ImportFrom(module=node.module, names=left, level=node.level))
