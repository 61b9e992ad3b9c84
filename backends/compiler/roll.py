"""Statements that repeat one after the other become a loop: over the layers of a list, or the steps of a sequence.

A round may read what is the same for all, what it has made itself, what the round before has made, and numbers that
count along with it. What every round leaves for later is collected in a list.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace

from backends.compiler.rounds import WORDS, Rounds, Shape, agreeing, shape
from backends.compiler.script import Line, Loop, Step, Tokens, renamed, tokens_in

LONGEST = 60
"""Statements that a round may have."""
LEAST = 2
"""Statements that a loop must save."""
FEWEST = 4
"""Rounds that a loop must have whose numbers skip some: fewer are easier to read one by one."""
MOST_CARRIED = 2
"""Tensors that a round may leave to the next, as h and c of an LSTM."""


def rolled(
    lines: Sequence[Line],
    tokens: Tokens,
    lengths: Mapping[str, int],
    reads: re.Pattern[str],
    taken: set[str],
    needed: Collection[str] = (),
) -> list[Step]:
    """Write loops for what repeats, the one that saves most first.

    `lengths` counts the layers of lists; `taken` are names that no loop may use, `needed` tensors that are read
    elsewhere.
    """
    shapes = [shape(line, reads) for line in lines]
    for first, period in _places(shapes):
        rounds = agreeing(shapes, first, period)
        if rounds is None or (rounds.count - 1) * period < LEAST:
            continue
        if max(rounds.steps, default=0) > 1 and rounds.count < FEWEST:
            continue
        found = _Roll(list(lines), first, period, rounds, tokens, reads).write(lengths, taken, needed)
        if found is not None:
            before, loop, after = found
            later = {token for line in [*loop.body, *after] for token in tokens_in(line.text, reads)}
            begin = rolled(before, tokens, lengths, reads, taken, {*needed, *later})
            return [*begin, loop, *rolled(after, tokens, lengths, reads, taken, needed)]
    return list(lines)


def _places(shapes: Sequence[Shape]) -> Iterator[tuple[int, int]]:
    """Find where a run of statements is followed by one of the same form, the longest repetition first."""
    found = []
    for period in range(1, min(LONGEST, len(shapes) // 2) + 1):
        same = [shapes[at].skeleton == shapes[at + period].skeleton for at in range(len(shapes) - period)]
        at = 0
        while at < len(same):
            end = at
            while end < len(same) and same[end]:
                end += 1
            if end - at >= period:
                found += [(-(end - at), period, start) for start in range(at, min(at + period, end - period + 1))]
            at = end + 1
    yield from ((start, period) for _, period, start in sorted(found))


class _Roll:
    """Writes one loop: the statements before it, the loop, and those behind it."""

    def __init__(
        self, lines: list[Line], first: int, period: int, rounds: Rounds, tokens: Tokens, reads: re.Pattern[str]
    ) -> None:
        self.rounds, self.tokens, self.reads = rounds, tokens, reads
        end = first + period * rounds.count
        self.before, self.after = lines[:first], lines[end:]
        self.inside = [lines[first + period * at : first + period * (at + 1)] for at in range(rounds.count)]
        self.made = [[result for line in inside for result in line.results] for inside in self.inside]
        self.initial = dict(zip(range(len(rounds.reads)), self._read(0), strict=True))

    def _read(self, at: int) -> list[str]:
        return [match[0] for line in self.inside[at] for match in self.reads.finditer(line.text)]

    def write(
        self, lengths: Mapping[str, int], taken: set[str], needed: Collection[str]
    ) -> tuple[list[Line], Loop, list[Line]] | None:
        """Return all three; None where something a round makes is needed later in a way that no list serves."""
        if any(token in needed for made in self.made for token in made):
            return None
        collected = self._collected()
        if collected is None:
            return None
        body, carried, starts = self._body()
        if self._is_cut(carried):
            return None
        variable, over, body = self._counted(body, lengths, taken)
        lists = [Line("[]", (name,)) for name in collected.values()]
        own = self.made[0]
        body += [Line(f"{name}.append({carried.get(own[at], own[at])})") for at, name in collected.items()]
        ends = {self.made[-1][at]: carried.get(token, token) for at, token in enumerate(own) if token != "_"}
        after = [renamed(line, ends) for line in self.after]
        before = [*self.before, *(Line(start, (name,)) for name, start in starts.items()), *lists]
        return before, Loop(variable, over, tuple(body), carried=tuple(starts)), after

    # ---- what is read behind the loop -----------------------------------------------------------

    def _collected(self) -> dict[int, str] | None:
        """Find the results that are needed of every round: they must be read one after the other, as in a stack."""
        read_later = {token for line in self.after for token in tokens_in(line.text, self.reads)}
        found: dict[int, str] = {}
        for at in range(len(self.made[0])):
            each = [made[at] for made in self.made]
            if not read_later & set(each[:-1]):
                continue
            run = ", ".join(each)
            places = [index for index, line in enumerate(self.after) if set(tokens_in(line.text)) & set(each[:-1])]
            if len(places) != 1 or self.after[places[0]].text.count(run) != 1:
                return None
            line = self.after[places[0]]
            if set(tokens_in(line.text.replace(run, ""))) & set(each[:-1]):
                return None
            found[at] = self.tokens.new([f"{self.tokens.wishes[each[0]][0]}s", "results"])
            text = re.sub(rf"(?<![\w\]])\({run}\)", f"tuple({found[at]})", line.text)
            text = text.replace(f"[{run}]", found[at]).replace(run, f"*{found[at]}")
            self.after[places[0]] = replace(line, text=text)
        return found

    def _is_cut(self, carried: Mapping[str, str]) -> bool:
        """Tell whether a round ends in the middle of something: much of what it makes is needed after it."""
        if len(carried) > MOST_CARRIED:
            return True
        read_later = {token for line in self.after for token in tokens_in(line.text, self.reads)}
        own = [last for first, last in zip(self.made[0], self.made[-1], strict=True) if first not in carried]
        return len(read_later & set(own)) > 1

    # ---- the body -------------------------------------------------------------------------------

    def _body(self) -> tuple[list[Line], dict[str, str], dict[str, str]]:
        """Write a round: (its lines, the names of results that the next round reads, what those are at the start)."""
        own = self.made[0]
        starts: dict[str, str] = {}  # what is read in the first round → the name of it
        reached: dict[tuple[int, str], str] = {}
        for at, (how, number) in enumerate(self.rounds.reads):
            start = self.initial[at]
            if how == "carried" and (number, start) not in reached:
                wishes = [*self.tokens.wishes.get(start, (start,)), *self.tokens.wishes[own[number]]]
                reached[number, start] = self.tokens.new(wishes, self.tokens.values.get(own[number]))
        body, place = [], 0
        for line in self.inside[0]:
            named = iter(self._names(place, reached))
            text = self.reads.sub(lambda match: next(named), line.text)  # noqa: B023
            place += len(self.reads.findall(line.text))
            body.append(replace(line, text=text))
        carried: dict[str, str] = {}
        for (number, start), name in reached.items():
            if own[number] not in carried and self._is_free(body, own[number], name):
                carried[own[number]] = name
            else:
                body.append(Line(own[number], (name,)))
            starts[name] = start
        return [renamed(line, carried) for line in body], carried, starts

    def _names(self, place: int, reached: Mapping[tuple[int, str], str]) -> Iterator[str]:
        for at in range(place, len(self.rounds.reads)):
            how, number = self.rounds.reads[at]
            yield reached[number, self.initial[at]] if how == "carried" else self.initial[at]

    def _is_free(self, body: list[Line], made: str, name: str) -> bool:
        """Tell whether nothing reads the old value once the new one is there."""
        at = next(index for index, line in enumerate(body) if made in line.results)
        return not any(name in tokens_in(line.text) for line in body[at + 1 :])

    # ---- the numbers that count -----------------------------------------------------------------

    def _counted(self, body: list[Line], lengths: Mapping[str, int], taken: set[str]) -> tuple[str, str, list[Line]]:
        """Say over what the loop runs, and write its variable for the numbers that grow."""
        first = [number for line in self.inside[0] for number in shape(line, self.reads).numbers]
        growing = {at: start for at, start in enumerate(first) if self.rounds.steps[at]}
        if not growing:
            return "_", f"range({self.rounds.count})", body
        base, step = min(growing.values()), max(self.rounds.steps)
        if (layers := self._layers(body, growing, step, lengths, taken)) is not None:
            return layers
        end = base + step * self.rounds.count
        bounds = [*([str(base)] if base or step > 1 else []), str(end - step + 1 if step > 1 else end)]
        over = f"range({', '.join([*bounds, *([str(step)] if step > 1 else [])])})"
        variable = next(name for name in ("i", "j", "index", "step", "round_number") if name not in taken)
        texts = {at: f"{variable} + {start - base}" if start > base else variable for at, start in growing.items()}
        return variable, over, _numbered(body, texts, self.reads)

    def _layers(
        self, body: list[Line], growing: Mapping[int, int], step: int, lengths: Mapping[str, int], taken: set[str]
    ) -> tuple[str, str, list[Line]] | None:
        """Loop over the layers of a list where every number that grows is the place of one there."""
        if step != 1 or len(set(growing.values())) != 1:
            return None
        marked = _numbered(body, dict.fromkeys(growing, "<layer>"), self.reads)
        found = {match[1] for line in marked for match in re.finditer(r"([\w.\[\]]*)\[<layer>\]", line.text)}
        if len(found) != 1 or sum(line.text.count("<layer>") for line in marked) != sum(
            line.text.count(f"{next(iter(found))}[<layer>]") for line in marked
        ):
            return None
        holder, start = next(iter(found)), next(iter(growing.values()))
        if holder not in lengths:
            return None
        end = start + self.rounds.count
        word = re.sub(r"\d+$", "", re.findall(r"[A-Za-z_]\w*", holder)[-1]).removesuffix("s")
        free = (name for name in (word, "layer", "block", "module") if name and name not in taken)
        word = next(free, "the_layer")
        is_last = lengths.get(holder) == end
        cut = "" if is_last and not start else f"[{start or ''}:{'' if is_last else end}]"
        lines = [replace(line, text=line.text.replace(f"{holder}[<layer>]", word)) for line in marked]
        return word, holder + cut, lines


def _numbered(body: list[Line], texts: Mapping[int, str], reads: re.Pattern[str]) -> list[Line]:
    """Write texts for some of the whole numbers of a round, counted through it."""
    place, lines = 0, []
    for line in body:

        def written(match: re.Match[str]) -> str:
            nonlocal place
            if not match["integer"]:
                return match[0]
            place += 1
            text = texts.get(place - 1, match[0])
            is_alone = " " not in text or match.string[match.start() - 1] + match.string[match.end()] == "[]"
            return text if is_alone else f"({text})"

        lines.append(replace(line, text=re.sub(rf"{reads.pattern}|{WORDS.pattern}", written, line.text)))
    return lines
