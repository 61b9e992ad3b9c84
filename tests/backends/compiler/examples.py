"""The problems whose texts are kept in golden/, and the sizes they are also run at."""

from __future__ import annotations

from dataclasses import dataclass

from tests.backends.compiler.towers import NESTED, TOWER
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
    "masked_cumsum": Example(
        source("return torch.cumsum(x0 * x1, dim=1)", (8, 3000), (8, 3000)),
        (((1, 1), (1, 1)), ((3, 9000),) * 2, ((5, 1024),) * 2),
    ),
    "batch_norm_relu": Example(
        source("return F.relu(self.norm(x0))", (8, 16, 32, 32), init="self.norm = nn.BatchNorm2d(16)"),
        (((2, 16, 5, 7),), ((1, 16, 3, 40),), ((9, 16, 1, 1),)),
    ),
    "causal_attention": Example(
        source("return F.scaled_dot_product_attention(x0, x1, x2, is_causal=True)", *[(2, 4, 64, 32)] * 3),
        (((1, 2, 70, 33),) * 3, ((3, 1, 5, 16), (3, 1, 90, 16), (3, 1, 90, 40))),
    ),
    "linear_gelu": Example(
        source("return F.gelu(self.fc(x0))", (128, 48), init="self.fc = nn.Linear(48, 80)"),
        (((1, 48),), ((65, 48),), ((129, 48),)),
    ),
    "conv_norm_relu": Example(
        source(
            "return F.relu(self.norm(self.conv(x0)))",
            (4, 16, 24, 24),
            init="self.conv = nn.Conv2d(16, 32, 3, stride=2, padding=1, bias=False)\n"
            "self.norm = nn.BatchNorm2d(32)\nself.eval()",
        ),
        (((1, 16, 1, 1),), ((3, 16, 7, 10),), ((2, 16, 33, 5),)),
    ),
    "conv_depthwise": Example(
        source("return self.conv(x0)", (4, 16, 24, 24), init="self.conv = nn.Conv2d(16, 16, 3, padding=1, groups=16)"),
        (((1, 16, 1, 1),), ((3, 16, 11, 7),)),
    ),
    "conv_transposed": Example(
        source(
            "return torch.tanh(self.conv(x0))",
            (4, 16, 12, 12),
            init="self.conv = nn.ConvTranspose2d(16, 8, 3, stride=2, padding=1, output_padding=1)",
        ),
        (((1, 16, 1, 1),), ((3, 16, 7, 10),)),
    ),
}

MORE = {
    "blocks that become a function and a loop": Example(TOWER, (((1, 8),), ((7, 8),))),
    "stages of blocks, the end of the last in one kernel with what follows": Example(NESTED, (((5, 8),),)),
    "attention written out, with what stands beside the scores": Example(
        source(
            "w = torch.matmul(x0, x1.transpose(-2, -1)) / 3.0 + x3\nw = w.masked_fill(x4 > 0.7, float('-inf'))\n"
            "return torch.softmax(w, dim=-1) @ x2, F.relu(x0 @ x1.mT + x4) @ x2",
            (2, 4, 40, 32),
            (2, 4, 50, 32),
            (2, 4, 50, 24),
            (4, 1, 50),
            (2, 1, 40, 50),
        ),
        (
            ((3, 2, 7, 5), (3, 2, 70, 5), (3, 2, 70, 9), (2, 1, 70), (3, 1, 7, 70)),
            ((5, 3, 70, 20), (5, 3, 33, 20), (5, 3, 33, 70), (3, 1, 33), (5, 1, 70, 33)),
        ),
    ),
    "attention of grouped heads, a mask, and rows that see nothing": Example(
        source(
            "m = (x3 > 0.5) & (x3[..., :1] > 0.2)\n"
            "return F.scaled_dot_product_attention(x0, x1, x2, attn_mask=m, enable_gqa=True, scale=0.4)",
            (2, 4, 30, 16),
            (2, 2, 20, 16),
            (2, 2, 20, 16),
            (2, 1, 30, 20),
        ),
        (((3, 4, 7, 5), (3, 2, 40, 5), (3, 2, 40, 9), (3, 1, 7, 40)),),
    ),
    "statistics that are updated twice": Example(
        source(
            "return self.norm(self.norm(x0) * 2.0), self.plain(x0), self.line(x0[:, :, 0, 0])",
            (8, 6, 16, 16),
            init="self.norm = nn.BatchNorm2d(6, momentum=0.3)\nself.line = nn.BatchNorm1d(6, affine=False)\n"
            "self.plain = nn.BatchNorm2d(6, track_running_stats=False)",
        ),
        (((3, 6, 5, 7),), ((2, 6, 200, 100),)),
    ),
    "each image's statistics, learnt too": Example(
        source(
            "return self.norm(x0) * 2.0",
            (4, 6, 16, 16),
            init="self.norm = nn.InstanceNorm2d(6, affine=True, track_running_stats=True)",
        ),
        (((3, 6, 5, 7),), ((1, 6, 20, 3),)),
    ),
    "batches of vectors": Example(
        source("return self.norm(x0) + 1.0", (300, 40), init="self.norm = nn.BatchNorm1d(40)"),
        (((2, 40),), ((700, 40),)),
    ),
    "a scan of short rows, and one across memory": Example(
        source("return torch.cumsum(x0.exp(), -1) + 1.0, torch.cumprod(x0, 0)", (64, 40)),
        (((5, 33),), ((300, 7),), ((2, 1000),)),
    ),
    "scans across planes that share a program": Example(
        source(
            "y = torch.cumsum(x0.flip(1), 1).flip(1)\nreturn y * x1, torch.cummax(x0, 1), torch.logcumsumexp(x0, 1)",
            (20, 10, 3),
            (20, 1, 1),
        ),
        (((3, 33, 2), (3, 1, 1)), ((200, 2, 40), (200, 1, 1)), ((2, 3000, 2), (2, 1, 1))),
    ),
    "a scan from the last place": Example(
        source("return torch.cumsum(x0.flip(1), 1).flip(1), torch.cumprod(x0.flip(0), 0).flip(0)", (64, 2000)),
        (((3, 9000),), ((70, 3),)),
    ),
    "a scan that leaves its own place out": Example(
        source("y = torch.cumsum(x0[:, :-1], 1)\nreturn torch.cat((torch.zeros_like(x0[:, :1]), y), 1)", (64, 2000)),
        (((3, 9000),), ((2, 2),)),
    ),
    "running extremes and their places": Example(
        source("return torch.cummax(x0, 1), torch.cummin(x0, 0), torch.logcumsumexp(x0, 1)", (8, 12)),
        (((3, 17),), ((20, 2),)),
    ),
    "row mean": Example(
        source("return x0 / x0.mean(dim=-1, keepdim=True)", (8, 32)), (((1, 33),), ((9, 1),), ((2, 2000),))
    ),
    "column sum": Example(source("return x0.sum(dim=1)", (4, 16, 24)), (((1, 17, 1),), ((3, 200, 25),))),
    "columns that share a program with those of other planes": Example(
        source(
            "y = x0 * x1 + x2\nreturn torch.softmax(y, 1) * x1, y.argmax(1), y.var(1), (y * x3).amax((1, 2))",
            (20, 10, 3, 6),
            (20, 1, 1, 1),
            (10, 1, 1),
            (3, 1),
        ),
        (
            ((3, 7, 2, 40), (3, 1, 1, 1), (7, 1, 1), (2, 1)),
            ((1, 2, 5, 3), (1, 1, 1, 1), (2, 1, 1), (5, 1)),
            ((2, 1000, 1, 2), (2, 1, 1, 1), (1000, 1, 1), (1, 1)),
        ),
    ),
    "long rows, and short ones": Example(
        source("return torch.softmax(x0, -1) * x0.std(-1, keepdim=True), x0.argmax(-1)", (8, 3000)),
        (((200, 5),), ((3, 9000),)),
    ),
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
        source("return x0.mean(-1) + x1", (2, 3, 70_000), (3,)),
        (((2, 3, 9000), (3,)), ((4, 1, 70), (1,))),
    ),
    "a matrix times itself, and itself again": Example(
        source("return torch.bmm(x0, x0) + x0", (3, 20, 20)),
        (((2, 33, 33),), ((1, 1, 1),)),
    ),
    "products": Example(
        source("return x0.prod(1), (x0 * 1.01).prod(0, keepdim=True), x0[:, 0].prod()", (40, 300)),
        (((3, 20),), ((70, 4),)),
    ),
    "triangle": Example(source("return torch.triu(x0 * 2.0, 1)", (8, 16)), (((17, 9),), ((1, 7),), ((7, 1),))),
    "triangles of products": Example(
        source("return torch.tril(x0 @ x1, 1) * 2.0, torch.triu(x0 @ x1, -9)", (96, 40), (40, 80)),
        (((200, 20), (20, 150)), ((1, 5), (5, 300)), ((170, 3), (3, 2))),
    ),
    "a volume and its residual": Example(
        source(
            "return self.conv(x0) * self.scale + x0",
            (2, 4, 6, 6, 6),
            init="self.conv = nn.Conv3d(4, 4, (1, 3, 5), padding=(0, 1, 2))\n"
            "self.scale = nn.Parameter(torch.ones(4, 1, 1, 1))",
        ),
        (((1, 4, 1, 1, 1),), ((3, 4, 2, 5, 7),)),
    ),
    "groups along a line, padded to keep the length": Example(
        source(
            "return self.conv(x0)",
            (2, 8, 32),
            init="self.conv = nn.Conv1d(8, 12, 4, padding='same', dilation=2, groups=4)",
        ),
        (((1, 8, 1),), ((3, 8, 77),)),
    ),
    "one sample of a transposed volume in groups": Example(
        source(
            "return self.conv(x0)",
            (4, 3, 4, 5),
            init="self.conv = nn.ConvTranspose3d(4, 6, (1, 2, 3), stride=(3, 2, 1), dilation=(1, 2, 3), groups=2)",
        ),
        (((4, 1, 1, 1),), ((4, 2, 5, 3),)),
    ),
    "a step at a time": Example(
        source(
            "outs = []\nfor t in range(x0.shape[0]):\n    x1 = torch.tanh(self.fc(torch.cat((x0[t], x1), 1)))\n"
            "    outs.append(self.out(x1))\nreturn torch.stack(outs), x1",
            (20, 3, 4),
            (3, 5),
            init="self.fc, self.out = nn.Linear(9, 5), nn.Linear(5, 2)",
        ),
        (((20, 1, 4), (1, 5)), ((20, 40, 4), (40, 5))),
    ),
    "a step at a time, samples first": Example(
        source(
            "for t in range(20):\n    x1 = torch.tanh(self.fc(torch.cat((x0[:, t], x1), 1)))\nreturn x1",
            (3, 20, 4),
            (3, 5),
            init="self.fc = nn.Linear(9, 5)",
        ),
        (((1, 20, 4), (1, 5)), ((7, 23, 4), (7, 5))),
    ),
    "joined more and more": Example(
        source(
            "found = [x0]\nfor layer in self.layers:\n    found.append(layer(torch.relu(torch.cat(found, 1))))\n"
            "return torch.cat(found, 1)",
            (3, 4, 5),
            init="self.layers = nn.ModuleList([nn.Conv1d(4 + 2 * i, 2, 3, padding=1) for i in range(6)])",
        ),
        (((1, 4, 7),), ((5, 4, 2),)),
    ),
    "windows": Example(
        source("return F.max_pool2d(x0, 3, 2, 1), F.avg_pool2d(torch.relu(x0), 2, ceil_mode=True)", (2, 3, 16, 16)),
        (((1, 5, 7, 9),), ((3, 2, 5, 4),)),
    ),
    "adaptive windows": Example(source("return F.adaptive_avg_pool2d(x0, (3, 2))", (2, 3, 7, 8)), (((1, 2, 9, 5),),)),
    "movement": Example(
        source(
            "y = torch.cat([x0.flip(1), x1.roll(1, 0)], 1)\nreturn F.pad(y, (1, 2), mode='reflect')",
            (4, 8),
            (4, 6),
        ),
        (((3, 5), (3, 9)), ((7, 4), (7, 2))),
    ),
    "writing at named places": Example(
        source(
            "place = (x1 * 10.0).long() % 4\n"
            "return x0.scatter_add(1, place, x1), x0.scatter(1, place, x1), x0.index_fill(0, place[:, 0], 2.0)",
            (5, 4),
            (3, 6),
        ),
        (((6, 4), (4, 9)),),
    ),
    "messages along edges": Example(
        source(
            "places = (torch.sigmoid(x1) * 5.0).long()\nh = torch.relu(x0[places[0]])\n"
            "out = torch.zeros_like(x0).scatter_add_(0, places[1].unsqueeze(-1).expand(-1, 4), h)\n"
            "count = torch.zeros(x0.shape[0]).index_add_(0, places[1], torch.ones_like(x1[1]), alpha=2)\n"
            "return out / (count[:, None] + 1.0), x0.index_put((places[0] - 5,), h, accumulate=True)",
            (5, 4),
            (2, 70),
        ),
        (((5, 4), (2, 131)), ((9, 4), (2, 20))),
    ),
    "routing": Example(
        source(
            "weights, chosen = torch.topk(torch.softmax(x0, -1), 2, dim=-1)\n"
            "weights = weights / weights.sum(-1, keepdim=True)\n"
            "share = (F.one_hot(chosen, 6) * weights[..., None]).sum(1)\n"
            "return torch.einsum('te,ted->td', share, x1), torch.gather(x1[..., 0], 1, chosen)",
            (5, 6),
            (5, 6, 4),
        ),
        (((9, 6), (9, 6, 3)), ((1, 6), (1, 6, 4))),
    ),
    "sorted rows": Example(
        source("v, i = x0.sort(1)\nreturn v.cumsum(1) * 2.0, i, x0.median(-1)[0] + 1.0", (3, 7, 4)),
        (((2, 9, 5),), ((1, 33, 3),)),
    ),
    "parts and other orders": Example(
        source("a, b = x0.chunk(2, 1)\nreturn a.mT * b[:, ::2, -1:].mean() + x0[:, :1, -1:]", (2, 6, 4)),
        (((3, 4, 7),), ((1, 8, 3),)),
    ),
    "resampling": Example(
        source("return F.interpolate(x0, scale_factor=1.5, mode='bilinear') * 2.0", (2, 3, 8, 6)), (((1, 2, 5, 7),),)
    ),
}
