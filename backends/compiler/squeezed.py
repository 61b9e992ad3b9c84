"""Row results that everybody reads with the reduced dimensions dropped: a kernel allocates them so."""

from __future__ import annotations

from backends.compiler.group import Group
from backends.compiler.ir import Op, Value, View, live


def squeezed(groups: list[Group], ops: list[Op], returned: list[Value]) -> dict[Value, Value]:
    """Map each such result to its view without the reduced dimensions."""
    readers: dict[Value, list[Op]] = {}
    for op in live(ops, returned):
        for value in op.inputs:
            readers.setdefault(value, []).append(op)
    found = {}
    for group in groups:
        kept = len(group.domain) - len(group.dims)
        for value in group.outputs if group.dims else []:
            end = _end(value, readers, returned) if value.shape == group.row_shape else value
            if end is not value and len(end.shape) == kept:
                found[value] = end
    return found


def _end(value: Value, readers: dict[Value, list[Op]], returned: list[Value]) -> Value:
    """Follow a value through squeezes, as long as one squeeze is all that reads it."""
    while value not in returned:
        users = readers.get(value, [])
        if len(users) != 1 or not isinstance(users[0], View) or users[0].kind != "squeeze":
            break
        value = users[0].out
    return value
