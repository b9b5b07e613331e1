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
typedef metal::float2 type_6[1];
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

struct f32x4_layer_normInput {
};
[[max_total_threads_per_threadgroup(256)]] kernel void f32x4_layer_norm(
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
            uint _e113 = row;
            row = _e113 + groups.x;
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
                    uint _e62 = i_1;
                    i_1 = _e62 + THREADS;
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
                    Wide a = _e55 - metal::float4(mean);
                    float _e58 = squares;
                    float _e60 = total(a * a);
                    squares = _e58 + _e60;
                }
            }
            float _e65 = squares;
            float _e66 = group_sum(_e65, place_1, of_subgroup);
            uint _e69 = norm.width;
            float _e74 = norm.epsilon;
            float scale = metal::rsqrt((_e66 / static_cast<float>(_e69)) + _e74);
            if (thread_ == 0u) {
                uint _e80 = row;
                moments[_e80] = metal::float2(mean, scale);
            }
            i_2 = thread_;
            bool loop_init_4 = true;
            while(true) {
                if (!loop_init_4) {
                    uint _e110 = i_2;
                    i_2 = _e110 + THREADS;
                }
                loop_init_4 = false;
                uint _e84 = i_2;
                if (_e84 < packs) {
                } else {
                    break;
                }
                {
                    uint _e87 = i_2;
                    uint _e91 = i_2;
                    Stored _e94 = x_3[start + _e91];
                    Wide _e95 = widen(_e94);
                    uint _e100 = i_2;
                    Wide _e102 = factor[_e100];
                    uint _e105 = i_2;
                    Wide _e107 = bias[_e105];
                    Stored _e109 = narrow((((_e95 - metal::float4(mean)) * scale) * _e102) + _e107);
                    y[start + _e87] = _e109;
                }
            }
        }
    }
    return;
}
