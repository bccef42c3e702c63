"""Where a setting comes from (flag > environment > file > default), how it is spelled, and what a bad one gets."""

import contextlib
import io
import os
from pathlib import Path

import msgspec
import pytest

from antiphon import __version__
from antiphon.cli import main
from antiphon.config import Settings, flag_of, is_file_only

FIELDS = {field.name: field for field in msgspec.structs.fields(Settings)}
SWITCHES = sorted(name for name, field in FIELDS.items() if isinstance(field.default, bool))


@pytest.fixture
def cli(monkeypatch, tmp_path, capsys):
    """cli(*arguments, env={}, file=text) -> (exit status, standard error, Settings the server would run with or None)."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("os.environ", {"PATH": "", "COLUMNS": "200", "NO_COLOR": "1"})

    def run(*arguments, env=None, file=None):
        ran = []
        monkeypatch.setattr("antiphon.serve.run_server", lambda settings, file: ran.append(settings) or 0)
        for name, value in (env or {}).items():
            monkeypatch.setitem(os.environ, name, value)
        if file is not None:
            (tmp_path / "antiphon.toml").write_text(file, "utf-8")
        monkeypatch.setattr("sys.argv", ["antiphon", *arguments])
        with pytest.raises(SystemExit) as left:
            main()
        return left.value.code or 0, capsys.readouterr().err, ran[0] if ran else None

    return run


@pytest.fixture
def settings(cli):
    """The settings of a command line that is good."""

    def run(*flags, **where):
        status, text, found = cli("serve", *flags, **where)
        assert (status, text) == (0, "")
        return found

    return run


@pytest.fixture
def refusal(cli):
    """What standard error says of a command line that is bad."""

    def run(*flags, **where):
        status, text, found = cli("serve", *flags, **where)
        assert status == 2
        assert found is None
        assert "Traceback" not in text
        return text

    return run


def test_defaults(settings):
    assert settings() == Settings()
    assert (Settings().http_host, Settings().http_port, Settings().engine) == ("127.0.0.1", 8000, "embedded")
    assert Settings().enable_anthropic_api
    assert Settings().strip_anthropic_preamble
    assert not Settings().enable_streaming_tool_dispatch
    assert not Settings().enable_streaming_reasoning_dispatch
    assert (Settings().argument_streaming, Settings().cut_calls) == ("whole", "honest")


# field, (flag, its value), (variable's text, its value), (file's text, its value)
SOURCES = [
    ("http_port", ("1", 1), ("2", 2), ("3", 3)),
    ("http_host", ("::1", "::1"), ("0.0.0.0", "0.0.0.0"), ('"127.0.0.2"', "127.0.0.2")),
    ("engine", ("mock", "mock"), ("mock", "mock"), ('"mock"', "mock")),
    ("model_name", ("a", "a"), ("b", "b"), ('"org/c"', "org/c")),
    ("model_path", ("a.gguf", Path("a.gguf")), ("b.gguf", Path("b.gguf")), ('"c.gguf"', Path("c.gguf"))),
    ("context_length", ("100", 100), ("200", 200), ("300", 300)),
    ("tool_call_parser", ("hermes", "hermes"), ("qwen3_coder", "qwen3_coder"), ('"none"', "none")),
    ("cut_calls", ("recover", "recover"), ("recover", "recover"), ('"recover"', "recover")),
    ("argument_streaming", ("incremental", "incremental"), ("incremental", "incremental"), ('"incremental"', "incremental")),
    ("mock_token_delay_ms", ("0.5", 0.5), ("1.5", 1.5), ("2", 2.0)),
    ("mock_speed", ("b200", "b200"), ("laptop", "laptop"), ('"none"', "none")),
    ("mock_cache_blocks", ("0", 0), ("10", 10), ("20", 20)),
    ("mock_block_size", ("1", 1), ("32", 32), ("64", 64)),
    ("mock_fault", ("wrong-ids", "wrong-ids"), ("cut-after=1", "cut-after=1"), ('"slow=2"', "slow=2")),
    ("trace_tokens", ("a.jsonl", Path("a.jsonl")), ("b.jsonl", Path("b.jsonl")), ('"c.jsonl"', Path("c.jsonl"))),
    ("log_level", ("error", "error"), ("debug", "debug"), ('"warning"', "warning")),
    ("profile", ("minimal", "minimal"), ("house", "house"), ('"claude-opus-4-8"', "claude-opus-4-8")),
    ("reported_context_length", ("2000", 2000), ("3000", 3000), ("200000", 200_000)),
]


@pytest.mark.parametrize(("field", "flag", "variable", "file"), SOURCES, ids=[source[0] for source in SOURCES])
def test_flag_environment_file_default(settings, field, flag, variable, file):
    flags = (f"--{field.replace('_', '-')}", flag[0])
    env = {f"ANTIPHON_{field.upper()}": variable[0]}
    text = f"{field} = {file[0]}\n"
    assert getattr(settings(), field) == FIELDS[field].default
    assert getattr(settings(file=text), field) == file[1]
    assert getattr(settings(*flags), field) == flag[1], "a flag wins over the file"
    assert getattr(settings(env=env), field) == variable[1], "the environment wins over the file"
    assert getattr(settings(*flags), field) == flag[1], "a flag wins over the environment"


@pytest.mark.parametrize("name", SWITCHES)
def test_every_switch_has_a_no_form_and_a_variable(settings, name):
    flag, variable = name.replace("_", "-"), f"ANTIPHON_{name.upper()}"
    for value in (True, False):
        spelled = f"--{flag}" if value else f"--no-{flag}"
        assert getattr(settings(spelled), name) is value
        assert getattr(settings(env={variable: str(value).lower()}), name) is value
        assert getattr(settings(env={variable: str(int(value))}), name) is value
        assert getattr(settings(spelled, env={variable: str(not value).lower()}), name) is value
        assert getattr(settings(spelled, file=f"{name} = {str(not value).lower()}"), name) is value


def test_a_file_decides_a_switch(settings):
    assert settings(file="enable-anthropic-api = false\nenable_streaming_tool_dispatch = true\n") == Settings(
        enable_anthropic_api=False, enable_streaming_tool_dispatch=True
    )


def test_the_fields_of_the_field_are_there():
    """Names that operators know from elsewhere."""
    names = "http_host http_port enable_anthropic_api strip_anthropic_preamble enable_streaming_tool_dispatch"
    names += " enable_streaming_reasoning_dispatch tool_call_parser reasoning_parser"
    assert set(names.split()) <= set(FIELDS)


@pytest.mark.parametrize("name", ["tool-call-parser", "reasoning-parser"])
def test_dyn_spellings(settings, name):
    field = name.replace("-", "_")
    assert getattr(settings(f"--dyn-{name}", "qwen3"), field) == "qwen3"
    assert getattr(settings(f"--dyn-{name}", "qwen3", env={f"ANTIPHON_{field.upper()}": "none"}), field) == "qwen3"


def test_the_file_may_be_named(settings, tmp_path):
    other = tmp_path / "other.toml"
    other.write_text("http-port = 5\nhttp_host = 'h'\n")
    here = "http_port = 6\n"
    assert settings("--config", str(other), file=here) == Settings(http_port=5, http_host="h")
    assert settings(env={"ANTIPHON_CONFIG": str(other)}).http_port == 5
    assert settings("--config", str(other), "--http-port", "7").http_port == 7


def test_aliases_come_as_flags_as_words_as_a_list_and_as_a_table(settings):
    assert settings("--alias", "a-*", "--alias", "b=m").aliases == ["a-*", "b=m"]
    assert settings("--model-alias", "a-*").aliases == ["a-*"]
    assert settings(env={"ANTIPHON_ALIASES": "a-* b=m"}).aliases == ["a-*", "b=m"]
    for text in ('aliases = ["a-*", "b=m"]\n', '[aliases]\n"b" = "m"\n'):
        assert settings(file=text, env={"ANTIPHON_ALIASES": ""}).aliases[-1] == "b=m"
    assert settings("--alias", "c", file='aliases = ["a"]\n').aliases == ["c"], "a flag wins"


def test_profiles_stand_in_the_file_and_nowhere_else(settings, refusal):
    found = settings(file='profile = "house"\n[profiles.house]\nlike = "minimal"\nverbosity = "low"\n')
    assert (found.profile, found.profiles) == ("house", {"house": {"like": "minimal", "verbosity": "low"}})
    assert settings(file="http_port = 1\n").profiles == {}
    assert "--profiles" in refusal("--profiles", "x")


BAD_FILES = [
    ("aliases = 1\n", "aliases: must be a list"),
    ("aliases = [1]\n", "aliases: must be a list"),
    ("profiles = 1\n", "profiles must be tables"),
    ("http_prot = 1\n", "no setting is called http_prot"),
    ("http_port = 1\nzeta = 1\nalpha = 2\n", "no setting is called alpha, zeta"),
    ("[serve]\nhttp_port = 1\n", "no setting is called serve"),
    ("http_port = \n", "cannot read the configuration file"),
]


@pytest.mark.parametrize(("text", "said"), BAD_FILES)
def test_a_bad_file_is_one_sentence(refusal, text, said):
    (line,) = refusal(file=text).splitlines()
    assert line.startswith("antiphon: ")
    assert "antiphon.toml" in line
    assert said in line


def test_a_missing_file_is_one_sentence(refusal):
    (line,) = refusal("--config", "no.toml").splitlines()
    assert line.startswith("antiphon: cannot read the configuration file no.toml")


BAD_VALUES = [
    ("http_port", "abc"),
    ("http_port", "70000"),
    ("http_port", "-1"),
    ("engine", "steam"),
    ("context_length", "3"),
    ("mock_chunk_tokens", "0"),
    ("mock_token_delay_ms", "-1"),
    ("mock_speed", "warp"),
    ("mock_cache_blocks", "-1"),
    ("mock_block_size", "0"),
    ("keepalive_seconds", "0"),
    ("cut_calls", "maybe"),
    ("argument_streaming", "some"),
    ("log_level", "loud"),
]


@pytest.mark.parametrize(("field", "value"), BAD_VALUES)
def test_a_bad_value_names_its_option_wherever_it_came_from(refusal, field, value):
    flag = f"--{field.replace('_', '-')}"
    text = refusal(f"{flag}={value}")
    assert f"Invalid value for '{flag}'" in text
    assert len([line for line in text.splitlines() if "Invalid value" in line]) == 1
    assert f"Invalid value for '{flag}'" in refusal(file=f'{field} = "{value}"\n')
    assert f"Invalid value for '{flag}'" in refusal(file="", env={f"ANTIPHON_{field.upper()}": value})


@pytest.mark.parametrize("name", SWITCHES)
def test_a_switch_is_true_or_false(refusal, name):
    flag = f"--{name.replace('_', '-')}"
    assert f"Invalid value for '{flag}'" in refusal(env={f"ANTIPHON_{name.upper()}": "maybe"})


def test_an_unknown_flag_is_refused(refusal):
    assert "--http-prot" in refusal("--http-prot", "1")


def test_what_only_the_server_can_check_is_one_sentence(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    cases = [
        (("--tool-call-parser", "hermess"), "unknown tool parser 'hermess': did you mean hermes? Known are"),
        (("--dyn-tool-call-parser", "qwen3_codr"), "unknown tool parser 'qwen3_codr': did you mean qwen3_coder"),
        (("--reasoning-parser", "qwen33"), "unknown reasoning parser 'qwen33': did you mean qwen3"),
        (("--tool-call-parser", "zzzzzz"), "unknown tool parser 'zzzzzz'. Known are"),
        (("--profile", "gpt-55"), "no metadata profile is called 'gpt-55'; there are gpt-5.5"),
        (("--alias", "x=other"), "the alias 'x=other' leads to 'other', and this server has only 'antiphon-mock'"),
        (("--mock-fault", "fire"), "--mock-fault takes crash-after=N"),
        (("--mock-script", "no.jsonl"), "cannot read the mock script no.jsonl"),
        (("--model-path", "no.gguf"), "no.gguf does not exist"),
        (("--trace-tokens", "no/such/folder.jsonl"), "cannot write the token trace no/such/folder.jsonl"),
        (("--engine", "embedded", "--model-path", str(tmp_path)), "the embedded engine needs a .gguf file"),
        (("--http-host", "256.256.256.256"), "cannot listen on 256.256.256.256:0"),
    ]
    for flags, said in cases:
        status, text = really_serve(monkeypatch, flags)
        (line,) = text.splitlines()
        assert status == 2, flags
        assert line.startswith(f"antiphon: {said}"), line


def really_serve(monkeypatch, flags):
    """(exit status, standard error) of a server that cannot start."""
    monkeypatch.setattr("sys.argv", ["antiphon", "serve", "--engine", "mock", "--http-port", "0", *flags])
    text = io.StringIO()
    with contextlib.redirect_stderr(text), pytest.raises(SystemExit) as left:
        main()
    return left.value.code, text.getvalue()


def test_parse_wants_to_know_what(cli):
    status, text, _ = cli("parse")
    assert status == 2
    assert text.startswith("antiphon: say what to parse")


def test_version(monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["antiphon", "--version"])
    with pytest.raises(SystemExit) as left:
        main()
    assert not left.value.code
    assert capsys.readouterr().out == f"antiphon {__version__}\n"


def test_the_readme_lists_every_flag():
    page = (Path(__file__).resolve().parents[1] / "README.md").read_text("utf-8")
    assert [flag_of(name) for name in FIELDS if not is_file_only(name) and f"`{flag_of(name)}`" not in page] == []
