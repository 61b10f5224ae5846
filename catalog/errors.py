from core.errors import DomainError


class CatalogError(DomainError):
    """A rule about vendors, endpoints, credentials, runs or findings said no."""


def invalid(**fields: str) -> CatalogError:
    """What somebody entered, with a sentence beside each field that cannot stay so."""
    return CatalogError("invalid", "Please correct what is marked.", fields=fields)
