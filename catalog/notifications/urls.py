from django.urls import path

from catalog.notifications import views

urlpatterns = [
    path("notifications/", views.notifications, name="notifications"),
    path("notifications/address/", views.address, name="notification-address"),
    path("notifications/address/forget/", views.address_forget, name="notification-forget"),
    path("notifications/confirm/", views.confirm, name="notification-confirm"),
    path("notifications/webhooks/new/", views.webhook_new, name="webhook-new"),
    path("notifications/webhooks/<uuid:pk>/", views.webhook, name="webhook"),
    path("notifications/webhooks/<uuid:pk>/test/", views.webhook_test, name="webhook-test"),
    path("notifications/webhooks/<uuid:pk>/pause/", views.webhook_pause, name="webhook-pause"),
    path("notifications/webhooks/<uuid:pk>/secret/", views.webhook_secret, name="webhook-secret"),
    path("notifications/webhooks/<uuid:pk>/remove/", views.webhook_remove, name="webhook-remove"),
]
