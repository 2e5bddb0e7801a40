"""Scalars as an event file of TensorBoard, without TensorBoard.

Source: TensorFlow's ``core/lib/io/record_writer.cc`` (records: length, its checksum,
data, its checksum), ``core/util/event.proto`` and ``core/framework/summary.proto``. The
checksum is CRC-32C, rotated and moved by a constant, all little-endian.
"""

import struct
import time
from collections.abc import Callable, Mapping
from pathlib import Path

_POLYNOMIAL = 0x82F63B78
_VERSION = b"brain.Event:2"
_WORD = 0xFFFFFFFF


class EventFile:
    """Appends scalars to a new file in a folder; each is on disk at once."""

    def __init__(self, folder: Path, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        folder.mkdir(parents=True, exist_ok=True)
        number = len([*folder.glob("events.out.tfevents.*")])
        self.path = folder / f"events.out.tfevents.{int(clock()):010d}.ditto.{number}"
        self._append(_double(1, clock()) + _bytes(3, _VERSION))

    def add(self, step: int, scalars: Mapping[str, float]) -> None:
        """Note scalars of a step."""
        values = b"".join(
            _bytes(1, _bytes(1, name.encode()) + _float(2, value))
            for name, value in scalars.items()
        )
        at = _double(1, self._clock()) + _varint(2 << 3) + _varint(step)
        self._append(at + _bytes(5, values))

    def _append(self, event: bytes) -> None:
        length = struct.pack("<Q", len(event))
        record = length + _masked(length) + event + _masked(event)
        with self.path.open("ab") as file:
            file.write(record)


def _varint(number: int) -> bytes:
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*out, number])


def _bytes(field: int, content: bytes) -> bytes:
    return _varint(field << 3 | 2) + _varint(len(content)) + content


def _double(field: int, value: float) -> bytes:
    return _varint(field << 3 | 1) + struct.pack("<d", value)


def _float(field: int, value: float) -> bytes:
    return _varint(field << 3 | 5) + struct.pack("<f", value)


def _row(value: int) -> int:
    for _ in range(8):
        value = value >> 1 ^ (_POLYNOMIAL if value & 1 else 0)
    return value


_TABLE = [_row(k) for k in range(256)]


def crc32c(content: bytes) -> int:
    """The checksum of Castagnoli's polynomial."""
    value = _WORD
    for byte in content:
        value = value >> 8 ^ _TABLE[(value ^ byte) & 0xFF]
    return value ^ _WORD


def _masked(content: bytes) -> bytes:
    value = crc32c(content)
    rotated = (value >> 15 | value << 17) & _WORD
    return struct.pack("<I", (rotated + 0xA282EAD8) & _WORD)
