/* AMX's tiles in plain C, so that the kernel can be tried on machines without them. */
#undef _tile_loadconfig
#undef _tile_release
#undef _tile_zero
#undef _tile_loadd
#undef _tile_stored
#undef _tile_dpbuud

typedef struct {
    uint8_t palette, start, reserved[14];
    uint16_t bytes[16];
    uint8_t rows[16];
} TileConfig;

static __thread TileConfig config;
static __thread uint8_t tile[8][16][64];

static void load_config(const void *from) { memcpy(&config, from, sizeof config); }
static void release(void) { memset(&config, 0, sizeof config); }
static void zero(int t) { memset(tile[t], 0, sizeof tile[t]); }

static void load(int t, const void *from, int64_t stride) {
    zero(t);
    for (int r = 0; r < config.rows[t]; r++)
        memcpy(tile[t][r], (const uint8_t *)from + r * stride, config.bytes[t]);
}

static void store(int t, void *to, int64_t stride) {
    for (int r = 0; r < config.rows[t]; r++)
        memcpy((uint8_t *)to + r * stride, tile[t][r], config.bytes[t]);
}

/* c[m][n] += sum of four products of unsigned bytes, for every k; it wraps. */
static void add_products(int c, int a, int b) {
    for (int m = 0; m < config.rows[c]; m++)
        for (int k = 0; k < config.bytes[a] / 4; k++)
            for (int n = 0; n < config.bytes[c] / 4; n++) {
                uint32_t sum;
                memcpy(&sum, &tile[c][m][4 * n], 4);
                for (int q = 0; q < 4; q++)
                    sum += (uint32_t)tile[a][m][4 * k + q] * tile[b][k][4 * n + q];
                memcpy(&tile[c][m][4 * n], &sum, 4);
            }
}

#define _tile_loadconfig(from) load_config(from)
#define _tile_release() release()
#define _tile_zero(t) zero(t)
#define _tile_loadd(t, from, stride) load(t, from, stride)
#define _tile_stored(t, to, stride) store(t, to, stride)
#define _tile_dpbuud(c, a, b) add_products(c, a, b)
