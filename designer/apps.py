from django.apps import AppConfig
from django.db.models import Count


class DesignerConfig(AppConfig):
    name = "designer"

    def ready(self) -> None:
        from catalog.review import inspector  # noqa: PLC0415 - models are there only now
        from catalog.tools import effective_texts, versions  # noqa: PLC0415
        from designer import tunings  # noqa: PLC0415
        from designer.models import Agent, Pin  # noqa: PLC0415
        from designer.releases import proofs  # noqa: PLC0415
        from people import audit  # noqa: PLC0415
        from people.management.commands import database_role  # noqa: PLC0415

        inspector.USED_TOOLS.append(
            lambda: Pin.objects.values_list("tool_id", flat=True).distinct().order_by()
        )
        versions.PINNED.append(
            lambda tools: (
                Pin.objects.live()
                .filter(tool__in=tools)
                .order_by()
                .values_list("tool", "version")
                .annotate(agents=Count("agent", distinct=True))
            )
        )
        effective_texts.words_come_from(tunings.rewrites)
        audit.agents_are_seen_by(lambda user: Agent.objects.visible_to(user).values("pk"))
        database_role.FOR_THE_ROLE.append(proofs.make_key)
