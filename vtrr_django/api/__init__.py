"""The HTTP API: ``vtrr_serve`` serves it, and a project may ``include("vtrr_django.api.urls")``."""
