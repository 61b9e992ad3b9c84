"""Results of many problems → counts, speeds and pass@k, by level. Pure: JSON objects in, JSON objects and rows out."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

Result = dict[str, Any]
"""The JSON object of one turn, with `file` and `level` beside the contract's fields."""

FAST = (1, 1.5, 2)

MINUTES = (0.5, 1, 2, 5, 10, 15, 30, 60, 120)
"""Points of the curve of what was solved by then."""


def summary(results: Sequence[Result], seconds: float) -> dict[str, Any]:
    """Return the summary object that ends a batch's JSON lines."""
    levels = sorted({result["level"] for result in results}, key=natural)
    by_level = {level: counts([r for r in results if r["level"] == level]) for level in levels}
    return {"summary": True, "levels": by_level, "total": counts(results), "seconds": round(seconds, 1)}


def counts(results: Sequence[Result]) -> dict[str, Any]:
    """Count what was converted and what was verified; speeds only over problems that were timed."""
    converted = Counter(how_far(result) for result in results)
    outcomes = Counter(str((result["verdict"] or {}).get("outcome", "error")) for result in results)
    codes = Counter(code for result in results if (code := _code(result)))
    tally: dict[str, Any] = {
        "problems": len(results),
        "wholly": converted["wholly"],
        "partly": converted["partly"],
        "not_converted": converted["not"],
        "verified": outcomes["pass"],
        "failed": outcomes["fail"],
        "cannot_verify": outcomes["cannot_verify"],
        "codes": dict(codes.most_common()),
    }
    return tally | _speeds(results) | _pass_at(results) | _solved(results) | _repaired(results)


def how_far(result: Result) -> str:
    """Say how much of a problem was converted: wholly, partly, or not."""
    verdict = result["verdict"]
    if verdict is None or verdict["code"] in ("no_code", "no_triton_kernel"):
        return "not"
    return "partly" if verdict["in_pytorch"] else "wholly"


def rows(summary: dict[str, Any]) -> Iterable[str]:
    """Yield the summary as a table of plain text."""
    head = ("level", "problems", "wholly", "partly", "not", "verified", "failed", "unjudged", "speed")
    lines = [head]
    for name, tally in {**summary["levels"], "all": summary["total"]}.items():
        speed = f"{tally['geomean']:.2f}x" if "geomean" in tally else "–"
        kinds = ("problems", "wholly", "partly", "not_converted", "verified", "failed", "cannot_verify")
        lines.append((name, *(str(tally[kind]) for kind in kinds), speed))
    widths = [max(len(line[column]) for line in lines) for column in range(len(head))]
    for line in lines:
        first, *others = (cell.rjust(width) for cell, width in zip(line, widths, strict=True))
        yield "  ".join([first.strip().ljust(widths[0]), *others]).rstrip()
    total = summary["total"]
    if total["codes"]:
        yield "why not: " + ", ".join(f"{code} {count}" for code, count in total["codes"].items())
    if "fast" in total:
        yield "of all problems, right and faster than eager by: " + ", ".join(
            f"{p}x {share:.0%}" for p, share in total["fast"].items()
        )
    if "pass_at" in total:
        yield "pass@k: " + ", ".join(f"{k}: {share:.0%}" for k, share in total["pass_at"].items())
    if "solved_within" in total:
        told = ", ".join(f"{minutes} min {share:.0%}" for minutes, share in total["solved_within"].items())
        yield f"solved within the budget: {total['solved']:.0%}; within {told}"
    if "repaired" in total:
        yield f"verified only after outdated imports were mended: {total['repaired']}"


def pass_at(samples: int, right: int, k: int) -> float:
    """Estimate without bias the chance that one of k samples is right, from `right` among `samples`."""
    return 1.0 - math.comb(samples - right, k) / math.comb(samples, k)


def natural(text: str) -> list[tuple[int, str]]:
    """Order names as people do: 2_relu before 10_gelu."""
    parts: list[tuple[int, str]] = []
    digits = ""
    for char in text + "\0":
        if char.isdecimal():
            digits += char
            continue
        if digits:
            parts.append((int(digits), ""))
            digits = ""
        parts.append((-1, char))
    return parts


def _code(result: Result) -> str:
    if result["error"]:
        return str(result["error"]["code"])
    return str((result["verdict"] or {}).get("code", ""))


def _speeds(results: Sequence[Result]) -> dict[str, Any]:
    timed = [
        result["verdict"]["timing"]["speedup"]
        for result in results
        if result["verdict"] and result["verdict"]["outcome"] == "pass" and result["verdict"]["timing"]
    ]
    if not timed:
        return {}
    return {
        "timed": len(timed),
        "geomean": math.exp(sum(map(math.log, timed)) / len(timed)),
        "fast": {str(p): sum(speed > p for speed in timed) / len(results) for p in FAST},
    }


def _pass_at(results: Sequence[Result]) -> dict[str, Any]:
    drawn = [[c["verdict"]["outcome"] == "pass" for c in r["candidates"] if _independent(c)] for r in results]
    k = max(map(len, drawn), default=0)
    drawn = [outcomes for outcomes in drawn if len(outcomes) == k]
    if k < 2:
        return {}
    ks = sorted({1, min(10, k), k})
    return {"pass_at": {str(n): sum(pass_at(k, sum(o), n) for o in drawn) / len(drawn) for n in ks}}


def _solved(results: Sequence[Result]) -> dict[str, Any]:
    """Count what was right at all, fixes included, and by when: beside pass@k, which knows only fresh samples."""
    if not any(len(result["candidates"]) > 1 for result in results):
        return {}
    solved = [
        min(c["seconds"] for c in result["candidates"] if c["verdict"]["outcome"] == "pass") / 60
        for result in results
        if any(c["verdict"]["outcome"] == "pass" for c in result["candidates"])
    ]
    longest = max(result["seconds"] for result in results) / 60
    points = [m for m in MINUTES if m < longest] + [m for m in MINUTES if m >= longest][:1]
    curve = {f"{m:g}": sum(minutes <= m for minutes in solved) / len(results) for m in points}
    return {"solved": len(solved) / len(results), "solved_within": curve}


def _repaired(results: Sequence[Result]) -> dict[str, Any]:
    """Count problems whose only verified kernels had to be mended."""
    right = [[c for c in r["candidates"] if c["verdict"]["outcome"] == "pass"] for r in results]
    mended = sum(bool(candidates) and all(c.get("repaired") for c in candidates) for candidates in right)
    return {"repaired": mended} if mended else {}


def _independent(candidate: dict[str, Any]) -> bool:
    """A fix, or a faster version, has seen an earlier candidate, so it is no sample."""
    return str(candidate["origin"]).startswith("candidate")
