// Losses and their gradients. Whatever the dtype, they are computed in f32, in a fixed order.
//
// Formulas stand in the documentation of the operation that a kernel serves.

#include "sums.cuh"

// The target of a row that only fills up.
constexpr uint32_t IGNORE = 0xffffffff;

// Some numbers of a row that a thread has seen: their largest, and the sum of exponentials below it.
struct Seen {
    float largest = -INFINITY, sum = 0;
    template <int N> __device__ void take(float (&numbers)[N], float cap) {
        float most = -INFINITY;
#pragma unroll
        for (int i = 0; i < N; ++i) most = fmaxf(most, numbers[i] = capped(numbers[i], cap));
        if (most == -INFINITY) return;
        if (most > largest) {
            sum *= expf(largest - most);
            largest = most;
        }
#pragma unroll
        for (int i = 0; i < N; ++i) sum += expf(numbers[i] - largest);
    }
};

// Logits [n, v] -> the loss of each row, and the gradient of the logits times `inverse` [1] and `scale`.
template <typename T>
__device__ void cross_entropy(const float* logits, const uint32_t* targets, const float* inverse, float* losses, T* dz,
                              int vocabulary, float cap, float scale) {
    const size_t start = size_t(blockIdx.x) * vocabulary;
    const uint32_t target = targets[blockIdx.x];
    logits += start, dz += start;
    if (target == IGNORE) {
        if (threadIdx.x == 0) losses[blockIdx.x] = 0;
        for (int i = threadIdx.x; i < vocabulary; i += blockDim.x) dz[i] = T(0.0f);
        return;
    }
    const int packed = vocabulary % PACK == 0 ? vocabulary : 0;
    Seen seen;
    for (int i = threadIdx.x * PACK; i < packed; i += blockDim.x * PACK) {
        float some[PACK];
        read_pack(logits + i, some);
        seen.take(some, cap);
    }
    for (int i = packed + threadIdx.x; i < vocabulary; i += blockDim.x) {
        float one[1] = {logits[i]};
        seen.take(one, cap);
    }
    const float largest = block_largest(seen.largest);
    const float sum = block_sum(seen.sum > 0 ? seen.sum * expf(seen.largest - largest) : seen.sum);
    if (threadIdx.x == 0) losses[blockIdx.x] = logf(sum) + largest - capped(logits[target], cap);
    const float share = inverse[0] * scale;
    auto slope = [&](float number, int at) {
        const float logit = capped(number, cap);
        const float along = cap > 0 ? share * (1.0f - logit / cap * (logit / cap)) : share;
        return (expf(logit - largest) / sum - (uint32_t(at) == target ? 1.0f : 0.0f)) * along;
    };
    for (int i = threadIdx.x * PACK; i < packed; i += blockDim.x * PACK) {
        float some[PACK];
        read_pack(logits + i, some);
#pragma unroll
        for (int j = 0; j < PACK; ++j) some[j] = slope(some[j], i + j);
        write_pack(dz + i, some);
    }
    for (int i = packed + threadIdx.x; i < vocabulary; i += blockDim.x) dz[i] = T(slope(logits[i], i));
}

enum Squash { STABLEMAX = 0, SOFTMAX = 1 };

// Scores [n, v] -> the loss of each row, and the gradient of the scores. A warp for each row.
template <typename T>
__device__ void classify(const T* scores, const uint32_t* classes, const float* weights, float* losses, float* gradient,
                         int rows, int width, int squash, float smoothing) {
    const int row = thread_index() / 32, lane = threadIdx.x % 32;
    if (row >= rows) return;
    scores += size_t(row) * width, gradient += size_t(row) * width;
    const uint32_t meant = classes[row];
    const float weight = weights[row], of_meant = 1.0f - smoothing, of_each = smoothing / width;
    float largest = 0;
    if (squash == SOFTMAX) {
        largest = -INFINITY;
        for (int i = lane; i < width; i += 32) largest = fmaxf(largest, float(scores[i]));
        for (int step = 16; step > 0; step /= 2) largest = fmaxf(largest, __shfl_xor_sync(0xffffffff, largest, step));
    }
    // s, ln s, and the slopes of both.
    struct Strength { float itself, log, slope, log_slope; };
    auto strength = [&](float x) -> Strength {
        if (squash == SOFTMAX) {
            const float exponential = expf(x - largest);
            return {exponential, x - largest, exponential, 1.0f};
        }
        const float size = 1.0f + fabsf(x), inverse = 1.0f / size, log = logf(size);
        if (x >= 0) return {size, log, 1.0f, inverse};
        return {inverse, -log, inverse * inverse, inverse};
    };
    float sum = 0, logs = 0;
    for (int i = lane; i < width; i += 32) {
        const Strength of = strength(float(scores[i]));
        sum += of.itself;
        logs += of_each * of.log + (uint32_t(i) == meant ? of_meant * of.log : 0.0f);
    }
    sum = warp_sum(sum), logs = warp_sum(logs);
    if (lane == 0) losses[row] = (logf(sum) - logs) * weight;
    for (int i = lane; i < width; i += 32) {
        const Strength of = strength(float(scores[i]));
        const float share = of_each + (uint32_t(i) == meant ? of_meant : 0.0f);
        gradient[i] = (of.slope / sum - share * of.log_slope) * weight;
    }
}

// The sum of all numbers, times a factor if there is one. One block.
extern "C" __global__ void sum_f32(const float* x, const float* factor, float* sum, int count) {
    float of_thread = 0;
    for (int i = threadIdx.x; i < count; i += blockDim.x) of_thread += x[i];
    const float all = block_sum(of_thread);
    if (threadIdx.x == 0) *sum = factor ? all * *factor : all;
}

#define FOR_DTYPE(T, NAME)                                                                                             \
    extern "C" __global__ void cross_entropy_##NAME(const float* logits, const uint32_t* targets,                      \
                                                    const float* inverse, float* losses, T* dz, int vocabulary,        \
                                                    float cap, float scale) {                                          \
        cross_entropy(logits, targets, inverse, losses, dz, vocabulary, cap, scale);                                   \
    }                                                                                                                  \
    extern "C" __global__ void classify_##NAME(const T* scores, const uint32_t* classes, const float* weights,         \
                                               float* losses, float* gradient, int rows, int width, int squash,        \
                                               float smoothing) {                                                      \
        classify(scores, classes, weights, losses, gradient, rows, width, squash, smoothing);                          \
    }

FOR_DTYPE(float, f32)
FOR_DTYPE(__nv_bfloat16, bf16)
FOR_DTYPE(__half, f16)
