"""Code without a class: a bare function or an nn.Sequential(...) becomes the forward of a Model."""

from __future__ import annotations

import ast
import re

from verifier.paste import examples
from verifier.paste.choose import resolved
from verifier.paste.statements import Statement, dotted

_CONTAINERS = ("torch.nn.Sequential", "torch.nn.ModuleList")
_NOT_IT = re.compile(
    r"_*(?:main|train|test|demo|run|check|example|evaluate|get_\w+|set_\w+|load\w*|save\w*|plot\w*|benchmark\w*)"
    r"(?:_\w*)?"
)
_TENSOR_METHODS = frozenset(
    "softmax mean sum matmul transpose view reshape sigmoid tanh relu exp rsqrt permute".split()
)


def wrapped(body: list[Statement], table: dict[str, str]) -> tuple[str, str] | None:
    """Return the text of a Model around the paste's function or layers and what to say, or None."""
    function = _function(body)
    if function is not None:
        return _around_function(
            function, body
        ), f"no class in the paste: wrapped the function {function.name}() in a Model"
    layers = _layers(body, table)
    if layers is not None:
        return _around_layers(layers), f"no class in the paste: wrapped {dotted(layers.func)}(…) in a Model"
    return None


def _function(body: list[Statement]) -> ast.FunctionDef | None:
    """Choose the function that is called by the script, else the last that no other function uses."""
    named: dict[str, ast.FunctionDef] = {}
    for s in body:
        if (
            isinstance(s.node, ast.FunctionDef)
            and not _NOT_IT.fullmatch(s.node.name)
            and _looks_like_torch(s, set(named))
        ):
            named[s.node.name] = s.node
    used = {name for s in body if s.defines for name in s.used if name not in s.bound}
    tops = [f for name, f in named.items() if name not in used] or list(named.values())
    called = [f for f in tops if examples.use(body, f.name, is_class=False)]
    return next(reversed(called or tops), None)


def _looks_like_torch(s: Statement, known: set[str]) -> bool:
    node = s.node
    if not isinstance(node, ast.FunctionDef) or not (node.args.args or node.args.posonlyargs):
        return False
    if {"self", "cls"} & {a.arg for a in node.args.args[:1]} or any(
        "jit" in ast.unparse(d) for d in node.decorator_list
    ):
        return False
    returns = any(isinstance(n, ast.Return) and n.value is not None for n in ast.walk(node))
    return returns and bool(s.used & ({"torch", "F", "nn", "Tensor"} | known) or _has_tensor_methods(node))


def _has_tensor_methods(node: ast.FunctionDef) -> bool:
    methods = {n.attr for n in ast.walk(node) if isinstance(n, ast.Attribute)}
    return bool(methods & _TENSOR_METHODS)


def _around_function(function: ast.FunctionDef, body: list[Statement]) -> str:
    """Tensors become forward's parameters; numbers and flags that the example passes are written in."""
    arguments = [*function.args.posonlyargs, *function.args.args]
    required = arguments[: len(arguments) - len(function.args.defaults)]
    call = examples.use(body, function.name, is_class=False)
    given = {a.arg: value for a, value in zip(arguments, call.arguments, strict=False)} if call else {}
    given |= dict(call.keywords) if call else {}
    names, passed = [], []
    for argument in arguments:
        value = given.get(argument.arg)
        if isinstance(value, ast.Constant) or (value is None and _plain(argument) is not None and argument in required):
            text = ast.unparse(value) if value is not None else str(_plain(argument))
            passed.append(f"{argument.arg}={text}" if argument not in function.args.posonlyargs else text)
        elif value is not None or argument in required:
            names.append(argument.arg)
            passed.append(argument.arg if argument in required else f"{argument.arg}={argument.arg}")
    signature = ", ".join(["self", *names])
    return (
        f'\n\nclass Model(nn.Module):\n    """Calls {function.name}."""\n\n    def __init__(self):\n'
        f"        super().__init__()\n\n    def forward({signature}):\n"
        f"        return {function.name}({', '.join(passed)})\n"
    )


def _plain(argument: ast.arg) -> object:
    """Return a value for a parameter annotated as a plain number or flag."""
    kind = dotted(argument.annotation) if argument.annotation else ""
    return {"int": 2, "float": 0.5, "bool": True}.get(kind)


def _layers(body: list[Statement], table: dict[str, str]) -> ast.Call | None:
    found = None
    for s in body:
        value = getattr(s.node, "value", None)
        if (
            not s.defines
            and isinstance(value, ast.Call)
            and resolved(dotted(value.func), table).startswith("torch.nn.")
        ):
            name = resolved(dotted(value.func), table)
            if name in _CONTAINERS or found is None or resolved(dotted(found.func), table) not in _CONTAINERS:
                found = value
    if found is None or not resolved(dotted(found.func), table).removeprefix("torch.nn.")[:1].isupper():
        return None
    return found


def _around_layers(layers: ast.Call) -> str:
    return (
        '\n\nclass Model(nn.Module):\n    """Calls the layers above."""\n\n    def __init__(self):\n'
        f"        super().__init__()\n        self.layers = {ast.unparse(layers)}\n\n"
        "    def forward(self, x):\n        return self.layers(x)\n"
    )
