// Linear over packed weights, and RMSNorm; float32. Plain C interface without torch headers, so that one build serves every
// torch version.
#include "vectors.hpp"

#if defined(__AVX512F__)
constexpr int ROWS = 12;  // 12 x 2 accumulators of 32 registers
#else
constexpr int ROWS = 6;  // 6 x 2 accumulators of 16 registers
#endif
constexpr int PANEL = 2 * LANES;  // outputs computed together

extern "C" i64 panel_width() { return PANEL; }

// (n, k) row-major -> panels (ceil(n / PANEL), k, PANEL), the last one padded with zeros.
extern "C" void pack(const float* w, i64 n, i64 k, float* out) {
    i64 panels = (n + PANEL - 1) / PANEL;
#pragma omp parallel for
    for (i64 p = 0; p < panels; p++)
        for (i64 j = 0; j < k; j++)
            for (int c = 0; c < PANEL; c++) {
                i64 row = p * PANEL + c;
                out[(p * k + j) * PANEL + c] = row < n ? w[row * k + j] : 0.f;
            }
}

// M rows of x times one panel. UNROLL independent sums along k hide the latency of the additions when rows are few.
template <int M, int UNROLL>
static inline void tile(const float* x, i64 k, const float* panel, float* y, i64 n, i64 columns, const float* bias) {
    vec a[M * UNROLL][2] = {};
    i64 j = 0;
    for (; j + UNROLL <= k; j += UNROLL)
#pragma GCC unroll 4
        for (int u = 0; u < UNROLL; u++) {
            const float* w = panel + (j + u) * PANEL;
            vec w0 = load(w), w1 = load(w + LANES);
            if (M <= 6) __builtin_prefetch(w + 1024);
#pragma GCC unroll 12
            for (int m = 0; m < M; m++) {
                vec v = splat(x[m * k + j + u]);
                a[m * UNROLL + u][0] += v * w0;
                a[m * UNROLL + u][1] += v * w1;
            }
        }
    for (; j < k; j++) {
        vec w0 = load(panel + j * PANEL), w1 = load(panel + j * PANEL + LANES);
#pragma GCC unroll 12
        for (int m = 0; m < M; m++) {
            vec v = splat(x[m * k + j]);
            a[m * UNROLL][0] += v * w0;
            a[m * UNROLL][1] += v * w1;
        }
    }
#pragma GCC unroll 12
    for (int m = 0; m < M; m++) {
        vec r0 = a[m * UNROLL][0], r1 = a[m * UNROLL][1];
#pragma GCC unroll 4
        for (int u = 1; u < UNROLL; u++) {
            r0 += a[m * UNROLL + u][0];
            r1 += a[m * UNROLL + u][1];
        }
        if (columns == PANEL) {
            if (bias) {
                r0 += load(bias);
                r1 += load(bias + LANES);
            }
            store(y + m * n, r0);
            store(y + m * n + LANES, r1);
        } else {
            float t[PANEL];
            store(t, r0);
            store(t + LANES, r1);
            for (i64 c = 0; c < columns; c++) y[m * n + c] = t[c] + (bias ? bias[c] : 0.f);
        }
    }
}

template <int M>
static inline void rest(i64 rows, const float* x, i64 k, const float* panel, float* y, i64 n, i64 columns, const float* bias) {
    if (rows == M) tile<M, M == 1 ? 4 : M <= 3 ? 2 : 1>(x, k, panel, y, n, columns, bias);
    else if constexpr (M > 1) rest<M - 1>(rows, x, k, panel, y, n, columns, bias);
}

// y (m, n) = x (m, k) times the packed weights, plus bias (n) or nothing.
extern "C" void linear(const float* x, i64 m, i64 k, const float* packed, i64 n, const float* bias, float* y, i64 threads) {
    constexpr i64 BLOCK = ROWS * 8;  // rows that share a panel while it is in cache
    i64 panels = (n + PANEL - 1) / PANEL, chunk = panels / (threads * 4);
    if (chunk < 1) chunk = 1;
    i64 chunks = (panels + chunk - 1) / chunk;
#pragma omp parallel for schedule(dynamic, 1) num_threads(threads) if (threads > 1)
    for (i64 c = 0; c < chunks; c++) {
        i64 last = (c + 1) * chunk < panels ? (c + 1) * chunk : panels;
        for (i64 block = 0; block < m; block += BLOCK) {
            i64 end = block + BLOCK < m ? block + BLOCK : m;
            for (i64 p = c * chunk; p < last; p++) {
                const float* panel = packed + p * k * PANEL;
                const float* b = bias ? bias + p * PANEL : nullptr;
                i64 columns = n - p * PANEL < PANEL ? n - p * PANEL : PANEL;
                i64 i = block;
                for (; i + ROWS <= end; i += ROWS)
                    tile<ROWS, 1>(x + i * k, k, panel, y + i * n + p * PANEL, n, columns, b);
                if (i < end) rest<ROWS - 1>(end - i, x + i * k, k, panel, y + i * n + p * PANEL, n, columns, b);
            }
        }
    }
}

// y = (w + add) * x / sqrt(mean(x^2) + eps), row by row.
extern "C" void rmsnorm(const float* x, const float* w, float* y, i64 rows, i64 d, float eps, float add, i64 threads) {
#pragma omp parallel for num_threads(threads) if (threads > 1 && rows >= 64)
    for (i64 r = 0; r < rows; r++) {
        const float* a = x + r * d;
        float* o = y + r * d;
        vec s = {};
        i64 i = 0;
        for (; i + LANES <= d; i += LANES) s += load(a + i) * load(a + i);
        float total = sum(s);
        for (; i < d; i++) total += a[i] * a[i];
        float scale = 1.f / sqrtf(total / d + eps);
        for (i = 0; i + LANES <= d; i += LANES) store(o + i, (load(w + i) + add) * (load(a + i) * scale));
        for (; i < d; i++) o[i] = (w[i] + add) * (a[i] * scale);
    }
}
