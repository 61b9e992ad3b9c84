"""A count that is kept from call to call is seen, wherever it is."""

from __future__ import annotations

import sys
import types

import pytest
import torch
from torch import nn

from verifier.places import places
from verifier.tally import tally

FILE = """
import array, fractions, functools, io, itertools, random, types
import numpy as np
import torch
from torch import nn

MANY, NUMBERS, BYTES, FRACTION, TEXT = torch.zeros(8), np.zeros(8), b"", fractions.Fraction(0), io.StringIO()
MAPPED, PAIRS, SPACE, DRAWN = map(abs, range(10**6)), {(1, 2): 0}, types.SimpleNamespace(calls=[0]), random.Random(0)
LONG = array.array("i", [0] * 9)

class Listed(list):
    calls = 0

LISTED = Listed()
"""
STEPS = {
    "one of many elements": "MANY[5] += 1",
    "one of an array's": "NUMBERS[5] += 1",
    "one of a typed array's": "LONG[5] += 1",
    "bytes": "BYTES += b'x'",
    "a fraction": "FRACTION += 1",
    "a text in memory": "TEXT.write('x')",
    "an iterator behind another": "next(MAPPED)",
    "a key of two": "PAIRS[1, 2] += 1",
    "a name space": "SPACE.calls[0] += 1",
    "a generator of random numbers": "DRAWN.random()",
    "a list's own attribute": "LISTED.calls += 1",
    "a parameter's attribute": "model.weight.calls = getattr(model.weight, 'calls', 0) + 1",
    "a gradient": "model.weight.grad = torch.zeros(3, 3) if model.weight.grad is None else model.weight.grad + 1",
    "a module": "import json\njson.counted = getattr(json, 'counted', 0) + 1",
    "a module that comes late": "import this_comes_late\nthis_comes_late.calls += 1",
    "a class of torch": "nn.Linear.counted = getattr(nn.Linear, 'counted', 0) + 1",
    "a function of torch": "nn.functional.gelu_ = nn.functional.softmax\n"
    "nn.functional.softmax.counted = getattr(nn.functional.softmax, 'counted', 0) + 1",
}


@pytest.fixture
def kernel(monkeypatch: pytest.MonkeyPatch) -> types.ModuleType:
    """A kernel file's module; what its steps leave in libraries is taken back."""
    module = types.ModuleType("kernel")
    exec(FILE, module.__dict__)
    for thing in (sys.modules["json"], nn.Linear, nn.functional.softmax):
        monkeypatch.setattr(thing, "counted", 0, raising=False)
        monkeypatch.delattr(thing, "counted")
    return module


@pytest.mark.parametrize("name", STEPS)
def test_a_count_is_seen(kernel: types.ModuleType, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """Every step of it changes one of the numbers that are found."""
    model = nn.Linear(3, 3, bias=False)
    known = places()
    late = types.ModuleType("this_comes_late")
    late.calls = 0  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "this_comes_late", late)
    kernel.__dict__["model"] = model
    seen = []
    for _ in range(3):
        exec(STEPS[name], kernel.__dict__)
        seen.append(tally(model, kernel, known))
    assert seen[0] != seen[1] != seen[2]


def test_nothing_counts_where_nothing_is_done(kernel: types.ModuleType) -> None:
    """Looking changes nothing, and a workspace with the same content is no count."""
    model = nn.Linear(3, 3)
    known = places()
    kernel.__dict__["work"] = torch.ones(100)
    before = tally(model, kernel, known)
    kernel.__dict__["work"].copy_(torch.ones(100))
    assert tally(model, kernel, known) == before


def test_where_results_differ_by_rounding_a_workspace_is_no_count(kernel: types.ModuleType) -> None:
    """On a GPU the order of additions may change from call to call; an integer counts there, too."""
    model = nn.Linear(3, 3)
    kernel.__dict__.update(work=torch.ones(100), ticket=torch.zeros(100, dtype=torch.int32))
    before = tally(model, kernel, exact=False)
    kernel.__dict__["work"].mul_(1.0001)
    assert tally(model, kernel, exact=False) == before
    kernel.__dict__["ticket"][7] = 1
    assert tally(model, kernel, exact=False) != before
