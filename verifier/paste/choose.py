"""Which class of the paste is the problem: classes that are nn.Modules, and the one nobody else uses."""

from __future__ import annotations

import ast
import difflib
from dataclasses import dataclass

from verifier.paste.statements import Statement, dotted

USUAL = {"torch": "torch", "nn": "torch.nn", "F": "torch.nn.functional", "Module": "torch.nn.Module"}
"""What the usual short names stand for where the paste does not import them."""


@dataclass(frozen=True)
class ModuleClass:
    """A class that is an nn.Module, with its constructor and forward where it has its own."""

    node: ast.ClassDef
    base: str
    init: ast.FunctionDef | None
    forward: ast.FunctionDef | None

    @property
    def name(self) -> str:
        """The class's name."""
        return self.node.name


def aliases(body: list[Statement]) -> dict[str, str]:
    """Map every imported name to what it stands for ("nn" to "torch.nn")."""
    table = dict(USUAL)
    for statement in body:
        node = statement.node
        if isinstance(node, ast.Import):
            for alias in node.names:
                table[alias.asname or alias.name.split(".")[0]] = (
                    alias.name if alias.asname else alias.name.split(".")[0]
                )
        elif isinstance(node, ast.ImportFrom):
            for alias in node.names:
                table[alias.asname or alias.name] = f"{node.module or '.'}.{alias.name}"
    return table


def resolved(name: str, table: dict[str, str]) -> str:
    """Write a dotted name out with its imports."""
    head, dot, rest = name.partition(".")
    return table.get(head, head) + dot + rest


def module_classes(body: list[Statement], table: dict[str, str]) -> dict[str, ModuleClass]:
    """Find the classes that are nn.Modules, directly or through one another, in order."""
    found: dict[str, ModuleClass] = {}
    for statement in body:
        node = statement.node
        if not isinstance(node, ast.ClassDef):
            continue
        methods = {m.name: m for m in node.body if isinstance(m, ast.FunctionDef)}
        for base in (dotted(b.value if isinstance(b, ast.Subscript) else b) for b in node.bases):
            parent, full = found.get(base), resolved(base, table)
            if parent or _is_module(full, "forward" in methods, base in table):
                init = methods.get("__init__") or (parent.init if parent else None)
                forward = methods.get("forward") or (parent.forward if parent else None)
                found[node.name] = ModuleClass(node, full, init, forward)
                break
    return found


def _is_module(full: str, has_forward: bool, imported: bool) -> bool:
    if full.startswith("torch.nn.") or full.endswith((".LightningModule", ".PreTrainedModel")):
        return True
    return (
        has_forward and imported and not full.startswith(("torch.autograd", "abc.", "typing.", "tensorflow", "keras"))
    )


def misspelt(classes: dict[str, ModuleClass]) -> tuple[ModuleClass, str] | None:
    """Find a base that torch.nn does not have because nn.Module was meant."""
    for module in classes.values():
        last = module.base.rpartition(".")[2]
        close = difflib.SequenceMatcher(None, last.lower(), "module").ratio() >= 0.8
        if module.base.startswith("torch.nn.") and last not in ("Module", "ModuleList", "ModuleDict") and close:
            return module, last
    return None


def is_able(module: ModuleClass) -> bool:
    """Tell whether a module can be called: it has a forward, or inherits one from a layer of torch.nn."""
    return module.forward is not None or not module.base.endswith((".Module", ".LightningModule"))


def entry(classes: dict[str, ModuleClass], body: list[Statement]) -> tuple[ModuleClass, str]:
    """Choose the class to convert among those that can run, and say how if it was a choice."""
    able = {name: module for name, module in classes.items() if is_able(module)}
    if "Model" in able or len(able) == 1:
        chosen = able.get("Model") or next(iter(able.values()))
        return chosen, ""
    used = {name for s in body if s.defines and s.bound & set(classes) for name in s.used - s.bound}
    tops = [m for n, m in able.items() if n not in used] or list(able.values())
    fitting = [m for m in tops if _fits(m, body)] or tops
    called = [m for m in fitting if any(_calls(s, m.name) for s in body)] or fitting
    chosen = called[-1]
    if len(tops) == 1:
        return chosen, f"{len(able)} modules in the paste: {chosen.name} uses the others and is converted"
    others = ", ".join(m.name for m in tops if m is not chosen)
    return chosen, f"{len(able)} modules in the paste: {chosen.name} is converted (not {others})"


def _fits(module: ModuleClass, body: list[Statement]) -> bool:
    """Tell whether the literal lists of get_init_inputs and get_inputs fit this class's parameters."""
    for name, function in (("get_init_inputs", module.init), ("get_inputs", module.forward)):
        count = _returned_length(body, name)
        if count is not None and not _takes(function, count):
            return False
    return True


def _returned_length(body: list[Statement], name: str) -> int | None:
    for s in body:
        if isinstance(s.node, ast.FunctionDef) and s.node.name == name:
            for n in ast.walk(s.node):
                if isinstance(n, ast.Return) and isinstance(n.value, (ast.List, ast.Tuple)):
                    items = n.value.elts
                    keyed = len(items) == 2 and isinstance(items[0], ast.List) and isinstance(items[1], ast.Dict)
                    if keyed:
                        return len(items[0].elts) + len(items[1].keys)  # type: ignore[attr-defined]
                    return None if any(isinstance(i, ast.Starred) for i in items) else len(items)
    return None


def _takes(function: ast.FunctionDef | None, count: int) -> bool:
    if function is None:
        return True
    arguments = function.args
    most = len(arguments.posonlyargs) + len(arguments.args) - 1
    return most - len(arguments.defaults) <= count and (count <= most or arguments.vararg is not None)


def _calls(statement: Statement, name: str) -> bool:
    """Tell whether the script around the module makes one."""
    if statement.defines and name in statement.bound:
        return False
    return name in statement.used and any(
        isinstance(n, ast.Call) and dotted(n.func) == name for n in ast.walk(statement.node)
    )
