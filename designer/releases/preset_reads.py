"""Records of users who read sensitive presets of a release, which exports contain unmasked.

Keys leave receipts. A user who reads an export in a browser session leaves an entry in the audit trail. The
bytes are never masked: they are signed, and their digest is the ETag that runtimes and lock files compare.
"""

from datetime import timedelta

from django.db import transaction
from django.utils import timezone

from core import replica_reads
from designer.exports import document as release_document
from designer.models import Release
from designer.pins import masking
from people import audit
from people.models import AuditEntry, User

# Further reads of the same release by the same user are not recorded within this time.
INTERVAL = timedelta(hours=1)


@replica_reads.on_primary()
@transaction.atomic
def record_preset_read(user: User, release: Release) -> None:
    """Record that the user reads this release, if it has sensitive presets."""
    if not masking.sensitive_presets([release_document.decode(release.document)]):
        return
    entries = AuditEntry.objects.filter(actor=user, action="show sensitive", kind="release")
    if not entries.filter(object_id=str(release.pk), at__gt=timezone.now() - INTERVAL).exists():
        audit.record(user, "show sensitive", release, agent=release.agent_id)
