// Attention over block tables: decodes (one query token per row) and prefill chunks; float32.
#include "vectors.hpp"

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
struct Attention {
    const float *query, *key, *value;
    i64 query_token, query_head, key_token, key_head, value_token, value_head;
    float *keys, *values;
    const i64 *slots, *table, *contexts;
    i64 table_width, rows, block_size, query_heads, kv_heads, key_dim, value_dim, window, threads;
    const float* sinks;
    float* out;
    float scale, softcap;
};

// Walks the tokens [from, to) of a row block by block: f(first token, tokens, index of the first token in the pool). Blocks
// lie anywhere, which no hardware foresees: the lines of the next one (`dim` floats every `line`) are asked for meanwhile.
template <class F>
static inline void blocks(const Attention& d, const i64* table, i64 from, i64 to, const float* pool, i64 line, i64 dim, F f) {
    for (i64 t = from; t < to;) {
        i64 offset = t % d.block_size, count = d.block_size - offset;
        if (count > to - t) count = to - t;
        if (t + count < to) {
            const float* next = pool + table[t / d.block_size + 1] * d.block_size * line;
            for (i64 u = 0; u < d.block_size; u++)
                for (i64 c = 0; c < dim; c += 16) __builtin_prefetch(next + u * line + c);
        }
        f(t, count, table[t / d.block_size] * d.block_size + offset);
        t += count;
    }
}

// Softmax in place over `length` scores; returns nothing, the sink only adds to the denominator.
static void softmax(float* s, i64 length, i64 padded, float softcap, const float* sink) {
    if (softcap > 0)
        for (i64 t = 0; t < length; t++) s[t] = softcap * tanhf(s[t] / softcap);
    float top = sink ? *sink : -INFINITY;
    for (i64 t = length; t < padded; t++) s[t] = -INFINITY;
    vec tops = splat(top);
    for (i64 t = 0; t < padded; t += LANES) {
        vec v = load(s + t);
        tops = v > tops ? v : tops;
    }
    for (int i = 0; i < LANES; i++) top = tops[i] > top ? tops[i] : top;
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

#if defined(__AVX512F__)
constexpr int QUERIES = 8;  // scored or weighed together: what the registers hold
#else
constexpr int QUERIES = 4;
#endif

// Scores of M queries against LANES tokens whose keys are transposed, (key_dim, LANES); rows of s are `stride` apart.
template <int M>
static inline void score(const float* const* q, const float* keys, i64 dim, float scale, float* s, i64 stride) {
    vec a[M] = {};
    for (i64 i = 0; i < dim; i++) {
        vec k = load(keys + i * LANES);
#pragma GCC unroll 8
        for (int m = 0; m < M; m++) a[m] += splat(q[m][i]) * k;
    }
#pragma GCC unroll 8
    for (int m = 0; m < M; m++) store(s + m * stride, a[m] * scale);
}

// out (M rows `width` apart, V vectors) += weights (M, count; `stride` apart) times values (count; `line` apart).
template <int M, int V>
static inline void weigh_part(const float* s, i64 stride, const float* v, i64 line, i64 count, float* out, i64 width) {
    vec a[M][V] = {};
    for (i64 u = 0; u < count; u++) {
        vec values[V];
#pragma GCC unroll 4
        for (int c = 0; c < V; c++) values[c] = load(v + u * line + c * LANES);
#pragma GCC unroll 8
        for (int m = 0; m < M; m++) {
            vec w = splat(s[m * stride + u]);
#pragma GCC unroll 4
            for (int c = 0; c < V; c++) a[m][c] += w * values[c];
        }
    }
#pragma GCC unroll 8
    for (int m = 0; m < M; m++)
#pragma GCC unroll 4
        for (int c = 0; c < V; c++) store(out + m * width + c * LANES, load(out + m * width + c * LANES) + a[m][c]);
}

template <int M>
static inline void weigh_rows(const float* s, i64 stride, const float* v, i64 line, i64 count, float* out, i64 width) {
    constexpr int V = M > 2 ? 2 : 4;
    i64 c = 0;
    for (; c + V * LANES <= width; c += V * LANES) weigh_part<M, V>(s, stride, v + c, line, count, out + c, width);
    for (; c < width; c += LANES) weigh_part<M, 1>(s, stride, v + c, line, count, out + c, width);
}

static inline void weigh(i64 rows, const float* s, i64 stride, const float* v, i64 line, i64 count, float* out, i64 width) {
    i64 m = 0;
    for (; m + QUERIES <= rows; m += QUERIES) weigh_rows<QUERIES>(s + m * stride, stride, v, line, count, out + m * width, width);
    for (; m + 2 <= rows; m += 2) weigh_rows<2>(s + m * stride, stride, v, line, count, out + m * width, width);
    if (m < rows) weigh_rows<1>(s + m * stride, stride, v, line, count, out + m * width, width);
}

static void attend(const Attention& d, i64 row, i64 head, float*& scores, i64& room) {
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
    blocks(d, table, from, to, d.keys + head * d.key_dim, key_line, d.key_dim, [&](i64 t, i64 count, i64 at) {
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
    blocks(d, table, from, to, d.values + head * d.value_dim, value_line, d.value_dim, [&](i64 t, i64 count, i64 at) {
        const float* v = d.values + at * value_line + head * d.value_dim;
        weigh(group, scores + t - from, padded, v, value_line, count, out, d.value_dim);
    });
}

constexpr int TILE = 32;  // queries that read a key or value while it is in cache

// One chunk of new tokens of one sequence, all its K/V in the pools: queries `first` to `last` of the chunk, one K/V head.
static void attend_tile(const Attention& d, i64 head, i64 first, i64 last, float*& scores, i64& room) {
    i64 group = d.query_heads / d.kv_heads, start = d.contexts[0] - d.rows;
    i64 to = start + last, from = d.window > 0 ? start + first + 1 - d.window : 0;
    from = from > 0 ? from / LANES * LANES : 0;
    i64 stride = (to - from + LANES - 1) / LANES * LANES, queries = (last - first) * group;
    i64 need = queries * stride + LANES * d.key_dim + queries * d.value_dim;
    if (need > room) {
        free(scores);
        room = need * 2;
        scores = (float*)malloc(room * sizeof(float));
    }
    float *keys = scores + queries * stride, *out = keys + LANES * d.key_dim;
    const float* q[TILE * 64];
    for (i64 i = first; i < last; i++)
        for (i64 g = 0; g < group; g++) q[(i - first) * group + g] = d.query + i * d.query_token + (head * group + g) * d.query_head;
    auto slot = [&](i64 t) { return d.table[t / d.block_size] * d.block_size + t % d.block_size; };
    for (i64 t = from; t < to; t += LANES) {
        // Transposed by rows of LANES tokens: one store of a whole vector for LANES reads.
        const float* k[LANES];
        for (i64 u = 0; u < LANES; u++) k[u] = d.keys + (slot(t + u < to ? t + u : to - 1) * d.kv_heads + head) * d.key_dim;
        for (i64 i = 0; i < d.key_dim; i++) {
            vec line = {};
#pragma GCC unroll 16
            for (int u = 0; u < LANES; u++) line[u] = k[u][i];
            store(keys + i * LANES, line);
        }
        i64 m = 0;
        for (; m + QUERIES <= queries; m += QUERIES) score<QUERIES>(q + m, keys, d.key_dim, d.scale, scores + m * stride + t - from, stride);
        for (; m < queries; m++) score<1>(q + m, keys, d.key_dim, d.scale, scores + m * stride + t - from, stride);
    }
    for (i64 i = first; i < last; i++)
        for (i64 g = 0; g < group; g++) {
            float* s = scores + ((i - first) * group + g) * stride;
            i64 own = start + i + 1, low = d.window > 0 && own > d.window ? own - d.window : 0;
            i64 skip = low > from ? low - from : 0, length = own - from;
            const float* sink = d.sinks ? d.sinks + head * group + g : nullptr;
            for (i64 t = 0; t < skip; t++) s[t] = -1e30f;
            softmax(s, length, (length + LANES - 1) / LANES * LANES, 0.f, sink);
            for (i64 t = 0; t < skip; t++) s[t] = 0.f;
            for (i64 t = length; t < stride; t++) s[t] = 0.f;
        }
    memset(out, 0, queries * d.value_dim * sizeof(float));
    i64 line = d.kv_heads * d.value_dim;
    blocks(d, d.table, from, to, d.values + head * d.value_dim, line, d.value_dim, [&](i64 t, i64 count, i64 at) {
        const float* v = d.values + at * line + head * d.value_dim;
        weigh(queries, scores + t - from, stride, v, line, count, out, d.value_dim);
    });
    for (i64 i = first; i < last; i++)
        memcpy(d.out + (i * d.query_heads + head * group) * d.value_dim, out + (i - first) * group * d.value_dim,
               group * d.value_dim * sizeof(float));
}

// As `decode`, for the `rows` new tokens of one sequence: table is its block table, contexts[0] its length with them.
// At most 64 query heads per K/V head; no softcap.
extern "C" void prefill(const Attention* args) {
    const Attention& d = *args;
    i64 tiles = (d.rows + TILE - 1) / TILE, tasks = tiles * d.kv_heads;
#pragma omp parallel num_threads(d.threads) if (d.threads > 1 && tasks > 1)
    {
        float* scores = nullptr;
        i64 room = 0;
#pragma omp for schedule(dynamic, 1)
        for (i64 w = 0; w < tasks; w++) {
            i64 tile = tiles - 1 - w / d.kv_heads, first = tile * TILE;  // long ones first
            i64 last = first + TILE < d.rows ? first + TILE : d.rows;
            attend_tile(d, w % d.kv_heads, first, last, scores, room);
        }
        free(scores);
    }
}

extern "C" void decode(const Attention* args) {
    const Attention& d = *args;
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
