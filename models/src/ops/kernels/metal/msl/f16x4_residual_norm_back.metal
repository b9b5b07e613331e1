// language: metal3.0
#include <metal_stdlib>
#include <simd/simd.h>

using metal::uint;

typedef metal::half4 Stored;
typedef metal::float4 Wide;
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
    uint lines;
    uint width;
    uint apart_lines;
    uint apart_numbers;
};
typedef Stored type_4[1];
typedef float type_5[1];
constant uint LANES = 4u;
constant uint THREADS = 256u;
constant float FAR_BELOW = -300000000000000000000000000000000000000.0;

Wide widen(
    Stored x
) {
    return static_cast<metal::float4>(x);
}

Stored narrow(
    Wide x_1
) {
    return static_cast<metal::half4>(x_1);
}

float total(
    Wide x_2
) {
    return (x_2.x + x_2.y) + (x_2.z + x_2.w);
}

float group_sum(
    float value,
    Place place,
    threadgroup type_3& of_subgroup
) {
    float all = 0.0;
    uint i_2 = 0u;
    float unnamed = metal::simd_sum(value);
    metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
    if (place.lane == 0u) {
        of_subgroup.inner[place.subgroup].x = unnamed;
    }
    metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
    bool loop_init = true;
    while(true) {
        if (!loop_init) {
            uint _e25 = i_2;
            i_2 = _e25 + 1u;
        }
        loop_init = false;
        uint _e14 = i_2;
        if (_e14 < place.subgroups) {
        } else {
            break;
        }
        {
            float _e17 = all;
            uint _e19 = i_2;
            float _e22 = of_subgroup.inner[_e19].x;
            all = _e17 + _e22;
        }
    }
    float _e27 = all;
    return _e27;
}

struct f16x4_residual_norm_backInput {
};
[[max_total_threads_per_threadgroup(256)]] kernel void f16x4_residual_norm_back(
  metal::uint3 group [[threadgroup_position_in_grid]]
, metal::uint3 groups [[threadgroups_per_grid]]
, uint thread_ [[thread_index_in_threadgroup]]
, uint lane [[thread_index_in_simdgroup]]
, uint subgroup [[simdgroup_index_in_threadgroup]]
, uint subgroups [[simdgroups_per_threadgroup]]
, threadgroup type_3& of_subgroup
, device type_4 const& gradient [[buffer(0)]]
, device type_4 const& y [[buffer(1)]]
, device type_5 const& rho [[buffer(2)]]
, device type_4& dx [[buffer(3)]]
, constant Norm& norm [[buffer(4)]]
) {
    uint line = {};
    float products = {};
    uint i = {};
    uint i_1 = {};
    Place place_1 = Place {thread_, lane, subgroup, subgroups};
    uint _e9 = norm.width;
    uint packs = _e9 / LANES;
    line = group.x;
    bool loop_init_1 = true;
    while(true) {
        if (!loop_init_1) {
            uint _e89 = line;
            line = _e89 + groups.x;
        }
        loop_init_1 = false;
        uint _e14 = line;
        uint _e17 = norm.lines;
        if (_e14 < _e17) {
        } else {
            break;
        }
        {
            uint _e19 = line;
            uint _e22 = norm.apart_lines;
            uint start = (_e19 * _e22) / LANES;
            products = 0.0;
            i = thread_;
            bool loop_init_2 = true;
            while(true) {
                if (!loop_init_2) {
                    uint _e49 = i;
                    i = _e49 + THREADS;
                }
                loop_init_2 = false;
                uint _e29 = i;
                if (_e29 < packs) {
                } else {
                    break;
                }
                {
                    uint _e31 = i;
                    uint _e34 = norm.apart_numbers;
                    uint at = start + (_e31 * _e34);
                    float _e37 = products;
                    Stored _e40 = gradient[at];
                    Wide _e41 = widen(_e40);
                    Stored _e44 = y[at];
                    Wide _e45 = widen(_e44);
                    float _e47 = total(_e41 * _e45);
                    products = _e37 + _e47;
                }
            }
            float _e52 = products;
            float _e53 = group_sum(_e52, place_1, of_subgroup);
            uint _e56 = norm.width;
            float along = _e53 / static_cast<float>(_e56);
            i_1 = thread_;
            bool loop_init_3 = true;
            while(true) {
                if (!loop_init_3) {
                    uint _e86 = i_1;
                    i_1 = _e86 + THREADS;
                }
                loop_init_3 = false;
                uint _e60 = i_1;
                if (_e60 < packs) {
                } else {
                    break;
                }
                {
                    uint _e62 = i_1;
                    uint _e65 = norm.apart_numbers;
                    uint at_1 = start + (_e62 * _e65);
                    Stored _e72 = gradient[at_1];
                    Wide _e73 = widen(_e72);
                    Stored _e76 = y[at_1];
                    Wide _e77 = widen(_e76);
                    uint _e81 = line;
                    float _e83 = rho[_e81];
                    Stored _e85 = narrow((_e73 - (_e77 * along)) * _e83);
                    dx[at_1] = _e85;
                }
            }
        }
    }
    return;
}
