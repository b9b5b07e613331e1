// language: metal3.0
#include <metal_stdlib>
#include <simd/simd.h>

using metal::uint;

struct type_3 {
    metal::float2 inner[64];
};
struct AdamW {
    uint count;
    float gradient_scale;
    float beta1_;
    float rest1_;
    float beta2_;
    float rest2_;
    float epsilon;
    float shrink;
    float rate;
    float correction;
    uint pad0_;
    uint pad1_;
};
typedef float type_4[1];
typedef uint type_5[1];
struct type_7 {
    metal::uint2 inner[256];
};
constant uint LANES = 4u;
constant uint THREADS = 256u;
constant float FAR_BELOW = -300000000000000000000000000000000000000.0;
constant uint TABLE = 256u;

uint nearest(
    float number,
    uint start,
    device type_4 const& tables
) {
    uint code = 0u;
    uint half_ = 128u;
    bool loop_init = true;
    while(true) {
        if (!loop_init) {
            uint _e24 = half_;
            half_ = _e24 / 2u;
        }
        loop_init = false;
        uint _e6 = half_;
        if (_e6 > 0u) {
        } else {
            break;
        }
        {
            uint _e12 = code;
            uint _e14 = half_;
            float _e19 = tables[(((start + TABLE) + _e12) + _e14) - 1u];
            if (_e19 < number) {
                uint _e21 = code;
                uint _e22 = half_;
                code = _e21 + _e22;
            }
        }
    }
    uint _e27 = code;
    return _e27;
}

float divisor(
    float largest_1
) {
    return (largest_1 == 0.0) ? 1.0 : largest_1;
}

uint packed_codes(
    uint at_1,
    uint moment,
    threadgroup type_7& codes
) {
    uint _e5 = codes.inner[at_1][moment];
    uint _e11 = codes.inner[at_1 + 1u][moment];
    uint _e20 = codes.inner[at_1 + 2u][moment];
    uint _e29 = codes.inner[at_1 + 3u][moment];
    return ((_e5 | (_e11 << 8u)) | (_e20 << 16u)) | (_e29 << 24u);
}

struct f32x4_adamw_codesInput {
};
[[max_total_threads_per_threadgroup(256)]] kernel void f32x4_adamw_codes(
  metal::uint3 group [[threadgroup_position_in_grid]]
, metal::uint3 groups [[threadgroups_per_grid]]
, uint thread_ [[thread_index_in_threadgroup]]
, uint lane [[thread_index_in_simdgroup]]
, uint subgroup [[simdgroup_index_in_threadgroup]]
, uint subgroups [[simdgroups_per_threadgroup]]
, device type_4& weight [[buffer(0)]]
, device type_4 const& gradient [[buffer(1)]]
, device type_5& first [[buffer(2)]]
, device type_4& first_largest [[buffer(3)]]
, device type_5& second [[buffer(4)]]
, device type_4& second_largest [[buffer(5)]]
, device type_4 const& tables [[buffer(6)]]
, constant AdamW& step [[buffer(7)]]
, threadgroup type_7& codes
, threadgroup type_3& largest_of_subgroup
) {
    uint block = {};
    float m = {};
    float v = {};
    metal::float2 largest = {};
    uint at = {};
    block = group.x;
    bool loop_init_1 = true;
    while(true) {
        if (!loop_init_1) {
            uint _e212 = block;
            block = _e212 + groups.x;
        }
        loop_init_1 = false;
        uint _e8 = block;
        uint _e13 = step.count;
        if ((_e8 * THREADS) < _e13) {
        } else {
            break;
        }
        {
            uint _e15 = block;
            uint i = (_e15 * THREADS) + thread_;
            uint _e21 = step.count;
            bool is_there = i < _e21;
            uint _e27 = first[i / 4u];
            uint _e37 = second[i / 4u];
            metal::uint2 was = metal::uint2(_e27 >> ((i % 4u) * 8u), _e37 >> ((i % 4u) * 8u)) & metal::uint2(255u);
            m = 0.0;
            v = 0.0;
            if (is_there) {
                float _e53 = gradient[i];
                float _e56 = step.gradient_scale;
                float g = _e53 * _e56;
                float _e61 = tables[was.x];
                uint _e63 = block;
                float _e65 = first_largest[_e63];
                float _e69 = step.beta1_;
                float _e73 = step.rest1_;
                m = ((_e61 * _e65) * _e69) + (g * _e73);
                float _e81 = tables[512u + was.y];
                uint _e83 = block;
                float _e85 = second_largest[_e83];
                float _e89 = step.beta2_;
                float _e94 = step.rest2_;
                v = ((_e81 * _e85) * _e89) + ((g * g) * _e94);
                float _e101 = weight[i];
                float _e104 = step.shrink;
                float _e106 = m;
                float _e107 = v;
                float _e111 = step.correction;
                float _e115 = step.epsilon;
                float _e120 = step.rate;
                weight[i] = (_e101 * _e104) - ((_e106 / ((metal::sqrt(_e107) * _e111) + _e115)) * _e120);
            }
            float _e123 = m;
            float unnamed = metal::simd_max(metal::abs(_e123));
            float _e126 = v;
            float unnamed_1 = metal::simd_max(_e126);
            metal::float2 of_subgroup_here = metal::float2(unnamed, unnamed_1);
            metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
            if (lane == 0u) {
                largest_of_subgroup.inner[subgroup] = of_subgroup_here;
            }
            metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
            largest = metal::float2(0.0);
            at = 0u;
            bool loop_init_2 = true;
            while(true) {
                if (!loop_init_2) {
                    uint _e147 = at;
                    at = _e147 + 1u;
                }
                loop_init_2 = false;
                uint _e138 = at;
                if (_e138 < subgroups) {
                } else {
                    break;
                }
                {
                    metal::float2 _e140 = largest;
                    uint _e142 = at;
                    metal::float2 _e144 = largest_of_subgroup.inner[_e142];
                    largest = metal::max(_e140, _e144);
                }
            }
            float _e149 = m;
            float _e151 = largest.x;
            float _e152 = divisor(_e151);
            uint _e155 = nearest(_e149 / _e152, 0u, tables);
            float _e156 = v;
            float _e158 = largest.y;
            float _e159 = divisor(_e158);
            uint _e162 = nearest(_e156 / _e159, 512u, tables);
            float _e165 = v;
            metal::uint2 now = metal::uint2(_e155, metal::max(_e162, (_e165 > 0.0) ? 1u : 0u));
            codes.inner[thread_] = is_there ? now : was;
            metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
            if (thread_ < 64u) {
                uint _e177 = block;
                uint _e187 = packed_codes(4u * thread_, 0u, codes);
                first[((_e177 * THREADS) / 4u) + thread_] = _e187;
                uint _e189 = block;
                uint _e199 = packed_codes(4u * thread_, 1u, codes);
                second[((_e189 * THREADS) / 4u) + thread_] = _e199;
            }
            if (thread_ == 0u) {
                uint _e203 = block;
                float _e206 = largest.x;
                first_largest[_e203] = _e206;
                uint _e208 = block;
                float _e211 = largest.y;
                second_largest[_e208] = _e211;
            }
        }
    }
    return;
}
