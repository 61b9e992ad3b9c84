"""Matrix products: tiles on the tensor cores, the elementwise tail applied before the result is stored.

Operands are read by their strides, so a transposition is an index map and never a copy.
"""

from __future__ import annotations

from textwrap import indent

import torch

from backends.compiler.axes import presence
from backends.compiler.body import wishes
from backends.compiler.fuse import Group
from backends.compiler.ir import MatMul, Pointwise, Value
from backends.compiler.kernel import NAME, TAB, KernelText, docstring, formula, shape_checks, signature
from backends.compiler.naming import chain
from backends.compiler.text import Writer

RESERVED = [
    "M", "N", "K", "batch", "tile_m", "tile_n", "first_m", "rows", "row", "column", "k", "a", "b", "acc", "inside",
    "stride_am", "stride_ak", "stride_bk", "stride_bn", "stride_ab", "stride_bb", "a_ptr", "b_ptr", "n_batches",
]


def write(group: Group) -> KernelText:
    """Write one product with its tail."""
    return Product(group).kernel()


class Product:
    """The text of one matrix product and its launcher."""

    def __init__(self, group: Group) -> None:
        self.group = group
        op = group.ops[0]
        assert isinstance(op, MatMul)
        self.op = op
        self.signature = signature(group, RESERVED)
        self.batched = len(op.out.shape) > 2 and not self._weights_are_shared()
        self.names: dict[Value, str] = {op.out: "acc"}
        self.writer = Writer(self.names, self.signature.scalars, {2: "row", 1: "column"})

    def _weights_are_shared(self) -> bool:
        """One matrix b for every leading index of a: then a is one tall matrix."""
        return len(self.op.b.shape) == 2

    def kernel(self) -> KernelText:
        name = NAME
        tail = self._tail()
        return KernelText(
            chain(self.group.steps), self._kernel_text(name, tail), self._launcher_text(name),
            tuple(self.signature.operands), tuple(self.signature.scalars),
            tuple(self.signature.results), tuple(self.writer.helpers), "matmul",
        )

    # ---- the tail -------------------------------------------------------------------------------

    def _tail(self) -> list[str]:
        lines: list[str] = []
        for op in self.group.ops[1:]:
            assert isinstance(op, Pointwise)
            for value in op.inputs:
                if value not in self.names:
                    lines.append(self._load(value))
            text = self.writer.write(op.expr)
            self.names[op.out] = self._name(op)
            lines.append(f"{self.names[op.out]} = {text}")
        return lines

    def _name(self, op: Pointwise) -> str:
        if op.out in self.signature.results:
            return self.signature.results[op.out]
        return self.signature.names.unused(*wishes(op, self.group))

    def _load(self, value: Value) -> str:
        name = self.signature.operands[value]
        local = self.names[value] = name if name not in ("a", "b") else f"{name}_tile"
        where, mask = self._place(value)
        half = value.dtype in (torch.float16, torch.bfloat16)
        widen = ".to(tl.float32)" if half else ".to(tl.int1)" if value.dtype == torch.bool else ""
        guard = f", mask={mask}, other=0" if mask else ""
        return f"{local} = tl.load({name}_ptr{where}{guard}){widen}"

    def _place(self, value: Value) -> tuple[str, str]:
        """Address of an operand of the tail: the whole result, one number a column, a row, or one in all."""
        has = presence(value.shape, self.op.out.shape)
        lead, row, column = any(has[:-2]), has[-2], has[-1]
        whole = self._is_whole(value)
        if whole:
            return " + (batch * M + row) * N + column" if self.batched else " + row * N + column", "inside"
        if self.batched and lead and not self._leads_wholly(has):
            raise ValueError("an operand of the tail that has some of the batch dimensions")
        batch = "batch" if self.batched and lead else ""
        if not self.batched and (lead or row) and not (self._rows_wholly(has)):
            raise ValueError("an operand of the tail that has some of the row dimensions")
        row = row or (lead and not self.batched)
        parts = [(batch, ""), ("row" if row else "", "M"), ("column" if column else "", "N")]
        text = ""
        for part, size in parts:
            if part:
                text = f"({text}) * {size} + {part}" if " " in text else f"{text} * {size} + {part}" if text else part
        mask = "inside" if row and column else "row < M" if row else "column < N" if column else ""
        return (f" + {text}" if text else ""), mask

    def _is_whole(self, value: Value) -> bool:
        return value.shape == self.op.out.shape

    def _leads_wholly(self, has: tuple[bool, ...]) -> bool:
        return all(h or size.hint == 1 for h, size in zip(has[:-2], self.op.out.shape[:-2], strict=True))

    def _rows_wholly(self, has: tuple[bool, ...]) -> bool:
        return all(h or size.hint == 1 for h, size in zip(has[:-1], self.op.out.shape[:-1], strict=True))

    # ---- the kernel -----------------------------------------------------------------------------

    def _kernel_text(self, name: str, tail: list[str]) -> str:
        a, b = self.signature.operands[self.op.a], self.signature.operands[self.op.b]
        pointers = [f"{n}_ptr" for n in [*self.signature.operands.values(), *self.signature.results.values()]]
        strides = ["stride_am", "stride_ak", "stride_bk", "stride_bn"]
        if self.batched:
            strides += ["stride_ab", "stride_bb"]
        scalars = list(self.signature.scalars.values())
        header = "\n".join(
            f"{TAB}{line},"
            for line in (
                ", ".join(pointers), ", ".join(["M, N, K", *strides, *scalars]),
                "BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, GROUP_M: tl.constexpr",
            )
        )
        doc = docstring(self.group, f"{formula(self.group)}: [M, K] times [K, N], the tail on the accumulator.")
        body = indent("\n".join(self._lines(a, b, tail)), TAB)
        return f"@triton.jit\ndef {name}_kernel(\n{header}\n):\n{doc}\n{body}\n"

    def _lines(self, a: str, b: str, tail: list[str]) -> list[str]:
        single = self.op.a.dtype == torch.float32
        precision = ', input_precision="tf32x3"' if single else ""
        note = "  # three TF32 products: as exact as float32" if single else ""
        base_a, base_b = f"{a}_ptr", f"{b}_ptr"
        batch = []
        if self.batched:
            batch = ["batch = tl.program_id(1).to(tl.int64)"]
            base_a, base_b = f"{a}_ptr + batch * stride_ab", f"{b}_ptr + batch * stride_bb"
        stores = [
            f"tl.store({self.signature.results[value]}_ptr + {'(batch * M + row) * N' if self.batched else 'row * N'}"
            f" + column, {self.names[value]}, mask=inside)"
            for value in self.group.outputs
        ]
        return [
            *batch,
            "# neighbouring programs take tiles below each other, so that they find b's columns in the L2 cache",
            "tile_rows, tile_columns = tl.cdiv(M, BLOCK_M), tl.cdiv(N, BLOCK_N)",
            "pid = tl.program_id(0)",
            "first_m = pid // (GROUP_M * tile_columns) * GROUP_M",
            "rows = min(tile_rows - first_m, GROUP_M)",
            "tile_m = first_m + pid % (GROUP_M * tile_columns) % rows",
            "tile_n = pid % (GROUP_M * tile_columns) // rows",
            "row = (tile_m * BLOCK_M + tl.arange(0, BLOCK_M)).to(tl.int64)[:, None]  # int64: M * N may pass 2**31",
            "column = (tile_n * BLOCK_N + tl.arange(0, BLOCK_N)).to(tl.int64)[None, :]",
            "k = tl.arange(0, BLOCK_K)",
            f"a_tile = {base_a} + row * stride_am + k[None, :] * stride_ak",
            f"b_tile = {base_b} + k[:, None] * stride_bk + column * stride_bn",
            "",
            "acc = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)",
            "for start in range(0, K, BLOCK_K):",
            f"{TAB}a = tl.load(a_tile, mask=(row < M) & (k[None, :] < K - start), other=0.0)",
            f"{TAB}b = tl.load(b_tile, mask=(k[:, None] < K - start) & (column < N), other=0.0)",
            f"{TAB}acc = tl.dot(a, b, acc{precision}){note}",
            f"{TAB}a_tile += BLOCK_K * stride_ak",
            f"{TAB}b_tile += BLOCK_K * stride_bk",
            "",
            "inside = (row < M) & (column < N)",
            *tail,
            *stores,
        ]

    # ---- the launcher ---------------------------------------------------------------------------

    def _launcher_text(self, name: str) -> str:
        operands, results = self.signature.operands, self.signature.results
        a, b = operands[self.op.a], operands[self.op.b]
        others = {v: n for v, n in operands.items() if v not in (self.op.a, self.op.b) and not v.dense}
        lines = [f"{n} = {n}.contiguous()" for n in others.values()]
        k_dim = -1 if self.op.b_is_nk else -2
        lines += [
            f"if {a}.shape[-1] != {b}.shape[{k_dim}]:",
            f'{TAB}raise ValueError(f"cannot multiply {{tuple({a}.shape)}} by {{tuple({b}.shape)}}")',
        ]
        n_dim = -2 if self.op.b_is_nk else -1
        # the operands are read by strides: a's leading dimensions count as rows, or both become one batch
        if self.batched:
            lines += [
                f"batch = torch.broadcast_shapes({a}.shape[:-2], {b}.shape[:-2])",
                f"shape = (*batch, {a}.shape[-2], {b}.shape[{n_dim}])",
                f"left = {a}.expand(*batch, -1, -1).flatten(0, -3)",
                f"right = {b}.expand(*batch, -1, -1).flatten(0, -3)",
            ]
        else:
            lines += [
                f"shape = (*{a}.shape[:-1], {b}.shape[{n_dim}])",
                f"left, right = {a}.flatten(0, -2), {b}",
            ]
        tail = {value: name for value, name in operands.items() if value not in (self.op.a, self.op.b)}
        lines += shape_checks(tail, self.op.out.shape, "")
        single = self.op.a.dtype == torch.float32
        if single:
            k_first = "right" if self.op.b_is_nk else "right.mT"
            lines.append(f"left, right = along_k(left), along_k({k_first}).mT")
        elif self.op.b_is_nk:
            lines.append("right = right.mT  # [n, k] read as [k, n]: only the strides change")
        lines += [
            f"{n} = {a}.new_empty(shape{f', dtype={v.dtype}' if v.dtype != self.op.a.dtype else ''})"
            for v, n in results.items()
        ]
        lines += [
            "M, K, N = left.shape[-2], left.shape[-1], right.shape[-1]",
            "block_m, block_n, block_k, warps = gemm_tile(M, N)",
        ]
        strides = "*left.stride()[-2:], *right.stride()[-2:]" + (
            ", left.stride(0), right.stride(0)" if self.batched else ""
        )
        grid = "(triton.cdiv(M, block_m) * triton.cdiv(N, block_n)" + (", left.shape[0])" if self.batched else ",)")
        given = [
            "left" if v is self.op.a else "right" if v is self.op.b else n for v, n in operands.items()
        ]
        arguments = ", ".join(
            [*given, *results.values(), "M", "N", "K", strides, *self.signature.scalars.values()]
        )
        lines += [
            f"{name}_kernel[{grid}](",
            f"{TAB}{arguments},",
            f"{TAB}BLOCK_M=block_m, BLOCK_N=block_n, BLOCK_K=block_k, GROUP_M=8, num_warps=warps, num_stages=3,",
            ")",
            f"return {', '.join(results.values())}",
        ]
        parameters = ", ".join([*operands.values(), *self.signature.scalars.values()])
        return f"def {name}({parameters}):\n" + indent("\n".join(lines), TAB) + "\n"


LAYOUT = '''def along_k(matrix):
    """Lay a float32 [..., rows, k] matrix out as the tensor cores want it: k contiguous, in rows of whole 64 bytes.

    Most are so already. Where not, a copy costs far less than the slow path; the zeros added change no sum.
    """
    k = matrix.shape[-1]
    if k % 16 == 0 or k < 256:
        return matrix if matrix.stride(-1) == 1 else matrix.contiguous()
    padded = matrix.new_zeros(*matrix.shape[:-1], triton.cdiv(k, 16) * 16)
    padded[..., :k] = matrix
    return padded
'''


TILE_CHOICE = '''def gemm_tile(M, N):
    """Choose (BLOCK_M, BLOCK_N, BLOCK_K, warps): large tiles where there are enough of them to fill a GPU."""
    if M >= 1024 and N >= 1024:
        return 128, 128, 32, 8
    if M <= 32:
        return 16, 64, 64, 4
    return 64, 64, 32, 4
'''

