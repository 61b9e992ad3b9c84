"""Has ModelNew the parameters of the module, by name, shape and dtype? Then both get the same values."""

from __future__ import annotations

from typing import Any

from verifier.encoding import encode
from verifier.tree import flatten
from verifier.trial import Failed, Trial
from verifier.verdict import Check

SENT_BYTES = 256 << 20


def check(trial: Trial) -> Check:
    """Compare the state dictionaries and share the values."""
    ours = trial.reference.model.state_dict()
    wanted = {name: [list(t.shape), str(t.dtype).removeprefix("torch.")] for name, t in ours.items()}
    _compare(wanted, trial.state)
    total = sum(tensor.numel() * tensor.element_size() for tensor in ours.values())
    if total > SENT_BYTES:
        trial.ask({"do": "state", "guards": trial.guarded, "seed": trial.reference.parameter_seed})
    else:
        state, blobs = encode(flatten(list(ours.values())))
        trial.ask({"do": "state", "guards": trial.guarded, "state": state, "names": list(ours)}, blobs)
    if not ours:
        return Check("parameters", "pass", "none")
    return Check("parameters", "pass", f"{len(ours)} shared by name, moved away from their initial values")


def _compare(wanted: dict[str, Any], got: dict[str, Any]) -> None:
    missing = [name for name in wanted if name not in got]
    extra = [name for name in got if name not in wanted]
    if missing or extra:
        parts = []
        if missing:
            parts.append(f"ModelNew lacks {_few(missing)}")
        if extra:
            parts.append(f"it has {_few(extra)} that the module has not")
        raise Failed("state_mismatch", "; ".join(parts))
    for name, described in wanted.items():
        if got[name] != described:
            raise Failed("state_mismatch", f"{name} is {_words(got[name])}, the module's is {_words(described)}")


def _few(names: list[str]) -> str:
    return ", ".join(names[:4]) + (f" and {len(names) - 4} more" if len(names) > 4 else "")


def _words(described: list[Any]) -> str:
    shape, dtype = described
    return f"{dtype} {'x'.join(map(str, shape)) or 'scalar'}"
