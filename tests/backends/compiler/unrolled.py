"""An emitted forward as the flat list of statements that it runs: functions and loops written out, tensors numbered.

Two texts that run the same statements on the same tensors give the same list, whatever their names and form.
"""

from __future__ import annotations

import ast
import copy
import re
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch

from backends.compiler import forward as forward_module
from backends.compiler.convert import convert
from backends.compiler.schedule import Schedule
from backends.compiler.written import written
from tests.backends.compiler.written import EVERYTHING


@dataclass(frozen=True)
class Both:
    """An emitted file, and what its forward runs: as the file says it, and before blocks and loops were found."""

    text: str
    runs: list[str]
    flat: list[str]


def both(source: str, schedule: Schedule = EVERYTHING) -> Both:
    """Convert a problem text, and write its forward a second time without functions and loops."""
    seen: dict[str, Any] = {}

    def outlined(lines: Any, reads: Any, tokens: Any, *others: Any) -> Any:
        seen.update(lines=list(lines), reads=reads, tokens=tokens)
        return real_outlined(lines, reads, tokens, *others)

    def names(steps: Any, functions: Any, arguments: Any, wishes: Any, taken: Any, reads: Any) -> Any:
        seen["flat"] = written(seen["lines"], [], arguments, wishes, taken, reads).body
        return written(steps, functions, arguments, wishes, taken, reads)

    def lengths(*given: Any) -> Any:
        seen["lengths"] = given[2]
        return real_rolled(*given)

    real_outlined, real_rolled = forward_module.outlined, forward_module.rolled
    with (
        patch.object(forward_module, "outlined", outlined),
        patch.object(forward_module, "written", names),
        patch.object(forward_module, "rolled", lengths),
        tempfile.TemporaryDirectory() as folder,
    ):
        text = "".join(convert(source, "Model", Path(folder), schedules=[schedule]))
    tree = ast.parse(text)
    functions = {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef)}
    functions = {name: node for name, node in functions.items() if (ast.get_docstring(node) or "").startswith("Comput")}
    model = next(node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == "ModelNew")
    body = next(node for node in model.body if isinstance(node, ast.FunctionDef) and node.name == "forward").body
    start = next((at for at, node in enumerate(body) if not isinstance(node, ast.If)), 0)
    flat = ast.parse(f"def forward():\n{_indented(seen['flat'])}").body[0]
    assert isinstance(flat, ast.FunctionDef)
    return Both(text, _ran(body[start:], functions, seen["lengths"]), _ran(flat.body, {}, seen["lengths"]))


def _ran(body: list[ast.stmt], functions: Mapping[str, ast.FunctionDef], lengths: Mapping[str, int]) -> list[str]:
    run = _Run(functions, lengths)
    results = run.statements(body, {})
    return [*run.done, f"return {', '.join(map(ast.unparse, results))}"]


def _indented(text: str) -> str:
    return "\n".join(f"    {row}" for row in text.splitlines())


class _Run:
    """Runs statements on numbers for tensors, and writes down each."""

    def __init__(self, functions: Mapping[str, ast.FunctionDef], lengths: Mapping[str, int]) -> None:
        self.functions, self.lengths = functions, lengths
        self.done: list[str] = []
        self.made = 0

    def statements(self, body: list[ast.stmt], known: dict[str, ast.expr]) -> list[ast.expr]:
        """Run statements where names stand for `known`; return what they return."""
        for node in body:
            if isinstance(node, ast.For):
                self.loop(node, known)
            elif isinstance(node, ast.Return):
                assert node.value is not None
                return self.returned(node.value, known)
            elif isinstance(node, ast.Assign):
                targets = _names(node.targets[0])
                for name, value in zip(targets, self.value(node.value, known, len(targets)), strict=True):
                    known[name] = value
            elif not (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)):
                self.effect(node, known)
        return []

    def loop(self, node: ast.For, known: dict[str, ast.expr]) -> None:
        over, count = _put(node.iter, known), re.match(r"range\((.*)\)$", ast.unparse(node.iter))
        assert isinstance(node.target, ast.Name)
        if count:
            rounds: list[ast.expr] = [ast.Constant(i) for i in range(*(int(n) for n in count[1].split(", ")))]
        else:
            cut = ast.Slice()
            if isinstance(over, ast.Subscript) and isinstance(over.slice, ast.Slice):
                over, cut = over.value, over.slice
            first, end = (part.value if isinstance(part, ast.Constant) else None for part in (cut.lower, cut.upper))
            places = range(self.lengths[ast.unparse(over)])[slice(first, end)]
            rounds = [ast.parse(f"{ast.unparse(over)}[{at}]", mode="eval").body for at in places]
        for each in rounds:
            known[node.target.id] = each
            self.statements(node.body, known)

    def effect(self, node: ast.stmt, known: dict[str, ast.expr]) -> None:
        call = node.value if isinstance(node, ast.Expr) else None
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and call.func.attr == "append":
            held = known[ast.unparse(call.func.value)]
            assert isinstance(held, ast.List)
            known[ast.unparse(call.func.value)] = ast.List([*held.elts, _put(call.args[0], known)], ast.Load())
        elif isinstance(call, ast.Call) and ast.unparse(call.func) in self.functions:
            self.value(call, known, 0)
        else:
            self.done.append(ast.unparse(_put(node, known)))

    def returned(self, value: ast.expr, known: dict[str, ast.expr]) -> list[ast.expr]:
        if isinstance(value, ast.Tuple):
            return [_put(part, known) for part in value.elts]
        return self.value(value, known, 1)

    def value(self, value: ast.expr, known: dict[str, ast.expr], count: int) -> list[ast.expr]:
        """Run one expression that gives `count` results; a name or a list is what it stands for."""
        if isinstance(value, (ast.Name, ast.List)):
            return [_put(value, known)]
        if isinstance(value, ast.Call) and ast.unparse(value.func) in self.functions:
            function = self.functions[ast.unparse(value.func)]
            given = [_put(argument, known) for argument in value.args]
            inner = {own.arg: put for own, put in zip(function.args.args, given, strict=True)}
            results = self.statements(function.body, inner)
            if len(results) == 1 and count > 1:  # the one statement behind return gives several
                text = self.done.pop().partition(" = ")[2]
                self.made -= 1
                return self.new(text, count)
            assert len(results) == count, ast.unparse(value)
            return results
        return self.new(ast.unparse(_put(value, known)), count)

    def new(self, text: str, count: int) -> list[ast.expr]:
        names = [f"v{self.made + at}" for at in range(count)]
        self.made += count
        self.done.append(f"{', '.join(names)} = {text}")
        return [ast.Name(name) for name in names]


class _Put(ast.NodeTransformer):
    def __init__(self, known: Mapping[str, ast.expr]) -> None:
        self.known = known

    def visit_Name(self, node: ast.Name) -> ast.expr:
        return copy.deepcopy(self.known.get(node.id, node))

    def visit_BinOp(self, node: ast.BinOp) -> ast.expr:
        node.left, node.right = self.visit(node.left), self.visit(node.right)
        is_sum = isinstance(node.op, ast.Add) and isinstance(node.left, ast.Constant)
        if is_sum and isinstance(node.right, ast.Constant):
            return ast.Constant(node.left.value + node.right.value)  # type: ignore[attr-defined]
        return node

    def visit_Call(self, node: ast.Call) -> ast.AST:
        given: list[ast.expr] = []
        for argument in node.args:
            is_list = isinstance(argument, ast.Starred)
            given += self.visit(argument.value).elts if is_list else [self.visit(argument)]  # type: ignore[attr-defined]
        node.args = given
        node.func = self.visit(node.func)
        node.keywords = [self.visit(keyword) for keyword in node.keywords]
        if ast.unparse(node.func) == "tuple" and node.args and isinstance(node.args[0], ast.List):
            return ast.Tuple(node.args[0].elts, ast.Load())
        return node


def _put(node: Any, known: Mapping[str, ast.expr]) -> Any:
    return ast.fix_missing_locations(_Put(known).visit(copy.deepcopy(node)))


def _names(target: ast.expr) -> list[str]:
    parts = target.elts if isinstance(target, ast.Tuple) else [target]
    return [part.id for part in parts if isinstance(part, ast.Name)]
