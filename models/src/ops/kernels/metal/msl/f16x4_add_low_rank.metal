// language: metal3.0
#include <metal_stdlib>
#include <simd/simd.h>

using metal::uint;

typedef metal::half4 Stored;
typedef metal::float4 Wide;
struct Part {
    Wide a;
    Wide b;
    Wide c;
    Wide d;
};
struct LowRank {
    uint rows;
    uint width;
    uint rank;
    float scale;
};
typedef Stored type_3[1];
constant uint LANES = 4u;
constant uint THREADS = 256u;
constant float FAR_BELOW = -300000000000000000000000000000000000000.0;

Wide widen(
    Stored x
) {
    return static_cast<metal::float4>(x);
}

Stored narrow(
    Wide x_1
) {
    return static_cast<metal::half4>(x_1);
}

Part factor_part(
    uint column,
    uint k_1,
    constant LowRank& low,
    device type_3 const& factor
) {
    uint _e4 = low.rank;
    uint deep = _e4 / LANES;
    uint at = ((column * LANES) * deep) + k_1;
    Stored _e13 = factor[at];
    Wide _e14 = widen(_e13);
    Stored _e18 = factor[at + deep];
    Wide _e19 = widen(_e18);
    Stored _e25 = factor[at + (2u * deep)];
    Wide _e26 = widen(_e25);
    Stored _e32 = factor[at + (3u * deep)];
    Wide _e33 = widen(_e32);
    return Part {_e14, _e19, _e26, _e33};
}

Wide times_part(
    Wide z,
    Part part
) {
    return Wide(metal::dot(z, part.a), metal::dot(z, part.b), metal::dot(z, part.c), metal::dot(z, part.d));
}

void add_to(
    uint row,
    uint column_1,
    Wide sum,
    constant LowRank& low,
    device type_3& y
) {
    uint _e5 = low.rows;
    if (row >= _e5) {
        return;
    }
    uint _e9 = low.width;
    uint packs = _e9 / LANES;
    uint at_1 = (row * packs) + column_1;
    Stored _e18 = y[at_1];
    Wide _e19 = widen(_e18);
    float _e22 = low.scale;
    Stored _e25 = narrow(_e19 + (sum * _e22));
    y[at_1] = _e25;
    return;
}

struct f16x4_add_low_rankInput {
};
[[max_total_threads_per_threadgroup(256)]] kernel void f16x4_add_low_rank(
  metal::uint3 group [[threadgroup_position_in_grid]]
, uint thread_ [[thread_index_in_threadgroup]]
, constant LowRank& low [[buffer(4)]]
, device type_3 const& factor [[buffer(1)]]
, device type_3 const& z_1 [[buffer(0)]]
, device type_3& y [[buffer(2)]]
, device type_3& scaled [[buffer(3)]]
) {
    uint i = {};
    metal::float4 sum0_ = metal::float4(0.0);
    metal::float4 sum1_ = metal::float4(0.0);
    metal::float4 sum2_ = metal::float4(0.0);
    metal::float4 sum3_ = metal::float4(0.0);
    uint k = 0u;
    uint _e4 = low.rank;
    uint deep_1 = _e4 / LANES;
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
            if (_e14 < (4u * deep_1)) {
            } else {
                break;
            }
            {
                uint _e19 = i;
                uint at_2 = (first * deep_1) + _e19;
                uint _e23 = low.rows;
                if (at_2 < (_e23 * deep_1)) {
                    Stored _e30 = z_1[at_2];
                    Wide _e31 = widen(_e30);
                    float _e34 = low.scale;
                    Stored _e36 = narrow(_e31 * _e34);
                    scaled[at_2] = _e36;
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
    metal::uint4 rows = metal::min(metal::uint4(first, first + 1u, first + 2u, first + 3u), metal::uint4(last)) * deep_1;
    bool loop_init_1 = true;
    while(true) {
        if (!loop_init_1) {
            uint _e124 = k;
            k = _e124 + 1u;
        }
        loop_init_1 = false;
        uint _e79 = k;
        if (_e79 < deep_1) {
        } else {
            break;
        }
        {
            uint _e81 = k;
            Part _e82 = factor_part(column_2, _e81, low, factor);
            metal::float4 _e83 = sum0_;
            uint _e86 = k;
            Stored _e89 = z_1[rows.x + _e86];
            Wide _e90 = widen(_e89);
            Wide _e91 = times_part(_e90, _e82);
            sum0_ = _e83 + _e91;
            metal::float4 _e93 = sum1_;
            uint _e96 = k;
            Stored _e99 = z_1[rows.y + _e96];
            Wide _e100 = widen(_e99);
            Wide _e101 = times_part(_e100, _e82);
            sum1_ = _e93 + _e101;
            metal::float4 _e103 = sum2_;
            uint _e106 = k;
            Stored _e109 = z_1[rows.z + _e106];
            Wide _e110 = widen(_e109);
            Wide _e111 = times_part(_e110, _e82);
            sum2_ = _e103 + _e111;
            metal::float4 _e113 = sum3_;
            uint _e116 = k;
            Stored _e119 = z_1[rows.w + _e116];
            Wide _e120 = widen(_e119);
            Wide _e121 = times_part(_e120, _e82);
            sum3_ = _e113 + _e121;
        }
    }
    metal::float4 _e126 = sum0_;
    add_to(first, column_2, _e126, low, y);
    metal::float4 _e129 = sum1_;
    add_to(first + 1u, column_2, _e129, low, y);
    metal::float4 _e132 = sum2_;
    add_to(first + 2u, column_2, _e132, low, y);
    metal::float4 _e135 = sum3_;
    add_to(first + 3u, column_2, _e135, low, y);
    return;
}
