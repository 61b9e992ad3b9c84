"""What a constructor makes: the expressions behind `self.x`, and the values of those that are sizes."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from typing import Any

from verifier.paste.choose import ModuleClass
from verifier.paste.evaluate import Unknown, evaluate
from verifier.paste.flow import in_order
from verifier.paste.statements import dotted


def constructed(module: ModuleClass, names: Mapping[str, Any]) -> tuple[dict[str, ast.expr], dict[str, Any]]:
    """Collect `self.x = …` of the constructor: the expressions, and the values of those that are sizes."""
    made: dict[str, ast.expr] = {}
    known = dict(names)
    for node in in_order(module.init) if module.init else ():
        if isinstance(node, ast.Call) and dotted(node.func) == "self.register_buffer" and len(node.args) > 1:
            made[f"self.{getattr(node.args[0], 'value', '')}"] = node.args[1]
        targets = (
            node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
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


def _assign(known: dict[str, Any], key: str, value: ast.expr) -> None:
    source = dotted(value)
    for name in [n for n in known if source and n.startswith(f"{source}.")]:  # self.config = config
        known[f"{key}.{name[len(source) + 1 :]}"] = known[name]
    try:
        known[key] = evaluate(value, known)
    except Unknown:
        known.pop(key, None)


def bound_arguments(module: ModuleClass, call: ast.Call, known: Mapping[str, Any]) -> dict[str, Any]:
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
        assign_from(found, name, node, scope)
    return found


def assign_from(found: dict[str, Any], name: str, node: ast.expr, scope: Mapping[str, Any]) -> None:
    source = dotted(node)
    for key in [k for k in scope if source and k.startswith(f"{source}.")]:
        found[f"{name}.{key[len(source) + 1 :]}"] = scope[key]
    try:
        found[name] = evaluate(node, scope)
    except Unknown:
        return


def argument_name(module: ModuleClass, call: ast.Call, parameter: str) -> str:
    """Translate a parameter of an inner class to the outer name that is passed for it."""
    names = [a.arg for a in module.init.args.args][1:] if module.init else []
    passed = {**dict(zip(names, call.args, strict=False)), **{k.arg or "": k.value for k in call.keywords}}
    value = passed.get(parameter)
    return value.id if isinstance(value, ast.Name) else ""


def element(node: ast.expr | None) -> ast.expr | None:
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
