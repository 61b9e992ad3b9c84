"""What happens to a problem while it is converted and judged: plain data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from backends import ChunkKind
    from repl.turn import Candidate, Turn
    from verifier.verdict import Check


@dataclass(frozen=True)
class Options:
    """How a problem is converted and judged. `budget` is in seconds; with it, what failed is asked again.

    `max_tokens` is what one answer of a language model may take; None leaves it to the backend.
    """

    candidates: int = 1
    budget: float | None = None
    max_tokens: int | None = None
    seed: int | None = None
    device: str = "auto"
    speed: bool = True
    in_process: bool = False
    baseline: str = "both"
    precision: str = "exact"
    sanitize: str = ""
    beside: bool | None = None  # whether a candidate's further children work beside the first; None: where that pays
    earlier: tuple[Candidate, ...] = ()
    """Attempts of earlier turns at the same problem: the drawing goes on from them and their findings are told."""
    instructions: str = ""
    """What the person asks of a language model in their own words."""

    def for_verifier(self) -> dict[str, Any]:
        """Return the keyword arguments of `verify`."""
        return {
            "device": self.device,
            "seed": self.seed,
            "speed": self.speed,
            "in_process": self.in_process,
            "baseline": self.baseline,
            "precision": self.precision,
            "sanitize": self.sanitize,
            "beside": self.beside,
        }


@dataclass(frozen=True)
class Started:
    """A candidate is asked for; `number` counts from 1, `planned` is None while only time limits the loop."""

    backend: str
    number: int
    planned: int | None
    origin: str = ""


@dataclass(frozen=True)
class Wrote:
    """A piece of an answer, as the backend streams it; also its `status` lines."""

    kind: ChunkKind
    text: str
    number: int = 1


@dataclass(frozen=True)
class CandidateDone:
    """The candidate's file is complete and the judging begins."""

    number: int
    kernel: str


@dataclass(frozen=True)
class CheckDone:
    """The verifier finished one check."""

    check: Check
    number: int = 1


@dataclass(frozen=True)
class Dropped:
    """The candidate is not judged: it repeats an earlier one, or could not be written."""

    number: int
    why: str


@dataclass(frozen=True)
class Ended:
    """Nothing more is asked for, and why, where that is not plain from what was wished."""

    why: str


@dataclass(frozen=True)
class VerdictDone:
    """The candidate is judged; `best` when no earlier one is better."""

    number: int
    candidate: Candidate
    best: bool


@dataclass(frozen=True)
class Finished:
    """The last event: all that became of the problem, or the error that ended it."""

    turn: Turn


Event = Started | Wrote | CandidateDone | CheckDone | Dropped | Ended | VerdictDone | Finished
