"""Single rules of the families whose calls have a name in a header before a JSON object: what a turn shows that ends within one."""

import pytest
from parser_harness import codes, cuts, joined, run, segments_of, tools_of

from antiphon_parsers import resolve

TOOLS = tools_of([{"name": "run", "parameters": {"type": "object", "properties": {"cmd": {"type": "string"}}}}])
KIMI, V31, MISTRAL = "kimi_k2", "deepseek_v3_1", "mistral"
CALL = "<|tool_calls_section_begin|><|tool_call_begin|>"
CUT = ["call_unfinished"]

ENDS_WITHIN_A_HEADER = {
    "two markers": (KIMI, CALL, CUT),
    "half a name": (KIMI, f"{CALL}functions.ru", CUT),
    "a name": (KIMI, f"{CALL}functions.run:0", CUT),
    "half a separator": (V31, "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>run<｜tool▁se", CUT),
    "a name without a section": (MISTRAL, "[TOOL_CALLS]ru", CUT),
    "a marker that is only named": (MISTRAL, "[TOOL_CALLS]", []),
    "a sentence that names it": (MISTRAL, "[TOOL_CALLS] marker", []),
    "a section that is only named": (KIMI, "<|tool_calls_section_begin|> marker", []),
}


@pytest.mark.parametrize("name", ENDS_WITHIN_A_HEADER)
def test_a_header_that_is_cut_behind_text_is_not_shown(name: str) -> None:
    parser, tail, anomalies = ENDS_WITHIN_A_HEADER[name]
    shown = "See " if anomalies else f"See {tail}"
    for pieces in cuts(f"See {tail}", seeds=3):
        events, reader = run(resolve(parser, None).grammar, TOOLS, pieces)
        assert [(segment["type"], segment["text"]) for segment in segments_of(joined(events))] == [("text", shown)], pieces
        assert (codes(events), reader.incomplete) == (anomalies, bool(anomalies)), pieces
