// language: metal3.0
#include <metal_stdlib>
#include <simd/simd.h>

using metal::uint;

typedef metal::float4 Wide;
struct Batch {
    uint rows;
    uint width;
    uint parts;
    uint of_batch;
};
typedef Wide type_2[1];
constant uint LANES = 4u;
constant uint THREADS = 256u;
constant float FAR_BELOW = -300000000000000000000000000000000000000.0;

struct f32x4_batch_slopesInput {
};
[[max_total_threads_per_threadgroup(256)]] kernel void f32x4_batch_slopes(
  metal::uint3 id [[thread_position_in_grid]]
, device type_2 const& sums [[buffer(0)]]
, device type_2 const& channels [[buffer(1)]]
, device type_2& slopes [[buffer(2)]]
, constant Batch& batch [[buffer(3)]]
) {
    metal::float4 sum = metal::float4(0.0);
    metal::float4 along = metal::float4(0.0);
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
            metal::float4 _e21 = sum;
            uint _e23 = part;
            Wide _e27 = sums[(_e23 * packs) + at];
            sum = _e21 + _e27;
            metal::float4 _e29 = along;
            uint _e33 = batch.parts;
            uint _e34 = part;
            Wide _e39 = sums[((_e33 + _e34) * packs) + at];
            along = _e29 + _e39;
        }
    }
    Wide rho = channels[(2u * packs) + at];
    Wide factor = channels[(3u * packs) + at];
    metal::float4 _e56 = along;
    metal::float4 dw = _e56 * rho;
    uint _e60 = batch.rows;
    uint _e66 = batch.of_batch;
    float share = (_e66 == 1u) ? (-1.0 / static_cast<float>(_e60)) : 0.0;
    Wide slope = ((factor * rho) * dw) * share;
    metal::float4 _e76 = sum;
    slopes[at] = _e76;
    slopes[packs + at] = dw;
    slopes[(2u * packs) + at] = slope;
    metal::float4 _e90 = sum;
    Wide _e95 = channels[at];
    slopes[(3u * packs) + at] = ((factor * _e90) * share) - (slope * _e95);
    return;
}
