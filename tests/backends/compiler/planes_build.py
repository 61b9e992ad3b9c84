"""A product of planes compiled for sm_90 without a GPU: how many numbers are added outside of the tensor cores."""

from __future__ import annotations

import logging
import tempfile
import warnings
from pathlib import Path

from backends.compiler.capture import load
from backends.compiler.convert import convert
from tests.backends.compiler.written import source
from verifier.gpu_compile import compiled, skip_assembler

MATMUL = source("return x0 @ x1", (4096, 4096), (4096, 4096))
UNIT = ("stride_ak", "stride_bn")


def main() -> None:
    """Count the additions between the last product of the loop and its end."""
    warnings.filterwarnings("ignore")
    logging.disable(logging.CRITICAL)
    skip_assembler()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "kernel.py"
        path.write_text("".join(convert(MATMUL, "Model", Path(folder))), encoding="utf-8")
        file = load(path)
        block_m, block_n, block_k, warps, stages = file.planes_tile()
        tile = {"BLOCK_M": block_m, "BLOCK_N": block_n, "BLOCK_K": block_k, "GROUP_M": 8}
        boxes = {"a_planes": [block_m, block_k], "b_planes": [block_n, block_k]}
        signature = [
            {"name": name, "kind": "descriptor", "dtype": "float16", "block": boxes[name]}
            if name in boxes
            else {"name": name, "kind": "constexpr", "value": tile[name]}
            if name in tile
            else {"name": name, "kind": "pointer", "dtype": "float32", "aligned": True}
            if name.endswith("_ptr")
            else {"name": name, "kind": "scalar", "type": "int", "value": 1 if name in UNIT else 4096}
            for name in file.matmul_kernel.arg_names
        ]
        options = {"num_warps": warps, "num_stages": stages}
        launch = {"kernel": "matmul_kernel", "qualname": "matmul_kernel", "signature": signature, "options": options}
        ptx = compiled(file, launch).asm["ptx"]
    print(ptx.rpartition("wgmma.mma_async")[2].partition("bra")[0].count("add.f32"))


if __name__ == "__main__":
    main()
