from django.urls import path

from people.api import trail, users

urlpatterns = [
    path("audit/", trail.AuditList.as_view(), name="api-audit-list"),
    path("users/", users.UserList.as_view(), name="api-user-list"),
    path("users/<int:pk>/", users.UserDetail.as_view(), name="api-user"),
]
