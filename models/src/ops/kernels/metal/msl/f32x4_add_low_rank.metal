// language: metal3.0
#include <metal_stdlib>
#include <simd/simd.h>

using metal::uint;

typedef metal::float4 Stored;
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
    uint z_apart;
    uint scaled_apart;
    uint pad0_;
    uint pad1_;
};
typedef Stored type_3[1];
constant uint LANES = 4u;
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

struct f32x4_add_low_rankInput {
};
[[max_total_threads_per_threadgroup(256)]] kernel void f32x4_add_low_rank(
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
                uint _e54 = i;
                i = _e54 + THREADS;
            }
            loop_init = false;
            uint _e14 = i;
            if (_e14 < (4u * deep_1)) {
            } else {
                break;
            }
            {
                uint _e18 = i;
                uint row_1 = first + (_e18 / deep_1);
                uint _e23 = low.rows;
                if (row_1 >= _e23) {
                    break;
                }
                uint _e28 = low.z_apart;
                uint _e32 = i;
                Stored _e36 = z_1[((row_1 * _e28) / LANES) + (_e32 % deep_1)];
                Wide _e37 = widen(_e36);
                uint _e41 = low.scaled_apart;
                uint _e45 = i;
                float _e51 = low.scale;
                Stored _e53 = narrow(_e37 * _e51);
                scaled[((row_1 * _e41) / LANES) + (_e45 % deep_1)] = _e53;
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
    metal::uint4 rows = (metal::min(metal::uint4(first, first + 1u, first + 2u, first + 3u), metal::uint4(last)) * _e83) / metal::uint4(4u);
    bool loop_init_1 = true;
    while(true) {
        if (!loop_init_1) {
            uint _e147 = k;
            k = _e147 + 1u;
        }
        loop_init_1 = false;
        uint _e102 = k;
        if (_e102 < deep_1) {
        } else {
            break;
        }
        {
            uint _e104 = k;
            Part _e105 = factor_part(column_2, _e104, low, factor);
            metal::float4 _e106 = sum0_;
            uint _e109 = k;
            Stored _e112 = z_1[rows.x + _e109];
            Wide _e113 = widen(_e112);
            Wide _e114 = times_part(_e113, _e105);
            sum0_ = _e106 + _e114;
            metal::float4 _e116 = sum1_;
            uint _e119 = k;
            Stored _e122 = z_1[rows.y + _e119];
            Wide _e123 = widen(_e122);
            Wide _e124 = times_part(_e123, _e105);
            sum1_ = _e116 + _e124;
            metal::float4 _e126 = sum2_;
            uint _e129 = k;
            Stored _e132 = z_1[rows.z + _e129];
            Wide _e133 = widen(_e132);
            Wide _e134 = times_part(_e133, _e105);
            sum2_ = _e126 + _e134;
            metal::float4 _e136 = sum3_;
            uint _e139 = k;
            Stored _e142 = z_1[rows.w + _e139];
            Wide _e143 = widen(_e142);
            Wide _e144 = times_part(_e143, _e105);
            sum3_ = _e136 + _e144;
        }
    }
    metal::float4 _e149 = sum0_;
    add_to(first, column_2, _e149, low, y);
    metal::float4 _e152 = sum1_;
    add_to(first + 1u, column_2, _e152, low, y);
    metal::float4 _e155 = sum2_;
    add_to(first + 2u, column_2, _e155, low, y);
    metal::float4 _e158 = sum3_;
    add_to(first + 3u, column_2, _e158, low, y);
    return;
}
