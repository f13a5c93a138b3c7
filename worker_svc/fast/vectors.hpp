// Vectors of the compiler's own (`vector_size`): the same code becomes AVX2 or AVX-512.
#pragma once
#include <omp.h>

#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>

using i64 = int64_t;

#if defined(__AVX512F__)
constexpr int LANES = 16;
#else
constexpr int LANES = 8;
#endif

typedef float vec __attribute__((vector_size(LANES * 4)));
typedef float loose __attribute__((vector_size(LANES * 4), aligned(4), may_alias));
typedef int32_t ints __attribute__((vector_size(LANES * 4)));

static inline vec load(const float* p) { return *(const loose*)p; }
static inline void store(float* p, vec v) { *(loose*)p = v; }
static inline vec splat(float x) { return x - (vec){}; }

static inline float sum(vec v) {
    float t[LANES], s = 0;
    store(t, v);
    for (int i = 0; i < LANES; i++) s += t[i];
    return s;
}
