"""The README's example runs as printed, but for the path of the model."""

import re
from pathlib import Path


def test_readme_example(default_gguf: Path) -> None:
    text = (Path(__file__).parents[1] / "README.md").read_text(encoding="utf-8")
    (example,) = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    assert '"SmolLM2-135M-Instruct.Q4_1.gguf"' in example
    exec(compile(example.replace('"SmolLM2-135M-Instruct.Q4_1.gguf"', repr(str(default_gguf))), "README.md", "exec"), {})
