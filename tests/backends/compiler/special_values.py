"""Functions at the numbers where formulas break: NaN, infinities, zeros, halves, overflow. One JSON line a call."""

from __future__ import annotations

import json
import logging
import os
import warnings

os.environ["TRITON_INTERPRET"] = "1"  # read when triton is imported

NUMBERS = [
    float("nan"),
    float("inf"),
    float("-inf"),
    0.0,
    -0.0,
    1.0,
    -1.0,
    0.5,
    -0.5,
    1.5,
    -1.5,
    2.5,
    -2.5,
    3.0,
    -3.0,
    6.0,
    1e30,
    -1e30,
    88.0,
    -88.0,
    89.0,
    -89.0,
    100.0,
    -100.0,
    20.0,
    -20.0,
    1e-10,
    -1e-10,
    1e-4,
    -1e-4,
    0.9999,
    0.626,
]
NAMES = """torch.exp torch.log torch.log2 torch.log10 torch.log1p torch.expm1 torch.tan torch.tanh torch.sigmoid
torch.erf
torch.sqrt torch.rsqrt torch.floor torch.round torch.trunc torch.frac torch.sign torch.reciprocal torch.cosh torch.sinh
torch.isfinite torch.nan_to_num torch.logit torch.special.entr F.silu F.mish F.softplus F.elu F.selu F.hardtanh
F.hardswish F.hardshrink F.softshrink F.logsigmoid F.leaky_relu F.tanhshrink F.softsign torch.count_nonzero""".split()
CALLS = [f"{name}(x0)" for name in NAMES] + [
    "x0 ** 3",
    "x0 ** -2",
    "x0 ** 1.5",
    "x0 ** -1.5",
    "2 ** x0",
    "torch.pow(3.5, x0)",
    "x0.clamp(-1, 1)",
    "x0.amax()",
    "x0.argmin()",
    "x0[3:].norm(p=3)",
    "torch.softmax(x0[3:], -1)",
    "torch.logsumexp(x0[1:3], 0)",
    "x0.nansum()",
    "torch.logsumexp(x0[2:3], 0)",
    "torch.softmax(x0, -1)",
    "torch.triu(x0[None] + x0[:, None])",
    "torch.cumsum(x0[1:], 0)",
    "torch.cumprod(x0[1:], 0)",
    "torch.logcumsumexp(x0[1:], 0)",
    "torch.cummax(x0[1:], 0)",
    "torch.cummin(x0, 0)",
    "torch.sort(x0, 0)",
    "1.0 / torch.sort(x0, 0, descending=True)[0]",
    "torch.sort(x0.bfloat16(), 0)",
    "x0.topk(5, 0)",
    "x0.topk(11, 0, largest=False)",
    "x0.median(0)",
    "x0.nanmedian(0)",
    "x0.kthvalue(7, 0)",
]
PAIRS = """torch.maximum torch.minimum torch.fmax torch.fmin torch.hypot torch.logaddexp torch.xlogy torch.div
torch.lt torch.heaviside""".split()


def main() -> None:
    """Run the calls on the numbers, and the functions of two on every pair of them."""
    import torch

    from tests.backends.compiler.outcome import judge
    from tests.backends.compiler.sweep import repair_interpreter
    from tests.backends.compiler.written import source

    warnings.filterwarnings("ignore")
    logging.disable(logging.CRITICAL)
    repair_interpreter()
    one = torch.tensor(NUMBERS)
    two = (one.repeat_interleave(len(NUMBERS)), one.repeat(len(NUMBERS)))
    for call in CALLS:
        outcome = judge(source(f"return {call}", (len(NUMBERS),)), (one,), of_scale=0.0)
        print(json.dumps({"call": call, "kind": outcome.kind, "detail": outcome.detail}), flush=True)
    for call in PAIRS:
        outcome = judge(source(f"return {call}(x0, x1)", tuple(two[0].shape), tuple(two[0].shape)), two, of_scale=0.0)
        print(json.dumps({"call": call, "kind": outcome.kind, "detail": outcome.detail}), flush=True)


if __name__ == "__main__":
    main()
