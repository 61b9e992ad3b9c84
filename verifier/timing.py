"""Measures contestants side by side on a GPU and says what the numbers prove. Runs in a child, where CUDA is.

The order of the runs, the statistics and the words need no GPU: they work with any Clock.
"""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy

from verifier.verdict import Timing

Call = Callable[..., Any]
WARM_UPS = 3
"""Untimed calls of each contestant: the first compiles and tunes, the next ones fill caches."""
FEWEST, MOST = 7, 200
"""Rounds: below the first the interval means nothing, above the second it gets no narrower worth waiting for."""
NOTICEABLE = 0.02
"""Differences below 2 % are not called a difference, however narrow the interval."""
_RESAMPLES = 500


class Clock(Protocol):
    """Times one call on the device."""

    def flush(self) -> None:
        """Make the caches cold."""

    def time(self, call: Call, inputs: Sequence[Any]) -> tuple[float, float, Any]:
        """Return milliseconds, milliseconds of work that went on afterwards, and the output."""


@dataclass(frozen=True)
class Samples:
    """Milliseconds of every contestant, round by round; the n-th of each were measured side by side.

    `late_ms` holds work that was still running on the device when a contestant's own time ended.
    """

    times: Mapping[str, tuple[float, ...]]
    late_ms: Mapping[str, float] = field(default_factory=dict)

    def median(self, name: str) -> float:
        """Return the median milliseconds of a contestant."""
        return statistics.median(self.times[name])


def measure(
    contestants: Mapping[str, Call],
    make_inputs: Callable[[int], Sequence[Any]],
    *,
    budget_s: float = 1.0,
    flush: bool = True,
    clock: Clock | None = None,
    check: Callable[[str, Sequence[Any], Any], None] | None = None,
    seed: int = 0,
    now: Callable[[], float] = time.monotonic,
) -> Samples:
    """Run the contestants in changing order until the budget ends.

    `make_inputs(n)` gives the inputs of round n, the same values to every contestant and a fresh copy each
    time. `check(name, inputs, output)` sees outputs of timed runs, at rounds that `seed` picks.
    """
    clock = clock or CudaClock()
    names = list(contestants)
    for name in names:
        for _ in range(WARM_UPS):
            clock.time(contestants[name], make_inputs(0))
    dice = random.Random(seed)
    times: dict[str, list[float]] = {name: [] for name in names}
    late: dict[str, list[float]] = {name: [] for name in names}
    end = now() + budget_s
    for number in range(MOST):
        if number >= FEWEST and now() >= end:
            break
        looked_at = number == 0 or dice.random() < 0.2
        for name in _order(names, number):
            inputs = make_inputs(number)
            if flush:
                clock.flush()
            elapsed, after, output = clock.time(contestants[name], inputs)
            times[name].append(elapsed)
            late[name].append(after)
            if check is not None and looked_at:
                check(name, inputs, output)
            del inputs, output
    return Samples(
        {name: tuple(values) for name, values in times.items()},
        {name: statistics.median(values) for name, values in late.items()},
    )


def _order(names: list[str], number: int) -> list[str]:
    """Rotate, and turn round after each full turn, so that nobody always runs after the same other."""
    start = number % len(names)
    order = names[start:] + names[:start]
    return order[::-1] if number // len(names) % 2 else order


def summarise(samples: Samples, roofline: float | None = None) -> Timing:
    """Reduce samples of "eager" and "kernel" (and "compile") to medians and the interval of their ratio."""
    eager, kernel = samples.times["eager"], samples.times["kernel"]
    return Timing(
        kernel_ms=statistics.median(kernel),
        eager_ms=statistics.median(eager),
        compile_ms=samples.median("compile") if "compile" in samples.times else None,
        speedup=statistics.median(eager) / statistics.median(kernel),
        interval=ratio_interval(eager, kernel),
        roofline=roofline,
    )


def went_on(samples: Samples, name: str) -> str | None:
    """Say so when a contestant's work did not end with the stream it was timed on: its time is not its time."""
    late = samples.late_ms.get(name, 0.0)
    if late <= max(0.1, 0.2 * samples.median(name)):
        return None
    return f"work went on for {late:.2f} ms on another stream after the timed {samples.median(name):.2f} ms"


def ratio_interval(over: Sequence[float], under: Sequence[float]) -> tuple[float, float]:
    """Return the 95 % interval of median(over) / median(under), resampling whole rounds; all of the range when few."""
    above, below = numpy.asarray(over), numpy.asarray(under)
    if len(above) < FEWEST:
        return float((above / below).min()), float((above / below).max())
    rounds = numpy.random.default_rng(1).integers(len(above), size=(_RESAMPLES, len(above)))
    ratios = numpy.median(above[rounds], axis=1) / numpy.median(below[rounds], axis=1)
    low, high = numpy.quantile(ratios, (0.025, 0.975))
    return float(low), float(high)


def comparison(timing: Timing) -> str:
    """Return "faster", "slower" or "same": a difference only where the interval and the size of it say so."""
    low, high = timing.interval
    if low > 1 and timing.speedup >= 1 + NOTICEABLE:
        return "faster"
    if high < 1 and timing.speedup <= 1 - NOTICEABLE:
        return "slower"
    return "same"


def in_words(timing: Timing) -> str:
    """Say how fast the kernel is, never more than was measured."""
    low, high = timing.interval
    found = comparison(timing)
    if found == "same":
        return f"same speed as eager ({low:.2f}–{high:.2f}x)"
    if found == "slower":
        return f"{timing.speedup:.2f}x: slower than eager"
    spread = (high - low) / 2 / timing.speedup
    return f"{timing.speedup:.2f}x faster than eager, ±{max(spread, 0.01):.0%}".replace("%", " %")


LEAD_MS = 0.5
"""The device is kept busy this long before a call: queuing it takes the host some 60 microseconds a kernel, and how
long exactly depends on what else that host does. What takes longer to queue than to compute is measured as that."""


class CudaClock:
    """CUDA events around one call, behind a flush of the L2 cache; keeps its own references to what it needs."""

    def __init__(self) -> None:
        import torch

        self._event: Any = torch.cuda.Event
        self._synchronize: Any = torch.cuda.synchronize
        level2: int = getattr(torch.cuda.get_device_properties(torch.cuda.current_device()), "L2_cache_size", 0)
        self._buffer = torch.empty(max(2 * level2, 256 << 20), dtype=torch.uint8, device="cuda")
        self._buffer.zero_()
        once, _, _ = self.time(self._buffer.zero_, ())
        self._flushes = max(1, min(64, round(LEAD_MS / once)))

    def flush(self) -> None:
        """Overwrite a buffer of twice the L2 cache, for as long as the host takes to queue what is timed next."""
        for _ in range(self._flushes):
            self._buffer.zero_()

    def time(self, call: Call, inputs: Sequence[Any]) -> tuple[float, float, Any]:
        """Time one call by events on the current stream, and how long other streams went on after it."""
        begin, end = self._event(enable_timing=True), self._event(enable_timing=True)
        begin.record()
        output = call(*inputs)
        end.record()
        end.synchronize()
        ended = time.perf_counter()
        self._synchronize()
        return begin.elapsed_time(end), (time.perf_counter() - ended) * 1e3, output
