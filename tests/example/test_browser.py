from __future__ import annotations

import email
import email.policy

from example_project.browser import File, multipart


def test_a_form_with_files_is_encoded_as_browsers_do() -> None:
    files = [File('a "quoted" ž.txt', b"one\r\ntwo\n"), File("b", b"\x00\xff")]

    body = multipart({"token": "secret", "empty": ""}, files, "BOUNDARY")

    head = b"Content-Type: multipart/form-data; boundary=BOUNDARY\r\n\r\n"
    message = email.message_from_bytes(head + body, policy=email.policy.HTTP)
    parts = list(message.iter_parts())
    assert [p.get_param("name", header="content-disposition") for p in parts] == [
        "token",
        "empty",
        "files",
        "files",
    ]
    assert parts[0].get_content() == "secret"
    assert [p.get_payload(decode=True) for p in parts[2:]] == [b"one\r\ntwo\n", b"\x00\xff"]
    assert 'filename="a %22quoted%22 ž.txt"'.encode() in body
