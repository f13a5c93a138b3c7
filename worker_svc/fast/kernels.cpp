// CPU kernels, float32: linear over packed weights, RMSNorm, decode attention over block tables. Plain C interface without
// torch headers, so that one build serves every torch version. Vectors are the compiler's own (`vector_size`): the same code
// becomes AVX2 or AVX-512.
#include <omp.h>

#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>

using i64 = int64_t;

#if defined(__AVX512F__)
constexpr int LANES = 16;
constexpr int ROWS = 12;  // 12 x 2 accumulators of 32 registers
#else
constexpr int LANES = 8;
constexpr int ROWS = 6;  // 6 x 2 accumulators of 16 registers
#endif
constexpr int PANEL = 2 * LANES;  // outputs computed together

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

// e^x for x <= 0, relative error about 1e-7 (polynomial of Cephes). Far below zero it is 0 or nearly so.
static inline vec exponential(vec x) {
    vec low = splat(-87.3f);
    x = x > low ? x : low;
    ints n = __builtin_convertvector(x * 1.44269504f - 0.5f, ints);
    vec f = __builtin_convertvector(n, vec);
    vec r = x - f * 0.693359375f + f * 2.12194440e-4f;
    vec p = splat(1.9875691500e-4f);
    p = p * r + 1.3981999507e-3f;
    p = p * r + 8.3334519073e-3f;
    p = p * r + 4.1665795894e-2f;
    p = p * r + 1.6666665459e-1f;
    p = p * r + 5.0000001201e-1f;
    p = p * (r * r) + r + 1.f;
    ints bits = (n + 127) << 23;
    vec power;
    memcpy(&power, &bits, sizeof power);
    return p * power;
}

// One query token per row. Strides and dims in floats. Pools are (blocks, block_size, kv_heads, dim), out is (rows,
// query_heads, value_dim). key == nullptr: the new K/V are in the pools already. Dims are multiples of LANES.
struct Decode {
    const float *query, *key, *value;
    i64 query_token, query_head, key_token, key_head, value_token, value_head;
    float *keys, *values;
    const i64 *slots, *table, *contexts;
    i64 table_width, rows, block_size, query_heads, kv_heads, key_dim, value_dim, window, threads;
    const float* sinks;
    float* out;
    float scale, softcap;
};

// Walks the tokens [from, to) of a row block by block: f(first token, tokens, index of the first token in the pool).
template <class F>
static inline void blocks(const Decode& d, const i64* table, i64 from, i64 to, F f) {
    for (i64 t = from; t < to;) {
        i64 offset = t % d.block_size, count = d.block_size - offset;
        if (count > to - t) count = to - t;
        f(t, count, table[t / d.block_size] * d.block_size + offset);
        t += count;
    }
}

// Softmax in place over `length` scores; returns nothing, the sink only adds to the denominator.
static void softmax(float* s, i64 length, i64 padded, float softcap, const float* sink) {
    if (softcap > 0)
        for (i64 t = 0; t < length; t++) s[t] = softcap * tanhf(s[t] / softcap);
    float top = sink ? *sink : -INFINITY;
    for (i64 t = 0; t < length; t++) top = s[t] > top ? s[t] : top;
    for (i64 t = length; t < padded; t++) s[t] = -INFINITY;
    vec total = {};
    for (i64 t = 0; t < padded; t += LANES) {
        vec e = exponential(load(s + t) - top);
        store(s + t, e);
        if (t + LANES <= length) total += e;
        else for (i64 u = t; u < length; u++) total[0] += s[u];
    }
    float inverse = 1.f / (sum(total) + (sink ? expf(*sink - top) : 0.f));
    for (i64 t = 0; t < length; t++) s[t] *= inverse;
}

static void attend(const Decode& d, i64 row, i64 head, float*& scores, i64& room) {
    i64 group = d.query_heads / d.kv_heads, to = d.contexts[row];
    i64 from = d.window > 0 && to > d.window ? to - d.window : 0;
    i64 length = to - from, padded = (length + LANES - 1) / LANES * LANES;
    if (group * padded > room) {
        free(scores);
        room = group * padded * 2;
        scores = (float*)malloc(room * sizeof(float));
    }
    const i64* table = d.table + row * d.table_width;
    i64 key_line = d.kv_heads * d.key_dim, value_line = d.kv_heads * d.value_dim;
    blocks(d, table, from, to, [&](i64 t, i64 count, i64 at) {
        for (i64 g = 0; g < group; g++) {
            const float* q = d.query + row * d.query_token + (head * group + g) * d.query_head;
            for (i64 u = 0; u < count; u++) {
                const float* k = d.keys + (at + u) * key_line + head * d.key_dim;
                vec s = {};
                for (i64 i = 0; i < d.key_dim; i += LANES) s += load(q + i) * load(k + i);
                scores[g * padded + t - from + u] = sum(s) * d.scale;
            }
        }
    });
    float* out = d.out + (row * d.query_heads + head * group) * d.value_dim;
    memset(out, 0, group * d.value_dim * sizeof(float));
    for (i64 g = 0; g < group; g++)
        softmax(scores + g * padded, length, padded, d.softcap, d.sinks ? d.sinks + head * group + g : nullptr);
    blocks(d, table, from, to, [&](i64 t, i64 count, i64 at) {
        for (i64 g = 0; g < group; g++) {
            const float* s = scores + g * padded + t - from;
            const float* v = d.values + at * value_line + head * d.value_dim;
            for (i64 i = 0; i < d.value_dim; i += 4 * LANES) {
                i64 width = (d.value_dim - i) / LANES < 4 ? (d.value_dim - i) / LANES : 4;
                vec a[4] = {};
                for (i64 u = 0; u < count; u++)
                    for (i64 c = 0; c < width; c++) a[c] += s[u] * load(v + u * value_line + i + c * LANES);
                float* o = out + g * d.value_dim + i;
                for (i64 c = 0; c < width; c++) store(o + c * LANES, load(o + c * LANES) + a[c]);
            }
        }
    });
}

extern "C" void decode(const Decode* args) {
    const Decode& d = *args;
    if (d.key)
        for (i64 t = 0; t < d.rows; t++)
            for (i64 h = 0; h < d.kv_heads; h++) {
                memcpy(d.keys + (d.slots[t] * d.kv_heads + h) * d.key_dim, d.key + t * d.key_token + h * d.key_head,
                       d.key_dim * sizeof(float));
                memcpy(d.values + (d.slots[t] * d.kv_heads + h) * d.value_dim,
                       d.value + t * d.value_token + h * d.value_head, d.value_dim * sizeof(float));
            }
    i64 tasks = d.rows * d.kv_heads;
#pragma omp parallel num_threads(d.threads) if (d.threads > 1 && tasks > 1)
    {
        float* scores = nullptr;
        i64 room = 0;
#pragma omp for schedule(dynamic, 1)
        for (i64 w = 0; w < tasks; w++) attend(d, w / d.kv_heads, w % d.kv_heads, scores, room);
        free(scores);
    }
}
