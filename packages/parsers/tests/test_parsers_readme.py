"""The examples of the package's README run and print what the README says."""

import re
from pathlib import Path

import pytest

README = (Path(__file__).parent.parent / "README.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"```python\n(.*?)```\n\n```text\n(.*?)```", README, re.DOTALL)


def test_every_example_shows_its_output() -> None:
    assert len(EXAMPLES) == README.count("```python") == 3


@pytest.mark.parametrize(("code", "output"), EXAMPLES, ids=["parser", "stream", "forced"])
def test_an_example_runs(code: str, output: str, capsys: pytest.CaptureFixture[str]) -> None:
    exec(code, {})
    assert capsys.readouterr().out == output


def test_another_servers_stream_is_read_in_ten_lines() -> None:
    code = [line for line in EXAMPLES[1][0].splitlines() if line and not line.startswith("#")]
    stream = next(at for at, line in enumerate(code) if line.startswith("stream ="))
    assert len(code[stream + 1 :]) <= 10
