"""What held the clock back, as the driver's library tells it."""

from __future__ import annotations

from typing import Any

import pytest

from verifier.power import Power, open_power


class Driver:
    """Answers as NVML does: a status, and the value behind the last pointer."""

    def __init__(self, reasons: int, clock: int, most: int = 1980, status: int = 0) -> None:
        self.reasons, self.clock, self.most, self.status = reasons, clock, most, status

    def _give(self, pointer: Any, value: int) -> int:
        pointer._obj.value = value
        return self.status

    def nvmlDeviceGetCurrentClocksThrottleReasons(self, _: Any, pointer: Any) -> int:
        return self._give(pointer, self.reasons)

    def nvmlDeviceGetClockInfo(self, _: Any, kind: int, pointer: Any) -> int:
        assert kind == 1
        return self._give(pointer, self.clock)

    def nvmlDeviceGetMaxClockInfo(self, _: Any, kind: int, pointer: Any) -> int:
        assert kind == 1
        return self._give(pointer, self.most)


@pytest.mark.parametrize(
    ("reasons", "said"),
    [
        (0, ""),
        (0x1, ""),  # idle
        (0x2, ""),  # clocks set by somebody
        (0x4, "GPU at 1200 of 1980 MHz (power limit)"),
        (0x60, "GPU at 1200 of 1980 MHz (heat)"),
        (0xC, "GPU at 1200 of 1980 MHz (power limit, hardware slowdown)"),
    ],
)
def test_a_throttled_clock_is_told(reasons: int, said: str) -> None:
    """Only what makes a kernel slower is worth a word, each reason once."""
    power = Power(Driver(reasons, 1200), None)
    power.look()
    assert power.words() == said


def test_the_lowest_clock_and_every_reason_seen_are_told() -> None:
    """A limit that was reached for a moment slowed the run for that moment."""
    driver = Driver(0x4, 1500)
    power = Power(driver, None)
    power.look()
    driver.reasons, driver.clock = 0x0, 1980
    power.look()
    assert power.words() == "GPU at 1500 of 1980 MHz (power limit)"


def test_a_driver_that_does_not_say_is_no_news() -> None:
    """An error status is not taken for a reason."""
    power = Power(Driver(0x4, 1200, status=3), None)
    power.look()
    assert power.words() == ""


def test_no_driver_is_no_news() -> None:
    """Where there is no such GPU there is nobody to ask."""
    assert open_power("00000000-0000-0000-0000-000000000000") is None
