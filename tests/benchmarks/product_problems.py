"""The products that are measured: square, batched, irregular, skinny, triangular, with tails, and ever smaller ones."""

from __future__ import annotations

from dataclasses import dataclass

from tests.backends.compiler.written import source


@dataclass(frozen=True)
class Dims:
    """The sizes of a product; with `layer` the right factor is a weight, and `{0}` in `forward` is the product."""

    m: int
    n: int
    k: int
    batch: int = 0
    transposed: str = ""  # which of "a" and "b" lie the other way round
    layer: bool = False
    forward: str = "{0}"


PROBLEMS = {
    "4096": Dims(4096, 4096, 4096),
    "4096, triu": Dims(4096, 4096, 4096, forward="torch.triu({0})"),
    "4096, tril of a factor": Dims(4096, 4096, 4096, forward="torch.matmul(torch.tril(x0), x1)"),
    "4096, B transposed": Dims(4096, 4096, 4096, transposed="b"),
    "4096, both transposed": Dims(4096, 4096, 4096, transposed="ab"),
    "2048 x 8192 x 4096": Dims(2048, 4096, 8192),
    "batch of 128, 512 x 1024 x 2048": Dims(512, 2048, 1024, batch=128),
    "8205 x 2949 x 5921": Dims(8205, 5921, 2949),
    "32768 x 64 x 32768": Dims(32768, 32768, 64),
    "32768 x 32 x 32768": Dims(32768, 32768, 32),
    "1024 rows, 8192 to 8192, gelu": Dims(1024, 8192, 8192, layer=True, forward="F.gelu({0} / 10)"),
    "1024 rows, 8192 to 8192, relu": Dims(1024, 8192, 8192, layer=True, forward="F.relu({0})"),
    "65536 rows, 768 to 2304": Dims(65536, 2304, 768, layer=True),
    "2048": Dims(2048, 2048, 2048),
    "1536": Dims(1536, 1536, 1536),
    "1024": Dims(1024, 1024, 1024),
    "2048 x 512 x 2048": Dims(2048, 2048, 512),
    "512 x 4096 x 4096": Dims(512, 4096, 4096),
    "256 x 4096 x 4096": Dims(256, 4096, 4096),
    "256 rows, 4096 to 4096": Dims(256, 4096, 4096, layer=True),
}
"""By name: m x k x n where the sizes are three."""

SPOILED = {
    "4096, a NaN in one row": "0, 0",
    "4096, a NaN in every row": ":, 0",
}
"""Squares whose first factor has NaN in these places: what the planes cannot hold is computed again, and slowly."""

CLOSELY = {
    "4096, tiles and texts": "4096",
    "1024 rows, 8192 to 8192, gelu, tiles and texts": "1024 rows, 8192 to 8192, gelu",
    "batch of 128, 512 x 1024 x 2048, tiles and texts": "batch of 128, 512 x 1024 x 2048",
}
"""Those of which other tiles and texts are measured, each by the name of what it is."""


def problem(dims: Dims, is_tiny: bool) -> str:
    """Write the problem; tiny, it is one that the interpreter can run."""
    sizes = dims.m, dims.n, dims.k, dims.batch
    m, n, k, batch = (min(-(-size // 64), 160) if is_tiny else size for size in sizes)
    lead = (batch,) if batch else ()
    a = (*lead, k, m) if "a" in dims.transposed else (*lead, m, k)
    b = (*lead, n, k) if "b" in dims.transposed else (*lead, k, n)
    if dims.layer:
        return source(f"return {dims.forward.format('self.fc(x0)')}", a, init=f"self.fc = nn.Linear({k}, {n})")
    left, right = "x0.mT" if "a" in dims.transposed else "x0", "x1.mT" if "b" in dims.transposed else "x1"
    text = source(f"return {dims.forward.format(f'torch.matmul({left}, {right})')}", a, b)
    return text.replace("torch.rand(", "torch.randn(")


def spoiled(text: str, places: str) -> str:
    """Put NaN into a problem's first input."""
    body, _, rest = text.partition("    return [torch.randn(")
    first, comma, other = f"torch.randn({rest}".partition(", torch.randn(")
    return f"{body}    x = {first}\n    x[{places}] = float('nan')\n    return [x{comma}{other}"
