"""Rewrites that keep what the module computes: Lightning classes, compile decorators, fixed CUDA devices."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from verifier.paste.choose import ModuleClass, resolved
from verifier.paste.edits import Edit, dropping, replacing
from verifier.paste.lines import Lines
from verifier.paste.statements import Statement, dotted
from verifier.paste.usual_sizes import by_name

Rewrites = tuple[list[Edit], list[str]]

_TRAINING = re.compile(
    r"(?:training|validation|test|predict)_(?:step|step_end|epoch_end)|configure_\w+|\w+_dataloader|on_\w+"
    r"|prepare_data|optimizer_step|optimizer_zero_grad|lr_scheduler_step|forward_backward|log_\w+"
)
_COMPILERS = ("torch.compile", "torch.jit.script", "torch.jit.script_method", "torch.jit.export", "torch.jit.ignore")
_AVAILABLE = "torch.cuda.is_available()"
_DEVICE_NAMES = frozenset(["device", "DEVICE", "dev", "Device"])


def unlit(lines: Lines, classes: dict[str, ModuleClass]) -> Rewrites:
    """Make a LightningModule a plain nn.Module: what trains it goes, what it computes stays."""
    edits: list[Edit] = []
    notes: list[str] = []
    for module in classes.values():
        if not module.base.endswith(".LightningModule"):
            continue
        methods = [m for m in module.node.body if isinstance(m, ast.FunctionDef) and _TRAINING.fullmatch(m.name)]
        edits += [replacing(lines, base, "nn.Module") for base in module.node.bases]
        edits += [dropping(lines, method) for method in methods]
        edits += _hyperparameters(lines, module)
        also = f"; left out {', '.join(m.name for m in methods)}" if methods else ""
        notes.append(f"{module.name}: LightningModule read as nn.Module{also}")
    return edits, notes


def _hyperparameters(lines: Lines, module: ModuleClass) -> Iterator[Edit]:
    """Replace save_hyperparameters(), keeping self.hparams where the module reads it."""
    if module.init is None or module.init not in module.node.body:
        return
    names = [a.arg for a in [*module.init.args.args, *module.init.args.kwonlyargs] if a.arg != "self"]
    read = any(isinstance(n, ast.Attribute) and n.attr == "hparams" for n in ast.walk(module.node))
    kept = "self.hparams = SimpleNamespace(" + ", ".join(f"{name}={name}" for name in names) + ")"
    for statement in module.init.body:
        if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call):
            if dotted(statement.value.func) != "self.save_hyperparameters":
                continue
            if read:
                yield replacing(lines, statement, kept)
            elif len(module.init.body) > 1:
                yield dropping(lines, statement)
            else:
                yield replacing(lines, statement, "pass")


def uncompiled(lines: Lines, body: list[Statement], table: dict[str, str]) -> Rewrites:
    """Take off decorators that hand the code to another compiler: eager PyTorch is the reference."""
    edits, found = [], []
    for statement in body:
        if not statement.defines:
            continue
        for node in ast.walk(statement.node):
            for decorator in getattr(node, "decorator_list", []):
                called = decorator.func if isinstance(decorator, ast.Call) else decorator
                name = resolved(dotted(called), table)
                if name in _COMPILERS or (name.endswith("partial") and "torch.compile" in ast.unparse(decorator)):
                    end = decorator.end_lineno or decorator.lineno
                    edits.append(Edit(decorator.lineno, 0, end + 1, 0, ""))
                    found.append(f"@{name}")
    return edits, [f"took off {', '.join(dict.fromkeys(found))}: eager PyTorch is the reference"] if found else []


def undevised(lines: Lines, body: list[Statement]) -> Rewrites:
    """Let inputs be made on the CPU and everything else run where there is no CUDA."""
    edits: list[Edit] = []
    for statement in body:
        name = getattr(statement.node, "name", "")
        edits += _devices(lines, statement.node, name in ("get_inputs", "get_init_inputs"))
    if not edits:
        return [], []
    where = ", ".join(str(n) for n in sorted({lines.number(e.line) or 0 for e in edits})[:5])
    return edits, [f"the code names the device 'cuda' itself (line {where}): made to run without a GPU too"]


def _devices(lines: Lines, top: ast.AST, inputs: bool) -> Iterator[Edit]:
    chosen = '"cpu"' if inputs else None
    for node in _walk_open(top):
        if isinstance(node, ast.Call):
            attribute = node.func.attr if isinstance(node.func, ast.Attribute) else ""
            if attribute == "cuda" and isinstance(node.func, ast.Attribute) and dotted(node.func.value) != "torch":
                yield _uncuda(lines, node, node.func, inputs)
            yield from (
                _conditional(lines, value, chosen)
                for value in [k.value for k in node.keywords if k.arg == "device"]
                + (node.args[:1] if attribute == "to" or dotted(node.func) == "torch.device" else [])
                if _is_cuda(value)
            )
        elif isinstance(node, ast.Assign) and _is_cuda(node.value):
            if isinstance(node.targets[0], ast.Name) and node.targets[0].id in _DEVICE_NAMES:
                yield _conditional(lines, node.value, chosen)
        elif isinstance(node, ast.arguments):
            yield from (_conditional(lines, value, chosen) for value in node.defaults if _is_cuda(value))


def _walk_open(top: ast.AST) -> Iterator[ast.AST]:
    """Walk, but not into conditions that already ask whether CUDA is there."""
    waiting = [top]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.IfExp) and "cuda" in ast.dump(node.test):
            continue
        yield node
        waiting += ast.iter_child_nodes(node)


def _is_cuda(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value.startswith("cuda")


def _conditional(lines: Lines, node: ast.expr, chosen: str | None) -> Edit:
    literal = ast.unparse(node).replace("'", '"')
    return replacing(lines, node, chosen or f'{literal} if {_AVAILABLE} else "cpu"')


def _uncuda(lines: Lines, call: ast.Call, function: ast.Attribute, inputs: bool) -> Edit:
    """Replace `.cuda(…)` alone, so that edits inside the value before it still hold."""
    whole, value = replacing(lines, call, ""), replacing(lines, function.value, "")
    text = "" if inputs else f'.to("cuda" if {_AVAILABLE} else "cpu")'
    return Edit(value.end_line, value.end_column, whole.end_line, whole.end_column, text)


def defaulted(lines: Lines, body: list[Statement]) -> Rewrites:
    """Give get_inputs(batch) and get_init_inputs(width) values for parameters that nobody will pass."""
    edits: list[Edit] = []
    told: list[str] = []
    for statement in body:
        node = statement.node
        if isinstance(node, ast.FunctionDef) and node.name in ("get_inputs", "get_init_inputs"):
            arguments = [*node.args.posonlyargs, *node.args.args]
            for argument in arguments[: len(arguments) - len(node.args.defaults)]:
                name = argument.arg
                value = '"cpu"' if name in _DEVICE_NAMES else "4" if "batch" in name else by_name(name)
                edits.append(replacing(lines, argument, f"{ast.unparse(argument)}={value}"))
                told.append(f"{name}={value}")
    return edits, [f"get_inputs is called without arguments: guessed {', '.join(told)}"] if told else []
