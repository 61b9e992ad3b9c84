"""Operator samples through the compiler, in a process of its own: one JSON line a sample.

python -m tests.backends.compiler.sweep --dtype float32 --most 4 [--strided] [--share 0/2] [OPERATOR ...]
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import sys
import warnings
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch

    from tests.backends.compiler.samples import Sample

os.environ["TRITON_INTERPRET"] = "1"  # read when triton is imported


def main(arguments: list[str]) -> None:
    """Run the samples that the arguments select."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("operators", nargs="*", metavar="OPERATOR")
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--most", type=int, default=None, help="samples an operator")
    parser.add_argument("--strided", action="store_true", help="with inputs whose memory has gaps")
    parser.add_argument("--modules", action="store_true", help="layers instead of operators")
    parser.add_argument("--share", default="0/1", help="which part of the operators: 0/2 and 1/2 are the halves")
    parser.add_argument("--text", action="store_true", help="print each problem too")
    chosen = parser.parse_args(arguments)
    warnings.filterwarnings("ignore")
    logging.disable(logging.CRITICAL)

    import torch

    from tests.backends.compiler.outcome import judge

    repair_interpreter()
    torch.set_num_threads(1)
    dtype = getattr(torch, chosen.dtype)
    for sample in _samples(chosen, dtype):
        outcome = judge(sample.text, sample.inputs)
        line = {"operator": sample.operator, "index": sample.index, "kind": outcome.kind, "detail": outcome.detail}
        print(json.dumps({**line, "text": sample.text} if chosen.text else line), flush=True)


def _samples(chosen: argparse.Namespace, dtype: torch.dtype) -> Iterator[Sample]:
    from tests.backends.compiler.module_samples import module_samples, modules
    from tests.backends.compiler.samples import operators, samples, strided

    part, parts = map(int, chosen.share.split("/"))
    every: list[Any] = modules() if chosen.modules else operators()
    for info in [info for info in every if not chosen.operators or info.name in chosen.operators][part::parts]:
        if chosen.modules:
            for training in (False, True):
                yield from module_samples(info, dtype, training=training, most=chosen.most)
        elif info.supports_dtype(dtype, "cpu"):
            for sample in samples(info, dtype, chosen.most):
                yield strided(sample) if chosen.strided else sample


def repair_interpreter() -> None:
    """Use the interpreter as the verifier does: its own faults are not the kernels'."""
    from verifier.interpreter import bfloat16, folds, language, libdevice

    language.repair()
    folds.repair()
    bfloat16.repair()
    libdevice.repair()


if __name__ == "__main__":
    main(sys.argv[1:])
