"""Fills a Triton cache once with what every GPU child would otherwise build again: the driver's own C helpers."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from verifier.wire import Channel

SEED = "seed"


def serve(channel: Channel) -> None:
    """Launch a trivial kernel, and leave the cache behind for children that start later."""
    import torch
    import triton

    from verifier import gpu_warmup_kernel

    values = torch.zeros(32, device="cuda")
    gpu_warmup_kernel.nothing[(1,)](values, 1.0, 32, BLOCK=32)
    torch.cuda.synchronize()
    cache = Path(os.environ["TRITON_CACHE_DIR"])
    if cache.is_dir():
        shutil.copytree(cache, cache.parent.parent / SEED, dirs_exist_ok=True)
    channel.send({"triton": triton.__version__})
