"""What each top-level statement defines and needs, so that the module can be cut out of the script around it."""

from __future__ import annotations

import ast
import symtable
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from verifier.paste.syntax import Code

_USUAL_MODULES = frozenset({"torch", "nn", "F", "np", "math", "random", "os", "sys", "warnings"})
_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)


@dataclass(frozen=True)
class Statement:
    """A top-level statement with the global names it binds, uses and changes in place."""

    node: ast.stmt
    bound: frozenset[str]
    used: frozenset[str]
    changed: frozenset[str] = field(default=frozenset())

    @property
    def defines(self) -> bool:
        """True for a function or a class."""
        return isinstance(self.node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef))

    @property
    def imports(self) -> bool:
        """True for an import."""
        return isinstance(self.node, (ast.Import, ast.ImportFrom))


def statements(code: Code) -> list[Statement]:
    """Describe every top-level statement in order; raise SyntaxError where Python's own tables do."""
    scopes: dict[tuple[str, int], symtable.SymbolTable] = {}
    for table in symtable.symtable(code.lines.text, "<paste>", "exec").get_children():
        scopes[table.get_name(), table.get_lineno()] = table
    return [_described(node, scopes) for node in code.tree.body]


def closure(all_statements: Iterable[Statement], roots: Iterable[str]) -> set[str]:
    """Return the names that `roots` need, directly or through others."""
    all_statements = list(all_statements)
    imported = modules_of(all_statements)
    binders: dict[str, list[Statement]] = {}
    for statement in all_statements:
        for name in statement.bound | (statement.changed - imported):
            binders.setdefault(name, []).append(statement)
    needed: set[str] = set()
    waiting = list(roots)
    while waiting:
        name = waiting.pop()
        if name not in needed:
            needed.add(name)
            for statement in binders.get(name, ()):
                waiting += statement.used
    return needed


def modules_of(body: Iterable[Statement]) -> set[str]:
    """Return the names that stand for modules: imported, or usual ones whose import was not copied."""
    body = list(body)
    own = {name for s in body if not s.imports for name in s.bound}
    return {name for s in body if s.imports for name in s.bound} | (_USUAL_MODULES - own)


def dotted(node: ast.AST) -> str:
    """Return "a.b.c" for a chain of attributes, "" for anything else."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    if not isinstance(node, ast.Name):
        return ""
    return ".".join([node.id, *reversed(parts)])


def _described(node: ast.stmt, scopes: dict[tuple[str, int], symtable.SymbolTable]) -> Statement:
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        lines = [node.lineno, *(d.lineno for d in node.decorator_list)]
        table = next((scopes[node.name, line] for line in lines if (node.name, line) in scopes), None)
        used = _globals_of(table) if table else {n.id for n in ast.walk(node) if isinstance(n, ast.Name)}
        for part in _evaluated_outside(node):
            used |= {n.id for n in ast.walk(part) if isinstance(n, ast.Name)}
        return Statement(node, frozenset({node.name}), frozenset(used))
    used = {n.id for n in ast.walk(node) if isinstance(n, ast.Name) and not isinstance(n.ctx, ast.Store)}
    used -= {n.arg for n in ast.walk(node) if isinstance(n, ast.arg)}  # parameters of lambdas
    return Statement(node, frozenset(_bound(node)), frozenset(used), frozenset(_changed(node)))


def _globals_of(table: symtable.SymbolTable) -> set[str]:
    names = {symbol.get_name() for symbol in table.get_symbols() if symbol.is_global()}
    for child in table.get_children():
        names |= _globals_of(child)
    return names


def _evaluated_outside(node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) -> Iterator[ast.AST]:
    yield from node.decorator_list
    if isinstance(node, ast.ClassDef):
        yield from node.bases
        yield from node.keywords
        return
    arguments = node.args
    yield from arguments.defaults
    yield from (default for default in arguments.kw_defaults if default)
    every = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, arguments.vararg, arguments.kwarg]
    yield from (a.annotation for a in every if a and a.annotation)
    if node.returns:
        yield node.returns


def _bound(node: ast.AST) -> Iterator[str]:
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        yield node.name
        return
    if isinstance(node, ast.Lambda):
        return
    if isinstance(node, (ast.Import, ast.ImportFrom)):
        yield from (alias.asname or alias.name.split(".")[0] for alias in node.names)
    elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
        yield node.id
    elif isinstance(node, ast.ExceptHandler) and node.name:
        yield node.name
    for child in ast.iter_child_nodes(node):
        yield from _bound(child)


def _changed(node: ast.AST) -> Iterator[str]:
    """Yield roots of `a.b = …`, `a[i] = …` and `a.method(…)`."""
    if isinstance(node, _SCOPES):
        return
    if isinstance(node, (ast.Attribute, ast.Subscript)) and isinstance(node.ctx, (ast.Store, ast.Del)):
        yield from _root(node)
    elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Call) and isinstance(node.value.func, ast.Attribute):
        yield from _root(node.value.func)
    for child in ast.iter_child_nodes(node):
        yield from _changed(child)


def _root(node: ast.AST) -> Iterator[str]:
    while isinstance(node, (ast.Attribute, ast.Subscript)):
        node = node.value
    if isinstance(node, ast.Name):
        yield node.id
