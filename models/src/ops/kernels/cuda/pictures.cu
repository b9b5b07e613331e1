// Kernels for pictures beside the products of `convolution.cu`: batch norm, pools, patches and the order of weights, each in f32,
// bf16 and f16. Whatever the dtype, sums are f32. They are taken in a fixed order, so a step gives the same bits every time.
//
// Formulas and letters stand in the documentation of the operation that a kernel serves.

#include "packs.cuh"
#include "shape.cuh"

// W [o, c, k, k] -> rows [o, k k c], or backward [c, k k o], each filled up with zeros to `columns` numbers.
template <typename T>
__device__ void weight_rows(const T* weight, T* rows, size_t count, int columns, int outputs, int channels, int taps,
                            int back) {
    const size_t at = thread_index();
    if (at >= count) return;
    const int row = at / columns, column = at % columns, inner = back ? outputs : channels;
    const int tap = column / inner, i = column % inner, output = back ? i : row, channel = back ? row : i;
    rows[at] = tap < taps ? weight[(size_t(output) * channels + channel) * taps + tap] : T(0.0f);
}

// parts [shares, o, columns], of which k k c are numbers -> dW [o, c, k, k].
__device__ void weight_sum(const float* parts, float* dw, size_t count, int shares, int columns, int outputs,
                           int channels, int taps) {
    const size_t at = thread_index();
    if (at >= count) return;
    const int depth = taps * channels, output = at / depth, number = at % depth;
    const float* part = parts + size_t(output) * columns + number;
    float sum = 0;
    for (int share = 0; share < shares; ++share) sum += part[size_t(share) * outputs * columns];
    dw[(size_t(output) * channels + number % channels) * taps + number / channels] = sum;
}

// x [n, h, w, c] -> what each place is computed from: [n h' w', columns], zeros after the k k c numbers. A pack for each thread;
// `count` are the packs.
template <typename T> __device__ void patches(const T* x, T* rows, size_t count, int columns, Shape s) {
    const size_t at = thread_index();
    if (at >= count) return;
    const int packs = columns / PACK, column = at % packs * PACK;
    const size_t place = at / packs;
    const int j = place % s.to_width, i = place / s.to_width % s.to_height, picture = place / s.to_width / s.to_height;
    int tap = column / s.channels, channel = column % s.channels;
    float pack[PACK];
#pragma unroll
    for (int k = 0; k < PACK; ++k) {
        const int row = i * s.stride - s.padding + tap / s.kernel, across = j * s.stride - s.padding + tap % s.kernel;
        const bool there = tap < s.kernel * s.kernel && uint32_t(row) < uint32_t(s.height) &&
                           uint32_t(across) < uint32_t(s.width);
        pack[k] = there ? float(x[((size_t(picture) * s.height + row) * s.width + across) * s.channels + channel]) : 0.0f;
        if (++channel == s.channels) channel = 0, ++tap;
    }
    write_pack(rows + at * PACK, pack);
}

// The gradient of x from that of its patches: each number adds up where it was taken.
template <typename T> __device__ void patches_back(const T* rows, T* dx, size_t count, int columns, Shape s) {
    const size_t at = thread_index();
    if (at >= count) return;
    const int channel = at % s.channels;
    const size_t pixel = at / s.channels;
    const int j = pixel % s.width, i = pixel / s.width % s.height, picture = pixel / s.width / s.height;
    float sum = 0;
    for (int r = 0; r < s.kernel; ++r) {
        const int down = i + s.padding - r;
        if (down < 0 || down % s.stride || down / s.stride >= s.to_height) continue;
        for (int t = 0; t < s.kernel; ++t) {
            const int across = j + s.padding - t;
            if (across < 0 || across % s.stride || across / s.stride >= s.to_width) continue;
            const size_t place = (size_t(picture) * s.to_height + down / s.stride) * s.to_width + across / s.stride;
            sum += float(rows[place * columns + (r * s.kernel + t) * s.channels + channel]);
        }
    }
    dx[at] = T(sum);
}

// The largest number of each window, and its tap. A pack of channels for each thread. `count` are the packs of y.
template <typename T> __device__ void max_pool(const T* x, T* y, uint8_t* chosen, size_t count, Shape s) {
    const size_t at = thread_index();
    if (at >= count) return;
    const int packs = s.channels / PACK, channel = at % packs * PACK;
    const size_t place = at / packs;
    const int j = place % s.to_width, i = place / s.to_width % s.to_height, picture = place / s.to_width / s.to_height;
    float most[PACK];
    uint8_t taps[PACK] = {};
#pragma unroll
    for (int k = 0; k < PACK; ++k) most[k] = -INFINITY;
    for (int tap = 0; tap < s.kernel * s.kernel; ++tap) {
        const int row = i * s.stride - s.padding + tap / s.kernel, across = j * s.stride - s.padding + tap % s.kernel;
        if (uint32_t(row) >= uint32_t(s.height) || uint32_t(across) >= uint32_t(s.width)) continue;
        float here[PACK];
        read_pack(x + ((size_t(picture) * s.height + row) * s.width + across) * s.channels + channel, here);
#pragma unroll
        for (int k = 0; k < PACK; ++k) {
            // What is no number stays one.
            if (here[k] > most[k] || here[k] != here[k]) most[k] = here[k], taps[k] = tap;
        }
    }
    write_pack(y + at * PACK, most);
    *reinterpret_cast<uint2*>(chosen + at * PACK) = *reinterpret_cast<const uint2*>(taps);
}

// Each number of x gets the gradients of the windows that chose it. `count` are the packs of x.
template <typename T> __device__ void max_pool_back(const T* gradient, const uint8_t* chosen, T* dx, size_t count, Shape s) {
    const size_t at = thread_index();
    if (at >= count) return;
    const int packs = s.channels / PACK, channel = at % packs * PACK;
    const size_t pixel = at / packs;
    const int j = pixel % s.width, i = pixel / s.width % s.height, picture = pixel / s.width / s.height;
    float sum[PACK] = {};
    for (int r = 0; r < s.kernel; ++r) {
        const int down = i + s.padding - r;
        if (down < 0 || down % s.stride || down / s.stride >= s.to_height) continue;
        for (int t = 0; t < s.kernel; ++t) {
            const int across = j + s.padding - t;
            if (across < 0 || across % s.stride || across / s.stride >= s.to_width) continue;
            const size_t place = (size_t(picture) * s.to_height + down / s.stride) * s.to_width + across / s.stride;
            const size_t from = place * s.channels + channel;
            float here[PACK];
            read_pack(gradient + from, here);
#pragma unroll
            for (int k = 0; k < PACK; ++k) sum[k] += chosen[from + k] == r * s.kernel + t ? here[k] : 0.0f;
        }
    }
    write_pack(dx + at * PACK, sum);
}

enum Then { NOTHING = 0, RELU = 1 };

__device__ float2 activate_then(float x, int then) {
    if (then == NOTHING) return {x, 1.0f};
    if (then == RELU) return {fmaxf(x, 0.0f), x > 0.0f ? 1.0f : 0.0f};
    return activate(x, GELU);
}

// What is known of the channels, each [d]: mean, variance, rho, factor and shift.
struct Channels {
    const float* numbers;
    int width;

    __device__ const float* mean() const { return numbers; }
    __device__ const float* rho() const { return numbers + 2 * width; }
    __device__ const float* factor() const { return numbers + 3 * width; }
    __device__ const float* shift() const { return numbers + 4 * width; }
};

constexpr int NORM_THREADS = 256;

// Which rows a thread has, always of the same pack of channels: `lines` apart, several of which it reads at once.
constexpr int AT_ONCE = 2;

struct Lane {
    int packs, lines, line, channel;

    __device__ Lane(int block, int width) {
        packs = min(width / PACK, 32), lines = NORM_THREADS / packs, line = threadIdx.x / packs;
        channel = (block * packs + int(threadIdx.x) % packs) * PACK;
    }
    __device__ bool is_idle(int width) const { return line >= lines || channel >= width; }
};

// The numbers of some rows as they lie in memory; those of rows from `end` on are not there.
template <typename T> struct Some {
    Pack<T> of[AT_ONCE];

    __device__ void read(const T* from, int row, int end, int width, Lane lane) {
#pragma unroll
        for (int i = 0; i < AT_ONCE; ++i) {
            const int at = row + i * lane.lines;
            if (at < end) of[i] = *reinterpret_cast<const Pack<T>*>(from + size_t(at) * width + lane.channel);
        }
    }
};

// u: the gradient of what the function that follows is applied to.
struct Slope {
    float factor[PACK], shift[PACK];
    int then;

    __device__ Slope(Channels channels, int channel, int then) : then(then) {
        read_pack(channels.factor() + channel, factor), read_pack(channels.shift() + channel, shift);
    }
    __device__ float before(float x, float z, int k) const { return x * factor[k] + shift[k] + z; }
    __device__ float of(float gradient, float x, float z, int k) const {
        return then == NOTHING ? gradient : gradient * activate_then(before(x, z, k), then).y;
    }
};

// Two sums for each channel, over a share of the rows [rows, width]: `add` adds some of them. parts [shares, 2, width].
template <typename Add> __device__ void channel_sums(float* parts, int rows, int width, Lane lane, const Add& add) {
    const int share = (rows + gridDim.y - 1) / gridDim.y, begin = blockIdx.y * share, end = min(rows, begin + share);
    float sums[2][PACK] = {};
    if (!lane.is_idle(width)) {
        for (int row = begin + lane.line; row < end; row += AT_ONCE * lane.lines) add(row, end, sums);
    }
    __shared__ float of_lines[NORM_THREADS * PACK];
    const int across = lane.packs * PACK;
#pragma unroll
    for (int which = 0; which < 2; ++which) {
        __syncthreads();
        if (lane.line < lane.lines) {
#pragma unroll
            for (int k = 0; k < PACK; ++k) of_lines[int(threadIdx.x) * PACK + k] = sums[which][k];
        }
        __syncthreads();
        for (int at = threadIdx.x; at < across; at += NORM_THREADS) {
            const int channel = blockIdx.x * across + at;
            if (channel >= width) continue;
            float sum = 0;
            for (int line = 0; line < lane.lines; ++line) sum += of_lines[line * across + at];
            parts[(size_t(blockIdx.y) * 2 + which) * width + channel] = sum;
        }
    }
}

// The sums of 32 channels over all shares: a block has 32 threads for each, which add up a share in turn.
__device__ float2 over_shares(const float* parts, int shares, int width) {
    __shared__ float2 of_line[32][33];
    const int lane = threadIdx.x % 32, line = threadIdx.x / 32, channel = blockIdx.x * 32 + lane;
    float2 sum = {0, 0};
    if (channel < width) {
        for (int share = line; share < shares; share += 32) {
            sum.x += parts[size_t(share) * 2 * width + channel];
            sum.y += parts[(size_t(share) * 2 + 1) * width + channel];
        }
    }
    of_line[line][lane] = sum;
    __syncthreads();
    sum = {0, 0};
    if (line == 0) {
        for (int other = 0; other < 32; ++other) sum.x += of_line[other][lane].x, sum.y += of_line[other][lane].y;
    }
    return sum;
}

// The numbers of a channel and their squares, as they differ from the first row: so that large means take no digits away.
template <typename T> __device__ void norm_moments(const T* x, float* parts, int rows, int width) {
    const Lane lane(blockIdx.x, width);
    float first[PACK] = {};
    if (!lane.is_idle(width)) read_pack(x + lane.channel, first);
    channel_sums(parts, rows, width, lane, [&](int row, int end, float (&sums)[2][PACK]) {
        Some<T> here;
        here.read(x, row, end, width, lane);
#pragma unroll
        for (int i = 0; i < AT_ONCE; ++i) {
            if (row + i * lane.lines >= end) break;
#pragma unroll
            for (int k = 0; k < PACK; ++k) {
                const float from = float(here.of[i].of[k]) - first[k];
                sums[0][k] += from, sums[1][k] += from * from;
            }
        }
    });
}

template <typename T>
__device__ void norm_channels(const T* x, const float* parts, const float* weight, const float* bias, float* channels,
                              int shares, int rows, int width, float epsilon) {
    const float2 sum = over_shares(parts, shares, width);
    const int channel = blockIdx.x * 32 + threadIdx.x;
    if (threadIdx.x >= 32 || channel >= width) return;
    const float from = sum.x / rows, mean = float(x[channel]) + from, variance = fmaxf(sum.y / rows - from * from, 0.0f);
    const float rho = 1.0f / sqrtf(variance + epsilon), factor = weight[channel] * rho;
    channels[channel] = mean, channels[width + channel] = variance, channels[2 * width + channel] = rho;
    channels[3 * width + channel] = factor, channels[4 * width + channel] = bias[channel] - mean * factor;
}

// What is known of channels outside of a batch moves towards what the batch has, by `share`. `now` and `after` are mean and
// variance [2, width]; the variance of the batch is first made that of what it is a sample of.
__device__ void norm_follow(const float* mean, const float* variance, const float* now, float* after, int width, float share,
                            float unbiased) {
    const int channel = thread_index();
    if (channel >= width) return;
    after[channel] = mean[channel] * (1.0f - share) + now[channel] * share;
    after[width + channel] = variance[channel] * (1.0f - share) + now[width + channel] * unbiased * share;
}

template <typename T>
__device__ void norm_apply(const T* x, const T* residual, const float* numbers, T* y, int rows, int width, int then) {
    const Lane lane(blockIdx.y, width);
    if (lane.is_idle(width)) return;
    const Slope slope({numbers, width}, lane.channel, then);
    const int row = blockIdx.x * lane.lines * AT_ONCE + lane.line;
    Some<T> of_x, of_z;
    of_x.read(x, row, rows, width, lane);
    if (residual) of_z.read(residual, row, rows, width, lane);
#pragma unroll
    for (int i = 0; i < AT_ONCE; ++i) {
        const int at = row + i * lane.lines;
        if (at >= rows) break;
        float here[PACK];
#pragma unroll
        for (int k = 0; k < PACK; ++k) {
            const float z = residual ? float(of_z.of[i].of[k]) : 0.0f;
            here[k] = activate_then(slope.before(of_x.of[i].of[k], z, k), then).x;
        }
        write_pack(y + size_t(at) * width + lane.channel, here);
    }
}

template <typename T>
__device__ void norm_sums(const T* gradient, const T* x, const T* residual, const float* numbers, float* parts, int rows,
                          int width, int then) {
    const Lane lane(blockIdx.x, width);
    const Channels channels{numbers, width};
    const int channel = lane.is_idle(width) ? 0 : lane.channel;
    const Slope slope(channels, channel, then);
    float mean[PACK];
    read_pack(channels.mean() + channel, mean);
    channel_sums(parts, rows, width, lane, [&](int row, int end, float (&sums)[2][PACK]) {
        Some<T> of_x, of_g, of_z;
        of_x.read(x, row, end, width, lane), of_g.read(gradient, row, end, width, lane);
        if (residual) of_z.read(residual, row, end, width, lane);
#pragma unroll
        for (int i = 0; i < AT_ONCE; ++i) {
            if (row + i * lane.lines >= end) break;
#pragma unroll
            for (int k = 0; k < PACK; ++k) {
                const float here = of_x.of[i].of[k], z = residual ? float(of_z.of[i].of[k]) : 0.0f;
                const float u = slope.of(of_g.of[i].of[k], here, z, k);
                sums[0][k] += u, sums[1][k] += u * (here - mean[k]);
            }
        }
    });
}

// Of each channel: the gradient of the bias and that of the weight, and what is added because mean and variance are those of the
// batch: slope and offset, or zeros where they are given.
__device__ void norm_slopes(const float* parts, const float* numbers, float* slopes, int shares, int rows, int width,
                            int of_batch) {
    const float2 sum = over_shares(parts, shares, width);
    const int channel = blockIdx.x * 32 + threadIdx.x;
    if (threadIdx.x >= 32 || channel >= width) return;
    const Channels channels{numbers, width};
    const float rho = channels.rho()[channel], factor = channels.factor()[channel], dw = sum.y * rho;
    const float slope = of_batch ? -factor * rho * dw / rows : 0.0f;
    slopes[channel] = sum.x, slopes[width + channel] = dw, slopes[2 * width + channel] = slope;
    slopes[3 * width + channel] = of_batch ? -factor * sum.x / rows - slope * channels.mean()[channel] : 0.0f;
}

template <typename T>
__device__ void norm_back(const T* gradient, const T* x, const T* residual, const float* numbers, const float* slopes,
                          T* dx, T* dz, int rows, int width, int then) {
    const Lane lane(blockIdx.y, width);
    if (lane.is_idle(width)) return;
    const Slope slope({numbers, width}, lane.channel, then);
    float along[PACK], offset[PACK];
    read_pack(slopes + 2 * width + lane.channel, along), read_pack(slopes + 3 * width + lane.channel, offset);
    const int row = blockIdx.x * lane.lines * AT_ONCE + lane.line;
    Some<T> of_x, of_g, of_z;
    of_x.read(x, row, rows, width, lane), of_g.read(gradient, row, rows, width, lane);
    if (residual) of_z.read(residual, row, rows, width, lane);
#pragma unroll
    for (int i = 0; i < AT_ONCE; ++i) {
        const int at = row + i * lane.lines;
        if (at >= rows) break;
        float u[PACK];
#pragma unroll
        for (int k = 0; k < PACK; ++k) {
            u[k] = slope.of(of_g.of[i].of[k], of_x.of[i].of[k], residual ? float(of_z.of[i].of[k]) : 0.0f, k);
        }
        const size_t to = size_t(at) * width + lane.channel;
        if (dz) write_pack(dz + to, u);
#pragma unroll
        for (int k = 0; k < PACK; ++k) u[k] = slope.factor[k] * u[k] + float(of_x.of[i].of[k]) * along[k] + offset[k];
        write_pack(dx + to, u);
    }
}

#define FOR_DTYPE(T, NAME)                                                                                             \
    extern "C" __global__ void weight_rows_##NAME(const T* weight, T* rows, size_t count, int columns, int outputs,    \
                                                  int channels, int taps, int back) {                                  \
        weight_rows(weight, rows, count, columns, outputs, channels, taps, back);                                      \
    }                                                                                                                  \
    extern "C" __global__ void patches_##NAME(const T* x, T* rows, size_t count, int columns, Shape shape) {           \
        patches(x, rows, count, columns, shape);                                                                       \
    }                                                                                                                  \
    extern "C" __global__ void patches_back_##NAME(const T* rows, T* dx, size_t count, int columns, Shape shape) {     \
        patches_back(rows, dx, count, columns, shape);                                                                 \
    }                                                                                                                  \
    extern "C" __global__ void max_pool_##NAME(const T* x, T* y, uint8_t* chosen, size_t count, Shape shape) {         \
        max_pool(x, y, chosen, count, shape);                                                                          \
    }                                                                                                                  \
    extern "C" __global__ void max_pool_back_##NAME(const T* gradient, const uint8_t* chosen, T* dx, size_t count,     \
                                                    Shape shape) {                                                     \
        max_pool_back(gradient, chosen, dx, count, shape);                                                             \
    }                                                                                                                  \
    extern "C" __global__ void norm_moments_##NAME(const T* x, float* parts, int rows, int width) {                    \
        norm_moments(x, parts, rows, width);                                                                           \
    }                                                                                                                  \
    extern "C" __global__ void norm_channels_##NAME(const T* x, const float* parts, const float* weight,               \
                                                    const float* bias, float* channels, int shares, int rows,          \
                                                    int width, float epsilon) {                                        \
        norm_channels(x, parts, weight, bias, channels, shares, rows, width, epsilon);                                 \
    }                                                                                                                  \
    extern "C" __global__ void norm_apply_##NAME(const T* x, const T* residual, const float* channels, T* y, int rows, \
                                                 int width, int then) {                                                \
        norm_apply(x, residual, channels, y, rows, width, then);                                                       \
    }                                                                                                                  \
    extern "C" __global__ __launch_bounds__(NORM_THREADS, 2) void norm_sums_##NAME(const T* gradient, const T* x, const T* residual, \
                                                const float* channels, float* parts, int rows, int width, int then) {  \
        norm_sums(gradient, x, residual, channels, parts, rows, width, then);                                          \
    }                                                                                                                  \
    extern "C" __global__ __launch_bounds__(NORM_THREADS, 2) void norm_back_##NAME(const T* gradient, const T* x, const T* residual, \
                                                const float* channels, const float* slopes, T* dx, T* dz, int rows,    \
                                                int width, int then) {                                                 \
        norm_back(gradient, x, residual, channels, slopes, dx, dz, rows, width, then);                                 \
    }

FOR_DTYPE(float, f32)
FOR_DTYPE(__nv_bfloat16, bf16)
FOR_DTYPE(__half, f16)

extern "C" __global__ void weight_sum_f32(const float* parts, float* dw, size_t count, int shares, int columns,
                                          int outputs, int channels, int taps) {
    weight_sum(parts, dw, count, shares, columns, outputs, channels, taps);
}

extern "C" __global__ void norm_slopes_f32(const float* parts, const float* channels, float* slopes, int shares,
                                           int rows, int width, int of_batch) {
    norm_slopes(parts, channels, slopes, shares, rows, width, of_batch);
}

extern "C" __global__ void norm_follow_f32(const float* mean, const float* variance, const float* now, float* after,
                                           int width, float share, float unbiased) {
    norm_follow(mean, variance, now, after, width, share, unbiased);
}
