from django.urls import path

from catalog.views import (
    credentials,
    endpoints,
    previews,
    review,
    runs,
    second_looks,
    vendor_requests,
    vendors,
)

urlpatterns = [
    path("vendors/", vendors.vendor_list, name="vendor-list"),
    path("vendors/<slug:slug>/", vendors.vendor, name="vendor"),
    path("vendor-requests/", vendor_requests.vendor_request_list, name="vendor-request-list"),
    path("vendor-requests/new/", vendor_requests.vendor_request_new, name="vendor-request-new"),
    path(
        "vendor-requests/<int:pk>/decline/",
        vendor_requests.vendor_request_decline,
        name="vendor-request-decline",
    ),
    path(
        "vendor-requests/<int:pk>/take-back/",
        vendor_requests.vendor_request_take_back,
        name="vendor-request-take-back",
    ),
    path("endpoints/new/", endpoints.endpoint_new, name="endpoint-new"),
    path("endpoints/new/preview/", previews.endpoint_preview, name="endpoint-preview"),
    path("endpoints/<int:pk>/", endpoints.endpoint, name="endpoint"),
    path("endpoints/<int:pk>/preview/", previews.endpoint_change_preview, name="endpoint-change-preview"),
    path("endpoints/<int:pk>/read/", endpoints.endpoint_read, name="endpoint-read"),
    path("endpoints/<int:pk>/pause/", endpoints.endpoint_pause, name="endpoint-pause"),
    path("endpoints/<int:pk>/second-look/", second_looks.endpoint_second_look, name="endpoint-second-look"),
    path("runs/<int:pk>/", runs.run, name="run"),
    path("runs/<int:pk>/confirm/", runs.run_confirm, name="run-confirm"),
    path("runs/<int:pk>/reply/", runs.run_reply, name="run-reply"),
    path("credentials/", credentials.credential_list, name="credential-list"),
    path("credentials/new/", credentials.credential_new, name="credential-new"),
    path("credentials/callback/", credentials.callback, name="credential-callback"),
    path("credentials/client.json", credentials.client_document, name="client-document"),
    path("credentials/<uuid:pk>/", credentials.credential, name="credential"),
    path("credentials/<uuid:pk>/edit/", credentials.credential_edit, name="credential-edit"),
    path("credentials/<uuid:pk>/sign-in/", credentials.credential_sign_in, name="credential-sign-in"),
    path("credentials/<uuid:pk>/sign-out/", credentials.credential_sign_out, name="credential-sign-out"),
    path("credentials/<uuid:pk>/remove/", credentials.credential_remove, name="credential-remove"),
    path("review/", review.review, name="review"),
]
