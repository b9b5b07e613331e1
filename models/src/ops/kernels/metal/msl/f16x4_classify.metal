// language: metal3.0
#include <metal_stdlib>
#include <simd/simd.h>

using metal::uint;

typedef metal::half4 Stored;
typedef metal::float4 Wide;
typedef metal::uint4 Index;
struct Classes {
    uint rows;
    uint width;
    uint squash;
    float smoothing;
};
typedef Stored type_3[1];
typedef uint type_4[1];
typedef float type_5[1];
typedef Wide type_6[1];
constant uint LANES = 4u;
constant uint THREADS = 256u;
constant float FAR_BELOW = -300000000000000000000000000000000000000.0;
constant uint SOFTMAX = 1u;

Wide widen(
    Stored x
) {
    return static_cast<metal::float4>(x);
}

float total(
    Wide x_1
) {
    return (x_1.x + x_1.y) + (x_1.z + x_1.w);
}

float largest_of(
    Wide x_2
) {
    return metal::max(metal::max(x_2.x, x_2.y), metal::max(x_2.z, x_2.w));
}

Index indices(
    uint start
) {
    return metal::uint4(start) + metal::uint4(0u, 1u, 2u, 3u);
}

Index splat(
    uint x_3
) {
    return metal::uint4(x_3);
}

Wide meant(
    uint at,
    uint goal,
    constant Classes& sizes
) {
    float _e4 = sizes.smoothing;
    uint _e7 = sizes.width;
    metal::float4 rest = metal::float4(_e4 / static_cast<float>(_e7));
    float _e13 = sizes.smoothing;
    Index _e20 = indices(at * LANES);
    Index _e21 = splat(goal);
    return metal::select(rest, rest + metal::float4(1.0 - _e13), _e20 == _e21);
}

struct f16x4_classifyInput {
};
[[max_total_threads_per_threadgroup(256)]] kernel void f16x4_classify(
  metal::uint3 id [[thread_position_in_grid]]
, metal::uint3 groups [[threadgroups_per_grid]]
, device type_3 const& scores [[buffer(0)]]
, device type_4 const& classes [[buffer(1)]]
, device type_5 const& weights [[buffer(2)]]
, device type_5& losses [[buffer(3)]]
, device type_6& gradient [[buffer(4)]]
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
            uint _e149 = row;
            row = _e149 + (groups.x * THREADS);
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
                    uint _e88 = i_1;
                    i_1 = _e88 + 1u;
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
                    metal::float4 size = metal::float4(1.0) + metal::abs(_e56);
                    float _e61 = largest;
                    Wide far = _e56 - metal::float4(_e61);
                    metal::bool4 up = _e56 >= metal::float4(0.0);
                    metal::float4 stable = metal::select(metal::float4(1.0) / size, size, up);
                    metal::float4 logarithm = metal::select(-(metal::log(size)), metal::log(size), up);
                    float _e75 = sum;
                    float _e78 = total(softmax ? metal::exp(far) : stable);
                    sum = _e75 + _e78;
                    float _e80 = along;
                    uint _e81 = i_1;
                    Wide _e82 = meant(_e81, goal_1, sizes);
                    float _e85 = total(_e82 * (softmax ? far : logarithm));
                    along = _e80 + _e85;
                }
            }
            uint _e91 = row;
            float weight = weights[_e91];
            uint _e95 = row;
            float _e97 = sum;
            float _e99 = along;
            losses[_e95] = (metal::log(_e97) - _e99) * weight;
            i_2 = 0u;
            bool loop_init_3 = true;
            while(true) {
                if (!loop_init_3) {
                    uint _e147 = i_2;
                    i_2 = _e147 + 1u;
                }
                loop_init_3 = false;
                uint _e104 = i_2;
                if (_e104 < packs) {
                } else {
                    break;
                }
                {
                    uint _e107 = i_2;
                    Stored _e110 = scores[start_1 + _e107];
                    Wide _e111 = widen(_e110);
                    metal::float4 inverse = metal::float4(1.0) / (metal::float4(1.0) + metal::abs(_e111));
                    metal::float4 rise = metal::select(inverse * inverse, metal::float4(1.0), _e111 >= metal::float4(0.0));
                    float _e126 = largest;
                    float _e131 = sum;
                    metal::float4 share = (softmax ? metal::exp(_e111 - metal::float4(_e126)) : rise) / metal::float4(_e131);
                    metal::float4 slope = softmax ? metal::float4(1.0) : inverse;
                    uint _e138 = i_2;
                    uint _e141 = i_2;
                    Wide _e142 = meant(_e141, goal_1, sizes);
                    gradient[start_1 + _e138] = (share - (_e142 * slope)) * weight;
                }
            }
        }
    }
    return;
}
