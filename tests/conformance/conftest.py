"""The suite runs over every channel: memory, and links between processes."""

from collections.abc import Iterator

import pytest

from ditto.runtime import ProcessTrio, ThreadTrio, Trio

CHANNELS = {
    "memory": ThreadTrio,
    "links": ProcessTrio,
}


@pytest.fixture(scope="package", params=list(CHANNELS))
def trio(request: pytest.FixtureRequest) -> Iterator[Trio]:
    with CHANNELS[request.param]() as parties:
        yield parties
