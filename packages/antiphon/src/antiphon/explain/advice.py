"""What to do about each cause of a cache miss."""

from antiphon.explain.causes import Code

ADVICE: dict[Code, str] = {
    "model_changed": "Keep one model for a session; begin a new one when the server gets another model or template.",
    "effort_changed": "Choose the effort and the thinking mode when a session begins, and leave them; --pin-effort holds the first effort.",
    "billing_header": "Serve with --strip-anthropic-preamble, which is the default.",
    "date_line": "Put a time behind the history, or drop the line by a rule of --stabilizer-rules; a date alone costs little.",
    "tools_changed": "Connect tool servers before the session begins; a tool search loads tools without moving the head.",
    "tool_order": "Send the tools sorted, by name for example.",
    "system_edited": "Put what changes behind the history; a rule of --stabilizer-rules drops lines without meaning.",
    "client_compaction": "Nothing, once in a while: the shorter prompt pays for it. If it happens often, give the client a longer context.",
    "history_edited": "Append to the history and change nothing in it; clients that trim old results do it for room, at this price.",
    "reasoning_dropped": "Let the client send thinking blocks or reasoning items back; a larger --ledger-bytes remembers more turns.",
    "arguments_respelled": "Raise --ledger-bytes, so that the turn as it was sampled is still known.",
    "turn_rewritten": "Raise --ledger-bytes, or let the client send turns back block by block, as it received them.",
    "replay_policy": "Nothing, if the model was trained so.",
    "template_suffix": "Nothing: it is a few tokens a turn, and the model was trained so.",
    "worker_changed": "Nothing, if it happens when workers come and go; else see why the session did not stay where it was.",
    "evicted": "Give the engine more memory for its cache, or fewer sessions at once; long pauses let other sessions take the place.",
}
