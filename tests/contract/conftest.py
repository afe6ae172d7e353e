"""``store``: each store in turn, on the real thing, emptied after each test."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.contract.stores import STORES, Store


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        # Other folders import this hook, and it is called once for each of them.
        wanted = "store" in getattr(item, "fixturenames", ()) and hasattr(item, "callspec")
        if wanted and item.get_closest_marker("django_db") is None:
            made = STORES[item.callspec.params["store"]]()
            mark = pytest.mark.django_db(
                transaction=True, databases=made.databases, available_apps=["vtrr_django"]
            )
            item.add_marker(mark)
            for service in made.services:
                item.add_marker(pytest.mark.service(service))


@pytest.fixture(params=list(STORES))
def store(request: pytest.FixtureRequest, transactional_db: None) -> Iterator[Store]:
    made = STORES[request.param]()
    yield made
    made.close()
