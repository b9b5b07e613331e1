// Kernels for CUDA, each in f32, bf16 and f16. Whatever the dtype, sums and exponentials are f32.
//
// A row is the work of one block. Sums are taken in a fixed order, so a step gives the same bits every time.
// Formulas stand in the documentation of the operation that a kernel serves.

#include "sums.cuh"
#include "thin.cuh"

// x [n, width] -> y, and the factor rho [n] that each row was scaled by.
template <typename T>
__device__ void rms_norm(const T* x, const float* factor, T* y, float* rho, int width, float epsilon) {
    x += size_t(blockIdx.x) * width;
    y += size_t(blockIdx.x) * width;
    float squares = 0;
    for (int i = threadIdx.x; i < width; i += blockDim.x) {
        const float number = x[i];
        squares += number * number;
    }
    const float scale = 1.0f / sqrtf(block_sum(squares) / width + epsilon);
    if (threadIdx.x == 0) rho[blockIdx.x] = scale;
    for (int i = threadIdx.x; i < width; i += blockDim.x) y[i] = T(float(x[i]) * scale * factor[i]);
}

template <typename T>
__device__ void rms_norm_back(const T* x, const T* gradient, const float* factor, const float* rho, const T* around, T* dx,
                              int width) {
    const size_t start = size_t(blockIdx.x) * width;
    x += start, gradient += start, dx += start;
    const float scale = rho[blockIdx.x];
    float along = 0;
    for (int i = threadIdx.x; i < width; i += blockDim.x) {
        along += float(gradient[i]) * factor[i] * float(x[i]) * scale;
    }
    along = block_sum(along) / width;
    for (int i = threadIdx.x; i < width; i += blockDim.x) {
        const float back = around ? float(around[start + i]) : 0.0f;
        dx[i] = T(back + scale * (float(gradient[i]) * factor[i] - float(x[i]) * scale * along));
    }
}

// The same by whole packs, a warp for each row, which it keeps in registers: rows of at most 32 * ROW_PACKS packs.
template <typename T, int ROW_PACKS>
__device__ void rms_norm_packs(const T* x, const float* factor, T* y, float* rho, int rows, int width, float epsilon) {
    const int row = blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32, first = threadIdx.x % 32 * PACK;
    if (row >= rows) return;
    x += size_t(row) * width, y += size_t(row) * width;
    float of_row[ROW_PACKS][PACK], squares = 0;
#pragma unroll
    for (int p = 0; p < ROW_PACKS; ++p) {
        const int at = p * 32 * PACK + first;
        if (at >= width) break;
        read_pack(x + at, of_row[p]);
#pragma unroll
        for (int i = 0; i < PACK; ++i) squares += of_row[p][i] * of_row[p][i];
    }
    const float scale = 1.0f / sqrtf(warp_sum(squares) / width + epsilon);
    if (first == 0) rho[row] = scale;
#pragma unroll
    for (int p = 0; p < ROW_PACKS; ++p) {
        const int at = p * 32 * PACK + first;
        if (at >= width) break;
        float factors[PACK];
        read_pack(factor + at, factors);
#pragma unroll
        for (int i = 0; i < PACK; ++i) of_row[p][i] *= scale * factors[i];
        write_pack(y + at, of_row[p]);
    }
}

template <typename T, int ROW_PACKS>
__device__ void rms_norm_back_packs(const T* x, const T* gradient, const float* factor, const float* rho, const T* around,
                                    T* dx, int rows, int width) {
    const int row = blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32, first = threadIdx.x % 32 * PACK;
    if (row >= rows) return;
    const size_t start = size_t(row) * width;
    x += start, gradient += start, dx += start;
    const float scale = rho[row];
    // x ρ, and the gradient of it.
    float normed[ROW_PACKS][PACK], g[ROW_PACKS][PACK], along = 0;
#pragma unroll
    for (int p = 0; p < ROW_PACKS; ++p) {
        const int at = p * 32 * PACK + first;
        if (at >= width) break;
        float factors[PACK];
        read_pack(x + at, normed[p]), read_pack(gradient + at, g[p]), read_pack(factor + at, factors);
#pragma unroll
        for (int i = 0; i < PACK; ++i) {
            normed[p][i] *= scale;
            g[p][i] *= factors[i];
            along += normed[p][i] * g[p][i];
        }
    }
    along = warp_sum(along) / width;
#pragma unroll
    for (int p = 0; p < ROW_PACKS; ++p) {
        const int at = p * 32 * PACK + first;
        if (at >= width) break;
#pragma unroll
        for (int i = 0; i < PACK; ++i) g[p][i] = scale * (g[p][i] - normed[p][i] * along);
        if (around) {
            float back[PACK];
            read_pack(around + start + at, back);
#pragma unroll
            for (int i = 0; i < PACK; ++i) g[p][i] += back[i];
        }
        write_pack(dx + at, g[p]);
    }
}

// The sums over some rows of each column, for dw: parts [p, width]. A block takes 32 columns of the rows of one part; its threads are
// 32 columns by 32 rows at a time.
template <typename T>
__device__ void rms_norm_weight(const T* x, const T* gradient, const float* rho, float* parts, int rows, int width,
                                int rows_of_part) {
    __shared__ float sums[32][33];
    const int column = blockIdx.x * 32 + threadIdx.x % 32, first = threadIdx.x / 32;
    const int start = blockIdx.y * rows_of_part, end = min(rows, start + rows_of_part);
    float sum = 0;
    if (column < width) {
        for (int row = start + first; row < end; row += 32) {
            const size_t at = size_t(row) * width + column;
            sum += float(gradient[at]) * float(x[at]) * rho[row];
        }
    }
    sums[first][threadIdx.x % 32] = sum;
    __syncthreads();
    if (first == 0 && column < width) {
        float all = 0;
        for (int part = 0; part < 32; ++part) all += sums[part][threadIdx.x];
        parts[size_t(blockIdx.y) * width + column] = all;
    }
}

// The norm of a sum, both ways, on numbers that are in registers already. Forward, a holds x, b the branch, and their sum's
// normalized numbers are the result, scaled by `scale`. Backward, a holds the gradient and b what forward gave.
template <bool BACK> __device__ float for_mean(float& a, float b) {
    if (BACK) return a * b;
    a += b;
    return a * a;
}
template <bool BACK> __device__ float of_mean(float sum, int count, float rho, float epsilon) {
    return BACK ? sum / count : 1.0f / sqrtf(sum / count + epsilon);
}
template <bool BACK> __device__ float normalized(float a, float b, float rho, float mean) {
    return BACK ? rho * (a - b * mean) : a * mean;
}

// Rows of `width` numbers, at most PACKS * 256, a warp for each.
template <typename T, bool BACK, int PACKS>
__device__ void residual_norm_rows(const T* a, const T* b, T* out, float* rho, int rows, int width, float epsilon) {
    const int row = blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32, lane = threadIdx.x % 32;
    if (row >= rows) return;
    const size_t start = size_t(row) * width;
    float of_a[PACKS][PACK], of_b[PACKS][PACK], sum = 0;
#pragma unroll
    for (int i = 0; i < PACKS; ++i) {
        const int at = (i * 32 + lane) * PACK;
        if (at >= width) continue;
        read_pack(a + start + at, of_a[i]), read_pack(b + start + at, of_b[i]);
#pragma unroll
        for (int k = 0; k < PACK; ++k) sum += for_mean<BACK>(of_a[i][k], of_b[i][k]);
    }
    for (int step = 16; step > 0; step /= 2) sum += __shfl_xor_sync(0xffffffff, sum, step);
    const float scale = BACK ? rho[row] : 0.0f, mean = of_mean<BACK>(sum, width, scale, epsilon);
    if (!BACK && lane == 0) rho[row] = mean;
#pragma unroll
    for (int i = 0; i < PACKS; ++i) {
        const int at = (i * 32 + lane) * PACK;
        if (at >= width) continue;
#pragma unroll
        for (int k = 0; k < PACK; ++k) of_a[i][k] = normalized<BACK>(of_a[i][k], of_b[i][k], scale, mean);
        write_pack(out + start + at, of_a[i]);
    }
}

// x + y, a pack for each thread.
template <typename T> __device__ void add(const T* x, const T* y, T* sum, size_t count) {
    const size_t at = thread_index() * PACK;
    if (at >= count) return;
    float a[PACK], b[PACK];
    read_pack(x + at, a), read_pack(y + at, b);
#pragma unroll
    for (int k = 0; k < PACK; ++k) a[k] += b[k];
    write_pack(sum + at, a);
}

// The same, a number for each thread.
template <typename T> __device__ void add_singles(const T* x, const T* y, T* sum, size_t count) {
    const size_t at = thread_index();
    if (at < count) sum[at] = T(float(x[at]) + float(y[at]));
}

// Up to eight tensors, and where each of them ends in what they become together.
struct Eight {
    const void* from[8];
    uint64_t ends[8];

    // The tensor of a place in that, and the place before which it has none.
    __device__ const void* of(size_t at, size_t& start) const {
        const void* found = from[0];
        start = 0;
#pragma unroll
        for (int i = 0; i < 7; ++i) {
            if (at >= ends[i]) found = from[i + 1], start = ends[i];
        }
        return found;
    }
};

// Their numbers in f32, one after the other: a pack for each thread.
template <typename T> __device__ void convert_eight(const Eight& eight, T* to, size_t count) {
    const size_t at = thread_index() * PACK;
    if (at >= count) return;
    size_t start;
    const float* from = static_cast<const float*>(eight.of(at, start));
    float some[PACK];
    read_pack(from + (at - start), some);
    write_pack(to + at, some);
}

// Their rows beside each other, [n, w] of each -> [n, width]: a pack for each thread.
template <typename T> __device__ void join_eight(const Eight& eight, T* to, size_t count, int width) {
    const size_t at = thread_index() * PACK;
    if (at >= count) return;
    const size_t row = at / width, column = at % width;
    size_t start, end = width;
    const T* from = static_cast<const T*>(eight.of(column, start));
#pragma unroll
    for (int i = 7; i >= 0; --i) {
        if (column < eight.ends[i]) end = eight.ends[i];
    }
    *reinterpret_cast<Pack<T>*>(to + at) = pack_at(from + row * (end - start) + (column - start));
}

// x times a number that lies on the GPU, in place: a pack for each thread, which takes single numbers at the end and where none lie in
// packs.
template <typename T> __device__ void scale(T* x, float factor, size_t count) {
    const size_t at = thread_index() * PACK;
    if (at + PACK <= count && reinterpret_cast<size_t>(x) % sizeof(Pack<T>) == 0) {
        float some[PACK];
        read_pack(x + at, some);
#pragma unroll
        for (int k = 0; k < PACK; ++k) some[k] *= factor;
        write_pack(x + at, some);
        return;
    }
    for (size_t i = at; i < min(count, at + PACK); ++i) x[i] = T(float(x[i]) * factor);
}

// Wellons' mixing of 32 bits.
__device__ uint32_t mix(uint32_t bits) {
    bits = (bits ^ (bits >> 16)) * 0x7feb352du;
    bits = (bits ^ (bits >> 15)) * 0x846ca68bu;
    return bits ^ (bits >> 16);
}

// x where the bits of its place reach the threshold, times `kept`, and 0 elsewhere: to y, or added to it. What lies at `placed`, if
// anything does, is part of the key. A pack for each thread, which takes single numbers at the end and where none lie in packs.
template <typename T>
__device__ void dropout(const T* x, const uint32_t* placed, T* y, size_t count, uint32_t low, uint32_t high,
                        uint32_t threshold, float kept, bool adds, bool in_packs) {
    const size_t at = thread_index() * PACK;
    if (at >= count) return;
    if (placed) low ^= placed[0], high ^= placed[1];
    float factor[PACK];
#pragma unroll
    for (int k = 0; k < PACK; ++k) {
        factor[k] = mix(mix((uint32_t(at) + k) ^ low) + high) >= threshold ? kept : 0.0f;
    }
    if (!in_packs || at + PACK > count) {
        for (int k = 0; k < PACK && at + k < count; ++k) {
            y[at + k] = T(float(x[at + k]) * factor[k] + (adds ? float(y[at + k]) : 0.0f));
        }
        return;
    }
    float a[PACK], sum[PACK] = {};
    read_pack(x + at, a);
    if (adds) read_pack(y + at, sum);
#pragma unroll
    for (int k = 0; k < PACK; ++k) sum[k] += a[k] * factor[k];
    write_pack(y + at, sum);
}

// [m, n, width] -> [n, m, width], a pack for each thread.
template <typename T> __device__ void swap_rows(const T* x, T* y, size_t count, int m, int n, int width) {
    const size_t at = thread_index() * PACK;
    if (at >= count) return;
    const uint32_t packs = width / PACK, row = uint32_t(thread_index()) / packs;
    const size_t from = (size_t(row % m) * n + row / m) * width + at % width;
    *reinterpret_cast<Pack<T>*>(y + at) = *reinterpret_cast<const Pack<T>*>(x + from);
}

constexpr int GROUPS = 32, PACKS_ACROSS = 8;

// Columns of `rows` numbers, at most DEEP * 32: a block of 256 threads has 64 of them, and 32 rows at a time.
template <typename T, bool BACK, int DEEP>
__device__ void residual_norm_columns(const T* a, const T* b, T* out, float* rho, int rows, int width, float epsilon) {
    __shared__ float sums[GROUPS][PACKS_ACROSS * PACK];
    __shared__ float means[PACKS_ACROSS * PACK];
    const int across = threadIdx.x % PACKS_ACROSS * PACK, first = threadIdx.x / PACKS_ACROSS;
    const size_t column = size_t(blockIdx.x) * PACKS_ACROSS * PACK + across;
    const bool there = column < width;
    float of_a[DEEP][PACK], of_b[DEEP][PACK], sum[PACK] = {}, scale[PACK] = {}, mean[PACK];
#pragma unroll
    for (int i = 0; i < DEEP; ++i) {
        const int row = first + i * GROUPS;
        if (row >= rows || !there) continue;
        read_pack(a + size_t(row) * width + column, of_a[i]), read_pack(b + size_t(row) * width + column, of_b[i]);
#pragma unroll
        for (int k = 0; k < PACK; ++k) sum[k] += for_mean<BACK>(of_a[i][k], of_b[i][k]);
    }
#pragma unroll
    for (int k = 0; k < PACK; ++k) sums[first][across + k] = sum[k];
    __syncthreads();
    if (threadIdx.x < PACKS_ACROSS * PACK) {
        const size_t mine = size_t(blockIdx.x) * PACKS_ACROSS * PACK + threadIdx.x;
        float total = 0;
        for (int group = 0; group < GROUPS; ++group) total += sums[group][threadIdx.x];
        const float found = of_mean<BACK>(total, rows, 0.0f, epsilon);
        means[threadIdx.x] = found;
        if (!BACK && mine < width) rho[mine] = found;
    }
    __syncthreads();
    if (!there) return;
#pragma unroll
    for (int k = 0; k < PACK; ++k) {
        mean[k] = means[across + k];
        if (BACK) scale[k] = rho[column + k];
    }
#pragma unroll
    for (int i = 0; i < DEEP; ++i) {
        const int row = first + i * GROUPS;
        if (row >= rows) continue;
#pragma unroll
        for (int k = 0; k < PACK; ++k) of_a[i][k] = normalized<BACK>(of_a[i][k], of_b[i][k], scale[k], mean[k]);
        write_pack(out + size_t(row) * width + column, of_a[i]);
    }
}

// Any lines: a block for each, whose numbers are `step` apart and begin `apart` after those of the line before.
template <typename T, bool BACK>
__device__ void residual_norm_lines(const T* a, const T* b, T* out, float* rho, int count, size_t apart, size_t step,
                                    float epsilon) {
    const size_t start = blockIdx.x * apart;
    float sum = 0;
    for (int i = threadIdx.x; i < count; i += blockDim.x) {
        float of_a = a[start + i * step];
        sum += for_mean<BACK>(of_a, float(b[start + i * step]));
    }
    sum = block_sum(sum);
    const float scale = BACK ? rho[blockIdx.x] : 0.0f, mean = of_mean<BACK>(sum, count, scale, epsilon);
    if (!BACK && threadIdx.x == 0) rho[blockIdx.x] = mean;
    for (int i = threadIdx.x; i < count; i += blockDim.x) {
        const float of_b = b[start + i * step];
        float of_a = a[start + i * step];
        for_mean<BACK>(of_a, of_b);
        out[start + i * step] = T(normalized<BACK>(of_a, of_b, scale, mean));
    }
}

// Rows [r, width] to where they belong in `all`, a block for each. Those with the place of the first are there to fill up.
template <typename T> __device__ void put_rows(const T* rows, const uint32_t* places, T* all, int width) {
    const uint32_t place = places[blockIdx.x];
    if (blockIdx.x > 0 && place == places[0]) return;
    const T* from = rows + size_t(blockIdx.x) * width;
    T* to = all + size_t(place) * width;
    for (int i = threadIdx.x; i < width; i += blockDim.x) to[i] = from[i];
}

// Rows of a table [v, width], a block for each. One that is not there has no numbers.
template <typename T>
__device__ void take_rows(const T* table, const uint32_t* places, T* rows, int width, uint32_t count) {
    const uint32_t place = places[blockIdx.x];
    const T* from = table + size_t(place) * width;
    T* to = rows + size_t(blockIdx.x) * width;
    if (place >= count) {
        for (int i = threadIdx.x; i < width; i += blockDim.x) to[i] = T(NAN);
        return;
    }
    const bool in_packs = width % PACK == 0 && reinterpret_cast<uintptr_t>(table) % sizeof(int4) == 0;
    const int packed = in_packs ? width : 0;
    for (int i = threadIdx.x * PACK; i < packed; i += blockDim.x * PACK) {
        *reinterpret_cast<Pack<T>*>(to + i) = pack_at(from + i);
    }
    for (int i = packed + threadIdx.x; i < width; i += blockDim.x) to[i] = from[i];
}

// Turns all numbers of each head of x [b * tokens, heads, 2 * half], a pack of the first half and one of the second for each
// thread. The table has `places` rows.
template <typename T>
__device__ void rotate_packs(const T* x, const float* cosines, const float* sines, T* y, size_t count, size_t apart,
                             int heads, int half, int places, float direction) {
    const uint32_t of_head = half / PACK, pack = thread_index();
    if (pack >= count) return;
    const uint32_t head = pack / of_head, i = pack % of_head * PACK, token = head / heads;
    const size_t at = token * apart + size_t(head % heads) * 2 * half + i, angle = size_t(token % places) * half + i;
    float first[PACK], second[PACK], cosine[PACK], sine[PACK];
    read_pack(x + at, first), read_pack(x + at + half, second);
    read_pack(cosines + angle, cosine), read_pack(sines + angle, sine);
#pragma unroll
    for (int k = 0; k < PACK; ++k) {
        const float before = first[k], turn = sine[k] * direction;
        first[k] = before * cosine[k] - second[k] * turn;
        second[k] = second[k] * cosine[k] + before * turn;
    }
    write_pack(y + at, first), write_pack(y + at + half, second);
}

// Turns the first 2 * half numbers of each head of x [b * tokens, heads, width]. The table has `places` rows.
template <typename T>
__device__ void rotate(const T* x, const float* cosines, const float* sines, T* y, size_t count, int heads, int width,
                       int half, int places, float direction) {
    const size_t at = thread_index();
    if (at >= count) return;
    const int i = at % width;
    if (i >= 2 * half) {
        y[at] = x[at];
        return;
    }
    const size_t angle = (at / (size_t(heads) * width)) % places * half + i % half;
    const float cosine = cosines[angle], sine = sines[angle] * direction;
    y[at] = i < half ? T(float(x[at]) * cosine - float(x[at + half]) * sine)
                     : T(float(x[at]) * cosine + float(x[at - half]) * sine);
}

// The activation and its slope where the result is rounded to a narrow dtype anyway: SiLU without division.
template <typename T> __device__ float2 activate_for(float x, int activation) {
    if (sizeof(T) < 4 && activation == SILU) {
        const float s = __fdividef(1.0f, 1.0f + __expf(-x));
        return {x * s, s * (1.0f + x * (1.0f - s))};
    }
    return activate(x, activation);
}

// The gate of two tensors, a number or a pack for each thread.
template <typename T> __device__ void gated(const T* gate, const T* up, T* y, size_t count, int activation) {
    const size_t at = thread_index();
    if (at < count) y[at] = T(activate_for<T>(gate[at], activation).x * float(up[at]));
}

template <typename T> __device__ void gated_packs(const T* gate, const T* up, T* y, size_t count, int activation) {
    const size_t at = thread_index() * PACK;
    if (at >= count) return;
    float a[PACK], c[PACK];
    read_pack(gate + at, a), read_pack(up + at, c);
#pragma unroll
    for (int i = 0; i < PACK; ++i) a[i] = activate_for<T>(a[i], activation).x * c[i];
    write_pack(y + at, a);
}

template <typename T>
__device__ void gated_back(const T* gate, const T* up, const T* gradient, T* d_gate, T* d_up, size_t count,
                           int activation) {
    const size_t at = thread_index();
    if (at >= count) return;
    const float2 active = activate_for<T>(gate[at], activation);
    const float g = gradient[at];
    d_gate[at] = T(g * float(up[at]) * active.y);
    d_up[at] = T(g * active.x);
}

template <typename T>
__device__ void gated_back_packs(const T* gate, const T* up, const T* gradient, T* d_gate, T* d_up, size_t count,
                                 int activation) {
    const size_t at = thread_index() * PACK;
    if (at >= count) return;
    float a[PACK], c[PACK], g[PACK];
    read_pack(gate + at, a), read_pack(up + at, c), read_pack(gradient + at, g);
#pragma unroll
    for (int i = 0; i < PACK; ++i) {
        const float2 active = activate_for<T>(a[i], activation);
        a[i] = g[i] * c[i] * active.y;
        c[i] = g[i] * active.x;
    }
    write_pack(d_gate + at, a), write_pack(d_up + at, c);
}

// Lines of two halves of `inner` numbers: the first is the gate of the second. A pack for each thread.
template <typename T>
__device__ void halves(const T* both, T* y, size_t count, size_t inner, int activation) {
    const size_t at = thread_index() * PACK;
    if (at >= count) return;
    const T* gate = both + at + uint32_t(thread_index()) / uint32_t(inner / PACK) * inner;
    float a[PACK], c[PACK];
    read_pack(gate, a), read_pack(gate + inner, c);
#pragma unroll
    for (int k = 0; k < PACK; ++k) a[k] = activate_for<T>(a[k], activation).x * c[k];
    write_pack(y + at, a);
}

// Without a `y`, that is left out.
template <typename T>
__device__ void halves_back(const T* both, const T* gradient, T* y, T* d_both, size_t count, size_t inner,
                            int activation) {
    const size_t at = thread_index() * PACK;
    if (at >= count) return;
    const size_t of_gate = at + uint32_t(thread_index()) / uint32_t(inner / PACK) * inner;
    float a[PACK], c[PACK], g[PACK], h[PACK];
    read_pack(both + of_gate, a), read_pack(both + of_gate + inner, c), read_pack(gradient + at, g);
#pragma unroll
    for (int k = 0; k < PACK; ++k) {
        const float2 active = activate_for<T>(a[k], activation);
        h[k] = active.x * c[k];
        a[k] = g[k] * c[k] * active.y;
        c[k] = g[k] * active.x;
    }
    if (y) write_pack(y + at, h);
    write_pack(d_both + of_gate, a), write_pack(d_both + of_gate + inner, c);
}

// The same a number for each thread, where halves are no whole packs.
template <typename T>
__device__ void halves_single(const T* both, T* y, size_t count, size_t inner, int activation) {
    const size_t at = thread_index();
    if (at >= count) return;
    const T* gate = both + at + at / inner * inner;
    y[at] = T(activate_for<T>(gate[0], activation).x * float(gate[inner]));
}

template <typename T>
__device__ void halves_back_single(const T* both, const T* gradient, T* y, T* d_both, size_t count, size_t inner,
                                   int activation) {
    const size_t at = thread_index();
    if (at >= count) return;
    const size_t gate = at + at / inner * inner;
    const float2 active = activate_for<T>(both[gate], activation);
    const float c = both[gate + inner], g = gradient[at];
    if (y) y[at] = T(active.x * c);
    d_both[gate] = T(g * c * active.y);
    d_both[gate + inner] = T(g * active.x);
}

// [a, b, c, e] -> [a, c, b, e].
template <typename T> __device__ void swap_middle(const T* x, T* y, size_t count, int b, int c, int e) {
    const size_t at = thread_index();
    if (at >= count) return;
    const size_t i = at % e, j = at / e % b, k = at / e / b % c, l = at / e / b / c;
    y[at] = x[((l * b + j) * c + k) * e + i];
}

// Scores [b, h, t, s] -> weights. `runs` [b, t, 2] holds the first key of each query and the one after its last.
template <typename T>
__device__ void softmax(const float* scores, const uint32_t* runs, T* weights, int heads, int tokens, int keys,
                        float scale, float cap) {
    const size_t row = blockIdx.x, token = row / (size_t(heads) * tokens) * tokens + row % tokens;
    const int start = runs[2 * token], end = runs[2 * token + 1];
    scores += row * keys, weights += row * keys;
    float largest = -INFINITY;
    for (int i = start + threadIdx.x; i < end; i += blockDim.x) {
        largest = fmaxf(largest, capped(scores[i] * scale, cap));
    }
    largest = block_largest(largest);
    float sum = 0;
    for (int i = start + threadIdx.x; i < end; i += blockDim.x) {
        sum += expf(capped(scores[i] * scale, cap) - largest);
    }
    const float share = 1.0f / block_sum(sum);
    for (int i = threadIdx.x; i < keys; i += blockDim.x) {
        const bool seen = i >= start && i < end;
        weights[i] = T(seen ? expf(capped(scores[i] * scale, cap) - largest) * share : 0.0f);
    }
}

// Gradients of weights -> gradients of q k, in the dtype of the weights.
template <typename T>
__device__ void softmax_back(const T* weights, const float* gradient, const float* scores, T* dz, int keys, float scale,
                             float cap) {
    const size_t start = size_t(blockIdx.x) * keys;
    weights += start, gradient += start, scores += start, dz += start;
    float along = 0;
    for (int i = threadIdx.x; i < keys; i += blockDim.x) along += float(weights[i]) * gradient[i];
    along = block_sum(along);
    for (int i = threadIdx.x; i < keys; i += blockDim.x) {
        float slope = scale;
        if (cap > 0) {
            const float t = tanhf(scores[i] * scale / cap);
            slope *= 1.0f - t * t;
        }
        dz[i] = T(float(weights[i]) * (gradient[i] - along) * slope);
    }
}

// Numbers in NF4: two codes a byte, the first in the upper half, times the scale of their block. That is an f32, or, where scales are in
// codes themselves (`group`), the value of its code times the largest of its group, and what all have in common. `first` is the number
// that comes out first; `pairs` are the two numbers of each byte. Packed, a pack of codes is a word and lies in one block.
template <typename T>
__device__ void widen_codes(const uint8_t* codes, const float* pairs, const uint8_t* scale_codes, const float* scale_values,
                            const float* largest, T* y, size_t count, size_t first, int block, int group, float offset,
                            bool packed) {
    __shared__ float values[16];
    if (threadIdx.x < 16) values[threadIdx.x] = pairs[2 * threadIdx.x + 1];
    __syncthreads();
    const auto scale_of = [&](size_t number) {
        const size_t at = number / block;
        if (group == 0) return largest[at];
        return __fadd_rn(__fmul_rn(scale_values[scale_codes[at]], largest[at / group]), offset);
    };
    const size_t start = thread_index() * PACK;
    if (start >= count) return;
    if (packed) {
        const uint32_t word = reinterpret_cast<const uint32_t*>(codes)[(first + start) / PACK];
        const float scale = scale_of(first + start);
        float wide[PACK];
#pragma unroll
        for (int i = 0; i < PACK; ++i) wide[i] = values[word >> (8 * (i / 2) + 4 * (1 - i % 2)) & 15] * scale;
        write_pack(y + start, wide);
        return;
    }
    for (size_t i = start; i < count && i < start + PACK; ++i) {
        const size_t number = first + i;
        y[i] = T(values[codes[number / 2] >> 4 * (1 - number % 2) & 15] * scale_of(number));
    }
}

#define FOR_WIDTH(T, NAME, ROW_PACKS)                                                                                   \
    extern "C" __global__ void rms_norm_packs_##ROW_PACKS##_##NAME(const T* x, const float* factor, T* y, float* rho,     \
                                                                   int rows, int width, float epsilon) {               \
        rms_norm_packs<T, ROW_PACKS>(x, factor, y, rho, rows, width, epsilon);                                         \
    }                                                                                                                  \
    extern "C" __global__ void rms_norm_back_packs_##ROW_PACKS##_##NAME(                                               \
        const T* x, const T* gradient, const float* factor, const float* rho, const T* around, T* dx, int rows,        \
        int width) {                                                                                                   \
        rms_norm_back_packs<T, ROW_PACKS>(x, gradient, factor, rho, around, dx, rows, width);                          \
    }

#define FOR_DTYPE(T, NAME)                                                                                             \
    extern "C" __global__ void rms_norm_##NAME(const T* x, const float* factor, T* y, float* rho, int width,           \
                                               float epsilon) {                                                        \
        rms_norm(x, factor, y, rho, width, epsilon);                                                                   \
    }                                                                                                                  \
    extern "C" __global__ void rms_norm_back_##NAME(const T* x, const T* gradient, const float* factor,                \
                                                    const float* rho, const T* around, T* dx, int width) {             \
        rms_norm_back(x, gradient, factor, rho, around, dx, width);                                                    \
    }                                                                                                                  \
    extern "C" __global__ void rms_norm_weight_##NAME(const T* x, const T* gradient, const float* rho, float* parts,      \
                                                      int rows, int width, int rows_of_part) {                           \
        rms_norm_weight(x, gradient, rho, parts, rows, width, rows_of_part);                                             \
    }                                                                                                                  \
    extern "C" __global__ void convert_eight_##NAME(Eight eight, T* to, size_t count) { convert_eight(eight, to, count); } \
    extern "C" __global__ void join_eight_##NAME(Eight eight, T* to, size_t count, int width) {                        \
        join_eight(eight, to, count, width);                                                                           \
    }                                                                                                                  \
    extern "C" __global__ void scale_##NAME(T* x, const float* factor, size_t count) { scale(x, *factor, count); }       \
    extern "C" __global__ void add_##NAME(const T* x, const T* y, T* sum, size_t count) { add(x, y, sum, count); }      \
    extern "C" __global__ void add_singles_##NAME(const T* x, const T* y, T* sum, size_t count) {                      \
        add_singles(x, y, sum, count);                                                                                 \
    }                                                                                                                  \
    extern "C" __global__ void dropout_##NAME(const T* x, const uint32_t* placed, T* y, size_t count, int low, int high,  \
                                              int threshold, float kept, int adds, int in_packs) {                     \
        dropout(x, placed, y, count, low, high, threshold, kept, adds, in_packs);                                      \
    }                                                                                                                  \
    extern "C" __global__ void swap_rows_##NAME(const T* x, T* y, size_t count, int m, int n, int width) {             \
        swap_rows(x, y, count, m, n, width);                                                                           \
    }                                                                                                                  \
    extern "C" __global__ void residual_norm_rows_##NAME(const T* x, const T* branch, T* y, float* rho, int rows,      \
                                                         int width, float epsilon) {                                   \
        residual_norm_rows<T, false, 4>(x, branch, y, rho, rows, width, epsilon);                                      \
    }                                                                                                                  \
    extern "C" __global__ void residual_norm_rows_back_##NAME(const T* gradient, const T* y, T* dx, float* rho,        \
                                                              int rows, int width, float epsilon) {                    \
        residual_norm_rows<T, true, 4>(gradient, y, dx, rho, rows, width, epsilon);                                    \
    }                                                                                                                  \
    extern "C" __global__ void residual_norm_columns_##NAME(const T* x, const T* branch, T* y, float* rho, int rows,   \
                                                            int width, float epsilon) {                                \
        residual_norm_columns<T, false, 4>(x, branch, y, rho, rows, width, epsilon);                                   \
    }                                                                                                                  \
    extern "C" __global__ void residual_norm_columns_back_##NAME(const T* gradient, const T* y, T* dx, float* rho,     \
                                                                 int rows, int width, float epsilon) {                 \
        residual_norm_columns<T, true, 4>(gradient, y, dx, rho, rows, width, epsilon);                                 \
    }                                                                                                                  \
    extern "C" __global__ void residual_norm_lines_##NAME(const T* x, const T* branch, T* y, float* rho, int count,    \
                                                          size_t apart, size_t step, float epsilon) {                  \
        residual_norm_lines<T, false>(x, branch, y, rho, count, apart, step, epsilon);                                 \
    }                                                                                                                  \
    extern "C" __global__ void residual_norm_lines_back_##NAME(const T* gradient, const T* y, T* dx, float* rho,       \
                                                               int count, size_t apart, size_t step, float epsilon) {  \
        residual_norm_lines<T, true>(gradient, y, dx, rho, count, apart, step, epsilon);                               \
    }                                                                                                                  \
    extern "C" __global__ void halves_##NAME(const T* both, T* y, size_t count, size_t inner, int activation) {        \
        halves(both, y, count, inner, activation);                                                                     \
    }                                                                                                                  \
    extern "C" __global__ void halves_back_##NAME(const T* both, const T* gradient, T* y, T* d_both, size_t count,     \
                                                  size_t inner, int activation) {                                      \
        halves_back(both, gradient, y, d_both, count, inner, activation);                                              \
    }                                                                                                                  \
    extern "C" __global__ void halves_single_##NAME(const T* both, T* y, size_t count, size_t inner, int activation) { \
        halves_single(both, y, count, inner, activation);                                                              \
    }                                                                                                                  \
    extern "C" __global__ void halves_back_single_##NAME(const T* both, const T* gradient, T* y, T* d_both,            \
                                                         size_t count, size_t inner, int activation) {                 \
        halves_back_single(both, gradient, y, d_both, count, inner, activation);                                       \
    }                                                                                                                  \
    extern "C" __global__ void rotate_packs_##NAME(const T* x, const float* cosines, const float* sines, T* y,         \
                                                   size_t count, size_t apart, int heads, int half, int places,        \
                                                   float direction) {                                                  \
        rotate_packs(x, cosines, sines, y, count, apart, heads, half, places, direction);                              \
    }                                                                                                                  \
    extern "C" __global__ void rotate_##NAME(const T* x, const float* cosines, const float* sines, T* y, size_t count, \
                                             int heads, int width, int half, int places, float direction) {            \
        rotate(x, cosines, sines, y, count, heads, width, half, places, direction);                                    \
    }                                                                                                                  \
    extern "C" __global__ void gated_##NAME(const T* gate, const T* up, T* y, size_t count, int activation) {          \
        gated(gate, up, y, count, activation);                                                                         \
    }                                                                                                                  \
    extern "C" __global__ void gated_back_##NAME(const T* gate, const T* up, const T* gradient, T* d_gate, T* d_up,    \
                                                 size_t count, int activation) {                                       \
        gated_back(gate, up, gradient, d_gate, d_up, count, activation);                                               \
    }                                                                                                                  \
    extern "C" __global__ void gated_packs_##NAME(const T* gate, const T* up, T* y, size_t count, int activation) {    \
        gated_packs(gate, up, y, count, activation);                                                                   \
    }                                                                                                                  \
    extern "C" __global__ void gated_back_packs_##NAME(const T* gate, const T* up, const T* gradient, T* d_gate,       \
                                                       T* d_up, size_t count, int activation) {                        \
        gated_back_packs(gate, up, gradient, d_gate, d_up, count, activation);                                         \
    }                                                                                                                  \
    extern "C" __global__ void swap_middle_##NAME(const T* x, T* y, size_t count, int b, int c, int e) {               \
        swap_middle(x, y, count, b, c, e);                                                                             \
    }                                                                                                                  \
    extern "C" __global__ void softmax_##NAME(const float* scores, const uint32_t* runs, T* weights, int heads,        \
                                              int tokens, int keys, float scale, float cap) {                          \
        softmax(scores, runs, weights, heads, tokens, keys, scale, cap);                                               \
    }                                                                                                                  \
    extern "C" __global__ void softmax_back_##NAME(const T* weights, const float* gradient, const float* scores,       \
                                                   T* dz, int keys, float scale, float cap) {                          \
        softmax_back(weights, gradient, scores, dz, keys, scale, cap);                                                 \
    }                                                                                                                  \
    extern "C" __global__ void take_rows_##NAME(const T* table, const uint32_t* places, T* rows, int width, int count) {\
        take_rows(table, places, rows, width, uint32_t(count));                                                        \
    }                                                                                                                  \
    extern "C" __global__ void put_rows_##NAME(const T* rows, const uint32_t* places, T* all, int width) {             \
        put_rows(rows, places, all, width);                                                                            \
    }                                                                                                                  \
    extern "C" __global__ void thin_convert_##NAME(Products products) { convert_piece<T>(products.of[blockIdx.y]); }\
    extern "C" __global__ void widen_codes_##NAME(const uint8_t* codes, const float* pairs, const uint8_t* scale_codes,\
                                                  const float* scale_values, const float* largest, T* y, size_t count, \
                                                  size_t first, int block, int group, float offset, int packed) {      \
        widen_codes(codes, pairs, scale_codes, scale_values, largest, y, count, first, block, group, offset, packed != 0);\
    }

FOR_DTYPE(float, f32)
FOR_DTYPE(__nv_bfloat16, bf16)
FOR_DTYPE(__half, f16)

#define FOR_WIDTHS(T, NAME)                                                                                            \
    FOR_WIDTH(T, NAME, 2)                                                                                              \
    FOR_WIDTH(T, NAME, 4)                                                                                              \
    FOR_WIDTH(T, NAME, 8)

FOR_WIDTHS(float, f32)
FOR_WIDTHS(__nv_bfloat16, bf16)
FOR_WIDTHS(__half, f16)

// Kernels over many tensors at once, f32 and contiguous. A block takes CHUNK numbers of one of them; which one, it looks up.
constexpr int CHUNK = 4096;

// N addresses of tensors that are equally long, 0 for one that is missing, and the first block that works on them.
template <int N> struct Entry {
    float* of[N];
    uint64_t count, first_block;
};

// The entry of this block, and where its part of it lies.
template <int N> __device__ Entry<N> my_entry(const Entry<N>* table, int entries, uint64_t& start, uint64_t& end) {
    int low = 0, high = entries;
    while (high - low > 1) {
        const int middle = (low + high) / 2;
        if (table[middle].first_block <= blockIdx.x) low = middle;
        else high = middle;
    }
    const Entry<N> entry = table[low];
    start = (blockIdx.x - entry.first_block) * CHUNK;
    end = min(entry.count, start + CHUNK);
    return entry;
}

// Weight, first moment, second moment, gradient.
extern "C" __global__ void adamw_f32(const Entry<4>* table, int entries, float gradient_scale, float beta1, float rest1,
                                     float beta2, float rest2, float epsilon, float shrink, float rate,
                                     float correction) {
    uint64_t start, end;
    const Entry<4> entry = my_entry(table, entries, start, end);
    float *weight = entry.of[0], *first = entry.of[1], *second = entry.of[2];
    const float* gradient = entry.of[3];
    for (uint64_t at = start + threadIdx.x; at < end; at += blockDim.x) {
        const float g = gradient[at] * gradient_scale;
        const float m = first[at] * beta1 + g * rest1, v = second[at] * beta2 + g * g * rest2;
        first[at] = m;
        second[at] = v;
        weight[at] = weight[at] * shrink - m / (sqrtf(v) * correction + epsilon) * rate;
    }
}

// The code of the nearest of 256 values, from the middles between them: of two as near, the lower.
__device__ int nearest_code(float number, const float* middles) {
    int code = 0;
    for (int half = 128; half > 0; half /= 2) code += middles[code + half - 1] < number ? half : 0;
    return code;
}

// Weight, gradient, codes and scales of the first moment, and of the second. A block of 256 numbers has a scale, and is the work of all
// threads at a time. `codebooks` are values and middles of both tables.
extern "C" __global__ void adamw_8bit_f32(const Entry<6>* table, int entries, const float* codebooks, float gradient_scale,
                                          float beta1, float rest1, float beta2, float rest2, float epsilon,
                                          float shrink, float rate, float correction) {
    constexpr int BLOCK = 256;
    __shared__ float tables[4 * BLOCK];
    for (int i = threadIdx.x; i < 4 * BLOCK; i += BLOCK) tables[i] = codebooks[i];
    uint64_t start, end;
    const Entry<6> entry = my_entry(table, entries, start, end);
    float *weight = entry.of[0], *first_scales = entry.of[3], *second_scales = entry.of[5];
    const float* gradient = entry.of[1];
    uint8_t *first = reinterpret_cast<uint8_t*>(entry.of[2]), *second = reinterpret_cast<uint8_t*>(entry.of[4]);
    __syncthreads();
    for (uint64_t block = start; block < end; block += BLOCK) {
        const uint64_t at = block + threadIdx.x;
        const bool is_there = at < end;
        float m = 0.0f, v = 0.0f;
        if (is_there) {
            const float g = gradient[at] * gradient_scale;
            m = tables[first[at]] * first_scales[block / BLOCK] * beta1 + g * rest1;
            v = tables[2 * BLOCK + second[at]] * second_scales[block / BLOCK] * beta2 + g * g * rest2;
            weight[at] = weight[at] * shrink - m / (sqrtf(v) * correction + epsilon) * rate;
        }
        const float most_m = block_largest(fabsf(m)), most_v = block_largest(v);
        if (is_there) {
            first[at] = nearest_code(most_m > 0.0f ? m / most_m : 0.0f, tables + BLOCK);
            // Above 0 it never becomes 0.
            second[at] = max(nearest_code(most_v > 0.0f ? v / most_v : 0.0f, tables + 3 * BLOCK), v > 0.0f ? 1 : 0);
        }
        if (threadIdx.x == 0) first_scales[block / BLOCK] = most_m, second_scales[block / BLOCK] = most_v;
    }
}

// Weight, velocity, gradient.
extern "C" __global__ void sgd_f32(const Entry<3>* table, int entries, float gradient_scale, float decay,
                                   float momentum, float rate, float nesterov) {
    uint64_t start, end;
    const Entry<3> entry = my_entry(table, entries, start, end);
    float *weight = entry.of[0], *velocity = entry.of[1];
    const float* gradient = entry.of[2];
    for (uint64_t at = start + threadIdx.x; at < end; at += blockDim.x) {
        const float g = gradient[at] * gradient_scale + weight[at] * decay;
        float direction = g;
        if (velocity) {
            const float u = velocity[at] * momentum + g;
            velocity[at] = u;
            direction = nesterov > 0 ? g + u * momentum : u;
        }
        weight[at] -= direction * rate;
    }
}

// What is copied, and where to.
extern "C" __global__ void copy_many_f32(const Entry<2>* table, int entries) {
    uint64_t start, end;
    const Entry<2> entry = my_entry(table, entries, start, end);
    for (uint64_t at = start + threadIdx.x; at < end; at += blockDim.x) entry.of[1][at] = entry.of[0][at];
}

// Each block writes the sum of squares of its part.
extern "C" __global__ void squares_f32(const Entry<1>* table, int entries, float* sums) {
    uint64_t start, end;
    const float* x = my_entry(table, entries, start, end).of[0];
    float sum = 0;
    for (uint64_t at = start + threadIdx.x; at < end; at += blockDim.x) sum += x[at] * x[at];
    sum = block_sum(sum);
    if (threadIdx.x == 0) sums[blockIdx.x] = sum;
}

// The sums of columns, parts [p, width] -> [width], in the order of the parts.
extern "C" __global__ void sum_parts_f32(const float* parts, float* sums, int count, int width) {
    const int column = thread_index();
    if (column >= width) return;
    float sum = 0;
    for (int part = 0; part < count; ++part) sum += parts[size_t(part) * width + column];
    sums[column] = sum;
}

// The rows [n, width] of each token, added up in their order: sums [v, width], zero before. The block of a token's first row adds; each
// thread has the sums of some columns in registers, for so many columns at a time.
extern "C" __global__ void embedding_back_f32(const float* rows, const uint32_t* tokens, float* sums, int count,
                                              int width) {
    constexpr int COLUMNS = 4;
    __shared__ uint32_t alike[32];
    const uint32_t token = tokens[blockIdx.x];
    for (int start = 0; start < int(blockIdx.x); start += blockDim.x) {
        const int at = start + threadIdx.x;
        if (__syncthreads_or(at < int(blockIdx.x) && tokens[at] == token)) return;
    }
    for (int before = 0; before < width; before += COLUMNS * blockDim.x) {
        float sum[COLUMNS] = {};
        for (int start = blockIdx.x; start < count; start += blockDim.x) {
            const int at = start + threadIdx.x;
            const bool is_alike = at < count && tokens[at] == token;
            if (!__syncthreads_or(is_alike)) continue;
            const uint32_t of_warp = __ballot_sync(0xffffffff, is_alike);
            if (threadIdx.x % 32 == 0) alike[threadIdx.x / 32] = of_warp;
            __syncthreads();
            for (int warp = 0; warp < int(blockDim.x) / 32; ++warp) {
                for (uint32_t left = alike[warp]; left != 0; left &= left - 1) {
                    const float* row = rows + size_t(start + warp * 32 + __ffs(left) - 1) * width;
#pragma unroll
                    for (int i = 0; i < COLUMNS; ++i) {
                        const int column = before + i * blockDim.x + threadIdx.x;
                        if (column < width) sum[i] += row[column];
                    }
                }
            }
            __syncthreads();
        }
#pragma unroll
        for (int i = 0; i < COLUMNS; ++i) {
            const int column = before + i * blockDim.x + threadIdx.x;
            if (column < width) sums[size_t(token) * width + column] = sum[i];
        }
    }
}
