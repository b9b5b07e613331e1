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
struct Squares {
    uint count;
    uint pad0_;
    uint pad1_;
    uint pad2_;
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

float total(
    Wide x_1
) {
    return (x_1.x + x_1.y) + (x_1.z + x_1.w);
}

float group_sum(
    float value,
    Place place,
    threadgroup type_3& of_subgroup
) {
    float all = 0.0;
    uint i_1 = 0u;
    float unnamed = metal::simd_sum(value);
    metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
    if (place.lane == 0u) {
        of_subgroup.inner[place.subgroup].x = unnamed;
    }
    metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
    bool loop_init = true;
    while(true) {
        if (!loop_init) {
            uint _e25 = i_1;
            i_1 = _e25 + 1u;
        }
        loop_init = false;
        uint _e14 = i_1;
        if (_e14 < place.subgroups) {
        } else {
            break;
        }
        {
            float _e17 = all;
            uint _e19 = i_1;
            float _e22 = of_subgroup.inner[_e19].x;
            all = _e17 + _e22;
        }
    }
    float _e27 = all;
    return _e27;
}

struct f16x4_squaresInput {
};
[[max_total_threads_per_threadgroup(256)]] kernel void f16x4_squares(
  metal::uint3 group [[threadgroup_position_in_grid]]
, metal::uint3 groups [[threadgroups_per_grid]]
, uint thread_ [[thread_index_in_threadgroup]]
, uint lane [[thread_index_in_simdgroup]]
, uint subgroup [[simdgroup_index_in_threadgroup]]
, uint subgroups [[simdgroups_per_threadgroup]]
, threadgroup type_3& of_subgroup
, device type_4 const& x_2 [[buffer(0)]]
, device type_5& sums [[buffer(1)]]
, constant Squares& sizes [[buffer(2)]]
) {
    float sum = 0.0;
    uint i = {};
    Place place_1 = Place {thread_, lane, subgroup, subgroups};
    i = (group.x * THREADS) + thread_;
    bool loop_init_1 = true;
    while(true) {
        if (!loop_init_1) {
            uint _e30 = i;
            i = _e30 + (groups.x * THREADS);
        }
        loop_init_1 = false;
        uint _e14 = i;
        uint _e17 = sizes.count;
        if (_e14 < (_e17 / LANES)) {
        } else {
            break;
        }
        {
            uint _e22 = i;
            Stored _e24 = x_2[_e22];
            Wide _e25 = widen(_e24);
            float _e26 = sum;
            float _e28 = total(_e25 * _e25);
            sum = _e26 + _e28;
        }
    }
    float _e35 = sum;
    float _e36 = group_sum(_e35, place_1, of_subgroup);
    if (thread_ == 0u) {
        sums[group.x] = _e36;
        return;
    } else {
        return;
    }
}
