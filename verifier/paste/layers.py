"""Finds the first layer or weight that fixes the shape of an argument: reads forward, runs nothing."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from verifier.paste.choose import ModuleClass, resolved
from verifier.paste.constructors import argument_name, assign_from, bound_arguments, constructed, element
from verifier.paste.flow import in_order, is_derived, permutation, permutation_in, pools
from verifier.paste.needs import BASES, SPATIAL, Need, broadcast, layer_need, multiplied, ranked, unmoved
from verifier.paste.statements import dotted
from verifier.paste.weights import function_need, weight

DEPTH = 4
"""Classes followed into one another."""
_PASSING = frozenset(
    "Dropout Dropout1d Dropout2d ReLU ReLU6 GELU SiLU Identity Flatten Tanh Sigmoid LeakyReLU ELU Softmax".split()
)


@dataclass(frozen=True)
class Scene:
    """A class with its constructor read: the expressions behind its attributes, and the sizes that are known."""

    module: ModuleClass
    made: dict[str, ast.expr]
    known: dict[str, Any]
    depth: int

    @property
    def pooling(self) -> set[str]:
        """Names of the pooling layers: they pass channels on."""
        return {key for key, value in self.made.items() if pools(value)}


@dataclass(frozen=True)
class Layers:
    """The classes and functions of a paste and its imports, to look layers up in."""

    classes: Mapping[str, ModuleClass]
    table: Mapping[str, str]
    functions: Mapping[str, ast.FunctionDef]

    def first_need(self, module: ModuleClass, name: str, names: Mapping[str, Any], depth: int = 0) -> Need | None:
        """Follow an argument through forward to the first layer or weight that fixes its shape."""
        if module.forward is None or depth > DEPTH:
            return self.inherited(module, names)
        if module.base in BASES and not module.init:
            sizes: list[ast.expr] = [ast.Constant(int(p)) for p in BASES[module.base].split(", ")]
            return self._of(ast.Call(func=ast.Name(module.base), args=sizes, keywords=[]), names, DEPTH)
        made, known = constructed(module, names)
        return self._followed(Scene(module, made, known, depth), module.forward, name)

    def _followed(self, scene: Scene, forward: ast.FunctionDef, name: str) -> Need | None:
        same, spatial, pooling = {name}, 0, scene.pooling
        moved: tuple[int, ...] = ()
        for node in in_order(forward):
            if isinstance(node, (ast.For, ast.comprehension)) and isinstance(node.target, ast.Name):
                item = element(scene.made.get(dotted(node.iter)))
                if item is not None:
                    scene.made[node.target.id] = item
            elif isinstance(node, ast.Call) and dotted(node.func) in pooling and is_derived(node, same, pooling):
                spatial = pools(scene.made[dotted(node.func)])
            elif isinstance(node, ast.Assign) and is_derived(node.value, same, pooling):
                same |= {target.id for target in node.targets if isinstance(target, ast.Name)}
                moved = permutation(node.value) or moved
            elif isinstance(node, (ast.Call, ast.BinOp)):
                need = self._met(node, same, scene)
                if need is not None and spatial and not need.channels:
                    return replace(need, shape=(2, need.shape[-1], *SPATIAL[spatial]), channels=True)
                if need is not None:
                    return unmoved(ranked(need, forward, name), moved or permutation_in(node))
        return Need((2, 8, *SPATIAL[spatial]), "pooling", channels=True) if spatial else None

    def _in_method(self, node: ast.Call, same: set[str], scene: Scene) -> Need | None:
        """Follow self.encode(x) into the method."""
        methods = {f"self.{m.name}": m for m in scene.module.node.body if isinstance(m, ast.FunctionDef)}
        method = methods.get(dotted(node.func))
        if method is None or method is scene.module.forward:
            return None
        for parameter, argument in zip([a.arg for a in method.args.args][1:], node.args, strict=False):
            if is_derived(argument, same):
                return self.first_need(replace(scene.module, forward=method), parameter, scene.known, scene.depth + 1)
        return None

    def inherited(self, module: ModuleClass, names: Mapping[str, Any]) -> Need | None:
        """Return the need of a class without a forward of its own, such as a subclass of nn.Linear."""
        for node in ast.walk(module.init) if module.init else ():
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "__init__":
                call = ast.Call(func=ast.Name(module.base), args=node.args, keywords=node.keywords)
                return self._of(call, names, DEPTH)
        return None

    def _met(self, node: ast.Call | ast.BinOp, same: set[str], scene: Scene) -> Need | None:
        """Return what a call or an operation takes, where the argument is one of its operands."""
        if isinstance(node, ast.BinOp):
            left, right = is_derived(node.left, same), is_derived(node.right, same)
            other = node.right if left else node.left
            found = weight(other, scene.made, scene.known, self.table) if left != right else None
            if found is None:
                return None
            return multiplied(found) if isinstance(node.op, ast.MatMult) and left else broadcast(found)
        position = next((i for i, a in enumerate(node.args) if is_derived(a, same)), None)
        if position is None:
            return None
        indexed = isinstance(node.func, ast.Subscript)
        layer = scene.made.get(dotted(node.func.value if isinstance(node.func, ast.Subscript) else node.func))
        layer = element(layer) if indexed else layer
        if layer is not None:
            return self._of(layer, scene.known, scene.depth, position)
        need = self._in_method(node, same, scene)
        return need or (function_need(node, scene.made, scene.known, self.table) if position == 0 else None)

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
            inner = bound_arguments(module, layer, known)
            parameters = [a.arg for a in module.forward.args.args][1:] if module.forward else [""]
            if position >= len(parameters):
                return None
            need = self.first_need(module, parameters[position], inner, depth + 1)
            return replace(need, parameter=argument_name(module, layer, need.parameter)) if need else None
        if full.endswith(".Sequential"):
            return self._sequence(layer, known, depth)
        return layer_need(layer, full, known, position)

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
            assign_from(inner, name, value, known)
        return self._of(returned, inner, depth + 1)

    def _sequence(self, layer: ast.Call, known: Mapping[str, Any], depth: int) -> Need | None:
        for item in layer.args:
            if isinstance(item, ast.Call) and dotted(item.func).rpartition(".")[2] in _PASSING:
                continue
            item = element(item) or item
            return self._of(item, known, depth)
        return None
