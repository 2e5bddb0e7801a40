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
#define AES __attribute__((target("aes,avx2")))
#define INLINE static inline __attribute__((always_inline, target("aes,avx2")))

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

/* G of the seeds of ``lanes`` nodes: AES(seed) ^ seed. */
INLINE void generate(const Keys *keys, const __m128i *node, __m128i *made, int lanes) {
    for (int j = 0; j < lanes; j++) made[j] = seed_of(node[j]);
    encrypt(keys, made, lanes);
    for (int j = 0; j < lanes; j++) made[j] = _mm_xor_si128(made[j], seed_of(node[j]));
}

typedef struct {
    i64 leaves, levels, bits, side;
    const u8 *left, *right, *leaf, *second, *third; /* schedules */
} Tree;

/* The children of ``lanes`` nodes from number i on, in their place. */
INLINE void grow(const Keys *left, const Keys *right, __m128i fix_left, __m128i fix_right,
                 __m128i *out, i64 i, int lanes) {
    __m128i node[LANES], a[LANES], b[LANES];
    for (int j = 0; j < lanes; j++) node[j] = out[i + j];
    generate(left, node, a, lanes);
    generate(right, node, b, lanes);
    for (int j = 0; j < lanes; j++) {
        const __m128i control = control_of(node[j]);
        out[2 * (i + j)] = _mm_xor_si128(a[j], _mm_and_si128(control, fix_left));
        out[2 * (i + j) + 1] = _mm_xor_si128(b[j], _mm_and_si128(control, fix_right));
    }
}

/* The children of some nodes, in their place. Some lanes may be of no node: their children
 * lie beyond the others. */
INLINE void grow_all(const Keys *left, const Keys *right, const u64 *seed, u64 control,
                     __m128i *out, i64 nodes) {
    const __m128i fix_left = _mm_loadu_si128((const __m128i *)seed);
    const __m128i fix_right =
        _mm_or_si128(seed_of(fix_left), _mm_set_epi64x(0, (i64)(control & 1)));
    if (nodes <= 2)
        grow(left, right, fix_left, fix_right, out, 0, 2);
    else if (nodes <= LANES / 2)
        grow(left, right, fix_left, fix_right, out, 0, LANES / 2);
    else /* from the last: children overwrite nodes */
        for (i64 i = (nodes - 1) / LANES * LANES; i >= 0; i -= LANES)
            grow(left, right, fix_left, fix_right, out, i, LANES);
}

INLINE __m128i rooted(const Tree *tree, __m128i root) {
    return _mm_or_si128(seed_of(root), _mm_set_epi64x(0, tree->side));
}

/* One point: its share of the vector, whole leaves of it, into ``out``, likewise. */
INLINE void expand(const Keys *left, const Keys *right, const Keys *leaf, const Tree *tree,
                   __m128i root, const u64 *seeds, const u64 *rights, __m128i last,
                   __m128i *out) {
    const __m128i zero = _mm_setzero_si128();
    out[0] = rooted(tree, root);
    i64 nodes = 1;
    for (i64 level = 0; level < tree->levels; level++) {
        grow_all(left, right, seeds + 2 * level, rights[level], out, nodes);
        nodes = ((tree->leaves - 1) >> (tree->levels - level - 1)) + 1;
    }
    for (i64 i = 0; i < tree->leaves; i += LANES) {
        __m128i made[LANES];
        generate(leaf, out + i, made, LANES);
        for (int j = 0; j < LANES; j++) {
            const __m128i more = _mm_and_si128(control_of(out[i + j]), last);
            __m128i share;
            if (tree->bits == 32) {
                share = _mm_add_epi32(made[j], more);
                if (tree->side) share = _mm_sub_epi32(zero, share);
            } else {
                share = _mm_add_epi64(made[j], more);
                if (tree->side) share = _mm_sub_epi64(zero, share);
            }
            out[i + j] = share;
        }
    }
}

/* Nodes of the last level and two more, one for each level, and lanes with their
 * children. */
static __m128i *room_for(const Tree *tree) {
    return calloc((size_t)(tree->leaves + tree->levels + 4 + 2 * LANES), 16);
}

/* All points' shares of their vectors, (count, depth) elements. 0, or 1 without memory. */
AES EXPORT int ditto_points_expand(const Tree *tree, i64 count, i64 depth, const u64 *roots,
                                   const u64 *seeds, const u64 *rights, const u64 *last,
                                   u8 *out) {
    const Keys left = load_keys(tree->left), right = load_keys(tree->right);
    const Keys leaf = load_keys(tree->leaf);
    __m128i *room = room_for(tree);
    if (!room) return 1;
    const size_t row = (size_t)(depth * tree->bits / 8);
    for (i64 n = 0; n < count; n++) {
        const i64 at = n * tree->levels;
        expand(&left, &right, &leaf, tree, _mm_loadu_si128((const __m128i *)roots + n),
               seeds + 2 * at, rights + at, _mm_loadu_si128((const __m128i *)last + n),
               room);
        memcpy(out + (size_t)n * row, room, row);
    }
    free(room);
    return 0;
}

#if defined(__clang__)
#define WIDE "avx512f,avx512dq,avx512vl"
#else
#define WIDE "avx512f,avx512dq,avx512vl,prefer-vector-width=512"
#endif
#define DOT(name, features)                                                              \
    __attribute__((target(features))) static u64 name(const u64 *x, const u64 *y,        \
                                                      i64 length) {                      \
        u64 total = 0;                                                                   \
        for (i64 i = 0; i < length; i++) total += x[i] * y[i];                           \
        return total;                                                                    \
    }
DOT(dot_avx2, "avx2")
DOT(dot_avx512, WIDE)
#undef DOT

enum { WORDS = 3, AT_ONCE = 16 * LANES }; /* words of a payload; leaves at once */

/* One point: ``count`` leaves from number ``leaf`` on, which count around, somewhere in
 * ``out``. On every level it grows as many nodes, wherever they are: how long that takes
 * tells nothing of the leaf. There are two of a root, or of few nodes, to count around. */
INLINE __m128i *window(const Keys *left, const Keys *right, const Tree *tree, __m128i root,
                       const u64 *seeds, const u64 *rights, i64 leaf, i64 count,
                       __m128i *out) {
    i64 first = 0;
    out[0] = out[1] = rooted(tree, root);
    for (i64 level = 0; level < tree->levels; level++) {
        const i64 below = tree->levels - level;
        grow_all(left, right, seeds + 2 * level, rights[level], out,
                 ((count - 1) >> below) + 2);
        const i64 next = leaf >> (below - 1);
        out += next - 2 * first;
        first = next;
    }
    return out;
}

/* Shares of vectors of ``depth`` elements of three words (ditto/sharing/payloads.py), each
 * times a table of ``columns`` that is read from a number for each point: element i times
 * column i + turn, modulo the depth, if there is one. ``table`` has ``rows``, multiplied by
 * word ``words[k]`` of the vector, each with a zero before it and two behind; ``last`` has
 * six words a point, and ``out`` is (count, rows). A leaf is two elements; leaves are a
 * power of two. ``wide``: the processor has AVX-512. */
AES EXPORT int ditto_points_windows(const Tree *tree, i64 count, i64 depth,
                                    const u64 *roots, const u64 *seeds, const u64 *rights,
                                    const u64 *last, i64 wide, const u64 *table, i64 rows,
                                    i64 columns, const i64 *words, const u32 *turns,
                                    u64 *out) {
    const Keys left = load_keys(tree->left), right = load_keys(tree->right);
    const Keys keys[WORDS] = {load_keys(tree->leaf), load_keys(tree->second),
                              load_keys(tree->third)};
    u64 (*dot)(const u64 *, const u64 *, i64) = wide ? dot_avx512 : dot_avx2;
    const i64 leaves = columns / 2 + 1; /* that have all columns, wherever they begin */
    __m128i *room = room_for(tree);
    if (!room) return 1;
    __m128i share[WORDS][AT_ONCE]; /* of each word, for the elements of some leaves */
    for (i64 n = 0; n < count; n++) {
        const i64 at = n * tree->levels, low = (depth - turns[n]) % depth;
        const __m128i *const nodes =
            window(&left, &right, tree, _mm_loadu_si128((const __m128i *)roots + n),
                   seeds + 2 * at, rights + at, low / 2, leaves, room);
        u64 *const total = out + n * rows;
        for (i64 k = 0; k < rows; k++) total[k] = 0;
        for (i64 from = 0; from < leaves; from += AT_ONCE) {
            const i64 here = leaves - from < AT_ONCE ? leaves - from : AT_ONCE;
            for (i64 i = 0; i < here; i += LANES) {
                const __m128i *node = nodes + from + i;
                for (int w = 0; w < WORDS; w++) {
                    const __m128i fix =
                        _mm_loadu_si128((const __m128i *)last + WORDS * n + w);
                    __m128i made[LANES];
                    generate(keys + w, node, made, LANES);
                    for (int j = 0; j < LANES; j++)
                        share[w][i + j] = _mm_add_epi64(
                            made[j], _mm_and_si128(control_of(node[j]), fix));
                }
            }
            for (i64 k = 0; k < rows; k++) /* the first leaf may have an element before them */
                total[k] += dot((const u64 *)share[words[k]],
                                table + k * (columns + 3) + 1 - (low & 1) + 2 * from,
                                2 * here);
        }
        if (tree->side)
            for (i64 k = 0; k < rows; k++) total[k] = 0 - total[k];
    }
    free(room);
    return 0;
}
