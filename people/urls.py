from django.urls import path
from django.views.decorators.http import require_http_methods

from people.views import accounts, trail, users

READ_AND_POST = require_http_methods(["GET", "HEAD", "POST"])

urlpatterns = [
    path("accounts/login/", READ_AND_POST(accounts.SignInView.as_view()), name="login"),
    path("accounts/first/", READ_AND_POST(accounts.first_account), name="first-account"),
    path("accounts/password/", accounts.own_password, name="password-change"),
    path("audit/", trail.audit_list, name="audit"),
    path("audit/export/", trail.audit_export, name="audit-export"),
    path("audit/<int:pk>/", trail.audit_entry, name="audit-entry"),
    path("users/", users.user_list, name="user-list"),
    path("users/new/", users.user_new, name="user-new"),
    path("users/<int:pk>/", users.user, name="user"),
    path("users/<int:pk>/password/", users.user_password, name="user-password"),
]
