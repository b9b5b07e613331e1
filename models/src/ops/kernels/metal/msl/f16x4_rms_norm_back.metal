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
struct NormBack {
    uint rows;
    uint width;
    uint adds;
    uint pad0_;
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

struct f16x4_rms_norm_backInput {
};
[[max_total_threads_per_threadgroup(256)]] kernel void f16x4_rms_norm_back(
  metal::uint3 group [[threadgroup_position_in_grid]]
, metal::uint3 groups [[threadgroups_per_grid]]
, uint thread_ [[thread_index_in_threadgroup]]
, uint lane [[thread_index_in_simdgroup]]
, uint subgroup [[simdgroup_index_in_threadgroup]]
, uint subgroups [[simdgroups_per_threadgroup]]
, threadgroup type_3& of_subgroup
, device type_4 const& x_3 [[buffer(0)]]
, device type_4 const& gradient [[buffer(1)]]
, device type_5 const& factor [[buffer(2)]]
, device type_6 const& rho [[buffer(3)]]
, device type_4 const& around [[buffer(4)]]
, device type_4& dx [[buffer(5)]]
, constant NormBack& norm [[buffer(6)]]
) {
    uint row = {};
    float products = {};
    uint i = {};
    uint i_1 = {};
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
            uint _e22 = row;
            float scale = rho[_e22];
            products = 0.0;
            i = thread_;
            bool loop_init_2 = true;
            while(true) {
                if (!loop_init_2) {
                    uint _e52 = i;
                    i = _e52 + THREADS;
                }
                loop_init_2 = false;
                uint _e28 = i;
                if (_e28 < packs) {
                } else {
                    break;
                }
                {
                    float _e30 = products;
                    uint _e32 = i;
                    Stored _e35 = gradient[start + _e32];
                    Wide _e36 = widen(_e35);
                    uint _e38 = i;
                    Wide _e40 = factor[_e38];
                    uint _e43 = i;
                    Stored _e46 = x_3[start + _e43];
                    Wide _e47 = widen(_e46);
                    float _e50 = total((_e36 * _e40) * (_e47 * scale));
                    products = _e30 + _e50;
                }
            }
            float _e55 = products;
            float _e56 = group_sum(_e55, place_1, of_subgroup);
            uint _e59 = norm.width;
            float along = _e56 / static_cast<float>(_e59);
            i_1 = thread_;
            bool loop_init_3 = true;
            while(true) {
                if (!loop_init_3) {
                    uint _e108 = i_1;
                    i_1 = _e108 + THREADS;
                }
                loop_init_3 = false;
                uint _e63 = i_1;
                if (_e63 < packs) {
                } else {
                    break;
                }
                {
                    uint _e66 = i_1;
                    Stored _e69 = x_3[start + _e66];
                    Wide _e70 = widen(_e69);
                    Wide normalized = _e70 * scale;
                    uint _e73 = i_1;
                    Stored _e76 = gradient[start + _e73];
                    Wide _e77 = widen(_e76);
                    uint _e79 = i_1;
                    Wide _e81 = factor[_e79];
                    Wide back = scale * ((_e77 * _e81) - (normalized * along));
                    uint _e88 = norm.adds;
                    if (_e88 == 1u) {
                        uint _e92 = i_1;
                        uint _e96 = i_1;
                        Stored _e99 = around[start + _e96];
                        Wide _e100 = widen(_e99);
                        Stored _e102 = narrow(back + _e100);
                        dx[start + _e92] = _e102;
                    } else {
                        uint _e104 = i_1;
                        Stored _e107 = narrow(back);
                        dx[start + _e104] = _e107;
                    }
                }
            }
        }
    }
    return;
}
