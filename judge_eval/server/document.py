"""The OpenAPI document, with the bodies that the server reads by itself."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fastapi import FastAPI

from judge_eval.server.hosted import HostedSubmission
from judge_eval.server.models import ApiRecord, Submission, Upload

_SENT = "#/components/schemas/{model}Sent"
_QUERY, _REFERENCE = "When does the office open?", "At nine."
_EXAMPLES: Mapping[type[ApiRecord], Mapping[str, Any]] = {
    Submission: {
        "label": "PR #111",
        "traces": [
            {
                "query": _QUERY,
                "reference": _REFERENCE,
                "chunks": [{"text": "Parking is free."}, {"text": "We open at nine."}],
            }
        ],
    },
    HostedSubmission: {
        "label": "PR #111",
        "href": None,
        "tags": ["PROD"],
        "data": [
            {
                "query": _QUERY,
                "reference": _REFERENCE,
                "contexts": [
                    {"document": "Parking is free.", "relevance": 0.91},
                    {"document": "We open at nine.", "relevance": 0.84},
                ],
            }
        ],
    },
}


def body_of(*kinds: type[ApiRecord]) -> dict[str, Any]:
    """Return what the document says of a route whose body is one of these records."""
    schemas = [{"$ref": _SENT.format(model=kind.__name__)} for kind in kinds]
    content: dict[str, Any] = {"schema": schemas[0] if len(schemas) == 1 else {"anyOf": schemas}}
    shown = {kind.__name__: {"value": _EXAMPLES[kind]} for kind in kinds if kind in _EXAMPLES}
    if shown:
        content["examples"] = shown
    return {"requestBody": {"required": True, "content": {"application/json": content}}}


def describe_bodies(app: FastAPI) -> None:
    """Put the records that requests bring into an application's document."""
    made = app.openapi

    def openapi() -> dict[str, Any]:
        document = made()
        schemas = document["components"]["schemas"]
        for kind in (Submission, HostedSubmission, Upload):
            schema = kind.model_json_schema(ref_template=_SENT)
            for name, part in schema.pop("$defs", {}).items():
                schemas[f"{name}Sent"] = part
            schemas[f"{kind.__name__}Sent"] = schema
        return document

    app.openapi = openapi  # type: ignore[method-assign]
