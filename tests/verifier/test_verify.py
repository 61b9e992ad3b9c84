"""Verdicts through the real road: worker, sandboxed child, interpreter, compiler."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.verifier.conftest import Judge
from tests.verifier.kernels import PROBLEM, RIGHT, spoiled, with_forward
from verifier.verdict import Verdict

NOTHING_ELSE = "        self.scale = nn.Parameter(torch.ones(width))\n"


def test_right_kernel_passes_every_check(judge: Judge) -> None:
    """A right kernel passes, without a warning, and the work is credited to Triton."""
    verdict = judge(PROBLEM, RIGHT)
    assert (verdict.outcome, verdict.code, verdict.warnings) == ("pass", "", ())
    assert verdict.in_triton == ("mul", "leaky_relu") and verdict.in_pytorch == ()
    assert verdict.device == "cpu (interpreter)" and verdict.timing is None
    assert {check.outcome for check in verdict.checks} == {"pass"}
    assert verdict.accuracy is not None and verdict.accuracy.max_rel < 1e-5


def test_verdict_survives_json(judge: Judge) -> None:
    """What crosses the process border is the verdict itself."""
    verdict = judge(PROBLEM, RIGHT)
    assert Verdict.from_dict(verdict.to_dict()) == verdict


WRONG = {
    "no_code": "\n",
    "syntax_error": spoiled(("mask = at < n\n", "mask = at < n)\n")),
    "no_modelnew": spoiled(("class ModelNew", "class Model")),
    "import_error": "import no_such_package_here\n" + RIGHT,
    "signature_mismatch": spoiled(("def forward(self, x):", "def forward(self, x, y):")),
    "state_mismatch": spoiled(("self.scale = nn", "self.gain = nn"), ("self.scale, out", "self.gain, out")),
    "runtime_error": spoiled(("tl.where(z", "tl.wherever(z")),
    "structure_mismatch": spoiled(("return out", "return (out,)")),
    "shape_mismatch": spoiled(("return out", "return out.view(-1)")),
    "dtype_mismatch": spoiled(("return out", "return out.half()")),
    "nan_output": spoiled(("(triton.cdiv(x.numel(), 64),)", "(triton.cdiv(x.numel(), 64) - 1,)")),
    "value_mismatch": spoiled(("0.2 * z", "0.3 * z")),
    "wrong_for_other_sizes": spoiled(("[(triton.cdiv(x.numel(), 64),)]", "[(3,)]"), ("empty_like", "zeros_like")),
    "precision_downgrade": spoiled(("z > 0, z, 0.2 * z", "z > 0, z.to(tl.float16).to(tl.float32), 0.2 * z")),
    "input_mutation": spoiled(("torch.empty_like(x)", "x")),
    "out_of_bounds": spoiled(("0.2 * z), mask=mask)", "0.2 * z))")),
    "race": spoiled(("tl.store(o_ptr + at, ", "tl.store(o_ptr, 1.0 * tl.program_id(0))\n    tl.store(o_ptr + at, ")),
    "no_triton_kernel": with_forward("return nn.functional.leaky_relu(x * self.scale, 0.2)"),
    "compile_error": spoiled(("    mask = at < n\n", "    mask = at < n\n    for i in range(n):\n        break\n")),
    "process_exit": with_forward("import os; os._exit(0)"),
}


@pytest.mark.parametrize("code", WRONG)
def test_wrong_kernel_is_named(judge: Judge, code: str) -> None:
    """Every kind of failure has its own code, and a message."""
    verdict = judge(PROBLEM, WRONG[code])
    assert (verdict.outcome, verdict.code) == ("fail", code), verdict.message
    assert verdict.message and verdict.checks[-1].outcome == "fail"


EAGER = "nn.functional.leaky_relu(x * self.scale, 0.2)"
CHEATS = {
    "kernel_result_unused": with_forward("""
z = x.mul(self.scale)
return self.launch(x) * 0 + torch.where(z > 0, z, 0.2 * z)"""),
    "torch_fallback": with_forward(f"""
try:
    scaled_leaky_relu[(1,)](x)
except Exception:
    return {EAGER}"""),
    "cached_result": with_forward("""
if not hasattr(self, "kept"):
    self.kept = self.launch(x)
return self.kept"""),
    "lazy_output": with_forward("return self.launch(x).as_subclass(Later)", "class Later(torch.Tensor):\n    pass"),
    "async_result": with_forward(
        """
out = self.launch(x)
threading.Thread(target=time.sleep, args=(1,), daemon=True).start()
return out""",
        "import threading\nimport time",
    ),
    "monkey_patch": with_forward("return self.launch(x)", "torch.allclose = lambda *a, **k: True"),
    "torch_compile": with_forward("return go(self, x)", f"go = torch.compile(lambda self, x: {EAGER})"),
    "output_injection": with_forward("print('\\x1b[2J')\nreturn self.launch(x)"),
    "output_flood": with_forward("print('x' * 3_000_000)\nreturn self.launch(x)"),
    "side_effect": with_forward(
        """
try:
    socket.socket()
except OSError:
    pass
return self.launch(x)""",
        "import socket",
    ),
}


@pytest.mark.parametrize("kind", CHEATS)
def test_cheat_is_named(judge: Judge, kind: str) -> None:
    """A cheat is caught although its values may be right, and its kind is said."""
    verdict = judge(PROBLEM, CHEATS[kind])
    assert verdict.outcome == "fail"
    assert verdict.code == "cheat" and verdict.message.startswith(kind), (verdict.code, verdict.message)


def test_partial_conversion_is_reported(judge: Judge) -> None:
    """What is left to PyTorch is legal and said."""
    kernel = spoiled(("return out", "return out.neg().negative()"))
    verdict = judge(PROBLEM, kernel)
    assert verdict.outcome == "pass" and verdict.in_pytorch == ("neg",)


def test_shared_buffer_is_a_warning(judge: Judge) -> None:
    """A result that the next call overwrites is pointed out."""
    kernel = with_forward("""
if not hasattr(self, "kept") or self.kept.shape != x.shape:
    self.kept = torch.empty_like(x)
scaled_leaky_relu[(triton.cdiv(x.numel(), 64),)](x, self.scale, self.kept, x.numel(), x.shape[-1], BLOCK=64)
return self.kept""")
    verdict = judge(PROBLEM, kernel)
    assert verdict.outcome == "pass" and "overwrites" in verdict.warnings[0]


def test_undefined_lanes_are_a_warning(judge: Judge) -> None:
    """A masked load without `other` that reaches the result is pointed out, with its line."""
    problem = replace(
        PROBLEM, source=PROBLEM.source.replace("leaky_relu(x * self.scale, 0.2)", "relu(x * self.scale).sum(-1)")
    )
    kernel = spoiled(
        ("[(triton.cdiv(x.numel(), 64),)]", "[(x.shape[0],)]"),
        ("out = torch.empty_like(x)", "out = x.new_empty(x.shape[:-1])"),
        ("tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)", "tl.program_id(0) * width + tl.arange(0, BLOCK)"),
        ("mask = at < n", "mask = tl.arange(0, BLOCK) < width"),
        ("tl.load(x_ptr + at, mask=mask, other=0.0)", "tl.load(x_ptr + at, mask=mask)"),
        (
            "tl.store(o_ptr + at, tl.where(z > 0, z, 0.2 * z), mask=mask)",
            "tl.store(o_ptr + tl.program_id(0), tl.sum(tl.where(z > 0, z, 0.0 * z), 0))",
        ),
    )
    verdict = judge(problem, kernel)
    assert verdict.outcome == "pass", verdict.message
    assert "line 12" in verdict.warnings[0] and "masked lanes" in verdict.warnings[0]


def test_hiding_work_in_a_custom_operator_shows(judge: Judge) -> None:
    """Operations inside somebody's own torch operator are counted as PyTorch's."""
    before = """
@torch.library.custom_op("tests_verifier::hidden", mutates_args=())
def hidden(x: torch.Tensor, s: torch.Tensor) -> torch.Tensor:
    return nn.functional.leaky_relu(x * s, 0.2)
"""
    verdict = judge(PROBLEM, with_forward("self.launch(x)\nreturn hidden(x, self.scale)", before))
    assert verdict.outcome == "fail" and verdict.code in ("no_triton_kernel", "cheat")
