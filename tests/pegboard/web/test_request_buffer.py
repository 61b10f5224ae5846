"""The end of a request is found, however its bytes are cut."""

from io import BytesIO

import pytest

from pegboard.web.request_buffer import MAX_HEAD_BYTES, RequestBuffer, RequestHead

HEAD = b"POST /a?b HTTP/1.1\r\nHost: x\r\n"
WHOLE = [
    b"GET / HTTP/1.1\r\n\r\n",
    HEAD + b"Content-Length: 5\r\n\r\nabcde",
    HEAD + b"content-length:0\r\n\r\n",
    HEAD + b"Transfer-Encoding: chunked\r\n\r\n5;x=1\r\nab\r\ne\r\n0\r\nT: 1\r\n\r\n",
    HEAD + b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
]
REFUSED = [
    HEAD + b"Content-Length: x\r\n\r\n",
    HEAD + b"Content-Length: -1\r\n\r\n",
    HEAD + b"Content-Length: 2000\r\n\r\n",
    HEAD + b"Transfer-Encoding: chunked\r\n\r\nx\r\n",
    HEAD + b"Transfer-Encoding: chunked\r\n\r\n-5\r\n",
    HEAD + b"Transfer-Encoding: chunked\r\n\r\n7d0\r\n" + b"x" * 1_500,
    b"x" * (MAX_HEAD_BYTES + 1),
]


@pytest.mark.parametrize("size", [1, 2, 7, 100_000])
@pytest.mark.parametrize("request_bytes", WHOLE)
def test_a_request_is_whole_with_its_last_byte(request_bytes, size):
    buffer = RequestBuffer(1_000)
    for offset in range(0, len(request_bytes), size):
        assert not buffer.is_complete
        buffer.feed(request_bytes[offset : offset + size])
    assert (buffer.is_complete, buffer.is_whole) == (True, True)
    assert buffer.bytes_so_far().read() == request_bytes
    buffer.close()


@pytest.mark.parametrize("request_bytes", REFUSED)
def test_no_more_is_read_of_a_request_that_will_be_refused(request_bytes):
    buffer = RequestBuffer(1_000)
    buffer.feed(request_bytes)
    assert (buffer.is_complete, buffer.is_whole) == (True, False)
    buffer.close()


def test_the_path_of_a_request_has_no_query():
    buffer = RequestBuffer(1_000)
    buffer.feed(HEAD + b"Content-Length: 5\r\nExpect: 100-continue\r\n\r\n")
    head = buffer.head
    assert (head.method, head.path, head.body_length, head.waits_for_continue) == ("POST", "/a", 5, True)
    assert not buffer.is_complete
    buffer.close()


def test_a_large_request_is_written_to_a_file_without_losing_a_byte():
    request = HEAD + b"Content-Length: 900000\r\n\r\n" + bytes(range(250)) * 3_600
    buffer = RequestBuffer(1_000_000)
    for offset in range(0, len(request), 65_536):
        buffer.feed(request[offset : offset + 65_536])
    assert buffer.is_whole
    assert not isinstance(buffer.bytes_so_far(), BytesIO)
    assert buffer.bytes_so_far().read() == request
    buffer.close()


def test_a_header_is_found_by_its_name_in_any_case_and_not_in_another_value():
    head = RequestHead(b"GET / HTTP/1.1\r\nX: content-length: 9\r\nCONTENT-LENGTH : 4\r\nx-Api-KEY:  k ")
    assert (head.body_length, head.is_chunked) == (4, False)
    assert head.headers["x-api-key"] == "k"
