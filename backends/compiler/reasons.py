"""Why an operator without a rule stays in PyTorch, in words for the file's header."""

from __future__ import annotations

import re

FAMILIES = (
    (r"conv|slow_conv", "builtin writes no convolution of this kind, cuDNN runs it"),
    (r"lstm|gru|rnn", "builtin writes no recurrence, cuDNN runs it"),
    (r"pool", "builtin writes no pooling of this kind"),
    (r"sort|topk|kthvalue|median|mode|unique", "builtin writes no sort of this kind"),
    (
        r"scatter|index_|gather|embedding|take|put|searchsorted|bucketize",
        "builtin reads no places that other numbers name",
    ),
    (r"attention", "this form of it is left to PyTorch's own kernel"),
    (r"rand|bernoulli|multinomial|normal|dropout|poisson", "random numbers must come in PyTorch's order"),
    (r"cat|stack|flip|roll|repeat|pad|tile|rot90|copy|pixel|fill|one_hot", "it moves numbers and computes none"),
    (r"upsample|interpolate|grid_sampl", "builtin writes no resampling of this kind"),
    (r"linalg|inverse|cholesky|svd|qr|det|solve|eig", "linear algebra is its libraries'"),
    (r"fft|stft", "builtin writes no Fourier transform"),
)


def why(label: str) -> str:
    """Say why builtin writes no kernel for an operator."""
    for pattern, reason in FAMILIES:
        if re.search(pattern, label):
            return reason
    return "builtin has no rule for it"
