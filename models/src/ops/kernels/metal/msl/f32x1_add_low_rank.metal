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
    uint z_apart;
    uint scaled_apart;
    uint pad0_;
    uint pad1_;
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
                uint _e54 = i;
                i = _e54 + THREADS;
            }
            loop_init = false;
            uint _e14 = i;
            if (_e14 < (4u * deep)) {
            } else {
                break;
            }
            {
                uint _e18 = i;
                uint row_1 = first + (_e18 / deep);
                uint _e23 = low.rows;
                if (row_1 >= _e23) {
                    break;
                }
                uint _e28 = low.z_apart;
                uint _e32 = i;
                Stored _e36 = z_1[((row_1 * _e28) / LANES) + (_e32 % deep)];
                Wide _e37 = widen(_e36);
                uint _e41 = low.scaled_apart;
                uint _e45 = i;
                float _e51 = low.scale;
                Stored _e53 = narrow(_e37 * _e51);
                scaled[((row_1 * _e41) / LANES) + (_e45 % deep)] = _e53;
            }
        }
    }
    uint column_2 = (group.x * THREADS) + thread_;
    uint _e63 = low.width;
    if (column_2 >= (_e63 / LANES)) {
        return;
    }
    uint _e69 = low.rows;
    uint last = _e69 - 1u;
    uint _e83 = low.z_apart;
    metal::uint4 rows = (metal::min(metal::uint4(first, first + 1u, first + 2u, first + 3u), metal::uint4(last)) * _e83) / metal::uint4(1u);
    bool loop_init_1 = true;
    while(true) {
        if (!loop_init_1) {
            uint _e143 = k;
            k = _e143 + 1u;
        }
        loop_init_1 = false;
        uint _e98 = k;
        if (_e98 < deep) {
        } else {
            break;
        }
        {
            uint _e100 = k;
            Wide _e101 = factor_part(column_2, _e100, factor, low);
            float _e102 = sum0_;
            uint _e105 = k;
            Stored _e108 = z_1[rows.x + _e105];
            Wide _e109 = widen(_e108);
            Wide _e110 = times_part(_e109, _e101);
            sum0_ = _e102 + _e110;
            float _e112 = sum1_;
            uint _e115 = k;
            Stored _e118 = z_1[rows.y + _e115];
            Wide _e119 = widen(_e118);
            Wide _e120 = times_part(_e119, _e101);
            sum1_ = _e112 + _e120;
            float _e122 = sum2_;
            uint _e125 = k;
            Stored _e128 = z_1[rows.z + _e125];
            Wide _e129 = widen(_e128);
            Wide _e130 = times_part(_e129, _e101);
            sum2_ = _e122 + _e130;
            float _e132 = sum3_;
            uint _e135 = k;
            Stored _e138 = z_1[rows.w + _e135];
            Wide _e139 = widen(_e138);
            Wide _e140 = times_part(_e139, _e101);
            sum3_ = _e132 + _e140;
        }
    }
    float _e145 = sum0_;
    add_to(first, column_2, _e145, low, y);
    float _e148 = sum1_;
    add_to(first + 1u, column_2, _e148, low, y);
    float _e151 = sum2_;
    add_to(first + 2u, column_2, _e151, low, y);
    float _e154 = sum3_;
    add_to(first + 3u, column_2, _e154, low, y);
    return;
}
