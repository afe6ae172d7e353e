"""The site: the admin, the HTTP API with its dashboard, and what the tests ask of it."""

from django.contrib import admin
from django.urls import include, path

from tests.browser.site import told

urlpatterns = [
    path("admin/", admin.site.urls),
    path("csp-report", told.report),
    path("favicon.ico", told.icon),
    path("probe", told.probe),
    path("probe.js", told.dialog),
    path("told", told.told),
    path("vtrr/", include("vtrr_django.api.urls")),
]
