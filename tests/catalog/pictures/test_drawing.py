"""Any image of a vendor becomes a small square WebP or is refused with a code."""

import contextlib
import io
import struct
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from catalog.pictures.drawing import FORMATS, MAX_SIDE, SIDE, ImageError, draw


def image(kind="PNG", size=(40, 20), colour=(200, 30, 30), **options):
    buffer = io.BytesIO()
    mode = "RGB" if kind == "JPEG" else "RGBA"
    Image.new(mode, size, colour).save(buffer, kind, **options)
    return buffer.getvalue()


def png_that_claims(width, height):
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    head = chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 6, 0, 0, 0))
    return b"\x89PNG\r\n\x1a\n" + head + chunk(b"IDAT", zlib.compress(bytes(64))) + chunk(b"IEND", b"")


@pytest.mark.parametrize("kind", FORMATS)
def test_an_image_becomes_a_small_square_webp(kind):
    with Image.open(io.BytesIO(draw(image(kind)))) as drawn:
        assert (drawn.format, drawn.size) == ("WEBP", (SIDE, SIDE))
        pixels = drawn.convert("RGBA")
        assert pixels.getpixel((SIDE // 2, 2))[3] == 0  # a wide image is centred in the square
        red, green, _, opacity = pixels.getpixel((SIDE // 2, SIDE // 2))
        assert red > 150 > green
        assert opacity == 255


def test_the_same_image_makes_the_same_picture():
    assert draw(image()) == draw(image())


def test_only_the_first_frame_is_drawn():
    frames = [Image.new("RGB", (10, 10), colour) for colour in ("red", "blue", "blue")]
    buffer = io.BytesIO()
    frames[0].save(buffer, "GIF", save_all=True, append_images=frames[1:])
    with Image.open(io.BytesIO(draw(buffer.getvalue()))) as drawn:
        assert getattr(drawn, "n_frames", 1) == 1
        assert drawn.convert("RGB").getpixel((SIDE // 2, SIDE // 2))[0] > 150


@pytest.mark.parametrize("mode", ["1", "L", "LA", "P", "RGB", "RGBA", "I;16"])
def test_every_colour_mode_is_drawn(mode):
    buffer = io.BytesIO()
    Image.new(mode, (8, 8)).save(buffer, "PNG")
    assert draw(buffer.getvalue())


def test_what_we_add_of_the_vendors_file_is_nothing_but_pixels():
    from PIL.PngImagePlugin import PngInfo

    notes = PngInfo()
    notes.add_text("comment", "<script>canary</script>")
    assert b"canary" not in draw(image(pnginfo=notes) + b"<script>canary</script>")


@pytest.mark.parametrize(
    ("content", "code"),
    [
        (b"", "NO_IMAGE"),
        (b"<html><body>Sign in</body></html>", "NO_IMAGE"),
        (b"BM" + bytes(60), "NO_IMAGE"),
        (b'<svg xmlns="http://www.w3.org/2000/svg"/>', "SVG"),
        (b'\xef\xbb\xbf  <?xml version="1.0"?><svg/>', "SVG"),
        (image(size=(300, 300))[:120], "BROKEN"),
        (image("JPEG", (300, 300))[:300], "BROKEN"),
        (png_that_claims(MAX_SIDE + 1, 1), "TOO_LARGE"),
        (png_that_claims(3_000, 3_000), "TOO_LARGE"),
        (png_that_claims(60_000, 60_000), "TOO_LARGE"),
        (png_that_claims(12_000, 12_000), "TOO_LARGE"),
        (image("TIFF"), "NO_IMAGE"),
        (image("ICO"), "NO_IMAGE"),
    ],
)
def test_what_is_no_image_that_we_take_is_refused_by_name(content, code):
    with pytest.raises(ImageError) as refused:
        draw(content)
    assert refused.value.code == code


SEEDS = [image(kind, (24, 24)) for kind in FORMATS]


@given(seed=st.sampled_from(SEEDS), data=st.data())
def test_damaged_bytes_are_drawn_or_refused(seed, data):
    damaged = bytearray(seed)
    for _ in range(data.draw(st.integers(1, 8))):
        damaged[data.draw(st.integers(0, len(seed) - 1))] = data.draw(st.integers(0, 255))
    # Nothing but ImageError comes out.
    with contextlib.suppress(ImageError):
        assert draw(bytes(damaged[: data.draw(st.integers(1, len(seed)))]))
