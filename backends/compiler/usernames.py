"""Names in the user's file: what it defines, and what a piece of its code reads from outside itself."""

from __future__ import annotations

import ast


def free_names(root: ast.AST) -> set[str]:
    """Names a piece of code reads from outside itself: parameters and local variables do not count."""
    if isinstance(root, (ast.FunctionDef, ast.Lambda)):
        arguments = root.args
        own = {a.arg for a in [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]}
        own |= {a.arg for a in (arguments.vararg, arguments.kwarg) if a is not None}
        body = root.body if isinstance(root.body, list) else [root.body]
        own |= {
            node.id
            for part in body
            for node in ast.walk(part)
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
        }
        inside = {name for part in body for name in free_names(part)} - own
        around: list[ast.AST] = [*arguments.defaults, *(default for default in arguments.kw_defaults if default)]
        around += getattr(root, "decorator_list", [])
        every = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
        around += [argument.annotation for argument in every if argument.annotation]
        around += [root.returns] if isinstance(root, ast.FunctionDef) and root.returns else []
        return inside | {name for part in around for name in free_names(part)}
    if isinstance(root, ast.Name):
        return {root.id}
    return {name for child in ast.iter_child_nodes(root) for name in free_names(child)}


def defined(statement: ast.stmt) -> list[str]:
    """Name what a statement defines."""
    if isinstance(statement, (ast.ClassDef, ast.FunctionDef)):
        return [statement.name]
    if isinstance(statement, ast.Assign):
        return [node.id for target in statement.targets for node in ast.walk(target) if isinstance(node, ast.Name)]
    if isinstance(statement, (ast.AnnAssign, ast.AugAssign)) and isinstance(statement.target, ast.Name):
        return [statement.target.id]
    return []


def defined_names(source: str) -> list[str]:
    """Name everything that the file defines or imports."""
    names = []
    for statement in ast.parse(source).body:
        names += defined(statement)
        if isinstance(statement, (ast.Import, ast.ImportFrom)):
            names += [alias.asname or alias.name.split(".")[0] for alias in statement.names]
    return names


def forward_arguments(source: str, entry: str) -> tuple[str, ...]:
    """Name the parameters of the class's forward, without self."""
    for statement in ast.parse(source).body:
        if isinstance(statement, ast.ClassDef) and statement.name == entry:
            for part in statement.body:
                if is_method(part, "forward"):
                    arguments = part.args  # type: ignore[attr-defined]
                    every = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
                    return tuple(argument.arg for argument in every)[1:]
    return ()


def is_method(part: ast.stmt, name: str) -> bool:
    """Tell whether a statement is the method of this name."""
    return isinstance(part, ast.FunctionDef) and part.name == name
