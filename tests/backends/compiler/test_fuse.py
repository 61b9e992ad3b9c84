"""Fusion: which operations share a kernel, and that nothing is read before it is made."""

from __future__ import annotations

import pytest

from backends.compiler.group import Group
from backends.compiler.ir import Extern, Value, root
from tests.backends.compiler.written import groups, source

LINEAR = "self.fc = nn.Linear(16, 24)"


def kinds(text: str) -> list[str]:
    return [group.kind for group in groups(text)]


def test_a_chain_of_elements_is_one_kernel() -> None:
    """Bias, GELU and a residual need no memory between them."""
    text = source("return F.gelu(x0 + self.bias) + x1", (4, 8), (4, 8), init="self.bias = nn.Parameter(torch.ones(8))")
    assert kinds(text) == ["elementwise"]


def test_softmax_is_one_kernel() -> None:
    """Maximum, exponentials, their sum and the quotient stay on the row."""
    assert kinds(source("return torch.softmax(x0, dim=-1)", (4, 8))) == ["reduction"]


def test_layer_norm_with_its_neighbours_is_one_kernel() -> None:
    """What comes before and after a normalisation joins it."""
    text = source("return F.relu(self.norm(x0 + x1))", (4, 8), (4, 8), init="self.norm = nn.LayerNorm(8)")
    assert kinds(text) == ["reduction"]


def test_dividing_by_a_mean_is_one_kernel() -> None:
    """A reduced result is used again while the row is at hand, also where its dimension was dropped."""
    assert kinds(source("return x0 / x0.mean(dim=1, keepdim=True)", (4, 8))) == ["reduction"]
    assert kinds(source("return x0 / x0.mean(dim=1)[:, None]", (4, 8))) == ["reduction"]


def test_the_tail_of_a_product_is_computed_before_it_is_stored() -> None:
    """Linear, scaling and an activation are one kernel."""
    assert kinds(source("return F.relu(self.fc(x0) * 2.0)", (4, 16), init=LINEAR)) == ["matmul"]


def test_a_tail_that_counts_rows_needs_rows_of_its_own() -> None:
    """A triangle of a product is its tail; not where a layer's leading dimensions count as rows with the last one."""
    assert kinds(source("return torch.tril(self.fc(x0))", (4, 16), init=LINEAR)) == ["matmul"]
    assert kinds(source("return torch.tril(x0 @ x1)", (2, 4, 16), (2, 16, 4))) == ["matmul"]
    assert kinds(source("return torch.tril(self.fc(x0))", (2, 4, 16), init=LINEAR)) == ["matmul", "elementwise"]


def test_a_reduction_after_a_product_reads_memory() -> None:
    """A row of a product is spread over several programs: softmax needs another kernel."""
    assert kinds(source("return torch.softmax(self.fc(x0), dim=-1)", (4, 16), init=LINEAR)) == ["matmul", "reduction"]


def test_what_nobody_reads_is_not_computed() -> None:
    """Only operations that the result needs become kernels."""
    assert kinds(source("y = torch.exp(x0)\nreturn x0 + 1.0", (4, 8))) == ["elementwise"]


PROGRAMS = {
    "two outputs": source("y = x0 * 2.0\nreturn y, y.sum(dim=1)", (4, 8)),
    "a diamond": source(
        "a = torch.exp(x0)\nb = a.sum(dim=1, keepdim=True)\nreturn a / b + torch.special.bessel_j0(a)", (4, 8)
    ),
    "pytorch in between": source("a = x0 + 1.0\nb = torch.special.bessel_j0(a)\nreturn a * b", (4, 8)),
    "a view in between": source("a = x0 * 2.0\nreturn a.t().reshape(4, 8) + a", (4, 8)),
    "an operation in place": source("a = x0 * 2.0\na.add_(1.0)\nb = a.sum()\nreturn a, b", (4, 8)),
    "a write into a part": source("a = x0 * 2.0\na[0] = 5.0\nreturn a + 1.0", (4, 8)),
    "two rows of reductions": source("a = x0 - x0.mean(1, keepdim=True)\nreturn a / a.amax(0, keepdim=True)", (4, 8)),
    "products": source("y = self.fc(x0)\nreturn F.gelu(y) + y, self.fc(x0).sum()", (4, 16), init=LINEAR),
}


def made(group: Group) -> set[Value]:
    """Everything a group leaves behind."""
    values = set(group.outputs) | group.values
    for op in group.ops:
        values |= {value for value in (op.results if isinstance(op, Extern) else []) if value is not None}
    return values


@pytest.mark.parametrize("text", PROGRAMS.values(), ids=PROGRAMS)
def test_nothing_is_read_before_it_is_made(text: str) -> None:
    """Each group reads the program's inputs and what earlier groups stored."""
    stored: set[Value] = set()
    for group in groups(text):
        for leaf in group.leaves:
            source_of = root(leaf)
            assert source_of.op is None or source_of in stored, f"{leaf.name} is read too early"
        stored |= set(group.outputs) if group.kind != "extern" else made(group)


@pytest.mark.parametrize("text", PROGRAMS.values(), ids=PROGRAMS)
def test_every_operation_is_in_one_group_at_most(text: str) -> None:
    """No operation that stores something is computed twice."""
    outputs = [value for group in groups(text) for value in group.outputs]
    assert len(outputs) == len(set(outputs))
