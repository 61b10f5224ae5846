"""Certificates of a company's own authority, for servers on loopback."""

import datetime
import ipaddress
import ssl
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

NOW = datetime.datetime.now(datetime.UTC)
LOOPBACK = [x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]


class Authority:
    """Signs certificates, as a company's own authority does."""

    def __init__(self, name="Test authority", days=(-1, 100)):
        self.key = ec.generate_private_key(ec.SECP256R1())
        self.name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        self.certificate = self.sign(name, self.key, [], days=days, is_authority=True)

    @property
    def pem(self):
        return self.encode(self.certificate)

    @staticmethod
    def encode(certificate):
        return certificate.public_bytes(serialization.Encoding.PEM).decode()

    def sign(self, name, key, names, *, days=(-1, 1), is_authority=False):
        builder = (
            x509.CertificateBuilder()
            .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)]))
            .issuer_name(self.name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(NOW + datetime.timedelta(days=days[0]))
            .not_valid_after(NOW + datetime.timedelta(days=days[1]))
            .add_extension(x509.BasicConstraints(ca=is_authority, path_length=None), critical=True)
        )
        if names:
            builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
        return builder.sign(self.key, hashes.SHA256())

    def write(self, path, names=LOOPBACK, **options):
        """Write a certificate for a server with its key, and return the two files."""
        key = ec.generate_private_key(ec.SECP256R1())
        certificate_file, key_file = Path(path, "server.crt"), Path(path, "server.key")
        certificate = self.sign("vendor", key, names, **options)
        certificate_file.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
        key_file.write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.PKCS8,
                serialization.NoEncryption(),
            )
        )
        key_file.chmod(0o600)
        return certificate_file, key_file

    def server_context(self, path, names=LOOPBACK, **options):
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*self.write(path, names, **options))
        return context
