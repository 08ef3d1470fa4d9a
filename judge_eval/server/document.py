"""The OpenAPI document, with the bodies that the server reads by itself."""

import json
from importlib.resources import files
from typing import Any

from fastapi import FastAPI

from judge_eval.server.models import ApiRecord, HostedSubmission, Submission, Upload

_SENT = "#/components/schemas/{model}Sent"


def body_of(*kinds: type[ApiRecord]) -> dict[str, Any]:
    """Return what the document says of a route whose body is one of these records."""
    schemas = [{"$ref": _SENT.format(model=kind.__name__)} for kind in kinds]
    content: dict[str, Any] = {"schema": schemas[0] if len(schemas) == 1 else {"anyOf": schemas}}
    examples = json.loads((files("judge_eval.server") / "examples.json").read_text(encoding="utf-8"))
    names = [kind.__name__ for kind in kinds]
    shown = {name: {"value": examples[name]} for name in names if name in examples}
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
