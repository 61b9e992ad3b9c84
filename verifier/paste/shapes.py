"""Guesses the shape of forward's arguments from the first layer that each of them meets."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from verifier.paste.choose import ModuleClass
from verifier.paste.evaluate import Unknown, evaluate
from verifier.paste.flow import is_derived
from verifier.paste.layers import Layers
from verifier.paste.needs import Need
from verifier.paste.sizes import given, parameter_names
from verifier.paste.statements import Statement, dotted

_INDEX = re.compile(r".*(?:ids?|idx|index|indices|tokens?|target|targets|label|labels)")
_TARGET = re.compile(r".*(?:target|targets|label|labels)")
_CLASSES = re.compile(r"cross_entropy|nll_loss|CrossEntropy|NLLLoss|one_hot|gather|index_select|embedding|Embedding")
_SQUARE = re.compile(r"adj|adjacency|adj_matrix")
_MASK = re.compile(r".*mask")
_IMAGE = re.compile(r".*(?:im|img|imgs|image|images|pixels?|pixel_values)")
_USUAL_SHAPES = {1: (64,), 2: (16, 64), 3: (2, 16, 64), 4: (2, 8, 16, 16), 5: (1, 4, 8, 8, 8)}


@dataclass(frozen=True)
class Guess:
    """An expression for one argument, and the layer it was read from."""

    text: str
    reason: str = ""


def guessed(name: str, module: ModuleClass, layers: Layers, names: Mapping[str, Any]) -> Guess:
    """Guess one argument of forward."""
    forward = module.forward
    if forward is None:
        need = layers.inherited(module, names)
        return _written(need) if need else Guess(_random(_USUAL_SHAPES[2]))
    annotation = next((a.annotation for a in forward.args.args if a.arg == name), None)
    kind = ast.unparse(annotation) if annotation else ""
    if kind in ("int", "float", "bool"):
        return Guess({"int": "2", "float": "0.5", "bool": "True"}[kind])
    need = layers.first_need(module, name, names)
    if need is not None:
        return _written(need)
    return _by_name(name, module, layers, names)


def _by_name(name: str, module: ModuleClass, layers: Layers, names: Mapping[str, Any]) -> Guess:
    others = [n for n in parameter_names(module.forward) if n != name]
    needs = [n for n in (layers.first_need(module, other, names) for other in others) if n and not n.limit]
    like = needs[0].shape if needs else None
    if _MASK.fullmatch(name):
        shape = like[:-1] if like else (2, 16)
        return Guess(f"torch.ones({', '.join(map(str, shape))}, dtype=torch.bool)")
    if _SQUARE.fullmatch(name):
        rows = like[0] if like else 16
        return Guess(f"torch.rand({rows}, {rows})")
    if _INDEX.fullmatch(name) and (_CLASSES.search(ast.unparse(module.node)) or not _TARGET.fullmatch(name)):
        shape, limit = (like[:1], like[-1]) if like else ((8,) if len(others) else (2, 16), 10)
        return Guess(f"torch.randint(0, {limit}, ({', '.join(map(str, shape))},))")
    if _is_right_factor(name, module):
        return Guess(
            _random((*like[:-2], like[-1], 48) if like else (2, 64, 48) if _rank(others[0], module) == 3 else (64, 48))
        )
    if like:
        return Guess(_random(like))
    if _IMAGE.fullmatch(name):
        return Guess(_random((2, 3, 32, 32)))
    if _TARGET.fullmatch(name):
        return Guess(_random(_USUAL_SHAPES[2]).replace("randn", "rand"))
    rank = max([_rank(n, module) for n in [name, *others]], default=0)
    if not rank and any(_INDEX.fullmatch(o) for o in others) and _CLASSES.search(ast.unparse(module.node)):
        return Guess(_random((8, 10)))
    return Guess(_random(_USUAL_SHAPES.get(rank, _USUAL_SHAPES[2])))


def _rank(name: str, module: ModuleClass) -> int:
    """Read the number of dimensions from `b, c, h, w = x.shape`, `x.permute(0, 2, 1)`, `dim=3` and 2-d functions."""
    if module.forward is None:
        return 0
    found = 0
    for node in ast.walk(module.forward):
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Tuple):
            value = node.value.func if isinstance(node.value, ast.Call) else node.value
            if dotted(value) in (f"{name}.shape", f"{name}.size"):
                return len(node.targets[0].elts)
        if isinstance(node, ast.Call) and (dotted(node.func).startswith(f"{name}.") or _first_is(node, name)):
            found = max(found, _rank_of_call(node))
    return found


def _rank_of_call(node: ast.Call) -> int:
    last = node.func.attr if isinstance(node.func, ast.Attribute) else dotted(node.func)
    numbers = [n.value for a in [*node.args, *(k.value for k in node.keywords)] for n in ast.walk(a)
               if isinstance(n, ast.Constant) and type(n.value) is int]  # fmt: skip
    if last == "permute":
        return len(node.args) if len(node.args) > 1 else len(numbers)
    if last in ("transpose", "softmax", "sum", "mean", "cumsum", "flip", "log_softmax", "amax", "unbind", "logsumexp"):
        return max(numbers, default=1) + 1
    if last in ("bmm", "baddbmm"):
        return 3
    if last == "scaled_dot_product_attention":
        return 4
    if last in ("interpolate", "pixel_shuffle"):
        return 4
    dimensional = re.fullmatch(r".*(?:pool|conv|norm|transpose|upsample)([123])d.*", last)
    return int(dimensional[1]) + 2 if dimensional else 0


def _is_right_factor(name: str, module: ModuleClass) -> bool:
    """Tell `torch.matmul(a, name)` and `a @ name` of two arguments."""
    for node in ast.walk(module.forward) if module.forward else ():
        pair: list[ast.expr] = []
        if isinstance(node, ast.Call) and dotted(node.func).rpartition(".")[2] in ("matmul", "mm", "bmm"):
            pair = node.args[:2]
        elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.MatMult):
            pair = [node.left, node.right]
        if len(pair) == 2 and dotted(pair[1]) == name and isinstance(pair[0], ast.Name):
            return True
    return False


def _first_is(node: ast.Call, name: str) -> bool:
    return bool(node.args) and is_derived(node.args[0], {name})


def _written(need: Need) -> Guess:
    if need.limit:
        return Guess(f"torch.randint(0, {need.limit}, ({', '.join(map(str, need.shape))},))", need.reason)
    return Guess(_random(need.shape), need.reason)


def _random(shape: tuple[int, ...]) -> str:
    return f"torch.randn({', '.join(map(str, shape))})"


def fitted(
    body: list[Statement], module: ModuleClass, layers: Layers, values: Mapping[str, Any], guesses: Mapping[str, str]
) -> dict[str, str]:
    """Make guessed constructor sizes fit the shapes that get_inputs() of the paste returns."""
    shapes = _given_shapes(body, values)
    found: dict[str, str] = {}
    names: dict[str, Any] = {**values, **given([], module, values)}
    for name, text in guesses.items():
        if text.isdigit():
            names[name] = int(text)
    for argument, shape in zip(parameter_names(module.forward), shapes, strict=False):
        need = layers.first_need(module, argument, names) if shape else None
        if need is None or not shape or need.parameter not in guesses:
            continue
        axis = 1 if need.channels and len(shape) > 2 else -1
        found[need.parameter] = "128" if need.limit else str(shape[axis])
    return found


def _given_shapes(body: list[Statement], values: Mapping[str, Any]) -> list[tuple[int, ...] | None]:
    for s in body:
        if isinstance(s.node, ast.FunctionDef) and s.node.name == "get_inputs":
            local = {n.targets[0].id: n.value for n in ast.walk(s.node) if isinstance(n, ast.Assign)
                     and isinstance(n.targets[0], ast.Name)}  # fmt: skip
            for n in ast.walk(s.node):
                if isinstance(n, ast.Return) and isinstance(n.value, (ast.List, ast.Tuple)):
                    items = [local.get(i.id, i) if isinstance(i, ast.Name) else i for i in n.value.elts]
                    return [_shape(item, values) for item in items]
    return []


def _shape(node: ast.expr, values: Mapping[str, Any]) -> tuple[int, ...] | None:
    """Return the shape in `torch.randn(2, 3)`, `torch.randn((2, 3))` or `torch.rand(size=[2, 3])`."""
    if not isinstance(node, ast.Call) or not dotted(node.func).startswith("torch."):
        return None
    sizes = [k.value for k in node.keywords if k.arg == "size"] or node.args
    if dotted(node.func) == "torch.randint":
        sizes = sizes[-1:]
    try:
        found = evaluate(ast.Tuple(elts=list(sizes)), values)
    except Unknown:
        return None
    found = found[0] if len(found) == 1 and isinstance(found[0], list) else found
    return tuple(found) if all(type(n) is int for n in found) and found else None
