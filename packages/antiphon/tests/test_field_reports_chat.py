"""Field reports about the Chat surface, each with the right value. Numbers: `cases/field_reports.jsonl`."""

import json
from pathlib import Path

import pytest
from report_harness import CLOCK_O, NOW_CALL, ask, ask_chat, both, case, events, prompt, script

from antiphon.config import Settings
from antiphon.engines.base import Chunk
from antiphon.engines.default_model import default_model_path
from antiphon.model import ModelChoice, load_model
from antiphon_turns.errors import WorkerRefusal


def serve(serve_mock, report, **settings):
    output = report.get("model_output", "fine")
    if "</think>" not in output and "<|channel|>" not in output:
        output = "</think>" + output
    return serve_mock(script(output), model_name="m", **settings)


def choice(server, request):
    return ask_chat(server, {**request, "stream": False}).json()["choices"][0]


@both
def test_46_a_closed_block_in_the_prompt_is_no_reasoning(serve_mock, source):
    report = case(46, source)
    said = choice(
        serve_mock(script(report["model_output"]), model_name="m"), {"model": "m", **report["request"], "reasoning_effort": "none"}
    )["message"]
    assert said["content"].strip() == report["model_output"]
    assert said.get("reasoning_content") is None


@both
def test_49_only_the_tail_of_the_prompt_decides(serve_mock, source):
    report = case(49, source)
    said = choice(serve(serve_mock, report), {"model": "m", **report["request"]})["message"]
    assert (said["reasoning_content"].strip(), said["content"].strip()) == (report["right"]["reasoning"], report["right"]["content"])


@both
def test_53_channels_are_read_before_their_markers_go(serve_mock, source):
    report = case(53, source)
    server = serve(serve_mock, report, tool_call_parser="harmony", reasoning_parser="gpt_oss")
    said = choice(server, {"model": "m", **report["request"]})["message"]
    assert said["content"] == report["right"]["content"]
    assert said["reasoning_content"] == report["right"]["reasoning"]
    assert not any(word in said["content"] for word in report["right"]["content_must_not_contain"])


@both
@pytest.mark.parametrize("how", ["default", "server", "request"])
def test_56_reasoning_under_one_name_or_both(serve_mock, source, how):
    report = case(56, source)
    server = serve(serve_mock, report, **({"chat_reasoning": "both"} if how == "server" else {}))
    request = {**report["request"], **({"nvext": {"reasoning_fields": "both"}} if how == "request" else {})}
    deltas = [chunk["choices"][0]["delta"] for chunk in events(ask_chat(server, request))]
    shown = [delta for delta in deltas if "reasoning_content" in delta]
    assert shown
    if how == "default":
        assert not any("reasoning" in delta for delta in deltas)
    else:
        assert all(delta["reasoning"] == delta["reasoning_content"] for delta in shown)
        whole = choice(server, request)["message"]
        assert whole["reasoning"] == whole["reasoning_content"] == "".join(delta["reasoning"] for delta in shown)


@both
def test_67_a_call_without_arguments_has_an_empty_object(serve_mock, source):
    report = case(67, source)
    server = serve(serve_mock, report)
    chunks = events(ask_chat(server, report["request"]))
    calls = [call for chunk in chunks for call in chunk["choices"][0]["delta"].get("tool_calls", [])]
    assert "".join(call["function"]["arguments"] for call in calls) == "{}"
    assert choice(server, report["request"])["message"]["tool_calls"][0]["function"]["arguments"] == "{}"


@both
def test_74_one_usage_chunk_if_asked_and_none_if_not(serve_mock, source):
    report = case(74, source)
    server = serve(serve_mock, report)
    chunks = events(ask_chat(server, report["request"]))
    assert [bool(chunk.get("usage")) for chunk in chunks] == [False] * (len(chunks) - 1) + [True]
    assert chunks[-1]["choices"] == []
    assert chunks[-1]["usage"]["completion_tokens"] == len(server.traced()[-1]["output_ids"])
    without = events(ask_chat(server, {**report["request"], "stream_options": None}))
    assert not any(chunk.get("usage") for chunk in without)


@both
def test_98_a_broken_call_in_the_history_ends_nothing(serve_mock, source):
    report = case(98, source)
    server = serve(serve_mock, report)
    assert ask_chat(server, report["request"]).status_code == 200
    assert report["right"]["prompt_contains"] in prompt(server)


@both
@pytest.mark.parametrize("arguments", ["null", "", "[]", "3"])
def test_99_arguments_that_are_no_object(serve_mock, source, arguments):
    report = case(99, source)
    request = json.loads(json.dumps(report["request"]))
    request["messages"][1]["tool_calls"][0]["function"]["arguments"] = arguments
    assert ask_chat(serve(serve_mock, report), request).status_code == 200


@both
@pytest.mark.parametrize("streamed", [False, True])
def test_126_a_cut_call_shows_no_markup(serve_mock, source, streamed):
    report = case(126, source)
    output = "</think>\n\n" + report["model_output"]
    server = serve_mock(script(output, finish="length"), model_name="m", tool_call_parser="hermes")
    answer = ask_chat(server, {**report["request"], "max_tokens": 400, "stream": streamed})
    if streamed:
        deltas = [chunk["choices"][0] for chunk in events(answer)]
        content, finish = "".join(one["delta"].get("content") or "" for one in deltas), deltas[-1]["finish_reason"]
        assert not any("tool_calls" in one["delta"] for one in deltas)
    else:
        whole = answer.json()["choices"][0]
        content, finish = whole["message"]["content"], whole["finish_reason"]
        assert not whole["message"].get("tool_calls")
    assert (content.strip(), finish) == (report["right"]["content"], "length")


@both
def test_130_calls_mean_tool_calls(serve_mock, source):
    report = case(130, source)
    server = serve(serve_mock, report)
    assert choice(server, report["request"])["finish_reason"] == "tool_calls"
    assert events(ask_chat(server, {**report["request"], "stream": True}))[-1]["choices"][0]["finish_reason"] == "tool_calls"


@both
def test_131_no_call_means_stop(serve_mock, source):
    report = case(131, source)
    server = serve(serve_mock, report)
    whole = choice(server, report["request"])
    assert whole["finish_reason"] == "stop" and not whole["message"].get("tool_calls")
    assert events(ask_chat(server, {**report["request"], "stream": True}))[-1]["choices"][0]["finish_reason"] == "stop"


@both
def test_141_reasoning_before_a_forced_call(serve_mock, source):
    report = case(141, source)
    chunks = events(ask_chat(serve(serve_mock, report), report["request"]))
    deltas = [chunk["choices"][0]["delta"] for chunk in chunks]
    assert not any("error" in chunk for chunk in chunks)
    assert "".join(delta.get("reasoning_content", "") for delta in deltas).strip() == report["right"]["reasoning"]
    calls = [call["function"]["name"] for delta in deltas for call in delta.get("tool_calls", []) if call["function"].get("name")]
    assert calls == report["right"]["tool_calls"]


@both
def test_143_generation_ends_behind_the_one_call(serve_mock, source):
    report = case(143, source)
    server = serve(serve_mock, report)
    calls = choice(server, report["request"])["message"]["tool_calls"]
    found = [[call["function"]["name"], json.loads(call["function"]["arguments"])] for call in calls]
    assert found == report["right"]["tool_calls"]
    sampled = len(server.traced()[-1]["output_ids"])
    assert sampled < len(server.pipeline.model.tokenizer.encode(report["model_output"], added=True)) * 0.7
    assert server.pipeline.engine.running == 0


@both
def test_145_references_in_schemas(serve_mock, source):
    report = case(145, source)
    server = serve(serve_mock, report)
    assert ask_chat(server, report["request"]).status_code == 200
    assert all(word in prompt(server) for word in report["right"]["prompt_contains"])


def test_147_the_family_is_read_from_the_template(tmp_path: Path):
    """No flags: a template of that style is recognised, and the start-up text has the reason."""
    template = (
        "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
        "{% if tools %}<tool_call>\n<function=example>\n<parameter=key>\nvalue\n</parameter>\n</function>\n</tool_call>{% endif %}"
        "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
    )
    tokenizer = load_model(ModelChoice(path=default_model_path())).tokenizer
    tokenizer._fast.save(str(tmp_path / "tokenizer.json"))
    (tmp_path / "chat_template.jinja").write_text(template)
    model = load_model(ModelChoice(path=tmp_path))
    assert model.format.names[0] == "qwen3_coder"
    assert model.why and model.label.startswith("qwen3_coder")
    assert Settings().tool_call_parser is None


@both
def test_148_the_engine_gets_the_constraint(serve_mock, source, monkeypatch):
    report = case(148, source)
    server = serve_mock(script("fine"), model_name="m")
    engine = server.pipeline.engine
    jobs = []

    async def generate(job):
        jobs.append(job)
        yield Chunk([*engine._tokenizer.encode('{"a": 1}', added=False), engine._script.end_id], "stop", 0)

    monkeypatch.setattr(engine, "generate", generate)
    monkeypatch.setattr(engine, "constrains", True)
    said = choice(server, {**report["request"], "reasoning_effort": "none"})["message"]["content"]
    assert json.loads(said) == {"a": 1}
    assert jobs[-1].grammar is not None


def test_what_the_engine_refuses_is_a_400_here_too(serve_mock, monkeypatch):
    server = serve_mock(script("x"), model_name="m")

    def refuse(prompt_ids):
        raise WorkerRefusal("no")

    monkeypatch.setattr(server.pipeline.engine, "_speak", refuse)
    answer = ask_chat(server, {"model": "m", "messages": [{"role": "user", "content": "x"}], "stream": True})
    assert (answer.status_code, answer.json()["error"]["type"]) == (400, "invalid_request_error")


def test_calls_are_found_on_messages_as_well(serve_mock):
    server = serve_mock(script("</think>\n\n" + NOW_CALL), model_name="m")
    tools = [{"name": "clock", "input_schema": CLOCK_O[0]["function"]["parameters"]}]
    request = {"model": "m", "max_tokens": 90, "messages": [{"role": "user", "content": "x"}], "tools": tools}
    assert ask(server, request).json()["content"][0]["input"] == {}
