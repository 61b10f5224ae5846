"""Django's reports of unexpected errors, without values that may be secrets.

Django hides only the variables that a developer has marked. Secrets also pass through plain variables and
forms, so these reports omit every value and show names and types. Passwords are removed from addresses of
servers.
"""

import re
from collections.abc import ItemsView
from types import FrameType
from typing import Any

from django.http import HttpRequest
from django.views.debug import ExceptionReporter, SafeExceptionReporterFilter

PASSWORD_IN_URL = re.compile(r"(?<=://)[^/\s@]*@")


class ReportFilter(SafeExceptionReporterFilter):
    hidden_settings = re.compile(
        "API|AUTH|BEARER|COOKIE|CREDENTIAL|CSRF|DSN|KEY|PASS|QUERY|REFERER|SECRET|SESSION|SIGNATURE|TOKEN|_URI$",
        re.IGNORECASE,
    )

    def is_active(self, request: HttpRequest | None) -> bool:
        """Filter with PEGBOARD_DEBUG too."""
        return True

    def cleanse_setting(self, key: Any, value: Any) -> Any:
        cleansed = super().cleanse_setting(key, value)
        return PASSWORD_IN_URL.sub("…@", cleansed) if isinstance(cleansed, str) else cleansed

    def get_post_parameters(self, request: HttpRequest | None) -> dict[str, Any]:
        if request is None:
            return {}
        return dict.fromkeys(request.POST, self.cleansed_substitute)

    def get_traceback_frame_variables(
        self, request: HttpRequest | None, tb_frame: FrameType
    ) -> ItemsView[str, str]:
        return {name: f"<{type(value).__name__}>" for name, value in tb_frame.f_locals.items()}.items()


class Reporter(ExceptionReporter):
    """Omits query strings, too: the reply to a sign-in at a vendor arrives in one."""

    def get_traceback_data(self) -> dict[str, Any]:
        data = super().get_traceback_data()
        if self.request is not None:
            hidden = self.filter.cleansed_substitute
            data["request_GET_items"] = [(name, hidden) for name in self.request.GET]
            data["request_insecure_uri"] = data["request_insecure_uri"].partition("?")[0]
        return data
