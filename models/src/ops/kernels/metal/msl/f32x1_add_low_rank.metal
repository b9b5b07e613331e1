// language: metal3.0
#include <metal_stdlib>
#include <simd/simd.h>

using metal::uint;

typedef float Stored;
typedef float Wide;
typedef Stored type_2[1];
struct LowRank {
    uint rows;
    uint width;
    uint rank;
    float scale;
};
constant uint LANES = 1u;
constant uint THREADS = 256u;
constant float FAR_BELOW = -300000000000000000000000000000000000000.0;

Wide widen(
    Stored x
) {
    return x;
}

Stored narrow(
    Wide x_1
) {
    return x_1;
}

Wide factor_part(
    uint column,
    uint k_1,
    device type_2 const& factor,
    constant LowRank& low
) {
    uint _e5 = low.rank;
    Stored _e9 = factor[(column * _e5) + k_1];
    Wide _e10 = widen(_e9);
    return _e10;
}

Wide times_part(
    Wide z,
    Wide part
) {
    return z * part;
}

void add_to(
    uint row,
    uint column_1,
    Wide sum,
    constant LowRank& low,
    device type_2& y
) {
    uint _e5 = low.rows;
    if (row >= _e5) {
        return;
    }
    uint _e9 = low.width;
    uint packs = _e9 / LANES;
    uint at = (row * packs) + column_1;
    Stored _e18 = y[at];
    Wide _e19 = widen(_e18);
    float _e22 = low.scale;
    Stored _e25 = narrow(_e19 + (sum * _e22));
    y[at] = _e25;
    return;
}

struct f32x1_add_low_rankInput {
};
[[max_total_threads_per_threadgroup(256)]] kernel void f32x1_add_low_rank(
  metal::uint3 group [[threadgroup_position_in_grid]]
, uint thread_ [[thread_index_in_threadgroup]]
, device type_2 const& factor [[buffer(1)]]
, constant LowRank& low [[buffer(4)]]
, device type_2 const& z_1 [[buffer(0)]]
, device type_2& y [[buffer(2)]]
, device type_2& scaled [[buffer(3)]]
) {
    uint i = {};
    float sum0_ = 0.0;
    float sum1_ = 0.0;
    float sum2_ = 0.0;
    float sum3_ = 0.0;
    uint k = 0u;
    uint _e4 = low.rank;
    uint deep = _e4 / LANES;
    uint first = group.y * 4u;
    if (group.x == 0u) {
        i = thread_;
        bool loop_init = true;
        while(true) {
            if (!loop_init) {
                uint _e37 = i;
                i = _e37 + THREADS;
            }
            loop_init = false;
            uint _e14 = i;
            if (_e14 < (4u * deep)) {
            } else {
                break;
            }
            {
                uint _e19 = i;
                uint at_1 = (first * deep) + _e19;
                uint _e23 = low.rows;
                if (at_1 < (_e23 * deep)) {
                    Stored _e30 = z_1[at_1];
                    Wide _e31 = widen(_e30);
                    float _e34 = low.scale;
                    Stored _e36 = narrow(_e31 * _e34);
                    scaled[at_1] = _e36;
                }
            }
        }
    }
    uint column_2 = (group.x * THREADS) + thread_;
    uint _e46 = low.width;
    if (column_2 >= (_e46 / LANES)) {
        return;
    }
    uint _e52 = low.rows;
    uint last = _e52 - 1u;
    metal::uint4 rows = metal::min(metal::uint4(first, first + 1u, first + 2u, first + 3u), metal::uint4(last)) * deep;
    bool loop_init_1 = true;
    while(true) {
        if (!loop_init_1) {
            uint _e120 = k;
            k = _e120 + 1u;
        }
        loop_init_1 = false;
        uint _e75 = k;
        if (_e75 < deep) {
        } else {
            break;
        }
        {
            uint _e77 = k;
            Wide _e78 = factor_part(column_2, _e77, factor, low);
            float _e79 = sum0_;
            uint _e82 = k;
            Stored _e85 = z_1[rows.x + _e82];
            Wide _e86 = widen(_e85);
            Wide _e87 = times_part(_e86, _e78);
            sum0_ = _e79 + _e87;
            float _e89 = sum1_;
            uint _e92 = k;
            Stored _e95 = z_1[rows.y + _e92];
            Wide _e96 = widen(_e95);
            Wide _e97 = times_part(_e96, _e78);
            sum1_ = _e89 + _e97;
            float _e99 = sum2_;
            uint _e102 = k;
            Stored _e105 = z_1[rows.z + _e102];
            Wide _e106 = widen(_e105);
            Wide _e107 = times_part(_e106, _e78);
            sum2_ = _e99 + _e107;
            float _e109 = sum3_;
            uint _e112 = k;
            Stored _e115 = z_1[rows.w + _e112];
            Wide _e116 = widen(_e115);
            Wide _e117 = times_part(_e116, _e78);
            sum3_ = _e109 + _e117;
        }
    }
    float _e122 = sum0_;
    add_to(first, column_2, _e122, low, y);
    float _e125 = sum1_;
    add_to(first + 1u, column_2, _e125, low, y);
    float _e128 = sum2_;
    add_to(first + 2u, column_2, _e128, low, y);
    float _e131 = sum3_;
    add_to(first + 3u, column_2, _e131, low, y);
    return;
}
