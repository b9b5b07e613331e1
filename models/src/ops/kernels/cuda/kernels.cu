// Kernels for CUDA, each in f32, bf16 and f16. Whatever the dtype, sums and exponentials are f32.
//
// A row is the work of one block. Sums are taken in a fixed order, so a step gives the same bits every time.
// Formulas stand in the documentation of the operation that a kernel serves.

#include <cstdint>
#include <cuda_bf16.h>
#include <cuda_fp16.h>

constexpr int MOST_WARPS = 32;

// The sum (or the largest) of `value` over the threads of a block, known to all of them.
template <bool LARGEST> __device__ float over_block(float value) {
    __shared__ float of_warp[MOST_WARPS];
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, warps = (blockDim.x + 31) / 32;
    for (int step = 16; step > 0; step /= 2) {
        const float other = __shfl_xor_sync(0xffffffff, value, step);
        value = LARGEST ? fmaxf(value, other) : value + other;
    }
    __syncthreads();
    if (lane == 0) of_warp[warp] = value;
    __syncthreads();
    value = of_warp[0];
    for (int index = 1; index < warps; ++index) {
        value = LARGEST ? fmaxf(value, of_warp[index]) : value + of_warp[index];
    }
    return value;
}

__device__ float block_sum(float value) { return over_block<false>(value); }
__device__ float block_largest(float value) { return over_block<true>(value); }

__device__ size_t thread_index() { return size_t(blockIdx.x) * blockDim.x + threadIdx.x; }

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
__device__ void rms_norm_back(const T* x, const T* gradient, const float* factor, const float* rho, T* dx, int width) {
    const size_t start = size_t(blockIdx.x) * width;
    x += start, gradient += start, dx += start;
    const float scale = rho[blockIdx.x];
    float along = 0;
    for (int i = threadIdx.x; i < width; i += blockDim.x) {
        along += float(gradient[i]) * factor[i] * float(x[i]) * scale;
    }
    along = block_sum(along) / width;
    for (int i = threadIdx.x; i < width; i += blockDim.x) {
        dx[i] = T(scale * (float(gradient[i]) * factor[i] - float(x[i]) * scale * along));
    }
}

// dw [width]: a block sums 32 columns over all rows; its threads are 32 columns by 32 rows at a time.
template <typename T>
__device__ void rms_norm_weight(const T* x, const T* gradient, const float* rho, float* dw, int rows, int width) {
    __shared__ float sums[32][33];
    const int column = blockIdx.x * 32 + threadIdx.x % 32, first = threadIdx.x / 32;
    float sum = 0;
    if (column < width) {
        for (int row = first; row < rows; row += 32) {
            const size_t at = size_t(row) * width + column;
            sum += float(gradient[at]) * float(x[at]) * rho[row];
        }
    }
    sums[first][threadIdx.x % 32] = sum;
    __syncthreads();
    if (first == 0 && column < width) {
        float all = 0;
        for (int part = 0; part < 32; ++part) all += sums[part][threadIdx.x];
        dw[column] = all;
    }
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

enum Activation { SILU = 0, GELU = 1, GELU_TANH = 2 };

// The activation and its slope.
__device__ float2 activate(float x, int activation) {
    if (activation == SILU) {
        const float s = 1.0f / (1.0f + expf(-x));
        return {x * s, s * (1.0f + x * (1.0f - s))};
    }
    if (activation == GELU) {
        const float phi = 0.5f + 0.5f * erff(x * 0.70710678f);
        return {x * phi, phi + x * 0.39894228f * expf(-0.5f * x * x)};
    }
    // Beyond, the tangent is 1 or -1 to the last digit, and powers of x would overflow.
    const float inner = fminf(fmaxf(x, -16.0f), 16.0f), square = inner * inner;
    const float t = tanhf(inner * (0.79788456f + 0.035677408f * square)), half = 0.5f + 0.5f * t;
    return {x * half, half + inner * (0.79788456f + 0.10703222f * square) * (0.5f - 0.5f * t * t)};
}

template <typename T> __device__ void gated(const T* gate, const T* up, T* y, size_t count, int activation) {
    const size_t at = thread_index();
    if (at < count) y[at] = T(activate(gate[at], activation).x * float(up[at]));
}

template <typename T>
__device__ void gated_back(const T* gate, const T* up, const T* gradient, T* d_gate, T* d_up, size_t count,
                           int activation) {
    const size_t at = thread_index();
    if (at >= count) return;
    const float2 active = activate(gate[at], activation);
    const float g = gradient[at];
    d_gate[at] = T(g * float(up[at]) * active.y);
    d_up[at] = T(g * active.x);
}

// [a, b, c, e] -> [a, c, b, e].
template <typename T> __device__ void swap_middle(const T* x, T* y, size_t count, int b, int c, int e) {
    const size_t at = thread_index();
    if (at >= count) return;
    const size_t i = at % e, j = at / e % b, k = at / e / b % c, l = at / e / b / c;
    y[at] = x[((l * b + j) * c + k) * e + i];
}

__device__ float capped(float score, float cap) { return cap > 0 ? cap * tanhf(score / cap) : score; }

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

// The target of a row that only fills up.
constexpr uint32_t IGNORE = 0xffffffff;

// Logits [n, v] -> the loss of each row, and the gradient of the logits times `share`.
template <typename T>
__device__ void cross_entropy(const float* logits, const uint32_t* targets, float* losses, T* dz, int vocabulary,
                              float cap, float share) {
    const size_t start = size_t(blockIdx.x) * vocabulary;
    const uint32_t target = targets[blockIdx.x];
    logits += start, dz += start;
    if (target == IGNORE) {
        if (threadIdx.x == 0) losses[blockIdx.x] = 0;
        for (int i = threadIdx.x; i < vocabulary; i += blockDim.x) dz[i] = T(0.0f);
        return;
    }
    float largest = -INFINITY;
    for (int i = threadIdx.x; i < vocabulary; i += blockDim.x) largest = fmaxf(largest, capped(logits[i], cap));
    largest = block_largest(largest);
    float sum = 0;
    for (int i = threadIdx.x; i < vocabulary; i += blockDim.x) sum += expf(capped(logits[i], cap) - largest);
    sum = block_sum(sum);
    if (threadIdx.x == 0) losses[blockIdx.x] = logf(sum) + largest - capped(logits[target], cap);
    for (int i = threadIdx.x; i < vocabulary; i += blockDim.x) {
        const float logit = capped(logits[i], cap);
        float slope = share;
        if (cap > 0) slope *= 1.0f - logit / cap * (logit / cap);
        dz[i] = T((expf(logit - largest) / sum - (uint32_t(i) == target ? 1.0f : 0.0f)) * slope);
    }
}

#define FOR_DTYPE(T, NAME)                                                                                             \
    extern "C" __global__ void rms_norm_##NAME(const T* x, const float* factor, T* y, float* rho, int width,           \
                                               float epsilon) {                                                        \
        rms_norm(x, factor, y, rho, width, epsilon);                                                                   \
    }                                                                                                                  \
    extern "C" __global__ void rms_norm_back_##NAME(const T* x, const T* gradient, const float* factor,                \
                                                    const float* rho, T* dx, int width) {                              \
        rms_norm_back(x, gradient, factor, rho, dx, width);                                                            \
    }                                                                                                                  \
    extern "C" __global__ void rms_norm_weight_##NAME(const T* x, const T* gradient, const float* rho, float* dw,      \
                                                      int rows, int width) {                                           \
        rms_norm_weight(x, gradient, rho, dw, rows, width);                                                            \
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
    extern "C" __global__ void cross_entropy_##NAME(const float* logits, const uint32_t* targets, float* losses,       \
                                                    T* dz, int vocabulary, float cap, float share) {                   \
        cross_entropy(logits, targets, losses, dz, vocabulary, cap, share);                                            \
    }

FOR_DTYPE(float, f32)
FOR_DTYPE(__nv_bfloat16, bf16)
FOR_DTYPE(__half, f16)

extern "C" __global__ void adamw_f32(float* weight, float* first, float* second, const float* gradient, size_t count,
                                     float gradient_scale, float beta1, float rest1, float beta2, float rest2,
                                     float epsilon, float shrink, float rate, float correction) {
    const size_t at = thread_index();
    if (at >= count) return;
    const float g = gradient[at] * gradient_scale;
    const float m = first[at] * beta1 + g * rest1, v = second[at] * beta2 + g * g * rest2;
    first[at] = m;
    second[at] = v;
    weight[at] = weight[at] * shrink - m / (sqrtf(v) * correction + epsilon) * rate;
}

// Each block writes the sum of squares of its share of x.
extern "C" __global__ void squares_f32(const float* x, float* sums, size_t count) {
    float sum = 0;
    for (size_t at = thread_index(); at < count; at += size_t(gridDim.x) * blockDim.x) sum += x[at] * x[at];
    sum = block_sum(sum);
    if (threadIdx.x == 0) sums[blockIdx.x] = sum;
}
