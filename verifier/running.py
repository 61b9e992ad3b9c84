"""One call of the candidate's forward under observation: launches, operations left to PyTorch, poisoned memory.

Runs in the candidate's child; returns what came out as bytes, and what was seen meanwhile.
"""

from __future__ import annotations

import hashlib
import inspect
import math
import sys
import time
import types
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from functools import partial
from typing import Any

import torch

from verifier import cases, without_gpu
from verifier.encoding import NotPlain, decode, encode, raw
from verifier.guards import Guards, guard_parameters
from verifier.launches import Trace, quietly
from verifier.loading import Refused, clean, refusal
from verifier.ops import Ops
from verifier.tally import tally
from verifier.tree import Tree, flatten
from verifier.witness import Witness

_ALLOCATIONS = frozenset("empty empty_like empty_strided empty_permuted new_empty new_empty_strided resize_".split())
KEPT = 16 << 20  # elements of parameters, to see whether they change
COUNTED = 5  # calls after which numbers are looked for that change each time: that takes longer than to call
LEAST = 4  # calls in a row, however long they take: a counter shows in three
_LATE = 0.08  # seconds a thread is given to write into a result that was already returned

_Inputs = tuple[list[Any], dict[str, Any], Guards | None]


class Runner:
    """Calls the candidate; keeps its last results alive, so that a shared buffer shows."""

    def __init__(self, device: str, kernel_file: str, trace: Trace, witness: Witness) -> None:
        self.device, self.kernel_file = device, kernel_file
        self.trace, self.witness = trace, witness
        self.problem: types.ModuleType = types.ModuleType("problem")
        self.kernel: types.ModuleType = types.ModuleType("kernel")
        self.model: torch.nn.Module = torch.nn.Module()
        self._kept: list[tuple[Any, str]] = []
        self._last: _Inputs = ([], {}, None)
        self._ops: list[str] = []
        self._drew = False
        self._costs: list[int] = []
        self._taken_out = 0
        self._buffers: dict[str, torch.Tensor] = {}
        self._parameters: dict[str, torch.Tensor] = {}
        self._guards: Guards | None = None  # the parameters' own, kept from call to call
        self._guarded: torch.nn.Module | None = None

    def load_state(self, request: dict[str, Any], blobs: Sequence[bytes]) -> dict[str, Any]:
        """Give parameters and buffers the reference's values: sent as bytes, or (large ones) drawn from a seed."""
        if "seed" in request:
            cases.randomise(self.model, request["seed"])
        else:
            own = self.model.state_dict()
            for name, value in zip(request["names"], decode(request["state"], list(blobs)).tensors, strict=True):
                own[name].copy_(value)
        if self.device != "cpu" and request["guards"] and self._guarded is not self.model:
            self._guards, self._guarded = Guards(), self.model  # once: a view of a parameter may have been kept
            guard_parameters(self.model, self._guards)
        self._buffers = {name: value.clone() for name, value in cases.buffers(self.model).items()}
        self._parameters = {name: value.detach().clone() for name, value in self._small_parameters()}
        return {"ok": True}

    def run(self, case: cases.Case, how: dict[str, Any]) -> tuple[dict[str, Any], list[Any]]:
        """Call forward on a case; return outputs, inputs and buffers after the call, and what was seen."""
        args, kwargs = cases.build_inputs(self.problem, case, self.device)
        guards = Guards(self._guards) if self._guards is not None else None
        if how.get("in_place"):
            args, kwargs, guards = self._in_place(args, kwargs, guards)
        self._bind(args, kwargs)
        args, kwargs = guards.around((args, kwargs)) if guards else (args, kwargs)
        self._last = args, kwargs, guards
        outputs = self._observed(case, args, kwargs, how, guards)
        threads = self.witness.threads()
        try:
            parts = [encode(value) for value in (outputs, flatten((args, kwargs)), flatten(cases.buffers(self.model)))]
        except NotPlain as fault:
            raise Refused("cheat", f"lazy_output: forward returns {fault}") from fault
        if threads:
            time.sleep(_LATE)
        overwritten = self._overwritten()
        given = _memory((args, kwargs))
        own = [tensor for tensor in outputs.tensors if tensor.untyped_storage().data_ptr() not in given]
        self._kept = [(own, digest(flatten(own)))]  # a view of an input changes with it, as the module's own result may
        altered = [name for name, value in self._small_parameters() if not _alike(value, self._parameters[name])]
        differentiable = any(tensor.requires_grad for tensor in outputs.tensors)
        observed = {"threads": threads, "overwritten": overwritten, "altered": altered, "requires_grad": differentiable}
        answer = {"ok": True, **observed, **self.seen()}
        for name, (encoded, _) in zip(("outputs", "inputs", "state"), parts, strict=True):
            answer[name] = encoded
        return answer, [blob for _, blobs in parts for blob in blobs]

    def repeat(self, request: dict[str, Any]) -> dict[str, Any]:
        """Call forward many times on one case; return a fingerprint and the number of launches of each call."""
        case, deadline = cases.Case(**request["case"]), time.monotonic() + request["seconds"]
        digests, launches, counts, counters = [], [], self._tally(), Counter[str]()
        for number in range(request["times"]):
            if number >= LEAST and time.monotonic() > deadline:
                break
            args, kwargs = cases.build_inputs(self.problem, case, self.device)
            digests.append(digest(self._observed(case, args, kwargs, {})))
            launches.append(len(self.trace.launches))
            if number < COUNTED:
                now = self._tally()
                counters.update(name for name in now if now[name] != counts.get(name))
                counts = now
        counters = Counter({name: times for name, times in counters.items() if times > 2})
        return {"ok": True, "digests": digests, "launched": launches, "counters": list(counters), **self.seen()}

    def _tally(self) -> dict[str, Any]:
        return tally(self.model, self.kernel, self.witness.places, exact=self.device == "cpu")

    def seen(self) -> dict[str, Any]:
        """Return what was observed since the last call began."""
        memory = self.trace.memory
        for stream in (sys.stdout, sys.stderr):
            stream.flush()  # what was printed is looked at together with the answer
        return {
            "launches": [asdict(launch) for launch in self.trace.launches],
            "ops": self._ops,
            "findings": self._findings(),
            "undefined_line": memory.undefined_lanes if memory else None,
            "rounded_dot": memory.rounded_dot if memory else None,
            "events": self.witness.events,
            "replaced": [*self.witness.replaced(), *([] if self.trace.intact() else ["the launch trace"])],
            "settings": self.witness.settings(),
            "torch_compile": self.trace.torch_compile,
            "drew": self._drew,
            "chance": self.witness.chance.seen,
            "costs": self._costs,
            "taken_out": self._taken_out,
            "scalars": [value for value in self.trace.provenance.scalars if math.isfinite(value)],
            "unexplained": [asdict(one) for one in self.trace.provenance.unexplained],
        }

    def _findings(self) -> list[dict[str, Any]]:
        """What was seen of addresses: by the interpreter, or in the guard bands on a GPU."""
        seen = [asdict(finding) for finding in self.trace.memory.findings] if self.trace.memory else []
        return seen + [{"code": "out_of_bounds", "message": text, "line": None} for text in self.trace.overruns]

    def _in_place(self, args: list[Any], kwargs: dict[str, Any], guards: Guards | None) -> _Inputs:
        """Put new values into the tensors of the last call, as a caller who reuses buffers does."""
        old, new = flatten(self._last[:2]), flatten((args, kwargs))
        pairs = list(zip(old.tensors, new.tensors, strict=False))
        if old.spec != new.spec or any(a.shape != b.shape or 0 in a.stride() for a, b in pairs):
            return args, kwargs, guards
        for tensor, values in pairs:
            tensor.copy_(values)
        return self._last

    def _small_parameters(self) -> list[tuple[str, torch.Tensor]]:
        """Return the parameters that are not too much to keep a copy of."""
        named = list(self.model.named_parameters())
        return [pair for pair in named if pair[1].numel() <= KEPT // max(len(named), 1)]

    def _bind(self, args: Sequence[Any], kwargs: dict[str, Any]) -> None:
        try:
            stand_ins = [None] * len(args)  # a signature of the candidate's own would see the inputs, unobserved
            inspect.signature(self.model.forward).bind(*stand_ins, **dict.fromkeys(kwargs))
        except TypeError as error:
            raise Refused("signature_mismatch", clean(f"forward does not take the module's inputs: {error}")) from error

    def _observed(
        self,
        case: cases.Case,
        args: Sequence[Any],
        kwargs: dict[str, Any],
        how: dict[str, Any],
        guards: Guards | None = None,
    ) -> Tree:
        for name, value in cases.buffers(self.model).items():
            value.copy_(self._buffers[name])  # every call starts from the same state, as the reference's does
        self.trace.reset(guards)
        self.trace.scramble = how.get("scramble", False)
        known = [*flatten((args, kwargs)).tensors, *self.model.state_dict().values()]
        self.trace.given = frozenset(tensor.untyped_storage().data_ptr() for tensor in known)
        memory = self.trace.memory
        if memory is not None:
            memory.reverse, memory.fill_undefined = how.get("reverse", False), how.get("fill", False)
            memory.races = how.get("races", False)
            memory.findings = []
        cases.seed_all(cases.forward_seed(case))
        chance = self.witness.chance
        random_state = torch.get_rng_state()
        provenance = self.trace.provenance
        provenance.begin(how.get("trace", False) or self.trace.scramble, self.model, self.kernel, args, kwargs)
        ops = Ops(partial(self._after, guards), provenance.before)
        try:
            with torch.no_grad(), ops:
                chance.begin()
                returned = quietly(lambda: self._forward(args, kwargs))
                if self.device != "cpu":
                    torch.cuda.synchronize()
                outputs = flatten(returned)  # here, once: a container of the candidate's own may do its work when asked
            provenance.met("forward's result", [*outputs.tensors, *flatten((args, kwargs)).tensors])
        except BaseException as error:
            raise refusal(error, self.kernel_file, "running the kernel") from error
        finally:
            self._drew = not torch.equal(random_state, torch.get_rng_state())
            self._ops, self._costs, self._taken_out = ops.names, ops.costs, ops.taken_out
            provenance.active = False
            chance.end()
        return outputs

    def _after(self, guards: Guards | None, name: str, args: Sequence[Any], result: Any) -> Any:
        result = _allocated(guards, name, args, result)
        self.trace.provenance.after(args, result)
        return result

    def _forward(self, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        if self.device != "cpu":
            return self.model(*args, **kwargs)
        with without_gpu.CpuForCuda():
            return self.model(*args, **kwargs)

    def _overwritten(self) -> bool:
        """Whether the previous result changed when forward was called again."""
        return any(digest(flatten(value)) != known for value, known in self._kept)


def digest(value: Tree) -> str:
    """Return a fingerprint of a value's tensors."""
    made = hashlib.sha256()
    for tensor in value.tensors:
        made.update(f"{tensor.dtype}{tuple(tensor.shape)}".encode())
        made.update(raw(tensor))
    return made.hexdigest()


def _alike(one: torch.Tensor, other: torch.Tensor) -> bool:
    return one.shape == other.shape and torch.equal(one.detach().nan_to_num(), other.nan_to_num())


def described_state(model: torch.nn.Module) -> dict[str, Any]:
    """Describe parameters and persistent buffers by name: shape and dtype."""
    return {name: [list(t.shape), str(t.dtype).removeprefix("torch.")] for name, t in model.state_dict().items()}


def _allocated(guards: Guards | None, name: str, args: Sequence[Any], result: Any) -> Any:
    """Poison memory that an operation leaves undefined, and put new memory between guard bands."""
    _poison(name, result)
    if guards is None or _memory(result) & _memory(args):
        return result
    return guards.around(result)


def _memory(value: Any) -> set[int]:
    return {tensor.untyped_storage().data_ptr() for tensor in flatten(value).tensors}


def _poison(name: str, result: Any) -> None:
    """Fill new memory with what nobody can mistake for a result: an element that is never written shows."""
    if name not in _ALLOCATIONS or not isinstance(result, torch.Tensor) or not result.numel():
        return
    if result.is_floating_point() or result.is_complex():
        result.fill_(float("nan"))
    elif result.dtype == torch.bool:
        result.fill_(True)
    else:
        result.fill_(torch.iinfo(result.dtype).max // 3)
