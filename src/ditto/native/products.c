/* Products of matrices modulo 2^32, exact: Z = X W, or Z = X0 W0 + X1 W1, batched.
 *
 * Three levels, of which the caller chooses one that the machine has:
 *
 *   AMX   a word is four bytes, so a product is 16 products of byte planes, of which the
 *         10 with i + j < 4 matter modulo 2^32. TDPBUUD adds products of unsigned bytes
 *         to 32 bits and wraps; it never saturates.
 *   VNNI  a word is x1 2^16 + x0 with x0 signed. Of four products three matter:
 *         x0 w0 + 2^16 (x0 w1 + x1 w0). VPDPWSSD adds products of two pairs of signed
 *         halves, of words k and k + 1 here, and wraps.
 *   AVX2  VPMULLD and VPADDD on whole words.
 *
 * W is packed into panels of 16 columns, once for weights (ditto_pack) and on the way for
 * everything else. Threads are started for a call and joined at its end: nothing spins
 * beside the two other parties of a machine, and a fork is safe.
 */
#include <immintrin.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#ifdef TILES /* in tests, on machines that have none */
#include TILES
#endif

typedef uint32_t u32;
typedef int64_t i64;

enum { AVX2 = 1, VNNI = 2, AMX = 3 };
enum {
    COLUMNS = 16,      /* of a panel */
    ROWS = 6,          /* of a block in AVX2 and VNNI: what the registers hold */
    TILE_ROWS = 16,    /* of a block in AMX */
    TILE_DEPTH = 64,   /* bytes in a row of a tile */
    PLANE = 1024,      /* bytes of a tile */
    PAIR = 8,          /* bytes of two words as their low and their high halves */
    WORD_TILES = 4096, /* bytes of the four planes of a tile of words */
    CHUNK = 12,        /* tiles of W that stay in L1 while all rows pass over them */
    DEEP = 512,        /* steps of W for which all rows of X stay in L2 */
    MOST_THREADS = 64,
};
static const double WORTH_A_THREAD = 1.2e7; /* multiplications, by trial */

#define API __attribute__((visibility("default")))
#define FOR_AMX __attribute__((target("avx512f,avx512bw,avx512vl,amx-tile,amx-int8")))
#define FOR_VNNI __attribute__((target("avx512f,avx512bw,avx512vl,avx512vnni")))
/* gcc's -O3 would carry what it loads from one turn of a loop to the next, which spills */
#ifdef __clang__
#define WITHOUT_SPILLS
#else
#define WITHOUT_SPILLS __attribute__((optimize("no-tree-partial-pre")))
#endif
#define FOR_AVX2 __attribute__((target("avx2")))
/* gcc's tile instructions do not say which memory they read */
#define BARRIER __asm__ volatile("" ::: "memory")

static i64 least(i64 a, i64 b) { return a < b ? a : b; }
static i64 ceiling(i64 a, i64 b) { return (a + b - 1) / b; }

/* The same fields in the same order as in products.py. Strides are in words. */
typedef struct {
    i64 level, terms, batch, rows, depth, columns;
    const u32 *x[2];
    i64 x_batch, x_row;
    const void *w[2];
    i64 w_is_packed, w_batch, w_row, w_column;
    u32 *z;
    i64 z_batch, z_row;
    i64 threads;
} Product;

/* Depth is handled in steps of so many words. */
static i64 step_of(i64 level) { return level == AMX ? TILE_DEPTH : level == VNNI ? 2 : 1; }
static i64 steps_of(i64 level, i64 depth) { return ceiling(depth, step_of(level)); }
static i64 block_rows(i64 level) { return level == AMX ? TILE_ROWS : ROWS; }
static i64 most_together(i64 level) { return level == VNNI ? 2 : 1; } /* panels */

static i64 panel_bytes(i64 level, i64 depth) {
    return steps_of(level, depth) * step_of(level) * COLUMNS * 4;
}

/* Of a block of rows of X as the kernel reads it; AVX2 reads X as it is. */
static i64 block_bytes(i64 level, i64 depth) {
    i64 bytes = level == AMX ? WORD_TILES : level == VNNI ? PAIR * ROWS : 0;
    return steps_of(level, depth) * bytes;
}

/* ---- W into panels ------------------------------------------------------------------ */

/* 64 x 16 words as four tiles [k / 4][column][k % 4]; tile p has byte p of every word. */
FOR_AMX static void split_words(u32 words[TILE_DEPTH][COLUMNS], uint8_t *out) {
    const __m512i byte = _mm512_set1_epi32(255);
    for (int k = 0; k < TILE_DEPTH; k += 4)
        for (int p = 0; p < 4; p++) {
            const __m128i shift = _mm_cvtsi32_si128(8 * p);
            __m512i four = _mm512_setzero_si512();
            for (int q = 3; q >= 0; q--) {
                __m512i row = _mm512_srl_epi32(_mm512_load_si512(words[k + q]), shift);
                four = _mm512_slli_epi32(four, 8);
                four = _mm512_or_si512(four, _mm512_and_si512(byte, row));
            }
            _mm512_store_si512(out + p * PLANE + k * COLUMNS, four);
        }
}

/* Two rows of words as the low halves of both, and as the high halves that signed low
   halves leave. */
FOR_VNNI static void split_pair(u32 words[2][COLUMNS], uint8_t *out) {
    const __mmask32 odd = 0xaaaaaaaa;
    const __m512i half = _mm512_set1_epi32(0x8000);
    const __m512i a = _mm512_load_si512(words[0]), b = _mm512_load_si512(words[1]);
    const __m512i high = _mm512_srli_epi32(_mm512_add_epi32(a, half), 16);
    const __m512i low = _mm512_slli_epi32(b, 16);
    _mm512_store_si512(out, _mm512_mask_blend_epi16(odd, a, low));
    _mm512_store_si512(out + 64,
                       _mm512_mask_blend_epi16(odd, high, _mm512_add_epi32(b, half)));
}

static void pack_panel(i64 level, const u32 *w, i64 depth, i64 columns, i64 row,
                       i64 column, uint8_t *out) {
    const i64 step = step_of(level);
    _Alignas(64) u32 words[TILE_DEPTH][COLUMNS];
    memset(words, 0, sizeof words);
    for (i64 k0 = 0; k0 < depth; k0 += step, w += step * row, out += step * COLUMNS * 4) {
        const i64 count = least(depth - k0, step);
        if (count < step) memset(words, 0, sizeof words);
        for (i64 k = 0; column == 1 && k < count; k++)
            memcpy(words[k], w + k * row, columns * 4);
        for (i64 n = 0; column != 1 && n < columns; n++)
            for (i64 k = 0; k < count; k++) words[k][n] = w[k * row + n * column];
        if (level == AMX)
            split_words(words, out);
        else if (level == VNNI)
            split_pair(words, out);
        else
            memcpy(out, words, COLUMNS * 4);
    }
}

API i64 ditto_packed_bytes(i64 level, i64 depth, i64 columns) {
    return ceiling(columns, COLUMNS) * panel_bytes(level, depth);
}

/* out: ditto_packed_bytes, aligned to 64. */
API void ditto_pack(i64 level, const u32 *w, i64 depth, i64 columns, i64 row, i64 column,
                    uint8_t *out) {
    for (i64 n = 0; n < columns; n += COLUMNS, out += panel_bytes(level, depth))
        pack_panel(level, w + n * column, depth, least(columns - n, COLUMNS), row, column,
                   out);
}

/* ---- X into blocks of rows ---------------------------------------------------------- */

/* 16 rows as tiles [k / 64][plane][row][64]. */
FOR_AMX static void split_rows(const u32 *x, i64 row, i64 rows, i64 depth, uint8_t *out) {
    for (i64 k0 = 0; k0 < depth; k0 += TILE_DEPTH, out += WORD_TILES)
        for (i64 r = 0; r < rows; r++)
            for (i64 k = k0; k < k0 + TILE_DEPTH; k += 16) {
                const i64 left = depth - k;
                const __mmask16 mask =
                    left >= 16 ? 0xffff : left > 0 ? (__mmask16)((1u << left) - 1) : 0;
                __m512i words = _mm512_maskz_loadu_epi32(mask, x + r * row + k);
                for (int p = 0; p < 4; p++, words = _mm512_srli_epi32(words, 8))
                    _mm_store_si128(
                        (__m128i *)(out + p * PLANE + r * TILE_DEPTH + k - k0),
                        _mm512_cvtepi32_epi8(words));
            }
}

/* Words k and k + 1 of a row, each pair in 64 bits, as their low and high halves. */
FOR_VNNI static __m512i halves(__m512i pairs) {
    const __m512i first = _mm512_set1_epi64(0xffff), second = _mm512_set1_epi64(0xffff0000);
    const __m512i up = _mm512_add_epi32(pairs, _mm512_set1_epi32(0x8000));
    const __m512i low = _mm512_or_si512(
        _mm512_and_si512(pairs, first),
        _mm512_and_si512(_mm512_srli_epi64(pairs, 16), second));
    const __m512i high = _mm512_or_si512(
        _mm512_and_si512(_mm512_srli_epi64(up, 16), first),
        _mm512_and_si512(_mm512_srli_epi64(up, 32), second));
    return _mm512_or_si512(low, _mm512_slli_epi64(high, 32));
}

/* Six rows as [k / 2][row]{low halves of k and k + 1, high halves}. */
FOR_VNNI static void halve_rows(const u32 *x, i64 row, i64 rows, i64 depth, uint64_t *out) {
    _Alignas(64) uint64_t pairs[8];
    for (i64 r = 0; r < ROWS; r++)
        for (i64 k = 0; k < depth; k += 16) {
            const i64 left = r < rows ? least(depth - k, 16) : 0;
            const __mmask16 mask = (__mmask16)((1u << left) - 1);
            const __m512i words = _mm512_maskz_loadu_epi32(mask, x + (left ? r * row + k : 0));
            _mm512_store_si512(pairs, halves(words));
            for (i64 i = 0; i < 8 && k + 2 * i < depth; i++)
                out[(k / 2 + i) * ROWS + r] = pairs[i];
        }
}

/* ---- a block of rows times a panel, stored or added to z ------------------------------ */

typedef struct {
    u32 *z;
    i64 row, rows, columns;
    int add;
} Target;

static __mmask16 lanes(i64 columns) { return (__mmask16)((1u << columns) - 1); }

FOR_AMX static void amx_configure(i64 rows) {
    struct {
        uint8_t palette, start, reserved[14];
        uint16_t bytes[16];
        uint8_t rows[16];
    } tiles = {.palette = 1};
    for (int t = 0; t < 8; t++) {
        tiles.bytes[t] = TILE_DEPTH;
        tiles.rows[t] = t == 4 ? TILE_ROWS : (uint8_t)rows; /* tile 4 is of W */
    }
    BARRIER;
    _tile_loadconfig(&tiles);
}

FOR_AMX static void amx_release(void) { _tile_release(); }

/* Sum p collects what is worth 2^(8 p). Lines of what comes next in W are fetched. */
FOR_AMX static void amx_block(const uint8_t *x, const uint8_t *w, i64 steps, Target to,
                              const uint8_t *next, i64 lines) {
    _Alignas(64) u32 sums[4][TILE_ROWS * COLUMNS];
    BARRIER;
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
    for (i64 i = 0; i < steps; i++, x += WORD_TILES, w += WORD_TILES) {
        for (i64 l = 0; l < lines; l++, next += 64)
            _mm_prefetch((const char *)next, _MM_HINT_T1);
        _tile_loadd(4, w, TILE_DEPTH);
        _tile_loadd(5, x + 3 * PLANE, TILE_DEPTH);
        _tile_dpbuud(3, 5, 4);
        _tile_loadd(5, x, TILE_DEPTH);
        _tile_dpbuud(0, 5, 4);
        _tile_loadd(6, x + PLANE, TILE_DEPTH);
        _tile_dpbuud(1, 6, 4);
        _tile_loadd(7, x + 2 * PLANE, TILE_DEPTH);
        _tile_dpbuud(2, 7, 4);
        _tile_loadd(4, w + PLANE, TILE_DEPTH);
        _tile_dpbuud(1, 5, 4);
        _tile_dpbuud(2, 6, 4);
        _tile_dpbuud(3, 7, 4);
        _tile_loadd(4, w + 2 * PLANE, TILE_DEPTH);
        _tile_dpbuud(2, 5, 4);
        _tile_dpbuud(3, 6, 4);
        _tile_loadd(4, w + 3 * PLANE, TILE_DEPTH);
        _tile_dpbuud(3, 5, 4);
    }
    _tile_stored(0, sums[0], TILE_DEPTH);
    _tile_stored(1, sums[1], TILE_DEPTH);
    _tile_stored(2, sums[2], TILE_DEPTH);
    _tile_stored(3, sums[3], TILE_DEPTH);
    const __mmask16 mask = lanes(to.columns);
    for (i64 r = 0; r < to.rows; r++, to.z += to.row) {
        __m512i v = to.add ? _mm512_maskz_loadu_epi32(mask, to.z) : _mm512_setzero_si512();
        for (int p = 0; p < 4; p++) {
            const __m512i sum = _mm512_load_si512(sums[p] + COLUMNS * r);
            v = _mm512_add_epi32(v, _mm512_sll_epi32(sum, _mm_cvtsi32_si128(8 * p)));
        }
        _mm512_mask_storeu_epi32(to.z, mask, v);
    }
}

/* Of one panel or of two beside each other, a constant where this is inlined. */
FOR_VNNI static inline __attribute__((always_inline)) void
vnni_panels(const u32 *x, const __m512i *w, i64 wide, const int panels, i64 steps, Target to) {
    __m512i low[2][ROWS], cross[2][ROWS];
#pragma GCC unroll 6
    for (int r = 0; r < ROWS; r++)
#pragma GCC unroll 2
        for (int p = 0; p < panels; p++) low[p][r] = cross[p][r] = _mm512_setzero_si512();
    for (i64 k = 0; k < steps; k++, w += 2, x += 2 * ROWS) {
        __m512i lows[2], highs[2];
#pragma GCC unroll 2
        for (int p = 0; p < panels; p++) lows[p] = w[p * wide], highs[p] = w[p * wide + 1];
#pragma GCC unroll 6
        for (int r = 0; r < ROWS; r++) {
            const __m512i a = _mm512_set1_epi32((int)x[2 * r]);
            const __m512i b = _mm512_set1_epi32((int)x[2 * r + 1]);
#pragma GCC unroll 2
            for (int p = 0; p < panels; p++) {
                low[p][r] = _mm512_dpwssd_epi32(low[p][r], lows[p], a);
                cross[p][r] = _mm512_dpwssd_epi32(cross[p][r], highs[p], a);
                cross[p][r] = _mm512_dpwssd_epi32(cross[p][r], lows[p], b);
            }
        }
    }
#pragma GCC unroll 2
    for (int p = 0; p < panels; p++) {
        const __mmask16 mask = lanes(least(to.columns - p * COLUMNS, COLUMNS));
#pragma GCC unroll 6
        for (int r = 0; r < ROWS; r++) {
            if (r >= to.rows) continue;
            u32 *z = to.z + r * to.row + p * COLUMNS;
            __m512i v = _mm512_add_epi32(_mm512_slli_epi32(cross[p][r], 16), low[p][r]);
            if (to.add) v = _mm512_add_epi32(v, _mm512_maskz_loadu_epi32(mask, z));
            _mm512_mask_storeu_epi32(z, mask, v);
        }
    }
}

/* ``wide``: vectors from a panel to the next. */
FOR_VNNI WITHOUT_SPILLS static void vnni_block(const u32 *x, const __m512i *w, i64 wide,
                                               i64 steps, Target to) {
    if (to.columns > COLUMNS)
        vnni_panels(x, w, wide, 2, steps, to);
    else
        vnni_panels(x, w, wide, 1, steps, to);
}

/* ``most`` is a constant where this is inlined: six rows, or the one row of a token. */
FOR_AVX2 static inline __attribute__((always_inline)) void
avx2_rows(const u32 *x, i64 x_row, const __m256i *w, i64 depth, const int most, Target to) {
    __m256i sum[ROWS][2];
    const u32 *at[ROWS];
#pragma GCC unroll 6
    for (int r = 0; r < most; r++) {
        at[r] = x + least(r, to.rows - 1) * x_row;
        sum[r][0] = sum[r][1] = _mm256_setzero_si256();
    }
    for (i64 k = 0; k < depth; k++, w += 2)
#pragma GCC unroll 6
        for (int r = 0; r < most; r++) {
            const __m256i a = _mm256_set1_epi32((int)at[r][k]);
            sum[r][0] = _mm256_add_epi32(sum[r][0], _mm256_mullo_epi32(a, w[0]));
            sum[r][1] = _mm256_add_epi32(sum[r][1], _mm256_mullo_epi32(a, w[1]));
        }
#pragma GCC unroll 6
    for (int r = 0; r < most; r++) {
        u32 words[COLUMNS];
        if (r >= to.rows) continue;
        u32 *z = to.z + r * to.row;
        _mm256_storeu_si256((__m256i *)words, sum[r][0]);
        _mm256_storeu_si256((__m256i *)(words + 8), sum[r][1]);
        for (i64 n = 0; n < to.columns; n++) z[n] = words[n] + (to.add ? z[n] : 0);
    }
}

FOR_AVX2 static void avx2_block(const u32 *x, i64 x_row, const __m256i *w, i64 depth,
                                Target to) {
    if (to.rows == 1)
        avx2_rows(x, x_row, w, depth, 1, to);
    else
        avx2_rows(x, x_row, w, depth, ROWS, to);
}

/* ---- the call ------------------------------------------------------------------------- */

typedef struct {
    const Product *product;
    uint8_t *blocks; /* X as the kernel reads it */
    uint8_t *panel;  /* room for panels of W, unless W is packed */
    i64 first, last; /* panels, counted over the batch */
} Job;

/* ``together`` panels from i on, of one batch. */
static void multiply_panels(const Job *job, i64 i, i64 together, i64 term, i64 first,
                            i64 end) {
    const Product *p = job->product;
    const i64 panels = ceiling(p->columns, COLUMNS), high = block_rows(p->level);
    const i64 count = ceiling(p->rows, high);
    const i64 wide = panel_bytes(p->level, p->depth);
    const i64 tall = block_bytes(p->level, p->depth);
    const i64 b = i / panels, n = i % panels * COLUMNS;
    const i64 columns = least(p->columns - n, together * COLUMNS);
    const uint8_t *w = (const uint8_t *)p->w[term] + i * wide, *after = w;
    if (!p->w_is_packed) {
        const u32 *from = (const u32 *)p->w[term] + b * p->w_batch + n * p->w_column;
        for (i64 c = 0; c < columns; c += COLUMNS)
            pack_panel(p->level, from + c * p->w_column, p->depth, least(columns - c, COLUMNS),
                       p->w_row, p->w_column, job->panel + c / COLUMNS * wide);
        w = job->panel;
    } else if (term + 1 < p->terms) {
        after = (const uint8_t *)p->w[term + 1] + i * wide;
    } else if (i + 1 < job->last) {
        after = (const uint8_t *)p->w[0] + (i + 1) * wide;
    }
    /* each block of rows fetches its part of the chunk that comes next */
    const i64 lines = p->w_is_packed ? ceiling(WORD_TILES / 64, count) : 0;
    const i64 chunk = p->level == AMX ? CHUNK : end - first;
    for (i64 s = first; s < end; s += chunk)
        for (i64 m = 0; m < count; m++) {
            const i64 here = least(end - s, chunk);
            const uint8_t *x = job->blocks + ((term * p->batch + b) * count + m) * tall;
            const Target to = {
                .z = p->z + b * p->z_batch + m * high * p->z_row + n,
                .row = p->z_row,
                .rows = least(p->rows - m * high, high),
                .columns = columns,
                .add = term || s,
            };
            if (p->level == AMX) {
                const uint8_t *next = s + chunk < end ? w + (s + chunk) * WORD_TILES : after;
                next += m * lines * 64 * here;
                amx_block(x + s * WORD_TILES, w + s * WORD_TILES, here, to, next, lines);
            } else if (p->level == VNNI) {
                vnni_block((const u32 *)x + 2 * ROWS * s, (const __m512i *)w + 2 * s,
                           wide / 64, here, to);
            } else {
                const u32 *rows = p->x[term] + b * p->x_batch + m * high * p->x_row;
                avx2_block(rows, p->x_row, (const __m256i *)w, p->depth, to);
            }
        }
}

static void *run(void *argument) {
    const Job *job = argument;
    if (job->product->level == AMX) amx_configure(least(job->product->rows, TILE_ROWS));
    const Product *p = job->product;
    const i64 steps = steps_of(p->level, p->depth);
    const int deep = p->level == VNNI && p->w_is_packed && p->rows > ROWS;
    const i64 part = deep ? DEEP : steps;
    const i64 panels = ceiling(p->columns, COLUMNS), most = most_together(p->level);
    for (i64 s = 0; s < steps; s += part)
        for (i64 i = job->first, together; i < job->last; i += together) {
            together = least(least(job->last - i, panels - i % panels), most);
            for (i64 term = 0; term < p->terms; term++)
                multiply_panels(job, i, together, term, s, least(steps, s + part));
        }
    if (job->product->level == AMX) amx_release();
    return NULL;
}

static void arrange_rows(const Product *p, uint8_t *out) {
    const i64 high = block_rows(p->level), count = ceiling(p->rows, high);
    const i64 tall = block_bytes(p->level, p->depth);
    for (i64 i = 0; tall && i < p->terms * p->batch * count; i++, out += tall) {
        const i64 term = i / count / p->batch, b = i / count % p->batch;
        const i64 m = i % count * high, rows = least(p->rows - m, high);
        const u32 *x = p->x[term] + b * p->x_batch + m * p->x_row;
        if (p->level == AMX)
            split_rows(x, p->x_row, rows, p->depth, out);
        else
            halve_rows(x, p->x_row, rows, p->depth, (uint64_t *)out);
    }
}

/* Returns 0, or 1 if there was no memory. */
API int ditto_multiply(const Product *p) {
    const i64 panels = p->batch * ceiling(p->columns, COLUMNS);
    const i64 blocks = p->terms * p->batch * ceiling(p->rows, block_rows(p->level));
    const i64 room = ceiling(blocks * block_bytes(p->level, p->depth), 64) * 64;
    const i64 panel = p->w_is_packed ? 0 : panel_bytes(p->level, p->depth);
    const i64 wide = panel * most_together(p->level);
    const double work = (double)p->terms * panels * COLUMNS * p->depth * (p->rows + 24);
    i64 threads = 1;
    if (work > WORTH_A_THREAD)
        threads = least(least(p->threads, MOST_THREADS), panels);
    uint8_t *memory = NULL;
    if (posix_memalign((void **)&memory, 64, room + threads * wide + 64)) return 1;
    arrange_rows(p, memory);
    pthread_t thread[MOST_THREADS];
    Job jobs[MOST_THREADS];
    int started[MOST_THREADS];
    for (i64 t = threads - 1; t >= 0; t--) { /* the first job is this thread's */
        jobs[t] = (Job){p, memory, memory + room + t * wide, panels * t / threads,
                        panels * (t + 1) / threads};
        started[t] = t && !pthread_create(&thread[t], NULL, run, &jobs[t]);
        if (!started[t]) run(&jobs[t]);
    }
    for (i64 t = 1; t < threads; t++)
        if (started[t]) pthread_join(thread[t], NULL);
    free(memory);
    return 0;
}
