"""Jobs wait where a test holds them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.held_work import PLACE, Held


@pytest.fixture(scope="module")
def held_work(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Held]:
    """Holds jobs of the workers that a module starts; they need `tests.few_claims.IN_WORKERS` in their environment."""
    folder = tmp_path_factory.mktemp("held")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(PLACE, str(folder))
        yield Held(folder)
