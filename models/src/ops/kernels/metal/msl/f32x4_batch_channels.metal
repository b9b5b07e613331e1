// language: metal3.0
#include <metal_stdlib>
#include <simd/simd.h>

using metal::uint;

typedef metal::float4 Stored;
typedef metal::float4 Wide;
struct Batch {
    uint rows;
    uint width;
    uint parts;
    float epsilon;
};
typedef Stored type_2[1];
typedef Wide type_3[1];
constant uint LANES = 4u;
constant uint THREADS = 256u;
constant float FAR_BELOW = -300000000000000000000000000000000000000.0;

Wide widen(
    Stored x
) {
    return x;
}

struct f32x4_batch_channelsInput {
};
[[max_total_threads_per_threadgroup(256)]] kernel void f32x4_batch_channels(
  metal::uint3 id [[thread_position_in_grid]]
, device type_2 const& x_1 [[buffer(0)]]
, device type_3 const& sums [[buffer(1)]]
, device type_3 const& weight [[buffer(2)]]
, device type_3 const& bias [[buffer(3)]]
, device type_3& channels [[buffer(4)]]
, constant Batch& batch [[buffer(5)]]
) {
    metal::float4 far = metal::float4(0.0);
    metal::float4 squares = metal::float4(0.0);
    uint part = 0u;
    uint _e3 = batch.width;
    uint packs = _e3 / LANES;
    uint at = id.x;
    if (at >= packs) {
        return;
    }
    bool loop_init = true;
    while(true) {
        if (!loop_init) {
            uint _e42 = part;
            part = _e42 + 1u;
        }
        loop_init = false;
        uint _e16 = part;
        uint _e19 = batch.parts;
        if (_e16 < _e19) {
        } else {
            break;
        }
        {
            metal::float4 _e21 = far;
            uint _e23 = part;
            Wide _e27 = sums[(_e23 * packs) + at];
            far = _e21 + _e27;
            metal::float4 _e29 = squares;
            uint _e33 = batch.parts;
            uint _e34 = part;
            Wide _e39 = sums[((_e33 + _e34) * packs) + at];
            squares = _e29 + _e39;
        }
    }
    metal::float4 _e44 = far;
    uint _e47 = batch.rows;
    metal::float4 from_first = _e44 / metal::float4(static_cast<float>(_e47));
    metal::float4 _e51 = squares;
    uint _e54 = batch.rows;
    metal::float4 variance = metal::max((_e51 / metal::float4(static_cast<float>(_e54))) - (from_first * from_first), metal::float4(0.0));
    Stored _e65 = x_1[at];
    Wide _e66 = widen(_e65);
    Wide mean = _e66 + from_first;
    float _e70 = batch.epsilon;
    metal::float4 rho = metal::rsqrt(variance + metal::float4(_e70));
    Wide _e76 = weight[at];
    Wide factor = _e76 * rho;
    channels[at] = mean;
    channels[packs + at] = variance;
    channels[(2u * packs) + at] = rho;
    channels[(3u * packs) + at] = factor;
    Wide _e100 = bias[at];
    channels[(4u * packs) + at] = _e100 - (mean * factor);
    return;
}
