/* Sums over rows in a Galois ring of words of 32 bits: ditto/audit/rows.py, bit for bit.
 *
 * An element is ``vectors`` vectors of 16 words, filled up with zeros. The weight of a row
 * is a coin, a bit for each word, highest first in its bytes, times a power of two.
 */
#include <string.h>

#include "words.h"
#if defined(__GNUC__) && !defined(__clang__)
#define WIDE __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define WIDE
#endif
#define INLINE static inline __attribute__((always_inline))

typedef u32 vec __attribute__((vector_size(64), aligned(4), may_alias));
enum {
    LANES = 16,
    ROWS = 128, /* whose weights stay near, while one sum after the other is made */
    MOST = 4,   /* vectors of an element */
};

static i64 least(i64 a, i64 b) { return a < b ? a : b; }

/* The coins of some rows as masks: a word is all ones where the coin is one. */
INLINE void coins(const u8 *bits, i64 rows, const int V, vec *out) {
    const vec places = {1u << 15, 1u << 14, 1u << 13, 1u << 12, 1u << 11, 1u << 10,
                        1u << 9,  1u << 8,  1u << 7,  1u << 6,  1u << 5,  1u << 4,
                        1u << 3,  1u << 2,  1u << 1,  1u};
    for (i64 i = 0; i < rows * V; i++, bits += 2)
        out[i] = (vec)((places & ((u32)bits[0] << 8 | bits[1])) != 0);
}

/* out[a] += the sum over rows of words[row, a] times the weight of the row. */
INLINE void sums(const u32 *words, i64 columns, const u8 *bits, const u8 *shifts, i64 rows,
                 const int V, vec *out) {
    _Alignas(64) vec masks[ROWS * MOST];
    for (i64 r = 0; r < rows; r += ROWS) {
        const i64 here = least(ROWS, rows - r);
        coins(bits + 2 * V * r, here, V, masks);
        for (i64 a = 0; a < columns; a++) {
            vec sum[MOST];
            for (int q = 0; q < V; q++) sum[q] = out[V * a + q];
            for (i64 i = 0; i < here; i++) {
                const u32 word = words[(r + i) * columns + a] << shifts[r + i];
                for (int q = 0; q < V; q++) sum[q] += masks[V * i + q] & word;
            }
            for (int q = 0; q < V; q++) out[V * a + q] = sum[q];
        }
    }
}

/* out[row] += the sum over columns of words[row, column] times the coin of the column. */
enum { HIGH = 4 }; /* rows at a time: what the registers hold */
INLINE void combined(const u32 *words, i64 stride, i64 rows, const u8 *bits, i64 columns,
                     const int V, vec *out) {
    _Alignas(64) vec masks[ROWS * MOST];
    for (i64 c = 0; c < columns; c += ROWS) {
        const i64 here = least(ROWS, columns - c);
        coins(bits + 2 * V * c, here, V, masks);
        for (i64 r = 0; r < rows; r += HIGH) {
            const u32 *at[HIGH];
            vec sum[HIGH * MOST];
            for (int h = 0; h < HIGH; h++) {
                at[h] = words + least(r + h, rows - 1) * stride + c;
                for (int q = 0; q < V; q++) sum[V * h + q] = (vec){0};
            }
            for (i64 i = 0; i < here; i++)
#pragma GCC unroll 4
                for (int h = 0; h < HIGH; h++)
#pragma GCC unroll 4
                    for (int q = 0; q < V; q++)
                        sum[V * h + q] += masks[V * i + q] & at[h][i];
            for (int h = 0; h < least(HIGH, rows - r); h++)
                for (int q = 0; q < V; q++) out[V * (r + h) + q] += sum[V * h + q];
        }
    }
}

/* out[j, k, x, y] += the sum of the weights of rows that have x at j of u, y at k of v. */
INLINE void pairs(const u8 *u, const u8 *v, i64 places, i64 of_u, i64 of_v, const u8 *bits,
                  const u8 *shifts, i64 rows, const int V, vec *out) {
    _Alignas(64) vec weights[ROWS * MOST];
    for (i64 r = 0; r < rows; r += ROWS, u += ROWS * places, v += ROWS * places) {
        const i64 here = least(ROWS, rows - r);
        coins(bits + 2 * V * r, here, V, weights);
        for (i64 i = 0; i < here; i++)
            for (int q = 0; q < V; q++) weights[V * i + q] &= 1u << shifts[r + i];
        for (i64 j = 0; j < places; j++)
            for (i64 k = 0; k < places; k++) {
                vec *to = out + V * of_u * of_v * (j * places + k);
                for (i64 i = 0; i < here; i++) {
                    vec *at = to + V * (u[i * places + j] * of_v + v[i * places + k]);
                    for (int q = 0; q < V; q++) at[q] += weights[V * i + q];
                }
            }
    }
}

/* out[j, k, y, s] += the sum of words[row, j, s] times its weight over the rows that have
 * y at k. */
enum { SIZE = 2 };
INLINE void picked(const u32 *words, const u8 *cells, i64 places, i64 columns, i64 values,
                   const u8 *bits, const u8 *shifts, i64 rows, const int V, vec *out) {
    _Alignas(64) vec masks[ROWS * MOST];
    u32 shifted[ROWS * SIZE];
    for (i64 r = 0; r < rows; r += ROWS, cells += ROWS * columns) {
        const i64 here = least(ROWS, rows - r);
        coins(bits + 2 * V * r, here, V, masks);
        for (i64 j = 0; j < places; j++) {
            for (i64 i = 0; i < here; i++)
                for (int s = 0; s < SIZE; s++)
                    shifted[i * SIZE + s] = words[((r + i) * places + j) * SIZE + s]
                                            << shifts[r + i];
            for (i64 k = 0; k < columns; k++) {
                vec *to = out + SIZE * V * values * (j * columns + k);
                for (i64 i = 0; i < here; i++) {
                    vec *at = to + SIZE * V * cells[i * columns + k];
                    for (int s = 0; s < SIZE; s++)
                        for (int q = 0; q < V; q++)
                            at[s * V + q] += masks[V * i + q] & shifted[i * SIZE + s];
                }
            }
        }
    }
}

/* out[row] = the sum over k of table[k, cells[row, k]]. */
INLINE void looked_up(const vec *table, i64 columns, i64 values, const u8 *cells, i64 rows,
                      const int V, i64 degree, u32 *out) {
    for (i64 r = 0; r < rows; r++, cells += columns, out += degree) {
        vec sum[MOST];
        memset(sum, 0, sizeof sum);
        for (i64 k = 0; k < columns; k++) {
            const vec *at = table + V * (k * values + cells[k]);
            for (int q = 0; q < V; q++) sum[q] += at[q];
        }
        memcpy(out, sum, degree * sizeof *out);
    }
}

/* Modulo the polynomial: X^(d + i) is minus the lower terms times X^i. */
INLINE void reduced(u32 *x, i64 degree, const i64 *lower, i64 count) {
    i64 size = 2 * degree - 1;
    while (size > degree) {
        const i64 left = size - degree, vectors = (left + LANES - 1) / LANES;
        vec high[MOST];
        memset(high, 0, sizeof high);
        memcpy(high, x + degree, left * sizeof *x);
        memset(x + degree, 0, left * sizeof *x);
        for (i64 e = 0; e < count; e++)
            for (i64 q = 0; q < vectors; q++) *(vec *)(x + lower[e] + q * LANES) -= high[q];
        size = lower[count - 1] + left > degree ? lower[count - 1] + left : degree;
    }
}

/* Elements times elements, or times the weights of their rows. */
INLINE void times(const u32 *x, const u32 *y, const u8 *bits, const u8 *shifts, i64 rows,
                  const int V, i64 degree, const i64 *lower, i64 count, u32 *out) {
    u32 padded[3 * MOST * LANES] = {0}, product[(2 * MOST + 2) * LANES];
    const u32 *middle = padded + V * LANES;
    for (i64 r = 0; r < rows; r++, x += degree, out += degree) {
        vec sum[2 * MOST];
        memset(sum, 0, sizeof sum);
        memcpy(padded + V * LANES, x, degree * sizeof *x);
        if (y != NULL)
            for (i64 i = 0; i < degree; i++)
                for (int q = 0; q < 2 * V; q++)
                    sum[q] += *(const vec *)(middle + q * LANES - i) * y[r * degree + i];
        else {
            u64 coin = 0;
            for (int b = 0; b < 2 * V; b++) coin = coin << 8 | bits[r * 2 * V + b];
            coin <<= 64 - LANES * V;
            while (coin) {
                const int i = __builtin_clzll(coin);
                coin &= ~(1ull << 63 >> i);
                for (int q = 0; q < 2 * V; q++)
                    sum[q] += *(const vec *)(middle + q * LANES - i);
            }
            for (int q = 0; q < 2 * V; q++) sum[q] <<= (u32)shifts[r];
        }
        memset(product, 0, sizeof product);
        memcpy(product, sum, 2 * V * sizeof *sum);
        reduced(product, degree, lower, count);
        memcpy(out, product, degree * sizeof *out);
    }
}

#define FOR(call)                                                                        \
    switch (vectors) {                                                                   \
    case 1: call(1); break;                                                              \
    case 2: call(2); break;                                                              \
    case 3: call(3); break;                                                              \
    default: call(4);                                                                    \
    }

EXPORT WIDE void ditto_ring_sums(const u32 *words, i64 columns, const u8 *bits,
                                 const u8 *shifts, i64 rows, i64 vectors, u32 *out) {
#define CALL(V) sums(words, columns, bits, shifts, rows, V, (vec *)out)
    FOR(CALL)
#undef CALL
}

EXPORT WIDE void ditto_ring_combined(const u32 *words, i64 stride, i64 rows,
                                     const u8 *bits, i64 columns, i64 vectors,
                                     u32 *out) {
#define CALL(V) combined(words, stride, rows, bits, columns, V, (vec *)out)
    FOR(CALL)
#undef CALL
}

EXPORT WIDE void ditto_ring_pairs(const u8 *u, const u8 *v, i64 places, i64 of_u, i64 of_v,
                                  const u8 *bits, const u8 *shifts, i64 rows, i64 vectors,
                                  u32 *out) {
#define CALL(V) pairs(u, v, places, of_u, of_v, bits, shifts, rows, V, (vec *)out)
    FOR(CALL)
#undef CALL
}

/* Of two words at each place. */
EXPORT WIDE void ditto_ring_picked(const u32 *words, const u8 *cells, i64 places,
                                   i64 columns, i64 values, const u8 *bits,
                                   const u8 *shifts, i64 rows, i64 vectors, u32 *out) {
#define CALL(V)                                                                          \
    picked(words, cells, places, columns, values, bits, shifts, rows, V, (vec *)out)
    FOR(CALL)
#undef CALL
}

EXPORT WIDE void ditto_ring_looked_up(const u32 *table, i64 columns, i64 values,
                                      const u8 *cells, i64 rows, i64 vectors, i64 degree,
                                      u32 *out) {
#define CALL(V)                                                                          \
    looked_up((const vec *)table, columns, values, cells, rows, V, degree, out)
    FOR(CALL)
#undef CALL
}

/* y, or the weights of the rows if it is NULL. */
EXPORT WIDE void ditto_ring_times(const u32 *x, const u32 *y, const u8 *bits,
                                  const u8 *shifts, i64 rows, i64 vectors, i64 degree,
                                  const i64 *lower, i64 count, u32 *out) {
#define CALL(V) times(x, y, bits, shifts, rows, V, degree, lower, count, out)
    FOR(CALL)
#undef CALL
}
