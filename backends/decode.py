"""One token after another with nothing but the GPU's memory to wait for: a static cache and a captured step.

An ordinary `generate` launches about a thousand small kernels a token from Python, which takes a GPU several times
longer than reading the weights does. Here the step is captured once for a batch and replayed.
"""

from __future__ import annotations

import inspect
from collections import deque
from collections.abc import Iterator
from typing import Any

import torch

from backends import grouped
from backends.draw import Draw

STAGE = 1024
"""New tokens that the cache is made for at a time: every step reads all of it, and few answers are long."""
BUCKET = 256
"""Cache lengths are multiples of this, so that a compiled step serves many prompts."""


def supports(model: Any) -> bool:
    """Tell whether this model's step can be captured: a static cache whose place is on the device, one device."""
    try:
        from transformers.cache_utils import StaticLayer

        counts = _is_told_its_place(model) or hasattr(StaticLayer(max_cache_len=1), "cumulative_length")
    except Exception:
        return False
    kinds = set(getattr(model.config, "layer_types", None) or ["full_attention"])
    return counts and kinds == {"full_attention"} and len(set(getattr(model, "hf_device_map", {}).values())) < 2


def _is_told_its_place(model: Any) -> bool:
    """Older releases of transformers are told where in the cache a token goes; newer caches count by themselves."""
    return "cache_position" in inspect.signature(model.forward).parameters


class Decoder:
    """Draws tokens from a causal language model; `compiled` also fuses the step's kernels, after minutes once."""

    def __init__(self, model: Any, *, compiled: bool = False) -> None:
        self._model = model
        grouped.use(model)
        self._step_model = torch.compile(model, dynamic=False) if compiled else model
        self._is_told = _is_told_its_place(model)
        self._cache_name = "cache" if "cache" in inspect.signature(model.forward).parameters else "past_key_values"

    def tokens(self, ids: torch.Tensor, mask: torch.Tensor, room: int, draw: Draw) -> Iterator[list[int]]:
        """Yield one token a row, `room` times at most; the rows of `ids` are padded on the left as `mask` says."""
        rows, length = ids.shape
        held = _Held(self._model, rows, mask, _capacity(length, room))
        positions = (mask.cumsum(-1) - 1).clamp(min=0)
        logits = self._model(
            input_ids=ids, attention_mask=mask, position_ids=positions, use_cache=True, logits_to_keep=1,
            **self._at(held, torch.arange(length, device=ids.device)),
        ).logits[:, -1]  # fmt: skip
        token = draw(logits)[:, None].contiguous()
        yield token[:, 0].tolist()
        slot = torch.full((1,), length, device=ids.device)
        position = positions[:, -1:] + 1

        def step() -> None:
            held.mask.index_fill_(3, slot, 0.0)
            made = self._step_model(
                input_ids=token, attention_mask=held.mask, position_ids=position, use_cache=True,
                **self._at(held, slot),
            ).logits[:, -1]  # fmt: skip
            token.copy_(draw(made)[:, None])
            position.add_(1)
            slot.add_(1)

        replay, since = None, 0
        behind: deque[_Copy] = deque()
        for number in range(1, room):
            if length + number > held.capacity:
                replay, since = None, number  # the recorded step writes to the old cache
                held = held.grown(_capacity(length + number, room - number))
            if number - since > WARM and replay is None and ids.device.type == "cuda":
                replay = _captured(step)
            (replay or step)()
            behind.append(_Copy(token[:, 0]))
            if len(behind) > 1:  # the next step runs while the text of this one is made
                yield behind.popleft().tokens()
        while behind:
            yield behind.popleft().tokens()

    def _at(self, held: _Held, places: torch.Tensor) -> dict[str, Any]:
        """Return the cache as this release of transformers takes it, and the places in it if it is told them."""
        told = {"cache_position": places} if self._is_told else {}
        return {self._cache_name: held.cache, **told}


def _capacity(length: int, room: int) -> int:
    return -(-(length + min(room, STAGE)) // BUCKET) * BUCKET


class _Held:
    """The keys and values so far, in memory of a fixed size, and which of them count for each row.

    `mask` is added to the scores: 0 where a key counts. Attention that computes its scores by hand takes no other
    kind, and the fused kernels would make it of a boolean one in every layer.
    """

    def __init__(self, model: Any, rows: int, mask: torch.Tensor, capacity: int) -> None:
        from transformers import StaticCache

        self._model, self.capacity = model, capacity
        self.cache = StaticCache(config=model.config, max_cache_len=capacity)
        self.mask = torch.full(
            (rows, 1, 1, capacity), torch.finfo(model.dtype).min, dtype=model.dtype, device=mask.device
        )
        self.mask[:, 0, 0, : mask.shape[1]].masked_fill_(mask.bool(), 0.0)

    def grown(self, capacity: int) -> _Held:
        """Return the same in more memory."""
        larger = _Held(self._model, self.mask.shape[0], self.mask[:, 0, 0] == 0, capacity)
        layers: Any = zip(self.cache.layers, larger.cache.layers, strict=True)
        for old, new in layers:
            new.lazy_initialization(old.keys[:, :, :1], old.values[:, :, :1])
            new.keys[:, :, : self.capacity].copy_(old.keys)
            new.values[:, :, : self.capacity].copy_(old.values)
            if hasattr(new, "cumulative_length"):
                new.cumulative_length.copy_(old.cumulative_length)
            old.keys = old.values = old.keys[:0]  # layer by layer, so that both never lie in memory whole
        return larger


WARM = 3
"""Steps before the capture: they choose the kernels' variants, and their tokens count like any other."""


class _Copy:
    """Tokens on their way from the device; only who reads them waits."""

    def __init__(self, tokens: torch.Tensor) -> None:
        on_gpu = tokens.device.type == "cuda"
        self._here = torch.empty(tokens.shape, dtype=tokens.dtype, pin_memory=on_gpu)
        self._here.copy_(tokens, non_blocking=on_gpu)
        self._done = torch.cuda.Event() if on_gpu else None
        if self._done is not None:
            self._done.record()

    def tokens(self) -> list[int]:
        """Return them."""
        if self._done is not None:
            self._done.synchronize()
        return [int(token) for token in self._here.tolist()]


def _captured(step: Any) -> Any:
    """Record the step; where the driver or the model does not allow it, go on as before."""
    graph = torch.cuda.CUDAGraph()
    try:
        torch.cuda.synchronize()
        with torch.cuda.graph(graph):
            step()
    except RuntimeError:
        torch.cuda.synchronize()
        return step
    return graph.replay
