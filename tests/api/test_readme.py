"""The README's section on HTTP: its commands are run, and its signature is recomputed."""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests import services
from tests.api.test_serve import Serve, serve
from tests.test_readme import section
from vtrr_django.api.operations import OPERATIONS
from vtrr_django.domain.signature import canonical, sign

__all__ = ["serve"]

HTTP = section("HTTP")


@pytest.mark.django_db(transaction=True)
def test_the_curl_lines_do_what_is_written_below_them(serve: Serve, tmp_path: Path) -> None:
    for program in ("bash", "curl", "openssl"):
        services.need_program(program)
    [script] = re.findall(r"```bash\n(JOBS=.*?)```", HTTP, re.DOTALL)
    [secret] = re.findall(r"SECRET=(\S+)", script)
    server = serve(vtrr={"SECRET": secret, "QUEUES": {"default": {}}})
    assert script.count("http://127.0.0.1:8000") == 1
    done = subprocess.run(
        [
            "bash",
            "-eu",
            "-o",
            "pipefail",
            "-c",
            script.replace("http://127.0.0.1:8000", server.address),
        ],
        cwd=tmp_path,
        env=os.environ,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    written = re.findall(r"^# (\{.*)$", script, re.MULTILINE)
    answers = _values(done.stdout)
    assert len(answers) == len(written) == 7
    for answer, line in zip(answers, written, strict=True):
        pattern = re.escape(line).replace("…", ".*")
        pattern = re.sub(r"[0-9a-f]{8}(\\-[0-9a-f]{4}){3}\\-[0-9a-f]{12}", "[0-9a-f-]{36}", pattern)
        assert re.fullmatch(pattern, answer), (line, answer)


def _values(text: str) -> list[str]:
    """Return the JSON texts that stand one behind the other."""
    found = []
    while text := text.strip():
        end = json.JSONDecoder().raw_decode(text)[1]
        found.append(text[:end])
        text = text[end:]
    return found


def test_the_worked_example_of_a_signature_is_right() -> None:
    [message] = re.findall(r"```text\n(POST\n.*?)\n```", HTTP, re.DOTALL)
    [secret] = re.findall(r"For the secret `(.+?)`", HTTP)
    [signature] = re.findall(r"has the signature `([0-9a-f]{64})`", HTTP)
    method, path, query, timestamp, nonce, body = message.split("\n")
    built = canonical(method, path, query, timestamp=timestamp, nonce=nonce, body=body.encode())
    assert built == message.encode()
    assert sign(secret, built) == signature


def test_the_table_names_every_request() -> None:
    said: set[tuple[Any, str]] = set()
    for cell in re.findall(r"^\| (`(?:GET|POST|DELETE|PATCH) .*?) \|", HTTP, re.MULTILINE):
        method, _, first = re.findall(r"`(.*?)`", cell)[0].partition(" ")
        said |= {
            (method, path.partition("?")[0]) for path in (first, *re.findall(r"`(/.*?)`", cell))
        }
    known = {(one.method, one.path) for one in OPERATIONS}
    assert said == known | {("GET", "/"), ("GET", "/openapi.json")}
