"""Large problems become small ones that still say something, without being allocated."""

from __future__ import annotations

import math
import time

import pytest

from tests.verifier.references import problem
from verifier import literals, scaling, shrink
from verifier.errors import VerificationError
from verifier.footprint import look
from verifier.glance import surely_small
from verifier.problem import Problem

ATTENTION = Problem(
    """
import torch
import torch.nn as nn
batch, heads, width = 64, 12, 256 * 3
length = 2 ** 12
KEEP = 64

class Model(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads, self.qkv = heads, nn.Linear(width, 3 * width)

    def forward(self, x):
        q, k, v = self.qkv(x).view(*x.shape[:2], 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        return ((q @ k.transpose(-2, -1)).softmax(-1) @ v).clamp(max=KEEP)

def get_inputs():
    return [torch.rand(batch, length, width)]

def get_init_inputs():
    return [width, heads]
""",
    "Model",
    ("x",),
)


def test_what_a_problem_needs_is_known_without_allocating_it() -> None:
    """16 GB are counted in a moment."""
    began = time.monotonic()
    needed = shrink.needs(problem("torch.softmax(x, 1)", "torch.rand(65536, 65536)"))
    assert 16e9 < needed < 80e9 and time.monotonic() - began < 20


def test_a_large_problem_fits_afterwards_and_keeps_its_divisibility() -> None:
    """Heads still divide the width; only what the kernel is given is rewritten."""
    small = shrink.shrink(ATTENTION)
    assert small.footprint is not None and shrink.COMFORTABLE.excess(small.footprint) <= 1
    assert not small.literals and "KEEP = 64" in small.problem.source
    assert small.footprint.shapes[0][2] % 12 == 0
    assert small.text == f"x 64x4096x768 -> {'x'.join(map(str, small.footprint.shapes[0]))}"


def test_lines_stay_where_they_are() -> None:
    """An error in the shrunk text points into the pasted one."""
    assert shrink.shrink(ATTENTION).problem.source.count("\n") == ATTENTION.source.count("\n")


def test_a_small_problem_is_left_alone() -> None:
    """Not a character changes."""
    given = problem("x + 1", "torch.rand(7, 333)")
    assert shrink.shrink(given).problem is given


def test_numbers_in_the_class_are_rewritten_in_the_kernel_too() -> None:
    """Only where nothing else helps, and then the map says so."""
    given = problem("self.a(x)", "torch.rand(32, 50000)", constructor="|self.a = nn.Linear(50000, 60000)")
    small = shrink.shrink(given)
    assert set(small.literals) >= {50000, 60000}
    kernel = given.source.replace("class Model", "BLOCK = 50000\nclass ModelNew")
    rewritten = small.kernel(kernel)
    assert f"nn.Linear({small.literals[50000]}, {small.literals[60000]})" in rewritten and "BLOCK = 50000" in rewritten


def test_what_cannot_be_shrunk_is_refused_with_its_size() -> None:
    """A size hidden in arithmetic on strings cannot be rewritten."""
    with pytest.raises(VerificationError) as caught:
        shrink.shrink(problem("x + 1", "torch.rand(*map(int, '60000 60000'.split()))"), seconds=1.0)
    assert caught.value.code == "too_large" and "GB" in caught.value.message


def test_a_try_that_proves_little_is_only_taken_when_nothing_is_better() -> None:
    """`works` decides between candidates."""
    seen: list[int] = []

    def works(candidate: Problem) -> int:
        seen.append(math.prod(look(candidate.source, "Model").shapes[0]))
        return shrink.POOR if len(seen) == 1 else shrink.GOOD

    small = shrink.shrink(problem("torch.softmax(x, 1)", "torch.rand(4096, 8192)"), works)
    assert small.footprint is not None and math.prod(small.footprint.shapes[0]) == seen[-1] and len(seen) == 2


def test_constants_that_a_class_reads_are_told_from_those_it_only_shares_a_name_with() -> None:
    """A parameter called `dim` is not the module's `dim`."""
    source = "dim = 64\nwide = dim * 4\nsize = 128\nclass Model:\n    def f(self, dim):\n        return dim + size\n"
    assert {site.value: site.given for site in literals.sites(source)} == {64: True, 4: True, 128: False}


@pytest.mark.parametrize(
    ("expression", "value"), [("1024 * 2", 2048), ("2 ** 14", 16384), ("1 << 12", 4096), ("-5", 5), ("4096 // 3", 1365)]
)
def test_constant_arithmetic_counts_as_one_number(expression: str, value: int) -> None:
    """What is folded is replaced whole."""
    source = f"n = {expression}\n"
    assert [site.value for site in literals.sites(source)] == [value]
    assert literals.rewritten(source, {value: 7}).strip().endswith("7")


def test_different_sizes_stay_different() -> None:
    """Equal ones would hide a transposition."""
    first = next(scaling.ways([2048, 4096, 8192], 128))
    assert len(set(first.values())) == 3


@pytest.mark.parametrize(("value", "cap", "result"), [(768, 128, 96), (65535, 64, 63), (100, 128, 100), (4096, 16, 16)])
def test_halving_keeps_odd_factors(value: int, cap: int, result: int) -> None:
    """768 = 3 * 256 stays a multiple of three; an odd size stays odd."""
    assert scaling.under(value, cap) == result


@pytest.mark.parametrize(
    ("inputs", "small"),
    [("torch.rand(8, 2000)", True), ("torch.rand(200, 200, 200)", False), ("torch.rand(int(1e6))", False),
     ("torch.rand(2 ** 20)", False), ("torch.rand(unknown)", False), ("torch.rand(4).repeat(10)", False)],
)  # fmt: skip
def test_small_by_its_text(inputs: str, small: bool) -> None:
    """When in doubt the answer is no."""
    assert surely_small(problem("x + 1", inputs).source) is small


def test_a_forward_that_needs_data_is_measured_by_its_inputs() -> None:
    """`.item()` has no answer on tensors without data."""
    found = look(problem("x[: int(x.sum().item()) % 3 + 1]", "torch.rand(300, 40)").source, "Model")
    assert found.largest == 12_000 and found.shapes == ((300, 40),)


def test_the_number_of_layers_stays() -> None:
    """A text written out for 24 layers has no tensor of a 7th for a module of 6."""
    layers = "*[nn.Linear(4096, 4096) for _ in range(n)]"
    given = problem("self.a(x)", "torch.rand(64, 4096)", "24", constructor=f"n|self.a = nn.Sequential({layers})")
    small = shrink.shrink(given)
    assert small.footprint is not None and len(small.footprint.state) == 48
    assert small.footprint.shapes[0][1] < 4096


def test_the_number_of_steps_stays_though_it_equals_a_width() -> None:
    """A loop over the first dimension is not shortened with the width that has the same number."""
    given = problem(
        "torch.stack([self.a(row) for row in x])",
        "torch.rand(length, 64, width)",
        "width",
        constructor="n|self.a = nn.Linear(n, n)",
    )
    given = Problem(given.source + "\nlength = 128\nwidth = 128\n", "Model", ("x",))
    small = shrink.shrink(given)
    assert small.footprint is not None
    assert small.footprint.shapes[0][0] == 128 and small.footprint.shapes[0][2] < 128


def test_a_recurrent_layer_is_measured_without_being_run() -> None:
    """Step by step, six layers of 512 steps take most of a minute; their results have PyTorch's shapes."""
    given = problem(
        "self.a(x)",
        "torch.rand(16, 2000, 32)",
        constructor="|self.a = nn.LSTM(32, 32, 6, batch_first=True, bidirectional=True)",
    )
    began = time.process_time()
    found = look(given.source, "Model")
    assert time.process_time() - began < 10 and found.operations > 2000 > found.steps
    assert found.largest == 16 * 2000 * 64


def test_a_batch_norm_keeps_elements_to_average() -> None:
    """Of two elements it returns the order, and a rounding turns that round."""
    given = problem(
        "self.b(self.a(x))",
        "torch.rand(10, 3, 512, 512)",
        constructor="|self.a, self.b = nn.Conv2d(3, 8, 16, 16), nn.BatchNorm2d(8)",
    )
    small = shrink.shrink(given)
    assert small.footprint is not None and small.footprint.averaged >= shrink.SEVERAL
    assert small.footprint.shapes[0][0] == shrink.FEW


def test_a_product_with_one_row_is_as_much_work_as_one_with_sixteen() -> None:
    """A kernel reads the whole weight either way."""
    one, sixteen = (
        look(problem("x @ torch.zeros(4096, 512)", f"torch.rand({rows}, 4096)").source, "Model") for rows in (1, 16)
    )
    assert one.products == sixteen.products == 16 * 4096 * 512


def test_numbers_of_get_inputs_alone_are_told_from_the_constructor_s() -> None:
    """How many images there are is nobody's business but the inputs'."""
    source = (
        "batch = 10\nwidth = 12\nclass Model:\n    pass\n\ndef get_inputs():\n    return [(batch, width)]\n\n"
        "def get_init_inputs():\n    return [width, 14]\n"
    )
    assert {site.value for site in literals.of_inputs(source)} == {10}


def test_a_constructor_that_reads_numbers_is_run_and_the_forward_measured() -> None:
    """`torch.linspace(...).item()` has no answer on tensors without data; the forward needs none."""
    given = problem("x @ x.t() * self.a", "torch.rand(3000, 40)", constructor="|self.a = torch.rand(1).item()")
    found = look(given.source, "Model")
    assert found.shadow == "built" and found.complete and found.largest == 9_000_000


def test_a_number_of_blocks_stays() -> None:
    """Four blocks of a sequence stay four, where a smaller problem allows it: a text may be written for them."""
    given = problem(
        "x.unflatten(0, (-1, self.n)).sum(1).cumsum(0)", "torch.rand(2048, 4096)", "512", constructor="n|self.n = n"
    )
    small = shrink.shrink(given)
    assert small.footprint is not None and small.footprint.shapes[0][0] < 2048
    assert look(small.problem.source, "Model").recounted(look(given.source, "Model")) == 0


def test_no_path_appears_that_was_not_there() -> None:
    """A residual that is added where two widths are equal is none of a network where they differ."""
    given = problem(
        "self.a(x) + x if self.m == self.n else self.a(x)",
        "torch.rand(4096, 4096)",
        "4096, 4090",
        constructor="m, n|self.m, self.n, self.a = m, n, nn.Linear(m, n)",
    )
    small = shrink.shrink(given)
    assert small.footprint is not None and small.footprint.shapes[0][1] < 4096
    assert small.footprint.is_like(look(given.source, "Model"))


def test_a_number_of_layers_in_the_class_stays_in_the_kernel_too() -> None:
    """Where one place of a number is kept, a kernel's own copy of the constructor keeps it as well."""
    given = problem(
        "self.a(x)",
        "torch.rand(16, 50000)",
        constructor="|self.a = nn.Sequential(nn.Linear(50000, 48), *[nn.Linear(48, 48) for _ in range(24)])",
    )
    small = shrink.shrink(given)
    own, copied = (text[: text.index("def forward")] for text in (small.problem.source, small.kernel(given.source)))
    assert small.literals and own == copied and "range(24)" in own
