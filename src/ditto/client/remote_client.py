"""``ditto.Client``: ask the models of a deployment, in private.

Needs numpy, tokenizers and grpcio; neither jax nor spu. Texts are tokenised and shared
here, answers are opened here, and compared between the parties.
"""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Self, TypeVar

from ditto.client import asking
from ditto.client.answering import Audits, ModelCard, Party
from ditto.client.asking import Generated
from ditto.client.batching import Batcher, run_in_batches
from ditto.client.bundle import Offer
from ditto.client.out_of_range import OnOutOfRange
from ditto.client.questions import TooLong
from ditto.client.reading import Prediction
from ditto.client.releases import (
    OpenedModel,
    Releases,
    common_releases,
    find_release,
)
from ditto.client.remote import RemoteDeployment, Trios
from ditto.client.running import RowAnswer, run_rows
from ditto.client.sampling import Sampling
from ditto.errors import (
    DeadlineError,
    DittoError,
    PeerError,
    PeerIdentityError,
    PeerLostError,
)
from ditto.files import cache_folder
from ditto.plan import Audit, check_audit, check_audit_chance
from ditto.trust import Identity, load_credentials
from ditto.wire import OnProgress
from ditto.wire.agreement import Agreement, read_agreement
from ditto.wire.catalogue import Release, ServiceStatus

if TYPE_CHECKING:
    from ditto.client.tokens import Encoded

_STATUS_SECONDS = 10.0
_FRESH_SECONDS = 5.0
"""For which what the parties serve is remembered."""
_PAUSE = 0.5
Result = TypeVar("Result")


class Client:
    """Asks the models of a deployment. Safe to be used by several threads.

    ``deployment`` is a ``deployment.toml``, ``credentials`` the folder with ``tls.crt``
    and ``tls.key`` of a client. ``pinned`` are digests of releases by the model's name:
    another release is refused. Without ``batching``, what several threads ask at the
    same time is not run together. With ``audit`` "products" the parties prove their
    products to each other before they answer, also where their agreement does not ask
    for it (docs/explanation/audit.md); with an ``audit_chance`` below 1 they do so in
    some runs, drawn in secret, by default with the chance that was agreed on.
    """

    def __init__(
        self,
        deployment: str | Path | Agreement,
        credentials: str | Path,
        *,
        pinned: Mapping[str, str] | None = None,
        cache: Path | None = None,
        on_progress: OnProgress | None = None,
        batching: bool = True,
        audit: Audit = "off",
        audit_chance: float | None = None,
    ) -> None:
        agreement = (
            deployment
            if isinstance(deployment, Agreement)
            else read_agreement(Path(deployment))
        )
        self._agreement = agreement
        mine = load_credentials(Path(credentials), agreement.trusted_domains)
        chance = check_audit_chance(audit_chance)
        self._trios = Trios(agreement, mine, check_audit(audit), chance)
        self._releases = Releases(cache or cache_folder())
        self._pinned = dict(pinned or {})
        self._on_progress = on_progress
        self._served = _Served(0.0, {}, 0)
        self._batcher = Batcher(lanes=agreement.trios)
        self._batching = batching

    def models(self) -> list[ModelCard]:
        """See Answering."""
        deadline = time.monotonic() + _STATUS_SECONDS
        releases = self._serving(deadline, fresh=True)
        return [self._open(name, deadline).card for name in sorted(releases)]

    def parties(self) -> tuple[Party, ...]:
        """See Answering."""
        return tuple(
            Party(party.trust_domain, party.organisation, party.grpc_address(0))
            for party in self._agreement.parties
        )

    def audits(self) -> Audits:
        """See Answering."""
        trios = self._trios
        return Audits(trios.audit, 1.0 if trios.audit == "off" else trios.audit_chance)

    def count_tokens(
        self, model: str, text: str, *, add_special_tokens: bool = True
    ) -> int:
        """See Answering."""
        bundle = self._open(model, time.monotonic() + _STATUS_SECONDS).bundle
        encode = bundle.tokenizer.encode
        return len(encode(text, add_special_tokens=add_special_tokens).ids)

    def predict(
        self,
        model: str,
        texts: Sequence[str],
        text_pairs: Sequence[str] | None = None,
        *,
        too_long: TooLong = "raise",
        on_out_of_range: OnOutOfRange = "retry",
        prompt: str | None = None,
        prompt_name: str | None = None,
        timeout: float | None = None,
    ) -> list[Prediction]:
        """See Answering."""
        client = self._ask(model, timeout, on_out_of_range, batched=True)
        return client.predict(
            texts,
            text_pairs,
            too_long=too_long,
            prompt=prompt,
            prompt_name=prompt_name,
        )

    def stream(
        self,
        model: str,
        prompt: str,
        tokens: int,
        sampling: Sampling | None = None,
        *,
        on_out_of_range: OnOutOfRange = "retry",
        add_special_tokens: bool = True,
        timeout: float | None = None,
    ) -> Iterator[Generated]:
        """See Answering."""
        client = self._ask(model, timeout, on_out_of_range)
        yield from client.stream(
            prompt, tokens, sampling, add_special_tokens=add_special_tokens
        )

    def close(self) -> None:
        """See Answering."""
        self._batcher.close()
        self._trios.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _ask(
        self,
        model: str,
        timeout: float | None,
        policy: OnOutOfRange,
        *,
        batched: bool = False,
    ) -> asking.Client:
        longest = float(self._agreement.limits.deadline_seconds)
        seconds = longest if timeout is None else min(timeout, longest)
        deadline = time.monotonic() + seconds
        opened = self._open(model, deadline)
        trio = self._served.trio if batched else None  # each batch chooses its own
        deployment = RemoteDeployment(self._trios, deadline, trio)
        rows = partial(self._answer_rows, opened, deadline) if batched else None
        progress = self._on_progress
        return asking.Client(opened.bundle, deployment, progress, policy, rows)

    def _answer_rows(
        self,
        opened: OpenedModel,
        deadline: float,
        offer: Offer,
        texts: "Sequence[Encoded]",
    ) -> list[RowAnswer]:
        """Answers to texts, together with what other threads ask at the same time."""

        def run(
            batch: "Sequence[Encoded]", size: int, until: float = deadline
        ) -> list[RowAnswer]:
            sized = replace(offer, batch_size=size)
            deployment = RemoteDeployment(self._trios, until)
            return run_rows(opened.bundle, deployment, sized, batch, self._on_progress)

        sizes = opened.bundle.batch_sizes(offer)
        if sizes[-1] == 1 or not self._batching:  # the parties' queue orders them
            return run_in_batches(texts, sizes, run)
        shape = (opened.release.digest, offer)
        return self._batcher.ask(shape, texts, sizes, deadline, run)

    def _open(self, model: str, deadline: float) -> OpenedModel:
        releases = self._serving(deadline, fresh=False)
        for trio in (self._served.trio, *range(self._agreement.trios)):
            if model not in releases:
                releases = self._serving(deadline, fresh=True, trio=trio)
        release = find_release(releases, model, self._pinned.get(model))
        opened = self._releases.opened(release.digest)
        if opened is not None:
            return opened
        last: DittoError | None = None
        for party in self._trios.parties(self._served.trio):
            try:
                return self._releases.open(release, party)
            except PeerError as error:
                last = error
        raise last or PeerError("No party could be asked.", peer="deployment")

    def _serving(
        self, deadline: float, *, fresh: bool, trio: int | None = None
    ) -> dict[str, Release]:
        """What is served by all three parties of a trio, as all three say: of this
        trio, or of the next that answers."""
        served = self._served
        age = time.monotonic() - served.moment
        if served.releases and not fresh and age < _FRESH_SECONDS:
            return served.releases
        trio = served.trio if trio is None else trio
        while True:
            left = deadline - time.monotonic()
            try:
                statuses = self._trios.statuses(
                    trio, min(_STATUS_SECONDS, max(left, 1))
                )
                _check_ready(statuses)
                releases = common_releases(statuses)
            except (PeerError, DeadlineError) as error:
                if isinstance(error, PeerIdentityError) or left < _PAUSE:
                    raise
                trio = (trio + 1) % self._agreement.trios
                time.sleep(_PAUSE)
                continue
            self._served = _Served(time.monotonic(), releases, trio)
            return releases


def _check_ready(statuses: Sequence[ServiceStatus]) -> None:
    """Parties that are not ready do not say what will be served when they are."""
    for status in statuses:
        if status.state != "ready":  # one that drains may have lost its peers
            name = Identity.parse(status.identity).trust_domain
            why = f": {status.problem.rstrip('.')}" if status.problem else ""
            raise PeerLostError(f"{name} is {status.state}{why}.", peer=name)


@dataclass(frozen=True)
class _Served:
    """What the parties of a trio said that they serve, and when."""

    moment: float
    releases: dict[str, Release]
    trio: int


class AsyncClient:
    """``Client`` for asyncio: the same calls, each in a thread of a small pool."""

    def __init__(
        self,
        deployment: str | Path | Agreement,
        credentials: str | Path,
        *,
        pinned: Mapping[str, str] | None = None,
        cache: Path | None = None,
        threads: int = 16,
        audit: Audit = "off",
        audit_chance: float | None = None,
    ) -> None:
        self._client = Client(
            deployment,
            credentials,
            pinned=pinned,
            cache=cache,
            audit=audit,
            audit_chance=audit_chance,
        )
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="ditto-client")

    async def models(self) -> list[ModelCard]:
        """See Client."""
        return await self._run(self._client.models)

    async def predict(
        self,
        model: str,
        texts: Sequence[str],
        text_pairs: Sequence[str] | None = None,
        *,
        too_long: TooLong = "raise",
        on_out_of_range: OnOutOfRange = "retry",
        timeout: float | None = None,
    ) -> list[Prediction]:
        """See Client."""
        asked = partial(
            self._client.predict,
            model,
            texts,
            text_pairs,
            too_long=too_long,
            on_out_of_range=on_out_of_range,
            timeout=timeout,
        )
        return await self._run(asked)

    async def stream(
        self,
        model: str,
        prompt: str,
        tokens: int,
        sampling: Sampling | None = None,
        *,
        add_special_tokens: bool = True,
        timeout: float | None = None,
    ) -> AsyncIterator[Generated]:
        """See Client."""
        made = self._client.stream(
            model, prompt, tokens, sampling, timeout=timeout,
            add_special_tokens=add_special_tokens,
        )  # fmt: skip
        try:
            while (generated := await self._run(partial(next, made, None))) is not None:
                yield generated
        finally:
            with contextlib.suppress(RuntimeError):
                self._pool.submit(getattr(made, "close", lambda: None))

    async def close(self) -> None:
        """See Client."""
        await self._run(self._client.close)
        self._pool.shutdown(wait=False)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def _run(self, work: Callable[[], Result]) -> Result:
        return await asyncio.get_running_loop().run_in_executor(self._pool, work)
