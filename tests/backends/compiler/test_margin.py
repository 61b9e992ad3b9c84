"""The margin: broken lines are shorter, and mean what they meant."""

from __future__ import annotations

import ast

import pytest

from backends.compiler.margin import WIDTH, fitted
from tests.backends.compiler.examples import EXAMPLES, MORE
from tests.backends.compiler.written import triton

LONG = "a_rather_long_name"
LINES = [
    f"y = tl.where({LONG} < 0.0, {LONG} * 0.5, {LONG}) + tl.sum({LONG}, axis=0, keep_dims=True) / ({LONG} * {LONG})",
    f"    y = {LONG} + {LONG} * {LONG} - {LONG} / {LONG} + {LONG} | {LONG} & {LONG}",
    f'raise ValueError(f"a message, with (commas) and {{{LONG}}}, that is long", {LONG}, {LONG}, {LONG})',
    f"y = tl.load({LONG}_ptr + ({LONG} * {LONG} + {LONG}) * {LONG} + {LONG}, mask={LONG}, other=0.0).to(tl.float32)",
    f"y = tl.sum({LONG}, axis=0)  # a comment that would pass the margin if it stood where it was written first",
]


@pytest.mark.parametrize("line", LINES)
def test_a_broken_line_means_the_same(line: str) -> None:
    """Breaking changes where lines end, and no operator, operand or string."""
    broken = fitted(line)
    assert len(broken) > 1 and all(len(part) <= WIDTH for part in broken)
    assert ast.dump(ast.parse("\n".join(broken).lstrip())) == ast.dump(ast.parse(line.lstrip()))


@pytest.mark.parametrize("name", ["few long rows", "rows too long for registers", "long columns", "channels"])
def test_emitted_files_keep_to_the_margin(name: str) -> None:
    """No line of a file passes the margin, whatever the shape of its kernels."""
    text = triton({**EXAMPLES, **MORE}[name].text)
    assert [line for line in text.splitlines() if len(line) > WIDTH] == []
