"""einops without einops: plain permutations become .permute(…), the rest a short function in plain PyTorch."""

from __future__ import annotations

import ast
import re

from verifier.paste.edits import Edit, dropping, replacing
from verifier.paste.lines import Lines
from verifier.paste.statements import Statement, dotted

_SHARED = '''
def _einops_axes(side, ellipsis):
    """Read one side of a pattern: a list of groups of axis names."""
    groups, group = [], None
    for token in side.replace("(", " ( ").replace(")", " ) ").split():
        names = ellipsis if token == "..." else [] if token == "1" else [token]
        if token == "(":
            group = []
        elif token == ")":
            groups.append(group)
            group = None
        elif group is not None:
            group += names
        else:
            groups += [[name] for name in names] if token == "..." else [names]
    return groups


def _einops(x, pattern, sizes, reduction=""):
    """Split the axes of the left side, reduce, repeat and permute, join those of the right side."""
    left, right = pattern.split("->")
    ellipsis = [f"...{i}" for i in range(x.dim() - len(_einops_axes(left, [])))]
    left, right = _einops_axes(left, ellipsis), _einops_axes(right, ellipsis)
    sizes = dict(sizes)
    for names, length in zip(left, x.shape):
        for name in names:
            length = length // sizes.get(name, 1)
        sizes.update({name: length for name in names if name not in sizes})
    axes = [name for names in left for name in names]
    kept = [name for names in right for name in names]
    x = x.reshape([sizes[name] for name in axes])
    gone = [i for i, name in enumerate(axes) if name not in kept]
    if gone:
        x = getattr(x, {"max": "amax", "min": "amin"}.get(reduction, reduction))(dim=gone)
        axes = [name for name in axes if name in kept]
    for name in kept:
        if name not in axes:
            x = x.unsqueeze(-1)
            axes.append(name)
    x = x.permute([axes.index(name) for name in kept]).expand([sizes[name] for name in kept])
    return x.reshape([math.prod([sizes[name] for name in names]) for names in right])
'''
_FUNCTIONS = {
    "rearrange": '''
def rearrange(tensor, pattern, **sizes):
    """What einops.rearrange does, in plain PyTorch."""
    return _einops(tensor, pattern, sizes)
''',
    "repeat": '''
def repeat(tensor, pattern, **sizes):
    """What einops.repeat does, in plain PyTorch."""
    return _einops(tensor, pattern, sizes)
''',
    "reduce": '''
def reduce(tensor, pattern, reduction, **sizes):
    """What einops.reduce does, in plain PyTorch."""
    return _einops(tensor, pattern, sizes, reduction)
''',
    "Rearrange": '''
class Rearrange(nn.Module):
    """What einops.layers.torch.Rearrange does, in plain PyTorch."""

    def __init__(self, pattern, **sizes):
        super().__init__()
        self.pattern, self.sizes = pattern, sizes

    def forward(self, x):
        return _einops(x, self.pattern, self.sizes)
''',
}
_PLAIN = re.compile(r"\s*(\w+(?: +\w+)*)\s*->\s*(\w+(?: +\w+)*)\s*")


def without_einops(lines: Lines, body: list[Statement]) -> tuple[list[Edit], list[str]]:
    """Replace the imports and calls of einops; nothing where a form is used that is not known here."""
    names: dict[str, str] = {}
    imports: list[ast.stmt] = []
    for s in body:
        for node in ast.walk(s.node):
            if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "einops":
                imports.append(node)
                names |= {alias.asname or alias.name: alias.name for alias in node.names}
        if isinstance(s.node, ast.Import) and s.node.names[0].name == "einops":
            imports.append(s.node)
            prefix = s.node.names[0].asname or "einops"
            names |= {f"{prefix}.{name}": name for name in _FUNCTIONS}
    nodes = [n for s in body if s.defines for n in ast.walk(s.node)]
    used = [n for n in nodes if isinstance(n, (ast.Name, ast.Attribute)) and dotted(n) in names]
    if not used or any(names[dotted(n)] not in _FUNCTIONS for n in used):
        return [], []
    calls = [n for n in nodes if isinstance(n, ast.Call) and dotted(n.func) in names]
    edits = [dropping(lines, node) for node in imports]
    plain = {id(c.func): c for c in calls if names[dotted(c.func)] == "rearrange" and _order(c)}
    for call in plain.values():
        edits += _permuted(lines, call, _order(call) or [])
    general = [n for n in used if id(n) not in plain]
    edits += [replacing(lines, n, names[dotted(n)]) for n in general if dotted(n) != names[dotted(n)]]
    if general:
        first = next(s.node for s in body if s.defines)
        line = min([first.lineno, *(d.lineno for d in getattr(first, "decorator_list", []))])
        wanted = dict.fromkeys(names[dotted(n)] for n in general)
        text = "\n\n".join([_SHARED.strip("\n") + "\n", *(_FUNCTIONS[name].strip("\n") + "\n" for name in wanted)])
        edits.append(Edit(line, 0, line, 0, text + "\n\n"))
    return edits, ["einops is not installed: wrote its calls out in plain PyTorch"]


def _order(call: ast.Call) -> list[int] | None:
    """Return the permutation in rearrange(x, "b t d -> t b d")."""
    if call.keywords or len(call.args) != 2 or not isinstance(call.args[1], ast.Constant):
        return None
    match = _PLAIN.fullmatch(str(call.args[1].value))
    if match is None:
        return None
    left, right = match[1].split(), match[2].split()
    if len(set(left)) != len(left) or sorted(left) != sorted(right) or "1" in left:
        return None
    return [left.index(name) for name in right]


def _permuted(lines: Lines, call: ast.Call, order: list[int]) -> list[Edit]:
    value = call.args[0]
    simple = isinstance(value, (ast.Name, ast.Attribute, ast.Call, ast.Subscript))
    whole, inner = replacing(lines, call, ""), replacing(lines, value, "")
    opening, closing = ("", "") if simple else ("(", ")")
    axes = ", ".join(map(str, order))
    return [
        Edit(whole.line, whole.column, inner.line, inner.column, opening),
        Edit(inner.end_line, inner.end_column, whole.end_line, whole.end_column, f"{closing}.permute({axes})"),
    ]
