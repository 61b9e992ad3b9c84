"""Products from float16 planes in Triton's interpreter, in a process of its own: one JSON line a fact.

The files are written at sizes where planes are worth it and run at small ones: the text is the same.
"""

from __future__ import annotations

import json
import logging
import os
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

os.environ["TRITON_INTERPRET"] = "1"  # read when triton is imported

import torch

from backends.compiler.capture import load
from backends.compiler.convert import convert
from backends.compiler.schedule import FAST, WHERE_THEY_LIE, Schedule
from tests.backends.compiler.outcome import judge
from tests.backends.compiler.sweep import repair_interpreter
from tests.backends.compiler.written import source
from tests.verifier import references
from verifier.problem import Problem

USUAL = Schedule()

MATMUL = source("return x0 @ x1", (2048, 2048), (2048, 2048))
LINEAR = source("return self.fc(x0)", (131072, 128), init="self.fc = nn.Linear(128, 512)")
TAILS = {
    "linear, gelu": (
        source("return F.gelu(self.fc(x0))", (131072, 128), init="self.fc = nn.Linear(128, 512)"),
        [(5, 128)],
    ),
    "three dimensions": (
        source("return self.fc(x0).relu() * 2", (64, 2048, 128), init="self.fc = nn.Linear(128, 512)"),
        [(3, 7, 128)],
    ),
    "linear without bias, sum": (
        source(
            "return self.fc(x0) + x1", (131072, 128), (131072, 512), init="self.fc = nn.Linear(128, 512, bias=False)"
        ),
        [(130, 128), (130, 512)],
    ),
    "mm of transposes": (source("return torch.mm(x0.T, x1.T)", (2048, 2048), (2048, 2048)), [(37, 20), (50, 37)]),
    "weight as [k, n]": (
        source("return x0 @ self.w", (131072, 128), init="self.w = nn.Parameter(torch.ones(128, 512))"),
        [(9, 128)],
    ),
    "weight on the left": (
        source("return self.w @ x0", (128, 131072), init="self.w = nn.Parameter(torch.ones(512, 128))"),
        [(128, 11)],
    ),
    "addmm": (
        source("return torch.addmm(x2, x0, x1, beta=0.5, alpha=2)", *[(2048, 2048)] * 3),
        [(20, 9), (9, 31), (20, 31)],
    ),
    "bmm, bias a row": (
        source("return torch.bmm(x0, x1) + x2", (4, 1024, 1024), (4, 1024, 1024), (1024, 1)),
        [(3, 21, 9), (3, 9, 150), (21, 1)],
    ),
    "baddbmm": (
        source("return torch.baddbmm(x2, x0, x1)", *[(4, 1024, 1024)] * 3),
        [(2, 5, 9), (2, 9, 6), (2, 5, 6)],
    ),
    "matmul that broadcasts": (
        source("return torch.matmul(x0, x1).tanh()", (4, 1, 1024, 1024), (1, 2, 1024, 1024)),
        [(2, 1, 5, 9), (1, 2, 9, 6)],
    ),
    "einsum": (
        source("return torch.einsum('bik,bjk->bij', x0, x1)", *[(4, 1024, 1024)] * 2),
        [(3, 140, 9), (3, 6, 9)],
    ),
    "a triangle": (source("return torch.tril(x0 @ x1, -7) + 1", *[(2048, 2048)] * 2), [(300, 9), (9, 290)]),
    "the same matrix twice": (source("return x0 @ x0", (2048, 2048)), [(131, 131)]),
}


def main() -> None:
    """Print what holds and what does not: of the checks named on the command line, or of all."""
    warnings.filterwarnings("ignore")
    logging.disable(logging.CRITICAL)
    repair_interpreter()
    torch.set_num_threads(1)
    all_checks = (tails, accuracy, special_values, redone_tiles, kept_planes, one_plane, judged_as_fast, triangles)
    for checks in [check for check in all_checks if check.__name__ in sys.argv[1:] or not sys.argv[1:]]:
        for name, fault in checks():
            print(json.dumps({"fact": f"{checks.__name__}: {name}", "fault": fault}), flush=True)


def tails() -> Iterator[tuple[str, str]]:
    """Every kind of product, and what is computed on its accumulator."""
    for name, (text, shapes) in TAILS.items():
        torch.manual_seed(0)
        outcome = judge(text, tuple(torch.randn(shape) for shape in shapes), schedule=USUAL)
        yield name, "" if outcome.kind == "right" else f"{outcome.kind}: {outcome.detail}"
    text, shapes = TAILS["bmm, bias a row"]
    outcome = judge(text, tuple(torch.randn(shape) for shape in shapes), schedule=WHERE_THEY_LIE)
    yield "without a copy", "" if outcome.kind == "right" else f"{outcome.kind}: {outcome.detail}"


def accuracy() -> Iterator[tuple[str, str]]:
    """No element is off by more than its terms' 22 bits and its sum's rounding; on average little more than eager's."""
    module, generator = written(MATMUL), torch.Generator().manual_seed(1)
    for name, scaled in SCALES.items():
        for rows, depth, columns in ((1, 1, 1), (3, 700, 5), (130, 65, 129)):
            a = scaled(torch.randn(rows, depth, generator=generator), generator)
            b = scaled(torch.randn(columns, depth, generator=generator), generator).T
            exact, bound = a.double() @ b.double(), a.double().abs() @ b.double().abs()
            found, eager = (
                ((product.double() - exact).abs() / bound).nan_to_num() for product in (module.ModelNew()(a, b), a @ b)
            )
            few = ((a.double() ** 2 @ b.double() ** 2).sqrt() / bound).nan_to_num()  # 1 where one term is nearly all
            worst, mean, own = float(found.max()), float(found.mean()), float(eager.mean())
            is_right = worst <= 3 * 2**-22 + depth**0.5 * 2**-23 and mean <= 1.5 * own + 2**-22 * float(few.mean())
            yield f"{name}, k = {depth}", "" if is_right else f"{worst:.1e}, on average {mean:.1e} for {own:.1e}"


SCALES: dict[str, Callable[[torch.Tensor, torch.Generator], torch.Tensor]] = {
    "normal": lambda x, generator: x,
    "positive": lambda x, generator: x.abs(),
    "rows from 1e-12 to 1e12": lambda x, generator: x * spread(x[:, :1], generator, 12),
    "numbers from 1e-4 to 1e4": lambda x, generator: x * spread(x, generator, 4),
    "numbers from 1e-12 to 1e12": lambda x, generator: x * spread(x, generator, 12),
    "nearly all zero": lambda x, generator: x * (torch.rand(x.shape, generator=generator) > 0.95),
    "large ones meet zeros": lambda x, generator: (
        torch.where(torch.arange(x.shape[1]) % 3 == len(x) % 3, 0, x)
        * torch.where(torch.arange(x.shape[1]) % 2 == len(x) % 2, 1e12, 1.0)
    ),
    "1e-30": lambda x, generator: x * 1e-15,
    "beyond the scales": lambda x, generator: x * spread(x[:, :1], generator, 18),
}


def spread(like: torch.Tensor, generator: torch.Generator, decades: int) -> torch.Tensor:
    """Return powers of ten between so many decades below one and above."""
    return 10 ** ((torch.rand(like.shape, generator=generator) * 2 - 1) * decades)


INF, NAN = float("inf"), float("nan")
SPECIAL: dict[str, tuple[float, float]] = {
    "inf": (INF, 1.0),
    "-inf times 0": (-INF, 0.0),
    "inf times inf": (INF, INF),
    "nan": (NAN, 1.0),
    "nan times 0": (0.0, NAN),
    "1e30 times 1e-30": (1e30, 1e-30),
    "overflow": (1e30, 1e30),
    "largest number": (3.4e38, 0.5),
    "denormal": (1e-42, 1e20),
    "two denormals": (1e-42, 1e-42),
    "zeros": (0.0, 0.0),
    "2**60": (2.0**60, 2.0**-30),
}


def special_values() -> Iterator[tuple[str, str]]:
    """Not finite exactly where PyTorch's is, and equal elsewhere."""
    module = written(MATMUL)
    for name, (one, other) in SPECIAL.items():
        torch.manual_seed(2)
        a, b = torch.randn(20, 50), torch.randn(50, 15)
        a[11, 7], b[7, 3] = one, other
        yield f"{name} among others", apart(module.ModelNew()(a, b), a @ b)
        a, b = torch.full((3, 5), one), torch.full((5, 4), other)
        yield f"{name} alone", apart(module.ModelNew()(a, b), a @ b)


def apart(found: torch.Tensor, eager: torch.Tensor, rounding: float = 2e-6) -> str:
    """Say where two products differ by more than their rounding."""
    same = (found == eager) | (found.isnan() & eager.isnan())
    mean = eager[eager.isfinite()].abs().nanmean().nan_to_num()
    near = (found - eager).abs() <= rounding * (eager.abs() + 10 * mean)
    wrong = ~(same | (near & eager.isfinite() & found.isfinite()))
    return f"{int(wrong.sum())} of {wrong.numel()} differ" if wrong.any() else ""


def redone_tiles() -> Iterator[tuple[str, str]]:
    """Only tiles of what the planes cannot hold are computed again."""
    module = written(MATMUL)
    calls = counted(module, "float32_product")
    torch.manual_seed(3)
    plain, wide, with_nan, a, b = (torch.randn(300, 300) for _ in range(5))
    wide *= 10 ** torch.linspace(-3, 3, 300)
    with_nan[140, 9] = float("nan")
    a[140, 0], b[0] = 1e20, 0.0
    cases: list[tuple[str, torch.Tensor, torch.Tensor, int]] = [
        ("normal numbers", plain, wide, 0),
        ("a softmax", torch.softmax(wide, -1), plain, 0),
        ("triangles", plain.triu(), plain.triu(), 0),
        ("a row with a NaN", with_nan, plain, 3),
        ("a column with a NaN", plain, with_nan, 3),
        ("a row whose largest number meets zeros", a, b, 3),
    ]
    for name, left, right, wanted in cases:
        calls.clear()
        module.ModelNew()(left, right)
        yield name, "" if len(calls) == wanted else f"{len(calls)} tiles for {wanted}"
    triangle = written(source("return torch.tril(x0 @ x1)", (2048, 2048), (2048, 2048)))
    calls = counted(triangle, "float32_product")
    triangle.ModelNew()(torch.full((300, 9), NAN), torch.ones(9, 300))
    yield "NaN everywhere, of 3 x 3 tiles a triangle", "" if len(calls) == 6 else f"{len(calls)} tiles for 6"


def kept_planes() -> Iterator[tuple[str, str]]:
    """A parameter is split once, and again as soon as it may have changed."""
    module, x = written(LINEAR), torch.randn(4, 128)
    calls = counted(module, "split_in_planes_kernel")
    torch.manual_seed(4)
    new = module.ModelNew()

    def run(name: str, splits: int) -> tuple[str, str]:
        calls.clear()
        found = new(x)
        fault = apart(found, torch.nn.functional.linear(x, new.fc.weight, new.fc.bias))
        return name, fault or ("" if len(calls) == splits else f"{len(calls)} splits for {splits}")

    yield run("first call", 2)
    yield run("second call", 1)
    with torch.inference_mode():
        yield run("in inference mode", 1)
    new.load_state_dict({name: torch.randn_like(tensor) for name, tensor in new.state_dict().items()})
    yield run("after load_state_dict", 2)
    for fused in (False, True):
        for parameter in new.parameters():
            parameter.grad = torch.randn_like(parameter)
        torch.optim.AdamW(new.parameters(), lr=0.1, fused=fused).step()
        yield run(f"after a step of the optimizer, fused={fused}", 2)
        yield run("after that", 1)
    with torch.no_grad():
        new.fc.weight[3] *= 100
    yield run("after a change in place", 2)
    new.fc.weight.data = new.fc.weight.data * 2
    yield run("after another storage", 2)
    new.fc.weight = torch.nn.Parameter(torch.randn(512, 128))
    yield run("after another parameter", 2)
    yield "forgotten with the parameter", "" if len(module.KEPT_PLANES) == 1 else f"{len(module.KEPT_PLANES)} kept"


def one_plane() -> Iterator[tuple[str, str]]:
    """Of one plane no element is off by more than its terms' 11 bits; what is not finite stays so."""
    module, generator = written(MATMUL, FAST), torch.Generator().manual_seed(1)
    for name in ("normal", "numbers from 1e-12 to 1e12", "large ones meet zeros", "beyond the scales"):
        scaled = SCALES[name]
        a = scaled(torch.randn(3, 700, generator=generator), generator)
        b = scaled(torch.randn(140, 700, generator=generator), generator).T
        exact, bound = a.double() @ b.double(), a.double().abs() @ b.double().abs()
        worst = float(((module.ModelNew()(a, b).double() - exact).abs() / bound).nan_to_num().max())
        yield name, "" if worst <= 2 * 2**-11 + 2**-14 else f"{worst:.1e}"
    for name, (one, other) in SPECIAL.items():
        a, b = torch.randn(20, 50, generator=generator), torch.randn(50, 15, generator=generator)
        a[11, 7], b[7, 3] = one, other
        yield name, apart(module.ModelNew()(a, b), a @ b, rounding=2**-10)


def judged_as_fast() -> Iterator[tuple[str, str]]:
    """The verifier lets one plane pass where TF32's exactness is asked for, and refuses it where float32's is."""
    for name, large, small in (("linear, gelu", "131072", "37"), ("bmm, bias a row", "1024", "50")):
        text = TAILS[name][0]
        file, given = written(text, FAST), Problem.parse(text.replace(large, small).replace("rand(", "randn("))

        def answer(model: torch.nn.Module, *inputs: torch.Tensor, file: Any = file) -> Any:
            new = file.ModelNew()
            new.load_state_dict(model.state_dict())
            return new(*inputs)

        for precision, wanted in (("fast", "pass"), ("exact", "precision_downgrade")):
            finding = references.judge(replace(references.load(given), precision=precision), answer)
            code = finding.code if finding else "pass"
            yield f"{name}, {precision}", "" if code == wanted else code


def triangles() -> Iterator[tuple[str, str]]:
    """What a factor's triangle leaves out of the sums is 0 times something: NaN where that is not finite."""
    lower, upper, diagonal = "torch.tril(x0) @ x1", "torch.triu(x0, -40) @ torch.triu(x1)", "torch.diag(x0[3]) @ x1"
    for call in (lower, upper, diagonal, "x0 @ torch.tril(x1, 5)"):
        text = source(f"return {call}", (2048, 2048), (2048, 2048))
        for schedule in (USUAL, replace(WHERE_THEY_LIE, planes=0)):
            torch.manual_seed(5)
            a, b = torch.randn(140, 200), torch.randn(200, 150)
            for name, (row, column), value in (("late", (3, 190), INF), ("early", (130, 2), NAN)):
                spoiled, other = a.clone(), b.clone()
                spoiled[row, column] = other[column, row] = value
                outcome = judge(text, (spoiled, other), schedule=schedule)
                yield f"{call}, {name}, planes={schedule.planes}", "" if outcome.kind == "right" else outcome.detail


def written(text: str, schedule: Schedule = USUAL) -> Any:
    """Write a problem by planes and load the file."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "kernel.py"
        path.write_text("".join(convert(text, "Model", Path(folder), schedules=[schedule])), encoding="utf-8")
        return load(path)


def counted(module: Any, kernel: str) -> list[None]:
    """Return a list that grows by one with every call of one of the file's kernels, or launch."""
    calls: list[None] = []
    plain = getattr(module, kernel)

    class Counted:
        def __call__(self, *args: Any, **named: Any) -> Any:
            calls.append(None)
            return plain(*args, **named)

        def __getitem__(self, grid: Any) -> Any:
            calls.append(None)
            return plain[grid]

    setattr(module, kernel, Counted())
    return calls


if __name__ == "__main__":
    with torch.no_grad():
        main()
