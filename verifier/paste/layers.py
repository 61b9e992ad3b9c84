"""What the layers of a module need as input: reads constructors and forward, runs nothing."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from verifier.paste.choose import ModuleClass, resolved
from verifier.paste.evaluate import Unknown, evaluate, size
from verifier.paste.statements import dotted

_PASSING = frozenset(
    [
        "Dropout",
        "Dropout1d",
        "Dropout2d",
        "ReLU",
        "ReLU6",
        "GELU",
        "SiLU",
        "Identity",
        "Flatten",
        "Tanh",
        "Sigmoid",
        "LeakyReLU",
        "ELU",
        "Softmax",
    ]
)
_ROWS, _TIME = 8, 16
BASES = {
    "torch.nn.Linear": "64, 48", "torch.nn.Embedding": "128, 64", "torch.nn.LayerNorm": "64", "torch.nn.GroupNorm": "4, 16",
    **{f"torch.nn.Conv{n}d": "16, 16, 3" for n in (1, 2, 3)}, **{f"torch.nn.ConvTranspose{n}d": "16, 16, 3" for n in (1, 2, 3)},
    **{f"torch.nn.BatchNorm{n}d": "16" for n in (1, 2, 3)}, "torch.nn.RMSNorm": "64",
}  # fmt: skip
"""Constructor arguments for a subclass that keeps its base's constructor."""
DEPTH = 4
"""Classes followed into one another."""

_SPATIAL = {1: (32,), 2: (32, 32), 3: (8, 16, 16)}


@dataclass(frozen=True)
class Need:
    """The shape that a layer takes; `limit` for indices; `parameter` names the constructor argument it hangs on."""

    shape: tuple[int, ...]
    reason: str
    limit: int = 0
    parameter: str = ""
    channels: bool = False


@dataclass(frozen=True)
class Layers:
    """The classes of a paste and its imports, to look layers up in."""

    classes: Mapping[str, ModuleClass]
    table: Mapping[str, str]
    functions: Mapping[str, ast.FunctionDef]

    def first_need(self, module: ModuleClass, name: str, names: Mapping[str, Any], depth: int = 0) -> Need | None:
        """Follow an argument through forward to the first layer or weight that fixes its shape."""
        if module.forward is None or depth > DEPTH:
            return self.inherited(module, names)
        if module.base in BASES and not module.init:
            parameters = BASES[module.base].split(", ")
            call = ast.Call(func=ast.Name(module.base), args=[ast.Constant(int(p)) for p in parameters], keywords=[])
            return self._of(call, names, DEPTH)
        made, known = self._constructed(module, names)
        methods = {m.name: m for m in module.node.body if isinstance(m, ast.FunctionDef)}
        pools = {key for key, value in made.items() if _pools(value)}
        same, spatial = {name}, 0
        moved: tuple[int, ...] = ()
        for node in _in_order(module.forward):
            if (
                isinstance(node, ast.Call)
                and dotted(node.func) in pools
                and node.args
                and is_derived(node.args[0], same)
            ):
                spatial = _pools(made[dotted(node.func)])
                continue
            if isinstance(node, ast.For) and isinstance(node.target, ast.Name):
                element = _element(made.get(dotted(node.iter)))
                if element is not None:
                    made[node.target.id] = element
            elif (
                isinstance(node, ast.Assign)
                and isinstance(node.targets[0], ast.Name)
                and is_derived(node.value, same, pools)
            ):
                same.add(node.targets[0].id)
                moved = _permutation(node.value) or moved
            elif isinstance(node, (ast.Call, ast.BinOp)):
                need = self._in_method(node, same, module, methods, known, depth) or self._met(
                    node, same, made, known, depth
                )
                if need is not None and spatial and not need.channels:
                    return replace(need, shape=(2, need.shape[-1], *_SPATIAL[spatial]), channels=True)
                if need is not None:
                    return _unmoved(_ranked(need, module.forward, name), moved or _permutation_in(node))
        return Need((2, 8, *_SPATIAL[spatial]), "pooling", channels=True) if spatial else None

    def _in_method(
        self, node: ast.Call | ast.BinOp, same: set[str], module: ModuleClass, methods: Mapping[str, ast.FunctionDef],
        known: Mapping[str, Any], depth: int,
    ) -> Need | None:  # fmt: skip
        """Follow self.encode(x) into the method."""
        method = methods.get(dotted(node.func).removeprefix("self.")) if isinstance(node, ast.Call) else None
        if method is None or not isinstance(node, ast.Call) or method is module.forward:
            return None
        for parameter, argument in zip([a.arg for a in method.args.args][1:], node.args, strict=False):
            if is_derived(argument, same):
                return self.first_need(replace(module, forward=method), parameter, known, depth + 1)
        return None

    def inherited(self, module: ModuleClass, names: Mapping[str, Any]) -> Need | None:
        """Return the need of a class without a forward of its own, such as a subclass of nn.Linear."""
        for node in ast.walk(module.init) if module.init else ():
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "__init__":
                call = ast.Call(func=ast.Name(module.base), args=node.args, keywords=node.keywords)
                return self._of(call, names, DEPTH)
        return None

    def _constructed(self, module: ModuleClass, names: Mapping[str, Any]) -> tuple[dict[str, ast.expr], dict[str, Any]]:
        """Collect `self.x = …` of the constructor: the expressions, and the values of those that are sizes."""
        made: dict[str, ast.expr] = {}
        known = dict(names)
        for node in _in_order(module.init) if module.init else ():
            if isinstance(node, ast.Call) and dotted(node.func) == "self.register_buffer" and len(node.args) > 1:
                made[f"self.{getattr(node.args[0], 'value', '')}"] = node.args[1]
            targets = (
                node.targets
                if isinstance(node, ast.Assign)
                else [node.target]
                if isinstance(node, ast.AnnAssign)
                else []
            )
            value = getattr(node, "value", None)
            if value is None:
                continue
            for target in targets:
                key = dotted(target)
                if key:
                    made[key] = value
                    for old in [k for k in known if k.startswith(f"{key}.")] if key != dotted(value) else []:
                        known.pop(old)
                    _assign(known, key, value)
                    if isinstance(value, ast.Call) and dotted(value.func) == "SimpleNamespace":
                        for keyword in value.keywords:
                            _assign(known, f"{key}.{keyword.arg}", keyword.value)
        return made, known

    def _met(
        self,
        node: ast.Call | ast.BinOp,
        same: set[str],
        made: Mapping[str, ast.expr],
        known: Mapping[str, Any],
        depth: int,
    ) -> Need | None:
        if isinstance(node, ast.BinOp):
            left, right = is_derived(node.left, same), is_derived(node.right, same)
            weight = self._weight(node.right if left else node.left, made, known) if left != right else None
            if weight is None:
                return None
            return _multiplied(weight) if isinstance(node.op, ast.MatMult) and left else _broadcast(weight)
        if not node.args or not any(is_derived(a, same) for a in node.args):
            return None
        position = next(i for i, a in enumerate(node.args) if is_derived(a, same))
        target = node.func.value if isinstance(node.func, ast.Subscript) else node.func
        layer = made.get(dotted(target))
        if isinstance(node.func, ast.Subscript):
            layer = _element(layer)
        if layer is not None:
            return self._of(layer, known, depth, position)
        return self._function(node, made, known) if position == 0 else None

    def _of(self, layer: ast.expr, known: Mapping[str, Any], depth: int, position: int = 0) -> Need | None:
        """Return what an expression that makes a layer takes as its argument number `position`."""
        if not isinstance(layer, ast.Call):
            return None
        full = resolved(dotted(layer.func), dict(self.table))
        module = self.classes.get(dotted(layer.func))
        function = self.functions.get(dotted(layer.func))
        if function is not None and depth < DEPTH:
            return self._of_function(function, layer, known, depth)
        if module is not None:
            inner = _bound_arguments(module, layer, known)
            parameters = [a.arg for a in module.forward.args.args][1:] if module.forward else [""]
            if position >= len(parameters):
                return None
            need = self.first_need(module, parameters[position], inner, depth + 1)
            return replace(need, parameter=_argument_name(module, layer, need.parameter)) if need else None
        if full.endswith(".Sequential"):
            return self._sequence(layer, known, depth)
        return self._layer(layer, full, known, position)

    def _of_function(
        self, function: ast.FunctionDef, call: ast.Call, known: Mapping[str, Any], depth: int
    ) -> Need | None:
        """Follow a function that returns a layer, such as conv3x3(in_planes, out_planes)."""
        returned = next((n.value for n in ast.walk(function) if isinstance(n, ast.Return) and n.value), None)
        if returned is None:
            return None
        names = [a.arg for a in function.args.args]
        inner: dict[str, Any] = {}
        for name, value in [*zip(names, call.args, strict=False), *((k.arg or "", k.value) for k in call.keywords)]:
            _assign_from(inner, name, value, known)
        return self._of(returned, inner, depth + 1)

    def _sequence(self, layer: ast.Call, known: Mapping[str, Any], depth: int) -> Need | None:
        for item in layer.args:
            if isinstance(item, ast.Call) and dotted(item.func).rpartition(".")[2] in _PASSING:
                continue
            item = _element(item) or item
            return self._of(item, known, depth)
        return None

    def _layer(self, layer: ast.Call, full: str, known: Mapping[str, Any], position: int) -> Need | None:
        """Return what a layer of torch.nn takes; the table of all kinds."""
        kind, reason = full.rpartition(".")[2], ast.unparse(layer)
        first = layer.args[0] if layer.args else layer.keywords[0].value if layer.keywords else None
        named = {k.arg: k.value for k in layer.keywords}
        for key in ("in_features", "in_channels", "num_embeddings", "num_features", "num_channels", "embed_dim",
                    "input_size", "d_model", "normalized_shape"):  # fmt: skip
            first = named.get(key, first)
        if kind == "GroupNorm":
            first = named.get("num_channels", layer.args[1] if len(layer.args) > 1 else None)
        parameter = first.id if isinstance(first, ast.Name) else ""
        try:
            shape, limit, channels = _taken(kind, first, known, position)
        except Unknown:
            return None
        return Need(shape, reason, limit, parameter, channels) if shape else None

    def _function(self, node: ast.Call, made: Mapping[str, ast.expr], known: Mapping[str, Any]) -> Need | None:
        """Return what F.linear(x, self.weight) and the like take."""
        full = resolved(dotted(node.func), dict(self.table))
        last = full.rpartition(".")[2] or (node.func.attr if isinstance(node.func, ast.Attribute) else "")
        weight = next((w for a in node.args[1:] if (w := self._weight(a, made, known))), None)
        if weight is None:
            return None
        if last in ("matmul", "mm"):
            return _multiplied(weight)
        if last in ("add", "mul", "sub", "div", "where", "lerp"):
            return _broadcast(weight)
        if last == "linear":
            return Need((_ROWS, weight.shape[-1]), weight.reason)
        if last.startswith("conv") and len(weight.shape) > 2:
            channels = weight.shape[0 if "transpose" in last else 1]
            return Need((2, channels, *_SPATIAL[len(weight.shape) - 2]), weight.reason, channels=True)
        return Need((4, _TIME, *weight.shape), weight.reason) if last in ("layer_norm", "rms_norm") else None

    def _weight(self, node: ast.expr, made: Mapping[str, ast.expr], known: Mapping[str, Any]) -> Need | None:
        """Return the shape of a parameter: nn.Parameter(torch.randn(a, b)), seen through .t() and views."""
        turned, sliced = False, isinstance(node, ast.Subscript)
        if isinstance(node, ast.Subscript):
            node = node.value
        while isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and dotted(node.func.value) in made:
            turned = turned or node.func.attr in ("t", "transpose")
            node = node.func.value
        if isinstance(node, ast.Attribute) and node.attr in ("T", "mT"):
            node, turned = node.value, True
        value = made.get(dotted(node))
        reason = dotted(node)
        ahead = 0
        for _ in range(6):  # through nn.Parameter(…), local names and .unsqueeze(0)
            if isinstance(value, ast.Call) and dotted(value.func).rpartition(".")[2] == "Parameter" and value.args:
                value = value.args[0]
            elif isinstance(value, ast.Name) and value.id in made:
                value = made[value.id]
            elif (
                isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute) and value.func.attr == "unsqueeze"
            ):
                value, ahead = value.func.value, ahead + 1
        if not isinstance(value, ast.Call) or resolved(dotted(value.func), dict(self.table)).split(".")[0] != "torch":
            return None
        try:
            items = evaluate(ast.Tuple(elts=list(value.args)), known)
        except Unknown:
            return None
        items = items[0] if len(items) == 1 and isinstance(items[0], list) else items
        if not items or not all(type(n) is int and n > 0 for n in items):
            return None
        items = [1] * ahead + items
        if sliced:
            items = [1] * (len(items) - 1) + items[-1:]
        return Need(tuple(reversed(items)) if turned else tuple(items), reason)


def _pools(node: ast.expr) -> int:
    """Return the dimensions that a pooling layer pools over, 0 for other expressions."""
    kind = dotted(node.func).rpartition(".")[2] if isinstance(node, ast.Call) else ""
    return int(kind[-2]) if "Pool" in kind and kind[-2:] in ("1d", "2d", "3d") else 0


def is_derived(node: ast.AST, names: set[str], passing: frozenset[str] | set[str] = frozenset()) -> bool:
    """Tell `x`, `x.float()`, `x * 2`, `F.relu(x)`, `-x`, `x.view(…)`: still the same argument."""
    if isinstance(node, ast.Name):
        return node.id in names
    if isinstance(node, ast.UnaryOp):
        return is_derived(node.operand, names, passing)
    if isinstance(node, ast.BinOp):
        return is_derived(node.left, names, passing) and isinstance(node.right, ast.Constant)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        if dotted(node.func) in passing and node.args:
            return is_derived(node.args[0], names, passing)
        if dotted(node.func.value) in ("F", "torch", "torch.nn.functional") and node.args:
            plain = not any(isinstance(a, ast.Attribute) for a in node.args[1:])
            return plain and is_derived(node.args[0], names, passing)
        return is_derived(node.func.value, names, passing)
    return False


def _taken(
    kind: str, first: ast.expr | None, known: Mapping[str, Any], position: int
) -> tuple[tuple[int, ...], int, bool]:
    dimension = int(kind[-2]) if kind[-2:] in ("1d", "2d", "3d") else 0
    if kind in ("Linear", "Bilinear"):
        return (_ROWS, size(first, known)), 0, False
    if kind in ("Embedding", "EmbeddingBag"):
        return (4, _TIME), size(first, known), False
    if dimension and ("Conv" in kind or "Norm" in kind):
        return (2, size(first, known), *_SPATIAL[dimension]), 0, True
    if dimension and "Pad" in kind:
        return (2, 8, *_SPATIAL[dimension]), 0, True
    if kind == "GroupNorm":
        return (2, size(first, known), *_SPATIAL[2]), 0, True
    if kind in ("LayerNorm", "RMSNorm"):
        shape = evaluate(first, known)
        return (4, _TIME, *(shape if isinstance(shape, list) else [size(first, known)])), 0, False
    if kind in ("RNN", "LSTM", "GRU", "MultiheadAttention", "TransformerEncoderLayer", "TransformerDecoderLayer"):
        return ((_TIME, 4, size(first, known)) if position < 3 else ()), 0, False
    if kind in ("LSTMCell", "GRUCell", "RNNCell"):
        return ((_ROWS, size(first, known)) if position == 0 else ()), 0, False
    if kind in ("CrossEntropyLoss", "NLLLoss"):
        return ((_ROWS, 10), 0, False) if position == 0 else ((_ROWS,), 10, False)
    return (), 0, False


def _assign(known: dict[str, Any], key: str, value: ast.expr) -> None:
    source = dotted(value)
    for name in [n for n in known if source and n.startswith(f"{source}.")]:  # self.config = config
        known[f"{key}.{name[len(source) + 1 :]}"] = known[name]
    try:
        known[key] = evaluate(value, known)
    except Unknown:
        known.pop(key, None)


def _bound_arguments(module: ModuleClass, call: ast.Call, known: Mapping[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {k: v for k, v in known.items() if not k.startswith("self.")}
    if module.init is None:
        return found
    names = [a.arg for a in module.init.args.args][1:]
    defaults = zip(names[len(names) - len(module.init.args.defaults) :], module.init.args.defaults, strict=False)
    outer = dict(known)
    for name, node in [
        *defaults,
        *zip(names, call.args, strict=False),
        *((k.arg or "", k.value) for k in call.keywords),
    ]:
        if dotted(node) != name:
            found.pop(name, None)
        scope = {**outer, name: outer.get(dotted(node))} if dotted(node) in outer else outer
        _assign_from(found, name, node, scope)
    return found


def _assign_from(found: dict[str, Any], name: str, node: ast.expr, scope: Mapping[str, Any]) -> None:
    source = dotted(node)
    for key in [k for k in scope if source and k.startswith(f"{source}.")]:
        found[f"{name}.{key[len(source) + 1 :]}"] = scope[key]
    try:
        found[name] = evaluate(node, scope)
    except Unknown:
        return


def _argument_name(module: ModuleClass, call: ast.Call, parameter: str) -> str:
    """Translate a parameter of an inner class to the outer name that is passed for it."""
    names = [a.arg for a in module.init.args.args][1:] if module.init else []
    passed = {**dict(zip(names, call.args, strict=False)), **{k.arg or "": k.value for k in call.keywords}}
    value = passed.get(parameter)
    return value.id if isinstance(value, ast.Name) else ""


def _element(node: ast.expr | None) -> ast.expr | None:
    """Return the first layer of nn.ModuleList([...]), of a list or of a comprehension."""
    if isinstance(node, ast.Call) and dotted(node.func).endswith("ModuleList") and node.args:
        node = node.args[0]
    if isinstance(node, ast.Starred):
        node = node.value
    if isinstance(node, (ast.ListComp, ast.GeneratorExp)):
        return node.elt
    if isinstance(node, (ast.List, ast.Tuple)) and node.elts:
        return node.elts[0]
    return None


def _multiplied(weight: Need) -> Need:
    rows = (_ROWS,) if len(weight.shape) <= 2 else (*weight.shape[:-2], _ROWS)
    return Need((*rows, weight.shape[-2] if len(weight.shape) > 1 else weight.shape[0]), weight.reason)


def _broadcast(weight: Need) -> Need:
    shape = weight.shape
    if len(shape) == 1:
        return Need((_ROWS, *(_TIME if n == 1 else n for n in shape)), weight.reason)
    return Need(tuple((2 if i == 0 else _TIME) if n == 1 else n for i, n in enumerate(shape)), weight.reason)


def _ranked(need: Need, forward: ast.FunctionDef, name: str) -> Need:
    """Give a row-wise layer the number of dimensions that `b, t, d = x.shape` says."""
    if need.channels or need.limit:
        return need
    for node in ast.walk(forward):
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Tuple):
            value = node.value.func if isinstance(node.value, ast.Call) else node.value
            if dotted(value) in (f"{name}.shape", f"{name}.size"):
                leading = {2: (_ROWS,), 3: (4, _TIME), 4: (2, 8, 8)}.get(len(node.targets[0].elts))
                return replace(need, shape=(*leading, need.shape[-1])) if leading else need
    return need


def _permutation(node: ast.AST) -> tuple[int, ...]:
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "permute":
        items = (
            node.args[0].elts if len(node.args) == 1 and isinstance(node.args[0], (ast.Tuple, ast.List)) else node.args
        )
        values = [a.value for a in items if isinstance(a, ast.Constant) and isinstance(a.value, int)]
        if len(values) == len(items) and sorted(values) == list(range(len(values))):
            return tuple(values)
    return ()


def _permutation_in(node: ast.AST) -> tuple[int, ...]:
    found = [_permutation(a) for a in getattr(node, "args", ())]
    return next((p for p in found if p), ())


def _unmoved(need: Need, moved: tuple[int, ...]) -> Need:
    """Undo x.permute(…) that stands before the layer."""
    if not moved:
        return need
    shape = need.shape
    if len(shape) != len(moved):
        if need.channels:
            return need
        shape = (2, *(8,) * (len(moved) - 2), shape[-1])
    back = [0] * len(moved)
    for place, axis in enumerate(moved):
        back[axis] = shape[place]
    return replace(need, shape=tuple(back))


def _in_order(function: ast.AST) -> Iterator[ast.AST]:
    """Walk in the order of the text, the inside of an expression before the expression."""
    for child in ast.iter_child_nodes(function):
        if isinstance(child, ast.For):
            yield child
        yield from _in_order(child)
    if not isinstance(function, ast.For):
        yield function
