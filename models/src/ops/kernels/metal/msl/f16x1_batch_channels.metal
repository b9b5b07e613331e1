// language: metal3.0
#include <metal_stdlib>
#include <simd/simd.h>

using metal::uint;

typedef half Stored;
typedef float Wide;
struct Batch {
    uint rows;
    uint width;
    uint parts;
    float epsilon;
};
typedef Stored type_2[1];
typedef Wide type_3[1];
constant uint LANES = 1u;
constant uint THREADS = 256u;
constant float FAR_BELOW = -300000000000000000000000000000000000000.0;

Wide widen(
    Stored x
) {
    return static_cast<float>(x);
}

struct f16x1_batch_channelsInput {
};
[[max_total_threads_per_threadgroup(256)]] kernel void f16x1_batch_channels(
  metal::uint3 id [[thread_position_in_grid]]
, device type_2 const& x_1 [[buffer(0)]]
, device type_3 const& sums [[buffer(1)]]
, device type_3 const& weight [[buffer(2)]]
, device type_3 const& bias [[buffer(3)]]
, device type_3& channels [[buffer(4)]]
, constant Batch& batch [[buffer(5)]]
) {
    float far = 0.0;
    float squares = 0.0;
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
            uint _e40 = part;
            part = _e40 + 1u;
        }
        loop_init = false;
        uint _e14 = part;
        uint _e17 = batch.parts;
        if (_e14 < _e17) {
        } else {
            break;
        }
        {
            float _e19 = far;
            uint _e21 = part;
            Wide _e25 = sums[(_e21 * packs) + at];
            far = _e19 + _e25;
            float _e27 = squares;
            uint _e31 = batch.parts;
            uint _e32 = part;
            Wide _e37 = sums[((_e31 + _e32) * packs) + at];
            squares = _e27 + _e37;
        }
    }
    float _e42 = far;
    uint _e45 = batch.rows;
    float from_first = _e42 / static_cast<float>(_e45);
    float _e48 = squares;
    uint _e51 = batch.rows;
    float variance = metal::max((_e48 / static_cast<float>(_e51)) - (from_first * from_first), 0.0);
    Stored _e60 = x_1[at];
    Wide _e61 = widen(_e60);
    Wide mean = _e61 + from_first;
    float _e65 = batch.epsilon;
    float rho = metal::rsqrt(variance + _e65);
    Wide _e70 = weight[at];
    float factor = _e70 * rho;
    channels[at] = mean;
    channels[packs + at] = variance;
    channels[(2u * packs) + at] = rho;
    channels[(3u * packs) + at] = factor;
    Wide _e94 = bias[at];
    channels[(4u * packs) + at] = _e94 - (mean * factor);
    return;
}
