"""Leaks to plant, one at a time: each must be found by the tests that it names.

A leak is a small change of the source that breaks privacy, mostly without breaking any
result. ``test_leaks.py`` plants it in a copy of ``src`` and runs the tests. A change of
the source that leaves a text here without its place is an error: mend the list.
"""

from .leak import Leak
from .leaks_of_gateway import GATEWAY
from .leaks_of_protocols import MASKS_OF_PROTOCOLS

DEALING = "sharing/test_dealing.py::"
DRAWS = "sharing/test_large_draws.py::"
SESSION = "protocols/test_session.py::"
IDENTITY = "runtime/test_identity.py::"
BOUND = (
    "party/test_refusals.py::"
    "test_a_plan_runs_only_with_the_weights_whose_owner_approved_it"
)

DEALT = (
    Leak(
        "deal: x0 is zero",
        "sharing/replicated.py",
        (
            (
                """x0 = masks.draw("x0", flat.size, ring)""",
                """x0 = masks.draw("x0", flat.size, ring) * ring.dtype.type(0)""",
            ),
        ),
        "P1 holds x1 and x2, and knows every secret that is dealt",
        (DEALING + "test_shares_of_a_constant_are_uniform_at_every_party",),
    ),
    Leak(
        "deal: x1 is x0",
        "sharing/replicated.py",
        (("""x1 = masks.draw("x1", flat.size, ring)""", "x1 = x0"),),
        "each of P1 and P2 knows all three shares",
        (DEALING + "test_shares_of_a_constant_are_uniform_at_every_party",),
    ),
    Leak(
        "deal bits: b1 is zero",
        "sharing/boolean.py",
        (("""b1 = masks.draw("b1", packed.size, _BYTE)""", "b1 = 0 * b0"),),
        "P2 holds b2 and b0, and knows every bit",
        (DEALING + "test_shares_of_a_constant_are_uniform_at_every_party",),
    ),
    Leak(
        "indices: the second split is the first",
        "sharing/indices.py",
        (
            (
                "second, third = split_points(flat, depth=depth, bits=bits)",
                "second, third = one, others",
            ),
        ),
        "P1 holds both halves of a split: it knows every token",
        (DEALING + "test_no_party_can_put_its_keys_together",),
    ),
    Leak(
        "points: every call has the same salt",
        "sharing/points.py",
        (("salt = os.urandom(SALT_BYTES)", "salt = bytes(SALT_BYTES)"),),
        "AES calls made once help against every key",
        ("sharing/test_points.py::test_nothing_is_drawn_twice",),
    ),
    Leak(
        "points: all points of a call have the same roots",
        "sharing/points.py",
        (
            (
                "roots = drawn.reshape(2, index.size, 2)",
                "roots = np.repeat(drawn[:4].reshape(2, 1, 2), index.size, axis=1)",
            ),
        ),
        "equal tokens have equal keys",
        (DEALING + "test_both_splits_are_drawn_independently",),
    ),
    Leak(
        "points: an error names the index",
        "sharing/points.py",
        (("but not all here do.", "got {flat.max()}."),),
        "the text of an error goes into logs",
        (
            "sharing/test_points.py::"
            "test_an_index_out_of_range_is_refused_and_not_named",
        ),
    ),
    Leak(
        "client: whatever a plan makes public is shown",
        "client/shares.py",
        (("is InputRole.PUBLIC and k not in public", "is InputRole.PUBLIC and False"),),
        "a plan decides what the client gives away",
        (DEALING + "test_a_client_shows_nothing_that_it_did_not_agree_to_show",),
    ),
)

KEYS = (
    Leak(
        "session: keys from what is public only",
        "protocols/session.py",
        (
            (
                "secret = private.exchange(X25519PublicKey.from_public_bytes(theirs))",
                "private.exchange(X25519PublicKey.from_public_bytes(theirs))\n"
                """            secret = b"".join(sorted((mine, theirs)))""",
            ),
        ),
        "the third party, and whoever listens, knows all masks",
        (SESSION + "test_masks_are_those_of_the_secret_of_each_pair",),
    ),
    Leak(
        "session: every session has the same private key",
        "protocols/session.py",
        (
            (
                "X25519PrivateKey.generate()",
                """X25519PrivateKey.from_private_bytes(b"k" * 32)""",
            ),
        ),
        "whoever has the program knows all masks",
        (SESSION + "test_a_session_has_keys_of_its_own",),
    ),
    Leak(
        "session: keys are not bound to it",
        "protocols/session.py",
        (
            (
                "derive_key(secret, session=transcript,",
                "derive_key(secret, session=b'',",
            ),
        ),
        "masks of two sessions with one secret are the same",
        (SESSION + "test_masks_are_those_of_the_secret_of_each_pair",),
    ),
    Leak(
        "session: whoever is in another one is welcome",
        "protocols/session.py",
        (("if message[:_DIGEST_BYTES] != digest:", "if False:"),),
        "parties that disagree on who is who send shares to the wrong rank",
        (
            IDENTITY + "test_another_session_is_told",
            IDENTITY + "test_another_order_of_the_parties_is_told",
        ),
    ),
    Leak(
        "prf: one's own stream has a constant key",
        "sharing/prf.py",
        (("return cls(os.urandom(KEY_BYTES))", "return cls(bytes(KEY_BYTES))"),),
        "everybody knows the masks that nobody else may know",
        (DRAWS + "test_everyones_own_masks_differ",),
    ),
    Leak(
        "prf: the step is not in the counter block",
        "sharing/prf.py",
        (("""self._step.to_bytes(6, "big") + tag""", "bytes(6) + tag"),),
        "every step has the same masks",
        (DRAWS + "test_a_known_answer",),
    ),
    Leak(
        "prf: the purpose is not in the counter block",
        "sharing/prf.py",
        (("""to_bytes(6, "big") + tag, count""", """to_bytes(10, "big"), count"""),),
        "all masks of a step are the same",
        (DRAWS + "test_a_known_answer",),
    ),
    Leak(
        "prf: no mask beyond the first MiB of a draw",
        "sharing/prf.py",
        (
            (
                "cipher.update_into(_zeros(size), stream.data)",
                "cipher.update_into(_zeros(size), stream.data)\n"
                "            stream[1 << 20 : size] = 0",
            ),
        ),
        "large tensors are sent in the clear",
        (DRAWS + "test_no_part_of_a_large_draw_is_empty_or_repeated",),
    ),
    Leak(
        "prf: the second MiB of a draw is the first",
        "sharing/prf.py",
        (
            (
                "cipher.update_into(_zeros(size), stream.data)",
                "cipher.update_into(_zeros(size), stream.data)\n"
                "            stream[:size] = np.resize(stream[: 1 << 20], size)",
            ),
        ),
        "one mask hides several elements of a large tensor",
        (DRAWS + "test_no_part_of_a_large_draw_is_empty_or_repeated",),
    ),
    Leak(
        "prf: all blocks of a short draw have one counter",
        "sharing/prf.py",
        (("counters = _COUNTERS[:count].copy()", "counters = 0 * _COUNTERS[:count]"),),
        "one mask hides several elements",
        ("sharing/test_prf.py::test_masks_are_aes_in_counter_mode",),
    ),
    Leak(
        "prf: short draws of all names are the same",
        "sharing/prf.py",
        (("counters[:, : len(name)] = np.frombuffer(name, np.uint8)", "pass"),),
        "one mask hides several messages",
        ("sharing/test_prf.py::test_masks_are_aes_in_counter_mode",),
    ),
    Leak(
        "prf: masks of all names are the same, by the library",
        "sharing/prf.py",
        (("_schedule.stream(name,", "_schedule.stream(bytes(10),"),),
        "one mask hides several messages",
        (DRAWS + "test_a_known_answer",),
    ),
    Leak(
        "aes: the keys of all streams are the same",
        "native/aes.py",
        (
            (
                "libraries[0].ditto_aes_schedule(key,",
                "libraries[0].ditto_aes_schedule(bytes(16),",
            ),
        ),
        "everybody knows all masks",
        (DRAWS + "test_a_known_answer",),
    ),
    Leak(
        "prf: a purpose is given out again",
        "sharing/prf.py",
        (("if tag in self._used:", "if False:"),),
        "a protocol can use a mask twice unnoticed",
        ("sharing/test_prf.py::test_a_purpose_is_given_out_once",),
    ),
    Leak(
        "prf: a step is opened again",
        "sharing/prf.py",
        (("if not self._last < step < _MAX_STEP:", "if False:"),),
        "a session that starts over uses its masks again",
        ("sharing/test_prf.py::test_steps_only_go_up",),
    ),
)

AROUND = (
    Leak(
        "service: the answer is opened to all parties first",
        "party/running.py",
        (
            (
                "state: list[Shared] = []\n",
                "state: list[Shared] = []\n"
                "    from ditto.protocols import reveal\n"
                "    for value in outputs:\n"
                "        if isinstance(value, Shared):\n"
                "            reveal(session.party, value)\n",
            ),
        ),
        "the parties see what is for the client alone",
        ("conformance/test_run.py::test_nothing_of_the_answer_comes_to_a_party",),
    ),
    Leak(
        "store: any plan runs with any weights",
        "party/store.py",
        (("if digest not in record.plans:", "if False:"),),
        "a plan whose answer is the weights opens them",
        (BOUND,),
    ),
    Leak(
        "store: a state is given to another model",
        "party/store.py",
        (("if found.model != model:", "if False:"),),
        "the plan of another owner opens a conversation",
        (BOUND,),
    ),
    Leak(
        "store: anybody approves plans for a model",
        "party/store.py",
        (("if record.owner != owner:", "if False:"),),
        "a stranger approves a plan that opens the weights",
        (BOUND,),
    ),
    Leak(
        "store: a plan continues any state that it fits",
        "party/store.py",
        (
            (
                "record is None or (plan, earlier) not in record.continues",
                "record is None",
            ),
        ),
        "a plan for another purpose opens a conversation",
        (
            "party/test_bound_states.py::"
            "test_a_state_is_not_opened_by_a_plan_that_merely_fits",
        ),
    ),
    Leak(
        "service: masks are not bound to the plan",
        "party/running.py",
        (
            (
                "return json.dumps(bound).encode()",
                """return b"run\"""",
            ),
        ),
        "parties that run different plans open what none of them may open",
        (
            "party/test_agreement.py::"
            "test_masks_of_different_plans_are_noise_even_unnoticed",
        ),
    ),
    Leak(
        "service: who began a state is not asked",
        "party/store.py",
        (("if found is None or found.client != client:", "if found is None:"),),
        "a client continues the text of another",
        ("party/server/test_service.py::test_a_state_belongs_to_who_began_it",),
    ),
    Leak(
        "service: any authority of the agreement vouches for any name",
        "party/server/calls.py",
        (
            (
                "identity = self._agreement.trusted_domains.verify(shown[0])",
                "from ditto.trust import identity_of, read_certificate\n"
                "        identity = identity_of(read_certificate(shown[0]))",
            ),
        ),
        "one organisation's authority speaks for another's members",
        ("party/server/test_service.py::test_one_authority_cannot_speak_for_another",),
    ),
    Leak(
        "service: what two parties hold is not compared",
        "party/comparison.py",
        (("        if differing or others:", "        if False:"),),
        "a dealer who deals differently is answered",
        (
            "party/test_agreement.py::"
            "test_parties_told_different_plans_give_nothing_away",
        ),
    ),
    Leak(
        "client: hashes of shares are not compared",
        "sharing/replicated.py",
        (
            (
                "not np.array_equal(revealed[i].hash_of_next, _sha256(summands[j]))",
                "False",
            ),
        ),
        "a party gives the client another answer",
        (
            "client/test_opening.py::test_a_share_that_is_not_what_the_other_holder_says",
        ),
    ),
    Leak(
        "worker: an error is told with its text",
        "runtime/worker.py",
        (("""told.public_message(),""", "str(error),"),),
        "texts of errors hold values",
        (
            "runtime/test_errors.py::"
            "test_an_error_that_nobody_foresaw_is_told_without_its_text",
        ),
    ),
    Leak(
        "session: a run has the masks of the session",
        "sharing/prf.py",
        (
            (
                "derive_key(secret.tobytes(), session=context,",
                "derive_key(secret.tobytes(), session=b'',",
            ),
        ),
        "parties that run different plans have masks in common",
        (
            "party/test_agreement.py::"
            "test_masks_of_different_plans_are_noise_even_unnoticed",
        ),
    ),
    Leak(
        "links: whoever answers is taken for the peer",
        "runtime/connection.py",
        (("usage=usage, expected=expected)", "usage=usage)"),),
        "whoever has a certificate of the peer's organisation gets its shares",
        (IDENTITY + "test_only_bobs_authority_vouches_for_bob",),
    ),
    Leak(
        "trust: any authority vouches for anybody",
        "trust/peers.py",
        (("        _check_signature(certificate, authority, identity)\n", ""),),
        "a party that makes a certificate in another's name gets both of its shares",
        (
            IDENTITY + "test_a_caller_is_checked_behind_tls",
            "trust/test_peers.py::test_an_authority_cannot_speak_for_another",
        ),
    ),
    Leak(
        "lots: one party's secret says it all",
        "client/lots.py",
        (
            (
                "third[0] ^= (first[0] ^ second[0] ^ third[0] ^ audited) & 1",
                "third[0] ^= (third[0] ^ audited) & 1",
            ),
        ),
        "P2 knows before a run whether it will be audited",
        (
            "client/test_lots.py::"
            "test_a_choice_has_its_chance_and_no_two_parties_know_it",
        ),
    ),
    Leak(
        "certificates: all users of a machine can read the keys",
        "runtime/certificates.py",
        (("folder.mkdir(mode=0o700", "folder.mkdir(mode=0o755"),),
        "whoever reads a party's key can take its place",
        (IDENTITY + "test_keys_are_readable_by_their_owner_only",),
    ),
)

LEAKS = (*MASKS_OF_PROTOCOLS, *DEALT, *KEYS, *AROUND, *GATEWAY)
