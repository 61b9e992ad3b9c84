"""The integers of a problem's text: where they stand, whether a kernel ever sees them, and the text with others.

Text and ast only. Lines stay where they are, so that an error in a rewritten text points into the pasted one.
"""

from __future__ import annotations

import ast
import symtable
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

GIVEN = ("get_inputs", "get_init_inputs")
_FOLDED = (ast.Add, ast.Sub, ast.Mult, ast.Pow, ast.LShift, ast.FloorDiv)
LARGEST = 2**40


@dataclass(frozen=True)
class Site:
    """One integer in the text (`1024 * 2` counts as one), and whether only get_inputs and get_init_inputs use it."""

    line: int
    start: int
    end: int
    value: int
    given: bool


def sites(source: str) -> list[Site]:
    """List the integers of a module's text in order."""
    tree = ast.parse(source)
    seen_by_classes = _reachable(source, tree)
    found = []
    for statement in tree.body:
        given = not isinstance(statement, ast.ClassDef) and not seen_by_classes & _defined(statement)
        if isinstance(statement, (ast.Import, ast.ImportFrom)):
            continue
        found += [
            Site(node.lineno, node.col_offset, node.end_col_offset or 0, value, given)
            for node, value in _integers(statement)
        ]
    return sorted(found, key=lambda site: (site.line, site.start))


def of_inputs(source: str) -> set[Site]:
    """Return the integers that only get_inputs uses: no constructor is given them."""
    tree = ast.parse(source)
    of_others = _reachable(source, tree, also=("get_init_inputs",))
    first = {s.lineno for s in tree.body if not of_others & _defined(s) and "get_init_inputs" not in _defined(s)}
    lines = {line for s in tree.body if s.lineno in first for line in range(s.lineno, (s.end_lineno or s.lineno) + 1)}
    return {site for site in sites(source) if site.given and site.line in lines}


def rewritten(source: str, mapping: Mapping[int | Site, int], *, given_only: bool = True) -> str:
    """Return the text with integers replaced: by what is asked for a place, or else for its value."""
    lines = [line.encode() for line in source.split("\n")]
    for site in reversed(sites(source)):
        new = mapping.get(site, mapping.get(site.value, site.value))
        if new != site.value and (site.given or not given_only):
            line = lines[site.line - 1]
            lines[site.line - 1] = line[: site.start] + str(new).encode() + line[site.end :]
    return b"\n".join(lines).decode()


def rewritten_kernel(source: str, mapping: Mapping[int, int], problem: str) -> str:
    """Apply a problem's map to a kernel's own copy of its constants: constructors, and module constants of that name.

    Block sizes and the bodies of kernels and forwards are left alone.
    """
    tree = ast.parse(source)
    names = set().union(*(_defined(s) for s in ast.parse(problem).body if isinstance(s, (ast.Assign, ast.AnnAssign))))
    places = []
    for statement in tree.body:
        if isinstance(statement, (ast.Assign, ast.AnnAssign)) and _defined(statement) & names:
            places.append((statement.lineno, statement.end_lineno or statement.lineno))
        if isinstance(statement, ast.ClassDef):
            inits = [f for f in statement.body if isinstance(f, ast.FunctionDef) and f.name != "forward"]
            places += [(f.lineno, f.end_lineno or f.lineno) for f in inits]
    lines = [line.encode() for line in source.split("\n")]
    for site in reversed(sites(source)):
        if site.value in mapping and any(first <= site.line <= last for first, last in places):
            line = lines[site.line - 1]
            lines[site.line - 1] = line[: site.start] + str(mapping[site.value]).encode() + line[site.end :]
    return b"\n".join(lines).decode()


def _defined(statement: ast.stmt) -> set[str]:
    if isinstance(statement, (ast.FunctionDef, ast.ClassDef, ast.AsyncFunctionDef)):
        return {statement.name}
    return {n.id for n in ast.walk(statement) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}


def _globals(table: symtable.SymbolTable) -> set[str]:
    """Return the module-level names that the body of a class or function reads."""
    own = {s.get_name() for s in table.get_symbols() if s.is_referenced() and (s.is_global() or not _local(s, table))}
    return own.union(*(_globals(child) for child in table.get_children()))


def _local(symbol: symtable.Symbol, table: symtable.SymbolTable) -> bool:
    return symbol.is_local() or symbol.is_parameter() or symbol.is_free()


def _reachable(source: str, tree: ast.Module, also: tuple[str, ...] = ()) -> set[str]:
    """Return the module-level names that a class uses, directly or through functions and other constants.

    Or a function named in `also`.
    """
    tables = symtable.symtable(source, "<pasted>", "exec").get_children()
    bodies = {table.get_name(): _globals(table) for table in tables}
    uses: dict[str, set[str]] = {}
    waiting: set[str] = set()
    for statement in tree.body:
        used = {n.id for n in ast.walk(statement) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)}
        if isinstance(statement, (ast.FunctionDef, ast.ClassDef, ast.AsyncFunctionDef)):
            head = statement.bases if isinstance(statement, ast.ClassDef) else [statement.args]
            parts = (n for part in [*head, *statement.decorator_list] for n in ast.walk(part))
            used = bodies.get(statement.name, set()).union(n.id for n in parts if isinstance(n, ast.Name))
        if isinstance(statement, ast.ClassDef) or _defined(statement) & set(also):
            waiting |= used
        for name in _defined(statement):
            uses.setdefault(name, set()).update(used)
    reached: set[str] = set()
    while waiting:
        name = waiting.pop()
        reached.add(name)
        waiting |= uses.get(name, set()) - reached
    return reached - set(GIVEN)


def _integers(node: ast.AST) -> Iterator[tuple[ast.expr, int]]:
    if isinstance(node, ast.expr):
        value = _constant(node)
        if value is not None:
            if node.lineno == node.end_lineno:
                yield node, value
            return
    for child in ast.iter_child_nodes(node):
        yield from _integers(child)


def _constant(node: ast.expr) -> int | None:
    """Fold `1024 * 2` and `2 ** 14` to one number."""
    if isinstance(node, ast.Constant):
        return node.value if type(node.value) is int else None
    if not isinstance(node, ast.BinOp) or not isinstance(node.op, _FOLDED):
        return None
    left, right = _constant(node.left), _constant(node.right)
    if left is None or right is None or (isinstance(node.op, (ast.Pow, ast.LShift)) and not 0 <= right <= 40):
        return None
    match node.op:
        case ast.Add():
            value = left + right
        case ast.Sub():
            value = left - right
        case ast.Mult():
            value = left * right
        case ast.Pow():
            value = left**right
        case ast.LShift():
            value = left << right
        case _:
            value = left // right if right else 0
    return value if abs(value) < LARGEST else None
