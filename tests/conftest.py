"""What several tests need that is made once."""

from __future__ import annotations

import pytest

from kernelllm import KernelLLM
from tests.backends import tiny


@pytest.fixture(scope="session")
def llm(tmp_path_factory: pytest.TempPathFactory) -> KernelLLM:
    """A tiny model that answers one prompt; the folder brings the prompt's template."""
    folder = tiny.build(tmp_path_factory.mktemp("llm"))
    (folder / "kernelllm.py").write_text("PROMPT_TEMPLATE = '\\n<|begin_of_text|>Convert {}:\\n'\n")
    tiny.teach(folder, "\n<|begin_of_text|>Convert MODULE:\n", "```python\nimport torch\nclass ModelNew: 1\n```\n")
    return KernelLLM(str(folder), device="cpu")
