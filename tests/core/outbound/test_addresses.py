import ipaddress

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from urllib3.util import parse_url

from core.outbound.addresses import Policy, check_addresses, check_url, in_ascii
from core.outbound.errors import RefusedError
from tests.factories import make_vendor

NOWHERE = Policy()

PUBLIC = [
    "93.184.216.34",
    "1.1.1.1",
    "192.0.1.1",
    "223.255.255.254",
    "2606:4700:4700::1111",
    "2a00:1450:4001:81b::200e",
    "::ffff:8.8.8.8",
]

NOT_PUBLIC = [
    "0.0.0.0",
    "0.1.2.3",
    "10.0.0.1",
    "10.255.255.255",
    "100.64.0.1",
    "100.100.100.200",
    "100.127.255.255",
    "127.0.0.1",
    "127.255.255.254",
    "168.63.129.16",
    "169.254.0.1",
    "169.254.169.254",
    "172.16.0.1",
    "172.31.255.255",
    "192.0.0.1",
    "192.0.0.8",
    "192.0.0.9",
    "192.0.0.192",
    "192.0.2.1",
    "192.31.196.1",
    "192.52.193.1",
    "192.88.99.1",
    "192.168.0.1",
    "192.175.48.1",
    "198.18.0.1",
    "198.19.255.255",
    "198.51.100.7",
    "203.0.113.9",
    "224.0.0.1",
    "239.255.255.250",
    "240.0.0.1",
    "255.255.255.255",
    "::",
    "::1",
    "::7f00:1",
    "::127.0.0.1",
    "::8.8.8.8",
    "::ffff:0.0.0.0",
    "::ffff:10.0.0.1",
    "::ffff:127.0.0.1",
    "::ffff:169.254.169.254",
    "::ffff:0:127.0.0.1",
    "64:ff9b::7f00:1",
    "64:ff9b::a9fe:a9fe",
    "64:ff9b:1::a00:1",
    "100::1",
    "2001::1",
    "2001:2::1",
    "2001:10::1",
    "2001:20::1",
    "2001:1ff:ffff::1",
    "2001:db8::1",
    "2002:7f00:1::",
    "2002:a9fe:a9fe::1",
    "2620:4f:8000::1",
    "3fff::1",
    "4000::1",
    "5f00::1",
    "8000::1",
    "fc00::1",
    "fd00:ec2::254",
    "fd12::1",
    "fd20:ce::254",
    "fe80::1",
    "fe80::1%eth0",
    "2606:4700::1%1",
    "febf::1",
    "fec0::1",
    "feff::1",
    "ff02::1",
    "localhost",
    "0x7f.1",
    "",
]

# Forms that tunnels and gateways give to an inner address, each with its RFC.
CARRIED = {
    "IPv4-mapped": ["::ffff:{v4}"],
    "IPv4-compatible": ["::{v4}"],
    "SIIT": ["::ffff:0:{v4}"],
    "NAT64": ["64:ff9b::{v4}"],
    "NAT64 of one's own, /96": ["64:ff9b:1::{v4}", "64:ff9b:1:ffff:ffff:ffff:{v4}"],
    "NAT64 of one's own, /48": ["64:ff9b:1:{h1}:{b3}:{b4}00::"],
    "6to4": ["2002:{h1}:{h2}::", "2002:{h1}:{h2}::1", "2002:{h1}:{h2}:1:2:3:4:5"],
    "Teredo": ["2001:0:{h1}:{h2}::1", "2001:0:4136:e378:8000:63bf:{not1}:{not2}"],
    "ISATAP": ["fe80::5efe:{v4}", "2606:4700::5efe:{v4}", "2606:4700::200:5efe:{v4}", "fd12::5efe:{v4}"],
}
INNER = ["127.0.0.1", "10.0.0.1", "169.254.169.254", "192.168.1.1", "100.100.100.200", "172.16.0.1"]


def carried(v4):
    """Return every IPv6 address that embeds `v4`, by family."""
    b = [int(part) for part in v4.split(".")]
    words = {
        "v4": v4,
        "h1": f"{b[0]:02x}{b[1]:02x}",
        "h2": f"{b[2]:02x}{b[3]:02x}",
        "b3": f"{b[2]:02x}",
        "b4": f"{b[3]:02x}",
        "not1": f"{0xFFFF ^ (b[0] << 8 | b[1]):x}",
        "not2": f"{0xFFFF ^ (b[2] << 8 | b[3]):x}",
    }
    return {family: [form.format(**words) for form in forms] for family, forms in CARRIED.items()}


METADATA = [
    "169.254.169.254",
    "169.254.170.2",  # ECS
    "169.254.170.23",  # EKS
    "169.254.0.23",  # Tencent
    "169.254.42.42",  # Scaleway
    "169.254.169.250",  # Rancher
    "169.254.169.123",
    "fd00:ec2::23",
    "fd00:ec2::253",
    "fd00:c1::a9fe:a9fe",
    "fd00:42::42",
    "fd00:a9fe:a9fe::1",
    "fe80::a9fe:a9fe",
    "::ffff:169.254.169.254",
    "64:ff9b::a9fe:a9fe",
    "fe80::1",
    "fd00:ec2::254",
    "fd20:ce::254",
    "100.100.100.200",
    "168.63.129.16",
    "192.0.0.192",
    "0.0.0.0",
    "::",
]


def is_open(address, port=443, policy=NOWHERE, **rule):
    try:
        check_addresses([(address, port)], port, policy, **rule)
    except RefusedError:
        return False
    return True


@pytest.mark.parametrize("address", PUBLIC)
def test_public_address_is_open(address):
    assert is_open(address)


@pytest.mark.parametrize("address", NOT_PUBLIC)
def test_any_other_address_is_refused(address):
    assert not is_open(address)


def test_every_refusal_reads_the_same():
    messages = set()
    for address in NOT_PUBLIC:
        with pytest.raises(RefusedError) as refused:
            check_addresses([(address, 443)], 443, NOWHERE)
        messages.add((refused.value.code, refused.value.message))
    assert len(messages) == 1


def test_one_bad_record_spoils_the_answer():
    with pytest.raises(RefusedError, match="may not connect"):
        check_addresses([("1.1.1.1", 443), ("10.0.0.1", 443)], 443, NOWHERE)


def test_empty_answer_is_refused():
    with pytest.raises(RefusedError):
        check_addresses([], 443, NOWHERE)


@pytest.mark.parametrize("address", METADATA)
def test_metadata_stays_shut_whatever_is_allowed(address):
    assert not is_open(address, policy=Policy.parse("0.0.0.0/0 ::/0"))


@pytest.mark.parametrize("inner", INNER)
def test_no_form_that_carries_an_inner_address_is_open(inner):
    wrong = [form for forms in carried(inner).values() for form in forms if is_open(form)]
    assert wrong == []


@pytest.mark.parametrize("inner", ["127.0.0.1", "169.254.169.254", "100.100.100.200"])
def test_no_tunnel_leads_around_what_is_never_open(inner):
    everything = Policy.parse("0.0.0.0/0 ::/0 64:ff9b::/96 64:ff9b:1::/48 2002::/16 2001::/32 fd12::/16")
    wrong = [form for forms in carried(inner).values() for form in forms if is_open(form, policy=everything)]
    assert wrong == []


def test_tunnel_that_is_listed_leads_to_what_is_open_itself():
    gateway = Policy.parse("64:ff9b:1::/48 64:ff9b::/96 10.20.0.0/16")
    assert is_open("64:ff9b::8.8.8.8", policy=gateway)
    assert is_open("64:ff9b:1::10.20.3.4", policy=gateway)
    assert not is_open("64:ff9b::10.21.0.1", policy=gateway)
    assert not is_open("64:ff9b:1::192.168.0.1", policy=gateway)


@given(st.ip_addresses(v=4))
def test_whatever_carries_an_ipv4_address_is_never_more_open_than_it(address):
    """Every network that may be listed is listed, so only the addresses that are never open decide."""
    everything = Policy.parse("0.0.0.0/0 ::/0 127.0.0.0/8")
    # Read with another length of prefix, 0.x.y.z is what is left of a longer address.
    if address.packed[0] and not is_open(str(address), policy=everything):
        forms = [form for forms in carried(str(address)).values() for form in forms]
        assert [form for form in forms if is_open(form, policy=everything)] == []


@given(st.ip_addresses(v=6))
def test_allowing_a_network_opens_nothing_else(address):
    policy = Policy.parse("fd12::/16 10.20.0.0/16")
    if is_open(str(address), policy=policy) and not is_open(str(address)):
        assert (address.ipv4_mapped or address) in ipaddress.ip_network(
            "10.20.0.0/16" if address.ipv4_mapped else "fd12::/16"
        )


# Settings of a deployment: setting, addresses that it opens, addresses that it leaves closed.
SETTINGS = [
    ("", ["1.1.1.1"], ["10.0.0.1", "127.0.0.1", "::1"]),
    ("10.20.0.0/16", ["10.20.0.1", "10.20.255.255", "1.1.1.1"], ["10.21.0.0", "10.19.255.255"]),
    ("10.20.3.4", ["10.20.3.4", "::ffff:10.20.3.4"], ["10.20.3.5"]),
    ("10.20.0.0/16:443", ["10.20.0.1"], ["10.21.0.1"]),
    ("10.20.0.0/16:8443", [], ["10.20.0.1"]),
    ("fd12::/16:443", ["fd12::7"], ["fd13::7", "fe80::1"]),
    ("100.64.0.0/10", ["100.64.0.1"], ["100.100.100.200"]),
    ("0.0.0.0/0", ["10.0.0.1", "192.168.0.1"], ["127.0.0.1", "169.254.169.254", "0.0.0.0", "::1"]),
    ("::/0", ["fd12::1", "2002:808:808::"], ["::1", "fd00:ec2::254", "fe80::1", "2002:7f00:1::"]),
    ("127.0.0.0/8", ["127.0.0.1", "127.9.9.9"], ["::1", "10.0.0.1"]),
    ("::1", ["::1"], ["127.0.0.1"]),
    ("192.168.0.0/16 172.16.0.0/12", ["192.168.1.1", "172.31.0.1"], ["10.0.0.1", "192.167.0.0.1"]),
]


@pytest.mark.parametrize(("setting", "opened", "shut"), SETTINGS)
def test_setting_opens_what_it_says(setting, opened, shut):
    policy = Policy.parse(setting)
    assert [address for address in opened if not is_open(address, policy=policy)] == []
    assert [address for address in shut if is_open(address, policy=policy)] == []
    for metadata in METADATA:
        assert not is_open(metadata, policy=policy)


def test_ports_of_public_vendors_are_a_setting():
    policy = Policy.parse("10.20.0.0/16:5000", "443, 7000-7010")
    assert is_open("1.1.1.1", 7005, policy)
    assert not is_open("1.1.1.1", 8000, policy)
    assert not is_open("1.1.1.1", 5000, policy)
    assert is_open("10.20.0.1", 5000, policy)
    with pytest.raises(ValueError, match="PEGBOARD_OUTBOUND_PORTS"):
        Policy.parse("", "443 http")


@pytest.mark.parametrize(
    ("address", "entry"),
    [
        ("10.20.3.4", "10.20.0.0/16:443,8000-8100"),
        ("::ffff:10.20.3.4", "10.20.0.0/16:443,8000-8100"),
        ("fd12::1", "fd12::/16"),
        ("1.1.1.1", None),
        ("10.21.0.1", None),
    ],
)
def test_entry_that_was_used_can_be_named(address, entry):
    policy = Policy.parse("10.20.0.0/16:443,8000-8100 fd12::/16")
    used_entry = policy.entry_for(ipaddress.ip_address(address), 443)
    assert (str(used_entry) if used_entry else None) == entry


@pytest.mark.parametrize("address", ["127.0.0.1", "::1", "::ffff:127.0.0.1"])
def test_wide_entry_does_not_open_loopback_by_accident(address):
    assert not is_open(address, policy=Policy.parse("0.0.0.0/0 ::/0"))
    assert is_open(address, policy=Policy.parse("127.0.0.0/8 ::1"))


@pytest.mark.parametrize(
    ("address", "port", "expected"),
    [
        ("10.20.3.4", 443, True),
        ("10.20.3.4", 8443, True),
        ("10.20.3.4", 22, False),
        ("10.20.3.4", 9001, True),
        ("10.21.0.1", 443, False),
        ("fd12::7", 6379, True),
        ("fd13::7", 443, False),
        ("64:ff9b::102:304", 443, True),
        ("1.1.1.1", 443, True),
        ("1.1.1.1", 6379, False),
        ("1.1.1.1", 8443, True),
    ],
)
def test_allow_list_opens_its_networks_on_its_ports(address, port, expected):
    policy = Policy.parse("10.20.0.0/16:443,8443,9000-9002 fd12::/16 64:ff9b::/96")
    assert is_open(address, port, policy) is expected


def test_without_public_only_listed_networks_are_open():
    policy = Policy.parse("10.20.0.0/16")
    assert is_open("10.20.0.1", policy=policy, public=False)
    assert not is_open("1.1.1.1", policy=policy, public=False)


@pytest.mark.parametrize(
    "text",
    [
        "10.0.0.1/8",
        "10.0.0.0/33",
        "vendor.internal",
        "10.0.0.0/8:",
        "10.0.0.0/8:0",
        "10.0.0.0/8:70000",
        "10.0.0.0/8:443-80",
        "10.0.0.0/8:https",
        "10.0.0.0/8:٤٤٣",
        "169.254.169.254",
        "169.254.0.0/16:80",
        "fe80::/64",
    ],
)
def test_unreadable_or_forbidden_entry_is_named(text):
    with pytest.raises(ValueError, match="PEGBOARD_OUTBOUND_ALLOW") as refused:
        Policy.parse(f"10.20.0.0/16 {text}")
    assert text in str(refused.value)


def test_empty_setting_allows_public_addresses_only():
    assert Policy.parse("  ") == NOWHERE


@given(st.ip_addresses(v=6))
@example(ipaddress.ip_address("64:ff9b::808:808"))
def test_ipv6_is_public_only_inside_2000_3(address):
    if is_open(str(address)) and not address.ipv4_mapped:
        assert address in ipaddress.ip_network("2000::/3")
        assert not address.sixtofour
        assert not address.teredo


@given(st.ip_addresses(v=4), st.sampled_from([NOWHERE, Policy.parse("10.0.0.0/8:443 127.0.0.0/8")]))
def test_mapped_address_is_judged_as_the_one_inside(address, policy):
    assert is_open(f"::ffff:{address}", policy=policy) == is_open(str(address), policy=policy)


@given(st.ip_addresses(v=4))
def test_an_open_ipv4_address_is_global_for_the_standard_library_too(address):
    if is_open(str(address)):
        assert address.is_global


PRIVATE = Policy.parse("127.0.0.1/32 10.20.0.0/16:443")


@pytest.mark.parametrize(
    ("url", "origin", "path"),
    [
        ("https://api.example.com", "https://api.example.com", ""),
        ("https://API.Example.com:443/v1/", "https://api.example.com", "/v1"),
        ("HTTPS://api.example.com:8443/a%20b/~c;d=1", "https://api.example.com:8443", "/a%20b/~c;d=1"),
        ("https://xn--bcher-kva.example/", "https://xn--bcher-kva.example", ""),
        ("https://api.example.com./", "https://api.example.com.", ""),
        ("https://[2606:4700::1]:8443/x", "https://[2606:4700::1]:8443", "/x"),
        ("http://127.0.0.1:5000/a2t", "http://127.0.0.1:5000", "/a2t"),
        ("http://localhost:80", "http://localhost", ""),
    ],
)
def test_sound_url_is_taken_apart(url, origin, path):
    checked = check_url(url, PRIVATE)
    assert (checked.origin, checked.path, str(checked)) == (origin, path, origin + path)


@pytest.mark.parametrize(
    ("url", "complaint"),
    [
        ("", "Start the address with https://"),
        ("api.example.com", "Start the address with https://"),
        ("ftp://api.example.com/", "Start the address with https://"),
        ("gopher://api.example.com/", "Start the address with https://"),
        ("file:///etc/passwd", "Start the address with https://"),
        ("javascript:alert(1)", "Start the address with https://"),
        ("https:api.example.com", "Start the address with https://"),
        ("//api.example.com", "Start the address with https://"),
        (" https://api.example.com", "Start the address with https://"),
        ("https://", "has no host"),
        ("https:///path", "has no host"),
        ("https://user@api.example.com/", "user name or password"),
        ("https://user:secret@api.example.com/", "user name or password"),
        ("https://api.example.com:443@10.0.0.1/", "user name or password"),
        ("https://api.example.com/?key=1", "before any"),
        ("https://api.example.com/#top", "before any"),
        ("https://api.example.com#@10.0.0.1/", "user name or password"),
        ("https://bücher.example/", "ASCII"),
        ("https://\uff11\uff12\uff17.0.0.1/", "ASCII"),
        ("https://api。example.com/", "ASCII"),
        ("https://api.example.com/" + "a" * 2048, "longer than 2,048"),
        ("https://api.example.com:0/", "port 0"),
        ("https://api.example.com:70000/", "port 70000"),
        ("https://api.example.com:+443/", "characters"),
        ("https://api.example.com:4 43/", "characters"),
        ("https://api.example.com:/", "characters"),
        ("https://api example.com/", "characters"),
        ("https://api.example.com\\@10.0.0.1/", "user name"),
        ("https://api.example.com\\.evil.example/", "characters"),
        ("https://api.example.com/\r\nHost: evil", "characters"),
        ("https://api.example.com/\x00", "characters"),
        ("https://api.example.com/\x7f", "characters"),
        ("https://api.example.com/\n", "characters"),
        ("https://api%2eexample.com/", "characters"),
        ("https://[::1/", "characters"),
        ("https://[fe80::1%25eth0]/", "characters"),
        ("https://[v1.a]/", "characters"),
        ("https://[::1]extra/", "characters"),
        ("https://[1.2.3.4]/", "two ways"),
        ("https://[:::]/", "two ways"),
        ("https://-api.example.com/", "characters"),
        ("https://" + "a" * 254 + "/", "characters"),
    ],
)
@pytest.mark.parametrize("policy", [PRIVATE, Policy()])
def test_unsound_url_is_refused_with_its_fault(url, complaint, policy):
    with pytest.raises(RefusedError) as refused:
        check_url(url, policy)
    assert refused.value.code == "URL"
    assert complaint in refused.value.message


def test_port_has_to_be_open_for_some_address():
    with pytest.raises(RefusedError, match="port 22"):
        check_url("https://api.example.com:22/", Policy.parse("10.0.0.0/8:443"))
    assert check_url("https://api.example.com:22/", Policy.parse("10.0.0.0/8")).port == 22


def test_plain_http_needs_an_allowed_network():
    with pytest.raises(RefusedError, match="https://"):
        check_url("http://api.example.com/", Policy())
    assert not check_url("http://api.example.com/", PRIVATE).may_be_public


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("https://api.example.com", True),
        ("https://93.184.216.34", True),
        ("https://[2606:4700::1]", True),
        ("https://metadata", False),
        ("https://2130706433", False),
        ("http://api.example.com", False),
    ],
)
def test_bare_names_and_http_are_for_allowed_networks(url, expected):
    assert check_url(url, PRIVATE).may_be_public is expected


@pytest.mark.parametrize(
    ("typed", "expected"),
    [
        ("https://bücher.example/a", "https://xn--bcher-kva.example/a"),
        ("https://Bücher.Example:8443", "https://xn--bcher-kva.example:8443"),
        ("https://straße.example", "https://xn--strae-oqa.example"),  # IDNA 2003 would make it strasse
        ("https://例え.テスト/", "https://xn--r8jz45g.xn--zckzah/"),
        ("https://api.example.com/ü", "https://api.example.com/ü"),
        ("https://API.example.com/", "https://API.example.com/"),
    ],
)
def test_international_name_is_written_in_its_ascii_form(typed, expected):
    assert in_ascii(typed) == expected


@pytest.mark.parametrize(
    "typed",
    [
        "https://\uff11\uff12\uff17.0.0.1/",
        "https://①②⑦.0.0.1/",
        "https://api。example.com/",
        "https://api\u2024example.com/",
        "https://ex\u200dample.com/",
        "https://\u202eelpmaxe.com/",
        "https://user@bücher.example/",
        "https://bücher.example\\@10.0.0.1/",
        "https://ⓛⓞⓒⓐⓛⓗⓞⓢⓣ/",
        "https://\uff4c\uff4f\uff43\uff41lhost/",
        "https://faß\u0000.example/",
        "https://-bü.example/",
        "https://" + "ü" * 70 + ".example/",
    ],
)
def test_what_only_looks_like_a_host_is_refused(typed):
    with pytest.raises(RefusedError):
        check_url(in_ascii(typed), PRIVATE)


def test_host_without_a_dot_is_refused_where_no_network_is_listed():
    for host in ("metadata", "redis", "localhost", "2130706433", "0x7f000001", "localhost."):
        with pytest.raises(RefusedError, match="with a dot in it"):
            check_url(f"https://{host}/", Policy())
    assert check_url("https://vendor/", PRIVATE).host == "vendor"


@given(st.from_regex(r"https?://[a-z0-9.:\[\]@%\\/?#_-]{1,30}", fullmatch=True))
@example("https://[::ffff:7f00:1]:8443/x")
@example("https://a.b:443/x;y=z")
def test_another_parser_agrees_on_whatever_is_accepted(text):
    try:
        checked = check_url(text, PRIVATE)
    except RefusedError:
        return
    other = parse_url(text)
    assert (other.host or "").strip("[]").lower() == checked.host
    assert (other.port or {"http": 80, "https": 443}[checked.scheme]) == checked.port


@given(st.text(max_size=60) | st.from_regex(r"https?://[^/]{0,20}[/?#]?.{0,20}", fullmatch=True))
def test_no_text_breaks_the_url_rule(text):
    try:
        checked = check_url(text, PRIVATE)
    except RefusedError:
        return
    assert text.lower().startswith(f"{checked.scheme}://")
    assert checked.host in text.lower()


@pytest.mark.parametrize("url", ["api.example.com", "http://api.example.com/"])
def test_http_is_offered_only_where_it_may_work(url):
    with pytest.raises(RefusedError) as refused:
        check_url(url, Policy())
    assert refused.value.message == "Start the address with https://."
    with pytest.raises(RefusedError) as refused:
        check_url("api.example.com", PRIVATE)
    assert "http:// for a network that this deployment allows" in refused.value.message


@pytest.mark.django_db
def test_international_name_is_stored_and_shown_in_ascii(admin_api):
    slug = make_vendor().slug
    payload = {"vendor": slug, "protocol": "a2t", "url": "https://bücher.example/tools"}
    response = admin_api.post("/api/v1/endpoints/", payload)
    assert response.data["url"] == "https://xn--bcher-kva.example/tools"
    path = f"/api/v1/endpoints/{response.data['id']}/"
    changed = admin_api.patch(path, {"url": "https://Straße.example/"})
    assert changed.data["url"] == "https://xn--strae-oqa.example/"
    assert "xn--strae-oqa.example" in admin_api.get(f"/endpoints/{response.data['id']}/").content.decode()


@pytest.mark.django_db
@pytest.mark.parametrize("host", ["metadata", "redis:8000", "2130706433", "localhost"])
def test_bare_name_is_refused_beside_its_field(admin_api, settings, host):
    settings.OUTBOUND_ALLOW = ""
    payload = {"vendor": make_vendor().slug, "protocol": "a2t", "url": f"https://{host}/"}
    refused = admin_api.post("/api/v1/endpoints/", payload)
    assert refused.status_code == 400
    assert "with a dot in it" in refused.data["fields"]["url"]
