"""What happens to jobs, as Django signals. The sender is the :class:`~vtrr_django.Queue`.

A receiver that raises is logged and harms no job. Receivers run in the process that
caused the event: ``job_enqueued`` in the web server (after the commit), the others in
a worker. ``vtrr_django.logs`` is itself only a receiver.
"""

from __future__ import annotations

from django.dispatch import Signal

job_enqueued = Signal(use_caching=True)
"""``queue``, ``ids`` (list, in order), ``task_names`` and ``partition_keys`` (lists alike)."""

job_started = Signal(use_caching=True)
"""``queue``, ``job`` (LeasedJob), ``worker_id``."""

job_finished = Signal(use_caching=True)
"""``queue``, ``job_id``, ``status`` ("completed" or "failed"), ``reason``, ``error_class``,
``worker_id`` ("" when other code than a worker ended it)."""

job_retried = Signal(use_caching=True)
"""``queue``, ``job_id``, ``kind`` ("retry", "snooze" or "release"), ``delay``, ``reason``,
``worker_id``."""

job_reclaimed = Signal(use_caching=True)
"""``queue``, ``job_id``, ``partition_key``, ``task_name``, ``timeouts``, ``dead`` (bool)."""
