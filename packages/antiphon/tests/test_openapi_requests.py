"""Requests drawn from the server's own OpenAPI document, good and bad ones: no fault, no hang, and the documented statuses, content
types and envelopes."""

import os

import hypothesis
import pytest
import schemathesis
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import content_type_conformance, response_schema_conformance, status_code_conformance

from antiphon.config import Settings
from antiphon.wire_schemas import ITEMS
from antiphon_protocols.responses import history
from antiphon_protocols.responses.native import CALL_ITEMS

# With other names a request is a 404 before anything else of it is looked at.
SERVED = {"model": "antiphon-mock", "previous_response_id": None}
CHECKS = [not_a_server_error, status_code_conformance, content_type_conformance, response_schema_conformance]
ALL = os.environ.get("ANTIPHON_MUTATE") == "all"
EXAMPLES = 100 if ALL else 8
SECONDS = 10


@pytest.fixture(scope="module")
def server(run_server):
    with run_server(Settings(engine="mock", http_port=0, context_length=4096, max_body_bytes=1 << 20)) as running:
        yield running


@pytest.fixture(scope="module")
def schema(server):
    found = schemathesis.openapi.from_dict(server.http.get("/openapi.json").json())
    found.config.base_url = server.url
    return found


OPERATIONS = [
    ("GET", "/"),
    ("GET", "/antiphon/explain"),
    ("GET", "/api/hello"),
    ("GET", "/health"),
    ("GET", "/live"),
    ("GET", "/metrics"),
    ("GET", "/openapi.json"),
    ("GET", "/v1/models"),
    ("GET", "/v1/models/{model_id}"),
    ("GET", "/v1/responses"),
    ("GET", "/v1/responses/{response_id}"),
    ("GET", "/v1/responses/{response_id}/input_items"),
    ("DELETE", "/v1/responses/{response_id}"),
    ("POST", "/api/event_logging/batch"),
    ("POST", "/v1/chat/completions"),
    ("POST", "/v1/completions"),
    ("POST", "/v1/messages"),
    ("POST", "/v1/messages/count_tokens"),
    ("POST", "/v1/responses"),
    ("POST", "/v1/responses/compact"),
    ("POST", "/v1/responses/input_tokens"),
    ("POST", "/v1/responses/{response_id}/cancel"),
]


WITH_FIELDS = [(method, path) for method, path in OPERATIONS if method == "POST" and path.startswith("/v1/") and "{" not in path] + [
    ("GET", "/antiphon/explain"),
    ("GET", "/v1/models"),
    ("GET", "/v1/responses/{response_id}"),
    ("GET", "/v1/responses/{response_id}/input_items"),
]


def test_the_list_of_operations_is_whole(schema):
    found = {(one.ok().method.upper(), one.ok().path): one.ok() for one in schema.get_all_operations()}
    assert sorted(found) == sorted(OPERATIONS)
    assert sorted(name for name, operation in found.items() if operation.body or operation.query) == sorted(WITH_FIELDS)


def whole(value):
    """Whole numbers as integers: a JSON schema takes 1.0 for one, the server does not."""
    if isinstance(value, dict):
        return {name: whole(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [whole(inner) for inner in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value


@pytest.mark.timeout(900 if ALL else 120)
@pytest.mark.parametrize(
    ("method", "path", "mode"),
    [
        *((method, path, GenerationMode.POSITIVE) for method, path in OPERATIONS),
        *((method, path, GenerationMode.NEGATIVE) for method, path in WITH_FIELDS),
    ],
    ids=str,
)
def test_every_answer_is_as_documented(schema, method, path, mode):
    operation = schema[path][method]
    served = SERVED | ({"input": "hi"} if "/responses" in path else {})

    @hypothesis.settings(
        max_examples=EXAMPLES, deadline=None, derandomize=True, database=None, suppress_health_check=list(hypothesis.HealthCheck)
    )
    @hypothesis.given(case=operation.as_strategy(generation_mode=mode))
    def ask(case):
        if mode is GenerationMode.POSITIVE and isinstance(case.body, dict):
            case.body = {**served, **whole(case.body), **SERVED}
        case.validate_response(case.call(timeout=SECONDS), checks=CHECKS)

    ask()


def test_the_document_has_every_item_that_is_read():
    documented = [kind for kinds in ITEMS.values() for kind in kinds]
    assert sorted(documented) == sorted({*history._READERS, *CALL_ITEMS, history.COMPACTION_TRIGGER})
