/* Words, and loops over them that are compiled for AVX2 too where the compiler can. */
#ifndef DITTO_WORDS_H
#define DITTO_WORDS_H
#include <stdint.h>
#if defined(__GNUC__) && !defined(__clang__)
#define FAST __attribute__((target_clones("avx2", "default")))
#else
#define FAST
#endif

typedef int64_t i64;
typedef uint8_t u8;
typedef uint16_t u16;
typedef uint32_t u32;
typedef uint64_t u64;

#define EXPORT __attribute__((visibility("default")))
#endif
