"""`builtin`: PyTorch module → Triton source. Deterministic, no weights, no GPU.

capture (torch.export) → lower (rules) → fuse (groups) → kernel, gemm, split (text) → module (the file).
Where programs lie: axes, frames. What a kernel holds: body, reducing, stream, onepass. How text is broken: margin.
"""
