"""From a function to a view: method, caller, queue, query, body, and answers to errors.

A handler gets a :class:`Call` and returns what its answer holds::

    @endpoint(read=False)
    def resume(call: Call) -> dict[str, Any]:
        call.only("partition_key")
        call.queue.resume(call.text_or_none("partition_key"))
        return {"done": True}

    urlpatterns = [path("<str:queue>/resume", view(POST=resume))]

**The order of refusals.** Whoever is not let in learns nothing from being refused: 401 comes
before everything that depends on the project or on what is asked of it. In order:

1. 411, 413 (more than ``LARGEST``) and 400 (less came than was said): what has no end to wait
   for, or is too much to read. They depend on the request's own length alone, and until a body is
   there nobody can tell who signed it. What is no HTTP at all, or comes too late (408), the server
   refuses before.
2. 401, at every address that is not public, whatever the method; 503, if a signature is good and
   nobody can say whether it comes for the first time.
3. 405: no such method here. Addresses and methods are no secret, openapi.json tells all of them,
   and so 404 for a path of another shape (``not_found``) is the answer for everybody.
4. 403: staff without the permission, or without CSRF token.
5. 400: the path or the query is not UTF-8; 404: no such queue; 400: a query that is wrong.
6. 413 (more than the queue's payloads need), 415, 400: the body.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from django.contrib.auth.decorators import login_not_required
from django.core.exceptions import SuspiciousOperation
from django.db import InterfaceError, OperationalError
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.views.decorators.cache import never_cache
from django.views.decorators.csrf import csrf_exempt

from vtrr_django.api.address import check_address
from vtrr_django.api.answers import Refused, answer
from vtrr_django.api.auth import Caller, authenticate, authorize
from vtrr_django.api.body import (
    BODY_METHODS,
    ORDINARY,
    most_bytes,
    parse_body,
    read_body,
    refuse_large,
)
from vtrr_django.api.fields import Fields
from vtrr_django.api.upkeep import tend_after
from vtrr_django.conf import get_config
from vtrr_django.connections import outside_transactions
from vtrr_django.domain.values import check_queue_name
from vtrr_django.engines.sql.patience import patience
from vtrr_django.exceptions import (
    ConfigurationError,
    DuplicateJobError,
    StoreUnavailable,
    UnknownQueueError,
    ValidationError,
    VTRRError,
)
from vtrr_django.queue import Queue
from vtrr_django.registry import get_queue

__all__ = ["Call", "Endpoint", "Fields", "Refused", "answer", "endpoint", "not_found", "view"]

VIEW: Final = "vtrr_django.view_queuestate"
STEER: Final = "vtrr_django.steer_queues"
REQUEUE: Final = "vtrr_django.requeue_jobs"
ENQUEUE: Final = "vtrr_django.enqueue_jobs"
PAYLOADS: Final = "vtrr_django.see_payloads"

PATIENCE: Final = 3.0
"""Seconds that a request waits for a database that somebody else has locked, before it is a 503."""

_AWAY: Final = (StoreUnavailable, ConfigurationError, OperationalError, InterfaceError)
_STATUSES: Final = {
    UnknownQueueError: 404,
    DuplicateJobError: 409,
    SuspiciousOperation: 400,  # what Django itself refuses, such as a thousand parameters
}

logger = logging.getLogger("vtrr_django.api")


@dataclass(frozen=True, kw_only=True)
class Call(Fields):
    """One request, understood. Its getters read the body, or the query where there is none.

    Attributes:
        request: as Django has it.
        user_name: who asks: "vtrr" (has the secret), a member of staff, "loopback", "" (anybody).
        body: the JSON object; empty where the method has none.
        query: single values by name.
        may_see_payloads: whether who asks may see arguments of jobs, and what errors say of them.
    """

    request: HttpRequest
    user_name: str
    body: Mapping[str, Any]
    query: Mapping[str, str]
    known_queue: Queue | None
    may_see_payloads: bool = False

    @property
    def queue(self) -> Queue:
        """The queue that the path names.

        Raises:
            LookupError: it names none.
        """
        if self.known_queue is None:
            raise LookupError("expected a path with a queue")
        return self.known_queue


Answer: TypeAlias = "dict[str, Any] | list[Any] | HttpResponseBase"
Handler: TypeAlias = "Callable[..., Answer]"
View: TypeAlias = "Callable[..., HttpResponseBase]"


@dataclass(frozen=True, kw_only=True, slots=True)
class Endpoint:
    """A handler and what it asks for.

    Attributes:
        handler: gets the call, and what the path holds besides a queue, by name.
        read: whether it changes nothing.
        permission: what staff need; None: it is no business of theirs.
        auth: False: everybody may.
        query: names that the query may have.
    """

    handler: Handler
    read: bool
    permission: str | None
    auth: bool
    query: tuple[str, ...]

    def __call__(self, request: HttpRequest, path: Mapping[str, Any]) -> HttpResponseBase:
        """Return the answer to a request.

        Raises:
            Refused, VTRRError: it is an error.
        """
        raw = read_body(request)
        caller = Caller(name="")
        if self.auth:
            caller = authenticate(request, raw)
            authorize(caller, request, read=self.read, permission=self.permission)
        check_address(request)
        others = dict(path)
        queue = _queue(others.pop("queue")) if "queue" in others else None
        query = _query(request, self.query)
        takes_body = request.method in BODY_METHODS
        if raw and not takes_body:
            raise Refused(400, f"expected {request.method} without a body, got one")
        refuse_large(raw, ORDINARY if queue is None else most_bytes(queue.config.max_payload_bytes))
        body = parse_body(request, raw) if takes_body else {}
        call = Call(
            values=body if takes_body else query,
            typed=takes_body,
            request=request,
            user_name=caller.name,
            body=body,
            query=query,
            known_queue=queue,
            may_see_payloads=bool(caller.name)
            and (caller.user is None or caller.user.has_perm(PAYLOADS)),
        )
        found = self.handler(call, **others)
        response = found if isinstance(found, HttpResponseBase) else answer(found)
        if queue is not None:
            tend_after(response, queue)
        return response


def endpoint(
    *,
    read: bool,
    permission: str | None = "",
    auth: bool = True,
    query: tuple[str, ...] = (),
) -> Callable[[Handler], Endpoint]:
    """Say what a handler asks for.

    ``permission`` is by default to view, or to steer, queues; None: no member of staff may, for
    it is what workers do.
    """

    def declare(handler: Handler) -> Endpoint:
        return Endpoint(
            handler=handler,
            read=read,
            permission=(VIEW if read else STEER) if permission == "" else permission,
            auth=auth,
            query=query,
        )

    return declare


def view(**endpoints: Endpoint) -> View:
    """Return the view of one path, from endpoints by method; GET answers HEAD too."""
    if "GET" in endpoints:
        endpoints.setdefault("HEAD", endpoints["GET"])

    def serve(request: HttpRequest, **path: Any) -> HttpResponseBase:
        found = endpoints.get(request.method or "")
        try:
            with patience(PATIENCE):
                if found is None:
                    raise _no_such_method(request, endpoints)
                return found(request, path)
        except Exception as error:
            refused = _refused(error)
            if refused is None:
                raise
            return refused.answer()

    # We ask who it is ourselves, and check CSRF where it matters: of those with a session.
    # Nor may an error that is answered roll back what was done before.
    return outside_transactions(csrf_exempt(login_not_required(never_cache(serve))))


def _no_such_method(request: HttpRequest, endpoints: Mapping[str, Endpoint]) -> Refused:
    """Return the refusal, for those who are let in.

    Raises:
        Refused: they are not.
    """
    raw = read_body(request, required=False)
    if any(one.auth for one in endpoints.values()):
        authenticate(request, raw)
    allowed = ", ".join(sorted(endpoints))
    return Refused(405, f"expected {allowed}, got {request.method}", headers={"Allow": allowed})


@csrf_exempt
@login_not_required
def not_found(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
    """Answer what has no path of ours."""
    return Refused(404, "expected a path of the API, see openapi.json").answer()


def _queue(name: str) -> Queue:
    try:
        check_queue_name(name, "queue")
    except ValidationError as error:
        raise Refused(404, str(error)) from None
    get_config(name)
    return get_queue(name)


def _query(request: HttpRequest, known: tuple[str, ...]) -> dict[str, str]:
    found = {}
    for name, values in request.GET.lists():
        if len(values) != 1:
            raise ValidationError(name, f"expected one value, got {len(values):,}")
        found[name] = str(values[0])
    Fields(values=found).only(*known)
    return found


def _refused(error: Exception) -> Refused | None:
    """Return the answer to an error; None: nobody foresaw it."""
    if isinstance(error, Refused):
        return error
    done = error.done if isinstance(error, VTRRError) else 0
    more = {"done": done} if done else {}
    if isinstance(error, ValidationError):
        message = str(error) if error.path else error.problem
        return Refused(400, message, path=error.path, more=more)
    if isinstance(error, _AWAY) and not isinstance(error, UnknownQueueError):
        # What a database says of itself is for the operator.
        logger.warning("a request could not be served: %s", error)
        return Refused(
            503,
            "the store does not answer, or refuses; try again, or read the server's log",
            headers={"Retry-After": "1"},
            more=more,
        )
    statuses = (status for kind, status in _STATUSES.items() if isinstance(error, kind))
    status = next(statuses, None)
    return None if status is None else Refused(status, str(error), more=more)
