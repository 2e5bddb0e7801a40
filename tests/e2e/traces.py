"""Where given bytes occur: in files, and in the memory of a process."""

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

PIECE = 1 << 20
_ZEROS = bytes(PIECE)
Patterns = Mapping[str, bytes]
"""What is looked for, by name."""


def in_pieces(pieces: Iterable[bytes], patterns: Patterns) -> set[str]:
    """Names of the patterns that occur in a content, also across its pieces."""
    assert all(len(pattern) >= 8 for pattern in patterns.values())
    overlap = max(len(pattern) for pattern in patterns.values()) - 1
    missing, names = dict(patterns), set[str]()
    before = b""
    for piece in pieces:
        if before == _ZEROS[:overlap] and piece == _ZEROS:
            continue  # most memory was never written
        content = before + piece
        names |= {name for name, pattern in missing.items() if pattern in content}
        missing = {k: v for k, v in missing.items() if k not in names}
        before = content[-overlap:]
    return names


def in_files(paths: Iterable[Path], patterns: Patterns) -> set[str]:
    """Names of the patterns that occur in files, or in what folders hold."""
    names: set[str] = set()
    for path in paths:
        files = [path] if path.is_file() else path.rglob("*")
        for file in files:
            if file.is_file():
                names |= in_pieces(_pieces_of_file(file), patterns)
    return names


def in_memory(pid: int, patterns: Patterns) -> set[str]:
    """Names of the patterns that occur in memory that a process writes or has mapped
    from ordinary files; programs and libraries are left out."""
    names: set[str] = set()
    for start, end in _mappings(pid):
        missing = {k: v for k, v in patterns.items() if k not in names}
        if missing:
            names |= in_pieces(_pieces_of_memory(pid, start, end), missing)
    return names


def _mappings(pid: int) -> Iterator[tuple[int, int]]:
    """Adjacent ones as one, for content may lie across them."""
    joined: list[tuple[int, int]] = []
    for line in Path(f"/proc/{pid}/maps").read_text().splitlines():
        span, access, _, _, inode, *path = line.split(maxsplit=5)
        is_code = bool(path) and (".so" in path[0] or "x" in access)
        written = access.startswith("rw")
        if not written and (is_code or inode == "0" or not access.startswith("r")):
            continue
        start, end = (int(number, 16) for number in span.split("-"))
        if joined and joined[-1][1] == start:
            joined[-1] = (joined[-1][0], end)
        else:
            joined.append((start, end))
    yield from joined


def _pieces_of_memory(pid: int, start: int, end: int) -> Iterator[bytes]:
    with open(f"/proc/{pid}/mem", "rb", 0) as memory:
        for at in range(start, end, PIECE):
            try:
                memory.seek(at)
                yield memory.read(min(PIECE, end - at))
            except OSError:  # reserved, and never written
                continue


def _pieces_of_file(path: Path) -> Iterator[bytes]:
    with path.open("rb") as file:
        while piece := file.read(PIECE):
            yield piece
