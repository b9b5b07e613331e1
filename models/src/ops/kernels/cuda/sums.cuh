// Sums and largest numbers over the threads of a warp or a block, in a fixed order.
#pragma once

#include "packs.cuh"

__device__ float warp_sum(float value) {
    for (int step = 16; step > 0; step /= 2) value += __shfl_xor_sync(0xffffffff, value, step);
    return value;
}

constexpr int MAX_WARPS = 32;

// The sum (or the largest) of `value` over the threads of a block, known to all of them.
template <bool LARGEST> __device__ float over_block(float value) {
    __shared__ float of_warp[MAX_WARPS];
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

__device__ float capped(float score, float cap) { return cap > 0 ? cap * tanhf(score / cap) : score; }
