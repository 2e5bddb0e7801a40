/* AES-128 by the processor: masks (ditto/sharing/prf.py) and the trees of point functions
 * (ditto/sharing/points.py). Bit for bit what is done there without a C compiler.
 */
#include <immintrin.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

typedef int64_t i64;
typedef uint8_t u8;
typedef uint32_t u32;
typedef uint64_t u64;

#define EXPORT __attribute__((visibility("default")))
#define AES __attribute__((target("aes,sse4.1")))
#define INLINE static inline __attribute__((always_inline, target("aes,sse4.1")))

enum { ROUNDS = 10, LANES = 8 };
typedef struct {
    __m128i round[ROUNDS + 1];
} Keys;

INLINE __m128i next_round(__m128i key, __m128i assist) {
    assist = _mm_shuffle_epi32(assist, 0xff);
    key = _mm_xor_si128(key, _mm_slli_si128(key, 4));
    key = _mm_xor_si128(key, _mm_slli_si128(key, 4));
    key = _mm_xor_si128(key, _mm_slli_si128(key, 4));
    return _mm_xor_si128(key, assist);
}

/* The eleven round keys of a key of 16 bytes. */
AES EXPORT void ditto_aes_schedule(const u8 *key, u8 *out) {
    __m128i k = _mm_loadu_si128((const __m128i *)key);
    _mm_storeu_si128((__m128i *)out, k);
#define STEP(i, rcon)                                                                    \
    k = next_round(k, _mm_aeskeygenassist_si128(k, rcon));                               \
    _mm_storeu_si128((__m128i *)(out + 16 * (i)), k)
    STEP(1, 0x01); STEP(2, 0x02); STEP(3, 0x04); STEP(4, 0x08); STEP(5, 0x10);
    STEP(6, 0x20); STEP(7, 0x40); STEP(8, 0x80); STEP(9, 0x1b); STEP(10, 0x36);
#undef STEP
}

INLINE Keys load_keys(const u8 *schedule) {
    Keys keys;
    for (int r = 0; r <= ROUNDS; r++)
        keys.round[r] = _mm_loadu_si128((const __m128i *)(schedule + 16 * r));
    return keys;
}

INLINE void encrypt(const Keys *keys, __m128i *block, int count) {
    for (int i = 0; i < count; i++) block[i] = _mm_xor_si128(block[i], keys->round[0]);
    for (int r = 1; r < ROUNDS; r++)
        for (int i = 0; i < count; i++) block[i] = _mm_aesenc_si128(block[i], keys->round[r]);
    for (int i = 0; i < count; i++)
        block[i] = _mm_aesenclast_si128(block[i], keys->round[ROUNDS]);
}

/* Bytes of the stream at a name of 10 bytes, each 8 of them AND ``kept``: blocks are the
 * name and a number of 6 bytes, most significant first. */
AES EXPORT void ditto_aes_stream(const u8 *schedule, const u8 *name, u64 kept, i64 size,
                                 u8 *out) {
    const Keys keys = load_keys(schedule);
    const __m128i mask = _mm_set1_epi64x((i64)kept);
    u64 low = 0, high;
    memcpy(&high, name, 8);
    u8 tail[8] = {name[8], name[9], 0, 0, 0, 0, 0, 0};
    memcpy(&low, tail, 8);
    u64 number = 0;
    while (size > 0) {
        __m128i block[LANES];
        for (int i = 0; i < LANES; i++, number++)
            block[i] = _mm_set_epi64x((i64)(low | __builtin_bswap64(number)), (i64)high);
        encrypt(&keys, block, LANES);
        for (int i = 0; i < LANES; i++) block[i] = _mm_and_si128(block[i], mask);
        if (size >= 16 * LANES) {
            for (int i = 0; i < LANES; i++) _mm_storeu_si128((__m128i *)out + i, block[i]);
        } else {
            memcpy(out, block, (size_t)size);
        }
        out += 16 * LANES;
        size -= 16 * LANES;
    }
}

/* Point functions. A node is a block: a seed and, as its lowest bit, a control bit. */

/* All ones if it is set. */
INLINE __m128i control_of(__m128i node) {
    const __m128i low = _mm_and_si128(node, _mm_set_epi64x(0, 1));
    return _mm_sub_epi64(_mm_setzero_si128(), _mm_unpacklo_epi64(low, low));
}
INLINE __m128i seed_of(__m128i node) { return _mm_andnot_si128(_mm_set_epi64x(0, 1), node); }

/* G of every seed: AES(seed) ^ seed; ``made`` and ``seeds`` may be the same. */
INLINE void generate(const Keys *keys, const __m128i *seeds, __m128i *made, i64 count) {
    i64 i = 0;
    for (; i < count; i += LANES) {
        const int some = count - i < LANES ? (int)(count - i) : LANES;
        __m128i block[LANES], kept[LANES];
        for (int j = 0; j < LANES; j++)
            kept[j] = block[j] = j < some ? seeds[i + j] : _mm_setzero_si128();
        if (some == LANES)
            encrypt(keys, block, LANES);
        else if (some > 2)
            encrypt(keys, block, LANES / 2 < some ? LANES : LANES / 2);
        else
            encrypt(keys, block, 2);
        for (int j = 0; j < some; j++) made[i + j] = _mm_xor_si128(block[j], kept[j]);
    }
}

typedef struct {
    i64 leaves, levels, bits, side;
    const u8 *left, *right, *leaf, *more; /* schedules; the last one of payloads alone */
} Tree;

/* One point: its nodes above the leaves into ``out``, which has room for twice as many
 * blocks, and their seeds into ``seed``. */
INLINE void walk(const Keys *left, const Keys *right, const Tree *tree, __m128i root,
                 const u64 *seeds, const u64 *rights, __m128i *out, __m128i *seed,
                 __m128i *half) {
    out[0] = _mm_or_si128(seed_of(root), _mm_set_epi64x(0, tree->side));
    i64 nodes = 1;
    for (i64 level = 0; level < tree->levels; level++) {
        const i64 kept = ((tree->leaves - 1) >> (tree->levels - level - 1)) + 1;
        const __m128i fix_left = _mm_loadu_si128((const __m128i *)(seeds + 2 * level));
        const __m128i fix_right = _mm_or_si128(
            seed_of(fix_left), _mm_set_epi64x(0, (i64)(rights[level] & 1)));
        for (i64 i = 0; i < nodes; i++) seed[i] = seed_of(out[i]);
        generate(left, seed, half, nodes);
        generate(right, seed, seed, nodes);
        for (i64 i = nodes; i-- > 0;) { /* from the last: children overwrite nodes */
            const __m128i control = control_of(out[i]);
            const __m128i a = _mm_xor_si128(half[i], _mm_and_si128(control, fix_left));
            const __m128i b = _mm_xor_si128(seed[i], _mm_and_si128(control, fix_right));
            out[2 * i + 1] = b; /* of the last node it may lie beyond the vector */
            out[2 * i] = a;
        }
        nodes = kept;
    }
    for (i64 i = 0; i < nodes; i++) seed[i] = seed_of(out[i]);
}

/* One point: its share of the vector, whole leaves of it, into ``out``, likewise. */
INLINE void expand(const Keys *left, const Keys *right, const Keys *leaf, const Tree *tree,
                   __m128i root, const u64 *seeds, const u64 *rights, __m128i last,
                   __m128i *out, __m128i *seed, __m128i *half) {
    walk(left, right, tree, root, seeds, rights, out, seed, half);
    generate(leaf, seed, seed, tree->leaves);
    for (i64 i = 0; i < tree->leaves; i++) {
        const __m128i more = _mm_and_si128(control_of(out[i]), last);
        __m128i share;
        if (tree->bits == 32) {
            share = _mm_add_epi32(seed[i], more);
            if (tree->side) share = _mm_sub_epi32(_mm_setzero_si128(), share);
        } else {
            share = _mm_add_epi64(seed[i], more);
            if (tree->side) share = _mm_sub_epi64(_mm_setzero_si128(), share);
        }
        out[i] = share;
    }
}

static __m128i *room_for(i64 leaves) { /* nodes of a level and twice their children */
    return aligned_alloc(64, (size_t)(leaves + LANES) * 4 * 16);
}

/* All points' shares of their vectors, (count, depth) elements. 0, or 1 without memory. */
AES EXPORT int ditto_points_expand(const Tree *tree, i64 count, i64 depth, const u64 *roots,
                                   const u64 *seeds, const u64 *rights, const u64 *last,
                                   u8 *out) {
    const Keys left = load_keys(tree->left), right = load_keys(tree->right);
    const Keys leaf = load_keys(tree->leaf);
    __m128i *room = room_for(tree->leaves);
    if (!room) return 1;
    __m128i *seed = room + 2 * (tree->leaves + LANES), *half = seed + tree->leaves + LANES;
    const size_t row = (size_t)(depth * tree->bits / 8);
    for (i64 n = 0; n < count; n++) {
        const i64 at = n * tree->levels;
        expand(&left, &right, &leaf, tree, _mm_loadu_si128((const __m128i *)roots + n),
               seeds + 2 * at, rights + at, _mm_loadu_si128((const __m128i *)last + n), room,
               seed, half);
        memcpy(out + (size_t)n * row, room, row);
    }
    free(room);
    return 0;
}

__attribute__((target("avx2"))) static u64 dot(const u64 *x, const u64 *y, i64 length) {
    u64 total = 0;
    for (i64 i = 0; i < length; i++) total += x[i] * y[i];
    return total;
}

/* Shares of vectors of three words an element (ditto/sharing/payloads.py), each times a
 * table that is rotated by a number for each point: ``table`` has ``columns`` rows of
 * 2 * depth words, multiplied by word ``words[k]`` of the vector; ``last`` has three words
 * a point, and ``out`` is (count, columns). */
AES EXPORT int ditto_points_products(const Tree *tree, i64 count, i64 depth,
                                     const u64 *roots, const u64 *seeds, const u64 *rights,
                                     const u64 *last, const u64 *table, i64 columns,
                                     const i64 *words, const u32 *turns, u64 *out) {
    const Keys left = load_keys(tree->left), right = load_keys(tree->right);
    const Keys leaf = load_keys(tree->leaf), more = load_keys(tree->more);
    __m128i *room = room_for(tree->leaves);
    u64 *share = malloc((size_t)(3 * depth) * sizeof *share);
    if (!room || !share) {
        free(room);
        free(share);
        return 1;
    }
    __m128i *seed = room + 2 * (tree->leaves + LANES), *half = seed + tree->leaves + LANES;
    for (i64 n = 0; n < count; n++) {
        const i64 at = n * tree->levels;
        walk(&left, &right, tree, _mm_loadu_si128((const __m128i *)roots + n),
             seeds + 2 * at, rights + at, room, seed, half);
        generate(&leaf, seed, half, depth);
        generate(&more, seed, seed, depth);
        for (i64 i = 0; i < depth; i++) {
            const u64 control = 0 - ((u64)_mm_cvtsi128_si64(room[i]) & 1);
            const u64 words_here[3] = {(u64)_mm_cvtsi128_si64(half[i]),
                                       (u64)_mm_extract_epi64(half[i], 1),
                                       (u64)_mm_cvtsi128_si64(seed[i])};
            for (int w = 0; w < 3; w++) {
                const u64 x = words_here[w] + (control & last[3 * n + w]);
                share[w * depth + i] = tree->side ? 0 - x : x;
            }
        }
        for (i64 k = 0; k < columns; k++)
            out[n * columns + k] =
                dot(share + words[k] * depth, table + 2 * k * depth + turns[n], depth);
    }
    free(share);
    free(room);
    return 0;
}
