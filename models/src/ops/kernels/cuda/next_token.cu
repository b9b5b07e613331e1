// One token of each of a few texts through a decoder: what a model does between two tokens of its answers, in five launches a layer.
//
// x [n, d] are the sums that run through the layers, in f32. Weights are read in packs, and products are summed in f32. Tokens and
// positions lie in the device's memory, so that the same launches serve every token. A text is the work of blocks of its own, which are
// those that it would have alone. Blocks of the same rows of a weight follow each other, so that all but the first find it in the cache
// of the GPU. Formulas stand with the operations: `norm`, `linear`, `rope`, `attention`, `gated`.
//
// Letters: n texts, d width, h query heads, k key heads, e head width, f feed-forward width, v vocabulary, s parts of the keys.

#include "packs.cuh"

constexpr int WARPS = 4, THREADS = 32 * WARPS;
constexpr unsigned EVERY_LANE = 0xffffffff;
// In the place of the token of a text that has none.
constexpr unsigned ABSENT = 0xffffffff;
constexpr int TEXTS = 4;

// state [n, 2] are tokens and their positions. Whether a text has no token.
__device__ bool is_absent(const unsigned* state, int text) { return state[2 * text] == ABSENT; }

__device__ float warp_sum(float value) {
#pragma unroll
    for (int step = 16; step > 0; step /= 2) value += __shfl_xor_sync(EVERY_LANE, value, step);
    return value;
}

// The sum over a block, known to all of it.
__device__ float sum_of_block(float value) {
    __shared__ float of_warp[WARPS];
    value = warp_sum(value);
    __syncthreads();
    if (threadIdx.x % 32 == 0) of_warp[threadIdx.x / 32] = value;
    __syncthreads();
    value = 0;
#pragma unroll
    for (int warp = 0; warp < WARPS; ++warp) value += of_warp[warp];
    return value;
}

// n = norm(x), as rounded to T as it is anywhere else, into memory that the block shares.
template <typename T> __device__ void normalize(const float* x, const float* factor, float* n, int width, float epsilon) {
    float squares = 0;
    for (int i = threadIdx.x; i < width; i += THREADS) squares += x[i] * x[i];
    const float scale = 1.0f / sqrtf(sum_of_block(squares) / width + epsilon);
    for (int i = threadIdx.x; i < width; i += THREADS) n[i] = float(T(x[i] * scale * factor[i]));
    __syncthreads();
}

// Weight row · n, over the packs first, first + step, ...
template <typename T, typename N> __device__ float product(const T* row, const N* n, int width, int first, int step) {
    float sum = 0;
#pragma unroll 4
    for (int pack = first; pack < width / PACK; pack += step) {
        float w[PACK];
        read_pack(row + pack * PACK, w);
        float of[PACK];
        read_pack(n + pack * PACK, of);
#pragma unroll
        for (int i = 0; i < PACK; ++i) sum += w[i] * of[i];
    }
    return sum;
}

// What an adapter adds to an output: its row of B [outputs, r], already scaled, times z = A n [r].
template <typename T> __device__ float low_rank(const T* b, const float* z, int row, int rank) {
    float sum = 0;
    if (b != nullptr) {
        for (int i = threadIdx.x % 32; i < rank; i += 32) sum += float(b[size_t(row) * rank + i]) * z[i];
    }
    return sum;
}

// One of up to three weights whose outputs lie one after the other.
template <typename T> struct Part {
    const T *weight, *bias, *b;
    const float* z;
    // `z_apart`: from one text to the next.
    size_t rows, rank, z_apart;
};

template <typename T> struct Parts {
    Part<T> of[3];
};

// The part of a row, and the row in it.
template <typename T> __device__ const Part<T>* part_of(const Parts<T>& parts, int& row) {
    const Part<T>* part = parts.of;
    while (row >= int(part->rows)) row -= int(part++->rows);
    return part;
}

// x = the row of the token in the table.
template <typename T>
__device__ void token_embedding(const unsigned* state, const T* table, float* x, int width, float scale) {
    const int i = blockIdx.y * blockDim.x + threadIdx.x, text = blockIdx.x;
    if (is_absent(state, text) || i >= width) return;
    x[size_t(text) * width + i] = float(T(float(table[size_t(state[2 * text]) * width + i]) * scale));
}

// y = W norm(x) + bias + B z, a warp for a row. `rows` counts those of all parts.
template <typename T>
__device__ void token_inputs(const unsigned* state, const float* x, const float* factor, const Parts<T>& parts, float* y, int rows,
                             int width, float epsilon) {
    extern __shared__ __align__(16) float n[];
    const int text = blockIdx.x;
    if (is_absent(state, text)) return;
    y += size_t(text) * rows;
    normalize<T>(x + size_t(text) * width, factor, n, width, epsilon);
    const int lane = threadIdx.x % 32;
    for (int at = blockIdx.y * WARPS + threadIdx.x / 32; at < rows; at += gridDim.y * WARPS) {
        int row = at;
        const Part<T>* part = part_of(parts, row);
        float sum = product(part->weight + size_t(row) * width, n, width, lane, 32);
        sum = warp_sum(sum + low_rank(part->b, part->z + text * part->z_apart, row, int(part->rank)));
        if (lane == 0) y[at] = sum + (part->bias == nullptr ? 0.0f : float(part->bias[row]));
    }
}

// The same of y [n, width] as it is, a block for a row: added to x [n, rows], or put there.
template <typename T>
__device__ void token_output(const unsigned* state, const T* y, const Parts<T>& parts, float* x, int width, int adds) {
    int row = blockIdx.y;
    const int text = blockIdx.x;
    if (is_absent(state, text)) return;
    x += size_t(text) * gridDim.y + blockIdx.y;
    const Part<T>* part = part_of(parts, row);
    float sum = product(part->weight + size_t(row) * width, y + size_t(text) * width, width, threadIdx.x, THREADS);
    if (threadIdx.x < 32) sum += low_rank(part->b, part->z + text * part->z_apart, row, int(part->rank));
    sum = sum_of_block(sum);
    if (threadIdx.x != 0) return;
    if (part->bias != nullptr) sum += float(part->bias[row]);
    *x = adds ? *x + sum : sum;
}

// h = act(gate) ⊙ up, of both parts of as many rows.
template <typename T>
__device__ void token_gate(const unsigned* state, const float* x, const float* factor, const Parts<T>& parts, T* h, int rows,
                           int width, float epsilon, int activation) {
    extern __shared__ __align__(16) float n[];
    const int text = blockIdx.x;
    if (is_absent(state, text)) return;
    h += size_t(text) * rows;
    normalize<T>(x + size_t(text) * width, factor, n, width, epsilon);
    const int lane = threadIdx.x % 32;
    for (int row = blockIdx.y * WARPS + threadIdx.x / 32; row < rows; row += gridDim.y * WARPS) {
        float sums[2];
#pragma unroll
        for (int which = 0; which < 2; ++which) {
            const Part<T>& part = parts.of[which];
            const float sum = product(part.weight + size_t(row) * width, n, width, lane, 32);
            sums[which] = warp_sum(sum + low_rank(part.b, part.z + text * part.z_apart, row, int(part.rank)));
            if (part.bias != nullptr) sums[which] += float(part.bias[row]);
        }
        if (lane == 0) h[row] = T(activate(float(T(sums[0])), activation).x * float(T(sums[1])));
    }
}

// Scores [n, v] of the next tokens: W norm(x), capped softly where there is a cap.
template <typename T>
__device__ void token_head(const unsigned* state, const float* x, const float* factor, const T* weight, float* scores, int rows,
                           int width, float epsilon, float cap) {
    extern __shared__ __align__(16) float n[];
    const int text = blockIdx.x;
    if (is_absent(state, text)) return;
    scores += size_t(text) * rows;
    normalize<T>(x + size_t(text) * width, factor, n, width, epsilon);
    const int lane = threadIdx.x % 32;
    for (int row = blockIdx.y * WARPS + threadIdx.x / 32; row < rows; row += gridDim.y * WARPS) {
        const float sum = warp_sum(product(weight + size_t(row) * width, n, width, lane, 32));
        if (lane == 0) scores[row] = cap > 0 ? cap * tanhf(sum / cap) : sum;
    }
}

// The head at `from`, normalized where there is a factor and turned where there are angles, into `to`.
__device__ void make_ready(const float* from, const float* factor, const float* cosines, const float* sines, float* to, int width,
                           int pairs, float epsilon) {
    float squares = 0;
    for (int i = threadIdx.x; i < width; i += THREADS) squares += from[i] * from[i];
    const float scale = factor == nullptr ? 1.0f : 1.0f / sqrtf(sum_of_block(squares) / width + epsilon);
    const auto at = [&](int i) { return factor == nullptr ? from[i] : from[i] * scale * factor[i]; };
    for (int i = threadIdx.x; i < width; i += THREADS) {
        if (i < pairs) {
            to[i] = at(i) * cosines[i] - at(i + pairs) * sines[i];
        } else if (i < 2 * pairs) {
            to[i] = at(i) * cosines[i - pairs] + at(i - pairs) * sines[i - pairs];
        } else {
            to[i] = at(i);
        }
    }
}

constexpr int WIDEST_HEAD = 256;

// The caches of each text.
template <typename T> struct Caches {
    T *keys[TEXTS], *values[TEXTS];
};

// What one query says of some keys: the largest score, the sum of powers, and the weighted sum of values.
struct Seen {
    float largest, sum;
};

// y [n, h e] of a query head over one part of its keys; the last part to end joins all. Keys and values of the token go into the
// caches [capacity, k, e] on the way.
//
// qkv [n, (h + 2k) e] are projections. sums [n, h, s, e], seen [n, h, s] and done [n, h] are memory to work in; done is 0 before and
// after.
template <typename T>
__device__ void token_attention(const unsigned* state, const float* qkv, const float* q_factor, const float* k_factor,
                                const float* cosines, const float* sines, const Caches<T>& caches, T* y, float* sums,
                                float2* seen, unsigned* done, int heads, int key_heads, int width, int pairs, int window, float scale,
                                float cap, float epsilon) {
    __shared__ float q[WIDEST_HEAD], own_key[WIDEST_HEAD], own_value[WIDEST_HEAD];
    __shared__ float joined[THREADS * PACK];
    __shared__ Seen of_group[THREADS];
    const int text = blockIdx.x / heads, head = blockIdx.x % heads, part = blockIdx.y, parts = gridDim.y;
    if (is_absent(state, text)) return;
    T *keys = caches.keys[text], *values = caches.values[text];
    qkv += size_t(text) * (heads + 2 * key_heads) * width, y += size_t(text) * heads * width, done += text * heads;
    const int group_heads = heads / key_heads, key_head = head / group_heads, position = int(state[2 * text + 1]);
    const float *c = cosines + size_t(position) * pairs, *s = sines + size_t(position) * pairs;
    make_ready(qkv + size_t(head) * width, q_factor, c, s, q, width, pairs, epsilon);
    make_ready(qkv + size_t(heads + key_head) * width, k_factor, c, s, own_key, width, pairs, epsilon);
    for (int i = threadIdx.x; i < width; i += THREADS) {
        own_value[i] = qkv[size_t(heads + key_heads + key_head) * width + i];
    }
    __syncthreads();
    // As they are read later, when they come from the cache.
    for (int i = threadIdx.x; i < width; i += THREADS) {
        const T key = T(own_key[i]), value = T(own_value[i]);
        own_key[i] = float(key), own_value[i] = float(value);
        q[i] = float(T(q[i])) * scale;
        if (part == 0 && head % group_heads == 0) {
            const size_t to = (size_t(position) * key_heads + key_head) * width + i;
            keys[to] = key, values[to] = value;
        }
    }
    __syncthreads();

    // A key is the work of as many threads as it has packs; the token's own key is that of the last part.
    const int lanes = width / PACK, groups = THREADS / lanes, lane = threadIdx.x % lanes, group = threadIdx.x / lanes;
    const int first = window > 0 ? max(0, position + 1 - window) : 0, count = position - first;
    const int share = (count + parts - 1) / parts, from = min(part * share, count), to = min(from + share, count);
    float of_query[PACK], sum[PACK] = {}, largest = -1e30f, total = 0;
#pragma unroll
    for (int i = 0; i < PACK; ++i) of_query[i] = q[lane * PACK + i];
    // Every thread of a warp takes part in every exchange, also where its group has no key left.
    const int rounds = (to - from + groups - 1) / groups + (part == parts - 1 ? 1 : 0);
    for (int round = 0; round < rounds; ++round) {
        const int key = from + round * groups + group;
        const bool is_own = part == parts - 1 && round == rounds - 1;
        const bool counts = is_own ? group == 0 : key < to;
        float k[PACK] = {}, v[PACK] = {};
        if (is_own) {
#pragma unroll
            for (int i = 0; i < PACK; ++i) k[i] = own_key[lane * PACK + i], v[i] = own_value[lane * PACK + i];
        } else if (counts) {
            const size_t at = (size_t(first + key) * key_heads + key_head) * width + lane * PACK;
            read_pack(keys + at, k);
            read_pack(values + at, v);
        }
        float score = 0;
#pragma unroll
        for (int i = 0; i < PACK; ++i) score += of_query[i] * k[i];
        for (int step = lanes / 2; step > 0; step /= 2) score += __shfl_xor_sync(EVERY_LANE, score, step);
        if (cap > 0) score = cap * tanhf(score / cap);
        if (!counts) continue;
        const float next = fmaxf(largest, score), before = expf(largest - next), now = expf(score - next);
        total = total * before + now;
        largest = next;
#pragma unroll
        for (int i = 0; i < PACK; ++i) sum[i] = sum[i] * before + now * v[i];
    }
#pragma unroll
    for (int i = 0; i < PACK; ++i) joined[group * width + lane * PACK + i] = sum[i];
    if (lane == 0) of_group[group] = {largest, total};
    __syncthreads();

    // The groups of this part, one after the other.
    float most = -1e30f, all = 0;
    for (int other = 0; other < groups; ++other) most = fmaxf(most, of_group[other].largest);
    for (int other = 0; other < groups; ++other) all += of_group[other].sum * expf(of_group[other].largest - most);
    const size_t place = size_t(blockIdx.x) * parts + part;
    for (int i = threadIdx.x; i < width; i += THREADS) {
        float value = 0;
        for (int other = 0; other < groups; ++other) {
            value += joined[other * width + i] * expf(of_group[other].largest - most);
        }
        sums[place * width + i] = value;
    }
    if (threadIdx.x == 0) seen[place] = make_float2(most, all);
    // Whoever counts last sees what all others wrote before they counted.
    __shared__ bool is_last;
    __threadfence();
    __syncthreads();
    if (threadIdx.x == 0) is_last = atomicAdd(done + head, 1) + 1 == unsigned(parts);
    __syncthreads();
    if (!is_last) return;
    __threadfence();
    const float2* of_parts = seen + size_t(blockIdx.x) * parts;
    most = -1e30f, all = 0;
    for (int other = 0; other < parts; ++other) most = fmaxf(most, __ldcg(&of_parts[other].x));
    for (int other = 0; other < parts; ++other) all += __ldcg(&of_parts[other].y) * expf(__ldcg(&of_parts[other].x) - most);
    for (int i = threadIdx.x; i < width; i += THREADS) {
        float value = 0;
        for (int other = 0; other < parts; ++other) {
            const float factor = expf(__ldcg(&of_parts[other].x) - most);
            value += __ldcg(sums + (size_t(blockIdx.x) * parts + other) * width + i) * factor;
        }
        y[size_t(head) * width + i] = T(value / all);
    }
    if (threadIdx.x == 0) done[head] = 0;
}

#define FOR(T, suffix)                                                                                                         \
    extern "C" __global__ void token_embedding_##suffix(const unsigned* state, const T* table, float* x, int width,            \
                                                        float scale) {                                                         \
        token_embedding(state, table, x, width, scale);                                                                        \
    }                                                                                                                          \
    extern "C" __global__ void token_inputs_##suffix(const unsigned* state, const float* x, const float* factor,               \
                                                     const Parts<T> parts, float* y, int rows, int width, float epsilon) {     \
        token_inputs(state, x, factor, parts, y, rows, width, epsilon);                                                        \
    }                                                                                                                          \
    extern "C" __global__ void token_output_##suffix(const unsigned* state, const T* y, const Parts<T> parts, float* x,        \
                                                     int width, int adds) {                                                    \
        token_output(state, y, parts, x, width, adds);                                                                         \
    }                                                                                                                          \
    extern "C" __global__ void token_gate_##suffix(const unsigned* state, const float* x, const float* factor,                 \
                                                   const Parts<T> parts, T* h, int rows, int width, int activation,            \
                                                   float epsilon) {                                                            \
        token_gate(state, x, factor, parts, h, rows, width, epsilon, activation);                                              \
    }                                                                                                                          \
    extern "C" __global__ void token_head_##suffix(const unsigned* state, const float* x, const float* factor,                 \
                                                   const T* weight, float* scores, int rows, int width, float epsilon,         \
                                                   float cap) {                                                                \
        token_head(state, x, factor, weight, scores, rows, width, epsilon, cap);                                               \
    }                                                                                                                          \
    extern "C" __global__ void token_attention_##suffix(                                                                       \
        const unsigned* state, const float* qkv, const float* q_factor, const float* k_factor, const float* cosines,           \
        const float* sines, const Caches<T> caches, T* y, float* sums, float2* seen, unsigned* done, int heads,                \
        int key_heads, int width, int pairs, int window, float scale, float cap, float epsilon) {                              \
        token_attention(state, qkv, q_factor, k_factor, cosines, sines, caches, y, sums, seen, done, heads, key_heads,         \
                        width, pairs, window, scale, cap, epsilon);                                                            \
    }

FOR(float, f32)
FOR(__half, f16)
FOR(__nv_bfloat16, bf16)
