"""Verifies a release of Pegboard: python verify_release.py bundle.json signature.json pegboard-keys.json

The bundle is exactly the bytes that releases/{n}/bundle/ answered. Needs the package `cryptography`.
"""

import base64
import hashlib
import json
import sys
from pathlib import Path

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey


def decoded(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


def main(bundle: str, signature: str, keys: str) -> str:
    digest = hashlib.sha256(Path(bundle).read_bytes())
    signed = json.loads(Path(signature).read_text())
    if signed["digest"] != f"sha256:{digest.hexdigest()}":
        return "The bundle is not the release that was signed."
    known = {key["kid"]: key for key in json.loads(Path(keys).read_text())["keys"]}
    if signed["key"] not in known:
        return "The key is not one of this Pegboard, or it was revoked."
    public = Ed25519PublicKey.from_public_bytes(decoded(known[signed["key"]]["x"]))
    try:
        public.verify(decoded(signed["signature"]), digest.digest())
    except InvalidSignature:
        return "The signature does not fit."
    sys.stdout.write("The release is as it was published.\n")
    return ""


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]) or 0)
