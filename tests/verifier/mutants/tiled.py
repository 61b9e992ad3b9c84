"""Problem and kernel, a line of dashes between: products, attention, a pooling, a scatter, integers."""

from __future__ import annotations

PRODUCT = """
class Model(nn.Module):
    def forward(self, a, b):
        return (a @ b) * 0.5


def get_inputs():
    return [torch.randn(37, 41), torch.randn(41, 29)]

# ---

@triton.jit
def half_product(a_ptr, b_ptr, y_ptr, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    m = tl.program_id(0) * BM + tl.arange(0, BM)
    n = tl.program_id(1) * BN + tl.arange(0, BN)
    total = tl.zeros((BM, BN), tl.float32)
    for start in range(0, K, BK):
        k = start + tl.arange(0, BK)
        a = tl.load(a_ptr + m[:, None] * K + k[None, :], mask=(m[:, None] < M) & (k[None, :] < K), other=0.0)
        b = tl.load(b_ptr + k[:, None] * N + n[None, :], mask=(k[:, None] < K) & (n[None, :] < N), other=0.0)
        total += tl.dot(a, b, input_precision="ieee")
    tl.store(y_ptr + m[:, None] * N + n[None, :], total * 0.5, mask=(m[:, None] < M) & (n[None, :] < N))


class ModelNew(nn.Module):
    def forward(self, a, b):
        a, b = a.contiguous(), b.contiguous()
        (M, K), N = a.shape, b.shape[1]
        y = a.new_empty(M, N)
        half_product[(triton.cdiv(M, 16), triton.cdiv(N, 16))](a, b, y, M, N, K, BM=16, BN=16, BK=16)
        return y
"""

ATTENTION = """
class Model(nn.Module):
    def forward(self, q, k, v):
        return F.scaled_dot_product_attention(q, k, v, is_causal=True)


def get_inputs():
    return [torch.randn(2, 2, 35, 20) for _ in range(3)]

# ---

@triton.jit
def causal(q_ptr, k_ptr, v_ptr, y_ptr, T, D, scale, BT: tl.constexpr, BD: tl.constexpr):
    t = tl.program_id(0) * BT + tl.arange(0, BT)
    d = tl.arange(0, BD)
    base = tl.program_id(1) * T * D
    inside = (t[:, None] < T) & (d[None, :] < D)
    q = tl.load(q_ptr + base + t[:, None] * D + d[None, :], mask=inside, other=0.0)
    top = tl.full((BT,), -1e30, tl.float32)
    weight = tl.zeros((BT,), tl.float32)
    total = tl.zeros((BT, BD), tl.float32)
    for start in range(0, tl.program_id(0) * BT + BT, BT):
        s = start + tl.arange(0, BT)
        present = (s[:, None] < T) & (d[None, :] < D)
        k = tl.load(k_ptr + base + s[:, None] * D + d[None, :], mask=present, other=0.0)
        v = tl.load(v_ptr + base + s[:, None] * D + d[None, :], mask=present, other=0.0)
        score = tl.dot(q, tl.trans(k), input_precision="ieee") * scale
        score = tl.where(s[None, :] <= t[:, None], score, -1e30)
        higher = tl.maximum(top, tl.max(score, axis=1))
        p = tl.exp(score - higher[:, None])
        fade = tl.exp(top - higher)
        weight = weight * fade + tl.sum(p, axis=1)
        total = total * fade[:, None] + tl.dot(p, v, input_precision="ieee")
        top = higher
    tl.store(y_ptr + base + t[:, None] * D + d[None, :], total / weight[:, None], mask=inside)


class ModelNew(nn.Module):
    def forward(self, q, k, v):
        q, k, v = q.contiguous(), k.contiguous(), v.contiguous()
        B, H, T, D = q.shape
        y = torch.empty_like(q)
        block = max(16, triton.next_power_of_2(D))
        causal[(triton.cdiv(T, 16), B * H)](q, k, v, y, T, D, D**-0.5, BT=16, BD=block)
        return y
"""

MAX_POOL = """
class Model(nn.Module):
    def forward(self, x):
        return F.max_pool2d(x, 3, stride=2, padding=1)


def get_inputs():
    return [torch.randn(2, 3, 13, 11)]

# ---

@triton.jit
def max_pool(x_ptr, y_ptr, n, H, W, OH, OW, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    plane = at // (OH * OW)
    oh = at // OW % OH
    ow = at % OW
    top = tl.full((BLOCK,), -float("inf"), tl.float32)
    for dh in range(3):
        for dw in range(3):
            h = oh * 2 + dh - 1
            w = ow * 2 + dw - 1
            inside = (at < n) & (h >= 0) & (h < H) & (w >= 0) & (w < W)
            x = tl.load(x_ptr + plane * H * W + h * W + w, mask=inside, other=-float("inf"))
            top = tl.maximum(top, x)
    tl.store(y_ptr + at, top, mask=at < n)


class ModelNew(nn.Module):
    def forward(self, x):
        x = x.contiguous()
        B, C, H, W = x.shape
        OH, OW = (H + 1) // 2, (W + 1) // 2
        y = x.new_empty(B, C, OH, OW)
        max_pool[(triton.cdiv(y.numel(), 64),)](x, y, y.numel(), H, W, OH, OW, BLOCK=64)
        return y
"""

SEGMENT_SUM = """
class Model(nn.Module):
    def forward(self, x, segment):
        return torch.zeros(8, x.shape[1]).index_add(0, segment, x)


def get_inputs():
    return [torch.randn(50, 10), torch.randint(0, 8, (50,))]

# ---

@triton.jit
def segment_sum(x_ptr, s_ptr, y_ptr, n, width, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < n
    segment = tl.load(s_ptr + at // width, mask=inside, other=0)
    x = tl.load(x_ptr + at, mask=inside, other=0.0)
    tl.atomic_add(y_ptr + segment * width + at % width, x, mask=inside)


class ModelNew(nn.Module):
    def forward(self, x, segment):
        x, segment = x.contiguous(), segment.contiguous()
        y = torch.zeros(8, x.shape[1])
        segment_sum[(triton.cdiv(x.numel(), 128),)](x, segment, y, x.numel(), x.shape[1], BLOCK=128)
        return y
"""

BITS = """
class Model(nn.Module):
    def forward(self, x):
        return ((x << 3) ^ (x >> 2)) & 65535


def get_inputs():
    return [torch.randint(0, 1 << 20, (5, 33), dtype=torch.int32)]

# ---

@triton.jit
def mix(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < n
    x = tl.load(x_ptr + at, mask=inside, other=0)
    tl.store(y_ptr + at, ((x << 3) ^ (x >> 2)) & 65535, mask=inside)


class ModelNew(nn.Module):
    def forward(self, x):
        x = x.contiguous()
        y = torch.empty_like(x)
        mix[(triton.cdiv(x.numel(), 64),)](x, y, x.numel(), BLOCK=64)
        return y
"""

TEXTS = {
    "product": PRODUCT,
    "causal attention": ATTENTION,
    "max pool": MAX_POOL,
    "segment sum": SEGMENT_SUM,
    "bits": BITS,
}
