"""What was pasted → Problem. Text and ast only: nothing is executed here and torch is not imported."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache

from verifier.paste.refusal import NotAProblem

__all__ = ["NotAProblem", "Problem"]


@dataclass(frozen=True)
class Problem:
    """A PyTorch module that can be converted, as clean text.

    `source` is a complete Python module: executing it defines the class `entry` (an nn.Module),
    `get_inputs()` and `get_init_inputs()`. `notes` tell the person, one line each, what was repaired or guessed.
    """

    source: str
    entry: str
    forward_args: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """The name shown to people: the class's own."""
        return self.entry

    @property
    def lines(self) -> int:
        """Number of lines of the cleaned source."""
        return len(self.source.rstrip("\n").split("\n"))

    @classmethod
    def parse(cls, text: str) -> Problem:
        """Read a paste without executing it; raise NotAProblem. Cheap to repeat: remembered by text."""
        outcome = _outcome(text)
        if isinstance(outcome, NotAProblem):
            raise NotAProblem(outcome.code, outcome.message, outcome.hint, outcome.line)
        return outcome

    @classmethod
    def read(cls, data: bytes) -> Problem:
        """Read the bytes of a file, in whatever encoding; raise NotAProblem."""
        from verifier.paste.characters import decoded

        text, notes = decoded(data)
        problem = cls.parse(text)
        return replace(problem, notes=notes + problem.notes)


@lru_cache(maxsize=64)
def _outcome(text: str) -> Problem | NotAProblem:
    from verifier.paste.characters import clean  # two dozen modules: not before something is pasted
    from verifier.paste.mends import read
    from verifier.paste.reading import complete
    from verifier.paste.sizes import parameter_names

    try:
        module = complete(read(clean(text)))
    except NotAProblem as refusal:
        return refusal
    except SyntaxError as fault:
        return NotAProblem("syntax_error", str(fault.msg), "Correct it and paste again.", fault.lineno)
    except RecursionError:
        return NotAProblem("syntax_error", "nested too deeply", "Paste one module in a file of ordinary code.")
    forward = module.entry.forward
    arguments = tuple(parameter_names(forward)) if forward else ("input",)
    return Problem(module.lines.text, module.entry.name, arguments, module.lines.notes)
