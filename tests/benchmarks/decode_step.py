"""What one step of drawing is made of: the model's part, choosing the tokens, and the host's work beside them.

`python -m tests.benchmarks.decode_step` shows it anywhere, with a tiny model, where the host's part is what counts;
`tests.benchmarks.decode` shows it for a model of KernelLLM's shape on a GPU. They are measurements, not tests.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch

from backends import grouped
from backends.decode import Decoder
from backends.draw import Draw
from backends.generation import Generation, Sampling

STEPS, SKIPPED = 96, 32
"""Steps that are measured, and those before them: by then the step is captured."""

CAREFUL, FREE = Draw(0, 1), Draw(1.0, 0.97)


class Letters:
    """Stands in for a tokenizer: every token is a letter."""

    def decode(self, ids: list[int], **_: Any) -> str:
        """Return the text."""
        return "x" * len(ids)


class Idle:
    """A decoder whose device has nothing to do: what remains is the host's work."""

    def tokens(self, ids: torch.Tensor, _mask: torch.Tensor, room: int, _draw: Draw) -> Iterator[list[int]]:
        """Yield the same token for every row."""
        yield from ([1] * ids.shape[0] for _ in range(room))


@dataclass(frozen=True)
class Split:
    """Milliseconds a step. `kernels` are the longest of the model's part, each with its milliseconds."""

    model: float
    copied: float
    chosen: float
    host: float
    kernels: tuple[tuple[str, float], ...]

    def __str__(self) -> str:
        longest = "".join(f"\n      {took:7.3f} ms  {name[:90]}" for name, took in self.kernels)
        return (
            f"    a step: model {self.model:.2f} ms ({self.copied:.2f} with transformers' own attention), choosing "
            f"{self.chosen:.2f} ms, host {self.host:.2f} ms beside them{longest}"
        )


def split(model: Any, encoded: dict[str, torch.Tensor]) -> Split:
    """Measure the parts of a step for a batch."""
    decoder = Decoder(model)
    careful = step(decoder, encoded, CAREFUL)
    free = step(decoder, encoded, FREE)
    kernels = longest(decoder, encoded)
    ours = model.config._attn_implementation
    if ours == grouped.NAME:
        model.set_attn_implementation("sdpa")
    try:
        copied = step(decoder, encoded, CAREFUL)
    finally:
        model.set_attn_implementation(ours)
    return Split(careful, copied, free - careful, host(model, encoded), kernels)


def step(decoder: Decoder, encoded: dict[str, torch.Tensor], draw: Draw) -> float:
    """Return the milliseconds of a step whose tokens nobody reads but this loop."""
    steps = _begun(decoder, encoded, draw)
    began = time.monotonic()
    with torch.inference_mode():
        for _ in range(STEPS):
            next(steps)
    return 1000 * (time.monotonic() - began) / STEPS


def longest(decoder: Decoder, encoded: dict[str, torch.Tensor], count: int = 5) -> tuple[tuple[str, float], ...]:
    """Return what takes the device longest in a step, by the profiler."""
    on_gpu = encoded["input_ids"].is_cuda
    kind = torch.profiler.ProfilerActivity.CUDA if on_gpu else torch.profiler.ProfilerActivity.CPU
    steps = _begun(decoder, encoded, CAREFUL)
    with torch.inference_mode(), torch.profiler.profile(activities=[kind]) as profile:
        for _ in range(8):
            next(steps)
        if on_gpu:
            torch.cuda.synchronize()
    took = [
        (e.key, (e.self_device_time_total if on_gpu else e.self_cpu_time_total) / 8e3) for e in profile.key_averages()
    ]
    return tuple(sorted(took, key=lambda one: -one[1])[:count])


def host(model: Any, encoded: dict[str, torch.Tensor]) -> float:
    """Return the processor's milliseconds a step from tokens to text, none of it on the device."""
    sampling = Sampling(temperature=1.0, max_new_tokens=400)
    began = time.process_time()
    for _ in Generation(model, Letters(), encoded, sampling, Idle()).pieces():
        pass
    return 1000 * (time.process_time() - began) / 400


def _begun(decoder: Decoder, encoded: dict[str, torch.Tensor], draw: Draw) -> Iterator[list[int]]:
    steps = decoder.tokens(encoded["input_ids"], encoded["attention_mask"], STEPS + SKIPPED + 8, draw)
    with torch.inference_mode():
        for _ in range(SKIPPED):
            next(steps)
    return steps


def main() -> None:
    """Print the parts for a tiny model with a large vocabulary."""
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(0)
    model = LlamaForCausalLM(
        LlamaConfig(
            vocab_size=128256, hidden_size=64, intermediate_size=64, num_hidden_layers=2, num_attention_heads=8,
            num_key_value_heads=2, max_position_embeddings=8192, pad_token_id=0,
        )
    )  # fmt: skip
    model.train(False)
    model.generation_config.eos_token_id = None
    for rows in (1, 8):
        ids = torch.randint(1000, (1, 256)).expand(rows, -1).contiguous()
        print(f"k = {rows}\n{split(model, {'input_ids': ids, 'attention_mask': torch.ones_like(ids)})}")


if __name__ == "__main__":
    main()
