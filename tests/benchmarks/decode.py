"""How fast a local model writes on a GPU, with random weights of KernelLLM's shape: ours, plain generate, the limit.

`python -m tests.benchmarks.decode` needs a CUDA device with 24 GB, transformers, and no download; about a minute.
`--compiled` adds the step with fused kernels, which is compiled first. They are measurements, not tests.
"""

from __future__ import annotations

import statistics
import sys
import time
from typing import Any

import torch
from transformers import LlamaConfig, LlamaForCausalLM

from backends.decode import Decoder, supports
from backends.generation import Generation, Sampling
from tests.benchmarks.decode_rounding import parting
from tests.benchmarks.decode_step import Letters, split

PROMPT, NEW, PLAIN_NEW = 1280, 512, 96
SHAPE = {
    "vocab_size": 128256, "hidden_size": 4096, "intermediate_size": 14336, "num_hidden_layers": 32,
    "num_attention_heads": 32, "num_key_value_heads": 8, "max_position_embeddings": 131072, "rope_theta": 500000.0,
}  # fmt: skip
CACHE_BYTES = 32 * 8 * 128 * 2 * 2
"""Keys and values of one token."""


def main(words: list[str]) -> None:
    """Print every number."""
    began = time.monotonic()
    model = random_model()
    weights = sum(p.numel() * p.element_size() for p in model.parameters()) - model.model.embed_tokens.weight.nbytes
    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}: {weights / 1e9:.1f} GB read a token, "
          f"built in {time.monotonic() - began:.0f} s; prompt {PROMPT}, {NEW} new tokens")  # fmt: skip
    speed = bandwidth()
    print(f"memory: {speed / 1e12:.2f} TB/s read (measured)")
    if not supports(model):
        print("this transformers has no static cache that counts on the device: ours is plain generate here")
        return
    ways = {"ours": Decoder(model)}
    if "--compiled" in words:
        ways["ours, compiled"] = Decoder(model, compiled=True)
    for rows in (1, 8):
        limit = rows * speed / (weights + rows * (PROMPT + NEW / 2) * CACHE_BYTES)
        print(f"\nk = {rows}: the limit is {limit:.0f} tokens/s")
        told("plain generate", *plain(model, rows), limit)
        for name, decoder in ways.items():
            told(name, *ours(model, rows, decoder), limit)
        print(split(model, prompts(rows)))
    print(f"\nCtrl-C: the model stops within {1000 * max(stops(model, ways['ours'])):.0f} ms (worst of 5, k = 8)")
    print(parting(model, prompts(1)["input_ids"]))
    print(f"{time.monotonic() - began:.0f} s in all")


def random_model() -> Any:
    """Build the model where it runs."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.bfloat16)
    try:
        with torch.device("cuda"):
            model = LlamaForCausalLM(LlamaConfig.from_dict({**SHAPE, "dtype": "bfloat16"}))
    finally:
        torch.set_default_dtype(before)
    model.generation_config.eos_token_id = None
    model.generation_config.pad_token_id = 0
    model.train(False)
    return model


def bandwidth() -> float:
    """Return the bytes a second that a large sum reads."""
    data = torch.ones(2 << 30, dtype=torch.bfloat16, device="cuda")
    times = []
    for _ in range(6):
        torch.cuda.synchronize()
        began = time.monotonic()
        data.sum(dtype=torch.float32)
        torch.cuda.synchronize()
        times.append(time.monotonic() - began)
    return data.nbytes / min(times)


def prompts(rows: int) -> dict[str, torch.Tensor]:
    """Return a batch of one random prompt."""
    torch.manual_seed(0)
    ids = torch.randint(1000, (1, PROMPT), device="cuda").expand(rows, -1).contiguous()
    return {"input_ids": ids, "attention_mask": torch.ones_like(ids)}


def plain(model: Any, rows: int) -> tuple[float, float]:
    """Return the tokens a second of `generate` as it comes, and its wait for the first token."""
    encoded = prompts(rows)
    drawing = {"do_sample": True, "temperature": 1.0, "top_p": 0.97, "top_k": 0}
    with torch.inference_mode():
        model.generate(**encoded, max_new_tokens=4, **drawing)
        first = timed(lambda: model.generate(**encoded, max_new_tokens=1, **drawing))
        whole = timed(lambda: model.generate(**encoded, max_new_tokens=PLAIN_NEW, **drawing))
    return rows * (PLAIN_NEW - 1) / (whole - first), first


def ours(model: Any, rows: int, decoder: Decoder) -> tuple[float, float]:
    """Return the tokens a second of our drawing as the terminal gets them, and its wait for the first token."""
    rates, waits = [], []
    for _ in range(2):
        began = time.monotonic()
        marks = [time.monotonic() for _ in pieces(model, rows, decoder, NEW)]
        waits.append(marks[0] - began)
        late = marks[len(marks) // 4 :]  # by then the step is captured
        rates.append((len(late) - 1) / (late[-1] - late[0]))
    return max(rates), min(waits)


def pieces(model: Any, rows: int, decoder: Decoder, new: int) -> Any:
    """Begin a batch as the backend does."""
    sampling = Sampling(temperature=1.0, top_p=0.97, max_new_tokens=new, seed=0)
    stream = Generation(model, Letters(), prompts(rows), sampling, decoder).pieces()
    return (piece for piece in stream if piece.text)


def stops(model: Any, decoder: Decoder) -> list[float]:
    """Return how long closing took, each time somewhere in the middle."""
    waited = []
    for tokens in (50, 90, 130, 170, 210):
        stream = Generation(
            model, Letters(), prompts(8), Sampling(temperature=1.0, max_new_tokens=NEW, seed=0), decoder
        ).pieces()
        for _ in range(8 * tokens):
            next(stream)
        began = time.monotonic()
        stream.close()
        waited.append(time.monotonic() - began)
    return waited


def timed(action: Any) -> float:
    """Return the median seconds of three."""
    times = []
    for _ in range(3):
        torch.cuda.synchronize()
        began = time.monotonic()
        action()
        torch.cuda.synchronize()
        times.append(time.monotonic() - began)
    return statistics.median(times)


def told(name: str, rate: float, wait: float, limit: float) -> None:
    """Print one row."""
    print(f"  {name:<15} {rate:7.1f} tokens/s  {rate / limit:4.0%} of the limit   first token after {wait:.2f} s")


if __name__ == "__main__":
    main(sys.argv[1:])
