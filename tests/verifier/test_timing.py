"""Measuring and the words for it, with a clock that is told how long things take."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from verifier.timing import Samples, comparison, in_words, measure, ratio_interval, summarise, went_on
from verifier.verdict import Timing


class ToldClock:
    """Takes each call's milliseconds from what the call returns and notes the order of events."""

    def __init__(self) -> None:
        self.log: list[str] = []
        self.seconds = 0.0

    def flush(self) -> None:
        self.log.append("flush")

    def time(self, call: Callable[..., Any], inputs: Sequence[Any]) -> tuple[float, float, Any]:
        name, elapsed = call(*inputs)
        self.log.append(name)
        self.seconds += elapsed / 1e3
        return elapsed, 0.0, name


def contestants(**milliseconds: float) -> dict[str, Callable[..., tuple[str, float]]]:
    """Make callables that take the given milliseconds, with 1 % of noise."""
    dice = random.Random(0)
    return {name: lambda *_, n=name, ms=ms: (n, ms * dice.uniform(0.99, 1.01)) for name, ms in milliseconds.items()}


def run(clock: ToldClock, budget_s: float = 0.2, **milliseconds: float) -> Samples:
    """Measure contestants that take the given milliseconds."""
    return measure(
        contestants(**milliseconds), lambda n: [n], budget_s=budget_s, clock=clock, now=lambda: clock.seconds
    )


def test_contestants_alternate_in_changing_order_behind_a_flush() -> None:
    """Every timed call follows a flush, each contestant runs once a round, and nobody always goes first."""
    clock = ToldClock()
    samples = run(clock, eager=2.0, kernel=1.0)
    timed = clock.log[clock.log.index("flush") :]
    assert timed[0::2] == ["flush"] * (len(timed) // 2)
    rounds = [(timed[i], timed[i + 2]) for i in range(1, len(timed), 4)]
    assert {frozenset(r) for r in rounds} == {frozenset({"eager", "kernel"})}
    assert len({r[0] for r in rounds}) == 2
    assert len(samples.times["eager"]) == len(samples.times["kernel"]) == len(rounds)


def test_three_contestants_each_lead_a_round() -> None:
    """With torch.compile in the run, each of the three is measured first in some round."""
    clock = ToldClock()
    run(clock, eager=2.0, compile=1.5, kernel=1.0)
    timed = [entry for entry in clock.log[clock.log.index("flush") :] if entry != "flush"]
    assert set(timed[0::3]) == {"eager", "compile", "kernel"}


def test_the_budget_ends_the_run_but_not_before_a_few_rounds() -> None:
    """A slow problem still gets the fewest rounds that mean something; a quick one stops at the most."""
    assert len(run(ToldClock(), budget_s=0.01, eager=90.0, kernel=80.0).times["kernel"]) == 7
    assert len(run(ToldClock(), budget_s=100.0, eager=0.02, kernel=0.01).times["kernel"]) == 200


def test_the_same_inputs_reach_every_contestant_and_outputs_are_handed_back() -> None:
    """Within a round all contestants see round n's inputs; the first round is always checked."""
    seen: list[tuple[str, list[int], Any]] = []
    clock = ToldClock()
    measure(
        contestants(eager=1.0, kernel=1.0),
        lambda n: [n],
        budget_s=0.05,
        clock=clock,
        now=lambda: clock.seconds,
        check=lambda name, inputs, output: seen.append((name, list(inputs), output)),
    )
    assert {(name, inputs[0]) for name, inputs, _ in seen} >= {("eager", 0), ("kernel", 0)}
    assert all(name == output for name, _, output in seen)
    assert {n for name, (n,), _ in seen if name == "eager"} == {n for name, (n,), _ in seen if name == "kernel"}


def test_a_contestant_that_raises_is_not_measured() -> None:
    """An error in a contestant reaches the caller."""

    def broken(*_: Any) -> Any:
        raise RuntimeError("out of memory")

    with pytest.raises(RuntimeError, match="out of memory"):
        measure({"eager": broken}, lambda n: [n], clock=ToldClock())


def test_a_clear_difference_is_named_with_its_spread() -> None:
    """Twice as fast reads as about 2x with an interval around it that excludes 1."""
    timing = summarise(run(ToldClock(), eager=2.0, kernel=1.0), roofline=0.5)
    assert timing.interval[0] <= timing.speedup <= timing.interval[1]
    assert comparison(timing) == "faster" and timing.roofline == 0.5
    assert in_words(timing).startswith(f"{timing.speedup:.2f}x faster than eager, ±")


def test_a_slower_kernel_is_called_slower() -> None:
    """0.5x is never dressed up."""
    timing = summarise(run(ToldClock(), eager=1.0, kernel=2.0))
    assert in_words(timing) == f"{timing.speedup:.2f}x: slower than eager"


@pytest.mark.parametrize(("speedup", "interval"), [(1.3, (0.9, 1.7)), (1.01, (1.005, 1.015)), (0.99, (0.985, 0.995))])
def test_noise_and_trifles_are_the_same_speed(speedup: float, interval: tuple[float, float]) -> None:
    """An interval across 1 and a difference below 2 % are both no difference."""
    timing = Timing(1.0, speedup, None, speedup, interval)
    assert comparison(timing) == "same"
    assert in_words(timing) == f"same speed as eager ({interval[0]:.2f}–{interval[1]:.2f}x)"


def test_the_interval_covers_the_truth_about_as_often_as_it_says() -> None:
    """Over many noisy runs of a true ratio of 1.5 the 95 % interval holds it at least 85 % of the time."""
    dice = random.Random(3)
    held = 0
    for _ in range(60):
        over = [1.5 * dice.lognormvariate(0, 0.1) for _ in range(25)]
        under = [dice.lognormvariate(0, 0.1) for _ in range(25)]
        low, high = ratio_interval(over, under)
        held += low <= 1.5 <= high
    assert held >= 51


def test_few_samples_give_the_whole_range() -> None:
    """With three rounds nothing narrower than all that was seen is claimed."""
    assert ratio_interval([1.0, 2.0, 3.0], [1.0, 1.0, 1.0]) == (1.0, 3.0)


def test_work_on_another_stream_is_noticed() -> None:
    """A kernel that ends its own stream at once and works on is found out; microseconds are not held against it."""
    times = {"kernel": (0.5,) * 7}
    assert went_on(Samples(times, {"kernel": 3.0}), "kernel")
    assert went_on(Samples(times, {"kernel": 0.02}), "kernel") is None
