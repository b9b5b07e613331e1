// language: metal3.0
#include <metal_stdlib>
#include <simd/simd.h>

using metal::uint;

typedef metal::float4 Stored;
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
    uint rows;
    uint width;
    float epsilon;
    uint pad;
};
typedef Stored type_4[1];
typedef Wide type_5[1];
typedef float type_6[1];
constant uint LANES = 4u;
constant uint THREADS = 256u;
constant float FAR_BELOW = -300000000000000000000000000000000000000.0;

Wide widen(
    Stored x
) {
    return x;
}

Stored narrow(
    Wide x_1
) {
    return x_1;
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

struct f32x4_rms_normInput {
};
[[max_total_threads_per_threadgroup(256)]] kernel void f32x4_rms_norm(
  metal::uint3 group [[threadgroup_position_in_grid]]
, metal::uint3 groups [[threadgroups_per_grid]]
, uint thread_ [[thread_index_in_threadgroup]]
, uint lane [[thread_index_in_simdgroup]]
, uint subgroup [[simdgroup_index_in_threadgroup]]
, uint subgroups [[simdgroups_per_threadgroup]]
, threadgroup type_3& of_subgroup
, device type_4 const& x_3 [[buffer(0)]]
, device type_5 const& factor [[buffer(1)]]
, device type_4& y [[buffer(2)]]
, device type_6& rho [[buffer(3)]]
, constant Norm& norm [[buffer(4)]]
) {
    uint row = {};
    float squares = {};
    uint i = {};
    uint i_1 = {};
    Place place_1 = Place {thread_, lane, subgroup, subgroups};
    uint _e9 = norm.width;
    uint packs = _e9 / LANES;
    row = group.x;
    bool loop_init_1 = true;
    while(true) {
        if (!loop_init_1) {
            uint _e79 = row;
            row = _e79 + groups.x;
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
            squares = 0.0;
            i = thread_;
            bool loop_init_2 = true;
            while(true) {
                if (!loop_init_2) {
                    uint _e36 = i;
                    i = _e36 + THREADS;
                }
                loop_init_2 = false;
                uint _e24 = i;
                if (_e24 < packs) {
                } else {
                    break;
                }
                {
                    uint _e27 = i;
                    Stored _e30 = x_3[start + _e27];
                    Wide _e31 = widen(_e30);
                    float _e32 = squares;
                    float _e34 = total(_e31 * _e31);
                    squares = _e32 + _e34;
                }
            }
            float _e39 = squares;
            float _e40 = group_sum(_e39, place_1, of_subgroup);
            uint _e43 = norm.width;
            float _e48 = norm.epsilon;
            float scale = metal::rsqrt((_e40 / static_cast<float>(_e43)) + _e48);
            if (thread_ == 0u) {
                uint _e54 = row;
                rho[_e54] = scale;
            }
            i_1 = thread_;
            bool loop_init_3 = true;
            while(true) {
                if (!loop_init_3) {
                    uint _e76 = i_1;
                    i_1 = _e76 + THREADS;
                }
                loop_init_3 = false;
                uint _e57 = i_1;
                if (_e57 < packs) {
                } else {
                    break;
                }
                {
                    uint _e60 = i_1;
                    uint _e64 = i_1;
                    Stored _e67 = x_3[start + _e64];
                    Wide _e68 = widen(_e67);
                    uint _e71 = i_1;
                    Wide _e73 = factor[_e71];
                    Stored _e75 = narrow((_e68 * scale) * _e73);
                    y[start + _e60] = _e75;
                }
            }
        }
    }
    return;
}
