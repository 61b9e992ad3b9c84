"""Other values and other sizes for a problem's inputs. Which of them a problem admits is found by trying, elsewhere."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor

from verifier.tree import flatten, map_tensors

MAX_DRAWS = 64  # calls of get_inputs; a dimension that grows farther meets the same values again
MANY = 2100  # elements that take more than two blocks of a usual size
LONG = 8200  # elements of a row that no usual block holds


def revalue(values: str, inputs: Any, seed: int) -> Any:
    """Change the floating point data of the inputs: negated, large, tiny, ties, special."""
    change = VALUES[values]

    def changed(tensor: Tensor) -> Tensor:
        if not _is_data(tensor):
            return tensor
        generator = torch.Generator().manual_seed(seed)
        new = change(tensor, generator)
        if any(step == 0 and size > 1 for step, size in zip(tensor.stride(), tensor.shape, strict=True)):
            return new  # an expanded tensor cannot be written element by element
        return tensor.copy_(new)  # in place: strides are part of the input

    return map_tensors(changed, inputs)


def _is_data(tensor: Tensor) -> bool:
    """Leave masks and one-hot codes alone: only real-valued data may be moved."""
    if not tensor.is_floating_point() or not tensor.numel():
        return False
    return bool(((tensor != 0) & (tensor != 1)).any())


def _special(tensor: Tensor, generator: torch.Generator) -> Tensor:
    """Put extreme values on a few places that are not zero: structure such as padding or a triangle stays."""
    specials = torch.tensor([0.0, -0.0, 89.0, -89.0, 1e4, -1e4], dtype=tensor.dtype, device=tensor.device)
    flat = tensor.reshape(-1).clone()
    if bool((flat >= 0).all()):
        specials = specials.abs()
    count = max(len(specials), min(flat.numel() // 64, 2**16))
    places = torch.randint(0, flat.numel(), (count,), generator=generator).to(tensor.device)
    places = places[flat[places] != 0]
    flat[places] = specials[torch.arange(len(places), device=tensor.device) % len(specials)]
    return flat.reshape(tensor.shape)


VALUES: dict[str, Callable[[Tensor, torch.Generator], Tensor]] = {
    "negated": lambda x, _: -x,
    "large": lambda x, _: x * 100,
    "tiny": lambda x, _: x * 1e-3,
    "ties": lambda x, _: torch.round(x * 4) / 4,
    "special": _special,
    "corners": lambda x, _: _with_corners(x),
}


def _with_corners(tensor: Tensor) -> Tensor:
    """Put fixed values first and last, where a fingerprint of the inputs would look."""
    flat = tensor.reshape(-1).clone()
    flat[0], flat[-1] = 0.4873, 0.2519  # no value that other cases have
    return flat.reshape(tensor.shape)


@dataclass(frozen=True)
class Resize:
    """Dimensions that change together: (tensor number, axis) pairs, and size -> times * size + plus."""

    places: tuple[tuple[int, int], ...]
    times: int
    plus: int

    def text(self) -> str:
        """Return the form kept in a Case."""
        return ",".join(f"{tensor}.{axis}" for tensor, axis in self.places) + f"={self.times}n{self.plus:+d}"

    @classmethod
    def parse(cls, text: str) -> Resize:
        """Read what `text` wrote."""
        places, _, rule = text.partition("=")
        times, _, plus = rule.partition("n")
        pairs = (place.split(".") for place in places.split(","))
        return cls(tuple((int(t), int(a)) for t, a in pairs), int(times), int(plus))

    def size(self, old: int) -> int:
        """Return the new size of a dimension."""
        return self.times * old + self.plus


def resize(sizes: str, inputs: Any, more: Iterator[Any]) -> Any:
    """Change sizes; new elements come from further draws of get_inputs, so that indices stay in range."""
    for text in sizes.split(";"):
        rule = Resize.parse(text)
        if rule.times == 0:  # nothing new is needed: the same part of every draw
            inputs, more = _joined(rule, inputs, []), map(partial(_joined, rule, draws=[]), more)
            continue
        shapes = [tensor.shape for tensor in flatten(inputs).tensors]
        most = max(-(-rule.size(shapes[t][a]) // shapes[t][a]) for t, a in rule.places)
        draws = [list(flatten(next(more)).tensors) for _ in range(min(most - 1, MAX_DRAWS))]
        inputs = _joined(rule, inputs, [draws[n % MAX_DRAWS] for n in range(most - 1)])
    return inputs


def _joined(rule: Resize, inputs: Any, draws: list[list[Tensor]]) -> Any:
    """Apply one rule to all tensors of a nested value, with other draws of them to go on with."""
    axes: dict[int, list[int]] = {}
    for number, axis in rule.places:
        axes.setdefault(number, []).append(axis)
    counter = iter(range(len(flatten(inputs).tensors)))

    def resized(tensor: Tensor) -> Tensor:
        number = next(counter)
        return _resized(tensor, [tensor, *(draw[number] for draw in draws)], axes.get(number, []), rule)

    return map_tensors(resized, inputs)


def _resized(tensor: Tensor, draws: list[Tensor], axes: list[int], rule: Resize) -> Tensor:
    for left, axis in reversed(list(enumerate(reversed(axes)))):
        size = rule.size(tensor.shape[axis])
        longer = [draw if draw.shape == draws[0].shape else draws[0] for draw in draws]
        wanted = range(len(longer) if left else 1)  # another axis needs as many long ones
        turns = [torch.cat(longer[i:] + longer[:i], axis) for i in wanted]
        draws = [turn.narrow(axis, 0, size).contiguous() for turn in turns]
        tensor = draws[0]
    return tensor


_ODD = (1, 1)
_KINDS: tuple[tuple[str, int, tuple[int, int]], ...] = (
    ("one row", 0, (0, 1)),
    ("odd", 0, _ODD),
    ("longer rows", -1, (2, 3)),  # beyond a block that just holds the given ones; odd, too
    ("larger", 0, (2, 3)),
    ("larger within", -2, (2, 3)),  # a sequence, an image's height
)
"""What is changed, along which axis, and how: size -> times * size + plus."""


def _others(axis: int) -> int:
    """Count the dimensions a tensor must have besides this one, so that it is not another kind's."""
    return {0: 0, -1: 1, -2: 2}[axis]


@dataclass(frozen=True)
class Way:
    """One way to change sizes: rules one after another, in the form kept in a Case, and in words."""

    sizes: str
    words: str


def size_rules(shapes: list[tuple[int, ...]], *, long: bool = True) -> list[list[Way]]:
    """List what may be tried, most telling first: each kind of change with its ways to group the dimensions.

    The first way that the reference accepts is used: a batch that all inputs share, every dimension of
    that size, then a single tensor's. With `long`, a single row is a very long one where that can be: not in
    products, where a row is a loop over tiles.
    """
    wanted = []
    for kind, axis, (times, plus) in _KINDS:
        lead = next((s for s in shapes if len(s) > _others(axis)), None)
        if lead is None or 0 in lead or (kind == "one row" and lead[axis] == 1):
            continue
        if (times, plus) == _ODD and lead[axis] % 2:
            plus = 2
        if kind == "larger":
            times = min(max(times, -(-MANY // math.prod(lead))), MANY)
        ways = [_way(kind, shapes, Resize(places, times, plus)) for places in _groups(shapes, axis)]
        wanted.append(_long_rows(shapes, ways) + ways if long and kind == "one row" else ways)
    return wanted


def _way(kind: str, shapes: list[tuple[int, ...]], rule: Resize, before: str = "") -> Way:
    tensor, axis = rule.places[0]
    old = shapes[tensor][axis]
    return Way(before + rule.text(), f"{kind}: size {old} -> {rule.size(old)}")


def _long_rows(shapes: list[tuple[int, ...]], ways: list[Way]) -> list[Way]:
    """Take one row and make it longer than any usual block: loops over a row turn more than once."""
    lead = next((s for s in shapes if len(s) > 1), None)
    if lead is None or not 1 < lead[-1] < LONG or math.prod(lead[1:]) > lead[-1] * 4:
        return []
    times = -(-LONG // lead[-1])
    longer = [Resize(places, times, 3) for places in _groups(shapes, -1)]
    return [_way("one long row", shapes, rule, way.sizes + ";") for way in ways[:1] for rule in longer]


def _groups(shapes: list[tuple[int, ...]], axis: int) -> Iterator[tuple[tuple[int, int], ...]]:
    first = next(n for n, shape in enumerate(shapes) if len(shape) > _others(axis))
    at = axis % len(shapes[first])
    size = shapes[first][at]
    same_axis = [(n, axis % len(s)) for n, s in enumerate(shapes) if len(s) >= max(1, -axis) and s[axis] == size]
    anywhere = [(n, a) for n, s in enumerate(shapes) for a, length in enumerate(s) if length == size]
    seen: set[tuple[tuple[int, int], ...]] = set()
    for places in (tuple(same_axis), tuple(anywhere), ((first, at),)):
        if places not in seen:
            seen.add(places)
            yield places
