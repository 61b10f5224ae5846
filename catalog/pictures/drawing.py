"""The bytes of an image -> a small square WebP. Pure."""

import struct
import zlib
from io import BytesIO

from PIL import Image, ImageOps, UnidentifiedImageError

SIDE = 96  # pixels: twice the largest size on a page
MAX_SIDE = 4_096
MAX_PIXELS = 4_000_000
# A drawing (SVG) is a program: it is refused, like every format that is not in this list.
FORMATS = ("PNG", "JPEG", "WEBP", "GIF")
CONTENT_TYPE = "image/webp"
_SVG_STARTS = (b"<svg", b"<?xml", b"<!doctype svg")
# Errors of Pillow's decoders for bytes that are no image of their format.
_BROKEN = (OSError, SyntaxError, ValueError, EOFError, IndexError, struct.error, zlib.error)


class ImageError(Exception):
    """The bytes cannot be made into a picture. `code` is stable; `message` is for administrators."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


def draw(content: bytes) -> bytes:
    """Return the first frame of the image, scaled into a transparent square of `SIDE` pixels.

    Raises ImageError.
    """
    if content[:512].lstrip(b"\xef\xbb\xbf \t\r\n").lower().startswith(_SVG_STARTS):
        raise ImageError("SVG", "The image is an SVG drawing, which may contain a program.")
    try:
        image = Image.open(BytesIO(content), formats=FORMATS)
    except (Image.DecompressionBombError, Image.DecompressionBombWarning) as exc:
        raise _too_large() from exc
    except UnidentifiedImageError as exc:
        raise ImageError("NO_IMAGE", "The reply is no PNG, JPEG, WebP or GIF image.") from exc
    except _BROKEN as exc:
        raise _broken_error() from exc
    with image:
        width, height = image.size
        if max(width, height) > MAX_SIDE or width * height > MAX_PIXELS:
            raise _too_large()
        try:
            # A decoder of JPEG can leave out what a small picture does not show.
            image.draft(None, (SIDE, SIDE))
            rgba_image = image.convert("RGBA")
            scaled = ImageOps.contain(rgba_image, (SIDE, SIDE), Image.Resampling.LANCZOS)
            square = Image.new("RGBA", (SIDE, SIDE))
            square.paste(scaled, ((SIDE - scaled.width) // 2, (SIDE - scaled.height) // 2))
            output = BytesIO()
            square.save(output, "WEBP", quality=85, method=4)
            return output.getvalue()
        except _BROKEN as exc:
            raise _broken_error() from exc


def _too_large() -> ImageError:
    return ImageError(
        "TOO_LARGE",
        f"The image has more than {MAX_PIXELS:,} pixels, or more than {MAX_SIDE:,} in a row or column.",
    )


def _broken_error() -> ImageError:
    return ImageError("BROKEN", "The image is damaged or incomplete.")
