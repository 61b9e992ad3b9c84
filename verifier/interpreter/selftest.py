"""What the installed Triton's interpreter gets right, after our repairs: small kernels with known answers.

Asked only when a kernel has failed: a fault of the interpreter must not be taken for one of the kernel.
"""

from __future__ import annotations

import re
from collections.abc import Collection

import torch

from verifier.wire import Channel

FEATURES = {
    "bfloat16": r"bfloat16",
    "casts": r"\.to\(|cast\(",
    "dot": r"\bdot\(",
    "libdevice": r"libdevice",
    "scans": r"associative_scan|cumsum|cumprod",
    "reductions": r"\b(sum|max|min|argmax|argmin|reduce)\(",
    "atomics": r"atomic_",
    "loops": r"\brange\(",
}
"""What is tested, and how a kernel's text shows that it uses it."""


def serve(channel: Channel) -> None:
    """Send the names of the features that are wrong here, with what happened."""
    from verifier import interpreter
    from verifier.launches import Trace

    Trace(interpreter.install()).install()
    channel.send({"broken": broken()})


def broken() -> dict[str, str]:
    """Run every probe; return what is wrong, by feature."""
    from verifier.interpreter import probes

    found = {}
    for feature in FEATURES:
        try:
            got, wanted = getattr(probes, f"probe_{feature}")()
        except Exception as error:
            found[feature] = f"{type(error).__name__}: {error}"[:200]
            continue
        if not torch.equal(got, wanted):
            found[feature] = f"{got.flatten()[:4].tolist()} for {wanted.flatten()[:4].tolist()}"
    return found


def doubtful(kernel: str, faults: dict[str, str], dtypes: Collection[str] = ()) -> str:
    """Name a feature with a fault that a kernel uses, empty for none; `dtypes` are those of the tensors it is given."""
    return next((name for name in faults if name in dtypes or re.search(FEATURES[name], kernel)), "")
