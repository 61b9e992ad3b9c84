"""Example inputs that the paste already shows: `net = Net(10, 7)` and `net(torch.randn(2, 10))` somewhere below."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass

from verifier.paste.statements import Statement, dotted
from verifier.paste.trim import is_main_guard

_SCRIPT = re.compile(r"_*(?:main|test|demo|run|example|check|try)\w*")
_SAFE_ROOTS = frozenset(
    "torch nn F np numpy math range len int float bool list tuple dict min max sum abs zip slice".split()
)
_UNSAFE_METHODS = frozenset(["parse_args", "load", "open", "read", "cuda_stream", "backward", "step", "item"])
_PLACING = frozenset(["cuda", "to", "eval", "train", "cpu", "half", "float", "double", "bfloat16", "requires_grad_"])


@dataclass(frozen=True)
class Call:
    """A call's arguments and the assignments that they need."""

    before: tuple[str, ...]
    arguments: tuple[ast.expr, ...]
    keywords: tuple[tuple[str, ast.expr], ...]

    def positional(self, names: list[str]) -> list[str] | None:
        """Return the arguments in order, or None where keywords leave a gap."""
        texts = [ast.unparse(a) for a in self.arguments]
        named = {name: ast.unparse(value) for name, value in self.keywords}
        for name in names[len(texts) :]:
            if name not in named:
                break
            texts.append(named.pop(name))
        return None if named else texts


def scripts(body: list[Statement]) -> Iterator[list[ast.stmt]]:
    """Yield the statement lists that use the module: the top level with its main guard, main(), test()."""
    top: list[ast.stmt] = []
    for statement in body:
        node = statement.node
        if isinstance(node, ast.FunctionDef) and _SCRIPT.fullmatch(node.name):
            yield list(_flat(node.body))
        elif is_main_guard(node):
            top += _flat(node.body)  # type: ignore[attr-defined]
        elif not statement.defines:
            top += _flat([node])
    yield top


def construction(body: list[Statement], name: str) -> Call | None:
    """Find where the paste constructs the class `name`."""
    known = _known(body)
    for script in scripts(body):
        for index, node in enumerate(script):
            for call in _calls(node):
                if dotted(call.func) == name and (found := _closed(script[:index], call, known)):
                    return found
    return None


def use(body: list[Statement], name: str, is_class: bool) -> Call | None:
    """Find where the paste calls an instance of the class, or the function, `name`."""
    known = _known(body)
    for script in scripts(body):
        instances = set() if is_class else {name}
        for index, node in enumerate(script):
            for call in _calls(node):
                made = is_class and _constructs(call.func, name)
                if (made or dotted(call.func) in instances) and (found := _closed(script[:index], call, known)):
                    return found
            if is_class and isinstance(node, ast.Assign) and _constructs(node.value, name):
                instances |= {t.id for t in node.targets if isinstance(t, ast.Name)}
    return None


def named(body: list[Statement], names: list[str]) -> Call | None:
    """Find values that the script gives to the very names of the parameters."""
    known = _known(body)
    for script in scripts(body):
        call = ast.Call(func=ast.Name("forward"), args=[ast.Name(name, ctx=ast.Load()) for name in names], keywords=[])
        set_here = {
            n.id for node in script for n in _head(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)
        }
        if names and set(names) <= set_here and (found := _closed(script, call, known)) and found.before:
            return found
    return None


def _known(body: list[Statement]) -> set[str]:
    return {n for s in body if s.defines or s.imports or isinstance(s.node, ast.Assign) for n in s.bound}


def _flat(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    for node in body:
        if not isinstance(node, (ast.If, ast.Try)):
            yield node
        if isinstance(node, (ast.With, ast.If, ast.Try, ast.For, ast.While)):
            yield from _flat(node.body)


def _head(node: ast.stmt) -> Iterator[ast.AST]:
    """Walk a statement without the statements inside it, which are listed after it."""
    inner = {id(child) for child in getattr(node, "body", ()) if not isinstance(node, ast.Expr)}
    for part in ast.iter_child_nodes(node):
        if id(part) not in inner:
            yield from ast.walk(part)


def _calls(node: ast.stmt) -> Iterator[ast.Call]:
    if not isinstance(node, (ast.FunctionDef, ast.ClassDef)):
        yield from (n for n in _head(node) if isinstance(n, ast.Call))


def _constructs(node: ast.expr, name: str) -> bool:
    """Tell `Net(…)`, also as `Net(…).cuda().eval()`."""
    while isinstance(node, ast.Call):
        if dotted(node.func) == name:
            return True
        if not isinstance(node.func, ast.Attribute) or node.func.attr not in _PLACING:
            return False
        node = node.func.value
    return False


def _closed(before: list[ast.stmt], call: ast.Call, known: set[str]) -> Call | None:
    """Collect the assignments that the arguments need, or None where they need more than that."""
    keywords = tuple((k.arg or "", k.value) for k in call.keywords)
    if any(isinstance(a, ast.Starred) for a in call.args) or any(not name for name, _ in keywords):
        return None
    wanted: set[str] = set()
    for value in (*call.args, *(v for _, v in keywords)):
        if not _is_safe(value):
            return None
        wanted |= _names(value)
    kept: list[str] = []
    for node in reversed(before):
        targets = {n.id for n in _head(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
        if not targets & wanted:
            continue
        if not isinstance(node, (ast.Assign, ast.AnnAssign)) or node.value is None or not _is_safe(node.value):
            return None
        wanted = (wanted - targets) | _names(node.value)
        kept.append(ast.unparse(node))
    if wanted - known - _SAFE_ROOTS:
        return None
    return Call(tuple(reversed(kept)), tuple(call.args), keywords)


def _names(node: ast.AST) -> set[str]:
    return {n.id for n in ast.walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)}


def _is_safe(node: ast.AST) -> bool:
    """Tell expressions that only make values from ones that read files, arguments or data."""
    for n in ast.walk(node):
        if isinstance(n, (ast.Await, ast.Yield, ast.NamedExpr, ast.Lambda)):
            return False
        if isinstance(n, ast.Call):
            name = dotted(n.func)
            root, last = name.split(".")[0], (n.func.attr if isinstance(n.func, ast.Attribute) else name)
            if last in _UNSAFE_METHODS or (
                isinstance(n.func, ast.Name) and root not in _SAFE_ROOTS and not root[:1].isupper()
            ):
                return False
    return True
