"""A problem that is ready to judge with: its reference, and what may be varied, found once and kept."""

from __future__ import annotations

from dataclasses import dataclass, field

from verifier.cases import Case
from verifier.constructions import Construction, others, with_other_parameters
from verifier.truth import Reference

SECONDS = 1.0
"""For trying which variations the reference admits."""


@dataclass
class Known:
    """A problem that is ready to judge with, kept for the next candidate."""

    reference: Reference
    variations: list[Case] = field(default_factory=list)
    builds: list[Construction] | None = None
    _renewed: list[Reference | None] = field(default_factory=list)

    def admitted(self) -> list[Case]:
        """Return the cases to try, found once."""
        if not self.variations:
            found = self.reference.cases(SECONDS)
            # where the result hardly depends on the inputs, other values only compare one rounding noise with another
            self.variations.extend(c for c in found if c.values == "given" or not self.reference.degenerate)
        return self.variations

    def renewed(self) -> Reference | None:
        """Return the same module with other parameters, made once; None where that changes nothing to speak of."""
        if not self._renewed:
            self._renewed.append(with_other_parameters(self.reference))
        return self._renewed[0]

    def built_otherwise(self) -> list[Construction]:
        """Return the other builds to try, found once."""
        if self.builds is None:
            self.builds = others(self.reference)
        return self.builds
