from people.errors import DomainError


class DesignerError(DomainError):
    """A rule about agents, pins, tunings or releases said no."""
