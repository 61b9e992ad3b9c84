"""The interpreter is put to the test before a kernel is blamed."""

from __future__ import annotations

from verifier.excuses import excuse
from verifier.interpreter.selftest import FEATURES
from verifier.nursery import Nursery


def test_the_installed_interpreter_is_right_after_our_repairs(nursery: Nursery) -> None:
    """Every feature that kernels use, on whatever Triton is installed."""
    with nursery.spawn("verifier.interpreter.selftest:serve", interpret=True) as child:
        assert child.receive(20) == {"broken": {}}, child.output()


def test_without_our_repairs_faults_are_found(nursery: Nursery) -> None:
    """The probes can fail: the interpreter as it is shipped computes on the bits of bfloat16."""
    with nursery.spawn("tests.verifier.targets:unrepaired", interpret=True) as child:
        answer = child.receive(20)
    assert answer is not None and "bfloat16" in answer["broken"] and answer["broken"].keys() <= FEATURES.keys()


def test_a_fault_excuses_only_kernels_that_meet_it() -> None:
    """By what the kernel's text uses, or by the dtype of what it is given."""
    faults = {"scans": "1 for 2", "bfloat16": "3 for 4"}
    met = excuse("y = tl.cumsum(x, 0)", faults, {"float32"})
    assert met is not None and met.code == "not_interpretable" and "scans wrong (1 for 2)" in met.message
    assert excuse("y = x + 1", faults, {"bfloat16"}) is not None
    assert excuse("y = x + 1", faults, {"float32"}) is None
    assert excuse("y = tl.cumsum(x, 0)", {}, {"bfloat16"}) is None
