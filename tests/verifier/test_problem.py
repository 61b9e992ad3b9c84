"""What comes out of a messy paste: the module as it was meant, and a note for every repair."""
# ruff: noqa: E501  (a paste is easier to read on one line)

from __future__ import annotations

import html
import json
from collections.abc import Callable

import pytest

from verifier.problem import NotAProblem, Problem

CLEAN = '''import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    """two layers and a gate"""

    def __init__(self, d_in, d_out):
        super().__init__()
        self.fc = nn.Linear(d_in, d_out)
        self.gate = nn.Linear(d_in, d_out, bias=False)

    def forward(self, x):
        h = self.fc(x)

        return F.silu(h) * self.gate(x)


def get_inputs():
    return [torch.randn(6, 10)]


def get_init_inputs():
    return [10, 7]
'''
HEAD = "import torch\nimport torch.nn as nn\nimport torch.nn.functional as F\n\n\n"
BODY = CLEAN.removeprefix(HEAD)


def each_line(change: Callable[[str], str], text: str = CLEAN) -> str:
    """Change every line of a text."""
    return "\n".join(change(line) for line in text.split("\n"))


def notebook(*cells: str) -> str:
    """Write a Jupyter notebook with these code cells."""
    written = [{"cell_type": "code", "source": cell.splitlines(keepends=True), "outputs": []} for cell in cells]
    return json.dumps({"cells": [{"cell_type": "markdown", "source": ["# demo"]}, *written], "nbformat": 4})


WRAPPED = {
    "as it is": CLEAN,
    "fence with prose": f"Sure! Here is it:\n\n```python\n{CLEAN}```\n\nThe `forward` is **slow**.\n",
    "fence without language": f"Here:\n```\n{CLEAN}```\nprints\n```\ntensor(1)\n```\n",
    "tilde fence": f"~~~py\n{CLEAN}~~~\n",
    "unclosed fence": f"```python\n{CLEAN}",
    "closing fence only": f"{CLEAN}```\nThanks",
    "indented fence": each_line(lambda line: "   " + line, f"Text:\n```python\n{CLEAN}```"),
    "other languages around": f"```bash\npip install x\n```\n```python\n{CLEAN}```\n```json\n{{}}\n```",
    "split over two fences": f"layer\n```python\n{CLEAN[: CLEAN.index('def get_inputs')].rstrip()}\n```\nand\n```python\n"
    f"{CLEAN[CLEAN.index('def get_inputs') :]}```",
    "quoted mail": each_line(lambda line: "> " + line),
    "quoted mail below a sentence": "On Monday Ann wrote:\n" + each_line(lambda line: "> " + line),
    "indented below a sentence": "I have this (it is slow):\n\n"
    + each_line(lambda line: "    " + line)
    + "\n\nAny ideas?\n",
    "reStructuredText": "Example::\n\n" + each_line(lambda line: "   " + line if line else line),
    "error below": CLEAN
    + '\nTraceback (most recent call last):\n  File "m.py", line 3, in <module>\n    Model(1)\nTypeError: x\n',
    "error above": 'Traceback (most recent call last):\n  File "m.py", line 3\n    Model(1)\nTypeError: f(x)\n\n'
    + CLEAN,
    "JSON of a dataset's row": json.dumps({"name": "a\nb", "rows": [{"code": CLEAN}], "fast": None}),
    "Python string": repr(CLEAN),
    "Python prompts": each_line(lambda line: ">>> " + line if line[:1].strip() else "... " + line, CLEAN.rstrip()),
    "common indentation": each_line(lambda line: "        " + line if line else line),
    "copy began inside the first line": each_line(lambda line: "    " + line).lstrip(),
    "CRLF and byte order mark": "\ufeff" + CLEAN.replace("\n", "\r\n") + "\x1a",
    "CR": CLEAN.replace("\n", "\r"),
    "colours": CLEAN.replace("class", "\x1b[34;1mclass\x1b[0m").replace(
        "return", "\x1b]0;title\x07\x1b[38;5;204mreturn\x1b[39m"
    ),
    "paste markers": f"\x1b[200~{CLEAN}\x1b[201~",
    "diff": "diff --git a/m.py b/m.py\n--- /dev/null\n+++ b/m.py\n@@ -0,0 +1,26 @@\n"
    + each_line(lambda line: "+" + line, CLEAN.rstrip()),
    "line numbers": "\n".join(f"{n:4d} | {line}" for n, line in enumerate(CLEAN.split("\n"), 1)),
    "cat -n": "\n".join(f"{n:6d}\t{line}" for n, line in enumerate(CLEAN.split("\n"), 1)),
    "grep -n": "\n".join(f"src/m.py:{n}:{line}" for n, line in enumerate(CLEAN.split("\n"), 1)),
    "grep -n of one file": "\n".join(f"{n}:{line}" for n, line in enumerate(CLEAN.split("\n"), 1)),
    "HTML": html.escape(CLEAN),
    "special spaces": CLEAN.replace("    ", "\u00a0\u00a0\u00a0\u00a0"),
    "here-document": f"$ cat > m.py <<'EOF'\n{CLEAN}EOF\n$ python m.py\n",
    "prose without fence": f"Hi, can you speed this up?\n\n{CLEAN}\nThanks a lot, it is slow!\n",
    "notebook": notebook("%matplotlib inline\n!pip install nothing\n" + HEAD.rstrip(), BODY),
    "merge conflict": CLEAN.replace(
        "        h = self.fc(x)\n", "<<<<<<< HEAD\n        h = self.fc(x)\n=======\n        h = x\n>>>>>>> b\n"
    ),
    "main guard": CLEAN + '\n\nif __name__ == "__main__":\n    print(Model(10, 7)(*get_inputs()))\n',
    "prints below": CLEAN + "\nmodel = Model(10, 7)\nprint(model(torch.ones(1, 10)))\nassert True\n",
    "endless loop above": CLEAN.replace("\n\nclass", "\nn = 0\nwhile True:\n    n += 1\n\n\nclass").replace(
        "n = 0\n", "", 1
    ),
    "relative imports": CLEAN.replace("\n\n\nclass", "\nfrom .layers import Norm\nfrom ..log import get\n\n\nclass"),
    "absent packages": CLEAN.replace(
        "\n\n\nclass", "\nimport flash_attn_absent as fa\nfrom absent.pkg import Norm\n\n\nclass"
    ),
    "no imports": BODY,
    "stops without a GPU": CLEAN.replace(
        "\n\n\nclass", "\nif not torch.cuda.is_available():\n    raise SystemExit(1)\n\n\nclass"
    ),
}


@pytest.mark.parametrize("text", WRAPPED.values(), ids=WRAPPED.keys())
def test_what_surrounds_a_module_comes_off(text: str) -> None:
    """However it was wrapped, the module comes out as it was."""
    problem = Problem.parse(text)
    assert problem.source == CLEAN
    assert (problem.entry, problem.forward_args) == ("Model", ("x",))


@pytest.mark.parametrize(
    "name", [name for name in WRAPPED if name not in ("as it is", "CR", "CRLF and byte order mark")]
)
def test_every_repair_is_told(name: str) -> None:
    """A change that a person could miss is a note; line ends and the byte order mark are not worth one."""
    assert Problem.parse(WRAPPED[name]).notes


def test_a_clean_problem_has_no_notes() -> None:
    """Nothing was done, nothing is said."""
    assert Problem.parse(CLEAN).notes == ()


@pytest.mark.parametrize("fence", ["```", "````"])
def test_fences_inside_a_docstring_do_not_end_the_block(fence: str) -> None:
    """Also when the inner fence is as long as the outer one."""
    inner = CLEAN.replace(
        '"""two layers and a gate"""', "'''doc\n\n    ```python\n    m = Model(1, 2)\n    ```\n    '''"
    )
    assert Problem.parse(f"{fence}python\n{inner}{fence}\n").source == inner


def test_prompts_inside_a_docstring_stay() -> None:
    """A doctest is documentation, not a session."""
    text = CLEAN.replace(
        "two layers and a gate", "two layers\n\n    >>> m(x).shape\n    torch.Size([2, 7])\n    ... more\n    "
    )
    assert Problem.parse(text).source == text


def test_output_of_a_session_is_left_out() -> None:
    """What IPython printed is no code."""
    session = (
        "In [1]: import torch\n   ...: import torch.nn as nn\n\nIn [2]: class Net(nn.Module):\n"
        "   ...:     def forward(self, x):\n   ...:         return x + 1\n   ...: \n\n"
        "In [3]: Net()(torch.ones(2, 3))\nOut[3]: \ntensor([[2., 2., 2.],\n        [2., 2., 2.]])\n"
    )
    problem = Problem.parse(session)
    assert problem.entry == "Net" and "Out[" not in problem.source and "torch.ones(2, 3)" in problem.source


def test_the_second_version_of_a_class_is_left_out() -> None:
    """An answer that shows the module before and after keeps the one it began with."""
    after = CLEAN.replace("F.silu(h)", "F.gelu(h)")
    assert Problem.parse(f"Before:\n```python\n{CLEAN}```\nAfter:\n```python\n{after}```\n").source == CLEAN


def test_settings_that_change_values_stay_and_process_settings_go() -> None:
    """Seed and default dtype belong to the module, the environment and stdout to nobody's module."""
    text = CLEAN.replace(
        "\n\n\nclass",
        '\nimport os\nimport sys\n\nos.environ["CUDA_VISIBLE_DEVICES"] = ""\ntorch.set_default_dtype(torch.float64)\n'
        'torch.manual_seed(0)\ntorch.backends.cuda.matmul.allow_tf32 = True\nsys.stdout = None\nos.chdir("/")\n'
        "torch.allclose = lambda *a: True\n\n\nclass",
    )
    source = Problem.parse(text).source
    for kept in ("set_default_dtype", "manual_seed", "allow_tf32"):
        assert kept in source
    for gone in ("os.environ", "sys.stdout", "chdir", "allclose"):
        assert gone not in source


def test_a_patch_of_what_the_module_uses_stays() -> None:
    """F.silu = … changes what the module computes."""
    assert "F.silu = torch.relu" in Problem.parse(CLEAN + "\nF.silu = torch.relu\n").source


def test_tables_that_the_module_reads_stay_with_the_loop_that_fills_them() -> None:
    """What the class needs is found through assignments, loops and in-place changes."""
    text = HEAD + (
        "CFG = {}\nCFG['d'] = 8\nLAYERS = []\nfor i in range(3):\n    LAYERS.append(8)\nfor epoch in range(9):\n    print(epoch)\n\n\n"
        "class Model(nn.Module):\n    def forward(self, x):\n        return x * CFG['d'] + len(LAYERS)\n\n\n"
        "def get_inputs():\n    return [torch.randn(2)]\n\n\ndef get_init_inputs():\n    return []\n"
    )
    source = Problem.parse(text).source
    assert "LAYERS.append(8)" in source and "CFG['d'] = 8" in source and "epoch" not in source


def test_inputs_are_made_without_a_gpu() -> None:
    """`.cuda()` and device="cuda" go from the inputs; in the module they ask whether there is a GPU."""
    text = CLEAN.replace("torch.randn(6, 10)", 'torch.randn(6, 10, device="cuda").cuda()').replace(
        "bias=False)", 'bias=False, device="cuda")'
    )
    problem = Problem.parse(text)
    assert 'return [torch.randn(6, 10, device="cpu")]' in problem.source
    assert 'device="cuda" if torch.cuda.is_available() else "cpu")' in problem.source
    assert any("cuda" in note for note in problem.notes)


def test_a_lightning_module_is_a_module() -> None:
    """What trains goes, the hyperparameters that forward needs stay."""
    text = HEAD + (
        "import pytorch_lightning as pl\n\n\nclass Net(pl.LightningModule):\n    def __init__(self, d=6, lr=0.1):\n"
        "        super().__init__()\n        self.save_hyperparameters()\n        self.fc = nn.Linear(self.hparams.d, 3)\n\n"
        "    def forward(self, x):\n        return self.fc(x)\n\n    def training_step(self, batch, i):\n        return self(batch)\n"
    )
    source = Problem.parse(text).source
    assert "class Net(nn.Module)" in source and "SimpleNamespace(d=d, lr=lr)" in source
    assert "training_step" not in source and "lightning" not in source and "torch.randn(8, 6)" in source


def test_decorators_of_other_compilers_come_off() -> None:
    """Eager PyTorch is the reference, so nothing compiles it."""
    problem = Problem.parse(CLEAN.replace("class Model", "@torch.compile\nclass Model"))
    assert problem.source == CLEAN and "torch.compile" in problem.notes[0]


def test_annotations_of_an_absent_package_come_off() -> None:
    """jaxtyping decorates shapes, it computes nothing."""
    text = CLEAN.replace("\n\n\nclass", "\nfrom absent_typing import Float\n\n\nclass").replace(
        "def forward(self, x):", 'def forward(self, x: Float[torch.Tensor, "b d"]) -> Float[torch.Tensor, "b d"]:'
    )
    assert Problem.parse(text).source == CLEAN


@pytest.mark.parametrize(
    ("classes", "entry"),
    [
        (
            "class A(nn.Module):\n    def forward(self, x): return B()(x)\nclass B(nn.Module):\n    def forward(self, x): return x\n",
            "A",
        ),
        ("class A(nn.Module):\n    def forward(self, x): return x\nclass B(A):\n    pass\n", "B"),
        (
            "class A(nn.Module):\n    def forward(self, x): return x\nclass B(nn.Module):\n    def forward(self, x): return x\n",
            "B",
        ),
        (
            "class B(nn.Module):\n    def forward(self, x): return x\nclass A(nn.Module):\n    def forward(self, x): return x\nB()(torch.ones(2))\n",
            "B",
        ),
        (
            "class A(nn.Module):\n    def __init__(self, d):\n        super().__init__()\n    def forward(self, x): return x\n"
            "class B(nn.Module):\n    def __init__(self, d, e):\n        super().__init__()\n    def forward(self, x): return x\n"
            "def get_init_inputs(): return [3]\n",
            "A",
        ),
        (
            "class Model(nn.Module):\n    def forward(self, x): return x\nclass Z(nn.Module):\n    def forward(self, x): return x\n",
            "Model",
        ),
    ],
    ids=["used by another", "inherited", "the last", "the one that is called", "the one the arguments fit", "Model"],
)
def test_the_class_to_convert_among_several(classes: str, entry: str) -> None:
    """The outermost, called, fitting or last module is the problem, and the choice is told."""
    problem = Problem.parse(HEAD + classes)
    assert problem.entry == entry
    assert entry == "Model" or any(entry in note and "converted" in note for note in problem.notes)


REFUSED = {
    "nothing": ("\n\n   \n\t\n", "empty", None),
    "prose": ("please convert my model to triton", "not_pytorch", None),
    "a word": ("hello", "not_pytorch", None),
    "Keras": ("from tensorflow import keras\nclass M(keras.Model):\n    def call(self, x):\n        return x\n", "not_pytorch", None),
    "C++": ("#include <torch/extension.h>\nint main() {\n  return 0;\n}\n", "not_pytorch", None),
    "a traceback": ('Traceback (most recent call last):\n  File "a.py", line 3, in f\n    x = f(1)\nValueError: x\n', "not_pytorch", None),
    "a class that is no module": (HEAD + "class M:\n    def forward(self, x):\n        return x\n", "not_pytorch", 6),
    "a kernel": ("import triton\n\n@triton.jit\ndef k(x_ptr, n):\n    pass\n", "not_pytorch", 4),
    "a method without its class": ("def forward(self, x):\n    return self.fc(x)\n", "not_pytorch", 1),
    "a typing mistake": (CLEAN.replace("return F", "retrun F"), "syntax_error", 17),
    "an open bracket in the middle": (CLEAN.replace("nn.Linear(d_in, d_out)\n", "nn.Linear(d_in, d_out\n"), "syntax_error", 11),
    "cut in a call": (CLEAN[: CLEAN.index("silu(h") + 6], "truncated", 17),
    "cut in a name": (CLEAN[: CLEAN.index("self.gate(x)") + 6], "truncated", 17),
    "cut below a def": (CLEAN[: CLEAN.index("get_inputs():") + 13], "truncated", 20),
    "cut before forward": (CLEAN[: CLEAN.index("    def forward")], "truncated", 6),
    "cut inside the second class": (
        CLEAN[: CLEAN.index("def get_inputs")] + "class Outer(nn.Module):\n    def __init__(self):\n        super().__init__()\n",
        "truncated",
        20,
    ),
    "a misspelt base": (CLEAN.replace("nn.Module", "nn.Modul"), "reference_error", 6),
    "an undefined name": (CLEAN.replace("F.silu(h)", "swish(h)"), "reference_error", 17),
    "a question to the terminal": (CLEAN.replace("\n\n\nclass", "\nd = int(input())\n\n\nclass").replace("[10, 7]", "[d, 7]"), "reference_error", 4),
    "a package that is needed": (CLEAN.replace("\n\n\nclass", "\nfrom absent import act\n\n\nclass").replace("F.silu", "act"), "missing_package", 4),
    "a file that is needed": (CLEAN.replace("\n\n\nclass", "\nfrom .ops import act\n\n\nclass").replace("F.silu", "act"), "missing_package", 4),
    "too deep": ("x = " + "(" * 3000 + ")" * 3000, "syntax_error", 1),
    "too long": ("x = 1\n" * 2_000_000, "too_large", None),
}  # fmt: skip


@pytest.mark.parametrize(("text", "code", "line"), REFUSED.values(), ids=REFUSED.keys())
def test_what_cannot_be_a_problem_is_refused_with_the_line(text: str, code: str, line: int | None) -> None:
    """The code, the line as pasted, and what to do."""
    with pytest.raises(NotAProblem) as refusal:
        Problem.parse(text)
    assert refusal.value.code == code
    assert line is None or refusal.value.line == line
    assert refusal.value.message and refusal.value.hint


def test_lines_count_in_the_text_as_pasted() -> None:
    """Prose and a fence above the code shift the line that is named."""
    with pytest.raises(NotAProblem) as refusal:
        Problem.parse("Look:\n\n```python\n" + CLEAN.replace("return F", "retrun F") + "```\n")
    assert refusal.value.line == 17 + 3


def test_the_unclosed_bracket_is_named() -> None:
    """While typing, the toolbar says which bracket is open and where."""
    with pytest.raises(NotAProblem) as refusal:
        Problem.parse(HEAD + "class A(nn.Module):\n    def forward(self, x):\n        return torch.relu(x")
    assert "'(' was never closed" in refusal.value.message and refusal.value.line == 8


@pytest.mark.parametrize(
    ("encoding", "noted"),
    [("utf-8", False), ("utf-8-sig", False), ("utf-16", True), ("utf-16-le", True), ("latin-1", True)],
)
def test_bytes_are_read_in_their_encoding(encoding: str, noted: bool) -> None:
    """UTF-8 silently, others with a note."""
    text = CLEAN.replace("two layers", "zwei Schichten für")
    problem = Problem.read(text.encode(encoding))
    assert problem.source == text and bool(problem.notes) == noted


def test_bytes_that_are_no_text_are_refused() -> None:
    """A picture is not a module."""
    with pytest.raises(NotAProblem):
        Problem.read(bytes(range(256)) * 8 + b"\0" * 400)


def test_identifiers_in_any_script_are_kept() -> None:
    """Columns count in characters, also below a wide one."""
    text = CLEAN.replace("h = self.fc(x)", 'h = 隐 = self.fc(x); 深 = torch.ones(1, device="cuda")')
    assert '深 = torch.ones(1, device="cuda" if torch.cuda.is_available() else "cpu")' in Problem.parse(text).source
