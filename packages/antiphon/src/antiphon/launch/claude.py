"""Claude Code. Facts measured with 2.1.332 and 2.1.197 (docs/clients/claude-code.md)."""

from antiphon.launch.plan import Client, ConfigFile, Plan, Target, json_text

LEAST_WINDOW = 100_000
"""CLAUDE_CODE_AUTO_COMPACT_WINDOW takes nothing smaller."""
MAX_ANSWER = 32_000
_ELSEWHERE = (
    "ANTHROPIC_API_KEY",
    "CLAUDE_CODE_OAUTH_TOKEN",
    "CLAUDE_CODE_USE_BEDROCK",
    "CLAUDE_CODE_USE_VERTEX",
    "CLAUDE_CODE_USE_FOUNDRY",
)


def answer_tokens(window: int) -> int:
    """The most one answer may take. Claude Code compacts at the window minus this minus 13,000, so in a small window it must be little."""
    return max(1024, min(MAX_ANSWER, window // 8))


def plan(target: Target) -> Plan:
    """All model names it may ask for lead to the served one; it believes in a window only where the name is none of its own."""
    environment = {
        "CLAUDE_CONFIG_DIR": str(target.folder),
        "ANTHROPIC_BASE_URL": target.url,
        "ANTHROPIC_AUTH_TOKEN": target.key,
        "ANTHROPIC_MODEL": target.model,
        **{f"ANTHROPIC_DEFAULT_{name}_MODEL": target.model for name in ("OPUS", "SONNET", "HAIKU", "FABLE")},
        "CLAUDE_CODE_MAX_CONTEXT_TOKENS": str(target.window),
        "CLAUDE_CODE_MAX_OUTPUT_TOKENS": str(answer_tokens(target.window)),
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    }
    if target.window >= LEAST_WINDOW:
        environment["CLAUDE_CODE_AUTO_COMPACT_WINDOW"] = str(target.window)  # what 2.1.197 listens to
    notes = []
    if target.model.startswith("claude-"):
        notes.append(
            f"Claude Code goes by the name {target.model} and not by the context told to it; ask for the model's own name,"
            " or serve with --reported-context-length"
        )
    return Plan(
        environment=environment,
        unset=_ELSEWHERE,
        files=(ConfigFile(target.folder / ".claude.json", json_text({"hasCompletedOnboarding": True, "theme": "dark"}), "first"),),
        notes=tuple(notes),
    )


CLAUDE = Client(
    name="claude",
    title="Claude Code",
    program="claude",
    install="npm install -g @anthropic-ai/claude-code",
    least_context=32_768,
    wires=("messages",),
    plan=plan,
)
