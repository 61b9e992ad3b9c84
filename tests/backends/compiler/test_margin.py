"""The margin: what the formatter leaves as it is, comments and docstrings, is broken where it is written."""

from __future__ import annotations

import ast

from backends.compiler.margin import WIDTH, fit, launch, quoted

LONG = "a_rather_long_name"


def test_a_comment_that_stands_too_far_right_goes_above_its_line() -> None:
    """The code stays what it was."""
    line = f"y = tl.sum({LONG}, axis=0)  # a comment that would pass the margin if it stood where it was written first"
    comment, code = fit([line], "    ")
    assert comment.startswith("    # a comment") and len(comment) <= WIDTH
    assert ast.dump(ast.parse(code.strip())) == ast.dump(ast.parse(line))


def test_a_long_comment_is_wrapped() -> None:
    """Every line of it is a comment within the margin."""
    lines = fit([f"# {' '.join([LONG] * 9)}"], "        ")
    assert len(lines) > 1 and all(line.startswith("        # ") and len(line) <= WIDTH for line in lines)


def test_a_docstring_keeps_to_the_margin() -> None:
    """The summary and the user's lines are both wrapped."""
    lines = quoted(" ".join([LONG] * 9), [" + ".join([LONG] * 9)])
    assert max(map(len, lines)) <= WIDTH and lines[0].startswith('    """A_rather')


def test_a_long_grid_has_a_line_of_its_own() -> None:
    """The launch then reads kernel[grid](...)."""
    named, called = launch("kernel", f"(triton.cdiv({LONG}, {LONG}), {LONG}, {LONG})", [["x", "y"], ["BLOCK=block"]])
    assert named.startswith("grid = (triton") and called == "kernel[grid](x, y, BLOCK=block)"
