from __future__ import annotations

from django.urls import path

from example_project.uploads import views

app_name = "uploads"
urlpatterns = [
    path("", views.index, name="index"),
    path("state/", views.state, name="state"),
    path("uploads/<int:pk>/", views.detail, name="detail"),
    path("uploads/<int:pk>/thumbnail-<int:size>.png", views.thumbnail, name="thumbnail"),
]
