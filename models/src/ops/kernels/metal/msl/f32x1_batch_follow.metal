// language: metal3.0
#include <metal_stdlib>
#include <simd/simd.h>

using metal::uint;

typedef float Wide;
struct Follow {
    uint width;
    float share;
    float unbiased;
    uint pad;
};
typedef Wide type_2[1];
constant uint LANES = 1u;
constant uint THREADS = 256u;
constant float FAR_BELOW = -300000000000000000000000000000000000000.0;

struct f32x1_batch_followInput {
};
[[max_total_threads_per_threadgroup(256)]] kernel void f32x1_batch_follow(
  metal::uint3 id [[thread_position_in_grid]]
, device type_2 const& mean [[buffer(0)]]
, device type_2 const& variance [[buffer(1)]]
, device type_2 const& now [[buffer(2)]]
, device type_2& after [[buffer(3)]]
, constant Follow& follow [[buffer(4)]]
) {
    uint _e3 = follow.width;
    uint packs = _e3 / LANES;
    uint at = id.x;
    if (at >= packs) {
        return;
    }
    Wide _e12 = mean[at];
    float _e15 = follow.share;
    Wide _e21 = now[at];
    float _e24 = follow.share;
    after[at] = (_e12 * (1.0 - _e15)) + (_e21 * _e24);
    Wide _e32 = variance[at];
    float _e35 = follow.share;
    Wide _e42 = now[packs + at];
    float _e45 = follow.unbiased;
    float _e49 = follow.share;
    after[packs + at] = (_e32 * (1.0 - _e35)) + ((_e42 * _e45) * _e49);
    return;
}
