"""Leaks of what parties send each other and the client: masks that do not hide."""

from .leak import Leak


def hidden(case: str) -> str:
    """The rank test of one case."""
    return f"conformance/test_rank.py::test_all_received_bits_are_hidden[{case}]"


TRUNCATE = hidden("truncate ours from=fxp14.9 to=fxp14.4")
MULTIPLY = hidden("multiply ours operands=fxp32.12")
FUSED = hidden("multiply in parts, rounds=2")
FRESH = "conformance/test_rank.py::test_a_client_is_sent_a_fresh_sharing"
COARSE_MAX = hidden("coarse max in two")
CONJUNCTION = hidden("conjunction in two")
BIT_PRODUCT = hidden("truncate ours-three-rounds from=fxp14.9 to=fxp14.4")
EXP = hidden("exponential in two")
PIECES = hidden("piecewise quadratic in two")
PAYLOADS = "sharing/test_payloads.py::"

VERIFIER = (
    "audit/test_zero_knowledge.py::test_all_that_a_verifier_receives_is_hidden"
    "[matmul-1]"
)

IN_PLACE = (
    "conformance/test_exact_views.py::"
    "test_every_secret_looks_the_same[truncate in place]"
)

MASKS_OF_PROTOCOLS = (
    Leak(
        "wraps: one mask for three counts",
        "protocols/blocks/wraps.py",
        (
            (
                'return np.stack([masks.draw(f"r{c}", count, ring) for c in range(3)])',
                'return np.stack([masks.draw("r0", count, ring)] * 3)',
            ),
        ),
        "P2 sees differences of counts, of what P0 knows",
        (IN_PLACE,),
    ),
    Leak(
        "wraps: k2 is k1",
        "protocols/blocks/wraps.py",
        (('for name in ("k1", "k2"))', 'for name in ("k1", "k1"))'),),
        "P0 sees which class it is",
        (IN_PLACE,),
    ),
    Leak(
        "wraps: flags of classes without masks",
        "protocols/blocks/wraps.py",
        (("^ _flag_masks(role.next, count)", ""),),
        "P2 sees where the cells of shares 0 and 1 begin",
        (hidden("truncate provable from=fxp32.20 to=fxp32.12 range=checked"),),
    ),
    Leak(
        "proofs: coefficients without a pad",
        "audit/proof.py",
        (("return without_claim(h) - self._pads[i]", "return without_claim(h)"),),
        "the party after the prover sees sums of products with shares it lacks",
        (VERIFIER,),
    ),
    Leak(
        "proofs: the last fold has no masking elements",
        "audit/proof.py",
        (
            (
                "    return masks.draw(purpose, galois.degree, galois.ring)",
                "    return 0 * masks.draw(purpose, galois.degree, galois.ring)",
            ),
        ),
        "a verifier sees a sum of the shares that it lacks",
        (VERIFIER,),
    ),
    Leak(
        "proofs: the prover believes any coin",
        "audit/proof.py",
        (("if (digest(opening.astype(np.uint8)) != commitment).any():", "if False:"),),
        "a verifier chooses what the prover folds by, and takes the masks out",
        (
            "audit/test_proof.py::"
            "test_a_prover_goes_on_with_coins_that_both_verifiers_have_alone",
        ),
    ),
    Leak(
        "proofs: different shares are not noticed before the end",
        "audit/proof.py",
        (("    if (got != expected).any():", "    if False:"),),
        "whoever made them different sees a sum of shares that it lacks",
        (
            "audit/test_proof.py::"
            "test_different_shares_are_found_before_anything_is_shown",
        ),
    ),
    Leak(
        "two to three: k2 is k0, in a fused product",
        "protocols/blocks/two_to_three.py",
        (
            (
                "(shared.draw(name, count, group.ring) for name in names)",
                "(shared.draw(names[0], count, group.ring),) * 2",
            ),
        ),
        "P1 sees z0 - z2",
        (FUSED,),
    ),
    Leak(
        "split of P1: two words under one mask",
        "protocols/blocks/two_party.py",
        (
            (
                "s1 = role.previous.draw(purpose, count, group.ring)",
                "s1 = role.previous.draw(purpose, -(-count // 2), group.ring)\n"
                "        s1 = np.repeat(s1, 2)[:count]",
            ),
            (
                "return (role.next.draw(purpose, count, group.ring),)",
                "s1 = role.next.draw(purpose, -(-count // 2), group.ring)\n"
                "        return (np.repeat(s1, 2)[:count],)",
            ),
        ),
        "P2 sees the XOR of neighbouring words of P1's levels",
        (COARSE_MAX,),
    ),
    Leak(
        "split of P1: the mask is as long as half of the tensor, twice",
        "protocols/blocks/two_party.py",
        (
            (
                "s1 = role.previous.draw(purpose, count, group.ring)",
                "s1 = role.previous.draw(purpose, -(-count // 2), group.ring)\n"
                "        s1 = np.resize(s1, count)",
            ),
            (
                "return (role.next.draw(purpose, count, group.ring),)",
                "s1 = role.next.draw(purpose, -(-count // 2), group.ring)\n"
                "        return (np.resize(s1, count),)",
            ),
        ),
        "P2 sees differences of elements of s",
        (TRUNCATE,),
    ),
    Leak(
        "split of P1: the last eight elements have no mask",
        "protocols/blocks/two_party.py",
        (
            (
                "s1 = role.previous.draw(purpose, count, group.ring)",
                "s1 = role.previous.draw(purpose, count, group.ring)\n"
                "        s1[-8:] = 0",
            ),
            (
                "return (role.next.draw(purpose, count, group.ring),)",
                "s1 = role.next.draw(purpose, count, group.ring)\n"
                "        s1[-8:] = 0\n"
                "        return (s1,)",
            ),
        ),
        "P2 sees s of these elements, and knows a: it knows x",
        (TRUNCATE,),
    ),
    Leak(
        "product in two rounds: m2 is m0, in a recast",
        "protocols/blocks/product.py",
        (
            (
                """(shared.draw(name, count, ring) for name in ("m0", "m2"))""",
                """(shared.draw("m0", count, ring),) * 2""",
            ),
        ),
        "P1 can solve for v, the top bit of a",
        (TRUNCATE,),
    ),
    Leak(
        "product in two rounds: m2 is m0, in a conjunction",
        "protocols/blocks/product.py",
        (
            (
                """(shared.draw(name, count, ring) for name in ("m0", "m2"))""",
                """(shared.draw("m0", count, ring),) * 2""",
            ),
        ),
        "P1 learns an equation on the levels of every row",
        (CONJUNCTION,),
    ),
    Leak(
        "product in two rounds: the receiver knows rho",
        "protocols/blocks/product.py",
        (
            (
                """rho = role.previous.draw("rho", factor.size, ring)""",
                """rho = role.next.draw("rho", factor.size, ring)""",
            ),
        ),
        "P2 sees u minus a mask of its own: the top bit of s",
        (TRUNCATE,),
    ),
    Leak(
        "product in one round: both get u under the mask of one",
        "protocols/blocks/product.py",
        (("{P0: [Field(u + q, k)]", "{P0: [Field(u + p, k)]"),),
        "P0 knows p, so it sees u",
        (hidden("truncate ours-one-round from=fxp14.9 to=fxp14.4"),),
    ),
    Leak(
        "product in one round: no mask on v times q",
        "protocols/blocks/product.py",
        (("[Field(_times(factor, mask) + r, k)]", "[Field(_times(factor, mask), k)]"),),
        "P0 sees u + q and v*q, two messages under one mask",
        (hidden("truncate ours-one-round from=fxp14.9 to=fxp14.4"),),
    ),
    Leak(
        "bit product: m2 is m0",
        "protocols/blocks/bit_product.py",
        (
            (
                """(shared.draw(name, count, ring) for name in ("m0", "m2"))""",
                """(shared.draw("m0", count, ring),) * 2""",
            ),
        ),
        "P1 can solve for v, the top bit of a",
        (BIT_PRODUCT,),
    ),
    Leak(
        "bit product: the receiver knows r",
        "protocols/blocks/bit_product.py",
        (
            (
                """r = role.previous.draw("r", count, _BIT)""",
                """r = role.next.draw("r", count, _BIT)""",
            ),
        ),
        "P2 sees u under a mask of its own: the top bit of s",
        (BIT_PRODUCT,),
    ),
    Leak(
        "bit product: no mask on what P0 sends",
        "protocols/blocks/bit_product.py",
        (("d0 = np.where(r, v - m2, m2) - m0", "d0 = np.where(r, v - m2, m2)"),),
        "P1 knows r and c, and sees c*v - m2 and m2, or v - m2",
        (BIT_PRODUCT,),
    ),
    Leak(
        "two to three: no mask where bits are left out",
        "protocols/blocks/two_to_three.py",
        (
            (
                "hidden = hidden >> hidden.dtype.type(dropped)",
                "hidden = value >> value.dtype.type(dropped)",
            ),
        ),
        "P1 sees z0 and z2 but for their last bits",
        (hidden("multiply + recast ours operands=fxp32.12 to=fxp32.12"),),
    ),
    Leak(
        "replicate: no mask",
        "protocols/blocks/replicate.py",
        (
            (
                "return group.subtract(group.add(z, ahead), behind)",
                "return group.subtract(group.add(z, ahead), ahead)",
            ),
        ),
        "each party sees a summand of the product as it is",
        (MULTIPLY,),
    ),
    Leak(
        "replicate: one mask for all elements",
        "protocols/blocks/replicate.py",
        (
            (
                "role.next.draw(purpose, count, group.ring)",
                "role.next.draw(purpose, 1, group.ring)",
            ),
            (
                "role.previous.draw(purpose, count, group.ring)",
                "role.previous.draw(purpose, 1, group.ring)",
            ),
        ),
        "each party sees the differences of elements",
        (MULTIPLY,),
    ),
    Leak(
        "payloads: the last correction lacks what the other side generates",
        "sharing/payloads.py",
        (
            (
                "last = wanted - values[0] + values[1]",
                "last = wanted - values[0] + values[0]",
            ),
        ),
        "P0 and P2 see what x lies off the middle of its cell",
        (PAYLOADS + "test_corrections_tell_nothing_of_the_payload",),
    ),
    Leak(
        "payloads: two words of a leaf are generated alike",
        "sharing/payloads.py",
        (
            (
                "(generators.leaf, generators.second, generators.third)",
                "(generators.leaf, generators.second, generators.second)",
            ),
        ),
        "P0 and P2 see the difference of two words of the payload",
        (PAYLOADS + "test_corrections_tell_nothing_of_the_payload",),
    ),
    Leak(
        "table product: one mask for all entries",
        "protocols/blocks/table_product.py",
        (
            (
                "for r, part in zip(own[1:], chosen.factors, strict=True):",
                "for r, part in zip(own[:1] * n, chosen.factors, strict=True):",
            ),
            (
                "zip(sums.entries, own, hiding, strict=True)",
                "zip(sums.entries, own[:1] * (n + 1), hiding, strict=True)",
            ),
        ),
        "P1 sees the difference of two coefficients, so which parabola x lies on",
        (PIECES, EXP),
    ),
    Leak(
        "table product: P0 and P2 send their sums with the entries' masks alone",
        "protocols/blocks/table_product.py",
        (
            (
                "total.astype(ring.dtype, copy=False) - ones * r + k",
                "total.astype(ring.dtype, copy=False) - ones * r",
            ),
        ),
        "P1 sees a sum over a set that it knows, besides the entry",
        (PIECES, EXP),
    ),
    Leak(
        "table product: entries without a mask",
        "protocols/blocks/table_product.py",
        (
            (
                "total.astype(ring.dtype, copy=False) - ones * r + k",
                "total.astype(ring.dtype, copy=False) + k",
            ),
        ),
        "P1 learns an entry, so the cell that x lies in",
        (PIECES, EXP),
    ),
    Leak(
        "table product: one mask for the sums of all tables",
        "protocols/blocks/table_product.py",
        (
            (
                "zip(sums.entries, own, hiding, strict=True)",
                "zip(sums.entries, own, hiding[:1] * (n + 1), strict=True)",
            ),
        ),
        "P1 sees the difference of two sums over a set that it knows",
        (PIECES, EXP),
    ),
    Leak(
        "table product: P1 sends its factors as they are",
        "protocols/blocks/table_product.py",
        (
            (
                "Field(ring.reduce(u - part), ring.bits)",
                "Field(ring.reduce(u), ring.bits)",
            ),
        ),
        "P2 learns what P1 knows of x",
        (PIECES, EXP),
    ),
    Leak(
        "table product: one mask for all factors",
        "protocols/blocks/table_product.py",
        (
            (
                'parts = [masks.draw(f"factor {j}", place.size, ring) '
                "for j in range(len(known))]",
                'parts = [masks.draw("factor", place.size, ring)] * len(known)',
            ),
        ),
        "P2 sees the difference of what P1 knows of x and of its square",
        (PIECES,),
    ),
    Leak(
        "table product: P2 is sent the place as it is",
        "protocols/blocks/table_product.py",
        (("Field(value ^ share, word.bits)", "Field(value, word.bits)"),),
        "P2 learns where P1's summand lies",
        (PIECES, EXP),
    ),
    Leak(
        "coarse maximum: one mask for all levels of the AND tree",
        "protocols/coarse_max.py",
        (
            (
                """first, second = yield from and_words(role, x, y, f"and {half}")""",
                """from ditto.protocols.party import Exchange, Expected, Field
        z = (x[0] & (y[0] ^ y[1])) ^ (x[1] & y[0])
        width = 8 * z.dtype.itemsize
        if half == SUBSETS // 2:
            kept = [
                masks.draw("and", z.size, Ring(width))
                for masks in (role.next, role.previous)
            ]
        ahead, behind = (mask[: z.size].reshape(z.shape) for mask in kept)
        first = z ^ ahead ^ behind
        inbox = yield Exchange(
            send={role.rank.previous: [Field(first.reshape(-1), width)]},
            receive={role.rank.next: [Expected(z.size, width)]},
        )
        second = inbox[role.rank.next][0].reshape(z.shape)""",
            ),
        ),
        "a party sees the XOR of results of two levels",
        (COARSE_MAX,),
    ),
    Leak(
        "share: the second share has no mask",
        "protocols/share.py",
        (
            (
                """x1 = role.next.draw("x1", n, ring)""",
                """x1 = role.next.draw("x1", n, ring) * ring.dtype.type(0)""",
            ),
            (
                """return role.previous.draw("x1", n, ring), x2""",
                """return role.previous.draw("x1", n, ring) * ring.dtype.type(0), x2""",
            ),
        ),
        "P2 holds x0 and x2, and x1 is zero",
        (hidden("share ours"),),
    ),
    Leak(
        "share: P1 gets x0 as well",
        "protocols/share.py",
        (
            (
                "send={Rank.P1: message, Rank.P2: message}",
                "send={Rank.P1: [*message, Field(x0, ring.bits)], Rank.P2: message}",
            ),
            (
                "receive={Rank.P0: [Expected(n, ring.bits)]}",
                "receive={\n"
                "            Rank.P0: [Expected(n, ring.bits)]\n"
                "            * (2 if role.rank == Rank.P1 else 1)\n"
                "        }",
            ),
            ("(x2,) = inbox[Rank.P0]", "x2, *_ = inbox[Rank.P0]"),
        ),
        "P1 has all three shares",
        (hidden("share ours"),),
    ),
    Leak(
        "the paper's upcast: the last message has no mask",
        "protocols/paper.py",
        (
            (
                "half = (carry << high.dtype.type(low.bits)) - r_half - mask",
                "half = (carry << high.dtype.type(low.bits)) - r_half",
            ),
        ),
        "P0 and P1 open the value to each other",
        (hidden("upcast paper from=fxp32.8 to=fxp64.18"),),
    ),
    Leak(
        "reveal: all are shown what is for one",
        "protocols/reveal.py",
        (("""RANKS if to == "all" else (to,)""", "RANKS"),),
        "two parties see a value that is not theirs",
        (
            "conformance/test_rank.py::"
            "test_who_is_shown_a_value_gets_its_missing_share_and_nothing_else",
        ),
    ),
    Leak(
        "reveal to the client: one mask for all elements",
        "protocols/reveal.py",
        (
            (
                "masks.draw(name, x.size, x.ring) for name",
                "masks.draw(name, 1, x.ring).repeat(x.size) for name",
            ),
        ),
        "the client sees differences of shares",
        (f"{FRESH}[send_answer-36]",),
    ),
    Leak(
        "range word: no mask",
        "protocols/range_word.py",
        (("word = rerandomise(role, mine, _GROUP)", "word = mine"),),
        "the client sees what each party folded, which depends on its shares",
        (f"{FRESH}[send_verdict-40]",),
    ),
)
