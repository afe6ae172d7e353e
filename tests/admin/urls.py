"""The admin as most projects have it, and a second site of a project's own."""

from __future__ import annotations

from django.contrib import admin
from django.urls import path

from vtrr_django.admin.queues import QueueStateAdmin
from vtrr_django.models import QueueState

own_site = admin.AdminSite(name="own")
own_site.register(QueueState, QueueStateAdmin)

urlpatterns = [path("admin/", admin.site.urls), path("own/", own_site.urls)]
