"""What the worker's parent process does about a trigger whose process is gone."""

from __future__ import annotations

from typing import Any

from billiard.einfo import ExceptionWithTraceback
from billiard.exceptions import Terminated, WorkerLostError
from celery.worker.request import Request


class TriggerRequest(Request):  # type: ignore[misc]
    """Sends the successor that a killed process could not send.

    And one for the killed job itself, which arrives when its lease has run out.
    """

    def on_timeout(self, soft: bool, timeout: float) -> None:
        """Replace a trigger that Celery killed at its hard time limit."""
        super().on_timeout(soft, timeout)
        if not soft:
            self._replace()

    def on_failure(self, exc_info: Any, *args: Any, **kwargs: Any) -> Any:
        """Replace a trigger whose process was lost, or was told to die."""
        result = super().on_failure(exc_info, *args, **kwargs)
        exc = exc_info.exception
        if isinstance(exc, ExceptionWithTraceback):
            exc = exc.exc
        if isinstance(exc, (Terminated, WorkerLostError)):
            self._replace()
        return result

    def _replace(self) -> None:
        # By the count: with acks_late the broker may deliver the trigger again too.
        dispatcher = self.task.vtrr_queue.dispatcher
        dispatcher.dispatch(1)
        dispatcher.after_a_death()
