// language: metal3.0
#include <metal_stdlib>
#include <simd/simd.h>

using metal::uint;

typedef float Stored;
typedef float Wide;
typedef uint Index;
struct type_3 {
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
typedef Stored type_4[1];
typedef uint type_5[1];
typedef float type_6[1];
constant uint LANES = 1u;
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
    return x_2;
}

float largest_of(
    Wide x_3
) {
    return x_3;
}

Index indices(
    uint start
) {
    return start;
}

Index splat(
    uint x_4
) {
    return x_4;
}

metal::float2 group_softmax(
    float largest_1,
    float sum_1,
    Place place,
    threadgroup type_3& of_subgroup
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
    return cap * metal::tanh(metal::clamp(z / cap, -15.0, 15.0));
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

struct f32x1_cross_entropyInput {
};
[[max_total_threads_per_threadgroup(256)]] kernel void f32x1_cross_entropy(
  metal::uint3 group [[threadgroup_position_in_grid]]
, metal::uint3 groups [[threadgroups_per_grid]]
, uint thread_ [[thread_index_in_threadgroup]]
, uint lane [[thread_index_in_simdgroup]]
, uint subgroup [[simdgroup_index_in_threadgroup]]
, uint subgroups [[simdgroups_per_threadgroup]]
, threadgroup type_3& of_subgroup
, device type_4& logits [[buffer(0)]]
, device type_5 const& targets [[buffer(1)]]
, device type_6& losses [[buffer(2)]]
, constant Entropy& entropy [[buffer(3)]]
) {
    uint row = {};
    float largest = {};
    float sum = {};
    uint i = {};
    uint i_1 = {};
    float d = {};
    Place place_1 = Place {thread_, lane, subgroup, subgroups};
    uint _e9 = entropy.vocabulary;
    uint packs = _e9 / LANES;
    row = group.x;
    bool loop_init_1 = true;
    while(true) {
        if (!loop_init_1) {
            uint _e135 = row;
            row = _e135 + groups.x;
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
                    uint _e50 = i;
                    i = _e50 + THREADS;
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
                    float _e48 = total(metal::exp(_e37 - top_1));
                    sum = (_e41 * metal::exp(_e42 - top_1)) + _e48;
                    largest = top_1;
                }
            }
            float _e53 = largest;
            float _e54 = sum;
            metal::float2 _e55 = group_softmax(_e53, _e54, place_1, of_subgroup);
            float offset = _e55.x + metal::log(_e55.y);
            float _e62 = entropy.share;
            float share = (goal == NO_TARGET) ? 0.0 : _e62;
            if (goal == NO_TARGET) {
                if (thread_ == 0u) {
                    uint _e72 = row;
                    losses[_e72] = 0.0;
                }
            }
            i_1 = thread_;
            bool loop_init_3 = true;
            while(true) {
                if (!loop_init_3) {
                    uint _e132 = i_1;
                    i_1 = _e132 + THREADS;
                }
                loop_init_3 = false;
                uint _e76 = i_1;
                if (_e76 < packs) {
                } else {
                    break;
                }
                {
                    uint _e79 = i_1;
                    Stored _e82 = logits[start_1 + _e79];
                    Wide _e83 = logit(_e82, entropy);
                    uint _e86 = i_1;
                    Index _e89 = indices(_e86 * LANES);
                    Index _e90 = splat(goal);
                    float hit = (_e89 == _e90) ? 1.0 : 0.0;
                    uint _e93 = i_1;
                    if (_e93 == (goal / LANES)) {
                        uint _e98 = row;
                        float _e101 = total(_e83 * hit);
                        losses[_e98] = offset - _e101;
                    }
                    d = (metal::exp(_e83 - offset) - hit) * share;
                    float _e110 = entropy.cap;
                    if (_e110 > 0.0) {
                        float _e113 = d;
                        float _e116 = entropy.cap;
                        float _e120 = entropy.cap;
                        d = _e113 * (1.0 - ((_e83 / _e116) * (_e83 / _e120)));
                    }
                    uint _e127 = i_1;
                    float _e130 = d;
                    Stored _e131 = narrow(_e130);
                    logits[start_1 + _e127] = _e131;
                }
            }
        }
    }
    return;
}
