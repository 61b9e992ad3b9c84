"""What is measured of a module before a model is asked: its tensors, operations and work, and the GPU it is for.

Executes what was pasted, on tensors without data, so it runs in a child process.
"""

from __future__ import annotations

import tempfile
from collections import Counter
from pathlib import Path
from typing import Any, Protocol


class Channel(Protocol):
    """The child's socket."""

    def send(self, message: dict[str, Any]) -> None: ...
    def receive(self, timeout: float | None = None) -> dict[str, Any] | None: ...


def serve(channel: Channel) -> None:
    """Answer one request: {"source", "entry"} → {"facts": [...]}."""
    request = channel.receive()
    if request is not None:
        channel.send({"facts": facts(request["source"], request["entry"])})


def facts(source: str, entry: str) -> list[str]:
    """Return one line a fact; what cannot be found out is left out."""
    found = [target()]
    try:
        with tempfile.TemporaryDirectory(prefix="kernelllm-") as folder:
            path = Path(folder) / "problem.py"
            path.write_text(source, encoding="utf-8")
            found += _measured(path, entry)
    except Exception:  # the module is at fault or too strange; whoever judges it will say so
        pass
    return found


def target() -> str:
    """Name the GPU and the versions that the kernel is written for."""
    import torch
    import triton

    versions = f"torch {torch.__version__.partition('+')[0]}, Triton {triton.__version__}"
    if not torch.cuda.is_available():
        return f"target: an NVIDIA GPU of compute capability 8.0 or later; {versions}"
    card = torch.cuda.get_device_properties(0)
    shared = getattr(card, "shared_memory_per_block_optin", 0) // 1024
    return (
        f"target: {card.name} (compute capability {card.major}.{card.minor}, {card.multi_processor_count} SMs, "
        f"{card.total_memory / 2**30:.0f} GB" + (f", {shared} KB shared memory a block" if shared else "")
        + f"); {versions}"
    )  # fmt: skip


def _measured(path: Path, entry: str) -> list[str]:
    import torch
    from torch.utils._python_dispatch import TorchDispatchMode
    from torch.utils.flop_counter import FlopCounterMode

    from backends.compiler.capture import as_call, as_init_call, load, without_data

    names: Counter[str] = Counter()

    mode: Any = TorchDispatchMode

    class Recorder(mode):  # type: ignore[misc]
        def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            library, name, *_ = str(function).split(".")
            if library == "aten" and name not in _BOOKKEEPING:
                names[name] += 1
            return function(*args, **(kwargs or {}))

    with without_data(), torch.no_grad():
        problem = load(path)
        arguments, keywords = as_init_call(problem.get_init_inputs())
        module = getattr(problem, entry)(*arguments, **keywords)
        inputs, named = as_call(problem.get_inputs())
        module(*inputs, **named)  # fills lazy modules
        with FlopCounterMode(display=False) as counter, Recorder():
            outputs = module(*inputs, **named)
    state = list(module.state_dict().items())
    lines = [_tensors("inputs", [(f"argument {n}", t) for n, t in enumerate((*inputs, *named.values()), 1)])]
    lines += [_tensors("parameters and buffers", state)] if state else []
    lines.append(_tensors("outputs", [("result", t) for t in _leaves(outputs)]))
    lines.append("operations: " + ", ".join(name + (f" x{n}" if n > 1 else "") for name, n in names.items()))
    flops = counter.get_total_flops()
    moved = sum(_bytes(t) for t in (*_leaves(inputs), *_leaves(named), *(t for _, t in state), *_leaves(outputs)))
    lines.append(
        f"least work: {moved / 1e6:.3g} MB read and written once"
        + (f", {flops / 1e9:.3g} GFLOP in matrix products" if flops else "")
    )
    return lines


_BOOKKEEPING = {
    "view", "_unsafe_view", "t", "transpose", "permute", "expand", "detach", "clone", "unsqueeze", "squeeze", "slice",
    "select", "alias", "empty", "empty_like", "_to_copy", "as_strided", "split", "unbind", "lift_fresh",
}  # fmt: skip

SHOWN = 12


def _tensors(what: str, named: list[tuple[str, Any]]) -> str:
    import torch

    shown = [
        f"{name} {str(t.dtype).removeprefix('torch.')}{list(t.shape)}"
        + ("" if t.is_contiguous() else f" strides {list(t.stride())}")
        for name, t in named
        if isinstance(t, torch.Tensor)
    ]
    more = f" and {len(shown) - SHOWN} more" if len(shown) > SHOWN else ""
    return f"{what}: {', '.join(shown[:SHOWN]) or 'no tensors'}{more}"


def _leaves(value: Any) -> list[Any]:
    import torch
    from torch.utils._pytree import tree_leaves

    return [leaf for leaf in tree_leaves(value) if isinstance(leaf, torch.Tensor)]


def _bytes(tensor: Any) -> int:
    return int(tensor.numel() * tensor.element_size())
