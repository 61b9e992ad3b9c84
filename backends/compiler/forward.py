"""The new forward: statements that call kernels, the kernels they call, and the functions that blocks become."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from backends.compiler.carried import CARRIED
from backends.compiler.group import Group
from backends.compiler.indexed import Measure
from backends.compiler.ir import Extern, Program, Value, View, is_written_back
from backends.compiler.lengths import nearest
from backends.compiler.naming import FREE, Names, identifier
from backends.compiler.outline import outlined
from backends.compiler.parts import Parts
from backends.compiler.roll import rolled
from backends.compiler.schedule import Schedule
from backends.compiler.script import TOKEN, Call, Line, Step, Tokens, common_calls, reading
from backends.compiler.usernames import defined_names, forward_arguments
from backends.compiler.wishes import readers, unpacked, wishes
from backends.compiler.written import Written, written


class Forward:
    """Writes the new forward; `parts` are the kernels that it calls."""

    def __init__(
        self,
        program: Program,
        groups: list[Group],
        squeezed: dict[Value, Value],
        source: str,
        entry: str,
        schedule: Schedule,
    ) -> None:
        self.program, self.groups, self.squeezed = program, groups, squeezed
        self.readers = readers(program.ops)
        self.parameters = partial(forward_arguments, source)  # of a class of the file
        self.arguments = forward_arguments(source, entry)
        self.tokens = Tokens()
        self.users = {"self", *self.arguments, *defined_names(source)}
        self.names = Names(self.users)
        self.names.taken |= {entry, "ModelNew", *CARRIED}
        self.uncounted = program.pieces
        self.apart: list[Line] = []
        self.parts = Parts(self.names, squeezed, schedule, entry if len(groups) == 1 else "")

    def write(self) -> Written:
        """Write the statements of forward, and of the functions that its repeated blocks become."""
        lines = self._counts()
        for group in self.groups:
            line = self._extern(group) if group.kind == "extern" else self._kernel(group)
            lines += [*self._taken_apart(), line, *self._counts()]
        texts = [self.host(value) if isinstance(value, Value) else _constant(value) for value in self.program.outputs]
        lines += [*self._taken_apart(), Line(f"return {self.program.return_text.format(*texts)}")]
        reads = reading(self.arguments)
        lines = nearest(lines, self._shapes(), self.program.size_text, reads)
        left, functions = outlined(lines, reads, self.tokens, self.parameters, self.names.unused)

        def loops(lines: Iterable[Step]) -> list[Step]:
            own = [line for line in lines if isinstance(line, Line)]
            return rolled(own, self.tokens, self.program.lengths, reads, (self.names.taken - FREE) | self.users)

        functions = [replace(each, body=tuple(loops(each.body))) for each in functions]
        taken = self.names.taken - set(self.arguments)
        found = written(loops(left), functions, self.arguments, self.tokens.wishes, taken, reads)
        self._name_operands(found.names)
        return replace(found, body="\n".join([*self.program.guards, found.body]))

    def _name_operands(self, names: Mapping[str, str]) -> None:
        """Let kernels call what they read as forward does; a round of a loop that is not written has no names."""

        def named(match: re.Match[str]) -> str:
            return names.get(match[0]) or identifier(self.tokens.wishes[match[0]][0])

        for part in self.parts:
            for leaf in part.group.leaves:
                leaf.host = TOKEN.sub(named, leaf.host or "")

    def _shapes(self) -> dict[str, Value]:
        """Say what shape each token and each argument that is a tensor has."""
        given = {value.host: value for value in self.program.inputs if value.host in self.arguments}
        return {**{name: value for name, value in given.items() if name}, **self.tokens.values}

    def host(self, value: Value) -> str:
        """Write a tensor as forward sees it; views are made where they are read."""
        if value.host is not None:
            return value.host
        op = value.op
        assert isinstance(op, View), value.name
        if op.pieces:
            return self._piece(value, op)
        return op.text.replace("{0}", self.host(op.source), 1)

    def _piece(self, value: Value, op: View) -> str:
        """Name all pieces of a tensor when one is read."""
        labels = [f"{op.label.strip('_')}_{index}" for index in range(len(op.pieces))]
        for piece, wanted in zip(op.pieces, unpacked(op, labels), strict=True):
            piece.host = self.tokens.new(wanted, piece)
        names = tuple(str(piece.host) for piece in op.pieces)
        self.apart.append(Line(op.apart.replace("{0}", self.host(op.source), 1), names, op.origin.calls))
        assert value.host is not None
        return value.host

    def _taken_apart(self) -> list[Line]:
        """Return the lines that make pieces, once."""
        lines, self.apart = self.apart, []
        return lines

    def _counts(self) -> list[Line]:
        """Refuse tensors, as soon as they are there, that another number of pieces would be taken of."""
        ready = [found for found in self.uncounted if found.of.host is not None]
        self.uncounted = [found for found in self.uncounted if found not in ready]
        return [
            Line(f"{found.check}({self._measured(found.found)}, {found.wanted})", calls=_calls_of(found.of))
            for found in ready
        ]

    def _measured(self, number: Measure) -> str:
        return number.text.format(*(f"{self.host(value)}.shape[{dim}]" for value, dim in number.lengths))

    def _extern(self, group: Group) -> Line:
        op = group.ops[0]
        assert isinstance(op, Extern)
        text = op.text.format(*(self.host(operand) for operand in op.operands))
        calls = common_calls([op])
        if op.is_counter:
            return Line(text, calls=calls)
        results = op.results or [op.out]
        wanted = unpacked(op, ["_" if result is None else result.name for result in results])
        if not op.results:
            wanted = [wishes(op, op.label, self.readers.get(id(op.out), []))]
        for result, names in zip(results, wanted, strict=True):
            if result is not None:
                result.host = self.tokens.new(names, result)
        return Line(text, tuple("_" if result is None else str(result.host) for result in results), calls)

    def _kernel(self, group: Group) -> Line:
        for leaf in group.leaves:
            if leaf.host is None:
                leaf.host = self.host(leaf)
        part = self.parts.find(group)
        numbers = dict.fromkeys(scalar.host for op in group.ops for scalar in op.scalars)
        arguments = [*(self.host(value) for value in group.leaves), *numbers]
        results = [self._result(value, group) for value in group.outputs if not is_written_back(value)]
        return Line(f"{part.name}({', '.join(arguments)})", tuple(results), common_calls(group.ops))

    def _result(self, value: Value, group: Group) -> str:
        op = value.op
        assert op is not None
        is_last, read_by = group.is_last_of_its_line(op), self.readers.get(id(value), [])
        end = self.squeezed.get(value, value)
        end.host = self.tokens.new(wishes(op, op.label.strip("_"), read_by, is_last=is_last), end)
        return end.host


def _calls_of(value: Value) -> tuple[Call, ...]:
    return value.op.origin.calls if value.op is not None else ()


def _constant(value: Any) -> str:
    host = getattr(value, "host", None)
    return host if isinstance(host, str) else repr(value)
