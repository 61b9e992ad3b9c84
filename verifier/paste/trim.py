"""Cuts the module out of the script around it: what trains, prints, asks or stops is left out and said."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator

from verifier.paste.edits import Edit, dropping
from verifier.paste.lines import Lines
from verifier.paste.refusal import NotAProblem
from verifier.paste.statements import Statement, closure, dotted, modules_of
from verifier.paste.syntax import shortened

_SETTING = re.compile(
    r"torch\.(?:manual_seed|seed|random\.manual_seed|cuda\.manual_seed(?:_all)?"
    r"|set_(?!default_device|num|printoptions)\w+|use_deterministic_algorithms|backends\..*|_dynamo\..*|_inductor\..*|_C\..*|library\..*)"
    r"|(?:np|numpy|random|np\.random|numpy\.random)\.seed|warnings\.\w+|\w*seed\w*"
)
_REFLECTS = frozenset(["globals", "locals", "eval", "exec", "vars", "__import__"])
_STOPS = frozenset(["exit", "quit", "sys.exit", "os._exit", "os.abort"])


def is_main_guard(node: ast.stmt) -> bool:
    """Tell `if __name__ == "__main__":`, whose body never belongs to the module."""
    return isinstance(node, ast.If) and any(isinstance(n, ast.Name) and n.id == "__name__" for n in ast.walk(node.test))


def trimmed(lines: Lines, body: list[Statement], roots: Iterable[str]) -> tuple[list[Statement], list[Edit], list[str]]:
    """Return the statements to keep, the edits that drop the others, and what to tell about it."""
    roots = list(roots)
    outside = [s for s in body if is_main_guard(s.node) or (_stops(s.node) and not s.bound & set(roots))]
    inside = [s for s in body if s not in outside]
    settings = [s for s in inside if _is_setting(s.node)]
    needed = closure(inside, [*roots, *(name for s in settings for name in s.used)])
    reflects = bool(needed & _REFLECTS)
    imported = modules_of(inside)
    keep = [
        s
        for index, s in enumerate(inside)
        if s.imports
        or s in settings
        or s.bound & needed
        or (s.changed - imported) & needed
        or _patches_what_is_used(s, imported, roots, inside, needed)
        or (reflects and (s.defines or isinstance(s.node, (ast.Assign, ast.AnnAssign))))
        or _is_inert(s, index)
    ]
    dropped = [s for s in body if s not in keep]
    _refuse_questions(lines, keep)
    return keep, [dropping(lines, s.node) for s in dropped], list(_told(lines, dropped))


def _is_setting(node: ast.stmt) -> bool:
    """Tell honest global settings (seed, default dtype, backend switches) from everything else that runs."""
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
        name = dotted(node.value.func)
        constants = [n.value for n in ast.walk(node) if isinstance(n, ast.Constant)]
        if any("cuda" in str(value) for value in constants) or "cuda.FloatTensor" in ast.unparse(node):
            return False  # the verifier chooses the device
    elif isinstance(node, ast.Assign):
        name = dotted(node.targets[0]) if isinstance(node.targets[0], ast.Attribute) else ""
    else:
        return False
    return bool(name and _SETTING.fullmatch(name))


def _patches_what_is_used(
    s: Statement, imported: set[str], roots: list[str], inside: list[Statement], needed: set[str]
) -> bool:
    """Tell `F.gelu = fast_gelu` where the module uses F.gelu: it changes what the module means."""
    if not isinstance(s.node, ast.Assign) or not s.changed & imported:
        return False
    target = dotted(s.node.targets[0])
    users = [o.node for o in inside if o.defines and o.bound & needed]
    return bool(target) and any(dotted(n) == target for user in users for n in ast.walk(user))


def _is_inert(s: Statement, index: int) -> bool:
    """Constants and strings do nothing and may explain the rest."""
    if isinstance(s.node, ast.Expr):
        return isinstance(s.node.value, ast.Constant) and (index == 0 or isinstance(s.node.value.value, str))
    if isinstance(s.node, (ast.Assign, ast.AnnAssign)):
        cuda = any(isinstance(n, ast.Constant) and str(n.value).startswith("cuda") for n in ast.walk(s.node))
        return not (s.used or s.changed or cuda) and not any(isinstance(n, ast.Call) for n in ast.walk(s.node))
    return False


def _stops(node: ast.stmt) -> bool:
    """Tell a statement that can end the program, such as the check for a GPU."""
    if not isinstance(node, (ast.If, ast.Expr, ast.Raise, ast.Assert)):
        return False
    return isinstance(node, ast.Assert) or any(
        isinstance(n, ast.Raise) or (isinstance(n, ast.Call) and dotted(n.func) in _STOPS) for n in ast.walk(node)
    )


def _refuse_questions(lines: Lines, keep: list[Statement]) -> None:
    for s in keep:
        if not s.defines and any(isinstance(n, ast.Call) and dotted(n.func) == "input" for n in ast.walk(s.node)):
            line = lines.number(s.node.lineno)
            hint = "Write the value in place of input()."
            raise NotAProblem(
                "reference_error", "the module needs an answer from input(), and nobody is asked", hint, line
            )


def _told(lines: Lines, dropped: list[Statement]) -> Iterator[str]:
    rest = []
    for s in dropped:
        where = f"line {lines.number(s.node.lineno)}"
        if is_main_guard(s.node):
            yield f'left out the `if __name__ == "__main__"` block ({where}): it is not run'
        elif _stops(s.node) and "cuda" in ast.unparse(s.node):
            yield f"left out the check that stops without a GPU ({where})"
        else:
            shown = f"{s.node.name}()" if isinstance(s.node, ast.FunctionDef) else _first_line(lines, s.node)
            rest.append(f"{shown} ({where})")
    rest = list(dict.fromkeys(rest))
    if rest:
        more = f" and {len(rest) - 3} more" if len(rest) > 3 else ""
        yield f"left out what the module does not need: {', '.join(rest[:3])}{more}"


def _first_line(lines: Lines, node: ast.stmt) -> str:
    return shortened(lines.texts[node.lineno - 1].strip(), 40)
