"""Files to upload, made from a seed: the same every time."""

from __future__ import annotations

import io
import random

from PIL import Image, ImageDraw

from example_project.browser import File

WORDS = ["tenant", "queue", "fair", "share", "weight", "turn", "wait", "lease", "worker", "job"]
PICTURE_SIZE = (800, 600)


def text_file(rng: random.Random, name: str, lines: int) -> File:
    """Return a text of ``lines`` lines with 5 to 15 words each."""
    text = "\n".join(" ".join(rng.choices(WORDS, k=rng.randint(5, 15))) for _ in range(lines))
    return File(name, f"{text}\n".encode())


def picture_file(rng: random.Random, name: str, size: tuple[int, int] = PICTURE_SIZE) -> File:
    """Return a PNG picture of coloured circles."""
    image = Image.new("RGB", size, _colour(rng))
    draw = ImageDraw.Draw(image)
    for _ in range(40):
        x, y, radius = rng.randrange(size[0]), rng.randrange(size[1]), rng.randrange(20, 200)
        draw.ellipse((x - radius, y - radius, x + radius, y + radius), fill=_colour(rng))
    content = io.BytesIO()
    image.save(content, format="PNG", compress_level=1)
    return File(name, content.getvalue())


def sample_files(seed: str, count: int) -> list[File]:
    """Return ``count`` files: two pictures, then a text, and so on."""
    rng = random.Random(seed)
    files = []
    for number in range(1, count + 1):
        if number % 3:
            files.append(picture_file(rng, f"picture {number:03}.png"))
        else:
            files.append(text_file(rng, f"notes {number:03}.txt", rng.randint(200, 6000)))
    return files


def _colour(rng: random.Random) -> tuple[int, int, int]:
    return rng.randrange(256), rng.randrange(256), rng.randrange(256)
