"""What is known while a graph is walked: what each node became, where it came from, the operations so far."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch

from backends.compiler.build import Builder
from backends.compiler.capture import Captured
from backends.compiler.host import Host
from backends.compiler.ir import Extern, Origin, Value
from backends.compiler.nodes import module_calls, module_path, sizes
from backends.compiler.schedule import Schedule
from backends.compiler.statements import Statement


@dataclass(frozen=True)
class Environment:
    """The capture, the builder of its program, and the value of every node walked so far."""

    captured: Captured
    host: Host
    builder: Builder
    statement_at: Callable[[int], Statement]
    schedule: Schedule
    products: int = 0  # matrix products and convolutions in the graph
    values: dict[torch.fx.Node, Any] = field(default_factory=dict)
    inputs: list[Value] = field(default_factory=list)

    def resolve(self, argument: Any) -> Any:
        """Replace a node by what it became."""
        return self.values[argument] if isinstance(argument, torch.fx.Node) else argument

    def origin(self, node: torch.fx.Node) -> Origin:
        """Find the user's statement and the submodule a node comes from."""
        path = module_path(node)
        frames = re.findall(r'File "([^"]+)", line (\d+)', node.meta.get("stack_trace") or "")
        lines = [int(number) for file, number in frames if file == str(self.captured.path)]
        if not lines:
            return Origin(module=path, calls=module_calls(node))
        around = [self.statement_at(line) for line in lines]
        text, _, first = around[-1]
        while len(around) > 1 and re.match(r"return\b", around[-1][0]):
            around.pop()  # what forward of a submodule returns is what the line that calls it assigns
        return Origin(text, around[-1][1], first, path, module_calls(node), tuple(row for _, _, row in around))

    def is_visible(self, value: Value) -> bool:
        """Tell whether writing to this tensor in place would be seen through another name."""
        top = value
        while top.aliases is not None:
            top = top.aliases
        if top is not value or top.op is None or (isinstance(top.op, Extern) and top.aliases):
            return True
        others = (other for other in self.values.values() if isinstance(other, Value) and other is not value)
        return any(_same_memory(other, top) for other in others)


def traced(node: torch.fx.Node, name: str) -> Value:
    """Describe the tensor that a node gave when it was traced."""
    tensor = node.meta["val"]
    return Value(name, sizes(tensor.shape), tensor.dtype)


def _same_memory(value: Value, top: Value) -> bool:
    while value.aliases is not None:
        value = value.aliases
        if value is top:
            return True
    return False
