"""As the Celery documentation says it for Django."""

import ctypes
import os
import signal
import sys

from celery import Celery

if {"worker", "beat"} & set(sys.argv):
    # Not as the documentation says it: these end with the test run, however that ends.
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "tests.celery.project.settings")

app = Celery("project")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks()
