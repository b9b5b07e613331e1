// language: metal3.0
#include <metal_stdlib>
#include <simd/simd.h>

using metal::uint;

typedef ushort Stored;
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
typedef Stored type_4[1];
typedef metal::uint2 type_6[1];
constant uint LANES = 1u;
constant uint THREADS = 256u;
constant float FAR_BELOW = -300000000000000000000000000000000000000.0;

Wide widen(
    Stored x
) {
    return as_type<float>(static_cast<uint>(x) << 16u);
}

Stored narrow(
    Wide x_1
) {
    uint bits = as_type<uint>(x_1);
    uint rounded = ((bits + 32767u) + ((bits >> 16u) & 1u)) >> 16u;
    bool no_number = (bits & 2147483647u) > 2139095040u;
    return static_cast<ushort>(no_number ? 32704u : rounded);
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

Wide scored(
    Stored x_5,
    constant Softmax& softmax
) {
    Wide _e1 = widen(x_5);
    float _e4 = softmax.scale;
    float z_1 = _e1 * _e4;
    float _e8 = softmax.cap;
    if (_e8 > 0.0) {
        float _e13 = softmax.cap;
        Wide _e14 = squeezed(z_1, _e13);
        return _e14;
    }
    return z_1;
}

struct bf16x1_masked_softmaxInput {
};
[[max_total_threads_per_threadgroup(256)]] kernel void bf16x1_masked_softmax(
  metal::uint3 group [[threadgroup_position_in_grid]]
, metal::uint3 groups [[threadgroups_per_grid]]
, uint thread_ [[thread_index_in_threadgroup]]
, uint lane [[thread_index_in_simdgroup]]
, uint subgroup [[simdgroup_index_in_threadgroup]]
, uint subgroups [[simdgroups_per_threadgroup]]
, threadgroup type_3& of_subgroup
, device type_4& scores [[buffer(0)]]
, device type_6 const& runs [[buffer(1)]]
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
            uint _e133 = row;
            row = _e133 + groups.x;
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
                    uint _e90 = i;
                    i = _e90 + THREADS;
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
                    bool seen = (_e60 >= _e62) & (_e60 < _e65);
                    uint _e70 = i;
                    Stored _e73 = scores[start_1 + _e70];
                    Wide _e74 = scored(_e73, softmax);
                    Wide z_2 = seen ? _e74 : -300000000000000000000000000000000000000.0;
                    float _e76 = largest;
                    float _e77 = largest_of(z_2);
                    float top_1 = metal::max(_e76, _e77);
                    float _e79 = sum;
                    float _e80 = largest;
                    float _e88 = total(seen ? metal::exp(z_2 - top_1) : 0.0);
                    sum = (_e79 * metal::exp(_e80 - top_1)) + _e88;
                    largest = top_1;
                }
            }
            float _e93 = largest;
            float _e94 = sum;
            metal::float2 _e95 = group_softmax(_e93, _e94, place_1, of_subgroup);
            i_1 = thread_;
            bool loop_init_3 = true;
            while(true) {
                if (!loop_init_3) {
                    uint _e130 = i_1;
                    i_1 = _e130 + THREADS;
                }
                loop_init_3 = false;
                uint _e97 = i_1;
                if (_e97 < packs) {
                } else {
                    break;
                }
                {
                    uint _e99 = i_1;
                    Index _e102 = indices(_e99 * LANES);
                    Index _e104 = splat(run.x);
                    Index _e107 = splat(run.y);
                    bool seen_1 = (_e102 >= _e104) & (_e102 < _e107);
                    uint _e111 = i_1;
                    Stored _e114 = scores[start_1 + _e111];
                    Wide _e115 = scored(_e114, softmax);
                    float p = metal::exp(metal::min(_e115 - _e95.x, 0.0)) / _e95.y;
                    uint _e124 = i_1;
                    Stored _e129 = narrow(seen_1 ? p : 0.0);
                    scores[start_1 + _e124] = _e129;
                }
            }
        }
    }
    return;
}
