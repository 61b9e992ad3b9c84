"""Networks of repeated blocks, as problem texts."""

from __future__ import annotations

import textwrap


def network(classes: str, init: str, forward: str, *shapes: tuple[int, ...], arguments: str = "x") -> str:
    """Write a problem with classes of its own: the constructor and the forward of Model, and the inputs' shapes."""
    made = ", ".join(f"torch.rand({shape})" for shape in shapes)
    body = textwrap.indent("\n".join(["super().__init__()", *textwrap.dedent(init).strip().splitlines()]), " " * 8)
    own = textwrap.indent(textwrap.dedent(forward).strip(), " " * 8)
    return (
        "import torch\nimport torch.nn as nn\nimport torch.nn.functional as F\n\n\n"
        f"{textwrap.dedent(classes).strip()}\n\n\nclass Model(nn.Module):\n    def __init__(self):\n{body}\n\n"
        f"    def forward(self, {arguments}):\n{own}\n\n\n"
        f"def get_inputs():\n    return [{made}]\n\n\ndef get_init_inputs():\n    return []\n"
    )


RESIDUAL = """
class Residual(nn.Module):
    def __init__(self, width, halves=False):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.up = nn.Linear(width, 3 * width)
        self.down = nn.Linear(3 * width, width)
        self.skip = nn.Linear(width, width) if halves else None

    def forward(self, features):
        out = self.down(F.gelu(self.up(self.norm(features))))
        if self.skip is not None:
            features = self.skip(features)
        return out + features
"""

TOWER = network(
    RESIDUAL,
    "self.layers = nn.ModuleList([Residual(8, halves=i == 0) for i in range(6)])\nself.head = nn.Linear(8, 5)",
    "for layer in self.layers:\n    x = layer(x)\nreturn self.head(x)",
    (4, 8),
)
"""Six blocks in a list, the first with one layer more, and a head."""

NESTED = network(
    RESIDUAL,
    "self.stages = nn.Sequential(*(nn.Sequential(*(Residual(8) for _ in range(3))) for _ in range(2)))",
    "return self.stages(x) * 2.0",
    (4, 8),
)
"""Two stages of three blocks."""
