"""Why greedy tokens of two attention kernels part in bfloat16: the logits' distance, and how near the choices were."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from backends.decode import Decoder
from backends.draw import Draw


class Noted(Draw):
    """Takes the likeliest token and keeps the logits; on the device, so that a captured step does it too."""

    def __init__(self, steps: int, vocabulary: int, device: torch.device) -> None:
        super().__init__(0, 1)
        self.logits = torch.zeros(steps, vocabulary, device=device)
        self._place = torch.zeros(1, dtype=torch.long, device=device)

    def __call__(self, logits: torch.Tensor) -> torch.Tensor:
        """Return the likeliest token of the one row."""
        self.logits.index_copy_(0, self._place, logits[:1].float())
        self._place.add_(1)
        return super().__call__(logits)


@dataclass(frozen=True)
class Parting:
    """Two ways of drawing greedily: the tokens until they part, the choices' gap there, and the logits' distances.

    `apart` is the largest distance of a logit between the two ways up to there, and `usual` the same between plain
    generate and plain generate with another attention kernel: rounding alone.
    """

    tokens: int
    steps: int
    gap: float
    apart: float
    usual: float

    def __str__(self) -> str:
        if self.tokens == self.steps:
            return f"greedy: all {self.steps} tokens are plain generate's; logits differ by up to {self.apart:.3g}"
        kind = "rounding" if self.apart <= 2 * self.usual else "MORE THAN ROUNDING: look into it"
        return (
            f"greedy: the first {self.tokens} of {self.steps} tokens are plain generate's. There its two likeliest are "
            f"{self.gap:.3g} apart and the logits of both ways differ by up to {self.apart:.3g}; plain generate's own "
            f"differ by {self.usual:.3g} with another attention kernel: {kind}"
        )


def parting(model: Any, ids: torch.Tensor, steps: int = 32) -> Parting:
    """Compare the captured step with plain generate from one prompt, and plain generate with itself."""
    tokens, plain = generated(model, ids, steps)
    noted = Noted(steps, plain.shape[-1], ids.device)
    with torch.inference_mode():
        drawn = [row[0] for row in Decoder(model).tokens(ids, torch.ones_like(ids), steps, noted)]
    before = model.config._attn_implementation
    model.set_attn_implementation("eager")
    try:
        others, eager = generated(model, ids, steps)
    finally:
        model.set_attn_implementation(before)
    until, usual = _same(tokens, drawn), _same(tokens, others)
    gap = plain[min(until, steps - 1)].topk(2).values
    return Parting(
        until, steps, float(gap[0] - gap[1]), _apart(plain, noted.logits, until), _apart(plain, eager, usual)
    )


def generated(model: Any, ids: torch.Tensor, steps: int) -> tuple[list[int], torch.Tensor]:
    """Return plain generate's greedy tokens and the logits of each step."""
    with torch.inference_mode():
        made = model.generate(
            input_ids=ids, attention_mask=torch.ones_like(ids), max_new_tokens=steps, do_sample=False,
            output_logits=True, return_dict_in_generate=True,
        )  # fmt: skip
    return made.sequences[0, ids.shape[1] :].tolist(), torch.cat(made.logits).float()


def _same(one: list[int], other: list[int]) -> int:
    return next((n for n, pair in enumerate(zip(one, other, strict=True)) if pair[0] != pair[1]), len(one))


def _apart(one: torch.Tensor, other: torch.Tensor, until: int) -> float:
    """Compare the steps that had the same tokens before them, the first that parted included."""
    return float((one[: until + 1] - other[: until + 1]).abs().max())
