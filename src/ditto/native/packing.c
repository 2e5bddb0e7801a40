/* Integers of any width as bytes, and back: the format of ditto/sharing/packing.py.
 *
 * A width is cut into planes of 8, 4, 2 and 1 bits. A plane of w bits puts 8/w segments
 * of the array side by side in each byte; the array counts as padded with zeros.
 */
#include "words.h"

static i64 next_plane(i64 left) { return left >= 8 ? 8 : left >= 4 ? 4 : left >= 2 ? 2 : 1; }
static i64 within(i64 count, i64 from, i64 size) {
    i64 left = count - from;
    return left < 0 ? 0 : left < size ? left : size;
}

#define DEFINE(word)                                                                     \
    FAST static void pack_##word(const word *x, i64 count, i64 padded, i64 width, u8 *out) {  \
        for (i64 shift = 0, plane; shift < width; shift += plane) {                      \
            plane = next_plane(width - shift);                                           \
            const i64 segments = 8 / plane, size = padded / segments;                    \
            const u8 mask = (u8)((1 << plane) - 1);                                      \
            const i64 first = within(count, 0, size);                                    \
            for (i64 i = 0; i < first; i++) out[i] = (u8)(x[i] >> shift) & mask;         \
            for (i64 i = first; i < size; i++) out[i] = 0;                               \
            for (i64 s = 1; s < segments; s++) {                                         \
                const word *from = x + s * size;                                         \
                const i64 some = within(count, s * size, size), up = s * plane;          \
                for (i64 i = 0; i < some; i++)                                           \
                    out[i] |= (u8)(((u8)(from[i] >> shift) & mask) << up);               \
            }                                                                            \
            out += size;                                                                 \
        }                                                                                \
    }                                                                                    \
    FAST static void unpack_##word(const u8 *in, i64 count, i64 padded, i64 width, word *x) { \
        for (i64 shift = 0, plane; shift < width; shift += plane) {                      \
            plane = next_plane(width - shift);                                           \
            const i64 segments = 8 / plane, size = padded / segments;                    \
            const u8 mask = (u8)((1 << plane) - 1);                                      \
            for (i64 s = 0; s < segments; s++) {                                         \
                word *to = x + s * size;                                                 \
                const i64 some = within(count, s * size, size), down = s * plane;        \
                if (shift == 0)                                                          \
                    for (i64 i = 0; i < some; i++) to[i] = (in[i] >> down) & mask;       \
                else                                                                     \
                    for (i64 i = 0; i < some; i++)                                       \
                        to[i] |= (word)((word)((in[i] >> down) & mask) << shift);        \
            }                                                                            \
            in += size;                                                                  \
        }                                                                                \
    }

DEFINE(uint8_t)
DEFINE(uint16_t)
DEFINE(uint32_t)
DEFINE(uint64_t)

EXPORT void ditto_pack_bits(i64 bytes, const void *x, i64 count, i64 padded, i64 width,
                            u8 *out) {
    switch (bytes) {
    case 1: pack_uint8_t(x, count, padded, width, out); break;
    case 2: pack_uint16_t(x, count, padded, width, out); break;
    case 4: pack_uint32_t(x, count, padded, width, out); break;
    default: pack_uint64_t(x, count, padded, width, out);
    }
}

EXPORT void ditto_unpack_bits(i64 bytes, const u8 *in, i64 count, i64 padded, i64 width,
                              void *x) {
    switch (bytes) {
    case 1: unpack_uint8_t(in, count, padded, width, x); break;
    case 2: unpack_uint16_t(in, count, padded, width, x); break;
    case 4: unpack_uint32_t(in, count, padded, width, x); break;
    default: unpack_uint64_t(in, count, padded, width, x);
    }
}
