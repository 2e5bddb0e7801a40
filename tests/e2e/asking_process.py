"""A client in a process of its own: it says what it was answered, and goes on.

It reads what to ask as a line of JSON; lines that follow are bytes that it keeps.
"""

import json
import sys
from pathlib import Path
from typing import Any

import ditto


def main() -> None:
    told = json.loads(sys.stdin.readline())
    cache = Path(told["cache"])
    with ditto.Client(told["deployment"], told["credentials"], cache=cache) as client:
        (answer,) = client.predict(told["model"], [told["text"]], timeout=120)
    reply(answer.output.tolist())
    kept = []
    for line in sys.stdin:
        kept.append(bytes.fromhex(line))
        reply(len(kept))


def reply(value: Any) -> None:
    sys.stdout.write(json.dumps(value) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
