"""How a returned value is nested, and what is in it besides tensors."""

from __future__ import annotations

from dataclasses import dataclass

from verifier.tree import Spec, walk


@dataclass(frozen=True)
class Finding:
    """One thing that is wrong: a code of the verdict contract and a line a person can act on."""

    code: str
    message: str


def compare_structure(expected: Spec, actual: Spec, root: str) -> Finding | None:
    """Judge how values are nested, and everything in them that is not a tensor."""
    wanted, got = dict(walk(expected, root)), dict(walk(actual, root))
    if _containers(expected) != _containers(actual) or wanted.keys() != got.keys():
        return Finding("structure_mismatch", f"the module returns {describe(expected)}, the kernel {describe(actual)}")
    for path, node in wanted.items():
        other = got[path]
        if node["kind"] != other["kind"]:
            return Finding("structure_mismatch", f"{path} should be {describe(node)}, it is {describe(other)}")
        if node["kind"] == "scalar" and not _same_scalars(node, other):
            return Finding("value_mismatch", f"{path} should be {node['value']}, it is {other.get('value')}")
        if node["kind"] == "other" and node["name"] != other.get("name"):
            return Finding("structure_mismatch", f"{path} should be a {node['name']}, it is a {other['name']}")
    return None


def _containers(spec: Spec) -> object:
    """Return the nesting alone; the order of a dictionary's keys does not count."""
    if "items" not in spec:
        return None
    inner = [_containers(item) for item in spec["items"]]
    keys = spec.get("keys")
    return spec["kind"], spec.get("name"), dict(zip(keys, inner, strict=True)) if keys is not None else inner


def _same_scalars(expected: Spec, actual: Spec) -> bool:
    if (expected["type"], expected["value"]) == (actual.get("type"), actual.get("value")):
        return True
    if expected["type"] != "float" or actual.get("type") != "float":
        return False
    wanted, got = float(expected["value"]), float(actual["value"])
    return wanted == got or abs(wanted - got) <= 2e-5 * abs(wanted)


def describe(spec: Spec) -> str:
    """Say in words what a structure is."""
    kind = spec["kind"]
    if kind in ("tuple", "list"):
        return f"a {kind} of {len(spec['items'])}"
    if kind == "dict":
        return f"a dict with keys {', '.join(spec['keys'][:6])}"
    if kind in ("record", "other"):
        return f"a {spec['name']}"
    return {"none": "None", "tensor": "a tensor"}.get(kind) or f"the {spec.get('type')} {spec.get('value')}"
