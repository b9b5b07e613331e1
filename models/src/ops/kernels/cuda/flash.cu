// Attention in tiles, for bf16 and f16 on GPUs of compute capability 8.0 or newer: no score is written to memory.
//
// Dao et al., "FlashAttention", 2022 (<https://arxiv.org/abs/2205.14135>), and "FlashAttention-2", 2023
// (<https://arxiv.org/abs/2307.08691>). A block of four warps has a tile of 64 queries (or keys) and walks over the tiles of
// 64 keys (or queries) that it meets, each warp with 16 rows. Scores are kept in base 2: exp2(score - lse) is a weight.
// Sums are taken in a fixed order and nothing is added atomically, so that a step gives the same bits every time.
//
// Where order counts, tiles differ in how many others they meet. Those that meet most begin first, of all heads, and the short ones fill
// what is left of the GPU at the end.
//
// Letters: b rows of a batch, t queries, s keys, h heads, k key heads, e width of a head; W is e rounded up to 64 or 128, and a
// tile's columns from e on are zeros.

#include "tiles.cuh"

constexpr int TILE = 64, THREADS = 128;

// Where the rows of one head are: consecutive tokens are `apart` numbers from each other.
template <typename T> struct Head {
    T* start;
    size_t apart;
};

// Distances in numbers between rows of a batch, between tokens, and between heads.
struct Strides {
    size_t batch, token, head;
};

template <typename T> __device__ Head<T> head_of(T* start, Strides strides, int batch, int head) {
    return {start + batch * strides.batch + head * strides.head, strides.token};
}

// A tile in shared memory: 64 rows of W numbers, whose pieces of 16 bytes change places by row, so that the eight rows of a
// matrix lie in different banks.
template <typename T, int W> struct Tile {
    uint32_t base;

    __device__ uint32_t piece(int row, int piece) const { return base + row * W * 2 + ((piece ^ (row & 7)) << 4); }

    // Copies rows from `first` on, of `rows` in all, and their `width` numbers.
    __device__ void fill(Head<const T> head, int first, int rows, int width) const {
        constexpr int PIECES = W / 8;
#pragma unroll
        for (int i = 0; i < TILE * PIECES / THREADS; ++i) {
            const int at = threadIdx.x + THREADS * i, row = at / PIECES, column = at % PIECES * 8;
            const bool there = first + row < rows && column < width;
            const T* from = there ? head.start + (first + row) * head.apart + column : head.start;
            copy_piece(piece(row, at % PIECES), from, there);
        }
    }
};

// c [16 x 64] += rows `row`.. of a [16 x W] times bᵀ [W x 64].
template <typename T, int W>
__device__ void multiply_rows(float (&c)[8][4], Tile<T, W> a, int row, Tile<T, W> b, int lane) {
#pragma unroll
    for (int k = 0; k < W / 16; ++k) {
        uint32_t left[4];
        read_matrices(left, a.piece(row + (lane & 15), 2 * k + (lane >> 4)));
#pragma unroll
        for (int n = 0; n < 4; ++n) {
            uint32_t right[4];
            read_matrices(right, b.piece(n * 16 + (lane & 7) + ((lane >> 4) << 3), 2 * k + ((lane >> 3) & 1)));
            Matrix<T>::multiply(c[2 * n], left, right[0], right[1]);
            Matrix<T>::multiply(c[2 * n + 1], left, right[2], right[3]);
        }
    }
}

// c [16 x W] += p [16 x 64], rounded, times b [64 x W].
template <typename T, int W>
__device__ void multiply_weights(float (&c)[W / 8][4], const float (&p)[8][4], Tile<T, W> b, int lane) {
#pragma unroll
    for (int k = 0; k < 4; ++k) {
        const float(&low)[4] = p[2 * k], (&high)[4] = p[2 * k + 1];
        const uint32_t left[4] = {Matrix<T>::pair(low[0], low[1]), Matrix<T>::pair(low[2], low[3]),
                                  Matrix<T>::pair(high[0], high[1]), Matrix<T>::pair(high[2], high[3])};
#pragma unroll
        for (int n = 0; n < W / 16; ++n) {
            uint32_t right[4];
            read_transposed(right, b.piece(k * 16 + (lane & 15), 2 * n + (lane >> 4)));
            Matrix<T>::multiply(c[2 * n], left, right[0], right[1]);
            Matrix<T>::multiply(c[2 * n + 1], left, right[2], right[3]);
        }
    }
}

template <typename T> __device__ void write_pair(T* to, float first, float second) {
    *reinterpret_cast<uint32_t*>(to) = Matrix<T>::pair(first, second);
}

__device__ void write_pair(float* to, float first, float second) { *reinterpret_cast<float2*>(to) = {first, second}; }

// Writes a warp's 16 rows, each times its factor, of which those below `rows` exist.
template <typename T, int W>
__device__ void write_rows(Head<T> head, const float (&c)[W / 8][4], int row, int rows, int width, float above,
                           float below, int lane) {
    const int first = row + (lane >> 2), second = first + 8;
#pragma unroll
    for (int n = 0; n < W / 8; ++n) {
        const int column = n * 8 + (lane & 3) * 2;
        if (column >= width) continue;
        if (first < rows) write_pair(head.start + first * head.apart + column, c[n][0] * above, c[n][1] * above);
        if (second < rows) write_pair(head.start + second * head.apart + column, c[n][2] * below, c[n][3] * below);
    }
}

// 2^x in one instruction, to two units in the last place. What is too small becomes 0.
__device__ float power_of_two(float x) {
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

__device__ float over_four(float value, bool largest) {
    for (int step = 1; step < 4; step *= 2) {
        const float other = __shfl_xor_sync(0xffffffff, value, step);
        value = largest ? fmaxf(value, other) : value + other;
    }
    return value;
}

// The work of a block: a tile of one of the heads of one row of the batch.
struct Place {
    int tiles, tile, head, batch;
};

// What the blocks that run at a time read again and again, at most, so that the GPU's cache has it.
constexpr size_t CACHED_BYTES = 32 << 20;

// Of as many heads as the cache has room for, which read so many bytes each, all first tiles come first, then all second ones, and so on.
__device__ Place place_of(int places, int heads, size_t bytes) {
    const int tiles = (places + TILE - 1) / TILE, all = gridDim.x / tiles;
    const int together = min(size_t(all), max(CACHED_BYTES / bytes, size_t(1)));
    const int start = int(blockIdx.x) / (tiles * together) * together, count = min(together, all - start);
    const int at = int(blockIdx.x) % (tiles * together), head = start + at % count;
    return {tiles, at / count, head % heads, head / heads};
}

// The keys that a tile of queries sees: from the first that any does to the last, and where all see everything.
struct Seen {
    int first, end, all_from, all_to;
};

__device__ Seen seen_by_tile(const uint2* runs, int first, int tokens) {
    __shared__ Seen seen;
    if (threadIdx.x == 0) seen = {INT32_MAX, 0, 0, INT32_MAX};
    __syncthreads();
    if (threadIdx.x < TILE && first + int(threadIdx.x) < tokens) {
        const uint2 run = runs[first + threadIdx.x];
        atomicMin(&seen.first, int(run.x)), atomicMax(&seen.end, int(run.y));
        atomicMax(&seen.all_from, int(run.x)), atomicMin(&seen.all_to, int(run.y));
    }
    __syncthreads();
    return seen;
}

// q [b, t, h, e], k and v [b, s, k, e] -> y [b, t, h, e], and lse [b, h, t]: the logarithm of the sum of a query's
// exponentials.
template <typename T, int W>
__device__ void flash_forward(const T* q, const T* k, const T* v, T* y, float* lse, const uint2* runs, Strides of_q,
                              Strides of_k, Strides of_v, int tokens, int keys, int heads, int key_heads, int width,
                              float scale) {
    extern __shared__ __align__(128) unsigned char memory[];
    const Place place = place_of(tokens, heads, size_t(keys) * width * 2 * sizeof(T) * key_heads / heads);
    // Late queries see most keys.
    const int first = (place.tiles - 1 - place.tile) * TILE, head = place.head, batch = place.batch;
    const int lane = threadIdx.x % 32, row = threadIdx.x / 32 * 16;
    const int key_head = head / (heads / key_heads);
    runs += size_t(batch) * tokens;
    const Seen seen = seen_by_tile(runs, first, tokens);
    const Head<const T> k_head = head_of(k, of_k, batch, key_head), v_head = head_of(v, of_v, batch, key_head);
    const uint32_t base = shared_address(memory);
    constexpr int BYTES = TILE * W * 2;
    const Tile<T, W> queries{base};
    const auto key_tile = [=](int j) { return Tile<T, W>{base + (1 + j % 2) * BYTES}; };
    const auto value_tile = [=](int j) { return Tile<T, W>{base + (3 + j % 2) * BYTES}; };
    // What lies behind may be what an earlier text has left, and no number, which a weight of zero would not hide.
    const int seen_keys = min(keys, seen.end);
    const auto load = [=](int j) {
        key_tile(j).fill(k_head, j * TILE, seen_keys, width), value_tile(j).fill(v_head, j * TILE, seen_keys, width);
        close_copies();
    };
    const int begin = seen.first / TILE, end = (seen.end + TILE - 1) / TILE;
    queries.fill(head_of(q, of_q, batch, head), first, tokens, width);
    load(begin);

    // A thread has two rows, eight apart.
    const int mine[2] = {first + row + (lane >> 2), first + row + (lane >> 2) + 8};
    float sums[W / 8][4] = {}, largest[2] = {-1e30f, -1e30f}, total[2] = {};
    for (int j = begin; j < end; ++j) {
        if (j + 1 < end) {
            load(j + 1);
            wait_for_copies<1>();
        } else {
            wait_for_copies<0>();
        }
        __syncthreads();
        float p[8][4] = {};
        multiply_rows<T, W>(p, queries, row, key_tile(j), lane);
        const bool edge = seen.all_from > j * TILE || seen.all_to < (j + 1) * TILE;
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            if (edge) {
                const uint2 run = mine[half] < tokens ? runs[mine[half]] : uint2{0, 0};
#pragma unroll
                for (int n = 0; n < 8; ++n) {
#pragma unroll
                    for (int i = 2 * half; i < 2 * half + 2; ++i) {
                        const uint32_t key = j * TILE + n * 8 + (lane & 3) * 2 + (i & 1);
                        if (key < run.x || key >= run.y) p[n][i] = -INFINITY;
                    }
                }
            }
            float most = -INFINITY;
#pragma unroll
            for (int n = 0; n < 8; ++n) most = fmaxf(most, fmaxf(p[n][2 * half], p[n][2 * half + 1]));
            // Never infinite, so that a row that has seen nothing yet gets zeros and not what is no number.
            most = fmaxf(largest[half], over_four(most, true) * scale);
            const float shrink = power_of_two(largest[half] - most);
            largest[half] = most;
            float sum = 0;
#pragma unroll
            for (int n = 0; n < 8; ++n) {
#pragma unroll
                for (int i = 2 * half; i < 2 * half + 2; ++i) sum += p[n][i] = power_of_two(p[n][i] * scale - most);
            }
            total[half] = total[half] * shrink + sum;
#pragma unroll
            for (int n = 0; n < W / 8; ++n) sums[n][2 * half] *= shrink, sums[n][2 * half + 1] *= shrink;
        }
        multiply_weights<T, W>(sums, p, value_tile(j), lane);
        __syncthreads();
    }
    total[0] = over_four(total[0], false), total[1] = over_four(total[1], false);
    const Strides of_y{size_t(tokens) * heads * width, size_t(heads) * width, size_t(width)};
    write_rows<T, W>(head_of(y, of_y, batch, head), sums, first + row, tokens, width, 1.0f / total[0], 1.0f / total[1],
                     lane);
    lse += (size_t(batch) * heads + head) * tokens;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
        if (lane % 4 == 0 && mine[half] < tokens) lse[mine[half]] = largest[half] + log2f(total[half]);
    }
}

constexpr int PACK = 8, PACKS_OF_HEAD = 8;

// Σ y g over each head [b, h, t], eight threads for each. y and its gradient g are [b, t, h, e].
template <typename T>
__device__ void flash_along(const T* y, const T* gradient, float* along, size_t count, int tokens, int heads, int width) {
    struct alignas(16) Pack {
        T of[PACK];
    };
    const size_t at = (size_t(blockIdx.x) * blockDim.x + threadIdx.x) / PACKS_OF_HEAD;
    const int lane = threadIdx.x % PACKS_OF_HEAD;
    float sum = 0;
    for (int i = lane * PACK; i < width && at < count; i += PACKS_OF_HEAD * PACK) {
        const Pack a = *reinterpret_cast<const Pack*>(y + at * width + i);
        const Pack b = *reinterpret_cast<const Pack*>(gradient + at * width + i);
#pragma unroll
        for (int k = 0; k < PACK; ++k) sum += float(a.of[k]) * float(b.of[k]);
    }
    for (int step = PACKS_OF_HEAD / 2; step > 0; step /= 2) sum += __shfl_xor_sync(0xffffffff, sum, step);
    const uint32_t token = uint32_t(at / heads), head = uint32_t(at % heads);
    if (lane == 0 && at < count) along[(token / tokens * size_t(heads) + head) * tokens + token % tokens] = sum;
}

// Gradients of the keys and values [b, s, k, e] of one tile and key head, over all of its query heads. Where those are shared by
// `parts` blocks, each writes the sum over its own, in f32: [parts, b, s, k, e].
template <typename T, typename To, int W>
__device__ void flash_keys_back(const T* q, const T* k, const T* v, const T* gradient, const float* lse,
                                const float* along, const uint2* runs, To* dk, To* dv, Strides of_q, Strides of_k,
                                Strides of_v, int tokens, int keys, int heads, int key_heads, int width, int batches,
                                float scale, float factor) {
    extern __shared__ __align__(128) unsigned char memory[];
    __shared__ float lse_of[2][TILE], along_of[2][TILE];
    __shared__ uint2 run_of[2][TILE];
    __shared__ int begin_shared, end_shared;
    const int group = heads / key_heads / gridDim.y;
    const Place place = place_of(keys, key_heads, size_t(tokens) * width * 2 * sizeof(T) * group);
    // Early keys are seen by most queries.
    const int first = place.tile * TILE, key_head = place.head, batch = place.batch;
    const int lane = threadIdx.x % 32, row = threadIdx.x / 32 * 16;
    const int first_head = key_head * (heads / key_heads) + int(blockIdx.y) * group;
    runs += size_t(batch) * tokens;
    // The tiles of queries that see any of these keys.
    if (threadIdx.x == 0) begin_shared = INT32_MAX, end_shared = 0;
    __syncthreads();
    for (int at = threadIdx.x; at < tokens; at += THREADS) {
        if (int(runs[at].x) < first + TILE && int(runs[at].y) > first) {
            atomicMin(&begin_shared, at / TILE), atomicMax(&end_shared, at / TILE + 1);
        }
    }
    __syncthreads();
    const int begin = begin_shared, end = end_shared;
    const uint32_t base = shared_address(memory);
    constexpr int BYTES = TILE * W * 2;
    const Tile<T, W> key_tile{base}, value_tile{base + BYTES};
    const auto query_tile = [=](int u) { return Tile<T, W>{base + (2 + u) * BYTES}; };
    const auto gradient_tile = [=](int u) { return Tile<T, W>{base + (4 + u) * BYTES}; };
    const Strides of_y{size_t(tokens) * heads * width, size_t(heads) * width, size_t(width)};
    const int steps = begin < end ? (end - begin) * group : 0;
    // Step n is a tile of queries of one of the heads.
    const auto load = [&](int n) {
        const int u = n % 2, head = first_head + n / (end - begin), from = (begin + n % (end - begin)) * TILE;
        query_tile(u).fill(head_of(q, of_q, batch, head), from, tokens, width);
        gradient_tile(u).fill(head_of(gradient, of_y, batch, head), from, tokens, width);
        if (threadIdx.x < TILE) {
            const int at = from + threadIdx.x;
            const size_t of_head = (size_t(batch) * heads + head) * tokens + at;
            const bool there = at < tokens;
            lse_of[u][threadIdx.x] = there ? lse[of_head] : INFINITY;
            along_of[u][threadIdx.x] = there ? along[of_head] : 0.0f;
            run_of[u][threadIdx.x] = there ? runs[at] : uint2{0, 0};
        }
        close_copies();
    };
    key_tile.fill(head_of(k, of_k, batch, key_head), first, keys, width);
    value_tile.fill(head_of(v, of_v, batch, key_head), first, keys, width);
    if (steps > 0) load(0);

    float k_sums[W / 8][4] = {}, v_sums[W / 8][4] = {};
    for (int n = 0; n < steps; ++n) {
        const int u = n % 2;
        if (n + 1 < steps) {
            load(n + 1);
            wait_for_copies<1>();
        } else {
            wait_for_copies<0>();
        }
        const uint2 mine = run_of[u][threadIdx.x % TILE];
        const bool sees_all = __syncthreads_and(int(mine.x) <= first && int(mine.y) >= first + TILE);
        float p[8][4] = {}, dp[8][4] = {};
        multiply_rows<T, W>(p, key_tile, row, query_tile(u), lane);
        multiply_rows<T, W>(dp, value_tile, row, gradient_tile(u), lane);
#pragma unroll
        for (int m = 0; m < 8; ++m) {
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                const int column = m * 8 + (lane & 3) * 2 + (i & 1);
                float weight = power_of_two(p[m][i] * scale - lse_of[u][column]);
                if (!sees_all) {
                    const uint32_t key = first + row + (lane >> 2) + (i < 2 ? 0 : 8);
                    const uint2 run = run_of[u][column];
                    if (key < run.x || key >= run.y) weight = 0;
                }
                p[m][i] = weight;
                dp[m][i] = weight * (dp[m][i] - along_of[u][column]);
            }
        }
        multiply_weights<T, W>(v_sums, p, gradient_tile(u), lane);
        multiply_weights<T, W>(k_sums, dp, query_tile(u), lane);
        __syncthreads();
    }
    const Strides of_out{size_t(keys) * key_heads * width, size_t(key_heads) * width, size_t(width)};
    const size_t part = blockIdx.y * batches * of_out.batch;
    dk += part, dv += part;
    write_rows<To, W>(head_of(dk, of_out, batch, key_head), k_sums, first + row, keys, width, factor, factor, lane);
    write_rows<To, W>(head_of(dv, of_out, batch, key_head), v_sums, first + row, keys, width, 1.0f, 1.0f, lane);
}

// The sums of parts [parts, count] of two tensors, in order.
template <typename T>
__device__ void flash_sum(const float* first, const float* second, T* first_sum, T* second_sum, size_t count, int parts) {
    const size_t at = size_t(blockIdx.x) * blockDim.x + threadIdx.x;
    if (at >= count) return;
    float a = 0, b = 0;
    for (int part = 0; part < parts; ++part) a += first[part * count + at], b += second[part * count + at];
    first_sum[at] = T(a), second_sum[at] = T(b);
}

// Gradients of the queries [b, t, h, e] of one tile and head.
template <typename T, int W>
__device__ void flash_queries_back(const T* q, const T* k, const T* v, const T* gradient, const float* lse,
                                   const float* along, const uint2* runs, T* dq, Strides of_q, Strides of_k, Strides of_v,
                                   int tokens, int keys, int heads, int key_heads, int width, float scale, float factor) {
    extern __shared__ __align__(128) unsigned char memory[];
    const Place place = place_of(tokens, heads, size_t(keys) * width * 2 * sizeof(T) * key_heads / heads);
    const int first = (place.tiles - 1 - place.tile) * TILE, head = place.head, batch = place.batch;
    const int lane = threadIdx.x % 32, row = threadIdx.x / 32 * 16;
    const int key_head = head / (heads / key_heads);
    runs += size_t(batch) * tokens;
    const Seen seen = seen_by_tile(runs, first, tokens);
    const Head<const T> k_head = head_of(k, of_k, batch, key_head), v_head = head_of(v, of_v, batch, key_head);
    const uint32_t base = shared_address(memory);
    constexpr int BYTES = TILE * W * 2;
    const Tile<T, W> queries{base}, gradients{base + BYTES};
    const auto key_tile = [=](int j) { return Tile<T, W>{base + (2 + j % 2) * BYTES}; };
    const auto value_tile = [=](int j) { return Tile<T, W>{base + (4 + j % 2) * BYTES}; };
    const auto load = [=](int j) {
        key_tile(j).fill(k_head, j * TILE, keys, width), value_tile(j).fill(v_head, j * TILE, keys, width);
        close_copies();
    };
    const Strides of_y{size_t(tokens) * heads * width, size_t(heads) * width, size_t(width)};
    const int begin = seen.first / TILE, end = (seen.end + TILE - 1) / TILE;
    queries.fill(head_of(q, of_q, batch, head), first, tokens, width);
    gradients.fill(head_of(gradient, of_y, batch, head), first, tokens, width);
    load(begin);

    const int above = first + row + (lane >> 2), below = above + 8;
    const uint2 nothing{0, 0};
    const uint2 run_above = above < tokens ? runs[above] : nothing, run_below = below < tokens ? runs[below] : nothing;
    const size_t of_head = (size_t(batch) * heads + head) * tokens;
    const float lse_above = above < tokens ? lse[of_head + above] : INFINITY;
    const float lse_below = below < tokens ? lse[of_head + below] : INFINITY;
    const float along_above = above < tokens ? along[of_head + above] : 0.0f;
    const float along_below = below < tokens ? along[of_head + below] : 0.0f;
    float sums[W / 8][4] = {};
    for (int j = begin; j < end; ++j) {
        if (j + 1 < end) {
            load(j + 1);
            wait_for_copies<1>();
        } else {
            wait_for_copies<0>();
        }
        __syncthreads();
        float p[8][4] = {}, dp[8][4] = {};
        multiply_rows<T, W>(p, queries, row, key_tile(j), lane);
        multiply_rows<T, W>(dp, gradients, row, value_tile(j), lane);
        const bool edge = seen.all_from > j * TILE || seen.all_to < (j + 1) * TILE;
#pragma unroll
        for (int n = 0; n < 8; ++n) {
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                float weight = power_of_two(p[n][i] * scale - (i < 2 ? lse_above : lse_below));
                if (edge) {
                    const uint32_t key = j * TILE + n * 8 + (lane & 3) * 2 + (i & 1);
                    const uint2 run = i < 2 ? run_above : run_below;
                    if (key < run.x || key >= run.y) weight = 0;
                }
                dp[n][i] = weight * (dp[n][i] - (i < 2 ? along_above : along_below));
            }
        }
        multiply_weights<T, W>(sums, dp, key_tile(j), lane);
        __syncthreads();
    }
    write_rows<T, W>(head_of(dq, of_y, batch, head), sums, first + row, tokens, width, factor, factor, lane);
}

// Heads up to 64 wide leave registers for three or four blocks at a time, which hide each other's waiting.
#define FOR_WIDTH(T, NAME, W)                                                                                          \
    extern "C" __global__ __launch_bounds__(THREADS, W == 64 ? 4 : 1) void flash_forward_##W##_##NAME(                 \
        const T* q, const T* k, const T* v, T* y, float* lse, const uint2* runs, Strides of_q, Strides of_k,           \
        Strides of_v, int tokens, int keys, int heads, int key_heads, int width, float scale) {                        \
        flash_forward<T, W>(q, k, v, y, lse, runs, of_q, of_k, of_v, tokens, keys, heads, key_heads, width, scale);    \
    }                                                                                                                  \
    extern "C" __global__ __launch_bounds__(THREADS, W == 64 ? 3 : 1) void flash_keys_back_##W##_##NAME(               \
        const T* q, const T* k, const T* v, const T* gradient, const float* lse, const float* along,                   \
        const uint2* runs, T* dk, T* dv, Strides of_q, Strides of_k, Strides of_v, int tokens, int keys, int heads,    \
        int key_heads, int width, int batches, float scale, float factor) {                                            \
        flash_keys_back<T, T, W>(q, k, v, gradient, lse, along, runs, dk, dv, of_q, of_k, of_v, tokens, keys, heads,   \
                                 key_heads, width, batches, scale, factor);                                            \
    }                                                                                                                  \
    extern "C" __global__ __launch_bounds__(THREADS, W == 64 ? 3 : 1) void flash_keys_back_parts_##W##_##NAME(         \
        const T* q, const T* k, const T* v, const T* gradient, const float* lse, const float* along,                   \
        const uint2* runs, float* dk, float* dv, Strides of_q, Strides of_k, Strides of_v, int tokens, int keys,       \
        int heads, int key_heads, int width, int batches, float scale, float factor) {                                 \
        flash_keys_back<T, float, W>(q, k, v, gradient, lse, along, runs, dk, dv, of_q, of_k, of_v, tokens, keys,      \
                                     heads, key_heads, width, batches, scale, factor);                                 \
    }                                                                                                                  \
    extern "C" __global__ __launch_bounds__(THREADS, W == 64 ? 3 : 1) void flash_queries_back_##W##_##NAME(            \
        const T* q, const T* k, const T* v, const T* gradient, const float* lse, const float* along,                   \
        const uint2* runs, T* dq, Strides of_q, Strides of_k, Strides of_v, int tokens, int keys, int heads,           \
        int key_heads, int width, float scale, float factor) {                                                         \
        flash_queries_back<T, W>(q, k, v, gradient, lse, along, runs, dq, of_q, of_k, of_v, tokens, keys, heads,       \
                                 key_heads, width, scale, factor);                                                     \
    }

#define FOR_DTYPE(T, NAME)                                                                                             \
    FOR_WIDTH(T, NAME, 64)                                                                                             \
    FOR_WIDTH(T, NAME, 128)                                                                                            \
    extern "C" __global__ void flash_sum_##NAME(const float* first, const float* second, T* first_sum, T* second_sum,  \
                                                size_t count, int parts) {                                             \
        flash_sum(first, second, first_sum, second_sum, count, parts);                                                 \
    }                                                                                                                  \
    extern "C" __global__ void flash_along_##NAME(const T* y, const T* gradient, float* along, size_t count,           \
                                                  int tokens, int heads, int width) {                                  \
        flash_along(y, gradient, along, count, tokens, heads, width);                                                  \
    }

FOR_DTYPE(__nv_bfloat16, bf16)
FOR_DTYPE(__half, f16)
