"""Inputs that the paste does not give: taken from its own example, else guessed so that the module runs."""
# ruff: noqa: E501  (a paste is easier to read on one line)

from __future__ import annotations

import types

import pytest
import torch

from verifier.problem import Problem

HEAD = "import math\nimport torch\nimport torch.nn as nn\nimport torch.nn.functional as F\n\n\n"
INIT = "    def __init__(self, {}):\n        super().__init__()\n"


def run(problem: Problem) -> torch.Tensor:
    """Execute the problem's source and call the module once."""
    module = types.ModuleType("pasted")
    exec(compile(problem.source, "pasted.py", "exec"), module.__dict__)
    arguments = module.get_init_inputs()
    keywords: dict[str, object] = {}
    if len(arguments) == 2 and isinstance(arguments[0], list) and isinstance(arguments[1], dict):
        arguments, keywords = arguments
    output: torch.Tensor = getattr(module, problem.entry)(*arguments, **keywords)(*module.get_inputs())
    return output


def layer(signature: str, made: str, forward: str) -> str:
    """Write a class Net with these constructor parameters, attributes and forward."""
    body = "".join(f"        {line}\n" for line in made.split("; "))
    code = "".join(f"        {line}\n" for line in forward.split("; "))
    return f"class Net(nn.Module):\n{INIT.format(signature)}{body}\n    def forward(self, x):\n{code}"


GUESSED = {
    "linear": layer("d_in, d_out", "self.fc = nn.Linear(d_in, d_out)", "return self.fc(x)"),
    "mnist": layer("*_", "self.fc = nn.Linear(28 * 28, 10)", "x = x.view(-1, 28 * 28); return self.fc(x)"),
    "convolution": layer(
        "classes=10",
        "self.f = nn.Sequential(nn.Conv2d(3, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)); self.fc = nn.Linear(16 * 256, classes)",
        "return self.fc(self.f(x).flatten(1))",
    ),
    "volume": layer("in_channels", "self.c = nn.Conv3d(in_channels, 4, 3)", "return F.relu(self.c(x))"),
    "channels last": layer(
        "dim", "self.n = nn.LayerNorm(dim); self.p = nn.Linear(dim, dim)", "x = x.permute(0, 2, 3, 1); return self.p(self.n(x))"
    ),
    "attention": layer(
        "d_model, num_heads",
        "assert d_model % num_heads == 0; self.h = num_heads; self.qkv = nn.Linear(d_model, 3 * d_model)",
        "B, T, C = x.shape; q, k, v = self.qkv(x).split(C, dim=2); s = (B, T, self.h, C // self.h); "
        "q, k, v = (t.view(s).transpose(1, 2) for t in (q, k, v)); return F.scaled_dot_product_attention(q, k, v)",
    ),
    "tokens": layer(
        "vocab_size, embedding_dim", "self.e = nn.Embedding(vocab_size, embedding_dim)", "return self.e(x).mean(1)"
    ),
    "configuration": layer(
        "config", "self.fc = nn.Linear(config.n_embd, 4 * config.n_embd, bias=config.bias)", "return F.gelu(self.fc(x))"
    ),
    "keyword only": layer("*, dim", "self.fc = nn.Linear(dim, dim)", "return self.fc(x) + x"),
    "weight": layer(
        "hidden_size, eps=1e-6", "self.w = nn.Parameter(torch.ones(hidden_size))", "return x * torch.rsqrt(x.pow(2).mean(-1, True)) * self.w"
    ),
    "matrix": layer("in_f, out_f", "self.w = nn.Parameter(torch.randn(in_f, out_f))", "return x @ self.w"),
    "squeeze and excitation": layer(
        "channel, reduction=4",
        "self.pool = nn.AdaptiveAvgPool2d(1); self.fc = nn.Linear(channel, channel)",
        "b, c, _, _ = x.size(); y = self.pool(x).view(b, c); return x * self.fc(y).view(b, c, 1, 1)",
    ),
    "positions": layer(
        "d_model, max_len=500", "self.register_buffer('pe', torch.zeros(max_len, d_model).unsqueeze(0))", "return x + self.pe[:, : x.size(1)]"
    ),
    "list of sizes": layer(
        "dim, kernel_sizes", "self.c = nn.ModuleList([nn.Conv1d(dim, 4, k) for k in kernel_sizes])", "return [c(x) for c in self.c][0]"
    ),
    "image": layer("*_", "pass", "b, c, h, w = x.shape; return x.mean((2, 3))"),
    "two layers deep": "class Net(nn.Module):\n"
    + INIT.format("dim")
    + "        self.b = nn.ModuleList([Block(dim) for _ in range(2)])\n\n    def forward(self, x):\n        for b in self.b:\n"
    + "            x = b(x)\n        return x\n\n\nclass Block(nn.Module):\n"
    + INIT.format("width")
    + "        self.fc = nn.Linear(width, width)\n\n    def forward(self, x):\n        return self.fc(x) + x\n",
    "function that makes layers": "def conv(i, o):\n    return nn.Conv2d(i, o, 3)\n\n\n"
    + layer("in_channels", "self.c = conv(in_channels, 8)", "return self.c(x)"),
    "inherits its forward": "class Net(nn.Sequential):\n    def __init__(self, i, o):\n"
    "        super().__init__(nn.Conv2d(i, o, 3), nn.ReLU())\n",
    "inherits its constructor": "class Net(nn.Linear):\n    def forward(self, x):\n        return F.linear(x, self.weight * 2)\n",
    "logits and classes": "class Loss(nn.Module):\n    def forward(self, inputs, targets):\n        return F.cross_entropy(inputs, targets)\n",
    "prediction and target": "class Loss(nn.Module):\n    def forward(self, pred, target):\n        return (pred - target).abs().mean()\n",
    "two factors": "class Mul(nn.Module):\n    def forward(self, a, b):\n        return torch.bmm(a, b)\n",
    "layers without a class": "nn.Sequential(nn.Linear(10, 20), nn.ReLU())\n",
    "function": "def swish(x, beta: float):\n    return x * torch.sigmoid(beta * x)\n",
}  # fmt: skip


@pytest.mark.parametrize("text", GUESSED.values(), ids=GUESSED.keys())
def test_a_guess_runs_and_is_told(text: str) -> None:
    """Without get_inputs the module still runs, and the note says what was guessed."""
    problem = Problem.parse(HEAD + text)
    run(problem)
    assert any("guessed" in note and "change it" in note for note in problem.notes)
    assert Problem.parse(problem.source).source == problem.source


TAKEN = {
    "script": ("net = Net(7)\nx = torch.randn(3, 7)\nprint(net(x).shape)\n", (3, 2)),
    "guard": ("if __name__ == '__main__':\n    print(Net(7)(torch.randn(4, 7)))\n", (4, 2)),
    "main on the GPU": (
        "def main():\n    device = 'cuda'\n    n = 5\n    net = Net(d=9).to(device)\n    x = torch.randn(n, 9).to(device)\n"
        "    with torch.no_grad():\n        y = net(x)\n    print(y)\n\n\nmain()\n",
        (5, 2),
    ),
}


@pytest.mark.parametrize(("script", "shape"), TAKEN.values(), ids=TAKEN.keys())
def test_the_example_of_the_paste_is_taken(script: str, shape: tuple[int, ...]) -> None:
    """Sizes that the paste shows win over guesses, and nothing of the script is left to run."""
    problem = Problem.parse(HEAD + layer("d", "self.fc = nn.Linear(d, 2)", "return self.fc(x)") + "\n\n" + script)
    assert run(problem).shape == shape
    assert any("own example" in note for note in problem.notes) and "print" not in problem.source


def test_a_function_gets_the_inputs_of_its_call() -> None:
    """Tensors become inputs, the number that the call passes is written in."""
    text = (
        "import torch\n\n\ndef fused(x, w, eps=1e-5, scale=1.0):\n    return torch.relu(x * w + eps) * scale\n\n\n"
        "x = torch.randn(4, 33)\nw = torch.rand(33)\nprint(fused(x, w, scale=3.0).shape)\n"
    )
    problem = Problem.parse(text)
    assert problem.forward_args == ("x", "w") and "scale=3.0" in problem.source
    assert run(problem).shape == (4, 33)


def test_constructor_sizes_follow_the_given_inputs() -> None:
    """With get_inputs but no get_init_inputs the first layer takes the width of the inputs."""
    text = layer("input_dim, hidden", "self.fc = nn.Linear(input_dim, hidden)", "return self.fc(x)")
    problem = Problem.parse(HEAD + text + "\n\ndef get_inputs():\n    return [torch.randn(5, 12)]\n")
    assert run(problem).shape == (5, 64)


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ('rearrange(x, "a b c -> c a b")', lambda x: x.permute(2, 0, 1)),
        (
            'rearrange(x, "a (b h) c -> a h (b c)", h=2)',
            lambda x: x.reshape(2, 3, 2, 5).transpose(1, 2).reshape(2, 2, 15),
        ),
        ('rearrange(x, "a ... -> ... a")', lambda x: x.permute(1, 2, 0)),
        ('repeat(x, "a b c -> a (r b) c", r=3)', lambda x: x.repeat(1, 3, 1)),
        ('reduce(x, "a b c -> a c", "mean")', lambda x: x.mean(1)),
        ('reduce(x, "a b c -> a 1 c", "max")', lambda x: x.amax(1, keepdim=True)),
        ('rearrange(x + 1, "a b c -> b a c")', lambda x: (x + 1).transpose(0, 1)),
    ],
)
def test_einops_is_written_out_where_it_is_not_installed(
    pattern: str, expected: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The stand-in computes what einops computes."""
    monkeypatch.setattr("verifier.paste.imports.is_available", lambda package: package != "einops")
    text = (
        f"import torch\nimport torch.nn as nn\nfrom einops import rearrange, repeat, reduce\n\n\nclass Model(nn.Module):\n"
        f"    def forward(self, x):\n        return {pattern}\n\n\ndef get_inputs():\n"
        "    return [torch.arange(60.0).reshape(2, 6, 5)]\n\n\ndef get_init_inputs():\n    return []\n"
    )
    problem = Problem.parse(text)
    assert "import rearrange" not in problem.source and any("einops" in note for note in problem.notes)
    torch.testing.assert_close(run(problem), expected(torch.arange(60.0).reshape(2, 6, 5)))  # type: ignore[operator]


def test_values_with_the_names_of_the_parameters_are_taken() -> None:
    """`x = torch.randn(3, 7)` beside the class is meant for forward(x)."""
    text = layer("d=7", "self.fc = nn.Linear(d, 2)", "return self.fc(x)") + "\n\nn = 3\nx = torch.randn(n, 7)\n"
    assert run(Problem.parse(HEAD + text)).shape == (3, 2)


def test_parameters_of_get_inputs_get_values() -> None:
    """get_inputs is called without arguments, so a batch size that it wants is filled in and told."""
    text = layer("d=7", "self.fc = nn.Linear(d, 2)", "return self.fc(x)")
    problem = Problem.parse(
        HEAD + text + "\n\ndef get_inputs(batch, device):\n    return [torch.randn(batch, 7, device=device)]\n"
    )
    assert run(problem).shape == (4, 2) and any("batch=4" in note for note in problem.notes)
