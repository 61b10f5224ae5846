"""Pegboard behind nginx, with the configuration of docs/install.md as it is written there."""

import http.client
import re
import shutil
import ssl
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from http.cookies import SimpleCookie
from pathlib import Path
from urllib.parse import urlencode

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from django.conf import settings
from django.contrib.auth.hashers import PBKDF2PasswordHasher

from core import proxy_signs, redis_client
from core.proxy_signs import Sign
from people import login_lockout
from people.models import FailedSignIn, Role
from tests.factories import PASSWORD, make_user
from tests.pegboard.web.test_web_server import web_server
from tests.ports import free_port

NGINX = shutil.which("nginx") or "/usr/sbin/nginx"
pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.skipif(
        not Path(NGINX).exists(), reason="nginx is not installed: apt-get install nginx-light"
    ),
]
HOST = "pegboard.example.com"
CONFIG = """
daemon off; pid {directory}/pid; error_log {directory}/error.log;
events {{}}
http {{ access_log off;
client_body_temp_path {directory}/body; proxy_temp_path {directory}/proxy;
fastcgi_temp_path {directory}/fastcgi; uwsgi_temp_path {directory}/uwsgi; scgi_temp_path {directory}/scgi;
{block}
}}
"""
# The settings that the manual lists beside the configuration.
VARIABLES = {
    "PEGBOARD_HTTPS": "1",
    "PEGBOARD_PROXIES": "1",
    "PEGBOARD_HOSTS": HOST,
    "PEGBOARD_URL": f"https://{HOST}",
    "PEGBOARD_LOCAL": "",
}


def write_certificate(directory: Path) -> None:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, HOST)])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .sign(key, hashes.SHA256())
    )
    (directory / "pegboard.pem").write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    plain = serialization.NoEncryption()
    format_ = serialization.PrivateFormat.PKCS8
    (directory / "pegboard.key").write_bytes(key.private_bytes(serialization.Encoding.PEM, format_, plain))


def documented_block() -> str:
    manual = Path(settings.BASE_DIR, "docs/install.md").read_text()
    (block,) = re.findall(r"sites-available/pegboard <<'EOF'\n(.*?)EOF\n", manual, re.DOTALL)
    return block


@dataclass
class Browser:
    """Reaches the proxy from an address of its own."""

    port: int
    address: str
    cookies: dict[str, str] = field(default_factory=dict)

    def send(self, method: str, path: str, body: str = "", **headers: str) -> http.client.HTTPResponse:
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        client = http.client.HTTPSConnection(
            "127.0.0.1", self.port, timeout=30, context=context, source_address=(self.address, 0)
        )
        cookies = "; ".join(f"{name}={value}" for name, value in self.cookies.items())
        try:
            client.request(method, path, body, {"Host": HOST, "Cookie": cookies, **headers})
            answer = client.getresponse()
            answer.text = answer.read().decode()
        finally:
            client.close()
        for line in answer.headers.get_all("Set-Cookie", []):
            self.cookies |= {name: morsel.value for name, morsel in SimpleCookie(line).items()}
        return answer

    def sign_in(self, name: str, password: str, origin: str = f"https://{HOST}") -> http.client.HTTPResponse:
        if not self.cookies:
            self.send("GET", "/accounts/login/")
        form = {"username": name, "password": password, "csrfmiddlewaretoken": self.cookies["csrftoken"]}
        headers = {"Content-Type": "application/x-www-form-urlencoded", "Origin": origin}
        return self.send("POST", "/accounts/login/", urlencode(form), **headers)


@contextmanager
def behind_nginx(
    directory: Path, change: Callable[[str], str] = lambda block: block, **variables: str
) -> Iterator[int]:
    """The port at which nginx speaks TLS."""
    write_certificate(directory)
    plain, encrypted = free_port(), free_port()
    with web_server(**VARIABLES | variables) as port:
        block = change(documented_block())
        for documented, here in (
            ("listen 80;", f"listen 127.0.0.1:{plain};"),
            ("listen 443 ssl;", f"listen 127.0.0.1:{encrypted} ssl;"),
            ("/etc/nginx/pegboard", f"{directory}/pegboard"),
            ("127.0.0.1:8000;", f"127.0.0.1:{port};"),
            ("127.0.0.1:8100;", f"127.0.0.1:{port};"),
        ):
            assert documented in block
            block = block.replace(documented, here)
        config = directory / "nginx.conf"
        config.write_text(CONFIG.format(directory=directory, block=block))
        nginx = subprocess.Popen([NGINX, "-e", f"{directory}/error.log", "-c", str(config)])
        try:
            for _ in range(100):
                try:
                    Browser(encrypted, "127.0.0.1").send("GET", "/healthz")
                    break
                except OSError:
                    time.sleep(0.1)
            yield encrypted
        finally:
            nginx.terminate()
            nginx.wait(20)


@pytest.fixture(autouse=True)
def no_signs() -> Iterator[None]:
    redis_client.client().delete(proxy_signs.KEY)
    yield
    redis_client.client().delete(proxy_signs.KEY)


def make_administrator() -> None:
    """Make an administrator with a password as the product stores it, and not as tests do."""
    user = make_user(Role.ADMIN, username="ada")
    user.password = PBKDF2PasswordHasher().encode(PASSWORD, "a salt of sixteen", iterations=1000)
    user.save()


def fail_often(address: str) -> None:
    names = [f"user-{number}" for number in range(login_lockout.MAX_PER_ADDRESS)]
    FailedSignIn.objects.bulk_create([FailedSignIn(username=name, address=address) for name in names])


def test_the_documented_steps_count_each_address_by_itself(tmp_path):
    make_administrator()
    with behind_nginx(tmp_path) as port:
        assert Browser(port, "127.0.0.1").sign_in("ada", "wrong").status == 200
        assert list(FailedSignIn.objects.values_list("address", flat=True)) == ["127.0.0.1"]
        fail_often("127.0.0.3")
        assert str(login_lockout.WAIT) in Browser(port, "127.0.0.3").sign_in("ada", PASSWORD).text
        # A header of the client's own moves it to no other address.
        spoofed = {"X-Forwarded-For": "127.0.0.9"}
        browser = Browser(port, "127.0.0.3")
        assert browser.send("GET", "/accounts/login/", **spoofed).status == 200
        assert str(login_lockout.WAIT) in browser.sign_in("ada", PASSWORD).text

        browser = Browser(port, "127.0.0.2")
        answer = browser.sign_in("ada", PASSWORD)
        assert (answer.status, answer.headers["Location"]) == (302, "/")
        assert browser.send("GET", "/").status == 200
        assert "max-age=" in answer.headers["Strict-Transport-Security"]
        foreign = Browser(port, "127.0.0.2").sign_in("ada", PASSWORD, origin="https://evil.example")
        assert (foreign.status, "https://evil.example" in foreign.text) == (403, True)
    assert proxy_signs.read_mismatches(proxies=1, is_https=True) == []


def test_a_proxy_that_no_setting_counts_is_noted(tmp_path):
    make_administrator()
    fail_often("127.0.0.1")
    with behind_nginx(tmp_path, PEGBOARD_PROXIES="0") as port:
        assert str(login_lockout.WAIT) in Browser(port, "127.0.0.2").sign_in("ada", PASSWORD).text
    assert proxy_signs.read_mismatches(proxies=0, is_https=True) == [Sign.UNCOUNTED_PROXY]


def test_a_proxy_that_does_not_tell_of_tls_is_noted(tmp_path):
    line = "proxy_set_header X-Forwarded-Proto $scheme;"
    with behind_nginx(tmp_path, lambda block: block.replace(line, "")) as port:
        browser = Browser(port, "127.0.0.2")
        answer = browser.send("GET", "/accounts/login/")
        assert (answer.status, answer.headers["Location"]) == (301, f"https://{HOST}/accounts/login/")
        for probe in ("/healthz", "/readyz"):
            assert browser.send("GET", probe, Host="10.0.0.7").status == 200
    assert proxy_signs.read_mismatches(proxies=1, is_https=True) == [Sign.NO_SCHEME]


def test_without_https_a_form_over_tls_names_the_settings(tmp_path):
    with behind_nginx(tmp_path, PEGBOARD_HTTPS="", PEGBOARD_URL="") as port:
        answer = Browser(port, "127.0.0.2").sign_in("ada", PASSWORD)
    assert answer.status == 403
    assert "PEGBOARD_HTTPS=1" in answer.text


def test_a_form_of_the_address_of_pegboard_is_accepted_whatever_host_the_proxy_sends(tmp_path):
    make_administrator()
    host = "proxy_set_header Host $http_host;"
    change = {"PEGBOARD_HOSTS": f"{HOST} upstream"}
    with behind_nginx(
        tmp_path, lambda block: block.replace(host, "proxy_set_header Host upstream;"), **change
    ) as port:
        assert Browser(port, "127.0.0.2").sign_in("ada", PASSWORD).status == 302
