"""bfloat16 in Triton's interpreter: kept as raw uint16 bits there, and computed on as if they were integers.

Here every operation on bfloat16 goes through float32 and rounds back to nearest even, as a GPU does.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

Array = np.ndarray[Any, np.dtype[Any]]


def to_float32(bits: Array) -> Array:
    """Widen bfloat16 bits."""
    return (np.ascontiguousarray(bits).astype(np.uint32) << 16).view(np.float32)


def to_bfloat16(values: Array, truncate: bool = False) -> Array:
    """Round float32 to bfloat16 bits: to nearest even, or towards zero."""
    wide = np.ascontiguousarray(values, dtype=np.float32)
    bits = wide.view(np.uint32)
    if not truncate:
        bits = bits + ((bits >> np.uint32(16)) & np.uint32(1)) + np.uint32(0x7FFF)
    return np.where(np.isnan(wide), np.uint16(0x7FC0), (bits >> np.uint32(16)).astype(np.uint16)).astype(np.uint16)


def repair() -> None:
    """Patch the arithmetic, casts, dot products, reductions and atomics of the interpreter."""
    from triton.runtime import interpreter as it

    _repair_arithmetic(it)
    _repair_casts(it)
    _repair_dot(it)
    _repair_reductions(it)
    _repair_atomics(it)


def _is_bf16(it: Any, handle: Any) -> bool:
    return bool(handle.dtype.scalar == it.tl.bfloat16) and handle.data.dtype == np.uint16


def _wide(it: Any, handle: Any) -> Any:
    """A float32 twin of a bfloat16 handle; others as they are."""
    return it.TensorHandle(to_float32(handle.data), it.tl.float32) if _is_bf16(it, handle) else handle


def _narrow(it: Any, result: Any) -> Any:
    if result.data.dtype == np.bool_:  # a comparison
        return it.TensorHandle(result.data, it.tl.int1)
    return it.TensorHandle(to_bfloat16(result.data), it.tl.bfloat16)


def _repair_arithmetic(it: Any) -> None:
    builder = it.InterpreterBuilder

    def wrapped(original: Callable[..., Any], operands: int) -> Callable[..., Any]:
        def operation(b: Any, *args: Any) -> Any:
            handles, rest = args[:operands], args[operands:]
            if not any(_is_bf16(it, handle) for handle in handles) or rest[-1:] == (np.where,):
                return original(b, *args)
            return _narrow(it, original(b, *(_wide(it, handle) for handle in handles), *rest))

        return operation

    builder.unary_op = wrapped(builder.unary_op, 1)
    builder.binary_op = wrapped(builder.binary_op, 2)
    builder.ternary_op = wrapped(builder.ternary_op, 3)
    builder.create_fma = wrapped(builder.create_fma, 3)
    for name in ("create_rsqrt", "create_erf"):
        setattr(builder, name, wrapped(getattr(builder, name), 1))


def _repair_casts(it: Any) -> None:
    builder, tl = it.InterpreterBuilder, it.tl
    cast, convert = builder.cast_impl, builder.create_fp_to_fp

    def through_float32(b: Any, src: Any, dst_type: Any, truncate: bool) -> Any:
        source, target = src.dtype.scalar, dst_type.scalar
        if source == target:
            return it.TensorHandle(src.data.copy(), target)
        if target == tl.bfloat16:
            return it.TensorHandle(to_bfloat16(src.data.astype(np.float32), truncate), target)
        return it.TensorHandle(to_float32(src.data).astype(it._get_np_dtype(target)), target)

    def concerns(src: Any, dst_type: Any) -> bool:
        sides = (src.dtype.scalar, dst_type.scalar)
        return tl.bfloat16 in sides and all(side.primitive_bitwidth > 8 or not side.is_floating() for side in sides)

    def cast_impl(b: Any, src: Any, dst_type: Any) -> Any:
        return through_float32(b, src, dst_type, False) if concerns(src, dst_type) else cast(b, src, dst_type)

    def create_fp_to_fp(b: Any, src: Any, dst_type: Any, rounding_mode: Any) -> Any:
        if not concerns(src, dst_type):
            return convert(b, src, dst_type, rounding_mode)
        return through_float32(b, src, dst_type, rounding_mode == it._ir.ROUNDING_MODE.RTZ)

    builder.cast_impl, builder.create_fp_to_fp = cast_impl, create_fp_to_fp
    builder.get_bf16 = lambda b, value: it.TensorHandle(to_bfloat16(np.array([value], dtype=np.float32)), tl.bfloat16)


def _repair_dot(it: Any) -> None:
    builder = it.InterpreterBuilder
    dot = builder.create_dot

    def create_dot(b: Any, left: Any, right: Any, acc: Any, *rest: Any) -> Any:
        result = dot(b, _wide(it, left), _wide(it, right), _wide(it, acc), *rest)
        return _narrow(it, result) if _is_bf16(it, acc) else result

    builder.create_dot = create_dot


def _repair_reductions(it: Any) -> None:
    tl = it.tl

    def widened(value: Any) -> Any:
        if not _is_bf16(it, value.handle):
            return value
        kind = tl.block_type(tl.float32, list(value.shape)) if value.type.is_block() else tl.float32
        return tl.core.tensor(_wide(it, value.handle), kind)

    def narrowed(value: Any) -> Any:
        if value.dtype != tl.float32:
            return value
        kind = tl.block_type(tl.bfloat16, list(value.shape)) if value.type.is_block() else tl.bfloat16
        return tl.core.tensor(_narrow(it, value.handle), kind)

    def wrapped(original: Callable[..., Any]) -> Callable[..., Any]:
        def apply(operation: Any, value: Any) -> Any:
            values = value if isinstance(value, tuple) else (value,)
            half = [_is_bf16(it, item.handle) for item in values]
            if not any(half):
                return original(operation, value)
            done = original(operation, tuple(widened(item) for item in values))
            done = tuple(narrowed(item) if was else item for item, was in zip(done, half, strict=False))
            return done if isinstance(value, tuple) else done[0]

        return apply

    it.ReduceScanOpInterface.apply = wrapped(it.ReduceScanOpInterface.apply)


def _repair_atomics(it: Any) -> None:
    builder, raw = it.InterpreterBuilder, it._interpreter
    update = builder.create_atomic_rmw
    operations = {it._ir.ATOMIC_OP.FADD: np.add, it._ir.ATOMIC_OP.MAX: np.maximum, it._ir.ATOMIC_OP.MIN: np.minimum}

    def create_atomic_rmw(b: Any, op: Any, ptr: Any, val: Any, mask: Any, *rest: Any) -> Any:
        if not _is_bf16(it, val) or op not in operations:
            return update(b, op, ptr, val, mask, *rest)
        old = np.zeros(ptr.data.shape, dtype=np.uint16)
        one = np.ones(1, dtype=bool)
        for at in np.ndindex(ptr.data.shape):  # one lane after another: lanes may share an address
            if mask.data[at]:
                address = ptr.data[at].reshape(1)
                old[at] = raw.load(address, one, np.zeros(1, np.uint16), np.dtype(np.uint16))[0]
                new = operations[op](to_float32(old[at].reshape(1)), to_float32(val.data[at].reshape(1)))
                raw.store(address, to_bfloat16(new), one)
        return it.TensorHandle(old, it.tl.bfloat16)

    builder.create_atomic_rmw = create_atomic_rmw
