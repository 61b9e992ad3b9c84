"""Is what a kernel returned what the module returns? Raw decoded tensors in, a finding or None out."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from verifier.patterns import looks_rounded, where
from verifier.structure import Finding, compare_structure
from verifier.tolerance import Truth, allowed, part, pieces, widen
from verifier.tree import Spec, Tree, walk
from verifier.verdict import Accuracy


@dataclass(frozen=True)
class Expectation:
    """The structure of a value and the truth about each of its tensors; `root` names it for people."""

    spec: Spec
    truths: tuple[Truth, ...]
    root: str = "output"


@dataclass(frozen=True)
class Expected:
    """What one case should give: outputs, and the inputs and the module's state after the call.

    `given` holds the input tensors before the call, `changed` the numbers of those that the reference writes to.
    """

    outputs: Expectation
    inputs: Expectation
    state: Expectation
    given: tuple[Tensor, ...] = ()
    changed: tuple[int, ...] = ()


def compare(expected: Expected, outputs: Tree) -> Finding | None:
    """Judge the outputs of a call."""
    return _compare(expected.outputs, outputs, expected.given)


def compare_inputs(expected: Expected, inputs: Tree) -> Finding | None:
    """Judge the inputs after the call: written to exactly where the reference writes."""
    finding = _compare(expected.inputs, inputs, expected.given)
    if finding is None:
        return None
    if expected.changed:
        return Finding("input_mutation", f"the inputs are not left as the module leaves them: {finding.message}")
    return Finding("input_mutation", f"the kernel writes to its inputs, the module does not: {finding.message}")


def compare_state(expected: Expected, state: Tree) -> Finding | None:
    """Judge parameters and buffers after the call, such as running statistics."""
    finding = _compare(expected.state, state, ())
    return finding and replace(finding, message=f"after the call {finding.message}")


def accuracy(expected: Expected, outputs: Tree) -> Accuracy | None:
    """Measure the largest distances to the oracle; None where there is nothing to measure."""
    largest = largest_relative = eager_relative = 0.0
    measured = False
    for known, got in zip(expected.outputs.truths, outputs.tensors, strict=False):
        if known.exact or got.shape != known.eager.shape or not got.numel():
            continue
        measured = True
        for rows in pieces(known.oracle):
            oracle = part(known.oracle, rows)
            size = oracle.abs() + known.scale
            distance = _finite((widen(part(got, rows).to(oracle.device)) - oracle).abs())
            eager = _finite((widen(part(known.eager, rows)) - oracle).abs())
            largest = max(largest, float(distance.max()))
            largest_relative = max(largest_relative, float(_finite(distance / size).max()))
            eager_relative = max(eager_relative, float(_finite(eager / size).max()))
    return Accuracy(largest, largest_relative, eager_relative) if measured else None


def _finite(values: Tensor) -> Tensor:
    return torch.nan_to_num(values, nan=0.0, posinf=0.0)


def _compare(expected: Expectation, actual: Tree, given: tuple[Tensor, ...]) -> Finding | None:
    finding = compare_structure(expected.spec, actual.spec, expected.root)
    if finding:
        return finding
    numbers = _numbers(actual.spec, expected.root)
    for path, node in walk(expected.spec, expected.root):
        if node["kind"] == "tensor":
            known, got = expected.truths[node["at"]], actual.tensors[numbers[path]]
            finding = compare_tensor(known, got, path, given)
            if finding:
                return finding
    return None


def _numbers(spec: Spec, root: str) -> dict[str, int]:
    return {path: node["at"] for path, node in walk(spec, root) if node["kind"] == "tensor"}


def compare_tensor(known: Truth, got: Tensor, path: str, given: tuple[Tensor, ...] = ()) -> Finding | None:
    """Judge one tensor: shape, dtype, where it is not finite, then its values."""
    got = got.detach()
    if got.shape != known.eager.shape:
        return Finding("shape_mismatch", f"{path} has shape {_shape(got)}, it should have {_shape(known.eager)}")
    if got.dtype != known.eager.dtype:
        return Finding("dtype_mismatch", f"{path} is {_name(got.dtype)}, it should be {_name(known.eager.dtype)}")
    got = got.to(known.eager.device)
    if not got.numel():
        return None
    judge = _wrong_exactly if known.exact else _wrong_values
    wrong = torch.cat([judge(known, got, rows).reshape(-1) for rows in pieces(known.eager)]).reshape(got.shape)
    if not bool(wrong.any()):
        return None
    lost = _lost(known, got) if not known.exact else torch.zeros_like(wrong)
    if bool((lost & wrong).any()):
        words = "NaN" if bool(got[lost].isnan().any()) else "infinite"
        place = where(lost & wrong, known, got, given)
        return Finding("nan_output", f"{path}: {words} where the module is finite, {place}")
    text = f"{path}: {where(wrong, known, got, given)}"
    rounded = None if known.exact else looks_rounded(known, got)
    if rounded:
        text = f"{path} is computed less precisely than the module does: {rounded}; {text}"
        return Finding("precision_downgrade", text)
    return Finding("value_mismatch", text)


def _wrong_exactly(known: Truth, got: Tensor, rows: slice) -> Tensor:
    got = part(got, rows)
    wrong = torch.ones_like(got, dtype=torch.bool)
    for right in (known.eager, known.oracle):  # an argmax that rounding decides: either index is right
        right = part(right, rows)
        wrong &= (got != right) & ~((got != got) & (right != right))  # NaN is itself
    return wrong


def _wrong_values(known: Truth, got: Tensor, rows: slice) -> Tensor:
    value, eager, oracle = widen(part(got, rows)), widen(part(known.eager, rows)), part(known.oracle, rows)
    if value.is_complex():
        outside = torch.minimum((value - eager).abs(), (value - oracle).abs())
    else:
        low, high = torch.minimum(eager, oracle), torch.maximum(eager, oracle)
        outside = torch.maximum(low - value, value - high).clamp(min=0)
    close = torch.isfinite(value) & (outside <= allowed(known, rows))
    # Where eager overflowed and the oracle did not, either is right: the oracle's value in the output's dtype.
    same = (value == eager) | (value.isnan() & eager.isnan())
    narrow = widen(oracle.to(got.dtype))
    overflowed = ~torch.isfinite(eager) & torch.isfinite(oracle)
    tolerance = torch.nan_to_num(allowed(known, rows), nan=0.0)
    as_oracle = overflowed & ((value == narrow) | ((value - oracle).abs() <= tolerance))
    return ~torch.where(torch.isfinite(eager), close, same | as_oracle)


def _lost(known: Truth, got: Tensor) -> Tensor:
    return ~torch.isfinite(got) & torch.isfinite(known.eager)


def _shape(tensor: Tensor) -> str:
    return "x".join(map(str, tensor.shape)) or "() (no dimensions)"


def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")
