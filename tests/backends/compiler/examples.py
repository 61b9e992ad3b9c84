"""The problems whose texts are kept in golden/, and the sizes they are also run at."""

from __future__ import annotations

from dataclasses import dataclass

from tests.backends.compiler.written import source

Shapes = tuple[tuple[int, ...], ...]


@dataclass(frozen=True)
class Example:
    """A problem, and further shapes of its inputs that the same file must run at."""

    text: str
    others: tuple[Shapes, ...]


EXAMPLES = {
    "bias_gelu": Example(
        source(
            "return F.gelu(x0 + self.bias) + x1", (64, 96), (64, 96), init="self.bias = nn.Parameter(torch.ones(96))"
        ),
        (((1, 96), (1, 96)), ((7, 96), (7, 96)), ((300, 96), (300, 96))),
    ),
    "softmax": Example(
        source("return torch.softmax(x0, dim=1)", (32, 100)), (((1, 100),), ((5, 1),), ((33, 257),), ((3, 1024),))
    ),
    "layer_norm": Example(
        source("return self.norm(x0)", (8, 16, 64), init="self.norm = nn.LayerNorm(64)"),
        (((1, 1, 64),), ((3, 17, 64),), ((40, 1, 64),)),
    ),
    "linear_gelu": Example(
        source("return F.gelu(self.fc(x0))", (128, 48), init="self.fc = nn.Linear(48, 80)"),
        (((1, 48),), ((65, 48),), ((129, 48),)),
    ),
}

MORE = {
    "row mean": Example(
        source("return x0 / x0.mean(dim=-1, keepdim=True)", (8, 32)), (((1, 33),), ((9, 1),), ((2, 2000),))
    ),
    "column sum": Example(source("return x0.sum(dim=1)", (4, 16, 24)), (((1, 17, 1),), ((3, 200, 25),))),
    "everything": Example(
        source("return ((x0 - x1) ** 2).mean()", (16, 32), (16, 32)), (((1, 1),) * 2, ((30, 33),) * 2)
    ),
    "product": Example(source("return x0 @ x1", (32, 48), (48, 64)), (((1, 5), (5, 1)), ((33, 70), (70, 65)))),
    "batches": Example(source("return torch.bmm(x0, x1)", (2, 16, 32), (2, 32, 8)), (((3, 17, 5), (3, 5, 9)),)),
    "channels": Example(
        source("return F.relu(self.norm(x0))", (2, 8, 4, 4), init="self.norm = nn.GroupNorm(4, 8)"),
        (((1, 8, 3, 5),), ((3, 8, 7, 1),)),
    ),
    "classes": Example(
        source("return F.cross_entropy(x0, x1.long().flatten())", (16, 10), (16, 1)),
        (((5, 33), (5, 1)), ((1, 9), (1, 1))),
    ),
    "zeros that are written to": Example(
        source("z = torch.zeros_like(x0)\nz[0] = 1.0\nreturn x0 + z", (4, 8)), (((4, 8),), ((3, 5),))
    ),
    "a number that is written to": Example(
        source("t = torch.tensor(0.5)\nt += 1.0\nreturn x0 * t", (4, 8)), (((4, 8),), ((3, 5),))
    ),
    "rows too long for registers": Example(
        source("return torch.softmax(x0 * 2.0, -1) + 1.0, x0.std(-1), x0.max(-1)", (64, 100_000)),
        (((3, 9000),), ((2, 17),)),
    ),
    "few long rows": Example(
        source("return x0.mean(-1), x0.amax(-1), F.log_softmax(x0, -1)", (2, 1_000_000)), (((2, 9000),), ((1, 17),))
    ),
    "places in few long rows": Example(
        source("return x0.argmax(-1), x0.amin(-1)", (2, 1_000_000)), (((2, 9000),), ((1, 17),))
    ),
    "long columns": Example(
        source("return torch.softmax(x0, 1), x0.argmax(1), x0.var(1)", (4, 4096, 512)), (((2, 300, 7),), ((1, 3, 70),))
    ),
    "dimensions that lie apart": Example(
        source("return x0.var((0, 2)), x0.sum((0, 2))", (64, 32, 4096)), (((3, 5, 7),), ((33, 2, 70),))
    ),
    "few long rows and a number for some of them": Example(
        source("return x0.mean(-1) + x1", (2, 3, 70_000), (3,)), (((2, 3, 9000), (3,)), ((4, 1, 70), (1,))),
    ),
    "a matrix times itself, and itself again": Example(
        source("return torch.bmm(x0, x0) + x0", (3, 20, 20)), (((2, 33, 33),), ((1, 1, 1),)),
    ),
    "triangle": Example(source("return torch.triu(x0 * 2.0, 1)", (8, 16)), (((17, 9),), ((1, 7),), ((7, 1),))),
}
