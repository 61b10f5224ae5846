from django.contrib import admin
from django.urls import include, path

urlpatterns = [
    path("", include("designer.urls")),
    path("", include("catalog.urls")),
    path("", include("people.urls")),
    path("api/v1/", include("designer.api.urls")),
    path("api/v1/", include("catalog.api.urls")),
    path("api/v1/", include("people.api.urls")),
    path("admin/", admin.site.urls),
]
