"""Mutants that compute the same: each with the reason why it is none that a verifier could refuse."""

from __future__ import annotations

from tests.verifier.mutants.mutate import Mutation

_DEAD = {
    "bias, GELU, skip": (11, 13), "add, LayerNorm": (17, 18), "scale by a mask": (11, 12), "RMS norm, looped": (20, 21),
    "SwiGLU, in part": (11, 12), "product": (14, 15), "causal attention": (13, 20, 21), "segment sum": (11, 12),
    "bits": (11,),
}  # fmt: skip
"""Lines of loads whose masked lanes are never stored, or multiplied by zero: they may hold anything finite."""

_REASONS = (
    ("bias, GELU, skip", "mask dropped", "tl.load(bias_ptr", "at % width is inside the bias in every lane"),
    ("add, LayerNorm", "arguments swapped", "(residual, x,", "a sum does not care about order"),
    ("add, LayerNorm", "stride", "centred -> (centred + 1)", "the centred values add up to zero"),
    ("scale by a mask", "precision", "mask_ptr", "zeros and ones are exact in half precision"),
    ("causal attention", "constant", "1e30", "any number that large is a mask"),
    ("causal attention", "index", "line 17: tl.program_id(0) ->", "one more turn of the loop, wholly masked"),
    ("causal attention", "stride", "line 17: BT -> (BT + 1)", "one more turn of the loop, wholly masked"),
)


def reason(subject: str, mutation: Mutation) -> str:
    """Say why a mutant of a subject written by hand computes the same; empty where it does not."""
    if mutation.kind == "other value" and mutation.line in _DEAD.get(subject, ()):
        return "what these lanes hold is never used"
    for name, kind, words, why in _REASONS:
        if name == subject and mutation.kind == kind and words in str(mutation):
            return why
    return ""
