"""pi. Facts measured with 0.73.1 (docs/clients/pi.md)."""

from antiphon.launch.plan import Client, ConfigFile, Plan, Target, Wire, json_text

PROVIDER = "antiphon"
APIS: dict[Wire, str] = {"chat": "openai-completions", "messages": "anthropic-messages", "responses": "openai-responses"}
NO_COST = {"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0}
RESERVE = 16_384
KEEP = 20_000


def compaction(window: int) -> dict[str, int]:
    """pi's own defaults (16,384 and 20,000 tokens) where the window has room for them: in a small one it would compact at once."""
    return {"reserveTokens": min(RESERVE, window // 4), "keepRecentTokens": min(KEEP, window // 4)}


def plan(target: Target) -> Plan:
    """The model goes into models.json; settings.json, which pi writes too, names it as the default."""
    model = {
        "id": target.model,
        "name": target.model,
        "reasoning": True,
        "input": ["text"],
        "contextWindow": target.window,
        "maxTokens": target.answer,
        "cost": NO_COST,
    }
    provider = {"baseUrl": target.base_url, "api": APIS[target.wire], "apiKey": target.key, "models": [model]}
    chosen = {"defaultProvider": PROVIDER, "defaultModel": target.model, "compaction": compaction(target.window)}
    return Plan(
        environment={"PI_CODING_AGENT_DIR": str(target.folder), "PI_SKIP_VERSION_CHECK": "1"},
        files=(
            ConfigFile(target.folder / "models.json", json_text({"providers": {PROVIDER: provider}})),
            ConfigFile(target.folder / "settings.json", json_text(chosen), "merge"),
        ),
    )


PI = Client(
    name="pi",
    title="pi",
    program="pi",
    install="npm install -g @mariozechner/pi-coding-agent",
    least_context=4096,
    wires=("messages", "chat", "responses"),
    plan=plan,
)
