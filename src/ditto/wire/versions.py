"""Releases in order: a small part of PEP 440, as much as our own releases use."""

import re

_VERSION = re.compile(
    r"(\d{1,6}(?:\.\d{1,6}){0,3})(?:(a|b|rc)(\d{1,6}))?(?:\.dev(\d{1,6}))?",
    re.ASCII,
)
_PHASES = {"a": 0, "b": 1, "rc": 2}
_ONLY_DEV, _FINAL = -1, 3
_NO_DEV = 1 << 30

Key = tuple[tuple[int, ...], int, int, int]


def version_key(text: str) -> Key:
    """What releases are compared by; raises ValueError for any other text."""
    match = _VERSION.fullmatch(text)
    if match is None:
        raise ValueError(f"{text[:40]!r} is not a version such as 0.2.0 or 0.2.0rc1")
    release, phase, number, dev = match.groups()
    parts = tuple(int(part) for part in release.split("."))
    rank = _FINAL if phase is None else _PHASES[phase]
    if phase is None and dev is not None:
        rank = _ONLY_DEV
    return (
        parts + (0,) * (4 - len(parts)),
        rank,
        int(number or 0),
        _NO_DEV if dev is None else int(dev),
    )


def in_range(version: str, first: str, last: str) -> bool:
    """Whether a release is between two others, both included."""
    return version_key(first) <= version_key(version) <= version_key(last)
