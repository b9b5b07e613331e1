// language: metal3.0
#include <metal_stdlib>
#include <simd/simd.h>

using metal::uint;

typedef half Stored;
typedef float Wide;
typedef uint Index;
struct Classes {
    uint rows;
    uint width;
    uint squash;
    float smoothing;
};
typedef Stored type_2[1];
typedef uint type_3[1];
typedef float type_4[1];
typedef Wide type_5[1];
constant uint LANES = 1u;
constant uint THREADS = 256u;
constant float FAR_BELOW = -300000000000000000000000000000000000000.0;
constant uint SOFTMAX = 1u;

Wide widen(
    Stored x
) {
    return static_cast<float>(x);
}

float total(
    Wide x_1
) {
    return x_1;
}

float largest_of(
    Wide x_2
) {
    return x_2;
}

Index indices(
    uint start
) {
    return start;
}

Index splat(
    uint x_3
) {
    return x_3;
}

Wide meant(
    uint at,
    uint goal,
    constant Classes& sizes
) {
    float _e4 = sizes.smoothing;
    uint _e7 = sizes.width;
    float rest = static_cast<float>(_e4 / static_cast<float>(_e7));
    float _e13 = sizes.smoothing;
    Index _e19 = indices(at * LANES);
    Index _e20 = splat(goal);
    return (_e19 == _e20) ? (rest + (1.0 - _e13)) : rest;
}

struct f16x1_classifyInput {
};
[[max_total_threads_per_threadgroup(256)]] kernel void f16x1_classify(
  metal::uint3 id [[thread_position_in_grid]]
, metal::uint3 groups [[threadgroups_per_grid]]
, device type_2 const& scores [[buffer(0)]]
, device type_3 const& classes [[buffer(1)]]
, device type_4 const& weights [[buffer(2)]]
, device type_4& losses [[buffer(3)]]
, device type_5& gradient [[buffer(4)]]
, constant Classes& sizes [[buffer(5)]]
) {
    uint row = {};
    float largest = {};
    uint i = {};
    float sum = {};
    float along = {};
    uint i_1 = {};
    uint i_2 = {};
    uint _e4 = sizes.width;
    uint packs = _e4 / LANES;
    uint _e9 = sizes.squash;
    bool softmax = _e9 == SOFTMAX;
    row = id.x;
    bool loop_init = true;
    while(true) {
        if (!loop_init) {
            uint _e138 = row;
            row = _e138 + (groups.x * THREADS);
        }
        loop_init = false;
        uint _e14 = row;
        uint _e17 = sizes.rows;
        if (_e14 < _e17) {
        } else {
            break;
        }
        {
            uint _e19 = row;
            uint start_1 = _e19 * packs;
            uint _e22 = row;
            uint goal_1 = classes[_e22];
            largest = FAR_BELOW;
            if (softmax) {
                i = 0u;
                bool loop_init_1 = true;
                while(true) {
                    if (!loop_init_1) {
                        uint _e41 = i;
                        i = _e41 + 1u;
                    }
                    loop_init_1 = false;
                    uint _e29 = i;
                    if (_e29 < packs) {
                    } else {
                        break;
                    }
                    {
                        float _e31 = largest;
                        uint _e33 = i;
                        Stored _e36 = scores[start_1 + _e33];
                        Wide _e37 = widen(_e36);
                        float _e38 = largest_of(_e37);
                        largest = metal::max(_e31, _e38);
                    }
                }
            }
            sum = 0.0;
            along = 0.0;
            i_1 = 0u;
            bool loop_init_2 = true;
            while(true) {
                if (!loop_init_2) {
                    uint _e84 = i_1;
                    i_1 = _e84 + 1u;
                }
                loop_init_2 = false;
                uint _e49 = i_1;
                if (_e49 < packs) {
                } else {
                    break;
                }
                {
                    uint _e52 = i_1;
                    Stored _e55 = scores[start_1 + _e52];
                    Wide _e56 = widen(_e55);
                    float size = 1.0 + metal::abs(_e56);
                    float _e60 = largest;
                    Wide far = _e56 - _e60;
                    bool up = _e56 >= 0.0;
                    float stable = up ? size : (1.0 / size);
                    float logarithm = up ? metal::log(size) : -(metal::log(size));
                    float _e71 = sum;
                    float _e74 = total(softmax ? metal::exp(far) : stable);
                    sum = _e71 + _e74;
                    float _e76 = along;
                    uint _e77 = i_1;
                    Wide _e78 = meant(_e77, goal_1, sizes);
                    float _e81 = total(_e78 * (softmax ? far : logarithm));
                    along = _e76 + _e81;
                }
            }
            uint _e87 = row;
            float weight = weights[_e87];
            uint _e91 = row;
            float _e93 = sum;
            float _e95 = along;
            losses[_e91] = (metal::log(_e93) - _e95) * weight;
            i_2 = 0u;
            bool loop_init_3 = true;
            while(true) {
                if (!loop_init_3) {
                    uint _e136 = i_2;
                    i_2 = _e136 + 1u;
                }
                loop_init_3 = false;
                uint _e100 = i_2;
                if (_e100 < packs) {
                } else {
                    break;
                }
                {
                    uint _e103 = i_2;
                    Stored _e106 = scores[start_1 + _e103];
                    Wide _e107 = widen(_e106);
                    float inverse = 1.0 / (1.0 + metal::abs(_e107));
                    float rise = (_e107 >= 0.0) ? 1.0 : (inverse * inverse);
                    float _e118 = largest;
                    float _e122 = sum;
                    float share = (softmax ? metal::exp(_e107 - _e118) : rise) / _e122;
                    float slope = softmax ? 1.0 : inverse;
                    uint _e127 = i_2;
                    uint _e130 = i_2;
                    Wide _e131 = meant(_e130, goal_1, sizes);
                    gradient[start_1 + _e127] = (share - (_e131 * slope)) * weight;
                }
            }
        }
    }
    return;
}
