"""Nonces that were used, in the database: what one server process has seen, all refuse."""

from __future__ import annotations

import itertools
import logging
from typing import Final

from vtrr_django.conf import DEFAULT_QUEUE, get_settings
from vtrr_django.domain.parts import parts
from vtrr_django.domain.signature import WINDOW
from vtrr_django.engines.sql.known import MOST_KEYS
from vtrr_django.engines.sql.models import Nonce
from vtrr_django.engines.sql.patience import BRIEF, patience
from vtrr_django.engines.sql.store import Cursor, Store
from vtrr_django.exceptions import StoreUnavailable

logger = logging.getLogger("vtrr_django.api")

TABLE: Final = Nonce._meta.db_table

KEPT: Final = 3 * WINDOW
"""Seconds: one clock accepts a request for twice the window; the third is for servers whose
clocks differ."""

TRIM_EVERY: Final = 100
TRIMMED_AT_ONCE: Final = 1000
"""How often a process trims, in nonces, and how many rows it then deletes at most: more than
have come meanwhile, so that the table keeps the nonces of ``KEPT`` seconds and few others."""

_MICROSECONDS = 1_000_000

_used = itertools.count()


def use(nonce: str) -> bool:
    """Use up a nonce. False: somebody has used it before.

    Of any number that try at once, in whatever processes, one gets True.

    Raises:
        StoreUnavailable: the database does not answer, so nobody knows.
    """
    store = _store()
    dialect = store.dialect
    # One statement, which commits by itself. Whoever inserts the same at the same time waits
    # for it, and then passes over the row.
    inserted = store.write(
        f"{dialect.insert_new} {TABLE} (nonce, seen_at) VALUES (%s, {dialect.clock})"
        f"{dialect.ignore_conflict}",
        [nonce, *dialect.clock_params()],
    )
    # A process that does not live long trims too.
    if next(_used) % TRIM_EVERY == 0:
        _trim(store)
    return inserted == 1


def _store() -> Store:
    """Return where the nonces are: one place for all queues, the database of the default one.

    Not of each queue its own: the same request to two queues would be known in neither's. And
    not always the database "default": where queues have others, their tables may not be there.
    """
    queues = get_settings().queues
    config = queues.get(DEFAULT_QUEUE) or next(iter(queues.values()))
    return Store(config.database)


def _trim(store: Store) -> None:
    """Delete the oldest of those that are too old to be accepted again."""
    try:
        with patience(BRIEF):
            store.transact(_delete_old, durable=False)
    except StoreUnavailable as error:
        # The request is good all the same, and there will be another one.
        logger.warning("old nonces could not be deleted: %s", error)


def _delete_old(cursor: Cursor) -> None:
    before = cursor.now() - KEPT * _MICROSECONDS
    # Found first, without locks: a DELETE may stop at the rows beside its own.
    rows = cursor.rows(
        f"SELECT nonce FROM {TABLE} WHERE seen_at < %s ORDER BY seen_at LIMIT %s",
        [before, TRIMMED_AT_ONCE],
    )
    nonces = [row[0] for row in rows]
    for some in parts(nonces, MOST_KEYS):
        cursor.delete(TABLE, "nonce", some)
