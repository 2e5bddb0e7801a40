"""The suite runs over every channel: memory, SPU's links, SPU's links with TLS."""

from collections.abc import Iterator

import pytest

from ditto.engine import ProcessTrio, ThreadTrio, Trio

CHANNELS = {
    "memory": ThreadTrio,
    "brpc": lambda: ProcessTrio(tls=False),
    "brpc-tls": lambda: ProcessTrio(tls=True),
}


@pytest.fixture(scope="package", params=list(CHANNELS))
def trio(request: pytest.FixtureRequest) -> Iterator[Trio]:
    with CHANNELS[request.param]() as parties:
        yield parties
