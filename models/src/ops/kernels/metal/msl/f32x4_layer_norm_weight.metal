// language: metal3.0
#include <metal_stdlib>
#include <simd/simd.h>

using metal::uint;

typedef metal::float4 Stored;
typedef metal::float4 Wide;
struct NormWeight {
    uint rows;
    uint width;
    uint parts;
    uint pad;
};
typedef Stored type_3[1];
typedef metal::float2 type_4[1];
typedef Wide type_5[1];
constant uint LANES = 4u;
constant uint THREADS = 256u;
constant float FAR_BELOW = -300000000000000000000000000000000000000.0;

Wide widen(
    Stored x
) {
    return x;
}

struct f32x4_layer_norm_weightInput {
};
[[max_total_threads_per_threadgroup(256)]] kernel void f32x4_layer_norm_weight(
  metal::uint3 group [[threadgroup_position_in_grid]]
, uint thread_ [[thread_index_in_threadgroup]]
, device type_3 const& x_1 [[buffer(0)]]
, device type_3 const& gradient [[buffer(1)]]
, device type_4 const& moments [[buffer(2)]]
, device type_5& weight_sums [[buffer(3)]]
, device type_5& bias_sums [[buffer(4)]]
, constant NormWeight& norm [[buffer(5)]]
) {
    metal::float4 of_weight = metal::float4(0.0);
    metal::float4 of_bias = metal::float4(0.0);
    uint row = {};
    uint _e4 = norm.width;
    uint packs = _e4 / LANES;
    uint column = (group.x * THREADS) + thread_;
    if (column >= packs) {
        return;
    }
    row = group.y;
    bool loop_init = true;
    while(true) {
        if (!loop_init) {
            uint _e50 = row;
            uint _e53 = norm.parts;
            row = _e50 + _e53;
        }
        loop_init = false;
        uint _e20 = row;
        uint _e23 = norm.rows;
        if (_e20 < _e23) {
        } else {
            break;
        }
        {
            uint _e25 = row;
            uint at = (_e25 * packs) + column;
            uint _e29 = row;
            metal::float2 moment = moments[_e29];
            Stored _e34 = gradient[at];
            Wide _e35 = widen(_e34);
            metal::float4 _e36 = of_weight;
            Stored _e39 = x_1[at];
            Wide _e40 = widen(_e39);
            of_weight = _e36 + (_e35 * ((_e40 - metal::float4(moment.x)) * moment.y));
            metal::float4 _e48 = of_bias;
            of_bias = _e48 + _e35;
        }
    }
    metal::float4 _e60 = of_weight;
    weight_sums[(group.y * packs) + column] = _e60;
    metal::float4 _e66 = of_bias;
    bias_sums[(group.y * packs) + column] = _e66;
    return;
}
