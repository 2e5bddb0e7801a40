/* Sums of a table's entries where words have ones: ditto/protocols/blocks/one_hot.py, bit
 * for bit. The table comes as the sums of every byte's 256 values, four numbers each.
 */
#include "words.h"

typedef u32 four __attribute__((vector_size(16), aligned(4)));

EXPORT void ditto_summed_entries(const u8 *words, i64 count, i64 bytes, const u32 *sums,
                                 u32 *out) {
    for (i64 i = 0; i < count; i++, words += bytes) {
        four total = {0, 0, 0, 0};
        for (i64 k = 0; k < bytes; k++)
            total += *(const four *)(sums + 4 * (256 * k + words[k]));
        for (int j = 0; j < 4; j++) out[j * count + i] = total[j];
    }
}
