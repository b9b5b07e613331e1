// language: metal3.0
#include <metal_stdlib>
#include <simd/simd.h>

using metal::uint;

typedef metal::uint2 Stored;
typedef metal::float4 Wide;
typedef metal::uint4 Index;
struct type_4 {
    metal::float2 inner[64];
};
struct Place {
    uint thread_;
    uint lane;
    uint subgroup;
    uint subgroups;
};
struct Softmax {
    uint rows;
    uint heads;
    uint tokens;
    uint keys;
    float scale;
    float cap;
    uint pad0_;
    uint pad1_;
};
typedef Stored type_5[1];
typedef metal::uint2 type_7[1];
constant uint LANES = 4u;
constant uint THREADS = 256u;
constant float FAR_BELOW = -300000000000000000000000000000000000000.0;

Wide widen(
    Stored x
) {
    return as_type<metal::float4>(metal::uint4(x.x << 16u, x.x & 4294901760u, x.y << 16u, x.y & 4294901760u));
}

Stored narrow(
    Wide x_1
) {
    metal::uint4 bits = as_type<metal::uint4>(x_1);
    metal::uint4 rounded = (bits + metal::uint4(32767u)) + ((bits >> metal::uint4(16u)) & metal::uint4(1u));
    metal::bool4 no_number = (bits & metal::uint4(2147483647u)) > metal::uint4(2139095040u);
    metal::uint4 upper = metal::select(rounded, metal::uint4(2143289344u), no_number);
    return Stored((upper.x >> 16u) | (upper.y & 4294901760u), (upper.z >> 16u) | (upper.w & 4294901760u));
}

float total(
    Wide x_2
) {
    return (x_2.x + x_2.y) + (x_2.z + x_2.w);
}

float largest_of(
    Wide x_3
) {
    return metal::max(metal::max(x_3.x, x_3.y), metal::max(x_3.z, x_3.w));
}

Index indices(
    uint start
) {
    return metal::uint4(start) + metal::uint4(0u, 1u, 2u, 3u);
}

Index splat(
    uint x_4
) {
    return metal::uint4(x_4);
}

metal::float2 group_softmax(
    float largest_1,
    float sum_1,
    Place place,
    threadgroup type_4& of_subgroup
) {
    metal::float2 all = {};
    uint i_2 = 1u;
    float unnamed = metal::simd_max(largest_1);
    float unnamed_1 = metal::simd_sum(sum_1 * metal::exp(largest_1 - unnamed));
    metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
    if (place.lane == 0u) {
        of_subgroup.inner[place.subgroup] = metal::float2(unnamed, unnamed_1);
    }
    metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
    metal::float2 _e17 = of_subgroup.inner[0];
    all = _e17;
    bool loop_init = true;
    while(true) {
        if (!loop_init) {
            uint _e47 = i_2;
            i_2 = _e47 + 1u;
        }
        loop_init = false;
        uint _e21 = i_2;
        if (_e21 < place.subgroups) {
        } else {
            break;
        }
        {
            uint _e25 = i_2;
            metal::float2 other = of_subgroup.inner[_e25];
            float _e29 = all.x;
            float top = metal::max(_e29, other.x);
            float _e33 = all.y;
            float _e35 = all.x;
            all = metal::float2(top, (_e33 * metal::exp(_e35 - top)) + (other.y * metal::exp(other.x - top)));
        }
    }
    metal::float2 _e49 = all;
    return _e49;
}

Wide squeezed(
    Wide z,
    float cap
) {
    return cap * metal::tanh(metal::clamp(z / metal::float4(cap), metal::float4(-15.0), metal::float4(15.0)));
}

Wide scored(
    Stored x_5,
    constant Softmax& softmax
) {
    Wide _e1 = widen(x_5);
    float _e4 = softmax.scale;
    Wide z_1 = _e1 * _e4;
    float _e8 = softmax.cap;
    if (_e8 > 0.0) {
        float _e13 = softmax.cap;
        Wide _e14 = squeezed(z_1, _e13);
        return _e14;
    }
    return z_1;
}

struct bf16x4_masked_softmaxInput {
};
[[max_total_threads_per_threadgroup(256)]] kernel void bf16x4_masked_softmax(
  metal::uint3 group [[threadgroup_position_in_grid]]
, metal::uint3 groups [[threadgroups_per_grid]]
, uint thread_ [[thread_index_in_threadgroup]]
, uint lane [[thread_index_in_simdgroup]]
, uint subgroup [[simdgroup_index_in_threadgroup]]
, uint subgroups [[simdgroups_per_threadgroup]]
, threadgroup type_4& of_subgroup
, device type_5& scores [[buffer(0)]]
, device type_7 const& runs [[buffer(1)]]
, constant Softmax& softmax [[buffer(2)]]
) {
    uint row = {};
    float largest = {};
    float sum = {};
    uint i = {};
    uint i_1 = {};
    Place place_1 = Place {thread_, lane, subgroup, subgroups};
    uint _e9 = softmax.keys;
    uint packs = _e9 / LANES;
    row = group.x;
    bool loop_init_1 = true;
    while(true) {
        if (!loop_init_1) {
            uint _e140 = row;
            row = _e140 + groups.x;
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
            uint start_1 = _e19 * packs;
            uint _e22 = row;
            uint _e25 = softmax.heads;
            uint _e28 = softmax.tokens;
            uint _e33 = softmax.tokens;
            uint _e35 = row;
            uint _e38 = softmax.tokens;
            metal::uint2 run = runs[((_e22 / (_e25 * _e28)) * _e33) + (_e35 % _e38)];
            largest = FAR_BELOW;
            sum = 0.0;
            i = (run.x / LANES) + thread_;
            bool loop_init_2 = true;
            while(true) {
                if (!loop_init_2) {
                    uint _e93 = i;
                    i = _e93 + THREADS;
                }
                loop_init_2 = false;
                uint _e52 = i;
                if ((_e52 * LANES) < run.y) {
                } else {
                    break;
                }
                {
                    uint _e57 = i;
                    Index _e60 = indices(_e57 * LANES);
                    Index _e62 = splat(run.x);
                    Index _e65 = splat(run.y);
                    metal::bool4 seen = (_e60 >= _e62) & (_e60 < _e65);
                    uint _e71 = i;
                    Stored _e74 = scores[start_1 + _e71];
                    Wide _e75 = scored(_e74, softmax);
                    Wide z_2 = metal::select(metal::float4(-300000000000000000000000000000000000000.0), _e75, seen);
                    float _e77 = largest;
                    float _e78 = largest_of(z_2);
                    float top_1 = metal::max(_e77, _e78);
                    float _e80 = sum;
                    float _e81 = largest;
                    float _e91 = total(metal::select(metal::float4(0.0), metal::exp(z_2 - metal::float4(top_1)), seen));
                    sum = (_e80 * metal::exp(_e81 - top_1)) + _e91;
                    largest = top_1;
                }
            }
            float _e96 = largest;
            float _e97 = sum;
            metal::float2 _e98 = group_softmax(_e96, _e97, place_1, of_subgroup);
            i_1 = thread_;
            bool loop_init_3 = true;
            while(true) {
                if (!loop_init_3) {
                    uint _e137 = i_1;
                    i_1 = _e137 + THREADS;
                }
                loop_init_3 = false;
                uint _e100 = i_1;
                if (_e100 < packs) {
                } else {
                    break;
                }
                {
                    uint _e102 = i_1;
                    Index _e105 = indices(_e102 * LANES);
                    Index _e107 = splat(run.x);
                    Index _e110 = splat(run.y);
                    metal::bool4 seen_1 = (_e105 >= _e107) & (_e105 < _e110);
                    uint _e114 = i_1;
                    Stored _e117 = scores[start_1 + _e114];
                    Wide _e118 = scored(_e117, softmax);
                    metal::float4 p = metal::exp(metal::min(_e118 - metal::float4(_e98.x), metal::float4(0.0))) / metal::float4(_e98.y);
                    uint _e130 = i_1;
                    Stored _e136 = narrow(metal::select(metal::float4(0.0), p, seen_1));
                    scores[start_1 + _e130] = _e136;
                }
            }
        }
    }
    return;
}
