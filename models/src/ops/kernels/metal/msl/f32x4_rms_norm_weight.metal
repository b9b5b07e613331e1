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
typedef Stored type_2[1];
typedef float type_3[1];
typedef Wide type_4[1];
constant uint LANES = 4u;
constant uint THREADS = 256u;
constant float FAR_BELOW = -300000000000000000000000000000000000000.0;

Wide widen(
    Stored x
) {
    return x;
}

struct f32x4_rms_norm_weightInput {
};
[[max_total_threads_per_threadgroup(256)]] kernel void f32x4_rms_norm_weight(
  metal::uint3 group [[threadgroup_position_in_grid]]
, uint thread_ [[thread_index_in_threadgroup]]
, device type_2 const& x_1 [[buffer(0)]]
, device type_2 const& gradient [[buffer(1)]]
, device type_3 const& rho [[buffer(2)]]
, device type_4& sums [[buffer(3)]]
, constant NormWeight& norm [[buffer(4)]]
) {
    metal::float4 sum = metal::float4(0.0);
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
            uint _e41 = row;
            uint _e44 = norm.parts;
            row = _e41 + _e44;
        }
        loop_init = false;
        uint _e17 = row;
        uint _e20 = norm.rows;
        if (_e17 < _e20) {
        } else {
            break;
        }
        {
            uint _e22 = row;
            uint at = (_e22 * packs) + column;
            metal::float4 _e25 = sum;
            Stored _e28 = gradient[at];
            Wide _e29 = widen(_e28);
            Stored _e32 = x_1[at];
            Wide _e33 = widen(_e32);
            uint _e35 = row;
            float _e37 = rho[_e35];
            sum = _e25 + (_e29 * (_e33 * _e37));
        }
    }
    metal::float4 _e51 = sum;
    sums[(group.y * packs) + column] = _e51;
    return;
}
