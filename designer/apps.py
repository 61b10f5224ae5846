from django.apps import AppConfig


class DesignerConfig(AppConfig):
    name = "designer"

    def ready(self) -> None:
        from designer.models import Agent  # noqa: PLC0415 - models are there only now
        from people import audit  # noqa: PLC0415

        audit.agents_are_seen_by(lambda user: Agent.objects.visible_to(user).values("pk"))
