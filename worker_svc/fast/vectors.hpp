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

// The lanes' sum, halving the vector: a chain of additions lane by lane would cost more than a dot product's multiplications.
template <int N, class V>
static inline float sum_of(V v) {
    if constexpr (N == 1) {
        return v[0];
    } else {
        typedef float half __attribute__((vector_size(N * 2)));
        half low, high;
        memcpy(&low, &v, sizeof low);
        memcpy(&high, (const char*)&v + sizeof low, sizeof high);
        return sum_of<N / 2>(low + high);
    }
}

static inline float sum(vec v) { return sum_of<LANES>(v); }
