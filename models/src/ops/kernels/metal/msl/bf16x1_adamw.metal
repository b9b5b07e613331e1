// language: metal3.0
#include <metal_stdlib>
#include <simd/simd.h>

using metal::uint;

typedef float Wide;
struct AdamW {
    uint count;
    float gradient_scale;
    float beta1_;
    float rest1_;
    float beta2_;
    float rest2_;
    float epsilon;
    float shrink;
    float rate;
    float correction;
    uint pad0_;
    uint pad1_;
};
typedef Wide type_2[1];
constant uint LANES = 1u;
constant uint THREADS = 256u;
constant float FAR_BELOW = -300000000000000000000000000000000000000.0;

struct bf16x1_adamwInput {
};
[[max_total_threads_per_threadgroup(256)]] kernel void bf16x1_adamw(
  metal::uint3 id [[thread_position_in_grid]]
, metal::uint3 groups [[threadgroups_per_grid]]
, device type_2& weight [[buffer(0)]]
, device type_2& first [[buffer(1)]]
, device type_2& second [[buffer(2)]]
, device type_2 const& gradient [[buffer(3)]]
, constant AdamW& step [[buffer(4)]]
) {
    uint i = {};
    i = id.x;
    bool loop_init = true;
    while(true) {
        if (!loop_init) {
            uint _e78 = i;
            i = _e78 + (groups.x * THREADS);
        }
        loop_init = false;
        uint _e4 = i;
        uint _e7 = step.count;
        if (_e4 < (_e7 / LANES)) {
        } else {
            break;
        }
        {
            uint _e12 = i;
            Wide _e14 = gradient[_e12];
            float _e17 = step.gradient_scale;
            float g = _e14 * _e17;
            uint _e20 = i;
            Wide _e22 = first[_e20];
            float _e25 = step.beta1_;
            float _e29 = step.rest1_;
            float m = (_e22 * _e25) + (g * _e29);
            uint _e33 = i;
            Wide _e35 = second[_e33];
            float _e38 = step.beta2_;
            float _e43 = step.rest2_;
            float v = (_e35 * _e38) + ((g * g) * _e43);
            uint _e47 = i;
            first[_e47] = m;
            uint _e50 = i;
            second[_e50] = v;
            uint _e53 = i;
            uint _e56 = i;
            Wide _e58 = weight[_e56];
            float _e61 = step.shrink;
            float _e66 = step.correction;
            float _e70 = step.epsilon;
            float _e75 = step.rate;
            weight[_e53] = (_e58 * _e61) - ((m / ((metal::sqrt(v) * _e66) + _e70)) * _e75);
        }
    }
    return;
}
