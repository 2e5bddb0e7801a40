/* What a recast computes of each element, in one pass: ditto/protocols/recast.py, bit for
 * bit. Words of 1, 2, 4 or 8 bytes go in and out.
 */
#include "words.h"

#define DEFINE(in, out)                                                                  \
    FAST static void shift_##in##_##out(const in *x, i64 count, i64 cut, out constant,        \
                                   out kept, out *result) {                              \
        for (i64 i = 0; i < count; i++)                                                  \
            result[i] = (out)((out)((out)(x[i] >> cut) + constant) & kept);              \
    }                                                                                    \
    FAST static void clear_##in##_##out(const in *x, i64 count, i64 top, out *result) {       \
        for (i64 i = 0; i < count; i++) result[i] = (out)((x[i] >> top & 1) ^ 1);        \
    }                                                                                    \
    FAST static void carry_##in##_##out(const out *share, const in *carry, i64 count, i64 up, \
                                   out kept, out *result) {                              \
        for (i64 i = 0; i < count; i++)                                                  \
            result[i] = (out)((out)(share[i] + (out)((out)carry[i] << up)) & kept);      \
    }
#define DEFINE_ALL(in) DEFINE(in, u8) DEFINE(in, u16) DEFINE(in, u32) DEFINE(in, u64)
DEFINE_ALL(u8)
DEFINE_ALL(u16)
DEFINE_ALL(u32)
DEFINE_ALL(u64)

#define TO(bytes, name, in, ...)                                                         \
    switch (bytes) {                                                                     \
    case 1: name##_##in##_u8(__VA_ARGS__); break;                                        \
    case 2: name##_##in##_u16(__VA_ARGS__); break;                                       \
    case 4: name##_##in##_u32(__VA_ARGS__); break;                                       \
    default: name##_##in##_u64(__VA_ARGS__);                                             \
    }
#define FROM_TO(from, to, name, ...)                                                     \
    switch (from) {                                                                      \
    case 1: TO(to, name, u8, __VA_ARGS__) break;                                         \
    case 2: TO(to, name, u16, __VA_ARGS__) break;                                        \
    case 4: TO(to, name, u32, __VA_ARGS__) break;                                        \
    default: TO(to, name, u64, __VA_ARGS__)                                              \
    }

/* (x >> cut) + constant, modulo a power of two. */
EXPORT void ditto_shift(i64 from, i64 to, const void *x, i64 count, i64 cut, u64 constant,
                        u64 kept, void *result) {
    FROM_TO(from, to, shift, x, count, cut, constant, kept, result)
}

/* Whether bit ``top`` is not set. */
EXPORT void ditto_top_clear(i64 from, i64 to, const void *x, i64 count, i64 top,
                            void *result) {
    FROM_TO(from, to, clear, x, count, top, result)
}

/* share + (carry << up), modulo a power of two. */
EXPORT void ditto_add_carry(i64 from, i64 to, const void *share, const void *carry,
                            i64 count, i64 up, u64 kept, void *result) {
    FROM_TO(from, to, carry, share, carry, count, up, kept, result)
}
