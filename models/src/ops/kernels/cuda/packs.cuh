// What kernels that work on single numbers share: packs of numbers, and functions of a number with their slopes.
#pragma once

#include <cstdint>
#include <cuda_bf16.h>
#include <cuda_fp16.h>

__device__ size_t thread_index() { return size_t(blockIdx.x) * blockDim.x + threadIdx.x; }

// Numbers that a thread reads or writes at once: 16 bytes, or twice as many in f32.
constexpr int PACK = 8;

template <typename T> struct alignas(16) Pack {
    T of[PACK];
};

template <typename T> __device__ Pack<T> pack_at(const T* from) { return *reinterpret_cast<const Pack<T>*>(from); }

template <typename T> __device__ void unpack(const Pack<T>& pack, float (&to)[PACK]) {
#pragma unroll
    for (int i = 0; i < PACK; ++i) to[i] = float(pack.of[i]);
}

template <typename T> __device__ void read_pack(const T* from, float (&to)[PACK]) { unpack(pack_at(from), to); }

template <typename T> __device__ void write_pack(T* to, const float (&from)[PACK]) {
    Pack<T> pack;
#pragma unroll
    for (int i = 0; i < PACK; ++i) pack.of[i] = T(from[i]);
    *reinterpret_cast<Pack<T>*>(to) = pack;
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
