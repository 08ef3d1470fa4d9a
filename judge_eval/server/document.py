"""The OpenAPI document, with the bodies that the server reads by itself."""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI

from judge_eval.server.models import ApiRecord, Submission, Upload

_SENT = "#/components/schemas/{model}Sent"


def body_of(kind: type[ApiRecord]) -> dict[str, Any]:
    """Return what the document says of a route whose body is such a record."""
    schema = {"$ref": _SENT.format(model=kind.__name__)}
    return {"requestBody": {"required": True, "content": {"application/json": {"schema": schema}}}}


def describe_bodies(app: FastAPI) -> None:
    """Put the records that requests bring into an application's document."""
    made = app.openapi

    def openapi() -> dict[str, Any]:
        document = made()
        schemas = document["components"]["schemas"]
        for kind in (Submission, Upload):
            schema = kind.model_json_schema(ref_template=_SENT)
            for name, part in schema.pop("$defs", {}).items():
                schemas[f"{name}Sent"] = part
            schemas[f"{kind.__name__}Sent"] = schema
        return document

    app.openapi = openapi  # type: ignore[method-assign]
