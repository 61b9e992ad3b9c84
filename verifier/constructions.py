"""The same module built otherwise: another number for a constructor's argument, or evaluation instead of training.

Pasted code is executed here. Each way is tried on the reference, and kept where it runs and changes the result.
"""

from __future__ import annotations

import ast
import inspect
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from torch import nn

from verifier import cases
from verifier.errors import VerificationError

if TYPE_CHECKING:
    from verifier.truth import Reference

MOST = 4
MOST_PARAMETERS = 2_000_000
SLOW = 0.3  # seconds for one try beyond which a problem is left as it is
_MODAL = (nn.modules.batchnorm._BatchNorm, nn.modules.dropout._DropoutNd, nn.MultiheadAttention, nn.RReLU, nn.RNNBase)


@dataclass(frozen=True)
class Construction:
    """One way to build the module: in words, and the reference built that way."""

    label: str
    reference: Reference
    training: bool


def others(reference: Reference, budget: float = 1.0) -> list[Construction]:
    """Return the other mode, where the module has one, and then other arguments, as far as the budget goes."""
    if sum(parameter.numel() for parameter in reference.model.parameters()) > MOST_PARAMETERS:
        return []
    deadline = time.monotonic() + budget
    found: list[Construction] = []
    for alternatives in _proposals(reference):
        for label, source, training in alternatives:
            if len(found) == MOST or time.monotonic() > deadline:
                return found
            began = time.monotonic()
            other = _built(reference, source, training)
            if other is not None and _differs(reference, other):
                found.append(Construction(label, other, training))
                break
            if time.monotonic() - began > SLOW:
                return found
    return found


def with_other_parameters(reference: Reference) -> Reference | None:
    """Return the same module with other values of its parameters, where there are any and they change the result."""
    parameters = [parameter.numel() for parameter in reference.model.parameters()]
    if not parameters or sum(parameters) > MOST_PARAMETERS or reference.degenerate or reference.changes_parameters:
        return None
    other = _built(reference, reference.problem.source, reference.training, draw=1)
    return other if other is not None and _differs(reference, other) else None


def _proposals(reference: Reference) -> Iterator[list[tuple[str, str, bool]]]:
    """Yield alternatives of one kind: in words, the problem's text, and the mode."""
    source, training = reference.problem.source, reference.model.training
    if _has_modes(reference.model, source):
        yield [(f"in {'evaluation' if training else 'training'}", source, not training)]
    try:
        args, kwargs = cases.init_arguments(reference.module)
        entry = getattr(reference.module, reference.problem.entry)
        bound = inspect.signature(entry).bind(*args, **kwargs)
    except (TypeError, ValueError):
        return
    bound.apply_defaults()
    for name, value in sorted(bound.arguments.items(), key=lambda item: type(item[1]) is not float):
        texts = []
        for new in _alternatives(value):
            changed = inspect.BoundArguments(bound.signature, {**bound.arguments, name: new})
            text = _with_arguments(source, list(changed.args), dict(changed.kwargs))
            texts.append((f"{name} {value} -> {new}", text, training))
        yield [way for way in texts if way[1]]


def _has_modes(model: nn.Module, source: str) -> bool:
    return ".training" in source or any(isinstance(part, _MODAL) for part in model.modules())


def _alternatives(value: Any) -> list[Any]:
    """Return other values of a number, likeliest first."""
    if type(value) is float:
        return [0.05 if abs(value) < 0.01 else value * 1.25]
    if type(value) is int and 0 < value <= 4096:
        return [value * 2, value // 2, value + 1]
    return []


def _with_arguments(source: str, args: list[Any], kwargs: dict[str, Any]) -> str:
    """Return the problem's text with other constructor arguments; empty where they cannot be written down."""
    text = repr([args, kwargs])
    try:
        ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return ""
    return f"{source.rstrip()}\n\n\ndef get_init_inputs():\n    return {text}\n"


def _built(reference: Reference, source: str, training: bool | None, draw: int = 0) -> Reference | None:
    try:
        problem = replace(reference.problem, source=source)
        other = type(reference)(
            problem,
            reference.device,
            reference.seed,
            look=False,
            training=training,
            precision=reference.precision,
            draw=draw,
        )
        other.random, other.changes_parameters = reference.random, reference.changes_parameters
        other.rounding = reference.rounding
        other.expected(other.first_case)
    except VerificationError:
        return None
    return other


def _differs(reference: Reference, other: Reference) -> bool:
    """Tell whether the inputs are the same and the result is another: else nothing is learnt."""
    known, new = reference.expected(reference.first_case), other.expected(other.first_case)
    if any(a.shape != b.shape or not a.equal(b) for a, b in zip(known.given, new.given, strict=True)):
        return False
    pairs = zip(known.outputs.truths, new.outputs.truths, strict=False)
    alike = (a.eager.shape == b.eager.shape and a.eager.allclose(b.eager, 1e-3, equal_nan=True) for a, b in pairs)
    return not all(alike)
