"""The user's own text, kept: constructor, helper classes, constants and imports; only `forward` is replaced."""

from __future__ import annotations

import ast
import builtins
import io
import re
import sys
import textwrap
import tokenize
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from backends.compiler.usernames import defined, free_names, is_method

KEPT_CALLS = ("torch.set_default_dtype", "torch.set_float32_matmul_precision")
"""Module-level calls that change what the constructor makes."""


def _starred(statement: ast.Import | ast.ImportFrom, needed: set[str]) -> list[str] | None:
    """Name what `from package import *` is needed for: the star of torch would hide min and max from the kernels.

    None where the package was not imported when the module was captured, so that nobody knows what is in it.
    """
    module = sys.modules.get(statement.module or "") if isinstance(statement, ast.ImportFrom) else None
    if module is None:
        return None
    offered = getattr(module, "__all__", None) or [name for name in vars(module) if not name.startswith("_")]
    return sorted(needed.intersection(offered) - set(dir(builtins)))


@dataclass(frozen=True)
class Kept:
    """The parts of the user's file that the new one needs."""

    imports: tuple[str, ...]
    definitions: tuple[str, ...]
    model: str


def keep(source: str, entry: str, forward_body: str, functions: Sequence[str] = ()) -> Kept:
    """Take over what `entry` needs to be built, with a new forward, and what that and its functions read.

    The class becomes ModelNew.
    """
    return _Keeper(source, entry).keep(forward_body, functions)


class _Keeper:
    def __init__(self, source: str, entry: str) -> None:
        self.source, self.entry = source, entry
        self.rows = source.splitlines()
        self.tree = ast.parse(source)
        self.definitions: dict[str, ast.stmt] = {}
        for statement in self.tree.body:
            for name in defined(statement):
                self.definitions[name] = statement

    def keep(self, forward_body: str, functions: Sequence[str]) -> Kept:
        needed = self._needed("\n".join([*functions, forward_body]))
        parts, model = [], ""
        for statement in self.tree.body:
            if isinstance(statement, ast.Expr) and ast.unparse(statement.value).startswith(KEPT_CALLS):
                parts.append(self._text(statement))
            if not any(name in needed for name in defined(statement)):
                continue
            if isinstance(statement, ast.ClassDef):
                is_model = statement.name == self.entry
                text = self._class_text(statement, forward_body if is_model else None)
                model = text if is_model else model
                if is_model:
                    continue
                parts.append(text)
            else:
                parts.append(self._text(statement))
        renamed = [_rename(part, self.entry) for part in parts]
        return Kept(tuple(self._imports(needed)), tuple(renamed), _rename(model, self.entry))

    # ---- what is needed -------------------------------------------------------------------------

    def _needed(self, forward_body: str) -> set[str]:
        """Names the model's construction reads, followed through the module's own definitions."""
        needed = {self.entry} | {node.id for node in ast.walk(_parse_body(forward_body)) if isinstance(node, ast.Name)}
        queue = list(needed)
        while queue:
            statement = self.definitions.get(queue.pop())
            if statement is None:
                continue
            for name in self._names(statement):
                if name not in needed:
                    needed.add(name)
                    queue.append(name)
        return needed

    def _names(self, statement: ast.stmt) -> set[str]:
        nodes: list[ast.AST] = [statement]
        if isinstance(statement, ast.ClassDef):
            dropped = self._dropped(statement)
            nodes = [*statement.bases, *statement.keywords, *statement.decorator_list]
            nodes += [part for part in statement.body if part not in dropped]
            forward = next((part for part in statement.body if is_method(part, "forward")), None)
            if statement.name == self.entry and forward is not None:
                nodes.append(forward.args)  # type: ignore[attr-defined]
        return {name for root in nodes for name in free_names(root)}

    def _dropped(self, statement: ast.ClassDef) -> list[ast.stmt]:
        """Methods that only forward used."""
        methods = {part.name: part for part in statement.body if isinstance(part, ast.FunctionDef)}
        kept = {name for name in methods if name.startswith("__")} | {
            name for name, part in methods.items() if part.decorator_list and _is_property(part)
        }
        queue = list(kept)
        others = [part for part in statement.body if not isinstance(part, ast.FunctionDef)]
        reached = {node.id for part in others for node in ast.walk(part) if isinstance(node, ast.Name)}
        queue += [name for name in methods if name in reached]
        while queue:
            name = queue.pop()
            kept.add(name)
            for node in ast.walk(methods[name]):
                if isinstance(node, ast.Attribute) and node.attr in methods and node.attr not in kept:
                    queue.append(node.attr)
                    kept.add(node.attr)
        kept.discard("forward")
        return [part for name, part in methods.items() if name not in kept]

    def _imports(self, needed: set[str]) -> list[str]:
        texts = []
        for statement in self.tree.body:
            if isinstance(statement, (ast.Import, ast.ImportFrom)):
                kept = [a for a in statement.names if (a.asname or a.name.split(".")[0]) in needed or a.name == "*"]
                if isinstance(statement, ast.ImportFrom) and statement.module == "__future__":
                    kept = list(statement.names)
                for alias in kept:
                    names = _starred(statement, needed - set(self.definitions)) if alias.name == "*" else None
                    if isinstance(statement, ast.ImportFrom) and names is not None:
                        texts += [f"from {statement.module} import {', '.join(names)}"] if names else []
                        continue
                    text = f"{alias.name} as {alias.asname}" if alias.asname else alias.name
                    lead = ""
                    if isinstance(statement, ast.ImportFrom):
                        lead = f"from {'.' * statement.level}{statement.module or ''} "
                    texts.append(f"{lead}import {text}")
        return texts

    # ---- text -----------------------------------------------------------------------------------

    def _text(self, statement: ast.stmt) -> str:
        return "\n".join(self.rows[_first(statement) - 1 : statement.end_lineno])

    def _class_text(self, statement: ast.ClassDef, forward_body: str | None) -> str:
        dropped = self._dropped(statement)
        removed = {row for part in dropped for row in range(_first(part), (part.end_lineno or part.lineno) + 1)}
        rows = [
            self.rows[row - 1]
            for row in range(_first(statement), (statement.end_lineno or 0) + 1)
            if row not in removed
        ]
        left = [part for part in statement.body if part not in dropped]
        margin = " " * (statement.body[0].col_offset or 4)
        if not left and forward_body is None:
            rows.append(f"{margin}pass")
        while rows and not rows[-1].strip():
            rows.pop()
        if forward_body is not None:
            rows += ["", *textwrap.indent(self._forward(statement, forward_body), margin).splitlines()]
        return _spaced(rows, statement)

    def _forward(self, statement: ast.ClassDef, body: str) -> str:
        method = next((part for part in statement.body if is_method(part, "forward")), None)
        if method is None:  # inherited from a class of the same file
            method = next(
                part
                for other in self.tree.body
                if isinstance(other, ast.ClassDef)
                for part in other.body
                if is_method(part, "forward")
            )
        arguments = ast.unparse(method.args)  # type: ignore[attr-defined]
        return f"def forward({arguments}):\n{textwrap.indent(body, '    ')}"


def _spaced(rows: list[str], statement: ast.ClassDef) -> str:
    """One blank line at most; one under the class's docstring, none under its first line."""
    first, doc = _first(statement), statement.body[0]
    has_doc = ast.get_docstring(statement) is not None
    end = max([statement.lineno, *(base.lineno for base in statement.bases)])
    if has_doc:
        end = doc.end_lineno or end
    head, rest = rows[: end - first + 1], rows[end - first + 1 :]
    while rest and not rest[0].strip():
        rest.pop(0)
    return re.sub(r"\n{3,}", "\n\n", "\n".join([*head, *([""] if has_doc and rest else []), *rest]))


def _is_property(part: ast.FunctionDef) -> bool:
    texts = [ast.unparse(decorator) for decorator in part.decorator_list]
    return any("property" in text or "setter" in text for text in texts)


def _first(statement: ast.stmt) -> int:
    decorators: list[ast.expr] = getattr(statement, "decorator_list", [])
    return min([statement.lineno, *(decorator.lineno for decorator in decorators)])


def _rename(text: str, entry: str) -> str:
    """Rename the class wherever the text reads it as a name."""
    if not text:
        return text
    tokens = []
    for token in tokenize.generate_tokens(io.StringIO(text + "\n").readline):
        is_entry = token.type == tokenize.NAME and token.string == entry
        tokens.append((token, "ModelNew" if is_entry else token.string))
    rows = text.splitlines()
    for token, string in reversed(tokens):
        if string != token.string:
            (row, column), (_, end) = token.start, token.end
            rows[row - 1] = rows[row - 1][:column] + string + rows[row - 1][end:]
    return "\n".join(rows).replace("super(ModelNew, self)", "super()")


def _parse_body(body: str) -> ast.Module:
    return ast.parse("def forward():\n" + textwrap.indent(body or "pass", "    "))


def stacked(definitions: Iterable[str]) -> list[str]:
    """Join constants that follow each other: they need no blank lines between them."""
    sections: list[str] = []
    was_constant = False
    for definition in definitions:
        is_constant = not isinstance(ast.parse(definition).body[0], (ast.ClassDef, ast.FunctionDef))
        if is_constant and was_constant:
            sections[-1] += f"\n{definition}"
        else:
            sections.append(definition)
        was_constant = is_constant
    return sections
