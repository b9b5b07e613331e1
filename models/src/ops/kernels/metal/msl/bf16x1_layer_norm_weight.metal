// language: metal3.0
#include <metal_stdlib>
#include <simd/simd.h>

using metal::uint;

typedef ushort Stored;
typedef float Wide;
struct NormWeight {
    uint rows;
    uint width;
    uint parts;
    uint pad;
};
typedef Stored type_3[1];
typedef metal::float2 type_4[1];
typedef Wide type_5[1];
constant uint LANES = 1u;
constant uint THREADS = 256u;
constant float FAR_BELOW = -300000000000000000000000000000000000000.0;

Wide widen(
    Stored x
) {
    return as_type<float>(static_cast<uint>(x) << 16u);
}

struct bf16x1_layer_norm_weightInput {
};
[[max_total_threads_per_threadgroup(256)]] kernel void bf16x1_layer_norm_weight(
  metal::uint3 group [[threadgroup_position_in_grid]]
, uint thread_ [[thread_index_in_threadgroup]]
, device type_3 const& x_1 [[buffer(0)]]
, device type_3 const& gradient [[buffer(1)]]
, device type_4 const& moments [[buffer(2)]]
, device type_5& weight_sums [[buffer(3)]]
, device type_5& bias_sums [[buffer(4)]]
, constant NormWeight& norm [[buffer(5)]]
) {
    float of_weight = 0.0;
    float of_bias = 0.0;
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
            uint _e47 = row;
            uint _e50 = norm.parts;
            row = _e47 + _e50;
        }
        loop_init = false;
        uint _e18 = row;
        uint _e21 = norm.rows;
        if (_e18 < _e21) {
        } else {
            break;
        }
        {
            uint _e23 = row;
            uint at = (_e23 * packs) + column;
            uint _e27 = row;
            metal::float2 moment = moments[_e27];
            Stored _e32 = gradient[at];
            Wide _e33 = widen(_e32);
            float _e34 = of_weight;
            Stored _e37 = x_1[at];
            Wide _e38 = widen(_e37);
            of_weight = _e34 + (_e33 * ((_e38 - moment.x) * moment.y));
            float _e45 = of_bias;
            of_bias = _e45 + _e33;
        }
    }
    float _e57 = of_weight;
    weight_sums[(group.y * packs) + column] = _e57;
    float _e63 = of_bias;
    bias_sums[(group.y * packs) + column] = _e63;
    return;
}
