"""Guesses constructor arguments from annotations, names and use: small sizes that divide one another."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from typing import Any

from verifier.paste.choose import ModuleClass
from verifier.paste.evaluate import Unknown, evaluate
from verifier.paste.needs import BASES
from verifier.paste.statements import Statement, dotted
from verifier.paste.usual_sizes import WIDTH, by_name


def parameter_names(function: ast.FunctionDef | None) -> list[str]:
    """Return the names of the positional parameters without self."""
    if function is None:
        return []
    return [a.arg for a in [*function.args.posonlyargs, *function.args.args]][1:]


def required_names(function: ast.FunctionDef | None) -> list[str]:
    """Return the positional parameters without a default."""
    if function is None:
        return []
    names = parameter_names(function)
    return names[: max(len(names) - len(function.args.defaults), 0)]


def required_keywords(function: ast.FunctionDef | None) -> dict[str, str]:
    """Guess the keyword-only parameters that have no default."""
    if function is None:
        return {}
    pairs = zip(function.args.kwonlyargs, function.args.kw_defaults, strict=True)
    return {
        a.arg: by_name(a.arg, ast.unparse(a.annotation) if a.annotation else "")
        for a, default in pairs
        if default is None
    }


def known(
    body: list[Statement], module: ModuleClass, texts: Mapping[str, str], values: Mapping[str, Any]
) -> dict[str, Any]:
    """Evaluate the constructor's arguments and defaults, where they are plain."""
    found: dict[str, Any] = {}
    if module.init is not None:
        names, defaults = parameter_names(module.init), module.init.args.defaults
        pairs = list(zip(names[len(names) - len(defaults) :], defaults, strict=False))
        pairs += [
            (a.arg, d) for a, d in zip(module.init.args.kwonlyargs, module.init.args.kw_defaults, strict=True) if d
        ]
        for name, node in [*pairs, *((n, ast.parse(t, mode="eval").body) for n, t in texts.items())]:
            found.pop(name, None)
            _record(found, name, node, {**values, **found}, body)
    return found


def _record(found: dict[str, Any], name: str, node: ast.AST, values: Mapping[str, Any], body: list[Statement]) -> None:
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):  # a configuration object
        own = [s.node for s in body if isinstance(s.node, ast.ClassDef) and s.node.name == node.func.id]
        declared = [f for c in own for f in c.body if isinstance(f, ast.AnnAssign)]
        fields = [(f.target.id, f.value) for f in declared if isinstance(f.target, ast.Name)]
        pairs = [
            *fields,
            *zip([n for n, _ in fields], node.args, strict=False),
            *((k.arg or "", k.value) for k in node.keywords),
        ]
        for field, value in pairs:
            if value is not None:
                _record(found, f"{name}.{field}", value, values, body)
        return
    try:
        found[name] = evaluate(node, values)
    except Unknown:
        return


def given(body: list[Statement], module: ModuleClass, values: Mapping[str, Any]) -> dict[str, Any]:
    """Evaluate what get_init_inputs() of the paste returns."""
    for s in body:
        if isinstance(s.node, ast.FunctionDef) and s.node.name == "get_init_inputs":
            for n in ast.walk(s.node):
                if isinstance(n, ast.Return) and isinstance(n.value, (ast.List, ast.Tuple)):
                    items = list(n.value.elts)
                    keywords: dict[str, str] = {}
                    if len(items) == 2 and isinstance(items[0], ast.List) and isinstance(items[1], ast.Dict):
                        pairs = zip(items[1].keys, items[1].values, strict=True)
                        keywords = {
                            k.value: ast.unparse(v)
                            for k, v in pairs
                            if isinstance(k, ast.Constant) and isinstance(k.value, str)
                        }
                        items = items[0].elts
                    texts = dict(zip(parameter_names(module.init), map(ast.unparse, items), strict=False))
                    return known(body, module, {**texts, **keywords}, values)
    return known(body, module, {}, values)


def guessed(body: list[Statement], classes: Mapping[str, ModuleClass], module: ModuleClass) -> dict[str, str]:
    """Guess an expression for every constructor parameter that has no default."""
    init = module.init
    if init is None:
        return {f"argument {i}": text for i, text in enumerate(BASES.get(module.base, "").split(", ")) if text}
    annotations = {a.arg: a.annotation for a in [*init.args.posonlyargs, *init.args.args]}
    found = {name: _one(name, annotations[name], body, classes, module) for name in required_names(init)}
    return _expanded(_same_width(found, module), module.node)


def _one(
    name: str,
    annotation: ast.expr | None,
    body: list[Statement],
    classes: Mapping[str, ModuleClass],
    module: ModuleClass,
) -> str:
    kind = ast.unparse(annotation).removeprefix("Optional[").removesuffix("]") if annotation else ""
    kind = kind.rpartition(".")[2].strip("'\"")
    local = next((s.node for s in body if isinstance(s.node, ast.ClassDef) and s.node.name == kind), None)
    if local is not None and kind not in classes:
        return _configuration(local)
    if kind == "Module" or (module.forward and _is_called(name, module.node)):
        return "nn.ReLU" if _is_class_parameter(name, module.node) else "nn.Identity()"
    read = _attributes_read(name, module.node)
    if read and not kind.startswith(("int", "float", "str", "List", "Tuple")):
        return "SimpleNamespace(" + ", ".join(f"{attribute}={by_name(attribute)}" for attribute in read) + ")"
    compared = _compared_text(name, module.node)
    if compared is not None:
        return repr(compared)
    guess = by_name(name, kind)
    return f"[{guess}, {guess}]" if guess[0] != "[" and _is_iterated(name, module.node) else guess


def _configuration(node: ast.ClassDef) -> str:
    """Fill the fields of a dataclass that have no default, or the parameters of its constructor."""
    init = next((m for m in node.body if isinstance(m, ast.FunctionDef) and m.name == "__init__"), None)
    if init is not None:
        return f"{node.name}({', '.join(f'{n}={by_name(n)}' for n in required_names(init))})"
    fields = [
        f for f in node.body if isinstance(f, ast.AnnAssign) and f.value is None and isinstance(f.target, ast.Name)
    ]
    texts = [
        f"{f.target.id}={by_name(f.target.id, ast.unparse(f.annotation))}"
        for f in fields
        if isinstance(f.target, ast.Name)
    ]
    return f"{node.name}({', '.join(texts)})"


def _attributes_read(name: str, node: ast.ClassDef) -> list[str]:
    owners = {name} | {f"self.{n.targets[0].attr}" for n in ast.walk(node) if isinstance(n, ast.Assign)
                       and isinstance(n.targets[0], ast.Attribute) and dotted(n.value) == name}  # fmt: skip
    called = {id(n.func) for n in ast.walk(node) if isinstance(n, ast.Call)}
    read = [
        n for n in ast.walk(node) if isinstance(n, ast.Attribute) and dotted(n.value) in owners and id(n) not in called
    ]
    return list(dict.fromkeys(n.attr for n in read))


def _is_called(name: str, node: ast.ClassDef) -> bool:
    stored = {n.targets[0].attr for n in ast.walk(node) if isinstance(n, ast.Assign)
              and isinstance(n.targets[0], ast.Attribute) and dotted(n.value) == name}  # fmt: skip
    return any(isinstance(n, ast.Call) and (dotted(n.func) == name or dotted(n.func).removeprefix("self.") in stored)
               and dotted(n.func) != "self" for n in ast.walk(node))  # fmt: skip


def _is_class_parameter(name: str, node: ast.ClassDef) -> bool:
    return any(isinstance(n, ast.Call) and dotted(n.func) == name for n in ast.walk(node))


def _is_iterated(name: str, node: ast.ClassDef) -> bool:
    """Tell `for k in name`, also through zip and enumerate, and `len(name)`."""
    iterables = [n.iter for n in ast.walk(node) if isinstance(n, (ast.For, ast.comprehension))]
    through = [
        a for n in iterables if isinstance(n, ast.Call) and dotted(n.func) in ("zip", "enumerate") for a in n.args
    ]
    measured = [n.args[0] for n in ast.walk(node) if isinstance(n, ast.Call) and dotted(n.func) == "len" and n.args]
    return any(dotted(n) == name for n in (*iterables, *through, *measured))


def _compared_text(name: str, node: ast.ClassDef) -> str | None:
    for n in ast.walk(node):
        if isinstance(n, ast.Compare) and dotted(n.left) in (name, f"self.{name}"):
            for value in ast.walk(n.comparators[0]):
                if isinstance(value, ast.Constant) and isinstance(value.value, str):
                    return value.value
    return None


def _expanded(found: dict[str, str], node: ast.ClassDef) -> dict[str, str]:
    """Let a bottleneck's narrow width times its `expansion` be its input's width."""
    for field in node.body:
        if (
            isinstance(field, ast.Assign)
            and dotted(field.targets[0]) == "expansion"
            and isinstance(field.value, ast.Constant)
        ):
            names = [name for name in found if "planes" in name or "channels" in name]
            if len(names) == 2 and isinstance(field.value.value, int) and 16 % field.value.value == 0:
                return {**found, names[1]: str(16 // field.value.value)}
    return found


def _same_width(found: dict[str, str], module: ModuleClass) -> dict[str, str]:
    """Give input and output the same width where forward adds its input to its result."""
    forward = module.forward
    first = parameter_names(forward)[:1]
    residual = forward is not None and any(
        isinstance(n, (ast.BinOp, ast.AugAssign))
        and isinstance(n.op, ast.Add)
        and {dotted(c) for c in ast.iter_child_nodes(n)} & {*first, "residual", "identity", "shortcut", "skip", "res"}
        for n in ast.walk(forward)
    )
    return {name: WIDTH if residual and text == "48" else text for name, text in found.items()}
