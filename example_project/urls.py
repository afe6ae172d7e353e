"""URLs of the example project."""

from __future__ import annotations

from django.contrib import admin
from django.contrib.auth.views import LoginView, LogoutView
from django.contrib.staticfiles.views import serve
from django.urls import include, path

from vtrr_django.health import health

urlpatterns = [
    path("", include("example_project.uploads.urls")),
    path("login/", LoginView.as_view(redirect_authenticated_user=True), name="login"),
    path("logout/", LogoutView.as_view(), name="logout"),
    path("admin/", admin.site.urls),
    path("health/", health),
    # Django calls this insecure because it is slow. It is right for a site that must run
    # with nothing but Django; a real one has its front-end server, a CDN or WhiteNoise.
    path("static/<path:path>", serve, {"insecure": True}),
]
