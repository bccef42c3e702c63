"""OpenClaw. Facts measured with 2026.9.2 (docs/clients/openclaw.md)."""

from antiphon.launch.pi import APIS, NO_COST
from antiphon.launch.plan import Client, ConfigFile, Plan, Target, json_text

PROVIDER = "antiphon"


def plan(target: Target) -> Plan:
    """Its agent works on the current folder, where its bootstrap would leave files of its own: that is skipped. What else stands in
    the file (channels, tool policies) is OpenClaw's and stays."""
    model = {
        "id": target.model,
        "name": target.model,
        "reasoning": True,
        "input": ["text"],
        "contextWindow": target.window,
        "maxTokens": target.answer,
        "cost": NO_COST,
    }
    config = {
        "agents": {"defaults": {"workspace": str(target.work), "skipBootstrap": True, "model": {"primary": f"{PROVIDER}/{target.model}"}}},
        "models": {
            "mode": "replace",
            "providers": {
                PROVIDER: {"baseUrl": target.base_url, "api": APIS[target.wire], "apiKey": target.key, "models": [model]},
            },
        },
    }
    path = target.folder / "openclaw.json"
    return Plan(
        environment={
            "OPENCLAW_STATE_DIR": str(target.folder),
            "OPENCLAW_CONFIG_PATH": str(path),
            "OPENCLAW_NO_UPDATE_CHECK": "1",
        },
        files=(ConfigFile(path, json_text(config), "merge"),),
        idle=("chat",),
    )


OPENCLAW = Client(
    name="openclaw",
    title="OpenClaw",
    program="openclaw",
    install="npm install -g openclaw",
    least_context=40_960,
    wires=("messages", "chat", "responses"),
    plan=plan,
)
