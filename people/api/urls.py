from django.urls import path

from people.api import keys, trail, users

urlpatterns = [
    path("keys/", keys.KeyList.as_view(), name="api-key-list"),
    path("keys/<int:pk>/", keys.KeyDetail.as_view(), name="api-key"),
    path("audit/", trail.AuditList.as_view(), name="api-audit-list"),
    path("users/", users.UserList.as_view(), name="api-user-list"),
    path("users/<int:pk>/", users.UserDetail.as_view(), name="api-user"),
]
