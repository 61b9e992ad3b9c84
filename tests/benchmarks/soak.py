"""Two hundred verifications in a row, and what they leave behind.

`python -m tests.benchmarks.soak [--times N] [--seed N]`; exit status 1 when a verdict changed, memory grew, or a
process or a file was left.
"""

from __future__ import annotations

import argparse
import sys
import time

from tests.verifier.soaking import HANGING, KINDS, soak

GROWTH = 8 << 20


def main() -> int:
    """Soak and report."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--times", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    chosen = parser.parse_args()
    began = time.monotonic()
    report = soak({**KINDS, **HANGING}, chosen.times, chosen.seed)
    for said, count in sorted(report.verdicts.items()):
        print(f"{count:4}  {said}")
    settled = report.resident[len(report.resident) // 5 :]
    grown = settled[-1] - settled[0]
    print(f"{chosen.times} verifications in {time.monotonic() - began:.0f} s")
    print(f"verdicts that differ from alone: {report.different or 'none'}")
    print(f"memory of this process: {settled[0] / 1e6:.1f} MB, at the end {settled[-1] / 1e6:.1f} MB")
    print(f"processes: {min(report.processes)} to {max(report.processes)} while open, {report.left_processes} after")
    print(f"files left: {report.left_files or 'none'}")
    return int(bool(report.different or report.left_processes or report.left_files or grown > GROWTH))


if __name__ == "__main__":
    sys.exit(main())
