"""One call of the candidate's forward under observation: launches, operations left to PyTorch, poisoned memory.

Runs in the candidate's child; returns what came out as bytes, and what was seen meanwhile.
"""

from __future__ import annotations

import hashlib
import inspect
import sys
import time
import types
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import torch

from verifier import cases, without_gpu
from verifier.encoding import NotPlain, decode, encode, raw
from verifier.launches import Trace, quietly
from verifier.loading import Refused, clean, refusal
from verifier.ops import Ops
from verifier.tree import flatten
from verifier.witness import Witness

_ALLOCATIONS = frozenset("empty empty_like empty_strided empty_permuted new_empty new_empty_strided resize_".split())
_LATE = 0.08  # seconds a thread is given to write into a result that was already returned


class Runner:
    """Calls the candidate; keeps its last results alive, so that a shared buffer shows."""

    def __init__(self, device: str, kernel_file: str, trace: Trace, witness: Witness) -> None:
        self.device, self.kernel_file = device, kernel_file
        self.trace, self.witness = trace, witness
        self.problem: types.ModuleType = types.ModuleType("problem")
        self.model: torch.nn.Module = torch.nn.Module()
        self._kept: list[tuple[Any, str]] = []
        self._ops: list[str] = []
        self._buffers: dict[str, torch.Tensor] = {}

    def load_state(self, request: dict[str, Any], blobs: Sequence[bytes]) -> dict[str, Any]:
        """Give parameters and buffers the reference's values: sent as bytes, or (large ones) drawn from a seed."""
        if "seed" in request:
            cases.randomise(self.model, request["seed"])
        else:
            own = self.model.state_dict()
            for name, value in zip(request["names"], decode(request["state"], list(blobs)).tensors, strict=True):
                own[name].copy_(value)
        self._buffers = {name: value.clone() for name, value in cases.buffers(self.model).items()}
        return {"ok": True}

    def run(self, case: cases.Case, how: dict[str, Any]) -> tuple[dict[str, Any], list[Any]]:
        """Call forward on a case; return outputs, inputs and buffers after the call, and what was seen."""
        args, kwargs = cases.build_inputs(self.problem, case, self.device)
        self._bind(args, kwargs)
        outputs = self._observed(case, args, kwargs, how)
        threads = self.witness.threads()
        try:
            parts = [encode(value) for value in (outputs, (args, kwargs), cases.buffers(self.model))]
        except NotPlain as fault:
            raise Refused("cheat", f"lazy_output: forward returns {fault}") from fault
        if threads:
            time.sleep(_LATE)
        overwritten = self._overwritten()
        self._kept = [(outputs, digest(outputs))]
        answer = {"ok": True, "threads": threads, "overwritten": overwritten, **self.seen()}
        for name, (encoded, _) in zip(("outputs", "inputs", "state"), parts, strict=True):
            answer[name] = encoded
        return answer, [blob for _, blobs in parts for blob in blobs]

    def repeat(self, request: dict[str, Any]) -> dict[str, Any]:
        """Call forward many times on one case; return a fingerprint and the number of launches of each call."""
        case, deadline = cases.Case(**request["case"]), time.monotonic() + request["seconds"]
        digests, launches = [], []
        for number in range(request["times"]):
            if number and time.monotonic() > deadline:
                break
            args, kwargs = cases.build_inputs(self.problem, case, self.device)
            digests.append(digest(self._observed(case, args, kwargs, {})))
            launches.append(len(self.trace.launches))
        return {"ok": True, "digests": digests, "launched": launches, **self.seen()}

    def seen(self) -> dict[str, Any]:
        """Return what was observed since the last call began."""
        memory = self.trace.memory
        for stream in (sys.stdout, sys.stderr):
            stream.flush()  # what was printed is looked at together with the answer
        return {
            "launches": [asdict(launch) for launch in self.trace.launches],
            "ops": self._ops,
            "findings": [asdict(finding) for finding in memory.findings] if memory else [],
            "undefined_line": memory.undefined_lanes if memory else None,
            "rounded_dot": memory.rounded_dot if memory else None,
            "events": self.witness.events,
            "replaced": [*self.witness.replaced(), *([] if self.trace.intact() else ["the launch trace"])],
            "settings": self.witness.settings(),
            "torch_compile": self.trace.torch_compile,
        }

    def _bind(self, args: Sequence[Any], kwargs: dict[str, Any]) -> None:
        try:
            inspect.signature(self.model.forward).bind(*args, **kwargs)
        except TypeError as error:
            raise Refused("signature_mismatch", clean(f"forward does not take the module's inputs: {error}")) from error

    def _observed(self, case: cases.Case, args: Sequence[Any], kwargs: dict[str, Any], how: dict[str, Any]) -> Any:
        for name, value in cases.buffers(self.model).items():
            value.copy_(self._buffers[name])  # every call starts from the same state, as the reference's does
        self.trace.reset()
        self.trace.scramble = how.get("scramble", False)
        known = [*flatten((args, kwargs)).tensors, *self.model.state_dict().values()]
        self.trace.given = frozenset(tensor.untyped_storage().data_ptr() for tensor in known)
        memory = self.trace.memory
        if memory is not None:
            memory.reverse, memory.fill_undefined = how.get("reverse", False), how.get("fill", False)
            memory.races = how.get("races", False)
        cases.seed_all(cases.forward_seed(case))
        ops = Ops(_poison)
        try:
            with torch.no_grad(), ops:
                outputs = quietly(lambda: self._forward(args, kwargs))
                if self.device != "cpu":
                    torch.cuda.synchronize()
        except BaseException as error:
            raise refusal(error, self.kernel_file, "running the kernel") from error
        finally:
            self._ops = ops.names
        return outputs

    def _forward(self, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        if self.device != "cpu":
            return self.model(*args, **kwargs)
        with without_gpu.CpuForCuda():
            return self.model(*args, **kwargs)

    def _overwritten(self) -> bool:
        """Whether the previous result changed when forward was called again."""
        return any(digest(value) != known for value, known in self._kept)


def digest(value: Any) -> str:
    """Return a fingerprint of a nested value's tensors."""
    made = hashlib.sha256()
    for tensor in flatten(value).tensors:
        made.update(f"{tensor.dtype}{tuple(tensor.shape)}".encode())
        made.update(raw(tensor))
    return made.hexdigest()


def described_state(model: torch.nn.Module) -> dict[str, Any]:
    """Describe parameters and persistent buffers by name: shape and dtype."""
    return {name: [list(t.shape), str(t.dtype).removeprefix("torch.")] for name, t in model.state_dict().items()}


def _poison(name: str, args: Sequence[Any], result: Any) -> None:
    """Fill new memory with what nobody can mistake for a result: an element that is never written shows."""
    if name not in _ALLOCATIONS or not isinstance(result, torch.Tensor) or not result.numel():
        return
    if result.is_floating_point() or result.is_complex():
        result.fill_(float("nan"))
    elif result.dtype == torch.bool:
        result.fill_(True)
    else:
        result.fill_(torch.iinfo(result.dtype).max // 3)
