"""A party's log: one JSON object per line, on standard error.

Events have names and few fields: request ids, models, peers, seconds, kinds of errors.
No body, no token, no share and no text of a request is among them.
"""

import json
import logging
import sys
import time
from typing import TextIO

from ditto.files import JsonValue

_LOGGER = "ditto.party"
_FIELDS = "ditto_fields"


class _JsonLines(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        moment = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
        line = {
            "time": f"{moment}.{int(record.msecs):03d}Z",
            "level": record.levelname.lower(),
            "event": record.getMessage(),
            **getattr(record, _FIELDS, {}),
        }
        return json.dumps(line)


def log_to(stream: TextIO | None = None, level: str = "info") -> None:
    """Have this process write a party's log."""
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(_JsonLines())
    logger = logging.getLogger(_LOGGER)
    logger.handlers = [handler]
    logger.propagate = False
    logger.setLevel(level.upper())


def note(event: str, level: int = logging.INFO, **fields: JsonValue) -> None:
    """Log an event."""
    logging.getLogger(_LOGGER).log(level, event, extra={_FIELDS: fields})
