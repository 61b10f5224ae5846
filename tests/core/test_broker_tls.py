"""The broker over TLS: every client verifies it before a password is sent."""

import json
import os
import shutil
import socket
import subprocess
import sys
import threading
from contextlib import contextmanager

import pytest
import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from core.broker_address import parse_broker_address
from tests.certificates import Authority
from tests.ports import free_port

PASSWORD = "a-password-of-the-broker"
# Every client that the product has for the broker: our own two, the sender of messages, and remote control.
ASK = """
import json, sys, django
django.setup()
from celery import current_app
from core import redis_client
def own(): return redis_client.client().ping()
def waiting(): return redis_client.waiting_client().ping()
def quick(): return redis_client.execute("PING")
def sender():
    with current_app.connection_for_write() as connection:
        connection.ensure_connection(max_retries=1, timeout=5)
        connection.default_channel.client.lpush("pegboard-test", "x")
        return True
def reader():
    with current_app.connection_for_read() as connection:
        connection.ensure_connection(max_retries=1, timeout=5)
        return connection.default_channel.client.llen("pegboard-test") > 0
def control():
    current_app.control.inspect(timeout=0.2).ping()
    return True
outcomes = {}
for ask in (own, waiting, quick, sender, reader, control):
    try:
        outcomes[ask.__name__] = bool(ask())
    except Exception as error:
        outcomes[ask.__name__] = f"{type(error).__name__}: {error}"
print(json.dumps(outcomes))
"""


@pytest.fixture(scope="module")
def authority():
    return Authority()


@pytest.fixture(scope="module")
def bundle(authority, tmp_path_factory):
    path = tmp_path_factory.mktemp("authority") / "authority.pem"
    path.write_text(authority.pem)
    return path


@contextmanager
def redis_server(authority, bundle, path, *, asks_for_certificate=False):
    """A server with TLS alone, whose default user is off and whose user may do what a broker needs."""
    program = shutil.which("redis-server")
    if program is None:
        pytest.skip("There is no redis-server with TLS on this machine: apt-get install redis-server.")
    certificate, key = authority.write(path)
    port = free_port()
    configuration = path / "redis.conf"
    configuration.write_text(
        f"""
        port 0
        tls-port {port}
        bind 127.0.0.1
        dir {path}
        save ""
        tls-cert-file {certificate}
        tls-key-file {key}
        tls-ca-cert-file {bundle}
        tls-auth-clients {"yes" if asks_for_certificate else "no"}
        user default off
        user pegboard on >{PASSWORD} ~* &* +@all
        """
    )
    server = subprocess.Popen([program, str(configuration)], stdout=subprocess.DEVNULL)
    try:
        wait_for(port)
        yield port
    finally:
        server.terminate()
        server.wait()


def wait_for(port):
    for _ in range(200):
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        threading.Event().wait(0.05)
    raise AssertionError("the server does not listen")


def ask(url, ca_file=""):
    environment = {
        **os.environ,
        "REDIS_URL": url,
        "PEGBOARD_CA_FILE": str(ca_file),
        "PYTHONWARNINGS": "ignore",
    }
    environment["DJANGO_SETTINGS_MODULE"] = "pegboard.settings"
    ended = subprocess.run(
        [sys.executable, "-c", ASK], env=environment, capture_output=True, text=True, check=False
    )
    assert ended.returncode == 0, ended.stderr
    assert PASSWORD not in ended.stderr
    return json.loads(ended.stdout)


def address(port, query=""):
    return f"rediss://pegboard:{PASSWORD}@127.0.0.1:{port}/0{query}"


def test_every_client_works_with_a_broker_of_an_own_authority(authority, bundle, tmp_path):
    with redis_server(authority, bundle, tmp_path) as port:
        assert set(ask(address(port), bundle).values()) == {True}
        refused = ask(address(port))
    assert all("CERTIFICATE_VERIFY_FAILED" in outcome for outcome in refused.values()), refused


def test_every_client_shows_a_certificate_where_the_broker_asks_for_one(authority, bundle, tmp_path):
    (tmp_path / "client").mkdir()
    certificate, key = authority.write(tmp_path / "client")
    with redis_server(authority, bundle, tmp_path, asks_for_certificate=True) as port:
        query = f"?ssl_certfile={certificate}&ssl_keyfile={key}"
        assert set(ask(address(port, query), bundle).values()) == {True}
        assert True not in ask(address(port), bundle).values()


@pytest.mark.parametrize("fault", ["foreign authority", "other name"])
def test_a_broker_that_is_not_ours_gets_no_password(authority, bundle, tmp_path, fault):
    signer = Authority("Foreign") if fault == "foreign authority" else authority
    options = {} if fault == "foreign authority" else {"names": []}
    context = signer.server_context(tmp_path, **options)
    received, errors = [], []
    with listener(context, received, errors) as port:
        outcomes = ask(address(port), bundle)
    reasons = (outcomes, errors)
    assert all("CERTIFICATE_VERIFY_FAILED" in outcome for outcome in outcomes.values()), reasons
    assert received == []


def test_the_listener_sees_the_password_of_a_client_that_does_not_verify(tmp_path):
    received = []
    with listener(Authority("Foreign").server_context(tmp_path), received, []) as port:
        careless = redis.Redis.from_url(
            address(port), ssl_cert_reqs="none", ssl_check_hostname=False, retry=Retry(NoBackoff(), 0)
        )
        with pytest.raises(redis.RedisError):
            careless.ping()
    assert PASSWORD.encode() in b"".join(received)


@contextmanager
def listener(context, received, errors):
    """Accept connections over TLS. Note what comes through them, and the errors of those that end."""
    server = socket.create_server(("127.0.0.1", 0))

    def serve():
        while True:
            try:
                conn, _ = server.accept()
            except OSError:
                return
            try:
                with context.wrap_socket(conn, server_side=True) as secured:
                    if data := secured.recv(4096):
                        received.append(data)
            except OSError as error:
                errors.append(repr(error))

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    try:
        yield server.getsockname()[1]
    finally:
        server.shutdown(socket.SHUT_RDWR)
        server.close()
        thread.join()


@pytest.mark.parametrize(
    "query",
    [
        "ssl_cert_reqs=none",
        "ssl_cert_reqs=CERT_NONE",
        "ssl_cert_reqs=optional",
        "ssl_check_hostname=false",
        "ssl_x=1",
    ],
)
def test_an_address_that_switches_verification_off_is_refused(query):
    with pytest.raises(ValueError, match="REDIS_URL: ") as refused:
        parse_broker_address(f"rediss://:{PASSWORD}@broker/0?{query}", "")
    assert PASSWORD not in str(refused.value)


def test_parameters_of_tls_need_tls():
    with pytest.raises(ValueError, match="rediss"):
        parse_broker_address("redis://broker/0?ssl_ca_certs=/file", "")


def test_each_client_gets_its_own_form_of_a_socket():
    address = parse_broker_address("redis+socket:///run/valkey.sock?virtual_host=3", "/ca.pem")
    assert (address.client_url, dict(address.tls)) == ("unix:///run/valkey.sock?db=3", {})
    assert address.celery_url == "redis+socket:///run/valkey.sock?virtual_host=3"


def test_other_parameters_stay_in_the_address():
    address = parse_broker_address(
        "rediss://broker/0?ssl_cert_reqs=required&health_check_interval=9", "/ca.pem"
    )
    assert address.client_url == "rediss://broker/0?health_check_interval=9"
    assert dict(address.tls) == {
        "ssl_cert_reqs": "required",
        "ssl_check_hostname": True,
        "ssl_ca_certs": "/ca.pem",
    }
