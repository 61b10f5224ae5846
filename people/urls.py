from django.urls import path
from django.views.decorators.http import require_http_methods

from people.views import accounts, keys, trail, users

READ_AND_POST = require_http_methods(["GET", "HEAD", "POST"])

urlpatterns = [
    path("accounts/login/", READ_AND_POST(accounts.SignIn.as_view()), name="login"),
    path("accounts/password/", accounts.own_password, name="password-change"),
    path("keys/", keys.key_list, name="key-list"),
    path("keys/new/", keys.key_new, name="key-new"),
    path("keys/<int:pk>/revoke/", keys.key_revoke, name="key-revoke"),
    path("audit/", trail.audit_list, name="audit"),
    path("audit/<int:pk>/", trail.audit_entry, name="audit-entry"),
    path("users/", users.user_list, name="user-list"),
    path("users/new/", users.user_new, name="user-new"),
    path("users/<int:pk>/", users.user, name="user"),
    path("users/<int:pk>/password/", users.user_password, name="user-password"),
]
