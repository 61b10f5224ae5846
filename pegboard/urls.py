from django.contrib import admin
from django.urls import include, path, re_path

from pegboard.ops.metrics import Metrics
from pegboard.web import views
from people.sso import views as sign_on

# Django's admin has no door of its own: there is one sign-in page and one audited change of a password.
urlpatterns = [
    # First: each pattern that comes before costs every call of a program a comparison, and pages have many.
    path("api/v1/", include("serving.api.urls")),
    path("api/v1/", include("designer.api.urls")),
    path("api/v1/", include("execution.api.urls")),
    path("api/v1/", include("catalog.api.urls")),
    path("api/v1/", include("people.api.urls")),
    path("", include("serving.urls")),
    path("", include("designer.urls")),
    path("", include("execution.urls")),
    path("", include("catalog.urls")),
    path("", include("people.urls")),
    path("accounts/logout/", sign_on.sign_out, name="logout"),
    path("accounts/single-sign-on/", sign_on.start, name="single-sign-on"),
    path("accounts/single-sign-on/done/", sign_on.done, name="single-sign-on-done"),
    path("accounts/single-sign-on/link/", sign_on.link, name="single-sign-on-link"),
    path("healthz", views.healthz, name="healthz"),
    path("readyz", views.readyz, name="readyz"),
    path("metrics", Metrics.as_view(), name="metrics"),
    path("api/schema/", views.ApiSchema.as_view(), name="api-schema"),
    path("design/", views.design, name="design"),
    path("api/docs/", views.api_docs, name="api-docs"),
    path("api/docs/<slug:group>/", views.api_docs_group, name="api-docs-group"),
    re_path("^api/", views.unknown_call, name="api-unknown"),
    path("admin/login/", views.admin_login, name="admin-login"),
    path("admin/password_change/", views.admin_password, name="admin-password"),
    path("admin/", admin.site.urls),
]

handler400 = views.bad_request
handler403 = views.permission_denied
handler404 = views.page_not_found
handler500 = views.server_error
