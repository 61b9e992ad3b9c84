"""Logits → one token a row, on the device and without waiting for it, so that a captured step can hold it."""

from __future__ import annotations

import torch

ARRIVALS = 8
"""Draws looked at for one that top-p allows. At 0.95 one in 25 billion steps finds none and takes the likeliest."""


class Draw:
    """How the next token is chosen; a temperature of 0 takes the likeliest."""

    def __init__(self, temperature: float, top_p: float) -> None:
        self.temperature, self.top_p = temperature, top_p

    def __call__(self, logits: torch.Tensor) -> torch.Tensor:
        """Return one token a row; logits are (rows, vocabulary)."""
        if self.temperature <= 0:
            return logits.argmax(-1)
        chances = torch.softmax(logits.float() / self.temperature, -1)
        # Chance / exponential noise is a race: who is first in it, among all or among some, is a draw by the chances.
        # Unlike multinomial it can be captured.
        race = chances / torch.empty_like(chances).exponential_(1.0)
        return self._first_allowed(chances, race) if self.top_p < 1 else race.argmax(-1)

    def _first_allowed(self, chances: torch.Tensor, race: torch.Tensor) -> torch.Tensor:
        """Return the first of the race that top-p keeps: less than `top_p` of the chances are likelier than it.

        So nothing is sorted, which for several rows of a large vocabulary takes longer than the rest of the choice.
        """
        arrivals = race.topk(min(ARRIVALS, race.shape[-1]), -1).indices
        own = chances.gather(-1, arrivals)[..., None]
        others = chances[:, None]
        allowed = torch.where(others > own, others, 0.0).sum(-1) < self.top_p
        first = arrivals.gather(-1, allowed.int().argmax(-1, keepdim=True))[:, 0]
        return torch.where(allowed.any(-1), first, chances.argmax(-1))
