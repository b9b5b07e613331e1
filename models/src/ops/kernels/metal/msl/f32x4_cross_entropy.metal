// language: metal3.0
#include <metal_stdlib>
#include <simd/simd.h>

using metal::uint;

typedef metal::float4 Stored;
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
struct Entropy {
    uint rows;
    uint vocabulary;
    float share;
    float cap;
};
typedef Stored type_5[1];
typedef uint type_6[1];
typedef float type_7[1];
constant uint LANES = 4u;
constant uint THREADS = 256u;
constant float FAR_BELOW = -300000000000000000000000000000000000000.0;
constant uint NO_TARGET = 4294967295u;

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

Wide logit(
    Stored x_5,
    constant Entropy& entropy
) {
    Wide _e1 = widen(x_5);
    float _e4 = entropy.cap;
    if (_e4 > 0.0) {
        float _e9 = entropy.cap;
        Wide _e10 = squeezed(_e1, _e9);
        return _e10;
    }
    return _e1;
}

struct f32x4_cross_entropyInput {
};
[[max_total_threads_per_threadgroup(256)]] kernel void f32x4_cross_entropy(
  metal::uint3 group [[threadgroup_position_in_grid]]
, metal::uint3 groups [[threadgroups_per_grid]]
, uint thread_ [[thread_index_in_threadgroup]]
, uint lane [[thread_index_in_simdgroup]]
, uint subgroup [[simdgroup_index_in_threadgroup]]
, uint subgroups [[simdgroups_per_threadgroup]]
, threadgroup type_4& of_subgroup
, device type_5& logits [[buffer(0)]]
, device type_6 const& targets [[buffer(1)]]
, device type_7& losses [[buffer(2)]]
, constant Entropy& entropy [[buffer(3)]]
) {
    uint row = {};
    float largest = {};
    float sum = {};
    uint i = {};
    uint i_1 = {};
    metal::float4 d = {};
    Place place_1 = Place {thread_, lane, subgroup, subgroups};
    uint _e9 = entropy.vocabulary;
    uint packs = _e9 / LANES;
    row = group.x;
    bool loop_init_1 = true;
    while(true) {
        if (!loop_init_1) {
            uint _e142 = row;
            row = _e142 + groups.x;
        }
        loop_init_1 = false;
        uint _e14 = row;
        uint _e17 = entropy.rows;
        if (_e14 < _e17) {
        } else {
            break;
        }
        {
            uint _e19 = row;
            uint start_1 = _e19 * packs;
            uint _e22 = row;
            uint goal = targets[_e22];
            largest = FAR_BELOW;
            sum = 0.0;
            i = thread_;
            bool loop_init_2 = true;
            while(true) {
                if (!loop_init_2) {
                    uint _e51 = i;
                    i = _e51 + THREADS;
                }
                loop_init_2 = false;
                uint _e30 = i;
                if (_e30 < packs) {
                } else {
                    break;
                }
                {
                    uint _e33 = i;
                    Stored _e36 = logits[start_1 + _e33];
                    Wide _e37 = logit(_e36, entropy);
                    float _e38 = largest;
                    float _e39 = largest_of(_e37);
                    float top_1 = metal::max(_e38, _e39);
                    float _e41 = sum;
                    float _e42 = largest;
                    float _e49 = total(metal::exp(_e37 - metal::float4(top_1)));
                    sum = (_e41 * metal::exp(_e42 - top_1)) + _e49;
                    largest = top_1;
                }
            }
            float _e54 = largest;
            float _e55 = sum;
            metal::float2 _e56 = group_softmax(_e54, _e55, place_1, of_subgroup);
            float offset = _e56.x + metal::log(_e56.y);
            float _e63 = entropy.share;
            float share = (goal == NO_TARGET) ? 0.0 : _e63;
            if (goal == NO_TARGET) {
                if (thread_ == 0u) {
                    uint _e73 = row;
                    losses[_e73] = 0.0;
                }
            }
            i_1 = thread_;
            bool loop_init_3 = true;
            while(true) {
                if (!loop_init_3) {
                    uint _e139 = i_1;
                    i_1 = _e139 + THREADS;
                }
                loop_init_3 = false;
                uint _e77 = i_1;
                if (_e77 < packs) {
                } else {
                    break;
                }
                {
                    uint _e80 = i_1;
                    Stored _e83 = logits[start_1 + _e80];
                    Wide _e84 = logit(_e83, entropy);
                    uint _e89 = i_1;
                    Index _e92 = indices(_e89 * LANES);
                    Index _e93 = splat(goal);
                    metal::float4 hit = metal::select(metal::float4(0.0), metal::float4(1.0), _e92 == _e93);
                    uint _e96 = i_1;
                    if (_e96 == (goal / LANES)) {
                        uint _e101 = row;
                        float _e104 = total(_e84 * hit);
                        losses[_e101] = offset - _e104;
                    }
                    d = (metal::exp(_e84 - metal::float4(offset)) - hit) * share;
                    float _e114 = entropy.cap;
                    if (_e114 > 0.0) {
                        metal::float4 _e117 = d;
                        float _e120 = entropy.cap;
                        float _e125 = entropy.cap;
                        d = _e117 * (metal::float4(1.0) - ((_e84 / metal::float4(_e120)) * (_e84 / metal::float4(_e125))));
                    }
                    uint _e134 = i_1;
                    metal::float4 _e137 = d;
                    Stored _e138 = narrow(_e137);
                    logits[start_1 + _e134] = _e138;
                }
            }
        }
    }
    return;
}
