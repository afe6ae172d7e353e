"""The OpenAPI document tells of what there is, and of all of it."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from django.test import Client
from django.urls import include, path, resolve
from django.urls.exceptions import Resolver404

from tests import services
from tests.api.asking import Api
from vtrr_django.api import urls
from vtrr_django.api.openapi import document
from vtrr_django.api.operations import OPERATIONS
from vtrr_django.domain.values import MAX_DUE_YEAR, MIN_DUE_YEAR

jsonschema_rs = services.need_package("jsonschema_rs")

DOCUMENT = document()

urlpatterns = [path("deep/down/", include("vtrr_django.api.urls"))]


def test_every_route_is_described_but_those_of_the_page_and_the_document() -> None:
    described = {one.name for one in OPERATIONS}
    routes = {str(one.name) for one in urls.urlpatterns}
    assert routes - described == {"dashboard", "openapi"}
    for operation in OPERATIONS:
        address = operation.path.replace("{queue}", "q").replace("{id}", "a/b")
        assert resolve(address, "vtrr_django.api.urls")
    with pytest.raises(Resolver404):
        resolve("/nothing", "vtrr_django.api.urls")


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda one: one.name)
def test_what_is_described_is_what_is_done(operation: Any) -> None:
    assert set(operation.query) == set(operation.endpoint.query)
    assert set(operation.required) <= set(operation.query)
    described = DOCUMENT["paths"][operation.path][operation.method.lower()]
    assert described["operationId"] == operation.name
    optional = [{}, *document()["paths"]["/queues"]["get"]["security"]]
    assert (described["security"] == optional) == (not operation.endpoint.auth)
    assert str(operation.status) in described["responses"]
    assert all(one["description"] for one in described["responses"].values())
    assert ("requestBody" in described) == (operation.method in {"POST", "PATCH"})


def test_names_are_given_once() -> None:
    names = [one.name for one in OPERATIONS]
    assert len(names) == len(set(names))


def test_every_schema_is_one_and_every_reference_leads_to_one() -> None:
    schemas = DOCUMENT["components"]["schemas"]
    for schema in schemas.values():
        jsonschema_rs.meta.validate(schema)
    referred = set(re.findall(r'"#/components/schemas/(\w+)"', json.dumps(DOCUMENT)))
    assert referred == set(schemas)


@pytest.mark.parametrize(
    ("name", "good", "bad"),
    [
        ("Job", {"task": "t", "id": "a/b"}, {"task": "t", "id": "a b"}),
        ("Job", {"task": "t", "delay": 1, "scheduled_at": None}, {"task": "a\x1f"}),
        ("Job", {"task": "t", "args": [[{"a": [None]}]]}, {"task": "t", "args": ["\x00"]}),
        (
            "Job",
            {"task": "t", "scheduled_at": "2030-01-01T00:00:00Z"},
            {"task": "t", "scheduled_at": "2030-01-01T00:00:00Z", "delay": 1},
        ),
        *(
            (
                "Job",
                {"task": "t", "scheduled_at": f"{good}-06-01T00:00:00Z"},
                {"task": "t", "scheduled_at": f"{bad}-06-01T00:00:00Z"},
            )
            for good, bad in ((MIN_DUE_YEAR, MIN_DUE_YEAR - 1), (MAX_DUE_YEAR, MAX_DUE_YEAR + 1))
        ),
        ("Job", {"task": "t", "kwargs": {"": {}}}, {"task": "t", "kwargs": {"\x00": 1}}),
        ("Requeue", {"ids": ["a"], "limit": None}, {"ids": ["a"], "limit": 1}),
        ("Change", {"action": "release", "token": "x"}, {"action": "ack", "token": "x"}),
    ],
)
def test_schemas_say_what_the_api_does(name: str, good: Any, bad: Any) -> None:
    whole = {"$ref": f"#/components/schemas/{name}", "components": DOCUMENT["components"]}
    validator = jsonschema_rs.validator_for(whole)
    assert validator.is_valid(good)
    assert not validator.is_valid(bad)


@pytest.mark.parametrize("store", ["sqlite"], indirect=True)
def test_everybody_may_read_it_and_it_tells_nothing_of_the_project(api: Api, settings: Any) -> None:
    settings.VTRR = {**settings.VTRR, "SECRET": "hush-hush"}
    found = api.send("GET", "/openapi.json")
    assert found.status == 200
    assert found.body == json.loads(json.dumps(DOCUMENT))
    assert api.name not in json.dumps(found.body)
    assert "hush-hush" not in json.dumps(found.body)


def test_its_paths_begin_where_the_api_is(settings: Any) -> None:
    settings.ROOT_URLCONF = __name__
    settings.MIDDLEWARE = []
    client = Client(HTTP_HOST="localhost")
    told = client.get("/deep/down/openapi.json").json()
    assert told["servers"] == [{"url": "/deep/down"}]
    told = client.get("/deep/down/openapi.json", SCRIPT_NAME="/app").json()
    assert told["servers"] == [{"url": "/app/deep/down"}]
