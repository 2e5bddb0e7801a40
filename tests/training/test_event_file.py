"""Event files have TensorBoard's form."""

import struct
from pathlib import Path

from ditto.training.event_file import EventFile, crc32c


def test_the_checksum_is_castagnolis() -> None:
    assert crc32c(b"123456789") == 0xE3069283  # the check value of CRC-32C
    assert crc32c(bytes(32)) == 0x8A9136AA  # RFC 3720, B.4


def records(content: bytes) -> list[bytes]:
    found = []
    while content:
        (length,) = struct.unpack_from("<Q", content)
        found.append(content[12 : 12 + length])
        content = content[16 + length :]
    return found


def test_scalars(tmp_path: Path) -> None:
    file = EventFile(tmp_path, clock=lambda: 1.5)
    file.add(300, {"loss": 0.25, "eval_f1": 1.0})
    version, event = records(file.path.read_bytes())
    wall = b"\x09" + struct.pack("<d", 1.5)
    assert version == wall + b"\x1a\x0dbrain.Event:2"
    loss = b"\x0a\x04loss\x15" + struct.pack("<f", 0.25)
    score = b"\x0a\x07eval_f1\x15" + struct.pack("<f", 1.0)
    values = b"".join(b"\x0a" + bytes([len(v)]) + v for v in (loss, score))
    assert event == wall + b"\x10\xac\x02" + b"\x2a" + bytes([len(values)]) + values
    assert EventFile(tmp_path, clock=lambda: 1.5).path != file.path
