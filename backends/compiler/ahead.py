"""What a conversion imports, by name: a process that forks children can import it before there is anything to convert.

Half of it torch only imports while it exports for the first time.
"""

from __future__ import annotations

MODULES = (
    "torch.fx.experimental.symbolic_shapes",
    "torch._dynamo",
    "torch._functorch.aot_autograd",
    "torch.export._trace",
    "torch.export._unlift",
    "torch._export.passes.replace_set_grad_with_hop_pass",
    "torch._export.passes.replace_autocast_with_hop_pass",
    "torch._inductor.sizevars",
    "sympy.tensor.tensor",
    "backends.compiler.convert",
    "backends.compiler.rules:load_all",
)
"""In the order in which they are needed; "module:function" is called too."""
