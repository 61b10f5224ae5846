"""The kinds of credential: a plug-in point with one module per kind.

OAuth 2 has kinds of its own (`OAuthKind`), because its tokens have a state: see catalog/credentials/oauth.
"""

from django.utils.functional import Promise

from catalog.credentials.kinds.aws_signature import AwsSignature
from catalog.credentials.kinds.base import Detail, Kind
from catalog.credentials.kinds.basic import Password
from catalog.credentials.kinds.bearer import BearerToken
from catalog.credentials.kinds.client_certificate import MutualTls
from catalog.credentials.kinds.header import HeaderKey
from catalog.credentials.kinds.query import QueryKey
from catalog.credentials.kinds.signed_token import SignedToken
from catalog.models.vendors import OAuthKind

# In the order of the page.
ALL: tuple[type[Kind], ...] = (
    BearerToken,
    HeaderKey,
    QueryKey,
    Password,
    SignedToken,
    MutualTls,
    AwsSignature,
)
KINDS: dict[str, type[Kind]] = {kind.name: kind for kind in ALL}
CHOICES: list[tuple[str, str | Promise]] = [*((kind.name, kind.label) for kind in ALL), *OAuthKind.choices]
DETAILS: dict[str, Detail] = {detail.name: detail for kind in ALL for detail in kind.details}


def label_of(name: str) -> str:
    return str(dict(CHOICES).get(name, name))
