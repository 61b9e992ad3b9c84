"""Convolutions as shifted rows: which ones, what the file says, that they are right, and that they fit an H200."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

import pytest

from backends.compiler.convert import convert
from backends.compiler.schedule import EVERYTHING, FAST, SCHEDULES, Schedule
from tests.backends.compiler.test_planes import run
from tests.backends.compiler.written import source

GOLDEN = Path(__file__).parent / "golden" / "conv2d_relu_shifted.py.txt"
IMAGES = (16, 64, 256, 256)
LAYER = source("return F.relu(self.conv(x0))", IMAGES, init="self.conv = nn.Conv2d(64, 128, 3, padding=1)")


def written(text: str, schedule: Schedule = EVERYTHING) -> str:
    """Write a problem by one schedule."""
    with tempfile.TemporaryDirectory() as folder:
        return "".join(convert(text, "Model", Path(folder), schedules=[schedule]))


def layer(made: str, shape: tuple[int, ...] = IMAGES) -> str:
    """Write a problem with one layer and what is never left to a library."""
    return source("return self.conv(x0) * 2", shape, init=f"self.conv = {made}")


def test_the_text_is_the_one_agreed_on() -> None:
    """A change of it is meant: run `python -m tests.backends.compiler.test_shifted` and read the difference."""
    assert written(LAYER) == GOLDEN.read_text(encoding="utf-8")


def test_the_usual_candidate_leaves_to_the_library_what_that_does_faster() -> None:
    """Shifted rows are another candidate then."""
    usual = written(LAYER, Schedule())
    assert "In PyTorch: conv2d" in usual and "shifted_rows" not in usual


@pytest.mark.parametrize(
    "made",
    [
        "nn.ConvTranspose3d(48, 48, 3)",
        "nn.ConvTranspose3d(32, 32, (3, 5, 7), 2, 1, groups=4)",
        "nn.Conv3d(3, 64, (3, 5, 7))",
    ],
)
def test_in_three_dimensions_they_are_the_usual_way(made: str) -> None:
    """There they beat the library, transposed or with large windows."""
    channels = int(made.partition("(")[2].partition(",")[0])
    assert "shifted_rows" in written(layer(made, (8, channels, 64, 64, 64)), Schedule())


def test_small_windows_in_three_dimensions_are_the_librarys() -> None:
    """Those of 81 numbers took a little longer."""
    usual = written(layer("nn.Conv3d(3, 64, 3)", (16, 3, 64, 64, 64)), Schedule())
    assert "In PyTorch: conv3d" in usual


def test_one_plane_is_only_what_was_asked_for_and_said() -> None:
    """`--precision fast` rounds to float16 and puts that in the header."""
    fast = written(layer("nn.ConvTranspose3d(48, 48, 3)", (8, 48, 64, 64, 64)), FAST)
    assert "less exact than PyTorch" in fast.replace("\n            ", " ")
    assert "shifted_rows" in fast and "_low" not in fast


@pytest.mark.parametrize(
    "text",
    [
        layer("nn.Conv2d(64, 128, 3)", (1, 64, 20, 20)),
        layer("nn.Conv2d(64, 128, 1)"),
        layer("nn.Conv2d(3, 128, 3)", (16, 3, 256, 256)),
        layer("nn.Conv2d(64, 4, 3)"),
        layer("nn.Conv2d(64, 128, 3, groups=32)"),
        layer("nn.Conv2d(64, 64, 3, groups=64)"),
        layer("nn.Conv2d(64, 128, 3).half()").replace("self.conv(x0)", "self.conv(x0.half())"),
    ],
    ids=["small", "one tap", "few numbers a window", "few channels out", "small groups", "depthwise", "float16"],
)
def test_where_shifted_rows_are_not_worth_it_nothing_changes(text: str) -> None:
    """Such a layer is written in another way."""
    assert "shifted_rows" not in written(text)


def test_right_beside_what_float16_cannot_hold() -> None:
    """Tails, which tiles are computed again, and one plane."""
    checks = ("tails", "redone_tiles", "one_plane")
    printed = run("tests.backends.compiler.shifted_values", *checks, seconds=110)
    facts = [json.loads(line) for line in printed.splitlines()]
    assert len(facts) > 10 and [fact for fact in facts if fact["fault"]] == []


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_right_at_any_size_and_for_any_numbers() -> None:
    """Each kind of layer by both kernels, against float64; a tail; special values; which tiles are computed again."""
    facts = [json.loads(line) for line in run("tests.backends.compiler.shifted_values", seconds=580).splitlines()]
    assert len(facts) > 40 and [fact for fact in facts if fact["fault"]] == []


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_no_register_is_spilled_at_full_size(tmp_path: Path) -> None:
    """A layer with a large tile, whose sums take most registers, beside a tail that reads a tensor."""
    path = tmp_path / "conv3d_add.py"
    shapes, init = [(4, 64, 32, 64, 64), (4, 128, 32, 64, 64)], "self.conv = nn.Conv3d(64, 128, 3, padding=1)"
    path.write_text(source("return F.gelu(self.conv(x0) + x1)", *shapes, init=init), encoding="utf-8")
    number = str(SCHEDULES.index(EVERYTHING))
    printed = run("tests.benchmarks.full_size", "--all", "--schedule", number, str(path), seconds=280)
    assert "0 not converted, 0 not called" in printed and "0 do not compile or do not fit, 0 spill" in printed, printed


if __name__ == "__main__":
    GOLDEN.write_text(written(LAYER), encoding="utf-8")
