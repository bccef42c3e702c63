"""OpenCode. Facts measured with 1.18.33 (docs/clients/opencode.md)."""

from antiphon.launch.plan import Client, ConfigFile, Plan, Target, Wire, json_text

PROVIDER = "antiphon"
SDKS: dict[Wire, str] = {"chat": "@ai-sdk/openai-compatible", "messages": "@ai-sdk/anthropic", "responses": "@ai-sdk/openai"}
"""All three are inside the program; nothing is fetched."""


def plan(target: Target) -> Plan:
    """OPENCODE_CONFIG is read over the user's own files, OPENCODE_CONFIG_CONTENT also over the project's."""
    model = f"{PROVIDER}/{target.model}"
    chosen = {"model": model, "small_model": model}
    entry = {
        "name": target.model,
        "reasoning": True,
        "tool_call": True,
        "limit": {"context": target.window, "output": target.answer},
    }
    config = {
        "$schema": "https://opencode.ai/config.json",
        "autoupdate": False,
        **chosen,
        "provider": {
            PROVIDER: {
                "npm": SDKS[target.wire],
                "name": "Antiphon",
                "options": {"baseURL": f"{target.url}/v1", "apiKey": target.key},
                "models": {target.model: entry},
            }
        },
    }
    path = target.folder / "opencode.json"
    return Plan(
        environment={
            "OPENCODE_CONFIG": str(path),
            "OPENCODE_CONFIG_CONTENT": json_text(chosen).strip(),
            "OPENCODE_DISABLE_AUTOUPDATE": "1",
            "OPENCODE_DISABLE_MODELS_FETCH": "1",
        },
        files=(ConfigFile(path, json_text(config)),),
        notes=("your own OpenCode settings and sessions stay in use; the model comes from the file above",),
    )


OPENCODE = Client(
    name="opencode",
    title="OpenCode",
    program="opencode",
    install="npm install -g opencode-ai",
    least_context=16_384,
    wires=("messages", "chat", "responses"),
    plan=plan,
)
