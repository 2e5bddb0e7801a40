"""A gateway, asked over HTTP as any program asks it, to be measured."""

import http.client
import json
import urllib.parse
from collections.abc import Iterator
from dataclasses import dataclass

from ditto.bench.serving import Ask
from ditto.errors import DittoError, PeerError, SetupError
from ditto.files import Json
from ditto.models import Head

_LONGEST = 64 << 20
_LONGEST_LINE = 1 << 20


class GatewayError(DittoError):
    """A gateway answered with an error."""

    code = "gateway"


@dataclass(frozen=True)
class GatewayAddress:
    """Where a gateway is, as programs are told it: http://127.0.0.1:8080/v1."""

    host: str
    port: int
    path: str

    @classmethod
    def parse(cls, base_url: str) -> "GatewayAddress":
        """An address; refuses what is not HTTP."""
        parts = urllib.parse.urlsplit(base_url)
        if parts.scheme != "http" or not parts.hostname:
            raise SetupError(
                f"{base_url!r} is not the address of a gateway, such as "
                f"http://127.0.0.1:8080/v1."
            )
        return cls(parts.hostname, parts.port or 80, parts.path.rstrip("/"))


class GatewayModel:
    """One model of a gateway."""

    def __init__(
        self, address: GatewayAddress, model: str, tokens: int, timeout: float
    ) -> None:
        self._address, self._model = address, model
        self._tokens, self._timeout = tokens, timeout

    def head(self) -> Head:
        """What the model is for, as the gateway says it."""
        tasks = {
            str(card.get("id")): card["task"]
            for line in self._lines("GET", f"{self._address.path}/models", None)
            for card in json.loads(line).get("data", [])
        }
        if self._model not in tasks:
            names = ", ".join(sorted(tasks)) or "none"
            raise SetupError(
                f"The gateway has no model {self._model[:80]!r}; it has: {names}."
            )
        return Head(tasks[self._model])

    def asker(self, head: Head) -> Ask:
        """Asks what such a model is for."""
        if head is Head.TEXT_GENERATION:
            return self._complete
        if head is Head.TEXT_CLASSIFICATION:
            return self._classify
        if head.is_embedding:
            return self._embed
        raise SetupError(f"A gateway has no endpoint for {head.value!r}.")

    def _embed(self, text: str) -> Iterator[object]:
        body = {**self._asked(text), "encoding_format": "base64"}
        yield from self._lines("POST", f"{self._address.path}/embeddings", body)

    def _classify(self, text: str) -> Iterator[object]:
        yield from self._lines("POST", "/classify", self._asked(text))

    def _asked(self, text: str) -> Json:
        return {"model": self._model, "input": [text], "truncate_prompt_tokens": -1}

    def _complete(self, text: str) -> Iterator[object]:
        body = {
            "model": self._model,
            "prompt": text,
            "max_tokens": self._tokens,
            "temperature": 0,
            "stream": True,
        }
        for line in self._lines("POST", f"{self._address.path}/completions", body):
            if line.startswith(b"data: {"):
                event = json.loads(line[len(b"data: ") :])
                if event.get("error"):
                    raise GatewayError(f"The gateway says: {event['error']}.")
                if any(choice.get("text") for choice in event.get("choices", [])):
                    yield event

    def _lines(self, method: str, path: str, body: Json | None) -> Iterator[bytes]:
        """The lines of an answer as they come; one, unless it is a stream."""
        address = self._address
        connection = http.client.HTTPConnection(
            address.host, address.port, timeout=self._timeout
        )
        try:
            data = None if body is None else json.dumps(body).encode()
            headers = {"content-type": "application/json"} if data else {}
            connection.request(method, path, data, headers)
            answer = connection.getresponse()
            if answer.status != http.client.OK:
                text = answer.read(_LONGEST_LINE).decode("utf-8", "replace")
                raise GatewayError(
                    f"The gateway answered {answer.status}: {text[:300]}"
                )
            if answer.headers.get_content_type() != "text/event-stream":
                yield answer.read(_LONGEST)
                return
            while line := answer.readline(_LONGEST_LINE):
                yield line
        except (OSError, http.client.HTTPException) as error:
            raise PeerError(
                f"The gateway at {address.host}:{address.port} cannot be asked: "
                f"{error!r}.",
                peer="gateway",
            ) from None
        finally:
            connection.close()
