"""The README's example runs and shows what it promises."""

import re
from pathlib import Path

import pytest


def test_the_example_runs(capsys: pytest.CaptureFixture[str]) -> None:
    readme = (Path(__file__).parents[1] / "README.md").read_text(encoding="utf-8")
    (example,) = re.findall(r"```python\n(.*?)```", readme, re.DOTALL)
    exec(compile(example, "README.md", "exec"), {})
    out = capsys.readouterr().out
    assert out.startswith("(UserMessage(text='Hello'),)\nevent: message_start\n")
    assert '"content":[{"type":"text","text":"Hi there."}]' in out.splitlines()[-1]
