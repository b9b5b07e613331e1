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
struct SoftmaxBack {
    uint rows;
    uint keys;
    float scale;
    float cap;
};
typedef Stored type_4[1];
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

Wide squeezed(
    Wide z,
    float cap
) {
    return cap * metal::tanh(metal::clamp(z / metal::float4(cap), metal::float4(-15.0), metal::float4(15.0)));
}

struct f32x4_masked_softmax_backInput {
};
[[max_total_threads_per_threadgroup(256)]] kernel void f32x4_masked_softmax_back(
  metal::uint3 group [[threadgroup_position_in_grid]]
, metal::uint3 groups [[threadgroups_per_grid]]
, uint thread_ [[thread_index_in_threadgroup]]
, uint lane [[thread_index_in_simdgroup]]
, uint subgroup [[simdgroup_index_in_threadgroup]]
, uint subgroups [[simdgroups_per_threadgroup]]
, threadgroup type_3& of_subgroup
, device type_4 const& weights [[buffer(0)]]
, device type_4 const& scores [[buffer(1)]]
, device type_4& gradient [[buffer(2)]]
, constant SoftmaxBack& softmax [[buffer(3)]]
) {
    uint row = {};
    float products = {};
    uint i = {};
    uint i_1 = {};
    Wide d = {};
    Place place_1 = Place {thread_, lane, subgroup, subgroups};
    uint _e9 = softmax.keys;
    uint packs = _e9 / LANES;
    row = group.x;
    bool loop_init_1 = true;
    while(true) {
        if (!loop_init_1) {
            uint _e109 = row;
            row = _e109 + groups.x;
        }
        loop_init_1 = false;
        uint _e14 = row;
        uint _e17 = softmax.rows;
        if (_e14 < _e17) {
        } else {
            break;
        }
        {
            uint _e19 = row;
            uint start = _e19 * packs;
            products = 0.0;
            i = thread_;
            bool loop_init_2 = true;
            while(true) {
                if (!loop_init_2) {
                    uint _e42 = i;
                    i = _e42 + THREADS;
                }
                loop_init_2 = false;
                uint _e24 = i;
                if (_e24 < packs) {
                } else {
                    break;
                }
                {
                    float _e26 = products;
                    uint _e28 = i;
                    Stored _e31 = weights[start + _e28];
                    Wide _e32 = widen(_e31);
                    uint _e34 = i;
                    Stored _e37 = gradient[start + _e34];
                    Wide _e38 = widen(_e37);
                    float _e40 = total(_e32 * _e38);
                    products = _e26 + _e40;
                }
            }
            float _e45 = products;
            float _e46 = group_sum(_e45, place_1, of_subgroup);
            i_1 = thread_;
            bool loop_init_3 = true;
            while(true) {
                if (!loop_init_3) {
                    uint _e106 = i_1;
                    i_1 = _e106 + THREADS;
                }
                loop_init_3 = false;
                uint _e48 = i_1;
                if (_e48 < packs) {
                } else {
                    break;
                }
                {
                    uint _e51 = i_1;
                    Stored _e54 = weights[start + _e51];
                    Wide _e55 = widen(_e54);
                    uint _e57 = i_1;
                    Stored _e60 = gradient[start + _e57];
                    Wide _e61 = widen(_e60);
                    float _e67 = softmax.scale;
                    d = (_e55 * (_e61 - metal::float4(_e46))) * _e67;
                    float _e72 = softmax.cap;
                    if (_e72 > 0.0) {
                        uint _e76 = i_1;
                        Stored _e79 = scores[start + _e76];
                        Wide _e80 = widen(_e79);
                        float _e83 = softmax.scale;
                        float _e87 = softmax.cap;
                        Wide _e88 = squeezed(_e80 * _e83, _e87);
                        float _e91 = softmax.cap;
                        Wide share = _e88 / metal::float4(_e91);
                        Wide _e94 = d;
                        d = _e94 * (metal::float4(1.0) - (share * share));
                    }
                    uint _e101 = i_1;
                    Wide _e104 = d;
                    Stored _e105 = narrow(_e104);
                    gradient[start + _e101] = _e105;
                }
            }
        }
    }
    return;
}
