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
    uint pad0_;
    uint pad1_;
};
typedef Stored type_4[1];
typedef Wide type_5[1];
typedef metal::float2 type_6[1];
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

metal::float2 group_sums(
    float a,
    float b,
    Place place,
    threadgroup type_3& of_subgroup
) {
    metal::float2 all = metal::float2(0.0);
    uint i_2 = 0u;
    float unnamed = metal::simd_sum(a);
    float unnamed_1 = metal::simd_sum(b);
    metal::float2 sums = metal::float2(unnamed, unnamed_1);
    metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
    if (place.lane == 0u) {
        of_subgroup.inner[place.subgroup] = sums;
    }
    metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
    bool loop_init = true;
    while(true) {
        if (!loop_init) {
            uint _e27 = i_2;
            i_2 = _e27 + 1u;
        }
        loop_init = false;
        uint _e17 = i_2;
        if (_e17 < place.subgroups) {
        } else {
            break;
        }
        {
            metal::float2 _e20 = all;
            uint _e22 = i_2;
            metal::float2 _e24 = of_subgroup.inner[_e22];
            all = _e20 + _e24;
        }
    }
    metal::float2 _e29 = all;
    return _e29;
}

struct f16x4_layer_norm_backInput {
};
[[max_total_threads_per_threadgroup(256)]] kernel void f16x4_layer_norm_back(
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
, device type_6 const& moments [[buffer(3)]]
, device type_4& dx [[buffer(4)]]
, constant NormBack& norm [[buffer(5)]]
) {
    uint row = {};
    float sum = {};
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
            uint _e114 = row;
            row = _e114 + groups.x;
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
            metal::float2 moment = moments[_e22];
            sum = 0.0;
            products = 0.0;
            i = thread_;
            bool loop_init_2 = true;
            while(true) {
                if (!loop_init_2) {
                    uint _e61 = i;
                    i = _e61 + THREADS;
                }
                loop_init_2 = false;
                uint _e30 = i;
                if (_e30 < packs) {
                } else {
                    break;
                }
                {
                    uint _e33 = i;
                    Stored _e36 = gradient[start + _e33];
                    Wide _e37 = widen(_e36);
                    uint _e39 = i;
                    Wide _e41 = factor[_e39];
                    Wide u = _e37 * _e41;
                    float _e43 = sum;
                    float _e44 = total(u);
                    sum = _e43 + _e44;
                    float _e46 = products;
                    uint _e48 = i;
                    Stored _e51 = x_3[start + _e48];
                    Wide _e52 = widen(_e51);
                    float _e59 = total(u * ((_e52 - metal::float4(moment.x)) * moment.y));
                    products = _e46 + _e59;
                }
            }
            float _e64 = sum;
            float _e65 = products;
            metal::float2 _e66 = group_sums(_e64, _e65, place_1, of_subgroup);
            uint _e69 = norm.width;
            metal::float2 means = _e66 / metal::float2(static_cast<float>(_e69));
            i_1 = thread_;
            bool loop_init_3 = true;
            while(true) {
                if (!loop_init_3) {
                    uint _e111 = i_1;
                    i_1 = _e111 + THREADS;
                }
                loop_init_3 = false;
                uint _e74 = i_1;
                if (_e74 < packs) {
                } else {
                    break;
                }
                {
                    uint _e77 = i_1;
                    Stored _e80 = gradient[start + _e77];
                    Wide _e81 = widen(_e80);
                    uint _e83 = i_1;
                    Wide _e85 = factor[_e83];
                    Wide u_1 = _e81 * _e85;
                    uint _e88 = i_1;
                    Stored _e91 = x_3[start + _e88];
                    Wide _e92 = widen(_e91);
                    Wide normalized = (_e92 - metal::float4(moment.x)) * moment.y;
                    uint _e99 = i_1;
                    Stored _e110 = narrow(moment.y * ((u_1 - metal::float4(means.x)) - (normalized * means.y)));
                    dx[start + _e99] = _e110;
                }
            }
        }
    }
    return;
}
