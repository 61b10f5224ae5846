from people.errors import DomainError


class CatalogError(DomainError):
    """A rule about vendors, endpoints, credentials, runs or findings said no."""
