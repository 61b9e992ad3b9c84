"""Puts a Memory between Triton's interpreter and the process's memory: loads, stores, atomics, and the grid's order."""

from __future__ import annotations

from typing import Any

import numpy as np

from verifier.interpreter.memory import Memory

_NAN_BITS = 0x7FC0  # of a bfloat16


def install(memory: Memory) -> None:
    """Patch the interpreter of this process."""
    from triton.runtime import interpreter as it

    _install_loads(it, memory)
    _install_stores(it, memory)
    _install_atomics(it, memory)
    _install_dot(it, memory)
    _install_grid(it, memory)


def _everything(it: Any, pointers: Any) -> Any:
    return it.TensorHandle(np.ones(pointers.data.shape, dtype=bool), it.tl.int1)


def _install_loads(it: Any, memory: Memory) -> None:
    builder, raw = it.InterpreterBuilder, it._interpreter

    def masked_load(b: Any, ptrs: Any, mask: Any, other: Any, *rest: Any, **named: Any) -> Any:
        element = ptrs.get_element_ty()
        dtype = it._get_np_dtype(element)
        lanes = np.broadcast_to(mask.data, ptrs.data.shape)
        memory.load(ptrs.data, lanes, dtype.itemsize)
        filler = other.data if other is not None else memory.other(lanes, dtype)
        if other is None and memory.fill_undefined and element == it.tl.bfloat16:
            filler = np.full(lanes.shape, _NAN_BITS, dtype=dtype)
        return it.TensorHandle(raw.load(ptrs.data, mask.data, filler, dtype), element)

    def load(b: Any, ptr: Any, *rest: Any, **named: Any) -> Any:
        return masked_load(b, ptr, _everything(it, ptr), None)

    builder.create_masked_load, builder.create_load = masked_load, load


def _install_stores(it: Any, memory: Memory) -> None:
    builder, raw = it.InterpreterBuilder, it._interpreter

    def masked_store(b: Any, ptrs: Any, value: Any, mask: Any, *rest: Any, **named: Any) -> Any:
        def changes() -> bool:
            kind = value.data.dtype
            now = raw.load(ptrs.data, mask.data, np.zeros(ptrs.data.shape, kind), kind)
            lanes = np.broadcast_to(mask.data, now.shape)
            new = np.ascontiguousarray(np.broadcast_to(value.data, now.shape))
            return bool(now[lanes].tobytes() != new[lanes].tobytes())

        memory.store(ptrs.data, value.data, mask.data, changes)
        return raw.store(ptrs.data, value.data, mask.data)

    def store(b: Any, ptr: Any, value: Any, *rest: Any, **named: Any) -> Any:
        return masked_store(b, ptr, value, _everything(it, ptr))

    builder.create_masked_store, builder.create_store = masked_store, store


def _install_atomics(it: Any, memory: Memory) -> None:
    builder = it.InterpreterBuilder
    exchange, update = builder.create_atomic_cas, builder.create_atomic_rmw

    def cas(b: Any, ptr: Any, cmp: Any, val: Any, *rest: Any) -> Any:
        memory.atomic(ptr.data, np.ones(ptr.data.shape, dtype=bool), val.data.itemsize)
        return exchange(b, ptr, cmp, val, *rest)

    def rmw(b: Any, op: Any, ptr: Any, val: Any, mask: Any, *rest: Any) -> Any:
        memory.atomic(ptr.data, mask.data, val.data.itemsize)
        return update(b, op, ptr, val, mask, *rest)

    builder.create_atomic_cas, builder.create_atomic_rmw = cas, rmw


def _install_dot(it: Any, memory: Memory) -> None:
    """Note products that are exact here and rounded on a GPU."""
    builder = it.InterpreterBuilder
    dot = builder.create_dot

    def create_dot(b: Any, left: Any, right: Any, acc: Any, precision: Any, *rest: Any) -> Any:
        if (
            left.dtype.scalar == it.tl.float32
            and precision == it._ir.INPUT_PRECISION.TF32
            and memory.rounded_dot is None
        ):
            memory.rounded_dot = memory.line() or 0
        return dot(b, left, right, acc, precision, *rest)

    builder.create_dot = create_dot


def _install_grid(it: Any, memory: Memory) -> None:
    builder = it.InterpreterBuilder
    place = builder.set_grid_idx

    def set_grid_idx(b: Any, x: int, y: int, z: int) -> None:
        memory.next_program()
        if memory.reverse:
            x, y, z = (size - 1 - at for size, at in zip(b.grid_dim, (x, y, z), strict=True))
        place(b, x, y, z)

    builder.set_grid_idx = set_grid_idx
