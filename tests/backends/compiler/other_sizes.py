"""Every example at the sizes it was not written for, in a process of its own: one JSON line a run."""

from __future__ import annotations

import json
import logging
import os
import warnings

os.environ["TRITON_INTERPRET"] = "1"  # read when triton is imported


def main() -> None:
    """Run the examples."""
    import torch

    from tests.backends.compiler.examples import EXAMPLES, MORE
    from tests.backends.compiler.outcome import judge
    from tests.backends.compiler.sweep import repair_interpreter

    warnings.filterwarnings("ignore")
    logging.disable(logging.CRITICAL)
    repair_interpreter()
    torch.set_num_threads(1)
    for name, example in {**EXAMPLES, **MORE}.items():
        for shapes in example.others:
            torch.manual_seed(0)
            outcome = judge(example.text, tuple(torch.randn(shape).abs() for shape in shapes))
            line = {"name": name, "shapes": shapes, "kind": outcome.kind, "detail": outcome.detail}
            print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main()
