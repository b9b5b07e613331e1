// language: metal3.0
#include <metal_stdlib>
#include <simd/simd.h>

using metal::uint;

typedef float Wide;
struct Batch {
    uint rows;
    uint width;
    uint parts;
    uint of_batch;
};
typedef Wide type_2[1];
constant uint LANES = 1u;
constant uint THREADS = 256u;
constant float FAR_BELOW = -300000000000000000000000000000000000000.0;

struct bf16x1_batch_slopesInput {
};
[[max_total_threads_per_threadgroup(256)]] kernel void bf16x1_batch_slopes(
  metal::uint3 id [[thread_position_in_grid]]
, device type_2 const& sums [[buffer(0)]]
, device type_2 const& channels [[buffer(1)]]
, device type_2& slopes [[buffer(2)]]
, constant Batch& batch [[buffer(3)]]
) {
    float sum = 0.0;
    float along = 0.0;
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
            float _e19 = sum;
            uint _e21 = part;
            Wide _e25 = sums[(_e21 * packs) + at];
            sum = _e19 + _e25;
            float _e27 = along;
            uint _e31 = batch.parts;
            uint _e32 = part;
            Wide _e37 = sums[((_e31 + _e32) * packs) + at];
            along = _e27 + _e37;
        }
    }
    Wide rho = channels[(2u * packs) + at];
    Wide factor = channels[(3u * packs) + at];
    float _e54 = along;
    Wide dw = _e54 * rho;
    uint _e58 = batch.rows;
    uint _e64 = batch.of_batch;
    float share = (_e64 == 1u) ? (-1.0 / static_cast<float>(_e58)) : 0.0;
    float slope = ((factor * rho) * dw) * share;
    float _e74 = sum;
    slopes[at] = _e74;
    slopes[packs + at] = dw;
    slopes[(2u * packs) + at] = slope;
    float _e88 = sum;
    Wide _e93 = channels[at];
    slopes[(3u * packs) + at] = ((factor * _e88) * share) - (slope * _e93);
    return;
}
