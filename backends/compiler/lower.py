"""An exported graph → the compiler's program: each node by its rule, or left to PyTorch with the reason."""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable
from typing import Any

import torch
from torch.utils import _pytree as pytree

from backends import NothingToConvert
from backends.compiler import extern
from backends.compiler.build import Builder
from backends.compiler.capture import Captured
from backends.compiler.expression import Scalar
from backends.compiler.host import Host, NoName, state_text
from backends.compiler.ir import Extern, Origin, Program, Shape, Size, Value
from backends.compiler.rules import Declined, apply, bind, load_all, schema_name


def lower(captured: Captured, source: str) -> Program:
    """Translate a captured forward; raise NothingToConvert where the file could not be written truly."""
    return Lowering(captured, source).program()


STRUCTURE = {"axis0", "axis1", "keepdim", "diagonal", "reduction", "correction", "ord", "p", "groups"}
"""Arguments that decide the kernel's shape: the file is written for their value and refuses another."""


WRITTEN_OUT = 64
"""Elements up to which a tensor that forward makes from numbers is written out."""


class Lowering:
    """Walks the graph once, keeping what each node became."""

    def __init__(self, captured: Captured, source: str) -> None:
        self.captured, self.rules = captured, load_all()
        self.graph = captured.program.graph
        self.statements = _statements(source)
        self.env: dict[torch.fx.Node, Any] = {}
        writes = any(_writes_in_place(node.target) for node in self.graph.nodes if node.op == "call_function")
        arguments = tuple(captured.input_texts)
        self.host = Host(captured.module, arguments, dict(captured.constants))
        self.builder = Builder(self.host, writes)
        self.inputs: list[Value] = []

    def program(self) -> Program:
        self._inputs()
        nodes = [node for node in self.graph.nodes if node.op == "call_function"]
        index = 0
        while index < len(nodes):
            run = self._module_run(nodes, index)
            self._lower_run(run)
            index += len(run)
        outputs, text = self._outputs()
        return Program(self.builder.ops, self.inputs, outputs, text, self._guards())

    # ---- arguments ------------------------------------------------------------------------------

    def _inputs(self) -> None:
        signature = self.captured.program.graph_signature
        state = {**signature.inputs_to_parameters, **signature.inputs_to_buffers}
        lifted = signature.inputs_to_lifted_tensor_constants
        texts = iter(self.captured.input_texts)
        for node in self.graph.nodes:
            if node.op != "placeholder":
                continue
            if node.name in state:
                self.env[node] = self._state(node, state_text(state[node.name]))
            elif node.name in lifted:
                self.env[node] = self._constant(node, lifted[node.name])
            else:
                self.env[node] = self._argument(node, next(texts))

    def _state(self, node: torch.fx.Node, text: str) -> Value:
        tensor = node.meta["val"]
        return Value(node.name, sizes(tensor.shape), tensor.dtype, host=text, dense=tensor.is_contiguous())

    def _constant(self, node: torch.fx.Node, name: str) -> Value:
        """A tensor that is neither parameter nor buffer: an attribute's, or one that forward makes from numbers."""
        wanted = self.captured.program.constants[name]
        for path, module in self.captured.module.named_modules():
            for key, value in vars(module).items():
                if value is wanted:
                    return self._state(node, f"{state_text(path)}.{key}")
        if not isinstance(wanted, torch.Tensor) or wanted.is_complex() or wanted.numel() > WRITTEN_OUT:
            raise NothingToConvert(
                "not_convertible", f"forward makes the constant tensor {name} itself",
                "Make it once in __init__ and register it with register_buffer.",
            )
        made = self._state(node, extern.constant_text(wanted, self.host))
        if not wanted.dim() and not self.builder.program_writes_in_place:
            self.builder.literals[made] = extern.shortest(wanted)
        return made

    def _argument(self, node: torch.fx.Node, text: str) -> Any:
        tensor = node.meta.get("val")
        if not isinstance(tensor, torch.Tensor):
            return self._plain_argument(text)
        self.host.learn_shape(text, tensor.shape)
        value = Value(node.name, sizes(tensor.shape), tensor.dtype, host=text, dense=False)
        self.inputs.append(value)
        return value

    def _plain_argument(self, text: str) -> Any:
        constant = self.captured.constants.get(text)
        if isinstance(constant, (int, float)) and not isinstance(constant, bool):
            return Scalar(torch.float64 if isinstance(constant, float) else torch.int64, text, constant)
        return constant

    def _guards(self) -> list[str]:
        """Refuse, at run time, what this text was not written for."""
        lines = []
        for text, constant in self.captured.constants.items():
            if constant is None:
                lines.append(f'if {text} is not None:\n    raise ValueError("written for {text}=None")')
            elif not isinstance(constant, (int, float)) or isinstance(constant, bool) or not self._reads(text):
                lines.append(f'if {text} != {constant!r}:\n    raise ValueError("written for {text}={constant!r}")')
        for condition, message in self.builder.guards.items():
            line = f'if {condition}:\n    raise ValueError("{message}")'
            if line not in lines:
                lines.append(line)
        return lines

    def _reads(self, text: str) -> bool:
        """True if every use of a plain argument was written by its name."""
        return any(scalar.host == text for op in self.builder.ops for scalar in op.scalars)

    # ---- nodes ----------------------------------------------------------------------------------

    def _module_run(self, nodes: list[torch.fx.Node], index: int) -> list[torch.fx.Node]:
        """The nodes of one call of one torch.nn leaf module, so that it can stay one call in the text."""
        call = _leaf_call(nodes[index])
        end = index + 1
        while call and end < len(nodes) and _leaf_call(nodes[end]) == call:
            end += 1
        return nodes[index:end]

    def _lower_run(self, run: list[torch.fx.Node]) -> None:
        mark = len(self.builder.ops)
        before = dict(self.env)
        guards = dict(self.builder.guards)
        stayed = [node for node in run if not self._lower(node)]
        if not stayed or not _leaf_call(run[0]) or not self._is_module_call(run):
            return
        # a module that PyTorch runs in part runs there whole, as the user wrote it
        reason = next((op.reason for op in self.builder.ops[mark:] if isinstance(op, Extern) and op.is_work), "")
        if not reason:
            return
        del self.builder.ops[mark:]
        self.env, self.builder.guards = before, guards
        self._module_call(run, reason)

    def _is_module_call(self, run: list[torch.fx.Node]) -> bool:
        inside = set(run)
        state = self.captured.program.graph_signature
        held = {*state.inputs_to_parameters, *state.inputs_to_buffers}
        given = {
            source for node in run for source in node.all_input_nodes
            if source not in inside and source.name not in held and isinstance(source.meta.get("val"), torch.Tensor)
        }
        left = [node for node in run if any(user not in inside for user in node.users)]
        return len(given) == 1 and len(left) == 1 and isinstance(left[0].meta.get("val"), torch.Tensor)

    def _module_call(self, run: list[torch.fx.Node], reason: str) -> None:
        inside = set(run)
        result = next(node for node in run if any(user not in inside for user in node.users))
        given = next(
            self.env[source] for node in run for source in node.all_input_nodes
            if source not in inside and isinstance(self.env.get(source), Value) and not self._is_state(source)
        )
        path = _leaf_call(run[0])[0]
        self.builder.origin = self._origin(result)
        working = (n for n in run if n.target is not operator.getitem and not _writes_in_place(n.target))
        label = _op_name(next(working, result))
        out = self._traced(result, label)
        op = Extern(label, out, self.builder.origin, f"{state_text(path)}({{0}})", [given], reason)
        out.op, out.dense = op, False
        self.builder.ops.append(op)
        self.env[result] = out

    def _is_state(self, node: torch.fx.Node) -> bool:
        value = self.env.get(node)
        return node.op == "placeholder" and isinstance(value, Value) and value not in self.inputs

    def _lower(self, node: torch.fx.Node) -> bool:
        """Lower one node; False if it stays in PyTorch."""
        if node.target is operator.getitem:
            self.env[node] = self._item(node)
            return True
        value = node.meta.get("val")
        if isinstance(value, (torch.SymInt, torch.SymFloat, torch.SymBool, int, float, bool)):
            self.env[node] = self._number(value)
            return True
        if value is None and not node.users:
            return True  # an assertion of the exporter
        self.builder.origin = self._origin(node)
        arguments = torch.fx.node.map_aggregate(node.args, self._resolve)
        keywords = torch.fx.node.map_aggregate(node.kwargs, self._resolve)
        mark = len(self.builder.ops)
        try:
            self.env[node] = self._by_rule(node, arguments, keywords)
            return True
        except (Declined, NoName) as reason:
            del self.builder.ops[mark:]
            self.env[node] = self._stay(node, arguments, keywords, str(reason))
            return False

    def _by_rule(self, node: torch.fx.Node, arguments: Any, keywords: Any) -> Any:
        name = schema_name(node.target)
        rule = self.rules.get(name)
        if rule is None:
            raise Declined("")
        self._check_dtypes(node, (arguments, keywords))
        mutated = _mutated_argument(node)
        if mutated is not None and self._is_visible(self.env[mutated]):
            raise Declined("writes in place to what is visible elsewhere")
        value = node.meta["val"]
        self.builder.result = self._traced(node, "") if isinstance(value, torch.Tensor) else None
        if self.builder.result is None:
            first = next(v for v in value if isinstance(v, torch.Tensor))
            self.builder.result = Value("", sizes(first.shape), first.dtype)
        bound = bind(node.target, arguments, keywords)
        bound = {key: self._named(value, key) for key, value in bound.items()}
        result = apply(rule, self.builder, bound)
        self._check_result(node, result)
        if mutated is not None:
            self.env[mutated] = result
            for other, known in list(self.env.items()):
                if known is arguments[0]:
                    self.env[other] = result
        return result

    def _named(self, value: Any, argument: str) -> Any:
        named = self.host.scalar(value, self.builder.origin, argument)
        is_structure = "dim" in argument or argument in STRUCTURE
        return self.builder.pin(named) if is_structure and isinstance(named, Scalar) else named

    def _check_dtypes(self, node: torch.fx.Node, given: Any) -> None:
        for leaf in pytree.tree_leaves(given):
            if isinstance(leaf, Value) and (leaf.dtype.is_complex or leaf.dtype.itemsize == 0):
                raise Declined(f"{leaf.dtype} is not supported")

    def _check_result(self, node: torch.fx.Node, result: Any) -> None:
        """A rule that got a shape or dtype wrong must not reach a kernel."""
        traced = node.meta["val"]
        pairs = [(result, traced)] if isinstance(traced, torch.Tensor) else zip(result, traced, strict=True)
        for value, tensor in pairs:
            if value.hints != tuple(size.hint for size in sizes(tensor.shape)) or value.dtype != tensor.dtype:
                raise Declined("not supported for these shapes and dtypes")

    def _is_visible(self, value: Value) -> bool:
        """True if writing to this tensor in place would be seen through another name."""
        top = value
        while top.aliases is not None:
            top = top.aliases
        if top is not value or top.op is None or (isinstance(top.op, Extern) and top.aliases):
            return True
        return any(
            other is not value and isinstance(other, Value) and _same_memory(other, top) for other in self.env.values()
        )

    # ---- what stays -----------------------------------------------------------------------------

    def _stay(self, node: torch.fx.Node, arguments: Any, keywords: Any, reason: str) -> Any:
        text, operands = extern.call_text(node.target, arguments, keywords, self.host)
        value = node.meta["val"]
        results = [value] if isinstance(value, torch.Tensor) else list(value) if value is not None else []
        label = _op_name(node)
        first = next((r for r in results if isinstance(r, torch.Tensor)), None)
        if first is None:
            raise NothingToConvert("not_convertible", f"{label} returns no tensor", "", None)
        out = Value(label, sizes(first.shape), first.dtype)
        op = Extern(label, out, self.builder.origin, text, operands, reason or f"no rule for {label}")
        op.is_work = extern.is_work(node.target)
        mutated = _mutated_argument(node)
        op.is_barrier = mutated is not None
        out.op, out.dense = op, False
        if mutated is not None and isinstance(self.env.get(mutated), Value):
            out.aliases = self.env[mutated]
        elif not op.is_work and operands:
            out.aliases = operands[0]
        self.builder.ops.append(op)
        if isinstance(value, torch.Tensor):
            return out
        op.results = []
        for index, tensor in enumerate(value):
            if not isinstance(tensor, torch.Tensor):
                op.results.append(None)  # type: ignore[arg-type]
                continue
            item = Value(f"{label}_{index}", sizes(tensor.shape), tensor.dtype, dense=False)
            item.op, item.aliases = op, out.aliases
            op.results.append(item)
        return op.results

    # ---- small things ---------------------------------------------------------------------------

    def _item(self, node: torch.fx.Node) -> Any:
        container, index = node.args
        return self.env[container][index]  # type: ignore[index]

    def _resolve(self, argument: Any) -> Any:
        return self.env[argument] if isinstance(argument, torch.fx.Node) else argument

    def _number(self, value: Any) -> Any:
        if isinstance(value, torch.SymInt):
            try:
                return Scalar(torch.int64, self.host.size(value), value.node.hint or 1)
            except NoName as unknown:
                raise NothingToConvert(
                    "not_convertible", f"a size depends on the values of the inputs ({unknown})"
                ) from unknown
        if isinstance(value, (torch.SymFloat, torch.SymBool)):
            raise NothingToConvert("not_convertible", "a number depends on the sizes in a way that cannot be written")
        return value

    def _traced(self, node: torch.fx.Node, name: str) -> Value:
        tensor = node.meta["val"]
        return Value(name, sizes(tensor.shape), tensor.dtype)

    def _origin(self, node: torch.fx.Node) -> Origin:
        path = _module_path(node)
        frames = re.findall(r'File "([^"]+)", line (\d+)', node.meta.get("stack_trace") or "")
        lines = [int(number) for file, number in frames if file == str(self.captured.path)]
        if not lines:
            return Origin(module=path)
        text, target, first = self.statements(lines[-1])
        return Origin(text, target, first, path)

    def _outputs(self) -> tuple[list[Any], str]:
        node = next(node for node in self.graph.nodes if node.op == "output")
        specs = self.captured.program.graph_signature.output_specs
        values = []
        for argument, spec in zip(node.args[0], specs, strict=True):
            if spec.kind.name != "USER_OUTPUT":
                raise NothingToConvert("not_convertible", "forward changes a buffer in a way that cannot be written")
            values.append(self._resolve(argument))
        return values, structure(values, self.captured.program.call_spec.out_spec)


def sizes(shape: Any) -> Shape:
    """Describe a traced shape."""
    return tuple(
        Size(size.node.hint if size.node.hint is not None else 1024, size.node.expr)
        if isinstance(size, torch.SymInt) else Size(int(size))
        for size in shape
    )


def structure(values: list[Any], spec: Any) -> str:
    """Write the returned structure with {0}, {1}, ... for its leaves."""
    marks = [_Mark(index) for index in range(len(values))]
    return _write(pytree.tree_unflatten(marks, spec))


class _Mark:
    def __init__(self, index: int) -> None:
        self.index = index


def _write(node: Any) -> str:
    if isinstance(node, _Mark):
        return f"{{{node.index}}}"
    if type(node) is tuple:
        inner = ", ".join(map(_write, node))
        return f"({inner}{',' if len(node) == 1 else ''})"
    if type(node) is list:
        return f"[{', '.join(map(_write, node))}]"
    if type(node) is dict:
        return "{{" + ", ".join(f"{key!r}: {_write(value)}" for key, value in node.items()) + "}}"
    if node is None:
        return "None"
    if type(node).__module__ == "torch.return_types":
        return f"torch.return_types.{type(node).__name__}(({', '.join(map(_write, node))}))"
    if isinstance(node, tuple) and hasattr(node, "_fields"):
        return f"{type(node).__name__}({', '.join(map(_write, node))})"
    raise NothingToConvert("not_convertible", f"forward returns a {type(node).__name__}")


def _statements(source: str) -> Callable[[int], tuple[str, str, int]]:
    """Return a function: line number → the statement there on one line, the name it assigns, its first line."""
    tree = ast.parse(source)
    simple = [
        node for node in ast.walk(tree)
        if isinstance(node, (ast.Assign, ast.AugAssign, ast.AnnAssign, ast.Return, ast.Expr))
    ]

    def find(line: int) -> tuple[str, str, int]:
        around = [node for node in simple if node.lineno <= line <= (node.end_lineno or node.lineno)]
        if not around:
            rows = source.splitlines()
            return (rows[line - 1].strip() if line <= len(rows) else ""), "", line
        node = min(around, key=lambda n: (n.end_lineno or n.lineno) - n.lineno)
        text = ast.get_source_segment(source, node) or ""
        text = " ".join(part.strip() for part in text.splitlines())
        target = ""
        if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
            target = node.targets[0].id
        elif isinstance(node, (ast.AugAssign, ast.AnnAssign)) and isinstance(node.target, ast.Name):
            target = node.target.id
        return text, target, node.lineno

    return find


def _module_path(node: torch.fx.Node) -> str:
    """The dotted path of the innermost submodule a node ran in."""
    stack = list((node.meta.get("nn_module_stack") or {}).values())
    path = stack[-1][0] if stack else ""
    return re.sub(r"@\d+", "", path) if not path.startswith("_empty") else ""


def _leaf_call(node: torch.fx.Node) -> tuple[str, str]:
    """(path, key) of the torch.nn module call a node belongs to, or () outside one."""
    stack = node.meta.get("nn_module_stack") or {}
    if not stack:
        return ()  # type: ignore[return-value]
    key, (path, kind) = list(stack.items())[-1]
    name = kind if isinstance(kind, str) else f"{kind.__module__}.{kind.__qualname__}"
    if not name.startswith("torch.nn.modules.") or not path:
        return ()  # type: ignore[return-value]
    return re.sub(r"@\d+", "", path), key


def _op_name(node: torch.fx.Node) -> str:
    name = schema_name(node.target) or str(node.target)
    return name.removeprefix("aten.").split(".")[0].rstrip("_") or "call"


def _writes_in_place(target: Any) -> bool:
    is_operator = isinstance(target, torch._ops.OpOverload) and target is not torch.ops.aten.detach_.default
    return is_operator and target._schema.is_mutable


def _mutated_argument(node: torch.fx.Node) -> torch.fx.Node | None:
    """The first argument an operator writes to."""
    if not _writes_in_place(node.target):
        return None
    for index, argument in enumerate(node.target._schema.arguments):  # type: ignore[union-attr]
        if argument.alias_info is not None and argument.alias_info.is_write:
            given = node.args[index] if index < len(node.args) else node.kwargs.get(argument.name)
            return given if isinstance(given, torch.fx.Node) else None
    return None


def _same_memory(value: Value, top: Value) -> bool:
    while value.aliases is not None:
        value = value.aliases
        if value is top:
            return True
    return False
