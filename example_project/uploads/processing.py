"""Finding out what is in a file. No Django here: paths in, findings out.

Running twice does no harm: the same bytes give the same findings, and a thumbnail is
replaced in one step.
"""

from __future__ import annotations

import codecs
import contextlib
import hashlib
import os
import re
import secrets
import struct
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import BinaryIO

from PIL import Image, ImageOps

CHUNK_BYTES = 64 * 1024
MAX_PIXELS = 40_000_000
THUMBNAIL_SIZES = (96, 192, 480)
LIST_THUMBNAIL, LIST_THUMBNAIL_2X, LARGE_THUMBNAIL = THUMBNAIL_SIZES
NOT_TEXT = re.compile(r"[\x00-\x06\x0e-\x1a\x1c-\x1f\x7f]")
# What Pillow's decoders let through when the content makes no sense.
BROKEN_IMAGE = (
    ValueError,
    TypeError,
    SyntaxError,
    EOFError,
    LookupError,
    ArithmeticError,
    AttributeError,
    struct.error,
    zlib.error,
)

DAMAGED = "This image is damaged or of an unusual kind and cannot be read."
TOO_LARGE = f"This image is too large: {MAX_PIXELS // 1_000_000} megapixels are the most."

EMPTY, UNKNOWN, TEXT = "application/x-empty", "application/octet-stream", "text/plain"
IMAGE_FORMATS = {
    "image/png": "PNG",
    "image/jpeg": "JPEG",
    "image/gif": "GIF",
    "image/webp": "WEBP",
    "image/bmp": "BMP",
    "image/tiff": "TIFF",
}
# (offset, bytes) pairs that must all be there.
SIGNATURES: list[tuple[str, list[tuple[int, bytes]]]] = [
    ("image/png", [(0, b"\x89PNG\r\n\x1a\n")]),
    ("image/jpeg", [(0, b"\xff\xd8\xff")]),
    ("image/gif", [(0, b"GIF87a")]),
    ("image/gif", [(0, b"GIF89a")]),
    ("image/webp", [(0, b"RIFF"), (8, b"WEBP")]),
    ("image/bmp", [(0, b"BM"), (6, b"\0\0\0\0")]),
    ("image/tiff", [(0, b"II*\0")]),
    ("image/tiff", [(0, b"MM\0*")]),
    ("audio/wav", [(0, b"RIFF"), (8, b"WAVE")]),
    ("audio/mpeg", [(0, b"ID3")]),
    ("audio/ogg", [(0, b"OggS")]),
    ("audio/flac", [(0, b"fLaC")]),
    ("video/mp4", [(4, b"ftyp")]),
    ("video/webm", [(0, b"\x1a\x45\xdf\xa3")]),
    ("application/pdf", [(0, b"%PDF-")]),
    ("application/zip", [(0, b"PK\x03\x04")]),
    ("application/zip", [(0, b"PK\x05\x06")]),
    ("application/gzip", [(0, b"\x1f\x8b\x08")]),
    ("application/x-bzip2", [(0, b"BZh")]),
    ("application/x-xz", [(0, b"\xfd7zXZ\0")]),
    ("application/zstd", [(0, b"\x28\xb5\x2f\xfd")]),
    ("application/x-7z-compressed", [(0, b"7z\xbc\xaf\x27\x1c")]),
    ("application/vnd.sqlite3", [(0, b"SQLite format 3\0")]),
    ("application/x-elf", [(0, b"\x7fELF")]),
]


@dataclass(frozen=True, kw_only=True, slots=True)
class Findings:
    """What a file holds.

    ``problem`` is a sentence for the user when the content is of a known type but
    broken or refused; trying again would not help.
    """

    sha256: str
    content_type: str
    lines: int | None = None
    words: int | None = None
    width: int | None = None
    height: int | None = None
    has_thumbnails: bool = False
    problem: str = ""


class UnusableImage(Exception):
    """An image that cannot be shown; the message is for the user."""


class TextCounter:
    """Counts lines and words of UTF-8 text (UTF-16 with a byte order mark), chunk by chunk.

    ``is_text`` turns False for good at the first byte that cannot be text.
    """

    def __init__(self, head: bytes) -> None:
        utf16 = head.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
        self._decoder = codecs.getincrementaldecoder("utf-16" if utf16 else "utf-8-sig")()
        self._newlines = 0
        self._words = 0
        self._last = ""
        self.is_text = True

    def feed(self, chunk: bytes, *, final: bool = False) -> None:
        if not self.is_text:
            return
        try:
            text = self._decoder.decode(chunk, final)
        except UnicodeDecodeError:
            self.is_text = False
            return
        if NOT_TEXT.search(text):
            self.is_text = False
        elif text:
            self._count(text)

    def _count(self, text: str) -> None:
        self._newlines += text.count("\n")
        self._words += len(text.split())
        if self._last and not self._last.isspace() and not text[0].isspace():
            self._words -= 1  # one word, cut in two by the chunk's edge
        self._last = text[-1]

    @property
    def lines(self) -> int:
        unfinished = bool(self._last) and self._last != "\n"
        return self._newlines + unfinished

    @property
    def words(self) -> int:
        return self._words


def content_type_of(head: bytes) -> str | None:
    """Return the type that the first bytes of a file tell, or None."""
    for content_type, parts in SIGNATURES:
        if all(head.startswith(magic, offset) for offset, magic in parts):
            return content_type
    return None


def examine(path: str | os.PathLike[str], thumbnails: Mapping[int, str]) -> Findings:
    """Read the file at ``path`` once and tell what is in it.

    An image also gets the ``thumbnails``, ``{largest side in pixels: path to write}``.
    Raises ``OSError`` when the disk fails, never because of what the file holds.
    """
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        chunk = head = file.read(CHUNK_BYTES)
        text = TextCounter(head)
        while chunk:
            digest.update(chunk)
            text.feed(chunk)
            chunk = file.read(CHUNK_BYTES)
    text.feed(b"", final=True)
    sha256 = digest.hexdigest()

    if not head:
        return Findings(sha256=sha256, content_type=EMPTY, lines=0, words=0)
    content_type = content_type_of(head)
    if content_type in IMAGE_FORMATS:
        return _examine_image(path, thumbnails, Findings(sha256=sha256, content_type=content_type))
    if content_type is None and text.is_text:
        return Findings(sha256=sha256, content_type=TEXT, lines=text.lines, words=text.words)
    return Findings(sha256=sha256, content_type=content_type or UNKNOWN)


def _examine_image(
    path: str | os.PathLike[str], thumbnails: Mapping[int, str], findings: Findings
) -> Findings:
    try:
        with open(path, "rb") as file:
            image = _decode(file, IMAGE_FORMATS[findings.content_type])
    except UnusableImage as error:
        return replace(findings, problem=str(error))
    width, height = image.size
    for size, target in sorted(thumbnails.items(), reverse=True):
        image.thumbnail((size, size), Image.Resampling.LANCZOS)  # each from the one before
        _save_atomically(image, Path(target))
    return replace(findings, width=width, height=height, has_thumbnails=bool(thumbnails))


def _decode(file: BinaryIO, image_format: str) -> Image.Image:
    """Return the first frame, upright, in a mode that a PNG can hold."""
    try:
        opened = Image.open(file, formats=[image_format])
        if opened.width * opened.height > MAX_PIXELS:
            raise UnusableImage(TOO_LARGE)
        image = ImageOps.exif_transpose(opened)
        return image.convert("RGBA" if image.has_transparency_data else "RGB")
    except (Image.DecompressionBombError, Image.DecompressionBombWarning) as error:
        raise UnusableImage(TOO_LARGE) from error
    except OSError as error:
        if error.errno is not None:  # the disk's fault, not the image's
            raise
        raise UnusableImage(DAMAGED) from error
    except BROKEN_IMAGE as error:
        raise UnusableImage(DAMAGED) from error


def _save_atomically(image: Image.Image, target: Path) -> None:
    target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    draft = target.with_name(f".{target.name}.{secrets.token_hex(8)}")
    try:
        image.save(draft, format="PNG")
        os.replace(draft, target)
    finally:
        with contextlib.suppress(FileNotFoundError):
            draft.unlink()
