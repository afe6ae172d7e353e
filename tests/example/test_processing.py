from __future__ import annotations

import hashlib
import io
import struct
import threading
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest
from PIL import Image

from example_project.uploads import processing
from example_project.uploads.processing import Findings, examine

Write = Callable[[bytes], Path]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    def write(content: bytes) -> Path:
        path = tmp_path / "file"
        path.write_bytes(content)
        return path

    return write


@pytest.fixture
def thumbnails(tmp_path: Path) -> dict[int, str]:
    return {size: str(tmp_path / "small" / f"{size}.png") for size in processing.THUMBNAIL_SIZES}


def picture(image_format: str, size: tuple[int, int] = (640, 320), mode: str = "RGB") -> bytes:
    content = io.BytesIO()
    Image.new(mode, size).save(content, format=image_format)
    return content.getvalue()


def png_claiming(width: int, height: int) -> bytes:
    """Return a PNG whose header promises more pixels than anyone should decode."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return (
            struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        )

    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    data = chunk(b"IDAT", zlib.compress(b"\0" * 1000))
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + data + chunk(b"IEND", b"")


@pytest.mark.parametrize(
    ("text", "lines", "words"),
    [
        ("one", 1, 1),
        ("one two\nthree\n", 2, 3),
        ("one two\r\nthree", 2, 3),
        ("\n\n", 2, 0),
        ("  spaces   everywhere  ", 1, 2),
        ("žluťoučký kůň\n日本語", 2, 3),
        ("😀 emoji\n", 1, 2),
    ],
)
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
def test_text_is_counted(write: Write, text: str, lines: int, words: int, encoding: str) -> None:
    content = text.encode(encoding)

    findings = examine(write(content), {})

    assert findings == Findings(
        sha256=hashlib.sha256(content).hexdigest(),
        content_type="text/plain",
        lines=lines,
        words=words,
    )


@pytest.mark.parametrize("shift", range(6))
def test_words_and_characters_cut_by_a_chunks_edge_count_once(write: Write, shift: int) -> None:
    text = "x" * (processing.CHUNK_BYTES - 3 - shift) + " žž žž\nend"

    findings = examine(write(text.encode()), {})

    assert (findings.lines, findings.words) == (2, len(text.split()))


@pytest.mark.parametrize(
    "content", [b"\xff\xfe\x00", b"abc\x00def", b"\x01\x02", b"caf\xe9 au lait"]
)
def test_bytes_that_are_not_text_are_of_unknown_type(write: Write, content: bytes) -> None:
    findings = examine(write(content), {})

    assert findings.content_type == "application/octet-stream"
    assert findings.lines is None
    assert not findings.problem


def test_a_text_that_ends_in_the_middle_of_a_character_is_none(write: Write) -> None:
    assert examine(write("né".encode()[:-1]), {}).content_type == "application/octet-stream"


def test_an_empty_file_is_said_to_be_empty(write: Write) -> None:
    findings = examine(write(b""), {})

    assert findings.content_type == "application/x-empty"
    assert findings.sha256 == hashlib.sha256(b"").hexdigest()


@pytest.mark.parametrize(
    ("content", "content_type"),
    [
        (b"%PDF-1.7\n%\xe2", "application/pdf"),
        (b"PK\x03\x04rest", "application/zip"),
        (b"\x1f\x8b\x08\x00", "application/gzip"),
        (b"RIFF\x00\x00\x00\x00WAVEfmt ", "audio/wav"),
        (b"\x00\x00\x00\x20ftypisom", "video/mp4"),
    ],
)
def test_the_type_is_told_by_content(write: Write, content: bytes, content_type: str) -> None:
    assert examine(write(content), {}).content_type == content_type


@pytest.mark.parametrize(
    ("image_format", "content_type"),
    [
        ("PNG", "image/png"),
        ("JPEG", "image/jpeg"),
        ("GIF", "image/gif"),
        ("BMP", "image/bmp"),
        ("TIFF", "image/tiff"),
    ],
)
def test_an_image_gets_dimensions_and_thumbnails(
    write: Write, thumbnails: dict[int, str], image_format: str, content_type: str
) -> None:
    findings = examine(write(picture(image_format)), thumbnails)

    assert findings.content_type == content_type
    assert (findings.width, findings.height) == (640, 320)
    assert findings.has_thumbnails
    for size, path in thumbnails.items():
        with Image.open(path) as thumbnail:
            assert thumbnail.format == "PNG"
            assert thumbnail.size == (size, size // 2)


@pytest.mark.parametrize("mode", ["1", "L", "LA", "P", "RGBA", "I;16"])
def test_every_kind_of_png_can_be_shown(
    write: Write, thumbnails: dict[int, str], mode: str
) -> None:
    findings = examine(write(picture("PNG", mode=mode)), thumbnails)

    assert findings.has_thumbnails
    assert not findings.problem


def test_a_turned_photograph_is_measured_and_shown_upright(
    write: Write, thumbnails: dict[int, str]
) -> None:
    content = io.BytesIO()
    exif = Image.Exif()
    exif[0x0112] = 6  # turned by 90 degrees
    Image.new("RGB", (640, 320)).save(content, format="JPEG", exif=exif)

    findings = examine(write(content.getvalue()), thumbnails)

    assert (findings.width, findings.height) == (320, 640)
    with Image.open(thumbnails[96]) as thumbnail:
        assert thumbnail.size == (48, 96)


def test_a_small_image_is_not_enlarged(write: Write, thumbnails: dict[int, str]) -> None:
    examine(write(picture("PNG", (5, 3))), thumbnails)

    with Image.open(thumbnails[480]) as thumbnail:
        assert thumbnail.size == (5, 3)


@pytest.mark.filterwarnings("ignore::UserWarning")  # Pillow says what is odd about a TIFF
@pytest.mark.parametrize("image_format", ["PNG", "JPEG", "GIF", "BMP", "TIFF", "WEBP"])
def test_a_damaged_image_is_a_finding_not_an_exception(
    write: Write, thumbnails: dict[int, str], image_format: str
) -> None:
    content = picture(image_format)
    for end in range(13, len(content), max(1, len(content) // 60)):
        findings = examine(write(content[:end]), thumbnails)

        assert findings.sha256 == hashlib.sha256(content[:end]).hexdigest()
        assert findings.problem in ("", processing.DAMAGED), end


@pytest.mark.parametrize("pixels", [(7000, 6000), (12_000, 9000), (60_000, 60_000)])
def test_a_decompression_bomb_is_refused_unopened(
    write: Write, thumbnails: dict[int, str], pixels: tuple[int, int]
) -> None:
    findings = examine(write(png_claiming(*pixels)), thumbnails)

    assert findings.problem == processing.TOO_LARGE
    assert not Path(thumbnails[96]).exists()


def test_a_failing_disk_is_an_exception(
    write: Write, thumbnails: dict[int, str], tmp_path: Path
) -> None:
    path = write(picture("PNG"))
    (tmp_path / "small").write_text("a file where a folder should be")

    with pytest.raises(OSError, match="small"):
        examine(path, thumbnails)


def test_a_file_that_is_gone_is_an_exception(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        examine(tmp_path / "gone", {})


def test_running_twice_gives_the_same(write: Write, thumbnails: dict[int, str]) -> None:
    path = write(picture("PNG"))

    first = examine(path, thumbnails)
    before = {size: Path(target).read_bytes() for size, target in thumbnails.items()}
    second = examine(path, thumbnails)

    assert first == second
    assert before == {size: Path(target).read_bytes() for size, target in thumbnails.items()}


def test_a_thumbnail_is_never_seen_half_written(
    write: Write, thumbnails: dict[int, str], tmp_path: Path
) -> None:
    path = write(picture("PNG"))
    examine(path, thumbnails)
    whole = Path(thumbnails[480]).read_bytes()
    runs = [threading.Thread(target=examine, args=(path, thumbnails)) for _ in range(4)]
    for run in runs:
        run.start()
    while any(run.is_alive() for run in runs):
        assert Path(thumbnails[480]).read_bytes() == whole

    left = sorted(path.name for path in (tmp_path / "small").iterdir())
    assert left == ["192.png", "480.png", "96.png"]
