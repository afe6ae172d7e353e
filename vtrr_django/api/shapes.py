"""The words in which the shapes of requests and answers are told: JSON Schema."""

from __future__ import annotations

from typing import Any, Final

from vtrr_django.api.tokens import LONGEST as LONGEST_TOKEN
from vtrr_django.domain import job as limits
from vtrr_django.domain.values import MAX_DELAY

Schema = dict[str, Any]

_NO_CONTROL: Final = r"^[^\u0000-\u001F\u007F-\u009F]*$"

QUEUE_NAME: Final[Schema] = {
    "type": "string",
    "pattern": rf"^[A-Za-z0-9_-]{{1,{limits.MAX_QUEUE_NAME_LENGTH}}}$",
}
JOB_ID: Final[Schema] = {
    "type": "string",
    "pattern": rf"^[!-~]{{1,{limits.MAX_ID_LENGTH}}}$",
    "description": "1 to 64 printable ASCII characters without spaces.",
}
TOKEN: Final[Schema] = {
    "type": "string",
    "minLength": 1,
    "maxLength": LONGEST_TOKEN,
    "description": "Proves a lease. Send it back as it came.",
}
COUNT: Final[Schema] = {"type": "integer", "minimum": 0}
FLAG: Final[Schema] = {"type": "boolean"}
MOMENT: Final[Schema] = {"type": "string", "format": "date-time"}


def ref(name: str) -> Schema:
    """Return a reference to one of the ``SCHEMAS``."""
    return {"$ref": f"#/components/schemas/{name}"}


def nullable(schema: Schema) -> Schema:
    """Let something be ``null`` as well: as if it were left out, or unknown."""
    if schema.get("type") == "null":
        return schema
    if isinstance(schema.get("type"), str):
        return {**schema, "type": [schema["type"], "null"]}
    return {"anyOf": [schema, {"type": "null"}]}


def name(longest: int, *, least: int = 1) -> Schema:
    """Return a text without control characters."""
    return {"type": "string", "minLength": least, "maxLength": longest, "pattern": _NO_CONTROL}


def whole(least: int, most: int, **more: Any) -> Schema:
    """Return a whole number within bounds."""
    return {"type": "integer", "minimum": least, "maximum": most, **more}


def seconds(least: float = 0, most: float = MAX_DELAY, **more: Any) -> Schema:
    """Return a number of seconds."""
    return {"type": "number", "minimum": least, "maximum": most, **more}


def items(schema: Schema, least: int, most: int) -> Schema:
    """Return a list of ``least`` to ``most`` of something."""
    return {"type": "array", "items": schema, "minItems": least, "maxItems": most}


def asked(*required: str, **properties: Schema) -> Schema:
    """Return an object of a request: no other keys; those not required may be null."""
    return {
        "type": "object",
        "required": list(required),
        "properties": {
            key: schema if key in required else nullable(schema)
            for key, schema in properties.items()
        },
        "additionalProperties": False,
    }


def told(**properties: Schema) -> Schema:
    """Return an object of an answer, all of whose keys are there."""
    return {"type": "object", "required": list(properties), "properties": properties}


PARTITION_KEY: Final[Schema] = {
    **name(limits.MAX_PARTITION_KEY_LENGTH, least=0),
    "description": 'The tenant; "" is what belongs to none.',
}
TASK: Final[Schema] = name(limits.MAX_TASK_NAME_LENGTH)
MSG_ID: Final[Schema] = name(limits.MAX_MSG_ID_LENGTH)
