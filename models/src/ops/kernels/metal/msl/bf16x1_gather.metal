// language: metal3.0
#include <metal_stdlib>
#include <simd/simd.h>

using metal::uint;

typedef ushort Stored;
typedef float Wide;
struct type_3 {
    metal::uint4 inner[2];
};
struct Gather {
    type_3 counts;
    type_3 starts;
};
typedef Wide type_4[1];
typedef Stored type_5[1];
constant uint LANES = 1u;
constant uint THREADS = 256u;
constant float FAR_BELOW = -300000000000000000000000000000000000000.0;

Stored narrow(
    Wide x
) {
    uint bits = as_type<uint>(x);
    uint rounded = ((bits + 32767u) + ((bits >> 16u) & 1u)) >> 16u;
    bool no_number = (bits & 2147483647u) > 2139095040u;
    return static_cast<ushort>(no_number ? 32704u : rounded);
}

Wide number(
    uint tensor,
    uint i_1,
    device type_4 const& x_a,
    device type_4 const& x_b,
    device type_4 const& x_c,
    device type_4 const& x_d,
    device type_4 const& x_e,
    device type_4 const& x_f,
    device type_4 const& x_g,
    device type_4 const& x_h
) {
    switch(tensor) {
        case 0u: {
            Wide _e4 = x_a[i_1];
            return _e4;
        }
        case 1u: {
            Wide _e7 = x_b[i_1];
            return _e7;
        }
        case 2u: {
            Wide _e10 = x_c[i_1];
            return _e10;
        }
        case 3u: {
            Wide _e13 = x_d[i_1];
            return _e13;
        }
        case 4u: {
            Wide _e16 = x_e[i_1];
            return _e16;
        }
        case 5u: {
            Wide _e19 = x_f[i_1];
            return _e19;
        }
        case 6u: {
            Wide _e22 = x_g[i_1];
            return _e22;
        }
        default: {
            Wide _e25 = x_h[i_1];
            return _e25;
        }
    }
}

struct bf16x1_gatherInput {
};
[[max_total_threads_per_threadgroup(256)]] kernel void bf16x1_gather(
  metal::uint3 group [[threadgroup_position_in_grid]]
, metal::uint3 groups [[threadgroups_per_grid]]
, uint thread_ [[thread_index_in_threadgroup]]
, device type_4 const& x_a [[buffer(0)]]
, device type_4 const& x_b [[buffer(1)]]
, device type_4 const& x_c [[buffer(2)]]
, device type_4 const& x_d [[buffer(3)]]
, device type_4 const& x_e [[buffer(4)]]
, device type_4 const& x_f [[buffer(5)]]
, device type_4 const& x_g [[buffer(6)]]
, device type_4 const& x_h [[buffer(7)]]
, device type_5& all [[buffer(8)]]
, constant Gather& sizes [[buffer(9)]]
) {
    uint i = {};
    uint _e13 = sizes.counts.inner[group.y / 4u][group.y % 4u];
    uint count = _e13 / LANES;
    uint _e26 = sizes.starts.inner[group.y / 4u][group.y % 4u];
    uint start = _e26 / LANES;
    i = (group.x * THREADS) + thread_;
    bool loop_init = true;
    while(true) {
        if (!loop_init) {
            uint _e44 = i;
            i = _e44 + (groups.x * THREADS);
        }
        loop_init = false;
        uint _e34 = i;
        if (_e34 < count) {
        } else {
            break;
        }
        {
            uint _e37 = i;
            uint _e41 = i;
            Wide _e42 = number(group.y, _e41, x_a, x_b, x_c, x_d, x_e, x_f, x_g, x_h);
            Stored _e43 = narrow(_e42);
            all[start + _e37] = _e43;
        }
    }
    return;
}
