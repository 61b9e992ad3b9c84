"""The user's own text in the new file: what is kept, what is dropped, what is renamed."""

from __future__ import annotations

import importlib
import textwrap

from backends.compiler.usercode import keep
from backends.compiler.usernames import forward_arguments

SOURCE = textwrap.dedent('''
    import math
    import json
    from typing import Optional
    import torch
    from torch import nn

    WIDTH = 8
    UNUSED = 9
    SCALE = WIDTH * 2


    def initial(size):
        return torch.full((size,), math.pi)


    def never(size):
        return json.dumps(size)


    class Gate(nn.Module):
        """A gate."""

        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(initial(WIDTH))

        def forward(self, x):
            return self.helper(x)

        def helper(self, x):
            return x * self.weight


    class Other(nn.Module):
        pass


    class Model(nn.Module):
        LIMIT = 3

        def __init__(self, scale: Optional[float] = SCALE):
            super(Model, self).__init__()
            self.gate = Gate()
            self.kind = type(self).__name__ == Model.__name__
            self._reset()

        def _reset(self):
            self.scale = 1.0

        def _only_forward(self, x):
            return x

        def forward(self, x, *, mask=None):
            return self._only_forward(self.gate(x))


    def get_inputs():
        return [torch.rand(2, WIDTH)]
''').strip()

KEPT = keep(SOURCE, "Model", "return gate(x, self.gate.weight)")
EVERYTHING = "\n\n".join([*KEPT.imports, *KEPT.definitions, KEPT.model])


def test_the_class_is_renamed_where_it_is_named() -> None:
    """`Model` becomes `ModelNew`, in super(Model, self) and inside its own body too."""
    assert "class ModelNew(nn.Module):" in KEPT.model
    assert "super().__init__()" in KEPT.model and "super(Model" not in EVERYTHING
    assert "== ModelNew.__name__" in KEPT.model


def test_forward_is_replaced_with_its_own_signature() -> None:
    """The new forward takes what the old one took, keyword-only arguments too."""
    assert "def forward(self, x, *, mask=None):\n        return gate(x, self.gate.weight)" in KEPT.model


def test_methods_that_only_forward_used_are_dropped() -> None:
    """What the constructor calls stays; a helper of forward goes."""
    assert "def _reset(self):" in KEPT.model and "_only_forward" not in KEPT.model
    assert "helper" not in EVERYTHING


def test_a_helper_class_keeps_its_constructor_alone() -> None:
    """A submodule holds parameters; its forward lives on in the kernels."""
    gate = next(text for text in KEPT.definitions if text.startswith("class Gate"))
    assert "def __init__" in gate and "def forward" not in gate


def test_what_construction_needs_is_kept_and_nothing_else() -> None:
    """Constants, functions and imports are followed by name; the rest of the file is left out."""
    assert "WIDTH = 8" in EVERYTHING and "SCALE = WIDTH * 2" in EVERYTHING and "def initial" in EVERYTHING
    for absent in ("UNUSED", "never", "Other", "json", "get_inputs"):
        assert absent not in EVERYTHING
    assert "import math" in KEPT.imports and "from typing import Optional" in KEPT.imports


def test_class_attributes_stay() -> None:
    """What stands in the class body besides methods is kept."""
    assert "LIMIT = 3" in KEPT.model


def test_a_nested_class_stays_where_it_is() -> None:
    """A class inside the module's class belongs to its body."""
    source = textwrap.dedent("""
        import torch.nn as nn

        class Model(nn.Module):
            class Settings:
                width = 4

            def __init__(self):
                super().__init__()
                self.fc = nn.Linear(self.Settings.width, 2)

            def forward(self, x):
                return self.fc(x)
    """).strip()
    model = keep(source, "Model", "return fc(x)").model
    assert "    class Settings:\n        width = 4" in model
    compile("import torch.nn as nn\n" + model, "kept", "exec")


def test_text_inside_strings_is_not_renamed() -> None:
    """Only names are: a string or a longer name that contains the class's name is the user's."""
    body = '    NAME = "Net of mine"\n\n    def forward(self, x):\n        return x\n'
    source = f"import torch.nn as nn\n\nclass Net(nn.Module):\n{body}"
    model = keep(source, "Net", "return x").model
    assert '"Net of mine"' in model and "class ModelNew(nn.Module)" in model


def test_forward_arguments_leave_self_out() -> None:
    """Names in forward must not meet the names given to kernels and results."""
    assert forward_arguments(SOURCE, "Model") == ("x", "mask")


def test_a_star_becomes_the_names_that_are_needed() -> None:
    """The star of torch would hide Python's min and max from what launches the kernels."""
    source = SOURCE.replace("from torch import nn", "from torch import *\nfrom torch.nn import *\nfrom torch import nn")
    source = source.replace("self.weight = nn.Parameter(", "self.gate = Tanh()\n        self.weight = Parameter(")
    importlib.import_module("torch.nn")  # as the capture has done
    kept = keep(source, "Model", "return x")
    assert "from torch.nn import Parameter, Tanh" in kept.imports
    assert not any("*" in text for text in kept.imports)
