/* What the range check and conjunctions of bits compute of many short numbers, in one
 * pass: ditto/protocols/blocks/range_check.py and conjunction.py, bit for bit.
 */
#include "words.h"
#include <string.h>

#define DEFINE(word, wide)                                                               \
    FAST static void tops_##word(const word *x, i64 count, i64 shift, u8 *out) {         \
        for (i64 i = 0; i < count; i++) out[i] = (u8)(x[i] >> shift);                    \
    }                                                                                    \
    static void terms_##word(const word *bits, i64 groups, i64 size, int is_p1,          \
                             word *rest, word *out) {                                    \
        const i64 sets = (i64)1 << size;                                                 \
        word found[64];                                                                  \
        for (i64 g = 0; g < groups; g++, bits += size, out += sets - 1) {                \
            found[0] = 1;                                                                \
            for (i64 i = 0, many = 1; i < size; i++, many *= 2) {                        \
                const word bit = bits[i], outside = is_p1 ? 1 : bit;                     \
                const word inside = is_p1 ? bit : (word)(1 - bit - bit);                 \
                for (i64 k = 0; k < many; k++) {                                         \
                    found[many + k] = (word)((wide)found[k] * inside);                         \
                    found[k] = (word)((wide)found[k] * outside);                               \
                }                                                                        \
            }                                                                            \
            rest[g] = found[0];                                                          \
            memcpy(out, found + 1, (size_t)(sets - 1) * sizeof(word));                   \
        }                                                                                \
    }                                                                                    \
    FAST static void dots_##word(const word *x, const word *y, i64 rows, i64 length,          \
                            word *out) {                                                 \
        for (i64 r = 0; r < rows; r++, x += length, y += length) {                       \
            word total = 0;                                                              \
            for (i64 i = 0; i < length; i++) total += (word)((wide)x[i] * y[i]);               \
            out[r] = total;                                                              \
        }                                                                                \
    }

DEFINE(u8, u32)
DEFINE(u16, u32)
DEFINE(u32, u32)
DEFINE(u64, u64)

#define BY_SIZE(bytes, name, ...)                                                        \
    switch (bytes) {                                                                     \
    case 1: name##_u8(__VA_ARGS__); break;                                               \
    case 2: name##_u16(__VA_ARGS__); break;                                              \
    case 4: name##_u32(__VA_ARGS__); break;                                              \
    default: name##_u64(__VA_ARGS__);                                                    \
    }

/* For the cases 0, 1 and 2 which elements' top two bits are equal to it, as bits with the
 * first one highest, side by side. */
enum { CHUNK = 512 };

/* The lowest bits of eight bytes, that of the first one highest. */
static u8 lowest_bits(u64 bytes) {
    return (u8)((bytes & 0x0101010101010101) * 0x8040201008040201 >> 56);
}

EXPORT void ditto_top_planes(i64 bytes, const void *x, i64 count, i64 bits, u8 *out) {
    const i64 size = (count + 7) / 8;
    u8 *zero = out, *one = out + size, *two = one + size;
    for (i64 start = 0; start < count; start += CHUNK) {
        const i64 some = count - start < CHUNK ? count - start : CHUNK;
        const u8 *from = (const u8 *)x + start * bytes;
        u8 tops[CHUNK];
        memset(tops, 3, sizeof tops); /* no plane has what is beyond the end */
        BY_SIZE(bytes, tops, (const void *)from, some, bits - 2, tops)
        for (i64 i = 0; i < some; i += 8) {
            u64 low, high;
            memcpy(&low, tops + i, 8);
            high = low >> 1;
            *zero++ = lowest_bits(~(low | high));
            *one++ = lowest_bits(low & ~high);
            *two++ = lowest_bits(high & ~low);
        }
    }
}

/* The bits at which a share of three planes, and of their XOR or its complement, is 1 at
 * the place 2 - top mod 4 of every element: 0 picks plane 2, 1 picks 1, 2 picks 0. */
EXPORT void ditto_pick_planes(const u8 *tops, i64 count, const u8 *held, i64 invert,
                              u8 *out) {
    const i64 size = (count + 7) / 8;
    const u8 *top0 = tops, *top1 = tops + size, *top2 = top1 + size;
    const u8 *zero = held, *one = held + size, *two = one + size;
    const u8 all = invert ? 0xff : 0;
    for (i64 i = 0; i < size; i++) {
        const u8 three = (u8)(zero[i] ^ one[i] ^ two[i] ^ all);
        const u8 top3 = (u8)~(top0[i] | top1[i] | top2[i]);
        out[i] = (u8)((zero[i] & top2[i]) ^ (one[i] & top1[i]) ^ (two[i] & top0[i]) ^
                      (three & top3));
    }
    if (count % 8) out[size - 1] &= (u8)(0xff00 >> count % 8);
}

static u64 big_endian(const u8 *x) {
    u64 word;
    memcpy(&word, x, 8);
    return __builtin_bswap64(word);
}

/* Which of 40 windows of a random string have an odd number of bits in common with the
 * flags: ``flags`` has ``size`` bytes, a multiple of eight, and ``string`` eight more. */
FAST EXPORT u64 ditto_fold(const u8 *flags, const u8 *string, i64 size) {
    u64 common[40] = {0};
    for (i64 i = 0; i < size; i += 8) {
        const u64 set = big_endian(flags + i);
        const u64 first = big_endian(string + i), second = big_endian(string + i + 8);
        common[0] ^= set & first;
        for (int j = 1; j < 40; j++)
            common[j] ^= set & (first << j | second >> (64 - j));
    }
    u64 word = 0;
    for (int shift = 0; shift < 8; shift++)
        for (int start = 0; start < 5; start++)
            word = 2 * word + (u64)__builtin_parityll(common[8 * start + shift]);
    return word;
}

EXPORT void ditto_terms(i64 bytes, const void *bits, i64 groups, i64 size, int is_p1,
                        void *rest, void *out) {
    BY_SIZE(bytes, terms, bits, groups, size, is_p1, rest, out)
}

EXPORT void ditto_row_dots(i64 bytes, const void *x, const void *y, i64 rows, i64 length,
                           void *out) {
    BY_SIZE(bytes, dots, x, y, rows, length, out)
}
