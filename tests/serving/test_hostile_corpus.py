"""Hundreds of hostile pictures: a problem for each, or 200 where it can be read; no failure, nothing kept."""

import os
import struct
from collections import Counter

import pytest

from tests.serving.conftest import Places, draw_bundle, encode, paint, read_problem, release
from tests.serving.hostile.apart import apart
from tests.serving.hostile.archived import archived
from tests.serving.hostile.corpus import corpus
from tests.serving.hostile.mutated import mutated
from tests.serving.hostile.piece import segment
from tests.serving.hostile.real import real_pictures
from tests.serving.hostile.spoilt import SOUND

MEGABYTE = 2**20
SLOW = "a JPEG of 5,000 pieces of EXIF"  # takes as long as it may


@pytest.fixture(scope="module")
def pictures():
    return corpus()


@pytest.fixture(scope="module")
def service(tmp_path_factory):
    """A service in a process of its own."""
    places = Places(tmp_path_factory.mktemp("registry"))
    with places.open() as registry:
        release(registry, draw_bundle())
    with apart(places.url, places.store) as started:
        yield started


def test_the_corpus_has_many_pictures_of_every_sort(pictures):
    assert len({one.name for one in pictures}) == len(pictures) >= 300
    assert len({one.content for one in pictures}) > 0.9 * len(pictures)
    # Most have but one answer, and there are many of each.
    alone = Counter(next(iter(one.statuses)) for one in pictures if len(one.statuses) == 1)
    assert alone[400] > 150
    assert min(alone[413], alone[415], alone[200]) > 5
    # What a service that kept them would grow by.
    assert 20 * MEGABYTE < sum(len(one.content) for one in pictures) < 60 * MEGABYTE


def ask(service, content, kind="image/jpeg"):
    return service.client.post("/v1/diagnoses", content=content, headers={"Content-Type": kind})


def send(service, pictures):
    """Sends them one after the other; returns what was answered otherwise than it may be."""
    wrong = []
    for one in pictures:
        answer = ask(service, one.content, one.kind)
        if answer.status_code not in one.statuses:
            wrong.append(f"{one.name}: {answer.status_code}, not {sorted(one.statuses)}: {answer.text[:200]}")
        elif answer.status_code == 200:
            assert answer.json()["decision"] in ("report", "refer", "retake"), one.name
        else:
            read_problem(answer, answer.status_code)
    return wrong


def test_each_is_answered_as_it_may_be_and_none_is_kept(service, pictures):
    """The first pass fills caches, and what the allocator holds on to; later ones add next to nothing."""
    assert send(service, pictures) == []
    before, together = service.kept(), service.memory()
    again = [one for one in pictures if len(one.content) > 1500 and one.name != SLOW]
    assert sum(len(one.content) for one in again) > 12 * MEGABYTE
    assert send(service, again) == []
    assert service.kept() - before < 8 * MEGABYTE
    # Decoders hold more the longer they live, until they are replaced.
    assert service.memory() - together < 40 * MEGABYTE
    assert ask(service, encode(paint())).status_code == 200
    assert 'status="500"' not in service.client.get("/metrics").text


def test_pictures_that_a_mutator_has_changed_are_answered_too(service):
    changed = list(mutated([whole for _, whole, _ in SOUND.values()], 11 * 12))
    assert len({one.content for one in changed}) == len(changed)
    assert send(service, changed) == []


def test_what_archives_and_phones_have_changed_by_a_mutator_is_answered_too(service):
    assert send(service, list(mutated(archived(), 11 * 6, seed=2))) == []


@pytest.mark.real
@pytest.mark.long
@pytest.mark.skipif("DERMFED_DATA" not in os.environ, reason="DERMFED_DATA names no folder with pictures")
def test_real_pictures_that_a_mutator_has_changed_are_answered_too(service):
    assert send(service, list(mutated(real_pictures(40), 600, seed=1))) == []


def test_a_warning_in_words_of_the_sender_is_not_remembered(service):
    """Pillow warns of EXIF with the numbers in it; Python remembers each new text for good."""
    jpeg = encode(paint())

    def odd(number):
        """Entries that reach beyond the file: there is a warning of each with its tag."""
        entries = [(number * 5000 + tag, 1, 100_000, 8) for tag in range(5000)]
        block = b"II*\0\x08\0\0\0" + struct.pack("<H", len(entries))
        block += b"".join(struct.pack("<HHLL", *entry) for entry in entries)
        return jpeg[:2] + segment(0xE1, b"Exif\0\0" + block) + jpeg[2:]

    ask(service, odd(0))
    before = service.memory()
    for number in range(1, 13):
        assert ask(service, odd(number)).status_code == 200
    assert service.memory() - before < 5 * MEGABYTE
