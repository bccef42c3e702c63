"""Models, health, OpenAPI, probes, token counts."""

import pytest

MODEL = "org/antiphon-mock"


@pytest.fixture
def server(serve_mock):
    return serve_mock(model_name=MODEL)


def test_models_serve_every_caller_at_once(server):
    body = server.http.get("/v1/models").json()
    assert body["object"] == "list"
    assert [entry["id"] for entry in body["data"]] == [MODEL]
    anthropic = server.http.get("/v1/models?limit=1000", headers={"anthropic-version": "2023-06-01"}).json()
    assert anthropic["data"][0]["type"] == "model"
    assert anthropic["has_more"] is False
    assert (anthropic["first_id"], anthropic["last_id"]) == (MODEL, MODEL)


def test_one_model_with_a_slash(server):
    assert server.http.get(f"/v1/models/{MODEL}").json()["id"] == MODEL
    missing = server.http.get("/v1/models/other")
    assert missing.status_code == 404
    assert "other" in missing.json()["error"]["message"]


def test_probes(server):
    assert server.http.head("/").status_code == 200
    assert server.http.get("/").json()["model"] == MODEL
    assert server.http.head("/api/hello").status_code == 200
    assert server.http.post("/api/event_logging/batch", json={"events": []}).status_code == 200


def test_health_follows_the_engine(server):
    assert server.http.get("/health").status_code == 200
    server.pipeline.engine._ready = False
    assert server.http.get("/health").status_code == 503
    assert server.http.get("/live").status_code == 200
    answer = server.http.post("/v1/messages", json={"model": MODEL, "max_tokens": 4, "messages": [{"role": "user", "content": "x"}]})
    assert answer.status_code == 503
    assert int(answer.headers["retry-after"]) >= 1
    assert answer.json()["type"] == "error"


def test_openapi_lists_what_is_mounted(server):
    document = server.http.get("/openapi.json").json()
    assert document["openapi"].startswith("3.")
    assert {"/v1/messages", "/v1/messages/count_tokens", "/v1/chat/completions", "/v1/models", "/v1/models/{model_id}", "/health"} <= set(
        document["paths"]
    )


def test_openapi_has_every_method_of_a_path(server):
    paths = server.http.get("/openapi.json").json()["paths"]
    assert paths["/v1/responses"].keys() == {"get", "post"}
    assert paths["/v1/responses/{response_id}"].keys() == {"get", "delete"}
    assert paths["/v1/responses/{response_id}"]["get"]["parameters"][0]["name"] == "response_id"
    assert "requestBody" not in paths["/v1/responses"]["get"]


def test_without_the_anthropic_api_its_paths_are_gone(serve_mock):
    server = serve_mock(enable_anthropic_api=False)
    answer = server.http.post("/v1/messages", json={})
    assert answer.status_code == 404
    assert server.http.get("/openapi.json").json()["paths"].keys().isdisjoint({"/v1/messages"})


BODY = {
    "model": MODEL,
    "system": [
        {"type": "text", "text": "x-anthropic-billing-header: cc_version=2.1.332.c08; cc_entrypoint=cli;"},
        {"type": "text", "text": "Be brief."},
    ],
    "messages": [
        {"role": "user", "content": "list files"},
        {
            "role": "assistant",
            "content": [{"type": "text", "text": "ok"}, {"type": "tool_use", "id": "call_x", "name": "ls", "input": {"path": "."}}],
        },
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "call_x", "content": "a.txt"}]},
    ],
    "tools": [{"name": "ls", "description": "lists", "input_schema": {"type": "object", "properties": {"path": {"type": "string"}}}}],
}


def test_count_is_the_prompt_of_the_same_request(server):
    count = server.http.post("/v1/messages/count_tokens", json=BODY).json()["input_tokens"]
    usage = server.http.post("/v1/messages", json={**BODY, "max_tokens": 8}).json()["usage"]
    assert count == usage["input_tokens"] + usage["cache_read_input_tokens"] + usage["cache_creation_input_tokens"]
    record = server.traced()[-1]
    assert count == len(record["prompt_ids"])
    assert len(server.traced()) == 1


def test_the_billing_header_is_not_in_the_prompt_and_the_answer_says_so(server):
    answer = server.http.post("/v1/messages", json={**BODY, "max_tokens": 8})
    assert answer.headers["x-antiphon-stabilized"] == "strip-anthropic-preamble"
    prompt = server.pipeline.model.tokenizer.decode(server.traced()[-1]["prompt_ids"])
    assert "billing" not in prompt
    assert "Be brief." in prompt


def test_switched_off_the_header_stays(serve_mock):
    server = serve_mock(strip_anthropic_preamble=False, model_name=MODEL)
    server.http.post("/v1/messages", json={**BODY, "max_tokens": 8})
    assert "x-anthropic-billing-header" in server.pipeline.model.tokenizer.decode(server.traced()[-1]["prompt_ids"])
