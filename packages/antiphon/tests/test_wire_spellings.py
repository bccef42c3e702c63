"""One conversation has one prompt, however its client spells it: surface, string or list, ids, cache marks, metadata, billing header."""

import json
from importlib.resources import files as package_files

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from antiphon.engines.default_model import default_model_path
from antiphon.model import ModelChoice, load_mock_model
from antiphon.stabilize import ANTHROPIC_PREAMBLE, BUILT_IN, stabilize
from antiphon.stabilizer_rules import rules_of
from antiphon_protocols import chat, messages, responses
from antiphon_tokenizers import encode
from antiphon_turns import SystemMessage

SCHEMA = {"type": "object", "properties": {"z": {"type": "number", "default": 1.0}, "a": {"type": "string"}}, "required": ["a"]}
TOOLS = [("look", "Looks."), ("edit", "Edits.")]
HEADER = "x-anthropic-billing-header: cc_version=2.1.332.{}; cc_entrypoint=cli;"

TEXT = st.text("abc é\n\t<|{\"'", min_size=1, max_size=12).filter(lambda text: text.strip() == text)
TURN = st.tuples(TEXT, st.booleans(), st.booleans(), TEXT)
CONVERSATION = st.tuples(TEXT, st.lists(TURN, max_size=3), TEXT)


@pytest.fixture(scope="module")
def ids_of():
    """ids_of(turn request, rules) -> prompt ids, as the pipeline makes them."""
    template = (package_files("antiphon.engines") / "mock_template.jinja").read_text("utf-8")
    model = load_mock_model(ModelChoice(path=default_model_path()), template)

    def ids(request, rules=BUILT_IN):
        return encode(model.renderer.render(stabilize(request, rules)[0]), model.tokenizer, limit=1 << 20)

    return ids


def written(draw, text, kind="text", *, mark=True):
    """A text in one of its spellings: a string or a list of one block, which may bear marks."""
    if draw(st.booleans()):
        return text
    marks = draw(st.sampled_from([{}, {"cache_control": {"type": "ephemeral"}}, {"citations": None}])) if mark else {}
    return [{"type": kind, "text": text, **marks}]


def call_of(number):
    return "look", f'{{"a": "{number}", "z": {number}.0}}'


def messages_body(draw, conversation):
    system, turns, last = conversation
    header = draw(st.sampled_from(["", "string", "block"]))
    billing = HEADER.format(draw(st.sampled_from(["c08", "f9d"]))) + draw(st.sampled_from(["", " cch=00000;", " cc_is_subagent=true;"]))
    top = written(draw, system)
    if header == "string":
        top = f"{billing}\n{system}"
    elif header == "block":
        top = [{"type": "text", "text": billing}, {"type": "text", "text": system, "cache_control": {"type": "ephemeral"}}]
    history = []
    for number, (asked, thinks, calls, answer) in enumerate(turns):
        history.append({"role": "user", "content": written(draw, asked)})
        blocks = [{"type": "thinking", "thinking": "hm", "signature": draw(st.sampled_from(["", "foreign"]))}] if thinks else []
        if calls:
            call_id = draw(st.sampled_from(["toolu_1", "call_x"])) + str(number)
            name, arguments = call_of(number)
            use = {"type": "tool_use", "id": call_id, "name": name, "input": json.loads(arguments)}
            result = {"type": "tool_result", "tool_use_id": call_id, "content": written(draw, "found"), "is_error": False}
            history += [{"role": "assistant", "content": [*blocks, use]}, {"role": "user", "content": [result]}]
            blocks = []
        history.append({"role": "assistant", "content": [*blocks, {"type": "text", "text": answer}]})
    history.append({"role": "user", "content": written(draw, last)})
    tools = [{"name": name, "description": about, "input_schema": SCHEMA} for name, about in TOOLS]
    if draw(st.booleans()):
        tools[-1] |= {"cache_control": {"type": "ephemeral"}, "eager_input_streaming": True}
    noise = draw(st.sampled_from([{}, {"metadata": {"user_id": '{"session_id":"s"}'}}, {"nvext": {"agent_hints": {"priority": 1}}}]))
    body = {"model": "m", "max_tokens": 9, "system": top, "messages": history, "tools": tools, "thinking": {"type": "adaptive"}, **noise}
    return messages.ingest(json.dumps(body).encode(), {}).turn


def chat_body(draw, conversation):
    system, turns, last = conversation
    if draw(st.booleans()):
        system = f"{HEADER.format('000')}\n{system}"
    history = [{"role": draw(st.sampled_from(["system", "developer"])), "content": written(draw, system, mark=False)}]
    key = draw(st.sampled_from(["reasoning_content", "reasoning"]))
    for number, (asked, thinks, calls, answer) in enumerate(turns):
        history.append({"role": "user", "content": written(draw, asked)})
        thought = {key: "hm"} if thinks else {}
        if calls:
            call_id = draw(st.sampled_from(["call_", "callstub"])) + str(number)
            name, arguments = call_of(number)
            call = {"id": call_id, "type": "function", "index": 0, "function": {"name": name, "arguments": arguments}}
            history.append({"role": "assistant", "content": draw(st.sampled_from([None, ""])), "tool_calls": [call], **thought})
            history.append({"role": "tool", "tool_call_id": call_id, "content": written(draw, "found")})
            thought = {}
        history.append({"role": "assistant", "content": written(draw, answer, mark=False), **thought})
    history.append({"role": "user", "content": written(draw, last)})
    tools = [{"type": "function", "function": {"name": name, "description": about, "parameters": SCHEMA}} for name, about in TOOLS]
    noise = draw(st.sampled_from([{}, {"prompt_cache_key": "k", "user": "u"}, {"metadata": {"a": "b"}, "store": False}]))
    return chat.ingest(json.dumps({"model": "m", "messages": history, "tools": tools, **noise}).encode(), {}).turn


def responses_body(draw, conversation):
    system, turns, last = conversation
    if draw(st.booleans()):
        system = f"{HEADER.format('111')}\n{system}"
    items = []

    def item(**fields):
        marks = draw(
            st.sampled_from([{}, {"id": f"x_{draw(st.integers(0, 99))}"}, {"internal_chat_message_metadata_passthrough": {"t": 1}}])
        )
        items.append({**fields, **marks})

    head = draw(st.sampled_from(["instructions", "developer", "system"]))
    if head != "instructions":
        item(type="message", role=head, content=written(draw, system, "input_text", mark=False))
    for number, (asked, thinks, calls, answer) in enumerate(turns):
        item(type="message", role="user", content=written(draw, asked, "input_text", mark=False))
        if thinks:
            item(type="reasoning", summary=[{"type": "summary_text", "text": "hm"}], content=None, encrypted_content=None)
        if calls:
            name, arguments = call_of(number)
            item(type="function_call", name=name, arguments=arguments, call_id=f"c{number}", status="completed")
            item(type="function_call_output", call_id=f"c{number}", output=written(draw, "found", "input_text", mark=False))
        item(type="message", role="assistant", content=[{"type": "output_text", "text": answer, "annotations": []}], phase="final")
    item(type="message", role="user", content=written(draw, last, "input_text", mark=False))
    tools = [{"type": "function", "name": name, "description": about, "parameters": SCHEMA, "strict": False} for name, about in TOOLS]
    noise = draw(st.sampled_from([{}, {"client_metadata": {"session_id": "s"}, "prompt_cache_key": "k"}, {"store": False}]))
    first = {"instructions": system} if head == "instructions" else {}
    call = responses.read(json.dumps({"model": "m", "input": items, "tools": tools, **first, **noise}).encode(), {})
    return responses.ingest(call, open_compaction=lambda text: None).turn


@settings(max_examples=60, suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(st.data(), CONVERSATION)
def test_every_spelling_has_the_same_prompt(ids_of, data, conversation):
    ids = ids_of(messages_body(data.draw, conversation))
    for spelled in (messages_body, chat_body, responses_body):
        assert ids_of(spelled(data.draw, conversation)) == ids


@settings(max_examples=30, suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(st.data(), CONVERSATION)
def test_what_the_user_wrote_stands_in_the_prompt_whatever_the_rules(ids_of, tmp_path_factory, data, conversation):
    """Rules for every line there is, and a header in the user's own words: only system text changes."""
    path = tmp_path_factory.mktemp("rules") / "rules.toml"
    path.write_text('[[rule]]\nname = "all"\nwhere = "system"\nline = ".*"\naction = "drop"\n')
    rules = rules_of(strip_anthropic_preamble=True, file=path)
    request = messages_body(data.draw, (conversation[0], conversation[1], f"{HEADER.format('c08')}\n{conversation[2]}"))
    found, acted = stabilize(request, rules)
    assert found.messages == tuple(message for message in request.messages if not isinstance(message, SystemMessage))
    assert "all" in acted and found.tools == request.tools


def test_a_header_of_its_own_message_leaves_nothing_behind(ids_of):
    def request(*first):
        body = {"model": "m", "messages": [*first, {"role": "system", "content": "S"}, {"role": "user", "content": "u"}]}
        return chat.ingest(json.dumps(body).encode(), {}).turn

    for role in ("system", "developer"):
        assert ids_of(request({"role": role, "content": HEADER.format("c08")})) == ids_of(request())
    assert ids_of(request({"role": "system", "content": HEADER.format("c08")}), ()) != ids_of(request())


def test_tools_that_load_late_do_not_move_the_head(ids_of):
    """Claude Code with tool search: a schema appears in the middle of the list once the model has found it."""

    def request(*names, loaded):
        tools = [{"name": name, "description": name, "input_schema": SCHEMA, "defer_loading": name == "cron"} for name in names]
        history = [{"role": "user", "content": "u"}]
        if loaded:
            result = [{"type": "tool_reference", "tool_name": "cron"}]
            history += [
                {"role": "assistant", "content": [{"type": "tool_use", "id": "t1", "name": "search", "input": {"a": "cron"}}]},
                {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t1", "content": result}]},
            ]
        body = {"model": "m", "max_tokens": 9, "system": "S", "messages": history, "tools": tools, "thinking": {"type": "adaptive"}}
        return ids_of(messages.ingest(json.dumps(body).encode(), {}).turn)

    before, after = request("alpha", "search", loaded=False), request("alpha", "cron", "search", loaded=True)
    opening = 3  # what only the last turn of a prompt has behind its header
    assert after[: len(before) - opening] == before[:-opening] and len(after) > len(before)


def test_the_built_in_rules_have_names_of_their_own():
    assert [rule.name for rule in BUILT_IN] == [ANTHROPIC_PREAMBLE.name]
