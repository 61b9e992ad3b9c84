"""Names of things on the host: how `forward` writes a size, a parameter, a number of the user's own."""

from __future__ import annotations

import ast
import inspect
import math
import re
import textwrap
from typing import Any

import sympy
import torch

from backends.compiler import ownnumbers
from backends.compiler.expression import Scalar
from backends.compiler.ir import Origin, Size
from backends.compiler.sizetext import size_text

SIZE_WORDS = re.compile(r"shape|size\(|sqrt|\*\*|len\(|dim")
"""A line without any of these computes no number from a size."""


VALUES = {
    "other",
    "self",
    "exponent",
    "min",
    "max",
    "value",
    "weight",
    "min_val",
    "max_val",
    "threshold",
    "margin",
    "delta",
    "lambd",
    "negative_slope",
    "end",
}
"""Arguments where 0 and 1 may be a number of the user's own."""


LENGTHS = {"size", "sizes", "shape"}
"""Arguments that are lengths, whatever the line says."""
ATTRIBUTE = re.compile(r"self(\.\w+|\[\d+\])+")


class Host:
    """What the generated `forward` can name: sizes through its arguments' shapes, state through `self`."""

    def __init__(self, module: torch.nn.Module, arguments: tuple[str, ...], constants: dict[str, Any]) -> None:
        self.module, self.arguments, self.constants = module, arguments, constants
        self.symbols: dict[Any, str] = {}
        self.pins: dict[str, Any] = {}  # attributes that must keep their value
        self._read: dict[int, frozenset[str] | None] = {}  # by class: what its methods read off self
        self.fixed: list[tuple[str, int]] = []  # dimensions that tracing tied to a number

    def learn_shape(self, text: str, shape: torch.Size) -> None:
        """Remember that an input's dimensions give the sizes' symbols a name."""
        for index, size in enumerate(shape):
            if isinstance(size, int) or size.node.expr.is_number:
                if int(size) > 1:
                    self.fixed.append((f"{text}.shape[{index}]", int(size)))
            elif isinstance(size.node.expr, sympy.Symbol):
                self.symbols.setdefault(size.node.expr, f"{text}.shape[{index}]")

    def size(self, size: Size | torch.SymInt | int) -> str:
        """Write a size as an expression over the inputs' shapes."""
        if isinstance(size, int):
            return str(size)
        symbol = size.symbol if isinstance(size, Size) else size.node.expr
        if symbol is None:
            return str(size.hint)  # type: ignore[union-attr]
        return size_text(symbol, self.symbols)

    def sized(self, size: torch.SymInt) -> Scalar:
        """Return the run-time number that a size is; raise NoName."""
        hint = size.node.hint
        return Scalar(torch.int64, self.size(size), hint if hint is not None else 1)

    def condition(self, expression: Any) -> str:
        """Write what must hold of sizes over the inputs' shapes."""
        return size_text(expression, self.symbols)

    def scalar(self, number: Any, origin: Origin, argument: str) -> Any:
        """Return `Scalar` if the user's line names this number, else the number itself.

        A number is named where the line reads `self.scale` (or the submodule has an attribute of the
        schema's own name, as `negative_slope`) and that attribute has this very value.
        """
        if isinstance(number, torch.SymInt):
            return self.sized(number)
        if isinstance(number, bool) or not isinstance(number, (int, float)):
            return number
        if number in (0, 1, -1) and argument not in VALUES:
            return number  # an operator's own default, not the user's number
        for text, value in self._forms(origin, argument):
            if type(value) is not type(number) or value != number:
                continue
            if _is_written(number, origin.line):
                if text.lstrip("-").startswith("self."):  # which of the two is meant cannot be told: hold to the value
                    self.pins[text.lstrip("-")] = -number if text.startswith("-") else number
                return number
            return Scalar(_dtype(number), text, number)
        if text := self._computed(number, origin, argument):
            return Scalar(_dtype(number), text, number)
        return number

    def length(self, number: Any, origin: Origin, argument: str) -> Any:
        """Return `Scalar` for a length that is an attribute of the user's, else the number itself.

        Most lengths follow from the tensor's own, which may equal twice an attribute by chance.
        """
        named = self.scalar(number, origin, argument)
        is_own = isinstance(number, torch.SymInt) or not isinstance(named, Scalar) or ATTRIBUTE.fullmatch(named.host)
        return named if is_own else number

    def _forms(self, origin: Origin, argument: str) -> list[tuple[str, Any]]:
        """What the line reads, and what is commonly made of it: -limit, 1 / temperature, width ** -0.5."""
        found = self._candidates(origin, argument)
        plain = [(text, v) for text, v in found if isinstance(v, (int, float)) and not isinstance(v, bool)]
        made = list(ownnumbers.made(origin.line, self.module.get_submodule(origin.module), state_text(origin.module)))
        made += [(f"-{text}", -v) for text, v in plain]
        made += [(f"float({text})", float(v)) for text, v in plain if isinstance(v, int)]
        for text, v in plain:
            if v > 0:
                made += [(f"1.0 / {text}", 1.0 / v), (f"{text} ** -0.5", v**-0.5), (f"{text} ** 0.5", v**0.5)]
            made += [(f"{text} ** 2", v**2), (f"2 * {text}", 2 * v), (f"{text} / 2", v / 2)]
        return [*found, *((text, v) for text, v in made if " " not in text or not _is_written(v, origin.line))]

    def _computed(self, number: float, origin: Origin, argument: str) -> str:
        """Write a number that the user's line computes from a size, such as math.sqrt(q.shape[-1]).

        Tracing leaves only its value; written down as that, it would be wrong at the next size. A place, which a loop
        may count, is no length.
        """
        if argument == "index":
            return ""
        is_library = type(self.module.get_submodule(origin.module)).__module__.startswith("torch.nn.modules")
        is_root = is_library and number % 1 != 0  # a whole number may equal any attribute by chance
        is_sized = argument in LENGTHS or SIZE_WORDS.search(origin.line)
        if not (is_root or is_sized) or repr(number) in origin.line:
            return ""
        last_first = sorted(self.fixed, key=lambda found: -int(found[0].rsplit("[", 1)[1][:-1]))
        for text, size in [*last_first, *self._whole_attributes(origin)]:
            roots = [
                (math.sqrt(size), "math.sqrt({0})"),
                (1.0 / math.sqrt(size), "1.0 / math.sqrt({0})"),
                (math.sqrt(1.0 / size), "math.sqrt(1.0 / {0})"),
                (size**-0.5, "{0} ** -0.5"),
            ]
            plain = [(size, "{0}"), (float(size), "float({0})"), (1.0 / size, "1.0 / {0}")]
            for value, form in roots if is_root else [*roots, *plain]:
                if type(value) is type(number) and value == number:
                    return form.format(text)
        return ""

    def _whole_attributes(self, origin: Origin) -> list[tuple[str, int]]:
        """Whole numbers of the submodule, and their quotients: a head's width is often dim // heads."""
        owner, prefix = self.module.get_submodule(origin.module), state_text(origin.module)
        kind = type(owner)
        if id(kind) not in self._read:
            self._read[id(kind)] = _read_by_methods(kind)
        known = self._read[id(kind)]
        whole = {
            f"{prefix}.{name}": value
            for name, value in vars(owner).items()
            if type(value) is int and value > 1 and not name.startswith("_") and (known is None or name in known)
        }
        quotients = {
            f"({one} // {other})": whole[one] // whole[other]
            for one in whole
            for other in whole
            if one != other and whole[one] % whole[other] == 0
        }
        return [*whole.items(), *((text, size) for text, size in quotients.items() if size > 1)]

    def _candidates(self, origin: Origin, argument: str) -> list[tuple[str, Any]]:
        owner = self.module.get_submodule(origin.module)
        prefix = state_text(origin.module)
        found: list[tuple[str, Any]] = []
        for name in re.findall(r"\bself\.([A-Za-z_]\w*)", origin.line):
            if hasattr(owner, name):
                found.append((f"{prefix}.{name}", getattr(owner, name)))
        if hasattr(owner, argument):
            found.append((f"{prefix}.{argument}", getattr(owner, argument)))
        if not origin.module:
            words = set(re.findall(r"\b[A-Za-z_]\w*", origin.line))
            found += [(text, value) for text, value in self.constants.items() if text in words]
        return found


def _read_by_methods(kind: type) -> frozenset[str] | None:
    """Name what a class of the user's reads off itself besides in its constructor; None for one of PyTorch's."""
    if kind.__module__.startswith("torch."):
        return None
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(kind)))
    except (OSError, TypeError, SyntaxError):
        return None
    methods = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef) and node.name != "__init__"]
    return frozenset(
        node.attr
        for method in methods
        for node in ast.walk(method)
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "self"
    )


def _dtype(number: float) -> torch.dtype:
    return torch.float64 if isinstance(number, float) else torch.int64


def _is_written(number: float, line: str) -> bool:
    """True if the line holds this very number as a literal."""
    found = re.findall(r"(?<![\w.])\d+\.?\d*(?:[eE][-+]?\d+)?(?![\w.])", line)
    return any(float(text) == abs(number) for text in found)


def state_text(path: str) -> str:
    """Write a dotted path of modules and parameters as Python: layers.0.weight → self.layers[0].weight."""
    if not path:
        return "self"
    return re.sub(r"\.(\d+)(?=\.|$)", r"[\1]", "self." + path)
