// language: metal3.0
#include <metal_stdlib>
#include <simd/simd.h>

using metal::uint;

typedef ushort Stored;
typedef float Wide;
struct type_3 {
    metal::float2 inner[64];
};
struct Place {
    uint thread_;
    uint lane;
    uint subgroup;
    uint subgroups;
};
struct Norm {
    uint rows;
    uint width;
    float epsilon;
    uint pad;
};
typedef Stored type_4[1];
typedef Wide type_5[1];
typedef metal::float2 type_6[1];
constant uint LANES = 1u;
constant uint THREADS = 256u;
constant float FAR_BELOW = -300000000000000000000000000000000000000.0;

Wide widen(
    Stored x
) {
    return as_type<float>(static_cast<uint>(x) << 16u);
}

Stored narrow(
    Wide x_1
) {
    uint bits = as_type<uint>(x_1);
    uint rounded = ((bits + 32767u) + ((bits >> 16u) & 1u)) >> 16u;
    bool no_number = (bits & 2147483647u) > 2139095040u;
    return static_cast<ushort>(no_number ? 32704u : rounded);
}

float total(
    Wide x_2
) {
    return x_2;
}

float group_sum(
    float value,
    Place place,
    threadgroup type_3& of_subgroup
) {
    float all = 0.0;
    uint i_3 = 0u;
    float unnamed = metal::simd_sum(value);
    metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
    if (place.lane == 0u) {
        of_subgroup.inner[place.subgroup].x = unnamed;
    }
    metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
    bool loop_init = true;
    while(true) {
        if (!loop_init) {
            uint _e25 = i_3;
            i_3 = _e25 + 1u;
        }
        loop_init = false;
        uint _e14 = i_3;
        if (_e14 < place.subgroups) {
        } else {
            break;
        }
        {
            float _e17 = all;
            uint _e19 = i_3;
            float _e22 = of_subgroup.inner[_e19].x;
            all = _e17 + _e22;
        }
    }
    float _e27 = all;
    return _e27;
}

struct bf16x1_layer_normInput {
};
[[max_total_threads_per_threadgroup(256)]] kernel void bf16x1_layer_norm(
  metal::uint3 group [[threadgroup_position_in_grid]]
, metal::uint3 groups [[threadgroups_per_grid]]
, uint thread_ [[thread_index_in_threadgroup]]
, uint lane [[thread_index_in_simdgroup]]
, uint subgroup [[simdgroup_index_in_threadgroup]]
, uint subgroups [[simdgroups_per_threadgroup]]
, threadgroup type_3& of_subgroup
, device type_4 const& x_3 [[buffer(0)]]
, device type_5 const& factor [[buffer(1)]]
, device type_5 const& bias [[buffer(2)]]
, device type_4& y [[buffer(3)]]
, device type_6& moments [[buffer(4)]]
, constant Norm& norm [[buffer(5)]]
) {
    uint row = {};
    float sum = {};
    uint i = {};
    float squares = {};
    uint i_1 = {};
    uint i_2 = {};
    Place place_1 = Place {thread_, lane, subgroup, subgroups};
    uint _e9 = norm.width;
    uint packs = _e9 / LANES;
    row = group.x;
    bool loop_init_1 = true;
    while(true) {
        if (!loop_init_1) {
            uint _e111 = row;
            row = _e111 + groups.x;
        }
        loop_init_1 = false;
        uint _e14 = row;
        uint _e17 = norm.rows;
        if (_e14 < _e17) {
        } else {
            break;
        }
        {
            uint _e19 = row;
            uint start = _e19 * packs;
            sum = 0.0;
            i = thread_;
            bool loop_init_2 = true;
            while(true) {
                if (!loop_init_2) {
                    uint _e35 = i;
                    i = _e35 + THREADS;
                }
                loop_init_2 = false;
                uint _e24 = i;
                if (_e24 < packs) {
                } else {
                    break;
                }
                {
                    float _e26 = sum;
                    uint _e28 = i;
                    Stored _e31 = x_3[start + _e28];
                    Wide _e32 = widen(_e31);
                    float _e33 = total(_e32);
                    sum = _e26 + _e33;
                }
            }
            float _e38 = sum;
            float _e39 = group_sum(_e38, place_1, of_subgroup);
            uint _e42 = norm.width;
            float mean = _e39 / static_cast<float>(_e42);
            squares = 0.0;
            i_1 = thread_;
            bool loop_init_3 = true;
            while(true) {
                if (!loop_init_3) {
                    uint _e61 = i_1;
                    i_1 = _e61 + THREADS;
                }
                loop_init_3 = false;
                uint _e48 = i_1;
                if (_e48 < packs) {
                } else {
                    break;
                }
                {
                    uint _e51 = i_1;
                    Stored _e54 = x_3[start + _e51];
                    Wide _e55 = widen(_e54);
                    Wide a = _e55 - mean;
                    float _e57 = squares;
                    float _e59 = total(a * a);
                    squares = _e57 + _e59;
                }
            }
            float _e64 = squares;
            float _e65 = group_sum(_e64, place_1, of_subgroup);
            uint _e68 = norm.width;
            float _e73 = norm.epsilon;
            float scale = metal::rsqrt((_e65 / static_cast<float>(_e68)) + _e73);
            if (thread_ == 0u) {
                uint _e79 = row;
                moments[_e79] = metal::float2(mean, scale);
            }
            i_2 = thread_;
            bool loop_init_4 = true;
            while(true) {
                if (!loop_init_4) {
                    uint _e108 = i_2;
                    i_2 = _e108 + THREADS;
                }
                loop_init_4 = false;
                uint _e83 = i_2;
                if (_e83 < packs) {
                } else {
                    break;
                }
                {
                    uint _e86 = i_2;
                    uint _e90 = i_2;
                    Stored _e93 = x_3[start + _e90];
                    Wide _e94 = widen(_e93);
                    uint _e98 = i_2;
                    Wide _e100 = factor[_e98];
                    uint _e103 = i_2;
                    Wide _e105 = bias[_e103];
                    Stored _e107 = narrow((((_e94 - mean) * scale) * _e100) + _e105);
                    y[start + _e86] = _e107;
                }
            }
        }
    }
    return;
}
