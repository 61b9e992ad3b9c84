"""The road from a cleaned paste to a complete module, one step after the other."""

from __future__ import annotations

import ast
import builtins
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

from verifier.paste import absent, choose, cut, imports, inputs, rewrites, trim
from verifier.paste.edits import Edit, applied
from verifier.paste.einops_stand_in import without_einops
from verifier.paste.lines import Lines
from verifier.paste.refusal import NotAProblem
from verifier.paste.statements import Statement, statements
from verifier.paste.syntax import Code, tree
from verifier.paste.wrap import wrapped

_ALWAYS_THERE = frozenset(dir(builtins)) | frozenset(
    {
        "__name__",
        "__file__",
        "__doc__",
        "__class__",
        "__builtins__",
        "__debug__",
        "__spec__",
        "__module__",
        "__qualname__",
    }
)
_OTHERS = {
    "tensorflow": "TensorFlow",
    "keras": "Keras",
    "jax": "JAX",
    "flax": "Flax",
    "mxnet": "MXNet",
    "paddle": "Paddle",
}


@dataclass(frozen=True)
class Module:
    """A complete module: its lines, and the class to convert."""

    lines: Lines
    entry: choose.ModuleClass


def complete(code: Code) -> Module:
    """Cut out the module, rewrite what can't run here, add what is missing; raise NotAProblem."""
    code, body, classes = _opened(code)
    table = choose.aliases(body)
    _refuse_others(body, table)
    if not classes:
        code, body, classes = _wrapped(code, body, table)
    chosen, choice = _chosen(code.lines, classes, body)
    cut.check(code, body, chosen)
    made = inputs.made(code, body, table, classes, chosen)
    if made is not None:
        code = _extended(code, *made)
        body = statements(code)
    keep, drops, said = trim.trimmed(code.lines, body, (chosen.name, "get_inputs", "get_init_inputs"))
    moves, moved = _devices(code.lines, keep)
    unused, left_out = imports.sorted_out(code.lines, keep)
    lines = applied(code.lines, drops + moves + unused).noted(*choice, *said, *moved, *left_out)
    return Module(_named(code, lines, keep), chosen)


def _opened(code: Code) -> tuple[Code, list[Statement], dict[str, choose.ModuleClass]]:
    """List statements and classes after taking off what belongs to trainers and compilers."""
    body = statements(code)
    table = choose.aliases(body)
    classes = choose.module_classes(body, table)
    edits, notes = rewrites.unlit(code.lines, classes)
    if re.search(r"\b(?:compile|jit)\b", code.lines.text):
        more, told = rewrites.uncompiled(code.lines, body, table)
        edits, notes = edits + more, notes + told
    if "einops" in code.lines.text and not imports.is_available("einops"):
        more, told = without_einops(code.lines, body)
        edits, notes = edits + more, notes + told
    for rewrite in (absent.without_trimmings, rewrites.defaulted):
        more, told = rewrite(code.lines, body)
        edits, notes = edits + more, notes + told
    if not edits:
        return code, body, classes
    code = _changed(code, edits, notes)
    body = statements(code)
    return code, body, choose.module_classes(body, choose.aliases(body))


def _changed(code: Code, edits: list[Edit], notes: list[str]) -> Code:
    lines = applied(code.lines, edits).noted(*notes)
    return Code(lines, tree(lines.text))


def _extended(code: Code, text: str, *notes: str) -> Code:
    """Add text at the end; its lines carry the number of the last pasted line."""
    lines = code.lines.trimmed()
    added = tuple(text.rstrip("\n").split("\n"))
    numbers = lines.numbers + (lines.numbers[-1],) * len(added)
    lines = replace(lines, texts=lines.texts + added, numbers=numbers).noted(*notes)
    return Code(lines, tree(lines.text))


def _wrapped(
    code: Code, body: list[Statement], table: dict[str, str]
) -> tuple[Code, list[Statement], dict[str, choose.ModuleClass]]:
    found = wrapped(body, table)
    if found is None:
        raise _no_module(code, body)
    code = _extended(code, *found)
    body = statements(code)
    return code, body, choose.module_classes(body, choose.aliases(body))


def _refuse_others(body: list[Statement], table: dict[str, str]) -> None:
    packages = {name.split(".")[0] for s in body if s.imports for name in (table[n] for n in s.bound if n in table)}
    other = next((title for package, title in _OTHERS.items() if package in packages), None)
    if other and "torch" not in packages:
        hint = "Paste a class that inherits from torch.nn.Module and has a forward."
        raise NotAProblem("not_pytorch", f"this is {other} code: only PyTorch modules are converted", hint)


def _no_module(code: Code, body: list[Statement]) -> NotAProblem:
    hint = "Paste a class that inherits from torch.nn.Module and has a forward."
    if any("diff" in note for note in code.lines.notes):
        hint = "Paste the whole file: the diff shows only what is near its changes."
    for s in body:
        if isinstance(s.node, ast.FunctionDef) and any("triton" in ast.unparse(d) for d in s.node.decorator_list):
            line = code.lines.number(s.node.lineno)
            hint = "To judge a kernel, give its module too: kernelllm verify PROBLEM KERNEL."
            return NotAProblem("not_pytorch", f"{s.node.name} is a Triton kernel, not a module", hint, line)
        if isinstance(s.node, ast.FunctionDef) and [a.arg for a in s.node.args.args[:1]] == ["self"]:
            line = code.lines.number(s.node.lineno)
            return NotAProblem(
                "not_pytorch", f"{s.node.name} is a method without its class", "Paste the whole class.", line
            )
        if isinstance(s.node, ast.ClassDef):
            line = code.lines.number(s.node.lineno)
            return NotAProblem("not_pytorch", f"class {s.node.name} does not inherit from nn.Module", hint, line)
    return NotAProblem("not_pytorch", "there is no nn.Module here", hint)


def _chosen(
    lines: Lines, classes: dict[str, choose.ModuleClass], body: list[Statement]
) -> tuple[choose.ModuleClass, list[str]]:
    misspelt = choose.misspelt(classes)
    if misspelt:
        module, name = misspelt
        line = lines.number(module.node.lineno)
        raise NotAProblem(
            "reference_error",
            f"torch.nn has no '{name}'",
            f"Did you mean 'Module'? {module.name} inherits from it.",
            line,
        )
    _refuse_without_forward(lines, list(classes.values()), body)
    chosen, note = choose.entry(classes, body)
    return chosen, [note] if note else []


def _refuse_without_forward(lines: Lines, classes: list[choose.ModuleClass], body: list[Statement]) -> None:
    """Refuse when no class can be called, or when the text ends inside the class that nobody can call yet."""
    last = classes[-1]
    ends = last.node is body[-1].node and not choose.is_able(last)
    if any(choose.is_able(module) for module in classes) and not ends:
        return
    line = lines.number(last.node.lineno)
    message = f"class {last.name} has no forward"
    if ends:
        raise NotAProblem("truncated", f"{message}: the code seems to be cut off", "Paste the whole class.", line)
    raise NotAProblem("not_pytorch", message, f"Give {last.name} a forward method.", line)


def _devices(lines: Lines, keep: list[Statement]) -> rewrites.Rewrites:
    if "cuda" not in lines.text:
        return [], []
    return rewrites.undevised(lines, keep)


def _named(code: Code, lines: Lines, keep: list[Statement]) -> Lines:
    """Add the usual imports for names that nothing defines; raise NotAProblem for other names."""
    bound = {name for s in keep for name in s.bound}
    if any(isinstance(s.node, ast.ImportFrom) and s.node.names[0].name == "*" for s in keep):
        return lines
    undefined = {name for s in keep for name in s.used} - bound - _ALWAYS_THERE
    if "SimpleNamespace(" in lines.text:
        undefined |= {"SimpleNamespace"} - bound
    if not undefined:
        return lines
    added, unknown = imports.missing(undefined)
    refusal, doubts = _undefined(code, keep, unknown)
    if refusal:
        raise refusal
    if not added:
        return lines.noted(*doubts)
    at = imports.insertion_point(tree(lines.text))
    texts = (
        lines.texts[:at] + tuple(added) + (() if _starts_with_import(lines.texts[at:]) else ("", "")) + lines.texts[at:]
    )
    number = lines.numbers[max(at - 1, 0)]
    numbers = lines.numbers[:at] + (number,) * (len(texts) - len(lines.texts)) + lines.numbers[at:]
    return Lines(texts, numbers, lines.notes).noted(f"added {', '.join(added)}", *doubts)


def _starts_with_import(texts: tuple[str, ...]) -> bool:
    return bool(texts) and texts[0].startswith(("import ", "from "))


def _undefined(code: Code, keep: list[Statement], unknown: set[str]) -> tuple[NotAProblem | None, list[str]]:
    """Refuse a name that will certainly be missed; one in a branch may never be reached and is only noted."""
    places = sorted((n.lineno, certain, n.id) for s in keep for n, certain in _names(s.node) if n.id in unknown)
    for line, certain, name in places:
        if certain:
            hint = f"Paste the definition of {name} too, or correct the name."
            if any("diff" in note for note in code.lines.notes):
                hint = "Paste the whole file: the diff shows only what is near its changes."
            where = code.lines.number(line)
            return NotAProblem("reference_error", f"'{name}' is defined nowhere in the paste", hint, where), []
    return None, [
        f"'{name}' (line {code.lines.number(line)}) is defined nowhere in the paste" for line, _, name in places
    ]


def _names(node: ast.AST, certain: bool = True) -> Iterator[tuple[ast.Name, bool]]:
    if isinstance(node, ast.Name):
        yield node, certain
    inside = certain and not isinstance(node, (ast.If, ast.Try, ast.IfExp, ast.BoolOp, ast.While, ast.For))
    for child in ast.iter_child_nodes(node):
        yield from _names(child, inside)
