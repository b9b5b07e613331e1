// language: metal3.0
#include <metal_stdlib>
#include <simd/simd.h>

using metal::uint;

typedef float Stored;
typedef float Wide;
struct NormWeight {
    uint rows;
    uint width;
    uint parts;
    uint pad;
};
typedef Stored type_2[1];
typedef float type_3[1];
typedef Wide type_4[1];
constant uint LANES = 1u;
constant uint THREADS = 256u;
constant float FAR_BELOW = -300000000000000000000000000000000000000.0;

Wide widen(
    Stored x
) {
    return x;
}

struct f32x1_rms_norm_weightInput {
};
[[max_total_threads_per_threadgroup(256)]] kernel void f32x1_rms_norm_weight(
  metal::uint3 group [[threadgroup_position_in_grid]]
, uint thread_ [[thread_index_in_threadgroup]]
, device type_2 const& x_1 [[buffer(0)]]
, device type_2 const& gradient [[buffer(1)]]
, device type_3 const& rho [[buffer(2)]]
, device type_4& sums [[buffer(3)]]
, constant NormWeight& norm [[buffer(4)]]
) {
    float sum = 0.0;
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
            uint _e40 = row;
            uint _e43 = norm.parts;
            row = _e40 + _e43;
        }
        loop_init = false;
        uint _e16 = row;
        uint _e19 = norm.rows;
        if (_e16 < _e19) {
        } else {
            break;
        }
        {
            uint _e21 = row;
            uint at = (_e21 * packs) + column;
            float _e24 = sum;
            Stored _e27 = gradient[at];
            Wide _e28 = widen(_e27);
            Stored _e31 = x_1[at];
            Wide _e32 = widen(_e31);
            uint _e34 = row;
            float _e36 = rho[_e34];
            sum = _e24 + (_e28 * (_e32 * _e36));
        }
    }
    float _e50 = sum;
    sums[(group.y * packs) + column] = _e50;
    return;
}
