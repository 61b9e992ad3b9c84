"""Problem and kernel, a line of dashes between: elementwise and row-wise."""

from __future__ import annotations

BIAS_GELU = """
class Model(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.bias = nn.Parameter(torch.zeros(width))

    def forward(self, x, skip):
        return F.gelu(x + self.bias, approximate="tanh") + skip


def get_inputs():
    return [torch.randn(6, 7, 45), torch.randn(6, 7, 45)]


def get_init_inputs():
    return [45]

# ---

@triton.jit
def bias_gelu_skip(x_ptr, bias_ptr, skip_ptr, y_ptr, n, width, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < n
    x = tl.load(x_ptr + at, mask=inside, other=0.0) + tl.load(bias_ptr + at % width, mask=inside, other=0.0)
    inner = 0.7978845608028654 * (x + 0.044715 * x * x * x)
    y = x * tl.sigmoid(2.0 * inner) + tl.load(skip_ptr + at, mask=inside, other=0.0)
    tl.store(y_ptr + at, y, mask=inside)


class ModelNew(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.bias = nn.Parameter(torch.zeros(width))

    def forward(self, x, skip):
        x, skip = x.contiguous(), skip.contiguous()
        y = torch.empty_like(x)
        bias_gelu_skip[(triton.cdiv(x.numel(), 128),)](x, self.bias, skip, y, x.numel(), x.shape[-1], BLOCK=128)
        return y
"""

SOFTMAX = """
class Model(nn.Module):
    def forward(self, x):
        return torch.softmax(x, dim=-1)


def get_inputs():
    return [torch.randn(9, 300)]

# ---

@triton.jit
def softmax_rows(x_ptr, y_ptr, width, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    column = tl.arange(0, BLOCK)
    inside = column < width
    x = tl.load(x_ptr + row * width + column, mask=inside, other=-float("inf"))
    e = tl.exp(x - tl.max(x, axis=0))
    tl.store(y_ptr + row * width + column, e / tl.sum(e, axis=0), mask=inside)


class ModelNew(nn.Module):
    def forward(self, x):
        x = x.contiguous()
        y = torch.empty_like(x)
        softmax_rows[(x.numel() // x.shape[-1],)](x, y, x.shape[-1], BLOCK=triton.next_power_of_2(x.shape[-1]))
        return y
"""

LAYER_NORM_PAIR = """
class Model(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = nn.LayerNorm(width)

    def forward(self, x, residual):
        total = x + residual
        return self.norm(total), total


def get_inputs():
    return [torch.randn(5, 3, 77), torch.randn(5, 3, 77)]


def get_init_inputs():
    return [77]

# ---

@triton.jit
def add_norm(x_ptr, r_ptr, w_ptr, b_ptr, y_ptr, total_ptr, width, eps, BLOCK: tl.constexpr):
    column = tl.arange(0, BLOCK)
    inside = column < width
    at = tl.program_id(0) * width + column
    total = tl.load(x_ptr + at, mask=inside, other=0.0) + tl.load(r_ptr + at, mask=inside, other=0.0)
    tl.store(total_ptr + at, total, mask=inside)
    mean = tl.sum(total, axis=0) / width
    centred = tl.where(inside, total - mean, 0.0)
    scale = tl.rsqrt(tl.sum(centred * centred, axis=0) / width + eps)
    weight = tl.load(w_ptr + column, mask=inside, other=0.0)
    bias = tl.load(b_ptr + column, mask=inside, other=0.0)
    tl.store(y_ptr + at, centred * scale * weight + bias, mask=inside)


class ModelNew(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = nn.LayerNorm(width)

    def forward(self, x, residual):
        x, residual = x.contiguous(), residual.contiguous()
        y, total, width = torch.empty_like(x), torch.empty_like(x), x.shape[-1]
        add_norm[(x.numel() // width,)](
            x, residual, self.norm.weight, self.norm.bias, y, total, width, self.norm.eps,
            BLOCK=triton.next_power_of_2(width),
        )
        return y, total
"""

MASKED_SCALE = """
class Model(nn.Module):
    def __init__(self, *, hidden):
        super().__init__()
        self.fc = nn.Linear(hidden, hidden)

    def forward(self, states, mask=None, *, scale=1.0):
        y = self.fc(states) * scale
        return {"states": y if mask is None else y * mask.unsqueeze(-1), "scale": scale}


def get_inputs():
    return {"states": torch.randn(4, 9, 24), "mask": (torch.rand(4, 9) > 0.4).float(), "scale": 0.5}


def get_init_inputs():
    return {"hidden": 24}

# ---

@triton.jit
def scale_rows(y_ptr, mask_ptr, out_ptr, n, width, scale, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < n
    y = tl.load(y_ptr + at, mask=inside, other=0.0)
    keep = tl.load(mask_ptr + at // width, mask=inside, other=0.0)
    tl.store(out_ptr + at, y * scale * keep, mask=inside)


class ModelNew(nn.Module):
    def __init__(self, *, hidden):
        super().__init__()
        self.fc = nn.Linear(hidden, hidden)

    def forward(self, states, mask=None, *, scale=1.0):
        y = self.fc(states)
        mask = torch.ones(y.shape[:-1]) if mask is None else mask.contiguous()
        out = torch.empty_like(y)
        scale_rows[(triton.cdiv(y.numel(), 64),)](y, mask, out, y.numel(), y.shape[-1], scale, BLOCK=64)
        return {"states": out, "scale": scale}
"""

RMS_NORM = """
class Model(nn.Module):
    def __init__(self, width, eps):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))
        self.eps = eps

    def forward(self, x):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.eps) * self.weight


def get_inputs():
    return [torch.randn(7, 200)]


def get_init_inputs():
    return [200, 1e-6]

# ---

@triton.jit
def rms_rows(x_ptr, w_ptr, y_ptr, n_rows, width, eps, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    total = tl.zeros((ROWS,), tl.float32)
    for start in range(0, width, BLOCK):
        column = start + tl.arange(0, BLOCK)
        inside = (row[:, None] < n_rows) & (column[None, :] < width)
        x = tl.load(x_ptr + row[:, None] * width + column[None, :], mask=inside, other=0.0)
        total += tl.sum(x * x, axis=1)
    scale = tl.rsqrt(total / width + eps)
    for start in range(0, width, BLOCK):
        column = start + tl.arange(0, BLOCK)
        inside = (row[:, None] < n_rows) & (column[None, :] < width)
        x = tl.load(x_ptr + row[:, None] * width + column[None, :], mask=inside, other=0.0)
        weight = tl.load(w_ptr + column, mask=column < width, other=0.0)
        tl.store(y_ptr + row[:, None] * width + column[None, :], x * scale[:, None] * weight[None, :], mask=inside)


class ModelNew(nn.Module):
    def __init__(self, width, eps):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))
        self.eps = eps

    def forward(self, x):
        x = x.contiguous()
        y, n_rows, width = torch.empty_like(x), x.numel() // x.shape[-1], x.shape[-1]
        rms_rows[(triton.cdiv(n_rows, 4),)](x, self.weight, y, n_rows, width, self.eps, ROWS=4, BLOCK=64)
        return y
"""

SWIGLU = """
class Model(nn.Module):
    def __init__(self, width, hidden):
        super().__init__()
        self.gate = nn.Linear(width, hidden, bias=False)
        self.up = nn.Linear(width, hidden, bias=False)
        self.down = nn.Linear(hidden, width, bias=False)

    def forward(self, x):
        return self.down(F.silu(self.gate(x)) * self.up(x))


def get_inputs():
    return [torch.randn(3, 5, 20)]


def get_init_inputs():
    return [20, 52]

# ---

@triton.jit
def silu_gate(gate_ptr, up_ptr, y_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < n
    gate = tl.load(gate_ptr + at, mask=inside, other=0.0)
    up = tl.load(up_ptr + at, mask=inside, other=0.0)
    tl.store(y_ptr + at, gate / (1.0 + tl.exp(-gate)) * up, mask=inside)


class ModelNew(nn.Module):
    def __init__(self, width, hidden):
        super().__init__()
        self.gate = nn.Linear(width, hidden, bias=False)
        self.up = nn.Linear(width, hidden, bias=False)
        self.down = nn.Linear(hidden, width, bias=False)

    def forward(self, x):
        gate, up = self.gate(x), self.up(x)
        y = torch.empty_like(gate)
        silu_gate[(triton.cdiv(gate.numel(), 128),)](gate, up, y, gate.numel(), BLOCK=128)
        return self.down(y)
"""

TEXTS = {
    "bias, GELU, skip": BIAS_GELU,
    "softmax": SOFTMAX,
    "add, LayerNorm": LAYER_NORM_PAIR,
    "scale by a mask": MASKED_SCALE,
    "RMS norm, looped": RMS_NORM,
    "SwiGLU, in part": SWIGLU,
}
