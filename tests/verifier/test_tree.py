"""Nested values survive being taken apart, walked and rebuilt."""

from __future__ import annotations

import json
from collections import OrderedDict
from dataclasses import dataclass

import torch

from verifier.tree import flatten, map_tensors, paths


@dataclass(frozen=True)
class Out:
    """A structured result."""

    values: torch.Tensor
    names: tuple[str, ...]


def test_the_structure_is_json_and_names_every_tensor() -> None:
    """Paths read as the person would write them."""
    value = {"a": [torch.ones(1), (torch.ones(2), None)], "out": Out(torch.ones(3), ("x",))}
    tree = flatten(value)
    assert json.loads(json.dumps(tree.spec)) == tree.spec
    assert paths(tree.spec) == ["output['a'][0]", "output['a'][1][0]", "output['out'].values"]
    assert [t.numel() for t in tree.tensors] == [1, 2, 3]


def test_tensors_are_replaced_in_place_of_the_old_ones() -> None:
    """Containers keep their types."""
    value = (torch.ones(2), [OrderedDict(x=torch.ones(3)), Out(torch.ones(1), ()), 5, None])
    doubled = map_tensors(lambda t: t * 2, value)
    assert isinstance(doubled, tuple) and isinstance(doubled[1][0], OrderedDict) and isinstance(doubled[1][1], Out)
    assert [float(t.sum()) for t in flatten(doubled).tensors] == [4.0, 6.0, 2.0]


def test_a_lying_scalar_is_read_as_its_plain_type() -> None:
    """A float subclass with a friendly repr gives away its value."""

    class Liar(float):
        def __repr__(self) -> str:
            return "1.0"

    assert flatten(Liar(2.0)).spec == {"kind": "scalar", "type": "float", "value": "2.0"}
