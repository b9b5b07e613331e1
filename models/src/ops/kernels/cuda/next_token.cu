// One token of each of a few texts through a decoder: what a model does between two tokens of its answers, in five launches a layer.
//
// x [n, d] are the sums that run through the layers, in f32. Weights are read in packs, and products are summed in f32. Tokens and
// positions lie in the device's memory, so that the same launches serve every token. A text is the work of blocks of its own, which are
// those that it would have alone. Blocks of the same rows of a weight follow each other, so that all but the first find it in the cache
// of the GPU. Formulas stand with the operations: `norm`, `linear`, `rope`, `attention`, `gated`.
//
// A launch takes little longer than a GPU needs to begin the next one. So where GPUs can, a kernel begins while the one before it ends,
// and has the first of its weights when the numbers come that it waits for.
//
// Letters: n texts, d width, h query heads, k key heads, e head width, f feed-forward width, v vocabulary, s parts of the keys.

#include "packs.cuh"
#include <cooperative_groups.h>

constexpr int WARPS = 4, THREADS = 32 * WARPS;
// Blocks that a multiprocessor has room for: a kernel of more registers would leave some of it idle. One of two weights has to.
constexpr int BLOCKS = 8, GATE_BLOCKS = 5;
// Parts into which the keys of a head are split.
constexpr int PARTS = 8;
constexpr unsigned EVERY_LANE = 0xffffffff;
// In the place of the token of a text that has none.
constexpr unsigned ABSENT = 0xffffffff;
constexpr int TEXTS = 4;

// state [n, 2] are tokens and their positions. Whether a text has no token.
__device__ bool is_absent(const unsigned* state, int text) { return state[2 * text] == ABSENT; }

// Waits for all that earlier launches write. What they don't write, which is weights, tokens and positions, may be read before: what is
// read after it takes as long again as a launch.
__device__ void wait_for_launches_before() {
#if __CUDA_ARCH__ >= 900
    // Let on before that, kernels that wait would take the place of those that work.
    asm volatile("griddepcontrol.wait;\n\tgriddepcontrol.launch_dependents;" ::: "memory");
#endif
}

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

// A norm by a block, in memory that the block shares. Its factors are there before there are numbers.
struct Norm {
    float* n;
    int width;
    float epsilon;

    __device__ Norm(const float* factor, float* n, int width, float epsilon) : n(n), width(width), epsilon(epsilon) {
        for (int i = threadIdx.x; i < width; i += THREADS) n[i] = factor[i];
    }

    // n = norm(x), as rounded to T as it is anywhere else. The first numbers are read at once: one after the other, each would take as long
    // as all.
    template <typename T> __device__ void apply(const float* x) const {
        constexpr int HELD = 8;
        float held[HELD], squares = 0;
#pragma unroll
        for (int k = 0; k < HELD; ++k) {
            const int i = threadIdx.x + k * THREADS;
            held[k] = i < width ? x[i] : 0;
        }
#pragma unroll
        for (int k = 0; k < HELD; ++k) squares += held[k] * held[k];
#pragma unroll 4
        for (int i = threadIdx.x + HELD * THREADS; i < width; i += THREADS) squares += x[i] * x[i];
        const float scale = 1.0f / sqrtf(sum_of_block(squares) / width + epsilon);
#pragma unroll
        for (int k = 0; k < HELD; ++k) {
            const int i = threadIdx.x + k * THREADS;
            if (i < width) n[i] = float(T(held[k] * scale * n[i]));
        }
#pragma unroll 4
        for (int i = threadIdx.x + HELD * THREADS; i < width; i += THREADS) n[i] = float(T(x[i] * scale * n[i]));
        __syncthreads();
    }
};

// A row of a weight, of which a thread reads the packs first, first + step, ... The first `HELD` of them it has at once.
template <typename T> struct Row {
    // 64 bytes.
    static constexpr int HELD = 8 / sizeof(T);
    Pack<T> held[HELD];
    const T* row;
    int packs, first, step;

    __device__ Row(const T* row, int width, int first, int step) : row(row), packs(width / PACK), first(first), step(step) {
#pragma unroll
        for (int i = 0; i < HELD; ++i) {
            if (first + i * step < packs) held[i] = pack_at(row + (first + i * step) * PACK);
        }
    }

    // Its product with n, as far as this thread has it.
    template <typename N> __device__ float times(const N* n) const {
        float sum = 0;
        const auto add = [&](const Pack<T>& pack, int at) {
            float w[PACK], of[PACK];
            unpack(pack, w);
            read_pack(n + at * PACK, of);
#pragma unroll
            for (int i = 0; i < PACK; ++i) sum += w[i] * of[i];
        };
#pragma unroll
        for (int i = 0; i < HELD; ++i) {
            if (first + i * step < packs) add(held[i], first + i * step);
        }
#pragma unroll 2
        for (int at = first + HELD * step; at < packs; at += step) add(pack_at(row + at * PACK), at);
        return sum;
    }
};

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
    wait_for_launches_before();
    if (is_absent(state, text) || i >= width) return;
    x[size_t(text) * width + i] = float(T(float(table[size_t(state[2 * text]) * width + i]) * scale));
}

// y = W norm(x) + bias + B z, a warp for a row. `rows` counts those of all parts.
template <typename T>
__device__ void token_inputs(const unsigned* state, const float* x, const float* factor, const Parts<T>& parts, float* y, int rows,
                             int width, float epsilon) {
    extern __shared__ __align__(16) float n[];
    const int text = blockIdx.x, lane = threadIdx.x % 32, at = blockIdx.y * WARPS + threadIdx.x / 32;
    // A warp beyond the last row helps to normalize.
    int row = min(at, rows - 1);
    const Part<T>* part = part_of(parts, row);
    const Row<T> weights(part->weight + size_t(row) * width, width, lane, 32);
    const Norm norm(factor, n, width, epsilon);
    const float bias = part->bias == nullptr ? 0.0f : float(part->bias[row]);
    const bool absent = is_absent(state, text);
    wait_for_launches_before();
    if (absent) return;
    norm.apply<T>(x + size_t(text) * width);
    if (at >= rows) return;
    const float sum = warp_sum(weights.times(n) + low_rank(part->b, part->z + text * part->z_apart, row, int(part->rank)));
    if (lane == 0) y[size_t(text) * rows + at] = sum + bias;
}

// The same of y [n, width] as it is, added to x [n, rows], or put there: a row is the work of `lanes` threads, a warp or a block.
template <typename T>
__device__ void token_output(const unsigned* state, const T* y, const Parts<T>& parts, float* x, int rows, int width, int lanes,
                             int adds) {
    const int text = blockIdx.x, at = blockIdx.y * (THREADS / lanes) + threadIdx.x / lanes;
    // A warp beyond the last row takes part in sums.
    int row = min(at, rows - 1);
    const Part<T>* part = part_of(parts, row);
    const Row<T> weights(part->weight + size_t(row) * width, width, threadIdx.x % lanes, lanes);
    const float bias = part->bias == nullptr ? 0.0f : float(part->bias[row]);
    const bool absent = is_absent(state, text);
    wait_for_launches_before();
    if (absent) return;
    x += size_t(text) * rows + min(at, rows - 1);
    const float before = adds ? *x : 0.0f;
    float sum = weights.times(y + size_t(text) * width);
    if (threadIdx.x % lanes < 32) sum += low_rank(part->b, part->z + text * part->z_apart, row, int(part->rank));
    sum = lanes == 32 ? warp_sum(sum) : sum_of_block(sum);
    if (threadIdx.x % lanes == 0 && at < rows) *x = before + (sum + bias);
}

// h = act(gate) ⊙ up, of both parts of as many rows.
template <typename T>
__device__ void token_gate(const unsigned* state, const float* x, const float* factor, const Parts<T>& parts, T* h, int rows,
                           int width, float epsilon, int activation) {
    extern __shared__ __align__(16) float n[];
    const int text = blockIdx.x, lane = threadIdx.x % 32, at = blockIdx.y * WARPS + threadIdx.x / 32;
    const int row = min(at, rows - 1);
    const Row<T> gate(parts.of[0].weight + size_t(row) * width, width, lane, 32);
    const Row<T> up(parts.of[1].weight + size_t(row) * width, width, lane, 32);
    const Norm norm(factor, n, width, epsilon);
    const bool absent = is_absent(state, text);
    wait_for_launches_before();
    if (absent) return;
    norm.apply<T>(x + size_t(text) * width);
    if (at >= rows) return;
    const auto output = [&](const Row<T>& weights, const Part<T>& part) {
        const float sum = warp_sum(weights.times(n) + low_rank(part.b, part.z + text * part.z_apart, row, int(part.rank)));
        return float(T(part.bias == nullptr ? sum : sum + float(part.bias[row])));
    };
    const float gated = output(gate, parts.of[0]), as_it_is = output(up, parts.of[1]);
    if (lane == 0) h[size_t(text) * rows + row] = T(activate(gated, activation).x * as_it_is);
}

// Scores [n, v] of the next tokens: W norm(x), capped softly where there is a cap.
template <typename T>
__device__ void token_head(const unsigned* state, const float* x, const float* factor, const T* weight, float* scores, int rows,
                           int width, float epsilon, float cap) {
    extern __shared__ __align__(16) float n[];
    const int text = blockIdx.x, lane = threadIdx.x % 32, warps = gridDim.y * WARPS;
    int row = blockIdx.y * WARPS + threadIdx.x / 32;
    const auto weights_of = [&](int row) { return Row<T>(weight + size_t(min(row, rows - 1)) * width, width, lane, 32); };
    Row<T> weights = weights_of(row);
    const bool absent = is_absent(state, text);
    const Norm norm(factor, n, width, epsilon);
    wait_for_launches_before();
    if (absent) return;
    norm.apply<T>(x + size_t(text) * width);
    scores += size_t(text) * rows;
    for (; row < rows; row += warps) {
        // Those of the next row are on their way while this one is computed.
        const Row<T> next = weights_of(row + warps);
        const float sum = warp_sum(weights.times(n));
        if (lane == 0) scores[row] = cap > 0 ? cap * tanhf(sum / cap) : sum;
        weights = next;
    }
}

constexpr int WIDEST_HEAD = 256;
// Numbers of a head that a thread has.
constexpr int OF_HEAD = WIDEST_HEAD / THREADS;

// The angles by which a thread turns its numbers of a head: their cosines and sines, and the number that each is turned with.
struct Turn {
    float cosine[OF_HEAD], sine[OF_HEAD];
    int other[OF_HEAD];

    // By angles of one position.
    __device__ Turn(const float* cosines, const float* sines, int pairs) {
#pragma unroll
        for (int k = 0; k < OF_HEAD; ++k) {
            const int i = threadIdx.x + k * THREADS, pair = i < pairs ? i : i - pairs;
            const bool turns = pair < pairs;
            other[k] = !turns ? i : i < pairs ? i + pairs : i - pairs;
            cosine[k] = turns ? cosines[pair] : 1;
            sine[k] = !turns ? 0 : i < pairs ? -sines[pair] : sines[pair];
        }
    }
};

// A thread's numbers of a head, each with the one that it is turned with.
struct Head {
    float own[OF_HEAD], other[OF_HEAD];

    __device__ Head(const float* from, const Turn& turn, int width) {
#pragma unroll
        for (int k = 0; k < OF_HEAD; ++k) {
            const int i = threadIdx.x + k * THREADS;
            own[k] = i < width ? from[i] : 0;
            other[k] = i < width ? from[turn.other[k]] : 0;
        }
    }

    // Puts it there, normalized where there is a factor, and turned.
    __device__ void put(float* to, const float* factor, const Turn& turn, int width, float epsilon) const {
        float squares = 0;
#pragma unroll
        for (int k = 0; k < OF_HEAD; ++k) squares += own[k] * own[k];
        const float scale = factor == nullptr ? 1.0f : 1.0f / sqrtf(sum_of_block(squares) / width + epsilon);
#pragma unroll
        for (int k = 0; k < OF_HEAD; ++k) {
            const int i = threadIdx.x + k * THREADS;
            if (i >= width) continue;
            const float of_own = factor == nullptr ? 1 : scale * factor[i];
            const float of_other = factor == nullptr ? 1 : scale * factor[turn.other[k]];
            to[i] = own[k] * of_own * turn.cosine[k] + other[k] * of_other * turn.sine[k];
        }
    }
};

// The caches of each text.
template <typename T> struct Caches {
    T *keys[TEXTS], *values[TEXTS];
};

// What one query says of some keys: the largest score, and the sum of powers beside it. The weighted sum of values goes with it.
struct Seen {
    float largest, sum;
};

// That with the weighted sum of values.
struct Found {
    Seen seen;
    const float* values;
};

// What several parts say together: of what `of` says of each.
template <int COUNT> struct Joined {
    float factors[COUNT];
    Seen seen;

    template <typename Of> __device__ explicit Joined(const Of& of) : seen{-1e30f, 0} {
        Seen each[COUNT];
#pragma unroll
        for (int i = 0; i < COUNT; ++i) each[i] = of(i).seen, seen.largest = fmaxf(seen.largest, each[i].largest);
#pragma unroll
        for (int i = 0; i < COUNT; ++i) {
            factors[i] = expf(each[i].largest - seen.largest);
            seen.sum += each[i].sum * factors[i];
        }
    }

    template <typename Of> __device__ float value(const Of& of, int at) const {
        float value = 0;
#pragma unroll
        for (int i = 0; i < COUNT; ++i) value += of(i).values[at] * factors[i];
        return value;
    }
};

// y [n, h e] of a query head over one part of its keys. The parts are joined by the first of them, which reads what the others have in
// their own memory, or where a GPU has no such clusters by the last to end. Keys and values of the token go into the caches
// [capacity, k, e] on the way.
//
// qkv [n, (h + 2k) e] are projections. sums [n, h, s, e], seen [n, h, s] and done [n, h] are memory to work in; done is 0 before and
// after.
template <typename T>
__device__ void token_attention(const unsigned* state, const float* qkv, const float* q_factor, const float* k_factor,
                                const float* cosines, const float* sines, const Caches<T>& caches, T* y, float* sums,
                                float2* seen, unsigned* done, int heads, int key_heads, int width, int pairs, int window, float scale,
                                float cap, float epsilon) {
    __shared__ float q[WIDEST_HEAD], own_key[WIDEST_HEAD], own_value[WIDEST_HEAD];
    __shared__ float of_warp[WARPS][WIDEST_HEAD], of_part[WIDEST_HEAD];
    __shared__ Seen seen_by_warp[WARPS], seen_by_part;
    const int text = blockIdx.x / heads, head = blockIdx.x % heads, part = blockIdx.y;
    if (is_absent(state, text)) {
        wait_for_launches_before();
        return;
    }
    T *keys = nullptr, *values = nullptr;
#pragma unroll
    for (int i = 0; i < TEXTS; ++i) {
        if (i == text) keys = caches.keys[i], values = caches.values[i];
    }
    qkv += size_t(text) * (heads + 2 * key_heads) * width, y += size_t(text) * heads * width, done += text * heads;
    const int group_heads = heads / key_heads, key_head = head / group_heads, position = int(state[2 * text + 1]);
    const Turn turn(cosines + size_t(position) * pairs, sines + size_t(position) * pairs, pairs);
    // A key is the work of as many threads as it has packs; the token's own key is that of the last part.
    const int lanes = width / PACK, groups = THREADS / lanes, lane = threadIdx.x % lanes, group = threadIdx.x / lanes;
    const int first = window > 0 ? max(0, position + 1 - window) : 0, count = position - first;
    const int share = (count + PARTS - 1) / PARTS, from = min(part * share, count), to = min(from + share, count);
    // Keys and values of a round are on their way while the one before it is computed: earlier tokens left them.
    Pack<T> next_key, next_value;
    const auto fetch = [&](int round) {
        const int key = from + round * groups + group;
        if (key >= to) return;
        const size_t at = (size_t(first + key) * key_heads + key_head) * width + lane * PACK;
        next_key = pack_at(keys + at), next_value = pack_at(values + at);
    };
    fetch(0);
    wait_for_launches_before();
    {
        // All are read before one is needed.
        const Head query(qkv + size_t(head) * width, turn, width);
        const Head key(qkv + size_t(heads + key_head) * width, turn, width);
        const Head value(qkv + size_t(heads + key_heads + key_head) * width, turn, width);
        query.put(q, q_factor, turn, width, epsilon);
        key.put(own_key, k_factor, turn, width, epsilon);
#pragma unroll
        for (int k = 0; k < OF_HEAD; ++k) {
            const int i = threadIdx.x + k * THREADS;
            if (i < width) own_value[i] = value.own[k];
        }
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

    float of_query[PACK], sum[PACK] = {}, largest = -1e30f, total = 0;
#pragma unroll
    for (int i = 0; i < PACK; ++i) of_query[i] = q[lane * PACK + i];
    // Every thread of a warp takes part in every exchange, also where its group has no key left.
    const int rounds = (to - from + groups - 1) / groups + (part == PARTS - 1 ? 1 : 0);
    for (int round = 0; round < rounds; ++round) {
        const int key = from + round * groups + group;
        const bool is_own = part == PARTS - 1 && round == rounds - 1;
        const bool counts = is_own ? group == 0 : key < to;
        float k[PACK] = {}, v[PACK] = {};
        if (is_own) {
#pragma unroll
            for (int i = 0; i < PACK; ++i) k[i] = own_key[lane * PACK + i], v[i] = own_value[lane * PACK + i];
        } else if (counts) {
            unpack(next_key, k);
            unpack(next_value, v);
        }
        fetch(round + 1);
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
    // The groups of a warp, two by two.
    for (int step = lanes; step < 32; step *= 2) {
        const float beside = __shfl_xor_sync(EVERY_LANE, largest, step), most = fmaxf(largest, beside);
        const float own = expf(largest - most), other = expf(beside - most);
        total = total * own + __shfl_xor_sync(EVERY_LANE, total, step) * other;
#pragma unroll
        for (int i = 0; i < PACK; ++i) sum[i] = sum[i] * own + __shfl_xor_sync(EVERY_LANE, sum[i], step) * other;
        largest = most;
    }
    const int warp = threadIdx.x / 32;
    if (threadIdx.x % 32 < lanes) {
#pragma unroll
        for (int i = 0; i < PACK; ++i) of_warp[warp][lane * PACK + i] = sum[i];
        if (lane == 0) seen_by_warp[warp] = {largest, total};
    }
    __syncthreads();

    // The warps.
    const auto by_warp = [&](int i) { return Found{seen_by_warp[i], of_warp[i]}; };
    const auto join_warps = Joined<WARPS>(by_warp);
#pragma unroll
    for (int k = 0; k < OF_HEAD; ++k) {
        const int i = threadIdx.x + k * THREADS;
        if (i < width) of_part[i] = join_warps.value(by_warp, i);
    }
    if (threadIdx.x == 0) seen_by_part = join_warps.seen;
#if __CUDA_ARCH__ >= 900
    // The parts, each in the memory of its block.
    const auto cluster = cooperative_groups::this_cluster();
    cluster.sync();
    if (part == 0) {
        const auto by_part = [&](int i) {
            return Found{*cluster.map_shared_rank(&seen_by_part, i), cluster.map_shared_rank(of_part, i)};
        };
        const auto join_parts = Joined<PARTS>(by_part);
#pragma unroll
        for (int k = 0; k < OF_HEAD; ++k) {
            const int i = threadIdx.x + k * THREADS;
            if (i < width) y[size_t(head) * width + i] = T(join_parts.value(by_part, i) / join_parts.seen.sum);
        }
    }
    // A block stays as long as its memory is read.
    cluster.sync();
#else
    // The parts: whoever counts last sees what all others wrote before they counted.
    __shared__ bool is_last;
    const size_t place = size_t(blockIdx.x) * PARTS;
    for (int i = threadIdx.x; i < width; i += THREADS) sums[(place + part) * width + i] = of_part[i];
    if (threadIdx.x == 0) seen[place + part] = make_float2(seen_by_part.largest, seen_by_part.sum);
    __threadfence();
    __syncthreads();
    if (threadIdx.x == 0) is_last = atomicAdd(done + head, 1) + 1 == unsigned(PARTS);
    __syncthreads();
    if (!is_last) return;
    __threadfence();
    const auto by_part = [&](int i) {
        const float2 of = __ldcg(seen + place + i);
        return Found{{of.x, of.y}, sums + (place + i) * width};
    };
    const auto join_parts = Joined<PARTS>(by_part);
    for (int i = threadIdx.x; i < width; i += THREADS) {
        y[size_t(head) * width + i] = T(join_parts.value(by_part, i) / join_parts.seen.sum);
    }
    if (threadIdx.x == 0) done[head] = 0;
#endif
}

#define FOR(T, suffix)                                                                                                        \
    extern "C" __global__ void token_embedding_##suffix(                                                                      \
        const unsigned* state, const T* table, float* x, int width, float scale) {                                            \
        token_embedding(state, table, x, width, scale);                                                                       \
    }                                                                                                                         \
    extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS) token_inputs_##suffix(                                      \
        const unsigned* state, const float* x, const float* factor, const Parts<T> parts, float* y, int rows, int width,      \
        float epsilon) {                                                                                                      \
        token_inputs(state, x, factor, parts, y, rows, width, epsilon);                                                       \
    }                                                                                                                         \
    extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS) token_output_##suffix(                                      \
        const unsigned* state, const T* y, const Parts<T> parts, float* x, int rows, int width, int lanes, int adds) {        \
        token_output(state, y, parts, x, rows, width, lanes, adds);                                                           \
    }                                                                                                                         \
    extern "C" __global__ void __launch_bounds__(THREADS, GATE_BLOCKS) token_gate_##suffix(                                   \
        const unsigned* state, const float* x, const float* factor, const Parts<T> parts, T* h, int rows, int width,          \
        int activation, float epsilon) {                                                                                      \
        token_gate(state, x, factor, parts, h, rows, width, epsilon, activation);                                             \
    }                                                                                                                         \
    extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS) token_head_##suffix(                                        \
        const unsigned* state, const float* x, const float* factor, const T* weight, float* scores, int rows, int width,      \
        float epsilon, float cap) {                                                                                           \
        token_head(state, x, factor, weight, scores, rows, width, epsilon, cap);                                              \
    }                                                                                                                         \
    extern "C" __global__ void token_attention_##suffix(                                                                      \
        const unsigned* state, const float* qkv, const float* q_factor, const float* k_factor, const float* cosines,          \
        const float* sines, const Caches<T> caches, T* y, float* sums, float2* seen, unsigned* done, int heads,               \
        int key_heads, int width, int pairs, int window, float scale, float cap, float epsilon) {                             \
        token_attention(state, qkv, q_factor, k_factor, cosines, sines, caches, y, sums, seen, done, heads, key_heads,        \
                        width, pairs, window, scale, cap, epsilon);                                                           \
    }

FOR(float, f32)
FOR(__half, f16)
FOR(__nv_bfloat16, bf16)
