"""A download's address cannot be guessed by somebody who knows its beginning, middle and end, or all of it."""

from __future__ import annotations

import pytest
from streamlit.runtime import memory_media_file_storage as storage
from streamlit.runtime.media_file_storage import MediaFileKind, MediaFileStorageError
from streamlit.runtime.memory_media_file_storage import MemoryMediaFileStorage

from pages.parts.session import media
from tests.pages.visit import visit

LONG = b"a" * 3_000_000
SECRET = b"Qzadasecret7261"
KIND = ("text/csv", MediaFileKind.DOWNLOADABLE, "notes.csv")


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> MemoryMediaFileStorage:
    monkeypatch.setattr(storage, "_calculate_file_id", media.open_address)
    return MemoryMediaFileStorage("/media")


def with_secret(secret: bytes) -> bytes:
    """A long file with a secret where Streamlit's own hash does not look."""
    return LONG[:500_000] + secret + LONG[500_000 + len(secret) :]


def read_by_who_guesses(store: MemoryMediaFileStorage, content: bytes) -> bytes | None:
    """What somebody reads who computes a file's address as Streamlit does."""
    try:
        return store.get_file(media.open_address(content, "text/csv", "notes.csv") + ".csv").content
    except MediaFileStorageError:
        return None


def test_neither_the_content_nor_a_part_of_it_tells_the_address(store: MemoryMediaFileStorage) -> None:
    media.hide_addresses()
    for content in (b"patient_id,text\n", with_secret(SECRET)):
        address = store.load_and_get_id(content, *KIND)
        assert store.get_file(f"{address}.csv").content == content
        assert read_by_who_guesses(store, content) is None
    assert read_by_who_guesses(store, LONG) is None
    assert len(address) == 64 and address == store.load_and_get_id(content, *KIND)


def test_two_files_never_share_an_address(store: MemoryMediaFileStorage) -> None:
    media.hide_addresses()
    names = (*KIND[:2], "other.csv")
    parts = [
        (LONG, KIND),
        (with_secret(SECRET), KIND),
        (LONG, names),
        (LONG, (*KIND[:2], None)),
        (LONG, (*KIND[:2], "")),
    ]
    found = [store.load_and_get_id(content, *kind) for content, kind in parts]
    assert len(set(found)) == len(parts)
    assert [store.get_file(address).content for address in found] == [content for content, _ in parts]


def test_streamlits_own_addresses_do_both(store: MemoryMediaFileStorage) -> None:
    """If this fails, a newer Streamlit may hide addresses itself: look, and remove `pages.parts.session.media`."""
    store.load_and_get_id(with_secret(SECRET), *KIND)
    assert SECRET in (read_by_who_guesses(store, LONG) or b"")
    assert store.get_file(store.load_and_get_id(LONG, *KIND)).content != LONG


def test_every_page_hides_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(storage, "_calculate_file_id", media.open_address)
    visit("glossary")
    assert storage._calculate_file_id is media.secret_address
