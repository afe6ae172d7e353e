"""What Celery's beat does for queues, and django-celery-beat's rows that make it do so.

- ``periodic``: the Celery tasks ``vtrr_queue.upkeep`` and ``vtrr_queue.enqueue``, and what
  happens where beat reads no rows; ``enqueue``: what the latter does.
- ``plan``: the rows that settings ask for; ``rows``: making them, without undoing what an
  operator changed; ``marker``: how ours are told from others'.
- ``hook``: doing so after ``migrate``; ``facts``: what the system checks want to know.

Nothing is imported here: ``periodic`` needs Celery, ``rows``, ``hook`` and ``facts`` need
django-celery-beat, in ``INSTALLED_APPS`` too.
"""
