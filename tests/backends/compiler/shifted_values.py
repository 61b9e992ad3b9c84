"""Convolutions as shifted rows in Triton's interpreter, in a process of its own: one JSON line a fact.

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
from torch import nn

from backends.compiler.capture import load
from backends.compiler.convert import convert
from backends.compiler.schedule import EVERYTHING, FAST, Schedule
from tests.backends.compiler.sweep import repair_interpreter
from tests.backends.compiler.written import source

ONE_PLANE = replace(FAST, everything=True)
LARGE = {1: (64, 1 << 20), 2: (64, 1024, 1024), 3: (64, 128, 128, 64)}
"""Samples and spatial sizes at which all of these layers are worth it."""

LAYERS: dict[str, tuple[str, tuple[int, ...]]] = {
    "1-d": ("nn.Conv1d(24, 9, 5, padding=2)", (2, 24, 30)),
    "1-d, stride and dilation": ("nn.Conv1d(40, 8, 3, stride=3, dilation=4)", (2, 40, 50)),
    "2-d, odd channels": ("nn.Conv2d(13, 21, (3, 2))", (2, 13, 5, 9)),
    "2-d, many channels": ("nn.Conv2d(72, 130, (1, 2), padding=1)", (1, 72, 2, 3)),
    "2-d, stride and dilation of each": (
        "nn.Conv2d(20, 8, (3, 2), stride=(2, 3), padding=(2, 1), dilation=(3, 2), bias=False)",
        (2, 20, 8, 9),
    ),
    "2-d, same, even kernel": ("nn.Conv2d(8, 8, (4, 6), padding='same', dilation=(1, 2))", (1, 8, 5, 4)),
    "2-d, groups": ("nn.Conv2d(36, 18, (2, 3), padding=1, groups=2)", (2, 36, 3, 4)),
    "2-d, one place a sample": ("nn.Conv2d(32, 20, (1, 2), stride=(1, 2))", (70, 32, 1, 2)),
    "3-d, groups": (
        "nn.Conv3d(20, 18, (2, 3, 2), stride=(2, 1, 2), padding=(1, 0, 1), dilation=(1, 2, 1), groups=2)",
        (1, 20, 3, 6, 3),
    ),
    "1-d transposed": ("nn.ConvTranspose1d(24, 10, 6, stride=3, padding=2, output_padding=1)", (2, 24, 13)),
    "2-d transposed": ("nn.ConvTranspose2d(20, 12, (2, 3))", (2, 20, 4, 5)),
    "2-d transposed, stride, dilation, groups": (
        "nn.ConvTranspose2d(24, 18, (3, 2), stride=(2, 3), padding=(1, 4), dilation=(2, 1), groups=2)",
        (1, 24, 2, 4),
    ),
    "3-d transposed": ("nn.ConvTranspose3d(8, 12, (3, 2, 2), stride=(1, 2, 2), padding=(0, 1, 1))", (1, 8, 2, 2, 2)),
}

AGAIN = {
    "1-d, stride and dilation",
    "2-d, same, even kernel",
    "3-d, groups",
    "2-d transposed, stride, dilation, groups",
}
"""Those of which the second kernel is tried too."""

TAIL = "return self.norm(F.gelu(self.conv(x0) * 0.5 + x1))"
BOUND = {1: 2**-10, 2: 3 * 2**-22}
"""How far off a sum may be by its terms' rounding, of the sum of their sizes: 11 bits a factor, or 22."""


def main() -> None:
    """Print what holds and what does not: of the checks named on the command line, or of all."""
    warnings.filterwarnings("ignore")
    logging.disable(logging.CRITICAL)
    repair_interpreter()
    torch.set_num_threads(1)
    all_checks = (layers, tails, wide_ranges, redone_tiles, one_plane)
    for checks in [check for check in all_checks if check.__name__ in sys.argv[1:] or not sys.argv[1:]]:
        for name, fault in checks():
            print(json.dumps({"fact": f"{checks.__name__}: {name}", "fault": fault}), flush=True)


def layers() -> Iterator[tuple[str, str]]:
    """Every kind of layer against float64, by both kernels: beside 1e20 float16 holds none of the other numbers."""
    for name, (made, shape) in LAYERS.items():
        torch.manual_seed(0)
        module, x = plain(made), torch.randn(shape)
        yield name, fault_of(module, x, 2)
        if name in AGAIN:
            yield f"{name}, computed again", fault_of(module, put(x, 1e20), 2)


def tails() -> Iterator[tuple[str, str]]:
    """What is elementwise behind the sum is computed on it: a bias, a number, another tensor, a norm in evaluation."""
    made = "nn.Conv2d(16, 24, 3, padding=1)"
    init = f"self.conv = {made}\nself.norm = nn.BatchNorm2d(24)\nself.norm.eval()"
    text = source(TAIL, (64, 16, 512, 512), (24, 1, 1), init=init)
    module = written(text)
    torch.manual_seed(1)
    new, x, other = module.ModelNew().eval(), torch.randn(2, 16, 6, 5), torch.randn(24, 1, 1)
    new.norm.running_mean.normal_()
    new.norm.running_var.uniform_(0.5, 2)
    with torch.no_grad():
        found = new(x, other)
        want = new.norm(nn.functional.gelu(new.conv(x) * 0.5 + other))
    worst = float((found - want).abs().max())
    yield "bias, product, sum, gelu, norm", "" if worst < 1e-5 else f"off by {worst:.1e}"


def wide_ranges() -> Iterator[tuple[str, str]]:
    """Numbers that float16 does not hold beside each other, and those that are not finite."""
    module = plain("nn.Conv1d(16, 12, 4, padding=1)")
    spread: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
        "1e30 in a corner": lambda x: put(x, 1e30),
        "-1e30 and 1e-30": lambda x: put(x * 1e-30, -1e30),
        "largest number": lambda x: put(x, 3.4e38),
        "tiny": lambda x: x * 1e-30,
        "samples from 1e-20 to 1e20": lambda x: x * torch.tensor([1e-20, 1e20])[:, None, None],
        "channels from 1e-9 to 1e9": lambda x: x * (10 ** torch.linspace(-9, 9, 16))[:, None],
        "places from 1e-9 to 1e9": lambda x: x * (10 ** torch.linspace(-9, 9, 20)),
        "zeros": lambda x: x * 0,
        "inf": lambda x: put(x, float("inf")),
        "nan": lambda x: put(x, float("nan")),
        "denormal": lambda x: x * 1e-40,
    }
    for name, of in spread.items():
        torch.manual_seed(2)
        yield name, fault_of(module, of(torch.randn(2, 16, 20)), 2)
    for name, scale in {"channels of the weight": (12, 1, 1), "numbers of the weight": (12, 16, 4)}.items():
        torch.manual_seed(3)
        yield name, fault_of(module, torch.randn(2, 16, 20), 2, 10 ** (torch.rand(scale) * 24 - 12))


def redone_tiles() -> Iterator[tuple[str, str]]:
    """Usual numbers are computed once; next to what float16 does not hold, tiles are computed again."""
    module = plain("nn.Conv1d(16, 12, 4, padding=1)")
    torch.manual_seed(4)
    new, x, exact = module.ModelNew(), torch.randn(4, 16, 128), module.conv1d_exact_kernel
    marks: list[int] = []

    class Seen:
        def __getitem__(self, grid: Any) -> Any:
            return lambda redo, *args, **named: (marks.append(int(redo.sum())), exact[grid](redo, *args, **named))

    module.conv1d_exact_kernel = Seen()
    cases: list[tuple[str, torch.Tensor, int]] = [
        ("normal", x, 0),
        ("relu", x.relu(), 0),
        ("softmax", x.softmax(1), 0),
        ("a nan", put(x, float("nan")), 1),
        ("a large number", put(x, 1e20), 5),
        ("large among zeros", put(x * 0, 1e12), 0),
    ]
    for name, of, wanted in cases:
        marks.clear()
        with torch.no_grad():
            new(of)
        yield name, "" if marks == [wanted] else f"{marks} tiles for {wanted}"


def one_plane() -> Iterator[tuple[str, str]]:
    """One plane is as exact as TF32, and as safe as two."""
    for name in ("2-d, odd channels", "2-d, groups", "1-d transposed"):
        made, shape = LAYERS[name]
        torch.manual_seed(5)
        yield name, fault_of(plain(made, ONE_PLANE), torch.randn(shape), 1)
    module = plain("nn.Conv1d(16, 12, 4)", ONE_PLANE)
    for value in (1e30, 3.4e38, float("inf"), float("nan")):
        torch.manual_seed(6)
        yield f"{value} in a corner", fault_of(module, put(torch.randn(2, 16, 20), value), 1)


def put(x: torch.Tensor, value: float) -> torch.Tensor:
    """Set one number of the first sample."""
    x = x.clone()
    x.view(-1)[0] = value
    return x


def fault_of(module: Any, x: torch.Tensor, planes: int, scale: torch.Tensor | None = None) -> str:
    """Say where the file's layer and PyTorch's in float64 differ by more than the roundings of their terms."""
    torch.manual_seed(7)
    new = module.ModelNew()
    if scale is not None:
        with torch.no_grad():
            new.conv.weight.mul_(scale)
    with torch.no_grad():
        found = new(x).double()
        wide = new.double().conv
        exact = wide(x.double())
        eager = new.float().conv(x)
        for parameter in wide.double().parameters():
            parameter.abs_()
        bound = wide(x.double().abs())
    if found.shape != exact.shape:
        return f"shape {tuple(found.shape)} for {tuple(exact.shape)}"
    terms = new.conv.weight[0].numel()
    off = (found - exact).abs() / bound
    right = (off <= BOUND[planes] + terms**0.5 * 2**-22) | (found == eager) | (found.isnan() & eager.isnan())
    right |= (exact.abs() > 3e38) & ~found.isfinite() | (bound < 1e-37) & ((found - exact).abs() < 1e-44 * terms)
    return "" if right.all() else f"{int((~right).sum())} of {right.numel()} are off, by {float(off[~right].max()):.1e}"


def plain(made: str, schedule: Schedule = EVERYTHING) -> Any:
    """Write one layer at a size where planes are worth it, and load the file."""
    rank = int(made.partition("d(")[0][-1])
    channels = int(made.partition("(")[2].partition(",")[0])
    samples, *lengths = LARGE[rank]
    return written(source("return self.conv(x0)", (samples, channels, *lengths), init=f"self.conv = {made}"), schedule)


def written(text: str, schedule: Schedule = EVERYTHING) -> Any:
    """Write a problem by planes and load the file."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "kernel.py"
        path.write_text("".join(convert(text, "Model", Path(folder), schedules=[schedule])), encoding="utf-8")
        assert "shifted_rows(" in path.read_text(encoding="utf-8"), text
        return load(path)


if __name__ == "__main__":
    main()
