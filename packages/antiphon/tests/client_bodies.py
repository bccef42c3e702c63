"""Request bodies in the shape of each known client, one a surface, written for this project: what a session's third request looks like.

`BODIES` maps a name to the path and the body. Every body is good as it stands; tests start from them and break them.
"""

MODEL = "antiphon-mock"
PATH_SCHEMA = {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"], "additionalProperties": False}
EDIT_SCHEMA = {
    "$schema": "http://json-schema.org/draft-07/schema#",
    "type": "object",
    "properties": {"path": {"type": "string"}, "old": {"type": "string"}, "new": {"type": "string"}, "all": {"type": "boolean"}},
    "required": ["path", "old", "new"],
}
EPHEMERAL = {"type": "ephemeral"}

CLAUDE_CODE = {
    "model": MODEL,
    "max_tokens": 64,
    "stream": True,
    "temperature": 1,
    "system": [
        {"type": "text", "text": "x-anthropic-billing-header: cc_version=0.0.0.abc; cc_entrypoint=cli;"},
        {"type": "text", "text": "You help with code in a terminal.", "cache_control": EPHEMERAL},
        {"type": "text", "text": "Today is a Monday.", "cache_control": {"type": "ephemeral", "ttl": "1h"}},
    ],
    "tools": [
        {"name": "Read", "description": "Reads a file.", "input_schema": PATH_SCHEMA, "eager_input_streaming": True},
        {"name": "Edit", "description": "Replaces text in a file.", "input_schema": EDIT_SCHEMA, "defer_loading": True},
        {"type": "web_search_20250305", "name": "web_search", "max_uses": 3},
    ],
    "tool_choice": {"type": "auto", "disable_parallel_tool_use": False},
    "thinking": {"type": "enabled", "budget_tokens": 32, "display": "summarized"},
    "context_management": {"edits": [{"type": "clear_thinking_20251015", "keep": {"type": "thinking_turns", "value": 2}}]},
    "output_config": {"effort": "medium"},
    "metadata": {"user_id": '{"device_id":"d1","account_uuid":"","session_id":"5b0c"}'},
    "stop_sequences": ["<<never>>"],
    "messages": [
        {"role": "user", "content": [{"type": "text", "text": "What is in notes.txt?", "cache_control": EPHEMERAL}]},
        {
            "role": "assistant",
            "content": [
                {"type": "thinking", "thinking": "I have to look.", "signature": "antiphon.00aa.0"},
                {"type": "redacted_thinking", "data": "b3BhcXVl"},
                {"type": "text", "text": "Let me look."},
                {"type": "tool_use", "id": "toolu_1", "name": "Read", "input": {"path": "notes.txt"}},
                {"type": "tool_use", "id": "toolu_2", "name": "Read", "input": {"path": "more.txt"}},
            ],
        },
        {
            "role": "user",
            "content": [
                {"type": "tool_result", "tool_use_id": "toolu_1", "content": [{"type": "text", "text": "milk, eggs"}]},
                {"type": "tool_result", "tool_use_id": "toolu_2", "content": "no such file", "is_error": True},
                {"type": "text", "text": "<reminder>two files</reminder>"},
            ],
        },
        {"role": "system", "content": "The folder has changed."},
        {"role": "user", "content": "And now?"},
    ],
}

COUNT_TOKENS = {
    "model": MODEL,
    "system": "Be brief.",
    "tools": [{"name": "Read", "description": "Reads a file.", "input_schema": PATH_SCHEMA}],
    "thinking": {"type": "adaptive"},
    "messages": [
        {"role": "user", "content": "hello"},
        {"role": "assistant", "content": [{"type": "text", "text": "hi"}]},
        {
            "role": "user",
            "content": [{"type": "document", "title": "T", "source": {"type": "text", "media_type": "text/plain", "data": "d"}}],
        },
    ],
}

CODEX = {
    "model": MODEL,
    "stream": True,
    "store": False,
    "instructions": "You are a coding agent.",
    "include": ["reasoning.encrypted_content"],
    "prompt_cache_key": "session-7",
    "parallel_tool_calls": True,
    "reasoning": {"effort": "medium", "summary": "auto"},
    "text": {"verbosity": "low", "format": {"type": "text"}},
    "tool_choice": "auto",
    "client_metadata": {"x-codex-installation-id": "i1"},
    "nvext": {"agent_hints": {"priority": 1, "osl": 100, "latency_sensitivity": 0.5}, "extra_fields": ["timing"]},
    "tools": [
        {"type": "function", "name": "exec_command", "description": "Runs a command.", "strict": False, "parameters": PATH_SCHEMA},
        {
            "type": "custom",
            "name": "apply_patch",
            "description": "Edits files.",
            "format": {"type": "grammar", "syntax": "lark", "definition": 'start: "*** Begin" /[a-z]+/ "*** End"'},
        },
        {
            "type": "namespace",
            "name": "files",
            "description": "File tools.",
            "tools": [{"type": "function", "name": "list", "parameters": PATH_SCHEMA, "strict": True}],
        },
        {"type": "web_search", "external_web_access": False},
        {"type": "local_shell"},
    ],
    "input": [
        {"type": "message", "role": "developer", "content": [{"type": "input_text", "text": "Sandbox: read only."}]},
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Fix the test."}]},
        {
            "type": "reasoning",
            "id": "rs_1",
            "summary": [{"type": "summary_text", "text": "Look first."}],
            "content": [{"type": "reasoning_text", "text": "Look first."}],
            "encrypted_content": "antiphon.00aa.0",
        },
        {
            "type": "message",
            "role": "assistant",
            "id": "msg_1",
            "content": [{"type": "output_text", "text": "Looking.", "annotations": []}],
        },
        {"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": "exec_command", "arguments": '{"path":"."}'},
        {"type": "function_call", "call_id": "call_2", "name": "list", "namespace": "files", "arguments": '{"path":"."}'},
        {"type": "custom_tool_call", "call_id": "call_3", "name": "apply_patch", "input": "*** Begin x *** End"},
        {"type": "local_shell_call", "id": "lsh_1", "call_id": "call_4", "action": {"type": "exec", "command": ["ls", "-l"]}},
        {"type": "function_call_output", "call_id": "call_1", "output": "a.py"},
        {"type": "function_call_output", "call_id": "call_2", "output": [{"type": "input_text", "text": "a.py"}]},
        {"type": "custom_tool_call_output", "call_id": "call_3", "output": "ok"},
        {"type": "local_shell_call_output", "id": "lsh_1", "output": '{"output":"x","metadata":{"exit_code":0}}'},
        {"type": "message", "role": "user", "content": "Go on."},
    ],
}

COMPACT = {
    "model": MODEL,
    "max_output_tokens": 64,
    "instructions": "You are a coding agent.",
    "input": [
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Fix the test."}]},
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Done."}]},
        {"type": "compaction", "encrypted_content": "not ours"},
    ],
    "tools": [{"type": "function", "name": "exec_command", "parameters": PATH_SCHEMA}],
}

FUNCTION = {"name": "read", "description": "Reads a file.", "parameters": PATH_SCHEMA, "strict": False}
OPENCODE = {
    "model": MODEL,
    "stream": True,
    "stream_options": {"include_usage": True},
    "max_tokens": 64,
    "temperature": 0.5,
    "top_p": 0.9,
    "tool_choice": "auto",
    "tools": [{"type": "function", "function": FUNCTION}],
    "messages": [
        {"role": "system", "content": "You are a coding agent."},
        {"role": "user", "content": [{"type": "text", "text": "Read a.txt"}]},
        {
            "role": "assistant",
            "content": "Reading.",
            "reasoning_content": "It asks for a file.",
            "tool_calls": [{"id": "call_1", "type": "function", "function": {"name": "read", "arguments": '{"path":"a.txt"}'}}],
        },
        {"role": "tool", "tool_call_id": "call_1", "content": "text of a"},
    ],
}

PI = {
    "model": MODEL,
    "stream": True,
    "store": False,
    "max_completion_tokens": 64,
    "reasoning_effort": "low",
    "chat_template_kwargs": {"enable_thinking": True},
    "parallel_tool_calls": False,
    "prompt_cache_key": "session-8",
    "tools": [{"type": "function", "function": FUNCTION}],
    "tool_choice": {"type": "function", "function": {"name": "read"}},
    "messages": [
        {"role": "developer", "content": "Be brief."},
        {"role": "user", "content": "Read a.txt"},
        {"role": "assistant", "content": None, "tool_calls": [{"id": "c1", "function": {"name": "read", "arguments": {"path": "a"}}}]},
        {"role": "tool", "tool_call_id": "c1", "content": [{"type": "text", "text": "text of a"}]},
    ],
}

OPENCLAW = {
    "model": MODEL,
    "n": 1,
    "seed": 7,
    "stop": ["<<never>>"],
    "logprobs": True,
    "top_logprobs": 2,
    "user": "someone",
    "presence_penalty": 0.1,
    "frequency_penalty": 0.1,
    "response_format": {"type": "json_schema", "json_schema": {"name": "answer", "schema": PATH_SCHEMA, "strict": True}},
    "nvext": {"agent_hints": {"strict_priority": 0, "speculative_prefill": False}, "dispatch": ["tool_call"], "extra_fields": ["worker"]},
    "messages": [
        {"role": "user", "content": "Which file?"},
        {"role": "assistant", "content": "", "reasoning": "Hm."},
        {"role": "user", "content": "?"},
    ],
}

COMPLETIONS = {
    "model": MODEL,
    "prompt": ["once upon", "a time"],
    "max_tokens": 8,
    "n": 1,
    "echo": False,
    "stop": ["\n\n"],
    "logprobs": 1,
    "temperature": 0.5,
    "stream": False,
    "stream_options": None,
    "suffix": None,
    "user": "someone",
}

BODIES = {
    "claude-code": ("/v1/messages", CLAUDE_CODE),
    "count": ("/v1/messages/count_tokens", COUNT_TOKENS),
    "codex": ("/v1/responses", CODEX),
    "codex-unary": ("/v1/responses", {**CODEX, "stream": False, "store": True, "background": False}),
    "input-tokens": ("/v1/responses/input_tokens", CODEX),
    "compact": ("/v1/responses/compact", COMPACT),
    "opencode": ("/v1/chat/completions", OPENCODE),
    "pi": ("/v1/chat/completions", PI),
    "openclaw": ("/v1/chat/completions", OPENCLAW),
    "completions": ("/v1/completions", COMPLETIONS),
}
