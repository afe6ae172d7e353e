"""The Lua files: their headers say what they use, and they keep the rules of the design."""

from __future__ import annotations

import re
from importlib import resources
from pathlib import Path

import pytest
from redis.crc import key_slot

from vtrr_django.engines.redis.keys import KEYS, key_names
from vtrr_django.engines.redis.scripts import load, read_header

FOLDER = Path(str(resources.files("vtrr_django.engines.redis")))
FILES = {path.stem: path.read_text() for path in (FOLDER / "lua").glob("*.lua")}
PYTHON = "\n".join(path.read_text() for path in FOLDER.glob("*.py"))
COMMANDS = sorted(
    set(re.findall(r'\.run(?:_together)?\([^"()]*(?:\(.*?\)[^"()]*)?"(\w+)"', PYTHON))
)
"""Files that Python runs."""

each_file = pytest.mark.parametrize("name", sorted(FILES))
each_command = pytest.mark.parametrize("name", COMMANDS)


def code(name: str) -> str:
    """Return a file without its comments."""
    return re.sub(r"--.*$", "", FILES[name], flags=re.MULTILINE)


def comment(name: str) -> str:
    """Return the comment a file begins with."""
    lines = FILES[name].splitlines()
    end = next(number for number, line in enumerate(lines) if not line.startswith("--"))
    return "\n".join(line[2:] for line in lines[:end])


def field(name: str, word: str) -> str:
    """Return what a header says behind a word, "" where it says nothing."""
    found = re.search(rf"^ {word} +(.*(?:\n  +.*)*)", comment(name), re.MULTILINE)
    return found[1] if found else ""


def needed(name: str) -> set[str]:
    """Return a file and all that comes before it, and the modules they may call."""
    seen: set[str] = set()
    todo = {name}
    while todo:
        seen.add(one := todo.pop())
        header = read_header(FILES[one])
        todo |= {*header.get("NEEDS", []), *header.get("USES", [])} - seen
    return seen


def before(name: str) -> set[str]:
    """Return the files that come before one, whose locals it sees."""
    return set().union(*({one} | before(one) for one in read_header(FILES[name]).get("NEEDS", [])))


def used(name: str) -> set[str]:
    return set(re.findall(r"\bkey\.(\w+)", code(name)))


def defined(name: str) -> set[str]:
    """Return the locals a file has outside of its functions."""
    lines = re.findall(r"^local (?:function )?([\w, ]+)", code(name), re.MULTILINE)
    return {one for line in lines for one in re.findall(r"\w+", line)}


# -- headers -----------------------------------------------------------------------


@each_file
def test_the_keys_a_file_uses_are_those_it_declares(name: str) -> None:
    declared = read_header(FILES[name]).get("KEYS", [])
    assert sorted(declared) == sorted(used(name))
    assert set(declared) <= KEYS.keys()


@each_file
def test_a_file_needs_and_uses_what_it_says(name: str) -> None:
    header = read_header(FILES[name])
    words = set(re.findall(r"\w+", code(name)))
    for one in header.get("NEEDS", []):
        assert FILES[one].startswith("-- Shared: ")
        seen = set().union(*(defined(part) for part in {one} | before(one)))
        assert words & seen, f"nothing of {one}.lua is used"
    for one in header.get("USES", []):
        assert FILES[one].startswith("-- Module: ")
        assert f"{one}()." in code(name), f"{one}.lua is not used"
    modules = {one for one, text in FILES.items() if text.startswith("-- Module: ")}
    called = {one for one in modules if re.search(rf"(?<!\w){one}\(\)", code(name))}
    assert called == set(header.get("USES", []))


@each_file
def test_a_header_says_what_the_file_is_for(name: str) -> None:
    title = comment(name).strip().splitlines()[0]
    if name in COMMANDS:
        assert title[0].isupper()
        assert not title.startswith(("Shared: ", "Module: "))
    else:
        assert title.startswith(("Shared: ", "Module: ")), "no Python runs it"


@each_command
def test_the_arguments_a_command_reads_are_those_its_header_tells(name: str) -> None:
    said = field(name, "ARGV")
    told = {int(number) for number in re.findall(r"(?<![\w\"])(\d+)(?=(?:\.\.\.)? )", said)}
    told |= {int(number) for number in re.findall(r"partition in (\d)", said)}
    assert {int(number) for number in re.findall(r"ARGV\[(\d+)\]", code(name))} <= told
    assert bool(said) == ("ARGV" in code(name))


@each_command
def test_what_a_command_returns_is_told(name: str) -> None:
    returns = bool(re.search(r"\breturn (?!end)\S", re.sub(r"\n  .*", "", code(name))))
    assert returns == bool(field(name, "RETURNS"))


def test_every_file_and_every_key_is_used() -> None:
    assert set(FILES) == set().union(*map(needed, COMMANDS))
    assert set(KEYS) == set().union(*map(used, FILES))


# -- rules -------------------------------------------------------------------------


@each_file
def test_no_script_builds_a_key_and_none_decodes_a_payload(name: str) -> None:
    text = code(name)
    for word in ("vtrr:", "cjson", "cmsgpack", "KEYS", "pcall", "key[", "loadstring"):
        assert word not in text
    for command, first in re.findall(r"\bcall\('?(\w+)'?, ([^,)]+)", text):
        # Behind these are keys that were named above.
        known = {"where", "stream", "outbox"}
        assert first.startswith("key.") or first in known, (command, first)


@each_file
def test_nothing_is_random_and_one_file_reads_the_clock(name: str) -> None:
    assert ("'TIME'" in code(name)) == (name == "clock")
    assert "random" not in code(name)


# Of two that are compared one is enough: Lua refuses to compare a number with a string.
NUMBERS = re.compile(
    r"#|\d|tonumber\(|call\('(?:HLEN|ZCARD)'|virtual_time_of\(|a\.expires|a\.created|"
    r"(?:adoptions|precedence|tick|removed|ran|one|timeouts|length|part\.leased|foreign)\b"
)


@each_file
def test_strings_are_not_compared_in_the_order_of_the_servers_locale(name: str) -> None:
    text = re.sub(r"'[^']*'", "''", code(name))
    for line in text.splitlines():
        for found in re.finditer(r" [<>]=? ", line):
            left, right = line[: found.start()].split()[-1].lstrip("("), line[found.end() :]
            assert NUMBERS.match(left) or NUMBERS.match(right), line
    if name == "returns":
        assert re.search(r"one, other = string\.byte", code(name))


def test_sets_of_arguments_fit_on_luas_stack() -> None:
    """``unpack`` never sees more than 7,000 values: what is bounded, is bounded here."""
    from vtrr_django.engines.redis import engine, outbox, wire

    assert 2 * engine._LEASES <= 7000
    assert max(engine._CHUNK, engine._RETURNS, outbox.MOVE) <= 7000
    assert 2 * wire.BATCH_JOBS <= 7000
    assert wire.ROW_JOBS <= 7000
    bounded = {
        "ids",
        "gone",
        "taken",
        "ends",
        "proofs",
        "infos",
        "asked",
        "due",
        "members",
        "ARGV",
        "entries",
        "pairs_",
        "batch.task",
        "batch.meta",
        "batch.scheduled",
    }
    unpacked = {one for text in FILES.values() for one in re.findall(r"unpack\(([\w.]+)", text)}
    assert unpacked <= bounded, "who bounds it?"


@each_command
def test_scripts_have_the_keys_they_use(name: str) -> None:
    script = load(name)
    assert set(script.keys) == set().union(*map(used, needed(name)))
    assert script.keys == tuple(key for key in KEYS if key in script.keys)
    assert "key." not in script.source
    # Lua has room for 200 of them in one function.
    assert len(re.findall(r"^local ", script.source, re.MULTILINE)) < 150
    assert [one for one in COMMANDS if load(one).digest == script.digest] == [name]


# -- key names ---------------------------------------------------------------------


def test_with_a_hash_tag_a_queue_lives_in_one_slot_of_a_cluster() -> None:
    names = key_names("up-loads_1", hash_tag=True)
    assert {key_slot(name.encode()) for name in names.values()} == {key_slot(b"up-loads_1")}
    plain = key_names("up-loads_1", hash_tag=False)
    assert len({key_slot(name.encode()) for name in plain.values()}) > 1
    assert plain["queue"] == "vtrr:up-loads_1:queue"
    assert names["queue"] == "vtrr:{up-loads_1}:queue"


def test_names_of_queues_do_not_meet() -> None:
    names = [
        name
        for queue in ("a", "b", "a-b", "A")
        for tag in (False, True)
        for name in key_names(queue, hash_tag=tag).values()
    ]
    assert len(set(names)) == len(names)
