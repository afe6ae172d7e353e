from __future__ import annotations

import copy
import subprocess
import sys
import threading
import time
import uuid
from itertools import pairwise
from pathlib import Path

import pytest

import vtrr_django
from vtrr_django.domain.ids import IdGenerator, new_job_id, new_job_ids

MS = 1_000_000
EARLY, LATE = 1_700_000_000_000 * MS, 1_700_000_000_005 * MS


def zeros(n):
    return bytes(n)


def ones(n):
    return b"\xff" * n


def milliseconds(job_id):
    return int(job_id[:8] + job_id[9:13], 16)


def rising(ids):
    return all(a < b for a, b in pairwise(ids))


def test_an_id_is_a_uuid_of_version_7_in_its_usual_text():
    before = time.time_ns() // MS
    job_id = new_job_id()
    parsed = uuid.UUID(job_id)
    assert str(parsed) == job_id
    assert (parsed.version, parsed.variant) == (7, uuid.RFC_4122)
    # Other tests of this process may have made ids run ahead, but by little.
    assert before <= milliseconds(job_id) <= time.time_ns() // MS + 10_000


@pytest.mark.parametrize("entropy", [zeros, ones])
def test_every_bit_of_the_layout_is_right(entropy):
    first, second = IdGenerator(lambda: EARLY, entropy).take(2)
    bits = 0 if entropy is zeros else 2**74 - 1
    expected = uuid.UUID(
        int=EARLY // MS << 80 | 7 << 76 | bits >> 62 << 64 | 2 << 62 | bits & 2**62 - 1
    )
    assert first == str(expected)
    assert uuid.UUID(second).version == 7
    assert uuid.UUID(second).variant == uuid.RFC_4122


def test_ids_rise_within_a_millisecond():
    generator = IdGenerator(lambda: EARLY, zeros)
    ids = [*generator.take(3), *generator.take(1), *generator.take(3)]
    assert rising(ids)
    assert {milliseconds(job_id) for job_id in ids} == {EARLY // MS}


def test_a_new_millisecond_starts_anew():
    now = EARLY
    generator = IdGenerator(lambda: now, ones)
    (old,) = generator.take(1)
    now = LATE
    (new,) = generator.take(1)
    assert milliseconds(new) == LATE // MS
    assert old < new


def test_ids_rise_when_the_clock_is_set_back():
    now = LATE
    generator = IdGenerator(lambda: now, zeros)
    ids = generator.take(2)
    now = EARLY
    ids += generator.take(2)
    assert rising(ids)
    assert milliseconds(ids[-1]) == LATE // MS


def test_ids_rise_when_the_random_bits_run_over():
    generator = IdGenerator(lambda: EARLY, ones)
    ids = generator.take(3)
    assert rising(ids)
    assert [milliseconds(job_id) - EARLY // MS for job_id in ids] == [0, 1, 1]
    assert {uuid.UUID(job_id).version for job_id in ids} == {7}


def test_ids_cannot_be_counted_up():
    first, second = new_job_ids(2)
    third, fourth = new_job_ids(2)
    assert int(second[-12:], 16) - int(first[-12:], 16) != int(fourth[-12:], 16) - int(
        third[-12:], 16
    )


def test_ten_thousand_ids_rise_and_go_on_rising():
    ids = [new_job_id(), *new_job_ids(10_000), new_job_id(), *new_job_ids(10)]
    assert len(ids) == 10_012
    assert rising(ids)


@pytest.mark.parametrize("n", [0, -1])
def test_no_ids(n):
    assert new_job_ids(n) == []


def test_threads_never_share_an_id():
    generator = IdGenerator(lambda: EARLY, zeros)  # no luck: only the lock keeps them apart
    made = [[] for _ in range(8)]
    start = threading.Barrier(len(made))

    def work(ids):
        start.wait()
        for _ in range(300):
            ids += generator.take(1)
            ids += generator.take(5)

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        threads = [threading.Thread(target=work, args=(ids,)) for ids in made]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(interval)
    assert all(rising(ids) for ids in made)
    assert len({job_id for ids in made for job_id in ids}) == 8 * 300 * 6


def test_a_forked_child_parts_from_its_parent_and_its_siblings():
    parent = IdGenerator(lambda: EARLY, zeros)
    inherited = parent.take(3)
    children = [copy.copy(parent) for _ in range(2)]
    for child, byte in zip(children, (b"\x01", b"\x02"), strict=True):
        child._entropy = lambda n, byte=byte: byte * n
        child.after_fork()
        child._entropy = zeros  # from here on nothing but their state keeps them apart
    ids = [generator.take(100) for generator in (parent, *children)]
    assert len({job_id for made in ids for job_id in made}) == 300
    assert all(rising(inherited + made) for made in ids)


FORK = """
import os, signal, sys
from vtrr_django.domain import ids

before = ids.new_job_id()
# As if another thread was making an id at this very moment.
ids._generator._lock.acquire()
pid = os.fork()
if pid == 0:
    signal.alarm(20)  # a child that hangs is killed, and the parent sees it
    os._exit(0 if ids.new_job_id() > before else 1)
sys.exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
"""


@pytest.mark.skipif(sys.platform == "win32", reason="Windows does not fork")
def test_a_child_forked_while_an_id_is_made_can_make_its_own():
    checkout = Path(vtrr_django.__file__).parents[1]
    done = subprocess.run([sys.executable, "-c", FORK], cwd=checkout, timeout=60, check=False)
    assert done.returncode == 0
