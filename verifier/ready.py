"""Children that are started before there is work for them: on a GPU, opening the device takes longer than judging."""

from __future__ import annotations

from collections.abc import Sequence

from verifier import gpu_warmup
from verifier.children import Child
from verifier.containment import Contained
from verifier.nursery import Nursery

SECONDS = 60.0
"""For Triton to build its helpers for a GPU."""
BESIDE = 2
"""Further children of a candidate, where there are processors for them."""


class Ready:
    """Hands out children for one candidate: those that wait, else fresh ones."""

    def __init__(self, nursery: Nursery) -> None:
        self._nursery = nursery
        self._warm = False
        self._contained: list[Contained] = []  # on the GPU
        self._clocks: dict[str, Child] = {}

    def prepare(self, beside: bool, clocks: Sequence[str], *, reference: bool) -> None:
        """Have children wait on the GPU for the next candidate, and run any reference there once, if asked to."""
        self.warm_up()
        while len(self._contained) < 1 + (BESIDE if beside else 0):
            self._contained.append(Contained(self._nursery, "cuda"))
        for clock in clocks:
            if clock not in self._clocks:
                self._clocks[clock] = self._nursery.spawn(clock)
        if reference:
            gpu_warmup.run_a_reference()

    def warm_up(self) -> None:
        """Let Triton build its GPU helpers once, for all children to come."""
        if not self._warm:
            with self._nursery.spawn("verifier.gpu_warmup:serve") as child:
                child.receive(SECONDS)
            self._warm = True

    def contained(self, device: str) -> Contained:
        """Return a child for a candidate."""
        if device == "cuda":
            self.warm_up()
            if self._contained:
                return self._contained.pop(0)
        return Contained(self._nursery, device)

    def clocks(self) -> dict[str, Child]:
        """Return the waiting clocks, by what they do."""
        waiting, self._clocks = self._clocks, {}
        return waiting
